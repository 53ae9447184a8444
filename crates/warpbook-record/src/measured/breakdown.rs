//! The breakdown of a rung's work: the device's activity in one run, operation by operation.

use crate::problem::by_id;
use crate::{Bound, Dtype, MemoryLevel, Problem, Run, stats};
use serde::{Deserialize, Serialize};

/// The device's activity in one run of a rung's work, such as a training step, recorded over several runs. Times are in microseconds, with a sample
/// for each run.
///
/// Recording lengthens the gaps between kernels; the time of a run without it is in the rung's
/// [`Measurement`](crate::Measurement). If a kernel is launched before its predecessor has ended, its time includes the
/// wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Breakdown {
    /// Id of the recorded rung.
    pub rung: String,
    /// Problem that the rung solved, stored as its id.
    #[serde(with = "by_id")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub problem: Problem,
    /// The recorder, such as "CUPTI 130001".
    pub source: String,
    /// Time from the start of the first activity to the end of the last.
    #[serde(with = "crate::format::real::many")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::format::real::Real>"))]
    pub whole_us: Vec<f64>,
    /// The part of `whole_us` in which the device was busy.
    #[serde(with = "crate::format::real::many")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::format::real::Real>"))]
    pub busy_us: Vec<f64>,
    /// Time from the end of a run to the start of the next, for runs in a row; one fewer than there are runs.
    #[serde(default, with = "crate::format::real::many")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::format::real::Real>"))]
    pub between_us: Vec<f64>,
    /// Operations in the order in which they are queued.
    pub operations: Vec<OperationTime>,
}

/// An operation of a [`Breakdown`]: one or more kernels, copies and fills.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OperationTime {
    /// Name of the operation, such as "conv1 weight gradient"; the kernel's name if the operation is unknown.
    pub name: String,
    /// Names of the kernels, each once, in the order of their first launch; also "fill" and "copy on the device".
    pub kernels: Vec<String>,
    /// Number of kernels, copies and fills in one run.
    pub launches: u64,
    /// Sum of the durations of these kernels, copies and fills in each run.
    #[serde(with = "crate::format::real::many")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::format::real::Real>"))]
    pub samples_us: Vec<f64>,
    /// Sum of the durations in runs whose kernels follow one another: on one stream, each launched after its
    /// predecessor has ended. No time is then spent waiting or shared. Empty if such runs were not recorded, for
    /// example because the rung always runs that way.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "crate::format::real::many")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::format::real::Real>"))]
    pub alone_us: Vec<f64>,
    /// Number of floating-point operations; 0 if they are not counted, for example because there are few.
    #[serde(default)]
    pub flops: u64,
    /// Least number of bytes that must be read and written; 0 if they are not counted.
    #[serde(default)]
    pub bytes: u64,
    /// Number of bytes written, which are part of `bytes`.
    #[serde(default)]
    pub written_bytes: u64,
    /// Type of the operation's arithmetic, if FLOPs are counted and the type differs from the problem's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Dtype>,
}

impl OperationTime {
    /// Returns the median of the samples in microseconds.
    #[must_use]
    pub fn median_us(&self) -> Option<f64> {
        stats::median(&self.samples_us)
    }

    /// Returns the operation's median time in microseconds while no other operation runs, from [`Self::alone_us`] if that was recorded.
    #[must_use]
    pub fn own_median_us(&self) -> Option<f64> {
        if self.alone_us.is_empty() { self.median_us() } else { stats::median(&self.alone_us) }
    }
}

impl Breakdown {
    /// Returns the median time from the start of the first activity to the end of the last activity, in microseconds.
    #[must_use]
    pub fn whole_median_us(&self) -> Option<f64> {
        stats::median(&self.whole_us)
    }

    /// Returns the median idle time within a run in microseconds: the gaps between kernels.
    #[must_use]
    pub fn idle_median_us(&self) -> Option<f64> {
        let idle: Vec<f64> = self.whole_us.iter().zip(&self.busy_us).map(|(whole, busy)| whole - busy).collect();
        stats::median(&idle)
    }

