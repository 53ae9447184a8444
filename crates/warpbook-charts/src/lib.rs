//! A record drawn: [`Run`](warpbook_record::Run) -> [`Chart`], an SVG with a title, a sentence for screen readers and the table behind it.
//!
//! [`highlight`] cuts the kernels' source into tokens to colour. [`diagram`] draws tiles, accesses and timelines, and
//! [`matmul_figure`] what each kernel of the matrix product does.
//!
//! The same record gives the same bytes in a notebook, in a test and on a page: texts are measured with a table of this
//! crate's own, never in a DOM or with a font file. The crate does no I/O and knows no clock.
#![forbid(unsafe_code)]

mod backend;
mod bars;
mod canvas;
mod common;
mod compare;
pub mod diagram;
mod figures;
pub mod highlight;
mod labels;
mod ladder;
mod lines;
mod loss;
mod palette;
mod parts;
mod roofline;
mod shapes;
mod svg;
mod sweep;
mod table;
mod text;
mod ticks;
mod tiles;
mod transfers;
pub mod words;

pub use compare::compare;
pub use figures::matmul_figure;
pub use ladder::ladder;
pub use loss::loss_curve;
pub use parts::{ablation, operations};
pub use roofline::roofline;
pub use shapes::shapes;
pub use svg::Svg;
pub use sweep::{sweep, sweep_bandwidth, sweep_throughput};
pub use table::Table;
pub use text::escape;
pub use tiles::tiles;
pub use transfers::transfers;

use std::fmt;

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
    /// The records must not stand in one chart; the sentence says what differs.
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

/// What the bars of a ladder show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// Median time of the timed region; shorter is better.
    Time,
    /// How many times as fast as the first valid rung; longer is better.
    SpeedUp,
    /// Bytes a second that reading every input once a pass amounts to; longer is better.
    Bandwidth,
    /// Operations a second, each rung's own; longer is better.
    Throughput,
}
