//! Epochs over a data set: batches, progress, evaluation, checkpoints.

use super::cpu::{self, CpuTraining};
use super::cuda::CudaTraining;
use super::engine::{Batches, Engine, State};
use super::pace::{Mean, Pace};
use super::{Ended, Event, Flow, Place, Recipe, Samples, Score, TrainError};
use crate::parallel::collect;
use crate::philox;
use crate::weights::Weights;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use warpbook_device::ensure_writable;

/// A checkpoint is written at least this often, also within an epoch.
const KEEP_EVERY: Duration = Duration::from_secs(60);

/// A training.
///
/// The same recipe, data, weights and place give the same bits on every run, however many threads there are, and also where a run was
/// interrupted and resumed from a checkpoint.
#[derive(Debug)]
pub struct Trainer {
    pub(super) recipe: Recipe,
    place: Place,
    /// The most samples of a batch.
    batch: usize,
    pub(super) engine: Box<dyn Engine>,
    pub(super) step: u64,
    budget: Option<Duration>,
    checkpoint: Option<PathBuf>,
    /// What the samples are called.
    pub(super) data: Option<String>,
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
        let batch = recipe.batch.min(data.len());
        if matches!(place, Place::Cpu) {
            // Before the weights are drawn, which may be too large themselves.
            cpu::ensure_it_fits(&recipe.network, batch, &recipe.optimizer)?;
        }
        let initial = weights.map_or_else(|| recipe.initial_weights(data), |w| Ok(w.clone()))?;
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

    /// The same with a note in its checkpoints of the data set: a name that [`crate::data::open`] knows, or a folder.
    #[must_use]
    pub fn trained_on(mut self, data: impl Into<String>) -> Self {
        self.data = Some(data.into());
        self
    }

    /// An error unless the checkpoint's file, if there is to be one, can be written. [`Trainer::train`] asks first.
    ///
    /// # Errors
    /// It cannot be.
    pub fn ensure_it_can_be_kept(&self) -> Result<(), TrainError> {
        let Some(path) = &self.checkpoint else { return Ok(()) };
        ensure_writable(path).map_err(|why| {
            let path = path.display();
            TrainError::Setting(format!(
                "The checkpoint {path} cannot be written: {why}. Nothing was trained; name another file."
            ))
        })
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
        Ok(Self { recipe, place, batch, engine, step: 0, budget: None, checkpoint: None, data: None })
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
    /// The checkpoint's file cannot be written, now or later. A loss that is no number: the sentence names the step and the layer where the
    /// first such value is; the weights, and running statistics, are then those before that step.
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
        self.ensure_it_can_be_kept()?;
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
    pub(super) fn order(&self, n: usize, epoch: u64) -> Vec<u32> {
        let (shuffle, seed) = (self.recipe.shuffle, self.recipe.seed ^ (epoch + 1) << 32);
        let place = |i: u64| if shuffle { philox::permute(seed, i, n as u64) } else { i };
        collect(n, &|i| place(i as u64) as u32)
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
}
