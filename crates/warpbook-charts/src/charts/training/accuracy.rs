//! Accuracy over the epochs of a training.

use crate::charts::training::course::{Watched, figure, nothing, series, watched, words};
use crate::draw::text::words::{counted, plain, significant};
use crate::draw::{Axis, Chart, ChartError, Frame, Lines, Options, Table};
use crate::record::{device, heading, joined, label};
use warpbook_record::{Course, EpochPoint, Problem, Right, Run};

/// Formats a share from 0 to 1 in percent, such as "98.93".
fn share(accuracy: f64) -> String {
    format!("{:.2}", 100.0 * accuracy)
}

/// Returns an evaluation's position on the axis of epochs. The last evaluation of a training that ended within an epoch
/// is also within the epoch.
fn epoch_of(course: &Course, point: &EpochPoint) -> f64 {
    match course.steps_per_epoch {
        0 => point.epoch as f64,
        steps => point.step as f64 / steps as f64,
    }
}

impl Options {
    /// Draws accuracy over the epochs: on the test samples after each epoch, and on the training samples during
    /// training.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if the record has no accuracy for the problem.
    pub fn accuracy(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        let logs = watched(run, problem);
        let mut all = Vec::new();
        for log in &logs {
            let points = |right: fn(&EpochPoint) -> Option<Right>| -> Vec<(f64, f64)> {
                let percent_at = |p: &EpochPoint| Some((epoch_of(log.course, p), right(p)?.accuracy()? * 100.0));
                log.course.epochs.iter().filter_map(percent_at).collect()
            };
            for (words_of, points) in [("test samples", points(|p| p.test)), ("training samples", points(|p| p.train))]
            {
                if !points.is_empty() {
                    all.push(series(all.len(), log, vec![words(log, words_of)], points));
                }
            }
        }
        if all.is_empty() {
            return Err(nothing(run, problem, "accuracy"));
        }
        let values = || all.iter().flat_map(|s| &s.points);
        let x = Axis::from_zero(values().map(|p| p.0)).whole();
        let y = Axis::around(values().map(|p| p.1)).with_ticks(8);
        let last = |l: &Watched<'_>| {
            let test = l.course.epochs.iter().rev().find_map(|p| Some((p.epoch, p.test?.accuracy()?)));
            test.map(|(epoch, a)| format!("{} % after {}", share(a), counted(epoch as usize, "epoch")))
        };
        let sentences =
            logs.iter().filter_map(|l| last(l).map(|text| words(l, &format!("{text} of the test samples"))));
        let description =
            format!("Accuracy over the epochs on {}: {}.", device(run), sentences.collect::<Vec<_>>().join("; "));
        let frame = Frame {
            width: self.px(),
            title: claim(&logs).unwrap_or_else(|| format!("{}: accuracy", heading(run))),
            subtitle: joined([format!("{}: accuracy", heading(run)), device(run), label(problem)]),
            description,
            notes: vec![
                "Training samples are counted while they are trained on, with dropout and augmentation, over the whole epoch.".into(),
            ],
            table: epochs_table(&logs),
        };
        Lines {
            series: all,
            guides: Vec::new(),
            zoom: false,
            x,
            y,
            x_tick: plain,
            y_tick: plain,
            x_caption: "epoch".into(),
            y_caption: "accuracy in %".into(),
            frame,
        }
        .draw()
    }
}

/// Returns the training with the best accuracy on test samples at the end; `None` if no training was evaluated.
fn claim(logs: &[Watched<'_>]) -> Option<String> {
    let last = |l: &Watched<'_>| l.course.epochs.iter().rev().find_map(|p| Some((p.test?.accuracy()?, p.epoch)));
    let mut ends: Vec<((f64, u64), &Watched<'_>)> = logs.iter().filter_map(|l| Some((last(l)?, l))).collect();
    ends.sort_by(|a, b| b.0.0.total_cmp(&a.0.0));
    let ((accuracy, epoch), best) = ends.first()?;
    let after = counted(*epoch as usize, "epoch");
    Some(match best.name.as_str() {
        "" => format!("{} % of the test samples are right after {after}", share(*accuracy)),
        name => format!("{name} gets the most test samples right: {} % after {after}", share(*accuracy)),
    })
}

fn epochs_table(logs: &[Watched<'_>]) -> Table {
    const COLUMNS: [&str; 5] = ["test accuracy %", "training accuracy %", "test loss", "training loss", "seconds"];
    let headers = logs.iter().flat_map(|l| COLUMNS.map(|c| words(l, c)));
    let mut table = Table::new(["epoch".to_owned(), "step".into()].into_iter().chain(headers));
    let mut places: Vec<(u64, u64)> = logs.iter().flat_map(|l| &l.course.epochs).map(|p| (p.epoch, p.step)).collect();
    places.sort();
    places.dedup();
    for (epoch, step) in places {
        let cells = |l: &Watched<'_>| {
            let Some(p) = l.course.epochs.iter().rfind(|p| (p.epoch, p.step) == (epoch, step)) else {
                return [const { String::new() }; 5];
            };
            let accuracy = |right: Option<Right>| right.and_then(|r| r.accuracy()).map(share).unwrap_or_default();
            let seconds = if p.seconds.is_finite() { significant(p.seconds, 4) } else { figure(p.seconds) };
            [accuracy(p.test), accuracy(p.train), figure(p.test_loss), figure(p.train_loss), seconds]
        };
        table.push([epoch.to_string(), step.to_string()].into_iter().chain(logs.iter().flat_map(cells)));
    }
    table
}
