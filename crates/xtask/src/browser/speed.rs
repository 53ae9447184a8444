//! A reader's waiting times: figures for the README, with limits so generous that only a serious fault exceeds them on
//! a busy machine.

use super::{READY, Stage, window};
use crate::drivers::webdriver::Browser;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The size of a large record in bytes.
const LARGE: usize = 10_000_000;
/// The size in bytes of a record in a class.
const OF_A_CLASS: usize = 600_000;
/// A script that notes the time of the first chart, in milliseconds since the page was requested.
const WATCH: &str = "
    new MutationObserver((_, watch) => {
        if (!document.querySelector('#panel svg')) return;
        watch.disconnect();
        requestAnimationFrame(() => setTimeout(() => { window.__chart = performance.now(); }));
    }).observe(document, { childList: true, subtree: true });";

/// Writes the records to measure: one of [`LARGE`] and one of [`OF_A_CLASS`] bytes.
pub fn records(text: &str, folder: &Path) -> Result<()> {
    for (name, bytes) in [("large", LARGE), ("of-a-class", OF_A_CLASS)] {
        crate::workspace::write_atomic(&folder.join(format!("{name}.json")), grown(text, bytes)?)?;
    }
    Ok(())
}

/// The number of samples of each measurement in an enlarged record.
const SAMPLES: usize = 250;

/// Returns the record enlarged to this many bytes, by more samples and by measurements at further problems, up to the
/// page's limit of 200.
fn grown(text: &str, bytes: usize) -> Result<String> {
    let mut record: Value = serde_json::from_str(text)?;
    let is_small = record.to_string().len() < bytes;
    for m in record["measurements"].as_array_mut().into_iter().flatten().filter(|_| is_small) {
        let Some(times) = m["samples_us"].as_array().filter(|t| !t.is_empty()) else { continue };
        m["samples_us"] = times.iter().cycle().take(SAMPLES).cloned().collect();
        m["samples_total"] = SAMPLES.into();
    }
    let all = record["measurements"].as_array().context("the record has no measurements")?.clone();
    let each: usize = all.iter().map(|m| m.to_string().len() + 1).sum();
    let mut length = record.to_string().len();
    let mut copies = Vec::new();
    'grow: for copy in 1.. {
        for m in &all {
            if length >= bytes {
                break 'grow;
            }
            let mut m = m.clone();
            // A problem is given by its id or as an object with an id.
            let id = if m["problem"].is_string() { &mut m["problem"] } else { &mut m["problem"]["id"] };
            *id = format!("{} {copy}", id.as_str().unwrap_or_default()).into();
            length += m.to_string().len() + 1;
            copies.push((copy, m));
        }
        ensure!(each > 0, "the record's measurements are empty");
    }
    let last = copies.last().map_or(0, |c| c.0);
    if let Some(problems) = record["problems"].as_array_mut() {
        for (copy, problem) in
            (1..=last).flat_map(|c| problems.clone().into_iter().map(move |p| (c, p))).collect::<Vec<_>>()
        {
            let mut problem = problem;
            problem["id"] = format!("{} {copy}", problem["id"].as_str().unwrap_or_default()).into();
            problem["label"] = format!("{} {copy}", problem["label"].as_str().unwrap_or_default()).into();
            problems.push(problem);
        }
    }
    if let Some(measurements) = record["measurements"].as_array_mut() {
        measurements.extend(copies.into_iter().map(|c| c.1));
    }
    Ok(record.to_string())
}

fn chart(browser: &Browser, url: &str) -> Result<f64> {
    browser.open("about:blank")?;
    browser.open(url)?;
    browser.wait_until("a chart", "window.__chart !== undefined", READY)?;
    Ok(browser.eval("return window.__chart;")?.as_f64().unwrap_or(f64::INFINITY) / 1e3)
}

/// Runs a script and returns the seconds until a condition holds on screen.
fn until(browser: &Browser, script: &str, holds: &str) -> Result<f64> {
    let ms = browser.eval(&format!(
        "const begin = performance.now();
         {script}
         return new Promise((done) => {{
            const look = () => {{
                if ({holds} || performance.now() - begin > 30_000) return setTimeout(() => done(performance.now() - begin));
                requestAnimationFrame(look);
            }};
            look();
         }});"
    ))?;
    Ok(ms.as_f64().unwrap_or(f64::INFINITY) / 1e3)
}

/// Measures the first chart, a large record with its table, and thirty records at once.
pub fn measured(browser: &Browser, stage: &Stage) -> Result<()> {
    window(browser, 1440, 900, false)?;
    browser.at_start(WATCH)?;
    let first = chart(browser, &stage.record)?;
    let large = chart(browser, &format!("{}?src=test/large.json", stage.page))?;
    let table = until(
        browser,
        "document.getElementById('tab-table').click();",
        "document.querySelector('#panel table tbody tr')",
    )?;
    browser.open(&stage.page)?;
    browser.wait_until("the page", "document.querySelector('.cards')", READY)?;
    browser.eval(
        "return fetch('test/of-a-class.json').then((r) => r.text()).then((text) => {
            window.__files = new DataTransfer();
            const record = JSON.parse(text);
            for (let i = 0; i < 30; i++) {
                record.author = `Learner ${i + 1}`;
                window.__files.items.add(new File([JSON.stringify(record)], `${i}.json`));
            }
        });",
    )?;
    let class = until(
        browser,
        "for (const kind of ['dragenter', 'dragover', 'drop'])
            document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: window.__files, bubbles: true, cancelable: true }));",
        "document.querySelectorAll('#ranking tbody tr').length >= 30",
    )?;
    let figures = [
        ("first chart", first, 0.6),
        ("first chart of a record of 10 MB", large, 1.2),
        ("its table", table, 0.5),
        ("30 records of 0.6 MB as a class board", class, 1.0),
    ];
    let lines: Vec<String> =
        figures.iter().map(|(what, s, goal)| format!("{what}: {s:.2} s (goal {goal} s)")).collect();
    println!("{}", lines.join("\n"));
    fs::write(stage.shots.join("speed.txt"), lines.join("\n") + "\n")?;
    for (what, s, goal) in figures {
        ensure!(s < 10.0 * goal, "{what} takes {s:.2} s, ten times what it should");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_record::Run;

    #[test]
    fn a_grown_record_is_a_record_of_that_size() {
        let text = include_str!("../../../../web/tests/softmax.json");
        let small = Run::from_json(text.as_bytes()).unwrap();
        let large = grown(text, OF_A_CLASS).unwrap();
        assert!((OF_A_CLASS..OF_A_CLASS * 2).contains(&large.len()), "{}", large.len());
        let run = Run::from_json(large.as_bytes()).unwrap();
        assert!(run.measurements.len() > small.measurements.len());
        assert!((small.problems().len()..200).contains(&run.problems().len()), "{}", run.problems().len());
        assert_eq!(run.experiment, small.experiment);
    }
}
