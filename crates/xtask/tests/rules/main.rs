//! Rules for the crates' sources: sizes of folders and files, dependencies between files, and lengths of documentation
//! pages.

mod maps;
mod modules;
mod names;
mod paragraphs;

use modules::{Uses, circle, types, uses};
use std::fs;
use std::path::{Path, PathBuf};

/// The maximum number of Rust files in a folder of `src`.
const FILES: usize = 12;
/// The maximum number of lines in a file.
const LINES: usize = 600;

/// Crates in which files may not depend on each other in a circle.
const WITHOUT_CIRCLES: [&str; 3] = ["crates/warpbook-charts", "crates/warpbook-device", "crates/warpbook-cli"];
/// The crates as a stack: each may depend only on those before it.
const STACK: [&str; 18] = [
    "warpbook-record",
    "warpbook-charts",
    "warpbook-kernels",
    "warpbook-emulator",
    "warpbook-data",
    "warpbook-device",
    "warpbook-gemm",
    "warpbook-ranks",
    "warpbook-nn",
    "warpbook-lab",
    "warpbook-experiments",
    "warpbook-exercises",
    "warpbook",
    "warpbook-op",
    "warpbook-site",
    "warpbook-cli",
    "warpbook-web",
    "xtask",
];
/// The layers of `warpbook-charts`, each with the layers that it may use.
const FLOORS: [(&str, &[&str]); 4] =
    [("draw", &[]), ("record", &["draw"]), ("charts", &["draw", "record"]), ("compare", &["draw", "record"])];

fn workspace() -> PathBuf {
    PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../..")
}

/// Returns the folders of all crates.
fn crates() -> Vec<PathBuf> {
    let all = fs::read_dir(workspace().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.join("src").is_dir()).chain([workspace().join("web")]).collect()
}

/// Returns the Rust files in a folder and its subfolders, with their texts.
fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found
}

/// Applies a rule for sources to all crates, and returns what it finds.
fn found_in_crates(rule: impl Fn(&Path) -> Vec<String>) -> Vec<String> {
    let all = crates();
    assert!(all.len() > 10, "the crates of {} were not found", workspace().display());
    all.iter().flat_map(|folder| rule(&folder.join("src"))).collect()
}

/// Returns what is wrong with the sizes of a folder and its subfolders.
fn sizes(folder: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut files = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            wrong.extend(sizes(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            files += 1;
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            if lines > LINES {
                wrong.push(format!("{} has {lines} lines, more than {LINES}", path.display()));
            }
        }
    }
    if files > FILES {
        wrong.push(format!("{} has {files} Rust files, more than {FILES}", folder.display()));
    }
    wrong
}

/// Returns the uses between a crate's files, for its library and its program.
fn uses_of(name: &str) -> Vec<Uses> {
    let src = workspace().join(name).join("src");
    let roots = ["lib.rs", "main.rs"].map(|root| src.join(root));
    let all: Vec<Uses> = roots.iter().filter(|root| root.is_file()).map(|root| uses(root)).collect();
    assert!(!all.is_empty(), "{name} has no sources");
    all
}

/// Returns the uses of a higher layer, or of another layer at the same level.
fn upwards(uses: &Uses) -> Vec<String> {
    let floor = |file: &str| FLOORS.iter().find(|(name, _)| file.starts_with(&format!("{name}/")));
    let mut wrong = Vec::new();
    for (from, all) in uses {
        for to in all {
            let is_fine = match (floor(from), floor(to)) {
                // The root only re-exports items, so it belongs to no layer.
                (None, _) => true,
                (Some(_), None) => false,
                (Some((a, below)), Some((b, _))) => a == b || below.contains(b),
            };
            if !is_fine {
                wrong.push(format!("{from} uses {to}"));
            }
        }
    }
    wrong
}

