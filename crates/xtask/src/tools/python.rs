//! Python, and the environment `.venv` for Jupyter and NVRTC.

use crate::process::{command, on_path, output, run_logged};
use crate::steps::say;
use crate::tools::apt;
use crate::workspace::{Workspace, write_atomic};
use anyhow::{Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const REQUIREMENTS: &str = include_str!("../../requirements.txt");
/// The oldest version that JupyterLab supports.
const OLDEST: (u32, u32) = (3, 10);
const STAMP: &str = "warpbook-requirements.txt";

/// The Python environment at `.venv`.
#[derive(Debug, Clone)]
pub struct Venv {
    /// The folder of the environment.
    pub dir: PathBuf,
}

impl Venv {
    /// Returns the environment; creates it, with only pip, if it is missing or broken.
    pub fn ensure(w: &Workspace) -> Result<Self> {
        let venv = Self { dir: w.path(".venv") };
        if venv.works() {
            return Ok(venv);
        }
        if !w.may_install {
            bail!("The Python environment .venv is missing: run without --no-install to make it");
        }
        let python = system(w)?;
        if venv.dir.exists() {
            if !venv.dir.join("pyvenv.cfg").exists() {
                bail!("{} is in the way and is not a Python environment: move it elsewhere", venv.dir.display());
            }
            fs::remove_dir_all(&venv.dir)?;
        }
        say("Making a Python environment in .venv (about 10 s)");
        let log = w.log("venv");
        let mut make = command(&python);
        // The interpreter must not come from another active environment.
        make.args(["-m", "venv"]).arg(&venv.dir).env_remove("PYTHONHOME").env_remove("PYTHONPATH");
        if run_logged(&mut make, &log, Duration::from_secs(300)).is_err() || !venv.works() {
            bail!("Python could not make an environment in .venv: see {}", w.show(&log));
        }
        Ok(venv)
    }

    /// Returns true if the environment's interpreter runs and reports this environment.
    fn works(&self) -> bool {
        let prefix = output(command(self.python()).args(["-c", "import sys; print(sys.prefix)"]));
        prefix.is_some_and(|p| Path::new(&p) == self.dir)
    }

    /// Returns the path of the environment's interpreter.
    pub fn python(&self) -> PathBuf {
        self.dir.join("bin/python")
    }

    /// Returns a command for the environment's interpreter, which sees only the environment's packages.
    pub fn run_python(&self) -> Command {
        let mut c = command(self.python());
        c.env("VIRTUAL_ENV", &self.dir).env("JUPYTER_PREFER_ENV_PATH", "1").env("PYTHONNOUSERSITE", "1");
        c.env_remove("PYTHONHOME").env_remove("PYTHONPATH").env_remove("JUPYTER_PATH");
        c
    }

    /// Installs packages with pip.
    pub fn install(&self, w: &Workspace, arguments: &[&str], what: &str, takes: &str) -> Result<()> {
        if !w.may_install {
            bail!("{what} is missing from .venv: run without --no-install to install it");
        }
        say(&format!("Installing {what} into .venv with pip ({takes})"));
        let log = w.log("pip");
        let mut pip = self.run_python();
        pip.args(["-m", "pip", "install", "--no-input", "--disable-pip-version-check"]).args(arguments);
        if run_logged(&mut pip, &log, Duration::from_secs(1200)).is_err() {
            bail!(
                "pip could not install {what}: it needs the network (PIP_INDEX_URL names a mirror), and its output is in {}",
                w.show(&log)
            );
        }
        Ok(())
    }

    /// Installs JupyterLab and the programs that execute notebooks, in the versions from `requirements.txt`.
    pub fn ensure_jupyter(&self, w: &Workspace) -> Result<()> {
        let stamp = self.dir.join(STAMP);
        if fs::read_to_string(&stamp).is_ok_and(|t| t == REQUIREMENTS) {
            return Ok(());
        }
        let packages = packages(REQUIREMENTS);
        self.install(w, &packages, "JupyterLab", "about 1 minute")?;
        write_atomic(&stamp, REQUIREMENTS)
    }
}

/// Returns the requirements without comments.
fn packages(requirements: &str) -> Vec<&str> {
    requirements.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')).collect()
}

/// Returns the path of a Python that can create environments.
fn system(w: &Workspace) -> Result<PathBuf> {
    const REMEDY: &str =
        "Python 3.10 or later is missing: install it (on Debian: apt-get install python3 python3-venv)";
    if on_path("python3").is_none() {
        apt::install(w, &["python3", "python3-venv"], "about 1 minute", REMEDY)?;
    }
    let Some(python) = on_path("python3") else { bail!(REMEDY) };
    let version = output(command(&python).args(["-c", "import sys; print(*sys.version_info[:2])"]));
    match version.as_deref().and_then(parse_version) {
        Some(v) if v >= OLDEST => {}
        Some((major, minor)) => bail!("Python {major}.{minor} is too old for JupyterLab: install Python 3.10 or later"),
        None => bail!(REMEDY),
    }
    let has_venv = || output(command(&python).args(["-c", "import venv, ensurepip"])).is_some();
    if !has_venv() {
        let remedy = "Python's venv module is missing: install it (on Debian: apt-get install python3-venv)";
        apt::install(w, &["python3-venv"], "about 1 minute", remedy)?;
        if !has_venv() {
            bail!(remedy);
        }
    }
    Ok(python)
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(' ')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_name_exact_versions() {
        let all = packages(REQUIREMENTS);
        assert!(all.iter().any(|p| p.starts_with("jupyterlab==")));
        assert!(all.iter().all(|p| p.split_once("==").is_some_and(|(_, v)| !v.contains('*'))), "{all:?}");
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(parse_version("3 9") < Some(OLDEST));
        assert!(parse_version("3 13") > Some(OLDEST));
        assert_eq!(parse_version("three"), None);
    }
}
