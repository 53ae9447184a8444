//! Verdicts on a measurement: its validity, its distance from the bound, and the ceilings of a device.

use crate::draw::text::words::{bandwidth, percent, rate, significant};
use crate::draw::{ChartError, clean};
use crate::record::names::label;
use warpbook_record::{Bound, Dtype, LadderRow, Measurement, MemoryLevel, Outcome, Problem, Run, TrainLog};

/// Returns the median in microseconds, or the reason why nothing can be drawn.
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

/// Returns the share of a bound that was reached, such as "62 % of the fp32 arithmetic limit". `dtype` is the type of the
/// arithmetic.
pub(crate) fn of_bound(bound: &Bound, dtype: Dtype, share: f64) -> String {
    format!("{} of the {}{}", percent(share), bound_name(bound, dtype), excess_reason(bound, share))
}

/// Explains, in brackets, how a rung exceeded a memory's bandwidth: some bytes came from a nearer cache.
pub fn excess_reason(bound: &Bound, share: f64) -> &'static str {
    let backed_by_cache = matches!(bound.level, Some(MemoryLevel::Dram | MemoryLevel::L2));
    if backed_by_cache && share > 1.02 { " (cached in part)" } else { "" }
}

/// Returns the bound's name, such as "shared memory limit" or "fp32 arithmetic limit".
pub(crate) fn bound_name(bound: &Bound, dtype: Dtype) -> String {
    match bound.level {
        None => format!("{} limit", arithmetic_name(dtype)),
        Some(MemoryLevel::Registers) => "register limit".into(),
        Some(_) => format!("{} limit", bound.label().trim_start_matches("the ")),
    }
}

/// The shortest time that the measured ceilings allow for a problem.
pub(crate) struct Ceiling {
    /// Time in microseconds.
    pub(crate) us: f64,
    /// Memory level that sets the limit; `None` for arithmetic.
    pub(crate) level: Option<MemoryLevel>,
    /// Name of the limit, such as "L2" or "bf16 arithmetic".
    pub(crate) what: String,
    /// Measured rate of the ceiling, such as "9143 GB/s".
    pub(crate) at: String,
}

impl Ceiling {
    pub(crate) fn at(run: &Run, problem: &Problem) -> Option<Self> {
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

/// Returns a suffix such as " of 2 GPUs"; empty for one GPU.
pub(crate) fn of_gpus(gpus: u32) -> String {
    if gpus > 1 { format!(" of {gpus} GPUs") } else { String::new() }
}

/// Returns a name such as "bf16 arithmetic".
pub(crate) fn arithmetic_name(dtype: Dtype) -> String {
    format!("{} arithmetic", dtype.label())
}

/// Returns a measurement's bound and the share of it that was reached, if the figure is meaningful.
pub(crate) fn bound(run: &Run, row: &LadderRow<'_>) -> Option<(Bound, f64)> {
    let bound = run.bound(row.measurement).filter(|b| usable(Some(b.us)).is_some());
    bound.zip(row.fraction_of_bound.filter(|f| f.is_finite()))
}

/// Returns the time if it is finite and above zero.
pub(crate) fn usable(us: Option<f64>) -> Option<f64> {
    us.filter(|t| t.is_finite() && *t > 0.0)
}

/// States when a training diverged, such as "diverged at epoch 20".
pub(crate) fn divergence(log: &TrainLog) -> Option<String> {
    let first = log.losses.iter().find(|p| !p.loss.is_finite());
    match first {
        Some(p) => {
            Some(p.step.map_or_else(|| format!("diverged at epoch {}", p.epoch), |s| format!("diverged at step {s}")))
        }
        None if log.diverged() => Some("diverged: its final weights or loss are not finite".into()),
        None => None,
    }
}

pub(crate) fn missing(what: &str, problem: &Problem) -> ChartError {
    ChartError::NothingToDraw(format!("The record has no {what} at {}.", label(problem)))
}
