//! Checks that a file can be written, before any work begins.

use crate::failure::Failure;
use std::path::Path;
use warpbook::device::{behind_links, ensure_writable};

/// Bytes that must fit on the disk before the work begins, if the output's size is unknown.
const PROBE_BYTES: u64 = 4096;

pub fn unwritable(option: &str, path: &Path, why: &str) -> Failure {
    Failure::usage(format!(
        "{} cannot be written: {why}. Nothing has been started; choose another file for {option}.",
        path.display()
    ))
}

/// Checks that an option's file can be written in an existing folder.
pub fn check_writable(option: &str, path: &Path) -> Result<(), Failure> {
    let refuse = |why: &str| Err(unwritable(option, path, why));
    let file = behind_links(path).map_err(|e| unwritable(option, path, &e.to_string()))?;
    let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() && file.file_name().is_some() {
        return refuse(&format!("the folder {} does not exist; create it with mkdir -p", folder.display()));
    }
    ensure_writable(path, PROBE_BYTES).map_err(|e| unwritable(option, path, &e.to_string()))
}
