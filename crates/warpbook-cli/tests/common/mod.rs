//! What the tests of the program share.

use std::path::PathBuf;

/// The program: tests may have been packed and moved since they were compiled.
pub fn program() -> Option<PathBuf> {
    let at_run_time = std::env::var_os("CARGO_BIN_EXE_warpbook").map(PathBuf::from);
    let found = at_run_time.unwrap_or_else(|| env!("CARGO_BIN_EXE_warpbook").into());
    if !found.is_file() {
        eprintln!("skipped: {} is not there; name the program in CARGO_BIN_EXE_warpbook", found.display());
        return None;
    }
    Some(found)
}
