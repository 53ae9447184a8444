//! Steps and evaluation on the CPU.

use super::{CpuEngine, Mode};
use crate::ops::augment::{self, Augment, Draw};
use crate::ops::optimizer::groups::Grouped;
use crate::train::engine::{Batches, Broken, Engine, State, StepOutcome, TrainedSteps};
use crate::train::ranks::{Exchange, RankThread};
use crate::train::{MeanLoss, Ranks, Recipe, Samples, Score, Target, TrainError, Views};
use crate::weights::Weights;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use tracing::trace_span;
use warpbook_data::{Dataset, Rows};
use warpbook_device::Stream;
use warpbook_ranks::{Reduce, Shard, Wire};

/// A recipe's training on the CPU.
#[derive(Debug)]
pub(crate) struct CpuTraining {
    engine: CpuEngine,
    recipe: Recipe,
    grouped: Option<Grouped>,
    updates: u64,
    prepared: Option<PreparedSteps>,
    /// The ranks and their gradients in transit, if several ranks train.
    ranks: Option<(Ranks, Exchange)>,
}

/// Prepared steps that run repeatedly.
#[derive(Debug)]
struct PreparedSteps {
    set: Owned,
    indices: Vec<u32>,
    size: usize,
    learning_rates: Vec<f64>,
    step: u64,
    made: usize,
    shard: Option<Shard>,
    outcomes: Vec<StepOutcome>,
}

/// Samples that do not borrow from a data set: clones share the numbers.
#[derive(Debug, Clone)]
pub(in crate::train) enum Owned {
    Images(Dataset),
    Rows(Rows),
}

impl Owned {
    pub fn new(samples: Samples<'_>) -> Self {
        match samples {
            Samples::Images(set) => Self::Images(set.clone()),
            Samples::Rows(rows) => Self::Rows(rows.clone()),
        }
    }

    pub fn samples(&self) -> Samples<'_> {
        match self {
            Self::Images(set) => set.into(),
            Self::Rows(rows) => rows.into(),
        }
    }
}

/// The targets of a batch.
enum Targets {
    Labels(Vec<u8>),
    Values(Vec<f32>),
}

impl Targets {
    fn new(samples: Samples<'_>, indices: &[u32]) -> Self {
        match samples {
            Samples::Images(set) => Self::Labels(indices.iter().map(|i| set.labels()[*i as usize]).collect()),
            Samples::Rows(rows) => {
                let width = rows.widths()[1];
                let row = |i: &u32| &rows.targets()[*i as usize * width..][..width];
                Self::Values(indices.iter().flat_map(row).copied().collect())
            }
        }
    }

    fn target(&self) -> Target<'_> {
        match self {
            Self::Labels(labels) => Target::Labels(labels),
            Self::Values(values) => Target::Values(values),
        }
    }
}

impl CpuTraining {
    /// Creates a training with batches of at most this many samples. If several ranks train, these are parts of the recipe's batches.
    ///
    /// # Errors
    /// If the batch is empty or does not fit into memory, the weights do not match the network, a setting of the optimiser or of a group is
    /// out of range, or a custom layer has no implementation for the CPU.
    pub fn new(recipe: &Recipe, batch: usize, weights: &Weights, ranks: Option<&Ranks>) -> Result<Self, TrainError> {
        let mut engine = CpuEngine::new(&recipe.network, recipe.largest_part(batch), weights, &recipe.optimizer)?;
        engine.part.norm = ranks.filter(|ranks| ranks.options().synchronised_norm).cloned();
        let ranks = ranks.map(|ranks| (ranks.clone(), Exchange::new(ranks, &recipe.network)));
        Ok(Self { engine, recipe: recipe.clone(), grouped: recipe.grouped()?, updates: 0, prepared: None, ranks })
    }

    /// Writes samples into the engine's input. Samples of training step `step` are augmented; otherwise `view` selects how they are seen.
    fn gather(
        &mut self,
        samples: Samples<'_>,
        indices: &[u32],
        step: Option<u64>,
        view: Option<Draw>,
    ) -> Result<(), TrainError> {
        let per_epoch = samples.len().div_ceil(self.recipe.batch) as u64;
        let set = match samples {
            Samples::Images(set) => set,
            Samples::Rows(rows) => {
                let width = rows.widths()[0];
                for (to, i) in self.engine.input(indices.len()).chunks_mut(width).zip(indices) {
                    to.copy_from_slice(&rows.inputs()[*i as usize * width..][..width]);
                }
                return Ok(());
            }
        };
        let [channels, height, width] = set.shape();
        let random = self.recipe.augmentation.filter(|_| step.is_some());
        let augment = Augment {
            channels,
            height,
            width,
            mean: &self.recipe.mean,
            deviation: &self.recipe.deviation,
            padding: random.map_or_else(|| view.map_or(0, |_| self.recipe.views.padding()), |a| a.crop),
            flip: random.is_some_and(|a| a.flip),
            reflect: random.map_or(view.is_some(), |a| a.reflect),
            epoch: step.filter(|_| random.is_some_and(|a| a.alternate)).map(|step| (step / per_epoch) as u32),
            view,
            seed: self.recipe.seed,
            step: step.unwrap_or(0) as u32,
        };
        let first = if step.is_some() { self.engine.part.first as u32 } else { 0 };
        Ok(augment::cpu::gather_from(&augment, first, set.images(), indices, self.engine.input(indices.len()))?)
    }

