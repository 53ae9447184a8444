//! The lab: a device, a bench for timing, and a driver that runs any [`Experiment`] and writes its record.
//!
//! [`Lab::run`] plans, checks and times an experiment. [`Lab::attempt_at`] does the same with a learner's kernel in
//! place of a rung ([`LiveKernel`]). [`profile`] records the work of a program on the device. This crate does not
//! depend on any particular experiment.
#![deny(unsafe_code)]

pub mod activity;
pub mod custom_layer;
pub mod driver;
mod emulated;
mod error;
pub mod exercise;
pub mod experiment;
mod export;
mod lab;
mod live;
mod page;
pub mod profile;
#[cfg(test)]
mod sample;
pub mod settings;
mod xray;

pub use activity::Timelines;
pub use error::{Error, Result};
pub use experiment::{
    Candidate, Checked, Closures, Details, Event, Experiment, Plan, Prepared, Repeated, Trials, on_cpu, on_gpu,
};
pub use export::{print_line, read_record, write_record};
pub use lab::Lab;
pub use live::{Attempt, Compilation, LiveKernel, Request};
pub use page::write_and_link;
pub use xray::XrayRun;
