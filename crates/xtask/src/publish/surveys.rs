//! The table of surveys: reports of `warpbook survey matmul --out` in `data/surveys`.

use super::tables::{SURVEYS, cell, figures_head, heading, markdown, or_dash, words_head};
use crate::workspace::{Workspace, files_below};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::fs;
use warpbook_record::Environment;

/// The parts of a survey that the table needs; its products are in the file.
#[derive(Debug, Deserialize)]
struct Survey {
    #[serde(skip)]
    file: String,
    seed: u64,
    #[serde(default)]
    created: String,
    environment: Environment,
    summaries: Vec<Summary>,
    bounds: Vec<Bound>,
}

#[derive(Debug, Deserialize)]
struct Summary {
    name: String,
    count: usize,
    to_best: f64,
    to_first: f64,
    share_of_0_9: f64,
    least: f64,
    least_at: String,
}

#[derive(Debug, Deserialize)]
struct Bound {
    what: String,
    least: f64,
    found: Option<f64>,
}

/// The number of rows for a survey: one for all products, then one for each kind of sides of the matrices.
const ROWS: usize = 4;

/// Returns a table of all surveys, each with the limits that it misses; `None` if there are no surveys.
pub fn table(w: &Workspace) -> Result<Option<String>> {
    let folder = w.path("data/surveys");
    if !folder.exists() {
        return Ok(None);
    }
    let mut surveys = Vec::new();
    for path in files_below(&folder, &[])?.into_iter().filter(|p| p.extension().is_some_and(|e| e == "json")) {
        let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        let mut survey: Survey =
            serde_json::from_str(&text).with_context(|| format!("{} is not a survey", path.display()))?;
        survey.file = path.strip_prefix(&folder).unwrap_or(&path).to_string_lossy().into_owned();
        surveys.push(survey);
    }
    surveys.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(told(&surveys))
}

fn told(surveys: &[Survey]) -> Option<String> {
    let first = surveys.first()?;
    let headers = [
        words_head("seed"),
        words_head("sides"),
        figures_head("products"),
        figures_head("to the best"),
        figures_head("to the first choice"),
        figures_head("at 0.9 of the best or more"),
        figures_head("smallest"),
        words_head("at"),
        words_head("date"),
    ];
    let rows: Vec<Vec<String>> = surveys.iter().flat_map(rows).collect();
    let table = markdown(&headers, &rows)?;
    let missed: Vec<String> = surveys.iter().flat_map(|s| s.bounds.iter().filter_map(|b| missed(s, b))).collect();
    let verdict = match missed.is_empty() {
        true => "Every survey keeps every bound that the command checks.".to_owned(),
        false => format!("Missed: {}.", missed.join("; ")),
    };
    let device = cell(&first.environment.device.name);
    Some(format!(
        "{}These surveys on {device} compare the kernel that `gemm()` chose without tuning with the best of the algorithms that cuBLASLt suggests (up \
         to 32), and with cuBLASLt's first choice. Until 27 November 2026 a network trained on measured times made our choice. Figures are geometric \
         means of the library's times divided by ours: above 1, ours is faster. Each survey draws its products from a new seed. {verdict}\n\n{table}",
        heading(SURVEYS, "Products between the published shapes"),
    ))
}

fn rows(survey: &Survey) -> impl Iterator<Item = Vec<String>> {
    survey.summaries.iter().take(ROWS).enumerate().map(|(i, s)| {
        let seed = if i == 0 { format!("[{}](surveys/{})", survey.seed, survey.file) } else { String::new() };
        let share = format!("{:.1} %", 100.0 * s.share_of_0_9);
        let (best, first, least) =
            (format!("{:.3}", s.to_best), format!("{:.3}", s.to_first), format!("{:.3}", s.least));
        let date = or_dash(survey.created.get(..10).map(str::to_owned));
        vec![seed, cell(&s.name), s.count.to_string(), best, first, share, least, cell(&s.least_at), date]
    })
}

/// Describes a limit that a survey misses; a NaN misses every limit.
fn missed(survey: &Survey, bound: &Bound) -> Option<String> {
    let found = bound.found.unwrap_or(f64::NAN);
    let holds = found >= bound.least;
    (!holds).then(|| format!("{} of seed {}, {found:.3} instead of {:.2}", bound.what, survey.seed, bound.least))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(seed: u64, share: f64) -> Survey {
        let summary = |name: &str| {
            format!(
                r#"{{"name": "{name}", "count": 66, "to_best": 1.18, "to_first": 1.3, "share_of_0_9": {share}, "least": 0.8, "least_at": "288 x 16"}}"#
            )
        };
        let summaries = ["all", "multiples of 8", "odd", "multiples of 64", "bf16"].map(summary).join(",");
        let bound = format!(r#"{{"what": "share at 0.9", "least": 0.95, "found": {share}}}"#);
        let environment = serde_json::to_string(&an_environment()).unwrap();
        let text = format!(
            r#"{{"seed": {seed}, "environment": {environment}, "summaries": [{summaries}], "bounds": [{bound}], "products": []}}"#
        );
        Survey { file: format!("s{seed}.json"), ..serde_json::from_str(&text).unwrap() }
    }

    /// Returns a published record's environment.
    fn an_environment() -> Environment {
        let w = Workspace::find(false).unwrap();
        super::super::records(&w).unwrap().remove(0).run.environment
    }

    #[test]
    fn each_survey_has_a_row_for_all_and_for_each_kind_of_sides() {
        let kept = told(&[survey(7, 0.95), survey(8, 0.99)]).unwrap();
        assert!(kept.contains("keeps every bound"), "{kept}");
        assert!(kept.contains("| [7](surveys/s7.json) | all | 66 | 1.180 | 1.300 | 95.0 % | 0.800 | 288 x 16 | – |"));
        let dated = told(&[Survey { created: "2026-12-01T10:00:00Z".into(), ..survey(7, 0.95) }]).unwrap();
        assert!(dated.contains("| 288 x 16 | 2026-12-01 |"), "{dated}");
        assert_eq!(kept.matches("| multiples of 64 |").count(), 2);
        assert!(!kept.contains("bf16"), "types are in the file");
        let missed = told(&[survey(7, 0.94)]).unwrap();
        assert!(missed.contains("Missed: share at 0.9 of seed 7, 0.940 instead of 0.95."), "{missed}");
        assert_eq!(told(&[]), None);
    }
}
