//! Tests that can share a process. Tests that cannot have their own executables in the folder above.

#[path = "../common/mod.rs"]
mod common;
mod cublas;
mod cudnn;
mod emulator;
mod graphs;
mod memory;
mod nvrtc;
mod pool;
