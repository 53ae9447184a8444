//! The workspace's test executables: built once, then run several at a time.

use crate::process::{cargo, command};
use crate::steps::{Report, seconds};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A test executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executable {
    /// The package and the name, such as "warpbook-nn all"; unit tests of a library have the library's name.
    pub name: String,
    /// The folder of its package, which is its working directory.
    package: PathBuf,
    /// The path of the file.
    file: PathBuf,
}

/// Settings for running the executables, and the log that they write.
#[derive(Debug)]
pub struct Setting {
    /// Environment variables.
    pub variables: Vec<(&'static str, OsString)>,
    /// The log of skipped tests.
    pub skips: PathBuf,
    /// The number of executables that run at the same time.
    pub at_once: usize,
}

/// The running time of an executable.
#[derive(Debug, Clone, PartialEq)]
pub struct Timed {
    /// The name, as in [`Executable::name`].
    pub name: String,
    /// The time from start to end.
    pub took: Duration,
}

/// Compiles all tests of the workspace.
///
/// # Errors
/// Returns an error if something does not compile.
pub fn build(w: &Workspace) -> Result<Vec<Executable>> {
    let mut build = cargo(w);
    build.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    let mut child = build.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().context("cargo cannot be started")?;
    let stdout = child.stdout.take().context("its output is piped")?;
    let messages = BufReader::new(stdout).lines().map_while(Result::ok);
    let found = messages.filter_map(|line| executable(&serde_json::from_str(&line).ok()?)).collect();
    if !child.wait()?.success() {
        bail!("the tests do not compile: see above");
    }
    Ok(found)
}

/// Returns the test executable named in a message of Cargo; `None` for other messages.
fn executable(message: &Value) -> Option<Executable> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let file = PathBuf::from(message["executable"].as_str()?);
    let package = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let target = message["target"]["name"].as_str()?;
    let name = format!("{} {target}", package.file_name()?.to_string_lossy());
    Some(Executable { name, package, file })
}

/// Runs executables, `at_once` of them at a time, and prints the output of each when it ends.
///
/// # Errors
/// Returns an error if the log of skipped tests cannot be emptied.
pub fn run_all(executables: &[Executable], setting: &Setting) -> Result<(Report, Vec<Timed>)> {
    if setting.skips.exists() {
        fs::remove_file(&setting.skips).context("the log of skipped tests cannot be removed")?;
    }
    let queue: Mutex<VecDeque<&Executable>> = Mutex::new(executables.iter().collect());
    let done: Mutex<(Counts, Vec<Timed>)> = Mutex::default();
    let work = || {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(executable) = next else { return };
            let (text, took, success) = run_one(executable, setting, &[]);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            println!("== {} ({})", executable.name, seconds(took));
            println!("{}", text.trim_end());
            done.0.read(&executable.name, &text, success);
            done.1.push(Timed { name: executable.name.clone(), took });
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..setting.at_once.max(1) {
            scope.spawn(work);
        }
    });
    let (counts, mut times) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    times.sort_by_key(|t| std::cmp::Reverse(t.took));
    let skips = fs::read_to_string(&setting.skips).unwrap_or_default();
    Ok((judge(&counts, &skips), times))
}

/// Runs an executable on the files of another tree. Returns its report, and its output with that of tests that passed.
pub fn run_in(tree: &Path, executable: &Executable, setting: &Setting) -> (Report, String) {
    let name = executable.package.file_name().unwrap_or_default();
    let there = Executable { package: tree.join("crates").join(name), ..executable.clone() };
    let (text, _, success) = run_one(&there, setting, &["--show-output"]);
    let mut counts = Counts::default();
    counts.read(&executable.name, &text, success);
    (judge(&counts, ""), text)
}

