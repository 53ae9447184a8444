//! Epochs over a data set: batches, progress, evaluation, checkpoints.

use super::checkpoint::Checkpoint;
use super::{CpuEngine, Mode, Recipe, Target, TrainError};
use crate::data::Dataset;
use crate::ops::augment::{self, Augment};
use crate::philox;
use crate::weights::Weights;
use std::path::Path;
use std::time::Instant;

/// What happens during a training.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A step was made.
    Step {
        /// Steps since the beginning.
        step: u64,
        /// The loss of its batch.
        loss: f64,
    },
    /// So many batches were trained on since the last line.
    Batches {
        /// The epoch, from 1.
        epoch: u32,
        /// Batches of this epoch that are done.
        batch: u64,
        /// Steps since the beginning.
        step: u64,
        /// The mean of their losses.
        loss: f64,
        /// The learning rate of the last of them.
        learning_rate: f64,
    },
    /// An epoch has ended, and the test set was classified.
    Epoch {
        /// The epoch, from 1.
        epoch: u32,
        /// Steps since the beginning.
        step: u64,
        /// Seconds of its training, evaluation not included.
        seconds: f64,
        /// How the test set came out.
        test: Score,
    },
}

/// Whether a training goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// It goes on.
    Continue,
    /// It ends after this step.
    Stop,
}

impl Flow {
    /// Stops if either does.
    fn and(self, other: Self) -> Self {
        if self == Self::Stop { self } else { other }
    }
}

/// How a data set comes out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// The mean loss.
    pub loss: f64,
    /// Samples that are classified as their label says.
    pub correct: usize,
    /// Samples.
    pub of: usize,
}

impl Score {
    /// The share of samples that are right, from 0 to 1.
    #[must_use]
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.of.max(1) as f64
    }
}

/// A training on the CPU.
///
/// The same recipe, data and weights give the same bits on every run, however many threads there are, and also where a run was
/// interrupted and resumed from a checkpoint.
#[derive(Debug)]
pub struct Trainer {
    recipe: Recipe,
    engine: CpuEngine,
    step: u64,
}

impl Trainer {
    /// A training from the recipe's initial weights, or from others.
    ///
    /// # Errors
    /// A setting makes no sense for these data, or the weights are not the network's.
    pub fn new(recipe: Recipe, data: &Dataset, weights: Option<&Weights>) -> Result<Self, TrainError> {
        recipe.validate(data.shape(), data.classes().len())?;
        if data.is_empty() {
            return Err(TrainError::Setting("The data set has no images.".into()));
        }
        let initial = weights.cloned().unwrap_or_else(|| Weights::init(&recipe.network, recipe.seed));
        let engine = CpuEngine::new(&recipe.network, recipe.batch.min(data.len()), &initial, &recipe.optimizer)?;
        Ok(Self { recipe, engine, step: 0 })
    }

    /// Steps since the beginning.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The recipe.
    #[must_use]
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The weights as they are now.
    ///
    /// # Errors
    /// None that a network can cause.
    pub fn weights(&self) -> Result<Weights, TrainError> {
        self.engine.weights()
    }

