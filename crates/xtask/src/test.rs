//! `cargo xtask test`: every check there is, and a table of them.

use crate::nvrtc::{self, Cuda};
use crate::process::{Guard, cargo, output, run, run_logged};
use crate::python::Venv;
use crate::steps::{Report, Steps, say};
use crate::workspace::{Workspace, files_below};
use crate::{browser, gpu, jupyter, notebooks, publish, web};
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// Bytes that all steps leave in the build folder.
const BUILD_BYTES: u64 = 16_000_000_000;

/// An error where the disk would be full before all steps are done: what fails then says something else in every step.
fn check_room(w: &Workspace) -> Result<()> {
    let built = files_below(&w.target, &[]).unwrap_or_default();
    let built: u64 = built.iter().filter_map(|file| fs::metadata(file).ok()).map(|file| file.len()).sum();
    let free = fs4::available_space(&w.root).context("how much of the disk is free cannot be read")?;
    let wanted = BUILD_BYTES.saturating_sub(built);
    if free >= wanted {
        return Ok(());
    }
    let gb = |bytes: u64| bytes as f64 / 1e9;
    bail!(
        "{:.1} GB of the disk are free, but the tests still build about {:.1} GB: free some of it, or name a folder on a larger disk \
         in CARGO_TARGET_DIR. One step alone (--only) takes less.",
        gb(free),
        gb(wanted)
    )
}

