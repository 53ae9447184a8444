//! cuBLAS and cuBLASLt, loaded from wherever they are.
//!
//! As NVRTC, and for the same reasons: cudarc knows their names only up to CUDA 12, panics where there are none, and pip puts
//! them where no loader looks. Signatures and numbers are those of cublas_api.h and cublasLt.h, and the same in CUDA 12 and 13.

use crate::capture::{Queueing, between_captures, relaxed};
use crate::cuda::Inner;
use crate::memory::Allocation;
use crate::places::{site_packages, toolkits, variable};
use crate::trial::Trial;
use crate::{Buffer, CudaDevice, DevicePtr, Error, Result, Slice, Stream};
use cudarc::driver::{result, sys};
use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use warpbook_kernels::Launch;
use warpbook_record::Dtype;

type Status = c_int;
type Handle = *mut c_void;
type Descriptor = *mut c_void;
type CreateHandle = unsafe extern "C" fn(*mut Handle) -> Status;
pub(crate) type GetProperty = unsafe extern "C" fn(c_int, *mut c_int) -> Status;
type Destroy = unsafe extern "C" fn(*mut c_void) -> Status;
type SetAttribute = unsafe extern "C" fn(Descriptor, c_int, *const c_void, usize) -> Status;

/// `CUBLAS_STATUS_*`.
const ALLOC_FAILED: Status = 3;
const INVALID_VALUE: Status = 7;
const ARCH_MISMATCH: Status = 8;
const NOT_SUPPORTED: Status = 15;
/// `CUBLAS_OP_N` and `CUBLAS_OP_T`.
const OP_N: c_int = 0;
const OP_T: c_int = 1;
/// `CUDA_R_32F`, `CUDA_R_16F` and `CUDA_R_16BF`.
const R_32F: c_int = 0;
const R_16F: c_int = 2;
const R_16BF: c_int = 14;
/// `CUBLAS_COMPUTE_32F` and `CUBLAS_COMPUTE_32F_FAST_TF32`.
const COMPUTE_32F: c_int = 68;
const COMPUTE_32F_FAST_TF32: c_int = 77;
/// `CUBLAS_GEMM_DEFAULT`: the library chooses.
const GEMM_DEFAULT: c_int = -1;
/// `CUBLAS_DEFAULT_MATH`, by which fp32 is no TF32, and `CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION`, by which parts of
/// a sum are added up in f32 also where C has 16 bits.
const MATH_MODE: c_int = 16;
/// `CUBLASLT_MATMUL_DESC_TRANSA` and `_TRANSB`.
const DESC_TRANSA: c_int = 3;
const DESC_TRANSB: c_int = 4;
/// `CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`, `_REDUCTION_SCHEME_MASK` and, in bytes, `_MIN_ALIGNMENT_{A,B,C,D}_BYTES`.
const PREF_MAX_WORKSPACE: c_int = 1;
const PREF_REDUCTIONS: c_int = 3;
const PREF_ALIGNMENTS: [c_int; 4] = [5, 6, 7, 8];
/// `CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE`: parts of a sum are kept in f32.
const REDUCE_IN_COMPUTE_TYPE: u32 = 2;

/// What cuBLAS may use in addition to the matrices, in bytes; NVIDIA advises half of it for Hopper.
const WORKSPACE_BYTES: usize = 64 << 20;
/// The strictest alignment that cuBLASLt asks about, in bytes, and that of every buffer.
const ALIGNMENT: u64 = 256;

/// Algorithms that are asked for where the first that runs is taken.
const SUGGESTIONS: usize = 8;

/// `cublasLtMatmulHeuristicResult_t`; an algorithm is eight words that only the library reads.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Suggestion {
    algorithm: [u64; 8],
    workspace_bytes: usize,
    state: Status,
    waves: f32,
    reserved: [c_int; 4],
}
const _: () = assert!(size_of::<Suggestion>() == 96);

