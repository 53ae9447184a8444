//! Sentences and tables that compare the project's kernels with a library's.

mod in_pytorch;

pub use in_pytorch::checked_in_pytorch;

use super::table;
use crate::figures;
use warpbook_charts::{Chart, ChartError, Curve, Scale, Table, draw};
use warpbook_experiments::session::TrainingRun;
use warpbook_record::{Measurement, Problem, Run, Rung, Runner, stats};

/// Returns the fastest of the project's kernels and the fastest of the libraries at a problem, each with its time in microseconds; frameworks that were merged
/// into the record count as libraries.
fn both<'r>(run: &'r Run, problem: &Problem) -> Option<[(&'r Measurement, f64); 2]> {
    let of_libraries = |r: &Rung| matches!(r.runner, Runner::Library(_) | Runner::External(_));
    Some([run.fastest_kernels(problem)?, run.fastest_of(problem, of_libraries)?])
}

fn title<'r>(run: &'r Run, m: &'r Measurement) -> &'r str {
    run.rung(&m.rung).map_or(&m.rung, |r| &r.title)
}

/// Returns a problem's size and type.
fn name(problem: &Problem) -> String {
    format!("{}, {}", problem.short, problem.dtype.label())
}

/// Returns a table of the fastest of the project's kernels and of the libraries for each problem, and of how many times as fast the project's is;
/// without a GPU it has no rows.
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

/// Returns how many times as fast the project's fastest kernel is as the fastest library, for each problem that has both, sorted from the smallest ratio to the
/// largest.
fn gains(run: &Run) -> Vec<(f64, &Problem)> {
    let gain = |p| both(run, p).map(|[(_, ours), (_, theirs)]| (theirs / ours, p));
    let mut all: Vec<_> = run.problems().into_iter().filter_map(gain).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// Returns the largest ratio of the fastest library's time to the time of Warpbook's fastest kernel; `None` if no library was measured.
#[must_use]
pub fn largest_gain(run: &Run) -> Option<f64> {
    gains(run).last().map(|(gain, _)| *gain)
}

/// Says for which problems a custom kernel pays off and for which it does not, in a sentence or two.
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
    let count = ratios.len();
    format!(
        "Our kernels are the faster ones in {faster} of {count}: from {} ({}) to {} ({}) the speed of the fastest library.",
        figures::times(*least),
        name(at_least),
        figures::times(*most),
        name(at_most)
    )
}

/// Returns a table of the problems for which `gemm()`'s own choice is slower than the fastest library, with both times and their ratio. The
/// largest slowdown comes first.
#[must_use]
pub fn where_the_library_wins(run: &Run) -> Table {
    let of_libraries = |r: &Rung| matches!(r.runner, Runner::Library(_));
    let ratio = |problem: &Problem| {
        let ours = run.measurement("as_chosen", problem).filter(|m| run.is_sound(m))?.median_us()?;
        let (library, theirs) = run.fastest_of(problem, of_libraries)?;
        Some((theirs / ours, ours, library, theirs))
    };
    let mut all: Vec<_> = run.problems().into_iter().filter_map(|p| Some((p, ratio(p)?))).collect();
    let count = all.len();
    all.retain(|(_, r)| r.0 < 1.0);
    all.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let row = |(problem, (ratio, ours, library, theirs)): &(&Problem, (f64, f64, &Measurement, f64))| {
        let [ours, theirs] = [*ours, *theirs].map(figures::time);
        vec![problem.label.clone(), ours, title(run, library).to_owned(), theirs, figures::times(*ratio)]
    };
    let first = format!("{} of {count} problems", all.len());
    table(&[&first, "As chosen", "Fastest library", "Time", "Ours is"], all.iter().map(row).collect())
}

/// Returns the time of a step in microseconds: the median over all epochs except the first, in which kernels are loaded and graphs are captured. A single epoch
/// is not left out.
fn step_us(run: &TrainingRun) -> Option<f64> {
    let course = run.log().course.as_ref()?;
    let seconds: Vec<f64> = course.epochs.iter().map(|e| e.seconds).collect();
    let later = if seconds.len() > 1 { &seconds[1..] } else { &seconds[..] };
    let us = stats::median(later)? * 1e6 / course.steps_per_epoch.max(1) as f64;
    us.is_finite().then_some(us)
}

/// Returns the name of a training: the title of its rung.
fn variant(run: &TrainingRun) -> String {
    run.record().rungs.first().map(|rung| rung.title.to_string()).unwrap_or_default()
}

/// Returns a table of trainings by variant: epochs, time of a step after the first epoch, also relative to the first training, and the accuracy on the test
/// images.
#[must_use]
pub fn trainings(all: &[TrainingRun]) -> Table {
    let first = all.first().and_then(step_us);
    let rows = all.iter().map(|run| {
        let epochs = run.log().course.as_ref().map_or(0, |c| c.epochs.len());
        let accuracy = run.last_epoch().and_then(|e| e.test).and_then(|right| right.accuracy());
        let ended = match (run.error(), accuracy) {
            (Some(error), _) => error.to_string(),
            // The variants differ by tenths of a percent, if at all.
            (None, Some(share)) => format!("{:.2} %", 100.0 * share),
            (None, None) => String::new(),
        };
        let us = step_us(run);
        let relative = us.zip(first).map(|(us, first)| figures::times(us / first)).unwrap_or_default();
        vec![variant(run), epochs.to_string(), us.map(figures::time).unwrap_or_default(), relative, ended]
    });
    table(&["Variant", "Epochs", "Time a step", "Of the first", "Test accuracy"], rows.collect())
}

/// Draws the time of a step over the edge of a product's tile: `tiled` has edges with their rungs, and the rungs in `others` are drawn as horizontal lines.
///
/// # Errors
/// If none of these rungs was trained ([`ChartError::NothingToDraw`]).
pub fn steps_over_tiles(all: &[TrainingRun], tiled: &[(u32, &str)], others: &[&str]) -> Result<Chart, ChartError> {
    let find_run = |id: &str| all.iter().find(|run| run.record().rungs.first().is_some_and(|rung| rung.id == id));
    let ms = |id: &str| find_run(id).and_then(step_us).map(|us| us / 1e3);
    let edges = tiled.iter().filter_map(|(edge, id)| Some((f64::from(*edge), ms(id)?)));
    let ends = [tiled.first(), tiled.last()].map(|end| end.map_or(f64::NAN, |(edge, _)| f64::from(*edge)));
    let mut lines = vec![Curve::new("tiled products", edges)];
    lines.extend(others.iter().filter_map(|id| {
        let ms = ms(id)?;
        Some(Curve::new(variant(find_run(id)?), ends.map(|edge| (edge, ms))))
    }));
    draw().curves(
        ["Time of a training step by the tile of the linear layers' products", "Median of the epochs after the first"],
        ("edge of the tile", Scale::Doubling),
        ("ms a step", Scale::Log),
        &lines,
    )
}

/// Says which trainings have logged the same losses, bit by bit, with a sentence for each group of equal trainings and one for the others.
#[must_use]
pub fn same_losses(all: &[TrainingRun]) -> String {
    let bits = |run: &TrainingRun| run.log().losses.iter().map(|p| p.loss.to_bits()).collect::<Vec<u64>>();
    let mut groups: Vec<(Vec<u64>, Vec<String>)> = Vec::new();
    for run in all {
        let losses = bits(run);
        match groups.iter_mut().find(|(known, _)| *known == losses) {
            Some((_, names)) => names.push(variant(run)),
            None => groups.push((losses, vec![variant(run)])),
        }
    }
    let (alike, alone): (Vec<_>, Vec<_>) =
        groups.into_iter().map(|(_, names)| names).partition(|names| names.len() > 1);
    let mut said: Vec<String> =
        alike.iter().map(|names| format!("The same losses, bit for bit: {}.", figures::listed(names))).collect();
    let alone = alone.concat();
    if !alone.is_empty() {
        said.push(format!("Losses of their own: {}.", figures::listed(&alone)));
    }
    said.join(" ")
}
