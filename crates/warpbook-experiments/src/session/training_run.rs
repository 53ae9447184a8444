//! The result of a training run.

use std::path::{Path, PathBuf};
use warpbook_lab::write_and_link;
use warpbook_lab::{Error, Result};
use warpbook_nn::train::{Ended, TrainError, Trainer};
use warpbook_nn::weights::Weights;
use warpbook_record::{EpochPoint, Run, TrainLog};

/// A finished training run: its record, and the trainer with the weights. Notebooks can display the result.
#[derive(Debug)]
pub struct TrainingRun {
    pub(super) record: Run,
    pub(super) trainer: Trainer,
    pub(super) ended: std::result::Result<Ended, TrainError>,
    pub(super) written: Option<Result<PathBuf>>,
}

impl TrainingRun {
    /// Returns the record, which contains the log, the evaluations and the settings.
    #[must_use]
    pub fn record(&self) -> &Run {
        &self.record
    }

    /// Returns the log of the training: losses and all other logged values.
    #[must_use]
    pub fn log(&self) -> &TrainLog {
        &self.record.train_logs[0]
    }

    /// Returns the last evaluation; `None` if there was none.
    #[must_use]
    pub fn last_epoch(&self) -> Option<&EpochPoint> {
        self.log().course.as_ref()?.epochs.last()
    }

    /// Returns the reason why the training ended; `None` if it ended with an error.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.ended.as_ref().ok().copied()
    }

    /// Returns the error that ended the training; `None` if it ended without an error.
    #[must_use]
    pub fn error(&self) -> Option<&TrainError> {
        self.ended.as_ref().err()
    }

    /// Returns the path of the file set with [`Session::out`](crate::Session::out), or the error that occurred when the
    /// file was written; [`TrainingRun::save`] can then write it elsewhere. `None` if no file was set.
    ///
    /// # Errors
    /// If the file could not be written.
    #[must_use]
    pub fn written(&self) -> Option<std::result::Result<&Path, &Error>> {
        self.written.as_ref().map(|w| w.as_deref())
    }

    /// Returns the trainer, for further training, an evaluation, or a checkpoint.
    pub fn trainer(&mut self) -> &mut Trainer {
        &mut self.trainer
    }

    /// Returns the weights.
    ///
    /// # Errors
    /// If the device reports an error.
    pub fn weights(&self) -> Result<Weights> {
        Ok(self.trainer.weights()?)
    }

    /// Writes the record as JSON, like the prelude's `write_record`. Returns the path.
    ///
    /// # Errors
    /// See [`warpbook_lab::write_and_link`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        write_and_link(&self.record, path)
    }

    /// Returns the record, the trainer, and the error that ended the training if one did.
    #[must_use]
    pub fn into_parts(self) -> (Run, Trainer, Option<TrainError>) {
        (self.record, self.trainer, self.ended.err())
    }
}
