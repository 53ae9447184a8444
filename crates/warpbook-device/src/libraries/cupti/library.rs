//! Finds CUPTI's shared library, and declares the functions that record activity.

use crate::libraries::library::Library;
use crate::libraries::loader::{Loadable, Loaded, SharedLibrary, Status, library, text};
use crate::{Error, Result};
use std::ffi::{c_char, c_void};
use std::path::{Path, PathBuf};

pub(super) type Request = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
pub(super) type Complete = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

/// The statuses `CUPTI_ERROR_INSUFFICIENT_PRIVILEGES`, which is also returned on a virtual GPU, and
/// `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`.
const NO_RIGHTS: [Status; 2] = [35, 40];
const ANOTHER_PROFILER: Status = 39;
/// The oldest CUPTI API version (CUDA 12.0) whose records have all the fields that are read here.
const OLDEST: u32 = 19;
/// The domain `CUPTI_CB_DOMAIN_DRIVER_API`.
pub(super) const DRIVER_CALLS: u32 = 1;

library! {
    /// The functions of cupti_activity.h, cupti_result.h, cupti_callbacks.h and cupti_version.h that are used.
    pub(super) struct ActivityCalls {
        fn version(*mut u32) -> Status = "cuptiGetVersion";
        fn result_string(Status, *mut *const c_char) -> Status = "cuptiGetResultString";
        fn timestamp(*mut u64) -> Status = "cuptiGetTimestamp";
        fn register(Request, Complete) -> Status = "cuptiActivityRegisterCallbacks";
        fn enable(u32) -> Status = "cuptiActivityEnable";
        fn disable(u32) -> Status = "cuptiActivityDisable";
        fn flush(u32) -> Status = "cuptiActivityFlushAll";
        fn next_record(*mut u8, usize, *mut *mut u8) -> Status = "cuptiActivityGetNextRecord";
        fn dropped(*mut c_void, u32, *mut usize) -> Status = "cuptiActivityGetNumDroppedRecords";
        fn push(u32, u64) -> Status = "cuptiActivityPushExternalCorrelationId";
        fn pop(u32, *mut u64) -> Status = "cuptiActivityPopExternalCorrelationId";
        fn callback_name(u32, u32, *mut *const c_char) -> Status = "cuptiGetCallbackName";
    }
}

/// The loaded CUPTI library.
pub(super) struct Cupti {
    pub calls: ActivityCalls,
    /// The loaded file; `None` if a test provides the functions.
    pub _file: Option<SharedLibrary>,
    pub path: PathBuf,
    pub version: u32,
}

impl std::fmt::Debug for Cupti {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cupti({} at {})", self.version, self.path.display())
    }
}

/// CUPTI is loaded only once per process.
pub(super) static LOADED: Loaded<Cupti> = Loaded::new();

impl Loadable for Cupti {
    const WHICH: Library = Library::Cupti;

    fn open(path: &Path) -> Result<Self, String> {
        let file = SharedLibrary::open(path)?;
        let calls = ActivityCalls::load(&file.library)?;
        let mut version = 0;
        // SAFETY: the pointer points to a live integer.
        let status = unsafe { (calls.version)(&raw mut version) };
        if status != 0 || version < OLDEST {
            return Err(format!("its version is {version}, but {OLDEST} (CUDA 12.0) or later is needed"));
        }
        Ok(Self { calls, _file: Some(file), path: path.to_owned(), version })
    }

    /// Returns the major version of CUDA. Since 13.0, CUPTI's version number is derived from CUDA's, such as 130001;
    /// earlier versions were numbered consecutively.
    fn cuda_major(&self) -> Option<u32> {
        Some(if self.version < 10_000 { 12 } else { self.version / 10_000 })
    }
}

impl Cupti {
    /// Returns the current time of CUPTI's clock in nanoseconds.
    ///
    /// # Errors
    /// If CUPTI fails.
    pub fn now(&self) -> Result<u64> {
        let mut now = 0;
        // SAFETY: the pointer points to a live integer.
        self.check("the time", unsafe { (self.calls.timestamp)(&raw mut now) })?;
        Ok(now)
    }

    /// Returns the name of a status.
    pub fn describe(&self, status: Status) -> String {
        let mut name = std::ptr::null();
        // SAFETY: `name` is a live pointer, which the call leaves null or sets to a static string.
        let name = unsafe {
            (self.calls.result_string)(status, &raw mut name);
            text(name)
        };
        name.unwrap_or_else(|| format!("error {status}"))
    }

    pub fn check(&self, what: &str, status: Status) -> Result<()> {
        let why = match status {
            0 => return Ok(()),
            ANOTHER_PROFILER => "another profiler (such as ncu, nsys or compute-sanitizer) is attached to this process: run without it".into(),
            s if NO_RIGHTS.contains(&s) => "the driver lets only administrators profile (NVreg_RestrictProfilingToAdminUsers): run as root, or ask an \
                 administrator to allow it"
                .into(),
            _ => format!("CUPTI at {}, asked for {what}, says {}", self.path.display(), self.describe(status)),
        };
        Err(Error::NotRecorded { why })
    }

    /// Returns the name of a driver function, given its callback id.
    pub fn callback_name(&self, callback: u32) -> String {
        let mut name = std::ptr::null();
        // SAFETY: `name` is a live pointer, which the call leaves null or sets to a static string.
        let name = unsafe {
            (self.calls.callback_name)(DRIVER_CALLS, callback, &raw mut name);
            text(name).unwrap_or_default()
        };
        // Later versions of a function have a suffix, as in "cuMemcpyAsync_v2", which is removed.
        let plain = name.trim_end_matches("_ptsz").split_once("_v").map_or(&*name, |(plain, _)| plain);
        if plain.is_empty() { format!("driver function {callback}") } else { plain.to_owned() }
    }
}
