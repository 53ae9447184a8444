//! What a profiler found in addition to times: memory, clocks and power over time, hardware counters, and what the profiler itself costs.

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
    /// Clock and power of the device, reading by reading, while runs of the rung followed one another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub power: Vec<PowerAt>,
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
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
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

/// Clock and power of a device at a moment; what the driver does not tell is missing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PowerAt {
    /// Microseconds from the start of the runs.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub at_us: f64,
    /// The clock of the SMs in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_mhz: Option<u32>,
    /// The power that it draws, in watts. Recent GPUs give the mean of the last second or so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watts: Option<f64>,
    /// The power cap: the most that it may draw on average, in watts, before its clocks are lowered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_watts: Option<f64>,
    /// Whether the power cap holds its clocks down.
    #[serde(default)]
    pub capped: bool,
    /// Floating-point operations of the runs until then; 0 where they are not counted.
    #[serde(default)]
    pub flops: u64,
}

/// What a device came to while runs of a rung followed one another: the second half of its readings, when clock and power have settled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settled {
    /// The mean clock of the SMs in MHz.
    pub sm_mhz: Option<f64>,
    /// The mean power in watts.
    pub watts: Option<f64>,
    /// Operations per second; `None` where they were not counted.
    pub flops_per_s: Option<f64>,
    /// Readings in which the power cap held the clocks down.
    pub capped: usize,
    /// All of the second half.
    pub readings: usize,
}

/// A step's time while it is recorded, and without that.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfilerOverhead {
    /// Microseconds of a recorded step, until the device was done: the mean of a cycle's steps, on the CPU their median.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub recorded_us: f64,
    /// The same of steps that nothing recorded, before the cycle and after it: the median.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub unrecorded_us: f64,
    /// How many of those there were.
    pub unrecorded_steps: u64,
    /// Whether CUPTI was attached to the process during some of those, by an earlier recording: that makes each launch slightly slower also where nothing
    /// records.
    #[serde(default)]
    pub attached_before: bool,
    /// How far steps of the same kind differ, in microseconds: twice the larger of the median absolute deviations of recorded and unrecorded ones.
    #[serde(default, with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
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

impl Profiled {
    /// Of a rung at a problem, with nothing recorded by this source yet.
    #[must_use]
    pub fn of(rung: impl Into<String>, problem: Problem, source: impl Into<String>) -> Self {
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

    /// What the device came to by the second half of its readings; `None` where there are fewer than two.
    #[must_use]
    pub fn settled(&self) -> Option<Settled> {
        let late = self.power.get(self.power.len() / 2..).filter(|_| self.power.len() > 1)?;
        let mean = |of: fn(&PowerAt) -> Option<f64>| {
            let values: Vec<f64> = late.iter().filter_map(of).filter(|v| v.is_finite()).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        // From the last reading of the first half on.
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
    fn readings_are_summed_up_by_their_second_half() {
        let reading = |i: u32| PowerAt {
            at_us: f64::from(i) * 5e4,
            sm_mhz: Some(1980 - i),
            watts: (i != 3).then_some(if i < 2 { 100.0 } else { 700.0 }),
            limit_watts: Some(700.0),
            capped: i > 2,
            flops: u64::from(i) * 1000,
        };
        let of = |n: u32| Profiled {
            power: (0..n).map(reading).collect(),
            ..Profiled::of("01", Problem::new("p", "p", Vec::new(), crate::Dtype::F32), "NVML")
        };
        let settled = of(4).settled().expect("four readings");
        assert_eq!((settled.sm_mhz, settled.watts), (Some(1977.5), Some(700.0)));
        assert_eq!((settled.capped, settled.readings), (1, 2));
        let rate = settled.flops_per_s.expect("operations");
        assert!((rate - 2e4).abs() < 1e-6, "{rate}");
        assert_eq!((of(0).settled(), of(1).settled()), (None, None));
        // Of a clock that stands still there is no rate.
        let mut still = of(4);
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
