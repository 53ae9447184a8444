//! Convolutions by cuDNN, loaded from wherever it is installed.
//!
//! The functions are from the graph interface, which PyTorch uses, too: a graph of one operation, the engines that the heuristics suggest for it, and a plan of
//! one of them. The older interface, with one function and a few algorithms per pass, reaches fewer engines: in our layers it was two to ten times slower.
//! Signatures and numbers are from cudnn_graph.h of version 9.

mod constants;
pub(crate) mod convolution;
mod descriptor;
mod engines;
pub(crate) mod handle;
mod library;
pub(crate) mod plan;
mod suggestion;
