//! What is generated from the records: their index, the JSON Schema, the README's results.

use crate::steps::Report;
use crate::workspace::{Workspace, files_below, write_atomic};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use warpbook_charts::{Quantity, words};
use warpbook_record::{Dtype, LadderRow, Measurement, Outcome, Problem, Requires, Run, Runner, SCHEMA};

const INDEX: &str = "index.json";
const BEGIN: &str = "<!-- results:begin -->";
const END: &str = "<!-- results:end -->";

/// A record as it lies in `data/results`.
#[derive(Debug)]
pub struct Record {
    /// Its file's name.
    pub file: String,
    /// Its text.
    pub text: String,
    /// What it says.
    pub run: Run,
}

impl Record {
    /// Reads a record's text.
    pub fn new(file: impl Into<String>, text: String) -> Result<Self> {
        let file = file.into();
        match Run::from_json(text.as_bytes()) {
            Ok(run) => Ok(Self { file, text, run }),
            Err(e) => bail!("{file}: {e}"),
        }
    }
}

/// The published records, the earliest first.
pub fn records(w: &Workspace) -> Result<Vec<Record>> {
    let folder = w.path("data/results");
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for path in files_below(&folder, &[])? {
        let name = path.strip_prefix(&folder).unwrap_or(&path).to_string_lossy().into_owned();
        if name != INDEX && name.ends_with(".json") {
            let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
            found.push(Record::new(name, text)?);
        }
    }
    // The page opens with the first, and the README tells of it first.
    found.sort_by(|a, b| a.run.created.cmp(&b.run.created));
    Ok(found)
}

/// The index that the page reads: `records` in the order they are offered, each with `file` (relative to the index),
/// `experiment`, `title`, `device` and `date` (RFC 3339).
pub fn index<'a>(records: impl IntoIterator<Item = &'a Record>) -> Value {
    let entries = records.into_iter().map(|r| {
        json!({
            "file": r.file,
            "experiment": r.run.experiment,
            "title": r.run.title,
            "device": r.run.environment.device.name,
            "date": r.run.created,
        })
    });
    json!({ "records": entries.collect::<Vec<_>>() })
}

