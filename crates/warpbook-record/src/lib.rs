//! What was run and what came out of it.
//!
//! A [`Run`] is one record: the machine ([`Environment`]), how it was timed ([`Policy`]), the ceilings that were
//! measured on it ([`Peaks`]), the ways of doing the work ([`Rung`]) and what each gave ([`Measurement`]).
//! Raw samples are stored; medians, bandwidths and speed-ups are methods.
//!
//! This crate opens no file, knows no clock and builds for wasm32.
#![forbid(unsafe_code)]

mod breakdown;
mod cache_folder;
mod check;
pub mod counters;
mod course;
mod descriptor;
mod environment;
pub mod json;
mod measurement;
mod problem;
mod profiled;
mod read;
pub mod real;
mod roofline;
mod run;
mod rung;
mod scaling;
pub mod stats;
mod v1;
pub mod xray;

pub use breakdown::{Breakdown, OperationTime};
pub use cache_folder::cache_folder;
pub use check::Check;
pub use counters::{CounterValue, KernelCounters};
pub use course::{Course, EpochPoint, MAX_POINTS, Right, StepValue};
pub use descriptor::{Baseline, ChartKind, Column, Descriptor, Quantity, SweepAxis};
pub use environment::{ClockReport, DeviceInfo, DeviceKind, Environment};
pub use measurement::{
    KernelStats, L2State, LossPoint, Measurement, Outcome, Part, PartGroup, Policy, Span, TimedBy, Traffic, TrainLog,
};
pub use problem::{Dtype, Problem, ProblemData, Size, SizeValue, SweepPoint, count, setting, short_count};
pub use profiled::{MemoryAt, PowerAt, Profiled, ProfilerOverhead, Settled};
pub use read::{MAX_BYTES, ReadError};
pub use roofline::{
    Access, BandwidthPeak, ComputePeak, LinkCurve, LinkPoint, LinkTransfer, MemoryLevel, Peaks, Roofline, kept_by_cache,
};
pub use run::{Bound, LadderRow, Run, SCHEMA};
pub use rung::{
    CUDA_DRIVER, Define, Dim, Grid, Header, KernelSpec, LIVE, Requires, Rung, Runner, Schedule, Source, Tile, nearest,
    source_path,
};
pub use xray::{Xray, XrayBlock, XrayKernel, XraySm, XrayWarp};

/// The JSON Schema (draft 2020-12) of a record, pretty-printed, with a newline at its end.
#[cfg(feature = "schema")]
#[must_use]
pub fn json_schema() -> String {
    let schema = schemars::schema_for!(Run);
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}