    fn step(
        &mut self,
        set: Samples<'_>,
        indices: &[u32],
        (step, rate): (u64, f64),
        shard: Option<&Shard>,
    ) -> Result<StepOrBroken, TrainError> {
        let trace = self.ranks.as_ref().map(|(ranks, _)| ranks.trace().clone()).unwrap_or_default();
        let statistics = self.engine.statistics();
        let loss = match self.gradients_of(set, indices, step, shard)? {
            Ok(loss) => loss,
            Err(broken) => {
                self.engine.restore_statistics(statistics);
                return Ok(Err(broken));
            }
        };
        let begun = Instant::now();
        let gradient_norm = trace_span!("update").in_scope(|| self.apply(set.len(), (step, rate)))?;
        trace.add(RankThread::Compute, "update", begun);
        let (loss, correct) = (loss.mean, loss.correct);
        Ok(Ok(StepOutcome { loss, correct, skipped: false, loss_scale: None, gradient_norm }))
    }
}

/// Steps of replicas in one process.
impl CpuTraining {
    /// Computes the gradients of a part of a global batch, weighted by its share, and the part's own mean loss. Nothing is updated.
    ///
    /// # Errors
    /// If the samples do not match the network or the loss, or an operation fails; if a rank with which the engine shares statistics is lost.
    pub fn part_gradients(
        &mut self,
        set: Samples<'_>,
        indices: &[u32],
        step: u64,
        part: &Shard,
    ) -> Result<MeanLoss, TrainError> {
        self.forward_part(set, indices, step, (part.first, part.len > 0))?;
        let (targets, share) = (Targets::new(set, indices), part.weight() as f32);
        self.engine.backward(self.recipe.loss, targets.target(), indices.len(), share)
    }

    /// Clips the current gradients and updates the weights; `samples` is the number of samples of an epoch. If gradients are clipped,
    /// returns their norm before clipping.
    ///
    /// # Errors
    /// If a setting of the optimiser, of a group, of a schedule or of the clipping is out of range.
    pub fn apply(&mut self, samples: usize, (step, rate): (u64, f64)) -> Result<Option<f64>, TrainError> {
        let gradient_norm = self.recipe.clip.map(|most| self.engine.clip(most)).transpose()?;
        self.updates += 1;
        match &self.grouped {
            None => self.engine.update(&self.recipe.optimizer, rate, self.updates)?,
            Some(grouped) => {
                let per_epoch = samples.div_ceil(self.recipe.batch) as u64;
                let rates = self.recipe.group_rates(grouped, rate, step, per_epoch)?;
                self.engine.update_groups(grouped, &rates, self.updates)?;
            }
        }
        Ok(gradient_norm)
    }

    /// Copies the weights and running statistics of another replica.
    pub fn copy_weights_from(&mut self, other: &Self) {
        self.engine.copy_weights_from(&other.engine);
    }

    /// Adds the gradients of another replica to the gradients of this replica.
    pub fn add_gradients_from(&mut self, other: &Self) {
        self.engine.add_gradients_from(&other.engine);
    }

    pub fn engine_weights(&self) -> Result<Weights, TrainError> {
        self.engine.weights()
    }

    /// Returns the number of floats of all weights, and of all gradients.
    pub fn weight_and_gradient_floats(&self) -> [u64; 2] {
        self.engine.weight_and_gradient_floats()
    }
}

impl CpuTraining {
    /// Gathers samples for a step, which begin at position `first` of the global batch even if they are placeholders, and computes their
    /// outputs.
    fn forward_part(
        &mut self,
        set: Samples<'_>,
        indices: &[u32],
        step: u64,
        (first, counts): (usize, bool),
    ) -> Result<(), TrainError> {
        (self.engine.part.first, self.engine.part.counts) = (first, counts);
        trace_span!("load").in_scope(|| self.gather(set, indices, Some(step), None))?;
        self.engine.forward(indices.len(), Mode::Training { seed: self.recipe.seed, step: step as u32 })
    }

