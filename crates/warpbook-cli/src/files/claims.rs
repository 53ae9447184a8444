//! The files that a command reads and writes, compared by identity and not by name.

use super::writable::check_writable;
use crate::failure::Failure;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use warpbook::device::behind_links;
use warpbook::nn::infer::Frozen;
use warpbook::nn::weights::is_checkpoint;

/// Kinds of file contents. An existing file is replaced only if it is of the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A record.
    Record,
    /// A profile in trace format.
    Trace,
    /// The report of a survey.
    Survey,
    /// An HTML file.
    Page,
    /// An SVG file.
    Picture,
    /// A checkpoint of a training.
    Checkpoint,
    /// A frozen network.
    Frozen,
}

impl Kind {
    /// Returns true if a file with this start is of this kind; an empty file is of every kind.
    fn is_of(self, path: &Path, start: &[u8]) -> bool {
        let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start().to_ascii_lowercase();
        let first_key_is = |key: &str| {
            let rest = text.strip_prefix(b"{").unwrap_or_default().trim_ascii_start().strip_prefix(b"\"");
            rest.and_then(|rest| rest.strip_prefix(key.as_bytes())).is_some_and(|rest| rest.starts_with(b"\""))
        };
        match self {
            _ if start.is_empty() => true,
            Self::Record => first_key_is("schema"),
            Self::Trace => first_key_is("traceevents") || first_key_is("displaytimeunit"),
            Self::Survey => first_key_is("summaries"),
            Self::Page => text.starts_with(b"<!doctype html") || text.starts_with(b"<html"),
            Self::Picture => text.starts_with(b"<svg"),
            Self::Checkpoint => is_checkpoint(path),
            Self::Frozen => Frozen::is_in(path),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Record => "not a record of Warpbook",
            Self::Trace => "not a trace of a profile",
            Self::Survey => "not the report of a survey",
            Self::Page => "not a web page",
            Self::Picture => "not an SVG picture",
            Self::Checkpoint => "not a checkpoint",
            Self::Frozen => "not a frozen network",
        }
    }
}

/// The files of one command: inputs and outputs.
#[derive(Debug, Default)]
pub struct Files {
    /// The files on the command line: their names in messages and their paths.
    known: Vec<(String, PathBuf)>,
}

impl Files {
    /// Registers a file that the command reads, so that no output may replace it.
    pub fn reads(&mut self, name: &str, path: impl AsRef<Path>) {
        self.known.push((name.to_owned(), path.as_ref().to_owned()));
    }

    /// Creates the list with the files of an option or argument that the command reads.
    pub fn reading(name: &str, paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        let mut files = Self::default();
        paths.into_iter().for_each(|path| files.reads(name, path));
        files
    }

    /// Registers a file that the command will write. It is an error if the command also reads this file or writes
    /// anything else to it, under any name, or if an existing file is of another kind.
    pub fn claim(&mut self, option: &str, path: &Path, kind: Kind) -> Result<(), Failure> {
        let refuse =
            |why: String| Err(Failure::usage(format!("{option} {}: {why} Nothing has been started.", path.display())));
        if path.to_str().is_none() {
            return refuse("this name is not valid UTF-8, which other commands need. Choose another name.".into());
        }
        let own = Identity::new(path);
        if let Some((name, other)) = self.known.iter().find(|(_, other)| Identity::new(other) == own) {
            let other = if other == path { String::new() } else { format!(" {}", other.display()) };
            return refuse(format!(
                "this is the same file as {name}{other}, which would be overwritten. Name another file."
            ));
        }
        let mut start = Vec::new();
        let is_file = fs::metadata(path).is_ok_and(|m| m.is_file());
        if is_file
            && File::open(path).and_then(|file| file.take(64).read_to_end(&mut start)).is_ok()
            && !kind.is_of(path, &start)
        {
            return refuse(format!(
                "a file of that name exists and is {}, so it is not overwritten. Name another file, or remove that one.",
                kind.name()
            ));
        }
        self.known.push((option.to_owned(), path.to_owned()));
        Ok(())
    }

    /// Returns the file of an option after checking that it may be replaced and can be written. The check runs before
    /// anything is measured, and leaves nothing behind.
    pub fn output(&mut self, option: &str, path: &Path, kind: Kind) -> Result<PathBuf, Failure> {
        self.claim(option, path, kind)?;
        check_writable(option, path)?;
        Ok(path.to_owned())
    }

