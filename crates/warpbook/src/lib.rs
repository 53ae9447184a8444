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

mod display;
mod error;
mod experiment;
mod export;
mod lab;
pub mod lesson;
mod matmul;
pub mod prelude;
mod regression;

pub use display::{
    EvcxrDisplay, KernelDiff, KernelView, Panel, Show, figures, lines_against_speed, lines_of_code, notebook_progress,
    progress_line,
};
pub use error::{Error, Result};
pub use experiment::{Event, Experiment};
pub use export::{read_record, write_record};
pub use lab::Lab;
pub use matmul::{Attempt, Compilation, LiveKernel, Matmul, Request};
pub use regression::{
    Regression, data::DataSet, reference::Gram, reference::Moments, reference::Reference, reference::Statistics,
};
pub use {warpbook_charts as charts, warpbook_device as device, warpbook_nn as nn, warpbook_record as record};
