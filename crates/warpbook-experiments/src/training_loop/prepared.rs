//! The images and candidates of one batch size. A timed run of a candidate is a complete training run.

use super::feeds::{Way, WholeLoop, place};
use super::{TrainingLoop, several};
use crate::session::accuracy_check;
use std::cell::RefCell;
use warpbook_data::Splits;
use warpbook_lab::experiment::{Candidate, Checked, Details, Prepared, Trials};
use warpbook_lab::{Error, Lab, Result};
use warpbook_nn::train::{Ended, Place, Recipe, Score, TrainError};
use warpbook_record::{Dtype, LossPoint, Problem, Right, Rung, TrainLog};

/// The images and the recipe of a problem.
pub(super) struct LoopWork<'a> {
    of: &'a TrainingLoop,
    lab: &'a Lab,
    problem: Problem,
    recipe: Recipe,
    splits: Splits,
}

impl<'a> LoopWork<'a> {
    /// Reads the images from files, or draws them.
    pub(super) fn new(of: &'a TrainingLoop, lab: &'a Lab, problem: &Problem) -> Result<Self> {
        let recipe = of.recipe(problem.count("batch").unwrap_or(1));
        Ok(Self { of, lab, problem: problem.clone(), recipe, splits: of.splits()? })
    }
}

impl Prepared for LoopWork<'_> {
    fn candidate<'p>(&'p self, rung: &Rung, _trials: &mut Trials<'_>) -> Result<Box<dyn Candidate + 'p>> {
        let (place, reads, dtype) = if rung.is_cpu() {
            (Place::Cpu, None, Dtype::F32)
        } else {
            let unknown = || Error::UnknownRung { name: rung.id.to_string(), nearest: Vec::new() };
            let way = Way::by_id(&rung.id).ok_or_else(unknown)?;
            let place = place(self.lab, (way.precision, way.feed), self.of.workers)?;
            (place, self.of.reads(way.feed), way.precision.products())
        };
        let training = WholeLoop::new(&place, self.recipe.clone(), &self.splits, reads)?;
        let state = LoopState { training, tested: None, runs: Vec::new(), failed: None };
        let dtype = Some(dtype).filter(|d| *d != Dtype::F32);
        Ok(Box::new(RepeatedTraining { work: self, rung: rung.id.to_string(), dtype, state: RefCell::new(state) }))
    }
}

/// A candidate that repeats a complete training run.
struct RepeatedTraining<'p> {
    work: &'p LoopWork<'p>,
    rung: String,
    /// Data type of the products, if it is not fp32.
    dtype: Option<Dtype>,
    state: RefCell<LoopState<'p>>,
}

struct LoopState<'p> {
    training: WholeLoop<'p>,
    /// Score on the test images after the last training run; `None` until it is computed.
    tested: Option<Score>,
    /// Number of correctly classified test images in each training run.
    runs: Vec<Right>,
    /// Reason why a training run ended early.
    failed: Option<String>,
}

impl LoopState<'_> {
    /// Stores a training error as the reason why the rung fails; a device error is returned.
    fn note(&mut self, error: TrainError) -> warpbook_device::Result<()> {
        match error {
            TrainError::Device(error) => Err(error),
            other => {
                self.failed.get_or_insert_with(|| other.to_string());
                Ok(())
            }
        }
    }

    /// Classifies the test images, unless this was already done after the last training run.
    fn test(&mut self) -> warpbook_device::Result<()> {
        if self.tested.is_some() || self.training.steps() == 0 {
            return Ok(());
        }
        match self.training.test() {
            Ok(score) => {
                self.runs.push(Right { correct: score.correct as u64, of: score.of as u64 });
                self.tested = Some(score);
                Ok(())
            }
            Err(error) => self.note(error),
        }
    }
}

impl Candidate for RepeatedTraining<'_> {
    fn resets_each_run(&self) -> bool {
        true
    }

    fn reset(&self) -> warpbook_device::Result<()> {
        let mut state = self.state.borrow_mut();
        state.test()?;
        state.tested = None;
        let begun = state.training.restart();
        begun.or_else(|error| state.note(error))
    }

    fn launch(&self) -> warpbook_device::Result<()> {
        let mut state = self.state.borrow_mut();
        match state.training.run(&self.work.lab.bench().cancel) {
            Ok(Ended::Finished) => Ok(()),
            Ok(_) => Err(warpbook_device::Error::Cancelled),
            Err(error) => state.note(error),
        }
    }

    fn check(&self) -> Result<Checked> {
        let mut state = self.state.borrow_mut();
        state.test()?;
        self.work.lab.watch().read();
        let accuracy = state.tested.map(|score| score.accuracy());
        let target = self.work.of.target(self.work.recipe.batch as u64);
        let check = accuracy_check(target, accuracy.map(|share| (share, 0.0)));
        let missed = || {
            let (percent, steps) = (100.0 * accuracy.unwrap_or(f64::NAN), several(state.training.steps(), "step"));
            format!(
                "{percent:.2} % of the test images were classified right after {steps}, fewer than the {target} % of --to"
            )
        };
        let error = state.failed.clone().or_else(|| (!check.passed).then(missed));
        Ok(Checked { check, error, log: Some(self.log(&state)) })
    }

    fn details(&self) -> Details {
        let state = self.state.borrow();
        let (peak_bytes, test) = (state.training.peak_bytes(), state.runs.clone());
        Details { dtype: self.dtype, peak_bytes, test, ..Details::default() }
    }
}

impl RepeatedTraining<'_> {
    /// Returns the log: the mean loss of each epoch, and the loss on the test images.
    fn log(&self, state: &LoopState<'_>) -> TrainLog {
        let losses = state.training.losses();
        let point = |(i, loss): (usize, &f64)| LossPoint { epoch: i as u64 + 1, step: None, loss: *loss };
        TrainLog {
            rung: self.rung.clone(),
            problem: self.work.problem.clone(),
            losses: losses.iter().enumerate().map(point).collect(),
            parameters: Default::default(),
            train_loss: losses.last().copied().unwrap_or(f64::NAN),
            test_loss: state.tested.map_or(f64::NAN, |score| score.loss),
            course: None,
        }
    }
}
