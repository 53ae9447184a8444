//! What a profiler found in addition to times: memory over time, hardware counters, and what the profiler itself costs.

use crate::problem::by_id;
use crate::{KernelCounters, Problem, Run};
use serde::{Deserialize, Serialize};

/// What was recorded of a rung at a problem apart from its [`Span`](crate::Span)s and its [`Breakdown`](crate::Breakdown).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Profiled {
    /// The id of its rung.
    pub rung: String,
    /// The work, by its id.
    #[serde(with = "by_id")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub problem: Problem,
    /// What recorded it, as "CUPTI 130001" or "CUDA events", and why where it is not the usual.
    pub source: String,
    /// What arrays held on the device, at the start and at each change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryAt>,
    /// What recording costs, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead: Option<ProfilerOverhead>,
    /// Hardware counters, kernel by kernel in the order of their launches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<KernelCounters>,
}

/// Device memory at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryAt {
    /// Microseconds from the start of the timeline.
    #[serde(with = "crate::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::real::Real"))]
    pub at_us: f64,
    /// Bytes that the driver has given to arrays, arenas and pools.
    pub allocated_bytes: u64,
    /// Of these, bytes of arrays in pools that are in use.
    #[serde(default)]
    pub pool_allocated_bytes: u64,
    /// Bytes of the pools' segments, used or not.
    #[serde(default)]
    pub pool_reserved_bytes: u64,
}

/// A step's time while it is recorded, and without that.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfilerOverhead {
    /// Microseconds of a recorded step, until the device was done: the mean of a cycle's steps, on the CPU their median.
    #[serde(with = "crate::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::real::Real"))]
    pub recorded_us: f64,
    /// The same of steps that nothing recorded, before the cycle and after it: the median.
    #[serde(with = "crate::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::real::Real"))]
    pub unrecorded_us: f64,
    /// How many of those there were.
    pub unrecorded_steps: u64,
    /// Whether CUPTI was attached to the process during some of those, by an earlier recording: that makes each launch slightly slower also where nothing
    /// records.
    #[serde(default)]
    pub attached_before: bool,
    /// How far steps of the same kind differ, in microseconds: twice the larger of the median absolute deviations of recorded and unrecorded ones.
    #[serde(default, with = "crate::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::real::Real"))]
    pub noise_us: f64,
}

impl ProfilerOverhead {
    /// Fewer steps are no baseline: a program's first step is slower than its others.
    const LEAST_STEPS: u64 = 2;

    /// Recorded over unrecorded; `None` where recorded steps are not slower by more than the noise, or only one was not recorded.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let is_measurable =
            self.unrecorded_steps >= Self::LEAST_STEPS && self.recorded_us - self.unrecorded_us > self.noise_us;
        Some(self.recorded_us / self.unrecorded_us)
            .filter(|r| is_measurable && r.is_finite() && self.unrecorded_us > 0.0)
    }
}

impl Run {
    /// What a profiler found of a rung at a problem.
    #[must_use]
    pub fn profiled_of(&self, rung: &str, problem: &Problem) -> Option<&Profiled> {
        self.profiled.iter().find(|p| p.rung == rung && p.problem == *problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overhead_is_a_ratio_of_times() {
        let overhead = |recorded_us, unrecorded_us| ProfilerOverhead {
            recorded_us,
            unrecorded_us,
            unrecorded_steps: 9,
            attached_before: false,
            noise_us: 0.0,
        };
        assert_eq!(overhead(3.0, 2.0).ratio(), Some(1.5));
        assert_eq!((overhead(3.0, 0.0).ratio(), overhead(f64::NAN, 1.0).ratio()), (None, None));
        let noisy = |noise_us| ProfilerOverhead { noise_us, ..overhead(3.0, 2.0) };
        assert_eq!((noisy(0.9).ratio(), noisy(1.1).ratio()), (Some(1.5), None));
        assert_eq!(overhead(2.0, 3.0).ratio(), None, "recording does not make a step faster");
        assert_eq!(ProfilerOverhead { unrecorded_steps: 1, ..overhead(3.0, 2.0) }.ratio(), None, "one cold step");
    }
}
