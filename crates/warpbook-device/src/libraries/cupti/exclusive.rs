//! One profiler at a time in this process: a recorder of activity or a reader of counters.

use std::sync::atomic::{AtomicBool, Ordering};

static RECORDING: AtomicBool = AtomicBool::new(false);
static COLLECTING: AtomicBool = AtomicBool::new(false);

/// Whether activity is being recorded in this process.
pub(super) fn is_recording() -> bool {
    RECORDING.load(Ordering::Acquire)
}

/// Says whether activity is recorded from now on, and gives whether it was before.
pub(super) fn set_recording(recording: bool) -> bool {
    RECORDING.swap(recording, Ordering::AcqRel)
}

/// Whether counters are being read in this process.
pub(super) fn is_collecting() -> bool {
    COLLECTING.load(Ordering::Acquire)
}

/// Says whether counters are read from now on, and gives whether they were before.
pub(super) fn set_collecting(collecting: bool) -> bool {
    COLLECTING.swap(collecting, Ordering::AcqRel)
}
