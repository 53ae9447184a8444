//! Sample records for tests, and checks of everything that the page computes from a record.

pub mod hostile;
mod samples;
mod softmax;

pub use samples::{course, sample, sample_run, sample_run_without, training_run};
