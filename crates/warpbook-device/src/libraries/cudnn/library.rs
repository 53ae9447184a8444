//! cuDNN's shared library: where it is found, and its functions.

use crate::cuda::context::Inner;
use crate::libraries::places::version;
use crate::libraries::places::{self, Loaded, Search};
use crate::{Error, Result};
use cudarc::driver::{result, sys};
use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) type Status = c_int;
pub(super) type Handle = *mut c_void;
/// `cudnnBackendDescriptor_t`.
pub(super) type Raw = *mut c_void;

/// The major version whose functions are declared here.
const MAJOR: u32 = 9;
/// The thousands of `CUDNN_STATUS_BAD_PARAM*` and `CUDNN_STATUS_NOT_SUPPORTED*`.
const BAD_PARAM: Status = 2;
const NOT_SUPPORTED: Status = 3;
/// The longest explanation that is read.
const LONGEST: usize = 1024;

/// The functions that are used.
pub(super) struct Calls {
    error_string: unsafe extern "C" fn(Status) -> *const c_char,
    last_error: unsafe extern "C" fn(*mut c_char, usize),
    pub property: unsafe extern "C" fn(c_int, *mut c_int) -> Status,
    /// The CUDA that it was made for, as 13020.
    cuda: unsafe extern "C" fn() -> usize,
    pub create: unsafe extern "C" fn(*mut Handle) -> Status,
    pub destroy: unsafe extern "C" fn(Handle) -> Status,
    pub set_stream: unsafe extern "C" fn(Handle, sys::CUstream) -> Status,
    /// `cudnnBackendCreateDescriptor`, of a kind.
    pub make: unsafe extern "C" fn(c_int, *mut Raw) -> Status,
    pub unmake: unsafe extern "C" fn(Raw) -> Status,
    /// `cudnnBackendSetAttribute`: the attribute's name, the type of its values, their number, and the values.
    pub set: unsafe extern "C" fn(Raw, c_int, c_int, i64, *const c_void) -> Status,
    /// `cudnnBackendGetAttribute`: as of `set`, with room for so many values, and the number that there are.
    pub get: unsafe extern "C" fn(Raw, c_int, c_int, i64, *mut i64, *mut c_void) -> Status,
    pub finalize: unsafe extern "C" fn(Raw) -> Status,
    /// `cudnnBackendExecute`, of an execution plan and a variant pack.
    pub execute: unsafe extern "C" fn(Handle, Raw, Raw) -> Status,
}

/// The library. It loads its parts by itself, from its own folder.
pub(super) struct Cudnn9 {
    pub calls: Calls,
    _loaded: Library,
    pub path: PathBuf,
}

/// Loaded once a process.
static LOADED: Loaded<Arc<Cudnn9>> = Loaded::new();

/// The library's file.
const NAME: &str = if cfg!(windows) { "cudnn64_9.dll" } else { "libcudnn.so.9" };

const SEARCH: Search = Search {
    variable: "WARPBOOK_CUDNN",
    pip: &["cudnn/lib", "cudnn/bin"],
    names: &[NAME],
    toolkit: &["lib64", "lib", "bin/x64", "bin"],
    is_named: |name| name == NAME,
};

