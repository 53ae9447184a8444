//! Progress of a run: bars on a terminal, plain lines elsewhere, and one row for each finished measurement.

use crate::output::{one_line, say, warn};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::collections::HashSet;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use warpbook::Event;
use warpbook::charts::LadderTable;
use warpbook_record::{Measurement, Outcome, Run};

/// Shows the events of a run; clones share the bars.
#[derive(Debug, Clone)]
pub struct Progress {
    bars: Option<(MultiProgress, ProgressBar, ProgressBar)>,
    /// Skipped rungs that were already reported, with the reason, so that each rung is printed only once and not at
    /// every size.
    skipped: Arc<Mutex<HashSet<(String, String)>>>,
}

impl Progress {
    /// Creates a display that has bars if stderr is a terminal.
    pub fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { bars: None, skipped: Arc::default() };
        }
        let all = MultiProgress::new();
        let spinner = all.add(ProgressBar::new_spinner());
        let bar = all.add(ProgressBar::new(0));
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos} of {len} measurements, {elapsed}") {
            bar.set_style(style);
        }
        spinner.enable_steady_tick(Duration::from_millis(120));
        Self { bars: Some((all, spinner, bar)), skipped: Arc::default() }
    }

    /// Prints a permanent line to stdout.
    pub fn line(&self, text: &str) {
        self.aside(|| say(text));
    }

    /// Prints a permanent line to stderr.
    pub fn warn(&self, text: &str) {
        self.aside(|| warn(text));
    }

    fn is_news(&self, m: &Measurement) -> bool {
        let Outcome::Skipped { why } = &m.outcome else { return true };
        self.skipped.lock().unwrap_or_else(PoisonError::into_inner).insert((m.rung.clone(), why.clone()))
    }

    fn aside(&self, print: impl FnOnce()) {
        match &self.bars {
            Some((all, ..)) => all.suspend(print),
            None => print(),
        }
    }

    /// Removes the bars.
    pub fn end(&self) {
        if let Some((_, spinner, bar)) = &self.bars {
            spinner.finish_and_clear();
            bar.finish_and_clear();
        }
    }

    /// Updates the progress line on the terminal for an event.
    pub fn show(&self, event: &Event) {
        match event {
            Event::Planned { measurements, run } => {
                if let Some((.., bar)) = &self.bars {
                    bar.set_length(*measurements as u64);
                }
                self.line(&ProgressTable::header(run));
            }
            Event::Preparing(what) => match &self.bars {
                Some((_, spinner, _)) => spinner.set_message((*what).to_owned()),
                // The line goes to stderr, so that it is not part of the table.
                None => warn(&format!("... {what}")),
            },
            Event::Started { rung, problem } => {
                if let Some((_, spinner, _)) = &self.bars {
                    spinner.set_message(format!("{}, {}", rung.title, problem.label));
                }
            }
            Event::Finished { measurement, run } => {
                if self.is_news(measurement) {
                    self.line(&ProgressTable::line(measurement, run));
                }
                if let Some((.., bar)) = &self.bars {
                    bar.inc(1);
                }
            }
            _ => {}
        }
    }
}

/// Formats rows of the table that is printed row by row during the run, so that its widths cannot depend on later rows.
/// It has the same columns as the record's own table.
struct ProgressTable;

/// Widths of the columns for a figure with its unit and for a problem, in characters.
const FIGURE: usize = 12;
const PROBLEM: usize = 22;

impl ProgressTable {
    fn width(run: &Run) -> usize {
        run.rungs.iter().map(|r| r.id.chars().count()).max().unwrap_or(0).clamp(4, 40)
    }

    fn cells(run: &Run, rung: &str, problem: &str, figures: impl Iterator<Item = String>) -> String {
        let width = Self::width(run);
        let mut row = format!("{rung:width$}  {problem:>PROBLEM$}");
        for figure in figures {
            row += &format!("  {figure:>FIGURE$}");
        }
        row.trim_end().to_owned()
    }

    fn header(run: &Run) -> String {
        let headers = run.problems.first().map(|p| LadderTable::for_problem(run, p).headers).unwrap_or_default();
        Self::cells(run, "rung", "", headers.into_iter().map(|h| h.text))
    }

    fn line(m: &Measurement, run: &Run) -> String {
        let width = Self::width(run);
        let problem = one_line(&m.problem.label);
        let without =
            |word: &str, why: &str| format!("{:width$}  {problem:>PROBLEM$}  {word}: {}", m.rung, one_line(why));
        match &m.outcome {
            Outcome::Skipped { why } => without("skipped", why),
            Outcome::Failed { error } => without("FAILED", error),
            Outcome::Measured => {
                let row = LadderTable::for_problem(run, &m.problem).rows.into_iter().find(|r| r.rung == m.rung);
                let cells = row.map(|r| r.cells).unwrap_or_default();
                Self::cells(run, &m.rung, &problem, cells.into_iter().map(|c| c.text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_record::{Dtype, Problem};

    #[test]
    fn a_skipped_rung_is_said_once_and_a_measured_one_every_time() {
        let progress = Progress { bars: None, skipped: Arc::default() };
        let problem = Problem::new("", "", Vec::new(), Dtype::F32);
        let m = |rung: &str, outcome| Measurement::without_samples(rung, problem.clone(), outcome);
        let skipped = |rung: &str, why: &str| m(rung, Outcome::Skipped { why: why.into() });
        let news =
            [skipped("a", "x"), skipped("a", "x"), skipped("b", "x"), skipped("a", "y")].map(|m| progress.is_news(&m));
        assert_eq!(news, [true, false, true, true]);
        assert!(progress.is_news(&m("a", Outcome::Measured)) && progress.is_news(&m("a", Outcome::Measured)));
    }
}
