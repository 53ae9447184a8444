//! Determines on which GPUs these sources were tested, based on the reports `data/gpu-tests.json` and
//! `data/gpu-tests-h100.json`, and whether each report is about these sources.

use crate::process::{command, output};
use crate::workspace::Workspace;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;

/// The reports of the last tests on an H200 and on an H100, below the root; either may be missing.
const REPORTS: [&str; 2] = ["data/gpu-tests.json", "data/gpu-tests-h100.json"];
/// Folders with sources that tests on a GPU depend on.
const FOLDERS: [&str; 2] = ["kernels", "crates"];
/// Crates that tests on a GPU do not depend on.
const NOT_ON_A_GPU: [&str; 2] = ["crates/xtask", "crates/warpbook-charts"];

/// The result of the tests on this machine's GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Here {
    /// The GPUs, each as name and driver: "NVIDIA H200, 580.159.04".
    pub devices: Vec<String>,
    /// The number of tests that passed.
    pub passed: u32,
    /// The number of tests that failed.
    pub failed: u32,
}

/// Returns the names and drivers of this machine's GPUs as nvidia-smi prints them; empty if there is no nvidia-smi.
pub fn devices() -> Vec<String> {
    let smi = output(command("nvidia-smi").args(["--query-gpu=name,driver_version", "--format=csv,noheader"]));
    smi.unwrap_or_default().lines().map(|l| l.trim().to_owned()).collect()
}

/// Returns a sentence for each report, which names the GPU on which the checkout's sources were tested, or says why no test
/// counts. Tests on this machine's GPU need no report.
pub fn tested(w: &Workspace, here: Option<&Here>) -> String {
    if let Some(here) = here {
        return format!("GPU: {}", verdict_here(here));
    }
    let read = |file: &'static str| match fs::read_to_string(w.path(file)) {
        Ok(text) => Some((file, GpuReport::parse(&text))),
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        Err(e) => Some((file, Err(e.to_string()))),
    };
    let reports: Vec<_> = REPORTS.into_iter().filter_map(read).collect();
    if reports.is_empty() {
        return format!("GPU: {}", untested(&format!("there is no {}", REPORTS[0])));
    }
    let now = Sources::from_git(w);
    let said = reports.into_iter().map(|(file, report)| {
        let mut now = now.clone();
        if let (Some(now), Ok(GpuReport { trees: Some(then), .. })) = (&mut now, &report) {
            now.ignore_documents(w, then);
        }
        format!("GPU: {}", verdict(file, report, now.as_ref()))
    });
    said.collect::<Vec<_>>().join("\n")
}

/// A report made on a machine with a GPU.
#[derive(Debug, Clone, PartialEq)]
struct GpuReport {
    devices: Vec<String>,
    /// The filter on names of test executables; empty if all of them ran.
    filter: String,
    /// The hash of git's tree for each source; `None` if the sources had uncommitted changes.
    trees: Option<BTreeMap<String, String>>,
    passed: u64,
    failed: u64,
    ignored: u64,
    failures: Vec<String>,
    skipped: Vec<String>,
}

impl GpuReport {
    /// Parses a report; the error says what is wrong with it.
    fn parse(json: &str) -> Result<Self, String> {
        let v: Value = serde_json::from_str(json).map_err(|e| format!("it is not valid JSON: {e}"))?;
        let count = |name: &str| v[name].as_u64().ok_or_else(|| format!("its `{name}` is not a count"));
        let list = |name: &str| -> Result<Vec<String>, String> {
            let all = v[name].as_array().and_then(|a| a.iter().map(|s| s.as_str().map(str::to_owned)).collect());
            all.ok_or_else(|| format!("its `{name}` is not a list of texts"))
        };
        let trees = match &v["trees"] {
            Value::String(s) if s == "dirty" => None,
            Value::Object(all) => {
                let all = all.iter().map(|(path, tree)| Some((path.clone(), tree.as_str()?.to_owned())));
                Some(all.collect::<Option<_>>().ok_or("its `trees` are not names of git trees")?)
            }
            _ => return Err("its `trees` are missing".into()),
        };
        let mut devices = list("device")?;
        devices.retain(|d| !d.trim().is_empty());
        Ok(Self {
            devices,
            filter: v["filter"].as_str().ok_or("its `filter` is not a text")?.to_owned(),
            trees,
            passed: count("passed")?,
            failed: count("failed")?,
            ignored: count("ignored")?,
            failures: list("failures")?,
            skipped: list("skipped")?,
        })
    }
}

