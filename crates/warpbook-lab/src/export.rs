use crate::{Error, Result};
use std::io::Write;
use std::path::{Path, PathBuf};
use warpbook_device::read_file;
use warpbook_record::{MAX_BYTES, Run};

/// Writes a record as JSON. It is written to a temporary file in the same folder, which is then renamed, so that an
/// older record stays intact until the new one is complete. Returns the path.
///
/// # Errors
/// If the file cannot be written ([`Error::Write`]), for example because the folder does not exist, permission is
/// missing, or the disk is full. The temporary file is then removed.
pub fn write_record(run: &Run, path: impl AsRef<Path>) -> Result<PathBuf> {
    let path = path.as_ref();
    let fail = |why| Error::Write { path: path.into(), why };
    let json = run.to_json().map_err(|e| fail(e.into()))?;
    warpbook_device::write_atomic(path, json.as_bytes()).map_err(fail)?;
    Ok(path.to_owned())
}

/// Reads a record.
///
/// # Errors
/// If the file cannot be read ([`Error::Read`]) or is not a record ([`Error::NotARecord`]). Any file may be given; a
/// file that is too large is not read.
pub fn read_record(path: impl AsRef<Path>) -> Result<Run> {
    let path = path.as_ref();
    let fail = |why| Error::Read { path: path.into(), why };
    let size = std::fs::metadata(path).map_err(fail)?.len();
    let too_large = usize::try_from(size).map_or(true, |s| s > MAX_BYTES);
    let not_a_record = |why| Error::NotARecord { path: path.into(), why };
    if too_large {
        let bytes = usize::try_from(size).unwrap_or(usize::MAX);
        return Err(not_a_record(warpbook_record::ReadError::TooLarge { bytes }));
    }
    Run::from_json(&read_file(path, MAX_BYTES as u64).map_err(fail)?).map_err(not_a_record)
}

/// Prints a line that a notebook shows immediately.
pub fn print_line(line: &str) {
    println!("{line}");
    // A notebook shows a line only after a flush.
    let _ = std::io::stdout().flush();
}
