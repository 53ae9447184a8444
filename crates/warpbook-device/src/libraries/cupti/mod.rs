//! CUPTI, NVIDIA's interface for profilers: a GPU's activity with times, and its hardware counters.

pub(crate) mod activity;
pub(crate) mod counters;
mod exclusive;
mod library;
mod name;
pub(crate) mod recorder;
mod records;
mod session;
#[cfg(test)]
mod tests;
