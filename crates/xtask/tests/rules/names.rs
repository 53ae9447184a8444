//! A rule for names: no function or variable is named `of`, which says neither what it does nor what it holds.

use super::{found_in_crates, sources};
use std::fs;
use std::path::Path;

/// Returns the places in a folder's Rust files where a function or a variable is named `of`, as "file:line".
fn named_of(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in sources(folder) {
        let is_named_of = |line: &str| {
            let code = line.trim_start();
            let names = |start: &str, next: [char; 2]| {
                code.split(start).skip(1).any(|rest| rest.trim_start().starts_with(next))
            };
            !code.starts_with("//") && (names("fn of", ['(', '<']) || names("let of", ['=', ':']))
        };
        let lines = text.lines().enumerate().filter(|(_, line)| is_named_of(line));
        found.extend(lines.map(|(i, _)| format!("{}:{}", path.display(), i + 1)));
    }
    found
}

#[test]
fn nothing_is_named_of() {
    let found = found_in_crates(named_of);
    let advice = "name what it does, makes or holds: `for_device`, `parse`, `margin` (crates/STYLE.md, Names)";
    assert!(found.is_empty(), "{}: {advice}", found.join(", "));
}

#[test]
fn a_function_or_a_variable_that_is_named_of_is_found() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("inner")).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("a.rs", "fn offset() {}\n// fn of(x: u8)\nfn for_device() { let offset = x.of(1); }\n");
    write("notes.md", "fn of(x: u8)");
    assert_eq!(named_of(folder.path()), Vec::<String>::new());
    write("inner/b.rs", "struct A;\nimpl A {\n    pub const fn of<T>(t: T) -> Self { A }\n}\n\nfn of(x: u8) {}\n");
    write("inner/c.rs", "fn a() {\n    let of = |x: u8| x;\n    let of: u8 = 1;\n}\n");
    let mut found = named_of(folder.path());
    found.sort();
    let ends = ["b.rs:3", "b.rs:6", "c.rs:2", "c.rs:3"];
    assert!(found.len() == 4 && ends.iter().zip(&found).all(|(end, place)| place.ends_with(end)), "{found:?}");
}
