//! The operations of neural networks: forward and backward passes as plain functions on slices.
//!
//! An operation's folder has its shape rules and settings in `mod.rs` and its implementations in files named after the device. Images are
//! NHWC, `[batch][height][width][channels]`, filters `[filters][kh][kw][channels]`, the weight of a linear layer `[outputs][inputs]`.
//! Functions check their slices against the shapes and return an [`OpError`], which leaves outputs untouched. On the CPU they use all
//! threads of the current rayon pool, and any number of threads gives the same bits. Every implementation is tested
//! against f64.
//!
//! On a GPU an operation is a struct that loads its kernels once, for one element type. Its functions check lengths and types and queue
//! kernels: they allocate nothing and wait for nothing, so they can be captured in a graph. Values that change from step to step, such as
//! the step's index, are read from device memory. Outputs must overlap no other array, unless a function allows an input as its output.

pub mod activation;
pub mod add;
mod args;
pub mod augment;
pub mod batch_norm;
pub mod conv2d;
pub mod cross_entropy;
pub mod custom_layer;
pub mod dropout;
mod error;
pub mod linear;
pub mod mse;
pub mod muon;
pub mod optimizer;
pub mod pool;
pub mod schedule;
pub(crate) mod step_launch;
mod window;

pub(crate) use args::Words;
pub use error::{OpError, Result};
pub use warpbook_kernels::nn::Layout;
pub(crate) use window::Axis;
