use super::figures;
use super::html::printable;
use crate::Event;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use warpbook_record::{Measurement, Outcome, Run};

/// A finished measurement in a line, as "Fused, 5 M points: 3.12 ms, 61.4× the baseline".
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
            // The first of a ladder is what the others are compared with.
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

/// Prints a line that a notebook shows at once.
pub(crate) fn print_line(line: &str) {
    println!("{line}");
    // A notebook shows a line when it is flushed.
    let _ = std::io::stdout().flush();
}

/// A listener for [`Lab::with_listener`](crate::Lab::with_listener) that prints a line for each finished measurement, and
/// the lines of a training: a cell cannot be written to twice.
///
/// ```no_run
/// use warpbook::prelude::*;
/// let lab = Lab::new()?.with_listener(notebook_progress());
/// # Ok::<(), warpbook::Error>(())
/// ```
pub fn notebook_progress() -> impl Fn(&Event) + Send + Sync + 'static {
    let planned = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    move |event: &Event| match event {
        Event::Planned { measurements, .. } => {
            planned.store(*measurements, Ordering::Relaxed);
            done.store(0, Ordering::Relaxed);
        }
        Event::Finished { measurement, run } => {
            let n = done.fetch_add(1, Ordering::Relaxed) + 1;
            let line = super::guarded(&progress_line(measurement, run));
            print_line(&format!("[{n}/{}] {line}", planned.load(Ordering::Relaxed)));
        }
        Event::Training(line) => print_line(&super::guarded(&printable(line))),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::runs::tests::sample_run;
    use super::*;

    #[test]
    fn a_line_says_how_it_came_out() {
        let run = sample_run();
        let line = |i: usize| progress_line(&run.measurements[i], &run);
        assert_eq!(line(0), "CPU, one thread, 5 M points, 200 epochs: 200 ms");
        assert_eq!(line(1), "Fused, 5 M points, 200 epochs: 4.00 ms, 50.0× as fast as CPU, one thread");
        assert_eq!(line(2), "Fused in a graph, 5 M points, 200 epochs: failed: the <b>descent</b> diverged");
        assert_eq!(line(3), "01_unfused, 5 M points, 200 epochs: skipped: needs a GPU\u{fffd}[2J");
    }
}
