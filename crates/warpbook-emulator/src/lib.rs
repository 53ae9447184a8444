//! An emulator of a CUDA GPU: it parses the PTX that NVRTC emits for `compute_80` and interprets it, warp by warp, on any CPU.
//!
//! It emulates one specific GPU ([`LIMITS`]), and computes values but never times. It refuses unsupported instructions when a kernel is decoded, and names the
//! instruction and its line.
//!
//! ```
//! use warpbook_emulator::{Argument, Gpu, Launch, Module};
//! # let ptx = ".version 7.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 a) { .reg .b64 %d; ld.param.u64 %d, [a]; st.global.u32 [%d], 7; ret; }";
//! let module = Module::parse(ptx)?; // a `Refusal` has the line of the PTX
//! let mut gpu = Gpu::new();
//! let kernel = gpu.load(&module)?.kernel("k")?; // refuses what it cannot run, by name and line of the source
//! let buffer = gpu.allocate(4)?; // an address; `read`, `write` and `free` take it
//! let report = gpu.launch(&kernel, &Launch::new(1, 32), &[Argument::U64(buffer)])?; // a `Fault` has cause, position and thread
//! let mut bytes = [0; 4];
//! gpu.read(buffer, &mut bytes)?;
//! assert_eq!((bytes, report.thread_steps), ([7, 0, 0, 0], 96));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Checks and counts implement the trait `Observer` (`machine/observer.rs`), which is called at every instruction of a warp, memory access, collective
//! operation and barrier. [`Gpu::launch`] runs without observers, and [`Gpu::verdict`] runs with all of them.
#![forbid(unsafe_code)]

mod checks;
mod compute;
mod counts;
mod error;
mod machine;
mod program;
mod ptx;
mod verdict;
mod writers;

pub use checks::Note;
pub use counts::{Counts, LineCounts, Transfers, WarpRequest};
pub use error::{Cause, Fault, Refusal, Thread};
pub use machine::{AccessKind, Argument, Gpu, LIMITS, Launch, Limits, Loaded, Order, Report};
pub use program::{Kernel, supported};
pub use ptx::{Module, SourcePosition};
pub use verdict::Verdict;
pub use writers::Touched;
