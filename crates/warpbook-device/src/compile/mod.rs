//! Compiles kernels from source to machine code with NVRTC, and caches the results on disk.

pub(crate) mod cache;
pub(crate) mod compiled;
pub(crate) mod compiler;
pub(crate) mod cubin;
pub(crate) mod headers;
pub(crate) mod kernel_file;
pub(crate) mod nvrtc;
pub(crate) mod parameters;
