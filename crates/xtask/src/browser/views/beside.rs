//! Checks of a reader's record next to the published one.

use crate::browser::{Stage, fits, no_errors, open_ready, window};
use crate::drivers::webdriver::Browser;
use crate::publish;
use crate::workspace::{Workspace, write_atomic};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Lays out the page as `cargo xtask lab` does, with a record of the same GPU as the published one, but slower.
pub fn own_lab(w: &Workspace, page: &Path, folder: &Path) -> Result<()> {
    for file in ["index.html", "style.css", "warpbook.js", "warpbook_bg.wasm"] {
        write_atomic(&folder.join(file), fs::read(page.join(file))?)?;
    }
    let published = publish::records(w)?;
    let first = published.first().context("data/results holds no record")?;
    let mut own: Value = serde_json::from_str(&first.text)?;
    own["environment"]["device"]["name"] = "NVIDIA T4".into();
    for m in own["measurements"].as_array_mut().into_iter().flatten() {
        let times: Vec<f64> = m["samples_us"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        m["samples_us"] = times.iter().map(|us| us * 1.5).collect();
    }
    let mut records = vec![publish::Record::new("fresh-own.json", own.to_string())?];
    crate::lab::put_beside(&mut records, &published);
    records.extend(published);
    write_atomic(&folder.join("data/index.json"), publish::index(&records).to_string())?;
    records.iter().try_for_each(|r| write_atomic(&folder.join("data").join(&r.file), &r.text))
}

/// The sections of the landing page in their order.
const SECTIONS: [&str; 4] = ["Your records", "Experiments", "Guide: two ways to do the same work", "Training runs"];

/// Checks that one's own records come first, and that the comparison shows its verdict in a sentence, on a desktop and on a phone.
pub fn shown(browser: &Browser, stage: &Stage) -> Result<()> {
    for (width, height, is_phone) in [(1440, 900, false), (360, 740, true), (320, 700, true)] {
        window(browser, width, height, is_phone)?;
        open_ready(browser, &stage.page.replace("sub%20path", "lab"))?;
        let said = browser.eval(
            "const cards = [...document.querySelectorAll('.pair .card .made')].map((e) => e.textContent);
             return [document.querySelector('.pair .beside')?.textContent, cards.length, document.querySelectorAll('.card').length
                 - document.querySelectorAll('.pair .card').length, cards[0]?.includes('NVIDIA T4'), cards[1]?.includes('NVIDIA T4')];",
        )?;
        let verdict = said[0].as_str().unwrap_or_default();
        ensure!(
            verdict.starts_with("On your NVIDIA T4, “On the chip” ")
                && verdict.contains("takes 1.50× as long as on the published NVIDIA "),
            "the verdict is {said}"
        );
        let sections =
            browser.eval("return [...document.querySelectorAll('.overview h2')].map((e) => e.textContent);")?;
        ensure!(sections == serde_json::json!(SECTIONS), "the sections are {sections}");
        ensure!(said[1] == 2 && said[2] != 0 && said[3] == true && said[4] == false, "the pair is {said}");
        fits(browser, "the page", width)?;
        browser.screenshot(&stage.shots.join(format!("page-beside-{width}.png")))?;
    }
    no_errors(browser)
}
