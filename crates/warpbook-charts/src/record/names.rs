//! Names of rungs, problems, devices and records.

use crate::draw::text;
use crate::draw::text::words::{count, listed};
use crate::draw::{Font, MARGIN, WIDTH, clean};
use warpbook_record::{Problem, Run};

/// Returns a rung's title, and its id if the two differ.
pub(crate) fn names(run: &Run, id: &str) -> (String, String) {
    let found = run.rung(id);
    let id = clean(id);
    match found.map(|r| clean(&r.title)).filter(|t| !t.is_empty()) {
        Some(title) => (title, id),
        None if id.is_empty() => ("(unnamed)".into(), String::new()),
        None => (id, String::new()),
    }
}

/// Returns a rung's title.
pub(crate) fn name(run: &Run, id: &str) -> String {
    names(run, id).0
}

/// Returns a rung's title in quotation marks, for a sentence.
pub(crate) fn quoted(run: &Run, id: &str) -> String {
    format!("“{}”", name(run, id))
}

/// Returns the record's heading, short enough to leave room for more text in a title.
pub(crate) fn heading(run: &Run) -> String {
    let title = clean(&run.title);
    let name = clean(&run.experiment);
    let heading = [title, name].into_iter().find(|t| !t.is_empty()).unwrap_or_else(|| "Run".into());
    text::elide(&heading, WIDTH - 4.0 * MARGIN, Font::TITLE.size, true)
}

/// Returns the device's name.
pub(crate) fn device(run: &Run) -> String {
    let name = clean(&run.environment.device.name);
    if name.is_empty() { "unnamed device".into() } else { name }
}

/// Joins the parts that are not empty with commas.
pub(crate) fn joined<S: AsRef<str>>(parts: impl IntoIterator<Item = S>) -> String {
    let parts: Vec<String> = parts.into_iter().map(|p| p.as_ref().to_owned()).filter(|p| !p.is_empty()).collect();
    parts.join(", ")
}

/// Describes the properties shared along a problem's line of a sweep, such as "200 epochs", or "bf16, B transposed".
pub(crate) fn line_label(problem: &Problem) -> String {
    let line = problem.sweep.as_ref().map_or(String::new(), |s| clean(&s.line));
    if line.is_empty() { label(problem) } else { line }
}

/// Formats the size of a problem on a sweep for a sentence: "5 M points", or "4096³" if the size needs no unit.
pub(crate) fn size_label(run: &Run, problem: &Problem) -> String {
    let unit = clean(&run.descriptor.axis.unit);
    let short = clean(&problem.short);
    match () {
        () if !unit.is_empty() => format!("{} {unit}", size_number(run, problem.size())),
        () if !short.is_empty() => short,
        () => size_number(run, problem.size()),
    }
}

/// Formats the size without its unit: "5 M", or "65536" on an axis whose ticks double.
pub(crate) fn size_number(run: &Run, size: u64) -> String {
    if run.descriptor.axis.doubling { size.to_string() } else { count(size as f64) }
}

/// Returns the name of a problem in a heading.
pub(crate) fn label(problem: &Problem) -> String {
    let words = [&problem.label, &problem.short, &problem.id].map(|t| clean(t));
    words.into_iter().find(|t| !t.is_empty()).unwrap_or_else(|| "an unnamed problem".into())
}

/// Returns the noun for one pass over the inputs.
pub(crate) fn pass(run: &Run) -> String {
    let pass = clean(&run.descriptor.pass);
    if pass.is_empty() { "pass".into() } else { pass }
}

/// Returns the plural noun for items; empty if the record has none.
pub(crate) fn item(run: &Run) -> String {
    clean(&run.descriptor.item)
}

/// Lists the devices of the records, each once.
pub(crate) fn devices(runs: &[&Run]) -> String {
    let mut seen: Vec<String> = Vec::new();
    for d in runs.iter().map(|r| device(r)) {
        if !seen.contains(&d) {
            seen.push(d);
        }
    }
    listed(&seen)
}

/// Largest number of characters in a label.
pub const MAX_LABEL: usize = 40;

/// Returns the shortest labels that distinguish these records: devices, authors, dates or commits, without the parts
/// that all records have in common. The labels are numbers if nothing else differs.
#[must_use]
pub fn record_labels(runs: &[&Run]) -> Vec<String> {
    let when = |run: &Run, n: usize| -> String {
        clean(&run.created).chars().take(n).map(|c| if c == 'T' { ' ' } else { c }).collect()
    };
    let devices: Vec<String> = runs.iter().map(|r| device(r)).collect();
    let one_device = devices.windows(2).all(|w| w[0] == w[1]);
    let authors: Vec<String> = runs.iter().map(|r| clean(r.author.as_deref().unwrap_or_default())).collect();
    let commits =
        runs.iter().map(|r| clean(r.environment.commit.as_deref().unwrap_or_default()).chars().take(12).collect());
    let named = |facts: &[String]| -> Vec<String> {
        let both = devices.iter().zip(facts).map(|(d, f)| if one_device { f.clone() } else { joined([d, f]) });
        both.collect()
    };
    let days: Vec<String> = runs.iter().map(|r| when(r, 10)).collect();
    let minutes: Vec<String> = runs.iter().map(|r| when(r, 16)).collect();
    let commits: Vec<String> = commits.collect();
    let candidates = [devices.clone(), named(&authors), named(&days), named(&minutes), named(&commits)];
    let tells = |names: &Vec<String>| names.iter().enumerate().all(|(i, n)| !n.is_empty() && !names[..i].contains(n));
    let short = |names: Vec<String>| names.into_iter().map(|n| n.chars().take(MAX_LABEL).collect()).collect();
    let found = candidates.into_iter().map(short).find(tells);
    found.unwrap_or_else(|| (1..=runs.len()).map(|n| format!("record {n}")).collect())
}
