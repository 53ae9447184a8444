//! Sentences and tables about a training: the gain of each rung of its ladder, the parts of a step's time, and the results of a training.

pub use super::{at, balance, only, table, with, without};
use super::{cell, quoted, title, valid, verdict};
use crate::figures;
use crate::prelude::nn::*;
use crate::prelude::*;
use std::convert::Infallible;
use warpbook_charts::{Chart, ChartError, Table, draw};
use warpbook_nn::train::ways;
use warpbook_record::MemoryLevel;
use warpbook_record::{Breakdown, Measurement, OperationTime, TrainLog};

/// Maximum number of operations in a table of the operations that changed most.
const MOST_CHANGED: usize = 8;
/// Share of a step below which changes are not listed.
const NOTABLE: f64 = 0.005;
/// Maximum number of operations that a sentence names.
const NAMED: usize = 3;
/// Kinds of operations into which a step's time is divided, in this order.
const KINDS: [&str; 6] =
    ["convolutions", "linear layers", "pools, ReLUs, dropout", "batch and images", "loss", "checks and update"];

/// Returns the ids of the ladder's rungs, with the fp16 versions from rung 06 on.
#[must_use]
pub fn fp16_ladder() -> Vec<&'static str> {
    ways().into_iter().filter(|w| w.base.is_none() && !w.id.ends_with("_bf16")).map(|w| w.id).collect()
}

/// Returns the id of the rung before another rung in the ladder.
fn before(id: &str) -> Option<&'static str> {
    let all = fp16_ladder();
    let at = all.iter().position(|r| *r == id)?;
    all[..at].last().copied()
}

/// Loads MNIST if its files are found, otherwise draws digits. Returns at most `train` and `test` images, and a sentence that says which images they are.
#[must_use]
pub fn digits(train: usize, test: usize) -> (Splits, String) {
    let drawn = |[train, test]: [usize; 2]| Ok::<_, Infallible>(synthetic_digits(train, test, 1));
    let Ok(images) = images("mnist", [train, test], drawn);
    images
}

/// Loads at most `train` and `test` images of a data set; if its files are not found, `drawn` makes the images. The returned sentence says which images they
/// are.
pub(super) fn images<E>(
    name: &str,
    [train, test]: [usize; 2],
    drawn: impl FnOnce([usize; 2]) -> std::result::Result<Splits, E>,
) -> std::result::Result<(Splits, String), E> {
    let (splits, why) = match warpbook_data::open(name, None) {
        Ok(splits) => (splits, String::new()),
        Err(error) => (drawn([train.min(12_000), test.min(2_000)])?, format!(" {error}")),
    };
    let splits = Splits { train: splits.train.take(train), test: splits.test.take(test) };
    let said = format!(
        "{} images to train on and {} for the test: {}.{why}",
        splits.train.len(),
        splits.test.len(),
        splits.train.note()
    );
    Ok((splits, said))
}

/// Returns `story` with the results of these rungs for a batch, measured here. Without a GPU, returns `story` unchanged.
///
/// # Errors
/// See [`learn_at`](super::learn_at).
pub fn learn(lab: &Lab, story: &Run, ids: &[&str]) -> Result<Run> {
    super::learn_at(lab, story, &Training::new().rungs(ids.iter().copied()))
}

/// Returns a rung's idea, as the ladder states it.
#[must_use]
pub fn idea(id: &str) -> String {
    ways()
        .into_iter()
        .find(|w| w.id == id)
        .map_or_else(|| format!("There is no rung `{id}`."), |w| format!("{}: {}", w.title, w.idea))
}

