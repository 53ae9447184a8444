//! The records given to a command: files, and folders of files.

use crate::failure::Failure;
use crate::output::warn;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use warpbook::charts::record_summary;
use warpbook::read_record;
use warpbook_record::Run;

/// A record, with the name that it has on the page.
#[derive(Debug)]
pub struct Record {
    /// A plain file name that no other record has.
    pub name: String,
    pub run: Run,
}

impl Record {
    /// Returns the record's entry in the page's index.
    pub fn entry(&self) -> Value {
        let (headline, ladder, _) = record_summary(&self.run);
        json!({
            "file": self.name,
            "experiment": self.run.experiment,
            "title": self.run.title,
            "device": self.run.environment.device.name,
            "created": self.run.created,
            "author": self.run.author,
            "headline": headline,
            "ladder": ladder.iter().map(|h| (h * 1e4).round() / 1e4).collect::<Vec<_>>(),
        })
    }
}

/// Reads all files. Returns the records and the number of unreadable files, each of which causes a warning. Empty files
/// in a folder are skipped.
pub fn read_all(named: &[PathBuf]) -> Result<(Vec<Record>, usize), Failure> {
    let mut records: Vec<Record> = Vec::new();
    let mut refused = 0;
    for path in files(named)? {
        if !named.contains(&path) && path.metadata().is_ok_and(|about| about.len() == 0) {
            warn(&format!("{} is empty, so it is skipped. A run that was killed may have left it.", path.display()));
            continue;
        }
        match read_record(&path) {
            Ok(run) => records.push(Record { name: unique_name(&path, records.iter().map(|r| &*r.name)), run }),
            Err(why) => {
                warn(&why.to_string());
                refused += 1;
            }
        }
    }
    Ok((records, refused))
}

/// Returns the named files; for a folder, its JSON files sorted by name.
pub fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut all = Vec::new();
    for path in named {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let entries = std::fs::read_dir(path)
            .map_err(|e| Failure::usage(format!("The folder {} cannot be read: {e}.", path.display())))?;
        let mut found: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(|p| is_record_file(p)).collect();
        if found.is_empty() {
            return Err(Failure::usage(format!("The folder {} holds no .json file.", path.display())));
        }
        found.sort();
        all.extend(found);
    }
    Ok(all)
}

/// Returns true if the file may be a record, judging by its name; the index of a folder is not a record.
fn is_record_file(path: &Path) -> bool {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    path.is_file() && name.ends_with(".json") && !name.starts_with('.') && name != "index.json"
}

/// Returns the name of the file, changed if an earlier record has the same name.
pub fn unique_name<'a>(path: &Path, before: impl Iterator<Item = &'a str>) -> String {
    let name = path.file_name().map_or_else(|| "record.json".into(), |n| n.to_string_lossy().into_owned());
    // The viewer accepts only plain names.
    let name = name.trim_start_matches('.').replace(['/', '\\', ':', '\0'], "_");
    let before: Vec<&str> = before.collect();
    let numbered = (2u32..).map(|n| match name.rsplit_once('.') {
        Some((stem, end)) => format!("{stem}-{n}.{end}"),
        None => format!("{name}-{n}"),
    });
    std::iter::once(name.clone()).chain(numbered).find(|n| !before.contains(&n.as_str())).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_differ() {
        let name = |path: &str, before: &[&str]| unique_name(Path::new(path), before.iter().copied());
        assert_eq!(name("a/b.json", &[]), "b.json");
        assert_eq!(name("a/.b:c.json", &[]), "b_c.json");
        assert_eq!(name("..", &[]), "record.json");
        assert_eq!(name("c/b.json", &["b.json", "b-2.json"]), "b-3.json");
    }

    #[test]
    fn a_folder_is_its_records() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert!(files(&[folder.path().into()]).unwrap_err().sentence.contains("holds no .json file"));
        for name in ["b.json", "a.json", "index.json", ".c.json", "d.txt"] {
            std::fs::write(path(name), "").unwrap();
        }
        std::fs::create_dir(path("e.json")).unwrap();
        let found = files(&[path("gone.json"), folder.path().into()]).unwrap();
        assert_eq!(found, [path("gone.json"), path("a.json"), path("b.json")]);
    }
}
