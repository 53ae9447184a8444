//! Parts of a rung's work that were timed alone: operations, tiles, transfers, and recordings of a profiler.

pub(crate) mod breakdown;
mod group;
pub(crate) mod operations;
pub(crate) mod tiles;
pub(crate) mod transfers;