/// Returns a table of the least time of a step by its arithmetic alone, in each type that was measured, and by the bytes that have to move.
#[must_use]
pub fn least_times(run: &Run, problem: &Problem) -> Table {
    let types = [(Dtype::F32, "fp32"), (Dtype::Tf32, "tf32"), (Dtype::F16, "fp16")];
    let mut rows = Vec::new();
    for (dtype, name) in types {
        let peak = run.peaks.arithmetic(dtype).map(|p| p.flops_per_s()).filter(|p| *p > 0.0);
        rows.push(vec![
            format!("{} GFLOP in {name}", figures::number(problem.flops as f64 / 1e9)),
            peak.map_or_else(|| "not measured".into(), figures::rate),
            cell(peak.map(|p| problem.flops as f64 / p * 1e6)),
        ]);
    }
    let memory = run.peaks.level(MemoryLevel::Dram).map(|p| p.bytes_per_s()).filter(|p| *p > 0.0);
    rows.push(vec![
        format!("{} of weights, gradients and images", figures::bytes(problem.bytes)),
        memory.map_or_else(|| "not measured".into(), figures::bandwidth),
        cell(memory.map(|p| problem.bytes as f64 / p * 1e6)),
    ]);
    table(&["a step has", "measured ceiling", "so it takes at least"], rows)
}

fn images_per_s(problem: &Problem, us: f64) -> String {
    figures::item_rate(problem.items.unwrap_or(0) as f64 / us * 1e6, "images")
}

fn unmeasured(run: &Run, problem: &Problem, id: &str) -> String {
    use warpbook_record::Outcome::{Failed, Skipped};
    let why = match run.measurement(id, problem).map(|m| &m.outcome) {
        Some(Skipped { why }) => format!(": {}", why.trim_end_matches('.')),
        Some(Failed { error }) => format!(", it failed: {}", error.trim_end_matches('.')),
        _ => String::new(),
    };
    format!("{} was not measured at {}{why}.", title(run, id), problem.label)
}

/// Says how long a step takes on a rung, compared with the last measured rung before it.
#[must_use]
pub fn gain(run: &Run, problem: &Problem, id: &str) -> String {
    let Some((m, us)) = valid(run, id, problem).and_then(|m| Some((m, m.median_us()?))) else {
        return unmeasured(run, problem, id);
    };
    let device = &run.environment.device.name;
    let said = format!(
        "Measured on {device}, {}: {} takes {} a step, {}",
        problem.label,
        title(run, id),
        figures::time(us),
        images_per_s(problem, us)
    );
    let ladder = fp16_ladder();
    let earlier = ladder.iter().take_while(|r| **r != id).filter_map(|r| valid(run, r, problem));
    let Some(old) = earlier.last().filter(|_| ladder.contains(&id)) else { return format!("{said}.") };
    let memory = match (old.peak_bytes, m.peak_bytes) {
        (Some(was), Some(now)) if was.abs_diff(now) * 100 > was => {
            format!(" Peak memory: {} → {}.", figures::bytes(was), figures::bytes(now))
        }
        _ => String::new(),
    };
    format!("{said}. {} takes {}: {}.{memory}", title(run, &old.rung), cell(old.median_us()), verdict(m, old))
}

/// Returns a table of these rungs, each with its time, images per second, gain over the previous and over the first rung, and memory.
#[must_use]
pub fn every_step(run: &Run, problem: &Problem, ids: &[&str]) -> Table {
    let (mut first, mut last) = (None::<&Measurement>, None::<&Measurement>);
    let mut rows = Vec::new();
    for id in ids {
        let m = valid(run, id, problem);
        let us = m.and_then(Measurement::median_us);
        let over = first.and_then(Measurement::median_us).zip(us).map(|(was, now)| figures::times(was / now));
        rows.push(vec![
            title(run, id).to_owned(),
            us.map_or_else(|| "not measured".into(), figures::time),
            us.map(|us| images_per_s(problem, us)).unwrap_or_default(),
            last.zip(m).map(|(old, new)| verdict(new, old)).unwrap_or_default(),
            over.unwrap_or_default(),
            m.and_then(|m| m.peak_bytes).map(figures::bytes).unwrap_or_default(),
        ]);
        (first, last) = (first.or(m), m.or(last));
    }
    table(&["rung", "a step", "rate", "against the last", "as fast as the first", "peak memory"], rows)
}

