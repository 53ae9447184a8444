//! A record drawn: [`Run`] -> [`Chart`], an SVG with a title, a sentence for screen readers and the table behind it.
//!
//! No experiment is known here by name: what differs between them comes from [`Run::descriptor`]
//! and from the problems' data. [`LadderTable`] is the ladder as a table, for all who show it. [`highlight`] cuts the kernels' source
//! into tokens to colour, and [`diagram`] draws tiles, accesses and timelines.
//!
//! The same record gives the same bytes in a notebook, in a test and on a page: texts are measured with a table of this
//! crate's own, never in a DOM or with a font file. The crate does no I/O and knows no clock.
#![forbid(unsafe_code)]

mod accuracy;
mod backend;
mod bars;
mod board;
mod breakdown;
mod canvas;
mod climb;
mod common;
mod compare;
mod comparison;
mod confusion;
mod counters;
mod course;
mod curves;
pub mod diagram;
mod exponents;
mod facts;
mod headline;
pub mod highlight;
mod labels;
mod ladder;
mod ladder_table;
mod latencies;
mod lines;
mod links;
mod loss;
mod measure;
mod memory;
mod options;
mod palette;
mod parts;
mod power;
mod roofline;
mod scaling;
mod shapes;
mod svg;
mod sweep;
mod table;
mod text;
mod ticks;
mod tiles;
mod timeline;
mod transfers;
pub mod words;
mod xray;

pub use accuracy::accuracy;
pub use board::{Board, BoardEntry, BoardTask};
pub use breakdown::breakdown;
pub use climb::{changes, climb_caption, lines_in_common, rung_before};
pub use common::{DEBUG_ASSERTIONS, past_bound};
pub use compare::compare;
pub use comparison::{
    ComparedCell, ComparedRow, Comparison, Counts, Drift, LEAST_SAMPLES, MAX_LABEL, MAX_RECORDS, Ratio, THRESHOLD,
    Verdict, beside, noise_rule, record_labels,
};
pub use confusion::{Confusion, confusion};
pub use counters::{COUNTERS_MEANING, Counter, counted_by, counters, counters_of, counters_under};
pub use course::{gradient_norm, learning_rate, loss_scale};
pub use curves::{Curve, Scale, curves};
pub use exponents::{ExponentRow, FormatRange, exponents};
pub use headline::{Headline, HeadlineTile, headline, in_short, sparkline};
pub use ladder::ladder;
pub use ladder_table::{Cell, Header, LadderTable, LadderTableRow, ladder_table};
pub use latencies::latencies;
pub use links::link_bandwidth;
pub use loss::loss_curve;
pub use measure::{quantity_name, rate_text};
pub use memory::memory;
pub use options::{Guess, Options, Window};
pub use parts::{ablation, operations};
pub use power::{clocks, power, power_in_words};
pub use roofline::{RoofLine, RoofPoint, RooflinePoints, roofline, roofline_points};
pub use roofline::{kernel_roofline, kernel_rungs};
pub use scaling::{scaling_efficiency, scaling_throughput};
pub use shapes::shapes;
pub use svg::Svg;
pub use sweep::{sweep, sweep_bandwidth, sweep_labelled, sweep_of, sweep_throughput};
pub use table::Table;
pub use text::{clean, escape};
pub use tiles::tiles;
pub use timeline::{timeline, timelines};
pub use transfers::transfers;
pub use warpbook_record::Quantity;
pub use xray::xray;

use std::fmt;
use warpbook_record::{ChartKind, PartGroup, Problem, Run};

/// A picture, what it says in words, and its figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Its heading, as in "Linear regression: time".
    pub title: String,
    /// What it shows, in one sentence; also the SVG's `<desc>`.
    pub description: String,
    /// The picture.
    pub svg: Svg,
    /// The figures that were drawn, and the reasons where there are none.
    pub table: Table,
}

