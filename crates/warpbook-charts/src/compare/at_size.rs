use crate::compare::Comparison;
use crate::draw::{Chart, ChartError, Options, clean};
use crate::record::{label, size_number, verdict};
use warpbook_record::{Problem, Run};

impl Options {
    /// Draws the rungs of several records compared with the first record, for the problem of the given size: [`Options::comparison`].
    ///
    /// # Errors
    /// Returns [`ChartError::NotComparable`] if experiments differ; [`ChartError::NothingToDraw`] if fewer than two records of that size or more than
    /// [`MAX_RECORDS`](crate::MAX_RECORDS) are given, or no rung has a figure in two of them.
    pub fn compare(&self, runs: &[&Run], problem_size: u64) -> Result<Chart, ChartError> {
        let comparison = Comparison::from_runs(runs)?;
        let of_size = |p: &&Problem| p.size() == problem_size;
        let size = || match clean(&runs[0].descriptor.axis.unit) {
            unit if unit.is_empty() => format!("size {problem_size}"),
            unit => format!("{} {unit}", size_number(runs[0], problem_size)),
        };
        let lacking = |i: usize| {
            let what = format!("The record of {} has no measurement of {}.", comparison.labels[i], size());
            Err(ChartError::NothingToDraw(what))
        };
        if let Some(i) = runs.iter().position(|run| !run.problems().iter().any(of_size)) {
            return lacking(i);
        }
        // Problems that all records have come first, then the problems with the most figures; among equals, the first wins.
        let figures = |p: &Problem| {
            runs[0].measurements.iter().filter(|m| m.problem == *p && verdict(runs[0], m).is_ok()).count()
        };
        let shared = comparison.problems.iter().filter(|of| of[0].as_ref().is_some_and(of_size));
        let best = shared.rev().max_by_key(|of| (of.iter().flatten().count(), of[0].map(figures)));
        let Some(problem) = best.and_then(|of| of[0]) else { return lacking(0) };
        match self.comparison(&comparison.at(problem), false) {
            Err(ChartError::NothingToDraw(_)) => Err(ChartError::NothingToDraw(format!(
                "No rung has a valid measurement of {} in the first record and in another.",
                label(problem)
            ))),
            drawn => drawn,
        }
    }
}
