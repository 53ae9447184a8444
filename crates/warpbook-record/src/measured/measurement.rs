use crate::problem::by_id;
use crate::{BandwidthPeak, Check, Course, Dtype, Emulated, Inputs, MemoryLevel, Problem, Right, stats};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// The most samples that a measurement keeps; `samples_total` says how many there were.
pub const MAX_SAMPLES: usize = 1000;

/// How it ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// It ran, was checked and was timed.
    Measured,
    /// It was not run, and why.
    Skipped {
        /// Why, in a sentence.
        why: String,
    },
    /// It ran into an error, or its check failed.
    Failed {
        /// The error, in a sentence.
        error: String,
    },
}

/// By hand: what serde makes for a tag inside of an object keeps a copy of all fields first, with a reader for these.
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

/// What took the times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TimedBy {
    /// CUDA events around the region.
    CudaEvents,
    /// The host's clock around the region.
    WallClock,
    /// Nothing: there are no times, as in the emulator.
    Nothing,
    /// One that this version does not know.
    #[serde(other)]
    Other,
}

/// The state of L2 at the start of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum L2State {
    /// As the previous sample left it.
    Warm,
    /// Overwritten before each sample.
    Cold,
    /// One that this version does not know.
    #[serde(other)]
    Other,
}

/// How the samples of a run were taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Policy {
    /// The clock of the GPU rungs; CPU rungs are always timed by the host's.
    pub timed_by: TimedBy,
    /// L2 at the start of a sample.
    pub l2: L2State,
    /// Untimed repetitions before the first sample.
    pub warmup: u32,
    /// Samples wanted of each measurement.
    pub samples: u32,
    /// A measurement stops early when its samples have taken this long together, in seconds.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub budget_s: f64,
    /// Regions shorter than this are repeated between two events until they are longer, and divided; in microseconds.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub batch_below_us: f64,
    /// The data of the problems.
    pub inputs: Inputs,
}

/// What the compiler and the device say of one kernel of a rung.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelStats {
    /// Path of its source below `kernels/`.
    pub file: String,
    /// Name of its entry.
    pub entry: String,
    /// The architecture it was compiled for, as in "sm_90".
    pub architecture: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Static shared memory of a block in bytes.
    pub static_shared_bytes: u32,
    /// Dynamic shared memory of a block in bytes.
    #[serde(default)]
    pub dynamic_shared_bytes: u32,
    /// Bytes of registers spilled to local memory by stores, a thread.
    pub spill_store_bytes: u32,
    /// The same by loads.
    pub spill_load_bytes: u32,
    /// Grid of the launch, where there was one.
    #[serde(default)]
    pub grid: Option<[u32; 3]>,
    /// Block of the launch, where there was one.
    #[serde(default)]
    pub block: Option<[u32; 3]>,
    /// Blocks per SM that are resident at once, where a device could be asked.
    #[serde(default)]
    pub blocks_per_multiprocessor: Option<u32>,
    /// Resident warps over the most that an SM holds, where a device could be asked.
    #[serde(default)]
    pub occupancy: Option<f64>,
}

/// One rung at one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measurement {
    /// The id of its [`Rung`](crate::Rung).
    pub rung: String,
    /// The work, by the id of its [`Problem`].
    #[serde(with = "by_id")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub problem: Problem,
    /// The id of the tile it ran with, where the rung has tiles.
    #[serde(default)]
    pub tile: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// Times of the timed region in microseconds, in the order they were taken.
    #[serde(default, with = "crate::format::real::many")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::format::real::Real>"))]
    pub samples_us: Vec<f64>,
    /// How many samples were taken; more than are kept where there were over a thousand.
    #[serde(default)]
    pub samples_total: u64,
    /// Times of the same regions by the host's clock, launch and final synchronisation included, in microseconds.
    #[serde(default, with = "crate::format::real::many")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::format::real::Real>"))]
    pub wall_us: Vec<f64>,
    /// Its result against the reference.
    #[serde(default)]
    pub check: Option<Check>,
    /// Its kernels.
    #[serde(default)]
    pub kernels: Vec<KernelStats>,
    /// What a rule chose for this size, and why, where a rung has such a rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
    /// The bytes that it reads and writes at each level of memory, counted, not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<Traffic>,
    /// Its floating-point operations, where they are not those of the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flops: Option<u64>,
    /// The type that most of them are done in, where it is not that of the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Dtype>,
    /// The most bytes of the device's memory that it held, inputs included, where that was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// The GPUs that it ran on, where it was more than one; its operations and its traffic are those of all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Test samples that were classified right, one entry a sample of the time and in the same order, where each sample is a whole training.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub test: Vec<Right>,
    /// Steps of the optimiser in each sample, where each sample is a whole training of a number of steps that is known before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Findings and counts of the emulator, where the rung ran there. Such a row is skipped or failed, and has no samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulated: Option<Box<Emulated>>,
}

