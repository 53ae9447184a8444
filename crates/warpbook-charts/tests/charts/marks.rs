//! Tests of the data of the marks in every chart of the published records.

use crate::common::{QUANTITIES, check_svg};
use std::path::Path;
use warpbook_charts::*;
use warpbook_record::{ChartKind, Problem, Run};

fn published() -> Vec<Run> {
    let folder = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../data/results");
    let files = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path());
    let records = files.filter(|f| f.extension().is_some_and(|e| e == "json") && !f.ends_with("index.json"));
    let runs = records.map(|f| Run::from_json(&std::fs::read(f).unwrap()).unwrap());
    // A logged training has a course and no measurements, so its charts have no marks of rungs.
    let runs: Vec<Run> = runs.filter(|run| !run.measurements.is_empty()).collect();
    assert!(runs.len() >= 3, "only {} records", runs.len());
    runs
}

fn charts(run: &Run) -> Vec<Chart> {
    let problems = run.problems();
    // The sample has the first problem, the last, and some in between.
    let some: Vec<&Problem> =
        problems.iter().copied().step_by(problems.len().div_ceil(4)).chain(problems.last().copied()).collect();
    let mut all: Vec<Chart> = Vec::new();
    // The page draws the timeline on a canvas, so an SVG contains none of its spans.
    let kinds: Vec<ChartKind> = run.descriptor.charts.iter().copied().filter(|k| *k != ChartKind::Timeline).collect();
    for problem in &some {
        all.extend(kinds.iter().filter_map(|kind| draw().chart(run, problem, *kind).ok()));
        all.extend(QUANTITIES.iter().filter_map(|q| draw().ladder(run, problem, *q).ok()));
        all.extend(QUANTITIES.iter().filter_map(|q| draw().sweep_of(&[run], *q, Some(problem), None).ok()));
        all.extend(draw().compare(&[run, run], problem.size()).ok());
    }
    assert!(all.len() > 5, "{}", run.title);
    all
}

/// Returns an attribute of a mark, or of the nearest group around it.
fn attribute<'a>(mark: roxmltree::Node<'a, '_>, name: &str) -> Option<&'a str> {
    mark.ancestors().find_map(|n| n.attribute(name))
}

/// Returns the first number of a text, without its power of ten, and half a unit of its last digit.
fn mantissa(text: &str) -> Option<(f64, f64)> {
    let from = text.find(|c: char| c.is_ascii_digit())?;
    let rest = &text[from..];
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    let number = rest[..end].trim_end_matches('.');
    // A table gives memory in MiB.
    let unit = match rest[end..].trim_start() {
        unit if unit.starts_with("KiB") => 1.0 / 1024.0,
        unit if unit.starts_with("GiB") => 1024.0,
        _ => 1.0,
    };
    let v = unit * number.parse::<f64>().ok()?;
    let decimals = number.split_once('.').map_or(0, |(_, d)| d.len());
    let half = unit * 0.5 / 10f64.powf(decimals as f64);
    let scale = if v == 0.0 { 1.0 } else { 10f64.powf(v.log10().floor()) };
    Some((v / scale, half / scale))
}

/// Returns true if two figures agree up to rounding; 9.996 may be shown as 10.0.
fn agree(a: (f64, f64), b: (f64, f64)) -> bool {
    [1.0, 10.0, 0.1].iter().any(|f| (a.0 * f - b.0).abs() <= (a.1 * f + b.1) * 1.01 + 1e-9)
}

#[test]
fn every_mark_has_a_rung_a_problem_and_a_value_that_the_table_has_too() {
    for run in published() {
        // In a sweep the chart names the line, and the marks name the size.
        let labels: Vec<&str> = run.problems().into_iter().flat_map(|p| [p.label.as_str(), p.short.as_str()]).collect();
        for chart in charts(&run) {
            check_svg(&chart);
            let document = roxmltree::Document::parse(chart.svg.as_str()).unwrap();
            let marks: Vec<_> = document.descendants().filter(|n| n.has_attribute("data-value")).collect();
            let of_rungs = marks.iter().filter(|m| attribute(**m, "data-rung").is_some()).count();
            assert!(of_rungs > 0, "{} of {} has no mark", chart.title, run.title);
            for mark in marks {
                let value = mark.attribute("data-value").unwrap();
                assert!(!mark.children().any(|c| c.has_attribute("data-value")), "a mark in a mark: {value}");
                // Marks without a rung are reference lines.
                let Some(rung) = attribute(mark, "data-rung") else { continue };
                assert!(run.rung(rung).is_some(), "{rung} in {}", chart.title);
                let problem = attribute(mark, "data-problem").unwrap_or_else(|| panic!("{value} in {}", chart.title));
                assert!(labels.contains(&problem), "{problem} in {}", chart.title);
                let samples = mark.attribute("data-samples").map_or(1, |n| n.parse::<u64>().unwrap());
                assert!(samples > 0, "{value} in {}", chart.title);
                let own: Vec<_> = chart.table.rows.iter().filter(|r| r.iter().any(|c| c == rung)).collect();
                let rows = if own.is_empty() { chart.table.rows.iter().collect() } else { own };
                let shown = mantissa(value).unwrap_or_else(|| panic!("{value} in {}", chart.title));
                let in_table = rows.iter().any(|r| r.iter().any(|c| mantissa(c).is_some_and(|c| agree(shown, c))));
                assert!(in_table, "{value} of {rung} is not in the table of {}", chart.title);
            }
        }
    }
}

#[test]
fn what_marks_say_is_a_small_part_of_a_chart() {
    let (mut all, mut marks) = (0, 0);
    for run in published() {
        for chart in charts(&run) {
            let text = chart.svg.as_str();
            let opened: usize = text.match_indices("<g data-").map(|(at, _)| text[at..].find('>').unwrap() + 1).sum();
            let said = opened + 4 * text.matches("</g>").count();
            assert!(said * 20 < text.len() * 9, "{said} of {} bytes in {}", text.len(), chart.title);
            (all, marks) = (all + text.len(), marks + said);
        }
    }
    assert!(marks * 10 < all * 3, "{marks} of {all} bytes");
}

#[test]
fn texts_of_a_record_cannot_leave_an_attribute() {
    let mut run = published().swap_remove(0);
    let hostile = "\"><script>alert(1)</script>\u{E006}onload\u{E005}x\u{E004}";
    for rung in &mut run.rungs {
        rung.title = format!("{hostile}{}", rung.id).into();
    }
    for chart in charts(&run) {
        check_svg(&chart);
    }
}