/// Why there is no chart. Displayed as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChartError {
    /// The record has nothing of what the chart shows; the sentence says what is missing.
    NothingToDraw(String),
    /// The records must not share one chart; the sentence says what differs.
    NotComparable(String),
}

impl fmt::Display for ChartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToDraw(why) | Self::NotComparable(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ChartError {}

/// A chart of the kinds that [`Descriptor::charts`](warpbook_record::Descriptor::charts) names, of the record's headline quantity
/// where it shows one. Losses and parts are those of the first problem that has them, where this one has none.
///
/// # Errors
/// As the function that draws the kind; [`ChartError::NothingToDraw`] of a kind that this version does not know.
pub fn chart(run: &Run, problem: &Problem, kind: ChartKind) -> Result<Chart, ChartError> {
    match kind {
        ChartKind::Timeline => timeline(run, recorded(run, problem)),
        _ => of_kind(&Options::default(), run, problem, kind),
    }
}

/// The problem, or the first that something was recorded of over time.
fn recorded<'a>(run: &'a Run, problem: &'a Problem) -> &'a Problem {
    let mut of_breakdowns = run.breakdowns.iter().map(|b| &b.problem).chain(run.spans.iter().map(|s| &s.problem));
    if of_breakdowns.clone().any(|p| p == problem) { problem } else { of_breakdowns.next().unwrap_or(problem) }
}

fn of_kind(options: &Options, run: &Run, problem: &Problem, kind: ChartKind) -> Result<Chart, ChartError> {
    let headline = run.descriptor.headline;
    let with_parts = |group: PartGroup| {
        let mut of_parts = run.parts.iter().filter(|p| p.group == group).map(|p| &p.problem);
        if of_parts.clone().any(|p| p == problem) { problem } else { of_parts.next().unwrap_or(problem) }
    };
    let logged = || {
        let log = run.train_logs.iter().find(|l| l.problem == *problem).or(run.train_logs.first());
        log.map_or(problem, |l| &l.problem)
    };
    let looked_into = || {
        let mut of_xrays = run.xrays.iter().map(|x| &x.problem);
        if of_xrays.clone().any(|p| p == problem) { problem } else { of_xrays.next().unwrap_or(problem) }
    };
    match kind {
        ChartKind::Ladder => options.ladder(run, problem, headline),
        ChartKind::Sweep => options.sweep_of(&[run], headline, Some(problem).filter(|p| p.size() > 0), None),
        ChartKind::HeatMap => options.shapes(run, problem.dtype),
        ChartKind::Roofline => options.roofline(run, problem),
        ChartKind::Operations => parts::operations_with(options, run, with_parts(PartGroup::Operation)),
        ChartKind::Ablation => parts::ablation_with(options, run, with_parts(PartGroup::Ablation)),
        ChartKind::Tiles => tiles::tiles_with(options, run, with_parts(PartGroup::Tile)),
        ChartKind::Transfers => transfers::transfers_with(options, run, with_parts(PartGroup::Transfer)),
        ChartKind::Breakdown => breakdown::breakdown_with(options, run, recorded(run, problem)),
        // What links this need not link that drawing: the page has a timeline of its own.
        ChartKind::Timeline => {
            Err(ChartError::NothingToDraw("A timeline is drawn at one width, by `timeline`.".into()))
        }
        ChartKind::Xray => xray::xray_with(options, run, looked_into()),
        ChartKind::Loss => loss::loss_curve_with(options, run, logged()),
        ChartKind::Accuracy => accuracy::accuracy_with(options, run, logged()),
        ChartKind::LossScale => course::loss_scale_with(options, run, logged()),
        ChartKind::LearningRate => course::learning_rate_with(options, run, logged()),
        ChartKind::GradientNorm => course::gradient_norm_with(options, run, logged()),
        _ => Err(ChartError::NothingToDraw("This version does not know that kind of chart.".into())),
    }
}
