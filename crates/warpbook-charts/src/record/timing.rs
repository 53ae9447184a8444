//! The timing of a record, worded for subtitles and notes.

use crate::draw::text::words::listed;
use crate::record::comparable::unlike_timing;
use crate::record::kind::on_cpu;
use warpbook_record::{CUDA_DRIVER, DeviceKind, L2State, Measurement, Problem, Run, Rung, Runner, TimedBy};

/// Formats "median of 30", or "median of 5 to 30" if some measurements stopped early.
pub(crate) fn medians<'a>(drawn: impl IntoIterator<Item = &'a Measurement>) -> String {
    median_of(drawn.into_iter().map(|m| m.samples_total.max(m.samples_us.len() as u64)))
}

/// Formats the number of samples like [`medians`], from their counts.
pub(crate) fn median_of(counts: impl IntoIterator<Item = u64>) -> String {
    let range = counts.into_iter().fold(None, |r, n| Some(r.map_or((n, n), |(a, b): (u64, u64)| (a.min(n), b.max(n)))));
    match range {
        None => String::new(),
        Some((a, b)) if a == b => format!("median of {a}"),
        Some((a, b)) => format!("median of {a} to {b}"),
    }
}

/// Returns the state of L2, if GPU kernels were timed; empty for whole programs, trainings and copies, where it is irrelevant.
pub(crate) fn l2(run: &Run) -> &'static str {
    if times_kernels(run) { l2_state(run) } else { "" }
}

/// Returns the state of L2 even if GPU kernels were not timed, unlike [`l2`].
pub(crate) fn l2_state(run: &Run) -> &'static str {
    match run.policy.l2 {
        _ if run.environment.device.kind != DeviceKind::Cuda => "",
        L2State::Warm => "warm L2",
        L2State::Cold => "cold L2",
        _ => "",
    }
}

/// Returns true if a record times kernels by the GPU's clock: kernels of Warpbook (with statistics or files) or of a library,
/// or a framework's if the record has no rung with kernels of Warpbook.
fn times_kernels(run: &Run) -> bool {
    let has_own = run.rungs.iter().any(|r| matches!(r.runner, Runner::Kernels { .. }));
    let is_kernels = |r: &Rung| match &r.runner {
        Runner::Kernels { specs, .. } => !specs.is_empty(),
        Runner::Library(name) => name != CUDA_DRIVER,
        // A framework's rung does the same work as Warpbook's, which may be whole loops with copies.
        Runner::External(_) => !has_own,
        Runner::Chosen(_) => true,
        Runner::Cpu(_) => false,
    };
    run.policy.timed_by == TimedBy::CudaEvents
        && (run.rungs.iter().any(is_kernels) || run.measurements.iter().any(|m| !m.kernels.is_empty()))
}

/// Explains the terms of a subtitle: the deviation, and the state of L2.
pub(crate) fn policy_note(run: &Run, has_mad: bool) -> Option<String> {
    let mad = "± MAD, the whiskers: the median absolute deviation, which half of the samples are within";
    let l2 = match l2(run) {
        "warm L2" => "Warm L2: inputs may be in L2 from the run before, as in a loop of launches",
        "cold L2" => "Cold L2: it is overwritten before each run, so inputs come from DRAM",
        _ => "",
    };
    let sentences: Vec<&str> = [if has_mad { mad } else { "" }, l2].into_iter().filter(|t| !t.is_empty()).collect();
    (!sentences.is_empty()).then(|| format!("{}.", sentences.join(". ")))
}

/// The remark on CPU figures from a build with debug assertions.
pub const DEBUG_ASSERTIONS: &str = "CPU figures were taken with debug assertions on; a release build is faster.";

/// Returns the remark on debug assertions, if a CPU figure needs it.
pub(crate) fn debug_note<'a>(drawn: impl IntoIterator<Item = (&'a Run, &'a Measurement)>) -> Option<String> {
    let marked = drawn.into_iter().any(|(run, m)| run.environment.debug_assertions && on_cpu(run, &m.rung));
    marked.then(|| DEBUG_ASSERTIONS.to_owned())
}

/// States how the timing of several records differs for a problem, for charts with many rungs.
pub(crate) fn timing_note(runs: &[&Run], problem: &Problem) -> Option<String> {
    let (first, rest) = runs.split_first()?;
    let what = rest.iter().map(|run| unlike_timing(first, run, problem)).find(|what| !what.is_empty())?;
    Some(format!("The records were not timed alike: {}.", listed(&what)))
}
