use serde::{Deserialize, Serialize};

/// The most points that a list of a [`Course`] keeps.
pub const MAX_POINTS: usize = 20_000;

/// How a training went, step by step. Its losses are those of the [`TrainLog`](crate::TrainLog) that it belongs to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Course {
    /// What was trained, and how, in words: names as "optimiser", each with what it was.
    #[serde(default)]
    pub recipe: Vec<(String, String)>,
    /// What the samples are, as "MNIST: the original files"; also whether they were drawn by a program.
    #[serde(default)]
    pub data: String,
    /// Steps that a logged loss is the mean of, the last of an epoch of fewer; 1 where every step is logged.
    #[serde(default)]
    pub log_every: u64,
    /// Steps before the first, of a training that was gone on with.
    #[serde(default)]
    pub first_step: u64,
    /// Steps that were made since the beginning.
    #[serde(default)]
    pub steps: u64,
    /// Steps of a whole epoch.
    #[serde(default)]
    pub steps_per_epoch: u64,
    /// The learning rate: a point where it changed.
    #[serde(default)]
    pub learning_rates: Vec<StepValue>,
    /// What the loss was multiplied by before the backward pass, where it was: a point where that changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loss_scales: Vec<StepValue>,
    /// Steps that left the weights as they were since a gradient had overflowed, counted from 1; the first [`MAX_POINTS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped_steps: Vec<u64>,
    /// How many such steps there were.
    #[serde(default)]
    pub skipped_total: u64,
    /// The norm of all gradients before they were clipped, where it was computed: the mean over the steps of a logged loss, those
    /// that were skipped left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gradient_norms: Vec<StepValue>,
    /// The evaluations.
    #[serde(default)]
    pub epochs: Vec<EpochPoint>,
    /// Seconds of all of it, evaluations included.
    #[serde(with = "crate::format::real::one", default)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub total_s: f64,
    /// The most bytes that the training asked its device for, samples included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_allocated_bytes: Option<u64>,
    /// The most bytes by which the device's free memory became less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_reserved_bytes: Option<u64>,
    /// Why it ended, in a few words, as "finished"; empty while it goes on.
    #[serde(default)]
    pub ended: String,
}

impl Course {
    /// Steps that it made itself.
    #[must_use]
    pub fn made(&self) -> u64 {
        self.steps.saturating_sub(self.first_step)
    }
}

/// A value from a step on, or at it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepValue {
    /// The step, counted from 1.
    pub step: u64,
    /// The value.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub value: f64,
}

/// An evaluation after an epoch, or where a training ended within one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EpochPoint {
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// Steps since the beginning.
    pub step: u64,
    /// Seconds of the epoch's steps.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub seconds: f64,
    /// The mean loss of its batches, as they were trained on.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub train_loss: f64,
    /// The loss over the test samples.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub test_loss: f64,
    /// Training samples that were classified as their labels say, as they were trained on; absent without labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train: Option<Right>,
    /// The same of the test samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Right>,
}

/// Samples that were classified as their labels say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Right {
    /// How many.
    pub correct: u64,
    /// Of how many.
    pub of: u64,
}

impl Right {
    /// The share that is right, from 0 to 1; `None` where there were no samples.
    #[must_use]
    pub fn accuracy(self) -> Option<f64> {
        (self.of > 0).then(|| self.correct as f64 / self.of as f64)
    }
}
