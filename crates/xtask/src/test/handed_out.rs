//! The hand-out for a class: it has no solutions, compiles, names no file that it lacks, and its tests say what they skip.

use super::suite::{self, Executable, Setting};
use crate::handout::{self, Files};
use crate::process::{cargo, run};
use crate::steps::{Report, seconds};
use crate::workspace::{Workspace, normal};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A folder for a hand-out, which is removed at the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes a hand-out to a folder outside of the checkout, compiles the exercises there, and runs their tests on its files.
pub fn check(w: &Workspace, exercises: &[Executable], setting: &Setting) -> Result<Report> {
    let folder = Folder(std::env::temp_dir().join(format!("warpbook-hand-out-{}", std::process::id())));
    let files = handout::write(w, &folder.0)?;
    if files.left_out.is_empty() {
        return Ok(Report::one("this checkout is a hand-out itself"));
    }
    let missing = named_and_missing(&w.root, &files)?;
    if !missing.is_empty() {
        bail!("the hand-out would not compile: {}", missing.join("; "));
    }
    let told = told_answers(&w.root, &files);
    if !told.is_empty() {
        bail!("the hand-out has solutions: {}", told.join("; "));
    }
    // Dependencies are those that clippy has checked; the packages of the hand-out are checked anew.
    let begin = Instant::now();
    let mut check = cargo(w);
    check.args(["check", "--locked", "-p", "warpbook-exercises"]).current_dir(&folder.0);
    run(check.env("CARGO_TARGET_DIR", &w.target))?;
    let took = begin.elapsed();
    let [executable] = exercises else {
        bail!("one executable should test the exercises; there are {}", exercises.len())
    };
    let (report, text) = suite::run_in(&folder.0, executable, setting);
    if report.failed > 0 {
        println!("{}", text.trim_end());
        return Ok(report);
    }
    let skipped = skipped_in(&text);
    if skipped.is_empty() {
        bail!("no test of the exercises says that it was skipped, although the hand-out has no solutions");
    }
    let passed = report.passed.saturating_sub(u32::try_from(skipped.len())?);
    let note = format!("compiled in {}; {} tests say that they need solutions", seconds(took), skipped.len());
    Ok(Report { passed, note, ..report })
}

/// Returns the tests that say that they were skipped because they are in a hand-out.
fn skipped_in(text: &str) -> Vec<&str> {
    let said = text.lines().filter_map(|line| line.strip_prefix("skipped: "));
    said.filter(|said| said.ends_with("this is a hand-out")).filter_map(|said| said.split(' ').next()).collect()
}

/// Returns a sentence for each source in the hand-out that includes a file which was left out.
fn named_and_missing(root: &Path, files: &Files) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for file in files.kept.iter().filter(|file| file.extension().is_some_and(|e| e == "rs")) {
        let Ok(text) = fs::read_to_string(root.join(file)) else { continue };
        let folder = file.parent().context("a file has a folder")?;
        for name in included(&text) {
            let path = normal(&folder.join(name));
            if files.left_out.contains(&path) {
                found.push(format!("{} includes {}", file.display(), path.display()));
            }
        }
    }
    Ok(found)
}

/// Returns a sentence for each file in the hand-out that quotes the body of a solution.
fn told_answers(root: &Path, files: &Files) -> Vec<String> {
    let read = |file: &Path| fs::read_to_string(root.join(file)).unwrap_or_default();
    let kinds = ["rs", "cu", "cuh", "md", "py", "ipynb"];
    let is_text = |file: &&PathBuf| file.extension().is_some_and(|e| kinds.iter().any(|kind| e == *kind));
    let kept: Vec<(&PathBuf, String)> = files.kept.iter().filter(is_text).map(|f| (f, squeezed(&read(f)))).collect();
    let mut found = Vec::new();
    for solution in files.left_out.iter().filter(|file| file.ends_with("solution.cu")) {
        let text = read(solution);
        let body = squeezed(text.split_once('{').map_or("", |(_, body)| body));
        let tells = kept.iter().filter(|(_, text)| !body.is_empty() && text.contains(&body));
        found.extend(tells.map(|(file, _)| format!("{} has {}", file.display(), solution.display())));
    }
    found
}

/// Returns a text without comments, braces and all that differs where code is quoted: spaces, line breaks and quotes.
fn squeezed(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default().replace("\\n", ""));
    lines.flat_map(|line| line.chars().filter(|c| !" \t{}\",".contains(*c)).collect::<Vec<_>>()).collect()
}

/// Returns the paths in `include!("...")`, `include_str!("...")` and `include_bytes!("...")`.
fn included(text: &str) -> Vec<&str> {
    ["include!(\"", "include_str!(\"", "include_bytes!(\""]
        .iter()
        .flat_map(|start| text.split(start).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::write_atomic;

    #[test]
    fn a_source_that_includes_an_answer_is_named() {
        let tmp = tempfile::tempdir().unwrap();
        let source = "const A: &str = include_str!(\"../../../notebooks/exercises/E01_a/solution.cu\");\n\
                      const B: &str = include_str!(\"./other.txt\");\n";
        write_atomic(&tmp.path().join("crates/a/src/lib.rs"), source).unwrap();
        let path = |text: &str| PathBuf::from(text);
        let answer = path("notebooks/exercises/E01_a/solution.cu");
        let files = |left_out: Vec<PathBuf>| Files { kept: vec![path("crates/a/src/lib.rs")], left_out };
        let found = |left_out| named_and_missing(tmp.path(), &files(left_out)).unwrap();
        assert_eq!(found(vec![answer]), ["crates/a/src/lib.rs includes notebooks/exercises/E01_a/solution.cu"]);
        assert!(found(vec![path("notebooks/exercises/E02_b/solution.cu")]).is_empty());
    }

    #[test]
    fn a_file_that_quotes_a_solution_is_named() {
        let tmp = tempfile::tempdir().unwrap();
        let exercise = "notebooks/exercises/E01_a";
        let solution = "__global__ void a(int* x)\n{\n    int i = threadIdx.x; // the thread\n    x[i] = i;\n}\n";
        let quoted = "const A: &str = \"int i = threadIdx.x;\\n    x[i] = i;\";\n";
        let files = [
            (format!("{exercise}/solution.cu"), solution),
            ("crates/a/tests/a.rs".to_owned(), quoted),
            ("crates/b/tests/b.rs".to_owned(), "const B: &str = \"int i = threadIdx.x;\";\n"),
        ];
        for (file, text) in &files {
            write_atomic(&tmp.path().join(file), *text).unwrap();
        }
        let (left_out, kept) =
            files.iter().map(|(file, _)| PathBuf::from(file)).partition(|f| f.ends_with("solution.cu"));
        let found = told_answers(tmp.path(), &Files { kept, left_out });
        assert_eq!(found, ["crates/a/tests/a.rs has notebooks/exercises/E01_a/solution.cu"]);
    }

    #[test]
    fn tests_that_were_skipped_in_a_hand_out_are_counted_by_name() {
        let text = "---- verdicts::a stdout ----\nskipped: a_test needs solutions and wrong answers, and this is a hand-out\n\
                    skipped: b_test needs a GPU\ntest result: ok. 3 passed; 0 failed\n";
        assert_eq!(skipped_in(text), ["a_test"]);
    }
}
