//! Tests of networks on the CPU, and of GPU code without a GPU, in one executable.

mod accumulate;
mod checkpointed;
#[path = "../custom_layers/mod.rs"]
mod custom_layers;
mod data_parallel;
mod golden_small;
mod groups;
#[path = "../in_f64/mod.rs"]
mod in_f64;
mod ops;
mod own_layer;
mod ranks;
mod train;
mod turing;
mod unsafe_code;
