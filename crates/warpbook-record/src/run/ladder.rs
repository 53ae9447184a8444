//! The rungs of a problem in order, with the baseline and the fastest.

use super::Run;
use crate::{Baseline, Measurement, Problem, Rung, Runner, TrainLog};

/// A row of a ladder: a measurement with its comparisons.
#[derive(Debug, Clone)]
pub struct LadderRow<'a> {
    /// Measurement that the row shows.
    pub measurement: &'a Measurement,
    /// The measured rung, if the record has it.
    pub rung: Option<&'a Rung>,
    /// Speed-up over [`Run::baseline`].
    pub speed_up: Option<f64>,
    /// Fraction of the bound that the rung reaches; see [`Run::fraction_of_bound`].
    pub fraction_of_bound: Option<f64>,
}

impl Run {
    /// Returns true if a measurement is comparable with others: it is valid, took longer than zero, and its training
    /// did not diverge. Only such rungs have a bar, or can be the baseline or the fastest.
    #[must_use]
    pub fn is_sound(&self, m: &Measurement) -> bool {
        m.is_valid()
            && m.median_us().is_some_and(|us| us > 0.0)
            && !self.train_log(&m.rung, &m.problem).is_some_and(TrainLog::diverged)
    }

    /// Returns the measurements of a problem in the ladder's order; rungs that the record lacks come last.
    fn in_order(&self, problem: &Problem) -> Vec<&Measurement> {
        let mut rows: Vec<&Measurement> = self.measurements.iter().filter(|m| m.problem == *problem).collect();
        rows.sort_by_cached_key(|m| self.rungs.iter().position(|r| r.id == m.rung).unwrap_or(usize::MAX));
        rows
    }

