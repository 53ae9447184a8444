//! Lists everything that running captures have queued, so that their graphs can own it.
//!
//! A stream's state at the moment of queueing decides if an operation runs or becomes part of a graph. To make the answer certain, an operation holds
//! [`CAPTURES`] for reading while it asks and queues; whatever changes the state of a stream (a capture that begins or ends, a wait that joins a stream to
//! one) holds it for writing.

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
    /// Number of captures that this thread has open.
    static OF_THIS_THREAD: Cell<usize> = const { Cell::new(0) };
    /// Number of measurements running on this thread, during which nothing else may be timed.
    static BUSY: Cell<usize> = const { Cell::new(0) };
}

/// Returns true if this thread captures a graph or measures something, so that nothing else may be timed, or run for long.
#[must_use]
pub fn is_busy() -> bool {
    OF_THIS_THREAD.get() + BUSY.get() > 0
}

/// A guard during whose life the thread is busy: see [`is_busy`].
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

/// The captures in progress in this process, by the driver's number, which is never reused.
static CAPTURES: RwLock<Captures> = RwLock::new(Captures::new());

/// Everything that a capture has queued so far.
#[derive(Default)]
pub(crate) struct Captured {
    kept: Vec<Keep>,
    /// Addresses of the objects in `kept`, so that each is kept only once.
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

    /// Records a kernel's name.
    pub(crate) fn name(&mut self, kernel: &Arc<str>) {
        if !self.kernels.contains(kernel) {
            self.kernels.push(kernel.clone());
        }
    }

    /// Returns the objects that the graph keeps alive, its page-locked arrays (each once, in the same order for all graphs) and the names of its kernels.
    pub(crate) fn into_parts(self) -> (Vec<Keep>, Vec<PinnedUse>, Vec<Arc<str>>) {
        let mut pinned = self.pinned;
        // Writes sort first, so that an array that is also written is kept as such.
        pinned.sort_by_key(|(memory, access)| (Arc::as_ptr(memory) as usize, *access == Access::Read));
        pinned.dedup_by(|later, first| Arc::ptr_eq(&later.0, &first.0));
        (self.kept, pinned, self.kernels)
    }
}

/// Shape of a library's launch, which is unknown.
pub(crate) const UNKNOWN_SHAPE: Launch = Launch { grid: [0; 3], block: [0; 3], dynamic_shared_bytes: 0 };

/// A guard that is held while something is queued on a stream.
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

    /// Records the launch of a library's kernel, whose shape is unknown; a capture keeps the memory.
    pub(crate) fn launched_by_library(self, name: &Arc<str>, memory: &[&Arc<Allocation>]) {
        self.launched(name, UNKNOWN_SHAPE, |captured| {
            memory.iter().for_each(|m| captured.keep(Arc::clone(m) as _));
        });
    }

    /// Records a launch: a capture keeps the kernel's name and what `keep` adds; otherwise the stream keeps its name and shape.
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
    /// Begins to queue work: the stream's capture state does not change until the result is dropped. The context must be current. Do not call this again
    /// before that, since the lock is not re-entrant.
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
        // SAFETY: the stream is live, the two pointers point to live values, and the rest may be null.
        unsafe {
            sys::cuStreamGetCaptureInfo_v2(self.raw, &raw mut status, &raw mut id, none, none.cast(), none.cast())
        }
        .result()
        .map_err(|e| self.device.error("Asking whether a stream is being captured", e))?;
        // The driver refuses work queued into an invalid capture.
        Ok((status == sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE).then_some(id))
    }
}

/// A guard that is held while a stream may join a capture.
enum Joining {
    /// No capture is running, and none can begin.
    Nothing { _captures: RwLockReadGuard<'static, Captures> },
    /// A capture is running, and nothing else can be queued meanwhile.
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
        // Waits between captures, since waiting would break another thread's capture.
        between_captures(result::ctx::synchronize).map_err(|e| self.0.error("Waiting for the device", e))
    }
}

/// A capture in progress. Dropping this ends it, even if the captured work panics.
pub(crate) struct Capturing<'s> {
    stream: &'s Stream,
    id: Option<u64>,
}

impl<'s> Capturing<'s> {
    /// Begins to capture what is queued on a stream of the current context.
    pub(crate) fn begin(stream: &'s Stream) -> Result<Self> {
        let mut captures = CAPTURES.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the stream is live; this type makes sure that the capture ends.
        unsafe { result::stream::begin_capture(stream.raw, Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) }
            .map_err(|e| stream.device.error("Beginning a capture", e))?;
        let mut capturing = Self { stream, id: None };
        match stream.capture_id() {
            Ok(id) => capturing.id = id,
            Err(error) => {
                // Dropping the capture takes the lock.
                drop(captures);
                return Err(error);
            }
        }
        captures.extend(capturing.id.map(|id| (id, Mutex::default())));
        OF_THIS_THREAD.set(OF_THIS_THREAD.get() + usize::from(capturing.id.is_some()));
        Ok(capturing)
    }

    /// Ends the capture; returns the driver's graph, or the reason why there is none, and everything that was queued.
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
        // SAFETY: the caller of the closure has a live stream; the pointer points to a live value.
        let asked = unsafe { sys::cuStreamIsCapturing(stream, &raw mut status) }.result();
        asked.is_err() || status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
    };
    // Asking the driver costs more than this check.
    let none = captures.is_empty();
    call(&|stream| !none && is_captured(stream))
}

/// Makes a call that waits for the whole device, such as creating or destroying a library's handle, while no other thread captures, since the wait would
/// break that capture. After five seconds the call is made anyway.
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
