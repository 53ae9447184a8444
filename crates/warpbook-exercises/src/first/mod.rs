//! Exercises of lesson 00, the first kernels.

mod elements;
mod quiz;
mod races;
mod threads;

pub(crate) use elements::{GRID_STRIDE, SAXPY};
pub(crate) use quiz::QUIZ;
pub(crate) use races::{BARRIER, HISTOGRAM};
pub(crate) use threads::{FIRST_KERNEL, GUARD, MANY_BLOCKS, TWO_DIMENSIONS};

/// Id of the lesson that these exercises belong to.
const LESSON: &str = "00_hello_gpu";
