//! What all charts say alike: names, verdicts, subtitles, and which records may be shown together.

use crate::canvas::{Font, MARGIN, WIDTH};
use crate::comparison::unlike_timing;
use crate::text::{self, clean};
use crate::words::{bandwidth, count, listed, percent, possessive, rate, significant};
use warpbook_record::{
    Bound, CUDA_DRIVER, DeviceKind, Dtype, L2State, LadderRow, Measurement, MemoryLevel, Outcome, Problem, Run, Rung,
    Runner, TimedBy, TrainLog,
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
    format!("{} of {}{}", percent(share), bound_name(bound), past_bound(bound, share))
}

/// Why more than a memory's bandwidth was reached, in brackets: some of the bytes came from a cache nearer than that memory.
pub fn past_bound(bound: &Bound, share: f64) -> &'static str {
    let backed_by_cache = matches!(bound.level, Some(MemoryLevel::Dram | MemoryLevel::L2));
    if backed_by_cache && share > 1.02 { " (cached in part)" } else { "" }
}

/// As in "shared memory's bound".
pub(crate) fn bound_name(bound: &Bound) -> String {
    format!("{} bound", possessive(bound.label()))
}

/// The least time that the measured ceilings allow a problem.
pub(crate) struct Ceiling {
    /// In microseconds.
    pub(crate) us: f64,
    /// The level of memory that takes it; `None` where it is arithmetic.
    pub(crate) level: Option<MemoryLevel>,
    /// What takes it, as "L2" or "bf16 arithmetic".
    pub(crate) what: String,
    /// Its measured rate, as "9143 GB/s".
    pub(crate) at: String,
}

impl Ceiling {
    pub(crate) fn of(run: &Run, problem: &Problem) -> Option<Self> {
        let Bound { level, us, device } = run.least_time(problem)?;
        let us = usable(Some(us))?;
        let gpus = run.gpus_at(problem);
        let (each, of) = (f64::from(gpus), of_gpus(gpus));
        let (what, at) = match level {
            Some(level) => {
                let peak = run.peaks.level_for(level, problem.written_part())?;
                (format!("{}{of}", level.label_on(device)), bandwidth(each * peak.bytes_per_s()))
            }
            None => {
                let peak = run.arithmetic(problem)?;
                (format!("{}{of}", arithmetic_name(peak.dtype)), rate(each * peak.flops_per_s()))
            }
        };
        Some(Self { us, level, what, at })
    }
}

/// As in "bf16 arithmetic of 2 GPUs"; nothing of one.
pub(crate) fn of_gpus(gpus: u32) -> String {
    if gpus > 1 { format!(" of {gpus} GPUs") } else { String::new() }
}

/// As "bf16 arithmetic".
pub(crate) fn arithmetic_name(dtype: Dtype) -> String {
    format!("{} arithmetic", dtype.label())
}

/// A measurement's bound and the share of it that was reached, where the figure means something.
pub(crate) fn bound(run: &Run, row: &LadderRow<'_>) -> Option<(Bound, f64)> {
    let bound = run.bound(row.measurement).filter(|b| usable(Some(b.us)).is_some());
    bound.zip(row.fraction_of_bound.filter(|f| f.is_finite()))
}

/// A time that can be drawn.
pub(crate) fn usable(us: Option<f64>) -> Option<f64> {
    us.filter(|t| t.is_finite() && *t > 0.0)
}

/// When a training stopped being one, as in "diverged at epoch 20".
pub(crate) fn divergence(log: &TrainLog) -> Option<String> {
    let first = log.losses.iter().find(|p| !p.loss.is_finite());
    match first {
        Some(p) => {
            Some(p.step.map_or_else(|| format!("diverged at epoch {}", p.epoch), |s| format!("diverged at step {s}")))
        }
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

/// The state of L2, if kernels of a GPU were timed; empty for whole programs, trainings and copies, about which it says nothing.
pub(crate) fn l2(run: &Run) -> &'static str {
    if times_kernels(run) { l2_state(run) } else { "" }
}

/// Like [`l2`], but whatever was timed, as for a class's kernels.
pub(crate) fn l2_state(run: &Run) -> &'static str {
    match run.policy.l2 {
        _ if run.environment.device.kind != DeviceKind::Cuda => "",
        L2State::Warm => "warm L2",
        L2State::Cold => "cold L2",
        _ => "",
    }
}

/// Reports whether a record times kernels by the GPU's clock: Warpbook's own, which have statistics or files in it, a library's, or a framework's.
fn times_kernels(run: &Run) -> bool {
    let is_kernels = |r: &Rung| match &r.runner {
        Runner::Kernels { specs, .. } => !specs.is_empty(),
        Runner::Library(name) => name != CUDA_DRIVER,
        Runner::External(_) | Runner::Chosen(_) => true,
        Runner::Cpu(_) => false,
    };
    run.policy.timed_by == TimedBy::CudaEvents
        && (run.rungs.iter().any(is_kernels) || run.measurements.iter().any(|m| !m.kernels.is_empty()))
}

