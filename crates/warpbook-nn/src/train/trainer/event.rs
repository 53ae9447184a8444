//! What a training tells while it goes on, and why it ended.

use crate::train::{Score, StepOutcome};
use std::path::PathBuf;

/// What happens during a training.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A step was made.
    Step {
        /// Steps since the beginning.
        step: u64,
        /// The loss of its batch.
        loss: f64,
        /// The learning rate.
        learning_rate: f64,
        /// What else it came to.
        outcome: StepOutcome,
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
    /// The time budget was used up within an epoch, and the test set was classified.
    OutOfTime {
        /// The epoch, from 1.
        epoch: u32,
        /// Steps since the beginning.
        step: u64,
        /// Seconds of the epoch's training, evaluation not included.
        seconds: f64,
        /// How the test set came out.
        test: Score,
    },
    /// The checkpoint could not be written for the first time. The training goes on, and writing is tried again each time.
    NotKept {
        /// Why, as a sentence that names the file.
        why: String,
        /// The file that has it instead, if there is one.
        instead: Option<PathBuf>,
    },
}

/// Why a training ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All steps were made.
    Finished,
    /// Its listener stopped it.
    Stopped,
    /// Its time budget was used up.
    OutOfTime,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Finished => "finished",
            Self::Stopped => "stopped",
            Self::OutOfTime => "out of time",
        })
    }
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
    pub(in crate::train) fn and(self, other: Self) -> Self {
        if self == Self::Stop { self } else { other }
    }
}
