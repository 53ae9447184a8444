use super::inputs::StoredPolicy;
use crate::problem::by_id;
use crate::{BandwidthPeak, Check, Course, Dtype, Emulated, Inputs, MemoryLevel, Problem, Right, stats};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// Maximum number of samples that a measurement keeps; `samples_total` is the number that were taken.
pub const MAX_SAMPLES: usize = 1000;

/// The outcome of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// The rung ran, was checked and was timed.
    Measured,
    /// The rung was not run.
    Skipped {
        /// Reason why the rung was not run, in a sentence.
        why: String,
    },
    /// The rung ran into an error, or its check failed.
    Failed {
        /// Error or failed check, in a sentence.
        error: String,
    },
}

/// This is written by hand, since serde's derived reader for an internally tagged enum first copies all fields.
impl<'de> Deserialize<'de> for Outcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Status {
            Measured,
            Skipped,
            Failed,
        }
        #[derive(Deserialize)]
        struct Fields {
            status: Status,
            #[serde(default)]
            why: Option<String>,
            #[serde(default)]
            error: Option<String>,
        }
        let Fields { status, why, error } = Fields::deserialize(deserializer)?;
        Ok(match status {
            Status::Measured => Self::Measured,
            Status::Skipped => Self::Skipped { why: why.ok_or_else(|| D::Error::missing_field("why"))? },
            Status::Failed => Self::Failed { error: error.ok_or_else(|| D::Error::missing_field("error"))? },
        })
    }
}

/// The clock that took the times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TimedBy {
    /// CUDA events around the region.
    CudaEvents,
    /// The host's clock around the region.
    WallClock,
    /// No clock, since there are no times, as in the emulator.
    Nothing,
    /// A clock that this version does not know.
    #[serde(other)]
    Other,
}

/// The state of L2 at the start of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum L2State {
    /// L2 has the data that the previous sample left.
    Warm,
    /// L2 is overwritten before each sample.
    Cold,
    /// A state that this version does not know.
    #[serde(other)]
    Other,
}

/// The rules for taking the samples of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "StoredPolicy", into = "StoredPolicy")]
pub struct Policy {
    /// Clock of the GPU rungs; CPU rungs are always timed with the host's clock.
    pub timed_by: TimedBy,
    /// State of L2 at the start of a sample.
    pub l2: L2State,
    /// Number of untimed repetitions before the first sample.
    pub warmup: u32,
    /// Number of samples wanted for each measurement.
    pub samples: u32,
    /// Total time of a measurement's samples in seconds after which the measurement stops early.
    pub budget_s: f64,
    /// Regions shorter than this many microseconds are repeated between two events, and the time is divided by the number of repetitions.
    pub batch_below_us: f64,
    /// Data that the problems were computed on.
    pub inputs: Inputs,
}

/// Figures that the compiler and the device report about one kernel of a rung.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelStats {
    /// Path of the kernel's source below `kernels/`.
    pub file: String,
    /// Name of the kernel's entry.
    pub entry: String,
    /// Target architecture of the compilation, such as "sm_90".
    pub architecture: String,
    /// Number of registers per thread.
    pub registers: u32,
    /// Static shared memory of a block in bytes.
    pub static_shared_bytes: u32,
    /// Dynamic shared memory of a block in bytes.
    #[serde(default)]
    pub dynamic_shared_bytes: u32,
    /// Bytes that a thread stores to local memory for spilled registers.
    pub spill_store_bytes: u32,
    /// Bytes that a thread loads from local memory for spilled registers.
    pub spill_load_bytes: u32,
    /// Grid of the launch, if the kernel was launched.
    #[serde(default)]
    pub grid: Option<[u32; 3]>,
    /// Block of the launch, if the kernel was launched.
    #[serde(default)]
    pub block: Option<[u32; 3]>,
    /// Number of blocks resident on an SM at once, if a device could report it.
    #[serde(default)]
    pub blocks_per_multiprocessor: Option<u32>,
    /// Resident warps divided by the maximum number of warps of an SM, if a device could report them.
    #[serde(default)]
    pub occupancy: Option<f64>,
}

