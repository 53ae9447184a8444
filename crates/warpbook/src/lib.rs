//! The lab: a device, a bench for timing, and experiments that write records.
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

mod display;
mod exercises;
pub mod lesson;
pub mod prelude;

pub use display::{
    ConfusionMatrix, EvcxrDisplay, Headers, HostCode, ImageRows, KernelDiff, KernelView, Panel, PredictionGrid, Show,
    Viewed, figures, lines_against_speed, lines_of_code, notebook_progress, printable, progress_line,
};
pub use exercises::Exercises;
pub use warpbook_exercises::all as all_exercises;
pub use warpbook_experiments::{
    Attempts, ConvolutionLayer, Convolutions, DataSet, Expression, Gram, Guide, LAYERS, Matmul, Moments, PAIRS, Pair,
    Reference, Regression, Session, Sets, Statistics, TensorParallel, Timed, Training, TrainingLoop, TrainingRun,
    Trains, Underway, WholeTraining, WholeTrainings, Workload, experiments, figure_of, matmul_figure, ranks_line,
    scaling, survey, training_line, training_progress, trial,
};
pub use warpbook_lab::{
    Attempt, Candidate, Checked, Closures, Compilation, Details, Error, Event, Experiment, Lab, LiveKernel, Plan,
    Prepared, Repeated, Request, Result, Timelines, Trials, XrayRun, exercise, on_cpu, on_gpu, profile, read_record,
    settings, write_record,
};
pub use {
    warpbook_charts as charts, warpbook_data as data, warpbook_device as device, warpbook_gemm as gemm,
    warpbook_kernels as kernels, warpbook_nn as nn, warpbook_ranks as ranks, warpbook_record as record,
};
