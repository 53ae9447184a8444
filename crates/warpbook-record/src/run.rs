use crate::{
    BandwidthPeak, Environment, Measurement, Outcome, Peaks, Policy, Problem, Rung, Span, SpanGroup, TrainLog,
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
    /// Effective bandwidth over the ceiling's.
    pub fraction_of_ceiling: Option<f64>,
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
        let standard = |p: &Problem| u64::from(p.size() == crate::regression::STANDARD_POINTS);
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

    /// The measurements of a problem in the ladder's order, with speed-ups over the first valid one.
    #[must_use]
    pub fn ladder<'a>(&'a self, problem: &Problem) -> Vec<LadderRow<'a>> {
        let place = |m: &Measurement| self.rungs.iter().position(|r| r.id == m.rung).unwrap_or(usize::MAX);
        let mut rows: Vec<&Measurement> = self.measurements.iter().filter(|m| m.problem == *problem).collect();
        rows.sort_by_key(|m| place(m));
        let baseline = rows.iter().find(|m| m.is_valid()).and_then(|m| m.median_us());
        let ceiling = self.ceiling(problem);
        rows.into_iter()
            .map(|m| LadderRow {
                measurement: m,
                rung: self.rung(&m.rung),
                speed_up: if m.is_valid() { baseline.zip(m.median_us()).map(|(b, t)| b / t) } else { None },
                // A processor's rung in a GPU's record has another memory above it.
                fraction_of_ceiling: ceiling
                    .filter(|_| m.is_valid() && self.on_device(m))
                    .and_then(|c| m.fraction_of(c)),
            })
            .collect()
    }

    /// Whether a measurement was made on the record's device, and not by the processor beside it.
    #[must_use]
    pub fn on_device(&self, m: &Measurement) -> bool {
        let by_cpu = matches!(self.rung(&m.rung).map(|r| &r.runner), Some(crate::Runner::Cpu(_)));
        by_cpu == (self.environment.device.kind == crate::DeviceKind::Cpu)
    }

    /// The fastest valid measurement of a problem.
    #[must_use]
    pub fn best(&self, problem: &Problem) -> Option<&Measurement> {
        let valid = self.measurements.iter().filter(|m| m.problem == *problem && m.is_valid());
        valid.min_by(|a, b| a.median_us().unwrap_or(f64::MAX).total_cmp(&b.median_us().unwrap_or(f64::MAX)))
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
