//! The commands' progress output, and the table at the end.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Prints a line about work that starts.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = if out.is_terminal() { writeln!(out, "\x1b[1m==> {line}\x1b[0m") } else { writeln!(out, "==> {line}") };
    let _ = out.flush();
}

/// The result of a step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// The number of checks that passed.
    pub passed: u32,
    /// The number of checks that failed.
    pub failed: u32,
    /// Checks that did not run, each with its reason.
    pub skipped: Vec<(String, String)>,
    /// Figures for the table.
    pub note: String,
    /// Error messages, one sentence each.
    pub errors: Vec<String>,
}

impl Report {
    /// Creates the report of one check that passed.
    pub fn one(note: impl Into<String>) -> Self {
        Self { passed: 1, note: note.into(), ..Self::default() }
    }
}

/// A step that has run.
#[derive(Debug)]
struct FinishedStep {
    name: String,
    wall: Duration,
    /// The CPU time of the step's programs, on all cores; `None` if the system does not report it.
    cpu: Option<Duration>,
    report: Report,
}

/// The steps of a command, one after the other; the others run even if one fails.
#[derive(Debug, Default)]
pub struct Steps {
    only: Vec<String>,
    rows: Vec<FinishedStep>,
}

impl Steps {
    /// Creates a list of steps. Only steps whose names contain one of the texts in `only` run; if `only` is empty, all
    /// steps run.
    pub fn new(only: Vec<String>) -> Self {
        Self { only, rows: Vec::new() }
    }

    /// Returns true if a step with this name is to run.
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| name.contains(only.as_str()))
    }

    /// Runs a step if it was selected.
    pub fn run(&mut self, name: &str, step: impl FnOnce() -> anyhow::Result<Report>) {
        if self.wants(name) {
            self.run_anyway(name, step);
        }
    }

    /// Runs a step even if it was not selected, since others depend on it.
    pub fn run_anyway(&mut self, name: &str, step: impl FnOnce() -> anyhow::Result<Report>) {
        say(name);
        let (begin, cpu) = (Instant::now(), cpu_of_programs());
        let report =
            step().unwrap_or_else(|e| Report { failed: 1, errors: vec![format!("{e:#}")], ..Report::default() });
        for error in &report.errors {
            eprintln!("error: {error}");
        }
        let cpu = cpu_of_programs().zip(cpu).map(|(now, before)| now.saturating_sub(before));
        self.rows.push(FinishedStep { name: name.to_owned(), wall: begin.elapsed(), cpu, report });
    }

    /// Returns the steps as JSON: names, seconds and counts.
    pub fn times(&self) -> anyhow::Result<String> {
        let row = |r: &FinishedStep| {
            serde_json::json!({
                "step": r.name,
                "wall_s": r.wall.as_secs_f64(),
                "cpu_s": r.cpu.map(|cpu| cpu.as_secs_f64()),
                "passed": r.report.passed,
                "failed": r.report.failed,
                "skipped": r.report.skipped.len(),
                "note": r.report.note,
            })
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let steps: Vec<_> = self.rows.iter().map(row).collect();
        Ok(serde_json::to_string_pretty(&serde_json::json!({ "cores": cores, "steps": steps }))? + "\n")
    }

    /// Returns true if at least one step ran and none failed.
    pub fn all_passed(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|row| row.report.failed == 0)
    }

    /// Returns the table, skipped checks and failures with their reasons, a remark, and a final line of counts.
    pub fn summary(&self, remark: &str) -> String {
        let head = ["step", "result", "time", "CPU time", "passed", "failed", "skipped", ""];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        let (mut passed, mut failed, mut skipped) = (0, 0, 0);
        let (mut wall, mut cpu) = (Duration::ZERO, Duration::ZERO);
        for FinishedStep { name, wall: time, cpu: cpu_time, report: r } in &self.rows {
            (wall, cpu) = (wall + *time, cpu + cpu_time.unwrap_or_default());
            let n_skipped = u32::try_from(r.skipped.len()).unwrap_or(u32::MAX);
            (passed, failed, skipped) = (passed + r.passed, failed + r.failed, skipped + n_skipped);
            let result = match (r.failed, r.passed, n_skipped) {
                (0, 0, 1..) => "skipped",
                (0, ..) => "ok",
                _ => "FAILED",
            };
            let counts = [r.passed, r.failed, n_skipped].map(|n| n.to_string());
            let mut row =
                vec![name.clone(), result.to_owned(), seconds(*time), cpu_time.map_or_else(String::new, seconds)];
            row.extend(counts);
            row.push(r.note.clone());
            rows.push(row);
        }
        let all = [String::from("all"), String::new(), seconds(wall), seconds(cpu)];
        rows.push(all.to_vec());
        let mut text = table(&rows);
        let list = |title: &str, lines: Vec<String>| {
            if lines.is_empty() { String::new() } else { format!("\n{title}\n  {}\n", lines.join("\n  ")) }
        };
        let each =
            |f: &dyn Fn(&Report) -> Vec<String>| self.rows.iter().flat_map(|row| f(&row.report)).collect::<Vec<_>>();
        text += &list("Skipped:", each(&|r| r.skipped.iter().map(|(what, why)| format!("{what}: {why}")).collect()));
        text += &list("Failed:", each(&|r| r.errors.clone()));
        text + &format!("\n{remark}\n{passed} passed, {failed} failed, {skipped} skipped\n")
    }
}