#[test]
fn folders_and_files_are_small() {
    let wrong: Vec<String> = crates().iter().flat_map(|folder| sizes(&folder.join("src"))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn crates_are_a_stack() {
    let place = |name: &str| STACK.iter().position(|known| *known == name);
    let all = crates();
    assert_eq!(all.len(), STACK.len());
    for folder in all {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).unwrap();
        let own = place(name).unwrap_or_else(|| panic!("{name} has no place in the stack"));
        // Tests may depend on any crate.
        let (_, dependencies) = manifest.split_once("[dependencies]").unwrap_or_default();
        let lines = dependencies.lines().take_while(|line| !line.starts_with('['));
        let keys = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
        for used in keys.filter(|key| key.starts_with("warpbook")) {
            assert!(place(used).is_some_and(|other| other < own), "{name} may not use {used}");
        }
    }
}

/// Returns types whose name is defined twice in a crate, each with the files of its definitions.
fn defined_twice(root: &Path) -> Vec<String> {
    let twice = types(root).into_iter().filter(|(_, files)| files.len() > 1);
    twice.map(|(name, files)| format!("{}: {name} in {}", root.display(), files.join(", "))).collect()
}

/// The emulator runs in a browser and on any machine, so it uses no file, no process, no thread and no other crate.
#[test]
fn the_emulator_has_no_io_and_no_dependencies() {
    let folder = workspace().join("crates/warpbook-emulator");
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let (_, after) = manifest.split_once("\n[dependencies]\n").unwrap();
    assert!(after.trim_start().starts_with('['), "{after}");
    let all = sources(&folder.join("src"));
    assert!(all.len() > 30, "{} files", all.len());
    for (path, text) in all {
        for of_host in ["fs", "io", "net", "process", "env", "thread", "time"].map(|module| format!("std::{module}")) {
            assert!(!text.contains(&of_host), "{} uses {of_host}", path.display());
        }
        assert!(!text.contains("println!") && !text.contains("unsafe "), "{}", path.display());
    }
}

#[test]
fn a_type_s_name_is_used_once_in_a_crate() {
    let roots = crates().into_iter().flat_map(|folder| ["src/lib.rs", "src/main.rs"].map(|root| folder.join(root)));
    let roots: Vec<PathBuf> = roots.filter(|root| root.is_file()).collect();
    assert_eq!(roots.len(), STACK.len());
    let wrong: Vec<String> = roots.iter().flat_map(|root| defined_twice(root)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_name_that_is_used_twice_is_found() {
    let twice_in = |a: &str, b: &str| {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("lib.rs", "mod a;\npub mod b;\n#[cfg(test)]\nmod tests;");
        write("a.rs", a);
        write("b.rs", b);
        write("tests.rs", "struct One;");
        defined_twice(&folder.path().join("lib.rs")).len()
    };
    let one = "/// One.\n#[derive(Debug)]\nstruct One<T>(T);\npub enum Two {}";
    for b in [
        "pub struct One;",
        "struct One;",
        "pub(crate) enum One {}",
        "unsafe trait One {}",
        "type One = u8;",
        "pub union One { a: u8 }",
        "mod inner { struct One; }",
        "#[cfg(unix)]\npub(in crate::b) struct One;",
    ] {
        assert_eq!(twice_in(one, b), 1, "{b}");
    }
    for b in [
        "pub struct Three(One);\nuse crate::a::One;",
        "fn one() { struct One; }",
        "impl Iterator for Three { type One = Two; }",
        "fn union() -> Set { One.union(Two) }",
        "enum Three { One, Two }",
        "#[cfg(test)]\nstruct One;",
        "#[cfg(test)]\nmod tests { struct One; }",
        "// struct One;\nconst TEXT: &str = \"struct One;\";",
    ] {
        assert_eq!(twice_in(one, b), 0, "{b}");
    }
    // A file may define a name twice, too.
    assert_eq!(twice_in("mod one { struct Three; }\nmod two { struct Three; }", ""), 1);
}

#[test]
fn files_use_one_another_without_circles() {
    let circle_of = |name: &&str| {
        let way = uses_of(name).iter().find_map(circle)?;
        Some(format!("{name}: {}", way.join(" uses ")))
    };
    let wrong: Vec<String> = WITHOUT_CIRCLES.iter().filter_map(circle_of).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn charts_use_only_the_floors_below() {
    let uses = uses_of("crates/warpbook-charts").remove(0);
    assert!(uses.len() > 40 && uses.values().any(|to| to.len() > 5), "the sources were not read");
    let wrong = upwards(&uses);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Reads a crate made of these files: (path below `src`, text).
fn made(files: &[(&str, &str)]) -> Uses {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    uses(&folder.path().join("lib.rs"))
}

#[test]
fn a_circle_is_found_whatever_path_it_takes() {
    let found = |a: &str, b: &str| {
        let root = "mod a;\nmod b;\npub use b::two;\n";
        circle(&made(&[("lib.rs", root), ("a.rs", a), ("b/mod.rs", b), ("b/c.rs", "pub fn three() {}")]))
    };
    let b = "use crate::a::one;\nmod c;\npub use c::three;\npub fn two() { one() }";
    let both = Some(vec!["a.rs".to_owned(), "b/mod.rs".into(), "a.rs".into()]);
    for a in [
        "use crate::b::two;\npub fn one() { two() }",
        "use super::b::{self, two as other};\npub fn one() { other() }",
        "pub fn one() { crate::two() }",
        "use crate::two;\npub fn one() {}",
        "pub fn one() { println!(\"{:?}\", crate::b::two()) }",
        "use super::*;\npub fn one() { b::two() }",
        "pub fn one() { use crate::b; b::two() }",
        "pub fn one() {}\npub mod inner { use super::super::b::two; }",
    ] {
        assert_eq!(found(a, b), both, "{a}");
    }
    for a in [
        "pub fn one() {}",
        "pub fn one() {}\n#[cfg(test)]\nmod tests { use crate::b::two; }",
        "/// See [`crate::b::two`].\npub fn one() { let text = \"crate::b::two\"; }",
        // Re-exports of `b` are items of its child.
        "use crate::b::three;\npub fn one() { three() }",
    ] {
        assert_eq!(found(a, b), None, "{a}");
    }
    // A re-export counts as a use if the file itself uses the name.
    let child = ("b/c.rs", "use super::Two;\npub fn three(_: Two) {}");
    let parent = |code: &str| format!("pub struct Two;\nmod c;\npub use c::three;\n{code}");
    let circle_with = |code: &str| circle(&made(&[("lib.rs", "mod b;"), ("b/mod.rs", &parent(code)), child]));
    assert_eq!(circle_with(""), None);
    assert!(circle_with("pub fn four() { three(Two) }").is_some());
}

#[test]
fn a_use_of_a_floor_above_is_found() {
    let upwards_with = |draw: &str| {
        let root = "mod draw;\nmod record;\npub use record::name;";
        upwards(&made(&[("lib.rs", root), ("draw/mod.rs", draw), ("record/mod.rs", "pub fn name() {}")]))
    };
    assert_eq!(upwards_with("pub fn line() { std::fs::read(\"\"); }"), Vec::<String>::new());
    for draw in ["use crate::record::name;", "use crate::name;", "fn f() { crate::name() }"] {
        assert_eq!(upwards_with(draw), ["draw/mod.rs uses record/mod.rs"], "{draw}");
    }
}

#[test]
fn what_is_too_large_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, lines: usize| fs::write(folder.path().join(name), "\n".repeat(lines)).unwrap();
    (0..FILES).for_each(|i| write(&format!("f{i}.rs"), LINES));
    write("notes.md", LINES + 1);
    assert_eq!(sizes(folder.path()), Vec::<String>::new());
    write("more.rs", LINES + 1);
    assert_eq!(sizes(folder.path()).len(), 2);
}
