//! Keeps a list of everything that running captures have queued, so that their graphs can own it.
//!
//! A stream's state at the moment of queueing decides if an operation runs or becomes part of a graph. So that
//! the answer is certain, an operation holds [`CAPTURES`] for reading while it asks and queues, and whatever changes the
//! state of a stream (a capture that begins or ends, a wait that joins a stream to one) holds it for writing.

use crate::cuda::context::relaxed;
use crate::cuda::stream::Keep;
use crate::memory::allocation::Allocation;
use crate::memory::pinned::{Access, PinnedMemory};
use crate::{CudaDevice, Event, Result, Stream};
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUstreamCaptureMode as Mode};
use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};
use warpbook_kernels::Launch;

/// Page-locked memory, and the device's access to it.
pub(crate) type PinnedUse = (Arc<PinnedMemory>, Access);

type Captures = BTreeMap<u64, Mutex<Captured>>;

thread_local! {
    /// Number of captures that this thread has begun.
    static OF_THIS_THREAD: Cell<usize> = const { Cell::new(0) };
    /// Number of measurements running on this thread, during which nothing else may be timed.
    static BUSY: Cell<usize> = const { Cell::new(0) };
}

/// Returns true if this thread captures a graph or measures something, so that nothing else may be timed, nor run for long.
#[must_use]
pub fn is_busy() -> bool {
    OF_THIS_THREAD.get() + BUSY.get() > 0
}

/// While it lives, its thread is busy: see [`is_busy`].
pub(crate) struct Busy(());

impl Busy {
    pub(crate) fn begin() -> Self {
        BUSY.set(BUSY.get() + 1);
        Self(())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.set(BUSY.get().saturating_sub(1));
    }
}

/// The captures under way in this process, by the driver's number, which is not used twice.
static CAPTURES: RwLock<Captures> = RwLock::new(Captures::new());

/// Everything that a capture has queued so far.
#[derive(Default)]
pub(crate) struct Captured {
    kept: Vec<Keep>,
    /// Addresses of the objects in `kept`, so that each is there once.
    seen: HashSet<usize>,
    pub(crate) pinned: Vec<PinnedUse>,
    /// Names of the kernels, each once, in the order of their first launches.
    kernels: Vec<Arc<str>>,
}

impl Captured {
    /// Keeps an object alive until the graph is dropped.
    pub(crate) fn keep(&mut self, share: Keep) {
        if self.seen.insert(Arc::as_ptr(&share).cast::<()>() as usize) {
            self.kept.push(share);
        }
    }

    /// Remembers a kernel's name.
    pub(crate) fn name(&mut self, kernel: &Arc<str>) {
        if !self.kernels.contains(kernel) {
            self.kernels.push(kernel.clone());
        }
    }

    /// Returns the objects that the graph keeps alive, its page-locked arrays (each once, in an order that is the same for all graphs) and the names of its
    /// kernels.
    pub(crate) fn into_parts(self) -> (Vec<Keep>, Vec<PinnedUse>, Vec<Arc<str>>) {
        let mut pinned = self.pinned;
        // A use that writes comes first, so it is the one kept for an array.
        pinned.sort_by_key(|(memory, access)| (Arc::as_ptr(memory) as usize, *access == Access::Read));
        pinned.dedup_by(|later, first| Arc::ptr_eq(&later.0, &first.0));
        (self.kept, pinned, self.kernels)
    }
}

/// Shape of a library's launch, which is not known.
pub(crate) const UNKNOWN_SHAPE: Launch = Launch { grid: [0; 3], block: [0; 3], dynamic_shared_bytes: 0 };

/// Held while something is queued on a stream.
pub(crate) struct Queueing<'s> {
    stream: &'s Stream,
    captures: RwLockReadGuard<'static, Captures>,
    /// The capture that the stream takes part in, if any.
    id: Option<u64>,
}

