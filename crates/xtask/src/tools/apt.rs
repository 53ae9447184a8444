//! Packages of Debian-like distributions.

use crate::process::{command, is_root, on_path, run_logged};
use crate::steps::say;
use crate::workspace::Workspace;
use anyhow::{Result, bail};
use std::time::Duration;

/// Installs packages, as root on a machine with apt. Elsewhere it fails with `remedy`, a sentence that says what to
/// install.
pub fn install(w: &Workspace, packages: &[&str], takes: &str, remedy: &str) -> Result<()> {
    if !w.may_install || on_path("apt-get").is_none() || !is_root() {
        bail!("{remedy}");
    }
    say(&format!("Installing {} with apt-get ({takes})", packages.join(" ")));
    let log = w.log("apt");
    let apt = |args: &[&str]| {
        let mut c = command("apt-get");
        // An unattended upgrade may hold the lock for a while.
        c.args(["-q", "-y", "-o", "DPkg::Lock::Timeout=300"]).args(args).env("DEBIAN_FRONTEND", "noninteractive");
        run_logged(&mut c, &log, Duration::from_secs(1500))
    };
    // An outdated package list may still be good enough, so a failed update is ignored.
    let _ = apt(&["update"]);
    let mut args = vec!["install", "--no-install-recommends"];
    args.extend_from_slice(packages);
    if apt(&args).is_err() {
        bail!("{remedy} (apt-get could not install it here: see {})", w.show(&log));
    }
    Ok(())
}
