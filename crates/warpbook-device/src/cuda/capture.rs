//! Lists everything that running captures have queued, so that the resulting graphs can own it.
//!
//! The state of a stream when an operation is queued decides whether the operation runs or becomes part of a graph. To make sure that the state does not
//! change in between, an operation holds a read lock on [`CAPTURES`] while it checks the state and queues its work. Anything that changes a stream's state
//! (beginning or ending a capture, or a wait that joins a stream to a capture) holds the write lock.

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

/// A page-locked array, and the device's kind of access to it.
pub(crate) type PinnedUse = (Arc<PinnedMemory>, Access);

type Captures = BTreeMap<u64, Mutex<Captured>>;

thread_local! {
    /// Number of captures that this thread has open.
    static OF_THIS_THREAD: Cell<usize> = const { Cell::new(0) };
    /// Number of measurements in progress on this thread; while one is in progress, nothing else may be timed.
    static BUSY: Cell<usize> = const { Cell::new(0) };
}

/// Returns true if this thread is capturing a graph or measuring something, so that it must neither time anything else nor run for long.
#[must_use]
pub fn is_busy() -> bool {
    OF_THIS_THREAD.get() + BUSY.get() > 0
}

/// A guard that marks the thread as busy until it is dropped; see [`is_busy`].
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

/// The captures in progress in this process, by the driver's capture id, which is never reused.
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
        // Writes sort first, so that an array that is both read and written is kept as written.
        pinned.sort_by_key(|(memory, access)| (Arc::as_ptr(memory) as usize, *access == Access::Read));
        pinned.dedup_by(|later, first| Arc::ptr_eq(&later.0, &first.0));
        (self.kept, pinned, self.kernels)
    }
}

/// Placeholder for the launch shape of a library's kernel, which is unknown.
pub(crate) const UNKNOWN_SHAPE: Launch = Launch { grid: [0; 3], block: [0; 3], dynamic_shared_bytes: 0 };

/// A guard that is held while something is queued on a stream.
pub(crate) struct Queueing<'s> {
    stream: &'s Stream,
    captures: RwLockReadGuard<'static, Captures>,
    /// Id of the capture that the stream takes part in, if any.
    id: Option<u64>,
}

impl Queueing<'_> {
    /// Returns the list of queued work of the capture that the stream takes part in, if any.
    pub(crate) fn captured(&self) -> Option<MutexGuard<'_, Captured>> {
        let captured = self.captures.get(&self.id?)?;
        Some(captured.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns true if the stream takes part in a capture.
    pub(crate) fn is_captured(&self) -> bool {
        self.captured().is_some()
    }

    /// Records the launch of a library's kernel, whose shape is unknown. If the stream is being captured, the graph keeps the memory.
    pub(crate) fn launched_by_library(self, name: &Arc<str>, memory: &[&Arc<Allocation>]) {
        self.launched(name, UNKNOWN_SHAPE, |captured| {
            memory.iter().for_each(|m| captured.keep(Arc::clone(m) as _));
        });
    }

    /// Records a launch. In a capture, the graph keeps the kernel's name and what `keep` adds; otherwise the stream records the kernel's name and shape.
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
    /// before the result is dropped, because the lock is not re-entrant.
    pub(crate) fn queueing(&self) -> Result<Queueing<'_>> {
        let captures = CAPTURES.read().unwrap_or_else(PoisonError::into_inner);
        self.count();
        // Querying the driver costs more than this check, and usually nothing is being captured.
        let id = if captures.is_empty() { None } else { self.capture_id()? };
        Ok(Queueing { stream: self, captures, id })
    }

    /// Returns the id of the capture that the stream takes part in, if any.
    fn capture_id(&self) -> Result<Option<u64>> {
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let mut id = 0;
        let none = std::ptr::null_mut();
        // SAFETY: the stream is live, `status` and `id` are live, and the function accepts null for its other outputs.
        unsafe {
            sys::cuStreamGetCaptureInfo_v2(self.raw, &raw mut status, &raw mut id, none, none.cast(), none.cast())
        }
        .result()
        .map_err(|e| self.device.error("Asking whether a stream is being captured", e))?;
        // An invalid capture counts as none here, because the driver refuses any work queued into it.
        Ok((status == sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE).then_some(id))
    }
}

