//! Timing of work, and the hardware's peak rates.

pub(crate) mod bench;
pub(crate) mod event_times;
pub(crate) mod links;
pub(crate) mod peaks;
pub(crate) mod probes;
