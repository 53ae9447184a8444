//! The interface between a device and a trainer.

use super::{Samples, Score, TrainError};
use crate::weights::Weights;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use warpbook_gemm::Finding;
use warpbook_ranks::Shard;

/// Consecutive batches of an epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batches<'a> {
    /// Samples from which the batches are taken.
    pub set: Samples<'a>,
    /// Indices of the samples of all batches, in order.
    pub indices: &'a [u32],
    /// Samples per batch; the last one may be smaller.
    pub size: usize,
    /// Learning rate of each batch, in the order of the batches.
    pub learning_rates: &'a [f64],
    /// Number of earlier steps.
    pub step: u64,
    /// If several ranks train, this rank's part of each global batch; otherwise empty. `indices` then holds the samples of the
    /// parts. Each part has at least one sample, which does not count if the part is empty.
    pub shards: &'a [Shard],
}

impl<'a> Batches<'a> {
    /// Returns the indices of the samples of each batch, in order.
    pub fn each(&self) -> Vec<&'a [u32]> {
        if self.shards.is_empty() {
            return self.indices.chunks(self.size).collect();
        }
        let mut rest = self.indices;
        let next = |shard: &Shard| {
            let (batch, after) = rest.split_at(shard.len.max(1));
            rest = after;
            batch
        };
        self.shards.iter().map(next).collect()
    }
}

/// The steps and evaluations that a training is going to launch, for planning their kernels.
#[derive(Debug, Clone)]
pub(crate) struct Ahead<'a> {
    pub train: Samples<'a>,
    /// Steps that are going to be made, counted from 0.
    pub steps: Range<u64>,
    /// Number of this rank's samples in a whole batch and in the last batch of an epoch, with the part that they form if several ranks train.
    pub batches: [(usize, Option<Shard>); 2],
    /// Samples of the evaluations, and the range that this rank evaluates; `None` if nothing is going to be evaluated.
    pub test: Option<(Samples<'a>, Range<usize>)>,
}

/// The outcome of a training step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepOutcome {
    /// Mean loss of the step's batch.
    pub loss: f64,
    /// Number of correctly classified samples; 0 for a loss without labels.
    pub correct: usize,
    /// True if the weights were left unchanged because a gradient overflowed.
    pub skipped: bool,
    /// Scale of the loss in the backward pass, if it is scaled.
    pub loss_scale: Option<f32>,
    /// Norm of all gradients before they were clipped, if it is computed.
    pub gradient_norm: Option<f64>,
}

/// An operation of a step on a GPU, such as "conv1 weight gradient", with its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepOperation {
    /// Name, such as "conv1 weight gradient".
    pub name: String,
    /// Floating-point operations of convolutions and linear layers, a multiply-add counted as two; 0 for other operations.
    pub flops: u64,
    /// Smallest number of bytes that the operation has to read and write: each array of a batch and each weight once. 0 if negligible.
    pub bytes: u64,
    /// Bytes written (a part of `bytes`).
    pub written_bytes: u64,
}

/// Callback after each operation of a step.
pub(crate) type AfterOperation<'a> = &'a mut dyn FnMut(&StepOperation) -> Result<(), TrainError>;

/// The result of training several steps.
#[derive(Debug, Default)]
pub(crate) struct TrainedSteps {
    /// Outcomes of the steps with a finite loss.
    pub outcomes: Vec<StepOutcome>,
    /// The reason why the next step was not made.
    pub broken: Option<Broken>,
}

/// A step whose loss is not finite; the weights are restored to their values before the step.
#[derive(Debug)]
pub(crate) struct Broken {
    pub loss: f64,
    /// The first operation with an output that is not finite.
    pub layer: String,
}

impl Broken {
    /// Returns the error that ends a training; `step` counts from 1.
    pub fn error(&self, step: u64) -> TrainError {
        TrainError::NotFinite(format!(
            "Step {step}: the loss is {}; the first value that is not a finite number is the output of {}. Lower the learning rate, or clip \
             the gradients.",
            self.loss, self.layer
        ))
    }
}

/// The complete state from which a training continues.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    pub weights: Weights,
    /// Optimiser state, one set per slot.
    pub slots: Vec<Weights>,
    /// Number of steps that changed the weights.
    pub updates: u64,
    /// State of the loss scale; `None` if the loss is not scaled.
    pub scaler: Option<ScalerState>,
    /// Kernels chosen so far for the matrix products on a GPU; other kernels would give other bits.
    pub kernels: Vec<Finding>,
}

/// The state of a gradient scaler.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ScalerState {
    /// Factor by which the loss is multiplied.
    pub scale: f32,
    /// Number of steps without an overflow since the scale last changed.
    pub steps: u32,
}

/// A network that is trained on a device.
pub(crate) trait Engine: std::fmt::Debug + Send {
    /// Returns the largest number of steps in one call of [`Engine::train`].
    fn steps_at_once(&self) -> usize;

    /// Makes a step for each batch, until a loss is not finite.
    fn train(&mut self, batches: &Batches<'_>) -> Result<TrainedSteps, TrainError>;

    /// Computes loss and accuracy over these samples of a data set, without dropout and augmentation.
    fn evaluate(&mut self, set: Samples<'_>, part: Range<usize>) -> Result<Score, TrainError>;

    /// Copies samples to the device, and chooses and compiles all kernels of these steps and evaluations, so that they are launched without a delay.
    /// Returns false if the engine has nothing to prepare, as on the CPU.
    fn make_ready(&mut self, _ahead: &Ahead<'_>) -> Result<bool, TrainError> {
        Ok(false)
    }

    /// Returns true if no step was made yet, so that the optimiser's state is zero.
    fn state_is_fresh(&self) -> bool {
        false
    }

    /// Prepares steps with these batches, which [`Engine::queue_step`] repeats.
    fn prepare_steps(&mut self, batches: &Batches<'_>) -> Result<(), TrainError>;

    /// Queues the next prepared step without waiting for it; the CPU runs the step at once.
    fn queue_step(&mut self) -> Result<(), TrainError>;

    /// Makes the next prepared step one operation at a time, waiting for each.
    fn step_by_operation(&mut self, _after: AfterOperation<'_>) -> Result<(), TrainError> {
        Err(TrainError::Setting(
            "Only a GPU can run a step one operation at a time: choose one, such as cuda:0.".into(),
        ))
    }

    /// Waits for the queued steps, as long as all ranks are alive.
    fn wait(&mut self) -> Result<(), TrainError>;

    /// Waits for the last `count` queued steps and returns their outcomes.
    fn step_outcomes(&mut self, count: usize) -> Result<Vec<StepOutcome>, TrainError>;

    /// Returns the stream of queued steps; `None` on the CPU.
    fn stream(&self) -> Option<std::sync::Arc<warpbook_device::Stream>>;

    /// Reads the weights in PyTorch's layout.
    fn weights(&self) -> Result<Weights, TrainError>;

    /// Reads the gradients of the last step in PyTorch's layout; zeros for untrained parameters.
    fn gradients(&self) -> Result<Weights, TrainError>;

    /// Returns the state for a checkpoint.
    fn state(&self) -> Result<State, TrainError>;

    /// Restores the state of a checkpoint.
    fn restore(&mut self, state: &State) -> Result<(), TrainError>;

    /// Returns the largest number of bytes held so far.
    fn peak_bytes(&self) -> u64;

    /// Returns the largest decrease of the device's free memory in bytes; `None` on the CPU.
    fn reserved_bytes(&self) -> Option<u64> {
        None
    }
}
