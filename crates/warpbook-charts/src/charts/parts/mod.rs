//! Parts of a rung's work that were timed alone, and recordings of a profiler: operations, tiles, transfers.

pub(crate) mod breakdown;
mod group;
pub(crate) mod operations;
pub(crate) mod tiles;
pub(crate) mod transfers;
