//! An emulator of a CUDA GPU: it parses the PTX that NVRTC emits and interprets it, warp by warp, on any CPU.
//!
//! It stands for one stated GPU ([`LIMITS`]) and gives values, never times. What it does not support it refuses, with the instruction and its line.
#![forbid(unsafe_code)]

mod compute;
mod error;
mod machine;
mod program;
mod ptx;

pub use compute::supported;
pub use error::{Cause, Fault, Refusal, Thread};
pub use machine::{Argument, Gpu, LIMITS, Launch, Limits, Loaded, Order, Report};
pub use program::Kernel;
pub use ptx::{Module, Place};
