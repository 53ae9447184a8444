//! Ensures that only one profiler is active in this process at a time: a recorder of activity or a
//! reader of counters.

use std::sync::atomic::AtomicBool;

/// True while activity is being recorded.
pub(super) static RECORDING: AtomicBool = AtomicBool::new(false);
/// True while counters are being read.
pub(super) static COLLECTING: AtomicBool = AtomicBool::new(false);