impl Queueing<'_> {
    /// Returns the list of the capture that the stream takes part in, if any.
    pub(crate) fn captured(&self) -> Option<MutexGuard<'_, Captured>> {
        let captured = self.captures.get(&self.id?)?;
        Some(captured.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns true if the stream takes part in a capture.
    pub(crate) fn is_captured(&self) -> bool {
        self.captured().is_some()
    }

    /// Records the launch of a kernel that only a library knows, so its shape is unknown; a capture keeps the memory.
    pub(crate) fn launched_by_library(self, name: &Arc<str>, memory: &[&Arc<Allocation>]) {
        self.launched(name, UNKNOWN_SHAPE, |captured| {
            memory.iter().for_each(|m| captured.keep(Arc::clone(m) as _));
        });
    }

    /// Records a launch: a capture keeps its name and what `keep` adds; otherwise the stream keeps its name and shape.
    pub(crate) fn launched(self, kernel: &Arc<str>, shape: Launch, keep: impl FnOnce(&mut Captured)) {
        match self.captured() {
            Some(mut captured) => {
                captured.name(kernel);
                keep(&mut captured);
            }
            None => self.stream.launched(kernel, shape),
        }
    }
}

impl Stream {
    /// Begins to queue work: the stream's capture state does not change until the result is dropped. The context
    /// is current. Do not call it again before that, as the lock is not re-entrant.
    pub(crate) fn queueing(&self) -> Result<Queueing<'_>> {
        let captures = CAPTURES.read().unwrap_or_else(PoisonError::into_inner);
        self.count();
        // Asking the driver costs more than this check, and usually nothing is being captured.
        let id = if captures.is_empty() { None } else { self.capture_id()? };
        Ok(Queueing { stream: self, captures, id })
    }

    /// Returns the number of the capture that the stream takes part in.
    fn capture_id(&self) -> Result<Option<u64>> {
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let mut id = 0;
        let none = std::ptr::null_mut();
        // SAFETY: the stream is live, the two pointers are to live values, and the rest may be null.
        unsafe {
            sys::cuStreamGetCaptureInfo_v2(self.raw, &raw mut status, &raw mut id, none, none.cast(), none.cast())
        }
        .result()
        .map_err(|e| self.device.error("Asking whether a stream is being captured", e))?;
        // The driver refuses work queued into an invalid capture.
        Ok((status == sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE).then_some(id))
    }
}

/// Held while a stream may be joined to a capture.
enum Joining {
    /// No capture is running, and none can begin.
    Nothing { _captures: RwLockReadGuard<'static, Captures> },
    /// Nothing else can be queued meanwhile.
    Capture { _captures: RwLockWriteGuard<'static, Captures> },
}

/// Begins a wait for an event, which may join a stream to a capture.
fn joining() -> Joining {
    let captures = CAPTURES.read().unwrap_or_else(PoisonError::into_inner);
    if captures.is_empty() {
        return Joining::Nothing { _captures: captures };
    }
    drop(captures);
    Joining::Capture { _captures: CAPTURES.write().unwrap_or_else(PoisonError::into_inner) }
}

impl Stream {
    /// Makes work queued from now on wait for an event.
    ///
    /// # Errors
    /// The driver's errors.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.device.bind()?;
        let _joining = joining();
        // SAFETY: both handles are live.
        unsafe { result::stream::wait_event(self.raw, event.raw, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT) }
            .map_err(|e| self.device.error("Waiting for an event", e))
    }
}

impl CudaDevice {
    /// Waits for all work queued on any stream.
    ///
    /// # Errors
    /// The error of any work that failed.
    pub fn synchronize(&self) -> Result<()> {
        if self.is_emulated() {
            return Ok(());
        }
        self.0.bind()?;
        // It would break another thread's capture.
        between_captures(result::ctx::synchronize).map_err(|e| self.0.error("Waiting for the device", e))
    }
}

/// A capture under way; it ends when this is dropped, also where the work that is captured panics.
pub(crate) struct Capturing<'s> {
    stream: &'s Stream,
    id: Option<u64>,
}

