use crate::{
    BandwidthPeak, ComputePeak, DeviceKind, Dtype, Environment, Measurement, MemoryLevel, Outcome, Peaks, Policy,
    Problem, Requires, Rung, Runner, Span, SpanGroup, TrainLog,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the record's format that this code writes.
pub const SCHEMA: u32 = 1;

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
    pub spans: Vec<Span>,
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
    /// How many times as fast as the baseline, the first valid row.
    pub speed_up: Option<f64>,
    /// The least time that its own traffic and operations allow over its time, or effective bandwidth over the ceiling's where
    /// the traffic was not counted.
    pub fraction_of_ceiling: Option<f64>,
}

/// What bounds a measurement, by the measured ceilings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// The level of memory; `None` where it is arithmetic.
    pub level: Option<MemoryLevel>,
    /// The least time in microseconds.
    pub us: f64,
}

impl Bound {
    /// As a sentence names it: "memory", "shared memory", "arithmetic".
    #[must_use]
    pub fn label(&self) -> &'static str {
        self.level.map_or("arithmetic", MemoryLevel::label)
    }
}

impl Run {
    /// The record as JSON text with a newline at its end.
    ///
    /// # Errors
    /// None that a record of this crate's types can cause; serde_json's otherwise.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// The rung of that id.
    #[must_use]
    pub fn rung(&self, id: &str) -> Option<&Rung> {
        self.rungs.iter().find(|r| r.id == id)
    }

    /// The different problems, in the order they were run.
    #[must_use]
    pub fn problems(&self) -> Vec<&Problem> {
        let mut seen: Vec<&Problem> = Vec::new();
        for m in &self.measurements {
            if !seen.contains(&&m.problem) {
                seen.push(&m.problem);
            }
        }
        seen
    }

