//! Sources of kernels and of the host, and the differences between two of them.

pub(crate) mod cuda_cpp;
pub(crate) mod diff;
pub(crate) mod headers;
pub(crate) mod host;
pub(crate) mod kernels;
pub(crate) mod lines;
