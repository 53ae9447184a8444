//! Hardware counters of kernels: bytes of each level of memory, bank conflicts, what warps wait for.
//!
//! They come from CUPTI's range profiler. A GPU counts only some events at once, so a program runs once a pass, in the same way each time; each kernel is a range, and
//! kernels run one after the other while they are counted.

mod collection;
mod params;
mod profiler;
pub(crate) mod reader;
#[cfg(test)]
mod tests;
