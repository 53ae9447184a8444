//! JupyterLab: starting it, trusting notebooks, and checking lessons without trust.

use crate::drivers::webdriver::Browser;
use crate::lab::go_on;
use crate::process::{Guard, is_root, log_file, run_logged};
use crate::site::serve::free_port;
use crate::steps::{Report, say, seconds};
use crate::tools::python::Venv;
use crate::workspace::{Workspace, replace_dir, write_atomic};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

const START: Duration = Duration::from_secs(90);
/// The time limit for a lesson's charts to appear.
const SHOWN: Duration = Duration::from_secs(90);
/// The checked lessons: all have charts and tables, the first also has differences between kernels, and the second also
/// has images.
const LOOKED_AT: [&str; 3] = ["20_matmul_ladder", "31_mnist_cnn", "41_memory"];
/// Environment variables for the folders in which Jupyter keeps a user's state.
const STATE: [(&str, &str); 5] = [
    ("JUPYTER_DATA_DIR", "data"),
    ("JUPYTER_CONFIG_DIR", "config"),
    ("JUPYTER_RUNTIME_DIR", "runtime"),
    ("JUPYTERLAB_SETTINGS_DIR", "settings"),
    ("JUPYTERLAB_WORKSPACES_DIR", "workspaces"),
];

/// Environment variables for a program.
type Variables = [(&'static str, PathBuf)];

/// A running JupyterLab.
pub struct Jupyter {
    /// The server's process.
    pub process: Guard,
    /// The address that opens JupyterLab, with the token.
    pub url: String,
    /// The file with the server's output.
    pub log: PathBuf,
}

impl Jupyter {
    /// Starts JupyterLab on a folder of notebooks; its address opens one of them.
    pub fn start(
        w: &Workspace,
        venv: &Venv,
        port: u16,
        folder: &Path,
        notebook: Option<&str>,
        variables: &Variables,
    ) -> Result<Self> {
        use std::os::unix::process::CommandExt;
        say("Starting JupyterLab (a few seconds)");
        let port = free_port(port)?;
        let token = token()?;
        let log = w.log("jupyter");
        let file = log_file(&log)?;
        let mut c = venv.run_python();
        c.args(["-m", "jupyterlab", "--no-browser", "--ServerApp.ip=127.0.0.1", "--ServerApp.port_retries=0"]);
        c.arg(format!("--ServerApp.port={port}")).arg(format!("--ServerApp.root_dir={}", folder.display()));
        c.arg("--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate");
        if is_root() {
            c.arg("--allow-root");
        }
        // The token is not on the command line, where other users could read it.
        c.env("JUPYTER_TOKEN", &token).envs(variables.iter().cloned()).current_dir(folder);
        // In its own process group, JupyterLab does not get Ctrl-C from the terminal, which would make it ask for
        // confirmation.
        c.process_group(0).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let mut process = Guard::new(c.spawn().context("JupyterLab cannot be started")?);
        let agent: ureq::Agent =
            ureq::Agent::config_builder().proxy(None).timeout_global(Some(Duration::from_secs(5))).build().into();
        let status = format!("http://127.0.0.1:{port}/api/status?token={token}");
        let begin = Instant::now();
        while agent.get(&status).call().is_err() {
            go_on()?;
            if let Some(status) = process.child().try_wait()? {
                bail!("JupyterLab did not start ({status}): see {}", w.show(&log));
            }
            if begin.elapsed() > START {
                bail!("JupyterLab did not answer within {}: see {}", seconds(START), w.show(&log));
            }
            thread::sleep(Duration::from_millis(200));
        }
        let place = notebook.map_or_else(String::new, |n| format!("/tree/{n}"));
        Ok(Self { process, url: format!("http://127.0.0.1:{port}/lab{place}?token={token}"), log })
    }
}

/// Signs notebooks like `jupyter trust`, since JupyterLab shows outputs unchanged only for trusted notebooks.
pub fn trust(w: &Workspace, venv: &Venv, variables: &Variables, notebooks: &[PathBuf]) -> Result<()> {
    let mut sign = venv.run_python();
    sign.args(["-m", "nbformat.sign"]).args(notebooks).envs(variables.iter().cloned());
    run_logged(&mut sign, &w.log("jupyter-trust"), Duration::from_secs(300))
}

/// Opens the committed lessons as a reader who has run no cell, as a step of `cargo xtask test`.
pub fn check(w: &Workspace) -> Result<Report> {
    let venv = Venv::ensure(w)?;
    venv.ensure_jupyter(w)?;
    let home = w.target.join("xtask/jupyter");
    // This user has no signatures. The check opens copies, since opening a notebook writes files next to it.
    replace_dir(&home, |home| {
        // By default, JupyterLab does not render cells out of sight.
        let settings = home.join("settings/@jupyterlab/notebook-extension/tracker.jupyterlab-settings");
        write_atomic(&settings, "{\"windowingMode\": \"none\"}")?;
        // If no kernel is allowed, JupyterLab starts none.
        let config = "{\"KernelSpecManager\": {\"allowed_kernelspecs\": [\"none\"]}}";
        write_atomic(&home.join("config/jupyter_server_config.json"), config)?;
        for lesson in LOOKED_AT {
            let file = format!("notebooks/{lesson}.ipynb");
            write_atomic(&home.join(&file), fs::read(w.path(&file))?)?;
        }
        Ok(())
    })?;
    let variables = STATE.map(|(name, folder)| (name, home.join(folder)));
    let folder = home.join("notebooks");
    let mut jupyter = Jupyter::start(w, &venv, 0, &folder, Some("LESSON.ipynb"), &variables)?;
    let browser = Browser::chromium(w)?;
    let mut report = Report::default();
    let mut charts = 0;
    for lesson in LOOKED_AT {
        let file = folder.join(format!("{lesson}.ipynb"));
        let url = format!("{}&reset", jupyter.url.replace("LESSON", lesson));
        match untrusted(&browser, &url, &file).and_then(|n| {
            trust(w, &venv, &variables, std::slice::from_ref(&file))?;
            browser.open(&url)?;
            browser.wait_until("the style of outputs in a signed lesson", &found("style"), SHOWN)?;
            Ok(n)
        }) {
            Ok(n) => (report.passed, charts) = (report.passed + 1, charts + n),
            Err(e) => {
                report.failed += 1;
                report.errors.push(format!("{lesson} in JupyterLab: {e:#}"));
                browser.screenshot(&w.target.join(format!("xtask/{lesson}.png")))?;
            }
        }
    }
    jupyter.process.stop(Duration::from_secs(15));
    report.note = format!("{charts} charts in lessons that are not trusted");
    Ok(report)
}

/// Returns a JavaScript expression that finds a selector in the outputs.
fn found(selector: &str) -> String {
    format!("document.querySelector('.jp-RenderedHTML {selector}')")
}

/// Opens an untrusted lesson and checks that all of its charts are shown; returns their number.
fn untrusted(browser: &Browser, url: &str, lesson: &Path) -> Result<u64> {
    let expected = charts_in_sight(&serde_json::from_str(&fs::read_to_string(lesson)?)?);
    ensure!(expected > 2, "it has {expected} charts that are not collapsed");
    browser.open(url)?;
    let drawn = "[...document.querySelectorAll('.jp-RenderedHTML img[src^=\"data:image/svg+xml\"]')].filter((i) => \
                 i.complete && i.naturalWidth > 300 && i.width > 300 && i.alt.length > 40).length";
    browser.wait_until(&format!("the last of {expected} charts"), &format!("{drawn} === {expected}"), SHOWN)?;
    let holds = |what: &str, expression: &str| -> Result<()> {
        ensure!(browser.eval(&format!("return !!({expression});"))? == true, "{what}");
        Ok(())
    };
    holds("it is trusted, so this shows nothing", &format!("!{}", found("style")))?;
    holds(
        "an output has no text",
        "[...document.querySelectorAll('.jp-RenderedHTML')].every((o) => o.innerText.trim())",
    )?;
    let collapsed = "[...document.querySelectorAll('.jp-OutputPlaceholder')].map((o) => o.innerText)";
    holds("a collapsed output shows its HTML", &format!("{collapsed}.every((text) => !text.includes('<div'))"))?;
    let lines = |class: &str| format!("[...document.querySelectorAll('.jp-RenderedHTML .{class}')]");
    let numbered = format!("{}.every((n) => /^[+−]?\\s*\\d*\\s*$/.test(n.textContent))", lines("wb-n"));
    holds("a line of code has no number", &numbered)?;
    let marked = |class: &str, mark: &str| format!("{}.every((l) => l.textContent.startsWith('{mark}'))", lines(class));
    holds("a new line is not marked", &marked("wb-add", "+"))?;
    holds("a line that is gone is not marked", &marked("wb-del", "−"))?;
    Ok(expected)
}

/// Returns the number of charts in a notebook's outputs that are not collapsed.
fn charts_in_sight(notebook: &Value) -> u64 {
    let cells = notebook["cells"].as_array().into_iter().flatten();
    let open = cells.filter(|c| c["metadata"]["jupyter"]["outputs_hidden"] != true);
    let outputs = open.flat_map(|c| c["outputs"].as_array().into_iter().flatten());
    let charts = |output: &Value| output["data"]["text/html"].to_string().matches("data:image/svg+xml").count() as u64;
    outputs.map(charts).sum()
}

/// Returns 24 random bytes in hexadecimal.
fn token() -> Result<String> {
    let mut bytes = [0_u8; 24];
    let mut source = fs::File::open("/dev/urandom").context("/dev/urandom cannot be read")?;
    source.read_exact(&mut bytes).context("/dev/urandom cannot be read")?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ() {
        let (a, b) = (token().unwrap(), token().unwrap());
        assert_eq!(a.len(), 48);
        assert_ne!(a, b);
    }

    #[test]
    fn collapsed_charts_are_not_counted() {
        let output = serde_json::json!({ "data": { "text/html": ["<img src=\"data:image/svg+xml;base64,", "\">"] } });
        let cell = |hidden: bool| serde_json::json!({ "metadata": { "jupyter": { "outputs_hidden": hidden } }, "outputs": [output, output] });
        let notebook = serde_json::json!({ "cells": [cell(true), cell(false), { "cell_type": "markdown" }] });
        assert_eq!(charts_in_sight(&notebook), 2);
    }
}
