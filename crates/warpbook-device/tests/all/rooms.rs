//! The crate's rooms: small folders of small files, no circle of files, a name once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use warpbook_device::testing::manifest_dir;

/// The names of a module from the crate's root on.
type Module = Vec<String>;

/// The sources of a crate, by their modules: text without comments and tests.
struct Sources(BTreeMap<Module, String>);

impl Sources {
    fn read(folder: &Path) -> Self {
        let mut all = BTreeMap::new();
        collect(folder, &mut Module::new(), &mut all);
        let tests = all.values().flat_map(|text: &String| text.split("#[cfg(test)]\nmod ").skip(1));
        let tests: BTreeSet<String> = tests.filter_map(|rest| Some(rest.split_once(';')?.0.to_owned())).collect();
        all.retain(|module, _| module.last().is_none_or(|name| !tests.contains(name)));
        Self(all.into_iter().map(|(module, text)| (module, code(&text))).collect())
    }

    /// A path as names from the crate's root on; `None` where it is not one of this crate.
    fn absolute(&self, module: &[String], path: &str) -> Option<Module> {
        let names: Vec<&str> = path.split("::").map(str::trim).collect();
        let ups = names.iter().take_while(|name| **name == "super").count();
        let (base, rest) = match names[0] {
            "crate" => (&[][..], &names[1..]),
            "self" => (module, &names[1..]),
            "super" => (&module[..module.len().checked_sub(ups)?], &names[ups..]),
            child if self.0.contains_key(&[module, &[child.to_owned()]].concat()) => (module, &names[..]),
            _ => return None,
        };
        Some(base.iter().cloned().chain(rest.iter().map(|name| (*name).to_owned())).collect())
    }

    /// What each module hands on: a name and where it comes from.
    fn handed_on(&self) -> BTreeMap<Module, BTreeMap<String, Module>> {
        let of = |(module, text): (&Module, &String)| {
            let paths = uses(text).into_iter().filter(|(public, _)| *public).flat_map(|(_, tree)| expand(&tree));
            let names = paths.filter_map(|path| {
                let (path, name) = path.split_once(" as ").map_or((&*path, None), |(path, name)| (path, Some(name)));
                let from = self.absolute(module, path)?;
                Some((name.map_or_else(|| from.last().cloned(), |name| Some(name.trim().to_owned()))?, from))
            });
            (module.clone(), names.collect())
        };
        self.0.iter().map(of).collect()
    }

    /// The other files that each file names.
    fn arrows(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let handed_on = self.handed_on();
        let file = |mut path: Module| loop {
            let module = (0..=path.len()).rev().map(|n| path[..n].to_vec()).find(|m| self.0.contains_key(m))?;
            match path.get(module.len()).and_then(|name| handed_on[&module].get(name)) {
                Some(from) => path = [&from[..], &path[module.len() + 1..]].concat(),
                None => return Some(module),
            }
        };
        let of = |(module, text): (&Module, &String)| {
            let imports = uses(text).into_iter().filter(|(public, _)| !public).flat_map(|(_, tree)| expand(&tree));
            let paths: Vec<String> = imports.chain(inline(text)).collect();
            let named = paths.iter().filter_map(|path| file(self.absolute(module, path.split(" as ").next()?)?));
            (module.clone(), named.filter(|other| other != module && !other.is_empty()).collect())
        };
        self.0.iter().filter(|(module, _)| !module.is_empty()).map(of).collect()
    }
}

fn collect(folder: &Path, module: &mut Module, all: &mut BTreeMap<Module, String>) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_stem().unwrap().to_string_lossy().into_owned();
        let is_own = name == "mod" || name == "lib";
        module.extend((!is_own).then_some(name));
        if entry.is_dir() {
            collect(&entry, module, all);
        } else {
            all.insert(module.clone(), std::fs::read_to_string(&entry).unwrap());
        }
        module.truncate(module.len() - usize::from(!is_own));
    }
}

