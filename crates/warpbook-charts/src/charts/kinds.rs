//! The charts that a record names by their kinds.

use crate::charts::parts::{breakdown, operations, tiles, transfers};
use crate::charts::training::{accuracy, course, loss};
use crate::charts::{timeline, xray};
use crate::draw::chart::{Chart, ChartError};
use crate::draw::options::Options;
use warpbook_record::{ChartKind, Dtype, PartGroup, Problem, Profiled, Quantity, Run, Xray};

/// A chart of the kinds that [`Descriptor::charts`](warpbook_record::Descriptor::charts) names, of the record's headline quantity
/// where it shows one. Losses and parts are those of the first problem that has them, where this one has none.
///
/// # Errors
/// As the function that draws the kind; [`ChartError::NothingToDraw`] of a kind that this version does not know.
pub fn chart(run: &Run, problem: &Problem, kind: ChartKind) -> Result<Chart, ChartError> {
    match kind {
        ChartKind::Timeline => timeline::timeline(run, recorded(run, problem)),
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
        ChartKind::Operations => operations::operations_with(options, run, with_parts(PartGroup::Operation)),
        ChartKind::Ablation => operations::ablation_with(options, run, with_parts(PartGroup::Ablation)),
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

impl Options {
    /// [`crate::chart`] with these, but for [`ChartKind::Timeline`], which has one width: see [`crate::timeline`].
    ///
    /// # Errors
    /// As [`crate::chart`]; [`ChartError::NothingToDraw`] of a timeline.
    pub fn chart(&self, run: &Run, problem: &Problem, kind: ChartKind) -> Result<Chart, ChartError> {
        of_kind(self, run, problem, kind)
    }

    /// [`crate::ladder`] with these.
    ///
    /// # Errors
    /// As [`crate::ladder`].
    pub fn ladder(&self, run: &Run, problem: &Problem, quantity: Quantity) -> Result<Chart, ChartError> {
        crate::charts::ladder::ladder_with(self, run, problem, quantity)
    }

    /// [`crate::sweep_of`] with these.
    ///
    /// # Errors
    /// As [`crate::sweep_of`].
    pub fn sweep_of(
        &self,
        runs: &[&Run],
        quantity: Quantity,
        line: Option<&Problem>,
        rungs: Option<&[&str]>,
    ) -> Result<Chart, ChartError> {
        crate::charts::sweep::sweep_with(self, runs, quantity, line, rungs)
    }

    /// [`crate::sweep_labelled`] with these.
    ///
    /// # Errors
    /// As [`crate::sweep_labelled`].
    pub fn sweep_labelled(
        &self,
        runs: &[&Run],
        labels: &[String],
        quantity: Quantity,
        line: Option<&Problem>,
    ) -> Result<Chart, ChartError> {
        crate::charts::sweep::labelled_with(self, runs, labels, quantity, line)
    }

    /// [`crate::roofline`] with these.
    ///
    /// # Errors
    /// As [`crate::roofline`].
    pub fn roofline(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        crate::charts::roofline::roofline_with(self, run, problem)
    }

    /// Draws [`crate::kernel_roofline`] with these options, for all rungs or for one, by its id.
    ///
    /// # Errors
    /// Like [`crate::kernel_roofline`]; also if the rung has no kernel to draw.
    pub fn kernel_roofline(&self, run: &Run, problem: &Problem, rung: Option<&str>) -> Result<Chart, ChartError> {
        crate::charts::roofline::kernel_roofline_with(self, run, problem, rung)
    }

    /// [`crate::memory`] with these.
    ///
    /// # Errors
    /// As [`crate::memory`].
    pub fn memory(&self, profiled: &Profiled, until_us: f64, head: [&str; 2]) -> Result<Chart, ChartError> {
        crate::charts::curves::memory::memory_with(self, profiled, until_us, head)
    }

    /// [`crate::clocks`] with these.
    ///
    /// # Errors
    /// As [`crate::clocks`].
    pub fn clocks(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        crate::charts::curves::power::clocks_with(self, run, problem)
    }

    /// [`crate::power`] with these.
    ///
    /// # Errors
    /// As [`crate::power`].
    pub fn power(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        crate::charts::curves::power::power_with(self, run, problem)
    }

    /// [`crate::latencies`] with these.
    ///
    /// # Errors
    /// As [`crate::latencies`].
    pub fn latencies(&self, levels: &[(&str, f64)], head: [&str; 2]) -> Result<Chart, ChartError> {
        crate::charts::latencies::latencies_with(self, levels, head)
    }

    /// One X-ray of a record, drawn as [`crate::xray`] does, with these.
    ///
    /// # Errors
    /// [`ChartError::NothingToDraw`] where it has no block with a time.
    pub fn xray(&self, run: &Run, xray: &Xray) -> Result<Chart, ChartError> {
        xray::xray_of(self, run, xray)
    }

    /// [`crate::shapes`] with these.
    ///
    /// # Errors
    /// As [`crate::shapes`].
    pub fn shapes(&self, run: &Run, dtype: Dtype) -> Result<Chart, ChartError> {
        crate::charts::shapes::shapes_with(self, run, dtype)
    }
}
