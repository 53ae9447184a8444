//! Convolutions by cuDNN, loaded from wherever it is installed.
//!
//! The functions belong to cuDNN's graph interface, which PyTorch also uses: a graph of one operation, the engines that the heuristics suggest for it, and an
//! execution plan for one of these engines. The older interface, with one function and a few algorithms per pass, offers fewer engines; in our layers it was
//! two to ten times slower. Signatures and constants are from cudnn_graph.h, version 9.

mod constants;
pub(crate) mod convolution;
mod descriptor;
mod engines;
pub(crate) mod handle;
mod library;
pub(crate) mod plan;
mod suggestion;
