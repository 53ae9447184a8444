//! What a rank did in its steps on the CPU, and when.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Which thread of a rank worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RankThread {
    /// The one that makes the passes.
    Compute,
    /// The one that talks to the other ranks, while the passes go on.
    Communication,
}

/// Something that a rank did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankWork {
    /// Where.
    pub thread: RankThread,
    /// As "forward" and "bucket 1 all-reduce". An operation of all ranks includes the wait for the slowest of them.
    pub name: String,
    /// Its start, from 1970 on: the clock of the machine, which its processes share.
    pub begun: Duration,
    /// How long it took.
    pub took: Duration,
}

/// Records while it is on; clones are the same one.
#[derive(Debug, Clone, Default)]
pub(in crate::train) struct Trace(Arc<Mutex<Option<Recording>>>);

#[derive(Debug)]
struct Recording {
    /// The same moment on both clocks: durations come from the one that never jumps.
    zero: (Instant, Duration),
    work: Vec<RankWork>,
}

impl Trace {
    pub fn start(&self) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        *self.lock() = Some(Recording { zero: (Instant::now(), now), work: Vec::new() });
    }

    /// What was done since the start, in the order in which it ended; from now on nothing is recorded.
    pub fn take(&self) -> Vec<RankWork> {
        self.lock().take().map_or_else(Vec::new, |recording| recording.work)
    }

    /// Records what has gone on since `begun`, where it is on.
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
