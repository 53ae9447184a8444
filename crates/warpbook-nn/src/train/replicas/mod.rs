//! Data-parallel training in one process: one thread drives all devices.
//!
//! This is the slower of the two methods, like PyTorch's `DataParallel` compared with `DistributedDataParallel`. In every step the first
//! device's weights are copied to all others (*broadcast*), each device takes its part of the batch (*scatter*), all gradients are copied
//! to the first and added there (*gather*), and the first alone updates its weights. So one link carries everything, the backward pass
//! hides none of it, the optimiser's work is not shared, and one thread launches the kernels of all devices. [`super::Ranks`] has none of
//! these limits.

mod cpu;

use super::cuda::CudaReplicas;
use super::cuda::SLOTS;
use super::engine::StepOutcome;
use super::{Place, Recipe, Samples, TrainError};
use crate::weights::Weights;
use cpu::CpuReplicas;
use warpbook_data::parallel::collect;
use warpbook_data::philox;
use warpbook_ranks::{Shard, shard};

/// The interface of a network's replicas.
pub(super) trait Replicas: std::fmt::Debug + Send {
    /// Prepares steps with the whole batches of this order, which are then repeated.
    fn prepare(&mut self, batches: &PreparedSamples<'_>) -> Result<(), TrainError>;

    /// Makes the next step, or queues it.
    fn step(&mut self) -> Result<(), TrainError>;

    /// Waits for queued steps.
    fn wait(&mut self) -> Result<(), TrainError>;

    /// Waits for the last `count` steps and returns their outcomes on each replica, the oldest first.
    fn outcomes(&mut self, count: usize) -> Result<Vec<Vec<StepOutcome>>, TrainError>;

    /// Reads the weights of the first replica, in PyTorch's layout.
    fn weights(&self) -> Result<Weights, TrainError>;

    /// Returns the number of bytes that a step copies from the first replica to each other one, and back.
    fn copied_bytes(&self) -> [u64; 2];
}

/// Samples of the prepared steps, which are repeated.
#[derive(Debug, Clone, Copy)]
pub(super) struct PreparedSamples<'a> {
    pub set: Samples<'a>,
    /// Indices of the samples of [`SLOTS`] global batches.
    pub indices: &'a [u32],
    pub batch: usize,
    pub learning_rate: f64,
}

impl PreparedSamples<'_> {
    /// Returns a replica's samples of all batches.
    pub fn part(&self, shard: &Shard) -> Vec<u32> {
        self.indices.chunks(self.batch).flat_map(|batch| batch[shard.range()].iter().copied()).collect()
    }
}

/// A training on several devices, driven by one thread. It repeats prepared steps, for measurements, like [`super::Trainer::queue_step`].
#[derive(Debug)]
pub struct DataParallel {
    recipe: Recipe,
    shards: Vec<Shard>,
    replicas: Box<dyn Replicas>,
}

