use crate::display::figures;
use crate::display::html::printable;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use warpbook_lab::Event;
use warpbook_record::{Measurement, Outcome, Run};

/// Describes a finished measurement in one line: "Fused, 5 M points: 3.12 ms, 61.4× the baseline".
#[must_use]
pub fn progress_line(measurement: &Measurement, run: &Run) -> String {
    let title = run.rung(&measurement.rung).map_or(&*measurement.rung, |r| &*r.title);
    let came_out = match &measurement.outcome {
        Outcome::Skipped { why } => format!("skipped: {why}"),
        Outcome::Failed { error } => format!("failed: {error}"),
        Outcome::Measured => {
            let time = measurement.median_us().map_or_else(|| "no time".into(), figures::time);
            let ladder = run.ladder(&measurement.problem);
            let speed_up = ladder.iter().find(|r| r.measurement.rung == measurement.rung).and_then(|r| r.speed_up);
            // The baseline itself has no ratio.
            match speed_up.filter(|s| *s != 1.0) {
                Some(s) => {
                    let baseline = run.baseline(&measurement.problem).and_then(|b| run.rung(&b.rung));
                    format!(
                        "{time}, {} as fast as {}",
                        figures::times(s),
                        baseline.map_or("the baseline", |r| &*r.title)
                    )
                }
                None => time,
            }
        }
    };
    printable(&format!("{title}, {}: {came_out}", measurement.problem.label).replace('\n', " "))
}

/// Names a finished measurement without its time, so that a lesson's answer stays hidden. If the measurement failed or was skipped, adds the reason.
fn name_line(measurement: &Measurement, run: &Run) -> String {
    if measurement.outcome != Outcome::Measured {
        return progress_line(measurement, run);
    }
    let title = run.rung(&measurement.rung).map_or(&*measurement.rung, |r| &*r.title);
    printable(&format!("{title}, {}", measurement.problem.label).replace('\n', " "))
}

/// Up to this number of measurements, each has its own line.
const FEW: usize = 8;
/// Shortest time between two lines if there are more measurements.
const EVERY: Duration = Duration::from_secs(3);

/// Selects the measurements that get a line: failures, the last one, and one every few seconds.
#[derive(Debug, Default)]
struct Throttle {
    planned: usize,
    done: usize,
    last: Option<Instant>,
}

impl Throttle {
    fn plan(&mut self, planned: usize, now: Instant) {
        *self = Self { planned, done: 0, last: Some(now) };
    }

    /// Counts a measurement. If it gets a line, returns its number and the total.
    fn finished(&mut self, failed: bool, now: Instant) -> Option<(usize, usize)> {
        self.done += 1;
        let is_due = self.last.is_none_or(|last| now.duration_since(last) >= EVERY);
        let shown = failed || is_due || self.planned <= FEW || self.done == self.planned;
        if shown {
            self.last = Some(now);
        }
        shown.then_some((self.done, self.planned))
    }
}

/// Returns a listener for [`Lab::with_listener`](warpbook_lab::Lab::with_listener). It prints the name of each
/// finished measurement, or one every few seconds if there are many, and a training's progress; a cell cannot overwrite its
/// lines.
///
/// ```no_run
/// use warpbook::prelude::*;
/// let lab = Lab::new()?.with_listener(notebook_progress());
/// # Ok::<(), warpbook::Error>(())
/// ```
pub fn notebook_progress() -> impl Fn(&Event) + Send + Sync + 'static {
    let throttle = Mutex::new(Throttle::default());
    let counted = move |f: &dyn Fn(&mut Throttle) -> Option<(usize, usize)>| {
        f(&mut throttle.lock().unwrap_or_else(PoisonError::into_inner))
    };
    move |event: &Event| match event {
        Event::Planned { measurements, .. } => {
            counted(&|t| {
                t.plan(*measurements, Instant::now());
                None
            });
        }
        Event::Finished { measurement, run } => {
            let failed = matches!(measurement.outcome, Outcome::Failed { .. });
            if let Some((n, planned)) = counted(&|t| t.finished(failed, Instant::now())) {
                let line = crate::display::guarded(&name_line(measurement, run));
                warpbook_lab::print_line(&format!("[{n}/{planned}] {line}"));
            }
        }
        Event::Training(line) => warpbook_lab::print_line(&crate::display::guarded(&printable(line))),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display::results::runs::tests::sample_run;

    #[test]
    fn few_measurements_have_a_line_each_and_many_one_now_and_then() {
        let begin = Instant::now();
        let after = |s: u64| begin + Duration::from_secs(s);
        let shown = |planned: usize, failing: &[usize]| -> Vec<usize> {
            let mut throttle = Throttle::default();
            throttle.plan(planned, begin);
            // One measurement finishes each second.
            let line = |i: usize| throttle.finished(failing.contains(&i), after(i as u64)).map(|(n, _)| n);
            (1..=planned).filter_map(line).collect()
        };
        assert_eq!(shown(8, &[]), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(shown(10, &[]), [3, 6, 9, 10]);
        assert_eq!(shown(10, &[1, 4]), [1, 4, 7, 10]);
    }

    #[test]
    fn a_line_says_how_it_came_out() {
        let run = sample_run();
        let line = |i: usize| progress_line(&run.measurements[i], &run);
        assert_eq!(line(0), "CPU, one thread, 5 M points, 200 epochs: 200 ms");
        assert_eq!(line(1), "Fused, 5 M points, 200 epochs: 4.00 ms, 50.0× as fast as CPU, one thread");
        assert_eq!(line(2), "Fused in a graph, 5 M points, 200 epochs: failed: the <b>descent</b> diverged");
        assert_eq!(line(3), "01_unfused, 5 M points, 200 epochs: skipped: needs a GPU\u{fffd}[2J");
        let name = |i: usize| name_line(&run.measurements[i], &run);
        assert_eq!(name(1), "Fused, 5 M points, 200 epochs");
        assert_eq!([name(2), name(3)], [line(2), line(3)]);
    }
}
