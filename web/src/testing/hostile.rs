//! Records that try to break the page, since a panic would stop it in the browser.

use crate::address::{Link, ProblemChoice};
use crate::library::open::open;
use crate::record::{Summary, Tab, comparison, facts, problems, quantities, rungs};
use crate::tables;
use crate::testing::{course, sample};
use crate::text::highlight;
use serde_json::{Value, json};
use warpbook_charts as charts;
use warpbook_record::{ChartKind, Run};

/// Computes everything that the page shows of a record.
pub fn show(run: &Run) {
    let _ = (Tab::for_record(run), facts::sections(run), Summary::from_run(run), facts::author(run));
    let all = run.problems();
    for problem in &run.every_problem() {
        let link = Link { problem: Some(ProblemChoice::Id(problem.id.clone())), ..Link::default() };
        // An address cannot carry an empty value.
        let found = Link::parse(&link.query()).problem.map_or(Some(*problem), |c| c.find(run));
        assert_eq!(found, Some(*problem));
        for sheet in [
            tables::rungs(run, problem),
            tables::kernels(run, problem),
            tables::trainings(run, problem),
            tables::counters(run, problem),
        ] {
            for column in 0..sheet.columns.len() {
                let _ = sheet.sorted(Some(tables::Sort { column, descending: true }));
            }
            let _ = sheet.table().csv();
        }
        let line = problems::on_a_line(run, problem);
        for quantity in quantities::quantities(run, problem) {
            let _ = charts::quantity_name(run, quantity);
            harmless(&charts::draw().ladder(run, problem, quantity));
            harmless(&charts::draw().sweep_of(&[run], quantity, line, None));
        }
        let options = charts::Options::default();
        harmless(&options.kernel_roofline(run, problem, None));
        harmless(&options.clocks(run, problem));
        harmless(&options.power(run, problem));
        let _ = charts::power_in_words(run, problem);
        run.xrays.iter().for_each(|x| harmless(&options.xray_of(run, x)));
        for p in &run.profiled {
            harmless(&options.memory(p, 1e3, ["memory", ""]));
        }
        ChartKind::ALL.iter().for_each(|kind| harmless(&charts::draw().chart(run, problem, *kind)));
        let _ = problems::like(&all, problem);
    }
    if let Ok(all) = charts::Comparison::from_runs(&[run, run]) {
        for of in [all.clone(), all.normalised()] {
            harmless(&charts::draw().comparison(&of, true));
            let _ =
                (of.sentence(1), of.table().csv(), comparison::moved(&of).len(), comparison::chosen(&of, None, None));
            for cell in of.rows.iter().flat_map(|r| &r.cells) {
                let _ = (comparison::said(cell, true), comparison::said(cell, false));
            }
        }
    }
    let board = charts::Board::from_records(&[("a.json", run), ("<b>", run)]);
    for task in &board.tasks {
        harmless(&charts::draw().ranking(task));
        assert_eq!(Link::parse(&Link { board: Some(task.id()), ..Link::default() }.query()).board, Some(task.id()));
    }
    let _ = board.table().csv();
    let _ = comparison::labels(&Default::default(), &[("a", "", run), ("b", "", run)]);
    let groups = problems::grouped(all.clone());
    assert_eq!(groups.iter().map(|g| g.problems.len()).sum::<usize>(), all.len());
    let _ = (problems::lines(run), problems::dtypes_with_library(run), facts::differences(&[run, run]));
    for text in run.sources.values() {
        let _ = (highlight::lines(text), highlight::includes(text));
    }
    for rung in &run.rungs {
        let _ = (rungs::runner(rung), rungs::requires(&rung.requires), rungs::framework(rung));
    }
}

/// Checks a drawing. It goes into the page as markup, so a record's text must never become an element or an attribute.
fn harmless(chart: &Result<charts::Chart, charts::ChartError>) {
    let Ok(chart) = chart else { return };
    let svg = chart.svg.as_str().to_lowercase();
    for element in svg.split('<').skip(1) {
        let name =
            element.trim_start_matches('/').split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        let drawn =
            ["svg", "g", "title", "desc", "text", "tspan", "rect", "line", "polyline", "polygon", "circle", "path"];
        assert!(drawn.contains(&name), "<{name} in {}", chart.title);
        let tag = element.split('>').next().unwrap_or_default();
        // Only attribute values are between quotes.
        let names: String = tag.split('"').step_by(2).collect();
        assert!(!names.split_whitespace().any(|n| n.starts_with("on") || n.contains("href")), "{tag}");
    }
}

/// Returns a training of a few steps with every field of a course.
fn training() -> Value {
    let mut record = sample();
    record["train_logs"][0]["course"] = course();
    record
}

/// Collects the JSON pointer of every place in a value.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    out.push(at.to_owned());
    match value {
        Value::Object(map) => {
            let escaped = |k: &String| k.replace('~', "~0").replace('/', "~1");
            map.iter().for_each(|(k, v)| places(v, &format!("{at}/{}", escaped(k)), out));
        }
        Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| places(v, &format!("{at}/{i}"), out)),
        _ => {}
    }
}

#[test]
fn no_value_at_any_place_stops_the_page() {
    let hostile = "\"><script>alert(1)</script><img src=x onerror=alert(1)>\u{202e}\u{0}]]>&lt;";
    let values = [
        json!(null),
        json!(0),
        json!(-1),
        json!(1),
        json!(u32::MAX),
        json!(u64::MAX),
        json!(1e308),
        json!(-1e308),
        json!(5e-324),
        json!("NaN"),
        json!("Infinity"),
        json!("-Infinity"),
        json!(""),
        json!(hostile),
        json!("x".repeat(5_000)),
        json!([]),
        json!({}),
        json!(true),
    ];
    let mut all = Vec::new();
    let whole = training();
    places(&whole, "", &mut all);
    let mut shown = 0;
    for place in &all {
        for value in &values {
            let mut record = whole.clone();
            *record.pointer_mut(place).unwrap() = value.clone();
            if let Ok(run) = open(record.to_string().as_bytes()) {
                show(&run);
                shown += 1;
            }
        }
    }
    assert!(shown > all.len(), "only {shown} of {} places could be changed", all.len());
}

#[test]
fn records_of_both_formats_are_shown() {
    show(&open(include_bytes!("../../../crates/warpbook-record/tests/golden/run.v1.json")).unwrap());
    show(&open(include_bytes!("../../../crates/warpbook-record/tests/golden/run.v2.json")).unwrap());
}

/// The keys of free texts in a record.
const TEXTS: [&str; 22] = [
    "author",
    "caption",
    "cpu",
    "id",
    "idea",
    "inputs",
    "item",
    "label",
    "line",
    "main_problem",
    "method",
    "name",
    "os",
    "pass",
    "problem",
    "reference",
    "rung",
    "short",
    "stream",
    "title",
    "unit",
    "variant_of",
];

#[test]
fn a_record_of_nothing_but_markup_is_only_text() {
    fn fill(value: &mut Value, key: &str) {
        match value {
            Value::Object(map) => map.iter_mut().for_each(|(k, v)| fill(v, k)),
            Value::Array(list) => list.iter_mut().for_each(|v| fill(v, key)),
            Value::String(text) if TEXTS.contains(&key) => {
                *text = format!("</text></svg><svg onload=alert(1)><a href='javascript:alert(1)'>{text}");
            }
            _ => {}
        }
    }
    let mut record = sample();
    fill(&mut record, "");
    // "loss" is a text here but a number elsewhere, so it is filled separately.
    fill(&mut record["descriptor"]["loss"], "label");
    show(&open(record.to_string().as_bytes()).unwrap());
}
