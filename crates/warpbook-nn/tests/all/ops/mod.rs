//! The CPU bodies against the f64 references, the references' gradients against finite differences, and the same bits for any number
//! of threads.

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
