//! The operations that neural networks are trained with: forward and backward passes as plain functions on slices.
//!
//! An operation's folder has its shape rules and settings in `mod.rs` and its bodies in files named for the device. Images are NHWC,
//! `[batch][height][width][channels]`, filters `[filters][kh][kw][channels]`, the weight of a linear layer `[outputs][inputs]`.
//! Functions check their slices against the shapes and return an [`OpError`]; outputs are then untouched. On the CPU they work on all
//! threads of the current rayon pool, and their results have the same bits for any number of them. [`reference`](mod@reference) has
//! the same operations in f64, which every body is tested against.
//!
//! On a GPU an operation is a struct that loads its kernels once, for a type of elements. Its functions check lengths and types and
//! queue kernels: they allocate nothing and wait for nothing, so they can be captured. What changes from step to step, as the step
//! itself, is read from device memory. Outputs should overlap no other array, unless a function says that they may be an input.

pub mod activation;
pub mod add;
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
pub mod reference;
pub mod schedule;
pub(crate) mod step_launch;
mod window;

pub use error::{OpError, Result};
pub use warpbook_kernels::nn::Layout;
pub(crate) use window::Axis;