/// A measurement of one rung at one problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measurement {
    /// Id of the measured [`Rung`](crate::Rung).
    pub rung: String,
    /// The problem that was solved, stored as the id of the [`Problem`].
    #[serde(with = "by_id")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub problem: Problem,
    /// Id of the rung's tile, if it has tiles.
    #[serde(default)]
    pub tile: Option<String>,
    /// The outcome: measured, skipped or failed.
    pub outcome: Outcome,
    /// Times of the timed region in microseconds, in the order in which they were taken.
    #[serde(default, with = "crate::format::real::many")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::format::real::Real>"))]
    pub samples_us: Vec<f64>,
    /// Number of samples taken, including those beyond the thousand that are kept.
    #[serde(default)]
    pub samples_total: u64,
    /// Times of the same regions by the host's clock in microseconds, including the launch and the final synchronisation.
    #[serde(default, with = "crate::format::real::many")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::format::real::Real>"))]
    pub wall_us: Vec<f64>,
    /// Comparison of the result with the reference.
    #[serde(default)]
    pub check: Option<Check>,
    /// Kernels that the rung ran.
    #[serde(default)]
    pub kernels: Vec<KernelStats>,
    /// Kernel that the rung's rule chose for this size, with the reason, if the rung has a rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
    /// Id of the rung that the rung's rule chose for this size, if the rule chooses among rungs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// Gradients that ranks exchange in a step, if the rung trains on several ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradients: Option<Gradients>,
    /// Bytes read and written at each level of memory (counted, not measured).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<Traffic>,
    /// Number of floating-point operations, if it differs from the problem's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flops: Option<u64>,
    /// Type of most operations, if it differs from the problem's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Dtype>,
    /// Peak device memory in bytes, including inputs, if it was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// Number of GPUs, if there were several; operations and traffic are totals over all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Correctly classified test samples, one entry for each timed sample in order, if each sample is a whole training.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub test: Vec<Right>,
    /// Number of optimiser steps in each sample, if each sample is a whole training with a fixed number of steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Findings and counts of the emulator, if the rung ran there. Such a row is skipped or failed, and has no samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulated: Option<Box<Emulated>>,
}

/// The gradients that ranks exchange in a training step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gradients {
    /// Number of bytes of one rank's gradients. In older records this number is rounded.
    pub bytes: u64,
    /// Number of buckets that they travel in.
    pub buckets: u32,
}

/// Bytes that a rung moves at one level of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Traffic {
    /// Level at which the bytes are read or written.
    pub level: MemoryLevel,
    /// Number of bytes in the timed region.
    pub bytes: u64,
}

impl Measurement {
    /// Creates a measurement without samples.
    #[must_use]
    pub fn without_samples(rung: impl Into<String>, problem: Problem, outcome: Outcome) -> Self {
        Self {
            rung: rung.into(),
            problem,
            tile: None,
            outcome,
            samples_us: Vec::new(),
            samples_total: 0,
            wall_us: Vec::new(),
            check: None,
            kernels: Vec::new(),
            choice: None,
            chosen: None,
            gradients: None,
            traffic: Vec::new(),
            flops: None,
            dtype: None,
            peak_bytes: None,
            gpus: None,
            test: Vec::new(),
            steps: None,
            emulated: None,
        }
    }

    /// Creates the row of a rung whose result was right in the emulator, which has no times.
    #[must_use]
    pub fn emulated(rung: impl Into<String>, problem: Problem, check: Check, found: Emulated) -> Self {
        let outcome = Outcome::Skipped { why: Emulated::NO_TIME.into() };
        let emulated = Some(Box::new(found));
        Self { check: Some(check), emulated, ..Self::without_samples(rung, problem, outcome) }
    }

    /// Returns true if the rung ran in the emulator with the right result and without a finding.
    #[must_use]
    pub fn is_right_in_emulator(&self) -> bool {
        let is_clean = self.emulated.as_ref().is_some_and(|e| e.finding.is_none());
        is_clean && self.check.as_ref().is_some_and(|c| c.passed) && !matches!(self.outcome, Outcome::Failed { .. })
    }

