//! A notebook outside of the repository, which gets Warpbook from git: `:dep warpbook = { git = "..." }`.

use crate::process::{command, run};
use crate::tools::evcxr::cargo_home;
use crate::workspace::{Workspace, write_atomic};
use anyhow::{Context, Result};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// The parts of a checkout that others need to use Warpbook.
const PUBLISHED: [&str; 7] = ["Cargo.toml", "Cargo.lock", "crates", "data", "kernels", "notebooks", "web"];
/// The repository's name, by which Cargo's copies of it are found.
const NAME: &str = "warpbook-outside";
/// The notebook's cells: an experiment, a chart and a kernel's source.
const CELLS: [&str; 2] = [
    "use warpbook::prelude::*;\n\nlet lab: Lab = Lab::open(\"cpu\")?.with_bench(Bench::quick());\n\
     let run: Run = lab.run(&Regression::new().points([10_000]).rungs([\"cpu_1_thread\"]).parts(false))?;\n\
     draw().ladder(&run, run.main_problem().expect(\"it was measured\"), Quantity::Time)",
    "KernelView::file(\"regression/02_fused.cu\")?",
];

/// A notebook and the repository that it depends on; both are removed on drop.
pub struct Outside {
    folder: PathBuf,
    /// The path of the notebook.
    pub notebook: PathBuf,
}

impl Outside {
    /// Writes the notebook, and the bare repository with the contents that this checkout would publish, including
    /// uncommitted changes.
    pub fn new(w: &Workspace) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("{NAME}-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        let outside = Self { notebook: folder.join(format!("{NAME}.ipynb")), folder };
        let repository = outside.folder.join(format!("{NAME}.git"));
        commit(&w.root, &repository, &PUBLISHED)?;
        write_atomic(&outside.notebook, serde_json::to_string_pretty(&notebook(&repository))?)?;
        Ok(outside)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
        // Cargo stores fetched repositories under their name and a hash.
        for kept in ["git/db", "git/checkouts"] {
            let folder = cargo_home().into_iter().flat_map(|home| fs::read_dir(home.join(kept))).flatten().flatten();
            let own = folder.filter(|e| e.file_name().to_string_lossy().starts_with(NAME));
            own.for_each(|e| drop(fs::remove_dir_all(e.path())));
        }
    }
}

/// Commits these paths of a folder to a new bare repository, without files that git ignores.
fn commit(root: &Path, repository: &Path, paths: &[&str]) -> Result<()> {
    let git = || {
        let mut git = command("git");
        // The caller's repository and identity must not leak into the new one.
        git.env_remove("GIT_INDEX_FILE").current_dir(root).arg("--git-dir").arg(repository);
        git.args(["-c", "user.name=xtask", "-c", "user.email=xtask@localhost", "-c", "commit.gpgsign=false"]);
        git
    };
    run(git().args(["init", "--quiet", "--bare"]))?;
    run(git().arg("--work-tree").arg(root).args(["add", "--"]).args(paths))?;
    run(git().arg("--work-tree").arg(root).args(["commit", "--quiet", "--message", "This checkout"]))
}

/// Returns a notebook whose first cell depends on Warpbook in a repository.
fn notebook(repository: &Path) -> serde_json::Value {
    let dep = format!(":dep warpbook = {{ git = \"file://{}\" }}", repository.display());
    let sources = std::iter::once(format!("{dep}\n{}", CELLS[0])).chain(CELLS[1..].iter().map(|&cell| cell.to_owned()));
    let cell = |(i, source): (usize, String)| json!({ "cell_type": "code", "id": format!("cell-{i}"), "metadata": {}, "execution_count": null, "outputs": [], "source": source });
    json!({ "cells": sources.enumerate().map(cell).collect::<Vec<_>>(), "metadata": {}, "nbformat": 4, "nbformat_minor": 5 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::output;

    #[test]
    fn a_repository_has_what_is_there_and_not_what_is_ignored() {
        let tmp = tempfile::tempdir().unwrap();
        let (root, repository) = (tmp.path().join("checkout"), tmp.path().join("bare.git"));
        for (file, text) in [(".gitignore", "/kernels/built\n"), ("Cargo.toml", "[package]"), ("kernels/a.cu", "//")] {
            write_atomic(&root.join(file), text).unwrap();
        }
        write_atomic(&root.join("kernels/built/a.cubin"), "code").unwrap();
        write_atomic(&root.join("notes.txt"), "mine").unwrap();
        commit(&root, &repository, &["Cargo.toml", "kernels"]).unwrap();
        let mut list = command("git");
        list.arg("--git-dir").arg(&repository).args(["ls-tree", "-r", "--name-only", "HEAD"]);
        assert_eq!(output(&mut list).as_deref(), Some("Cargo.toml\nkernels/a.cu"));
        assert!(!root.join(".git").exists());
    }

    #[test]
    fn the_notebook_takes_warpbook_from_the_repository() {
        let book = notebook(Path::new("/tmp/warpbook-outside.git"));
        let first = book["cells"][0]["source"].as_str().unwrap();
        assert!(
            first.starts_with(
                ":dep warpbook = { git = \"file:///tmp/warpbook-outside.git\" }\nuse warpbook::prelude::*;"
            )
        );
        assert_eq!(book["cells"].as_array().unwrap().len(), CELLS.len());
        // A published checkout must have every file that cargo reads or that a source includes.
        let w = Workspace::find(false).unwrap();
        assert!(PUBLISHED.iter().all(|path| w.path(path).exists()));
    }
}
