//! Where a record goes, and that nothing finished is lost on the way.

use crate::failure::Failure;
use crate::output::complain;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use warpbook::write_record;
use warpbook_record::Run;

/// A large record is not written more often than this.
const INTERVAL: Duration = Duration::from_secs(1);

/// The file to write: the one that was named, else the first free one of `name.json`, `name-2.json` and so on.
pub fn choose(named: Option<&Path>, experiment: &str) -> PathBuf {
    named.map_or_else(|| free_name(experiment.as_ref(), "json"), Path::to_owned)
}

/// The first of `stem.end`, `stem-2.end` and so on in the working directory that is not there.
pub fn free_name(stem: &OsStr, end: &str) -> PathBuf {
    let stem = stem.to_string_lossy();
    let first = PathBuf::from(format!("{stem}.{end}"));
    let numbered = (2u32..).map(|n| PathBuf::from(format!("{stem}-{n}.{end}")));
    std::iter::once(first.clone()).chain(numbered).find(|p| p.symlink_metadata().is_err()).unwrap_or(first)
}

/// Tries whether a record can be written there, before anything is measured; leaves nothing behind. Gives back the file
/// itself where the path is a link to it.
pub fn check_writable(path: &Path) -> Result<PathBuf, Failure> {
    let refuse = |why: String| {
        Failure::usage(format!("{} cannot be written: {why}. Nothing was begun; choose another --out.", path.display()))
    };
    let path = match fs::metadata(path) {
        Ok(m) if m.is_dir() => return Err(refuse("it is a folder; name a file in it".into())),
        // A rename would replace what is not a file, as /dev/null.
        Ok(m) if !m.is_file() => return Err(refuse("it is not a regular file".into())),
        // A rename would replace the link and not the file.
        Ok(_) if path.is_symlink() => path.canonicalize().map_err(|e| refuse(e.to_string()))?,
        _ => path.to_owned(),
    };
    let name = path.file_name().ok_or_else(|| refuse("it names no file".into()))?;
    let folder = folder_of(&path);
    if !folder.is_dir() {
        return Err(refuse(format!("there is no folder {}; make it first, as with mkdir -p", folder.display())));
    }
    let probe = path.with_file_name(format!(".{}.{}.probe", name.to_string_lossy(), std::process::id()));
    let written = fs::File::create(&probe).and_then(|mut f| f.write_all(&[b' '; 4096]).and_then(|()| f.sync_all()));
    let _ = fs::remove_file(&probe);
    written.map_err(|e| refuse(e.to_string()))?;
    Ok(path)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    }
}

/// Writes the record so far, at most once a second, and what is left when it goes, also in a panic.
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

    /// Keeps the record so far. Gives a warning to print, once, where it cannot be written.
    pub fn keep(&mut self, run: &Run) -> Option<String> {
        if self.last.is_some_and(|l| l.elapsed() < INTERVAL) {
            self.pending = Some(run.clone());
            return None;
        }
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

    /// Writes the finished record: where it should go, else into the folder for temporary files.
    ///
    /// `Ok` is the file that was named. `Err` says where the record is instead, or that it is nowhere.
    pub fn finish(&mut self, run: &Run) -> Result<PathBuf, String> {
        self.pending = None;
        let first = match write_record(run, &self.path) {
            Ok(path) => return Ok(path),
            Err(warpbook::Error::Write { path, why }) => format!("{} cannot be written: {why}.", path.display()),
            Err(other) => other.to_string(),
        };
        let name = format!("{}-{}.json", run.experiment, std::process::id());
        match write_record(run, std::env::temp_dir().join(name)) {
            Ok(path) => Err(format!("{first} The record was written to {} instead.", path.display())),
            Err(second) => Err(format!("{first} Neither could a copy be: {second}")),
        }
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
