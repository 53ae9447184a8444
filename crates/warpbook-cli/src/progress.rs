//! How a run goes: bars on a terminal, plain lines elsewhere, and a row for each finished measurement.

use crate::output::{complain, one_line, say};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::collections::HashSet;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use warpbook::{Event, figures};
use warpbook_record::{Measurement, Outcome, Run, Rung};

/// Shows events; clones share the bars.
#[derive(Debug, Clone)]
pub struct Progress {
    bars: Option<(MultiProgress, ProgressBar, ProgressBar)>,
    /// Rungs that were said to be skipped, with the reason: it need not be read again at every size.
    skipped: Arc<Mutex<HashSet<(String, String)>>>,
}

impl Progress {
    /// Bars where stderr is a terminal.
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

    /// A line that stays.
    pub fn line(&self, text: &str) {
        self.aside(|| say(text));
    }

    /// A line to stderr that stays.
    pub fn warn(&self, text: &str) {
        self.aside(|| complain(text));
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

    /// Shows an event.
    pub fn show(&self, event: &Event, rungs: &[Rung]) {
        match event {
            Event::Planned { measurements } => {
                if let Some((.., bar)) = &self.bars {
                    bar.set_length(*measurements as u64);
                }
                self.line(&Row::header(rungs));
            }
            Event::Preparing(what) => match &self.bars {
                Some((_, spinner, _)) => spinner.set_message((*what).to_owned()),
                // Out of the table's way.
                None => complain(&format!("... {what}")),
            },
            Event::Started { rung, problem } => {
                if let Some((_, spinner, _)) = &self.bars {
                    spinner.set_message(format!("{}, {}", rung.title, problem.label()));
                }
            }
            Event::Finished { measurement, run } => {
                if self.is_news(measurement) {
                    self.line(&Row::of(measurement, run, rungs));
                }
                if let Some((.., bar)) = &self.bars {
                    bar.inc(1);
                }
            }
            _ => {}
        }
    }
}

/// Whether these are ways to multiply matrices, which are held against each other by operations a second.
fn is_product(rungs: &[Rung]) -> bool {
    let known = warpbook_record::matmul::rungs();
    rungs.iter().any(|r| known.iter().any(|k| k.id == r.id))
}

/// A row of the table that grows while the run goes on; its widths cannot wait for the last row.
struct Row;

impl Row {
    fn width(rungs: &[Rung]) -> usize {
        rungs.iter().map(|r| r.id.chars().count()).max().unwrap_or(0).clamp(4, 40)
    }

    fn cells(first: &str, width: usize, rest: [&str; 7]) -> String {
        let [size, median, epoch, rate, ceiling, speed_up, check] = rest;
        let row = format!(
            "{first:width$}  {size:>17}  {median:>11}  {epoch:>10}  {rate:>7}  {ceiling:>9}  {speed_up:>8}  {check}"
        );
        row.trim_end().to_owned()
    }

    fn header(rungs: &[Rung]) -> String {
        let [size, rate] = if is_product(rungs) { ["m x n x k", "TFLOP/s"] } else { ["points", "GB/s"] };
        let epoch = if is_product(rungs) { "" } else { "epoch (µs)" };
        let names = [size, "median (ms)", epoch, rate, "% of peak", "speed-up", "check"];
        Self::cells("rung", Self::width(rungs), names)
    }

    fn of(m: &Measurement, run: &Run, rungs: &[Rung]) -> String {
        let width = Self::width(rungs);
        let size = m.problem.short_label();
        let without = |word: &str, why: &str| format!("{:width$}  {size:>17}  {word}: {}", m.rung, one_line(why));
        match &m.outcome {
            Outcome::Skipped { why } => return without("skipped", why),
            Outcome::Failed { error } => return without("FAILED", error),
            Outcome::Measured => {}
        }
        let row = run.ladder(&m.problem).into_iter().find(|r| r.measurement.rung == m.rung);
        let fixed = |v: Option<f64>, digits: usize| v.map(|v| format!("{v:.digits$}")).unwrap_or_default();
        let rate = if is_product(rungs) {
            m.flops_per_s().map(|f| f * 1e-12)
        } else {
            m.effective_bytes_per_s().map(|b| b * 1e-9)
        };
        let check = m.check.as_ref().map_or("none", |c| if c.passed { "passed" } else { "FAILED" });
        Self::cells(
            &m.rung,
            width,
            [
                &size,
                &fixed(m.median_us().map(|t| t * 1e-3), 3),
                &fixed(m.epoch_us(), 2),
                // A processor's are far below one.
                &fixed(rate, if rate.is_some_and(|r| r < 10.0) { 3 } else { 1 }),
                &fixed(row.as_ref().and_then(|r| r.fraction_of_ceiling).map(|f| f * 100.0), 0),
                &row.and_then(|r| r.speed_up).map(figures::times).unwrap_or_default(),
                check,
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_record::Problem;

    #[test]
    fn a_skipped_rung_is_said_once_and_a_measured_one_every_time() {
        let progress = Progress { bars: None, skipped: Arc::default() };
        let m = |rung: &str, outcome| Measurement::without_samples(rung, Problem::Unknown, outcome);
        let skipped = |rung: &str, why: &str| m(rung, Outcome::Skipped { why: why.into() });
        let news =
            [skipped("a", "x"), skipped("a", "x"), skipped("b", "x"), skipped("a", "y")].map(|m| progress.is_news(&m));
        assert_eq!(news, [true, false, true, true]);
        assert!(progress.is_news(&m("a", Outcome::Measured)) && progress.is_news(&m("a", Outcome::Measured)));
    }

    #[test]
    fn columns_line_up() {
        let header = Row::header(&[]);
        let row = Row::cells("02", 4, ["5 M", "2.943", "14.71", "2175.0", "55", "68.0×", "passed"]);
        let end_of = |line: &str, cell: &str| line[..line.find(cell).unwrap() + cell.len()].chars().count();
        for (name, cell) in
            [("points", "5 M"), ("median (ms)", "2.943"), ("epoch (µs)", "14.71"), ("speed-up", "68.0×")]
        {
            assert_eq!(end_of(&header, name), end_of(&row, cell), "\n{header}\n{row}");
        }
    }
}
