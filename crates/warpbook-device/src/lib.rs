//! Devices, kernels, buffers, streams, graphs and timing.
//!
//! This is the only crate that talks to CUDA. It links to none of NVIDIA's libraries: the driver, NVRTC, cuBLAS, cuDNN, NCCL, CUPTI and NVML
//! are loaded on request, and if one is missing, the [`Error`] suggests a remedy. On a machine without a GPU, [`Device::Cpu`] is available.
#![warn(clippy::undocumented_unsafe_blocks)]

mod cancel;
mod compile;
mod cpu;
mod cuda;
mod device;
mod emulator;
mod error;
mod files;
mod libraries;
mod load;
mod memory;
#[doc(hidden)]
pub mod testing;
mod timing;
mod xray;

pub use cancel::Cancel;
pub use compile::compiled::Compiled;
pub use compile::compiler::Compiler;
pub use compile::kernel_file::read_kernel;
pub use compile::nvrtc::Nvrtc;
pub use cpu::free_host_memory;
pub use cuda::capture::is_busy;
pub use cuda::context::{CudaDevice, exit_at_once};
pub use cuda::event::Event;
pub use cuda::graph::Graph;
pub use cuda::kernel::{Kernel, KernelArg, LaunchOptions};
pub use cuda::stream::Stream;
/// The CUDA bindings that this crate uses, for programs that call the driver directly. They panic if there is no driver, so open a
/// [`CudaDevice`] first.
#[doc(no_inline)]
pub use cudarc;
pub use device::{Choice, Device, Inventory};
pub use emulator::recorded_verdict;
pub use error::{CompileError, Diagnostic, Error, Result};
pub use files::{behind_links, ensure_writable, read_file, write_atomic, write_atomic_with_folder};
pub use libraries::cublas::Cublas;
pub use libraries::cublas::lt::{CublasLt, LtPlan};
pub use libraries::cublas::product::LibraryGemm;
pub use libraries::cudnn::convolution::{ConvolutionPass, LibraryConvolution};
pub use libraries::cudnn::handle::Cudnn;
pub use libraries::cudnn::plan::CudnnPlan;
pub use libraries::cupti::activity::{Activity, ActivityKind, Call, Recorded};
pub use libraries::cupti::counters::reader::{Counted, Counters, MOST_KERNELS, counter_passes};
pub use libraries::cupti::recorder::Recorder;
pub use libraries::library::Library;
pub use libraries::nccl::communicator::{Communicator, NcclReduce};
pub use libraries::nccl::handle::NcclId;
pub use libraries::nccl::library::NCCL_SETTINGS;
pub use libraries::nvml::{ClockWatch, PowerReading, driver_version, power_reading};
pub use libraries::nvtx::{Nvtx, NvtxRange};
pub use memory::arena::Arena;
pub use memory::arena::plan::{ArenaLayout, ArenaPlan, Block};
pub use memory::borrow::outside_of_a_capture;
pub use memory::buffer::Buffer;
pub use memory::counters::{MemoryPoint, MemoryWatch};
pub use memory::element::{DevicePtr, Element};
pub use memory::peer::Route;
pub use memory::pinned::{Pinned, PinnedRead, PinnedWrite};
pub use memory::pool::plan::PoolUse;
pub use memory::pool::{Pool, Pooled};
pub use memory::slice::Slice;
pub use memory::tensor_map::{BoxShape, MatrixShape, TensorMap, WindowShape};
pub use timing::bench::{Bench, Samples};
pub use timing::event_times::{EventSnapshot, EventTimes, StreamTime};
pub use timing::links::{all_reduce_curve, copy_curves, link_peak};
pub use timing::peaks::{WgmmaRounds, cpu_peaks, cuda_peaks, mma_sync_peak};
pub use timing::probes::{exchange, read_together, register_latency, shared_read_cycles};
/// A kernel's mistake, as found by the emulator.
#[doc(no_inline)]
pub use warpbook_emulator::{Cause, Fault};
pub use xray::{Clocks, KernelMarks, Marks, UnmarkedKernel, WarpMarks, Xray};
