//! A recording by CUPTI, and the buffers that CUPTI fills.

use super::activity::{Activity, Recorded};
use super::exclusive::{COLLECTING, RECORDING};
use super::library::Cupti;
use super::records::{CONCURRENT_KERNEL, DRIVER, EXTERNAL_CORRELATION, MEMCPY, MEMSET};
use super::records::{CallRecord, CopyRecord, FillRecord, KernelRecord, RangeRecord};
use crate::libraries::loader::text;
use crate::{Error, Result};
use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The flag `CUPTI_ACTIVITY_FLAG_FLUSH_FORCED`, which also returns buffers that are not full.
const FORCED: u32 = 1;
/// Size of a buffer, which has room for a few thousand records.
const BUFFER: Layout = match Layout::from_size_align(1 << 20, 8) {
    Ok(layout) => layout,
    Err(_) => panic!("8 is a power of two"),
};
/// The kinds of activity to record. `GRAPH_TRACE` is left out, because it would give a single record for a whole graph.
const KINDS: [u32; 3] = [CONCURRENT_KERNEL, MEMCPY, MEMSET];
/// The kinds of record for driver calls, and for the ranges in which they are made.
const CALLS: [u32; 2] = [DRIVER, EXTERNAL_CORRELATION];
/// The kind `CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0`; another profiler in this process would use a different kind.
pub(super) const OWN_RANGES: u32 = 3;
/// The library that returns its buffers to [`completed`], once the callbacks have been registered.
static REGISTERED: OnceLock<Arc<Cupti>> = OnceLock::new();
static STORE: Mutex<Store> = Mutex::new(Store {
    zero: 0,
    recorded: Recorded { activities: Vec::new(), calls: Vec::new(), ranges: BTreeMap::new(), lost: 0 },
});

/// Records read from the buffers that CUPTI returned.
struct Store {
    /// CUPTI's time when the recorder started.
    zero: u64,
    recorded: Recorded,
}

/// Returns true if a session was ever started in this process.
pub(super) fn is_registered() -> bool {
    REGISTERED.get().is_some()
}

fn store() -> MutexGuard<'static, Store> {
    STORE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cupti {
    /// Reads the records in a buffer.
    ///
    /// # Safety
    /// `buffer` must hold `valid` bytes of records written by this library.
    unsafe fn read(&self, buffer: *mut u8, valid: usize, store: &mut Store) {
        let mut record: *mut u8 = std::ptr::null_mut();
        // SAFETY: the caller guarantees the buffer and its records. `record` is null before the first call, and points to the previous record afterwards.
        while unsafe { (self.calls.next_record)(buffer, valid, &raw mut record) } == 0 && !record.is_null() {
            // SAFETY: a record begins with its kind, and its address is a multiple of 8.
            let kind = unsafe { record.cast::<u32>().read() };
            let activity: Option<Activity> = match kind {
                CONCURRENT_KERNEL => {
                    // SAFETY: the kind of the record shows that it begins with the fields of `KernelRecord`.
                    let kernel = unsafe { record.cast::<KernelRecord>().read() };
                    // SAFETY: the name is null or a zero-terminated string that belongs to the library.
                    let name = unsafe { text(kernel.name as *const c_char) }.unwrap_or_default();
                    kernel.activity(&name, store.zero)
                }
                // SAFETY: the kind of the record shows that it begins with the fields of `CopyRecord`.
                MEMCPY => unsafe { record.cast::<CopyRecord>().read() }.activity(store.zero),
                // SAFETY: the kind of the record shows that it begins with the fields of `FillRecord`.
                MEMSET => unsafe { record.cast::<FillRecord>().read() }.activity(store.zero),
                DRIVER => {
                    // SAFETY: the kind of the record shows that it has the fields of `CallRecord`.
                    let call = unsafe { record.cast::<CallRecord>().read() };
                    match call.call(self.callback_name(call.callback), store.zero) {
                        Some(call) => store.recorded.calls.push(call),
                        None => store.recorded.lost += 1,
                    }
                    continue;
                }
                EXTERNAL_CORRELATION => {
                    // SAFETY: the kind of the record shows that it has the fields of `RangeRecord`.
                    let range = unsafe { record.cast::<RangeRecord>().read() };
                    if range.external_kind == OWN_RANGES {
                        store.recorded.ranges.insert(range.correlation, range.id);
                    }
                    continue;
                }
                _ => continue,
            };
            match activity {
                Some(activity) => store.recorded.activities.push(activity),
                None => store.recorded.lost += 1,
            }
        }
    }
}

