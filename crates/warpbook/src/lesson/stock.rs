//! What a lesson says of our kernels next to a library's.

use super::table;
use crate::charts::Table;
use crate::figures;
use crate::session::TrainingRun;
use warpbook_record::{Measurement, Problem, Run, Rung, Runner};

/// The fastest of ours and of the libraries at a problem, in microseconds; frameworks that were merged into the record count as libraries.
fn both<'r>(run: &'r Run, problem: &Problem) -> Option<[(&'r Measurement, f64); 2]> {
    let of_libraries = |r: &Rung| matches!(r.runner, Runner::Library(_) | Runner::External(_));
    Some([run.fastest_kernels(problem)?, run.fastest_of(problem, of_libraries)?])
}

fn title<'r>(run: &'r Run, m: &'r Measurement) -> &'r str {
    run.rung(&m.rung).map_or(&m.rung, |r| &r.title)
}

/// A problem's size and type.
fn name(problem: &Problem) -> String {
    format!("{}, {}", problem.short, problem.dtype.label())
}

/// For each problem the fastest of our kernels and of the libraries, and how many times as fast ours is; without a GPU it has no rows.
#[must_use]
pub fn own_and_library(run: &Run) -> Table {
    let rows = run.problems().into_iter().filter_map(|problem| {
        let [(ours, ours_us), (theirs, theirs_us)] = both(run, problem)?;
        Some(vec![
            name(problem),
            title(run, ours).to_owned(),
            figures::time(ours_us),
            title(run, theirs).to_owned(),
            figures::time(theirs_us),
            figures::times(theirs_us / ours_us),
        ])
    });
    table(&["Work", "Our fastest", "Time", "Fastest library", "Time", "Ours is"], rows.collect())
}

/// How many times as fast our fastest kernel is as the fastest library, for each problem that has both, the smallest first.
fn gains(run: &Run) -> Vec<(f64, &Problem)> {
    let gain = |p| both(run, p).map(|[(_, ours), (_, theirs)]| (theirs / ours, p));
    let mut all: Vec<_> = run.problems().into_iter().filter_map(gain).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// How many times as fast as the fastest library our fastest kernel is where the difference is largest; `None` where no library was measured.
#[must_use]
pub fn largest_gain(run: &Run) -> Option<f64> {
    gains(run).last().map(|(gain, _)| *gain)
}

/// Where a custom kernel pays and where it does not, in a sentence or two.
#[must_use]
pub fn where_it_pays(run: &Run) -> String {
    let ratios = gains(run);
    let (Some((least, at_least)), Some((most, at_most))) = (ratios.first(), ratios.last()) else {
        return format!(
            "{} has no library that was measured next to our kernels, so there is nothing to compare.",
            run.environment.device.name
        );
    };
    let faster = ratios.iter().filter(|(ratio, _)| *ratio >= 1.0).count();
    let of = ratios.len();
    format!(
        "Our kernels are the faster ones in {faster} of {of}: from {} ({}) to {} ({}) the speed of the fastest library.",
        figures::times(*least),
        name(at_least),
        figures::times(*most),
        name(at_most)
    )
}

/// What trainings came to: each with its name, its epochs, their seconds, and the accuracy on the test images.
#[must_use]
pub fn trainings(all: &[(&str, TrainingRun)]) -> Table {
    let rows = all.iter().map(|(name, run)| {
        let epochs = run.log().course.as_ref().map_or(&[][..], |c| &c.epochs);
        let accuracy = run.last_epoch().and_then(|e| e.test).and_then(|right| right.accuracy());
        let ended = match (run.error(), accuracy) {
            (Some(error), _) => error.to_string(),
            // Ways differ by tenths of a percent, if at all.
            (None, Some(share)) => format!("{:.2} %", 100.0 * share),
            (None, None) => String::new(),
        };
        let seconds: f64 = epochs.iter().map(|e| e.seconds).sum();
        vec![(*name).to_owned(), epochs.len().to_string(), figures::time(seconds * 1e6), ended]
    });
    table(&["Linear layers by", "Epochs", "Time of their steps", "Right on the test images"], rows.collect())
}
