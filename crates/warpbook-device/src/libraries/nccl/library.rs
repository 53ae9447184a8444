//! Finds NCCL's shared library, and declares its functions.

use crate::libraries::library::Library;
use crate::libraries::loader::{Loadable, Loaded, SharedLibrary, Status, library, text};
use cudarc::driver::sys;
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

/// The type `ncclComm_t`.
pub(super) type RawCommunicator = *mut c_void;

/// The type `ncclUniqueId`, which is passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct UniqueId(pub [u8; 128]);
const _: () = assert!(size_of::<UniqueId>() == 128);

/// The status `ncclInProgress`.
pub(super) const IN_PROGRESS: Status = 7;
/// The types `ncclFloat16`, `ncclFloat32`, `ncclFloat64` and `ncclBfloat16`.
pub(super) const FLOAT16: c_int = 6;
pub(super) const FLOAT32: c_int = 7;
pub(super) const FLOAT64: c_int = 8;
pub(super) const BFLOAT16: c_int = 9;
/// The type `ncclUint8`.
pub(super) const UINT8: c_int = 1;
/// The operations `ncclSum` and `ncclAvg`.
pub(super) const SUM: c_int = 0;
pub(super) const AVERAGE: c_int = 4;
/// The flag `ncclScalarHostImmediate`: the factor is read before the call returns.
pub(super) const HOST_IMMEDIATE: c_int = 1;
/// The oldest version that has all functions below: `ncclRedOpCreatePreMulSum` was added in 2.11 (21100).
const OLDEST: c_int = 21_100;

/// The flag `NCCL_WIN_COLL_SYMMETRIC`.
pub(super) const SYMMETRIC: c_int = 1;

library! {
    /// The functions of nccl.h for memory that the GPUs of other ranks can read and write, available since version 2.27.
    pub(super) struct WindowCalls {
        fn allocate(*mut *mut c_void, usize) -> Status = "ncclMemAlloc";
        fn free(*mut c_void) -> Status = "ncclMemFree";
        /// Registers a window. All ranks must call this function at the same time.
        fn register(RawCommunicator, *mut c_void, usize, *mut *mut c_void, c_int) -> Status = "ncclCommWindowRegister";
        fn deregister(RawCommunicator, *mut c_void) -> Status = "ncclCommWindowDeregister";
    }
}

library! {
    /// The functions of nccl.h that are used. Pointers to device memory are passed unchanged.
    pub(super) struct NcclCalls {
        fn version(*mut c_int) -> Status = "ncclGetVersion";
        fn error_string(Status) -> *const c_char = "ncclGetErrorString";
        /// Describes the last error. Available since version 2.13.
        fn last_error(RawCommunicator) -> *const c_char = "ncclGetLastError", optional;
        fn unique_id(*mut UniqueId) -> Status = "ncclGetUniqueId";
        fn init(*mut RawCommunicator, c_int, UniqueId, c_int) -> Status = "ncclCommInitRank";
        /// Creates a communicator for each of several devices in this process.
        fn init_all(*mut RawCommunicator, c_int, *const c_int) -> Status = "ncclCommInitAll";
        fn destroy(RawCommunicator) -> Status = "ncclCommDestroy";
        fn abort(RawCommunicator) -> Status = "ncclCommAbort";
        fn async_error(RawCommunicator, *mut Status) -> Status = "ncclCommGetAsyncError";
        fn group_start() -> Status = "ncclGroupStart";
        fn group_end() -> Status = "ncclGroupEnd";
        fn all_reduce(*const c_void, *mut c_void, usize, c_int, c_int, RawCommunicator, sys::CUstream) -> Status = "ncclAllReduce";
        /// Queues a reduce-scatter; the count is the number of elements that each rank receives.
        fn reduce_scatter(*const c_void, *mut c_void, usize, c_int, c_int, RawCommunicator, sys::CUstream) -> Status = "ncclReduceScatter";
        /// Queues a reduction to one rank's array; the argument after the operation is that rank.
        fn reduce(*const c_void, *mut c_void, usize, c_int, c_int, c_int, RawCommunicator, sys::CUstream) -> Status = "ncclReduce";
        fn broadcast(*const c_void, *mut c_void, usize, c_int, c_int, RawCommunicator, sys::CUstream) -> Status = "ncclBroadcast";
        /// Queues an all-gather; the count is the number of elements that each rank sends.
        fn all_gather(*const c_void, *mut c_void, usize, c_int, RawCommunicator, sys::CUstream) -> Status = "ncclAllGather";
        fn send(*const c_void, usize, c_int, c_int, RawCommunicator, sys::CUstream) -> Status = "ncclSend";
        fn receive(*mut c_void, usize, c_int, c_int, RawCommunicator, sys::CUstream) -> Status = "ncclRecv";
        fn make_weighted_sum(*mut c_int, *mut c_void, c_int, c_int, RawCommunicator) -> Status = "ncclRedOpCreatePreMulSum";
        fn unmake_operation(c_int, RawCommunicator) -> Status = "ncclRedOpDestroy";
    }
}

