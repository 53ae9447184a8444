//! The shortest times that the measured ceilings allow.

use super::Run;
use crate::{BandwidthPeak, ComputePeak, DeviceKind, Measurement, MemoryLevel, Outcome, Problem, Requires, Rung};

/// A lower bound on a measured time, derived from the device's measured ceilings of bandwidth and arithmetic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// Level of memory that sets the bound; `None` for arithmetic.
    pub level: Option<MemoryLevel>,
    /// Shortest possible time in microseconds.
    pub us: f64,
    /// Kind of the device.
    pub device: DeviceKind,
}

impl Bound {
    /// Returns the bound's name in a sentence: "DRAM", "shared memory", "arithmetic".
    #[must_use]
    pub fn label(&self) -> &'static str {
        self.level.map_or("arithmetic", |level| level.label_on(self.device))
    }
}

impl Run {
    /// Returns the bandwidth ceiling of a problem: the ceiling of L2 if the working set stays in L2 between passes,
    /// otherwise the ceiling of DRAM.
    #[must_use]
    pub fn ceiling(&self, problem: &Problem) -> Option<&BandwidthPeak> {
        self.peaks.ceiling_for(problem.working_set_bytes, self.environment.device.l2_bytes, problem.written_part())
    }

    /// Returns the arithmetic ceiling of a problem: the highest among its element type and the types that rungs use.
    #[must_use]
    pub fn arithmetic(&self, problem: &Problem) -> Option<&ComputePeak> {
        let others = self.measurements.iter().filter(|m| m.problem == *problem).filter_map(|m| m.dtype);
        let peaks = std::iter::once(problem.dtype).chain(others).filter_map(|dtype| self.peaks.arithmetic(dtype));
        peaks.max_by(|a, b| a.flops_per_s().total_cmp(&b.flops_per_s()))
    }

