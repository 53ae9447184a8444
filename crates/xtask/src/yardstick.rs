//! The time that this machine takes to compile a fixed program. Limits of steps that mostly compile are scaled by it;
//! otherwise a slow or busy machine would exceed them with any code.

use crate::process::{command, run};
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fs;
use std::time::{Duration, Instant};

/// The program's compile time on the two cores for which the limits were set.
const REFERENCE: Duration = Duration::from_millis(1900);
/// The number of copies of the functions below in the program.
const COPIES: usize = 12;
const PROGRAM: &str = r#"
pub mod copy_N {
    use std::collections::{BTreeMap, HashMap};
    use std::fmt::Write;

    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct Row {
        pub name: String,
        pub values: Vec<f64>,
        pub sums: BTreeMap<String, [f64; 3]>,
    }

    pub fn read(text: &str) -> Result<Vec<Row>, String> {
        let mut rows: HashMap<String, Row> = HashMap::new();
        for line in text.lines() {
            let mut parts = line.split(',').map(str::trim);
            let name = parts.next().ok_or("no name")?.to_string();
            let row = rows.entry(name.clone()).or_default();
            row.name = name;
            for part in parts {
                row.values.push(part.parse::<f64>().map_err(|e| format!("{part}: {e}"))?);
            }
            row.values.sort_by(f64::total_cmp);
            row.sums.insert("N".into(), [0.0, 1.0, row.values.iter().sum()]);
        }
        let mut all: Vec<Row> = rows.into_values().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    pub fn show(rows: &[Row]) -> String {
        let mut text = String::new();
        for row in rows {
            let _ = writeln!(text, "{row:?} {:.3}", row.values.iter().fold(0.0, |a: f64, b| a.max(*b)));
        }
        text
    }
}
"#;

/// Returns the factor for limits on this machine; at least 1.
pub fn slowness(w: &Workspace) -> Result<f64> {
    let folder = w.target.join("xtask/yardstick");
    fs::create_dir_all(&folder).with_context(|| format!("{} cannot be created", folder.display()))?;
    let program = folder.join("yardstick.rs");
    fs::write(&program, text()).with_context(|| format!("{} cannot be written", program.display()))?;
    let begin = Instant::now();
    let mut rustc = command("rustc");
    rustc.args(["--edition", "2024", "--crate-type", "rlib", "-O", "--out-dir"]).arg(&folder).arg(&program);
    run(&mut rustc)?;
    Ok(times_reference(begin.elapsed()))
}

fn text() -> String {
    (0..COPIES).map(|copy| PROGRAM.replace("copy_N", &format!("copy_{copy}"))).collect()
}

fn times_reference(took: Duration) -> f64 {
    (took.as_secs_f64() / REFERENCE.as_secs_f64()).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_machine_has_no_shorter_limits() {
        assert_eq!(times_reference(REFERENCE / 2), 1.0);
        assert!((times_reference(REFERENCE * 3) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn every_copy_is_a_module_with_its_name() {
        let text = text();
        assert_eq!(text.matches("pub mod copy_").count(), COPIES);
        assert!(text.contains("pub mod copy_0 {") && !text.contains("copy_N"));
    }
}