/// The calls that are used.
struct Calls {
    status_name: unsafe extern "C" fn(Status) -> *const c_char,
    status_string: unsafe extern "C" fn(Status) -> *const c_char,
    property: GetProperty,
    create: CreateHandle,
    destroy: Destroy,
    set_stream: unsafe extern "C" fn(Handle, sys::CUstream) -> Status,
    set_workspace: unsafe extern "C" fn(Handle, u64, usize) -> Status,
    set_math_mode: unsafe extern "C" fn(Handle, c_int) -> Status,
    gemm_ex: unsafe extern "C" fn(
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
    lt_property: GetProperty,
    lt_create: CreateHandle,
    lt_destroy: Destroy,
    lt_desc_create: unsafe extern "C" fn(*mut Descriptor, c_int, c_int) -> Status,
    lt_desc_set: SetAttribute,
    lt_desc_destroy: Destroy,
    lt_layout_create: unsafe extern "C" fn(*mut Descriptor, c_int, u64, u64, i64) -> Status,
    lt_layout_destroy: Destroy,
    lt_preference_create: unsafe extern "C" fn(*mut Descriptor) -> Status,
    lt_preference_set: SetAttribute,
    lt_preference_destroy: Destroy,
    lt_suggest: unsafe extern "C" fn(
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
    lt_matmul: unsafe extern "C" fn(
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
struct Libraries {
    calls: Calls,
    /// They stay loaded as long as their functions can be called.
    _loaded: [Library; 2],
    path: PathBuf,
}

/// Loaded once a process: cuBLASLt alone is half a gigabyte.
static LOADED: Mutex<Option<Arc<Libraries>>> = Mutex::new(None);

impl Libraries {
    /// Finds and loads both: `WARPBOOK_CUBLAS`, a folder, else the places where NVRTC is looked for.
    fn load(driver_cuda: Option<(u32, u32)>) -> Result<Arc<Self>> {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = &*loaded {
            return Ok(found.clone());
        }
        let found = Arc::new(match variable("WARPBOOK_CUBLAS") {
            Some(folder) => Self::named(&folder)?,
            None => Self::find(&candidates(), driver_cuda)?,
        });
        *loaded = Some(found.clone());
        Ok(found)
    }

    /// Those of a folder that was named: nothing else will do.
    fn named(folder: &Path) -> Result<Self> {
        let failed = |why| Error::CublasFailed { path: folder.to_owned(), why };
        let pairs = pairs_in(folder);
        let pair = pairs.first().ok_or_else(|| failed("cuBLAS and cuBLASLt are not both in this folder".into()))?;
        Self::open(pair).map_err(failed)
    }

    /// The first that loads and is not of a later CUDA than the driver's.
    fn find(candidates: &[Pair], driver_cuda: Option<(u32, u32)>) -> Result<Self> {
        let fits =
            |l: &Self| driver_cuda.is_none_or(|(major, _)| version(l.calls.property).is_some_and(|v| v.0 <= major));
        candidates
            .iter()
            .filter_map(|pair| Self::open(pair).ok())
            .find(fits)
            .ok_or(Error::NoCublas { package: package(driver_cuda) })
    }

    fn open(pair: &Pair) -> Result<Self, String> {
        // SAFETY: loading NVIDIA's library runs its initialisers, which have no preconditions. cuBLAS finds cuBLASLt by its bare
        // name, which outside the loader's path only works where that is loaded already.
        let lt = unsafe { Library::new(&pair.lt) }.map_err(|e| e.to_string())?;
        // SAFETY: as above.
        let cublas = unsafe { Library::new(&pair.cublas) }.map_err(|e| e.to_string())?;
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
        Ok(Self { calls, _loaded: [cublas, lt], path: pair.cublas.clone() })
    }

    /// A status by name and in words.
    fn describe(&self, status: Status) -> String {
        // SAFETY: cuBLAS returns a static string for any code.
        let text = |get: unsafe extern "C" fn(Status) -> *const c_char| unsafe { CStr::from_ptr(get(status)) };
        let [name, words] = [self.calls.status_name, self.calls.status_string].map(|f| text(f).to_string_lossy());
        format!("{name}, {words}")
    }

    /// An error unless a call has succeeded; one that the library does not make is told apart from one that failed.
    fn check(&self, device: &Inner, what: &dyn Fn() -> String, status: Status) -> Result<()> {
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
    fn create(&self, device: &Inner, create: CreateHandle) -> Result<Handle> {
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

/// `MAJOR_VERSION`, `MINOR_VERSION` and `PATCH_LEVEL`.
pub(crate) fn version(get: GetProperty) -> Option<(u32, u32, u32)> {
    let part = |which| {
        let mut value = 0;
        // SAFETY: the pointer is to a live integer.
        (unsafe { get(which, &raw mut value) } == 0).then(|| value.unsigned_abs())
    };
    Some((part(0)?, part(1)?, part(2)?))
}

/// A matrix product as the libraries take it: C = alpha op(A) op(B) + beta C, all row-major.
///
/// op(A) is `[m][k]`, op(B) `[k][n]` and C `[m][n]`. Sums are in f32. At beta 0, C is not read; at alpha 0, the libraries do
/// not read A and B.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LibraryGemm {
    /// Rows of C, at least 1.
    pub m: u32,
    /// Columns of C, at least 1.
    pub n: u32,
    /// Products summed for each element, at least 1.
    pub k: u32,
    /// Elements from one row of A, as it is stored, to the next.
    pub lda: u32,
    /// Elements from one row of B, as it is stored, to the next.
    pub ldb: u32,
    /// Elements from one row of C to the next.
    pub ldc: u32,
    /// A is stored `[k][lda]`.
    pub trans_a: bool,
    /// B is stored `[n][ldb]`.
    pub trans_b: bool,
    /// What the product is multiplied with.
    pub alpha: f32,
    /// What C is multiplied with before the product is added.
    pub beta: f32,
    /// Of A and B: `F32`, `Tf32` (stored as f32), `F16` or `Bf16`.
    pub dtype: Dtype,
    /// Of C: that of A and B, or `F32`.
    pub out: Dtype,
}

/// The same product as the column-major libraries see it: `first` is B, `second` is A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ColumnMajor {
    /// Rows and columns of what is computed, and the length of the sums.
    m: c_int,
    n: c_int,
    k: c_int,
    ops: [c_int; 2],
    lds: [c_int; 3],
    /// Rows and columns of `first`, `second` and C as they are stored.
    stored: [(u64, u64); 3],
    /// Of the elements of A and B, of those of C, and of the arithmetic.
    data: c_int,
    out: c_int,
    compute: c_int,
}

impl LibraryGemm {
    /// A row-major matrix is its transpose in column-major order, so C^T = op(B)^T op(A)^T is asked for, whose operands are B
    /// and A as they lie, transposed where ours are.
    fn column_major(&self) -> Result<ColumnMajor> {
        let Self { m, n, k, lda, ldb, ldc, trans_a, trans_b, .. } = *self;
        let refused = |why: String| Err(Error::Unsupported { what: "cuBLAS".into(), why });
        if m == 0 || n == 0 || k == 0 {
            return refused(format!("needs sizes of at least 1, and these are {m}, {n} and {k}"));
        }
        let stored = [if trans_b { (k, n) } else { (n, k) }, if trans_a { (m, k) } else { (k, m) }, (n, m)];
        for (name, ld, (row, _)) in [("B", ldb, stored[0]), ("A", lda, stored[1]), ("C", ldc, stored[2])] {
            if ld < row {
                return refused(format!(
                    "needs a leading dimension of at least {row} for {name}, whose rows are that long; it is {ld}"
                ));
            }
        }
        let Ok([m, n, k, lda, ldb, ldc]) = <[c_int; 6]>::try_from(
            [m, n, k, lda, ldb, ldc].into_iter().filter_map(|v| c_int::try_from(v).ok()).collect::<Vec<_>>(),
        ) else {
            return refused("counts in 32 bits, and a size or a leading dimension is 2^31 or more".into());
        };
        let (data, compute) = match self.dtype {
            Dtype::F32 => (R_32F, COMPUTE_32F),
            Dtype::Tf32 => (R_32F, COMPUTE_32F_FAST_TF32),
            Dtype::F16 => (R_16F, COMPUTE_32F),
            Dtype::Bf16 => (R_16BF, COMPUTE_32F),
            other => return refused(format!("is asked for fp32, tf32, fp16 and bf16 here, not for {other:?}")),
        };
        let out = match self.out {
            Dtype::F32 | Dtype::Tf32 => R_32F,
            out if out == self.dtype => data,
            other => {
                return refused(format!("writes F32 or the type of its operands, {:?}, not {other:?}", self.dtype));
            }
        };
        let op = |transposed| if transposed { OP_T } else { OP_N };
        Ok(ColumnMajor {
            m: n,
            n: m,
            k,
            ops: [op(trans_b), op(trans_a)],
            lds: [ldb, lda, ldc],
            stored: stored.map(|(rows, columns)| (rows.into(), columns.into())),
            data,
            out,
            compute,
        })
    }

    fn name(&self) -> String {
        let op = |name, transposed| format!("{name}{}", if transposed { "^T" } else { "" });
        format!(
            "the product {} {} with m = {}, n = {}, k = {}, leading dimensions {}, {} and {}, in {:?} into {:?}",
            op("A", self.trans_a),
            op("B", self.trans_b),
            self.m,
            self.n,
            self.k,
            self.lda,
            self.ldb,
            self.ldc,
            self.dtype,
            self.out
        )
    }

    /// Bytes of A, B and C as they are stored, up to the last element of their last row.
    fn bytes(&self) -> [u64; 3] {
        let of = |(rows, columns): (u32, u32), ld: u32, dtype: Dtype| {
            (u64::from(rows.saturating_sub(1)) * u64::from(ld) + u64::from(columns)) * dtype.bytes()
        };
        let a = if self.trans_a { (self.k, self.m) } else { (self.m, self.k) };
        let b = if self.trans_b { (self.n, self.k) } else { (self.k, self.n) };
        [of(a, self.lda, self.dtype), of(b, self.ldb, self.dtype), of((self.m, self.n), self.ldc, self.out)]
    }

    /// The largest power of two up to [`ALIGNMENT`] bytes that every row of A, of B and of C begins at a multiple of.
    fn alignments(&self, [a, b, c]: [DevicePtr; 3]) -> [u64; 3] {
        [(a, self.lda, self.dtype), (b, self.ldb, self.dtype), (c, self.ldc, self.out)]
            .map(|(at, ld, dtype)| alignment(at.0 | (u64::from(ld) * dtype.bytes())))
    }
}

/// The largest power of two that divides the number, up to [`ALIGNMENT`].
fn alignment(bytes: u64) -> u64 {
    1 << (bytes | ALIGNMENT).trailing_zeros()
}

/// What a stream tells of a launch whose kernel only the library knows.
pub(crate) fn launched(queueing: Queueing<'_>, name: &Arc<str>, kept: &[&Arc<Allocation>]) {
    let shape = Launch { grid: [0; 3], block: [0; 3], dynamic_shared_bytes: 0 };
    queueing.launched(name, shape, |captured| kept.iter().for_each(|m| captured.keep(Arc::clone(m) as _)));
}

/// cuBLAS on a device, with its own 64 MiB of memory, so that a product allocates nothing.
///
/// fp32 is IEEE single precision and no TF32; sums are in f32 throughout, also where C has 16 bits.
pub struct Cublas {
    libraries: Arc<Libraries>,
    device: Arc<Inner>,
    /// One call at a time: stream and product belong together.
    state: Mutex<State>,
    workspace: Buffer<u8>,
    name: Arc<str>,
}

struct State {
    handle: Handle,
    /// The stream that the handle is set to.
    stream: Option<sys::CUstream>,
}

// SAFETY: a handle may be used from any thread whose current context is its own, one at a time, which its lock sees to.
unsafe impl Send for State {}

impl std::fmt::Debug for Cublas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cublas({:?} at {})", self.version(), self.libraries.path.display())
    }
}

impl Cublas {
    /// Finds cuBLAS: `WARPBOOK_CUBLAS`, a folder with it and cuBLASLt, or else a `.venv` above the working directory,
    /// `VIRTUAL_ENV`, `CONDA_PREFIX`, the loader's own search, `CUDA_HOME`, `CUDA_PATH` and `/usr/local/cuda`, in this order,
    /// a later major version than the driver's CUDA passed over; then opens it on a device.
    ///
    /// # Errors
    /// [`Error::NoCublas`] where there is none; [`Error::CublasFailed`] where it does not load or start; too little memory.
    pub fn open(device: &CudaDevice) -> Result<Self> {
        let libraries = Libraries::load(Some(device.driver_cuda()))?;
        let workspace = device.zeros(WORKSPACE_BYTES)?;
        let handle = libraries.create(&device.0, libraries.calls.create)?;
        let state = Mutex::new(State { handle, stream: None });
        let name = Arc::from("of cuBLAS, which does not tell its shape");
        let cublas = Self { libraries, device: device.0.clone(), state, workspace, name };
        // SAFETY: the handle is live.
        let status = unsafe { (cublas.libraries.calls.set_math_mode)(handle, MATH_MODE) };
        cublas.libraries.check(&cublas.device, &|| "its mode of arithmetic".into(), status)?;
        Ok(cublas)
    }

    /// (major, minor, patch).
    #[must_use]
    pub fn version(&self) -> (u32, u32, u32) {
        version(self.libraries.calls.property).unwrap_or_default()
    }

    /// Where it was found.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.libraries.path
    }

    /// Queues a product. It allocates nothing and waits for nothing, so that it can be captured; the first product of a shape
    /// loads its kernel, so let one run before a capture.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a product that cuBLAS does not make; a launch that is refused. A failure of the kernel itself
    /// shows when the stream is waited for.
    ///
    /// # Safety
    /// A, B and C live, and are as large as the call says, until the product has ended, or a graph that has captured it; C
    /// overlaps neither of the others. The stream is of the same device. Products of one `Cublas` share its workspace, so no two of them run at the same time, and
    /// it lives as long as a graph that has captured one.
    pub unsafe fn gemm(
        &self,
        stream: &Stream,
        call: &LibraryGemm,
        a: DevicePtr,
        b: DevicePtr,
        c: DevicePtr,
    ) -> Result<()> {
        let p = call.column_major()?;
        self.device.bind()?;
        let calls = &self.libraries.calls;
        let check = |status| self.libraries.check(&self.device, &|| call.name(), status);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.stream != Some(stream.raw) {
            state.stream = None;
            // SAFETY: both handles are live.
            check(unsafe { (calls.set_stream)(state.handle, stream.raw) })?;
            // SAFETY: the memory is as large as is said and lives as long as the handle. A new stream has forgotten it.
            check(unsafe { (calls.set_workspace)(state.handle, self.workspace.address, self.workspace.bytes()) })?;
            state.stream = Some(stream.raw);
        }
        let (alpha, beta) = (&raw const call.alpha, &raw const call.beta);
        let queueing = stream.queueing()?;
        // Relaxed, since a library may load a kernel during a capture.
        // SAFETY: the handle is live, the factors are f32, as the arithmetic asks, and are read before the call returns; the
        // sizes were checked, and that the arrays have them is the caller's promise.
        check(relaxed(|| unsafe {
            (calls.gemm_ex)(
                state.handle,
                p.ops[0],
                p.ops[1],
                p.m,
                p.n,
                p.k,
                alpha.cast(),
                b.0,
                p.data,
                p.lds[0],
                a.0,
                p.data,
                p.lds[1],
                beta.cast(),
                c.0,
                p.out,
                p.lds[2],
                p.compute,
                GEMM_DEFAULT,
            )
        }))?;
        launched(queueing, &self.name, &[]);
        Ok(())
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        if self.device.may_free() {
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the handle came from `open` and is not used again; destroying it waits for its products.
            between_captures(|| unsafe { (self.libraries.calls.destroy)(state.handle) });
        }
    }
}

/// cuBLASLt on a device, which tells what algorithms it has for a product.
#[derive(Clone)]
pub struct CublasLt(Arc<LtHandle>);

struct LtHandle {
    libraries: Arc<Libraries>,
    device: Arc<Inner>,
    /// One call at a time, as cuBLAS's.
    raw: Mutex<Handle>,
    name: Arc<str>,
}

// SAFETY: as of `State`.
unsafe impl Send for LtHandle {}
// SAFETY: the handle is behind its lock.
unsafe impl Sync for LtHandle {}

impl Drop for LtHandle {
    fn drop(&mut self) {
        if self.device.may_free() {
            let raw = self.raw.get_mut().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the handle came from `open` and is not used again.
            between_captures(|| unsafe { (self.libraries.calls.lt_destroy)(*raw) });
        }
    }
}

impl std::fmt::Debug for CublasLt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CublasLt({:?} at {})", self.version(), self.0.libraries.path.display())
    }
}

