//! The shared libraries: where they are found, their functions and their numbers.

use crate::cuda::capture::between_captures;
use crate::cuda::context::Inner;
use crate::libraries::places::{self, GetProperty, Loaded, Search, version};
use crate::{Error, Result};
use cudarc::driver::{result, sys};
use libloading::Library;
use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) type Status = c_int;
pub(super) type Handle = *mut c_void;
pub(super) type Descriptor = *mut c_void;
pub(super) type CreateHandle = unsafe extern "C" fn(*mut Handle) -> Status;
pub(super) type Destroy = unsafe extern "C" fn(*mut c_void) -> Status;
pub(super) type SetAttribute = unsafe extern "C" fn(Descriptor, c_int, *const c_void, usize) -> Status;

/// `CUBLAS_STATUS_*`.
pub(super) const ALLOC_FAILED: Status = 3;
pub(super) const INVALID_VALUE: Status = 7;
pub(super) const ARCH_MISMATCH: Status = 8;
pub(super) const NOT_SUPPORTED: Status = 15;
/// `CUBLAS_OP_N` and `CUBLAS_OP_T`.
pub(super) const OP_N: c_int = 0;
pub(super) const OP_T: c_int = 1;
/// `CUDA_R_32F`, `CUDA_R_16F` and `CUDA_R_16BF`.
pub(super) const R_32F: c_int = 0;
pub(super) const R_16F: c_int = 2;
pub(super) const R_16BF: c_int = 14;
/// `CUBLAS_COMPUTE_32F` and `CUBLAS_COMPUTE_32F_FAST_TF32`.
pub(super) const COMPUTE_32F: c_int = 68;
pub(super) const COMPUTE_32F_FAST_TF32: c_int = 77;
/// `CUBLAS_GEMM_DEFAULT`: the library chooses.
pub(super) const GEMM_DEFAULT: c_int = -1;
/// `CUBLAS_DEFAULT_MATH`, by which fp32 is no TF32, and `CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION`, by which parts of
/// a sum are added up in f32 also where C has 16 bits.
pub(super) const MATH_MODE: c_int = 16;
/// `CUBLASLT_MATMUL_DESC_TRANSA` and `_TRANSB`.
pub(super) const DESC_TRANSA: c_int = 3;
pub(super) const DESC_TRANSB: c_int = 4;
/// `CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`, `_REDUCTION_SCHEME_MASK` and, in bytes, `_MIN_ALIGNMENT_{A,B,C,D}_BYTES`.
pub(super) const PREF_MAX_WORKSPACE: c_int = 1;
pub(super) const PREF_REDUCTIONS: c_int = 3;
pub(super) const PREF_ALIGNMENTS: [c_int; 4] = [5, 6, 7, 8];
/// `CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE`: parts of a sum are kept in f32.
pub(super) const REDUCE_IN_COMPUTE_TYPE: u32 = 2;

/// What cuBLAS may use in addition to the matrices, in bytes; NVIDIA advises half of it for Hopper.
pub(super) const WORKSPACE_BYTES: usize = 64 << 20;
/// The strictest alignment that cuBLASLt asks about, in bytes, and that of every buffer.
pub(super) const ALIGNMENT: u64 = 256;

/// Algorithms that are asked for where the first that runs is taken.
pub(super) const SUGGESTIONS: usize = 8;

/// `cublasLtMatmulHeuristicResult_t`; an algorithm is eight words that only the library reads.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Suggestion {
    pub algorithm: [u64; 8],
    pub workspace_bytes: usize,
    pub state: Status,
    pub waves: f32,
    pub reserved: [c_int; 4],
}
const _: () = assert!(size_of::<Suggestion>() == 96);

