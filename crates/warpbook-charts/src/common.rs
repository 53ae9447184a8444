//! What all charts say alike: names, verdicts, subtitles, and which records may stand together.

use crate::ChartError;
use crate::canvas::{Font, MARGIN, WIDTH};
use crate::text::{self, clean};
use crate::words::{listed, percent, possessive, significant};
use warpbook_record::{
    Bound, DeviceKind, Dtype, L2State, Measurement, Outcome, Policy, Problem, Run, Runner, TimedBy, TrainLog,
};

/// A ladder, a legend and a list have at most so many entries; the table has them all.
pub(crate) const MAX_ENTRIES: usize = 48;

/// A rung's title, and its id where that says something else.
pub(crate) fn names(run: &Run, id: &str) -> (String, String) {
    let found = run.rung(id);
    let id = clean(id);
    match found.map(|r| clean(&r.title)).filter(|t| !t.is_empty()) {
        Some(title) => (title, id),
        None if id.is_empty() => ("(unnamed)".into(), String::new()),
        None => (id, String::new()),
    }
}

/// A rung's title.
pub(crate) fn name(run: &Run, id: &str) -> String {
    names(run, id).0
}

/// The median in microseconds, or in words why there is nothing to draw.
pub(crate) fn verdict(run: &Run, m: &Measurement) -> Result<f64, String> {
    if let Some(why) = run.train_log(&m.rung, &m.problem).and_then(divergence) {
        return Err(why);
    }
    match &m.outcome {
        Outcome::Skipped { why } => return Err(format!("skipped: {}", clean(why))),
        Outcome::Failed { error } => return Err(format!("failed: {}", clean(error))),
        Outcome::Measured => {}
    }
    match &m.check {
        None => Err("its result was not checked".into()),
        Some(c) if !c.passed => Err(format!(
            "check failed: relative error {}, tolerance {}",
            significant(c.max_rel_error, 2),
            significant(c.tolerance, 2)
        )),
        Some(_) => usable(m.median_us()).ok_or_else(|| "no usable time".into()),
    }
}

/// What bounds a rung and how near it came, as in "62 % of shared memory's bound".
pub(crate) fn of_bound(bound: &Bound, share: f64) -> String {
    format!("{} of {} bound", percent(share), possessive(bound.label()))
}

/// A time that can be drawn.
pub(crate) fn usable(us: Option<f64>) -> Option<f64> {
    us.filter(|t| t.is_finite() && *t > 0.0)
}

/// When a training stopped being one, as in "diverged at epoch 20".
pub(crate) fn divergence(log: &TrainLog) -> Option<String> {
    let first = log.losses.iter().find(|p| !p.loss.is_finite());
    match first {
        Some(p) => Some(format!("diverged at epoch {}", p.epoch)),
        None if log.diverged() => Some("diverged: its final weights or loss are no finite numbers".into()),
        None => None,
    }
}

/// The record's heading; short enough that what follows it in a title is seen.
pub(crate) fn heading(run: &Run) -> String {
    let title = clean(&run.title);
    let name = clean(&run.experiment);
    let heading = [title, name].into_iter().find(|t| !t.is_empty()).unwrap_or_else(|| "Run".into());
    text::elide(&heading, WIDTH - 4.0 * MARGIN, Font::TITLE.size, true)
}

/// The device's name.
pub(crate) fn device(run: &Run) -> String {
    let name = clean(&run.environment.device.name);
    if name.is_empty() { "unnamed device".into() } else { name }
}

/// "median of 30", or "median of 5 to 30" where some stopped early.
pub(crate) fn medians<'a>(drawn: impl IntoIterator<Item = &'a Measurement>) -> String {
    median_of(drawn.into_iter().map(|m| m.samples_total.max(m.samples_us.len() as u64)))
}

/// The same from the counts.
pub(crate) fn median_of(counts: impl IntoIterator<Item = u64>) -> String {
    let range = counts.into_iter().fold(None, |r, n| Some(r.map_or((n, n), |(a, b): (u64, u64)| (a.min(n), b.max(n)))));
    match range {
        None => String::new(),
        Some((a, b)) if a == b => format!("median of {a}"),
        Some((a, b)) => format!("median of {a} to {b}"),
    }
}

/// The state of the cache, where a GPU was timed.
pub(crate) fn cache(run: &Run) -> &'static str {
    match (run.environment.device.kind, run.policy.l2) {
        (DeviceKind::Cuda, L2State::Warm) => "warm L2",
        (DeviceKind::Cuda, L2State::Cold) => "cold L2",
        _ => "",
    }
}

/// The parts that say something, joined by commas.
pub(crate) fn joined<S: AsRef<str>>(parts: impl IntoIterator<Item = S>) -> String {
    let parts: Vec<String> = parts.into_iter().map(|p| p.as_ref().to_owned()).filter(|p| !p.is_empty()).collect();
    parts.join(", ")
}

/// Whether a rung ran on the processor.
pub(crate) fn on_cpu(run: &Run, m: &Measurement) -> bool {
    matches!(run.rung(&m.rung).map(|r| &r.runner), Some(Runner::Cpu(_)))
}

