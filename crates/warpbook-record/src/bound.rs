//! What bounds a measurement, by the ceilings that were measured.

use crate::{Measurement, MemoryLevel, Outcome, Problem, Run};

/// What bounds a measurement, given the measured ceilings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// The level of memory; `None` where it is arithmetic.
    pub level: Option<MemoryLevel>,
    /// The least time in microseconds.
    pub us: f64,
}

impl Bound {
    /// As a sentence names it: "DRAM", "shared memory", "arithmetic".
    #[must_use]
    pub fn label(&self) -> &'static str {
        self.level.map_or("arithmetic", MemoryLevel::label)
    }
}

impl Run {
    /// What bounds a measurement: the slowest part of its work, each at its measured ceiling. The parts are the bytes counted at
    /// each level of memory (the problem's least bytes at [`Run::ceiling`] where none were counted) and the operations; of several
    /// GPUs each does its share, while all bytes of the link cross the one. `None` where none of these has a ceiling.
    #[must_use]
    pub fn bound(&self, m: &Measurement) -> Option<Bound> {
        let at = |level: MemoryLevel, bytes: u64, bytes_per_s: f64| {
            (bytes_per_s > 0.0).then(|| Bound { level: Some(level), us: bytes as f64 / bytes_per_s * 1e6 })
        };
        let written = m.problem.written_part();
        // Each GPU has its own memory and its own units; what crosses the link all wait for.
        let each = f64::from(m.gpus());
        let shared = |level: MemoryLevel| if level == MemoryLevel::Link { 1.0 } else { each };
        let counted = m.traffic.iter().filter_map(|t| {
            at(t.level, t.bytes, shared(t.level) * self.peaks.level_for(t.level, written)?.bytes_per_s())
        });
        let uncounted = || {
            let peak = self.ceiling(&m.problem).filter(|_| m.traffic.is_empty() && m.problem.bytes > 0)?;
            at(peak.level, m.problem.bytes, each * peak.bytes_per_s())
        };
        let of_arithmetic = || {
            let peak = each * self.peaks.arithmetic(m.arithmetic_type())?.flops_per_s();
            (peak > 0.0 && m.operations() > 0).then(|| Bound { level: None, us: m.operations() as f64 / peak * 1e6 })
        };
        counted.chain(uncounted()).chain(of_arithmetic()).max_by(|a, b| a.us.total_cmp(&b.us))
    }

    /// The most GPUs that a rung ran on at a problem.
    #[must_use]
    pub fn gpus_at(&self, problem: &Problem) -> u32 {
        let of = self.measurements.iter().filter(|m| m.problem == *problem && self.is_sound(m));
        of.map(Measurement::gpus).max().unwrap_or(1)
    }

    /// The bound of a problem, whatever the rung: the time of its least bytes or of its operations at the measured ceilings, on as many GPUs
    /// as a rung ran on.
    #[must_use]
    pub fn least_time(&self, problem: &Problem) -> Option<Bound> {
        let dtype = self.arithmetic(problem).map(|peak| peak.dtype);
        let gpus = Some(self.gpus_at(problem)).filter(|n| *n > 1);
        self.bound(&Measurement { dtype, gpus, ..Measurement::without_samples("", problem.clone(), Outcome::Measured) })
    }

    /// The time of [`Run::bound`] over the median time; `None` for a CPU rung in a GPU's record, whose ceilings were not
    /// measured.
    #[must_use]
    pub fn fraction_of_bound(&self, m: &Measurement) -> Option<f64> {
        let bound = self.bound(m).filter(|_| self.on_device(m))?;
        Some(bound.us / m.median_us()?)
    }
}
