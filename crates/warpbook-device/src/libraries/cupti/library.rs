//! CUPTI's shared library: where it is found, and the functions that record activity.

use crate::libraries::places::{self, Loaded, Search};
use crate::{Error, Result};
use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) type Status = c_int;
pub(super) type Request = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
pub(super) type Complete = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

/// `CUPTI_ERROR_INSUFFICIENT_PRIVILEGES`, also on a virtual GPU, and `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`.
const NO_RIGHTS: [Status; 2] = [35, 40];
const ANOTHER_PROFILER: Status = 39;
/// The first version of the interface whose records have the fields that are read: that of CUDA 12.0.
const OLDEST: u32 = 19;
/// `CUPTI_CB_DOMAIN_DRIVER_API`.
pub(super) const DRIVER_CALLS: u32 = 1;

/// The functions that are used.
pub(super) struct Calls {
    pub version: unsafe extern "C" fn(*mut u32) -> Status,
    pub result_string: unsafe extern "C" fn(Status, *mut *const c_char) -> Status,
    pub timestamp: unsafe extern "C" fn(*mut u64) -> Status,
    pub register: unsafe extern "C" fn(Request, Complete) -> Status,
    pub enable: unsafe extern "C" fn(u32) -> Status,
    pub disable: unsafe extern "C" fn(u32) -> Status,
    pub flush: unsafe extern "C" fn(u32) -> Status,
    pub next_record: unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> Status,
    pub dropped: unsafe extern "C" fn(*mut c_void, u32, *mut usize) -> Status,
    pub push: unsafe extern "C" fn(u32, u64) -> Status,
    pub pop: unsafe extern "C" fn(u32, *mut u64) -> Status,
    pub callback_name: unsafe extern "C" fn(u32, u32, *mut *const c_char) -> Status,
}

/// The library.
pub(super) struct Cupti {
    pub calls: Calls,
    /// Kept as long as its functions can be called.
    pub _loaded: Option<Library>,
    pub path: PathBuf,
    pub version: u32,
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
    pub fn named(folder: &Path) -> Result<Self> {
        let newest = |folder: &Path| {
            SEARCH.files_in(folder).into_iter().next().ok_or_else(|| "there is no libcupti in this folder".into())
        };
        places::named(folder, newest, Self::open, |path, why| Error::CuptiFailed { path, why })
    }

    /// The first that loads and was not made for a later CUDA than the driver's.
    pub fn find(candidates: &[PathBuf], driver_cuda: Option<(u32, u32)>) -> Result<Self> {
        let fits = |l: &Self| driver_cuda.is_none_or(|(major, _)| l.cuda_major() <= major);
        places::first(candidates, Self::open, fits).ok_or(Error::NoCupti { package: package(driver_cuda) })
    }

    /// From 13.0 on the version is that of CUDA, as 130001; before, versions were counted.
    pub fn cuda_major(&self) -> u32 {
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
    pub fn now(&self) -> Result<u64> {
        let mut now = 0;
        // SAFETY: the pointer is to a live integer.
        self.check("the time", unsafe { (self.calls.timestamp)(&raw mut now) })?;
        Ok(now)
    }

    /// A status by name.
    pub fn describe(&self, status: Status) -> String {
        let mut name = std::ptr::null();
        // SAFETY: the pointer is to a live pointer, which is then null or to a static string.
        let name = unsafe {
            (self.calls.result_string)(status, &raw mut name);
            text(name)
        };
        if name.is_empty() { format!("error {status}") } else { name }
    }

    pub fn check(&self, what: &str, status: Status) -> Result<()> {
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
    pub fn callback_name(&self, callback: u32) -> String {
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
}

/// A string of the library's; empty where there is none.
///
/// # Safety
/// It is null, or ends with a zero.
pub(super) unsafe fn text(of: *const c_char) -> String {
    if of.is_null() {
        return String::new();
    }
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(of) }.to_string_lossy().into_owned()
}

/// The package of pip whose CUPTI fits a driver.
fn package(driver_cuda: Option<(u32, u32)>) -> &'static str {
    match driver_cuda {
        Some((12, _)) => "nvidia-cuda-cupti-cu12",
        _ => "nvidia-cuda-cupti",
    }
}
