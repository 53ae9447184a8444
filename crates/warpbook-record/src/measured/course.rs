use serde::{Deserialize, Serialize};

/// Maximum number of points in each list of a [`Course`].
pub const MAX_POINTS: usize = 20_000;

/// The course of a training, step by step. Its losses are in the [`TrainLog`](crate::TrainLog) that it belongs to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Course {
    /// The recipe of the training: names such as "optimiser", each with its value.
    #[serde(default)]
    pub recipe: Vec<(String, String)>,
    /// Description of the samples, such as "MNIST: the original files"; the description says so if the samples are
    /// synthetic.
    #[serde(default)]
    pub data: String,
    /// Number of steps that a logged loss is averaged over; the last loss of an epoch may cover fewer. 1 if every step
    /// is logged.
    #[serde(default)]
    pub log_every: u64,
    /// Number of steps made before this training, if it resumed an earlier one.
    #[serde(default)]
    pub first_step: u64,
    /// Number of steps since the beginning, including earlier trainings that this one resumed.
    #[serde(default)]
    pub steps: u64,
    /// Number of steps in a whole epoch.
    #[serde(default)]
    pub steps_per_epoch: u64,
    /// Learning rate, with a point for each change.
    #[serde(default)]
    pub learning_rates: Vec<StepValue>,
    /// Loss scale, if the loss was scaled before the backward pass, with a point for each change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loss_scales: Vec<StepValue>,
    /// Steps that left the weights unchanged because a gradient had overflowed, counted from 1; only the first
    /// [`MAX_POINTS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped_steps: Vec<u64>,
    /// Number of skipped steps.
    #[serde(default)]
    pub skipped_total: u64,
    /// Norm of all gradients before clipping, if it was computed. Each point is the mean over the steps of a logged
    /// loss, without skipped steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gradient_norms: Vec<StepValue>,
    /// Evaluations of the network.
    #[serde(default)]
    pub epochs: Vec<EpochPoint>,
    /// Total time in seconds, evaluations included.
    #[serde(with = "crate::format::real::one", default)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub total_s: f64,
    /// Time in seconds in which kernels were chosen, timed and compiled before the first step. It is no part of
    /// `total_s`, except in older records, which lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planning_s: Option<f64>,
    /// Peak number of bytes that the training requested from its device, including the samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_allocated_bytes: Option<u64>,
    /// The largest decrease of the device's free memory in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_reserved_bytes: Option<u64>,
    /// Reason why the training ended, in a few words, such as "finished"; empty while it runs.
    #[serde(default)]
    pub ended: String,
}

impl Course {
    /// Returns the number of steps made in this training.
    #[must_use]
    pub fn made(&self) -> u64 {
        self.steps.saturating_sub(self.first_step)
    }

    /// Returns true if the training made all of its steps.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.ended == "finished"
    }
}

/// A value at a step, or from that step onwards.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepValue {
    /// The step, counted from 1.
    pub step: u64,
    /// Value at this step.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub value: f64,
}

/// An evaluation at the end of an epoch, or at the end of a training that stops within one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EpochPoint {
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// Number of steps since the beginning.
    pub step: u64,
    /// Time of the epoch's steps in seconds.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub seconds: f64,
    /// Mean loss of the epoch's batches, taken during training.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub train_loss: f64,
    /// Loss over the test samples.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub test_loss: f64,
    /// Correctly classified training samples, as counted during training; absent without labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train: Option<Right>,
    /// Correctly classified test samples; absent without labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Right>,
}

/// A count of correctly classified samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Right {
    /// Number of correctly classified samples.
    pub correct: u64,
    /// Number of all samples.
    pub of: u64,
}

impl Right {
    /// Returns the accuracy from 0 to 1; `None` without samples.
    #[must_use]
    pub fn accuracy(self) -> Option<f64> {
        (self.of > 0).then(|| self.correct as f64 / self.of as f64)
    }
}
