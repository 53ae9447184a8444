//! Limits on the lengths of the pages that a reader sees first.
//!
//! `src/publish/links.rs` checks the links, headings and paths in them, and the step "published files" of `cargo xtask
//! test` checks generated tables.

use super::workspace;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

/// The number of bytes in a KB.
const KB: usize = 1000;

/// A page with its limits on lines and bytes.
struct Page<'p> {
    file: &'p str,
    lines: RangeInclusive<usize>,
    bytes: usize,
}

/// The pages outside of `crates/`, and the command line's page, which shows how to call each command.
const PAGES: [Page<'static>; 6] = [
    Page { file: "README.md", lines: 1..=150, bytes: 12 * KB },
    Page { file: "crates/ARCHITECTURE.md", lines: 1..=200, bytes: 20 * KB },
    Page { file: "crates/STYLE.md", lines: 1..=60, bytes: 6 * KB },
    Page { file: "crates/warpbook-cli/README.md", lines: 40..=90, bytes: 8 * KB },
    Page { file: "web/README.md", lines: 1..=90, bytes: usize::MAX },
    Page { file: "notebooks/README.md", lines: 1..=90, bytes: usize::MAX },
];

/// Returns a sentence about what is wrong with a page, if anything.
fn fault(root: &Path, Page { file, lines, bytes }: &Page<'_>) -> Option<String> {
    let Ok(text) = fs::read_to_string(root.join(file)) else {
        return Some(format!("{file} is missing: say there what this is, where to begin, and what it must never know"));
    };
    let (has, size) = (text.lines().count(), text.len());
    if !lines.contains(&has) {
        return Some(format!("{file} has {has} lines, and should have {} to {}", lines.start(), lines.end()));
    }
    (size > *bytes)
        .then(|| format!("{file} has {size} bytes, of at most {bytes}: move what is not needed first to its room"))
}

#[test]
fn first_pages_are_short_and_every_crate_has_one() {
    let root = workspace();
    let named = |file: &str| PAGES.iter().any(|page| page.file == file);
    let mut pages: Vec<String> = fs::read_dir(root.join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("src").is_dir())
        .map(|path| format!("crates/{}/README.md", path.file_name().unwrap().to_string_lossy()))
        .filter(|file| !named(file))
        .collect();
    pages.sort();
    assert!(pages.len() >= 14, "{pages:?}");
    let of_crates = pages.iter().map(|file| Page { file, lines: 40..=80, bytes: 6 * KB });
    let wrong: Vec<String> = PAGES.into_iter().chain(of_crates).filter_map(|page| fault(&root, &page)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_page_that_is_missing_short_or_long_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let found = |lines: usize, bytes: usize| {
        fs::write(folder.path().join("page.md"), "12345\n".repeat(lines)).unwrap();
        fault(folder.path(), &Page { file: "page.md", lines: 2..=4, bytes })
    };
    let missing = fault(folder.path(), &Page { file: "page.md", lines: 2..=4, bytes: 24 });
    assert!(missing.unwrap().starts_with("page.md is missing"));
    assert_eq!((found(2, 24), found(4, 24)), (None, None));
    assert_eq!(found(1, 24).unwrap(), "page.md has 1 lines, and should have 2 to 4");
    assert_eq!(found(5, 30).unwrap(), "page.md has 5 lines, and should have 2 to 4");
    assert!(found(4, 23).unwrap().starts_with("page.md has 24 bytes, of at most 23"));
}