/// Gives CUPTI an empty buffer; CUPTI calls this function when it needs one.
extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, most_records: *mut usize) {
    // SAFETY: the size of `BUFFER` is not zero, and CUPTI passes three pointers that may be written to. It drops records if it receives a null buffer.
    unsafe {
        let memory = alloc(BUFFER);
        buffer.write(memory);
        size.write(if memory.is_null() { 0 } else { BUFFER.size() });
        most_records.write(0);
    }
}

/// Reads a buffer that CUPTI returns; CUPTI calls this function.
extern "C" fn completed(context: *mut c_void, stream: u32, buffer: *mut u8, _size: usize, valid: usize) {
    if buffer.is_null() {
        return;
    }
    if let Some(library) = REGISTERED.get() {
        let mut store = store();
        if RECORDING.load(Ordering::Acquire) {
            // SAFETY: CUPTI has written `valid` bytes of records to the buffer.
            unsafe { library.read(buffer, valid, &mut store) };
            let mut dropped = 0;
            // SAFETY: CUPTI passed this context and stream, and `dropped` is live.
            if unsafe { (library.calls.dropped)(context, stream, &raw mut dropped) } == 0 {
                store.recorded.lost += dropped as u64;
            }
        }
    }
    // SAFETY: `requested` allocated the buffer with this layout, and CUPTI no longer uses it.
    unsafe { dealloc(buffer, BUFFER) };
}

/// A recording session. Its kinds of activity are enabled until it is dropped.
#[derive(Debug)]
pub(super) struct Session {
    library: Arc<Cupti>,
}

impl Session {
    pub fn start(library: Arc<Cupti>, with_calls: bool) -> Result<Self> {
        if COLLECTING.load(Ordering::Acquire) {
            let why = "hardware counters are being read in this process: drop their reader first".into();
            return Err(Error::NotRecorded { why });
        }
        if RECORDING.swap(true, Ordering::AcqRel) {
            let why = "another recorder is active in this process: finish or drop it first".into();
            return Err(Error::NotRecorded { why });
        }
        // From here on, returning an error drops the session, which disables the kinds that were enabled.
        let session = Self { library };
        let Cupti { calls, .. } = &*session.library;
        if REGISTERED.get().is_none() {
            // SAFETY: both callbacks have the signatures that CUPTI expects, and exist as long as the process.
            session.library.check("buffers", unsafe { (calls.register)(requested, completed) })?;
            let _ = REGISTERED.set(session.library.clone());
        }
        *store() = Store { zero: session.library.now()?, recorded: Recorded::default() };
        for kind in KINDS.into_iter().chain(CALLS.into_iter().filter(|_| with_calls)) {
            // SAFETY: the function has no preconditions.
            session.library.check("kernels, copies and fills", unsafe { (calls.enable)(kind) })?;
        }
        Ok(session)
    }

    pub fn take(&self) -> Result<Recorded> {
        // SAFETY: the function has no preconditions; it returns the buffers through `completed` before it returns.
        self.library.check("its buffers", unsafe { (self.library.calls.flush)(FORCED) })?;
        let mut recorded = std::mem::take(&mut store().recorded);
        recorded.activities.sort_by_key(|a| (a.start_ns, a.end_ns()));
        recorded.calls.sort_by_key(|c| c.start_ns);
        Ok(recorded)
    }

    pub fn now_ns(&self) -> Result<u64> {
        let now = self.library.now()?;
        Ok(now.saturating_sub(store().zero))
    }

    pub fn push(&self, id: u64) -> Result<()> {
        // SAFETY: the function has no preconditions.
        self.library.check("a range", unsafe { (self.library.calls.push)(OWN_RANGES, id) })
    }

    /// Ends the innermost range; returns false if no range was open.
    pub fn pop(&self) -> bool {
        let mut id = 0;
        // SAFETY: the pointer points to `id`, which is live.
        unsafe { (self.library.calls.pop)(OWN_RANGES, &raw mut id) == 0 }
    }

    pub fn library(&self) -> &Cupti {
        &self.library
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Closes the ranges that code left open by panicking.
        while self.pop() {}
        let calls = &self.library.calls;
        for kind in KINDS.into_iter().chain(CALLS) {
            // SAFETY: the function has no preconditions; it returns an error for a kind that is not enabled.
            unsafe { (calls.disable)(kind) };
        }
        if REGISTERED.get().is_some() {
            // SAFETY: the function has no preconditions. It is called so that the remaining records do not appear in the next session.
            unsafe { (calls.flush)(FORCED) };
        }
        store().recorded = Recorded::default();
        RECORDING.store(false, Ordering::Release);
    }
}