/// Runs an executable; returns its output, its running time, and true if it succeeded.
fn run_one(executable: &Executable, setting: &Setting, arguments: &[&str]) -> (String, Duration, bool) {
    let begin = Instant::now();
    let mut test = command(&executable.file);
    test.args(arguments);
    test.current_dir(&executable.package).env("CARGO_MANIFEST_DIR", &executable.package).stdin(Stdio::null());
    test.env("WARPBOOK_SKIP_LOG", &setting.skips).envs(setting.variables.iter().map(|(name, value)| (name, value)));
    match test.output() {
        Ok(out) => {
            let text = [out.stdout, out.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
            (text, begin.elapsed(), out.status.success())
        }
        Err(why) => (format!("it cannot be started: {why}"), begin.elapsed(), false),
    }
}

/// Compiles and runs the examples in the documentation of all libraries.
///
/// # Errors
/// Returns an error if Cargo cannot be started.
pub fn examples(w: &Workspace) -> Result<Report> {
    let mut test = cargo(w);
    test.args(["test", "--workspace", "--doc", "--no-fail-fast"]).stdin(Stdio::null());
    let out = test.output().context("cargo cannot be started")?;
    let [text, said] = [out.stdout, out.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    println!("== examples in the documentation\n{}", text.trim_end());
    if !out.status.success() {
        eprint!("{said}");
    }
    let mut counts = Counts::default();
    counts.read("documentation", &text, out.status.success());
    Ok(judge(&counts, ""))
}

/// The results that test programs reported.
#[derive(Debug, Default, PartialEq)]
pub struct Counts {
    passed: u32,
    failed: u32,
    ignored: u32,
    failures: Vec<String>,
}

impl Counts {
    /// Adds the output of one executable.
    fn read(&mut self, executable: &str, text: &str, success: bool) {
        let failed_before = self.failed;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("test result: ") {
                let number = |what: &str| {
                    let part = rest.split([';', '.']).map(str::trim).find_map(|p| p.strip_suffix(what));
                    part.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
                };
                self.passed += number(" passed");
                self.failed += number(" failed");
                self.ignored += number(" ignored");
            } else if let Some(name) = line.strip_prefix("test ").and_then(|l| l.strip_suffix(" ... FAILED")) {
                self.failures.push(format!("{executable}: test {name} failed"));
            }
        }
        if !success && self.failed == failed_before {
            self.failed += 1;
            self.failures.push(format!("{executable} crashed or could not be started: see above"));
        }
    }
}

/// Judges the results. A skipped test counts as passed for Rust, but here only a missing GPU may skip one.
fn judge(counts: &Counts, skips: &str) -> Report {
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
    if counts.passed == 0 && failed == 0 {
        errors.push("no test ran".into());
        failed += 1;
    }
    let passed = counts.passed.saturating_sub(n_skipped);
    Report { passed, failed, skipped, note: String::new(), errors }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(texts: &[(&str, bool)]) -> Counts {
        let mut counts = Counts::default();
        texts.iter().for_each(|(text, success)| counts.read("a all", text, *success));
        counts
    }

    #[test]
    fn the_counts_of_all_test_programs_are_added() {
        let counts = read(&[
            (
                "test a::b ... ok\n\
                 test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.10s",
                true,
            ),
            (
                "test a::c ... FAILED\n\
                 test result: FAILED. 1 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 1.00s",
                false,
            ),
        ]);
        assert_eq!((counts.passed, counts.failed, counts.ignored), (13, 1, 2));
        assert_eq!(counts.failures, ["a all: test a::c failed"]);
    }

    #[test]
    fn a_program_that_crashes_is_a_failure() {
        let counts = read(&[("test a::b ... ok\nsegmentation fault", false)]);
        assert_eq!(counts.failed, 1);
        assert!(counts.failures[0].starts_with("a all crashed"));
    }

    #[test]
    fn a_skipped_test_is_not_a_passed_one() {
        let counts = Counts { passed: 5, ..Counts::default() };
        let report = judge(&counts, "graph::replays\tneeds a GPU\n");
        assert_eq!((report.passed, report.failed), (4, 0));
        assert_eq!(report.skipped, [("graph::replays".to_owned(), "needs a GPU".to_owned())]);
    }

    #[test]
    fn only_a_missing_gpu_skips() {
        let counts = Counts { passed: 5, ..Counts::default() };
        assert_eq!(judge(&counts, "t\tno NVRTC\n").failed, 1);
        assert_eq!(judge(&Counts { ignored: 2, ..Counts::default() }, "").failed, 2);
    }

    #[test]
    fn a_run_of_no_test_is_a_failure() {
        assert_eq!(judge(&Counts::default(), "").failed, 1);
    }

    #[test]
    fn cargo_s_messages_name_the_executables() {
        let message = json!({
            "reason": "compiler-artifact", "manifest_path": "/w/crates/warpbook-nn/Cargo.toml",
            "target": { "name": "all" }, "profile": { "test": true }, "executable": "/t/all-1",
        });
        let found = executable(&message).unwrap();
        assert_eq!((&*found.name, &*found.package), ("warpbook-nn all", Path::new("/w/crates/warpbook-nn")));
        for (key, value) in [("reason", json!("build-finished")), ("executable", Value::Null)] {
            let mut other = message.clone();
            other[key] = value;
            assert_eq!(executable(&other), None);
        }
        let mut program = message;
        program["profile"]["test"] = false.into();
        assert_eq!(executable(&program), None);
    }

    /// Tests two programs that can end only if both run at once.
    #[test]
    fn programs_run_at_the_same_time() {
        use std::os::unix::fs::PermissionsExt;
        let tmp = tempfile::tempdir().unwrap();
        let write = |own: &str, other: &str| {
            let file = tmp.path().join(own);
            let script = format!(
                "#!/bin/sh\ntouch {own}.begun\nfor i in 1 2 3 4 5 6 7 8 9 10; do\n  [ -e {other}.begun ] && break\n  sleep 0.5\ndone\n\
                 [ -e {other}.begun ] && echo 'test result: ok. 1 passed; 0 failed; 0 ignored'\n"
            );
            fs::write(&file, script).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
            Executable { name: own.into(), package: tmp.path().into(), file }
        };
        let both = [write("a", "b"), write("b", "a")];
        let setting = Setting { variables: Vec::new(), skips: tmp.path().join("skips"), at_once: 2 };
        let (report, times) = run_all(&both, &setting).unwrap();
        assert_eq!((report.passed, report.failed, times.len()), (2, 0, 2), "{:?}", report.errors);
    }
}