/// A descriptor of cuBLASLt, destroyed with its owner.
struct Owned {
    raw: Descriptor,
    destroy: Destroy,
    /// What `destroy` is in.
    _libraries: Arc<Libraries>,
}

// SAFETY: a descriptor is plain memory of no thread, and is only read after it was made.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the descriptor was made by the library of `destroy` and is not used again.
        unsafe { (self.destroy)(self.raw) };
    }
}

impl LtHandle {
    fn own(
        &self,
        what: &dyn Fn() -> String,
        destroy: Destroy,
        create: impl FnOnce(*mut Descriptor) -> Status,
    ) -> Result<Owned> {
        let mut raw = std::ptr::null_mut();
        self.libraries.check(&self.device, what, create(&raw mut raw))?;
        Ok(Owned { raw, destroy, _libraries: self.libraries.clone() })
    }

    /// Sets an attribute whose type is `T` in cublasLt.h.
    fn set<T: Copy>(
        &self,
        what: &dyn Fn() -> String,
        set: SetAttribute,
        owned: &Owned,
        attribute: c_int,
        value: T,
    ) -> Result<()> {
        // SAFETY: the descriptor is live and of the kind that `set` takes; the value is copied.
        let status = unsafe { set(owned.raw, attribute, (&raw const value).cast(), size_of::<T>()) };
        self.libraries.check(&self.device, what, status)
    }
}