/// The calls that are used.
pub(super) struct Calls {
    pub status_name: unsafe extern "C" fn(Status) -> *const c_char,
    pub status_string: unsafe extern "C" fn(Status) -> *const c_char,
    pub property: GetProperty,
    pub create: CreateHandle,
    pub destroy: Destroy,
    pub set_stream: unsafe extern "C" fn(Handle, sys::CUstream) -> Status,
    pub set_workspace: unsafe extern "C" fn(Handle, u64, usize) -> Status,
    pub set_math_mode: unsafe extern "C" fn(Handle, c_int) -> Status,
    pub gemm_ex: unsafe extern "C" fn(
        Handle,
        c_int,
        c_int,
        c_int,
        c_int,
        c_int,
        *const c_void,
        u64,
        c_int,
        c_int,
        u64,
        c_int,
        c_int,
        *const c_void,
        u64,
        c_int,
        c_int,
        c_int,
        c_int,
    ) -> Status,
    pub lt_property: GetProperty,
    pub lt_create: CreateHandle,
    pub lt_destroy: Destroy,
    pub lt_desc_create: unsafe extern "C" fn(*mut Descriptor, c_int, c_int) -> Status,
    pub lt_desc_set: SetAttribute,
    pub lt_desc_destroy: Destroy,
    pub lt_layout_create: unsafe extern "C" fn(*mut Descriptor, c_int, u64, u64, i64) -> Status,
    pub lt_layout_destroy: Destroy,
    pub lt_preference_create: unsafe extern "C" fn(*mut Descriptor) -> Status,
    pub lt_preference_set: SetAttribute,
    pub lt_preference_destroy: Destroy,
    pub lt_suggest: unsafe extern "C" fn(
        Handle,
        Descriptor,
        Descriptor,
        Descriptor,
        Descriptor,
        Descriptor,
        Descriptor,
        c_int,
        *mut Suggestion,
        *mut c_int,
    ) -> Status,
    pub lt_matmul: unsafe extern "C" fn(
        Handle,
        Descriptor,
        *const c_void,
        u64,
        Descriptor,
        u64,
        Descriptor,
        *const c_void,
        u64,
        Descriptor,
        u64,
        Descriptor,
        *const [u64; 8],
        u64,
        usize,
        sys::CUstream,
    ) -> Status,
}

/// cuBLAS with the cuBLASLt that it uses.
pub(super) struct Libraries {
    pub calls: Calls,
    /// They stay loaded as long as their functions can be called.
    _loaded: [Library; 2],
    pub path: PathBuf,
}

/// Loaded once a process: cuBLASLt alone is half a gigabyte.
static LOADED: Loaded<Arc<Libraries>> = Loaded::new();

/// Where cuBLAS may lie; cuBLASLt is next to it.
const SEARCH: Search = Search {
    variable: "WARPBOOK_CUBLAS",
    pip: &["cu13/lib", "cublas/lib", "cu13/bin/x86_64", "cublas/bin"],
    names: if cfg!(windows) {
        &["cublas64_13.dll", "cublas64_12.dll"]
    } else {
        &["libcublas.so.13", "libcublas.so.12", "libcublas.so"]
    },
    toolkit: &["lib64", "targets/x86_64-linux/lib", "bin/x64", "bin"],
    is_named: |name| name.starts_with("libcublas.so") || (name.starts_with("cublas64_") && name.ends_with(".dll")),
};

impl Libraries {
    /// Finds and loads both: `WARPBOOK_CUBLAS`, a folder, else the places where NVRTC is looked for.
    pub fn load(driver_cuda: Option<(u32, u32)>) -> Result<Arc<Self>> {
        LOADED.or_search(
            &SEARCH,
            |folder| Self::named(folder).map(Arc::new),
            |candidates| Self::find(candidates, driver_cuda).map(Arc::new),
        )
    }

    /// Those of a folder that was named: nothing else will do.
    fn named(folder: &Path) -> Result<Self> {
        let pair = |folder: &Path| {
            let found = SEARCH.files_in(folder).into_iter().find(|cublas| lt_of(cublas).exists());
            found.ok_or_else(|| "cuBLAS and cuBLASLt are not both in this folder".into())
        };
        places::named(folder, pair, Self::open, |path, why| Error::CublasFailed { path, why })
    }

    /// The first that loads and is not of a later CUDA than the driver's.
    fn find(candidates: &[PathBuf], driver_cuda: Option<(u32, u32)>) -> Result<Self> {
        let fits =
            |l: &Self| driver_cuda.is_none_or(|(major, _)| version(l.calls.property).is_some_and(|v| v.0 <= major));
        places::first(candidates, Self::open, fits).ok_or(Error::NoCublas { package: package(driver_cuda) })
    }

