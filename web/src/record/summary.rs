//! Sentences about a record, above and below its charts.

use super::facts::author;
use super::policy;
use crate::text::format;
use warpbook_record::{DeviceKind, Outcome, Problem, Run};

/// Sentences about a record below its charts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The start of the run, the number of measurements, and how many were skipped or failed.
    pub made: String,
    /// Warnings that a reader needs before the figures.
    pub notices: Vec<String>,
    /// A sentence on how the record was timed.
    pub policy: String,
}

impl Summary {
    /// Builds the summary of a record.
    pub fn from_run(run: &Run) -> Self {
        Self { made: made(run), notices: notices(run), policy: policy::sentence(run) }
    }
}

fn made(run: &Run) -> String {
    format!("{}: {}", format::date(&run.created), counts(run))
}

fn counts(run: &Run) -> String {
    let (measured, skipped, failed) = run.counts();
    let counts: Vec<String> = [(measured, "measured"), (skipped, "skipped"), (failed, "failed")]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}"))
        .collect();
    let others = [
        (run.train_logs.len(), "training"),
        (run.xrays.len(), "X-ray"),
        (run.profiled.len().max(run.breakdowns.len()), "profile"),
    ];
    match (run.measurements.len(), others.iter().find(|(n, _)| *n > 0)) {
        (0, Some((n, what))) => format::counted(*n, what),
        (0, None) => "No measurement".into(),
        (n, _) => format!("{} ({})", format::counted(n, "measurement"), counts.join(", ")),
    }
}

/// Returns the facts above a record's charts: what it computes, the problem, the device and who ran it.
pub fn facts(run: &Run, problem: Option<&Problem>, computes: &str) -> Vec<String> {
    let facts = [
        computes.to_owned(),
        problem.map_or_else(String::new, |p| p.label.clone()),
        run.environment.device.name.clone(),
        author(run).map_or_else(String::new, |author| format!("Run by {author}")),
    ];
    facts.into_iter().filter(|f| !f.is_empty()).collect()
}

fn notices(run: &Run) -> Vec<String> {
    let mut out = Vec::new();
    let e = &run.environment;
    let cpu = e.device.kind == DeviceKind::Cpu;
    if e.debug_assertions {
        out.push(
            "Debug assertions were on, as they are in a notebook: CPU figures are lower than in a release build."
                .into(),
        );
    }
    let skipped_gpu = run.measurements.iter().any(|m| {
        matches!(m.outcome, Outcome::Skipped { .. }) && run.rung(&m.rung).is_some_and(|r| !r.requires.met_by(None))
    });
    if cpu && skipped_gpu {
        out.push("This record was made on a CPU: GPU rungs were skipped, and all figures are the CPU's.".into());
    }
    if e.device.kind == DeviceKind::Emulator {
        out.push("This record was made in the emulator: results were checked, and nothing was timed.".into());
    }
    if let Some(c) = e.clocks.as_ref().filter(|c| !c.throttling.is_empty()) {
        out.push(format!("Clocks were throttled ({}).", c.throttling.join(", ")));
    }
    let diverged = run.train_logs.iter().filter(|l| l.diverged()).count();
    if diverged > 0 {
        let logs = format::counted(diverged, "training");
        out.push(format!("{logs} diverged: a loss or a parameter is no longer a finite number."));
    }
    let (_, _, failed) = run.counts();
    if failed > 0 {
        let failed = format::counted(failed, "measurement");
        out.push(format!("{failed} failed; the table says why."));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample;

    #[test]
    fn notices_are_given() {
        let mut value = sample();
        value["environment"]["debug_assertions"] = true.into();
        value["environment"]["device"]["kind"] = "cpu".into();
        value["measurements"][0]["outcome"] = serde_json::json!({"status": "skipped", "why": "no GPU"});
        value["measurements"][1]["outcome"] = serde_json::json!({"status": "failed", "error": "no"});
        let run = crate::library::open::open(value.to_string().as_bytes()).unwrap();
        let all = notices(&run).join("\n");
        for part in ["Debug assertions", "on a CPU", "throttled", "1 training diverged", "1 measurement failed"] {
            assert!(all.contains(part), "{part}: {all}");
        }
    }
}
