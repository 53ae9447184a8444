//! Where a command writes: never into what it reads, never over what nobody named, and nothing finished is lost on the way.

use crate::failure::Failure;
use crate::output::complain;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use warpbook::device::{behind_links, ensure_writable, write_atomic};
use warpbook::nn::infer::Frozen;
use warpbook::nn::weights::is_checkpoint;
use warpbook::write_record;
use warpbook_record::Run;

/// A large record is not written more often than this.
const INTERVAL: Duration = Duration::from_secs(1);
/// The bytes that must fit on the disk before anything begins, if the size of the output is not known.
const PROBE_BYTES: u64 = 4096;
/// Empty files that hold a name until something is written there. They are locked as long as this process lives, so that one without a lock is known to
/// be left over from a process that was killed.
static RESERVED: Mutex<Vec<(PathBuf, File)>> = Mutex::new(Vec::new());

/// The kind of a file's contents. An older file is replaced only by one of the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A record.
    Record,
    /// A profile as a trace.
    Trace,
    /// The report of a survey.
    Survey,
    /// An HTML file.
    Page,
    /// An SVG file.
    Picture,
    /// A training that can go on.
    Checkpoint,
    /// A frozen network.
    Frozen,
}

impl Kind {
    /// Reports whether a file that begins like this is of this kind; an empty file is of every kind.
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

/// The files of one command: what it reads, and what it will write.
#[derive(Debug, Default)]
pub struct Files {
    /// Each file's name on the command line, and its path.
    known: Vec<(String, PathBuf)>,
}

impl Files {
    /// Notes a file that the command reads, so that none of its outputs replaces it.
    pub fn reads(&mut self, name: &str, path: impl AsRef<Path>) {
        self.known.push((name.to_owned(), path.as_ref().to_owned()));
    }

    /// Creates the list from the files of an option or an argument that the command reads.
    pub fn reading(name: &str, paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        let mut files = Self::default();
        paths.into_iter().for_each(|path| files.reads(name, path));
        files
    }