/// Whether a rung is another framework's.
pub(crate) fn is_external(run: &Run, rung: &str) -> bool {
    matches!(run.rung(rung).map(|r| &r.runner), Some(Runner::External(_)))
}

/// The remark that processor figures of a build with debug assertions need.
pub(crate) fn debug_note<'a>(drawn: impl IntoIterator<Item = (&'a Run, &'a Measurement)>) -> Option<String> {
    let marked = drawn.into_iter().any(|(run, m)| run.environment.debug_assertions && on_cpu(run, m));
    marked.then(|| {
        "CPU figures were taken with debug assertions on, as in a notebook; a release build is faster.".to_owned()
    })
}

/// Refuses records of different experiments, and those whose timing differs.
pub(crate) fn comparable(runs: &[&Run]) -> Result<(), ChartError> {
    let Some((first, rest)) = runs.split_first() else {
        return Err(ChartError::NothingToDraw("There is no record to draw.".into()));
    };
    for run in rest {
        if run.experiment != first.experiment {
            let (a, b) = (clean(&first.experiment), clean(&run.experiment));
            return Err(ChartError::NotComparable(format!(
                "The records are of different experiments: \u{201c}{a}\u{201d} and \u{201c}{b}\u{201d}."
            )));
        }
        if !first.policy.comparable(&run.policy) {
            let what = listed(&policy_differences(&first.policy, &run.policy));
            return Err(ChartError::NotComparable(format!(
                "The records were not timed alike, so their figures do not belong in one chart: {what}."
            )));
        }
    }
    Ok(())
}

fn policy_differences(a: &Policy, b: &Policy) -> Vec<String> {
    let clock = |t| match t {
        TimedBy::CudaEvents => "CUDA events",
        TimedBy::WallClock => "the processor's clock",
        _ => "another clock",
    };
    let cache = |l| match l {
        L2State::Warm => "a warm L2 cache",
        L2State::Cold => "a cold L2 cache",
        _ => "another state of the L2 cache",
    };
    let mut out = Vec::new();
    if a.timed_by != b.timed_by {
        out.push(format!("one by {}, the other by {}", clock(a.timed_by), clock(b.timed_by)));
    }
    if a.l2 != b.l2 {
        out.push(format!("one from {}, the other from {}", cache(a.l2), cache(b.l2)));
    }
    if a.inputs != b.inputs {
        let quote = |p: &Policy| format!("\u{201c}{}\u{201d}", clean(&p.inputs));
        out.push(format!("one with inputs {}, the other with {}", quote(a), quote(b)));
    }
    if out.is_empty() {
        out.push("their policies differ".into());
    }
    out
}

/// What else than its size decides how long a problem takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Family {
    epochs: u64,
    features: u64,
    dtype: Dtype,
    /// Trained points over all points, in ten-thousandths.
    share: u64,
}

/// `None` of a kind that this version does not know.
pub(crate) fn family(problem: &Problem) -> Option<Family> {
    match problem {
        Problem::Regression { points, train_points, epochs, features, dtype, .. } => {
            let share = (*train_points as f64 / (*points).max(1) as f64 * 1e4).round() as u64;
            Some(Family { epochs: *epochs, features: *features, dtype: *dtype, share })
        }
        _ => None,
    }
}

impl Family {
    /// What makes two different, as in "200 epochs in one and 20 in the other".
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        if self.epochs != other.epochs {
            return Some(format!("{} epochs in one and {} in the other", self.epochs, other.epochs));
        }
        if self.features != other.features {
            return Some(format!("{} features in one and {} in the other", self.features, other.features));
        }
        if self.dtype != other.dtype {
            return Some(format!("{:?} in one and {:?} in the other", self.dtype, other.dtype));
        }
        (self.share != other.share).then(|| "the share of points that is trained on differs".to_owned())
    }

    /// As in "200 epochs".
    pub(crate) fn label(&self) -> String {
        match self.features {
            1 => format!("{} epochs", self.epochs),
            n => format!("{n} features, {} epochs", self.epochs),
        }
    }
}

/// Short names that tell records apart: their devices, and where those are the same also their dates.
pub(crate) fn tags(runs: &[&Run]) -> Vec<String> {
    let unique = |tags: &[String], i: usize| tags.iter().filter(|t| **t == tags[i]).count() == 1;
    let devices: Vec<String> = runs.iter().map(|r| device(r)).collect();
    let dated: Vec<String> = runs
        .iter()
        .zip(&devices)
        .map(|(r, d)| {
            // To the minute; the rest only lengthens it.
            let when: String = clean(&r.created).chars().take(16).map(|c| if c == 'T' { ' ' } else { c }).collect();
            joined([d.as_str(), when.as_str()])
        })
        .collect();
    (0..runs.len())
        .map(|i| match () {
            () if unique(&devices, i) => devices[i].clone(),
            () if unique(&dated, i) => dated[i].clone(),
            () => format!("{}, record {}", devices[i], i + 1),
        })
        .collect()
}

/// The devices of the records, each once.
pub(crate) fn devices(runs: &[&Run]) -> String {
    let mut seen: Vec<String> = Vec::new();
    for d in runs.iter().map(|r| device(r)) {
        if !seen.contains(&d) {
            seen.push(d);
        }
    }
    listed(&seen)
}