    /// Bytes of weights, gradients, the optimiser's state and activations: all that it allocates.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.engine.bytes()
    }

    /// Trains until the recipe's last step, from where it is. `log_every` is the number of batches between two lines; the listener
    /// hears of them and of every epoch, and may stop the training.
    ///
    /// # Errors
    /// A loss that is no number: the sentence names the step and the layer where the first such value is. The weights are then those before
    /// that step.
    pub fn train(
        &mut self,
        train: &Dataset,
        test: &Dataset,
        log_every: u64,
        listener: &mut dyn FnMut(Event) -> Flow,
    ) -> Result<(), TrainError> {
        self.train_until(u64::MAX, train, test, log_every, listener)
    }

    /// As [`Trainer::train`], until so many steps were made since the beginning, if there are as many.
    ///
    /// # Errors
    /// As of [`Trainer::train`].
    pub fn train_until(
        &mut self,
        until: u64,
        train: &Dataset,
        test: &Dataset,
        log_every: u64,
        listener: &mut dyn FnMut(Event) -> Flow,
    ) -> Result<(), TrainError> {
        let per_epoch = train.len().div_ceil(self.recipe.batch) as u64;
        let last = until.min(self.recipe.total_steps(train.len()));
        let (mut started, mut sum, mut count) = (Instant::now(), 0.0, 0u64);
        let mut order = Vec::new();
        let mut ordered = None;
        while self.step < last {
            let (epoch, batch) = (self.step / per_epoch, self.step % per_epoch);
            if ordered != Some(epoch) {
                order = self.order(train.len(), epoch);
                ordered = Some(epoch);
            }
            let learning_rate = self.recipe.learning_rate_at(self.step, per_epoch)?;
            let first = batch as usize * self.recipe.batch;
            let indices = &order[first..(first + self.recipe.batch).min(order.len())];
            let loss = self.train_batch(train, indices, learning_rate)?;
            (sum, count) = (sum + loss, count + 1);
            let (epoch, batch, step) = (epoch as u32 + 1, batch + 1, self.step);
            let mut flow = listener(Event::Step { step, loss });
            if batch % log_every.max(1) == 0 || batch == per_epoch || step == last {
                let line = Event::Batches { epoch, batch, step, loss: sum / count as f64, learning_rate };
                flow = flow.and(listener(line));
                (sum, count) = (0.0, 0);
            }
            if batch == per_epoch {
                let seconds = started.elapsed().as_secs_f64();
                let test = self.evaluate(test)?;
                flow = flow.and(listener(Event::Epoch { epoch, step, seconds, test }));
                started = Instant::now();
            }
            if flow == Flow::Stop {
                break;
            }
        }
        Ok(())
    }

    /// The order of the samples in an epoch.
    fn order(&self, n: usize, epoch: u64) -> Vec<u32> {
        let place = |i: u64| {
            if self.recipe.shuffle { philox::permute(self.recipe.seed ^ (epoch + 1) << 32, i, n as u64) } else { i }
        };
        (0..n as u64).map(|i| place(i) as u32).collect()
    }

    /// One step; the batch's loss.
    fn train_batch(&mut self, set: &Dataset, indices: &[u32], learning_rate: f64) -> Result<f64, TrainError> {
        let n = indices.len();
        self.gather(set, indices, true)?;
        let labels: Vec<u8> = indices.iter().map(|i| set.labels()[*i as usize]).collect();
        self.engine.forward(n, Mode::Training { seed: self.recipe.seed, step: self.step as u32 })?;
        let loss = self.engine.backward(self.recipe.loss, Target::Labels(&labels), n, 1.0)?.mean;
        if !loss.is_finite() {
            let layer = self.engine.first_not_finite(n).unwrap_or("the loss");
            return Err(TrainError::NotFinite(format!(
                "Step {}: the loss is {loss}; the first value that is no finite number is the output of {layer}. Lower the learning \
                 rate, or clip the gradients.",
                self.step + 1
            )));
        }
        if let Some(max_norm) = self.recipe.clip {
            self.engine.clip(max_norm)?;
        }
        self.engine.update(&self.recipe.optimizer, learning_rate, self.step + 1)?;
        self.step += 1;
        Ok(loss)
    }

    fn gather(&mut self, set: &Dataset, indices: &[u32], training: bool) -> Result<(), TrainError> {
        let [channels, height, width] = set.shape();
        let random = self.recipe.augmentation.filter(|_| training);
        let augment = Augment {
            channels,
            height,
            width,
            mean: &self.recipe.mean,
            deviation: &self.recipe.deviation,
            padding: random.map_or(0, |a| a.crop),
            flip: random.is_some_and(|a| a.flip),
            seed: self.recipe.seed,
            step: self.step as u32,
        };
        Ok(augment::cpu::gather(&augment, set.images(), indices, self.engine.input(indices.len()))?)
    }

    /// The loss and the accuracy over a data set, without dropout and augmentation.
    ///
    /// # Errors
    /// The data set's images are not of the network's shape.
    pub fn evaluate(&mut self, set: &Dataset) -> Result<Score, TrainError> {
        self.recipe.validate(set.shape(), set.classes().len())?;
        let (mut score, mut sum) = (Score { loss: 0.0, correct: 0, of: set.len() }, 0.0);
        let all: Vec<u32> = (0..set.len() as u32).collect();
        for indices in all.chunks(self.engine.batch()) {
            self.gather(set, indices, false)?;
            self.engine.forward(indices.len(), Mode::Inference)?;
            let labels = &set.labels()[indices[0] as usize..][..indices.len()];
            let loss = self.engine.loss(self.recipe.loss, Target::Labels(labels), indices.len())?;
            sum += loss.mean * indices.len() as f64;
            score.correct += loss.correct;
        }
        score.loss = sum / set.len().max(1) as f64;
        Ok(score)
    }

    /// Writes weights, the optimiser's state and the step to a safetensors file, to a temporary name first.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        Checkpoint {
            weights: self.engine.weights()?,
            state: self.engine.state()?,
            step: self.step,
            seed: self.recipe.seed,
        }
        .save(path.as_ref())
    }

    /// Goes on from a checkpoint, to the same bits as without the interruption.
    ///
    /// # Errors
    /// The file cannot be read, or is of another network, optimiser or seed.
    pub fn resume(&mut self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        let checkpoint = Checkpoint::load(&self.recipe.network, &self.recipe.optimizer, path.as_ref())?;
        if checkpoint.seed != self.recipe.seed {
            return Err(TrainError::Setting(format!(
                "The checkpoint was made with seed {}, and this recipe has seed {}: set the same seed.",
                checkpoint.seed, self.recipe.seed
            )));
        }
        self.engine.restore(&checkpoint.weights, &checkpoint.state)?;
        self.step = checkpoint.step;
        Ok(())
    }
}
