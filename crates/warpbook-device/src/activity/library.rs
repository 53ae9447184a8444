//! CUPTI's shared library: where it is found, its functions, and the buffers that it fills.

use super::records::{CONCURRENT_KERNEL, DRIVER, EXTERNAL_CORRELATION, MEMCPY, MEMSET};
use super::records::{CallRecord, CopyRecord, FillRecord, KernelRecord, RangeRecord};
use super::{Activity, Recorded};
use crate::places::{self, Loaded, Search};
use crate::{Error, Result};
use libloading::Library;
use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

type Status = c_int;
type Request = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Complete = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

/// `CUPTI_ERROR_INSUFFICIENT_PRIVILEGES`, also on a virtual GPU, and `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`.
const NO_RIGHTS: [Status; 2] = [35, 40];
const ANOTHER_PROFILER: Status = 39;
/// `CUPTI_ACTIVITY_FLAG_FLUSH_FORCED`: buffers that are not full too.
const FORCED: u32 = 1;
/// A buffer for some thousand records.
const BUFFER: Layout = match Layout::from_size_align(1 << 20, 8) {
    Ok(layout) => layout,
    Err(_) => panic!("8 is a power of two"),
};
/// The first version of the interface whose records have the fields that are read: that of CUDA 12.0.
const OLDEST: u32 = 19;
/// Without `GRAPH_TRACE`, which would give one record for a whole graph.
const KINDS: [u32; 3] = [CONCURRENT_KERNEL, MEMCPY, MEMSET];
/// Calls of the driver, and the ranges in which they are made.
const CALLS: [u32; 2] = [DRIVER, EXTERNAL_CORRELATION];
/// `CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0`: another profiler in this process would take another.
const OWN_RANGES: u32 = 3;
/// `CUPTI_CB_DOMAIN_DRIVER_API`.
const DRIVER_CALLS: u32 = 1;

/// The functions that are used.
struct Calls {
    version: unsafe extern "C" fn(*mut u32) -> Status,
    result_string: unsafe extern "C" fn(Status, *mut *const c_char) -> Status,
    timestamp: unsafe extern "C" fn(*mut u64) -> Status,
    register: unsafe extern "C" fn(Request, Complete) -> Status,
    enable: unsafe extern "C" fn(u32) -> Status,
    disable: unsafe extern "C" fn(u32) -> Status,
    flush: unsafe extern "C" fn(u32) -> Status,
    next_record: unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> Status,
    dropped: unsafe extern "C" fn(*mut c_void, u32, *mut usize) -> Status,
    push: unsafe extern "C" fn(u32, u64) -> Status,
    pop: unsafe extern "C" fn(u32, *mut u64) -> Status,
    callback_name: unsafe extern "C" fn(u32, u32, *mut *const c_char) -> Status,
}

/// The library.
pub(super) struct Cupti {
    calls: Calls,
    /// Kept as long as its functions can be called.
    _loaded: Option<Library>,
    path: PathBuf,
    version: u32,
}

impl std::fmt::Debug for Cupti {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cupti({} at {})", self.version, self.path.display())
    }
}

const SEARCH: Search = Search {
    variable: "WARPBOOK_CUPTI",
    pip: &["cu13/lib", "cuda_cupti/lib", "cu13/bin/x86_64", "cuda_cupti/bin"],
    names: if cfg!(windows) { &[] } else { &["libcupti.so", "libcupti.so.13", "libcupti.so.12"] },
    toolkit: &["extras/CUPTI/lib64", "lib64", "targets/x86_64-linux/lib"],
    is_named: |name| name.starts_with("libcupti.so") || (name.starts_with("cupti64_") && name.ends_with(".dll")),
};

/// Loaded once a process.
static LOADED: Loaded<Arc<Cupti>> = Loaded::new();
/// The one whose buffers come back to [`completed`], once it has been told so.
static REGISTERED: OnceLock<Arc<Cupti>> = OnceLock::new();
/// Whether there is a session.
static RECORDING: AtomicBool = AtomicBool::new(false);
static STORE: Mutex<Store> = Mutex::new(Store {
    zero: 0,
    recorded: Recorded { activities: Vec::new(), calls: Vec::new(), ranges: BTreeMap::new(), lost: 0 },
});

