//! Tests of networks on one GPU, in one executable.

mod conv;
mod graph;
#[path = "../in_f64/mod.rs"]
mod in_f64;
mod infer;
mod last_block;
mod operations;
mod ops;
mod train;
