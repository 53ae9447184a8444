//! cuDNN's shared library: where it is found, and its functions.

use crate::cublas::version;
use crate::cuda::Inner;
use crate::places::{self, Loaded, Search};
use crate::{Error, Result};
use cudarc::driver::{result, sys};
use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) type Status = c_int;
pub(super) type Handle = *mut c_void;
pub(super) type Descriptor = *mut c_void;
pub(super) type Destroy = unsafe extern "C" fn(Descriptor) -> Status;
pub(super) type Create = unsafe extern "C" fn(*mut Descriptor) -> Status;

/// The major version whose functions are declared here.
const MAJOR: u32 = 9;
/// The thousands of `CUDNN_STATUS_BAD_PARAM*` and `CUDNN_STATUS_NOT_SUPPORTED*`.
const BAD_PARAM: Status = 2;
const NOT_SUPPORTED: Status = 3;
/// The longest explanation that is read.
const LONGEST: usize = 1024;

/// `cudnnConvolutionFwdAlgoPerf_t`, and those of the two gradients, which are the same but for the names of the algorithms.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Suggestion {
    pub algorithm: c_int,
    pub status: Status,
    pub time_ms: f32,
    pub workspace_bytes: usize,
    pub determinism: c_int,
    pub math: c_int,
    pub reserved: [c_int; 3],
}
const _: () = assert!(size_of::<Suggestion>() == 48);

/// The functions of one pass of a convolution. The three passes take their arguments in the same order: two inputs, the
/// convolution, the output.
pub(super) struct PassCalls {
    /// `cudnnGetConvolution*Algorithm_v7`.
    pub suggest: unsafe extern "C" fn(
        Handle,
        Descriptor,
        Descriptor,
        Descriptor,
        Descriptor,
        c_int,
        *mut c_int,
        *mut Suggestion,
    ) -> Status,
    /// `cudnnGetConvolution*WorkspaceSize`.
    pub workspace:
        unsafe extern "C" fn(Handle, Descriptor, Descriptor, Descriptor, Descriptor, c_int, *mut usize) -> Status,
    /// `cudnnConvolution*`.
    pub run: unsafe extern "C" fn(
        Handle,
        *const c_void,
        Descriptor,
        u64,
        Descriptor,
        u64,
        Descriptor,
        c_int,
        u64,
        usize,
        *const c_void,
        Descriptor,
        u64,
    ) -> Status,
}

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
    pub tensor: (Create, Destroy),
    pub filter: (Create, Destroy),
    pub convolution: (Create, Destroy),
    pub set_tensor: unsafe extern "C" fn(Descriptor, c_int, c_int, c_int, c_int, c_int, c_int) -> Status,
    pub set_filter: unsafe extern "C" fn(Descriptor, c_int, c_int, c_int, c_int, c_int, c_int) -> Status,
    pub set_convolution:
        unsafe extern "C" fn(Descriptor, c_int, c_int, c_int, c_int, c_int, c_int, c_int, c_int) -> Status,
    pub set_math: unsafe extern "C" fn(Descriptor, c_int) -> Status,
    /// Forwards, of the input's gradient, and of the weight's.
    pub passes: [PassCalls; 3],
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
        let failed = |why| Error::CudnnFailed { path: folder.to_owned(), why };
        let file = folder.join(NAME);
        if !file.exists() {
            return Err(failed(format!("{NAME} is not in this folder")));
        }
        Self::open(&file).map_err(failed)
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
                // SAFETY: the type of the field is the function's in cudnn_graph.h, cudnn_ops.h or cudnn_cnn.h; a pointer to device
                // memory is passed as the number that it is.
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
            tensor: (call!(b"cudnnCreateTensorDescriptor\0"), call!(b"cudnnDestroyTensorDescriptor\0")),
            filter: (call!(b"cudnnCreateFilterDescriptor\0"), call!(b"cudnnDestroyFilterDescriptor\0")),
            convolution: (call!(b"cudnnCreateConvolutionDescriptor\0"), call!(b"cudnnDestroyConvolutionDescriptor\0")),
            set_tensor: call!(b"cudnnSetTensor4dDescriptor\0"),
            set_filter: call!(b"cudnnSetFilter4dDescriptor\0"),
            set_convolution: call!(b"cudnnSetConvolution2dDescriptor\0"),
            set_math: call!(b"cudnnSetConvolutionMathType\0"),
            passes: [
                PassCalls {
                    suggest: call!(b"cudnnGetConvolutionForwardAlgorithm_v7\0"),
                    workspace: call!(b"cudnnGetConvolutionForwardWorkspaceSize\0"),
                    run: call!(b"cudnnConvolutionForward\0"),
                },
                PassCalls {
                    suggest: call!(b"cudnnGetConvolutionBackwardDataAlgorithm_v7\0"),
                    workspace: call!(b"cudnnGetConvolutionBackwardDataWorkspaceSize\0"),
                    run: call!(b"cudnnConvolutionBackwardData\0"),
                },
                PassCalls {
                    suggest: call!(b"cudnnGetConvolutionBackwardFilterAlgorithm_v7\0"),
                    workspace: call!(b"cudnnGetConvolutionBackwardFilterWorkspaceSize\0"),
                    run: call!(b"cudnnConvolutionBackwardFilter\0"),
                },
            ],
        };
        let found = Self { calls, _loaded: library, path: path.to_owned() };
        match version(found.calls.property) {
            Some((MAJOR, ..)) => Ok(found),
            other => Err(format!("its version is {other:?}, and {MAJOR} is needed")),
        }
    }

    /// A status by name, with the library's own explanation of its last error.
    pub fn describe(&self, status: Status) -> String {
        // SAFETY: cuDNN returns a static string for any code.
        let name = unsafe { CStr::from_ptr((self.calls.error_string)(status)) }.to_string_lossy();
        let mut text = [0u8; LONGEST];
        // SAFETY: the text has room for as many bytes, of which the last stays 0.
        unsafe { (self.calls.last_error)(text.as_mut_ptr().cast(), LONGEST - 1) };
        let text = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy).unwrap_or_default();
        match text.trim().trim_end_matches('.') {
            "" => name.into_owned(),
            text => format!("{name}, {text}"),
        }
    }

    /// An error unless a call has succeeded; one that the library does not make is told apart from one that failed.
    pub fn check(&self, device: &Inner, what: &dyn Fn() -> String, status: Status) -> Result<()> {
        match status / 1000 {
            _ if status == 0 => Ok(()),
            BAD_PARAM | NOT_SUPPORTED => Err(Error::Unsupported {
                what: "cuDNN".into(),
                why: format!("refuses {}: {}", what(), self.describe(status)),
            }),
            _ => {
                // It may be the error of an earlier kernel, of which cuDNN does not say that it ended the context.
                let sticky = result::mem_get_info().is_err_and(|e| device.note(e));
                Err(Error::Cuda { what: format!("cuDNN, asked for {},", what()), why: self.describe(status), sticky })
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
