//! Replicas on the CPU, which work one after another, with the same copies and sums as on GPUs.

use super::{PreparedSamples, Replicas};
use crate::train::cpu::{CpuTraining, Owned};
use crate::train::engine::StepOutcome;
use crate::train::{Recipe, TrainError};
use crate::weights::Weights;
use warpbook_ranks::Shard;

#[derive(Debug)]
pub(super) struct CpuReplicas {
    all: Vec<CpuTraining>,
    shards: Vec<Shard>,
    steps: Option<Steps>,
    made: usize,
    outcomes: Vec<Vec<StepOutcome>>,
}

#[derive(Debug)]
struct Steps {
    set: Owned,
    /// Samples of each replica.
    parts: Vec<Vec<u32>>,
    learning_rate: f64,
}

impl CpuReplicas {
    pub fn new(recipe: &Recipe, shards: &[Shard], weights: &Weights) -> Result<Self, TrainError> {
        let make = |shard: &Shard| CpuTraining::new(recipe, shard.len, weights, None);
        let all = shards.iter().map(make).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { outcomes: vec![Vec::new(); all.len()], all, shards: shards.to_vec(), steps: None, made: 0 })
    }
}

impl Replicas for CpuReplicas {
    fn prepare(&mut self, p: &PreparedSamples<'_>) -> Result<(), TrainError> {
        let parts = self.shards.iter().map(|shard| p.part(shard)).collect();
        self.steps = Some(Steps { set: Owned::new(p.set), parts, learning_rate: p.learning_rate });
        self.made = 0;
        self.outcomes.iter_mut().for_each(Vec::clear);
        Ok(())
    }

    fn step(&mut self) -> Result<(), TrainError> {
        let Some(steps) = &self.steps else { return Err(TrainError::Setting("No steps were prepared.".into())) };
        let (Some((first, others)), set) = (self.all.split_first_mut(), steps.set.samples()) else { return Ok(()) };
        for other in &mut *others {
            other.copy_weights_from(first);
        }
        let mut losses = Vec::new();
        for (i, (replica, shard)) in std::iter::once(&mut *first).chain(&mut *others).zip(&self.shards).enumerate() {
            let batches = steps.parts[i].len() / shard.len;
            let at = self.made % batches * shard.len;
            let indices = &steps.parts[i][at..at + shard.len];
            losses.push(replica.part_gradients(set, indices, self.made as u64, shard)?);
        }
        let mean: f64 = losses.iter().zip(&self.shards).map(|(loss, shard)| loss.mean * shard.weight()).sum();
        self.made += 1;
        if !mean.is_finite() {
            let step = self.made;
            return Err(TrainError::NotFinite(format!("Step {step}: the loss is {mean}. Lower the learning rate.")));
        }
        for other in &*others {
            first.add_gradients_from(other);
        }
        let gradient_norm = first.apply(set.len(), (self.made as u64 - 1, steps.learning_rate))?;
        for (outcomes, loss) in self.outcomes.iter_mut().zip(losses) {
            let (loss, correct) = (loss.mean, loss.correct);
            outcomes.push(StepOutcome { loss, correct, skipped: false, loss_scale: None, gradient_norm });
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), TrainError> {
        Ok(())
    }

    fn outcomes(&mut self, count: usize) -> Result<Vec<Vec<StepOutcome>>, TrainError> {
        Ok(self.outcomes.iter().map(|all| all[all.len().saturating_sub(count)..].to_vec()).collect())
    }

    fn weights(&self) -> Result<Weights, TrainError> {
        self.all[0].engine_weights()
    }

    fn copied_bytes(&self) -> [u64; 2] {
        self.all[0].weight_and_gradient_floats().map(|floats| 4 * floats)
    }
}
