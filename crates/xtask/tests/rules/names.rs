//! A rule for the names of functions: no function is named `of`, which says neither what it does nor what it makes.

use super::{crates, workspace};
use std::fs;
use std::path::Path;

/// Returns the places in a folder's Rust files where a function is named `of`, as "file:line".
fn named_of(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(named_of(&path));
            continue;
        }
        let Some(text) = fs::read_to_string(&path).ok().filter(|_| path.extension().is_some_and(|e| e == "rs")) else {
            continue;
        };
        let is_named_of = |line: &str| {
            let name = line.trim_start().split("fn of").nth(1).and_then(|rest| rest.chars().next());
            !line.trim_start().starts_with("//") && matches!(name, Some('(' | '<'))
        };
        let lines = text.lines().enumerate().filter(|(_, line)| is_named_of(line));
        found.extend(lines.map(|(i, _)| format!("{}:{}", path.display(), i + 1)));
    }
    found
}

#[test]
fn no_function_is_named_of() {
    let all = crates();
    assert!(all.len() > 10, "the crates of {} were not found", workspace().display());
    let found: Vec<String> = all.iter().flat_map(|folder| named_of(&folder.join("src"))).collect();
    let advice = "name what it does or makes: `for_device`, `from_samples`, `parse` (crates/STYLE.md, Names)";
    assert!(found.is_empty(), "{}: {advice}", found.join(", "));
}

#[test]
fn a_function_that_is_named_of_is_found() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("inner")).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("a.rs", "fn offset() {}\n// fn of(x: u8)\nfn for_device() { x.of(1); }\n");
    write("notes.md", "fn of(x: u8)");
    assert_eq!(named_of(folder.path()), Vec::<String>::new());
    write("inner/b.rs", "struct A;\nimpl A {\n    pub const fn of<T>(t: T) -> Self { A }\n}\n\nfn of(x: u8) {}\n");
    let found = named_of(folder.path());
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].ends_with("b.rs:3") && found[1].ends_with("b.rs:6"), "{found:?}");
}
