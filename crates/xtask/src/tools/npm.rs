//! npm packages for the checks, in exact versions.

use crate::process::{command, on_path, run_logged};
use crate::steps::say;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// A package without dependencies.
#[derive(Debug)]
pub struct Package {
    /// The package's name.
    pub name: &'static str,
    /// The package's version.
    pub version: &'static str,
    /// The hash in the registry; different contents are refused.
    pub integrity: &'static str,
}

/// Returns the folder of a package, fetched if necessary, or the reason why it cannot be fetched.
pub fn ensure(w: &Workspace, package: &Package) -> Result<std::result::Result<PathBuf, String>> {
    let Package { name, version, integrity } = package;
    let root = w.target.join(format!("xtask/npm/{name}-{version}"));
    let (folder, installed) = (root.join("node_modules").join(name), root.join("node_modules/.package-lock.json"));
    if !installed.exists() {
        if !w.may_install {
            return Ok(Err(format!("{name} is not here, and nothing may be installed")));
        }
        let Some(npm) = on_path("npm") else {
            return Ok(Err(format!("{name} comes by npm, which is not installed (on Debian: apt-get install npm)")));
        };
        say(&format!("Fetching {name} {version} with npm (a few seconds)"));
        fs::create_dir_all(&root).with_context(|| format!("{} cannot be made", root.display()))?;
        let mut fetch = command(npm);
        fetch.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--prefix"]).arg(&root);
        fetch.arg(format!("{name}@{version}"));
        let log = w.log("npm");
        if let Err(e) = run_logged(&mut fetch, &log, Duration::from_secs(120)) {
            return Ok(Err(format!("npm could not fetch {name} ({e}): see {}", w.show(&log))));
        }
    }
    let lock: Value =
        serde_json::from_slice(&fs::read(&installed).context("npm wrote no list of installed packages")?)?;
    let got = &lock["packages"][format!("node_modules/{name}")]["integrity"];
    if got != integrity {
        let _ = fs::remove_dir_all(&root);
        bail!("npm's {name} {version} has the hash {got}, not {integrity}");
    }
    Ok(Ok(folder))
}