    /// Returns the measurements of a problem in the ladder's order, with speed-ups over [`Run::baseline`].
    #[must_use]
    pub fn ladder<'a>(&'a self, problem: &Problem) -> Vec<LadderRow<'a>> {
        let baseline = self.baseline(problem).and_then(|m| m.median_us());
        self.in_order(problem)
            .into_iter()
            .map(|m| LadderRow {
                measurement: m,
                rung: self.rung(&m.rung),
                speed_up: baseline.zip(m.median_us()).filter(|_| self.is_sound(m)).map(|(b, t)| b / t),
                fraction_of_bound: self.fraction_of_bound(m).filter(|_| self.is_sound(m)),
            })
            .collect()
    }

    /// Returns the baseline of the speed-ups at a problem, as the descriptor defines it. If that baseline was not
    /// measured or its check failed, returns the first sound measurement of the ladder.
    #[must_use]
    pub fn baseline(&self, problem: &Problem) -> Option<&Measurement> {
        let named = match &self.descriptor.baseline {
            Baseline::FirstValid => None,
            Baseline::FastestLibrary => self.fastest_library(problem).map(|(m, _)| m),
            Baseline::Rung(id) => {
                self.measurements.iter().find(|m| m.rung == *id && m.problem == *problem && self.is_sound(m))
            }
        };
        named.or_else(|| self.in_order(problem).into_iter().find(|m| self.is_sound(m)))
    }

    /// Returns the slow and the fast way to do the work of a problem. They are the two rungs that the record names
    /// ([`Descriptor::compared`](crate::Descriptor::compared)) if both are sound, otherwise the first and the fastest
    /// of the other rungs, in the ladder's order. Only sound measurements on the GPU count if there are at least two,
    /// otherwise only those on the CPU. Returns `None` if neither device has two.
    #[must_use]
    pub fn slow_and_fast(&self, problem: &Problem) -> Option<(&Measurement, &Measurement)> {
        if let [slow, fast] = &self.descriptor.compared[..] {
            let sound = |rung: &str| self.measurement(rung, problem).filter(|m| self.is_sound(m));
            if let (Some(slow), Some(fast)) = (sound(slow), sound(fast)) {
                return Some((slow, fast));
            }
        }
        let first_and_fastest = |on_cpu: bool| {
            let is_there =
                |m: &&Measurement| self.is_sound(m) && self.rung(&m.rung).is_some_and(|rung| rung.is_cpu() == on_cpu);
            let mut rows = self.in_order(problem).into_iter().filter(is_there);
            let slow = rows.next()?;
            let us = |m: &Measurement| m.median_us().unwrap_or(f64::INFINITY);
            Some((slow, rows.min_by(|a, b| us(a).total_cmp(&us(b)))?))
        };
        first_and_fastest(false).or_else(|| first_and_fastest(true))
    }

    /// Returns the fastest sound measurement of a problem among the rungs that do all of the work; see
    /// [`Run::is_sound`].
    #[must_use]
    pub fn fastest(&self, problem: &Problem) -> Option<&Measurement> {
        self.fastest_where(problem, |_| true).map(|(m, _)| m)
    }

    /// Returns the fastest of the record's rungs that `kind` accepts, such as libraries, with its median in
    /// microseconds.
    #[must_use]
    pub fn fastest_of(&self, problem: &Problem, kind: impl Fn(&Rung) -> bool) -> Option<(&Measurement, f64)> {
        self.fastest_where(problem, |m| self.rung(&m.rung).is_some_and(&kind))
    }

    fn fastest_where(&self, problem: &Problem, keep: impl Fn(&Measurement) -> bool) -> Option<(&Measurement, f64)> {
        let ranked = |m: &&Measurement| {
            m.problem == *problem && self.is_sound(m) && !m.does_less() && !self.repeats_a_rung(m) && keep(m)
        };
        let all = self.measurements.iter().filter(ranked);
        all.filter_map(|m| Some((m, m.median_us()?))).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Returns the fastest GPU library at a problem, with its median in microseconds.
    #[must_use]
    pub fn fastest_library(&self, problem: &Problem) -> Option<(&Measurement, f64)> {
        self.fastest_of(problem, Rung::is_library)
    }

    /// Returns the fastest kernel rung at a problem, with its median in microseconds. A rung chosen by a rule counts
    /// only if the same rung was not measured under its own name.
    #[must_use]
    pub fn fastest_kernels(&self, problem: &Problem) -> Option<(&Measurement, f64)> {
        self.fastest_of(problem, |r| matches!(r.runner, Runner::Kernels { .. } | Runner::Chosen(_)))
    }

    /// Returns true for kernels that a rule chose, at a problem where their rung was also measured under its own name.
    /// Such kernels are the same kernel a second time, and so neither another implementation nor another candidate for
    /// the fastest. If the record does not describe the choice at all, any rung counts.
    #[must_use]
    pub fn repeats_a_rung(&self, m: &Measurement) -> bool {
        let runner = |m: &Measurement| self.rung(&m.rung).map(|r| &r.runner);
        let by_name = |other: &Measurement| {
            let is_chosen = m.chosen.as_ref().map_or(m.choice.is_none(), |id| *id == other.rung);
            let is_of_kernels = matches!(runner(other), Some(Runner::Kernels { .. }));
            other.problem == m.problem && is_of_kernels && is_chosen && self.is_sound(other)
        };
        matches!(runner(m), Some(Runner::Chosen(_))) && self.measurements.iter().any(by_name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::*;

    #[test]
    fn a_baseline_is_the_descriptors_or_the_first_valid_rung() {
        let p = problem("p");
        let check = |baseline: Baseline, measurements: &[Measurement], expect: Option<(&str, f64)>| {
            let mut run = Run { measurements: measurements.to_vec(), ..run() };
            run.descriptor.baseline = baseline.clone();
            assert_eq!(who(run.baseline(&p)), expect, "{baseline:?}");
            assert!(run.baseline(&problem("another")).is_none());
            let ladder = run.ladder(&p);
            assert_eq!(ladder.len(), measurements.len());
            for row in ladder {
                let ratio = |m: &Measurement| Some(expect?.1 / m.median_us()?);
                let valid = row.measurement.is_valid();
                assert_eq!(row.speed_up, if valid { ratio(row.measurement) } else { None }, "{}", row.measurement.rung);
            }
        };
        // The measurements are in a different order from the ladder.
        let all = [
            timed("02", &p, 10.0),
            timed("01", &p, 40.0),
            timed("library", &p, 8.0),
            timed("faster_library", &p, 5.0),
            timed("cpu", &p, 900.0),
        ];
        check(Baseline::FirstValid, &all, Some(("cpu", 900.0)));
        check(Baseline::FastestLibrary, &all, Some(("faster_library", 5.0)));
        check(Baseline::Rung("01".into()), &all, Some(("01", 40.0)));
        // These cases use the fallback: no library, no such rung, and a failed check.
        check(Baseline::FastestLibrary, &all[..2], Some(("01", 40.0)));
        check(Baseline::Rung("03".into()), &all, Some(("cpu", 900.0)));
        let failed = [wrong(timed("01", &p, 40.0)), timed("02", &p, 10.0)];
        check(Baseline::Rung("01".into()), &failed, Some(("02", 10.0)));
        check(Baseline::FirstValid, &failed, Some(("02", 10.0)));
        // The rung was run again after a failure.
        let again = [wrong(timed("01", &p, 40.0)), timed("02", &p, 10.0), timed("01", &p, 41.0)];
        check(Baseline::FirstValid, &again, Some(("01", 41.0)));
        check(Baseline::Rung("01".into()), &again, Some(("01", 41.0)));
        // Rungs that the record does not describe come last and do not count as libraries.
        let strange = [timed("strange", &p, 1.0), timed("02", &p, 10.0)];
        check(Baseline::FirstValid, &strange, Some(("02", 10.0)));
        check(Baseline::FirstValid, &strange[..1], Some(("strange", 1.0)));
        check(Baseline::FastestLibrary, &strange, Some(("02", 10.0)));
        check(Baseline::FirstValid, &[wrong(timed("01", &p, 1.0))], None);
    }

    #[test]
    fn the_slow_way_is_the_first_and_the_fast_one_the_fastest_of_the_others() {
        let p = problem("p");
        let check = |rows: &[Measurement], expect: Option<[(&str, f64); 2]>| {
            let run = Run { measurements: rows.to_vec(), ..run() };
            let got = run.slow_and_fast(&p);
            assert_eq!(got.and_then(|(slow, fast)| Some([who(Some(slow))?, who(Some(fast))?])), expect);
            assert!(run.slow_and_fast(&problem("another")).is_none());
        };
        let [library, first, second] = [timed("library", &p, 8.0), timed("01", &p, 4.0), timed("02", &p, 6.0)];
        // The pair follows the order of the ladder and not of the measurements. The "slow" way may be the fastest.
        check(&[second.clone(), first.clone(), library.clone()], Some([("library", 8.0), ("01", 4.0)]));
        check(&[second.clone(), first.clone()], Some([("01", 4.0), ("02", 6.0)]));
        // The pair that the record names is returned if both rungs were measured.
        let named = |rows: &[Measurement], pair: [&str; 2]| {
            let descriptor =
                crate::Descriptor { compared: pair.map(Into::into).to_vec(), ..crate::Descriptor::default() };
            let run = Run { measurements: rows.to_vec(), descriptor, ..run() };
            run.slow_and_fast(&p).map(|(slow, fast)| (slow.rung.to_string(), fast.rung.to_string()))
        };
        let rows = [library.clone(), first.clone(), second.clone()];
        assert_eq!(named(&rows, ["02", "01"]), Some(("02".into(), "01".into())));
        assert_eq!(named(&rows, ["02", "03"]), Some(("library".into(), "01".into())));
        check(&[wrong(library.clone()), second.clone(), first.clone()], Some([("01", 4.0), ("02", 6.0)]));
        // The rungs of the CPU are used if the GPU has fewer than two; rungs of both are never mixed.
        let cpu = timed("cpu", &p, 900.0);
        check(&[cpu.clone(), first, second.clone()], Some([("01", 4.0), ("02", 6.0)]));
        check(&[cpu.clone(), second], None);
        check(&[cpu], None);
    }

    #[test]
    fn the_fastest_does_all_of_the_work() {
        let (p, other) = (problem("p"), problem("other"));
        let less = |m: Measurement| Measurement { flops: Some(999), ..m };
        let half = |m: Measurement| Measurement { flops: Some(1000), ..m };
        let measurements = vec![
            less(timed("01", &p, 1.0)),
            wrong(timed("02", &p, 2.0)),
            timed("01", &other, 3.0),
            half(timed("02", &p, 4.0)),
            timed("01", &p, 5.0),
            less(timed("library", &p, 1.0)),
            timed("faster_library", &p, 6.0),
            timed("cpu", &p, 900.0),
        ];
        let mut run = Run { measurements, ..run() };
        assert_eq!(who(run.fastest(&p)), Some(("02", 4.0)));
        assert_eq!(run.fastest_kernels(&p).map(|(_, us)| us), Some(4.0));
        assert_eq!(run.fastest_library(&p).map(|(m, us)| (m.rung.as_str(), us)), Some(("faster_library", 6.0)));
        assert_eq!(run.fastest_of(&p, Rung::is_cpu).map(|(_, us)| us), Some(900.0));
        assert!(run.fastest_library(&other).is_none());
        // A rung that the record does not describe can be the fastest, but belongs to no kind of rung.
        run.measurements.push(timed("strange", &p, 3.5));
        assert_eq!(who(run.fastest(&p)), Some(("strange", 3.5)));
        assert_eq!(run.fastest_kernels(&p).map(|(_, us)| us), Some(4.0));
        assert!(run.fastest_of(&p, |r| r.id == "strange").is_none());
    }

    #[test]
    fn what_a_rule_chose_is_not_a_second_fastest_kernel() {
        let p = problem("p");
        let mut run = run();
        run.rungs.push(rung("as_chosen", GPU, Runner::Chosen("a rule".into())));
        run.measurements =
            vec![timed("library", &p, 8.0), timed("02", &p, 5.0), timed("01", &p, 9.0), timed("as_chosen", &p, 4.9)];
        assert_eq!(who(run.fastest(&p)), Some(("02", 5.0)));
        assert_eq!(run.fastest_kernels(&p).map(|(m, us)| (m.rung.as_str(), us)), Some(("02", 5.0)));
        assert!(run.repeats_a_rung(&run.measurements[3]) && !run.repeats_a_rung(&run.measurements[1]));
        // A chosen rung counts if it was not measured here under its own name.
        run.measurements[3].chosen = Some("03".into());
        assert_eq!(who(run.fastest(&p)), Some(("as_chosen", 4.9)));
        run.measurements[3].chosen = Some("01".into());
        assert_eq!(who(run.fastest(&p)), Some(("02", 5.0)));
        // A choice that names no rung is a kernel of its own.
        (run.measurements[3].chosen, run.measurements[3].choice) = (None, Some("tiles in shared memory".into()));
        assert_eq!(who(run.fastest(&p)), Some(("as_chosen", 4.9)));
        run.measurements[3].chosen = Some("01".into());
        // The ladder still has a row for the repeated rung.
        assert_eq!(run.ladder(&p).last().and_then(|row| row.measurement.median_us()), Some(4.9));
        // The chosen rung counts if the other rungs are libraries or failed.
        for kernel in [1, 2] {
            run.measurements[kernel] = wrong(run.measurements[kernel].clone());
        }
        assert_eq!(who(run.fastest(&p)), Some(("as_chosen", 4.9)));
        assert_eq!(run.fastest_kernels(&p).map(|(_, us)| us), Some(4.9));
    }
}
