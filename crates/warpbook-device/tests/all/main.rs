//! Tests that can share a process. Those that cannot have executables of their own next to this folder.

#[path = "../common/mod.rs"]
mod common;
mod cublas;
mod cudnn;
mod emulator;
mod graphs;
mod memory;
mod nvrtc;
mod pool;
