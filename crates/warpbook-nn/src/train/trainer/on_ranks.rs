//! A trainer as one of several ranks.

use super::Trainer;
use crate::train::cuda::{is_half, rounded_params};
use crate::train::engine::Ahead;
use crate::train::{Place, Ranks, Recipe, Samples, TrainError, plan_buckets};
use crate::weights::Weights;
use std::ops::Range;
use warpbook_ranks::{Shard, Wire, shard};

impl Trainer {
    /// Creates a rank's trainer. The recipe's batch is the global batch; each rank has all weights, copied from rank 0.
    ///
    /// Every rank calls this function, and then the same methods in the same order: [`Trainer::resume`], [`Trainer::train`], [`Trainer::evaluate`]. On
    /// every rank, losses and scores cover the global batch and the whole data set; a listener that stops one rank stops all. Rank 0 writes
    /// the checkpoint. The same number of ranks gives the same bits on every run.
    ///
    /// # Errors
    /// Returns the same errors as [`Trainer::on`], and an error if recipes or data differ between ranks, or a rank is lost.
    pub fn on_ranks<'a>(
        place: &Place,
        recipe: Recipe,
        data: impl Into<Samples<'a>>,
        weights: Option<&Weights>,
        ranks: &Ranks,
    ) -> Result<Self, TrainError> {
        let data = data.into();
        let made = || {
            let batch = recipe.batch.min(data.len());
            let world = ranks.world();
            if batch < world {
                return Err(TrainError::Setting(format!(
                    "A batch of {batch} has fewer samples than the {world} ranks: choose a batch of at least {world}, or fewer ranks."
                )));
            }
            if matches!(place, Place::Cuda(..)) && !batch.is_multiple_of(world) {
                let (below, above) = (batch / world * world, batch.next_multiple_of(world));
                return Err(TrainError::Setting(format!(
                    "A batch of {batch} cannot be split evenly among {world} GPUs: choose {below} or {above}."
                )));
            }
            if let (Place::Cuda(_, cuda), wire) = (place, ranks.options().wire)
                && wire != Wire::F32
            {
                return Err(TrainError::Setting(format!(
                    "On GPUs, gradients are exchanged in the type of the precision, here {}: choose another precision instead of a type for gradients.",
                    cuda.precision.name()
                )));
            }
            if recipe.accumulate > 1 && ranks.options().synchronised_norm {
                let why = "Batch normalisation over all ranks needs the statistics of a whole batch, but accumulate splits the batch: leave one of them out.";
                return Err(TrainError::Setting(why.into()));
            }
            ranks.ensure_same_training(&recipe, data)?;
            let mut trainer = Self::build(place, recipe.clone(), data, weights, Some(ranks))?;
            trainer.share_state()?;
            Ok(trainer)
        };
        made().inspect_err(|why: &TrainError| ranks.aborter().abort(&why.to_string()))
    }

    /// Returns the trainer's rank, if the trainer is one of several ranks.
    #[must_use]
    pub fn ranks(&self) -> Option<&Ranks> {
        self.ranks.as_ref()
    }

    /// Returns the number of bytes of each bucket of gradients, in the order of their reduction, if several ranks train.
    #[must_use]
    pub fn buckets(&self) -> Vec<u64> {
        let Some(ranks) = &self.ranks else { return Vec::new() };
        let (options, network) = (ranks.options(), &self.recipe.network);
        let bytes = match self.place() {
            Place::Cpu => vec![options.wire.bytes(); network.params().len()],
            Place::Cuda(_, cuda) => {
                let rounded = rounded_params(network, is_half(cuda.precision.activations()));
                rounded.into_iter().map(|rounded| if rounded { 2 } else { 4 }).collect()
            }
        };
        plan_buckets(network, &bytes, options.bucket_bytes).into_iter().map(|b| b.bytes as u64).collect()
    }

    /// Returns true if this rank writes files for all ranks.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.ranks.as_ref().is_none_or(|ranks| ranks.rank() == 0)
    }

    /// Ends the work of the other ranks, if there are any.
    pub(super) fn abort(&self, why: &TrainError) {
        if let Some(ranks) = &self.ranks {
            ranks.aborter().abort(&why.to_string());
        }
    }

    /// Copies rank 0's state to this rank.
    pub(super) fn share_state(&mut self) -> Result<(), TrainError> {
        let Some(ranks) = self.ranks.clone() else { return Ok(()) };
        let (state, step) = ranks.share(&self.recipe.network, (self.engine.state()?, self.step))?;
        self.go_on(&state, step)
    }

    /// Returns the number of this rank's samples of a batch.
    pub(super) fn size(&self) -> usize {
        let batch = self.recipe.batch;
        self.ranks.as_ref().map_or(batch, |ranks| shard(batch, ranks.rank(), ranks.world()).len.max(1))
    }

    /// Returns this rank's samples of global batches, and its part of each; `None` and empty without other ranks.
    pub(super) fn shards(&self, indices: &[u32]) -> (Option<Vec<u32>>, Vec<Shard>) {
        let Some(ranks) = &self.ranks else { return (None, Vec::new()) };
        let (mut own, mut shards) = (Vec::new(), Vec::new());
        for batch in indices.chunks(self.recipe.batch) {
            let part = shard(batch.len(), ranks.rank(), ranks.world());
            // An empty part gets a placeholder sample, since every rank takes part in every step.
            own.extend_from_slice(if part.len == 0 { &batch[..1] } else { &batch[part.range()] });
            shards.push(part);
        }
        (Some(own), shards)
    }

    /// Returns the batches and evaluations that this rank is going to launch in these steps.
    pub(super) fn ahead<'a>(&self, train: Samples<'a>, steps: Range<u64>, test: Option<Samples<'a>>) -> Ahead<'a> {
        let (samples, size) = (train.len(), self.recipe.batch.min(train.len()).max(1));
        let last = match samples % size {
            0 => size,
            rest => rest,
        };
        let part = |len: usize| match &self.ranks {
            None => (len, None),
            Some(ranks) => {
                let part = shard(len, ranks.rank(), ranks.world());
                (part.len.max(1), Some(part))
            }
        };
        let test = test.map(|test| (test, self.part_of_evaluation(test.len())));
        Ahead { train, steps, batches: [size, last].map(part), test }
    }

    /// Returns the range of some samples that this rank evaluates.
    pub(super) fn part_of_evaluation(&self, samples: usize) -> Range<usize> {
        self.ranks.as_ref().map_or(0..samples, |ranks| shard(samples, ranks.rank(), ranks.world()).range())
    }

    /// Returns the number of steps to make next, by rank 0's clock.
    pub(super) fn agreed_steps(&self, steps: u64) -> Result<u64, TrainError> {
        match &self.ranks {
            Some(ranks) if self.limits().0.is_some() => ranks.broadcast_from_first(steps),
            _ => Ok(steps),
        }
    }

    /// Returns true if any rank was told to stop, and true if rank 0 is out of time.
    pub(super) fn agreed_end(&self, stops: bool, out_of_time: bool) -> Result<(bool, bool), TrainError> {
        let Some(ranks) = &self.ranks else { return Ok((stops, out_of_time)) };
        let all = ranks.any(&[stops, out_of_time && ranks.rank() == 0])?;
        Ok((all[0], all[1]))
    }
}
