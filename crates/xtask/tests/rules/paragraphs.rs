//! A rule for doc comments: no paragraph begins like a fragment, such as "The same errors as ..." or "Whether ...".

use super::{found_in_crates, sources};
use std::fs;
use std::path::Path;

/// Openings of sentences that lack a subject, or that mean nothing without the text before them.
const OPENINGS: [&str; 6] = ["The same ", "Those of ", "What ", "One is ", "Whether ", "Of "];

/// Returns the paragraphs of a source's doc comments that begin with one of the openings: (line, text of the line). A
/// paragraph begins with its comment, after an empty line, or after a heading.
fn fragments(source: &str) -> Vec<(usize, &str)> {
    let (mut marker, mut begins, mut is_code) = ("", true, false);
    let mut found = Vec::new();
    for (at, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let doc = ["///", "//!"].into_iter().find_map(|mark| Some((mark, line.strip_prefix(mark)?)));
        let Some((mark, rest)) = doc.filter(|(_, rest)| !rest.starts_with('/')) else {
            marker = "";
            continue;
        };
        if mark != marker {
            (marker, begins, is_code) = (mark, true, false);
        }
        let words = rest.trim();
        is_code ^= words.starts_with("```");
        let has_opening = || OPENINGS.iter().any(|opening| format!("{words} ").starts_with(opening));
        if begins && !is_code && has_opening() {
            found.push((at + 1, words));
        }
        begins = words.is_empty() || words.starts_with('#');
    }
    found
}

/// Returns the fragments in a folder's Rust files, each as "file:line: text".
fn fragments_in(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for (path, source) in sources(folder) {
        let lines = fragments(&source).into_iter();
        found.extend(lines.map(|(line, words)| format!("{}:{line}: {words}", path.display())));
    }
    found
}

#[test]
fn no_paragraph_of_a_doc_comment_begins_like_a_fragment() {
    let found = found_in_crates(fragments_in);
    let advice = "write a sentence with a subject (crates/STYLE.md, Words)";
    assert!(found.is_empty(), "{advice}:\n{}", found.join("\n"));
}

#[test]
fn a_paragraph_that_begins_like_a_fragment_is_found() {
    let lines = |source: &str| fragments(source).iter().map(|(line, _)| *line).collect::<Vec<_>>();
    for (source, expect) in [
        ("/// The same errors as [`a`].\nfn b() {}", 1),
        ("//! What is trained, and how.\n\nuse std::fs;", 1),
        ("//! A module.\n/// Whether it is full.\nstruct A;", 2),
        ("struct A;\n\nimpl A {\n    /// Adds.\n    ///\n    /// Of two, the first.\n    fn a() {}\n}", 6),
        ("/// Adds.\n///\n/// # Errors\n/// One is returned if it is full.\nfn a() {}", 4),
        ("/// Adds.\nfn a() {}\n/// Those of\n/// a device.\nfn b() {}", 3),
        ("/// ```\n/// a();\n/// ```\n///\n/// What it does.\nfn a() {}", 5),
    ] {
        assert_eq!(lines(source), [expect], "{source}");
    }
    for source in [
        "/// Returns the errors of [`a`].\nfn b() {}",
        "/// Returns true for a device that is\n/// Of type A.\nfn b() {}",
        "/// Whatever is full.\n///\n/// Offsets of arrays.\nfn b() {}",
        "// What this does.\n//// Of no documentation.\nlet text = \"/// What\";",
        "/// ```text\n///\n/// What a program prints.\n/// ```\nfn b() {}",
    ] {
        assert_eq!(lines(source), Vec::<usize>::new(), "{source}");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("inner")).unwrap();
    fs::write(folder.path().join("notes.md"), "/// What.").unwrap();
    assert_eq!(fragments_in(folder.path()), Vec::<String>::new());
    fs::write(folder.path().join("inner/a.rs"), "/// What it does.\nfn a() {}\n").unwrap();
    let found = fragments_in(folder.path());
    assert!(found.len() == 1 && found[0].ends_with("a.rs:1: What it does."), "{found:?}");
}
