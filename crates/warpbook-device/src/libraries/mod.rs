//! NVIDIA's libraries, each loaded on first use.

pub(crate) mod cublas;
pub(crate) mod cudnn;
pub(crate) mod cupti;
pub(crate) mod library;
pub(crate) mod loader;
pub(crate) mod nccl;
pub(crate) mod nvml;
pub(crate) mod nvtx;
pub(crate) mod places;