/// What has come back of the buffers.
struct Store {
    /// CUPTI's time at the recorder's start.
    zero: u64,
    recorded: Recorded,
}

/// Whether a session is under way in this process.
pub(crate) fn is_recording() -> bool {
    RECORDING.load(Ordering::Acquire)
}

/// Whether a session has been begun in this process.
pub(super) fn is_registered() -> bool {
    REGISTERED.get().is_some()
}

fn store() -> MutexGuard<'static, Store> {
    STORE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cupti {
    /// Finds and loads it: from the folder `WARPBOOK_CUPTI`, else where pip, the loader and the toolkits have it.
    pub fn load(driver_cuda: Option<(u32, u32)>) -> Result<Arc<Self>> {
        LOADED.or_search(
            &SEARCH,
            |folder| Self::named(folder).map(Arc::new),
            |candidates| Self::find(candidates, driver_cuda).map(Arc::new),
        )
    }

    /// That of a folder that was named: nothing else will do.
    fn named(folder: &Path) -> Result<Self> {
        let newest = |folder: &Path| {
            SEARCH.files_in(folder).into_iter().next().ok_or_else(|| "there is no libcupti in this folder".into())
        };
        places::named(folder, newest, Self::open, |path, why| Error::CuptiFailed { path, why })
    }

    /// The first that loads and was not made for a later CUDA than the driver's.
    fn find(candidates: &[PathBuf], driver_cuda: Option<(u32, u32)>) -> Result<Self> {
        let fits = |l: &Self| driver_cuda.is_none_or(|(major, _)| l.cuda_major() <= major);
        places::first(candidates, Self::open, fits).ok_or(Error::NoCupti { package: package(driver_cuda) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn version(&self) -> u32 {
        self.version
    }

    /// From 13.0 on the version is that of CUDA, as 130001; before, versions were counted.
    fn cuda_major(&self) -> u32 {
        if self.version < 10_000 { 12 } else { self.version / 10_000 }
    }

    fn open(path: &Path) -> Result<Self, String> {
        // SAFETY: loading NVIDIA's library runs its initialisers, which have no preconditions.
        let library = unsafe { Library::new(path) }.map_err(|e| e.to_string())?;
        macro_rules! call {
            ($name:literal) => {
                // SAFETY: the type of the field is the function's in cupti_activity.h, cupti_result.h or cupti_version.h.
                *unsafe { library.get($name) }.map_err(|e| e.to_string())?
            };
        }
        let calls = Calls {
            version: call!(b"cuptiGetVersion\0"),
            result_string: call!(b"cuptiGetResultString\0"),
            timestamp: call!(b"cuptiGetTimestamp\0"),
            register: call!(b"cuptiActivityRegisterCallbacks\0"),
            enable: call!(b"cuptiActivityEnable\0"),
            disable: call!(b"cuptiActivityDisable\0"),
            flush: call!(b"cuptiActivityFlushAll\0"),
            next_record: call!(b"cuptiActivityGetNextRecord\0"),
            dropped: call!(b"cuptiActivityGetNumDroppedRecords\0"),
            push: call!(b"cuptiActivityPushExternalCorrelationId\0"),
            pop: call!(b"cuptiActivityPopExternalCorrelationId\0"),
            callback_name: call!(b"cuptiGetCallbackName\0"),
        };
        let mut version = 0;
        // SAFETY: the pointer is to a live integer.
        let status = unsafe { (calls.version)(&raw mut version) };
        if status != 0 || version < OLDEST {
            return Err(format!("its version is {version}, and {OLDEST} or later is needed, that of CUDA 12.0"));
        }
        Ok(Self { calls, _loaded: Some(library), path: path.to_owned(), version })
    }

    /// The library's clock in nanoseconds.
    fn now(&self) -> Result<u64> {
        let mut now = 0;
        // SAFETY: the pointer is to a live integer.
        self.check("the time", unsafe { (self.calls.timestamp)(&raw mut now) })?;
        Ok(now)
    }

    /// A status by name.
    fn describe(&self, status: Status) -> String {
        let mut name = std::ptr::null();
        // SAFETY: the pointer is to a live pointer, which is then null or to a static string.
        let name = unsafe {
            (self.calls.result_string)(status, &raw mut name);
            text(name)
        };
        if name.is_empty() { format!("error {status}") } else { name }
    }

    fn check(&self, what: &str, status: Status) -> Result<()> {
        let why = match status {
            0 => return Ok(()),
            ANOTHER_PROFILER => "another profiler is attached to this process, as ncu, nsys and compute-sanitizer are: run without it".into(),
            s if NO_RIGHTS.contains(&s) => "the driver lets only administrators profile (NVreg_RestrictProfilingToAdminUsers): run as root, or ask an \
                 administrator to allow it"
                .into(),
            _ => format!("CUPTI at {}, asked for {what}, says {}", self.path.display(), self.describe(status)),
        };
        Err(Error::NotRecorded { why })
    }

    /// The name of a function of the driver.
    fn callback_name(&self, callback: u32) -> String {
        let mut name = std::ptr::null();
        // SAFETY: the pointer is to a live pointer, which is then null or to a static string.
        let name = unsafe {
            (self.calls.callback_name)(DRIVER_CALLS, callback, &raw mut name);
            text(name)
        };
        // Later forms of a function end with their version, as "cuMemcpyAsync_v2".
        let plain = name.trim_end_matches("_ptsz").split_once("_v").map_or(&*name, |(plain, _)| plain);
        if plain.is_empty() { format!("driver function {callback}") } else { plain.to_owned() }
    }

    /// Reads a buffer's records.
    ///
    /// # Safety
    /// `buffer` holds so many bytes of records that this library has written.
    unsafe fn read(&self, buffer: *mut u8, valid: usize, store: &mut Store) {
        let mut record: *mut u8 = std::ptr::null_mut();
        // SAFETY: as the caller says; the record is null before the first call and the last one's after it.
        while unsafe { (self.calls.next_record)(buffer, valid, &raw mut record) } == 0 && !record.is_null() {
            // SAFETY: a record begins with its kind, and lies at a multiple of 8 bytes in its buffer.
            let kind = unsafe { record.cast::<u32>().read() };
            let activity: Option<Activity> = match kind {
                CONCURRENT_KERNEL => {
                    // SAFETY: a record of that kind begins with these fields.
                    let kernel = unsafe { record.cast::<KernelRecord>().read() };
                    // SAFETY: its name is null or a zero-terminated string of the library's.
                    let name = unsafe { text(kernel.name as *const c_char) };
                    kernel.activity(&name, store.zero)
                }
                // SAFETY: a record of that kind begins with these fields.
                MEMCPY => unsafe { record.cast::<CopyRecord>().read() }.activity(store.zero),
                // SAFETY: a record of that kind begins with these fields.
                MEMSET => unsafe { record.cast::<FillRecord>().read() }.activity(store.zero),
                DRIVER => {
                    // SAFETY: a record of that kind is these fields.
                    let call = unsafe { record.cast::<CallRecord>().read() };
                    match call.call(self.callback_name(call.callback), store.zero) {
                        Some(call) => store.recorded.calls.push(call),
                        None => store.recorded.lost += 1,
                    }
                    continue;
                }
                EXTERNAL_CORRELATION => {
                    // SAFETY: a record of that kind is these fields.
                    let range = unsafe { record.cast::<RangeRecord>().read() };
                    if range.of == OWN_RANGES {
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

/// A string of the library's; empty where there is none.
///
/// # Safety
/// It is null, or ends with a zero.
unsafe fn text(of: *const c_char) -> String {
    if of.is_null() {
        return String::new();
    }
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(of) }.to_string_lossy().into_owned()
}

/// CUPTI asks for a buffer.
extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, most_records: *mut usize) {
    // SAFETY: the layout has a size; CUPTI gives three pointers to write to. It drops records where the buffer is null.
    unsafe {
        let memory = alloc(BUFFER);
        buffer.write(memory);
        size.write(if memory.is_null() { 0 } else { BUFFER.size() });
        most_records.write(0);
    }
}

/// CUPTI gives a buffer back.
extern "C" fn completed(context: *mut c_void, stream: u32, buffer: *mut u8, _size: usize, valid: usize) {
    if buffer.is_null() {
        return;
    }
    if let Some(library) = REGISTERED.get() {
        let mut store = store();
        if RECORDING.load(Ordering::Acquire) {
            // SAFETY: CUPTI has written so many bytes of records.
            unsafe { library.read(buffer, valid, &mut store) };
            let mut dropped = 0;
            // SAFETY: context and stream are those that CUPTI gave; the pointer is to a live integer.
            if unsafe { (library.calls.dropped)(context, stream, &raw mut dropped) } == 0 {
                store.recorded.lost += dropped as u64;
            }
        }
    }
    // SAFETY: it comes from `requested`, and CUPTI no longer uses it.
    unsafe { dealloc(buffer, BUFFER) };
}

/// The kinds are enabled as long as it lives.
#[derive(Debug)]
pub(super) struct Session {
    library: Arc<Cupti>,
}

impl Session {
    pub fn start(library: Arc<Cupti>, with_calls: bool) -> Result<Self> {
        if crate::counters::is_collecting() {
            let why = "hardware counters are being read in this process: drop what reads them first".into();
            return Err(Error::NotRecorded { why });
        }
        if RECORDING.swap(true, Ordering::AcqRel) {
            let why = "another recorder is at work in this process: finish or drop it first".into();
            return Err(Error::NotRecorded { why });
        }
        // From here on an error drops the session, which disables what was enabled.
        let session = Self { library };
        let Cupti { calls, .. } = &*session.library;
        if REGISTERED.get().is_none() {
            // SAFETY: both functions are what CUPTI calls them as, and live as long as the process.
            session.library.check("buffers", unsafe { (calls.register)(requested, completed) })?;
            let _ = REGISTERED.set(session.library.clone());
        }
        *store() = Store { zero: session.library.now()?, recorded: Recorded::default() };
        for kind in KINDS.into_iter().chain(CALLS.into_iter().filter(|_| with_calls)) {
            // SAFETY: it has no preconditions.
            session.library.check("kernels, copies and fills", unsafe { (calls.enable)(kind) })?;
        }
        Ok(session)
    }

    pub fn take(&self) -> Result<Recorded> {
        // SAFETY: it has no preconditions; the buffers come back through `completed` before it returns.
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
        // SAFETY: it has no preconditions.
        self.library.check("a range", unsafe { (self.library.calls.push)(OWN_RANGES, id) })
    }

    /// Whether there was one.
    pub fn pop(&self) -> bool {
        let mut id = 0;
        // SAFETY: the pointer is to a live integer.
        unsafe { (self.library.calls.pop)(OWN_RANGES, &raw mut id) == 0 }
    }

    pub fn library(&self) -> &Cupti {
        &self.library
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Those of a part that panicked.
        while self.pop() {}
        let calls = &self.library.calls;
        for kind in KINDS.into_iter().chain(CALLS) {
            // SAFETY: it has no preconditions; a kind that is not enabled is a status that says so.
            unsafe { (calls.disable)(kind) };
        }
        if REGISTERED.get().is_some() {
            // SAFETY: as in `take`. What is left must not come up in the next session.
            unsafe { (calls.flush)(FORCED) };
        }
        store().recorded = Recorded::default();
        RECORDING.store(false, Ordering::Release);
    }
}

/// The package of pip whose CUPTI fits a driver.
fn package(driver_cuda: Option<(u32, u32)>) -> &'static str {
    match driver_cuda {
        Some((12, _)) => "nvidia-cuda-cupti-cu12",
        _ => "nvidia-cuda-cupti",
    }
}

#[cfg(test)]
#[path = "library_tests.rs"]
mod tests;