/// The loaded NCCL library.
pub(super) struct Nccl2 {
    pub calls: NcclCalls,
    pub windows: Option<WindowCalls>,
    pub file: SharedLibrary,
    pub version: c_int,
}

/// NCCL is loaded only once per process.
pub(super) static LOADED: Loaded<Nccl2> = Loaded::new();

/// Environment variables that NCCL reads when the first communicator is created. They are set here unless the user has set them: no multicast over
/// NVLink, and 24 blocks for a reduction of windows. By default, version 2.28 uses so few blocks on Hopper that large arrays take longer with a window
/// than without. 16 blocks are enough for a reduction alone; 24 are needed next to matrix products.
pub const NCCL_SETTINGS: [(&str, &str); 2] = [("NCCL_NVLS_ENABLE", "0"), ("NCCL_SYM_CTAS", "24")];

impl Loadable for Nccl2 {
    const WHICH: Library = Library::Nccl;

    fn open(path: &Path) -> Result<Self, String> {
        for (name, value) in NCCL_SETTINGS.iter().filter(|(name, _)| std::env::var_os(name).is_none()) {
            // SAFETY: a lock orders this write with Rust's own reads of the environment. A variable is set only once, before NCCL, which reads it, is loaded.
            // In the processes that our launcher starts, all of them are already set.
            unsafe { std::env::set_var(name, value) };
        }
        let file = SharedLibrary::open(path)?;
        let (calls, windows) = (NcclCalls::load(&file.library)?, WindowCalls::load(&file.library).ok());
        let mut version = 0;
        // SAFETY: the pointer points to a live integer.
        let status = unsafe { (calls.version)(&raw mut version) };
        if status != 0 || version < OLDEST {
            return Err(format!("its version is {version}, but {OLDEST} (2.11) or later is needed"));
        }
        Ok(Self { calls, windows, file, version })
    }
}

impl Nccl2 {
    /// Describes a status in words, including NCCL's details of the last error.
    pub fn describe(&self, status: Status, communicator: RawCommunicator) -> String {
        // SAFETY: NCCL returns a static string, or null for a code that it does not know.
        let words = unsafe { text((self.calls.error_string)(status)) };
        let words = words.unwrap_or_else(|| format!("the error {status}"));
        let Some(last_error) = self.calls.last_error else { return words };
        // SAFETY: the communicator is live or null, which the function accepts; the returned string stays valid until the next error.
        let more = unsafe { text(last_error(communicator)).unwrap_or_default().trim().to_owned() };
        if more.is_empty() { words } else { format!("{words} ({more})") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libraries::loader::tests::{errors_say_what_to_do, installed};

    #[test]
    fn a_missing_library_is_an_error_with_its_remedy() {
        errors_say_what_to_do::<Nccl2>(&["libnccl.so.2"]);
    }

    #[test]
    fn every_function_is_in_the_library() {
        let Some(nccl) = installed(&LOADED, "every_function_is_in_the_library") else { return };
        assert!(nccl.version >= OLDEST);
        let words = nccl.describe(4, std::ptr::null_mut());
        assert!(words.starts_with("invalid argument"), "{words}");
        assert!(NCCL_SETTINGS.iter().all(|(name, _)| !std::env::var(name).unwrap().is_empty()));
        assert!(nccl.windows.is_some() || nccl.version < 22_700);
    }
}