    /// The problem that a ladder shows when none is asked for: the one with most valid measurements, the larger of equals.
    #[must_use]
    pub fn main_problem(&self) -> Option<&Problem> {
        let valid = |p: &Problem| self.measurements.iter().filter(|m| m.problem == *p && m.is_valid()).count();
        // A sweep's standard size, where it is there, is the one that the lessons speak of.
        let standard = |p: &Problem| match p {
            Problem::Regression { points, features, .. } => {
                u64::from(*points == crate::regression::STANDARD_POINTS && *features == 1)
            }
            // In the type that the ladder ends with.
            Problem::Matmul { m, n, k, dtype, .. } => {
                let cube = [m, n, k].iter().all(|v| **v == crate::matmul::STANDARD_EDGE);
                u64::from(cube) * (1 + u64::from(*dtype == Dtype::Bf16))
            }
            Problem::Unknown => 0,
        };
        self.problems().into_iter().max_by_key(|p| (valid(p) > 0, standard(p), valid(p), p.size()))
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
    pub fn spans_of(&self, rung: &str, problem: &Problem, group: SpanGroup) -> Vec<&Span> {
        self.spans.iter().filter(|s| s.rung == rung && s.problem == *problem && s.group == group).collect()
    }

    /// The bandwidth that a problem is held against: the cache's where its inputs stay there between passes.
    #[must_use]
    pub fn ceiling(&self, problem: &Problem) -> Option<&BandwidthPeak> {
        self.peaks.ceiling(problem.working_set_bytes(), self.environment.device.l2_bytes)
    }

    /// The arithmetic that a problem is held against: that of its type.
    #[must_use]
    pub fn arithmetic(&self, problem: &Problem) -> Option<&ComputePeak> {
        let dtype = problem.dtype().unwrap_or(Dtype::F32);
        self.peaks.compute.iter().find(|p| p.dtype == dtype)
    }

    /// The measurements of a problem in the ladder's order, with speed-ups over the first valid one.
    #[must_use]
    pub fn ladder<'a>(&'a self, problem: &Problem) -> Vec<LadderRow<'a>> {
        let place = |m: &Measurement| self.rungs.iter().position(|r| r.id == m.rung).unwrap_or(usize::MAX);
        let mut rows: Vec<&Measurement> = self.measurements.iter().filter(|m| m.problem == *problem).collect();
        rows.sort_by_key(|m| place(m));
        let baseline = rows.iter().find(|m| m.is_valid()).and_then(|m| m.median_us());
        rows.into_iter()
            .map(|m| LadderRow {
                measurement: m,
                rung: self.rung(&m.rung),
                speed_up: if m.is_valid() { baseline.zip(m.median_us()).map(|(b, t)| b / t) } else { None },
                fraction_of_ceiling: if m.is_valid() { self.fraction_of_ceiling(m) } else { None },
            })
            .collect()
    }

    /// The slowest of what a measurement has to do, each at its measured ceiling: the bytes of each level, and the operations.
    /// `None` where nothing of it has a ceiling, or its traffic was not counted; of a product the operations are known all the same.
    #[must_use]
    pub fn bound(&self, m: &Measurement) -> Option<Bound> {
        if m.traffic.is_empty() && !matches!(m.problem, Problem::Matmul { .. }) {
            return None;
        }
        let of_memory = m.traffic.iter().filter_map(|t| {
            let peak = self.peaks.level(t.level)?.bytes_per_s();
            (peak > 0.0).then(|| Bound { level: Some(t.level), us: t.bytes as f64 / peak * 1e6 })
        });
        let of_arithmetic = self.arithmetic(&m.problem).and_then(|p| {
            let peak = p.flops_per_s();
            (peak > 0.0).then(|| Bound { level: None, us: m.operations() as f64 / peak * 1e6 })
        });
        of_memory.chain(of_arithmetic).max_by(|a, b| a.us.total_cmp(&b.us))
    }

    /// The least time of a measurement's own bytes and operations over its time, or its effective bandwidth over the ceiling's
    /// where its bytes were not counted; nothing of a processor's rung in a GPU's record, which has another memory above it.
    #[must_use]
    pub fn fraction_of_ceiling(&self, m: &Measurement) -> Option<f64> {
        match self.bound(m) {
            _ if !self.on_device(m) => None,
            Some(bound) => Some(bound.us / m.median_us()?),
            None if m.traffic.is_empty() && !matches!(m.problem, Problem::Matmul { .. }) => {
                m.fraction_of(self.ceiling(&m.problem)?)
            }
            None => None,
        }
    }

    /// Whether a measurement was made on the record's device, and not by the processor beside it.
    #[must_use]
    pub fn on_device(&self, m: &Measurement) -> bool {
        let by_cpu = self.rung(&m.rung).is_some_and(|r| r.requires == Requires::Nothing);
        by_cpu == (self.environment.device.kind == DeviceKind::Cpu)
    }

    /// Takes over the rungs and figures of another record of the same work on the same device, as of another framework.
    /// Its rungs come after the processor's.
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
            return Err("The two records were timed in different ways, so their figures do not belong into one.".into());
        }
        if let Some(rung) = other.rungs.iter().find(|r| self.rung(&r.id).is_some()) {
            return Err(format!("Both records have the rung {}. Nothing was merged.", rung.id));
        }
        let after_cpu = self.rungs.iter().take_while(|r| matches!(r.runner, Runner::Cpu(_))).count();
        self.rungs.splice(after_cpu..after_cpu, other.rungs);
        self.sources.extend(other.sources);
        self.measurements.extend(other.measurements);
        self.train_logs.extend(other.train_logs);
        self.spans.extend(other.spans);
        self.notes.extend(other.notes);
        for library in other.environment.libraries {
            if !self.environment.libraries.contains(&library) {
                self.environment.libraries.push(library);
            }
        }
        if !other.command.is_empty() {
            self.command = format!("{} && {}", self.command, other.command);
        }
        Ok(())
    }

    /// The fastest valid measurement of a problem, of those that do all of the work.
    #[must_use]
    pub fn best(&self, problem: &Problem) -> Option<&Measurement> {
        let valid = self.measurements.iter().filter(|m| m.problem == *problem && m.is_valid() && !m.does_less());
        valid.min_by(|a, b| a.median_us().unwrap_or(f64::MAX).total_cmp(&b.median_us().unwrap_or(f64::MAX)))
    }

    /// The fastest valid measurement of a problem among rungs of some kind, as libraries, and its median in microseconds.
    #[must_use]
    pub fn fastest(&self, problem: &Problem, kind: impl Fn(&Rung) -> bool) -> Option<(&Measurement, f64)> {
        let of_kind = |m: &&Measurement| m.is_valid() && self.rung(&m.rung).is_some_and(&kind);
        let all = self.measurements.iter().filter(|m| m.problem == *problem).filter(of_kind);
        all.filter_map(|m| Some((m, m.median_us()?))).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The fastest library at a problem.
    #[must_use]
    pub fn fastest_library(&self, problem: &Problem) -> Option<(&Measurement, f64)> {
        self.fastest(problem, |r| matches!(r.runner, Runner::Library(_)))
    }

    /// The fastest rung of kernels at a problem.
    #[must_use]
    pub fn fastest_kernels(&self, problem: &Problem) -> Option<(&Measurement, f64)> {
        self.fastest(problem, |r| matches!(r.runner, Runner::Kernels { .. }))
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

    /// Takes over the sources of its rungs' kernels; call it before writing the record.
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