/// The sources of a checkout that tests on a GPU depend on.
#[derive(Debug, Clone, PartialEq, Default)]
struct Sources {
    /// The hash of git's tree for each source at HEAD, by path.
    trees: BTreeMap<String, String>,
    /// Files changed since HEAD.
    edited: BTreeSet<String>,
}

impl Sources {
    /// Reads the sources from git; `None` if there is no git or no commit.
    fn from_git(w: &Workspace) -> Option<Self> {
        let git = |args: &[&str]| output(command("git").args(args).current_dir(&w.root));
        let listed = git(&["ls-tree", "HEAD", "kernels", "crates/"])?;
        let changed = git(&[&["diff", "--name-only", "--no-renames", "-z", "HEAD", "--"], &FOLDERS[..]].concat())?;
        let new = git(&[&["ls-files", "--others", "--exclude-standard", "-z", "--"], &FOLDERS[..]].concat())?;
        let edited = changed.split('\0').chain(new.split('\0')).filter_map(source_of).collect();
        Some(Self { trees: trees(&listed), edited })
    }

    /// Gives each source the hash in `then` if only documents differ. Git can tell as long as it has the earlier commit.
    fn ignore_documents(&mut self, w: &Workspace, then: &BTreeMap<String, String>) {
        for (path, tree) in &mut self.trees {
            let Some(earlier) = then.get(path).filter(|earlier| *earlier != tree) else { continue };
            let mut git = command("git");
            let differ = git.args(["diff", "--name-only", "--no-renames", "-z", earlier, tree]).current_dir(&w.root);
            if output(differ).is_some_and(|files| files.split('\0').all(|file| file.is_empty() || is_document(file))) {
                tree.clone_from(earlier);
            }
        }
    }
}

/// Returns true for Markdown files, which no test that needs a GPU reads.
fn is_document(file: &str) -> bool {
    file.ends_with(".md")
}

/// Parses the output of `git ls-tree` into the paths of the folders that tests on a GPU depend on, with the hashes of
/// their trees.
fn trees(listed: &str) -> BTreeMap<String, String> {
    let tree = |line: &str| {
        let (about, path) = line.split_once('\t')?;
        let tree = about.split(' ').skip_while(|word| *word != "tree").nth(1)?;
        is_source(path).then(|| (path.to_owned(), tree.to_owned()))
    };
    listed.lines().filter_map(tree).collect()
}

/// Returns the source that a file belongs to; `None` for documents.
fn source_of(file: &str) -> Option<String> {
    if is_document(file) {
        return None;
    }
    let source = match file.split('/').collect::<Vec<_>>()[..] {
        ["kernels", _, ..] => "kernels".to_owned(),
        ["crates", name, _, ..] => format!("crates/{name}"),
        _ => return None,
    };
    is_source(&source).then_some(source)
}

fn is_source(path: &str) -> bool {
    !NOT_ON_A_GPU.contains(&path)
}

/// Returns the verdict of tests on this machine's GPU.
fn verdict_here(here: &Here) -> String {
    let on = names(&here.devices);
    match (here.failed, here.passed) {
        (0, passed) => format!("all {passed} tests passed here, on {on}."),
        (failed, _) => format!("{} failed here, on {on}.", counted(failed.into(), "test")),
    }
}

