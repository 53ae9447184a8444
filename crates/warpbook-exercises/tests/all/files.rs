//! Access to the files of the exercises.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use warpbook_exercises::all;
use warpbook_lab::exercise::{Definition, KernelTask, Task};

/// Returns the folder `notebooks` of this checkout.
pub fn notebooks() -> PathBuf {
    PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../notebooks")
}

/// Returns the folder of an exercise.
pub fn folder(definition: &Definition) -> PathBuf {
    notebooks().join("exercises").join(definition.folder)
}

/// Reads a file of an exercise.
pub fn text(definition: &Definition, file: &str) -> String {
    let path = folder(definition).join(file);
    fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Returns the source of a notebook's cell.
pub fn source(cell: &Value) -> String {
    cell["source"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Returns the exercises that ask for a kernel.
pub fn kernels() -> Vec<(Definition, KernelTask)> {
    let kernel = |definition: Definition| match definition.task.clone() {
        Task::Kernel(task) => Some((definition, task)),
        _ => None,
    };
    all().into_iter().filter_map(kernel).collect()
}

/// Returns true in a copy for learners, which contains no solutions. Then prints that the test is skipped.
pub fn is_handout(test: &str) -> bool {
    let has_answers = |definition: &Definition| {
        let folder = folder(definition);
        folder.join("solution.cu").exists() || ["right", "wrong"].iter().any(|name| folder.join(name).exists())
    };
    let is_handout = !all().iter().any(has_answers);
    if is_handout {
        println!("skipped: {test} needs solutions and wrong answers, and this is a hand-out");
    }
    is_handout
}

/// Returns the entries of a folder in alphabetical order.
pub fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// Returns the correct answers of an exercise that differ from its solution, as pairs of file and source.
pub fn other_answers(definition: &Definition) -> Vec<(String, String)> {
    let read = |path: PathBuf| (path.display().to_string(), fs::read_to_string(&path).unwrap());
    files_in(&folder(definition).join("right")).into_iter().map(read).collect()
}

/// Returns the wrong answers of an exercise: the file, the cause named in its first line, and the source.
pub fn wrong_answers(definition: &Definition) -> Vec<(String, String, String)> {
    let read = |path: PathBuf| {
        let file = path.strip_prefix(notebooks()).unwrap().display().to_string();
        let source = fs::read_to_string(&path).unwrap();
        let cause = source.lines().next().and_then(|line| line.strip_prefix("// cause: ")).map(str::to_owned);
        (file.clone(), cause.unwrap_or_else(|| panic!("{file} does not begin with `// cause: `")), source)
    };
    files_in(&folder(definition).join("wrong")).into_iter().map(read).collect()
}
