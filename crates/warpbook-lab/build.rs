//! Passes the commit to the crate, if the source lies in a git checkout.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=WARPBOOK_COMMIT");
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok().filter(|o| o.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    };
    if let Some(folder) = git(&["rev-parse", "--absolute-git-dir"]) {
        // A missing file would count as changed in every build, and a notebook builds for every cell.
        let kept = ["HEAD", "logs/HEAD"].map(|file| format!("{folder}/{file}"));
        for file in kept.iter().filter(|f| std::path::Path::new(f).exists()) {
            println!("cargo::rerun-if-changed={file}");
        }
    }
    // A build from sources outside git can set the commit with this variable.
    let commit = std::env::var("WARPBOOK_COMMIT").ok().or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    if let Some(commit) = commit {
        println!("cargo::rustc-env=WARPBOOK_COMMIT={commit}");
    }
}
