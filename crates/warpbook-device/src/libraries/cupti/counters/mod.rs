//! Hardware counters of kernels: bytes at each level of memory, bank conflicts, stall reasons.
//!
//! The counters come from CUPTI's range profiler. A GPU can count only a few events at once, so the program runs once per pass, in the same way each time.
//! Each kernel is a range, and kernels run one after another while they are counted.

mod collection;
mod params;
mod profiler;
pub(crate) mod reader;
#[cfg(test)]
mod tests;
