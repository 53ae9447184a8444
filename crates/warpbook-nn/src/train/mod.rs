//! Training: a network's forward and backward pass, and the steps of an optimiser.

mod cpu;
mod cuda;
mod engine;
mod initial;
mod loss;
mod memory_check;
mod place;
mod precision;
mod prefetcher;
mod ranks;
mod recipe;
mod replicas;
mod samples;
mod score;
mod summary;
mod trainer;
mod training_rungs;

pub use crate::ops::cross_entropy::MeanLoss;
pub use cpu::{CpuEngine, Mode};
pub(crate) use cuda::CudaInference;
pub use cuda::{CudaOptions, Loader, Residency};
pub use engine::{ScalerState, StepOperation, StepOutcome};
pub use initial::Initial;
pub use loss::{Loss, Target};
pub use memory_check::ensure_host_memory;
pub use place::Place;
pub use precision::{GradScaler, Precision, PrecisionRow, PrecisionTable};
pub use prefetcher::{Batch, Prefetcher};
pub use ranks::{Bucket, RankThread, RankWork, Ranks, RanksOptions, plan_buckets};
pub use recipe::{Augmentation, Recipe, Views};
pub use replicas::DataParallel;
pub use samples::Samples;
pub use score::Score;
pub use summary::{PlannedMemory, Summary, SummaryRow};
pub(crate) use trainer::Description;
pub use trainer::{AtOnce, Ended, Event, Flow, Trained, Trainer};
pub use training_rungs::{Way, rungs_with_product, ways};

use crate::ops::OpError;
use crate::weights::WeightsError;

/// The reason why a training cannot continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// An operation reports an error.
    #[error(transparent)]
    Op(#[from] OpError),
    /// The device reports an error.
    #[error(transparent)]
    Device(#[from] warpbook_device::Error),
    /// Weights cannot be read or written.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A tensor cannot be created, moved or read.
    #[error(transparent)]
    Tensor(#[from] crate::tensor::TensorError),
    /// The ranks cannot continue together.
    #[error(transparent)]
    Ranks(#[from] warpbook_ranks::Error),
    /// A setting is invalid.
    #[error("{0}")]
    Setting(String),
    /// A loss or another result is infinite or NaN.
    #[error("{0}")]
    NotFinite(String),
}
