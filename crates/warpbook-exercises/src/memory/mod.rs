//! Exercises of lesson 01: how the threads of a warp read memory.

mod coalesced;

pub(crate) use coalesced::COALESCED;

/// The lesson.
const LESSON: &str = "01_memory_access";
