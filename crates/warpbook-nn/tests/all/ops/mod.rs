//! CPU implementations are compared with the f64 references, the references' gradients with finite differences, and the bits between different
//! numbers of threads.

mod augment;
mod batch_norm;
mod common;
mod conv2d;
mod elementwise;
mod linear;
mod losses;
mod muon;
mod optimizer;
mod pool;
mod pytorch;
mod schedule;
