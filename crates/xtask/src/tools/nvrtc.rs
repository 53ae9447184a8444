//! NVRTC, CUDA's run-time compiler: found on the machine, or installed from pip's wheel.

use crate::process::{command, on_path, output, run_logged};
use crate::steps::say;
use crate::tools::python::Venv;
use crate::workspace::{Workspace, replace_dir};
use anyhow::{Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PROBE: &str = include_str!("nvrtc_probe.py");
const WHEEL_13: &str = "nvidia-cuda-nvrtc==13.0.88";
const WHEEL_12: &str = "nvidia-cuda-nvrtc-cu12==12.9.86";
/// The first version that supports every architecture of the kernels.
const KNOWS_ALL: (u32, u32) = (12, 8);

/// The parts of CUDA found on this machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cuda {
    /// The newest CUDA version that the driver supports (major, minor); `None` if there is no driver.
    pub driver: Option<(u32, u32)>,
    /// The number of GPUs that the driver can use.
    pub devices: u32,
    /// The version of the NVRTC found by default.
    pub nvrtc: Option<(u32, u32)>,
    /// The path of the NVRTC found by default.
    pub nvrtc_path: Option<PathBuf>,
}

impl Cuda {
    /// Queries the libraries of this machine; a machine without Python counts as one without CUDA.
    pub fn probe(w: &Workspace) -> Self {
        let venv = w.path(".venv/bin/python");
        let python = if venv.exists() { Some(venv) } else { on_path("python3") };
        let text = python.and_then(|p| output(command(p).args(["-c", PROBE])));
        text.as_deref().and_then(parse).unwrap_or_default()
    }

    /// Returns true if the NVRTC that was found compiles for this machine's driver.
    fn nvrtc_fits(&self) -> bool {
        match (self.nvrtc, self.driver) {
            (Some(nvrtc), Some(driver)) => (12..=driver.0).contains(&nvrtc.0),
            (Some(nvrtc), None) => nvrtc.0 >= 12,
            (None, _) => false,
        }
    }
}

fn parse(json: &str) -> Option<Cuda> {
    let v: serde_json::Value = serde_json::from_str(json).ok()?;
    let int = |v: &serde_json::Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
    Some(Cuda {
        driver: int(&v["driver"]).map(|d| (d / 1000, d % 1000 / 10)),
        devices: int(&v["devices"]).unwrap_or(0),
        nvrtc: int(&v["nvrtc"][0]).zip(int(&v["nvrtc"][1])),
        nvrtc_path: v["nvrtc_path"].as_str().map(PathBuf::from),
    })
}

/// Returns the name of pip's wheel for a driver; `None` if no supported NVRTC compiles for it.
fn wheel(driver: Option<(u32, u32)>) -> Option<&'static str> {
    match driver {
        None | Some((13.., _)) => Some(WHEEL_13),
        Some((12, _)) => Some(WHEEL_12),
        Some(_) => None,
    }
}

/// Returns true if pip has NVRTC for a system and an architecture, named as in `std::env::consts`.
fn on_pip(os: &str, arch: &str) -> bool {
    matches!((os, arch), ("linux" | "windows", "x86_64") | ("linux", "aarch64"))
}

/// Returns true if pip's NVRTC with this major version compiles for a driver.
fn fits(major: u32, driver: Option<(u32, u32)>) -> bool {
    driver.is_none_or(|d| major <= d.0)
}

/// Ensures that kernels can be compiled: for this machine's GPU or, without one, to show their registers and errors.
pub fn ensure(w: &Workspace, cuda: &Cuda) -> Result<()> {
    if cuda.nvrtc_fits() || in_venv(&w.path(".venv"), cuda.driver).is_some() {
        return Ok(());
    }
    install(w, cuda.driver).map(drop)
}

/// Installs NVRTC for work that can continue without it; a failure prints one line.
pub fn offer(w: &Workspace, cuda: &Cuda) {
    if let Err(e) = ensure(w, cuda) {
        eprintln!("warning: CUDA kernels cannot be compiled here: {e:#}");
    }
}

/// Returns an NVRTC that supports every architecture, with or without a driver.
pub fn ensure_for_all(w: &Workspace, cuda: &Cuda) -> Result<PathBuf> {
    if let Some(path) = cuda.nvrtc_path.clone().filter(|_| cuda.nvrtc_fits() && cuda.nvrtc >= Some(KNOWS_ALL)) {
        return Ok(path);
    }
    match in_venv(&w.path(".venv"), cuda.driver) {
        Some(path) => Ok(path),
        None => install(w, cuda.driver),
    }
}

fn install(w: &Workspace, driver: Option<(u32, u32)>) -> Result<PathBuf> {
    let Some(wheel) = wheel(driver) else {
        bail!("The NVIDIA driver is too old: install one for CUDA 12.0 or later (525 or later)");
    };
    check_pip()?;
    let venv = Venv::ensure(w)?;
    venv.install(w, &[wheel], "NVRTC (CUDA's run-time compiler)", "90 MB, about half a minute")?;
    match in_venv(&venv.dir, driver) {
        Some(path) => Ok(path),
        None => bail!("pip's package {wheel} holds no libnvrtc for this machine: install NVIDIA's CUDA toolkit"),
    }
}