/// Bytes that a rung moves at a level of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Traffic {
    /// Where they are read from or written to.
    pub level: MemoryLevel,
    /// How many in the timed region.
    pub bytes: u64,
}

impl Measurement {
    /// One without samples.
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

    /// Creates the row of a rung whose result was right in the emulator, which knows no time.
    #[must_use]
    pub fn emulated(rung: impl Into<String>, problem: Problem, check: Check, found: Emulated) -> Self {
        let outcome = Outcome::Skipped { why: Emulated::NO_TIME.into() };
        let emulated = Some(Box::new(found));
        Self { check: Some(check), emulated, ..Self::without_samples(rung, problem, outcome) }
    }

    /// Returns true if it ran in the emulator, with the right result and without a finding.
    #[must_use]
    pub fn is_right_in_emulator(&self) -> bool {
        let is_clean = self.emulated.as_ref().is_some_and(|e| e.finding.is_none());
        is_clean && self.check.as_ref().is_some_and(|c| c.passed) && !matches!(self.outcome, Outcome::Failed { .. })
    }

    /// Stores samples and their wall times, the first thousand of each.
    pub fn set_samples(&mut self, samples_us: Vec<f64>, wall_us: Vec<f64>) {
        self.samples_total = samples_us.len() as u64;
        self.samples_us = samples_us;
        self.wall_us = wall_us;
        self.samples_us.truncate(MAX_SAMPLES);
        self.wall_us.truncate(MAX_SAMPLES);
    }

    /// Whether it may be drawn: measured, with samples, and its check passed.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.outcome == Outcome::Measured
            && self.check.as_ref().is_some_and(|c| c.passed)
            && self.median_us().is_some_and(f64::is_finite)
    }

    /// Median of the samples in microseconds.
    #[must_use]
    pub fn median_us(&self) -> Option<f64> {
        stats::median(&self.samples_us)
    }

    /// Median absolute deviation of the samples in microseconds.
    #[must_use]
    pub fn mad_us(&self) -> Option<f64> {
        stats::mad(&self.samples_us)
    }

    /// Median of the wall times in microseconds.
    #[must_use]
    pub fn median_wall_us(&self) -> Option<f64> {
        stats::median(&self.wall_us)
    }

    /// Mean of the accuracies of [`Measurement::test`], and their standard deviation as that of a sample (0 of a single one); both from 0 to 1.
    /// `None` where there are none, or one of them is of no samples.
    #[must_use]
    pub fn accuracy(&self) -> Option<(f64, f64)> {
        let all = self.test.iter().map(|right| right.accuracy()).collect::<Option<Vec<f64>>>()?;
        stats::moments(&all)
    }

    /// Microseconds a pass, as an epoch, of work with several passes.
    #[must_use]
    pub fn pass_us(&self) -> Option<f64> {
        (self.problem.passes > 1).then_some(self.median_us()? / self.problem.passes as f64)
    }

    /// Items a second, of work that has items.
    #[must_use]
    pub fn items_per_s(&self) -> Option<f64> {
        Some(self.problem.items? as f64 / (self.median_us()? * 1e-6))
    }

    /// Bytes a second that reading every input once a pass amounts to. A rung that also writes and re-reads
    /// intermediates moves more than this, and a rung that keeps its data on the chip less.
    #[must_use]
    pub fn effective_bytes_per_s(&self) -> Option<f64> {
        Some(self.problem.bytes as f64 / (self.median_us()? * 1e-6))
    }

    /// Operations of the timed region.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.flops.unwrap_or_else(|| self.problem.flops)
    }

    /// The GPUs that it ran on.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.gpus.unwrap_or(1).max(1)
    }

    /// The type that most of its operations are done in.
    #[must_use]
    pub fn arithmetic_type(&self) -> Dtype {
        self.dtype.unwrap_or(self.problem.dtype)
    }

    /// Whether it reaches the same result with less than half of the problem's operations. Such a rung is not ranked with the
    /// others: its time says nothing about how well the work is done.
    #[must_use]
    pub fn does_less(&self) -> bool {
        self.operations().saturating_mul(2) < self.problem.flops
    }

    /// FLOP/s, counting [`Measurement::operations`].
    #[must_use]
    pub fn flops_per_s(&self) -> Option<f64> {
        Some(self.operations() as f64 / (self.median_us()? * 1e-6))
    }

    /// The effective bandwidth over a ceiling's.
    #[must_use]
    pub fn fraction_of(&self, peak: &BandwidthPeak) -> Option<f64> {
        let ceiling = peak.bytes_per_s();
        (ceiling > 0.0).then_some(self.effective_bytes_per_s()? / ceiling)
    }
}

