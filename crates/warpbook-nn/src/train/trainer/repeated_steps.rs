//! Steps that are queued repeatedly, for measurements.

use super::Trainer;
use crate::train::cuda::SLOTS;
use crate::train::engine::{Batches, StepOperation, StepOutcome};
use crate::train::{Samples, TrainError};
use std::sync::Arc;
use warpbook_device::Stream;

impl Trainer {
    /// Prepares whole batches of a first epoch, which [`Trainer::queue_step`] repeats for measurements.
    ///
    /// # Errors
    /// If there are fewer samples than a batch has; if the device reports an error.
    pub fn prepare_steps<'a>(&mut self, set: impl Into<Samples<'a>>) -> Result<(), TrainError> {
        let (set, size): (Samples<'_>, usize) = (set.into(), self.recipe.batch);
        set.check(&self.recipe)?;
        if set.len() < size {
            let (samples, plural) = (set.len(), if set.len() == 1 { "" } else { "s" });
            let sentence = format!("The data set has {samples} sample{plural}, fewer than a batch of {size}.");
            return Err(TrainError::Setting(sentence));
        }
        let order = self.order(set.len(), 0);
        let count = SLOTS * size;
        let indices: Vec<u32> = order[..order.len() / size * size].iter().cycle().copied().take(count).collect();
        let rates = vec![self.recipe.learning_rate; SLOTS];
        let (parts, shards) = self.shards(&indices);
        let (indices, size) = (parts.as_deref().unwrap_or(&indices), self.size());
        let batches = Batches { set, indices, size, learning_rates: &rates, step: self.step, shards: &shards };
        self.engine.prepare_steps(&batches)
    }

    /// Queues the next prepared step without waiting for it; the CPU runs the step at once.
    ///
    /// # Errors
    /// If no steps were prepared; if the device reports an error.
    pub fn queue_step(&mut self) -> Result<(), TrainError> {
        self.engine.queue_step()
    }

    /// Makes the next prepared step on a GPU one operation at a time. Each operation is launched separately and waited for, then `after`
    /// is called: everything that a profiler records in between belongs to that operation. The step counts as queued, and trains like any
    /// other.
    ///
    /// # Errors
    /// If no steps were prepared, the training is on the CPU, the device reports an error, or `after` fails.
    pub fn step_by_operation(
        &mut self,
        after: &mut dyn FnMut(&StepOperation) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        self.engine.step_by_operation(after)
    }

    /// Calls `part` with the training, for example to make further steps, and restores it afterwards: weights, running statistics, the
    /// optimiser's state, the loss scale and the step. The gradients are still the gradients of the last step.
    ///
    /// # Errors
    /// If `part` fails, or the device reports an error.
    pub fn with_state_restored<T>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<T, TrainError>,
    ) -> Result<T, TrainError> {
        let (state, step) = (self.state()?, self.step);
        let done = part(self);
        let back = self.go_on(&state, step);
        let done = done?;
        back?;
        Ok(done)
    }

    /// Waits for the queued steps, as long as all ranks are alive.
    ///
    /// # Errors
    /// If the device reports an error, or a rank is lost.
    pub fn wait(&mut self) -> Result<(), TrainError> {
        self.engine.wait()
    }

    /// Waits for the last queued steps, at most 128, and returns their outcomes, the oldest first.
    ///
    /// # Errors
    /// If the device reports an error.
    pub fn step_outcomes(&mut self, count: usize) -> Result<Vec<StepOutcome>, TrainError> {
        self.engine.step_outcomes(count)
    }

    /// Returns the stream on which steps are queued; `None` on the CPU.
    #[must_use]
    pub fn stream(&self) -> Option<Arc<Stream>> {
        self.engine.stream()
    }
}
