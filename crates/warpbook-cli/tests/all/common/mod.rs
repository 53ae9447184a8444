//! Code shared by the program's tests.

pub mod commands;
pub mod place;

use std::path::{Path, PathBuf};
use warpbook::device::testing;

/// Returns the path of the program, from cargo's environment at run time or else from compile time.
pub fn program_path() -> PathBuf {
    std::env::var_os("CARGO_BIN_EXE_warpbook").map_or_else(|| env!("CARGO_BIN_EXE_warpbook").into(), PathBuf::from)
}

/// Returns the program. If it is missing, returns `None` and notes the calling test as skipped: tests may have been
/// packed and moved after compilation.
///
/// # Panics
/// If the program is missing under `WARPBOOK_REQUIRE_GPU=1`.
pub fn program() -> Option<PathBuf> {
    let found = program_path();
    if !found.is_file() {
        // A test's thread has the test's name.
        let thread = std::thread::current();
        let why = format!("{} is not there; name the program in CARGO_BIN_EXE_warpbook", found.display());
        testing::skip(thread.name().unwrap_or("a test"), "needs the warpbook program", why);
        return None;
    }
    Some(found)
}

/// Returns the folder for compiled kernels: `WARPBOOK_TEST_CACHE`, which all tests share, or else a folder of this
/// test.
pub fn cache(own: &Path) -> PathBuf {
    std::env::var_os("WARPBOOK_TEST_CACHE").map_or_else(|| own.join("cache"), PathBuf::from)
}
