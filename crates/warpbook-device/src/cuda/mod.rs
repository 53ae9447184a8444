//! Wraps the driver: a device's context, streams, events, graphs and kernels.

pub(crate) mod capture;
pub(crate) mod context;
pub(crate) mod driver;
pub(crate) mod event;
pub(crate) mod graph;
pub(crate) mod kernel;
pub(crate) mod module;
pub(crate) mod stream;
pub(crate) mod streams;
