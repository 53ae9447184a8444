//! Results of a profiler other than times: memory, clocks and power over time, hardware counters, and the profiler's own cost.

use crate::problem::by_id;
use crate::{KernelCounters, Problem, Run};
use serde::{Deserialize, Serialize};

/// The profile of a rung at a problem, apart from its [`Span`](crate::Span)s and its [`Breakdown`](crate::Breakdown).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Profiled {
    /// Id of the profiled rung.
    pub rung: String,
    /// Problem that the rung solved, stored as its id.
    #[serde(with = "by_id")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub problem: Problem,
    /// The recorder, such as "CUPTI 130001" or "CUDA events", with the reason if it is not the usual one.
    pub source: String,
    /// Device memory held by arrays, at the start and at each change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryAt>,
    /// Readings of the device's clock and power during repeated runs of the rung.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub power: Vec<PowerAt>,
    /// Cost of recording, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead: Option<ProfilerOverhead>,
    /// Hardware counters, kernel by kernel in launch order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<KernelCounters>,
}

/// Device memory at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryAt {
    /// Time in microseconds from the start of the timeline.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub at_us: f64,
    /// Bytes allocated from the driver by arrays, arenas and pools.
    pub allocated_bytes: u64,
    /// The part of `allocated_bytes` that is used by arrays in pools.
    #[serde(default)]
    pub pool_allocated_bytes: u64,
    /// Bytes of the pools' segments, whether they are used or not.
    #[serde(default)]
    pub pool_reserved_bytes: u64,
}

/// Clock and power of a device at one time. Values that the driver does not report are absent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PowerAt {
    /// Time in microseconds from the start of the runs.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub at_us: f64,
    /// SM clock in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_mhz: Option<u32>,
    /// Power draw in watts. Recent GPUs report the mean of about the last second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watts: Option<f64>,
    /// Power cap in watts: the highest average power before clocks are lowered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_watts: Option<f64>,
    /// True if the power cap lowers the clocks.
    #[serde(default)]
    pub capped: bool,
    /// Floating-point operations of the runs so far; 0 if they are not counted.
    #[serde(default)]
    pub flops: u64,
}

/// The steady state of a device during repeated runs of a rung, from the second half of its readings, when clock and
/// power have settled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settled {
    /// Mean SM clock in MHz.
    pub sm_mhz: Option<f64>,
    /// Mean power in watts.
    pub watts: Option<f64>,
    /// Floating-point operations per second; `None` if they were not counted.
    pub flops_per_s: Option<f64>,
    /// Number of readings in which the power cap lowered the clocks.
    pub capped: usize,
    /// Number of readings in the second half.
    pub readings: usize,
}

/// The time of a step with and without recording.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfilerOverhead {
    /// Time of a recorded step in microseconds, until the device was done: the mean of the steps of a cycle, or their median on the CPU.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub recorded_us: f64,
    /// Median time of an unrecorded step in microseconds, before and after the cycle.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub unrecorded_us: f64,
    /// Number of unrecorded steps.
    pub unrecorded_steps: u64,
    /// True if an earlier recording had attached CUPTI to the process during some of the unrecorded steps, which makes
    /// each launch slightly slower even when nothing is recorded.
    #[serde(default)]
    pub attached_before: bool,
    /// Variation between steps in microseconds: twice the larger of the median absolute deviations of recorded and
    /// unrecorded steps.
    #[serde(default, with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub noise_us: f64,
}

impl ProfilerOverhead {
    /// Least number of unrecorded steps for a baseline, since the first step of a program is slower than the others.
    const LEAST_STEPS: u64 = 2;

    /// Returns the ratio of recorded to unrecorded time; `None` if recorded steps are not slower by more than the
    /// noise, or if there are too few unrecorded steps.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let is_measurable =
            self.unrecorded_steps >= Self::LEAST_STEPS && self.recorded_us - self.unrecorded_us > self.noise_us;
        Some(self.recorded_us / self.unrecorded_us)
            .filter(|r| is_measurable && r.is_finite() && self.unrecorded_us > 0.0)
    }
}

impl Profiled {
    /// Creates an empty profile of a rung at a problem.
    #[must_use]
    pub fn new(rung: impl Into<String>, problem: Problem, source: impl Into<String>) -> Self {
        Self {
            rung: rung.into(),
            problem,
            source: source.into(),
            memory: Vec::new(),
            power: Vec::new(),
            overhead: None,
            counters: Vec::new(),
        }
    }

    /// Returns the steady state from the second half of the readings; `None` if there are fewer than two.
    #[must_use]
    pub fn settled(&self) -> Option<Settled> {
        let late = self.power.get(self.power.len() / 2..).filter(|_| self.power.len() > 1)?;
        let mean = |of: fn(&PowerAt) -> Option<f64>| {
            let values: Vec<f64> = late.iter().filter_map(of).filter(|v| v.is_finite()).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        // The interval starts at the last reading of the first half.
        let before = &self.power[(self.power.len() / 2).saturating_sub(1)];
        let last = late.last()?;
        let flops = last.flops.saturating_sub(before.flops);
        let seconds = (last.at_us - before.at_us) * 1e-6;
        Some(Settled {
            sm_mhz: mean(|r| r.sm_mhz.map(f64::from)),
            watts: mean(|r| r.watts),
            flops_per_s: Some(flops as f64 / seconds).filter(|rate| flops > 0 && rate.is_finite() && *rate > 0.0),
            capped: late.iter().filter(|r| r.capped).count(),
            readings: late.len(),
        })
    }
}

impl Run {
    /// Returns the profile of a rung at a problem.
    #[must_use]
    pub fn profiled_of(&self, rung: &str, problem: &Problem) -> Option<&Profiled> {
        self.profiled.iter().find(|p| p.rung == rung && p.problem == *problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_summed_up_by_their_second_half() {
        let reading = |i: u32| PowerAt {
            at_us: f64::from(i) * 5e4,
            sm_mhz: Some(1980 - i),
            watts: (i != 3).then_some(if i < 2 { 100.0 } else { 700.0 }),
            limit_watts: Some(700.0),
            capped: i > 2,
            flops: u64::from(i) * 1000,
        };
        let profile = |n: u32| Profiled {
            power: (0..n).map(reading).collect(),
            ..Profiled::new("01", Problem::new("p", "p", Vec::new(), crate::Dtype::F32), "NVML")
        };
        let settled = profile(4).settled().expect("four readings");
        assert_eq!((settled.sm_mhz, settled.watts), (Some(1977.5), Some(700.0)));
        assert_eq!((settled.capped, settled.readings), (1, 2));
        let rate = settled.flops_per_s.expect("operations");
        assert!((rate - 2e4).abs() < 1e-6, "{rate}");
        assert_eq!((profile(0).settled(), profile(1).settled()), (None, None));
        // If the clock does not advance, no rate can be computed.
        let mut still = profile(4);
        still.power.iter_mut().for_each(|r| r.at_us = 0.0);
        assert_eq!(still.settled().and_then(|s| s.flops_per_s), None);
    }

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