/// Runs all steps, or those that need no Python, wasm or browser.
pub fn run_all(w: &Workspace, quick: bool, only: Option<String>) -> Result<ExitCode> {
    if only.is_none() {
        check_room(w)?;
    }
    let cuda = Cuda::probe(w);
    match cuda.devices {
        0 => say("No GPU here: what needs one is skipped, and listed at the end"),
        n => say(&format!("{n} GPU(s) here: nothing may be skipped")),
    }
    let (skips, kernels) = (w.target.join("xtask/skipped.tsv"), w.target.join("xtask/kernels.txt"));
    let mut steps = Steps::new(only);
    steps.run("format", || {
        component(w, "fmt", "rustfmt")?;
        run(cargo(w).args(["fmt", "--all", "--check"]))?;
        Ok(Report::one(""))
    });
    steps.run("clippy", || {
        component(w, "clippy", "clippy")?;
        run(cargo(w).args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
        Ok(Report::one(""))
    });
    steps.run("docs", || {
        // Programs have no public documentation, and `warpbook` the program would overwrite that of the library.
        run(cargo(w).args(["doc", "--workspace", "--no-deps", "--lib"]).env("RUSTDOCFLAGS", "-D warnings"))?;
        Ok(Report::one(""))
    });
    let mut nvrtc = Err(anyhow::anyhow!("the tests did not run"));
    let mut on_gpu = None;
    steps.run("tests", || {
        nvrtc = nvrtc::ensure_for_all(w, &cuda);
        for file in [&skips, &kernels] {
            let _ = fs::remove_file(file);
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
            }
        }
        let mut test = cargo(w);
        test.args(["test", "--workspace", "--no-fail-fast"]);
        test.env("WARPBOOK_SKIP_LOG", &skips).env("WARPBOOK_KERNEL_REPORT", &kernels);
        if let Ok(nvrtc) = &nvrtc {
            test.env("WARPBOOK_NVRTC", nvrtc);
        }
        if cuda.devices > 0 {
            test.env("WARPBOOK_REQUIRE_GPU", "1");
        }
        let report = tests(&mut test, || fs::read_to_string(&skips).unwrap_or_default())?;
        if cuda.devices > 0 && report.passed > 0 {
            on_gpu = Some(gpu::Here { devices: gpu::devices(), passed: report.passed, failed: report.failed });
        }
        Ok(report)
    });
    steps.run("training", || golden(w));
    steps.run("kernels", || {
        nvrtc?;
        // The table is written by the tests above.
        kernel_table(&fs::read_to_string(&kernels).unwrap_or_default())
    });
    steps.run("published files", || publish::check(w));
    if !quick {
        steps.run("scripts", || scripts(w));
        let mut dist: Result<PathBuf> = Err(anyhow::anyhow!("the viewer was not built"));
        steps.run("viewer, built", || {
            let place = web::build(w)?;
            let weight = web::weight(&place)?;
            dist = Ok(place);
            weight.check()
        });
        steps.run("viewer, in a browser", || browser::check(w, &dist?));
        steps.run("lessons, in JupyterLab", || jupyter::check(w));
        steps.run("notebooks", || notebooks::check(w));
    }
    say("Summary");
    print!("{}", steps.summary(&gpu::tested(w, on_gpu.as_ref())));
    Ok(if steps.all_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The first steps of PyTorch's run, on the CPU and optimised: a debug build would take minutes.
fn golden(w: &Workspace) -> Result<Report> {
    if std::env::var_os("WARPBOOK_GOLDEN").is_none() || std::env::var_os("WARPBOOK_DATA").is_none() {
        let note = "WARPBOOK_GOLDEN and WARPBOOK_DATA name no folders".into();
        let skipped = vec![("golden run".into(), note)];
        return Ok(Report { skipped, ..Report::default() });
    }
    let mut test = cargo(w);
    test.args(["test", "--release", "-p", "warpbook-nn", "--test", "golden"]);
    tests(&mut test, String::new)
}

/// Makes sure that a part of Rust's toolchain is there.
fn component(w: &Workspace, subcommand: &str, name: &str) -> Result<()> {
    let works = || output(cargo(w).args([subcommand, "--version"])).is_some();
    if works() {
        return Ok(());
    }
    if w.may_install {
        say(&format!("Adding {name} with rustup (about 10 s)"));
        let mut add = Command::new("rustup");
        add.args(["component", "add", name]).current_dir(&w.root);
        let _ = run_logged(&mut add, &w.log("rustup"), Duration::from_secs(300));
    }
    if !works() {
        bail!("{name} is missing: run `rustup component add {name}`");
    }
    Ok(())
}

/// Runs `cargo test` and counts; `skips` gives the lines of the log of skipped tests afterwards.
fn tests(test: &mut Command, skips: impl FnOnce() -> String) -> Result<Report> {
    let child = test.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().context("cargo cannot be started")?;
    let mut child = Guard::new(child);
    let stdout = child.child().stdout.take().context("its output is piped")?;
    let mut counts = Counts::default();
    for line in BufReader::new(stdout).lines() {
        // A test may print what is not a text.
        let Ok(line) = line else { continue };
        println!("{line}");
        counts.read(&line);
    }
    let status = child.child().wait()?;
    Ok(judge(&counts, &skips(), status.success()))
}

/// What the test programs said of themselves.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    passed: u32,
    failed: u32,
    ignored: u32,
    failures: Vec<String>,
}

impl Counts {
    fn read(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("test result: ") {
            let number = |what: &str| {
                let part = rest.split([';', '.']).map(str::trim).find_map(|p| p.strip_suffix(what));
                part.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
            };
            self.passed += number(" passed");
            self.failed += number(" failed");
            self.ignored += number(" ignored");
        } else if let Some(name) = line.strip_prefix("test ").and_then(|l| l.strip_suffix(" ... FAILED")) {
            self.failures.push(format!("test {name} failed"));
        }
    }
}

/// A skipped test counts as passed to Rust; here it does not. Nothing but a missing GPU may skip one.
fn judge(counts: &Counts, skips: &str, success: bool) -> Report {
    let mut errors = counts.failures.clone();
    let skipped: Vec<(String, String)> = skips
        .lines()
        .filter(|l| !l.trim().is_empty())
        .map(|l| l.split_once('\t').unwrap_or((l, "no reason given")))
        .map(|(name, why)| (name.to_owned(), why.to_owned()))
        .collect();
    let n_skipped = u32::try_from(skipped.len()).unwrap_or(u32::MAX);
    let mut failed = counts.failed;
    for (name, _) in skipped.iter().filter(|(_, why)| !why.contains("GPU")) {
        errors.push(format!("{name} was skipped, but not for want of a GPU"));
        failed += 1;
    }
    if counts.ignored > 0 {
        errors.push(format!("{} tests are marked as ignored; only a missing GPU may skip a test", counts.ignored));
        failed += counts.ignored;
    }
    if !success && failed == 0 {
        errors.push("cargo test failed before it ran a test, or a test program crashed: see above".into());
        failed += 1;
    }
    let passed = counts.passed.saturating_sub(n_skipped);
    Report { passed, failed, skipped, note: String::new(), errors }
}

/// The tests of the scripts that measure other frameworks; they need none of these to be installed.
fn scripts(w: &Workspace) -> Result<Report> {
    let venv = Venv::ensure(w)?;
    let mut test = venv.run_python();
    test.args(["-m", "unittest", "discover", "-s", "notebooks/pytorch", "-p", "test_*.py"]).current_dir(&w.root);
    test.env("PYTHONDONTWRITEBYTECODE", "1");
    let done = test.output().context("Python cannot be started")?;
    // unittest reports on stderr.
    let report = String::from_utf8_lossy(&done.stderr);
    if !done.status.success() {
        bail!("{}", report.trim());
    }
    let line = report.lines().find(|l| l.starts_with("Ran ")).context("unittest ran nothing")?;
    Ok(Report::one(line.to_owned()))
}

fn kernel_table(table: &str) -> Result<Report> {
    let kernels = table.lines().filter(|l| l.contains("sm_")).count();
    if kernels == 0 {
        bail!("no kernel was compiled: the test `kernels` of warpbook-device wrote no table");
    }
    println!("{}", table.trim_end());
    Ok(Report::one(format!("{kernels} kernels compiled")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Counts {
        let mut counts = Counts::default();
        lines.iter().for_each(|l| counts.read(l));
        counts
    }

    #[test]
    fn the_counts_of_all_test_programs_are_added() {
        let counts = read(&[
            "test a::b ... ok",
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.10s",
            "test a::c ... FAILED",
            "test result: FAILED. 1 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 1.00s",
        ]);
        assert_eq!((counts.passed, counts.failed, counts.ignored), (13, 1, 2));
        assert_eq!(counts.failures, ["test a::c failed"]);
    }

    #[test]
    fn a_skipped_test_is_not_a_passed_one() {
        let counts = Counts { passed: 5, ..Counts::default() };
        let report = judge(&counts, "graph::replays\tneeds a GPU\n", true);
        assert_eq!((report.passed, report.failed), (4, 0));
        assert_eq!(report.skipped, [("graph::replays".to_owned(), "needs a GPU".to_owned())]);
    }

    #[test]
    fn only_a_missing_gpu_skips() {
        let counts = Counts { passed: 5, ..Counts::default() };
        assert_eq!(judge(&counts, "t\tno NVRTC\n", true).failed, 1);
        assert_eq!(judge(&Counts { ignored: 2, ..Counts::default() }, "", true).failed, 2);
    }

    #[test]
    fn a_build_that_fails_is_a_failure() {
        assert_eq!(judge(&Counts::default(), "", false).failed, 1);
    }

    #[test]
    fn a_table_without_kernels_is_refused() {
        assert!(kernel_table("").is_err());
        assert!(kernel_table("file kernel arch\n").is_err());
        assert_eq!(kernel_table("x.cu pass sm_90a 32 0 0\n").unwrap().note, "1 kernels compiled");
    }
}