    /// Returns the median time between two runs in microseconds.
    #[must_use]
    pub fn between_median_us(&self) -> Option<f64> {
        stats::median(&self.between_us)
    }

    /// Returns true if operations were also recorded one after another: see [`OperationTime::alone_us`].
    #[must_use]
    pub fn has_alone(&self) -> bool {
        self.operations.iter().any(|o| !o.alone_us.is_empty())
    }

    /// Returns the sum of all [`OperationTime::own_median_us`].
    #[must_use]
    pub fn sum_alone_us(&self) -> f64 {
        self.sum_of(OperationTime::own_median_us)
    }

    /// Copies the operations' times from runs whose kernels follow one another. Returns false and changes nothing unless both breakdowns have the same
    /// operations with the same numbers of launches.
    pub fn set_alone(&mut self, serial: &Self) -> bool {
        let mut left: Vec<&OperationTime> = serial.operations.iter().collect();
        let mut found = Vec::new();
        for o in &self.operations {
            let Some(i) = left.iter().position(|s| (&s.name, s.launches) == (&o.name, o.launches)) else {
                return false;
            };
            found.push(left.remove(i).samples_us.clone());
        }
        if !left.is_empty() {
            return false;
        }
        for (operation, alone) in self.operations.iter_mut().zip(found) {
            operation.alone_us = alone;
        }
        true
    }

    /// Returns the sum of the operations' medians, which exceeds the whole time if operations overlap.
    #[must_use]
    pub fn sum_us(&self) -> f64 {
        self.sum_of(OperationTime::median_us)
    }

    fn sum_of(&self, median: fn(&OperationTime) -> Option<f64>) -> f64 {
        self.operations.iter().filter_map(median).filter(|us| us.is_finite()).sum()
    }
}

impl Run {
    /// Returns the breakdown of a rung at a problem.
    #[must_use]
    pub fn breakdown(&self, rung: &str, problem: &Problem) -> Option<&Breakdown> {
        self.breakdowns.iter().find(|b| b.rung == rung && b.problem == *problem)
    }

    /// Returns the bound of an operation: the time of its least bytes or of its arithmetic, each at the measured ceiling. Data that easily fits into L2 is
    /// assumed to be there already, left by the operation before. Returns `None` if neither bytes nor FLOPs are counted or have a ceiling.
    #[must_use]
    pub fn operation_bound(&self, of: &Breakdown, operation: &OperationTime) -> Option<Bound> {
        let OperationTime { flops, bytes, written_bytes, dtype, .. } = operation;
        let written = if *bytes > 0 { *written_bytes as f64 / *bytes as f64 } else { 0.0 };
        let memory = || {
            let peak = self.peaks.ceiling_for(*bytes, self.environment.device.l2_bytes, written)?;
            self.operation_takes(Some(peak.level), *bytes, peak.bytes_per_s())
        };
        let arithmetic = || {
            let peak = self.peaks.arithmetic(dtype.unwrap_or(of.problem.dtype))?;
            self.operation_takes(None, *flops, peak.flops_per_s())
        };
        [memory(), arithmetic()].into_iter().flatten().max_by(|a, b| a.us.total_cmp(&b.us))
    }

    fn operation_takes(&self, level: Option<MemoryLevel>, amount: u64, per_s: f64) -> Option<Bound> {
        let device = self.environment.device.kind;
        (per_s > 0.0 && amount > 0).then(|| Bound { level, us: amount as f64 / per_s * 1e6, device })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, BandwidthPeak, ComputePeak, Peaks};

    fn operation(flops: u64, bytes: u64, dtype: Option<Dtype>) -> OperationTime {
        let (name, kernels, samples_us) = ("conv1 forward".to_owned(), vec!["conv".to_owned()], vec![3.0, 1.0, 2.0]);
        let (launches, alone_us, written_bytes) = (1, Vec::new(), bytes / 2);
        OperationTime { name, kernels, launches, samples_us, alone_us, flops, bytes, written_bytes, dtype }
    }

