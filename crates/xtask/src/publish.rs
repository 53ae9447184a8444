//! Generates files from the records: their index, the JSON Schema, charts, the tables of `data/README.md` and the table
//! of the README, and scripts that make the records. The check also covers the links and paths in all Markdown files.

pub mod commands;
mod computes;
mod links;
mod overview;
mod surveys;
mod tables;
mod whole;

use crate::steps::Report;
use crate::workspace::{Workspace, files_below, write_atomic};
use anyhow::{Context, Result, bail};
use commands::Gpu;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use tables::is_of_the_guide;
use warpbook_charts::{Options, Rungs};
use warpbook_record::{ChartKind, Run, SCHEMA};

const INDEX: &str = "index.json";
/// The folder of the scripts with the commands that make the records; there is one script for each GPU.
const COMMANDS: &str = "data/commands";
const BEGIN: &str = "<!-- results:begin -->";
const END: &str = "<!-- results:end -->";
const NONE: &str = "No results are published yet.";

/// A record in `data/results`.
#[derive(Debug)]
pub struct Record {
    /// The record's file name.
    pub file: String,
    /// The record's text.
    pub text: String,
    /// The parsed record.
    pub run: Run,
    /// True if the record belongs to the project.
    pub published: bool,
    /// The file of the published record to compare this record with, and the verdict in a sentence.
    pub beside: Option<(String, String)>,
}

impl Record {
    /// Parses a record.
    pub fn new(file: impl Into<String>, text: String) -> Result<Self> {
        let file = file.into();
        match Run::from_json(text.as_bytes()) {
            Ok(run) => Ok(Self { file, text, run, published: false, beside: None }),
            Err(e) => bail!("{file}: {e}"),
        }
    }
}

/// Reads the published records: first those of the current index in its order, then new records by date.
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
            found.push(Record { published: true, ..Record::new(name, text)? });
        }
    }
    // The first record opens the page and the tables, so the order is kept.
    let listed = fs::read_to_string(folder.join(INDEX)).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let listed: Vec<&str> = listed
        .iter()
        .flat_map(|index| index["records"].as_array())
        .flatten()
        .filter_map(|r| r["file"].as_str())
        .collect();
    let place = |r: &Record| listed.iter().position(|file| *file == r.file).unwrap_or(listed.len());
    found.sort_by(|a, b| place(a).cmp(&place(b)).then_with(|| a.run.created.cmp(&b.run.created)));
    Ok(found)
}

/// Returns the index that the page reads: `records` in order, each with `file` (relative to the index), `experiment`,
/// `title`, `device`, `date` (RFC 3339), `computes` (one line on what it computes), `headline`, `ladder` (heights from
/// 0 to 1), and `cells` for a table's row. Records of the project have `published`. A reader's record may have
/// `beside`: the `file` of a published record and the `verdict`.
pub fn index<'a>(records: impl IntoIterator<Item = &'a Record>) -> Value {
    let entries = records.into_iter().map(|r| {
        let (headline, heights, cells) = warpbook_charts::record_summary(&r.run);
        let mut entry = json!({
            "headline": headline,
            "ladder": heights.iter().map(|h| (h * 1e4).round() / 1e4).collect::<Vec<_>>(),
            "file": r.file,
            "experiment": r.run.experiment,
            "computes": computes::computes(&r.run),
            "title": r.run.title,
            "cells": cells,
            "device": r.run.environment.device.name,
            "date": r.run.created,
        });
        if r.published {
            entry["published"] = true.into();
        }
        if let Some((file, verdict)) = &r.beside {
            entry["beside"] = json!({ "file": file, "verdict": verdict });
        }
        entry
    });
    json!({ "records": entries.collect::<Vec<_>>() })
}