/// A loss at an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LossPoint {
    /// Epochs done when the loss was taken, counted from 1; the loss is that of the weights the epoch began with.
    pub epoch: u64,
    /// Steps done when the loss was taken, counted from 1, where losses are logged by the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// The loss.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub loss: f64,
}

/// What a training gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrainLog {
    /// The id of its rung.
    pub rung: String,
    /// The work, by the id of its [`Problem`].
    #[serde(with = "by_id")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub problem: Problem,
    /// The logged losses.
    #[serde(default)]
    pub losses: Vec<LossPoint>,
    /// Final parameters by name, as "w" and "b".
    #[serde(default, with = "crate::format::real::map")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, crate::format::real::Real>"))]
    pub parameters: BTreeMap<String, f64>,
    /// Loss of the final parameters on the training points.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub train_loss: f64,
    /// Loss of the final parameters on the test points; NaN where there are none.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub test_loss: f64,
    /// How it went, of a training that was watched step by step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<Box<Course>>,
}

impl TrainLog {
    /// Whether a loss or a parameter is no longer a finite number.
    #[must_use]
    pub fn diverged(&self) -> bool {
        !self.train_loss.is_finite()
            || self.losses.iter().any(|p| !p.loss.is_finite())
            || self.parameters.values().any(|p| !p.is_finite())
    }
}

/// What a group of parts takes apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PartGroup {
    /// The kernels of one pass, each timed alone; together they are the pass.
    Operation,
    /// The fused pass with one of its parts left out; the difference to the whole is what the part costs.
    Ablation,
    /// The whole work with another of the rung's tiles; the part's name is the tile's id.
    Tile,
    /// The copies that a result on the host needs: "to the device", "to the host". Records of format 1 also have "compute".
    Transfer,
    /// What a process does from its start on, one after the other: "import", "data", "train". Together they are the process, or nearly.
    Phase,
    /// One that this version does not know.
    #[serde(other)]
    Other,
}

/// The time of a part of a rung.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// The id of its rung; empty for a part that all rungs share.
    pub rung: String,
    /// The work that it is a part of, by its id; the times are of one pass (one epoch) of it.
    #[serde(with = "by_id")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub problem: Problem,
    /// What it belongs to.
    pub group: PartGroup,
    /// Its name, as "forward" or "without loss".
    pub name: String,
    /// Times in microseconds.
    #[serde(with = "crate::format::real::many")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::format::real::Real>"))]
    pub samples_us: Vec<f64>,
}

impl Part {
    /// Median of the samples in microseconds.
    #[must_use]
    pub fn median_us(&self) -> Option<f64> {
        stats::median(&self.samples_us)
    }
}

/// An interval on a timeline: a kernel, a copy, or work of the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Span {
    /// The id of its rung; empty for work that belongs to no rung.
    #[serde(default)]
    pub rung: String,
    /// The work, by its id.
    #[serde(with = "by_id")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub problem: Problem,
    /// Its name, as that of a kernel.
    pub name: String,
    /// What it belongs to, as "conv1 weight gradient", where that is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub operation: String,
    /// The stream it ran on, as "0"; "host" for work of the host.
    pub stream: String,
    /// Its start in microseconds, from the start of the timeline.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub start_us: f64,
    /// How long it took, in microseconds.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub duration_us: f64,
    /// Bytes of a copy or a fill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The number of the call of the driver that led to it: that of all that one launch of a graph did is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<u32>,
}

impl Span {
    /// Its end in microseconds, from the start of the timeline.
    #[must_use]
    pub fn end_us(&self) -> f64 {
        self.start_us + self.duration_us
    }

    /// Bytes a second of a copy or a fill.
    #[must_use]
    pub fn bytes_per_s(&self) -> Option<f64> {
        let bytes = self.bytes.filter(|_| self.duration_us > 0.0)?;
        Some(bytes as f64 / (self.duration_us * 1e-6))
    }
}
