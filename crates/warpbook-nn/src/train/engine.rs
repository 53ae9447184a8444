//! What a trainer needs of a device.

use super::{Samples, Score, TrainError};
use crate::weights::Weights;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use warpbook_gemm::Finding;
use warpbook_ranks::Shard;

/// Batches of an epoch, one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batches<'a> {
    /// What they are of.
    pub set: Samples<'a>,
    /// The samples of all the batches, in their order.
    pub indices: &'a [u32],
    /// Samples of a batch; the last one may be smaller.
    pub size: usize,
    /// The learning rate of each batch.
    pub learning_rates: &'a [f64],
    /// Steps that were made before.
    pub step: u64,
    /// Where several ranks train, this rank's part of each global batch; `indices` are the samples of the parts, each with one sample at least,
    /// which does not count where the part is empty. Otherwise empty.
    pub shards: &'a [Shard],
}

impl<'a> Batches<'a> {
    /// The samples of each batch, one after the other.
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

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepOutcome {
    /// The mean loss of its batch.
    pub loss: f64,
    /// Samples of the batch that were classified as their labels say; 0 of a loss without labels.
    pub correct: usize,
    /// Whether the weights were left as they were, since a gradient had overflowed.
    pub skipped: bool,
    /// What the loss was multiplied by before the backward pass, where it is scaled.
    pub loss_scale: Option<f32>,
    /// The norm of all gradients before they were clipped, where it is computed.
    pub gradient_norm: Option<f64>,
}

/// An operation of a step on a GPU, as "conv1 weight gradient", with its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepOperation {
    /// Its name.
    pub name: String,
    /// Floating-point operations of convolutions and linear layers, a multiply-add counted as two; 0 of others.
    pub flops: u64,
    /// The bytes that it has to read and write at least: each array of a batch and each weight once. 0 of what is next to nothing.
    pub bytes: u64,
    /// Those of them that are written.
    pub written_bytes: u64,
}

/// What is called after each operation of a step.
pub(crate) type AfterOperation<'a> = &'a mut dyn FnMut(&StepOperation) -> Result<(), TrainError>;

/// Steps that were made.
#[derive(Debug, Default)]
pub(crate) struct Trained {
    /// One for each step with a finite loss.
    pub outcomes: Vec<StepOutcome>,
    /// Why the next step was not made.
    pub broken: Option<Broken>,
}

/// A step whose loss is no finite number; the weights are those before it.
#[derive(Debug)]
pub(crate) struct Broken {
    pub loss: f64,
    /// The first operation with an output that is no finite number.
    pub layer: String,
}

impl Broken {
    /// The error that ends a training; `step` counts from 1.
    pub fn error(&self, step: u64) -> TrainError {
        TrainError::NotFinite(format!(
            "Step {step}: the loss is {}; the first value that is not a finite number is the output of {}. Lower the learning rate, or clip \
             the gradients.",
            self.loss, self.layer
        ))
    }
}

/// All that a training goes on with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    pub weights: Weights,
    /// One set for each slot of the optimiser.
    pub slots: Vec<Weights>,
    /// Steps that changed the weights.
    pub updates: u64,
    /// The loss scale, where there is one.
    pub scaler: Option<ScalerState>,
    /// The kernels that its matrix products have so far, on a GPU: with others it would go on to other bits.
    pub kernels: Vec<Finding>,
}

/// A gradient scaler's memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ScalerState {
    /// What the loss is multiplied by.
    pub scale: f32,
    /// Steps without an overflow since it last changed.
    pub steps: u32,
}

/// A network that is trained on a device.
pub(crate) trait Engine: std::fmt::Debug + Send {
    /// The most steps of one call of [`Engine::train`].
    fn steps_at_once(&self) -> usize;

    /// Makes a step for each batch, until one has a loss that is no finite number.
    fn train(&mut self, batches: &Batches<'_>) -> Result<Trained, TrainError>;

    /// The loss and the accuracy over these samples of a data set, without dropout and augmentation.
    fn evaluate(&mut self, set: Samples<'_>, part: Range<usize>) -> Result<Score, TrainError>;

    /// Puts samples where they are to be, and prepares steps of batches of this size, and the evaluation.
    fn make_ready(&mut self, _train: (Samples<'_>, usize), _test: Samples<'_>) -> Result<(), TrainError> {
        Ok(())
    }

    /// Whether no step was made since it was new, so that the optimiser's state is zero.
    fn state_is_fresh(&self) -> bool {
        false
    }

    /// Prepares steps of these batches, to be made over and over by [`Engine::queue_step`].
    fn prepare_steps(&mut self, batches: &Batches<'_>) -> Result<(), TrainError>;

    /// Queues the next of the prepared steps without waiting for it; on the CPU it is made.
    fn queue_step(&mut self) -> Result<(), TrainError>;

    /// Makes the next of the prepared steps one operation at a time, each waited for.
    fn step_by_operation(&mut self, _after: AfterOperation<'_>) -> Result<(), TrainError> {
        Err(TrainError::Setting("A step is made one operation at a time on a GPU only.".into()))
    }

    /// Waits for the queued steps, as long as all ranks live.
    fn wait(&mut self) -> Result<(), TrainError>;

    /// What the last `count` queued steps came to; waits for them.
    fn step_outcomes(&mut self, count: usize) -> Result<Vec<StepOutcome>, TrainError>;

    /// The stream of queued steps; `None` on the CPU.
    fn stream(&self) -> Option<std::sync::Arc<warpbook_device::Stream>>;

    /// The weights in PyTorch's layout.
    fn weights(&self) -> Result<Weights, TrainError>;

    /// The gradients of the last step in PyTorch's layout; zero of what is not trained.
    fn gradients(&self) -> Result<Weights, TrainError>;

    /// All that a checkpoint keeps.
    fn state(&self) -> Result<State, TrainError>;

    /// Puts it back.
    fn restore(&mut self, state: &State) -> Result<(), TrainError>;

    /// The most bytes that it has held.
    fn peak_bytes(&self) -> u64;

    /// The most bytes by which the device's free memory became less; `None` on the CPU.
    fn reserved_bytes(&self) -> Option<u64> {
        None
    }
}