    /// Computes the gradients of a batch, in the recipe's parts, and its loss, or the reason why the step broke. Dropout and augmentation draw
    /// random numbers by a sample's position in the batch, so the parts get the same numbers as the whole batch.
    fn gradients_of(
        &mut self,
        set: Samples<'_>,
        indices: &[u32],
        step: u64,
        shard: Option<&Shard>,
    ) -> Result<Result<MeanLoss, Broken>, TrainError> {
        let trace = self.ranks.as_ref().map(|(ranks, _)| ranks.trace().clone()).unwrap_or_default();
        let parts = self.recipe.micro_batches(indices.len());
        let (first, counts) = shard.map_or((0, true), |s| (s.first, s.len > 0));
        let scale = shard.map_or(1.0, Shard::weight);
        if let Some((_, exchange)) = &mut self.ranks {
            exchange.give_up();
        }
        let last = parts.len() - 1;
        let (mut whole, mut found, mut sums) = (MeanLoss { mean: 0.0, correct: 0 }, None, Vec::new());
        for (at, part) in parts.iter().enumerate() {
            let (n, part_indices) = (part.len(), &indices[part.clone()]);
            let begun = Instant::now();
            self.forward_part(set, part_indices, step, (first + part.start, counts))?;
            let targets = Targets::new(set, part_indices);
            trace.add(RankThread::Compute, "forward", begun);
            let begun = Instant::now();
            let share = n as f64 / indices.len() as f64;
            let by = (n, (scale * share) as f32);
            let loss = match &mut self.ranks {
                // With a single part, complete gradients are sent while the rest is computed.
                Some((_, exchange)) if last == 0 => {
                    let after = &mut |node: usize, gradients: &[Vec<f32>]| exchange.after(node, gradients);
                    self.engine.backward_with_callback(self.recipe.loss, targets.target(), by, after)?
                }
                _ => self.engine.backward(self.recipe.loss, targets.target(), by.0, by.1)?,
            };
            trace.add(RankThread::Compute, "backward", begun);
            whole.mean += if last == 0 { loss.mean } else { loss.mean * share };
            whole.correct += loss.correct;
            if at == 0 && last > 0 {
                sums = self.engine.gradients_mut().to_vec();
            } else if last > 0 {
                for (sum, part) in sums.iter_mut().zip(self.engine.gradients_mut()) {
                    sum.iter_mut().zip(part).for_each(|(sum, g)| *sum += *g);
                }
            }
            if !loss.mean.is_finite() {
                found = self.engine.find_first_not_finite(n)?;
                break;
            }
        }
        if last > 0 {
            self.engine.gradients_mut().clone_from_slice(&sums);
            if let Some((_, exchange)) = &mut self.ranks {
                // Sends everything after the last part, even if the step broke, because all ranks wait for each other.
                exchange.after(0, self.engine.gradients_mut());
            }
        }
        let begun = Instant::now();
        let global_loss = self.global_loss(whole, found, shard);
        trace.add(RankThread::Compute, "wait for the ranks", begun);
        global_loss
    }

    /// Stores the gradients and running statistics of all ranks, and returns the loss of the global batch, or the reason why the step
    /// broke. `found` is this rank's first operation with an output that is not finite.
    fn global_loss(
        &mut self,
        loss: MeanLoss,
        found: Option<String>,
        shard: Option<&Shard>,
    ) -> Result<Result<MeanLoss, Broken>, TrainError> {
        let engine = &mut self.engine;
        let layer = found.unwrap_or_else(|| "the loss".into());
        let (Some((ranks, exchange)), Some(shard)) = (&mut self.ranks, shard) else {
            return Ok(if loss.mean.is_finite() { Ok(loss) } else { Err(Broken { loss: loss.mean, layer }) });
        };
        let (mean, correct) = match ranks.outcome((loss.mean, loss.correct), shard, || Ok(layer))? {
            Ok(global_loss) => global_loss,
            Err(broken) => {
                exchange.give_up();
                return Ok(Err(broken));
            }
        };
        exchange.finish(engine.gradients_mut())?;
        let mut statistics = engine.statistics();
        if !statistics.is_empty() {
            let weight = shard.weight() as f32;
            let mut all: Vec<f32> = statistics.iter().flat_map(|(_, v)| v).map(|v| v * weight).collect();
            let reduced = ranks.queue_named("running statistics all-reduce", move |ranks| {
                ranks.all_reduce(&mut all, Reduce::Sum, Wire::F32)?;
                Ok(all)
            });
            let all = reduced.wait()?;
            let mut rest = all.iter();
            statistics.iter_mut().flat_map(|(_, v)| v).zip(&mut rest).for_each(|(v, sum)| *v = *sum);
            engine.restore_statistics(statistics);
        }
        Ok(Ok(MeanLoss { mean, correct }))
    }
}

