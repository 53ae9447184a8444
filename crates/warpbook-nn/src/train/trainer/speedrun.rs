//! Whole trainings without interruption, for recipes whose total time counts.

use super::{Ended, Flow, Trainer};
use crate::train::engine::{Batches, State};
use crate::train::{Samples, Score, StepOutcome, TrainError};
use std::time::Instant;

/// Result of a whole training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AtOnce {
    /// Seconds from images on the device to the accuracy on the host: initial weights, all steps, and the evaluation.
    pub seconds: f64,
    /// Loss of the last step.
    pub loss: f64,
    /// Loss and accuracy on the test samples, which nothing else has read.
    pub test: Score,
}

impl Trainer {
    /// Copies the samples to the device, and prepares everything that steps and evaluation launch, so that [`Trainer::run_whole_training`] does
    /// not have to.
    ///
    /// # Errors
    /// If the samples do not match the network, or do not fit into the device's memory.
    pub fn prepare_whole_training<'a>(
        &mut self,
        train: impl Into<Samples<'a>>,
        test: impl Into<Samples<'a>>,
    ) -> Result<(), TrainError> {
        let (train, test) = (train.into(), test.into());
        train.check(&self.recipe)?;
        test.check(&self.recipe)?;
        self.ensure_variances(train.len())?;
        let steps = 0..self.recipe.total_steps(train.len());
        self.engine.make_ready(&self.ahead(train, steps, Some(test))).map(drop)
    }

    /// Returns to the recipe's initial weights, before the first step.
    ///
    /// # Errors
    /// If the device reports an error.
    pub fn restart<'a>(&mut self, train: impl Into<Samples<'a>>) -> Result<(), TrainError> {
        let fresh = self.engine.state_is_fresh();
        let weights = self.recipe.initial_weights(train.into())?;
        let slots = if fresh { Vec::new() } else { vec![weights.zeros(); self.recipe.optimizer.state_slots()] };
        self.go_on(&State { weights, slots, updates: 0, scaler: None, kernels: Vec::new() }, 0)
    }

    /// Makes all remaining steps of the recipe, without an evaluation in between. `after` receives the steps whose losses were read
    /// together, and may end the training.
    ///
    /// # Errors
    /// Returns the same errors as [`Trainer::train`], and an error if this is one of several ranks.
    pub fn train_remaining_steps<'a>(
        &mut self,
        train: impl Into<Samples<'a>>,
        after: &mut dyn FnMut(&[StepOutcome]) -> Flow,
    ) -> Result<Ended, TrainError> {
        let train: Samples<'_> = train.into();
        self.ensure_one_rank()?;
        let size = self.recipe.batch;
        let (per_epoch, last) = (train.len().div_ceil(size) as u64, self.recipe.total_steps(train.len()));
        let (mut ordered, mut order) = (None, Vec::new());
        while self.step < last {
            // As long as no batch is cut, whole epochs follow each other in one list of indices.
            let (epoch, batch) = (self.step / per_epoch, self.step % per_epoch);
            let most = self.steps_at_once().max(1);
            let is_whole = train.len().is_multiple_of(size);
            let steps =
                if is_whole { most.min(last - self.step) } else { most.min(last - self.step).min(per_epoch - batch) };
            let mut indices = Vec::with_capacity(steps as usize * size);
            let (mut at, mut taken) = ((epoch, batch as usize * size), steps as usize * size);
            while taken > 0 && at.1 < train.len() {
                if ordered != Some(at.0) {
                    (ordered, order) = (Some(at.0), self.order(train.len(), at.0));
                }
                let end = (at.1 + taken).min(order.len());
                indices.extend_from_slice(&order[at.1..end]);
                taken -= end - at.1;
                at = if is_whole { (at.0 + 1, 0) } else { (at.0, train.len()) };
            }
            let rates = (self.step..self.step + steps).map(|step| self.recipe.learning_rate_at(step, per_epoch));
            let rates = rates.collect::<Result<Vec<f64>, _>>()?;
            let batches =
                Batches { set: train, indices: &indices, size, learning_rates: &rates, step: self.step, shards: &[] };
            let trained = self.engine.train(&batches)?;
            self.step += trained.outcomes.len() as u64;
            if let Some(broken) = trained.broken {
                return Err(broken.error(self.step + 1));
            }
            if after(&trained.outcomes) == Flow::Stop && self.step < last {
                return Ok(Ended::Stopped);
            }
        }
        Ok(Ended::Finished)
    }

    fn ensure_one_rank(&self) -> Result<(), TrainError> {
        if self.ranks.is_some() {
            return Err(TrainError::Setting(
                "Uninterrupted training runs on only one rank: train with epochs instead.".into(),
            ));
        }
        Ok(())
    }

    /// Makes all steps of the recipe from its initial weights, with one evaluation at the end and no events in between. Earlier steps are
    /// discarded.
    ///
    /// # Errors
    /// See [`Trainer::train`].
    pub fn run_whole_training<'a>(
        &mut self,
        train: impl Into<Samples<'a>>,
        test: impl Into<Samples<'a>>,
    ) -> Result<AtOnce, TrainError> {
        self.ensure_one_rank()?;
        let train: Samples<'_> = train.into();
        let started = Instant::now();
        self.restart(train)?;
        let mut loss = f64::NAN;
        self.train_remaining_steps(train, &mut |outcomes| {
            loss = outcomes.last().map_or(loss, |o| o.loss);
            Flow::Continue
        })?;
        let test = self.evaluate(test)?;
        Ok(AtOnce { seconds: started.elapsed().as_secs_f64(), loss, test })
    }
}
