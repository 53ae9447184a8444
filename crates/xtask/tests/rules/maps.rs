//! Limits on the lengths of the pages that a reader sees first, and the check that a ladder's page names every rung.
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
const PAGES: [Page<'static>; 7] = [
    Page { file: "README.md", lines: 1..=150, bytes: 12 * KB },
    Page { file: "crates/ARCHITECTURE.md", lines: 1..=200, bytes: 20 * KB },
    Page { file: "crates/STYLE.md", lines: 1..=60, bytes: 6 * KB },
    Page { file: "crates/warpbook-cli/README.md", lines: 40..=90, bytes: 8 * KB },
    Page { file: "web/README.md", lines: 1..=90, bytes: 9 * KB },
    Page { file: "notebooks/README.md", lines: 1..=90, bytes: 9 * KB },
    Page { file: "kernels/README.md", lines: 20..=70, bytes: 6 * KB },
];

/// The folders of kernels with a page: the ladders, and the pairs of the guide.
const LADDERS: [&str; 4] = ["guide", "matmul", "nn", "regression"];
/// The longest page of a ladder had 125 lines and 11.3 KB when these limits were set.
const LADDER_LINES: RangeInclusive<usize> = 30..=140;
const LADDER_BYTES: usize = 13 * KB;

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

/// Returns the rung files of a folder to which its page has no link. Files of rungs begin with their number; in the guide,
/// every file is half of a pair.
fn without_link(folder: &Path) -> Vec<String> {
    let page = fs::read_to_string(folder.join("README.md")).unwrap();
    let is_guide = folder.ends_with("guide");
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let is_rung = |name: &String| name.ends_with(".cu") && (is_guide || name.starts_with(|c: char| c.is_ascii_digit()));
    let mut lacking: Vec<String> = names.filter(is_rung).filter(|name| !page.contains(&format!("]({name})"))).collect();
    lacking.sort();
    lacking
}

#[test]
fn a_ladder_s_page_is_short_and_has_a_link_to_every_rung() {
    let kernels = workspace().join("kernels");
    let with_page = fs::read_dir(&kernels).unwrap().map(|entry| entry.unwrap().path());
    let mut with_page: Vec<_> = with_page.filter(|path| path.join("README.md").is_file()).collect();
    with_page.sort();
    assert_eq!(with_page, LADDERS.map(|name| kernels.join(name)), "each folder with a page is in LADDERS");
    let files = LADDERS.map(|name| format!("kernels/{name}/README.md"));
    let pages = files.iter().map(|file| Page { file, lines: LADDER_LINES, bytes: LADDER_BYTES });
    let mut wrong: Vec<String> = pages.filter_map(|page| fault(&workspace(), &page)).collect();
    for folder in &with_page {
        wrong.extend(without_link(folder).iter().map(|name| format!("{}: no link to {name}", folder.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_rung_without_a_link_is_found() {
    let found = |folder: &str| {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join(folder);
        fs::create_dir(&folder).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("README.md", "[`01_naive`](01_naive.cu), [fast](fast.cu), `02_tile`\n");
        ["01_naive.cu", "02_tile.cu", "fast.cu", "helper.cu", "03_shared.cuh"].iter().for_each(|name| write(name, ""));
        without_link(&folder)
    };
    assert_eq!(found("matmul"), ["02_tile.cu"]);
    assert_eq!(found("guide"), ["02_tile.cu", "helper.cu"]);
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
