//! Finds cuDNN's shared library, and declares its functions.

use crate::cuda::context::Inner;
use crate::libraries::library::Library;
use crate::libraries::loader::{Handle, Loadable, Loaded, SharedLibrary, Status, library, text, version};
use crate::{Error, Result};
use cudarc::driver::sys;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;

/// The type `cudnnBackendDescriptor_t`.
pub(super) type RawDescriptor = *mut c_void;

/// The major version of cuDNN whose functions are declared here.
const MAJOR: u32 = 9;
/// The classes (the codes divided by 1000) of `CUDNN_STATUS_BAD_PARAM*` and
/// `CUDNN_STATUS_NOT_SUPPORTED*`.
const BAD_PARAM: Status = 2;
const NOT_SUPPORTED: Status = 3;
/// Size in bytes of the buffer for the library's explanation of an error.
const LONGEST: usize = 1024;

library! {
    /// The functions of cudnn_graph.h that are used.
    pub(super) struct CudnnCalls {
        fn error_string(Status) -> *const c_char = "cudnnGetErrorString";
        fn last_error(*mut c_char, usize) = "cudnnGetLastErrorString";
        fn property(c_int, *mut c_int) -> Status = "cudnnGetProperty";
        /// Returns the CUDA version that the library was built for, such as 13020.
        fn cuda() -> usize = "cudnnGetCudartVersion";
        fn create(*mut Handle) -> Status = "cudnnCreate";
        fn destroy(Handle) -> Status = "cudnnDestroy";
        fn set_stream(Handle, sys::CUstream) -> Status = "cudnnSetStream";
        /// Creates a descriptor of the given kind.
        fn make(c_int, *mut RawDescriptor) -> Status = "cudnnBackendCreateDescriptor";
        fn unmake(RawDescriptor) -> Status = "cudnnBackendDestroyDescriptor";
        /// Sets an attribute of a descriptor. The arguments are the attribute, the type of its
        /// values, their number, and the values.
        fn set(RawDescriptor, c_int, c_int, i64, *const c_void) -> Status = "cudnnBackendSetAttribute";
        /// Reads an attribute into a buffer for `count` values, and returns the number of values
        /// that exist.
        fn get(RawDescriptor, c_int, c_int, i64, *mut i64, *mut c_void) -> Status = "cudnnBackendGetAttribute";
        fn finalize(RawDescriptor) -> Status = "cudnnBackendFinalize";
        /// Runs an execution plan with the arrays of a variant pack.
        fn execute(Handle, RawDescriptor, RawDescriptor) -> Status = "cudnnBackendExecute";
    }
}

/// The loaded cuDNN. It loads its sub-libraries by itself, from its own folder.
pub(super) struct Cudnn9 {
    pub calls: CudnnCalls,
    pub file: SharedLibrary,
}

/// cuDNN is loaded only once per process.
pub(super) static LOADED: Loaded<Cudnn9> = Loaded::new();

impl Loadable for Cudnn9 {
    const WHICH: Library = Library::Cudnn;

    fn open(path: &Path) -> Result<Self, String> {
        let file = SharedLibrary::open(path)?;
        let calls = CudnnCalls::load(&file.library)?;
        match version(calls.property) {
            Some((MAJOR, ..)) => Ok(Self { calls, file }),
            other => Err(format!("its version is {other:?}, but {MAJOR} is needed")),
        }
    }

    fn cuda_major(&self) -> Option<u32> {
        // SAFETY: the function has no preconditions.
        u32::try_from(unsafe { (self.calls.cuda)() } / 1000).ok()
    }
}

impl Cudnn9 {
    /// Describes a status by name, with the library's own explanation of the last error.
    pub fn describe(&self, status: Status) -> String {
        // SAFETY: cuDNN returns a static string, or null for a code that it does not know.
        let name = unsafe { text((self.calls.error_string)(status)) };
        let name = name.unwrap_or_else(|| format!("the error {status}"));
        let mut text = [0u8; LONGEST];
        // SAFETY: `text` has space for this many bytes and one more, which stays 0.
        unsafe { (self.calls.last_error)(text.as_mut_ptr().cast(), LONGEST - 1) };
        let text = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy).unwrap_or_default();
        match text.trim().trim_end_matches('.') {
            "" => name,
            text => format!("{name}, {text}"),
        }
    }

    /// Checks a call's status; `what` says what was asked for.
    ///
    /// # Errors
    /// If the status is not success.
    pub fn check(&self, device: &Inner, what: &dyn Fn() -> String, status: Status) -> Result<()> {
        if status == 0 { Ok(()) } else { Err(self.error(device, what, status)) }
    }

    /// Converts a status into an error.
    pub fn error(&self, device: &Inner, what: &dyn Fn() -> String, status: Status) -> Error {
        let is_refused = matches!(status / 1000, BAD_PARAM | NOT_SUPPORTED);
        device.library_error("cuDNN", &what(), self.describe(status), is_refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libraries::loader::tests::{errors_say_what_to_do, installed};

    #[test]
    fn a_missing_library_is_an_error_with_its_remedy() {
        errors_say_what_to_do::<Cudnn9>(&["libcudnn.so.9"]);
    }

    #[test]
    fn every_function_is_in_the_library() {
        let Some(library) = installed(&LOADED, "every_function_is_in_the_library") else { return };
        assert_eq!(version(library.calls.property).map(|v| v.0), Some(MAJOR));
        assert!(library.cuda_major().is_some_and(|major| (12..100).contains(&major)), "{:?}", library.cuda_major());
        assert!(library.describe(3000).starts_with("CUDNN_STATUS_NOT_SUPPORTED"), "{}", library.describe(3000));
        assert!(library.describe(2000).starts_with("CUDNN_STATUS_BAD_PARAM"), "{}", library.describe(2000));
    }
}