fn untested(why: &str) -> String {
    format!("these sources were not tested on a GPU ({why}).")
}

/// Returns a report's verdict on the sources in the state `now`, which is `None` if git cannot tell.
fn verdict(file: &str, report: Result<GpuReport, String>, now: Option<&Sources>) -> String {
    let untested = |why: String| untested(&why);
    let report = match report {
        Ok(report) => report,
        Err(why) => return untested(format!("{file} cannot be used: {why}")),
    };
    if !report.filter.is_empty() {
        return untested(format!("{file} covers only the test executables named `{}`", report.filter));
    }
    let Some(then) = &report.trees else {
        return untested(format!("{file} is about sources with uncommitted changes"));
    };
    if report.devices.is_empty() {
        return untested(format!("{file} names no GPU"));
    }
    let Some(now) = now else {
        return format!("whether {file} was made of these sources cannot be told without git and its history.");
    };
    let paths: BTreeSet<&String> = then.keys().chain(now.trees.keys()).filter(|p| is_source(p)).collect();
    let same = |path: &String| then.get(path).is_some() && then.get(path) == now.trees.get(path);
    let mut changed: BTreeSet<&String> = paths.into_iter().filter(|p| !same(p)).collect();
    changed.extend(&now.edited);
    if !changed.is_empty() {
        return untested(format!("changed since: {}", joined(changed)));
    }
    let on = format!("on {} with exactly these sources", names(&report.devices));
    if report.failed > 0 || !report.failures.is_empty() {
        let failed = counted(report.failed.max(report.failures.len() as u64), "test");
        let which = if report.failures.is_empty() { String::new() } else { format!(": {}", joined(&report.failures)) };
        return format!("{failed} failed {on}{which}.");
    }
    let left_out = report.ignored + report.skipped.len() as u64;
    if left_out > 0 {
        let which = if report.skipped.is_empty() { String::new() } else { format!(": {}", joined(&report.skipped)) };
        return format!("{} did not run {on}{which}.", counted(left_out, "test"));
    }
    match report.passed {
        0 => untested(format!("{file} counts no test")),
        passed => format!("all {passed} tests passed {on}."),
    }
}

/// Lists GPUs, given as "name, driver", in words; GPUs of the same kind are listed once.
fn names(devices: &[String]) -> String {
    let named = |d: &String| match d.rsplit_once(", ") {
        Some((name, driver)) => format!("{name} (driver {driver})"),
        None => d.clone(),
    };
    match devices {
        [] => "a GPU that nvidia-smi does not name".into(),
        _ => joined(&devices.iter().map(named).collect::<BTreeSet<_>>()),
    }
}

