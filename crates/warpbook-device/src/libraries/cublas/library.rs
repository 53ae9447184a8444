//! Finds the shared libraries cuBLAS and cuBLASLt, and declares their functions and constants.

use crate::Result;
use crate::cuda::capture::between_captures;
use crate::cuda::context::Inner;
use crate::libraries::library::Library;
use crate::libraries::loader::{Handle, Loadable, Loaded, SharedLibrary, Status, failed, library, text, version};
use cudarc::driver::sys;
use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};

pub(super) type LtDescriptor = *mut c_void;
pub(super) type CreateHandle = unsafe extern "C" fn(*mut Handle) -> Status;
pub(super) type Destroy = unsafe extern "C" fn(*mut c_void) -> Status;
pub(super) type SetAttribute = unsafe extern "C" fn(LtDescriptor, c_int, *const c_void, usize) -> Status;

/// Some values of `CUBLAS_STATUS_*`.
pub(super) const ALLOC_FAILED: Status = 3;
pub(super) const INVALID_VALUE: Status = 7;
pub(super) const ARCH_MISMATCH: Status = 8;
pub(super) const NOT_SUPPORTED: Status = 15;
/// The values `CUBLAS_OP_N` and `CUBLAS_OP_T`.
pub(super) const OP_N: c_int = 0;
pub(super) const OP_T: c_int = 1;
/// The values `CUDA_R_32F`, `CUDA_R_16F` and `CUDA_R_16BF`.
pub(super) const R_32F: c_int = 0;
pub(super) const R_16F: c_int = 2;
pub(super) const R_16BF: c_int = 14;
/// The values `CUBLAS_COMPUTE_32F` and `CUBLAS_COMPUTE_32F_FAST_TF32`.
pub(super) const COMPUTE_32F: c_int = 68;
pub(super) const COMPUTE_32F_FAST_TF32: c_int = 77;
/// The value `CUBLAS_GEMM_DEFAULT`, which lets the library choose the algorithm.
pub(super) const GEMM_DEFAULT: c_int = -1;
/// The flag `CUBLAS_DEFAULT_MATH`, which does not use TF32 for fp32, combined with `CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION`,
/// which adds partial sums in f32 even if C has 16 bits.
pub(super) const MATH_MODE: c_int = 16;
/// The attributes `CUBLASLT_MATMUL_DESC_TRANSA` and `_TRANSB`.
pub(super) const DESC_TRANSA: c_int = 3;
pub(super) const DESC_TRANSB: c_int = 4;
/// The attributes `CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`, `_REDUCTION_SCHEME_MASK` and, in bytes, `_MIN_ALIGNMENT_{A,B,C,D}_BYTES`.
pub(super) const PREF_MAX_WORKSPACE: c_int = 1;
pub(super) const PREF_REDUCTIONS: c_int = 3;
pub(super) const PREF_ALIGNMENTS: [c_int; 4] = [5, 6, 7, 8];
/// The value `CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE`, which keeps partial sums in f32.
pub(super) const REDUCE_IN_COMPUTE_TYPE: u32 = 2;

/// Size in bytes of cuBLAS's workspace; NVIDIA recommends half as much for Hopper.
pub(super) const WORKSPACE_BYTES: usize = 64 << 20;
/// The strictest alignment in bytes that cuBLASLt distinguishes; every buffer is aligned to it.
pub(super) const ALIGNMENT: u64 = 256;

/// Number of algorithms to request when the first one that runs will be used.
pub(super) const SUGGESTIONS: usize = 8;

/// The struct `cublasLtMatmulHeuristicResult_t`. An algorithm is eight words that only the library interprets.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct LtSuggestion {
    pub algorithm: [u64; 8],
    pub workspace_bytes: usize,
    pub state: Status,
    pub waves: f32,
    pub reserved: [c_int; 4],
}
const _: () = assert!(size_of::<LtSuggestion>() == 96);

library! {
    /// The functions of cublas_api.h that are used. Pointers to device memory are passed as numbers.
    pub(super) struct CublasCalls {
        fn status_name(Status) -> *const c_char = "cublasGetStatusName";
        fn status_string(Status) -> *const c_char = "cublasGetStatusString";
        fn property(c_int, *mut c_int) -> Status = "cublasGetProperty";
        fn create(*mut Handle) -> Status = "cublasCreate_v2";
        fn destroy(*mut c_void) -> Status = "cublasDestroy_v2";
        fn set_stream(Handle, sys::CUstream) -> Status = "cublasSetStream_v2";
        fn set_workspace(Handle, u64, usize) -> Status = "cublasSetWorkspace_v2";
        fn set_math_mode(Handle, c_int) -> Status = "cublasSetMathMode";
        fn gemm_ex(
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
        ) -> Status = "cublasGemmEx";
    }
}