    /// Like [`Files::output`], for an option that may be absent.
    pub fn optional(&mut self, option: &str, path: Option<&Path>, kind: Kind) -> Result<Option<PathBuf>, Failure> {
        path.map(|path| self.output(option, path, kind)).transpose()
    }

    /// Checks the file of --profile, and the trace that is written next to it.
    pub fn profile(&mut self, path: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
        let Some(path) = path else { return Ok(None) };
        self.output("--profile", path, Kind::Record)?;
        self.output("the trace of --profile", &trace_of(path), Kind::Trace)?;
        Ok(Some(path.to_owned()))
    }
}

/// Returns the path of the trace that belongs to a profile's record.
pub fn trace_of(profile: &Path) -> PathBuf {
    profile.with_extension("trace.json")
}

/// The identity of a file, independent of its name.
#[derive(Debug, PartialEq, Eq)]
enum Identity {
    /// The device number and the inode number of the file, if it exists.
    #[cfg(unix)]
    Number(u64, u64),
    /// The path with links resolved, if device and inode numbers are not available.
    Name(PathBuf),
}

impl Identity {
    fn new(path: &Path) -> Self {
        #[cfg(unix)]
        if let Ok(m) = fs::metadata(path) {
            use std::os::unix::fs::MetadataExt;
            return Self::Number(m.dev(), m.ino());
        }
        let file = behind_links(path).unwrap_or_else(|_| path.to_owned());
        let Some(name) = file.file_name() else { return Self::Name(file) };
        let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Self::Name(folder.canonicalize().unwrap_or_else(|_| folder.to_owned()).join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(failed: Result<(), Failure>) -> String {
        failed.unwrap_err().sentence
    }

    #[test]
    fn an_output_is_no_input_and_no_other_output_under_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a.json"), "{}").unwrap();
        fs::hard_link(at("a.json"), at("hard.json")).unwrap();
        fs::create_dir(at("sub")).unwrap();
        let mut files = Files::reading("the record", [at("a.json")]);
        let mut same = vec![at("a.json"), at("./a.json"), at("sub/../a.json"), at("hard.json")];
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("a.json", at("link.json")).unwrap();
            std::os::unix::fs::symlink("new.json", at("early.json")).unwrap();
            same.push(at("link.json"));
        }
        for path in same {
            let why = sentence(files.claim("--out", &path, Kind::Record));
            assert!(why.contains("the same file as the record"), "{why}");
        }
        files.claim("--out", &at("new.json"), Kind::Record).unwrap();
        let why = sentence(files.claim("--profile", &at("sub/../new.json"), Kind::Record));
        assert!(why.contains("the same file as --out"), "{why}");
        #[cfg(unix)]
        assert!(sentence(files.claim("--profile", &at("early.json"), Kind::Record)).contains("the same file as --out"));
    }

    #[test]
    fn a_file_is_replaced_by_one_of_its_kind() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let safetensors = |about: &str| {
            let header = serde_json::json!({ "__metadata__": { "warpbook": about } }).to_string();
            [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat()
        };
        let all = [
            ("record", b"\xef\xbb\xbf {\n \"schema\": 3}".to_vec()),
            ("page", b"<!DOCTYPE html>".to_vec()),
            ("picture", b"<svg xmlns".to_vec()),
            ("trace", b"{\"traceEvents\":[]}".to_vec()),
            ("checkpoint", safetensors("{\"checkpoint\":1}")),
            ("frozen", safetensors("{\"frozen\":1}")),
            ("weights", safetensors("{}")),
            ("settings", b"{\"my\":\"settings\", \"schema\": 1}".to_vec()),
            ("data.xml", b"<?xml version=\"1.0\"?>".to_vec()),
            ("text", b"text".to_vec()),
        ];
        for (name, bytes) in &all {
            fs::write(at(name), bytes).unwrap();
        }
        fs::write(at("empty"), "").unwrap();
        for (kind, own) in [
            (Kind::Record, "record"),
            (Kind::Page, "page"),
            (Kind::Picture, "picture"),
            (Kind::Trace, "trace"),
            (Kind::Checkpoint, "checkpoint"),
            (Kind::Frozen, "frozen"),
        ] {
            for (name, _) in &all {
                let claimed = Files::default().claim("--out", &at(name), kind);
                assert_eq!(claimed.is_ok(), *name == own, "{kind:?} over {name}");
            }
            Files::default().claim("--out", &at("empty"), kind).unwrap();
        }
    }
}