/// A guard that is held while a stream may join a capture.
enum Joining {
    /// No capture is running, and none can begin.
    Nothing { _captures: RwLockReadGuard<'static, Captures> },
    /// A capture is running, and nothing else can be queued in the meantime.
    Capture { _captures: RwLockWriteGuard<'static, Captures> },
}

/// Takes the lock for a stream's wait for an event, which may join the stream to a capture.
fn joining() -> Joining {
    let captures = CAPTURES.read().unwrap_or_else(PoisonError::into_inner);
    if captures.is_empty() {
        return Joining::Nothing { _captures: captures };
    }
    drop(captures);
    Joining::Capture { _captures: CAPTURES.write().unwrap_or_else(PoisonError::into_inner) }
}

impl Stream {
    /// Makes all work queued on this stream from now on wait for an event.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.device.bind()?;
        let _joining = joining();
        // SAFETY: the handles of the stream and of the event are live.
        unsafe { result::stream::wait_event(self.raw, event.raw, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT) }
            .map_err(|e| self.device.error("Waiting for an event", e))
    }
}

impl CudaDevice {
    /// Waits for all work queued on any stream.
    ///
    /// # Errors
    /// The error of any queued work that failed.
    pub fn synchronize(&self) -> Result<()> {
        if self.is_emulated() {
            return Ok(());
        }
        self.0.bind()?;
        // Waits until no capture is running, because this call would invalidate another thread's capture.
        between_captures(result::ctx::synchronize).map_err(|e| self.0.error("Waiting for the device", e))
    }
}

/// A capture in progress. Dropping it ends the capture, even if the captured work panics.
pub(crate) struct Capturing<'s> {
    stream: &'s Stream,
    id: Option<u64>,
}

impl<'s> Capturing<'s> {
    /// Begins to capture the work queued on a stream of the current context.
    pub(crate) fn begin(stream: &'s Stream) -> Result<Self> {
        let mut captures = CAPTURES.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the stream is live, and dropping the returned value ends the capture.
        unsafe { result::stream::begin_capture(stream.raw, Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) }
            .map_err(|e| stream.device.error("Beginning a capture", e))?;
        let mut capturing = Self { stream, id: None };
        match stream.capture_id() {
            Ok(id) => capturing.id = id,
            Err(error) => {
                // Dropping the capture needs the lock, so the lock is released first.
                drop(captures);
                return Err(error);
            }
        }
        captures.extend(capturing.id.map(|id| (id, Mutex::default())));
        OF_THIS_THREAD.set(OF_THIS_THREAD.get() + usize::from(capturing.id.is_some()));
        Ok(capturing)
    }

    /// Ends the capture. Returns the driver's graph, or the reason why there is none, and everything that was queued.
    pub(crate) fn end(self) -> (Result<sys::CUgraph, DriverError>, Captured) {
        let ended = self.finish();
        std::mem::forget(self);
        ended
    }

    fn finish(&self) -> (Result<sys::CUgraph, DriverError>, Captured) {
        let mut captures = CAPTURES.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: `begin` has begun the capture on this thread, and nothing else ends it.
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
            // SAFETY: the graph came from this capture and is not used again.
            let _ = unsafe { result::graph::destroy(graph) };
        }
    }
}

/// Calls `call` with a function that returns true if a stream is being captured. No capture begins or ends until the call returns.
pub(crate) fn while_captures_rest<R>(call: impl FnOnce(&dyn Fn(sys::CUstream) -> bool) -> R) -> R {
    let captures = CAPTURES.read().unwrap_or_else(PoisonError::into_inner);
    let is_captured = |stream| {
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the caller of the closure passes a live stream, and `status` is live.
        let asked = unsafe { sys::cuStreamIsCapturing(stream, &raw mut status) }.result();
        asked.is_err() || status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
    };
    // Querying the driver costs more than this check.
    let none = captures.is_empty();
    call(&|stream| !none && is_captured(stream))
}

/// Makes a call that waits for the whole device, such as creating or destroying a library's handle, at a moment when no other thread captures, because the
/// wait would invalidate that capture. After five seconds the call is made anyway.
pub(crate) fn between_captures<R>(call: impl FnOnce() -> R) -> R {
    const PATIENCE: Duration = Duration::from_secs(5);
    if OF_THIS_THREAD.get() > 0 {
        return relaxed(call);
    }
    let begin = Instant::now();
    loop {
        let captures = CAPTURES.write().unwrap_or_else(PoisonError::into_inner);
        if captures.is_empty() || begin.elapsed() > PATIENCE {
            // The lock is still held, so no capture can begin during the call.
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
