//! Epochs over a data set: batches, progress, evaluation, checkpoints.

use super::checkpoint::Checkpoint;
use super::cpu::CpuTraining;
use super::cuda::{self, CudaTraining};
use super::engine::{Batches, Engine, State, StepOutcome};
use super::pace::{Mean, Pace};
use super::{Ended, Event, Flow, Place, Recipe, Samples, Score, TrainError};
use crate::philox;
use crate::weights::Weights;
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A checkpoint is written at least this often, also within an epoch.
const KEEP_EVERY: Duration = Duration::from_secs(60);

/// A training.
///
/// The same recipe, data, weights and place give the same bits on every run, however many threads there are, and also where a run was
/// interrupted and resumed from a checkpoint.
#[derive(Debug)]
pub struct Trainer {
    recipe: Recipe,
    place: Place,
    /// The most samples of a batch.
    batch: usize,
    engine: Box<dyn Engine>,
    step: u64,
    budget: Option<Duration>,
    checkpoint: Option<PathBuf>,
}

impl Trainer {
    /// A training on the CPU from the recipe's initial weights, or from others.
    ///
    /// # Errors
    /// A setting makes no sense for these data, or the weights are not the network's.
    pub fn new<'a>(
        recipe: Recipe,
        data: impl Into<Samples<'a>>,
        weights: Option<&Weights>,
    ) -> Result<Self, TrainError> {
        Self::on(&Place::Cpu, recipe, data, weights)
    }

    /// A training on a device. On a GPU all that it needs is allocated now.
    ///
    /// # Errors
    /// As of [`Trainer::new`]; the network, the batch or the data do not fit into device memory: the sentence names the largest batch that
    /// does.
    pub fn on<'a>(
        place: &Place,
        recipe: Recipe,
        data: impl Into<Samples<'a>>,
        weights: Option<&Weights>,
    ) -> Result<Self, TrainError> {
        let data = data.into();
        data.check(&recipe)?;
        let initial = weights.cloned().unwrap_or_else(|| Weights::init(&recipe.network, recipe.seed));
        let batch = recipe.batch.min(data.len());
        Self::with_batch(place.clone(), recipe, batch, &initial)
    }

    /// The same with a limit on the time of each call of [`Trainer::train`], evaluations included: it ends after the step that exceeds it,
    /// with an evaluation. A GPU makes as many steps at once as are expected to fit.
    #[must_use]
    pub fn time_budget(mut self, budget: Duration) -> Self {
        self.budget = Some(budget);
        self
    }

    /// The same, kept in this file after every epoch, every minute within one, and at the end, as by [`Trainer::save`]. After an error the file
    /// has what was kept last.
    #[must_use]
    pub fn checkpoint(mut self, path: impl Into<PathBuf>) -> Self {
        self.checkpoint = Some(path.into());
        self
    }

    /// A training of batches of at most so many samples.
    pub(super) fn with_batch(
        place: Place,
        recipe: Recipe,
        batch: usize,
        initial: &Weights,
    ) -> Result<Self, TrainError> {
        let engine: Box<dyn Engine> = match &place {
            Place::Cpu => Box::new(CpuTraining::new(&recipe, batch, initial)?),
            Place::Cuda(device, options) => Box::new(CudaTraining::new(device, options, &recipe, batch, initial)?),
        };
        Ok(Self { recipe, place, batch, engine, step: 0, budget: None, checkpoint: None })
    }

    pub(super) fn batch(&self) -> usize {
        self.batch
    }

    /// What it computes with, which shows itself as "the CPU in fp32".
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The time budget and the checkpoint's file.
    pub(super) fn limits(&self) -> (Option<Duration>, Option<PathBuf>) {
        (self.budget, self.checkpoint.clone())
    }

    /// Sets them.
    pub(super) fn set_limits(&mut self, (budget, checkpoint): (Option<Duration>, Option<PathBuf>)) {
        (self.budget, self.checkpoint) = (budget, checkpoint);
    }

    /// All that it goes on with, but the step.
    pub(super) fn state(&self) -> Result<State, TrainError> {
        self.engine.state()
    }

    /// Goes on with a state at a step.
    pub(super) fn go_on(&mut self, state: &State, step: u64) -> Result<(), TrainError> {
        self.engine.restore(state)?;
        self.step = step;
        Ok(())
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
    /// The device's.
    pub fn weights(&self) -> Result<Weights, TrainError> {
        self.engine.weights()
    }

    /// The gradients of the last step, divided by the loss scale; zero of what is not trained.
    ///
    /// # Errors
    /// The device's.
    pub fn gradients(&self) -> Result<Weights, TrainError> {
        self.engine.gradients()
    }

    /// The most bytes that it has held: weights, gradients, the optimiser's state, activations, and on a GPU the data.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.engine.peak_bytes()
    }

    /// The most bytes by which the device's free memory became less: with the compiled kernels, the graphs and what the driver rounds up; other
    /// programs on the device count too. `None` on the CPU.
    #[must_use]
    pub fn reserved_bytes(&self) -> Option<u64> {
        self.engine.reserved_bytes()
    }

    /// Trains until the recipe's last step, from where it is. `log_every` is the number of batches between two lines; the listener
    /// hears of them and of every epoch, and may stop the training. A GPU makes many steps before the listener hears of them.
    ///
    /// # Errors
    /// A loss that is no number: the sentence names the step and the layer where the first such value is. The weights are then those before
    /// that step.
    pub fn train<'a>(
        &mut self,
        train: impl Into<Samples<'a>>,
        test: impl Into<Samples<'a>>,
        log_every: u64,
        listener: &mut dyn FnMut(Event) -> Flow,
    ) -> Result<Ended, TrainError> {
        self.train_until(u64::MAX, train, test, log_every, listener)
    }

    /// As [`Trainer::train`], until so many steps were made since the beginning, if there are as many.
    ///
    /// # Errors
    /// As of [`Trainer::train`].
    pub fn train_until<'a>(
        &mut self,
        until: u64,
        train: impl Into<Samples<'a>>,
        test: impl Into<Samples<'a>>,
        log_every: u64,
        listener: &mut dyn FnMut(Event) -> Flow,
    ) -> Result<Ended, TrainError> {
        let (train, test): (Samples<'_>, Samples<'_>) = (train.into(), test.into());
        let (size, log_every) = (self.recipe.batch, log_every.max(1));
        let per_epoch = train.len().div_ceil(size) as u64;
        let last = until.min(self.recipe.total_steps(train.len()));
        let (mut started, mut lines, mut pace) = (Instant::now(), Mean::default(), Pace::new(self.budget));
        let (mut kept_at, mut kept_step) = (Instant::now(), self.step);
        let mut order = Vec::new();
        let mut ordered = None;
        let mut ended = Ended::Finished;
        while self.step < last {
            let (epoch, batch) = (self.step / per_epoch, self.step % per_epoch);
            if ordered != Some(epoch) {
                order = self.order(train.len(), epoch);
                ordered = Some(epoch);
            }
            let most = (per_epoch - batch).min(last - self.step).min(self.engine.steps_at_once() as u64);
            let steps = pace.steps(most);
            let rates = (self.step..self.step + steps).map(|step| self.recipe.learning_rate_at(step, per_epoch));
            let rates = rates.collect::<Result<Vec<f64>, _>>()?;
            let first = batch as usize * size;
            let indices = &order[first..(first + steps as usize * size).min(order.len())];
            let batches = Batches { set: train, indices, size, learning_rates: &rates, step: self.step };
            let began = Instant::now();
            let trained = self.engine.train(&batches)?;
            pace.made(steps, began.elapsed());
            let epoch = epoch as u32 + 1;
            let mut flow = Flow::Continue;
            for (i, (outcome, rate)) in trained.outcomes.iter().zip(&rates).enumerate() {
                self.step += 1;
                let (step, batch, loss, learning_rate) = (self.step, batch + i as u64 + 1, outcome.loss, *rate);
                lines.add(loss);
                flow = flow.and(listener(Event::Step { step, loss, learning_rate, outcome: *outcome }));
                if batch % log_every == 0 || batch == per_epoch || step == last {
                    let line = Event::Batches { epoch, batch, step, loss: lines.take(), learning_rate };
                    flow = flow.and(listener(line));
                }
            }
            if let Some(broken) = trained.broken {
                return Err(broken.error(self.step + 1));
            }
            let (step, whole) = (self.step, self.step.is_multiple_of(per_epoch));
            let out_of_time = pace.is_over() && step < last;
            if (flow == Flow::Stop || out_of_time) && !lines.is_empty() {
                let (batch, learning_rate) = (batch + steps, rates.last().copied().unwrap_or_default());
                flow = flow.and(listener(Event::Batches { epoch, batch, step, loss: lines.take(), learning_rate }));
            }
            if whole || out_of_time {
                let seconds = started.elapsed().as_secs_f64();
                let test = self.evaluate(test)?;
                flow = flow.and(listener(if whole {
                    Event::Epoch { epoch, step, seconds, test }
                } else {
                    Event::OutOfTime { epoch, step, seconds, test }
                }));
                started = Instant::now();
            }
            if whole || kept_at.elapsed() >= KEEP_EVERY {
                self.keep()?;
                (kept_at, kept_step) = (Instant::now(), step);
            }
            if flow == Flow::Stop || out_of_time {
                ended = if flow == Flow::Stop { Ended::Stopped } else { Ended::OutOfTime };
                break;
            }
        }
        if kept_step < self.step {
            self.keep()?;
        }
        Ok(ended)
    }

    /// Writes the checkpoint, if there is to be one.
    fn keep(&self) -> Result<(), TrainError> {
        self.checkpoint.as_ref().map_or(Ok(()), |path| self.save(path))
    }

    /// The order of the samples in an epoch.
    fn order(&self, n: usize, epoch: u64) -> Vec<u32> {
        let (shuffle, seed) = (self.recipe.shuffle, self.recipe.seed ^ (epoch + 1) << 32);
        let place = |i: u64| if shuffle { philox::permute(seed, i, n as u64) } else { i };
        (0..n as u64).into_par_iter().map(|i| place(i) as u32).collect()
    }

    /// The loss and the accuracy over a data set, without dropout and augmentation.
    ///
    /// # Errors
    /// The data set's images are not of the network's shape.
    pub fn evaluate<'a>(&mut self, set: impl Into<Samples<'a>>) -> Result<Score, TrainError> {
        let set = set.into();
        set.check(&self.recipe)?;
        self.engine.evaluate(set)
    }

    /// Prepares whole batches of a first epoch, to be trained on over and over by [`Trainer::queue_step`]: for measurements.
    ///
    /// # Errors
    /// There are fewer samples than a batch has; the device's.
    pub fn prepare_steps<'a>(&mut self, set: impl Into<Samples<'a>>) -> Result<(), TrainError> {
        let (set, size): (Samples<'_>, usize) = (set.into(), self.recipe.batch);
        set.check(&self.recipe)?;
        if set.len() < size {
            let sentence = format!("There are {} samples, fewer than a batch of {size}.", set.len());
            return Err(TrainError::Setting(sentence));
        }
        let order = self.order(set.len(), 0);
        let count = cuda::SLOTS * size;
        let indices: Vec<u32> = order[..order.len() / size * size].iter().cycle().copied().take(count).collect();
        let rates = vec![self.recipe.learning_rate; cuda::SLOTS];
        let batches = Batches { set, indices: &indices, size, learning_rates: &rates, step: self.step };
        self.engine.prepare_steps(&batches)
    }

    /// Queues the next prepared step without waiting for it; on the CPU the step is made.
    ///
    /// # Errors
    /// No steps were prepared; the device's.
    pub fn queue_step(&mut self) -> Result<(), TrainError> {
        self.engine.queue_step()
    }

    /// What the last queued steps, at most 128, came to, the oldest first; waits for them.
    ///
    /// # Errors
    /// The device's.
    pub fn step_outcomes(&mut self, count: usize) -> Result<Vec<StepOutcome>, TrainError> {
        self.engine.step_outcomes(count)
    }

    /// The stream that steps are queued on; `None` on the CPU.
    #[must_use]
    pub fn stream(&self) -> Option<std::sync::Arc<warpbook_device::Stream>> {
        self.engine.stream()
    }

    /// Writes weights, the optimiser's state and the step to a safetensors file, to a temporary name first.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        Checkpoint { state: self.engine.state()?, step: self.step, seed: self.recipe.seed }.save(path.as_ref())
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
        self.go_on(&checkpoint.state, checkpoint.step)
    }
}