/// What the words of a subtitle mean: the deviation, and the state of L2.
pub(crate) fn policy_note(run: &Run, has_mad: bool) -> Option<String> {
    let mad = "± MAD, the whiskers: the median absolute deviation, which half of the samples are within";
    let l2 = match l2(run) {
        "warm L2" => "Warm L2: inputs may be in L2 from the run before, as in a loop of launches",
        "cold L2" => "Cold L2: it is overwritten before each run, so inputs come from DRAM",
        _ => "",
    };
    let said: Vec<&str> = [if has_mad { mad } else { "" }, l2].into_iter().filter(|t| !t.is_empty()).collect();
    (!said.is_empty()).then(|| format!("{}.", said.join(". ")))
}

/// The parts that say something, joined by commas.
pub(crate) fn joined<S: AsRef<str>>(parts: impl IntoIterator<Item = S>) -> String {
    let parts: Vec<String> = parts.into_iter().map(|p| p.as_ref().to_owned()).filter(|p| !p.is_empty()).collect();
    parts.join(", ")
}

/// Whether a rung runs on the CPU.
pub(crate) fn on_cpu(run: &Run, rung: &str) -> bool {
    run.rung(rung).is_some_and(Rung::is_cpu)
}

/// Whether a rung is another framework's.
pub(crate) fn is_external(run: &Run, rung: &str) -> bool {
    run.rung(rung).and_then(Rung::framework).is_some()
}

/// Whether a rung is a GPU library's.
pub(crate) fn is_library(run: &Run, rung: &str) -> bool {
    run.rung(rung).is_some_and(Rung::is_library)
}

/// What is said of CPU figures of a build with debug assertions.
pub const DEBUG_ASSERTIONS: &str = "CPU figures were taken with debug assertions on; a release build is faster.";

/// The remark that CPU figures of a build with debug assertions need.
pub(crate) fn debug_note<'a>(drawn: impl IntoIterator<Item = (&'a Run, &'a Measurement)>) -> Option<String> {
    let marked = drawn.into_iter().any(|(run, m)| run.environment.debug_assertions && on_cpu(run, &m.rung));
    marked.then(|| DEBUG_ASSERTIONS.to_owned())
}

/// What a reader of a chart of many rungs of several records has to know: what of their timing differs at a problem.
pub(crate) fn timing_note(runs: &[&Run], problem: &Problem) -> Option<String> {
    let (first, rest) = runs.split_first()?;
    let what = rest.iter().map(|run| unlike_timing(first, run, problem)).find(|what| !what.is_empty())?;
    Some(format!("The records were not timed alike: {}.", listed(&what)))
}

/// What keeps two problems off one line of a sweep, as in "200 epochs in one and 20 epochs in the other".
pub(crate) fn difference_of_lines(a: &Problem, b: &Problem) -> Option<String> {
    if a.same_line(b) {
        return None;
    }
    let (x, y) = (line_label(a), line_label(b));
    let (x, y) = if x == y { (a.dtype.label().to_owned(), b.dtype.label().to_owned()) } else { (x, y) };
    Some(format!("{x} in one and {y} in the other"))
}

/// What makes two problems different work: another size or another line, or other words where one of them lies on no line.
pub(crate) fn difference(a: &Problem, b: &Problem) -> Option<String> {
    let same = match (&a.sweep, &b.sweep) {
        _ if a == b => true,
        (Some(x), Some(y)) => x.size == y.size && a.same_line(b),
        _ => a.dtype == b.dtype && label(a) == label(b),
    };
    let of_words = || format!("{} in one and {} in the other", label(a), label(b));
    (!same)
        .then(|| difference_of_lines(a, b).filter(|_| a.sweep.is_some() && b.sweep.is_some()).unwrap_or_else(of_words))
}

/// What is equal along a problem's line of a sweep, as "200 epochs", or "bf16, B transposed".
pub(crate) fn line_label(problem: &Problem) -> String {
    let line = problem.sweep.as_ref().map_or(String::new(), |s| clean(&s.line));
    if line.is_empty() { label(problem) } else { line }
}

/// The size of a problem on a sweep as a sentence names it: "5 M points", or "4096³" where the size says it all.
pub(crate) fn size_label(run: &Run, problem: &Problem) -> String {
    let unit = clean(&run.descriptor.axis.unit);
    let short = clean(&problem.short);
    match () {
        () if !unit.is_empty() => format!("{} {unit}", size_number(run, problem.size())),
        () if !short.is_empty() => short,
        () => size_number(run, problem.size()),
    }
}

/// The same without its unit: "5 M", or "65536" on an axis whose ticks double.
pub(crate) fn size_number(run: &Run, size: u64) -> String {
    if run.descriptor.axis.doubling { size.to_string() } else { count(size as f64) }
}

/// What a problem is called in a heading.
pub(crate) fn label(problem: &Problem) -> String {
    let words = [&problem.label, &problem.short, &problem.id].map(|t| clean(t));
    words.into_iter().find(|t| !t.is_empty()).unwrap_or_else(|| "an unnamed problem".into())
}

/// What one pass over the inputs is called.
pub(crate) fn pass(run: &Run) -> String {
    let pass = clean(&run.descriptor.pass);
    if pass.is_empty() { "pass".into() } else { pass }
}

/// What items are called; empty where the record does not say.
pub(crate) fn item(run: &Run) -> String {
    clean(&run.descriptor.item)
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
