//! Code shared by the program's tests.

pub mod commands;
pub mod place;

use std::path::{Path, PathBuf};
use warpbook::device::testing;

/// Returns the path of the program, from cargo's environment at run time or, if that is not set, at compile time.
pub fn program_path() -> PathBuf {
    std::env::var_os("CARGO_BIN_EXE_warpbook").map_or_else(|| env!("CARGO_BIN_EXE_warpbook").into(), PathBuf::from)
}

/// Returns the path of the program. If the program is missing, returns `None` and notes the calling test as skipped,
/// since tests may have been packed and moved after compilation.
///
/// # Panics
/// If the program is missing under `WARPBOOK_REQUIRE_GPU=1`.
pub fn program() -> Option<PathBuf> {
    let found = program_path();
    if !found.is_file() {
        // The thread of a test has the name of the test.
        let thread = std::thread::current();
        let why = format!("{} is not there; name the program in CARGO_BIN_EXE_warpbook", found.display());
        testing::skip(thread.name().unwrap_or("a test"), "needs the warpbook program", why);
        return None;
    }
    Some(found)
}

/// Returns the folder for compiled kernels: `WARPBOOK_TEST_CACHE`, which all tests share, or a folder of this test if
/// that variable is not set.
pub fn cache(own: &Path) -> PathBuf {
    std::env::var_os("WARPBOOK_TEST_CACHE").map_or_else(|| own.join("cache"), PathBuf::from)
}
