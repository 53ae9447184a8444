//! Checks every view with axe-core, whose rules help users of screen readers.

use super::{READY, SOON, Stage, scheme, window};
use crate::drivers::webdriver::Browser;
use crate::tools::npm;
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};

use std::fs;
use std::time::Duration;

/// The npm package of axe-core with its hash in the registry.
const AXE: npm::Package = npm::Package {
    name: "axe-core",
    version: "4.14.1",
    integrity: "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
};
/// Script that returns axe-core's findings on the page, one per line: the rule, its requirement, and the first elements
/// that break it.
const FINDINGS: &str = "
    return axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.map((v) =>
        `${v.id} (${v.help}) ` + v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 160)} [${n.any.concat(n.all, n.none).map((c) => c.message).join(' ').slice(0, 200)}]`).join(' | ')));";

/// Returns axe-core's script, or the reason why npm cannot load it.
pub fn script(w: &Workspace) -> Result<std::result::Result<String, String>> {
    Ok(match npm::ensure(w, &AXE)? {
        Ok(folder) => Ok(fs::read_to_string(folder.join("axe.min.js")).context("axe-core has no axe.min.js")?),
        Err(why) => Err(why),
    })
}

/// A step on an open page: its action and the condition to wait for, both in JavaScript.
type Step = (&'static str, &'static str);

/// The views: a name, the query of the address, and the steps.
const VIEWS: &[(&str, &str, &[Step])] = &[
    ("all records", "", &[]),
    ("pasting", "", &[("document.querySelector('.paste summary').click();", "document.getElementById('paste')")]),
    ("a run's ladder", "RECORD", &[]),
    (
        "a tooltip",
        "RECORD",
        &[("document.querySelector('#panel svg [data-value]').focus();", "document.querySelector('.tip')")],
    ),
    (
        "the share menu",
        "RECORD",
        &[("document.querySelector('.pass-on summary').click();", "document.querySelector('.pass-on').open")],
    ),
    ("sweep", "RECORD&tab=sweep", &[]),
    ("heat map", "record=matmul-h200.json&tab=heatmap", &[]),
    ("roofline", "RECORD&tab=roofline", &[]),
    ("operations", "RECORD&tab=operations", &[]),
    ("losses", "RECORD&tab=loss", &[]),
    ("table", "RECORD&tab=table", &[]),
    ("environment", "RECORD&tab=environment", &[]),
    ("a rung's panel", "RECORD&tab=source", &[]),
    ("a rung's whole source", "RECORD&tab=source&code=source", &[]),
    ("comparison", "src=test/good.json&src=test/softmax.json", &[]),
    ("class board", "src=test/class/&view=board", &[]),
    ("timeline", "src=test/traced.json&tab=operations", &[]),
    (
        "report",
        "RECORD",
        &[
            (
                "[...document.querySelectorAll('button')].find((b) => b.textContent.trim() === 'Add to report').click();",
                "document.querySelector('#show-report')",
            ),
            ("document.querySelector('#show-report').click();", "document.querySelector('.item img')"),
        ],
    ),
    ("a question about another site", "src=https://records.invalid/a.json", &[]),
    ("a record that cannot be read", "src=test/half.json", &[]),
];

/// Checks all views at both widths and in both themes.
pub fn check(browser: &Browser, stage: &Stage) -> Result<()> {
    let mut found: Vec<String> = Vec::new();
    for (name, query, steps) in VIEWS {
        window(browser, 1440, 900, false)?;
        scheme(browser, "light")?;
        let own = stage.record.strip_prefix(&format!("{}?", stage.page)).unwrap_or_default();
        browser.open("about:blank")?;
        browser.open(&format!("{}?{}", stage.page, query.replace("RECORD", own)))?;
        browser.wait_until(
            name,
            "document.body.dataset.warpbookReady !== undefined && document.querySelector('main')",
            READY,
        )?;
        for (script, then) in *steps {
            browser.eval(script)?;
            browser.wait_until(name, then, SOON)?;
        }
        browser.eval(&stage.axe)?;
        // Colours in transition between themes would cause false findings.
        browser.eval(
            "document.head.append(Object.assign(document.createElement('style'), \
             { textContent: '* { transition: none !important; animation: none !important; }' }));",
        )?;
        for (width, height, is_phone) in [(1440, 900, false), (360, 740, true)] {
            for theme in ["light", "dark"] {
                scheme(browser, theme)?;
                window(browser, width, height, is_phone)?;
                std::thread::sleep(Duration::from_millis(50));
                let findings: Vec<String> = serde_json::from_value(browser.eval(FINDINGS)?)?;
                for finding in findings {
                    let line = format!("{name} at {width} px, {theme}: {finding}");
                    println!("{line}");
                    found.push(line);
                }
            }
        }
    }
    ensure!(found.is_empty(), "axe-core finds {}: {}", found.len(), found.join("\n"));
    Ok(())
}
