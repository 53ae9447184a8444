//! Lists a device's streams, and counts the operations queued on each.

use cudarc::driver::sys::CUstream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Id of the stream for synchronous copies, which the host waits for.
pub(crate) const TRANSFERS: u64 = u64::MAX;

/// An existing stream, with a counter of the operations queued on it.
pub(crate) struct KnownStream {
    pub id: u64,
    pub raw: CUstream,
    pub queued: Arc<AtomicU64>,
}

// SAFETY: a stream's handle may be used from any thread on which its context is current; `EventTimes::snapshot` binds the context first.
unsafe impl Send for KnownStream {}

/// The existing streams of a device.
pub(crate) struct Streams {
    known: Mutex<Vec<KnownStream>>,
    transfers: Arc<AtomicU64>,
}

impl Streams {
    pub fn new(transfers: CUstream) -> Self {
        let queued = Arc::new(AtomicU64::new(0));
        let known = vec![KnownStream { id: TRANSFERS, raw: transfers, queued: queued.clone() }];
        Self { known: Mutex::new(known), transfers: queued }
    }

    pub fn known(&self) -> MutexGuard<'_, Vec<KnownStream>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a stream, and returns its counter of queued operations.
    pub fn add(&self, id: u64, raw: CUstream) -> Arc<AtomicU64> {
        let queued = Arc::new(AtomicU64::new(0));
        self.known().push(KnownStream { id, raw, queued: queued.clone() });
        queued
    }

    /// Removes a stream from the list. Call this before the stream is destroyed.
    pub fn remove(&self, id: u64) {
        self.known().retain(|k| k.id != id);
    }

    pub fn count_transfer(&self) {
        self.transfers.fetch_add(1, Ordering::Relaxed);
    }
}