impl CublasLt {
    /// Finds cuBLASLt where [`Cublas::open`] finds cuBLAS, and opens it on a device.
    ///
    /// # Errors
    /// As of [`Cublas::open`].
    pub fn open(device: &CudaDevice) -> Result<Self> {
        let libraries = Libraries::load(Some(device.driver_cuda()))?;
        let raw = libraries.create(&device.0, libraries.calls.lt_create)?;
        let name = Arc::from("of cuBLASLt, which does not tell its shape");
        Ok(Self(Arc::new(LtHandle { libraries, device: device.0.clone(), raw: Mutex::new(raw), name })))
    }

    /// (major, minor, patch).
    #[must_use]
    pub fn version(&self) -> (u32, u32, u32) {
        version(self.0.libraries.calls.lt_property).unwrap_or_default()
    }

    /// The algorithms that it suggests for a product of arrays that begin at multiples of 256 bytes, as buffers do: at most
    /// `requested`, none of which needs more than `workspace_bytes`, the one that it holds to be the fastest first.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a product that it has no algorithm for.
    pub fn plans(&self, call: &LibraryGemm, requested: usize, workspace_bytes: u64) -> Result<Vec<LtPlan>> {
        self.plans_at(call, [DevicePtr::NULL; 3], requested, workspace_bytes)
    }

