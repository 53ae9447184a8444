use crate::problem::resolve;
use crate::{
    BandwidthPeak, Baseline, Breakdown, ComputePeak, Descriptor, DeviceKind, Environment, Measurement, Outcome, Part,
    PartGroup, Peaks, Policy, Problem, Profiled, Requires, Rung, Runner, Span, TrainLog, Xray,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The version of the record's format that this code writes.
pub const SCHEMA: u32 = 2;

/// One record: an experiment as it was run on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    /// The format's version.
    pub schema: u32,
    /// The experiment's name, as "regression".
    pub experiment: String,
    /// A few words for a heading.
    #[serde(default)]
    pub title: String,
    /// Who made it, where that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// When it was begun: RFC 3339, UTC.
    #[serde(default)]
    pub created: String,
    /// The command that repeats it.
    #[serde(default)]
    pub command: String,
    /// Where and with what it was made.
    pub environment: Environment,
    /// How it was timed.
    pub policy: Policy,
    /// The ceilings of the device.
    #[serde(default)]
    pub peaks: Peaks,
    /// How it is read.
    #[serde(default)]
    pub descriptor: Descriptor,
    /// The pieces of work; everything else names them by their ids.
    #[serde(default)]
    pub problems: Vec<Problem>,
    /// The id of the problem that is shown first, where the experiment chose one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main_problem: Option<String>,
    /// The rungs, in the ladder's order.
    #[serde(default)]
    pub rungs: Vec<Rung>,
    /// The text of each kernel file, and of the building blocks they share, by path below `kernels/`.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
    /// What came out, in the order of the runs.
    #[serde(default)]
    pub measurements: Vec<Measurement>,
    /// What the trainings gave.
    #[serde(default)]
    pub train_logs: Vec<TrainLog>,
    /// Parts of rungs, timed alone or left out.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// Timelines.
    #[serde(default)]
    pub spans: Vec<Span>,
    /// What the device did in one run of a rung, operation by operation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breakdowns: Vec<Breakdown>,
    /// What a profiler found apart from times: memory over time, hardware counters, its own cost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiled: Vec<Profiled>,
    /// What every SM did in one run of a rung.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub xrays: Vec<Xray>,
    /// Remarks that a reader of the figures needs, as "interrupted after 5 of 8 measurements".
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A row of a ladder: a measurement with what it is compared with.
#[derive(Debug, Clone)]
pub struct LadderRow<'a> {
    /// The measurement.
    pub measurement: &'a Measurement,
    /// Its rung, if the record has it.
    pub rung: Option<&'a Rung>,
    /// How many times as fast as [`Run::baseline`].
    pub speed_up: Option<f64>,
    /// See [`Run::fraction_of_bound`].
    pub fraction_of_bound: Option<f64>,
}