    /// Returns the bound on a measurement: the slowest part of its work, each part at its measured ceiling. The parts
    /// are the operations and the bytes counted at each level of memory; if no bytes were counted, the problem's least
    /// bytes at [`Run::ceiling`] are used. Each of several GPUs does its share, but all bytes of the link cross the
    /// same link. Returns `None` if no part has a ceiling, as for copies by the CUDA driver, which cross the link
    /// between host and device.
    #[must_use]
    pub fn bound(&self, m: &Measurement) -> Option<Bound> {
        if self.is_copy(m) {
            return None;
        }
        let device = self.environment.device.kind;
        let at = |level: MemoryLevel, bytes: u64, bytes_per_s: f64| {
            (bytes_per_s > 0.0).then(|| Bound { level: Some(level), us: bytes as f64 / bytes_per_s * 1e6, device })
        };
        let written = m.problem.written_part();
        // Each GPU has its own memory and compute units, but all of them wait for the bytes of the link.
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
            (peak > 0.0 && m.operations() > 0).then(|| Bound {
                level: None,
                us: m.operations() as f64 / peak * 1e6,
                device,
            })
        };
        counted.chain(uncounted()).chain(of_arithmetic()).max_by(|a, b| a.us.total_cmp(&b.us))
    }

    /// Returns true for a copy by the CUDA driver without counted traffic.
    fn is_copy(&self, m: &Measurement) -> bool {
        m.traffic.is_empty() && self.rung(&m.rung).is_some_and(Rung::is_driver)
    }

    /// Returns the largest number of GPUs that a rung ran on at a problem.
    #[must_use]
    pub fn gpus_at(&self, problem: &Problem) -> u32 {
        let measurements = self.measurements.iter().filter(|m| m.problem == *problem && self.is_sound(m));
        measurements.map(Measurement::gpus).max().unwrap_or(1)
    }

    /// Returns the bound of a problem for any rung: the time of its least bytes or of its operations at the measured
    /// ceilings, on the largest number of GPUs that a rung used. Returns `None` if the device only copied.
    #[must_use]
    pub fn least_time(&self, problem: &Problem) -> Option<Bound> {
        let mut own = self.measurements.iter().filter(|m| m.problem == *problem && self.on_device(m)).peekable();
        if own.peek().is_some() && own.all(|m| self.is_copy(m)) {
            return None;
        }
        let dtype = self.arithmetic(problem).map(|peak| peak.dtype);
        let gpus = Some(self.gpus_at(problem)).filter(|n| *n > 1);
        self.bound(&Measurement { dtype, gpus, ..Measurement::without_samples("", problem.clone(), Outcome::Measured) })
    }

    /// Returns the time of [`Run::bound`] divided by the median time; `None` for a CPU rung in a GPU's record, since
    /// the CPU's ceilings were not measured.
    #[must_use]
    pub fn fraction_of_bound(&self, m: &Measurement) -> Option<f64> {
        let bound = self.bound(m).filter(|_| self.on_device(m))?;
        Some(bound.us / m.median_us()?)
    }

    /// Returns true if a measurement was made on the record's device, and not on the host's CPU in a GPU's record.
    /// Rungs that require no GPU run on the CPU.
    #[must_use]
    pub fn on_device(&self, m: &Measurement) -> bool {
        let by_cpu = self.rung(&m.rung).is_some_and(|r| r.requires == Requires::Nothing);
        by_cpu == (self.environment.device.kind == DeviceKind::Cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::*;
    use crate::{CUDA_DRIVER, Dtype, Peaks, Runner, Traffic};

    #[test]
    fn a_bound_is_the_slowest_part_of_the_work() {
        let run = run();
        let p = problem("p");
        let traffic = |level, bytes| Traffic { level, bytes };
        let check = |m: &Measurement, expect: Option<(Option<MemoryLevel>, f64)>| {
            let close =
                |b: Bound, (level, us): (Option<MemoryLevel>, f64)| b.level == level && (b.us / us - 1.0).abs() < 1e-12;
            let got = run.bound(m);
            assert!(
                got.is_some() == expect.is_some() && got.zip(expect).is_none_or(|(b, e)| close(b, e)),
                "{got:?} {expect:?}"
            );
        };
        let with = |change: &dyn Fn(&mut crate::ProblemData)| timed("01", &p.with(change), 1.0);
        // 1000 bytes stay in L2 and take 250 us from there (1000 us from DRAM); 2000 FLOP take 200 us.
        check(&timed("01", &p, 1.0), Some((Some(MemoryLevel::L2), 250.0)));
        check(&with(&|p| p.working_set_bytes = 26 << 20), Some((Some(MemoryLevel::Dram), 1000.0)));
        check(&with(&|p| p.flops = 3000), Some((None, 300.0)));
        // A measurement's own operations take precedence over the problem's.
        check(&Measurement { flops: Some(9000), ..timed("01", &p, 1.0) }, Some((None, 900.0)));
        // Counted bytes take precedence over the least bytes, even if they are fewer.
        let counted = |list: &[Traffic]| Measurement { traffic: list.to_vec(), ..timed("01", &p, 1.0) };
        check(
            &counted(&[traffic(MemoryLevel::L2, 1200), traffic(MemoryLevel::Dram, 500)]),
            Some((Some(MemoryLevel::Dram), 500.0)),
        );
        check(
            &counted(&[traffic(MemoryLevel::L2, 4000), traffic(MemoryLevel::Dram, 500)]),
            Some((Some(MemoryLevel::L2), 1000.0)),
        );
        check(&counted(&[traffic(MemoryLevel::Dram, 10)]), Some((None, 200.0)));
        // A CPU's caches have other names.
        let mut on_cpu = run.clone();
        on_cpu.environment.device.kind = DeviceKind::Cpu;
        let names = [&run, &on_cpu].map(|run| run.bound(&timed("01", &p, 1.0)).unwrap().label());
        assert_eq!(names, ["L2", "the last-level cache"]);
        // Levels and types without a ceiling bound nothing, and neither do those that this version does not know.
        check(&counted(&[traffic(MemoryLevel::Shared, u64::MAX)]), Some((None, 200.0)));
        check(&counted(&[traffic(MemoryLevel::Other, u64::MAX)]), Some((None, 200.0)));
        check(&with(&|p| (p.dtype, p.flops) = (Dtype::Other, u64::MAX)), Some((Some(MemoryLevel::L2), 250.0)));
        check(&with(&|p| (p.bytes, p.dtype) = (0, Dtype::F64)), None);

        // Two GPUs have two memories and twice the compute units, but one link.
        let on_two = |traffic: &[Traffic]| Measurement { gpus: Some(2), ..counted(traffic) };
        check(&on_two(&[]), Some((Some(MemoryLevel::L2), 125.0)));
        check(&on_two(&[traffic(MemoryLevel::Dram, 500)]), Some((Some(MemoryLevel::Dram), 250.0)));
        check(&on_two(&[traffic(MemoryLevel::Dram, 10)]), Some((None, 100.0)));
        check(&on_two(&[traffic(MemoryLevel::Link, u64::MAX)]), Some((None, 100.0)));
        let mut linked = run.clone();
        let dram = linked.peaks.level(MemoryLevel::Dram).unwrap().clone();
        linked.peaks.bandwidth.push(BandwidthPeak { level: MemoryLevel::Link, ..dram });
        let bound = linked.bound(&on_two(&[traffic(MemoryLevel::Link, 500)])).unwrap();
        assert_eq!((bound.label(), bound.us.round()), ("the link", 500.0));

        // A rung in another type has that type's ceiling, and the fastest type bounds the problem.
        let mut mixed = Run { measurements: vec![timed("01", &p, 1.0)], ..run.clone() };
        let mut faster = mixed.peaks.arithmetic(p.dtype).unwrap().clone();
        (faster.dtype, faster.flops) = (Dtype::Bf16, 8 * faster.flops);
        mixed.peaks.compute.push(faster);
        let work = p.with(|p| p.flops = 16_000);
        let in_bf16 = Measurement { dtype: Some(Dtype::Bf16), ..timed("02", &work, 1.0) };
        let us = |run: &Run, m: &Measurement| run.bound(m).map(|b| b.us.round());
        assert_eq!((us(&mixed, &timed("01", &work, 1.0)), us(&mixed, &in_bf16)), (Some(1600.0), Some(250.0)));
        assert_eq!(mixed.least_time(&work).map(|b| b.us.round()), Some(1600.0));
        mixed.measurements = vec![timed("01", &work, 1.0), in_bf16];
        assert_eq!(mixed.least_time(&work).map(|b| b.us.round()), Some(250.0));
        assert_eq!(mixed.arithmetic(&work).map(|peak| peak.dtype), Some(Dtype::Bf16));

        assert_eq!(run.least_time(&p), run.bound(&timed("01", &p, 1.0)));
        assert_eq!(run.least_time(&p).map(|b| b.label()), Some("L2"));
        let arithmetic = p.with(|p| p.bytes = 0);
        assert_eq!(run.least_time(&arithmetic).map(|b| b.label()), Some("arithmetic"));
        assert!(Run { peaks: Peaks::default(), ..run }.least_time(&p).is_none());
    }

    #[test]
    fn a_fraction_of_the_bound_needs_the_ceilings_of_its_own_device() {
        let p = problem("p");
        let mut run = run();
        run.rungs.push(rung("framework_cpu", Requires::Nothing, Runner::External("PyTorch".into())));
        let rounded = |v: f64| (v * 1e9).round() / 1e9;
        let fraction = |run: &Run, id: &str| run.fraction_of_bound(&timed(id, &p, 500.0)).map(rounded);
        assert_eq!(fraction(&run, "01"), Some(0.5));
        assert_eq!(fraction(&run, "library"), Some(0.5));
        assert_eq!((fraction(&run, "cpu"), fraction(&run, "framework_cpu")), (None, None));
        assert_eq!(run.fraction_of_bound(&Measurement::without_samples("01", p.clone(), Outcome::Measured)), None);
        run.measurements = vec![timed("01", &p, 500.0), timed("cpu", &p, 500.0), wrong(timed("02", &p, 500.0))];
        let of_ladder: Vec<_> = run.ladder(&p).iter().map(|r| r.fraction_of_bound.map(rounded)).collect();
        assert_eq!(of_ladder, [None, Some(0.5), None]);
        // In a CPU's record, the ceilings apply to the CPU.
        run.environment.device.kind = DeviceKind::Cpu;
        run.environment.device.l2_bytes = None;
        assert_eq!((fraction(&run, "cpu"), fraction(&run, "01")), (Some(2.0), None));
    }

    #[test]
    fn copies_by_the_driver_have_no_bound_of_memory() {
        let mut run = run();
        let p = problem("p");
        let copy = Rung { runner: Runner::Library(CUDA_DRIVER.into()), ..run.rung("01").unwrap().clone() };
        let kernel = Rung { id: "02".into(), ..run.rung("01").unwrap().clone() };
        run.rungs = vec![copy];
        run.measurements = vec![timed("01", &p, 1.0)];
        assert_eq!((run.bound(&run.measurements[0]), run.least_time(&p)), (None, None));
        // A copy with counted traffic has a bound, for example a copy over the link between GPUs.
        let traffic = vec![Traffic { level: MemoryLevel::Dram, bytes: 500 }];
        assert!(run.bound(&Measurement { traffic, ..run.measurements[0].clone() }).is_some());
        // With a kernel in addition to the copies, there is a shortest time again.
        run.rungs.push(kernel);
        run.measurements.push(timed("02", &p, 1.0));
        assert!(run.least_time(&p).is_some());
    }
}
