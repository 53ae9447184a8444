//! `cargo xtask test`: all checks, and a table of their results.

mod handed_out;
mod suite;

use self::suite::{Executable, Setting};
use crate::lessons::{jupyter, notebooks};
use crate::process::{cargo, output, run, run_logged};
use crate::site::web;
use crate::steps::{Report, Steps, say, seconds};
use crate::tools::nvrtc::{self, Cuda};
use crate::tools::python::Venv;
use crate::workspace::{Workspace, files_below, write_atomic};
use crate::{browser, gpu, publish};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// The size of the build folder in bytes after all steps.
const BUILD_BYTES: u64 = 16_000_000_000;

/// Returns an error if the disk would fill up before all steps are done, since each step would then fail in its own
/// way.
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

/// The folder of compiled kernels for all tests and notebooks, inside the build folder.
const KERNELS: &str = "xtask/kernels";
/// The test executable that compiles every kernel on all cores.
const COMPILES_KERNELS: &str = "warpbook-device kernels";
/// The test executable of the exercises, which runs in a hand-out, too.
const EXERCISES: &str = "warpbook-exercises all";
/// The test executable that reproduces PyTorch's run.
const GOLDEN: &str = "warpbook-nn golden";

/// Runs all steps, only the steps without Python, wasm and browser if `quick`, or only the steps whose names contain one of the
/// texts in `only`.
pub fn run_all(w: &Workspace, quick: bool, only: Vec<String>) -> Result<ExitCode> {
    if only.is_empty() {
        check_room(w)?;
    }
    let cuda = Cuda::probe(w);
    match cuda.devices {
        0 => say("No GPU here: what needs one is skipped, and listed at the end"),
        n => say(&format!("{n} GPU(s) here: nothing may be skipped")),
    }
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
        // Programs have no public documentation, and the documentation of the program `warpbook` would overwrite the
        // library's.
        run(cargo(w).args(["doc", "--workspace", "--no-deps", "--lib"]).env("RUSTDOCFLAGS", "-D warnings"))?;
        Ok(Report::one(""))
    });
    let on_gpu = test_steps(w, &cuda, quick, &mut steps);
    steps.run("published files", || publish::check(w));
    if !quick {
        steps.run("scripts", || scripts(w));
        let mut dist: Result<PathBuf> = Err(anyhow::anyhow!("the viewer was not built"));
        steps.run("viewer, built", || {
            let place = web::build(w)?;
            let weight = web::weight(&place)?;
            dist = Ok(place);
            web::compile_emulator(w)?;
            weight.check()
        });
        steps.run("viewer, in a browser", || browser::check(w, &dist?));
        steps.run("lessons, in JupyterLab", || jupyter::check(w));
        steps.run("notebooks", || notebooks::check(w, &w.target.join(KERNELS)));
    }
    let times = w.target.join("xtask/steps.json");
    write_atomic(&times, steps.times()?)?;
    say("Summary");
    print!("{}", steps.summary(&gpu::tested(w, on_gpu.as_ref())));
    Ok(if steps.all_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the steps with Rust tests. The kernels are compiled first, into a folder that all other tests use. Returns the
/// tests that ran on a GPU.
fn test_steps(w: &Workspace, cuda: &Cuda, quick: bool, steps: &mut Steps) -> Option<gpu::Here> {
    let names = ["tests, built", "kernels", "tests", "hand-out", "exercises, NVRTC 12", "training"];
    if !names.iter().any(|name| steps.wants(name)) {
        return None;
    }
    let (kernels, table) = (w.target.join(KERNELS), w.target.join("xtask/kernels.txt"));
    let mut setting = Setting {
        variables: vec![
            ("WARPBOOK_CACHE", kernels.clone().into()),
            ("WARPBOOK_TEST_CACHE", kernels.into()),
            // Fixed findings make every run choose the same kernels.
            ("WARPBOOK_TUNE", "off".into()),
            ("WARPBOOK_KERNEL_REPORT", table.clone().into()),
        ],
        skips: w.target.join("xtask/skipped.tsv"),
        at_once: 1,
    };
    let mut all = Vec::new();
    // The test steps need the build, even if it was not selected.
    steps.run_anyway("tests, built", || {
        all = suite::build(w)?;
        Ok(Report::one(format!("{} test programs", all.len())))
    });
    if all.is_empty() {
        return None;
    }
    let named = |name: &str| -> Vec<Executable> { all.iter().filter(|e| e.name == name).cloned().collect() };
    let mut nvrtc = Ok(());
    steps.run("kernels", || {
        nvrtc = nvrtc::ensure_for_all(w, cuda).map(|path| setting.variables.push(("WARPBOOK_NVRTC", path.into())));
        let _ = fs::remove_file(&table);
        let (report, _) = suite::run_all(&named(COMPILES_KERNELS), &setting)?;
        let compiled = kernel_table(&fs::read_to_string(&table).unwrap_or_default())?;
        Ok(Report { note: compiled.note, ..report })
    });
    let mut on_gpu = None;
    steps.run("tests", || {
        nvrtc?;
        if cuda.devices > 0 {
            setting.variables.push(("WARPBOOK_REQUIRE_GPU", "1".into()));
        } else {
            // Most test programs use one core, so two run at once. On a GPU they would disturb each other's timings.
            setting.at_once = 2;
        }
        let others: Vec<Executable> =
            all.iter().filter(|e| e.name != COMPILES_KERNELS && e.name != GOLDEN).cloned().collect();
        let (mut report, times) = suite::run_all(&others, &setting)?;
        let examples = suite::examples(w)?;
        report.passed += examples.passed;
        report.failed += examples.failed;
        report.errors.extend(examples.errors);
        let slow: Vec<String> = times.iter().take(4).map(|t| format!("{} {}", t.name, seconds(t.took))).collect();
        report.note = format!("longest: {}", slow.join(", "));
        if cuda.devices > 0 && report.passed > 0 {
            on_gpu = Some(gpu::Here { devices: gpu::devices(), passed: report.passed, failed: report.failed });
        }
        Ok(report)
    });
    steps.run("hand-out", || handed_out::check(w, &named(EXERCISES), &setting));
    // On a GPU, the driver decides which NVRTC fits.
    if cuda.devices == 0 && !quick {
        steps.run("exercises, NVRTC 12", || with_nvrtc_12(w, &named(EXERCISES), &setting));
    }
    steps.run("training", || golden(&named(GOLDEN), &setting));
    on_gpu
}

/// Runs the exercises' tests with NVRTC 12, since they count instructions of PTX, which depends on NVRTC's version.
fn with_nvrtc_12(w: &Workspace, exercises: &[Executable], setting: &Setting) -> Result<Report> {
    let mut variables = setting.variables.clone();
    variables.retain(|(name, _)| *name != "WARPBOOK_NVRTC");
    variables.push(("WARPBOOK_NVRTC", nvrtc::ensure_12(w)?.into()));
    let setting = Setting { variables, skips: setting.skips.clone(), at_once: 1 };
    Ok(suite::run_all(exercises, &setting)?.0)
}

/// Reproduces the first steps of PyTorch's run on the CPU.
fn golden(executable: &[Executable], setting: &Setting) -> Result<Report> {
    if std::env::var_os("WARPBOOK_GOLDEN").is_none() || std::env::var_os("WARPBOOK_DATA").is_none() {
        let note = "WARPBOOK_GOLDEN and WARPBOOK_DATA name no folders".into();
        let skipped = vec![("golden run".into(), note)];
        return Ok(Report { skipped, ..Report::default() });
    }
    Ok(suite::run_all(executable, setting)?.0)
}

/// Ensures that a component of Rust's toolchain is installed.
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

/// Runs the tests of the scripts that measure other frameworks, which need not be installed.
fn scripts(w: &Workspace) -> Result<Report> {
    let venv = Venv::ensure(w)?;
    let mut test = venv.run_python();
    test.args(["-m", "unittest", "discover", "-s", "notebooks/pytorch", "-p", "test_*.py"]).current_dir(&w.root);
    test.env("PYTHONDONTWRITEBYTECODE", "1");
    let done = test.output().context("Python cannot be started")?;
    // unittest writes its report to stderr.
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

    /// Returns the names of all steps, from this file's text.
    fn step_names() -> Vec<&'static str> {
        let code = include_str!("test.rs").split("#[cfg(test)]").next().unwrap_or_default();
        let calls = ["steps.run(\"", "steps.run_anyway(\""];
        let after = calls.iter().flat_map(|call| code.split(*call).skip(1));
        after.filter_map(|rest| Some(rest.split_once('"')?.0)).collect()
    }

    /// Returns the steps that no part of a workflow's matrix selects.
    fn left_out_of(workflow: &str) -> Vec<&'static str> {
        let only = workflow.lines().filter_map(|line| line.trim().strip_prefix("only: "));
        let steps = Steps::new(only.flat_map(|texts| texts.split(',')).map(str::to_owned).collect());
        step_names().into_iter().filter(|name| !steps.wants(name)).collect()
    }

    #[test]
    fn the_parts_of_the_workflow_run_every_step() {
        let file = Workspace::find(false).unwrap().path(".github/workflows/ci.yml");
        let workflow = fs::read_to_string(file).unwrap();
        let left_out = left_out_of(&workflow);
        assert!(left_out.is_empty(), "add to a part's `only` in .github/workflows/ci.yml: {left_out:?}");
        assert_eq!(left_out_of(&workflow.replace(",hand-out", "")), ["hand-out"]);
        assert_eq!(left_out_of(&workflow.replace("only: lessons,", "only: ")), ["lessons, in JupyterLab"]);
    }

    #[test]
    fn a_table_without_kernels_is_refused() {
        assert!(kernel_table("").is_err());
        assert!(kernel_table("file kernel arch\n").is_err());
        assert_eq!(kernel_table("x.cu pass sm_90a 32 0 0\n").unwrap().note, "1 kernels compiled");
    }
}
