//! What the commands say while they work, and the table at their end.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Says what begins now.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = if out.is_terminal() { writeln!(out, "\x1b[1m==> {line}\x1b[0m") } else { writeln!(out, "==> {line}") };
    let _ = out.flush();
}

/// What a step gave.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Checks that passed.
    pub passed: u32,
    /// Checks that failed.
    pub failed: u32,
    /// Checks that did not run, and why.
    pub skipped: Vec<(String, String)>,
    /// Figures for the table.
    pub note: String,
    /// What went wrong, a sentence each.
    pub errors: Vec<String>,
}

impl Report {
    /// One check that passed.
    pub fn one(note: impl Into<String>) -> Self {
        Self { passed: 1, note: note.into(), ..Self::default() }
    }
}

/// The steps of a command, one after the other; a failed one does not end it.
#[derive(Debug, Default)]
pub struct Steps {
    only: Option<String>,
    rows: Vec<(String, Duration, Report)>,
}

impl Steps {
    /// Steps of which those run whose names hold `only`; all, for `None`.
    pub fn new(only: Option<String>) -> Self {
        Self { only, rows: Vec::new() }
    }

    /// Runs a step.
    pub fn run(&mut self, name: &str, step: impl FnOnce() -> anyhow::Result<Report>) {
        if self.only.as_ref().is_some_and(|only| !name.contains(only)) {
            return;
        }
        say(name);
        let begin = Instant::now();
        let report =
            step().unwrap_or_else(|e| Report { failed: 1, errors: vec![format!("{e:#}")], ..Report::default() });
        for error in &report.errors {
            eprintln!("error: {error}");
        }
        self.rows.push((name.to_owned(), begin.elapsed(), report));
    }

    /// Whether something ran and nothing failed.
    pub fn all_passed(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|(_, _, r)| r.failed == 0)
    }

    /// The table, what was skipped and why, what failed and why, a remark, and a last line of counts.
    pub fn summary(&self, remark: &str) -> String {
        let mut rows = vec![["step", "result", "time", "passed", "failed", "skipped", ""].map(str::to_owned).to_vec()];
        let (mut passed, mut failed, mut skipped) = (0, 0, 0);
        for (name, time, r) in &self.rows {
            let n_skipped = u32::try_from(r.skipped.len()).unwrap_or(u32::MAX);
            (passed, failed, skipped) = (passed + r.passed, failed + r.failed, skipped + n_skipped);
            let result = match (r.failed, r.passed, n_skipped) {
                (0, 0, 1..) => "skipped",
                (0, ..) => "ok",
                _ => "FAILED",
            };
            let counts = [r.passed, r.failed, n_skipped].map(|n| n.to_string());
            let mut row = vec![name.clone(), result.to_owned(), seconds(*time)];
            row.extend(counts);
            row.push(r.note.clone());
            rows.push(row);
        }
        let mut text = table(&rows);
        let list = |title: &str, lines: Vec<String>| {
            if lines.is_empty() { String::new() } else { format!("\n{title}\n  {}\n", lines.join("\n  ")) }
        };
        let each = |f: &dyn Fn(&Report) -> Vec<String>| self.rows.iter().flat_map(|(_, _, r)| f(r)).collect::<Vec<_>>();
        text += &list("Skipped:", each(&|r| r.skipped.iter().map(|(what, why)| format!("{what}: {why}")).collect()));
        text += &list("Failed:", each(&|r| r.errors.clone()));
        text + &format!("\n{remark}\n{passed} passed, {failed} failed, {skipped} skipped\n")
    }
}

/// "0.4 s", "12 s" or "3 min 20 s".
pub fn seconds(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        s @ 10..120 => format!("{s} s"),
        s => format!("{} min {:02} s", s / 60, s % 60),
    }
}

/// Rows in columns; the first row is the head. Cells that look like numbers are right-aligned.
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
        let mut steps = Steps::new(Some("viewer".into()));
        steps.run("docs", || anyhow::bail!("not chosen"));
        assert!(!steps.all_passed(), "nothing ran");
        steps.run("viewer, built", || Ok(Report::one("")));
        assert!(steps.all_passed());
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
