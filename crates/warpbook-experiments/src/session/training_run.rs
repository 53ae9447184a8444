//! Result of a training.

use std::path::{Path, PathBuf};
use warpbook_lab::write_and_link;
use warpbook_lab::{Error, Result};
use warpbook_nn::train::{Ended, TrainError, Trainer};
use warpbook_nn::weights::Weights;
use warpbook_record::{EpochPoint, Run, TrainLog};

/// A training that has ended: its record, and the trainer with the weights. It shows itself in a cell.
#[derive(Debug)]
pub struct TrainingRun {
    pub(super) record: Run,
    pub(super) trainer: Trainer,
    pub(super) ended: std::result::Result<Ended, TrainError>,
    pub(super) written: Option<Result<PathBuf>>,
}

impl TrainingRun {
    /// Its record.
    #[must_use]
    pub fn record(&self) -> &Run {
        &self.record
    }

    /// Losses and all that was logged.
    #[must_use]
    pub fn log(&self) -> &TrainLog {
        &self.record.train_logs[0]
    }

    /// The last evaluation.
    #[must_use]
    pub fn last_epoch(&self) -> Option<&EpochPoint> {
        self.log().course.as_ref()?.epochs.last()
    }

    /// Why it ended; `None` where an error ended it.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.ended.as_ref().ok().copied()
    }

    /// The error that ended it.
    #[must_use]
    pub fn error(&self) -> Option<&TrainError> {
        self.ended.as_ref().err()
    }

    /// Returns the path that [`Session::out`](crate::Session::out) was written to, or why it could not be: [`TrainingRun::save`] writes it
    /// elsewhere. `None` if nothing was to be written.
    #[must_use]
    pub fn written(&self) -> Option<std::result::Result<&Path, &Error>> {
        self.written.as_ref().map(|w| w.as_deref())
    }

    /// The trainer: to go on, to evaluate, to save a checkpoint.
    pub fn trainer(&mut self) -> &mut Trainer {
        &mut self.trainer
    }

    /// The weights.
    ///
    /// # Errors
    /// If the device reports an error.
    pub fn weights(&self) -> Result<Weights> {
        Ok(self.trainer.weights()?)
    }

    /// Writes the record as JSON, as the prelude's `write_record` does. Gives back the path.
    ///
    /// # Errors
    /// For the reasons of [`warpbook_lab::write_and_link`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        write_and_link(&self.record, path)
    }

    /// The record and the trainer, with the error that ended it if one did.
    #[must_use]
    pub fn into_parts(self) -> (Run, Trainer, Option<TrainError>) {
        (self.record, self.trainer, self.ended.err())
    }
}
