//! The display of records, attempts, profiles, X-rays and devices.

pub(crate) mod attempts;
pub(crate) mod counters;
pub(crate) mod devices;
mod emulated;
mod exercises;
mod lanes;
pub(crate) mod profiles;
pub(crate) mod progress;
pub(crate) mod runs;
pub(crate) mod xrays;

pub(in crate::display) use emulated::counts;