    /// As [`CublasLt::plans`], for a product of arrays that are aligned as these addresses of A, B and C.
    ///
    /// # Errors
    /// As of [`CublasLt::plans`].
    pub fn plans_at(
        &self,
        call: &LibraryGemm,
        arrays: [DevicePtr; 3],
        requested: usize,
        workspace_bytes: u64,
    ) -> Result<Vec<LtPlan>> {
        let lt = &self.0;
        let p = call.column_major()?;
        let what = || call.name();
        lt.device.bind()?;
        let calls = &lt.libraries.calls;
        // SAFETY: the pointer that `own` gives is to a live value, here and below.
        let product =
            lt.own(&what, calls.lt_desc_destroy, |d| unsafe { (calls.lt_desc_create)(d, p.compute, R_32F) })?;
        lt.set(&what, calls.lt_desc_set, &product, DESC_TRANSA, p.ops[0])?;
        lt.set(&what, calls.lt_desc_set, &product, DESC_TRANSB, p.ops[1])?;
        let layout = |which: usize| {
            let ((rows, columns), ld) = (p.stored[which], i64::from(p.lds[which]));
            let elements = if which == 2 { p.out } else { p.data };
            // SAFETY: as above.
            lt.own(&what, calls.lt_layout_destroy, |d| unsafe {
                (calls.lt_layout_create)(d, elements, rows, columns, ld)
            })
        };
        let layouts = [layout(0)?, layout(1)?, layout(2)?];
        // SAFETY: as above.
        let preference = lt.own(&what, calls.lt_preference_destroy, |d| unsafe { (calls.lt_preference_create)(d) })?;
        let alignments = call.alignments(arrays);
        let [a, b, c] = alignments.map(|bytes| bytes as u32);
        for (attribute, bytes) in PREF_ALIGNMENTS.into_iter().zip([b, a, c, c]) {
            lt.set(&what, calls.lt_preference_set, &preference, attribute, bytes)?;
        }
        lt.set(&what, calls.lt_preference_set, &preference, PREF_MAX_WORKSPACE, workspace_bytes)?;
        if call.dtype.bytes() == 2 {
            lt.set(&what, calls.lt_preference_set, &preference, PREF_REDUCTIONS, REDUCE_IN_COMPUTE_TYPE)?;
        }
        let mut suggestions = vec![Suggestion::default(); requested.clamp(1, 1024)];
        let mut count = 0;
        let handle = lt.raw.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: handle and descriptors are live; there is room for as many suggestions as are asked for.
        let status = unsafe {
            (calls.lt_suggest)(
                *handle,
                product.raw,
                layouts[0].raw,
                layouts[1].raw,
                layouts[2].raw,
                layouts[2].raw,
                preference.raw,
                suggestions.len() as c_int,
                suggestions.as_mut_ptr(),
                &raw mut count,
            )
        };
        drop(handle);
        lt.libraries.check(&lt.device, &what, status)?;
        suggestions.truncate(usize::try_from(count).unwrap_or(0));
        let problem = Arc::new(LtProblem { lt: lt.clone(), call: *call, product, layouts, alignments });
        let plans: Vec<LtPlan> = suggestions
            .iter()
            .filter(|s| s.state == 0 && s.workspace_bytes as u64 <= workspace_bytes)
            .map(|s| LtPlan {
                problem: problem.clone(),
                algorithm: s.algorithm,
                workspace_bytes: s.workspace_bytes,
                waves: s.waves,
            })
            .collect();
        if plans.is_empty() {
            return Err(Error::Unsupported {
                what: "cuBLASLt".into(),
                why: format!("has no algorithm for {}", call.name()),
            });
        }
        Ok(plans)
    }
}

impl CublasLt {
    /// (major, minor, patch) of the library that [`CublasLt::open`] would find.
    ///
    /// # Errors
    /// [`Error::NoCublas`] or [`Error::CublasFailed`].
    pub fn find(device: &CudaDevice) -> Result<(u32, u32, u32)> {
        let libraries = Libraries::load(Some(device.driver_cuda()))?;
        Ok(version(libraries.calls.lt_property).unwrap_or_default())
    }

