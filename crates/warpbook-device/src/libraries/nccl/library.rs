//! NCCL's shared library: where it is found, and its functions.

use crate::libraries::places::{self, Loaded, Search};
use crate::{Error, Result};
use cudarc::driver::sys;
use libloading::Library;
use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) type Status = c_int;
/// `ncclComm_t`.
pub(super) type Raw = *mut c_void;

/// `ncclUniqueId`, which is passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct UniqueId(pub [u8; 128]);
const _: () = assert!(size_of::<UniqueId>() == 128);

/// `ncclInProgress`.
pub(super) const IN_PROGRESS: Status = 7;
/// `ncclFloat16`, `ncclFloat32`, `ncclFloat64` and `ncclBfloat16`.
pub(super) const FLOAT16: c_int = 6;
pub(super) const FLOAT32: c_int = 7;
pub(super) const FLOAT64: c_int = 8;
pub(super) const BFLOAT16: c_int = 9;
/// `ncclUint8`.
pub(super) const UINT8: c_int = 1;
/// `ncclSum` and `ncclAvg`.
pub(super) const SUM: c_int = 0;
pub(super) const AVERAGE: c_int = 4;
/// `ncclScalarHostImmediate`: the factor is read before the call returns.
pub(super) const HOST_IMMEDIATE: c_int = 1;
/// The oldest with all functions below: 2.11 has `ncclRedOpCreatePreMulSum`, as 21100.
const OLDEST: c_int = 21_100;

type Reduction = unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Raw, sys::CUstream) -> Status;

/// `NCCL_WIN_COLL_SYMMETRIC`.
pub(super) const SYMMETRIC: c_int = 1;

/// Memory that the other ranks' GPUs can read and write, from version 2.27 on.
#[derive(Clone, Copy)]
pub(super) struct WindowCalls {
    pub allocate: unsafe extern "C" fn(*mut *mut c_void, usize) -> Status,
    pub free: unsafe extern "C" fn(*mut c_void) -> Status,
    /// All ranks call it at the same time.
    pub register: unsafe extern "C" fn(Raw, *mut c_void, usize, *mut *mut c_void, c_int) -> Status,
    pub deregister: unsafe extern "C" fn(Raw, *mut c_void) -> Status,
}

/// The functions that are used.
pub(super) struct Calls {
    version: unsafe extern "C" fn(*mut c_int) -> Status,
    error_string: unsafe extern "C" fn(Status) -> *const c_char,
    last_error: Option<unsafe extern "C" fn(Raw) -> *const c_char>,
    pub unique_id: unsafe extern "C" fn(*mut UniqueId) -> Status,
    pub init: unsafe extern "C" fn(*mut Raw, c_int, UniqueId, c_int) -> Status,
    /// A communicator for each of these devices, all in this process.
    pub init_all: unsafe extern "C" fn(*mut Raw, c_int, *const c_int) -> Status,
    pub destroy: unsafe extern "C" fn(Raw) -> Status,
    pub abort: unsafe extern "C" fn(Raw) -> Status,
    pub async_error: unsafe extern "C" fn(Raw, *mut Status) -> Status,
    pub group_start: unsafe extern "C" fn() -> Status,
    pub group_end: unsafe extern "C" fn() -> Status,
    pub all_reduce: Reduction,
    /// The elements that each rank receives are counted.
    pub reduce_scatter: Reduction,
    /// The sum ends up in the array of one rank, whose number comes after the operation.
    pub reduce:
        unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, c_int, Raw, sys::CUstream) -> Status,
    pub broadcast: unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Raw, sys::CUstream) -> Status,
    /// The elements that each rank sends are counted.
    pub all_gather: unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, Raw, sys::CUstream) -> Status,
    pub send: unsafe extern "C" fn(*const c_void, usize, c_int, c_int, Raw, sys::CUstream) -> Status,
    pub receive: unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, Raw, sys::CUstream) -> Status,
    pub make_weighted_sum: unsafe extern "C" fn(*mut c_int, *mut c_void, c_int, c_int, Raw) -> Status,
    pub unmake_operation: unsafe extern "C" fn(c_int, Raw) -> Status,
    pub windows: Option<WindowCalls>,
}

