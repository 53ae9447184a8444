//! Whether a measurement counts, how near to its bound it came, and the ceilings of a device.

use crate::draw::text::words::{bandwidth, percent, possessive, rate, significant};
use crate::draw::{ChartError, clean};
use crate::record::names::label;
use warpbook_record::{Bound, Dtype, LadderRow, Measurement, MemoryLevel, Outcome, Problem, Run, TrainLog};

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

pub(crate) fn missing(what: &str, problem: &Problem) -> ChartError {
    ChartError::NothingToDraw(format!("The record has no {what} at {}.", label(problem)))
}