    /// The first of the suggested algorithms that runs, of arrays that begin at multiples of `alignment` bytes. It has been run
    /// once, on arrays of its own where there is room for them, so a capture loads nothing.
    ///
    /// # Errors
    /// As of [`CublasLt::plans`].
    pub fn first_plan(&self, call: &LibraryGemm, alignment: u64, workspace_bytes: u64) -> Result<LtPlan> {
        let [a, b, c] = call.bytes().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let at = DevicePtr(alignment.clamp(1, ALIGNMENT));
        let mut refused = None;
        for plan in self.plans_at(call, [at; 3], SUGGESTIONS, workspace_bytes)? {
            let arrays = Trial::new(&self.0.device, [a, b, c, plan.workspace_bytes]);
            let Some((_trial, [a, b, c, workspace])) = arrays else { return Ok(plan) };
            let stream = Stream::new(&CudaDevice(self.0.device.clone()))?;
            let workspace = (workspace, plan.workspace_bytes);
            // SAFETY: the arrays are as large as the call says, and live until the wait is over.
            let ran = unsafe { plan.queue(&stream, [a, b, c].map(DevicePtr), workspace, &[]) };
            match ran.and_then(|()| stream.synchronize()) {
                Ok(()) => return Ok(plan),
                Err(why) if why.is_sticky() => return Err(why),
                Err(why) => refused = Some(why),
            }
        }
        Err(refused.unwrap_or_else(|| Error::Unsupported {
            what: "cuBLASLt".into(),
            why: format!("has no algorithm for {}", call.name()),
        }))
    }
}

/// What the algorithms for one product share.
struct LtProblem {
    lt: Arc<LtHandle>,
    call: LibraryGemm,
    product: Owned,
    layouts: [Owned; 3],
    alignments: [u64; 3],
}

/// One algorithm of cuBLASLt for one product.
pub struct LtPlan {
    problem: Arc<LtProblem>,
    algorithm: [u64; 8],
    workspace_bytes: usize,
    waves: f32,
}

impl std::fmt::Debug for LtPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LtPlan({}, workspace of {} bytes)", self.problem.call.name(), self.workspace_bytes)
    }
}

impl LtPlan {
    /// The workspace that it needs, in bytes.
    #[must_use]
    pub fn workspace_bytes(&self) -> usize {
        self.workspace_bytes
    }

    /// How many times over its blocks fill the device, by the library's estimate.
    #[must_use]
    pub fn waves(&self) -> f32 {
        self.waves
    }

    /// Queues the product. It allocates nothing and waits for nothing, so that it can be captured; the first launch loads the
    /// kernel, so let one run before a capture.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a workspace that is too small, for arrays that are less aligned than those it was made for, and
    /// for an algorithm that the device refuses after all. A failure of the kernel itself shows when the stream is waited for.
    ///
    /// # Safety
    /// A, B and C live, and are as large as the call says, until the product has ended, or a graph that has captured it; C
    /// overlaps neither of the others. So does the workspace, which nothing else uses at the same time. The stream is of the
    /// same device.
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        a: DevicePtr,
        b: DevicePtr,
        c: DevicePtr,
        workspace: &Slice<u8>,
    ) -> Result<()> {
        // SAFETY: the caller's.
        unsafe { self.queue(stream, [a, b, c], (workspace.address, workspace.bytes()), &[]) }
    }

    /// Queues the product of slices, as [`LtPlan::launch`] does. A graph that captures it owns them.
    ///
    /// # Errors
    /// As of [`LtPlan::launch`]; a slice is too short or of another device, or C overlaps another.
    pub fn launch_checked(&self, stream: &Stream, [a, b, c]: [&Slice<u8>; 3], workspace: &Slice<u8>) -> Result<()> {
        let refused = |why: String| Err(Error::Unsupported { what: "A product of cuBLASLt".into(), why });
        for (name, slice, needed) in
            ["A", "B", "C"].into_iter().zip([a, b, c]).zip(self.problem.call.bytes()).map(|((n, s), b)| (n, s, b))
        {
            if (slice.bytes() as u64) < needed {
                return refused(format!("needs {needed} bytes of {name}, and is given {}", slice.bytes()));
            }
        }
        let all = [a, b, c, workspace];
        if all.iter().any(|s| !Arc::ptr_eq(&s.memory().device, &stream.device)) {
            return refused("needs arrays of the stream's device".into());
        }
        if [a, b, workspace].iter().any(|s| s.overlaps(c)) {
            return refused("needs a C that overlaps no other array".into());
        }
        let kept = all.map(Slice::memory);
        let pointers = [a, b, c].map(|s| s.at(0));
        // SAFETY: the lengths were checked, and nothing else uses the workspace by the caller's order of launches; freeing memory waits
        // for kernels in flight, and graphs keep it.
        unsafe { self.queue(stream, pointers, (workspace.address, workspace.bytes()), &kept) }
    }

    /// # Safety
    /// As of [`LtPlan::launch`].
    unsafe fn queue(
        &self,
        stream: &Stream,
        [a, b, c]: [DevicePtr; 3],
        (workspace, workspace_bytes): (u64, usize),
        kept: &[&Arc<Allocation>],
    ) -> Result<()> {
        let LtProblem { lt, call, product, layouts, alignments } = &*self.problem;
        let refused = |why: String| Err(Error::Unsupported { what: "This algorithm of cuBLASLt".into(), why });
        if workspace_bytes < self.workspace_bytes {
            let (needed, there) = (self.workspace_bytes, workspace_bytes);
            return refused(format!("needs a workspace of {needed} bytes, and is given {there}"));
        }
        for (name, at, needed) in [("A", a, alignments[0]), ("B", b, alignments[1]), ("C", c, alignments[2])] {
            if !at.is_aligned(needed) {
                return refused(format!(
                    "was chosen for an {name} at a multiple of {needed} bytes; ask for plans with the address itself"
                ));
            }
        }
        lt.device.bind()?;
        let (alpha, beta) = (&raw const call.alpha, &raw const call.beta);
        let queueing = stream.queueing()?;
        let handle = lt.raw.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: handle, descriptors and algorithm are live and belong together; the factors are f32 and are read before the
        // call returns; the workspace was checked, and that the arrays are as described is the caller's promise.
        let status = relaxed(|| unsafe {
            (lt.libraries.calls.lt_matmul)(
                *handle,
                product.raw,
                alpha.cast(),
                b.0,
                layouts[0].raw,
                a.0,
                layouts[1].raw,
                beta.cast(),
                c.0,
                layouts[2].raw,
                c.0,
                layouts[2].raw,
                &raw const self.algorithm,
                workspace,
                workspace_bytes,
                stream.raw,
            )
        });
        drop(handle);
        lt.libraries.check(&lt.device, &|| call.name(), status)?;
        launched(queueing, &lt.name, kept);
        Ok(())
    }
}