/// The library.
pub(super) struct Nccl2 {
    pub calls: Calls,
    _loaded: Library,
    pub path: PathBuf,
    pub version: c_int,
}

/// Loaded once a process.
static LOADED: Loaded<Arc<Nccl2>> = Loaded::new();

/// The library's file. There is none for Windows.
const NAME: &str = "libnccl.so.2";

const SEARCH: Search = Search {
    variable: "WARPBOOK_NCCL",
    pip: &["nccl/lib"],
    names: &[NAME],
    toolkit: &["lib64", "lib"],
    is_named: |name| name == NAME,
};

/// What NCCL reads from the environment when its first communicator is made, unless the user has set it: no multicast over NVLink, and 24 blocks for a
/// reduction of windows. Left to itself, version 2.28 takes so few on Hopper that large arrays take longer than without a window; 16 are enough for
/// a reduction alone, 24 next to products.
pub const NCCL_SETTINGS: [(&str, &str); 2] = [("NCCL_NVLS_ENABLE", "0"), ("NCCL_SYM_CTAS", "24")];

impl Nccl2 {
    /// Finds and loads it: from the folder `WARPBOOK_NCCL`, else where pip, the loader and the toolkits have it.
    pub fn load(driver_cuda: Option<(u32, u32)>) -> Result<Arc<Self>> {
        LOADED.or_search(
            &SEARCH,
            |folder| Self::named(folder).map(Arc::new),
            |candidates| Self::find(candidates, driver_cuda).map(Arc::new),
        )
    }

    /// That of a folder that was named: nothing else will do.
    fn named(folder: &Path) -> Result<Self> {
        let file = |folder: &Path| places::file_in(folder, NAME);
        places::named(folder, file, Self::open, |path, why| Error::NcclFailed { path, why })
    }

    fn find(candidates: &[PathBuf], driver_cuda: Option<(u32, u32)>) -> Result<Self> {
        places::first(candidates, Self::open, |_| true).ok_or(Error::NoNccl { package: package(driver_cuda) })
    }

    fn open(path: &Path) -> Result<Self, String> {
        for (name, value) in NCCL_SETTINGS.iter().filter(|(name, _)| std::env::var_os(name).is_none()) {
            // SAFETY: Rust's own reads of the environment are ordered with this by a lock. It is set once, before the library that reads it is
            // there; our launcher has set all of them already in the processes that it starts.
            unsafe { std::env::set_var(name, value) };
        }
        // SAFETY: loading NVIDIA's library runs its initialisers, which have no preconditions.
        let library = unsafe { Library::new(path) }.map_err(|e| e.to_string())?;
        macro_rules! call {
            ($name:literal) => {
                // SAFETY: the type of the field is the function's in nccl.h; a pointer to device memory is passed as it is.
                *unsafe { library.get($name) }.map_err(|e| e.to_string())?
            };
        }
        let windows = || -> Result<WindowCalls, String> {
            Ok(WindowCalls {
                allocate: call!(b"ncclMemAlloc\0"),
                free: call!(b"ncclMemFree\0"),
                register: call!(b"ncclCommWindowRegister\0"),
                deregister: call!(b"ncclCommWindowDeregister\0"),
            })
        };
        let calls = Calls {
            windows: windows().ok(),
            version: call!(b"ncclGetVersion\0"),
            error_string: call!(b"ncclGetErrorString\0"),
            // SAFETY: as above; version 2.13 brought it.
            last_error: unsafe { library.get(b"ncclGetLastError\0") }.ok().map(|f| *f),
            unique_id: call!(b"ncclGetUniqueId\0"),
            init: call!(b"ncclCommInitRank\0"),
            init_all: call!(b"ncclCommInitAll\0"),
            destroy: call!(b"ncclCommDestroy\0"),
            abort: call!(b"ncclCommAbort\0"),
            async_error: call!(b"ncclCommGetAsyncError\0"),
            group_start: call!(b"ncclGroupStart\0"),
            group_end: call!(b"ncclGroupEnd\0"),
            all_reduce: call!(b"ncclAllReduce\0"),
            reduce_scatter: call!(b"ncclReduceScatter\0"),
            reduce: call!(b"ncclReduce\0"),
            broadcast: call!(b"ncclBroadcast\0"),
            all_gather: call!(b"ncclAllGather\0"),
            send: call!(b"ncclSend\0"),
            receive: call!(b"ncclRecv\0"),
            make_weighted_sum: call!(b"ncclRedOpCreatePreMulSum\0"),
            unmake_operation: call!(b"ncclRedOpDestroy\0"),
        };
        let mut version = 0;
        // SAFETY: the pointer is to a live integer.
        let status = unsafe { (calls.version)(&raw mut version) };
        if status != 0 || version < OLDEST {
            return Err(format!("its version is {version}, and {OLDEST} (2.11) or later is needed"));
        }
        Ok(Self { calls, _loaded: library, path: path.to_owned(), version })
    }

