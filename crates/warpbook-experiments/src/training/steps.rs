//! Training steps: the steps that are compared with the reference, and the steps that are timed.

use super::data::Set;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use warpbook_device::Stream;
use warpbook_lab::{Error, Lab, Result};
use warpbook_nn::train::{Place, Recipe, TrainError, Trainer};

/// Number of timed steps after which the mean loss may be at most [`ALLOWED`] times the first loss.
const SETTLED: usize = 20;
/// Number of final steps whose losses are checked.
const LAST: usize = 8;
/// Maximum ratio of the mean final loss to the first loss; dropout and changing batches make losses vary.
const ALLOWED: f64 = 1.1;
/// Smallest batch size for this check, since losses of smaller batches vary too much.
const LEAST_BATCH: usize = 32;

/// Converts a training error to an error of the lab; device errors are passed through.
pub(crate) fn failure(error: TrainError) -> Error {
    match error {
        TrainError::Device(e) => e.into(),
        other => Error::Setting(other.to_string()),
    }
}

/// Returns the losses of the first steps of a training run. On a GPU, the steps have a time limit of `limit_s` seconds.
pub(super) fn losses(
    lab: &Lab,
    place: &Place,
    (recipe, set): (&Recipe, &Set),
    steps: usize,
    limit_s: Option<f64>,
) -> Result<Vec<f64>> {
    let mut trainer = Trainer::on(place, recipe.clone(), set.samples(), None).map_err(failure)?;
    trainer.prepare_steps(set.samples()).map_err(failure)?;
    for _ in 0..steps {
        lab.bench().cancel.check()?;
        trainer.queue_step().map_err(failure)?;
    }
    if let (Some(stream), Some(limit_s)) = (trainer.stream(), limit_s) {
        stream.synchronize_within(limit_s)?;
    }
    let outcomes = trainer.step_outcomes(steps).map_err(failure)?;
    if let Some(at) = outcomes.iter().position(|o| o.skipped) {
        let step = at + 1;
        return Err(Error::Setting(format!(
            "A gradient of step {step} overflowed, and the step was skipped: its losses cannot be compared with the reference."
        )));
    }
    Ok(outcomes.iter().map(|o| o.loss).collect())
}

/// A training run whose steps are timed.
pub(super) struct TimedSteps {
    trainer: RefCell<Trainer>,
    stream: Option<Arc<Stream>>,
    made: Cell<usize>,
    first_loss: Cell<Option<f64>>,
    failed: RefCell<Option<String>>,
}

impl TimedSteps {
    pub(super) fn new(place: &Place, recipe: &Recipe, set: &Set) -> Result<Self> {
        let mut trainer = Trainer::on(place, recipe.clone(), set.samples(), None).map_err(failure)?;
        trainer.prepare_steps(set.samples()).map_err(failure)?;
        Ok(Self {
            stream: trainer.stream(),
            trainer: RefCell::new(trainer),
            made: Cell::new(0),
            first_loss: Cell::new(None),
            failed: RefCell::new(None),
        })
    }

    pub(super) fn stream(&self) -> Option<&Stream> {
        self.stream.as_deref()
    }

    /// Returns the peak device memory in bytes.
    pub(super) fn peak_bytes(&self) -> u64 {
        self.trainer.borrow().bytes()
    }

    /// Runs or queues a step. Errors other than device errors are reported by [`TimedSteps::flaw`].
    pub(super) fn step(&self) -> warpbook_device::Result<()> {
        self.made.set(self.made.get() + 1);
        match self.trainer.borrow_mut().queue_step() {
            Err(TrainError::Device(error)) => Err(error),
            Err(error) => {
                self.failed.borrow_mut().get_or_insert_with(|| error.to_string());
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Returns a sentence that says what is wrong with the final losses. They must be finite and, after enough steps,
    /// not above the first loss.
    pub(super) fn flaw(&self) -> Result<Option<String>> {
        if let Some(error) = self.failed.borrow().clone() {
            return Ok(Some(error));
        }
        let made = self.made.get();
        let mut trainer = self.trainer.borrow_mut();
        let outcomes = trainer.step_outcomes(made.min(LAST)).map_err(failure)?;
        let losses: Vec<f64> = outcomes.iter().map(|o| o.loss).collect();
        if self.first_loss.get().is_none() {
            self.first_loss.set(losses.first().copied());
        }
        let judged = made >= SETTLED && trainer.recipe().batch >= LEAST_BATCH;
        Ok(flaw(self.first_loss.get().filter(|_| judged), &losses))
    }
}

/// Returns a sentence that says what is wrong with these losses; `first` is the first loss, if it should be compared.
fn flaw(first: Option<f64>, last: &[f64]) -> Option<String> {
    if let Some(loss) = last.iter().find(|l| !l.is_finite()) {
        return Some(format!("one of the last {} timed steps has a loss of {loss}", last.len()));
    }
    let (first, mean) = (first?, last.iter().sum::<f64>() / last.len().max(1) as f64);
    let fell = mean <= ALLOWED * first;
    (!fell).then(|| {
        format!("the losses of the last {} timed steps are {mean:.3} on average, the first was {first:.3}", last.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timed_steps_have_to_train() {
        assert_eq!(flaw(Some(2.3), &[1.0, 1.2]), None);
        assert_eq!(flaw(None, &[9.0]), None, "too early to tell");
        assert!(flaw(Some(2.3), &[2.0, 4.0]).unwrap().contains("3.000 on average"));
        assert!(flaw(None, &[1.0, f64::NAN]).unwrap().contains("NaN"));
        assert!(flaw(Some(f64::NAN), &[1.0]).is_some());
    }
}
