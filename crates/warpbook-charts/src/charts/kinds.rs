//! The charts that a record names by kind.

use crate::draw::{Chart, ChartError, Options};
use warpbook_record::{ChartKind, PartGroup, Problem, Run};

impl Options {
    /// Draws a chart of a kind that [`Descriptor::charts`](warpbook_record::Descriptor::charts) names. If the chart shows one quantity, it is the record's
    /// headline quantity. If this problem has no losses or parts, the chart shows the first problem that has them.
    ///
    /// # Errors
    /// Returns the errors of the method that draws the kind, and [`ChartError::NothingToDraw`] for a kind that this version does not know.
    pub fn chart(&self, run: &Run, problem: &Problem, kind: ChartKind) -> Result<Chart, ChartError> {
        match kind {
            ChartKind::Timeline => self.timeline(run, recorded(run, problem)),
            _ => self.chart_but_timeline(run, problem, kind),
        }
    }

    /// Draws any chart of [`Options::chart`] except [`ChartKind::Timeline`], so that a page with its own timeline does not include the code for this one.
    ///
    /// # Errors
    /// Returns the errors of [`Options::chart`], and [`ChartError::NothingToDraw`] for a timeline.
    pub fn chart_but_timeline(&self, run: &Run, problem: &Problem, kind: ChartKind) -> Result<Chart, ChartError> {
        let headline = run.descriptor.headline;
        let with_parts = |group: PartGroup| {
            let mut of_parts = run.parts.iter().filter(|p| p.group == group).map(|p| &p.problem);
            if of_parts.clone().any(|p| p == problem) { problem } else { of_parts.next().unwrap_or(problem) }
        };
        let logged = || {
            let log = run.train_logs.iter().find(|l| l.problem == *problem).or(run.train_logs.first());
            log.map_or(problem, |l| &l.problem)
        };
        let xrayed = || {
            let mut of_xrays = run.xrays.iter().map(|x| &x.problem);
            if of_xrays.clone().any(|p| p == problem) { problem } else { of_xrays.next().unwrap_or(problem) }
        };
        match kind {
            ChartKind::Ladder => self.ladder(run, problem, headline),
            ChartKind::Sweep => self.sweep_of(&[run], headline, Some(problem).filter(|p| p.size() > 0), None),
            ChartKind::HeatMap => self.shapes(run, problem.dtype),
            ChartKind::Roofline => self.roofline(run, problem),
            ChartKind::Operations => self.operations(run, with_parts(PartGroup::Operation)),
            ChartKind::Ablation => self.ablation(run, with_parts(PartGroup::Ablation)),
            ChartKind::Tiles => self.tiles(run, with_parts(PartGroup::Tile)),
            ChartKind::Transfers => self.transfers(run, with_parts(PartGroup::Transfer)),
            ChartKind::Breakdown => self.breakdown(run, recorded(run, problem)),
            ChartKind::Timeline => {
                Err(ChartError::NothingToDraw("Timelines are not drawn here: use `timeline`.".into()))
            }
            ChartKind::Xray => self.xray(run, xrayed()),
            ChartKind::Loss => self.loss_curve(run, logged()),
            ChartKind::Accuracy => self.accuracy(run, logged()),
            ChartKind::LossScale => self.loss_scale(run, logged()),
            ChartKind::LearningRate => self.learning_rate(run, logged()),
            ChartKind::GradientNorm => self.gradient_norm(run, logged()),
            _ => Err(ChartError::NothingToDraw("This version does not know this kind of chart.".into())),
        }
    }
}

/// Returns the problem if it has recordings over time, or else the first problem that has them.
fn recorded<'a>(run: &'a Run, problem: &'a Problem) -> &'a Problem {
    let mut of_breakdowns = run.breakdowns.iter().map(|b| &b.problem).chain(run.spans.iter().map(|s| &s.problem));
    if of_breakdowns.clone().any(|p| p == problem) { problem } else { of_breakdowns.next().unwrap_or(problem) }
}