    /// A status in words, with what the library adds to it.
    pub fn describe(&self, status: Status, communicator: Raw) -> String {
        // SAFETY: NCCL returns a static string, or nothing for a code that it does not know.
        let words = unsafe { places::text((self.calls.error_string)(status)) };
        let words = words.unwrap_or_else(|| format!("the error {status}"));
        let Some(last_error) = self.calls.last_error else { return words };
        // SAFETY: the communicator is live or null, which the function takes; the string lives until the next error.
        let more = unsafe { places::text(last_error(communicator)).unwrap_or_default().trim().to_owned() };
        if more.is_empty() { words } else { format!("{words} ({more})") }
    }
}

/// The package of pip whose NCCL fits a driver.
fn package(driver_cuda: Option<(u32, u32)>) -> &'static str {
    match driver_cuda {
        Some((12, _)) => "nvidia-nccl-cu12",
        _ => "nvidia-nccl-cu13",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_an_error_with_its_remedy() {
        let nowhere = [PathBuf::from("/nowhere/libnccl.so.2")];
        let error = |driver| Nccl2::find(&nowhere, driver).err().unwrap().to_string();
        assert!(error(Some((13, 0))).contains("`pip install nvidia-nccl-cu13`"), "{}", error(None));
        assert!(error(Some((12, 4))).contains("`pip install nvidia-nccl-cu12`"));
        assert!(error(None).contains("WARPBOOK_NCCL"));
        let folder = tempfile::tempdir().unwrap();
        let named = || Nccl2::named(folder.path()).err().unwrap().to_string();
        assert!(named().contains("libnccl.so.2 is not in this folder"), "{}", named());
        std::fs::write(folder.path().join(NAME), "no library").unwrap();
        assert!(named().contains("cannot be used"), "{}", named());
    }

    #[test]
    fn every_function_is_in_the_library() {
        match Nccl2::load(None) {
            Ok(nccl) => {
                assert!(nccl.version >= OLDEST);
                let words = nccl.describe(4, std::ptr::null_mut());
                assert!(words.starts_with("invalid argument"), "{words}");
                assert!(NCCL_SETTINGS.iter().all(|(name, _)| !std::env::var(name).unwrap().is_empty()));
                assert!(nccl.calls.windows.is_some() || nccl.version < 22_700);
            }
            Err(why @ Error::NoNccl { .. }) => {
                crate::testing::skip(
                    "every_function_is_in_the_library",
                    "needs NCCL, which is installed for GPUs",
                    why,
                );
            }
            Err(why) => panic!("{why}"),
        }
    }
}
