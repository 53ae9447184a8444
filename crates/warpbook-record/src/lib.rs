//! Records: what work was run, and with what results.
//!
//! A [`Run`] is one record: the machine ([`Environment`]), the rules of timing ([`Policy`]), the measured ceilings
//! ([`Peaks`]), the implementations of the work ([`Rung`]) and their results ([`Measurement`]). Records store raw
//! samples; medians, bandwidths and speed-ups are computed by methods.
//!
//! This crate opens no file, reads no clock and builds for wasm32.
#![forbid(unsafe_code)]

mod cache_folder;
mod descriptor;
mod environment;
mod format;
mod guess;
mod measured;
mod problem;
mod progress;
mod roofline;
mod run;
mod rung;

pub use cache_folder::cache_folder;
pub use descriptor::{Baseline, ChartKind, Column, Descriptor, Quantity, SweepAxis};
pub use environment::{ClockReport, DeviceInfo, DeviceKind, Environment};
pub use format::read::{MAX_BYTES, ReadError};
pub use format::{json, real};
pub use guess::{Answer, Guessed};
pub use measured::breakdown::{Breakdown, OperationTime};
pub use measured::check::Check;
pub use measured::counters::{CounterValue, KernelCounters};
pub use measured::course::{Course, EpochPoint, MAX_POINTS, Right, StepValue};
pub use measured::emulated::{AccessKind, Emulated, Finding, LineCounts, Transfers, WarpRequest};
pub use measured::inputs::{Input, Inputs};
pub use measured::measurement::{
    Gradients, KernelStats, L2State, LossPoint, Measurement, Outcome, Part, PartGroup, Policy, Span, TimedBy, Traffic,
    TrainLog,
};
pub use measured::profiled::{MemoryAt, PowerAt, Profiled, ProfilerOverhead, Settled};
pub use measured::xray::{Xray, XrayBlock, XrayKernel, XraySm, XrayWarp};
pub use measured::{counters, stats, xray};
pub use problem::{Dtype, Problem, ProblemData, Size, SizeValue, SweepPoint, count, setting, short_count};
pub use progress::{ExerciseProgress, Progress, TargetCount, Try, Verdict};
pub use roofline::{
    Access, BandwidthPeak, ComputePeak, LinkCurve, LinkPoint, LinkTransfer, MemoryLevel, Peaks, Roofline, kept_by_cache,
};
pub use run::{Bound, LadderRow, Run, SCHEMA};
pub use rung::{
    CUDA_DRIVER, Define, Dim, Grid, Header, KernelSpec, LIVE, Requires, Rung, Runner, Schedule, Source, Tile, nearest,
    source_path,
};

/// Returns the JSON Schema (draft 2020-12) of a record, pretty-printed, with a final newline.
#[cfg(feature = "schema")]
#[must_use]
pub fn json_schema() -> String {
    let schema = schemars::schema_for!(Run);
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}
