//! A record: its contents, with methods to write and query it.

mod bound;
mod join;
mod ladder;

pub use bound::Bound;
pub use ladder::LadderRow;

use crate::problem::resolve;
use crate::{
    Breakdown, Descriptor, Environment, Guessed, Measurement, Outcome, Part, PartGroup, Peaks, Policy, Problem,
    Profiled, Rung, Span, TrainLog, Xray,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Version of the record format that this code writes.
pub const SCHEMA: u32 = 2;

/// A record of one experiment on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    /// Version of the format.
    pub schema: u32,
    /// Name of the experiment, such as "regression".
    pub experiment: String,
    /// Heading of the record in a few words.
    #[serde(default)]
    pub title: String,
    /// Author of the record, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Start time in RFC 3339, UTC.
    #[serde(default)]
    pub created: String,
    /// Command that repeats the run.
    #[serde(default)]
    pub command: String,
    /// Machine and software of the run.
    pub environment: Environment,
    /// Rules of timing.
    pub policy: Policy,
    /// Ceilings of the device.
    #[serde(default)]
    pub peaks: Peaks,
    /// Describes how the record is shown.
    #[serde(default)]
    pub descriptor: Descriptor,
    /// Pieces of work, which all other lists refer to by id.
    #[serde(default)]
    pub problems: Vec<Problem>,
    /// Id of the problem that is shown first, if the experiment chose one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main_problem: Option<String>,
    /// Rungs, in the ladder's order.
    #[serde(default)]
    pub rungs: Vec<Rung>,
    /// Text of each kernel file and of the headers that the kernels share, by path below `kernels/`.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
    /// Results of the measurements, in the order in which they were made.
    #[serde(default)]
    pub measurements: Vec<Measurement>,
    /// Results of trainings.
    #[serde(default)]
    pub train_logs: Vec<TrainLog>,
    /// Times of parts of rungs, each timed alone or left out.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// Spans of timelines.
    #[serde(default)]
    pub spans: Vec<Span>,
    /// The device's activity in one run of a rung, operation by operation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breakdowns: Vec<Breakdown>,
    /// Results of a profiler apart from times: memory over time, hardware counters, and the profiler's own cost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiled: Vec<Profiled>,
    /// X-rays: the activity of every SM in one run of a rung.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub xrays: Vec<Xray>,
    /// Guesses that the reader of a lesson made, with the measured answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guesses: Vec<Guessed>,
    /// Remarks that a reader needs, such as "interrupted after 5 of 8 measurements".
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Run {
    /// Creates an empty record of an experiment, with its name, heading, environment and policy.
    #[must_use]
    pub fn empty(
        experiment: impl Into<String>,
        title: impl Into<String>,
        environment: Environment,
        policy: Policy,
    ) -> Self {
        Self {
            schema: SCHEMA,
            experiment: experiment.into(),
            title: title.into(),
            author: None,
            created: String::new(),
            command: String::new(),
            environment,
            policy,
            peaks: Peaks::default(),
            descriptor: Descriptor::default(),
            problems: Vec::new(),
            main_problem: None,
            rungs: Vec::new(),
            sources: BTreeMap::new(),
            measurements: Vec::new(),
            train_logs: Vec::new(),
            parts: Vec::new(),
            spans: Vec::new(),
            breakdowns: Vec::new(),
            profiled: Vec::new(),
            xrays: Vec::new(),
            guesses: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Writes the record as JSON text with a final newline. The list of problems is completed first, so that it has
    /// each problem of the record exactly once.
    ///
    /// # Errors
    /// If serde_json fails, which cannot happen for the types of this crate.
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

    /// Returns the problems of the record's list and all other problems of the record, each once.
    fn all_problems(&self) -> Vec<Problem> {
        let mut all: Vec<&Problem> = self.problems.iter().collect();
        all.extend(self.every_problem());
        each_once(all).into_iter().cloned().collect()
    }

    /// Returns the distinct problems anywhere in the record: first the problems of measurements, in the order of the
    /// measurements.
    #[must_use]
    pub fn every_problem(&self) -> Vec<&Problem> {
        let mut all: Vec<&Problem> = Vec::new();
        all.extend(self.measurements.iter().map(|m| &m.problem));
        all.extend(self.train_logs.iter().map(|l| &l.problem));
        all.extend(self.parts.iter().map(|p| &p.problem));
        all.extend(self.spans.iter().map(|s| &s.problem));
        all.extend(self.breakdowns.iter().map(|b| &b.problem));
        all.extend(self.profiled.iter().map(|p| &p.problem));
        all.extend(self.xrays.iter().map(|x| &x.problem));
        each_once(all)
    }

    /// Replaces the problem of each entry by the listed one with the same id. The error names the entry whose id is not
    /// listed, or the id that is listed twice.
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

    /// Returns the rung with this id.
    #[must_use]
    pub fn rung(&self, id: &str) -> Option<&Rung> {
        self.rungs.iter().find(|r| r.id == id)
    }

    /// Returns the distinct problems that have measurements, in the order of the measurements.
    #[must_use]
    pub fn problems(&self) -> Vec<&Problem> {
        each_once(self.measurements.iter().map(|m| &m.problem).collect())
    }

    /// Returns the problem to show by default: the experiment's choice if it has a valid measurement, otherwise the
    /// problem with the most valid measurements (the larger one if there are several). In a record without
    /// measurements, returns the experiment's choice if anything was recorded for it, otherwise the problem of the
    /// first training, or of any other entry.
    #[must_use]
    pub fn main_problem(&self) -> Option<&Problem> {
        let all: Vec<&Problem> = self.measurements.iter().filter(|m| m.is_valid()).map(|m| &m.problem).collect();
        let valid = |p: &Problem| all.iter().filter(|of| **of == p).count();
        let chosen = |p: &Problem| self.main_problem.as_ref() == Some(&p.id);
        let measured = self.problems().into_iter().max_by_key(|p| (valid(p) > 0, chosen(p), valid(p), p.size()));
        measured.or_else(|| {
            let all = self.every_problem();
            all.iter().find(|p| chosen(p)).or(all.first()).copied()
        })
    }

    /// Returns the measurement of a rung at a problem.
    #[must_use]
    pub fn measurement(&self, rung: &str, problem: &Problem) -> Option<&Measurement> {
        self.measurements.iter().find(|m| m.rung == rung && m.problem == *problem)
    }

    /// Returns the training of a rung at a problem.
    #[must_use]
    pub fn train_log(&self, rung: &str, problem: &Problem) -> Option<&TrainLog> {
        self.train_logs.iter().find(|l| l.rung == rung && l.problem == *problem)
    }

    /// Returns the parts of a rung at a problem, in the order of the record.
    #[must_use]
    pub fn parts_of(&self, rung: &str, problem: &Problem, group: PartGroup) -> Vec<&Part> {
        self.parts.iter().filter(|p| p.rung == rung && p.problem == *problem && p.group == group).collect()
    }

    /// Returns the spans of a rung at a problem, in the order of the record.
    #[must_use]
    pub fn spans_of(&self, rung: &str, problem: &Problem) -> Vec<&Span> {
        self.spans.iter().filter(|s| s.rung == rung && s.problem == *problem).collect()
    }

    /// Returns the numbers of measured, skipped and failed measurements.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        self.measurements.iter().fold((0, 0, 0), |(m, s, f), x| match x.outcome {
            Outcome::Measured => (m + 1, s, f),
            Outcome::Skipped { .. } => (m, s + 1, f),
            Outcome::Failed { .. } => (m, s, f + 1),
        })
    }

    /// Copies the sources of the rungs' kernels and these shared sources into the record. Must be called before the
    /// record is written.
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

/// Keeps the first problem with each id.
fn each_once(mut problems: Vec<&Problem>) -> Vec<&Problem> {
    let mut seen = HashSet::new();
    problems.retain(|p| seen.insert(p.id.as_str()));
    problems
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Check, Dtype, Requires, Runner, SweepPoint, count};

    pub(super) const GPU: Requires = Requires::AtLeast(7, 5);

    pub(super) fn rung(id: &'static str, requires: Requires, runner: Runner) -> Rung {
        Rung { id: id.into(), title: id.into(), idea: "".into(), requires, runner, variant_of: None }
    }

    /// Returns a record of a GPU with 40 MiB of L2, which keeps 25 MiB between passes. The ceilings are 1 byte/us from
    /// DRAM, 4 bytes/us from L2, and 10 FLOP/us in f32.
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

    /// Returns a problem with 1000 bytes, a working set of 600 bytes, and 2000 FLOP.
    pub(super) fn problem(id: &str) -> Problem {
        Problem::new("", "", vec![count("n", 1, "")], Dtype::F32).with(|p| {
            p.id = id.into();
            (p.bytes, p.working_set_bytes, p.flops) = (1000, 600, 2000);
        })
    }

    pub(super) fn timed(rung: &str, problem: &Problem, us: f64) -> Measurement {
        Measurement {
            samples_us: vec![us],
            check: Some(Check::compare("r", &[(1.0, 1.0)], 1.0, 1e-3)),
            ..Measurement::without_samples(rung, problem.clone(), Outcome::Measured)
        }
    }

    pub(super) fn wrong(m: Measurement) -> Measurement {
        Measurement { check: Some(Check::compare("r", &[(2.0, 1.0)], 1.0, 1e-3)), ..m }
    }

    /// Returns the rung and the time of a measurement.
    pub(super) fn who(m: Option<&Measurement>) -> Option<(&str, f64)> {
        m.and_then(|m| Some((m.rung.as_str(), m.median_us()?)))
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
    fn a_record_without_measurements_shows_what_else_it_has() {
        let (p, q) = (problem("p"), problem("q"));
        let xray = |problem: &Problem| Xray {
            rung: "01".into(),
            problem: problem.clone(),
            phases: Vec::new(),
            kernels: Vec::new(),
            unmarked_kernels: Vec::new(),
            sms: Vec::new(),
            blocks: Vec::new(),
            clock_mhz: 1.0,
            marked_us: Vec::new(),
            unmarked_us: Vec::new(),
        };
        let mut run = Run { xrays: vec![xray(&p), xray(&q), xray(&p)], ..run() };
        assert_eq!((run.main_problem(), run.every_problem()), (Some(&p), vec![&p, &q]));
        assert!(run.problems().is_empty(), "none was measured");
        run.main_problem = Some("q".into());
        assert_eq!(run.main_problem(), Some(&q));
        run.measurements.push(timed("01", &q, 1.0));
        assert_eq!(run.every_problem(), [&q, &p]);
    }
}