/// Formats JSON with indentation and a final newline.
pub fn pretty(value: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// Runs `cargo xtask publish --commands`.
pub fn print_commands(gpu: Gpu) -> Result<ExitCode> {
    std::io::stdout().write_all(commands::script(gpu).as_bytes()).context("the commands cannot be printed")?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `cargo xtask publish`.
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
    let (faults, _) = links::faults(w)?;
    for fault in &faults {
        eprintln!("error: {fault}");
    }
    let failed = !faults.is_empty() || (check_only && !stale.is_empty());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Checks that all generated files are up to date, as a step of `cargo xtask test`.
pub fn check(w: &Workspace) -> Result<Report> {
    let files = generated(w)?;
    let stale: Vec<_> = files.iter().filter(|(path, text)| !is_current(path, text)).map(|(p, _)| w.show(p)).collect();
    if !stale.is_empty() {
        bail!("stale: {}; run `cargo xtask publish`", stale.join(", "));
    }
    let (faults, pages) = links::faults(w)?;
    if !faults.is_empty() {
        bail!("{}", faults.join("; "));
    }
    Ok(Report::one(format!(
        "{} files are current, links and paths of {pages} Markdown files lead somewhere",
        files.len()
    )))
}

fn is_current(path: &PathBuf, text: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|t| t == text)
}

fn generated(w: &Workspace) -> Result<Vec<(PathBuf, String)>> {
    let records = records(w)?;
    let overview = overview::table(&records).unwrap_or_else(|| NONE.into());
    let parts = [tables::results(&records), surveys::table(w)?].into_iter().flatten();
    let parts: Vec<String> = parts.collect();
    let all = if parts.is_empty() { NONE.into() } else { parts.join("\n\n") };
    let mut files = vec![
        (w.path("data/results").join(INDEX), pretty(&index(&records))?),
        (w.path(&format!("data/schema/run.v{SCHEMA}.schema.json")), warpbook_record::json_schema()),
        filled(w, links::README, &overview)?,
        filled(w, "data/README.md", &all)?,
    ];
    files.extend(Gpu::ALL.map(|gpu| (w.path(&format!("{COMMANDS}/{}.sh", gpu.id())), commands::script(gpu))));
    let pictures = records.iter().flat_map(pictures);
    files.extend(pictures.map(|(name, svg)| (w.path("data/images").join(name), svg)));
    Ok(files)
}

/// Returns a file's path, and its text with the generated section updated.
fn filled(w: &Workspace, file: &str, section: &str) -> Result<(PathBuf, String)> {
    let path = w.path(file);
    let text = fs::read_to_string(&path).with_context(|| format!("{file} cannot be read"))?;
    Ok((path, replace_section(&text, section).with_context(|| file.to_owned())?))
}

/// Draws a record's charts as files: (name, SVG). They are the ladder with the most important rungs, the heat map or
/// else the sweep, and the roofline, if the record's descriptor names them.
fn pictures(record: &Record) -> Vec<(String, String)> {
    let Some(problem) = record.run.main_problem().filter(|_| !is_of_the_guide(record)) else { return Vec::new() };
    let (stem, run) = (record.file.trim_end_matches(".json"), &record.run);
    let has = |kind| run.descriptor.has(kind);
    let over_sizes = if has(ChartKind::HeatMap) { ("shapes", ChartKind::HeatMap) } else { ("sweep", ChartKind::Sweep) };
    let charts = [("ladder", ChartKind::Ladder), over_sizes, ("roofline", ChartKind::Roofline)];
    let options = Options { rungs: Rungs::Story, ..Options::default() };
    // A chart without data gets no picture.
    let drawn = charts
        .into_iter()
        .filter(|(_, kind)| has(*kind))
        .filter_map(|(name, kind)| Some((name, options.chart(run, problem, kind).ok()?)));
    drawn.map(|(name, chart)| (format!("{stem}-{name}.svg"), chart.svg.standalone())).collect()
}

/// Returns the text with everything between two marks replaced.
fn replace_section(text: &str, section: &str) -> Result<String> {
    let places = |mark: &str| text.match_indices(mark).map(|(i, _)| i).collect::<Vec<_>>();
    match (places(BEGIN).as_slice(), places(END).as_slice()) {
        (&[begin], &[end]) if begin < end => {
            Ok(format!("{}\n\n{}\n\n{}", &text[..begin + BEGIN.len()], section.trim(), &text[end..]))
        }
        _ => bail!("the lines `{BEGIN}` and `{END}` must occur exactly once each, in this order"),
    }
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

    const SOFTMAX: &str = include_str!("../../../web/tests/softmax.json");

    pub(super) fn record(change: impl Fn(&mut Value)) -> Record {
        let mut value: Value = serde_json::from_str(SOFTMAX).unwrap();
        change(&mut value);
        Record::new("softmax-h200.json", value.to_string()).unwrap()
    }

    #[test]
    fn published_files_are_those_of_the_current_format() {
        let w = Workspace::find(false).unwrap();
        let schemas: Vec<String> = generated(&w)
            .unwrap()
            .iter()
            .filter_map(|(path, _)| Some(path.file_name()?.to_str()?.to_owned()))
            .filter(|name| name.ends_with(".schema.json"))
            .collect();
        // Format 1's schema is frozen.
        assert_eq!(schemas, ["run.v2.schema.json"]);
        assert!(w.path("data/schema/run.v1.schema.json").exists());
    }

    #[test]
    fn records_keep_the_order_of_the_index() {
        let mut w = Workspace::find(false).unwrap();
        let published = records(&w).unwrap();
        let tmp = tempfile::tempdir().unwrap();
        w.root = tmp.path().to_path_buf();
        let folder = w.path("data/results");
        fs::create_dir_all(&folder).unwrap();
        for (name, created) in
            [("a.json", "2026-01-03T00:00:00Z"), ("b.json", "2026-01-02T00:00:00Z"), ("c.json", "2026-01-01T00:00:00Z")]
        {
            let run = Run { created: created.into(), ..published[0].run.clone() };
            fs::write(folder.join(name), run.to_json().unwrap()).unwrap();
        }
        let files = |w: &Workspace| records(w).unwrap().into_iter().map(|r| r.file).collect::<Vec<_>>();
        assert_eq!(files(&w), ["c.json", "b.json", "a.json"], "without an index, by date");
        fs::write(folder.join(INDEX), r#"{ "records": [{ "file": "a.json" }] }"#).unwrap();
        assert_eq!(files(&w), ["a.json", "c.json", "b.json"]);
    }
}