library! {
    /// The functions of cublasLt.h that are used. Pointers to device memory are passed as numbers.
    pub(super) struct LtCalls {
        fn property(c_int, *mut c_int) -> Status = "cublasLtGetProperty";
        fn create(*mut Handle) -> Status = "cublasLtCreate";
        fn destroy(*mut c_void) -> Status = "cublasLtDestroy";
        fn desc_create(*mut LtDescriptor, c_int, c_int) -> Status = "cublasLtMatmulDescCreate";
        fn desc_set(LtDescriptor, c_int, *const c_void, usize) -> Status = "cublasLtMatmulDescSetAttribute";
        fn desc_destroy(*mut c_void) -> Status = "cublasLtMatmulDescDestroy";
        fn layout_create(*mut LtDescriptor, c_int, u64, u64, i64) -> Status = "cublasLtMatrixLayoutCreate";
        fn layout_destroy(*mut c_void) -> Status = "cublasLtMatrixLayoutDestroy";
        fn preference_create(*mut LtDescriptor) -> Status = "cublasLtMatmulPreferenceCreate";
        fn preference_set(LtDescriptor, c_int, *const c_void, usize) -> Status = "cublasLtMatmulPreferenceSetAttribute";
        fn preference_destroy(*mut c_void) -> Status = "cublasLtMatmulPreferenceDestroy";
        fn suggest(
            Handle,
            LtDescriptor,
            LtDescriptor,
            LtDescriptor,
            LtDescriptor,
            LtDescriptor,
            LtDescriptor,
            c_int,
            *mut LtSuggestion,
            *mut c_int,
        ) -> Status = "cublasLtMatmulAlgoGetHeuristic";
        fn matmul(
            Handle,
            LtDescriptor,
            *const c_void,
            u64,
            LtDescriptor,
            u64,
            LtDescriptor,
            *const c_void,
            u64,
            LtDescriptor,
            u64,
            LtDescriptor,
            *const [u64; 8],
            u64,
            usize,
            sys::CUstream,
        ) -> Status = "cublasLtMatmul";
    }
}

/// The loaded cuBLAS, with the cuBLASLt that belongs to it.
pub(super) struct Libraries {
    pub calls: CublasCalls,
    pub lt: LtCalls,
    pub file: SharedLibrary,
    _lt_file: SharedLibrary,
}

/// The libraries are loaded only once per process, because cuBLASLt alone is half a gigabyte.
pub(super) static LOADED: Loaded<Libraries> = Loaded::new();

impl Loadable for Libraries {
    const WHICH: Library = Library::Cublas;

    fn open(path: &Path) -> Result<Self, String> {
        // cuBLAS opens cuBLASLt by its bare name; outside the loader's search path that works only if cuBLASLt is already loaded.
        let lt_file = SharedLibrary::open(lt_of(path))?;
        let file = SharedLibrary::open(path)?;
        let (calls, lt) = (CublasCalls::load(&file.library)?, LtCalls::load(&lt_file.library)?);
        Ok(Self { calls, lt, file, _lt_file: lt_file })
    }

    /// Returns the CUDA major version that the library was built for. A library of unknown version is skipped.
    fn cuda_major(&self) -> Option<u32> {
        Some(version(self.calls.property).map_or(u32::MAX, |(major, ..)| major))
    }

    fn file_in(folder: &Path) -> Result<PathBuf, String> {
        let found = Self::WHICH.about().files_in(folder).into_iter().find(|cublas| lt_of(cublas).exists());
        found.ok_or_else(|| "cuBLAS and cuBLASLt are not both in this folder".into())
    }
}

impl Libraries {
    /// Describes a status by name and in words.
    fn describe(&self, status: Status) -> String {
        // SAFETY: cuBLAS returns a static string, or null for a code that it does not know.
        let read = |get: unsafe extern "C" fn(Status) -> *const c_char| unsafe { text(get(status)) };
        match [self.calls.status_name, self.calls.status_string].map(read) {
            [Some(name), Some(words)] => format!("{name}, {words}"),
            _ => format!("the error {status}"),
        }
    }

    /// Checks a call's status; `what` says what was asked for.
    ///
    /// # Errors
    /// If the status is not success.
    pub fn check(&self, device: &Inner, what: &dyn Fn() -> String, status: Status) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        let is_refused = matches!(status, INVALID_VALUE | ARCH_MISMATCH | NOT_SUPPORTED);
        Err(device.library_error("cuBLAS", &what(), self.describe(status), is_refused))
    }

    /// Creates a library handle in the device's context.
    ///
    /// # Errors
    /// If memory runs out, the library does not start, or the driver reports an error.
    pub fn create(&self, device: &Inner, create: CreateHandle) -> Result<Handle> {
        device.bind()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the pointer points to `handle`, which is live, and the context is current.
        match between_captures(|| unsafe { create(&raw mut handle) }) {
            0 => Ok(handle),
            // The device ran out of memory, which is not the library's fault.
            ALLOC_FAILED => {
                self.check(device, &|| "its own memory on the device".into(), ALLOC_FAILED).map(|()| handle)
            }
            status => Err(failed::<Self>(&self.file.path, self.describe(status))),
        }
    }
}