    fn breakdown(operations: Vec<OperationTime>) -> Breakdown {
        Breakdown {
            rung: "08".into(),
            problem: Problem::new("p", "p", vec![crate::count("n", 1, "")], Dtype::F32),
            source: "a test".into(),
            whole_us: vec![10.0, 12.0, 11.0],
            busy_us: vec![9.0, 9.0, 9.5],
            between_us: vec![1.0, 3.0],
            operations,
        }
    }

    #[test]
    fn medians_are_of_the_runs() {
        let b = breakdown(vec![operation(0, 0, None); 2]);
        assert_eq!(
            (b.whole_median_us(), b.idle_median_us(), b.between_median_us()),
            (Some(11.0), Some(1.5), Some(2.0))
        );
        assert_eq!(b.sum_us(), 4.0);
        let none = Breakdown { whole_us: vec![], between_us: vec![], ..breakdown(vec![]) };
        assert_eq!((none.whole_median_us(), none.idle_median_us(), none.between_median_us()), (None, None, None));
    }

    #[test]
    fn times_of_kernels_on_their_own_are_taken_over_where_the_operations_are_the_same() {
        let named =
            |name: &str, us: f64| OperationTime { name: name.into(), samples_us: vec![us], ..operation(0, 0, None) };
        let overlapped = breakdown(vec![named("a", 5.0), named("b", 6.0), named("a", 7.0)]);
        let mut taken = overlapped.clone();
        assert!((!taken.has_alone()) && taken.sum_alone_us() == 18.0, "what was recorded is all there is");
        // The operations may come in another order, as on one stream.
        assert!(taken.set_alone(&breakdown(vec![named("b", 2.0), named("a", 1.0), named("a", 4.0)])));
        let own: Vec<Option<f64>> = taken.operations.iter().map(OperationTime::own_median_us).collect();
        assert_eq!((own, taken.sum_alone_us()), (vec![Some(1.0), Some(2.0), Some(4.0)], 7.0));
        assert_eq!((taken.operations[0].median_us(), taken.sum_us(), taken.has_alone()), (Some(5.0), 18.0, true));
        let twice = OperationTime { launches: 2, ..named("b", 2.0) };
        for other in [vec![named("a", 1.0), twice, named("a", 4.0)], vec![named("a", 1.0)], vec![named("b", 1.0); 4]] {
            let mut same = overlapped.clone();
            assert!(!same.set_alone(&breakdown(other)) && same == overlapped, "nothing is taken over");
        }
    }

    #[test]
    fn an_operation_is_bound_by_its_bytes_or_its_arithmetic() {
        let peak = |level, access, bytes| BandwidthPeak {
            level,
            access,
            method: String::new(),
            bytes,
            samples_us: vec![1.0],
            datasheet_bytes_per_s: None,
        };
        let rate = |dtype, flops| ComputePeak {
            dtype,
            method: String::new(),
            flops,
            samples_us: vec![1.0],
            datasheet_flops_per_s: None,
        };
        let mut run = crate::run::tests::run();
        run.environment.device.l2_bytes = Some(800);
        run.peaks = Peaks {
            bandwidth: vec![
                peak(MemoryLevel::Dram, Access::Read, 10),
                peak(MemoryLevel::Dram, Access::Copy, 5),
                peak(MemoryLevel::L2, Access::Read, 100),
            ],
            compute: vec![rate(Dtype::F32, 20), rate(Dtype::F16, 200)],
            links: Vec::new(),
        };
        let check = |flops, bytes, dtype, expect: Option<(Option<MemoryLevel>, f64)>| {
            let o = operation(flops, bytes, dtype);
            let b = breakdown(vec![o.clone()]);
            let found = run.operation_bound(&b, &o).map(|b| (b.level, (b.us * 1e6).round() / 1e6));
            assert_eq!(found, expect, "{flops} {bytes}");
        };
        check(0, 500, None, Some((Some(MemoryLevel::L2), 5.0)));
        // Half of the bytes are written, so the ceiling of DRAM is the rate of copies.
        check(0, 1000, None, Some((Some(MemoryLevel::Dram), 200.0)));
        check(4000, 500, None, Some((None, 200.0)));
        check(4000, 500, Some(Dtype::F16), Some((None, 20.0)));
        check(0, 0, None, None);
        check(100, 0, Some(Dtype::F64), None);
    }
}