fn not_taken_apart(run: &Run, id: &str) -> String {
    format!(
        "No step of {} was taken apart here: that needs a GPU with CUPTI, the library that records its activity.",
        title(run, id)
    )
}

/// Draws one rung's step, operation by operation.
///
/// # Errors
/// If no operations were recorded ([`ChartError::NothingToDraw`]).
pub fn taken_apart(run: &Run, problem: &Problem, id: &str) -> std::result::Result<Chart, ChartError> {
    let mut part = only(&at(run, problem), &[id]);
    part.breakdowns.retain(|b| b.rung == id);
    draw().breakdown(&part, problem)
}

/// Names the operations that take most of a rung's step.
#[must_use]
pub fn slowest(run: &Run, problem: &Problem, id: &str) -> String {
    let Some(b) = run.breakdown(id, problem) else { return not_taken_apart(run, id) };
    let sum = b.sum_us();
    let mut all: Vec<(&str, f64)> =
        b.operations.iter().filter_map(|o| Some((o.name.as_str(), o.median_us()?))).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let named: Vec<String> = all
        .iter()
        .take(NAMED)
        .map(|(name, us)| format!("{name} {} ({})", figures::time(*us), figures::percent(us / sum)))
        .collect();
    format!(
        "A step of {} has {} operations, whose kernels take {} together. Most of that: {}.",
        title(run, id),
        all.len(),
        figures::time(sum),
        figures::listed(&named)
    )
}

fn times_of(b: &Breakdown) -> Vec<(&str, f64)> {
    b.operations.iter().filter_map(|o| Some((o.name.as_str(), o.median_us()?))).collect()
}

/// Returns a table of the operations whose time changed most from the previous rung to this one, with the sum of all, and the time in which nothing ran.
#[must_use]
pub fn moved(run: &Run, problem: &Problem, id: &str) -> Table {
    moved_between(run, problem, id, before(id).unwrap_or_default())
}

/// Returns the operations whose time changed most between any two rungs.
#[must_use]
pub fn moved_between(run: &Run, problem: &Problem, new: &str, old: &str) -> Table {
    let headers = ["operation", title(run, old), title(run, new), "change"];
    let (Some(was), Some(now)) = (run.breakdown(old, problem), run.breakdown(new, problem)) else {
        let missing = if run.breakdown(new, problem).is_none() { new } else { old };
        return table(&headers, vec![vec![not_taken_apart(run, missing), String::new(), String::new(), String::new()]]);
    };
    let (a, b) = (times_of(was), times_of(now));
    let time_of = |list: &[(&str, f64)], name: &str| list.iter().find(|(n, _)| *n == name).map(|(_, us)| *us);
    let mut names: Vec<&str> = a.iter().map(|(n, _)| *n).collect();
    names.extend(b.iter().map(|(n, _)| *n).filter(|n| time_of(&a, n).is_none()));
    let difference = |name: &str| time_of(&b, name).unwrap_or(0.0) - time_of(&a, name).unwrap_or(0.0);
    let least = NOTABLE * was.whole_median_us().unwrap_or(0.0);
    names.retain(|n| difference(n).abs() >= least);
    names.sort_by(|x, y| difference(y).abs().total_cmp(&difference(x).abs()));
    let row = |name: &str, was: Option<f64>, now: Option<f64>| {
        let change = now.unwrap_or(0.0) - was.unwrap_or(0.0);
        let shown = |us: Option<f64>| us.map_or_else(|| "none".to_owned(), figures::time);
        vec![name.to_owned(), shown(was), shown(now), figures::time_difference(change)]
    };
    let mut rows: Vec<Vec<String>> =
        names.iter().take(MOST_CHANGED).map(|n| row(n, time_of(&a, n), time_of(&b, n))).collect();
    rows.push(row("all kernels, added up", Some(was.sum_us()), Some(now.sum_us())));
    rows.push(row("nothing ran", was.idle_median_us(), now.idle_median_us()));
    let launches = |b: &Breakdown| b.operations.iter().map(|o| o.launches).sum::<u64>();
    let (old_launches, new_launches) = (launches(was), launches(now));
    let change = i128::from(new_launches) - i128::from(old_launches);
    rows.push(vec![
        "kernels, copies and fills".into(),
        old_launches.to_string(),
        new_launches.to_string(),
        format!("{change:+}").replace('-', "−"),
    ]);
    table(&headers, rows)
}

