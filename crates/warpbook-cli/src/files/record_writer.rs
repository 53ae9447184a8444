//! Writes the file of a record during the work and at its end.

use crate::output::{say, warn};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use warpbook::device::write_atomic;
use warpbook::write_record;
use warpbook_record::Run;

/// Shortest time between two writes of a large record.
const INTERVAL: Duration = Duration::from_secs(1);

/// Writes finished bytes to their path or, if that fails, into the folder for temporary files. The error says where the
/// bytes are, or that they are lost.
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

/// Prints where a record was written, or why it was not.
pub fn print_written(written: &Result<PathBuf, String>) {
    match written {
        Ok(path) => say(&format!("Record: {path}\nView it with: warpbook view {path}", path = path.display())),
        Err(why) => warn(why),
    }
}

/// Writes the current record, at most once a second; when it is dropped, even in a panic, it writes the latest record.
#[derive(Debug)]
pub struct RecordWriter {
    path: PathBuf,
    last: Option<Instant>,
    pending: Option<Run>,
    warned: bool,
}

impl RecordWriter {
    pub fn new(path: PathBuf) -> Self {
        Self { path, last: None, pending: None, warned: false }
    }

    /// Writes the current record. If that fails, returns a warning once.
    pub fn keep(&mut self, run: &Run) -> Option<String> {
        if self.last.is_some_and(|l| l.elapsed() < INTERVAL) {
            self.pending = Some(run.clone());
            return None;
        }
        self.keep_now(run)
    }

    /// Writes the record like [`RecordWriter::keep`], even directly after the last write.
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

    /// Writes the finished record like [`write_finished`]. `Ok` has the path that the user named.
    pub fn finish(&mut self, run: &Run) -> Result<PathBuf, String> {
        self.pending = None;
        let json = run.to_json().map_err(|e| format!("{} cannot be written: {e}.", self.path.display()))?;
        write_finished(&self.path, json.as_bytes()).map(|()| self.path.clone())
    }
}

impl Drop for RecordWriter {
    fn drop(&mut self) {
        if let Some(run) = self.pending.take()
            && let Err(why) = self.finish(&run)
        {
            warn(&why);
        }
    }
}