type StepOrBroken = Result<StepOutcome, Broken>;

impl Engine for CpuTraining {
    fn steps_at_once(&self) -> usize {
        1
    }

    fn train(&mut self, b: &Batches<'_>) -> Result<TrainedSteps, TrainError> {
        let mut trained = TrainedSteps::default();
        for (i, (indices, rate)) in b.each().into_iter().zip(b.learning_rates).enumerate() {
            match self.step(b.set, indices, (b.step + i as u64, *rate), b.shards.get(i))? {
                Ok(outcome) => trained.outcomes.push(outcome),
                Err(broken) => return Ok(TrainedSteps { broken: Some(broken), ..trained }),
            }
        }
        Ok(trained)
    }

    fn evaluate(&mut self, set: Samples<'_>, part: Range<usize>) -> Result<Score, TrainError> {
        let size = self.engine.batch();
        let mut batches = Vec::new();
        for first in part.clone().step_by(size) {
            let indices: Vec<u32> = (first as u32..(first + size).min(part.end) as u32).collect();
            let n = indices.len();
            let mut outputs = Vec::new();
            for (view, share) in self.recipe.views.all() {
                self.gather(set, &indices, None, Some(view).filter(|_| self.recipe.views != Views::One))?;
                self.engine.forward(n, Mode::Inference)?;
                if self.recipe.views != Views::One {
                    outputs.resize(self.engine.outputs(n).len(), 0.0f32);
                    outputs.iter_mut().zip(self.engine.outputs(n)).for_each(|(sum, y)| *sum += share * y);
                }
            }
            if self.recipe.views == Views::One {
                outputs.extend_from_slice(self.engine.outputs(n));
            }
            let loss = self.recipe.loss.evaluate(&outputs, Targets::new(set, &indices).target(), None)?;
            batches.push((loss, indices.len()));
        }
        Ok(Score::from_batches(batches))
    }

    fn prepare_steps(&mut self, b: &Batches<'_>) -> Result<(), TrainError> {
        self.prepared = Some(PreparedSteps {
            set: Owned::new(b.set),
            indices: b.indices.to_vec(),
            size: b.size,
            learning_rates: b.learning_rates.to_vec(),
            step: b.step,
            made: 0,
            shard: b.shards.first().copied(),
            outcomes: Vec::new(),
        });
        Ok(())
    }

    fn queue_step(&mut self) -> Result<(), TrainError> {
        let Some(mut p) = self.prepared.take() else {
            return Err(TrainError::Setting("No steps were prepared.".into()));
        };
        let at = p.made % p.learning_rates.len();
        let indices = &p.indices[at * p.size..((at + 1) * p.size).min(p.indices.len())];
        let made =
            self.step(p.set.samples(), indices, (p.step + p.made as u64, p.learning_rates[at]), p.shard.as_ref());
        if let Ok(Ok(outcome)) = &made {
            p.outcomes.push(*outcome);
        }
        p.made += 1;
        let step = p.step + p.made as u64;
        self.prepared = Some(p);
        match made? {
            Ok(_) => Ok(()),
            Err(broken) => Err(broken.error(step)),
        }
    }

    fn wait(&mut self) -> Result<(), TrainError> {
        Ok(())
    }

    fn step_outcomes(&mut self, count: usize) -> Result<Vec<StepOutcome>, TrainError> {
        let all = self.prepared.as_ref().map_or(&[][..], |p| &p.outcomes);
        Ok(all[all.len().saturating_sub(count)..].to_vec())
    }

    fn stream(&self) -> Option<Arc<Stream>> {
        None
    }

    fn weights(&self) -> Result<Weights, TrainError> {
        self.engine.weights()
    }

    fn gradients(&self) -> Result<Weights, TrainError> {
        self.engine.gradients()
    }

    fn state(&self) -> Result<State, TrainError> {
        let (weights, slots) = (self.engine.weights()?, self.engine.state()?);
        Ok(State { weights, slots, updates: self.updates, scaler: None, kernels: Vec::new() })
    }

    fn restore(&mut self, state: &State) -> Result<(), TrainError> {
        self.engine.restore(&state.weights, &state.slots)?;
        self.updates = state.updates;
        Ok(())
    }

    fn peak_bytes(&self) -> u64 {
        self.engine.bytes()
    }
}
