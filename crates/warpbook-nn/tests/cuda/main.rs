//! Tests of networks on one GPU, in one executable.

mod conv;
mod graph;
mod infer;
mod last_block;
mod operations;
mod ops;
mod train;
