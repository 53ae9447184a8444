//! The lab: a device, a way of timing, and experiments that give records.
//!
//! ```no_run
//! use warpbook::prelude::*;
//!
//! let lab = Lab::new()?;
//! let run = lab.run(&Regression::new().points([5_000_000]))?;
//! write_record(&run, "regression.json")?;
//! # Ok::<(), warpbook::Error>(())
//! ```
#![deny(unsafe_code)]

mod activity;
mod convolution;
mod display;
mod driver;
mod error;
mod experiment;
mod experiments;
mod export;
mod guide;
mod lab;
pub mod lesson;
mod live;
mod matmul;
mod own_layer;
pub mod prelude;
pub mod profile;
mod regression;
pub mod scaling;
mod session;
pub mod settings;
mod tensor_parallel;
mod training;
mod training_loop;
mod xray;

pub use activity::Timelines;
pub use convolution::{ConvolutionLayer, Convolutions, LAYERS};
pub use display::{
    ConfusionMatrix, EvcxrDisplay, Headers, HostCode, ImageRows, KernelDiff, KernelView, Panel, PredictionGrid, Show,
    figures, lines_against_speed, lines_of_code, notebook_progress, printable, progress_line,
};
pub use error::{Error, Result};
pub use experiment::{
    Candidate, Checked, Closures, Details, Event, Experiment, Prepared, Repeated, Trials, on_cpu, on_gpu,
};
pub use experiments::{experiments, trial};
pub use export::{read_record, write_record};
pub use guide::{Expression, Guide, PAIRS, Pair};
pub use lab::Lab;
pub use live::{Attempt, Compilation, LiveKernel, Request};
pub use matmul::{Matmul, figure_of, matmul_figure, survey};
pub use regression::{
    Regression, data::DataSet, reference::Gram, reference::Moments, reference::Reference, reference::Statistics,
};
pub use session::{
    Session, Sets, Timed, TrainingRun, Underway, WholeTraining, WholeTrainings, ranks_line, training_line,
    training_progress,
};
pub use tensor_parallel::TensorParallel;
pub use training::{Training, Workload};
pub use training_loop::TrainingLoop;
pub use xray::XrayRun;
pub use {
    warpbook_charts as charts, warpbook_data as data, warpbook_device as device, warpbook_gemm as gemm,
    warpbook_kernels as kernels, warpbook_nn as nn, warpbook_ranks as ranks, warpbook_record as record,
};