/// Returns the cuBLASLt that belongs to a cuBLAS, which is given by its path or its bare name.
fn lt_of(cublas: &Path) -> PathBuf {
    let name = cublas.file_name().unwrap_or_default().to_string_lossy();
    cublas.with_file_name(name.replacen("cublas", "cublasLt", 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libraries::loader::tests::{errors_say_what_to_do, installed};

    #[test]
    fn a_missing_library_is_an_error_with_its_remedy() {
        assert_eq!(lt_of(Path::new("/nowhere/libcublas.so.13")), Path::new("/nowhere/libcublasLt.so.13"));
        assert_eq!(lt_of(Path::new("libcublas.so.12")), Path::new("libcublasLt.so.12"));
        errors_say_what_to_do::<Libraries>(&["libcublas.so.12", "libcublasLt.so.12"]);
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| std::fs::write(folder.path().join(name), "no library").unwrap();
        ["libcublas.so.13", "libcublas.so.12"].into_iter().for_each(write);
        let file = || Libraries::file_in(folder.path());
        assert!(file().is_err_and(|why| why.contains("not both in this folder")));
        write("libcublasLt.so.12");
        assert_eq!(file(), Ok(folder.path().join("libcublas.so.12")));
    }

    #[test]
    fn every_function_is_in_the_library() {
        let Some(libraries) = installed(&LOADED, "every_function_is_in_the_library") else { return };
        let [cublas, lt] = [libraries.calls.property, libraries.lt.property].map(|f| version(f).unwrap());
        assert!(cublas.0 >= 12 && cublas == lt, "cuBLAS {cublas:?} on cuBLASLt {lt:?}");
        assert!(libraries.describe(NOT_SUPPORTED).starts_with("CUBLAS_STATUS_NOT_SUPPORTED"));
        assert!(libraries.describe(INVALID_VALUE).starts_with("CUBLAS_STATUS_INVALID_VALUE"));
        assert!(libraries.describe(ARCH_MISMATCH).starts_with("CUBLAS_STATUS_ARCH_MISMATCH"));
        attributes_have_the_sizes_that_it_takes(&libraries);
    }

    /// This test needs no device, because the library checks the size of an attribute when it is set.
    fn attributes_have_the_sizes_that_it_takes(libraries: &Libraries) {
        let calls = &libraries.lt;
        let made = |create: &dyn Fn(*mut LtDescriptor) -> Status| {
            let mut raw = std::ptr::null_mut();
            assert_eq!(create(&raw mut raw), 0);
            raw
        };
        // SAFETY: `d` points to a live pointer, which receives the descriptor.
        let product = made(&|d| unsafe { (calls.desc_create)(d, COMPUTE_32F_FAST_TF32, R_32F) });
        // SAFETY: `d` points to a live pointer, which receives the descriptor.
        let preference = made(&|d| unsafe { (calls.preference_create)(d) });
        // SAFETY: `d` points to a live pointer, which receives the descriptor.
        let layout = made(&|d| unsafe { (calls.layout_create)(d, R_16BF, 5, 3, 4093) });
        let takes = |set: SetAttribute, descriptor, attribute, bytes: usize| {
            let value = [0u64; 2];
            // SAFETY: the descriptor is live, and the value is longer than any of the requested sizes.
            let status = unsafe { set(descriptor, attribute, value.as_ptr().cast(), bytes) };
            assert!(status == 0 || status == INVALID_VALUE, "{status}");
            status == 0
        };
        let checked = [
            (calls.desc_set, product, DESC_TRANSA, size_of::<c_int>()),
            (calls.desc_set, product, DESC_TRANSB, size_of::<c_int>()),
            (calls.preference_set, preference, PREF_MAX_WORKSPACE, size_of::<u64>()),
            (calls.preference_set, preference, PREF_REDUCTIONS, size_of::<u32>()),
        ];
        let alignments = PREF_ALIGNMENTS.map(|a| (calls.preference_set, preference, a, size_of::<u32>()));
        for (set, descriptor, attribute, bytes) in checked.into_iter().chain(alignments) {
            assert!(takes(set, descriptor, attribute, bytes), "attribute {attribute} in {bytes} bytes");
            assert!(!takes(set, descriptor, attribute, 12 - bytes), "attribute {attribute} in {} bytes", 12 - bytes);
        }
        for (destroy, descriptor) in
            [(calls.desc_destroy, product), (calls.preference_destroy, preference), (calls.layout_destroy, layout)]
        {
            // SAFETY: each descriptor is destroyed once, after its last use.
            assert_eq!(unsafe { destroy(descriptor) }, 0);
        }
    }
}
