//! Devices, kernels, buffers, streams, graphs and timing.
//!
//! The only crate that talks to CUDA. Nothing is linked: the driver, NVRTC, cuBLAS, cuDNN, NCCL, CUPTI and NVML are loaded when they are
//! asked for, and each of them missing is an [`Error`] with a remedy. A machine without a GPU has [`Device::Cpu`].
#![warn(clippy::undocumented_unsafe_blocks)]

mod activity;
mod arena;
mod arena_plan;
mod bench;
mod borrow;
mod buffer;
mod cache;
mod cancel;
mod capture;
mod compile;
mod counters;
mod cpu;
mod cubin;
mod cublas;
mod cuda;
mod cudnn;
mod device;
mod driver;
mod error;
mod files;
mod graph;
mod headers;
mod kernel;
mod kernel_file;
mod links;
mod marks;
mod memory;
mod module;
mod nccl;
mod nvml;
mod nvrtc;
mod nvtx;
mod peaks;
mod peer;
mod pinned;
mod places;
mod pool;
mod pool_plan;
mod probes;
mod queue;
mod slice;
mod stream;
mod tensor_map;
#[doc(hidden)]
pub mod testing;
mod trial;
mod xray;

pub use activity::{Activity, ActivityKind, Call, Recorded, Recorder};
pub use arena::Arena;
pub use arena_plan::{ArenaLayout, ArenaPlan, Block};
pub use bench::{Bench, Samples};
pub use borrow::outside_of_a_capture;
pub use buffer::{Buffer, DevicePtr, Element};
pub use cancel::Cancel;
pub use capture::is_busy;
pub use compile::{Compiled, Compiler};
pub use counters::{Counted, Counters, MOST_KERNELS, counter_passes};
pub use cpu::free_host_memory;
pub use cublas::{Cublas, CublasLt, LibraryGemm, LtPlan};
pub use cuda::{CudaDevice, exit_at_once};
/// What this crate is built on, for programs that call the driver themselves. It panics where there is no driver: open a [`CudaDevice`] first.
#[doc(no_inline)]
pub use cudarc;
pub use cudnn::{ConvolutionPass, Cudnn, CudnnPlan, LibraryConvolution};
pub use device::{Choice, Device, Inventory};
pub use error::{CompileError, Diagnostic, Error, Result};
pub use files::{behind_links, ensure_writable, read_file, write_atomic, write_atomic_with_folder};
pub use graph::Graph;
pub use kernel::{Kernel, KernelArg, LaunchOptions};
pub use kernel_file::read_kernel;
pub use links::{all_reduce_curve, copy_curves, link_peak};
pub use marks::{EventTimes, Mark, StreamTime};
pub use memory::{MemoryPoint, MemoryWatch};
pub use nccl::{Communicator, NCCL_SETTINGS, NcclId, NcclReduce};
pub use nvml::{ClockWatch, PowerReading, driver_version, power_reading};
pub use nvrtc::Nvrtc;
pub use nvtx::{Nvtx, NvtxRange};
pub use peaks::{WgmmaRounds, cpu_peaks, cuda_peaks, mma_sync_peak};
pub use peer::Route;
pub use pinned::{Pinned, PinnedRead, PinnedWrite};
pub use pool::{Pool, Pooled};
pub use pool_plan::PoolUse;
pub use probes::{exchange, read_together, register_latency, shared_read_cycles};
pub use slice::Slice;
pub use stream::{Event, Stream};
pub use tensor_map::{BoxShape, MatrixShape, TensorMap};
pub use xray::{Clocks, KernelMarks, Marks, UnmarkedKernel, WarpMarks, Xray};