impl Cudnn9 {
    /// Finds and loads it: from the folder `WARPBOOK_CUDNN`, else where pip, the loader and the toolkits have it.
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
        places::named(folder, file, Self::open, |path, why| Error::CudnnFailed { path, why })
    }

    /// The first that loads and was not made for a later CUDA than the driver's.
    fn find(candidates: &[PathBuf], driver_cuda: Option<(u32, u32)>) -> Result<Self> {
        let fits = |l: &Self| driver_cuda.is_none_or(|(major, _)| l.cuda_major() <= major as usize);
        places::first(candidates, Self::open, fits).ok_or(Error::NoCudnn { package: package(driver_cuda) })
    }

    fn cuda_major(&self) -> usize {
        // SAFETY: it has no preconditions.
        unsafe { (self.calls.cuda)() / 1000 }
    }

    fn open(path: &Path) -> Result<Self, String> {
        // SAFETY: loading NVIDIA's library runs its initialisers, which have no preconditions.
        let library = unsafe { Library::new(path) }.map_err(|e| e.to_string())?;
        macro_rules! call {
            ($name:literal) => {
                // SAFETY: the type of the field is the function's in cudnn_graph.h.
                *unsafe { library.get($name) }.map_err(|e| e.to_string())?
            };
        }
        let calls = Calls {
            error_string: call!(b"cudnnGetErrorString\0"),
            last_error: call!(b"cudnnGetLastErrorString\0"),
            property: call!(b"cudnnGetProperty\0"),
            cuda: call!(b"cudnnGetCudartVersion\0"),
            create: call!(b"cudnnCreate\0"),
            destroy: call!(b"cudnnDestroy\0"),
            set_stream: call!(b"cudnnSetStream\0"),
            make: call!(b"cudnnBackendCreateDescriptor\0"),
            unmake: call!(b"cudnnBackendDestroyDescriptor\0"),
            set: call!(b"cudnnBackendSetAttribute\0"),
            get: call!(b"cudnnBackendGetAttribute\0"),
            finalize: call!(b"cudnnBackendFinalize\0"),
            execute: call!(b"cudnnBackendExecute\0"),
        };
        let found = Self { calls, _loaded: library, path: path.to_owned() };
        match version(found.calls.property) {
            Some((MAJOR, ..)) => Ok(found),
            other => Err(format!("its version is {other:?}, and {MAJOR} is needed")),
        }
    }

    /// A status by name, with the library's own explanation of its last error.
    pub fn describe(&self, status: Status) -> String {
        // SAFETY: cuDNN returns a static string, or nothing for a code that it does not know.
        let name = unsafe { places::text((self.calls.error_string)(status)) };
        let name = name.unwrap_or_else(|| format!("the error {status}"));
        let mut text = [0u8; LONGEST];
        // SAFETY: the text has room for as many bytes, of which the last stays 0.
        unsafe { (self.calls.last_error)(text.as_mut_ptr().cast(), LONGEST - 1) };
        let text = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy).unwrap_or_default();
        match text.trim().trim_end_matches('.') {
            "" => name,
            text => format!("{name}, {text}"),
        }
    }

    /// An error unless a call has succeeded.
    pub fn check(&self, device: &Inner, what: &dyn Fn() -> String, status: Status) -> Result<()> {
        if status == 0 { Ok(()) } else { Err(self.error(device, what, status)) }
    }

    /// That of a status: a call that the library does not make is told apart from one that failed.
    pub fn error(&self, device: &Inner, what: &dyn Fn() -> String, status: Status) -> Error {
        match status / 1000 {
            BAD_PARAM | NOT_SUPPORTED => Error::Unsupported {
                what: "cuDNN".into(),
                why: format!("refuses {}: {}", what(), self.describe(status)),
            },
            _ => {
                // It may be the error of an earlier kernel, of which cuDNN does not say that it ended the context.
                let sticky = result::mem_get_info().is_err_and(|e| device.note(e));
                Error::Cuda { what: format!("cuDNN, asked for {},", what()), why: self.describe(status), sticky }
            }
        }
    }
}

/// The package of pip whose cuDNN fits a driver.
fn package(driver_cuda: Option<(u32, u32)>) -> &'static str {
    match driver_cuda {
        Some((12, _)) => "nvidia-cudnn-cu12",
        _ => "nvidia-cudnn-cu13",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The library, or `None` where there is none, which is noted.
    pub fn installed(test: &str) -> Option<Arc<Cudnn9>> {
        match Cudnn9::load(None) {
            Ok(library) => Some(library),
            Err(why @ Error::NoCudnn { .. }) => {
                crate::testing::skip(test, "needs cuDNN, which is installed for a GPU", why);
                None
            }
            Err(why) => panic!("{why}"),
        }
    }

    #[test]
    fn a_missing_library_is_an_error_with_its_remedy() {
        let nowhere = [PathBuf::from("/nowhere/libcudnn.so.9")];
        let error = |driver| Cudnn9::find(&nowhere, driver).err().unwrap().to_string();
        assert!(error(None).contains("`pip install nvidia-cudnn-cu13`"), "{}", error(None));
        assert!(error(Some((13, 1))).contains("`pip install nvidia-cudnn-cu13`"));
        assert!(error(Some((12, 4))).contains("`pip install nvidia-cudnn-cu12`"));
        assert!(error(None).contains("WARPBOOK_CUDNN"));
        let folder = tempfile::tempdir().unwrap();
        let named = || Cudnn9::named(folder.path()).err().unwrap().to_string();
        assert!(named().contains("is not in this folder"), "{}", named());
        std::fs::write(folder.path().join(NAME), "no library").unwrap();
        assert!(named().contains("cannot be used"), "{}", named());
    }

    #[test]
    fn every_function_is_in_the_library() {
        let Some(library) = installed("every_function_is_in_the_library of cuDNN") else { return };
        assert_eq!(version(library.calls.property).map(|v| v.0), Some(MAJOR));
        assert!((12..100).contains(&library.cuda_major()), "{}", library.cuda_major());
        assert!(library.describe(3000).starts_with("CUDNN_STATUS_NOT_SUPPORTED"), "{}", library.describe(3000));
        assert!(library.describe(2000).starts_with("CUDNN_STATUS_BAD_PARAM"), "{}", library.describe(2000));
    }
}
