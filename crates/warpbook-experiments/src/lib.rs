//! The experiments: the regression, matrix products, convolutions, training, products over several GPUs, scaling and the optimisation guide.
//!
//! Each experiment has its own formulas, inputs, checks and launches; `warpbook_lab` does the rest. [`experiments`]
//! lists the experiments.
#![deny(unsafe_code)]

mod attempts;
mod builders;
mod catalogue;
mod convolution;
pub mod guide;
pub mod matmul;
mod regression;
pub mod scaling;
pub mod session;
mod tensor_parallel;
mod training;
pub mod training_loop;

pub use attempts::Attempts;
pub use catalogue::{experiments, trial};
pub use convolution::{ConvolutionLayer, Convolutions, LAYERS};
pub use guide::{Expression, Guide, PAIRS, Pair};
pub use matmul::{Matmul, figure_of, matmul_figure, survey};
pub use regression::{
    Regression, data::DataSet, reference::Gram, reference::Moments, reference::Reference, reference::Statistics,
};
pub use session::{
    Session, Sets, Timed, TrainingRun, Trains, Underway, WholeTraining, WholeTrainings, ranks_line, training_line,
    training_progress,
};
pub use tensor_parallel::TensorParallel;
pub use training::{Training, Workload};
pub use training_loop::TrainingLoop;
