//! The files of the exercises.

use std::fs;
use std::path::{Path, PathBuf};
use warpbook_exercises::all;
use warpbook_lab::exercise::{Definition, KernelTask, Task};

/// Returns the folder of notebooks of this checkout.
pub fn notebooks() -> PathBuf {
    PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../notebooks")
}

/// Returns the folder of an exercise.
pub fn folder(definition: &Definition) -> PathBuf {
    notebooks().join("exercises").join(definition.folder)
}

/// Reads one of an exercise's files.
pub fn text(definition: &Definition, file: &str) -> String {
    let path = folder(definition).join(file);
    fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Returns the exercises that ask for a kernel.
pub fn kernels() -> Vec<(Definition, KernelTask)> {
    let kernel = |definition: Definition| match definition.task.clone() {
        Task::Kernel(task) => Some((definition, task)),
        _ => None,
    };
    all().into_iter().filter_map(kernel).collect()
}

/// Returns true if an exercise has a solution; a hand-out has none, which is said.
pub fn has_solution(test: &str, definition: &Definition) -> bool {
    let has = folder(definition).join("solution.cu").is_file();
    if !has {
        println!("skipped: {test} needs the solution of {}, and this is a hand-out", definition.id);
    }
    has
}

/// Returns the Rust or CUDA files of a folder, in alphabetical order.
pub fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}
