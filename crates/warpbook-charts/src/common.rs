//! What all charts say alike: names, verdicts, subtitles, and which records may stand together.

use crate::ChartError;
use crate::canvas::{Font, MARGIN, WIDTH};
use crate::text::{self, clean};
use crate::words::{bandwidth, count, listed, percent, possessive, rate, significant};
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

/// The fastest valid measurement of a problem by a GPU library, and its time in microseconds.
pub(crate) fn best_library<'a>(run: &'a Run, problem: &Problem) -> Option<(&'a Measurement, f64)> {
    let all = run.measurements.iter().filter(|m| m.problem == *problem && is_library(run, &m.rung));
    all.filter_map(|m| Some((m, verdict(run, m).ok()?))).min_by(|a, b| a.1.total_cmp(&b.1))
}

/// The measured peak of arithmetic with elements of a type, in operations a second.
pub(crate) fn arithmetic_peak(run: &Run, dtype: Dtype) -> Option<f64> {
    usable(Some(run.peaks.compute.iter().find(|p| p.dtype == dtype)?.flops_per_s()))
}

/// The least time in microseconds that the measured ceilings allow a problem, and which of them does, as "memory" and
/// "4542 GB/s": its operations at the peak of their type, or its bytes at the bandwidth that it is held against.
pub(crate) fn least_time(run: &Run, problem: &Problem) -> Option<(f64, String, String)> {
    let dtype = problem.dtype()?;
    // Without it a ceiling of memory alone might be far above the true one.
    let peak = arithmetic_peak(run, dtype)?;
    let arithmetic = usable(Some(problem.flops() as f64 / peak * 1e6))?;
    let memory = run.ceiling(problem).and_then(|p| {
        let us = usable(Some(problem.bytes() as f64 / p.bytes_per_s() * 1e6))?;
        Some((us, p.level.label().to_owned(), bandwidth(p.bytes_per_s())))
    });
    let arithmetic = (arithmetic, format!("{} arithmetic", dtype.label()), rate(peak));
    Some(memory.filter(|m| m.0 > arithmetic.0).unwrap_or(arithmetic))
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

/// Whether a rung is a GPU library's.
pub(crate) fn is_library(run: &Run, rung: &str) -> bool {
    matches!(run.rung(rung).map(|r| &r.runner), Some(Runner::Library(_)))
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Family {
    Regression {
        epochs: u64,
        features: u64,
        dtype: Dtype,
        /// Trained points over all points, in ten-thousandths.
        share: u64,
    },
    Product {
        /// As in "bf16, B transposed".
        kind: String,
        /// m, n and k of what is no cube.
        shape: Option<[u64; 3]>,
    },
}

/// `None` of a kind that this version does not know.
pub(crate) fn family(problem: &Problem) -> Option<Family> {
    match problem {
        Problem::Regression { points, train_points, epochs, features, dtype, .. } => {
            let share = (*train_points as f64 / (*points).max(1) as f64 * 1e4).round() as u64;
            Some(Family::Regression { epochs: *epochs, features: *features, dtype: *dtype, share })
        }
        Problem::Matmul { m, n, k, .. } => {
            Some(Family::Product { kind: kind_of_product(problem), shape: (m != n || n != k).then_some([*m, *n, *k]) })
        }
        _ => None,
    }
}

/// What a product is of beside its shape, as "bf16" or "bf16 to fp32, B transposed".
pub(crate) fn kind_of_product(problem: &Problem) -> String {
    let label = problem.label();
    label.strip_prefix(&problem.short_label()).map_or(label.clone(), |l| l.trim_start().to_owned())
}

impl Family {
    /// What makes two different, as in "200 epochs in one and 20 in the other".
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let differ = |a: String, b: String| Some(format!("{a} in one and {b} in the other"));
        match (self, other) {
            _ if self == other => None,
            (
                Self::Regression { epochs, features, dtype, .. },
                Self::Regression { epochs: e, features: f, dtype: d, .. },
            ) => match () {
                () if epochs != e => differ(format!("{epochs} epochs"), e.to_string()),
                () if features != f => differ(format!("{features} features"), f.to_string()),
                () if dtype != d => differ(format!("{dtype:?}"), format!("{d:?}")),
                () => Some("the share of points that is trained on differs".to_owned()),
            },
            (Self::Product { kind, .. }, Self::Product { kind: k, .. }) if kind != k => differ(kind.clone(), k.clone()),
            (Self::Product { .. }, Self::Product { .. }) => Some("the shapes of the matrices differ".to_owned()),
            _ => Some("they are of different kinds".to_owned()),
        }
    }

    /// As in "200 epochs", or "bf16".
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Regression { epochs, features: 1, .. } => format!("{epochs} epochs"),
            Self::Regression { epochs, features, .. } => format!("{features} features, {epochs} epochs"),
            Self::Product { kind, .. } => kind.clone(),
        }
    }

    /// Whether its problems lie on a line by their size.
    pub(crate) fn has_sizes(&self) -> bool {
        !matches!(self, Self::Product { shape: Some(_), .. })
    }

    pub(crate) fn is_product(&self) -> bool {
        matches!(self, Self::Product { .. })
    }

    /// A size as a sentence names it: "5 M points", or "4096³".
    pub(crate) fn size(&self, size: u64) -> String {
        if self.is_product() { format!("{size}³") } else { format!("{} points", count(size as f64)) }
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
