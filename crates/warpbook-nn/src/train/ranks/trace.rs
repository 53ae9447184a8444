//! A record of a rank's work in steps on the CPU, with times.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// A thread of a rank, whose work is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RankThread {
    /// Computes the passes.
    Compute,
    /// Communicates with the other ranks while the passes continue.
    Communication,
}

/// A timed piece of a rank's work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankWork {
    /// The thread that did the work.
    pub thread: RankThread,
    /// Name, such as "forward" or "bucket 1 all-reduce". An operation of all ranks includes the wait for the slowest of them.
    pub name: String,
    /// Start of the work since 1970, by the machine's clock, which all processes on the machine share.
    pub begun: Duration,
    /// Duration of the work.
    pub took: Duration,
}

/// A recorder that can be switched on and off; clones share one recording.
#[derive(Debug, Clone, Default)]
pub(in crate::train) struct Trace(Arc<Mutex<Option<Recording>>>);

#[derive(Debug)]
struct Recording {
    /// A moment read on both clocks: durations come from the clock that never jumps.
    zero: (Instant, Duration),
    work: Vec<RankWork>,
}

impl Trace {
    pub fn start(&self) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        *self.lock() = Some(Recording { zero: (Instant::now(), now), work: Vec::new() });
    }

    /// Returns the work since recording began, in the order in which it ended, and stops recording.
    pub fn take(&self) -> Vec<RankWork> {
        self.lock().take().map_or_else(Vec::new, |recording| recording.work)
    }

    /// Records work that began at `begun`, if recording is on.
    pub fn add(&self, thread: RankThread, name: &str, begun: Instant) {
        if let Some(recording) = &mut *self.lock() {
            let ((zero, at), took) = (recording.zero, begun.elapsed());
            let begun = at + begun.saturating_duration_since(zero);
            recording.work.push(RankWork { thread, name: name.to_owned(), begun, took });
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Recording>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