    /// Stores the first thousand samples and the first thousand wall times.
    pub fn set_samples(&mut self, samples_us: Vec<f64>, wall_us: Vec<f64>) {
        self.samples_total = samples_us.len() as u64;
        self.samples_us = samples_us;
        self.wall_us = wall_us;
        self.samples_us.truncate(MAX_SAMPLES);
        self.wall_us.truncate(MAX_SAMPLES);
    }

    /// Returns true if the measurement may be drawn: it has samples, and its check passed.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.outcome == Outcome::Measured
            && self.check.as_ref().is_some_and(|c| c.passed)
            && self.median_us().is_some_and(f64::is_finite)
    }

    /// Returns the median of the samples in microseconds.
    #[must_use]
    pub fn median_us(&self) -> Option<f64> {
        stats::median(&self.samples_us)
    }

    /// Returns the median absolute deviation of the samples in microseconds.
    #[must_use]
    pub fn mad_us(&self) -> Option<f64> {
        stats::mad(&self.samples_us)
    }

    /// Returns the median of the wall times in microseconds.
    #[must_use]
    pub fn median_wall_us(&self) -> Option<f64> {
        stats::median(&self.wall_us)
    }

    /// Returns the mean and the sample standard deviation of the accuracies in [`Measurement::test`], from 0 to 1; the deviation of a single accuracy is 0.
    /// Returns `None` if there are no accuracies, or if one of them has no samples.
    #[must_use]
    pub fn accuracy(&self) -> Option<(f64, f64)> {
        let all = self.test.iter().map(|right| right.accuracy()).collect::<Option<Vec<f64>>>()?;
        stats::moments(&all)
    }

    /// Returns the microseconds of a pass, such as an epoch, for work with several passes.
    #[must_use]
    pub fn pass_us(&self) -> Option<f64> {
        (self.problem.passes > 1).then_some(self.median_us()? / self.problem.passes as f64)
    }

    /// Returns the items per second, for work that has items.
    #[must_use]
    pub fn items_per_s(&self) -> Option<f64> {
        Some(self.problem.items? as f64 / (self.median_us()? * 1e-6))
    }

    /// Returns the bytes per second, assuming that every input is read once per pass. A rung that also writes and re-reads intermediates moves more bytes than
    /// this; a rung that keeps its data on the chip moves fewer.
    #[must_use]
    pub fn effective_bytes_per_s(&self) -> Option<f64> {
        Some(self.problem.bytes as f64 / (self.median_us()? * 1e-6))
    }

    /// Returns the number of operations of the timed region.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.flops.unwrap_or_else(|| self.problem.flops)
    }

    /// Returns the number of GPUs that the rung ran on.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.gpus.unwrap_or(1).max(1)
    }

    /// Returns the type of most operations.
    #[must_use]
    pub fn arithmetic_type(&self) -> Dtype {
        self.dtype.unwrap_or(self.problem.dtype)
    }

    /// Returns true if the rung reaches the problem's result with less than half of its operations. Such a rung is not
    /// ranked, since its time does not show how well the work is done.
    #[must_use]
    pub fn does_less(&self) -> bool {
        self.operations().saturating_mul(2) < self.problem.flops
    }

    /// Returns the FLOP/s based on [`Measurement::operations`].
    #[must_use]
    pub fn flops_per_s(&self) -> Option<f64> {
        Some(self.operations() as f64 / (self.median_us()? * 1e-6))
    }

    /// Returns the effective bandwidth as a fraction of a ceiling.
    #[must_use]
    pub fn fraction_of(&self, peak: &BandwidthPeak) -> Option<f64> {
        let ceiling = peak.bytes_per_s();
        (ceiling > 0.0).then_some(self.effective_bytes_per_s()? / ceiling)
    }
}