/// The package of pip whose cuBLAS fits a driver.
fn package(driver_cuda: Option<(u32, u32)>) -> &'static str {
    match driver_cuda {
        Some((12, _)) => "nvidia-cublas-cu12",
        _ => "nvidia-cublas",
    }
}

/// cuBLASLt and the cuBLAS that needs it, by path or by bare name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pair {
    lt: PathBuf,
    cublas: PathBuf,
}

impl Pair {
    fn new(cublas: PathBuf) -> Option<Self> {
        let name = cublas.file_name()?.to_str()?;
        let lt = cublas.with_file_name(name.replacen("cublas", "cublasLt", 1));
        Some(Self { lt, cublas })
    }
}

/// What to try, in the order in which NVRTC is looked for.
fn candidates() -> Vec<Pair> {
    let mut found: Vec<Pair> = Vec::new();
    for site in site_packages() {
        for folder in ["cu13/lib", "cublas/lib", "cu13/bin/x86_64", "cublas/bin"] {
            found.extend(pairs_in(&site.join("nvidia").join(folder)));
        }
    }
    let names: &[&str] = if cfg!(windows) {
        &["cublas64_13.dll", "cublas64_12.dll"]
    } else {
        &["libcublas.so.13", "libcublas.so.12", "libcublas.so"]
    };
    found.extend(names.iter().filter_map(|n| Pair::new(n.into())));
    for toolkit in toolkits() {
        for folder in ["lib64", "targets/x86_64-linux/lib", "bin/x64", "bin"] {
            found.extend(pairs_in(&toolkit.join(folder)));
        }
    }
    found
}