    /// Notes a file that the command will write. It is an error if the command also reads this file or writes something else to it, under whatever
    /// name, or if an older file is of another kind.
    pub fn claim(&mut self, option: &str, path: &Path, kind: Kind) -> Result<(), Failure> {
        let refuse =
            |why: String| Err(Failure::usage(format!("{option} {}: {why} Nothing has been started.", path.display())));
        if path.to_str().is_none() {
            return refuse("this name is not valid UTF-8, which other commands need. Choose another name.".into());
        }
        let own = Identity::of(path);
        if let Some((name, other)) = self.known.iter().find(|(_, other)| Identity::of(other) == own) {
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

    /// Returns the file of an option after checking that it may be replaced and can be written. This is tested before anything is measured, and
    /// leaves nothing behind.
    pub fn output(&mut self, option: &str, path: &Path, kind: Kind) -> Result<PathBuf, Failure> {
        self.claim(option, path, kind)?;
        check_writable(option, path)?;
        Ok(path.to_owned())
    }

    /// Like [`Files::output`], for an option that may be left out.
    pub fn optional(&mut self, option: &str, path: Option<&Path>, kind: Kind) -> Result<Option<PathBuf>, Failure> {
        path.map(|path| self.output(option, path, kind)).transpose()
    }

    /// The file of --profile, next to which its trace is written.
    pub fn profile(&mut self, path: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
        let Some(path) = path else { return Ok(None) };
        self.output("--profile", path, Kind::Record)?;
        self.output("the trace of --profile", &trace_of(path), Kind::Trace)?;
        Ok(Some(path.to_owned()))
    }
}

/// The trace next to a profile's record.
pub fn trace_of(profile: &Path) -> PathBuf {
    profile.with_extension("trace.json")
}

/// The first of `stem.end`, `stem-2.end` and so on in a folder that is not there, for all the ends. They are made at once, empty, so that nobody else gets
/// them; what is still empty when the program ends is removed again. An empty file that a killed process left counts as not there.
pub fn reserve<const N: usize>(folder: &Path, stem: &str, ends: [&str; N]) -> Result<[PathBuf; N], Failure> {
    for number in 1u32.. {
        let stem = if number == 1 { stem.to_owned() } else { format!("{stem}-{number}") };
        let paths = ends.map(|end| folder.join(format!("{stem}.{end}")));
        let mut made = Vec::new();
        let failed = paths.iter().find_map(|path| match take(path) {
            Ok(file) => {
                made.push((path.clone(), file));
                None
            }
            Err(e) => Some((path, e)),
        });
        let Some((path, why)) = failed else {
            reserved().extend(made);
            check_writable("--out", &paths[0])?;
            return Ok(paths);
        };
        made.iter().for_each(|(path, _)| drop(fs::remove_file(path)));
        if why.kind() != ErrorKind::AlreadyExists {
            return Err(unwritable("--out", path, &why.to_string()));
        }
    }
    Err(unwritable("--out", &folder.join(stem), "all names are taken"))
}

/// Makes an empty file and locks it, or takes over one that is empty and that no process has locked.
fn take(path: &Path) -> io::Result<File> {
    let taken = || ErrorKind::AlreadyExists.into();
    let (file, is_new) = match File::create_new(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => (File::open(path).map_err(|_| taken())?, false),
        made => (made?, true),
    };
    match file.try_lock() {
        Ok(()) => {}
        // On a file system without locks, a file may be anybody's.
        Err(TryLockError::Error(_)) if is_new => return Ok(file),
        Err(_) => return Err(taken()),
    }
    // Until it was locked, another process may have written there, or have taken it and gone.
    let is_own = fs::symlink_metadata(path).is_ok_and(|m| m.is_file() && m.len() == 0) && is_same(path, &file);
    if is_own { Ok(file) } else { Err(taken()) }
}

/// Reports whether a path leads to an open file.
#[cfg(unix)]
fn is_same(path: &Path, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    let number = |m: fs::Metadata| (m.dev(), m.ino());
    fs::metadata(path).ok().map(number) == file.metadata().ok().map(number)
}

/// Elsewhere, a locked file is not replaced.
#[cfg(not(unix))]
fn is_same(_: &Path, _: &File) -> bool {
    true
}

fn reserved() -> std::sync::MutexGuard<'static, Vec<(PathBuf, File)>> {
    RESERVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the reserved files that nothing was written to, when it goes.
#[derive(Debug)]
pub struct Reserved;

impl Drop for Reserved {
    fn drop(&mut self) {
        for (path, _locked) in reserved().drain(..) {
            if fs::symlink_metadata(&path).is_ok_and(|m| m.is_file() && m.len() == 0) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Ends the program within a signal's handler, say.
pub fn exit_now(code: u8) -> ! {
    drop(Reserved);
    std::process::exit(code.into())
}

fn unwritable(option: &str, path: &Path, why: &str) -> Failure {
    Failure::usage(format!(
        "{} cannot be written: {why}. Nothing has been started; choose another file for {option}.",
        path.display()
    ))
}

/// Tries whether the file of an option can be written in a folder that is there.
fn check_writable(option: &str, path: &Path) -> Result<(), Failure> {
    let refuse = |why: &str| Err(unwritable(option, path, why));
    let file = behind_links(path).map_err(|e| unwritable(option, path, &e.to_string()))?;
    let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() && file.file_name().is_some() {
        return refuse(&format!("there is no folder {}; make it first, as with mkdir -p", folder.display()));
    }
    ensure_writable(path, PROBE_BYTES).map_err(|e| unwritable(option, path, &e.to_string()))
}

/// The identity of a file, whatever name it is given.
#[derive(Debug, PartialEq, Eq)]
enum Identity {
    /// The numbers of its device and of its inode, where it exists.
    #[cfg(unix)]
    Number(u64, u64),
    /// Its path, with links followed, where there are no such numbers.
    Name(PathBuf),
}

impl Identity {
    fn of(path: &Path) -> Self {
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

/// Writes what is finished: where it should go, else into the folder for temporary files. An error says where it is instead, or that it is nowhere.
pub fn write_finished(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let Err(why) = write_atomic(path, bytes) else { return Ok(()) };
    let why = format!("{} cannot be written: {why}.", path.display());
    let mut name = std::ffi::OsString::from(format!("{}-", std::process::id()));
    name.push(path.file_name().unwrap_or_default());
    let other = std::env::temp_dir().join(name);
    Err(match write_atomic(&other, bytes) {
        Ok(()) => format!("{why} The record was written to {} instead.", other.display()),
        Err(second) => format!("{why} Nor can {}: {second}.", other.display()),
    })
}

/// Writes the record so far, at most once a second, and the rest when it is dropped, also in a panic.
#[derive(Debug)]
pub struct Keeper {
    path: PathBuf,
    last: Option<Instant>,
    pending: Option<Run>,
    warned: bool,
}

impl Keeper {
    pub fn new(path: PathBuf) -> Self {
        Self { path, last: None, pending: None, warned: false }
    }

    /// Writes the record so far. Returns a warning to print, once, if it cannot be written.
    pub fn keep(&mut self, run: &Run) -> Option<String> {
        if self.last.is_some_and(|l| l.elapsed() < INTERVAL) {
            self.pending = Some(run.clone());
            return None;
        }
        self.keep_now(run)
    }

    /// Like [`Keeper::keep`], however short the time since the last write.
    pub fn keep_now(&mut self, run: &Run) -> Option<String> {
        let result = write_record(run, &self.path);
        self.last = Some(Instant::now());
        match result {
            Ok(_) => {
                self.pending = None;
                None
            }
            Err(e) => {
                self.pending = Some(run.clone());
                let first = !std::mem::replace(&mut self.warned, true);
                first.then(|| format!("warning: {e} It is tried again."))
            }
        }
    }

    /// Writes the finished record as [`write_finished`] does. `Ok` is the file that was named.
    pub fn finish(&mut self, run: &Run) -> Result<PathBuf, String> {
        self.pending = None;
        let json = run.to_json().map_err(|e| format!("{} cannot be written: {e}.", self.path.display()))?;
        write_finished(&self.path, json.as_bytes()).map(|()| self.path.clone())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(run) = self.pending.take()
            && let Err(why) = self.finish(&run)
        {
            complain(&why);
        }
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

    #[test]
    fn reserved_names_are_free_ones_and_go_unless_something_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let names = |paths: [PathBuf; 2]| paths.map(|p| p.file_name().unwrap().to_str().unwrap().to_owned());
        fs::write(folder.path().join("x.svg"), "mine").unwrap();
        let mut all: Vec<[String; 2]> = std::thread::scope(|scope| {
            let reserve = || names(reserve(folder.path(), "x", ["json", "svg"]).unwrap());
            let all: Vec<_> = (0..4).map(|_| scope.spawn(reserve)).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        all.sort();
        let alike = |[a, b]: &[String; 2]| a.replace("json", "svg") == *b && a != "x.json";
        assert!(all.iter().all(alike), "{all:?}");
        all.dedup();
        assert_eq!(all.len(), 4, "{all:?}");
        fs::write(folder.path().join(&all[0][0]), "{}").unwrap();
        // What a killed process has left is free; what a process has locked is not, and neither is a link.
        for name in ["y.json", "y-2.json", "y-3.json"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let other = File::open(folder.path().join("y.json")).unwrap();
        other.lock().unwrap();
        let next = || reserve(folder.path(), "y", ["json"]).unwrap()[0].file_name().unwrap().to_owned();
        assert_eq!([next(), next(), next()], ["y-2.json", "y-3.json", "y-4.json"]);
        fs::remove_file(folder.path().join("y.json")).unwrap();
        drop(Reserved);
        let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [all[0][0].as_str(), "x.svg"]);
    }
}
