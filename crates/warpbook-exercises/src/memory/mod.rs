//! Exercises of lesson 01 about how the threads of a warp access memory.

mod coalesced;
mod sorted_work;
mod struct_of_arrays;

pub(crate) use coalesced::COALESCED;
pub(crate) use sorted_work::SORTED_WORK;
pub(crate) use struct_of_arrays::STRUCT_OF_ARRAYS;

/// Id of the lesson that these exercises belong to.
const LESSON: &str = "01_memory_access";