/// Returns the index in [`KINDS`] that an operation belongs to.
fn kind(operation: &OperationTime) -> usize {
    let name = &*operation.name;
    let begins = |words: &[&str]| words.iter().any(|w| name.starts_with(w));
    match name {
        _ if begins(&["conv"]) => 0,
        _ if begins(&["fc"]) => 1,
        "batch" | "images" | "rows" => 3,
        "loss" => 4,
        _ if begins(&["norm of", "check", "optimiser", "end of"]) => 5,
        _ => 2,
    }
}

/// Returns a table of the time of a step on each rung, by groups of operations: times of kernels, and the time in which nothing ran.
#[must_use]
pub fn where_it_goes(run: &Run, problem: &Problem, ids: &[&str]) -> Table {
    let mut headers = vec!["rung"];
    headers.extend(KINDS);
    headers.push("nothing ran");
    let row = |id: &&str| {
        let mut cells = vec![title(run, id).to_owned()];
        match run.breakdown(id, problem) {
            Some(b) => {
                for i in 0..KINDS.len() {
                    let us: f64 =
                        b.operations.iter().filter(|o| kind(o) == i).filter_map(OperationTime::median_us).sum();
                    cells.push(figures::time(us));
                }
                cells.push(cell(b.idle_median_us()));
            }
            None => {
                cells.push("not taken apart".into());
                cells.resize(KINDS.len() + 2, String::new());
            }
        }
        cells
    };
    table(&headers, ids.iter().map(row).collect())
}

/// Returns a table of kernels and the time between them, rung by rung: the timed step, the sum of its kernels, and the remainder.
#[must_use]
pub fn launches(run: &Run, problem: &Problem, ids: &[&str]) -> Table {
    let row = |id: &&str| {
        let (m, b) = (valid(run, id, problem), run.breakdown(id, problem));
        let schedule = run.rung(id).and_then(Rung::schedule).map(|s| s.sentence().to_owned());
        vec![
            title(run, id).to_owned(),
            schedule.unwrap_or_default(),
            b.map_or_else(
                || "not taken apart".into(),
                |b| b.operations.iter().map(|o| o.launches).sum::<u64>().to_string(),
            ),
            cell(m.and_then(Measurement::median_us)),
            cell(b.map(Breakdown::sum_us)),
            cell(b.and_then(Breakdown::idle_median_us)),
        ]
    };
    let headers = [
        "rung",
        "how a step is launched",
        "kernels, copies and fills",
        "a step",
        "kernels, added up",
        "nothing ran, as recorded",
    ];
    table(&headers, ids.iter().map(row).collect())
}

