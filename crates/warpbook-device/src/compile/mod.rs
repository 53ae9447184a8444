//! Compiles kernels from source to machine code: NVRTC, its headers, and a cache on disk.

pub(crate) mod cache;
pub(crate) mod compiled;
pub(crate) mod compiler;
pub(crate) mod cubin;
pub(crate) mod headers;
pub(crate) mod kernel_file;
pub(crate) mod nvrtc;
pub(crate) mod parameters;