impl<'s> Capturing<'s> {
    /// Begins to capture what is queued on a stream of the current context.
    pub(crate) fn begin(stream: &'s Stream) -> Result<Self> {
        let mut captures = CAPTURES.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the stream is live; that the capture ends is this type's task.
        unsafe { result::stream::begin_capture(stream.raw, Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) }
            .map_err(|e| stream.device.error("Beginning a capture", e))?;
        let mut capturing = Self { stream, id: None };
        match stream.capture_id() {
            Ok(id) => capturing.id = id,
            Err(error) => {
                // Its drop takes the lock.
                drop(captures);
                return Err(error);
            }
        }
        captures.extend(capturing.id.map(|id| (id, Mutex::default())));
        OF_THIS_THREAD.set(OF_THIS_THREAD.get() + usize::from(capturing.id.is_some()));
        Ok(capturing)
    }

    /// Ends the capture; returns the driver's graph, or why there is none, and everything queued.
    pub(crate) fn end(self) -> (Result<sys::CUgraph, DriverError>, Captured) {
        let ended = self.finish();
        std::mem::forget(self);
        ended
    }

    fn finish(&self) -> (Result<sys::CUgraph, DriverError>, Captured) {
        let mut captures = CAPTURES.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the capture was begun by `begin`, on this thread, and ends once.
        let graph = unsafe { result::stream::end_capture(self.stream.raw) };
        let captured = self.id.and_then(|id| captures.remove(&id));
        OF_THIS_THREAD.set(OF_THIS_THREAD.get().saturating_sub(usize::from(captured.is_some())));
        let captured = captured.unwrap_or_default();
        (graph, captured.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Capturing<'_> {
    fn drop(&mut self) {
        if let (Ok(graph), _) = self.finish() {
            // SAFETY: the graph came from the capture and is not used again.
            let _ = unsafe { result::graph::destroy(graph) };
        }
    }
}

/// Calls `call` with true if the stream takes part in a capture, which does not change until the call returns.
pub(crate) fn while_captures_rest<R>(call: impl FnOnce(&dyn Fn(sys::CUstream) -> bool) -> R) -> R {
    let captures = CAPTURES.read().unwrap_or_else(PoisonError::into_inner);
    let is_captured = |stream| {
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the stream is live, as whoever asks has it; the pointer is to a live value.
        let asked = unsafe { sys::cuStreamIsCapturing(stream, &raw mut status) }.result();
        asked.is_err() || status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
    };
    // Asking the driver costs more than this check.
    let none = captures.is_empty();
    call(&|stream| !none && is_captured(stream))
}

/// Makes a call that waits for the whole device, such as making or ending a library's handle, when no other thread captures: the wait
/// would break that capture. After five seconds it is made anyway.
pub(crate) fn between_captures<R>(call: impl FnOnce() -> R) -> R {
    const PATIENCE: Duration = Duration::from_secs(5);
    if OF_THIS_THREAD.get() > 0 {
        return relaxed(call);
    }
    let begin = Instant::now();
    loop {
        let captures = CAPTURES.write().unwrap_or_else(PoisonError::into_inner);
        if captures.is_empty() || begin.elapsed() > PATIENCE {
            // No capture can begin meanwhile.
            let done = call();
            drop(captures);
            return done;
        }
        drop(captures);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_busy_while_it_measures() {
        assert!(!is_busy());
        let (first, second) = (Busy::begin(), Busy::begin());
        drop(first);
        assert!(is_busy() && !std::thread::spawn(is_busy).join().unwrap());
        drop(second);
        assert!(!is_busy());
    }

    #[test]
    fn shares_and_names_are_kept_once() {
        let mut captured = Captured::default();
        let (a, b) = (Arc::new(1u32), Arc::new(1u32));
        for share in [&a, &b, &a] {
            captured.keep(share.clone());
        }
        for name in ["pass", "update", "pass"] {
            captured.name(&Arc::from(name));
        }
        assert_eq!((Arc::strong_count(&a), Arc::strong_count(&b)), (2, 2));
        let (kept, pinned, kernels) = captured.into_parts();
        assert_eq!((kept.len(), pinned.len()), (2, 0));
        assert_eq!(kernels.iter().map(|k| &**k).collect::<Vec<_>>(), ["pass", "update"]);
        drop(kept);
        assert_eq!(Arc::strong_count(&a), 1);
    }
}
