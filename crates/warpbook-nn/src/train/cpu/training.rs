//! Steps and evaluation on the CPU.

use super::{CpuEngine, Mode};
use crate::data::{Dataset, Rows};
use crate::ops::augment::{self, Augment, Draw};
use crate::ops::optimizer::groups::Grouped;
use crate::train::engine::{Batches, Broken, Engine, State, StepOutcome, Trained};
use crate::train::{Recipe, Samples, Score, Target, TrainError, Views};
use crate::weights::Weights;
use std::sync::Arc;
use warpbook_device::Stream;

/// A recipe's training on the CPU.
#[derive(Debug)]
pub(crate) struct CpuTraining {
    engine: CpuEngine,
    recipe: Recipe,
    grouped: Option<Grouped>,
    updates: u64,
    prepared: Option<Prepared>,
}

/// Steps that are made over and over.
#[derive(Debug)]
struct Prepared {
    set: Owned,
    indices: Vec<u32>,
    size: usize,
    learning_rates: Vec<f64>,
    step: u64,
    made: usize,
    outcomes: Vec<StepOutcome>,
}

/// Samples that outlive their owner: clones share the numbers.
#[derive(Debug, Clone)]
enum Owned {
    Images(Dataset),
    Rows(Rows),
}

impl Owned {
    fn of(samples: Samples<'_>) -> Self {
        match samples {
            Samples::Images(set) => Self::Images(set.clone()),
            Samples::Rows(rows) => Self::Rows(rows.clone()),
        }
    }

    fn samples(&self) -> Samples<'_> {
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
    fn of(samples: Samples<'_>, indices: &[u32]) -> Self {
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
    pub fn new(recipe: &Recipe, batch: usize, weights: &Weights) -> Result<Self, TrainError> {
        let engine = CpuEngine::new(&recipe.network, batch, weights, &recipe.optimizer)?;
        Ok(Self { engine, recipe: recipe.clone(), grouped: recipe.grouped()?, updates: 0, prepared: None })
    }

    /// Writes samples into the engine's input; those of training step `step` are augmented, and of others `view` is seen.
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
        Ok(augment::cpu::gather(&augment, set.images(), indices, self.engine.input(indices.len()))?)
    }

    fn step(&mut self, set: Samples<'_>, indices: &[u32], step: u64, rate: f64) -> Result<StepOrBroken, TrainError> {
        let n = indices.len();
        self.gather(set, indices, Some(step), None)?;
        let (targets, statistics) = (Targets::of(set, indices), self.engine.statistics());
        self.engine.forward(n, Mode::Training { seed: self.recipe.seed, step: step as u32 })?;
        let loss = self.engine.backward(self.recipe.loss, targets.target(), n, 1.0)?;
        if !loss.mean.is_finite() {
            let layer = self.engine.find_not_finite(n)?.unwrap_or_else(|| "the loss".into());
            self.engine.put_back(statistics);
            return Ok(Err(Broken { loss: loss.mean, layer }));
        }
        let gradient_norm = self.recipe.clip.map(|most| self.engine.clip(most)).transpose()?;
        self.updates += 1;
        match &self.grouped {
            None => self.engine.update(&self.recipe.optimizer, rate, self.updates)?,
            Some(grouped) => {
                let per_epoch = set.len().div_ceil(self.recipe.batch) as u64;
                let rates = self.recipe.group_rates(grouped, rate, step, per_epoch)?;
                self.engine.update_groups(grouped, &rates, self.updates)?;
            }
        }
        let (loss, correct) = (loss.mean, loss.correct);
        Ok(Ok(StepOutcome { loss, correct, skipped: false, loss_scale: None, gradient_norm }))
    }
}

type StepOrBroken = Result<StepOutcome, Broken>;

impl Engine for CpuTraining {
    fn steps_at_once(&self) -> usize {
        1
    }

    fn train(&mut self, b: &Batches<'_>) -> Result<Trained, TrainError> {
        let mut trained = Trained::default();
        for (i, (indices, rate)) in b.indices.chunks(b.size).zip(b.learning_rates).enumerate() {
            match self.step(b.set, indices, b.step + i as u64, *rate)? {
                Ok(outcome) => trained.outcomes.push(outcome),
                Err(broken) => return Ok(Trained { broken: Some(broken), ..trained }),
            }
        }
        Ok(trained)
    }

    fn evaluate(&mut self, set: Samples<'_>) -> Result<Score, TrainError> {
        let (size, len) = (self.engine.batch(), set.len());
        let mut batches = Vec::new();
        for first in (0..len).step_by(size) {
            let indices: Vec<u32> = (first as u32..(first + size).min(len) as u32).collect();
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
            let loss = self.recipe.loss.of(&outputs, Targets::of(set, &indices).target(), None)?;
            batches.push((loss, indices.len()));
        }
        Ok(Score::of(batches))
    }

    fn prepare_steps(&mut self, b: &Batches<'_>) -> Result<(), TrainError> {
        self.prepared = Some(Prepared {
            set: Owned::of(b.set),
            indices: b.indices.to_vec(),
            size: b.size,
            learning_rates: b.learning_rates.to_vec(),
            step: b.step,
            made: 0,
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
        let made = self.step(p.set.samples(), indices, p.step + p.made as u64, p.learning_rates[at]);
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
        Ok(State { weights, slots, updates: self.updates, scaler: None })
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