    fn open(path: &Path) -> Result<Self, String> {
        // SAFETY: loading NVIDIA's library runs its initialisers, which have no preconditions. cuBLAS finds cuBLASLt by its bare
        // name, which outside the loader's path only works where that is loaded already.
        let lt = unsafe { Library::new(lt_of(path)) }.map_err(|e| e.to_string())?;
        // SAFETY: as above.
        let cublas = unsafe { Library::new(path) }.map_err(|e| e.to_string())?;
        macro_rules! call {
            ($library:ident, $name:literal) => {
                // SAFETY: the type of the field is the function's in cublas_api.h or cublasLt.h; a pointer to device memory is
                // passed as the number that it is.
                *unsafe { $library.get($name) }.map_err(|e| e.to_string())?
            };
        }
        let calls = Calls {
            status_name: call!(cublas, b"cublasGetStatusName\0"),
            status_string: call!(cublas, b"cublasGetStatusString\0"),
            property: call!(cublas, b"cublasGetProperty\0"),
            create: call!(cublas, b"cublasCreate_v2\0"),
            destroy: call!(cublas, b"cublasDestroy_v2\0"),
            set_stream: call!(cublas, b"cublasSetStream_v2\0"),
            set_workspace: call!(cublas, b"cublasSetWorkspace_v2\0"),
            set_math_mode: call!(cublas, b"cublasSetMathMode\0"),
            gemm_ex: call!(cublas, b"cublasGemmEx\0"),
            lt_property: call!(lt, b"cublasLtGetProperty\0"),
            lt_create: call!(lt, b"cublasLtCreate\0"),
            lt_destroy: call!(lt, b"cublasLtDestroy\0"),
            lt_desc_create: call!(lt, b"cublasLtMatmulDescCreate\0"),
            lt_desc_set: call!(lt, b"cublasLtMatmulDescSetAttribute\0"),
            lt_desc_destroy: call!(lt, b"cublasLtMatmulDescDestroy\0"),
            lt_layout_create: call!(lt, b"cublasLtMatrixLayoutCreate\0"),
            lt_layout_destroy: call!(lt, b"cublasLtMatrixLayoutDestroy\0"),
            lt_preference_create: call!(lt, b"cublasLtMatmulPreferenceCreate\0"),
            lt_preference_set: call!(lt, b"cublasLtMatmulPreferenceSetAttribute\0"),
            lt_preference_destroy: call!(lt, b"cublasLtMatmulPreferenceDestroy\0"),
            lt_suggest: call!(lt, b"cublasLtMatmulAlgoGetHeuristic\0"),
            lt_matmul: call!(lt, b"cublasLtMatmul\0"),
        };
        Ok(Self { calls, _loaded: [cublas, lt], path: path.to_owned() })
    }

    /// A status by name and in words.
    fn describe(&self, status: Status) -> String {
        // SAFETY: cuBLAS returns a static string, or nothing for a code that it does not know.
        let text = |get: unsafe extern "C" fn(Status) -> *const c_char| unsafe { places::text(get(status)) };
        match [self.calls.status_name, self.calls.status_string].map(text) {
            [Some(name), Some(words)] => format!("{name}, {words}"),
            _ => format!("the error {status}"),
        }
    }

    /// An error unless a call has succeeded; one that the library does not make is told apart from one that failed.
    pub fn check(&self, device: &Inner, what: &dyn Fn() -> String, status: Status) -> Result<()> {
        match status {
            0 => Ok(()),
            INVALID_VALUE | ARCH_MISMATCH | NOT_SUPPORTED => Err(Error::Unsupported {
                what: "cuBLAS".into(),
                why: format!("refuses {}: {}", what(), self.describe(status)),
            }),
            _ => {
                // It may be the error of an earlier kernel, of which cuBLAS does not say that it ended the context.
                let sticky = result::mem_get_info().is_err_and(|e| device.note(e));
                Err(Error::Cuda { what: format!("cuBLAS, asked for {},", what()), why: self.describe(status), sticky })
            }
        }
    }

    /// A handle in the device's context.
    pub fn create(&self, device: &Inner, create: CreateHandle) -> Result<Handle> {
        device.bind()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the pointer is to a live value; the context is current.
        match between_captures(|| unsafe { create(&raw mut handle) }) {
            0 => Ok(handle),
            // The library is not to blame.
            ALLOC_FAILED => {
                self.check(device, &|| "its own memory on the device".into(), ALLOC_FAILED).map(|()| handle)
            }
            status => Err(Error::CublasFailed { path: self.path.clone(), why: self.describe(status) }),
        }
    }
}

/// The package of pip whose cuBLAS fits a driver.
fn package(driver_cuda: Option<(u32, u32)>) -> &'static str {
    match driver_cuda {
        Some((12, _)) => "nvidia-cublas-cu12",
        _ => "nvidia-cublas",
    }
}