/// A loss of a training, logged at an epoch or at a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LossPoint {
    /// Epoch of the loss, counted from 1. The loss is computed with the weights at the start of the epoch.
    pub epoch: u64,
    /// Step after which the loss was taken, counted from 1, if losses are logged by step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Value of the loss.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub loss: f64,
}

/// Results of a training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrainLog {
    /// Id of the trained rung.
    pub rung: String,
    /// The problem that was solved, stored as the id of the [`Problem`].
    #[serde(with = "by_id")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub problem: Problem,
    /// The logged losses.
    #[serde(default)]
    pub losses: Vec<LossPoint>,
    /// Final parameters by name, such as "w" and "b".
    #[serde(default, with = "crate::format::real::map")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, crate::format::real::Real>"))]
    pub parameters: BTreeMap<String, f64>,
    /// Loss of the final parameters on the training points.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub train_loss: f64,
    /// Loss of the final parameters on the test points; NaN without test points.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub test_loss: f64,
    /// Course of the training, if it was logged step by step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<Box<Course>>,
}

impl TrainLog {
    /// Returns true if a loss or a parameter is not a finite number.
    #[must_use]
    pub fn diverged(&self) -> bool {
        !self.train_loss.is_finite()
            || self.losses.iter().any(|p| !p.loss.is_finite())
            || self.parameters.values().any(|p| !p.is_finite())
    }
}

/// Ways to divide the work of a rung into parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PartGroup {
    /// The kernels of one pass, each timed alone; together they make up the pass.
    Operation,
    /// The fused pass with one of its parts left out; the difference from the whole pass is the cost of that part.
    Ablation,
    /// The whole work with another tile of the rung; the part's name is the tile's id.
    Tile,
    /// The copies that a result on the host needs: "to the device", "to the host". Records of format 1 also have "compute".
    Transfer,
    /// Phases of a process from its start, one after the other: "import", "data", "train". Together the phases cover almost the whole process.
    Phase,
    /// A group that this version does not know.
    #[serde(other)]
    Other,
}

/// The time of a part of a rung.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// Id of the rung; empty for a part that all rungs share.
    pub rung: String,
    /// The problem that the part belongs to, stored as its id. The times are for one pass, such as an epoch.
    #[serde(with = "by_id")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub problem: Problem,
    /// The way in which the work was divided.
    pub group: PartGroup,
    /// Name of the part, such as "forward" or "without loss".
    pub name: String,
    /// Times of the part in microseconds.
    #[serde(with = "crate::format::real::many")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::format::real::Real>"))]
    pub samples_us: Vec<f64>,
}

impl Part {
    /// Returns the median of the samples in microseconds.
    #[must_use]
    pub fn median_us(&self) -> Option<f64> {
        stats::median(&self.samples_us)
    }
}

/// An interval on a timeline: a kernel, a copy, or work of the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Span {
    /// Id of the rung; empty for work that belongs to no rung.
    #[serde(default)]
    pub rung: String,
    /// The problem that the span belongs to, stored as its id.
    #[serde(with = "by_id")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub problem: Problem,
    /// Name of the span, for example the name of a kernel.
    pub name: String,
    /// Operation that the span belongs to, such as "conv1 weight gradient", if it is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub operation: String,
    /// Stream of the span, such as "0"; "host" for work of the host.
    pub stream: String,
    /// Start in microseconds from the start of the timeline.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub start_us: f64,
    /// Duration in microseconds.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub duration_us: f64,
    /// Number of bytes copied or filled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Number of the driver call that caused the activity; all activities of one graph launch have the same number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<u32>,
}

impl Span {
    /// Returns the end in microseconds from the start of the timeline.
    #[must_use]
    pub fn end_us(&self) -> f64 {
        self.start_us + self.duration_us
    }

    /// Returns the bytes per second of a copy or a fill.
    #[must_use]
    pub fn bytes_per_s(&self) -> Option<f64> {
        let bytes = self.bytes.filter(|_| self.duration_us > 0.0)?;
        Some(bytes as f64 / (self.duration_us * 1e-6))
    }
}
