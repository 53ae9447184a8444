//! A record with markup in every text; none of it may run or become an element.

use super::{HOSTILE, Stage, no_errors, open_ready};
use crate::drivers::webdriver::Browser;
use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use warpbook_record::Run;

pub(super) fn runs_nothing(browser: &Browser, stage: &Stage) -> Result<()> {
    open_ready(browser, &format!("{}?src=test/hostile.json", stage.page))?;
    let shown = browser.eval("return document.body.innerText.includes('__pwned');")?;
    ensure!(shown == json!(true), "the record's text is not shown, so nothing is proven");
    // Injected code would run only after it is loaded, which takes a moment.
    std::thread::sleep(Duration::from_millis(500));
    let ran = browser.eval("return window.__pwned !== undefined;")?;
    ensure!(ran == json!(false), "text of a record ran as a script");
    let elements = browser.eval(
        "return [...document.querySelectorAll('svg script, img[onerror], svg[onload], [href^=\"javascript:\"]')]
            .map((e) => e.outerHTML.slice(0, 80));",
    )?;
    ensure!(elements == json!([]), "text of a record became elements: {elements}");
    no_errors(browser)
}

/// Returns the record with markup in every free text, as far as the page can still read the record. The record is converted to the current
/// format first, in which the record chooses all of these texts.
pub(super) fn record(run: &Run) -> Result<String> {
    let original: Value = serde_json::from_str(&run.to_json()?)?;
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    each_text(&original, &mut String::new(), &mut |kind, text| {
        texts.entry(kind.to_owned()).or_default().insert(text.to_owned());
    });
    // A text that must be one of a few names either cannot be changed or is then read as an unknown name. Reading the
    // changed record shows which texts are free.
    let survive = |kinds: &BTreeSet<&str>| -> Result<bool> {
        let text = changed(&original, &mut String::new(), &|k| kinds.contains(k)).to_string();
        let Ok(read) = Run::from_json(text.as_bytes()) else { return Ok(false) };
        let mut all = true;
        each_text(&serde_json::from_str(&read.to_json()?)?, &mut String::new(), &mut |kind, text| {
            all &= !kinds.contains(kind) || text.starts_with(HOSTILE);
        });
        Ok(all)
    };
    let mut kept: BTreeSet<&str> = BTreeSet::new();
    for kind in texts.keys() {
        if survive(&BTreeSet::from([kind.as_str()]))? {
            kept.insert(kind);
        }
    }
    // An id can only be changed together with its references.
    for (kind, values) in &texts {
        let equal = |other: &&String| !kept.contains(other.as_str()) && !texts[*other].is_disjoint(values);
        let together: BTreeSet<&str> = texts.keys().filter(equal).map(String::as_str).collect();
        if !kept.contains(kind.as_str()) && survive(&together)? {
            kept.extend(together);
        }
    }
    ensure!(!kept.is_empty(), "the record holds no text to change");
    let all = changed(&original, &mut String::new(), &|k| kept.contains(k)).to_string();
    match Run::from_json(all.as_bytes()) {
        Ok(_) => Ok(all),
        Err(e) => bail!("the hostile record is not a record: {e}"),
    }
}

/// Calls `f` with each text and its kind, which is its path without the numbers, such as `.rungs[].title`.
fn each_text(value: &Value, path: &mut String, f: &mut impl FnMut(&str, &str)) {
    let length = path.len();
    match value {
        Value::String(text) => f(path, text),
        Value::Array(items) => {
            path.push_str("[]");
            items.iter().for_each(|v| each_text(v, path, f));
        }
        Value::Object(fields) => {
            for (key, v) in fields {
                path.push('.');
                path.push_str(key);
                each_text(v, path, f);
                path.truncate(length);
            }
        }
        _ => {}
    }
    path.truncate(length);
}

/// Returns the value with markup in front of each text whose kind is `which`.
fn changed(value: &Value, path: &mut String, which: &impl Fn(&str) -> bool) -> Value {
    let length = path.len();
    let new = match value {
        // All texts get the same prefix, so that an id and its references stay equal.
        Value::String(text) if which(path) => Value::String(format!("{HOSTILE}{text}")),
        Value::Array(items) => {
            path.push_str("[]");
            Value::Array(items.iter().map(|v| changed(v, path, which)).collect())
        }
        Value::Object(fields) => {
            let mut new = serde_json::Map::new();
            for (key, v) in fields {
                path.push('.');
                path.push_str(key);
                new.insert(key.clone(), changed(v, path, which));
                path.truncate(length);
            }
            Value::Object(new)
        }
        other => other.clone(),
    };
    path.truncate(length);
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_text_is_named_once() {
        let value = json!({ "a": "x", "b": [{ "c": "y" }, { "c": "z", "n": 1 }] });
        let mut kinds = Vec::new();
        each_text(&value, &mut String::new(), &mut |kind, text| kinds.push(format!("{kind} {text}")));
        assert_eq!(kinds, [".a x", ".b[].c y", ".b[].c z"]);
    }

    #[test]
    fn only_the_named_texts_change() {
        let value = json!({ "a": "x", "b": ["y", 1] });
        let new = changed(&value, &mut String::new(), &|k| k == ".b[]");
        assert_eq!(new["a"], "x");
        assert_eq!(new["b"][0], format!("{HOSTILE}y"));
        assert_eq!(new["b"][1], 1);
    }

    #[test]
    fn a_hostile_record_has_markup_in_all_that_is_free_and_keeps_its_charts() {
        let run = Run::from_json(include_bytes!("../../../../web/tests/softmax.json")).unwrap();
        let hostile = Run::from_json(record(&run).unwrap().as_bytes()).unwrap();
        let problem = hostile.main_problem().unwrap();
        let texts = [&problem.id, &problem.label, &problem.short, &problem.sweep.as_ref().unwrap().line];
        let more =
            [&hostile.title, &hostile.experiment, hostile.author.as_ref().unwrap(), &hostile.descriptor.axis.caption];
        for text in texts.into_iter().chain(more) {
            assert!(text.starts_with(HOSTILE), "{text}");
        }
        assert!(hostile.rungs.iter().all(|r| r.id.starts_with(HOSTILE) && r.title.starts_with(HOSTILE)));
        let d = |run: &Run| (run.descriptor.headline, run.descriptor.charts.clone(), run.descriptor.columns.clone());
        assert_eq!(d(&hostile), d(&run));
        assert_eq!(hostile.ladder(problem).len(), run.ladder(run.main_problem().unwrap()).len());
        assert!(hostile.fastest(problem).is_some());
    }
}
