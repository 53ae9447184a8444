//! Training: a network's forward and backward pass, and the steps of an optimiser.

mod checkpoint;
mod cpu;
mod loss;
mod recipe;
mod trainer;

pub use cpu::{CpuEngine, Mode};
pub use loss::{BatchLoss, Loss, Target};
pub use recipe::{Augmentation, Recipe};
pub use trainer::{Event, Flow, Score, Trainer};

use crate::ops::OpError;
use crate::weights::WeightsError;

/// Why a training cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// An operation refused.
    #[error(transparent)]
    Op(#[from] OpError),
    /// Weights cannot be read or written.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A setting that makes no sense.
    #[error("{0}")]
    Setting(String),
    /// A value that is no number.
    #[error("{0}")]
    NotFinite(String),
}
