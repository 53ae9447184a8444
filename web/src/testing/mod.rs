//! Records that tests read, and tests of all that the page makes of one.

pub mod hostile;
mod samples;
mod softmax;

pub use samples::{course, sample, sample_run, sample_run_without, training_run};