/// The libraries of a folder that has both, the newest first.
fn pairs_in(folder: &Path) -> Vec<Pair> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let wanted =
        |name: &str| name.starts_with("libcublas.so") || (name.starts_with("cublas64_") && name.ends_with(".dll"));
    let mut found: Vec<PathBuf> =
        entries.flatten().filter(|e| wanted(&e.file_name().to_string_lossy())).map(|e| e.path()).collect();
    found.sort();
    found.reverse();
    found.into_iter().filter_map(Pair::new).filter(|p| p.lt.exists()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(trans_a: bool, trans_b: bool) -> LibraryGemm {
        let (m, n, k) = (3, 5, 4);
        let (lda, ldb) = (if trans_a { m } else { k } + 2, if trans_b { k } else { n } + 1);
        LibraryGemm {
            m,
            n,
            k,
            lda,
            ldb,
            ldc: n + 3,
            trans_a,
            trans_b,
            alpha: 2.0,
            beta: 0.5,
            dtype: Dtype::F32,
            out: Dtype::F32,
        }
    }

    /// What BLAS does with the arguments of gemm, in its column-major order.
    fn column_major_gemm(p: &ColumnMajor, alpha: f32, first: &[f32], second: &[f32], beta: f32, c: &mut [f32]) {
        let [ld_first, ld_second, ld_c] = p.lds.map(|ld| ld as usize);
        let at = |x: &[f32], op, ld, i, j| if op == OP_T { x[i * ld + j] } else { x[j * ld + i] };
        for i in 0..p.m as usize {
            for j in 0..p.n as usize {
                let sum: f32 = (0..p.k as usize)
                    .map(|q| at(first, p.ops[0], ld_first, i, q) * at(second, p.ops[1], ld_second, q, j))
                    .sum();
                let c = &mut c[j * ld_c + i];
                *c = alpha * sum + beta * *c;
            }
        }
    }

    #[test]
    fn a_row_major_product_is_a_column_major_one_of_swapped_operands() {
        let values = |n: u32| (0..n).map(|i| (i % 11) as f32 - 5.0).collect::<Vec<f32>>();
        for (trans_a, trans_b) in [(false, false), (false, true), (true, false), (true, true)] {
            let call = call(trans_a, trans_b);
            let p = call.column_major().unwrap();
            let (a, b) = (values(call.lda * 4), values(call.ldb * 5));
            let before = values(call.ldc * call.m);
            let mut got = before.clone();
            column_major_gemm(&p, call.alpha, &b, &a, call.beta, &mut got);
            let (lda, ldb, ldc) = (call.lda as usize, call.ldb as usize, call.ldc as usize);
            for i in 0..3 {
                for j in 0..ldc {
                    let a = |q: usize| if trans_a { a[q * lda + i] } else { a[i * lda + q] };
                    let b = |q: usize| if trans_b { b[j * ldb + q] } else { b[q * ldb + j] };
                    let old = before[i * ldc + j];
                    let want = if j < 5 { 2.0 * (0..4).map(|q| a(q) * b(q)).sum::<f32>() + 0.5 * old } else { old };
                    assert_eq!(got[i * ldc + j], want, "{trans_a} {trans_b}: C[{i}][{j}]");
                }
            }
            // As stored, in column-major order: the rows are what runs along the leading dimension.
            for ((rows, _), ld) in p.stored.iter().zip(p.lds) {
                assert!(*rows <= ld.unsigned_abs().into());
            }
            let after_op = |(rows, columns), op| if op == OP_T { (columns, rows) } else { (rows, columns) };
            assert_eq!(after_op(p.stored[0], p.ops[0]), (5, 4));
            assert_eq!(after_op(p.stored[1], p.ops[1]), (4, 3));
            assert_eq!(p.stored[2], (5, 3));
        }
    }

    #[test]
    fn types_are_as_the_headers_number_them() {
        let types = |dtype| {
            let p = LibraryGemm { dtype, out: dtype, ..call(false, false) }.column_major().unwrap();
            assert_eq!(p.out, p.data);
            (p.data, p.compute)
        };
        assert_eq!(types(Dtype::F32), (0, 68));
        assert_eq!(types(Dtype::Tf32), (0, 77));
        assert_eq!(types(Dtype::F16), (2, 68));
        assert_eq!(types(Dtype::Bf16), (14, 68));
        let wide = LibraryGemm { dtype: Dtype::F16, ..call(false, false) }.column_major().unwrap();
        assert_eq!((wide.data, wide.out), (2, 0), "fp16 operands, f32 sums");
        // A is stored [4][5], B [4][6] and C [3][8], with gaps at the ends of their rows.
        let bytes = LibraryGemm { dtype: Dtype::F16, ..call(true, false) }.bytes();
        assert_eq!(bytes, [2 * (3 * 5 + 3), 2 * (3 * 6 + 5), 4 * (2 * 8 + 5)]);
    }

    #[test]
    fn products_that_make_no_sense_are_refused_in_words() {
        let check = |call: LibraryGemm, expect: &str| {
            let error = call.column_major().unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }) && error.to_string().contains(expect), "{error}");
        };
        let fine = call(true, false);
        check(LibraryGemm { k: 0, ..fine }, "these are 3, 5 and 0");
        check(LibraryGemm { lda: 2, ..fine }, "at least 3 for A");
        check(LibraryGemm { ldb: 4, ..fine }, "at least 5 for B");
        check(LibraryGemm { ldc: 4, ..fine }, "at least 5 for C");
        check(LibraryGemm { ldc: 1 << 31, ..fine }, "32 bits");
        check(LibraryGemm { dtype: Dtype::F64, ..fine }, "not for F64");
        check(LibraryGemm { out: Dtype::Bf16, ..fine }, "writes F32 or the type of its operands, F32, not Bf16");
    }

    #[test]
    fn alignment_is_that_of_the_address_and_of_every_row() {
        assert_eq!([0, 1, 2, 24, 4096, 4096 + 64].map(alignment), [256, 1, 2, 8, 256, 64]);
        let f16 = Dtype::F16;
        let call = LibraryGemm { lda: 4093, ldb: 4096, ldc: 24, dtype: f16, out: f16, ..call(false, false) };
        assert_eq!(call.alignments([DevicePtr::NULL; 3]), [2, 256, 16]);
        assert_eq!(call.alignments([DevicePtr(512), DevicePtr(512 + 8), DevicePtr(512 + 2)]), [2, 8, 2]);
    }

    #[test]
    fn a_missing_library_is_an_error_with_its_remedy() {
        let nowhere = Pair::new("/nowhere/libcublas.so.13".into()).unwrap();
        assert_eq!(nowhere.lt, Path::new("/nowhere/libcublasLt.so.13"));
        let error = |driver| Libraries::find(std::slice::from_ref(&nowhere), driver).err().unwrap().to_string();
        assert!(error(None).contains("`pip install nvidia-cublas`"), "{}", error(None));
        assert!(error(Some((13, 0))).contains("`pip install nvidia-cublas`"));
        assert!(error(Some((12, 4))).contains("`pip install nvidia-cublas-cu12`"));
        assert!(error(None).contains("WARPBOOK_CUBLAS"));
        let folder = tempfile::tempdir().unwrap();
        let named = || Libraries::named(folder.path()).err().unwrap().to_string();
        assert!(named().contains("not both in this folder"), "{}", named());
        for name in ["libcublas.so.13", "libcublasLt.so.13", "libcublas.so.12"] {
            std::fs::write(folder.path().join(name), "no library").unwrap();
        }
        assert_eq!(pairs_in(folder.path()).len(), 1, "cuBLAS without cuBLASLt is no pair");
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

    #[test]
    fn handles_and_plans_may_change_threads() {
        fn check<T: Send + Sync + 'static>() {}
        check::<Cublas>();
        check::<CublasLt>();
        check::<LtPlan>();
    }
}
