//! Events of a training, and the reasons for its end.

use crate::train::{Score, StepOutcome};
use std::path::PathBuf;

/// An event during a training.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// Before the first step on a GPU: all kernels were chosen, timed where that is wanted, and compiled.
    Ready {
        /// Seconds of this preparation, which are no part of an epoch's seconds.
        seconds: f64,
    },
    /// A step was made.
    Step {
        /// Number of steps since the beginning.
        step: u64,
        /// Loss of the step's batch.
        loss: f64,
        /// Learning rate of the step.
        learning_rate: f64,
        /// Further results of the step.
        outcome: StepOutcome,
    },
    /// Several batches were trained on since the last such event.
    Batches {
        /// The epoch, from 1.
        epoch: u32,
        /// Number of finished batches of this epoch.
        batch: u64,
        /// Number of steps since the beginning.
        step: u64,
        /// Mean loss of these batches.
        loss: f64,
        /// Learning rate of the last of these batches.
        learning_rate: f64,
    },
    /// An epoch has ended, and the test set was evaluated.
    Epoch {
        /// The epoch, from 1.
        epoch: u32,
        /// Number of steps since the beginning.
        step: u64,
        /// Seconds of training in this epoch, evaluation not included.
        seconds: f64,
        /// Loss and accuracy on the test set.
        test: Score,
    },
    /// The time budget was used up within an epoch, and the test set was evaluated.
    OutOfTime {
        /// The epoch, from 1.
        epoch: u32,
        /// Number of steps since the beginning.
        step: u64,
        /// Seconds of training in this epoch, evaluation not included.
        seconds: f64,
        /// Loss and accuracy on the test set.
        test: Score,
    },
    /// The checkpoint could not be written, for the first time. The training continues, and tries again each time.
    NotKept {
        /// The reason, as a sentence that names the file.
        why: String,
        /// The file written instead, if any.
        instead: Option<PathBuf>,
    },
}

/// The reason why a training ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All steps were made.
    Finished,
    /// The listener stopped the training.
    Stopped,
    /// The time budget was used up.
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

/// A listener's decision whether a training continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The training continues.
    Continue,
    /// The training ends after this step.
    Stop,
}

impl Flow {
    /// Returns [`Flow::Stop`] if either of the two decisions is [`Flow::Stop`].
    pub(in crate::train) fn and(self, other: Self) -> Self {
        if self == Self::Stop { self } else { other }
    }
}