impl DataParallel {
    /// Creates a training on these devices, the first of which holds the weights. If [`Place::Cpu`] is given several times, as many replicas
    /// work one after another on the CPU. The recipe's batch is the global batch.
    ///
    /// # Errors
    /// If there is no device, or devices differ in kind or options; for fp16, whose loss scale would be known to only one replica; if the
    /// batch cannot be split, or is computed in parts; for the reasons that [`super::Trainer::on`] states.
    pub fn new<'a>(
        places: &[Place],
        recipe: Recipe,
        data: impl Into<Samples<'a>>,
        weights: Option<&Weights>,
    ) -> Result<Self, TrainError> {
        let data = data.into();
        data.check(&recipe)?;
        let (batch, n) = (recipe.batch, places.len());
        let shards: Vec<Shard> = (0..n).map(|i| shard(batch, i, n)).collect();
        if n == 0 || batch < n {
            return Err(TrainError::Setting(format!(
                "A batch of {batch} cannot be split over {n} devices: name at least one device, and at least one sample per device."
            )));
        }
        if recipe.accumulate > 1 {
            return Err(TrainError::Setting(format!(
                "Gradients cannot be accumulated on several devices of one process: leave out accumulate = {}, or train with one rank per device.",
                recipe.accumulate
            )));
        }
        let initial = weights.map_or_else(|| recipe.initial_weights(data), |w| Ok(w.clone()))?;
        let replicas: Box<dyn Replicas> = if places.iter().all(|place| *place == Place::Cpu) {
            Box::new(CpuReplicas::new(&recipe, &shards, &initial)?)
        } else {
            Box::new(CudaReplicas::new(places, &recipe, &shards, &initial)?)
        };
        Ok(Self { recipe, shards, replicas })
    }

    /// Returns the number of devices, each of which has one replica.
    #[must_use]
    pub fn devices(&self) -> usize {
        self.shards.len()
    }

    /// Prepares whole batches of a first epoch, which [`DataParallel::queue_step`] repeats; they equal the batches of
    /// [`super::Trainer::prepare_steps`] with the same recipe.
    ///
    /// # Errors
    /// If there are fewer samples than a batch has; if the device reports an error.
    pub fn prepare_steps<'a>(&mut self, set: impl Into<Samples<'a>>) -> Result<(), TrainError> {
        let (set, batch): (Samples<'_>, usize) = (set.into(), self.recipe.batch);
        set.check(&self.recipe)?;
        let n = set.len();
        if n < batch {
            let plural = if n == 1 { "" } else { "s" };
            let why = format!("The data set has {n} sample{plural}, fewer than a batch of {batch}.");
            return Err(TrainError::Setting(why));
        }
        let (shuffle, seed) = (self.recipe.shuffle, self.recipe.seed ^ 1 << 32);
        let place = |i: u64| if shuffle { philox::permute(seed, i, n as u64) } else { i };
        let order: Vec<u32> = collect(n, &|i| place(i as u64) as u32);
        let indices: Vec<u32> = order[..n / batch * batch].iter().cycle().copied().take(SLOTS * batch).collect();
        let learning_rate = self.recipe.learning_rate;
        self.replicas.prepare(&PreparedSamples { set, indices: &indices, batch, learning_rate })
    }

    /// Makes the next prepared step; on GPUs it is queued.
    ///
    /// # Errors
    /// If no steps were prepared; if the device reports an error.
    pub fn queue_step(&mut self) -> Result<(), TrainError> {
        self.replicas.step()
    }

    /// Waits for the queued steps on all devices.
    ///
    /// # Errors
    /// If the device reports an error.
    pub fn wait(&mut self) -> Result<(), TrainError> {
        self.replicas.wait()
    }

    /// Waits for the last queued steps, at most 128, and returns their outcomes over the global batches, the oldest first.
    ///
    /// # Errors
    /// If the device reports an error.
    pub fn step_outcomes(&mut self, count: usize) -> Result<Vec<StepOutcome>, TrainError> {
        let all = self.replicas.outcomes(count)?;
        let steps = all.iter().map(Vec::len).min().unwrap_or(0);
        let global_outcome = |step: usize| {
            let parts = || all.iter().map(|outcomes| outcomes[step]).zip(&self.shards);
            StepOutcome {
                loss: parts().map(|(o, shard)| o.loss * shard.weight()).sum(),
                correct: parts().map(|(o, _)| o.correct).sum(),
                ..all[0][step]
            }
        };
        Ok((0..steps).map(global_outcome).collect())
    }

    /// Reads the current weights.
    ///
    /// # Errors
    /// If the device reports an error.
    pub fn weights(&self) -> Result<Weights, TrainError> {
        self.replicas.weights()
    }

    /// Returns the number of bytes that a step copies between devices: weights to all devices except the first, and gradients back to the first.
    #[must_use]
    pub fn copied_bytes(&self) -> [u64; 2] {
        let others = self.devices() as u64 - 1;
        self.replicas.copied_bytes().map(|bytes| bytes * others)
    }
}
