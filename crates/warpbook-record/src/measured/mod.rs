//! The results of a run: measurements, checks, counters, courses of trainings, profiles and X-rays.

pub(crate) mod breakdown;
pub(crate) mod check;
pub mod counters;
pub(crate) mod course;
pub(crate) mod emulated;
pub(crate) mod inputs;
pub(crate) mod measurement;
pub(crate) mod profiled;
pub(crate) mod scaling;
pub mod stats;
pub mod xray;
