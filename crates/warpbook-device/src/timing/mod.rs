//! How long work takes, and what the hardware can do at most.

pub(crate) mod bench;
pub(crate) mod event_times;
pub(crate) mod links;
pub(crate) mod peaks;
pub(crate) mod probes;