/// The cuBLASLt of a cuBLAS, by path or by bare name.
fn lt_of(cublas: &Path) -> PathBuf {
    let name = cublas.file_name().unwrap_or_default().to_string_lossy();
    cublas.with_file_name(name.replacen("cublas", "cublasLt", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_an_error_with_its_remedy() {
        let nowhere = [PathBuf::from("/nowhere/libcublas.so.13")];
        assert_eq!(lt_of(&nowhere[0]), Path::new("/nowhere/libcublasLt.so.13"));
        assert_eq!(lt_of(Path::new("libcublas.so.12")), Path::new("libcublasLt.so.12"));
        let error = |driver| Libraries::find(&nowhere, driver).err().unwrap().to_string();
        assert!(error(None).contains("`pip install nvidia-cublas`"), "{}", error(None));
        assert!(error(Some((13, 0))).contains("`pip install nvidia-cublas`"));
        assert!(error(Some((12, 4))).contains("`pip install nvidia-cublas-cu12`"));
        assert!(error(None).contains("WARPBOOK_CUBLAS"));
        let folder = tempfile::tempdir().unwrap();
        let named = || Libraries::named(folder.path()).err().unwrap().to_string();
        assert!(named().contains("not both in this folder"), "{}", named());
        let write = |name: &str| std::fs::write(folder.path().join(name), "no library").unwrap();
        ["libcublas.so.13", "libcublas.so.12"].into_iter().for_each(write);
        assert!(named().contains("not both in this folder"), "{}", named());
        write("libcublasLt.so.12");
        assert!(named().contains("cannot be used"), "{}", named());
    }

    #[test]
    fn every_function_is_in_the_library() {
        let libraries = match Libraries::load(None) {
            Ok(libraries) => libraries,
            Err(why @ Error::NoCublas { .. }) => {
                let needs = "needs cuBLAS, which is installed for a GPU";
                return crate::testing::skip("every_function_is_in_the_library", needs, why);
            }
            Err(why) => panic!("{why}"),
        };
        let [cublas, lt] = [libraries.calls.property, libraries.calls.lt_property].map(|f| version(f).unwrap());
        assert!(cublas.0 >= 12 && cublas == lt, "cuBLAS {cublas:?} on cuBLASLt {lt:?}");
        assert!(libraries.describe(NOT_SUPPORTED).starts_with("CUBLAS_STATUS_NOT_SUPPORTED"));
        assert!(libraries.describe(INVALID_VALUE).starts_with("CUBLAS_STATUS_INVALID_VALUE"));
        assert!(libraries.describe(ARCH_MISMATCH).starts_with("CUBLAS_STATUS_ARCH_MISMATCH"));
        attributes_have_the_sizes_that_it_takes(&libraries);
    }

    /// Descriptors need no device, and the library refuses an attribute of the wrong size.
    fn attributes_have_the_sizes_that_it_takes(libraries: &Libraries) {
        let calls = &libraries.calls;
        let made = |create: &dyn Fn(*mut Descriptor) -> Status| {
            let mut raw = std::ptr::null_mut();
            assert_eq!(create(&raw mut raw), 0);
            raw
        };
        // SAFETY: the pointers are to live values here and below; a descriptor is destroyed once, after its last use.
        let product = made(&|d| unsafe { (calls.lt_desc_create)(d, COMPUTE_32F_FAST_TF32, R_32F) });
        // SAFETY: as above.
        let preference = made(&|d| unsafe { (calls.lt_preference_create)(d) });
        // SAFETY: as above.
        let layout = made(&|d| unsafe { (calls.lt_layout_create)(d, R_16BF, 5, 3, 4093) });
        let takes = |set: SetAttribute, descriptor, attribute, bytes: usize| {
            let value = [0u64; 2];
            // SAFETY: as above; the value is longer than any of the sizes.
            let status = unsafe { set(descriptor, attribute, value.as_ptr().cast(), bytes) };
            assert!(status == 0 || status == INVALID_VALUE, "{status}");
            status == 0
        };
        let checked = [
            (calls.lt_desc_set, product, DESC_TRANSA, size_of::<c_int>()),
            (calls.lt_desc_set, product, DESC_TRANSB, size_of::<c_int>()),
            (calls.lt_preference_set, preference, PREF_MAX_WORKSPACE, size_of::<u64>()),
            (calls.lt_preference_set, preference, PREF_REDUCTIONS, size_of::<u32>()),
        ];
        let alignments = PREF_ALIGNMENTS.map(|a| (calls.lt_preference_set, preference, a, size_of::<u32>()));
        for (set, descriptor, attribute, bytes) in checked.into_iter().chain(alignments) {
            assert!(takes(set, descriptor, attribute, bytes), "attribute {attribute} in {bytes} bytes");
            assert!(!takes(set, descriptor, attribute, 12 - bytes), "attribute {attribute} in {} bytes", 12 - bytes);
        }
        for (destroy, descriptor) in [
            (calls.lt_desc_destroy, product),
            (calls.lt_preference_destroy, preference),
            (calls.lt_layout_destroy, layout),
        ] {
            // SAFETY: as above.
            assert_eq!(unsafe { destroy(descriptor) }, 0);
        }
    }
}