/// Returns the CPU time of all ended descendants of this process.
fn cpu_of_programs() -> Option<Duration> {
    cpu_of_children(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// Returns the sum of the fields `cutime` and `cstime` of `/proc/PID/stat`, which are in hundredths of a second.
fn cpu_of_children(stat: &str) -> Option<Duration> {
    // The second field, the name, may contain spaces and parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (next()? + next()?)))
}

/// Formats a time: "0.4 s", "12 s" or "3 min 20 s".
pub fn seconds(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        s @ 10..120 => format!("{s} s"),
        s => format!("{} min {:02} s", s / 60, s % 60),
    }
}

/// Aligns rows in columns; the first row is the header. Cells that look like numbers are right-aligned.
pub fn table(rows: &[Vec<String>]) -> String {
    let width = |c: usize| rows.iter().map(|r| r.get(c).map_or(0, |t| t.chars().count())).max().unwrap_or(0);
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (i, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).map(|(cell, &w)| {
            if cell.starts_with(|c: char| c.is_ascii_digit()) { format!("{cell:>w$}") } else { format!("{cell:<w$}") }
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
        if i == 0 {
            text += widths.iter().map(|&w| "-".repeat(w)).collect::<Vec<_>>().join("  ").trim_end();
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts_everything() {
        let mut steps = Steps::default();
        steps.run("a", || Ok(Report::one("fast")));
        steps.run("b", || {
            let skipped = vec![("t".into(), "needs a GPU".into())];
            Ok(Report { passed: 4, skipped, ..Report::default() })
        });
        assert!(steps.all_passed());
        steps.run("c", || anyhow::bail!("no Chromium"));
        assert!(!steps.all_passed());
        let text = steps.summary("GPU: none.");
        assert!(text.ends_with("\nGPU: none.\n5 passed, 1 failed, 1 skipped\n"), "{text}");
        assert!(text.contains("t: needs a GPU") && text.contains("no Chromium") && text.contains("FAILED"));
    }

    #[test]
    fn steps_can_be_chosen_by_name() {
        let mut steps = Steps::new(vec!["viewer".into(), "kernels".into()]);
        steps.run("docs", || anyhow::bail!("not chosen"));
        assert!(!steps.all_passed(), "nothing ran");
        steps.run("viewer, built", || Ok(Report::one("")));
        steps.run("kernels", || Ok(Report::one("")));
        assert!(steps.all_passed());
        let times: serde_json::Value = serde_json::from_str(&steps.times().unwrap()).unwrap();
        let names: Vec<_> = times["steps"].as_array().unwrap().iter().map(|s| s["step"].as_str().unwrap()).collect();
        assert_eq!(names, ["viewer, built", "kernels"]);
        assert!(times["cores"].as_u64().unwrap() > 0 && times["steps"][0]["wall_s"].as_f64().is_some());
    }

    #[test]
    fn the_time_of_programs_is_read_behind_the_name() {
        let stat = "12 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 150 50 20 0";
        assert_eq!(cpu_of_children(stat), Some(Duration::from_secs(2)));
        assert_eq!(cpu_of_children("12 (a) S 1"), None);
    }

    #[test]
    fn a_step_of_skipped_checks_only_is_skipped() {
        let mut steps = Steps::default();
        steps.run("x", || Ok(Report { skipped: vec![("t".into(), "w".into())], ..Report::default() }));
        assert!(steps.summary("").lines().nth(2).unwrap().contains("skipped"));
    }

    #[test]
    fn times_are_readable() {
        assert_eq!(seconds(Duration::from_millis(420)), "0.4 s");
        assert_eq!(seconds(Duration::from_secs(119)), "119 s");
        assert_eq!(seconds(Duration::from_secs(605)), "10 min 05 s");
    }

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".into(), "n".into()], vec!["longer".into(), "5".into()], vec!["b".into(), "12".into()]];
        assert_eq!(table(&rows), "a       n\n------  --\nlonger   5\nb       12\n");
    }
}
