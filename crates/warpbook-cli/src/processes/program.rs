//! Starts this program again, and provides what the started processes share.

use crate::failure::Failure;
use crate::signals::{EndRequest, on_request_to_end};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use warpbook::device::NCCL_SETTINGS;
use warpbook::ranks::Launch;

/// Returns the path of this program.
pub fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|e| {
        Failure::usage(format!("This program's own file is not known, so it cannot be started again: {e}."))
    })
}

/// Starts this program again as `count` ranks with `threads` threads each, with its own arguments and the arguments in
/// `more`.
pub fn this_program_again(more: Vec<OsString>, count: usize, threads: usize) -> Result<Launch, Failure> {
    let mut launch = Launch::new(this_program()?, std::env::args_os().skip(1).chain(more), count);
    // These settings apply unless the user sets them.
    let of_nccl = NCCL_SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned()));
    launch.environment =
        std::iter::once(("RAYON_NUM_THREADS".to_owned(), threads.to_string())).chain(of_nccl).collect();
    Ok(launch)
}

/// Counts a request to end; a second one ends everything at once. Of several requests by the system, only the first one
/// counts.
pub fn count_request(interrupted: &AtomicU32, asked: EndRequest) {
    match asked {
        EndRequest::ByHand => interrupted.fetch_add(1, Ordering::SeqCst),
        EndRequest::BySystem => interrupted.fetch_max(1, Ordering::SeqCst),
    };
}

/// Counts requests to end from now on: Ctrl-C, which the started processes also receive, and the system's signals.
pub fn count_requests_to_end() -> Arc<AtomicU32> {
    let asked = Arc::new(AtomicU32::new(0));
    let counted = asked.clone();
    on_request_to_end("Ctrl-C ends at once, without a record", move |asked| count_request(&counted, asked));
    asked
}

/// A folder for files of started processes, removed when dropped.
pub struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Creates a folder of this process for work with this name.
    pub fn new(work: &str) -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(format!("warpbook-{work}-{}", std::process::id()));
        let refused = |e: std::io::Error| Failure::usage(format!("{} cannot be made: {e}.", folder.display()));
        fs::create_dir_all(&folder).map_err(refused)?;
        Ok(Self(folder))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