/// Pretty JSON with a newline at its end.
pub fn pretty(value: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// `cargo xtask publish`.
pub fn run(w: &Workspace, check_only: bool) -> Result<ExitCode> {
    let stale: Vec<_> = generated(w)?.into_iter().filter(|(path, text)| !is_current(path, text)).collect();
    for (path, text) in &stale {
        if check_only {
            eprintln!("error: {} is stale: run `cargo xtask publish`", w.show(path));
        } else {
            write_atomic(path, text)?;
            println!("wrote {}", w.show(path));
        }
    }
    Ok(if check_only && !stale.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The step of `cargo xtask test`.
pub fn check(w: &Workspace) -> Result<Report> {
    let files = generated(w)?;
    let stale: Vec<_> = files.iter().filter(|(path, text)| !is_current(path, text)).map(|(p, _)| w.show(p)).collect();
    if !stale.is_empty() {
        bail!("stale: {}; run `cargo xtask publish`", stale.join(", "));
    }
    Ok(Report::one(format!("{} files are current", files.len())))
}

fn is_current(path: &PathBuf, text: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|t| t == text)
}

fn generated(w: &Workspace) -> Result<Vec<(PathBuf, String)>> {
    let records = records(w)?;
    let readme_path = w.path("README.md");
    let readme = fs::read_to_string(&readme_path).context("README.md cannot be read")?;
    let mut files = vec![
        (w.path("data/results").join(INDEX), pretty(&index(&records))?),
        (w.path(&format!("data/schema/run.v{SCHEMA}.schema.json")), warpbook_record::json_schema()),
        (readme_path, replace_section(&readme, &results(&records))?),
    ];
    let pictures = records.iter().flat_map(pictures);
    files.extend(pictures.map(|(name, svg)| (w.path("data/images").join(name), svg)));
    Ok(files)
}

/// The charts of a record that the README shows, as files: (name, SVG).
fn pictures(record: &Record) -> Vec<(String, String)> {
    let Some(problem) = record.run.main_problem() else { return Vec::new() };
    let (stem, run) = (record.file.trim_end_matches(".json"), &record.run);
    let charts = if let Problem::Matmul { dtype, .. } = problem {
        vec![
            ("ladder", warpbook_charts::ladder(run, problem, Quantity::Throughput)),
            ("shapes", warpbook_charts::shapes(run, *dtype)),
            ("roofline", warpbook_charts::roofline(run, problem)),
        ]
    } else {
        vec![
            ("ladder", warpbook_charts::ladder(run, problem, Quantity::Time)),
            ("sweep", warpbook_charts::sweep(&[run])),
            ("roofline", warpbook_charts::roofline(run, problem)),
        ]
    };
    // A record that has nothing to draw has no picture.
    let drawn = charts.into_iter().filter_map(|(kind, chart)| Some((kind, chart.ok()?)));
    drawn.map(|(kind, chart)| (format!("{stem}-{kind}.svg"), chart.svg.standalone())).collect()
}

/// The text with what stands between its two marks replaced.
fn replace_section(text: &str, section: &str) -> Result<String> {
    let places = |mark: &str| text.match_indices(mark).map(|(i, _)| i).collect::<Vec<_>>();
    match (places(BEGIN).as_slice(), places(END).as_slice()) {
        (&[begin], &[end]) if begin < end => {
            Ok(format!("{}\n\n{}\n\n{}", &text[..begin + BEGIN.len()], section.trim(), &text[end..]))
        }
        _ => bail!("README.md needs the lines `{BEGIN}` and `{END}` once each, in this order"),
    }
}

/// The README's results: a ladder of each record at its main problem.
fn results(records: &[Record]) -> String {
    let tables = |r: &Record| match r.run.main_problem() {
        Some(main @ Problem::Matmul { .. }) => [products(r, main), against_libraries(r)],
        _ => [ladder(r), sizes(r)],
    };
    let ladders: Vec<String> = records.iter().flat_map(tables).flatten().collect();
    if ladders.is_empty() { "No results are published yet.".into() } else { ladders.join("\n\n") }
}

/// Of what a record is, and where it was made.
fn heading(record: &Record, of: &str) -> String {
    let (run, e) = (&record.run, &record.run.environment);
    let versions = [("driver", &e.driver), ("CUDA", &e.cuda), ("NVRTC", &e.nvrtc)];
    let versions: String =
        versions.iter().filter_map(|(n, v)| v.as_ref().map(|v| format!(", {n} {}", cell(v)))).collect();
    let title = if run.title.is_empty() { &run.experiment } else { &run.title };
    format!(
        "**{}**, {of}, on {}{versions} ([record](data/results/{}), {}):\n\n",
        cell(title),
        cell(&e.device.name),
        record.file,
        run.created.get(..10).unwrap_or("undated"),
    )
}

fn ladder(record: &Record) -> Option<String> {
    let run = &record.run;
    let problem = run.main_problem()?;
    let mut text = heading(record, &problem.label());
    text += "| rung | | median | an epoch | speed-up | x and y at | of its bound | check |\n|---|---|---:|---:|---:|---:|---:|---|\n";
    for row in run.ladder(problem) {
        let m = row.measurement;
        let title = row.rung.map_or("", |r| &r.title);
        let dash = || "–".to_owned();
        let verdict = verdict(m);
        let valid = m.is_valid();
        text += &format!(
            "| `{}` | {} | {} | {} | {} | {} | {} | {verdict} |\n",
            cell(&m.rung).replace('`', ""),
            cell(title),
            m.median_us().filter(|_| valid).map_or_else(dash, words::time),
            m.epoch_us().filter(|_| valid).map_or_else(dash, words::time),
            row.speed_up.map_or_else(dash, words::times),
            m.effective_bytes_per_s().filter(|_| valid).map_or_else(dash, words::bandwidth),
            bound(run, &row),
        );
    }
    Some(text.trim_end().to_owned())
}

fn verdict(m: &Measurement) -> String {
    match &m.outcome {
        Outcome::Measured => m.check.as_ref().map_or("–", |c| if c.passed { "passed" } else { "failed" }).into(),
        Outcome::Skipped { why } => format!("skipped: {}", cell(why)),
        Outcome::Failed { error } => format!("failed: {}", cell(error)),
    }
}

/// The ladder of products at the main size, in fp32 and in the type that it ends with: a column each.
fn products(record: &Record, main: &Problem) -> Option<String> {
    let run = &record.run;
    let mut columns = vec![main];
    columns.extend(
        run.problems().into_iter().filter(|p| p.dtype() == Some(Dtype::F32) && same_shape(p, main) && *p != main),
    );
    columns.reverse();
    let mut text = heading(record, &main.short_label());
    text += "| rung | |";
    for p in &columns {
        let dtype = p.dtype().map_or("", |d| d.label());
        text += &format!(" {dtype} | | of the library |");
    }
    text += &format!("\n|---|---|{}\n", "---:|---:|---:|".repeat(columns.len()));
    for rung in &run.rungs {
        let rows: Vec<Option<&Measurement>> =
            columns.iter().map(|p| run.measurement(&rung.id, p).filter(|m| m.is_valid())).collect();
        if rows.iter().all(Option::is_none) {
            continue;
        }
        text += &format!("| `{}` | {} |", cell(&rung.id).replace('`', ""), cell(&rung.title));
        for (p, m) in columns.iter().zip(rows) {
            let us = m.and_then(Measurement::median_us);
            let ratio = us.zip(run.fastest_library(p)).map(|(us, (_, library))| format!("{:.3}", library / us));
            text += &format!(
                " {} | {} | {} |",
                us.map_or_else(String::new, words::time),
                m.and_then(Measurement::flops_per_s).map_or_else(String::new, words::rate),
                ratio.unwrap_or_default()
            );
        }
        text += "\n";
    }
    Some(text.trim_end().to_owned())
}

fn same_shape(a: &Problem, b: &Problem) -> bool {
    a.short_label() == b.short_label()
}

/// Every shape and type: our fastest rung beside the faster library.
fn against_libraries(record: &Record) -> Option<String> {
    let run = &record.run;
    let mut text = String::from(
        "<details><summary>Every shape of the same record, our fastest rung beside the faster of cuBLAS and cuBLASLt (its best \
         algorithm of 32 asked for), timed in turn. Above 1 ours is faster.</summary>\n\n\
         | m x n x k | type | library | ours | | rung, tile | ratio |\n|---|---|---:|---:|---:|---|---:|\n",
    );
    let mut any = false;
    for p in run.problems() {
        let Some(((_, library_us), (best, us))) = run.fastest_library(p).zip(run.fastest_kernels(p)) else { continue };
        any = true;
        text += &format!(
            "| {} | {} | {} | {} | {} | `{}`, {} | {:.3} |\n",
            p.short_label(),
            p.dtype().map_or("", |d| d.label()),
            words::time(library_us),
            words::time(us),
            best.flops_per_s().map_or_else(String::new, words::rate),
            cell(&best.rung).replace('`', ""),
            cell(best.tile.as_deref().unwrap_or("–")),
            library_us / us
        );
    }
    any.then(|| format!("{text}\n</details>"))
}

/// What a rung is held against, and how much of it it reached.
fn bound(run: &Run, row: &LadderRow<'_>) -> String {
    let Some(share) = row.fraction_of_ceiling else { return "–".into() };
    if row.measurement.does_less() {
        return "less work".into();
    }
    let of_level = || run.ceiling(&row.measurement.problem).map(|c| c.level.label());
    let what = run.bound(row.measurement).map(|b| b.label()).or_else(of_level).unwrap_or("its ceiling");
    format!("{} of {what}", words::percent(share))
}

/// A row a size: the fastest of each other framework's rungs beside the fastest rung of ours that does all of the work.
fn sizes(record: &Record) -> Option<String> {
    let run = &record.run;
    let others: Vec<_> = run
        .rungs
        .iter()
        .filter(|r| matches!(r.runner, Runner::External(_)) && r.requires != Requires::Nothing)
        .collect();
    let last = others.last()?;
    let Runner::External(framework) = &last.runner else { return None };
    let mut problems = run.problems();
    problems.sort_by_key(|p| (p.features(), p.size()));
    let time = |id: &str, p: &Problem| run.measurement(id, p).filter(|m| m.is_valid()).and_then(|m| m.median_us());
    let mut text = format!(
        "The same over the sizes, beside {}. A rung that does less work, as one on sufficient statistics, \
         stands apart and is not in this table:\n\n| points |",
        cell(framework),
    );
    for r in &others {
        text += &format!(" `{}` |", cell(&r.id).replace('`', ""));
    }
    text += " best rung here | | times as fast as the best of them |\n|---|";
    text += &"---:|".repeat(others.len());
    text += "---:|---|---:|\n";
    for problem in problems {
        let ours = run.measurements.iter().filter(|m| {
            m.problem == *problem
                && m.is_valid()
                && !m.does_less()
                && run.rung(&m.rung).is_some_and(|r| !r.kernels().is_empty())
        });
        let fastest = |a: &Option<f64>, b: &Option<f64>| a.unwrap_or(f64::MAX).total_cmp(&b.unwrap_or(f64::MAX));
        // A size that none of ours was measured at has no row; the others keep theirs.
        let Some(best) = ours.min_by(|a, b| fastest(&a.median_us(), &b.median_us())) else { continue };
        let theirs: Vec<Option<f64>> = others.iter().map(|r| time(&r.id, problem)).collect();
        let best_of_theirs = theirs.iter().flatten().copied().min_by(f64::total_cmp);
        let dash = || "–".to_owned();
        text += &format!("| {} |", problem.short_label());
        for us in &theirs {
            text += &format!(" {} |", us.map_or_else(dash, words::time));
        }
        let ratio = best.median_us().zip(best_of_theirs).map(|(ours, theirs)| theirs / ours);
        text += &format!(
            " {} | `{}` | {} |\n",
            best.median_us().map_or_else(dash, words::time),
            cell(&best.rung).replace('`', ""),
            ratio.map_or_else(dash, words::times)
        );
    }
    Some(text.trim_end().to_owned())
}

/// Text that stays within its cell of a Markdown table, and is no HTML.
fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace('\\', "\\\\").replace('&', "&amp;").replace('<', "&lt;").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_and_stays_replaced() {
        let readme = format!("# W\n{BEGIN}\nold\n{END}\nrest\n");
        let new = replace_section(&readme, "new").unwrap();
        assert_eq!(new, format!("# W\n{BEGIN}\n\nnew\n\n{END}\nrest\n"));
        assert_eq!(replace_section(&new, "new").unwrap(), new);
    }

    #[test]
    fn missing_or_crossed_marks_are_refused() {
        for bad in ["", BEGIN, &format!("{END}{BEGIN}"), &format!("{BEGIN}{BEGIN}{END}")] {
            assert!(replace_section(bad, "x").is_err(), "{bad}");
        }
    }

    #[test]
    fn cells_hold_no_markup() {
        assert_eq!(cell("a|b\n<img>"), "a\\|b &lt;img>");
    }
}