fn joined<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    texts.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn counted(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::write_atomic;
    use std::path::Path;

    const MADE: &str = r#"{"device": ["NVIDIA H200, 580.159.04"], "filter": "",
        "trees": {"kernels": "aa", "crates/warpbook": "bb"},
        "passed": 161, "failed": 0, "ignored": 0, "failures": [], "skipped": []}"#;

    fn report() -> GpuReport {
        GpuReport::parse(MADE).unwrap()
    }

    fn now() -> Sources {
        Sources { trees: report().trees.unwrap(), edited: BTreeSet::new() }
    }

    /// Returns the verdict for a changed report on unchanged sources.
    fn verdict_after(change: impl Fn(&mut GpuReport)) -> String {
        let mut report = report();
        change(&mut report);
        verdict(REPORTS[0], Ok(report), Some(&now()))
    }

    #[test]
    fn the_same_sources_are_tested() {
        let on = "on NVIDIA H200 (driver 580.159.04) with exactly these sources.";
        assert_eq!(verdict_after(|_| {}), format!("all 161 tests passed {on}"));
        // Sources without influence on tests on a GPU may differ.
        let unrelated = |r: &mut GpuReport| drop(r.trees.as_mut().unwrap().insert("crates/xtask".into(), "cc".into()));
        assert_eq!(verdict_after(unrelated), format!("all 161 tests passed {on}"));
        let two = |r: &mut GpuReport| r.devices = vec!["A, 1".into(), "A, 1".into(), "B, 1".into()];
        assert!(verdict_after(two).contains("on A (driver 1), B (driver 1) with"));
    }

    #[test]
    fn other_sources_are_not() {
        let mut now = now();
        let said = |now: &Sources| verdict(REPORTS[0], Ok(report()), Some(now));
        now.edited.insert("crates/warpbook".into());
        assert_eq!(said(&now), "these sources were not tested on a GPU (changed since: crates/warpbook).");
        now.trees.insert("kernels".into(), "dd".into());
        now.trees.insert("crates/new".into(), "ee".into());
        now.trees.remove("crates/warpbook");
        now.edited.clear();
        assert!(said(&now).ends_with("(changed since: crates/new, crates/warpbook, kernels)."), "{}", said(&now));
    }

    #[test]
    fn a_report_of_anything_but_the_whole_suite_does_not_count() {
        let untested = |said: String, why: &str| {
            assert!(said.starts_with("these sources were not tested on a GPU (") && said.contains(why), "{said}");
        };
        untested(verdict_after(|r| r.filter = "gemm".into()), "`gemm`");
        untested(verdict_after(|r| r.trees = None), "uncommitted");
        untested(verdict_after(|r| r.devices.clear()), "names no GPU");
        untested(verdict_after(|r| r.passed = 0), "counts no test");
        let cut_off = |file: &str| verdict(file, Err("it is cut off".into()), Some(&now()));
        untested(cut_off(REPORTS[0]), "(data/gpu-tests.json cannot be used: it is cut off)");
        untested(cut_off(REPORTS[1]), "(data/gpu-tests-h100.json cannot be used: it is cut off)");
        assert!(verdict(REPORTS[0], Ok(report()), None).contains("cannot be told without git"));
    }

    #[test]
    fn failures_there_are_named() {
        let two = |r: &mut GpuReport| (r.failed, r.failures) = (2, vec!["a::b".into(), "c".into()]);
        let said = verdict_after(two);
        assert!(said.starts_with("2 tests failed on NVIDIA H200") && said.ends_with(": a::b, c."), "{said}");
        assert!(verdict_after(|r| r.failed = 1).starts_with("1 test failed on"), "{said}");
        let skipped = verdict_after(|r| r.skipped = vec!["d: needs cuBLAS".into()]);
        assert!(skipped.starts_with("1 test did not run on") && skipped.contains("d: needs cuBLAS"), "{skipped}");
        assert!(verdict_after(|r| r.ignored = 3).starts_with("3 tests did not run on"));
    }

    #[test]
    fn tests_on_this_machine_s_gpu_need_no_report() {
        let here = |failed| Here { devices: vec!["NVIDIA L4, 570.10".into()], passed: 170, failed };
        let said = |failed| verdict_here(&here(failed));
        assert_eq!(said(0), "all 170 tests passed here, on NVIDIA L4 (driver 570.10).");
        assert_eq!(said(3), "3 tests failed here, on NVIDIA L4 (driver 570.10).");
    }

    #[test]
    fn a_report_that_lacks_something_is_refused() {
        let refused = |from: &str, to: &str, why: &str| {
            assert_eq!(MADE.matches(from).count(), 1, "{from}");
            let error = GpuReport::parse(&MADE.replace(from, to)).unwrap_err();
            assert!(error.contains(why), "{error}");
        };
        refused("\"passed\": 161", "\"passed\": \"all\"", "`passed`");
        refused("\"failures\": []", "\"failures\": [1]", "`failures`");
        refused("\"trees\"", "\"woods\"", "`trees`");
        refused("\"aa\"", "1", "`trees`");
        refused("\"filter\": \"\"", "\"filter\": null", "`filter`");
        refused("\"device\"", "\"gpu\"", "`device`");
        assert!(GpuReport::parse("[").unwrap_err().contains("JSON"));
        let dirty = MADE.replace(r#"{"kernels": "aa", "crates/warpbook": "bb"}"#, "\"dirty\"");
        assert_eq!(GpuReport::parse(&dirty).unwrap().trees, None);
    }

    #[test]
    fn git_is_asked_for_trees_and_changes() {
        let tmp = tempfile::tempdir().unwrap();
        let w = Workspace { root: tmp.path().to_owned(), target: tmp.path().join("target"), may_install: false };
        let write = |file: &str, text: &str| write_atomic(&tmp.path().join(file), text).unwrap();
        let git = |args: &[&str]| {
            let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"];
            let done = output(command("git").args(identity).args(args).current_dir(tmp.path()));
            done.unwrap_or_else(|| panic!("git {args:?} failed"))
        };
        git(&["init", "--quiet"]);
        assert_eq!(Sources::from_git(&w), None, "there is no commit yet");
        for file in ["kernels/a.cu", "crates/NOTES.md", "crates/one/lib.rs", "crates/xtask/main.rs", "crates/two/x.rs"]
        {
            write(file, "1");
        }
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message", "one"]);
        let clean = Sources::from_git(&w).unwrap();
        assert_eq!(clean.trees.keys().collect::<Vec<_>>(), ["crates/one", "crates/two", "kernels"]);
        assert_eq!(clean.trees["kernels"], git(&["rev-parse", "HEAD:kernels"]));
        assert!(clean.edited.is_empty());
        // One file each is changed, removed, new and unrelated.
        write("kernels/a.cu", "2");
        fs::remove_file(tmp.path().join("crates/one/lib.rs")).unwrap();
        write("crates/three/ä b.rs", "1");
        write("crates/xtask/main.rs", "2");
        write("crates/NOTES.md", "2");
        let edited = Sources::from_git(&w).unwrap();
        assert_eq!(edited.trees, clean.trees);
        assert_eq!(edited.edited.iter().collect::<Vec<_>>(), ["crates/one", "crates/three", "kernels"]);
        // Documents do not count, in a commit or edited.
        write("kernels/README.md", "1");
        git(&["add", "kernels"]);
        git(&["commit", "--quiet", "--message", "two", "--only", "kernels/README.md"]);
        write("crates/two/README.md", "1");
        let mut documented = Sources::from_git(&w).unwrap();
        assert_ne!(documented.trees["kernels"], clean.trees["kernels"]);
        documented.ignore_documents(&w, &clean.trees);
        assert_eq!(documented, edited);
        // The report must be at the root.
        let none = "GPU: these sources were not tested on a GPU (there is no data/gpu-tests.json).";
        assert_eq!(tested(&w, None), none);
        write(REPORTS[0], MADE);
        assert!(tested(&w, None).contains("changed since: crates/one, "));
        // Each report has a line, and either may be the only one.
        write(REPORTS[1], &MADE.replace("NVIDIA H200", "NVIDIA H100 80GB HBM3"));
        assert_eq!(tested(&w, None).lines().filter(|line| line.starts_with("GPU: ")).count(), 2);
        fs::remove_file(tmp.path().join(REPORTS[0])).unwrap();
        assert_eq!(tested(&w, None).lines().count(), 1);
        assert!(tested(&w, None).contains("changed since: crates/one, "));
        let here = Here { devices: vec!["NVIDIA L4, 570.10".into()], passed: 3, failed: 0 };
        assert_eq!(tested(&w, Some(&here)), "GPU: all 3 tests passed here, on NVIDIA L4 (driver 570.10).");
        assert!(Sources::from_git(&Workspace { root: Path::new("/no/such/folder").into(), ..w }).is_none());
    }
}
