//! The exercises of the workshop: signatures, inputs, references on the host, causes of wrong answers, and targets in counts.
//!
//! Tasks, stubs, hints, solutions and wrong answers are files below `notebooks/exercises/`, which are read at run time. `warpbook_lab` has the types, and
//! compiles, runs and judges a learner's kernel.
#![forbid(unsafe_code)]

mod first;
mod memory;
mod products;
mod shared;
