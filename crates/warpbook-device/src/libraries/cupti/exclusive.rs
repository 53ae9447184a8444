//! Allows one profiler at a time in this process: a recorder of activity or a reader of counters.

use std::sync::atomic::AtomicBool;

/// True if activity is being recorded.
pub(super) static RECORDING: AtomicBool = AtomicBool::new(false);
/// True if counters are being read.
pub(super) static COLLECTING: AtomicBool = AtomicBool::new(false);