/// Compares the ladder's fastest rung with its first, and with the least time of its arithmetic.
#[must_use]
pub fn last_word(run: &Run, problem: &Problem) -> String {
    let ladder = fp16_ladder();
    let all: Vec<&Measurement> = ladder.iter().filter_map(|id| valid(run, id, problem)).collect();
    let us = |m: &Measurement| m.median_us().unwrap_or(f64::INFINITY);
    let fastest = all.iter().min_by(|a, b| us(a).total_cmp(&us(b)));
    let (Some(first), Some(best)) = (all.first(), fastest) else {
        return format!("No rung of the ladder was measured at {}.", problem.label);
    };
    let floor = run.peaks.arithmetic(best.arithmetic_type()).map(|p| problem.flops as f64 / p.flops_per_s() * 1e6);
    let least = floor.map_or_else(String::new, |f| {
        format!(
            " Its arithmetic alone would take {} at the measured ceiling: {} of the step.",
            figures::time(f),
            figures::percent(f / us(best))
        )
    });
    format!(
        "On {}, {}: {} does a step in {}, {} as fast as {} with {}.{least}",
        run.environment.device.name,
        problem.label,
        quoted(run, &best.rung),
        figures::time(us(best)),
        figures::times(us(first) / us(best)),
        quoted(run, &first.rung),
        figures::time(us(first))
    )
}

/// Says how the loss scale of a training changed.
#[must_use]
pub fn scaling(training: &TrainingRun) -> String {
    scaling_of(training.log())
}

pub(super) fn scaling_of(log: &TrainLog) -> String {
    let Some(course) = log.course.as_ref().filter(|c| !c.loss_scales.is_empty()) else {
        return "This training's loss was not scaled: fp32 and bf16 reach as far down as gradients do. Scaling needs fp16, and that a GPU.".into();
    };
    let (first, last) = (course.loss_scales[0].value, course.loss_scales[course.loss_scales.len() - 1].value);
    let skipped = match (course.skipped_total, course.skipped_steps.first()) {
        (0, _) => "No step was skipped.".to_owned(),
        (n, step) => format!(
            "{} skipped, since a gradient had overflowed{}.",
            figures::counted(n as usize, "step") + if n == 1 { " was" } else { " were" },
            step.map_or_else(String::new, |s| format!(", the first at step {s}"))
        ),
    };
    format!(
        "The loss was multiplied by {} at first and by {} in the end, over {} steps. {skipped}",
        figures::scale(first),
        figures::scale(last),
        course.made()
    )
}

/// Returns a table of trainings side by side: steps, seconds, losses, and the accuracy on the test set.
#[must_use]
pub fn side_by_side(trainings: &[(&str, &TrainingRun)]) -> Table {
    let row = |(name, training): &(&str, &TrainingRun)| {
        let log = training.log();
        let course = log.course.as_ref();
        let last = course.and_then(|c| c.epochs.last());
        let accuracy = last.and_then(|p| p.test).and_then(|r| r.accuracy());
        let ended = training.error().map(ToString::to_string).or_else(|| course.map(|c| c.ended.clone()));
        vec![
            (*name).to_owned(),
            course.map(|c| c.made().to_string()).unwrap_or_default(),
            cell(course.map(|c| c.total_s * 1e6).filter(|us| us.is_finite())),
            figures::number(log.train_loss),
            last.map(|p| figures::number(p.test_loss)).unwrap_or_default(),
            accuracy.map(|a| format!("{:.2} %", 100.0 * a)).unwrap_or_default(),
            ended.unwrap_or_default(),
        ]
    };
    let headers =
        ["training", "steps", "time, evaluations included", "training loss", "test loss", "test accuracy", "ended"];
    table(&headers, trainings.iter().map(row).collect())
}

/// Describes a trained parameter: its elements' mean, and their range if there are several.
#[must_use]
pub fn learned(weights: &Weights, name: &str) -> String {
    let Some(values) = weights.get(name).filter(|v| !v.is_empty()) else {
        return format!("These weights have no `{name}`.");
    };
    let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / values.len() as f64;
    let (low, high) = values.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
    match values.len() {
        1 => format!("{name} is {} now.", figures::number(mean)),
        n => format!(
            "The {n} elements of {name} are {} on average, from {} to {}.",
            figures::number(mean),
            figures::number(f64::from(low)),
            figures::number(f64::from(high))
        ),
    }
}

#[cfg(test)]
mod tests;
