//! The Rust kernel for Jupyter: evcxr, and its entry in `.venv`.

use crate::process::{command, is_executable, on_path, run_logged};
use crate::steps::say;
use crate::tools::python::Venv;
use crate::workspace::{Workspace, write_atomic};
use anyhow::{Result, bail};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

const VERSION: &str = "0.22.0";
/// Settings for compiling evcxr. They do not affect rustc, which is what a reader of a notebook mostly waits for, so
/// full optimisation of evcxr would mainly lengthen its installation.
const SETTINGS: [(&str, &str); 4] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "false"),
];
const WRAPPER: &str = include_str!("kernel.py");

/// Returns the path of evcxr's program; installs it if it is missing.
pub fn ensure(w: &Workspace) -> Result<PathBuf> {
    if let Some(found) = find() {
        return Ok(found);
    }
    let by_hand = format!("cargo install --locked evcxr_jupyter --version {VERSION}");
    if !w.may_install {
        bail!("The Rust kernel for Jupyter is missing: install it with `{by_hand}`");
    }
    say(&format!("Installing evcxr {VERSION}, the Rust kernel for Jupyter (built from source, about 10 minutes)"));
    let log = w.log("evcxr");
    let install = |locked: bool| {
        let mut c = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // Cargo runs outside the checkout, whose settings do not apply to evcxr.
        c.current_dir(std::env::temp_dir()).arg("install").args(locked.then_some("--locked"));
        c.args(["evcxr_jupyter", "--version", VERSION]).envs(SETTINGS);
        run_logged(&mut c, &log, Duration::from_secs(2400))
    };
    // A release's lock file may name a crate that later compilers refuse.
    if install(true).is_err() && install(false).is_err() {
        bail!("evcxr could not be installed: run `{by_hand}` by hand; its output is in {}", w.show(&log));
    }
    match find() {
        Some(found) => Ok(found),
        None => bail!("evcxr was installed, but not into a folder on PATH: add Cargo's bin folder to PATH"),
    }
}

/// Returns the user's Cargo folder.
pub fn cargo_home() -> Option<PathBuf> {
    let named = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    named.or_else(|| std::env::var_os("HOME").map(|h| Path::new(&h).join(".cargo")))
}

fn find() -> Option<PathBuf> {
    let in_home = cargo_home().map(|h| h.join("bin/evcxr_jupyter"));
    on_path("evcxr_jupyter").or_else(|| in_home.filter(|f| is_executable(f)))
}

/// Registers the kernel in the environment under the name `rust`.
pub fn register(w: &Workspace, venv: &Venv, evcxr: &Path) -> Result<()> {
    let folder = venv.dir.join("share/jupyter/kernels/rust");
    let wrapper = folder.join("kernel.py");
    write_atomic(&wrapper, WRAPPER)?;
    let spec = kernel_spec(&venv.python(), &wrapper, evcxr, &w.target.join("evcxr"));
    write_atomic(&folder.join("kernel.json"), serde_json::to_string_pretty(&spec)? + "\n")
}

fn kernel_spec(python: &Path, wrapper: &Path, evcxr: &Path, builds: &Path) -> serde_json::Value {
    json!({
        "argv": [python, wrapper, evcxr, builds, "{connection_file}"],
        "display_name": "Rust",
        "language": "rust",
        "interrupt_mode": "message",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};

    /// Creates a stand-in for evcxr that prints its build folder and keeps running for a while.
    fn stand_in(dir: &Path) -> (PathBuf, PathBuf) {
        let (evcxr, wrapper) = (dir.join("evcxr"), dir.join("kernel.py"));
        write_atomic(&evcxr, "#!/bin/sh\necho \"$EVCXR_TMPDIR $*\"\nread line\n").unwrap();
        fs::set_permissions(&evcxr, fs::Permissions::from_mode(0o755)).unwrap();
        write_atomic(&wrapper, WRAPPER).unwrap();
        (evcxr, wrapper)
    }

    #[test]
    fn two_kernels_build_in_two_folders() {
        use std::io::{BufRead, BufReader};
        let tmp = tempfile::tempdir().unwrap();
        let (evcxr, wrapper) = stand_in(tmp.path());
        let start = || {
            let mut child = Command::new("python3")
                .args([&wrapper, &evcxr, &tmp.path().join("builds")])
                .arg("connection.json")
                .env_remove("WARPBOOK_EVCXR_DIR")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            (child, line.trim().to_owned())
        };
        let folder = |slot: u32| {
            format!("{} --control_file connection.json", tmp.path().join(format!("builds/{slot}")).display())
        };
        let (mut first, one) = start();
        let (mut second, two) = start();
        assert_eq!((one, two), (folder(0), folder(1)));
        drop(first.stdin.take());
        first.wait().unwrap();
        let (mut third, again) = start();
        assert_eq!(again, folder(0), "a kernel that ended gives its folder back");
        let ends_soon = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(1));
            drop(third.stdin.take());
            third.wait().unwrap();
        });
        let (mut third, again) = start();
        ends_soon.join().unwrap();
        assert_eq!(again, folder(0), "a new kernel waits for one that is about to end");
        for child in [&mut second, &mut third] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }

    #[test]
    fn what_is_not_optimised_is_a_package_that_notebooks_build() {
        let tmp = tempfile::tempdir().unwrap();
        let (evcxr, wrapper) = stand_in(tmp.path());
        let builds = tmp.path().join("builds");
        let mut kernel = Command::new("python3");
        kernel.args([&wrapper, &evcxr, &builds]).arg("connection.json").env_remove("WARPBOOK_EVCXR_DIR");
        kernel.stdin(Stdio::null()).stdout(Stdio::null());
        // The second time, the earlier kernel's file is replaced.
        for _ in 0..2 {
            assert!(kernel.status().is_ok());
            let config = fs::read_to_string(builds.join(".cargo/config.toml")).unwrap();
            let packages: Vec<&str> =
                config.lines().filter_map(|l| l.strip_prefix("[profile.dev.package.")?.strip_suffix(']')).collect();
            let Some((all, named)) = packages.split_first() else { panic!("{config}") };
            assert_eq!((*all, named.len()), ("\"*\"", config.matches("opt-level = 0").count()));
            let lock = fs::read_to_string(warpbook_crates().join("../Cargo.lock")).unwrap();
            for package in named {
                let line = format!("name = \"{package}\"\n");
                assert!(lock.contains(&line), "{package} is no package of ours or that we use: Cargo would ignore it");
            }
            assert_eq!(fs::read_dir(builds.join(".cargo")).unwrap().count(), 1);
        }
    }

    fn warpbook_crates() -> PathBuf {
        let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("Cargo sets it for tests");
        Path::new(&here).join("..")
    }

    #[test]
    fn the_kernel_is_interrupted_by_message() {
        let spec = kernel_spec(Path::new("/v/python"), Path::new("/v/kernel.py"), Path::new("/e"), Path::new("/t"));
        assert_eq!(spec["interrupt_mode"], "message");
        assert_eq!(spec["argv"].as_array().unwrap().last().unwrap(), "{connection_file}");
    }
}
