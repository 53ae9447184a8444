//! Code that the tests of the program share.

pub mod commands;
pub mod place;

use std::path::{Path, PathBuf};
use warpbook::device::testing;

/// Returns the path of the program: the one from cargo while the tests run, else the one from their compilation.
pub fn program_path() -> PathBuf {
    std::env::var_os("CARGO_BIN_EXE_warpbook").map_or_else(|| env!("CARGO_BIN_EXE_warpbook").into(), PathBuf::from)
}

/// Returns the program; `None` if it is missing, and the test that asks is noted as skipped. Tests may have been packed and moved since they were compiled.
///
/// # Panics
/// Under `WARPBOOK_REQUIRE_GPU=1` if the program is missing.
pub fn program() -> Option<PathBuf> {
    let found = program_path();
    if !found.is_file() {
        // A test's thread has its name.
        let thread = std::thread::current();
        let why = format!("{} is not there; name the program in CARGO_BIN_EXE_warpbook", found.display());
        testing::skip(thread.name().unwrap_or("a test"), "needs the warpbook program", why);
        return None;
    }
    Some(found)
}

/// Returns the folder in which the program keeps compiled kernels: the one that `WARPBOOK_TEST_CACHE` names, which all tests share; without it, one of the
/// test's own.
pub fn cache(own: &Path) -> PathBuf {
    std::env::var_os("WARPBOOK_TEST_CACHE").map_or_else(|| own.join("cache"), PathBuf::from)
}
