//! `cargo xtask handout DIR`: a copy of the repository for a class, without solutions and wrong answers of exercises.

use crate::process::command;
use crate::workspace::{Workspace, replace_dir};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

/// Runs `cargo xtask handout DIR`.
pub fn run(w: &Workspace, dir: &Path) -> Result<ExitCode> {
    let Files { kept, left_out } = write(w, dir)?;
    println!(
        "{} has {} files; {} solutions and other answers are left out.",
        dir.display(),
        kept.len(),
        left_out.len()
    );
    println!("A learner starts with: cd {} && cargo xtask lab", dir.display());
    Ok(ExitCode::SUCCESS)
}

/// The files that a hand-out has and lacks, as paths below the root.
pub struct Files {
    /// Files that were copied.
    pub kept: Vec<PathBuf>,
    /// Solutions and other answers.
    pub left_out: Vec<PathBuf>,
}

/// Copies the files that git tracks, as they are in the working tree, but for solutions and other answers.
pub fn write(w: &Workspace, dir: &Path) -> Result<Files> {
    let place = std::path::absolute(dir).context("the folder's path cannot be read")?;
    if place.starts_with(&w.root) {
        bail!("{} lies in this checkout: name a folder outside of it", dir.display());
    }
    if fs::read_dir(&place).is_ok_and(|mut entries| entries.next().is_some()) || place.is_file() {
        bail!("{} is not empty: name a new folder", dir.display());
    }
    let (kept, left_out): (Vec<PathBuf>, Vec<PathBuf>) = tracked(&w.root)?.into_iter().partition(|f| !is_answer(f));
    replace_dir(&place, |new| copy(&w.root, &kept, new))?;
    Ok(Files { kept, left_out })
}

/// Returns the files that git tracks, as paths below the root.
fn tracked(root: &Path) -> Result<Vec<PathBuf>> {
    let listed = command("git").args(["ls-files", "-z"]).current_dir(root).output().context("git cannot be started")?;
    if !listed.status.success() {
        bail!("git cannot list the files of {}: a hand-out is made of a clone", root.display());
    }
    let names = String::from_utf8(listed.stdout).context("a file's name is not UTF-8")?;
    Ok(names.split('\0').filter(|n| !n.is_empty()).map(PathBuf::from).collect())
}

/// Returns true for an exercise's solution, its other good answers and its wrong answers.
fn is_answer(file: &Path) -> bool {
    let parts: Vec<_> = file.components().map(Component::as_os_str).collect();
    match parts.as_slice() {
        [notebooks, exercises, _, rest @ ..] if *notebooks == "notebooks" && *exercises == "exercises" => {
            rest.iter().any(|p| *p == "right" || *p == "wrong") || rest.last().is_some_and(|p| *p == "solution.cu")
        }
        _ => false,
    }
}

/// Copies files with their permissions; tracked files that were deleted are skipped.
fn copy(root: &Path, files: &[PathBuf], to: &Path) -> Result<()> {
    for file in files.iter().filter(|f| root.join(f).exists()) {
        let new = to.join(file);
        fs::create_dir_all(new.parent().context("a file's path has a folder")?)?;
        fs::copy(root.join(file), &new).with_context(|| format!("{} cannot be copied", file.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{files_below, write_atomic};

    fn workspace(root: &Path) -> Workspace {
        Workspace { root: root.to_path_buf(), target: root.join("target"), may_install: false }
    }

    #[test]
    fn a_hand_out_has_stubs_and_no_answers() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path().join("lab");
        let exercise = "notebooks/exercises/E05_saxpy";
        let files = ["task.md", "stub.cu", "hints.toml", "solution.cu", "right/loop.cu", "wrong/copy.cu"]
            .map(|f| format!("{exercise}/{f}"));
        for file in files.iter().map(String::as_str).chain(["Cargo.toml", "kernels/wrong/solution.cu", "not_tracked"]) {
            write_atomic(&root.join(file), "text").unwrap();
        }
        let git = |args: &[&str]| {
            assert!(command("git").args(args).current_dir(&root).output().unwrap().status.success(), "{args:?}");
        };
        git(&["init", "-q"]);
        git(&["add", "Cargo.toml", "kernels", "notebooks"]);
        let place = tmp.path().join("class");
        run(&workspace(&root), &place).unwrap();
        let found: Vec<String> = files_below(&place, &[])
            .unwrap()
            .iter()
            .map(|f| f.strip_prefix(&place).unwrap().display().to_string())
            .collect();
        let mut expected = vec!["Cargo.toml".to_owned(), "kernels/wrong/solution.cu".to_owned()];
        expected.extend(["hints.toml", "stub.cu", "task.md"].map(|f| format!("{exercise}/{f}")));
        assert_eq!(found, expected);
        // A folder that is not empty is refused.
        let again = run(&workspace(&root), &place).unwrap_err().to_string();
        assert!(again.contains("is not empty"), "{again}");
        let inside = run(&workspace(&root), &root.join("class")).unwrap_err().to_string();
        assert!(inside.contains("outside of it"), "{inside}");
    }

    #[test]
    fn a_folder_without_git_is_refused() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path().join("lab");
        write_atomic(&root.join("Cargo.toml"), "").unwrap();
        let place = tmp.path().join("class");
        let why = run(&workspace(&root), &place).unwrap_err().to_string();
        assert!(why.contains("made of a clone") && !place.exists(), "{why}");
    }
}
