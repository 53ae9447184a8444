//! Epochs over a data set: batches, progress, evaluation, checkpoints.

mod checkpoint;
mod description;
mod event;
mod on_ranks;
mod repeated_steps;
mod speedrun;
#[cfg(test)]
mod tests;
mod time_budget;
mod transfer;

pub(crate) use description::Description;
pub use description::Trained;
pub use event::{Ended, Event, Flow};
pub use speedrun::AtOnce;

use super::cpu::{self, CpuTraining};
use super::cuda::CudaTraining;
use super::engine::{Batches, Engine, State};
use super::{Place, Ranks, Recipe, Samples, Score, TrainError};
use crate::weights::Weights;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use time_budget::{Pace, RunningLoss};
use warpbook_data::parallel::collect;
use warpbook_data::philox;
use warpbook_data::{Dataset, Identity, Source};
use warpbook_device::ensure_writable;

/// Longest time between two checkpoints, also within an epoch.
const KEEP_EVERY: Duration = Duration::from_secs(60);

/// Result of [`Trainer::limits`]: time budget, checkpoint file, and steps between two reads of the losses.
pub(super) type Limits = (Option<Duration>, Option<PathBuf>, Option<u64>);

/// A training.
///
/// Equal recipes, data, weights and places give the same bits on every run, for any number of threads, and also after an interruption and
/// resumption from a checkpoint.
#[derive(Debug)]
pub struct Trainer {
    pub(super) recipe: Recipe,
    place: Place,
    /// Largest number of samples in a batch.
    batch: usize,
    pub(super) engine: Box<dyn Engine>,
    pub(super) step: u64,
    budget: Option<Duration>,
    checkpoint: Option<PathBuf>,
    /// True once a test has shown that the checkpoint's file can be written.
    can_be_kept: bool,
    /// Path of the last checkpoint, and true if the listener knows that the requested path cannot be written.
    kept: (Option<PathBuf>, bool),
    /// Largest number of steps queued before their losses are read; `None` is as many as the device allows.
    read_every: Option<u64>,
    /// Name or folder from which the samples can be opened again.
    pub(super) source: Option<Source>,
    /// The training images.
    pub(super) set: Option<Dataset>,
    /// Identity of the training images, computed on first request.
    pub(super) identity: OnceLock<Identity>,
    /// The sentence that [`Trainer::not_compared`] returns.
    pub(super) not_compared: Option<&'static str>,
    /// This trainer's rank, if several ranks train.
    pub(super) ranks: Option<Ranks>,
}