/// Returns NVRTC 12 from a folder of its own below the build folder, where nothing else finds it; installs it if it is
/// missing.
pub fn ensure_12(w: &Workspace) -> Result<PathBuf> {
    // The folder's name has the version, so that a new version is installed next to an old one.
    let place = w.target.join("xtask").join(WHEEL_12);
    let library = place.join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
    if library.exists() {
        return Ok(library);
    }
    if !w.may_install {
        bail!("NVRTC 12 is missing from {}: run without --no-install to install it", w.show(&place));
    }
    check_pip()?;
    let venv = Venv::ensure(w)?;
    say(&format!("Installing NVRTC 12 into {} with pip (90 MB, about half a minute)", w.show(&place)));
    let log = w.log("pip-nvrtc-12");
    let mut pip = venv.run_python();
    pip.args(["-m", "pip", "install", "--no-input", "--disable-pip-version-check", WHEEL_12, "--target"]);
    replace_dir(&place, |folder| {
        if run_logged(pip.arg(folder), &log, Duration::from_secs(1200)).is_err() {
            bail!(
                "pip could not install NVRTC 12: it needs the network (PIP_INDEX_URL names a mirror), and its output is in {}",
                w.show(&log)
            );
        }
        Ok(())
    })?;
    if !library.exists() {
        bail!("pip's package {WHEEL_12} holds no libnvrtc.so.12 for this machine");
    }
    Ok(library)
}

/// Returns an error if pip has no NVRTC for this machine.
fn check_pip() -> Result<()> {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    if !on_pip(os, arch) {
        bail!("NVIDIA makes no NVRTC, CUDA's run-time compiler, for {os} on {arch}");
    }
    Ok(())
}

/// Returns the newest suitable NVRTC that pip installed into an environment.
fn in_venv(venv: &Path, driver: Option<(u32, u32)>) -> Option<PathBuf> {
    let pythons = fs::read_dir(venv.join("lib")).ok()?.flatten().map(|e| e.path());
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for python in pythons {
        for folder in ["cu13/lib", "cuda_nvrtc/lib"] {
            let folder = python.join("site-packages/nvidia").join(folder);
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let major = name.to_str().and_then(|n| n.strip_prefix("libnvrtc.so.")).and_then(|v| v.parse().ok());
                found.extend(major.filter(|&m| fits(m, driver)).map(|m| (m, entry.path())));
            }
        }
    }
    found.into_iter().max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::write_atomic;

    #[test]
    fn the_wheel_follows_the_driver() {
        assert_eq!(wheel(None), Some(WHEEL_13));
        assert_eq!(wheel(Some((13, 2))), Some(WHEEL_13));
        assert_eq!(wheel(Some((12, 4))), Some(WHEEL_12));
        assert_eq!(wheel(Some((11, 8))), None);
    }

    #[test]
    fn pip_has_no_nvrtc_for_a_mac() {
        assert!(on_pip("linux", "x86_64") && on_pip("linux", "aarch64") && on_pip("windows", "x86_64"));
        assert!(!on_pip("macos", "aarch64") && !on_pip("macos", "x86_64") && !on_pip("windows", "aarch64"));
    }

    #[test]
    fn nvrtc_12_is_taken_from_its_own_folder_or_reported_missing() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path().to_path_buf();
        let w = Workspace { target: root.join("target"), root, may_install: false };
        let missing = ensure_12(&w).unwrap_err().to_string();
        assert!(missing.contains(WHEEL_12) && missing.contains("--no-install"), "{missing}");
        let library = w.target.join("xtask").join(WHEEL_12).join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
        write_atomic(&library, "").unwrap();
        assert_eq!(ensure_12(&w).unwrap(), library);
    }

    #[test]
    fn a_probe_is_read() {
        let c =
            parse(r#"{"driver": 12040, "devices": 2, "nvrtc": [12, 4], "nvrtc_path": "/x/libnvrtc.so.12"}"#).unwrap();
        assert_eq!((c.driver, c.devices, c.nvrtc), (Some((12, 4)), 2, Some((12, 4))));
        assert!(c.nvrtc_fits());
        let none = parse(r#"{"driver": null, "devices": 0, "nvrtc": null, "nvrtc_path": null}"#).unwrap();
        assert_eq!(none, Cuda::default());
        assert!(!none.nvrtc_fits());
        assert_eq!(parse("Traceback"), None);
    }

    #[test]
    fn a_newer_nvrtc_than_the_driver_does_not_fit() {
        let cuda = Cuda { driver: Some((12, 8)), devices: 1, nvrtc: Some((13, 0)), nvrtc_path: None };
        assert!(!cuda.nvrtc_fits());
    }

    #[test]
    fn the_newest_fitting_library_of_the_environment_is_taken() {
        let tmp = tempfile::tempdir().unwrap();
        let site = tmp.path().join("lib/python3.11/site-packages/nvidia");
        for file in ["cu13/lib/libnvrtc.so.13", "cu13/lib/libnvrtc-builtins.so.13.0", "cuda_nvrtc/lib/libnvrtc.so.12"] {
            write_atomic(&site.join(file), "").unwrap();
        }
        let found = |driver| in_venv(tmp.path(), driver).map(|p| p.file_name().unwrap().to_str().unwrap().to_owned());
        assert_eq!(found(None).as_deref(), Some("libnvrtc.so.13"));
        assert_eq!(found(Some((13, 0))).as_deref(), Some("libnvrtc.so.13"));
        assert_eq!(found(Some((12, 8))).as_deref(), Some("libnvrtc.so.12"));
        assert_eq!(found(Some((11, 0))), None);
    }
}
