//! Tests that can share a process. Those that cannot have their own executables next to this folder.

#[path = "../common/mod.rs"]
mod common;
mod cublas;
mod cudnn;
mod emulator;
mod graphs;
mod memory;
mod nvrtc;
mod pool;