impl Run {
    /// The record as JSON text with a newline at its end. Its list of problems is completed: each problem of the record, once.
    ///
    /// # Errors
    /// None that a record of this crate's types can cause; serde_json's otherwise.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let problems = self.all_problems();
        let mut text = if problems == self.problems {
            serde_json::to_string_pretty(self)?
        } else {
            serde_json::to_string_pretty(&Self { problems, ..self.clone() })?
        };
        text.push('\n');
        Ok(text)
    }

    /// The list's problems and those that it lacks, each once.
    fn all_problems(&self) -> Vec<Problem> {
        let of_rungs = self.measurements.iter().map(|m| &m.problem).chain(self.train_logs.iter().map(|l| &l.problem));
        let of_times = self.parts.iter().map(|p| &p.problem).chain(self.spans.iter().map(|s| &s.problem));
        let of_times = of_times.chain(self.breakdowns.iter().map(|b| &b.problem));
        let of_times = of_times.chain(self.profiled.iter().map(|p| &p.problem));
        let of_times = of_times.chain(self.xrays.iter().map(|x| &x.problem));
        let mut seen = HashSet::new();
        let all = self.problems.iter().chain(of_rungs).chain(of_times);
        all.filter(|p| seen.insert(p.id.as_str())).cloned().collect()
    }

    /// Replaces the problem of each entry by the listed one with the same id. An error names the entry whose id is not listed, or
    /// the id that is listed more than once.
    pub(crate) fn resolve_problems(&mut self) -> Result<(), String> {
        let listed = std::mem::take(&mut self.problems);
        let mut known: HashMap<&str, &Problem> = HashMap::new();
        for p in &listed {
            if known.insert(&p.id, p).is_some() {
                return Err(format!("\"problems\" lists the id `{}` more than once", p.id));
            }
        }
        let lacks = |what: &str, i: usize| {
            let what = what.to_owned();
            move |id: String| format!("{what}[{i}] has the problem `{id}`, which \"problems\" does not list")
        };
        for (i, m) in self.measurements.iter_mut().enumerate() {
            resolve(&mut m.problem, &known).map_err(lacks("measurements", i))?;
        }
        for (i, l) in self.train_logs.iter_mut().enumerate() {
            resolve(&mut l.problem, &known).map_err(lacks("train_logs", i))?;
        }
        for (i, p) in self.parts.iter_mut().enumerate() {
            resolve(&mut p.problem, &known).map_err(lacks("parts", i))?;
        }
        for (i, s) in self.spans.iter_mut().enumerate() {
            resolve(&mut s.problem, &known).map_err(lacks("spans", i))?;
        }
        for (i, b) in self.breakdowns.iter_mut().enumerate() {
            resolve(&mut b.problem, &known).map_err(lacks("breakdowns", i))?;
        }
        for (i, p) in self.profiled.iter_mut().enumerate() {
            resolve(&mut p.problem, &known).map_err(lacks("profiled", i))?;
        }
        for (i, x) in self.xrays.iter_mut().enumerate() {
            resolve(&mut x.problem, &known).map_err(lacks("xrays", i))?;
        }
        drop(known);
        self.problems = listed;
        Ok(())
    }

    /// The rung of that id.
    #[must_use]
    pub fn rung(&self, id: &str) -> Option<&Rung> {
        self.rungs.iter().find(|r| r.id == id)
    }

    /// The distinct problems that have measurements, in the order they were run.
    #[must_use]
    pub fn problems(&self) -> Vec<&Problem> {
        let mut seen = HashSet::new();
        self.measurements.iter().map(|m| &m.problem).filter(|p| seen.insert(p.id.as_str())).collect()
    }

    /// The problem that is shown when none is asked for: the experiment's choice where it has a valid measurement, else the
    /// one with the most of them; of equals the larger. In a record without measurements that of the first training.
    #[must_use]
    pub fn main_problem(&self) -> Option<&Problem> {
        let all: Vec<&Problem> = self.measurements.iter().filter(|m| m.is_valid()).map(|m| &m.problem).collect();
        let valid = |p: &Problem| all.iter().filter(|of| **of == p).count();
        let chosen = |p: &Problem| self.main_problem.as_ref() == Some(&p.id);
        let measured = self.problems().into_iter().max_by_key(|p| (valid(p) > 0, chosen(p), valid(p), p.size()));
        measured.or_else(|| self.train_logs.first().map(|l| &l.problem))
    }

    /// The measurement of a rung at a problem.
    #[must_use]
    pub fn measurement(&self, rung: &str, problem: &Problem) -> Option<&Measurement> {
        self.measurements.iter().find(|m| m.rung == rung && m.problem == *problem)
    }

    /// The training of a rung at a problem.
    #[must_use]
    pub fn train_log(&self, rung: &str, problem: &Problem) -> Option<&TrainLog> {
        self.train_logs.iter().find(|l| l.rung == rung && l.problem == *problem)
    }

    /// The parts of a rung at a problem, in the order of the record.
    #[must_use]
    pub fn parts_of(&self, rung: &str, problem: &Problem, group: PartGroup) -> Vec<&Part> {
        self.parts.iter().filter(|p| p.rung == rung && p.problem == *problem && p.group == group).collect()
    }

    /// The spans of a rung at a problem, in the order of the record.
    #[must_use]
    pub fn spans_of(&self, rung: &str, problem: &Problem) -> Vec<&Span> {
        self.spans.iter().filter(|s| s.rung == rung && s.problem == *problem).collect()
    }

    /// The bandwidth ceiling of a problem: that of L2 where its working set stays there between passes, else of DRAM.
    #[must_use]
    pub fn ceiling(&self, problem: &Problem) -> Option<&BandwidthPeak> {
        self.peaks.ceiling_for(problem.working_set_bytes, self.environment.device.l2_bytes, problem.written_part())
    }

    /// The arithmetic ceiling of a problem: that of its element type, or the highest of the types that rungs do it in.
    #[must_use]
    pub fn arithmetic(&self, problem: &Problem) -> Option<&ComputePeak> {
        let others = self.measurements.iter().filter(|m| m.problem == *problem).filter_map(|m| m.dtype);
        let peaks = std::iter::once(problem.dtype).chain(others).filter_map(|dtype| self.peaks.arithmetic(dtype));
        peaks.max_by(|a, b| a.flops_per_s().total_cmp(&b.flops_per_s()))
    }

    /// Whether a measurement has a figure that others may be compared with: it is valid, took longer than nothing, and its training
    /// did not diverge. Only such rungs have a bar, are a baseline or are the fastest.
    #[must_use]
    pub fn is_sound(&self, m: &Measurement) -> bool {
        m.is_valid()
            && m.median_us().is_some_and(|us| us > 0.0)
            && !self.train_log(&m.rung, &m.problem).is_some_and(TrainLog::diverged)
    }

    /// The measurements of a problem in the ladder's order; those of rungs that the record lacks come last.
    fn in_order(&self, problem: &Problem) -> Vec<&Measurement> {
        let mut rows: Vec<&Measurement> = self.measurements.iter().filter(|m| m.problem == *problem).collect();
        rows.sort_by_cached_key(|m| self.rungs.iter().position(|r| r.id == m.rung).unwrap_or(usize::MAX));
        rows
    }

    /// The measurements of a problem in the ladder's order, with speed-ups over [`Run::baseline`].
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

    /// What speed-ups at a problem are relative to, as the descriptor says; the first sound measurement of the ladder where that
    /// was not measured, or its check failed.
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

    /// Whether a measurement was made on the record's device, and not on the CPU of the GPU's host: rungs that require nothing run
    /// on the CPU.
    #[must_use]
    pub fn on_device(&self, m: &Measurement) -> bool {
        let by_cpu = self.rung(&m.rung).is_some_and(|r| r.requires == Requires::Nothing);
        by_cpu == (self.environment.device.kind == DeviceKind::Cpu)
    }

    /// Takes over the rungs and figures of another record of the same experiment on the same device, as of another framework.
    /// Its rungs come after the CPU rungs that the ladder begins with. Where both describe a problem, this record's description
    /// stays.
    ///
    /// # Errors
    /// A sentence, and nothing is taken over: another experiment, device or way of timing, or a rung that both have.
    pub fn absorb(&mut self, other: Run) -> Result<(), String> {
        let differ = |what: &str, ours: &str, theirs: &str| {
            Err(format!(
                "The two records do not belong together: {what} is {ours} in the first and {theirs} in the second."
            ))
        };
        if self.experiment != other.experiment {
            return differ("the experiment", &self.experiment, &other.experiment);
        }
        let (ours, theirs) = (&self.environment.device, &other.environment.device);
        if (ours.kind, &ours.name) != (theirs.kind, &theirs.name) {
            return differ("the device", &ours.name, &theirs.name);
        }
        if self.environment.driver.is_some()
            && other.environment.driver.is_some()
            && self.environment.driver != other.environment.driver
        {
            let name = |d: &Option<String>| d.clone().unwrap_or_default();
            return differ("the driver", &name(&self.environment.driver), &name(&other.environment.driver));
        }
        if (self.policy.timed_by, self.policy.l2) != (other.policy.timed_by, other.policy.l2) {
            return Err("The two records were timed in different ways, so their figures do not belong in one.".into());
        }
        if let Some(rung) = other.rungs.iter().find(|r| self.rung(&r.id).is_some()) {
            return Err(format!("Both records have the rung {}. Nothing was merged.", rung.id));
        }
        let after_cpu = self.rungs.iter().take_while(|r| r.is_cpu()).count();
        self.rungs.splice(after_cpu..after_cpu, other.rungs);
        self.sources.extend(other.sources);
        self.measurements.extend(other.measurements);
        self.train_logs.extend(other.train_logs);
        self.parts.extend(other.parts);
        self.spans.extend(other.spans);
        self.breakdowns.extend(other.breakdowns);
        self.profiled.extend(other.profiled);
        self.xrays.extend(other.xrays);
        self.problems.extend(other.problems);
        self.problems = self.all_problems();
        self.notes.extend(other.notes);
        for library in other.environment.libraries {
            if !self.environment.libraries.contains(&library) {
                self.environment.libraries.push(library);
            }
        }
        if !other.command.is_empty() {
            self.command = format!("{} && {}", self.command, other.command);
        }
        self.resolve_problems()
    }

    /// The first way to do the work of a problem and the fastest of the others, in the ladder's order: of the sound measurements on the GPU
    /// where there are two or more, else of those on the CPU. `None` where neither has two.
    #[must_use]
    pub fn slow_and_fast(&self, problem: &Problem) -> Option<(&Measurement, &Measurement)> {
        let of = |on_cpu: bool| {
            let is_there =
                |m: &&Measurement| self.is_sound(m) && self.rung(&m.rung).is_some_and(|rung| rung.is_cpu() == on_cpu);
            let mut rows = self.in_order(problem).into_iter().filter(is_there);
            let slow = rows.next()?;
            let us = |m: &Measurement| m.median_us().unwrap_or(f64::INFINITY);
            Some((slow, rows.min_by(|a, b| us(a).total_cmp(&us(b)))?))
        };
        of(false).or_else(|| of(true))
    }

    /// The fastest sound measurement of a problem, of those that do all of the work; see [`Run::is_sound`].
    #[must_use]
    pub fn fastest(&self, problem: &Problem) -> Option<&Measurement> {
        self.fastest_where(problem, |_| true).map(|(m, _)| m)
    }

    /// The same among the record's rungs of some kind, as libraries, with its median in microseconds.
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

    /// The fastest GPU library at a problem, with its median in microseconds.
    #[must_use]
    pub fn fastest_library(&self, problem: &Problem) -> Option<(&Measurement, f64)> {
        self.fastest_of(problem, Rung::is_library)
    }

    /// The fastest rung of kernels at a problem, with its median in microseconds. What a rule chose counts only where no rung was
    /// measured under its own name.
    #[must_use]
    pub fn fastest_kernels(&self, problem: &Problem) -> Option<(&Measurement, f64)> {
        self.fastest_of(problem, |r| matches!(r.runner, Runner::Kernels { .. } | Runner::Chosen(_)))
    }

    /// Whether a measurement is of kernels that a rule chose, at a problem where rungs of kernels were measured under their own names:
    /// the same kernel a second time, which is neither another way of doing the work nor another figure to be the fastest.
    #[must_use]
    pub fn repeats_a_rung(&self, m: &Measurement) -> bool {
        let runner = |m: &Measurement| self.rung(&m.rung).map(|r| &r.runner);
        let by_name = |other: &Measurement| {
            other.problem == m.problem && matches!(runner(other), Some(Runner::Kernels { .. })) && self.is_sound(other)
        };
        matches!(runner(m), Some(Runner::Chosen(_))) && self.measurements.iter().any(by_name)
    }

    /// Counts of measured, skipped and failed measurements.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        self.measurements.iter().fold((0, 0, 0), |(m, s, f), x| match x.outcome {
            Outcome::Measured => (m + 1, s, f),
            Outcome::Skipped { .. } => (m, s + 1, f),
            Outcome::Failed { .. } => (m, s, f + 1),
        })
    }

    /// Copies the sources of the rungs' kernels, and these shared ones, into the record; call it before writing.
    pub fn collect_sources(&mut self, shared: &[crate::Source]) {
        for kernel in self.rungs.iter().flat_map(Rung::kernels) {
            if !kernel.source.is_empty() {
                self.sources.insert(kernel.file.to_string(), kernel.source.to_string());
            }
        }
        for s in shared {
            self.sources.insert(s.path.to_owned(), s.text.to_owned());
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Bound, Check, Dtype, MemoryLevel, SweepPoint, Traffic, count};

    const GPU: Requires = Requires::AtLeast(7, 5);

    fn rung(id: &'static str, requires: Requires, runner: Runner) -> Rung {
        Rung { id: id.into(), title: id.into(), idea: "".into(), requires, runner, variant_of: None }
    }

    /// A GPU with 40 MiB of L2, of which 25 MiB are kept; 1 byte/us from DRAM, 4 from L2, 10 FLOP/us in f32.
    pub(crate) fn run() -> Run {
        let text = r#"{ "schema": 2, "experiment": "sums",
            "environment": {
                "device": { "kind": "cuda", "index": 0, "name": "GPU", "memory_bytes": 1, "multiprocessors": 2,
                    "l2_bytes": 41943040 },
                "cpu": "CPU", "cpu_threads": 2, "os": "linux", "warpbook": "0.1.0", "debug_assertions": false },
            "policy": { "timed_by": "cuda_events", "l2": "warm", "warmup": 1, "samples": 5, "budget_s": 1,
                "batch_below_us": 50, "inputs": "Philox" },
            "peaks": {
                "bandwidth": [
                    { "level": "dram", "method": "", "bytes": 100, "samples_us": [100] },
                    { "level": "l2", "method": "", "bytes": 400, "samples_us": [100] },
                    { "level": "other", "method": "", "bytes": 1, "samples_us": [100] } ],
                "compute": [
                    { "dtype": "f32", "method": "", "flops": 1000, "samples_us": [100] },
                    { "dtype": "other", "method": "", "flops": 1, "samples_us": [100] } ] } }"#;
        let kernels = || Runner::Kernels { specs: Vec::new(), schedule: crate::Schedule::Launches };
        let rungs = vec![
            rung("cpu", Requires::Nothing, Runner::Cpu("1 thread".into())),
            rung("library", GPU, Runner::Library("cuBLAS".into())),
            rung("faster_library", GPU, Runner::Library("cuBLASLt".into())),
            rung("01", GPU, kernels()),
            rung("02", GPU, kernels()),
        ];
        Run { rungs, ..Run::from_json(text.as_bytes()).expect("a record") }
    }

    /// 1000 bytes, 600 of them resident, and 2000 FLOP.
    fn problem(id: &str) -> Problem {
        Problem::new("", "", vec![count("n", 1, "")], Dtype::F32).with(|p| {
            p.id = id.into();
            (p.bytes, p.working_set_bytes, p.flops) = (1000, 600, 2000);
        })
    }

    fn timed(rung: &str, problem: &Problem, us: f64) -> Measurement {
        Measurement {
            samples_us: vec![us],
            check: Some(Check::compare("r", &[(1.0, 1.0)], 1.0, 1e-3)),
            ..Measurement::without_samples(rung, problem.clone(), Outcome::Measured)
        }
    }

    fn wrong(m: Measurement) -> Measurement {
        Measurement { check: Some(Check::compare("r", &[(2.0, 1.0)], 1.0, 1e-3)), ..m }
    }

    /// The rung and time of a measurement.
    fn who(m: Option<&Measurement>) -> Option<(&str, f64)> {
        m.and_then(|m| Some((m.rung.as_str(), m.median_us()?)))
    }

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
        // Run in another order than the ladder's.
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
        // Fallbacks: no library, no such rung, a rung whose check failed.
        check(Baseline::FastestLibrary, &all[..2], Some(("01", 40.0)));
        check(Baseline::Rung("03".into()), &all, Some(("cpu", 900.0)));
        let failed = [wrong(timed("01", &p, 40.0)), timed("02", &p, 10.0)];
        check(Baseline::Rung("01".into()), &failed, Some(("02", 10.0)));
        check(Baseline::FirstValid, &failed, Some(("02", 10.0)));
        // A rung that was run again after it had failed.
        let again = [wrong(timed("01", &p, 40.0)), timed("02", &p, 10.0), timed("01", &p, 41.0)];
        check(Baseline::FirstValid, &again, Some(("01", 41.0)));
        check(Baseline::Rung("01".into()), &again, Some(("01", 41.0)));
        // Rungs that the record does not describe come last, and are no libraries.
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
        // In the ladder's order, whatever the order of the runs; the first way may be the fastest of all.
        check(&[second.clone(), first.clone(), library.clone()], Some([("library", 8.0), ("01", 4.0)]));
        check(&[second.clone(), first.clone()], Some([("01", 4.0), ("02", 6.0)]));
        check(&[wrong(library.clone()), second.clone(), first.clone()], Some([("01", 4.0), ("02", 6.0)]));
        // The CPU's ways count where the GPU has no two, and are not mixed with the GPU's.
        let cpu = timed("cpu", &p, 900.0);
        check(&[cpu.clone(), first, second.clone()], Some([("01", 4.0), ("02", 6.0)]));
        check(&[cpu.clone(), second], None);
        check(&[cpu], None);
    }

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
        // 1000 bytes take 250 us from L2, where they stay, and 1000 us from DRAM; 2000 FLOP take 200 us.
        check(&timed("01", &p, 1.0), Some((Some(MemoryLevel::L2), 250.0)));
        check(&with(&|p| p.working_set_bytes = 26 << 20), Some((Some(MemoryLevel::Dram), 1000.0)));
        check(&with(&|p| p.flops = 3000), Some((None, 300.0)));
        // A measurement's own operations come before the problem's.
        check(&Measurement { flops: Some(9000), ..timed("01", &p, 1.0) }, Some((None, 900.0)));
        // What was counted comes before the least bytes, also where it is less.
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
        // Levels and types without a ceiling, or that this version does not know, bound nothing.
        check(&counted(&[traffic(MemoryLevel::Shared, u64::MAX)]), Some((None, 200.0)));
        check(&counted(&[traffic(MemoryLevel::Other, u64::MAX)]), Some((None, 200.0)));
        check(&with(&|p| (p.dtype, p.flops) = (Dtype::Other, u64::MAX)), Some((Some(MemoryLevel::L2), 250.0)));
        check(&with(&|p| (p.bytes, p.dtype) = (0, Dtype::F64)), None);

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
        // A rung that the record does not describe is the fastest, but of no kind.
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
        // Its row is there all the same.
        assert_eq!(run.ladder(&p).last().and_then(|row| row.measurement.median_us()), Some(4.9));
        // Alone with libraries, or next to rungs that failed, it counts under its own name.
        for kernel in [1, 2] {
            run.measurements[kernel] = wrong(run.measurements[kernel].clone());
        }
        assert_eq!(who(run.fastest(&p)), Some(("as_chosen", 4.9)));
        assert_eq!(run.fastest_kernels(&p).map(|(_, us)| us), Some(4.9));
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
        // In a CPU's record the ceilings are those of the CPU.
        run.environment.device.kind = DeviceKind::Cpu;
        run.environment.device.l2_bytes = None;
        assert_eq!((fraction(&run, "cpu"), fraction(&run, "01")), (Some(2.0), None));
    }

    #[test]
    fn the_main_problem_is_the_chosen_one_where_it_is_valid() {
        let sized = |id: &str, size| problem(id).with(|p| p.sweep = Some(SweepPoint { size, line: String::new() }));
        let (small, large, chosen) = (sized("small", 1), sized("large", 9), sized("chosen", 5));
        let measurements = vec![
            timed("01", &small, 1.0),
            timed("01", &large, 1.0),
            wrong(timed("01", &chosen, 1.0)),
            wrong(timed("02", &chosen, 1.0)),
        ];
        let mut run = Run { measurements, main_problem: Some("chosen".into()), ..run() };
        assert_eq!(run.main_problem(), Some(&large), "the larger of equals");
        run.measurements.push(timed("02", &small, 1.0));
        assert_eq!(run.main_problem(), Some(&small), "the one with the most");
        run.measurements.push(timed("cpu", &chosen, 1.0));
        assert_eq!(run.main_problem(), Some(&chosen));
        run.main_problem = Some("not run".into());
        assert_eq!(run.main_problem(), Some(&small));
    }

    #[test]
    fn records_of_the_same_work_are_joined() {
        let (p, q, r) = (problem("p"), problem("q"), problem("r"));
        let ours = Run {
            problems: vec![p.clone()],
            measurements: vec![timed("01", &p, 10.0)],
            command: "ours".into(),
            ..run()
        };
        let part = Part {
            rung: "eager".into(),
            problem: r.clone(),
            group: PartGroup::Operation,
            name: "forward".into(),
            samples_us: vec![1.0],
        };
        // The same problem, described in other words.
        let p_of_theirs = p.with(|p| p.label = "theirs".into());
        let theirs = Run {
            rungs: vec![rung("eager", GPU, Runner::External("PyTorch".into()))],
            problems: vec![p_of_theirs.clone(), q.clone()],
            measurements: vec![timed("eager", &p_of_theirs, 20.0), timed("eager", &q, 30.0)],
            parts: vec![part],
            notes: vec!["a note".into()],
            command: "theirs".into(),
            ..run()
        };
        let mut joined = ours.clone();
        joined.absorb(theirs.clone()).expect("they belong together");
        assert_eq!(joined.problems, [p.clone(), q, r], "each once, also what only a part has");
        assert_eq!(joined.rungs.iter().map(|r| &*r.id).take(3).collect::<Vec<_>>(), ["cpu", "eager", "library"]);
        assert_eq!(joined.rungs.len(), ours.rungs.len() + 1);
        assert_eq!(joined.ladder(&p).len(), 2);
        assert_eq!(joined.measurement("eager", &p).map(|m| m.problem.label.as_str()), Some(""));
        assert_eq!((joined.command.as_str(), joined.notes.len(), joined.parts.len()), ("ours && theirs", 1, 1));
        let again = Run::from_json(joined.to_json().expect("JSON").as_bytes()).expect("a record");
        assert_eq!(format!("{again:?}"), format!("{joined:?}"));

        let refused = |change: &dyn Fn(&mut Run), expect: &str| {
            let mut other = theirs.clone();
            change(&mut other);
            let mut run = ours.clone();
            let sentence = run.absorb(other).expect_err(expect);
            assert!(sentence.contains(expect), "{sentence}");
            assert_eq!(run, ours, "nothing is taken over");
        };
        refused(
            &|o| o.experiment = "products".into(),
            "the experiment is sums in the first and products in the second",
        );
        refused(&|o| o.environment.device.name = "TPU".into(), "the device is GPU in the first and TPU in the second");
        refused(&|o| o.policy.l2 = crate::L2State::Cold, "timed in different ways");
        refused(&|o| o.rungs[0].id = "01".into(), "Both records have the rung 01");
    }
}