/// The text up to its tests, without comments.
fn code(text: &str) -> String {
    let tests = text.match_indices("#[cfg(test)]\n").find(|(at, _)| {
        let declaration = text[*at..].lines().nth(1).unwrap_or_default();
        declaration.contains("mod ") && declaration.ends_with('{')
    });
    let text = tests.map_or(text, |(at, _)| &text[..at]);
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The trees of all `use` items, and whether they hand on what they name.
fn uses(text: &str) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("use ") {
        let before = text[..at].rsplit('\n').next().unwrap_or_default().trim();
        if (before.is_empty() || before.starts_with("pub"))
            && let Some((tree, _)) = text[at + 4..].split_once(';')
        {
            found.push((before.starts_with("pub"), tree.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
    }
    found
}

/// The single paths of a tree.
fn expand(tree: &str) -> Vec<String> {
    let Some((prefix, rest)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in rest.trim_end().strip_suffix('}').expect("a tree ends with its brace").chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 { parts.push(String::new()) } else { parts.last_mut().unwrap().push(c) }
    }
    let parts = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
    parts.flat_map(|part| expand(&format!("{}{part}", prefix.trim()))).collect()
}

/// Paths outside of `use` items.
fn inline(text: &str) -> Vec<String> {
    let starts = ["crate::", "super::"].into_iter().flat_map(|start| text.match_indices(start));
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let path =
        |at: usize| text[at..].split(|c| !is_path(c)).next().unwrap_or_default().trim_end_matches(':').to_owned();
    starts.map(|(at, _)| path(at)).collect()
}

#[test]
fn folders_and_files_are_small() {
    fn check(folder: &Path) {
        let entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        let files: Vec<_> = entries.iter().filter(|path| path.extension().is_some_and(|e| e == "rs")).collect();
        assert!(files.len() <= 12, "{} has {} files", folder.display(), files.len());
        for file in files {
            let lines = std::fs::read_to_string(file).unwrap().lines().count();
            assert!(lines <= 600, "{} has {lines} lines", file.display());
        }
        entries.iter().filter(|path| path.is_dir()).for_each(|path| check(path));
    }
    check(&manifest_dir(env!("CARGO_MANIFEST_DIR")).join("src"));
}

#[test]
fn no_files_name_each_other_in_a_circle() {
    let mut arrows = Sources::read(&manifest_dir(env!("CARGO_MANIFEST_DIR")).join("src")).arrows();
    assert!(arrows.len() > 40 && arrows.values().map(BTreeSet::len).sum::<usize>() > 150, "{arrows:?}");
    // Files that name none of those that are left belong to no circle.
    while let Some(last) = arrows.iter().find(|(_, to)| to.is_empty()).map(|(module, _)| module.clone()) {
        arrows.remove(&last);
        arrows.values_mut().for_each(|to| to.retain(|module| *module != last));
    }
    let circle: Vec<String> = arrows
        .iter()
        .map(|(from, to)| {
            format!("{} -> {}", from.join("::"), to.iter().map(|m| m.join("::")).collect::<Vec<_>>().join(", "))
        })
        .collect();
    assert!(circle.is_empty(), "these files, or some of them, form a circle:\n{}", circle.join("\n"));
}

#[test]
fn a_type_s_name_is_used_once() {
    let sources = Sources::read(&manifest_dir(env!("CARGO_MANIFEST_DIR")).join("src"));
    let mut names: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (module, text) in &sources.0 {
        for line in text.lines().filter(|line| !line.starts_with(' ')) {
            let mut words = line.split(' ').skip_while(|word| word.starts_with("pub") || *word == "unsafe");
            if let (Some("struct" | "enum" | "trait" | "type" | "union"), Some(name)) = (words.next(), words.next()) {
                let name = name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                names.entry(name).or_default().push(module.join("::"));
            }
        }
    }
    names.retain(|_, modules| modules.len() > 1);
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn trees_are_expanded() {
    assert_eq!(expand("crate::{A, b::{C, d::E}, F}"), ["crate::A", "crate::b::C", "crate::b::d::E", "crate::F"]);
    assert_eq!(expand("std::io"), ["std::io"]);
}
