//! Displays of kernel and host source code, and of the differences between two sources.

pub(crate) mod cuda_cpp;
pub(crate) mod diff;
pub(crate) mod headers;
pub(crate) mod host;
pub(crate) mod kernels;
pub(crate) mod lines;