impl Trainer {
    /// Creates a training on the CPU with the recipe's initial weights, or with the given weights.
    ///
    /// # Errors
    /// If a setting is invalid for these data, or the weights do not match the network.
    pub fn new<'a>(
        recipe: Recipe,
        data: impl Into<Samples<'a>>,
        weights: Option<&Weights>,
    ) -> Result<Self, TrainError> {
        Self::on(&Place::Cpu, recipe, data, weights)
    }

    /// Creates a training on a device. On a GPU all memory is allocated now.
    ///
    /// # Errors
    /// Returns the same errors as [`Trainer::new`], and an error if the network, the batch or the data do not fit into device memory: the message names the
    /// largest batch that fits.
    pub fn on<'a>(
        place: &Place,
        recipe: Recipe,
        data: impl Into<Samples<'a>>,
        weights: Option<&Weights>,
    ) -> Result<Self, TrainError> {
        Self::build(place, recipe, data.into(), weights, None)
    }

    pub(super) fn build(
        place: &Place,
        recipe: Recipe,
        data: Samples<'_>,
        weights: Option<&Weights>,
        ranks: Option<&Ranks>,
    ) -> Result<Self, TrainError> {
        data.check(&recipe)?;
        let batch = recipe.batch.min(data.len()).div_ceil(ranks.map_or(1, Ranks::world));
        if matches!(place, Place::Cpu) {
            // The memory is checked before the weights are drawn, because the weights alone may be too large.
            cpu::ensure_it_fits(&recipe.network, recipe.largest_part(batch), &recipe.optimizer)?;
        }
        let initial = weights.map_or_else(|| recipe.initial_weights(data), |w| Ok(w.clone()))?;
        let mut trainer = Self::with_batch(place.clone(), recipe, batch, &initial, ranks)?;
        trainer.remember_samples(data);
        Ok(trainer)
    }

    /// Records the training samples for checkpoints.
    pub(super) fn remember_samples(&mut self, samples: Samples<'_>) {
        let set = if let Samples::Images(set) = samples { Some(set) } else { None };
        let same =
            |a: &Dataset, b: &Dataset| Arc::ptr_eq(a.images(), b.images()) && Arc::ptr_eq(a.labels(), b.labels());
        if !self.set.as_ref().zip(set).is_some_and(|(a, b)| same(a, b)) {
            (self.set, self.identity) = (set.cloned(), OnceLock::new());
        }
    }

    /// Limits the time of each call of [`Trainer::train`], evaluations included: the call ends after the step that exceeds the limit, with an
    /// evaluation. A GPU makes as many steps at once as are expected to fit.
    #[must_use]
    pub fn time_budget(mut self, budget: Duration) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Limits the number of steps queued before their losses are read: 1 waits for every step, like a loop that reads each loss. The losses do
    /// not depend on this setting. The default on a GPU is 128; the CPU always reads the loss of every step.
    #[must_use]
    pub fn read_losses_every(mut self, steps: u64) -> Self {
        self.read_every = Some(steps.max(1));
        self
    }

    /// Saves a checkpoint to this file, as [`Trainer::save`] does, after every epoch, every minute within an epoch, and at the end. After an
    /// error the file holds the last checkpoint. If that file can no longer be written, the checkpoint goes into the folder for temporary files:
    /// see [`Trainer::checkpoint_file`].
    #[must_use]
    pub fn checkpoint(mut self, path: impl Into<PathBuf>) -> Self {
        (self.checkpoint, self.can_be_kept) = (Some(path.into()), false);
        self
    }

    /// Returns the file of the last checkpoint; `None` before the first. It differs from the file set by [`Trainer::checkpoint`] if that file could not be
    /// written.
    #[must_use]
    pub fn checkpoint_file(&self) -> Option<&Path> {
        self.kept.0.as_deref()
    }

    /// Records in checkpoints where the data set can be opened again. Checkpoints always record the identity of the images, and their classes.
    #[must_use]
    pub fn trained_on(mut self, source: impl Into<Source>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Checks that the checkpoint's file, if one is requested, can be written, and that there is room for all its bytes. [`Trainer::train`]
    /// checks this first.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn ensure_checkpoint_is_writable(&mut self) -> Result<(), TrainError> {
        let Some(path) = self.checkpoint.as_ref().filter(|_| !self.can_be_kept) else { return Ok(()) };
        let bytes = self.checkpoint_bytes();
        ensure_writable(path, bytes).map_err(|why| {
            let (path, mb) = (path.display(), (bytes as f64 * 1e-6).max(0.1));
            TrainError::Setting(format!(
                "The checkpoint {path} of {mb:.1} MB cannot be written: {why}. Nothing was trained; name another file."
            ))
        })?;
        self.can_be_kept = true;
        Ok(())
    }

    /// Creates a training with batches of at most this many samples.
    pub(super) fn with_batch(
        place: Place,
        recipe: Recipe,
        batch: usize,
        initial: &Weights,
        ranks: Option<&Ranks>,
    ) -> Result<Self, TrainError> {
        let engine: Box<dyn Engine> = match &place {
            Place::Cpu => Box::new(CpuTraining::new(&recipe, batch, initial, ranks)?),
            Place::Cuda(device, options) => {
                Box::new(CudaTraining::new(device, options, &recipe, batch, initial, ranks)?)
            }
        };
        Ok(Self {
            recipe,
            place,
            batch,
            engine,
            step: 0,
            budget: None,
            checkpoint: None,
            can_be_kept: false,
            kept: (None, false),
            read_every: None,
            source: None,
            set: None,
            identity: OnceLock::new(),
            not_compared: None,
            ranks: ranks.cloned(),
        })
    }

    pub(super) fn batch(&self) -> usize {
        self.batch
    }

    /// Returns the device and the options of the computation; displayed as "the CPU in fp32".
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the time budget, the checkpoint's file, and how often losses are read.
    pub(super) fn limits(&self) -> Limits {
        (self.budget, self.checkpoint.clone(), self.read_every)
    }

    pub(super) fn set_limits(&mut self, limits: Limits) {
        (self.budget, self.checkpoint, self.read_every) = limits;
    }

    /// Returns the complete state except for the step.
    pub(super) fn state(&self) -> Result<State, TrainError> {
        self.engine.state()
    }

    /// Restores a state and a step, from which the training continues.
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

    /// Returns the recipe of the training.
    #[must_use]
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// Reads the current weights.
    ///
    /// # Errors
    /// If the device reports an error.
    pub fn weights(&self) -> Result<Weights, TrainError> {
        self.engine.weights()
    }

    /// Reads the gradients of the last step, divided by the loss scale; zeros for untrained parameters.
    ///
    /// # Errors
    /// If the device reports an error.
    pub fn gradients(&self) -> Result<Weights, TrainError> {
        self.engine.gradients()
    }

    /// Returns the largest number of bytes held so far: weights, gradients, the optimiser's state, activations, and on a GPU the data.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.engine.peak_bytes()
    }

    /// Returns the largest decrease of the device's free memory in bytes; it includes compiled kernels, graphs, the driver's rounding, and other programs
    /// on the device. `None` on the CPU.
    #[must_use]
    pub fn reserved_bytes(&self) -> Option<u64> {
        self.engine.reserved_bytes()
    }

    /// Trains from the current step to the recipe's last one. `log_every` is the number of batches between two progress events; the
    /// listener receives these and an event after every epoch, and may stop the training. A GPU makes many steps before the listener is
    /// called.
    ///
    /// # Errors
    /// If the checkpoint's file cannot be written, now or later. If a loss is not finite: the message names the step and the first layer
    /// with such a value; weights and running statistics are then in their state before that step.
    pub fn train<'a>(
        &mut self,
        train: impl Into<Samples<'a>>,
        test: impl Into<Samples<'a>>,
        log_every: u64,
        listener: &mut dyn FnMut(Event) -> Flow,
    ) -> Result<Ended, TrainError> {
        self.train_until(u64::MAX, train, test, log_every, listener)
    }

    /// Like [`Trainer::train`], but ends at this number of steps since the beginning, if the recipe has that many steps.
    ///
    /// # Errors
    /// See [`Trainer::train`].
    pub fn train_until<'a>(
        &mut self,
        until: u64,
        train: impl Into<Samples<'a>>,
        test: impl Into<Samples<'a>>,
        log_every: u64,
        listener: &mut dyn FnMut(Event) -> Flow,
    ) -> Result<Ended, TrainError> {
        let done = self.train_steps(until, train.into(), test.into(), log_every, listener);
        if let (Err(why), Some(ranks)) = (&done, &self.ranks) {
            // Without the abort, the other ranks would wait for this rank.
            ranks.aborter().abort(&why.to_string());
        }
        done
    }

    fn train_steps(
        &mut self,
        until: u64,
        train: Samples<'_>,
        test: Samples<'_>,
        log_every: u64,
        listener: &mut dyn FnMut(Event) -> Flow,
    ) -> Result<Ended, TrainError> {
        self.ensure_variances(train.len())?;
        if self.writes() {
            self.ensure_checkpoint_is_writable()?;
        }
        self.remember_samples(train);
        let (size, log_every) = (self.recipe.batch, log_every.max(1));
        let per_epoch = train.len().div_ceil(size) as u64;
        let last = until.min(self.recipe.total_steps(train.len()));
        let (mut lines, mut pace) = (RunningLoss::default(), Pace::new(self.budget));
        self.make_ready(train, test, last, listener)?;
        let mut started = Instant::now();
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
            let most = (per_epoch - batch).min(last - self.step).min(self.steps_at_once());
            let steps = self.agreed_steps(pace.steps(most))?;
            let rates = (self.step..self.step + steps).map(|step| self.recipe.learning_rate_at(step, per_epoch));
            let rates = rates.collect::<Result<Vec<f64>, _>>()?;
            let first = batch as usize * size;
            let indices = &order[first..(first + steps as usize * size).min(order.len())];
            let (parts, shards) = self.shards(indices);
            let (indices, shards) = (parts.as_deref().unwrap_or(indices), &shards[..]);
            let batches =
                Batches { set: train, indices, size: self.size(), learning_rates: &rates, step: self.step, shards };
            let began = Instant::now();
            let trained = self.engine.train(&batches)?;
            pace.record(steps, began.elapsed());
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
            let (stops, out_of_time) = self.agreed_end(flow == Flow::Stop, out_of_time)?;
            flow = if stops { Flow::Stop } else { flow };
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
                // A checkpoint that cannot be written now may be written later.
                self.write_checkpoint(listener)?;
                (kept_at, kept_step) = (Instant::now(), step);
            }
            if flow == Flow::Stop || out_of_time {
                ended = if flow == Flow::Stop { Ended::Stopped } else { Ended::OutOfTime };
                break;
            }
        }
        if kept_step < self.step || self.kept.0 != self.checkpoint {
            self.write_checkpoint(listener)?.map_or(Ok(()), |why| Err(TrainError::Setting(why)))?;
        }
        Ok(ended)
    }

    /// Prepares all that the steps up to `last` and their evaluations launch, before an epoch's clock starts. The preparation counts for the time
    /// budget, which limits a whole call.
    fn make_ready(
        &mut self,
        train: Samples<'_>,
        test: Samples<'_>,
        last: u64,
        listener: &mut dyn FnMut(Event) -> Flow,
    ) -> Result<(), TrainError> {
        if self.step >= last {
            return Ok(());
        }
        let per_epoch = train.len().div_ceil(self.recipe.batch) as u64;
        let evaluates = last / per_epoch > self.step / per_epoch || self.budget.is_some();
        if evaluates {
            test.check(&self.recipe)?;
        }
        let started = Instant::now();
        let ahead = self.ahead(train, self.step..last, evaluates.then_some(test));
        if self.engine.make_ready(&ahead)? {
            // The listener's answer is ignored here: each step asks whether to stop.
            let _ = listener(Event::Ready { seconds: started.elapsed().as_secs_f64() });
        }
        Ok(())
    }

    /// Returns the largest number of steps made before any of them is reported.
    pub(super) fn steps_at_once(&self) -> u64 {
        let most = self.engine.steps_at_once() as u64;
        self.read_every.map_or(most, |every| most.min(every))
    }

    /// Writes the checkpoint, if one is requested: to its own path, or else into the folder for temporary files. Returns the reason if both
    /// fail.
    fn write_checkpoint(&mut self, listener: &mut dyn FnMut(Event) -> Flow) -> Result<Option<String>, TrainError> {
        let Some(path) = self.checkpoint.clone().filter(|_| self.writes()) else { return Ok(None) };
        let now = self.now()?;
        let Err(why) = now.save(&path) else {
            let before = self.kept.0.replace(path.clone());
            if let Some(elsewhere) = before.filter(|before| *before != path) {
                let _ = std::fs::remove_file(elsewhere);
            }
            return Ok(None);
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let elsewhere = std::env::temp_dir().join(format!("{}-{name}", std::process::id()));
        let second = now.save(&elsewhere);
        let instead = second.is_ok().then_some(elsewhere);
        if instead.is_some() {
            self.kept.0.clone_from(&instead);
        }
        if !std::mem::replace(&mut self.kept.1, true) {
            // The listener's answer is ignored here: each step asks whether to stop.
            let _ = listener(Event::NotKept { why: why.to_string(), instead });
        }
        Ok(second.err().map(|second| format!("The checkpoint cannot be written: {why}; {second}.")))
    }

    /// Returns the order of the samples in an epoch.
    pub(super) fn order(&self, n: usize, epoch: u64) -> Vec<u32> {
        let (shuffle, seed) = (self.recipe.shuffle, self.recipe.seed ^ (epoch + 1) << 32);
        let place = |i: u64| if shuffle { philox::permute(seed, i, n as u64) } else { i };
        collect(n, &|i| place(i as u64) as u32)
    }

    /// Computes loss and accuracy over a data set, without dropout and augmentation.
    ///
    /// # Errors
    /// If the data set's images have another shape than the network's input.
    pub fn evaluate<'a>(&mut self, set: impl Into<Samples<'a>>) -> Result<Score, TrainError> {
        let set = set.into();
        set.check(&self.recipe)?;
        match &self.ranks {
            None => self.engine.evaluate(set, 0..set.len()),
            Some(ranks) => {
                let part = self.part_of_evaluation(set.len());
                let own = self.engine.evaluate(set, part)?;
                ranks.score(own)
            }
        }
    }
}
