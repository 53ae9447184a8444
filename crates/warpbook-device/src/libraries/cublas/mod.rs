//! cuBLAS and cuBLASLt, loaded from wherever they are installed.
//!
//! Signatures and constants are from cublas_api.h and cublasLt.h, and are the same in CUDA 12 and 13.

mod library;
pub(crate) mod lt;
pub(crate) mod product;

use crate::cuda::capture::between_captures;
use crate::cuda::context::Inner;
use crate::cuda::context::relaxed;
use crate::libraries::loader::{Handle, version};
use crate::{Buffer, CudaDevice, DevicePtr, LibraryGemm, Result, Stream};
use cudarc::driver::sys;
use library::{GEMM_DEFAULT, LOADED, Libraries, MATH_MODE, WORKSPACE_BYTES};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// cuBLAS on a device, with a 64 MiB workspace of its own, so that products do not allocate memory.
///
/// fp32 means IEEE single precision without TF32. Sums are always in f32, even if C has 16 bits.
pub struct Cublas {
    libraries: Arc<Libraries>,
    device: Arc<Inner>,
    /// The handle is locked for each call, because setting its stream and queueing the product must not be interrupted.
    state: Mutex<HandleState>,
    workspace: Buffer<u8>,
    name: Arc<str>,
}

struct HandleState {
    handle: Handle,
    /// The stream that is currently set in the handle.
    stream: Option<sys::CUstream>,
}

// SAFETY: the handle may be used from any thread on which its context is current, but only by one thread at a time, which the lock ensures.
unsafe impl Send for HandleState {}

impl std::fmt::Debug for Cublas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cublas({:?} at {})", self.version(), self.libraries.file.path.display())
    }
}

impl Cublas {
    /// Finds cuBLAS and opens it on a device. If `WARPBOOK_CUBLAS` is set, it must name a folder with cuBLAS and cuBLASLt. Otherwise these are
    /// searched in order: a `.venv` above the working directory, `VIRTUAL_ENV`, `CONDA_PREFIX`, the loader's own search path, `CUDA_HOME`,
    /// `CUDA_PATH` and `/usr/local/cuda`. Libraries of a later major version than the driver's CUDA are skipped.
    ///
    /// # Errors
    /// [`Error::Library`](crate::Error::Library) if the library was not found, or does not load or start. Also returns an error if there is too
    /// little memory.
    pub fn open(device: &CudaDevice) -> Result<Self> {
        device.0.bind_for("Calls of cuBLAS")?;
        let libraries = LOADED.load(Some(device.driver_cuda()))?;
        let workspace = device.zeros(WORKSPACE_BYTES)?;
        let handle = libraries.create(&device.0, libraries.calls.create)?;
        let state = Mutex::new(HandleState { handle, stream: None });
        let name = Arc::from("of cuBLAS, which does not tell its shape");
        let cublas = Self { libraries, device: device.0.clone(), state, workspace, name };
        // SAFETY: the handle was created above and is live.
        let status = unsafe { (cublas.libraries.calls.set_math_mode)(handle, MATH_MODE) };
        cublas.libraries.check(&cublas.device, &|| "its mode of arithmetic".into(), status)?;
        Ok(cublas)
    }

    /// Returns the version of the library: (major, minor, patch).
    #[must_use]
    pub fn version(&self) -> (u32, u32, u32) {
        version(self.libraries.calls.property).unwrap_or_default()
    }

    /// Returns the path of the library.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.libraries.file.path
    }

    /// Queues a product. It neither allocates nor waits, so it can be captured. The first product of a shape loads its kernel, so run the product
    /// once before a capture.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if cuBLAS does not support the product; also returns an error if the launch is refused. If
    /// the kernel itself fails, the error appears when the stream is waited for.
    ///
    /// # Safety
    /// A, B and C must stay allocated, and be as large as the call says, until the product has ended and every graph that captured it is gone. C
    /// must not overlap A or B. The stream must be on the same device. All products of one `Cublas` share its workspace, so no two of them may run
    /// at the same time, and the `Cublas` must outlive every graph that has captured a product.
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
            // SAFETY: the handles of cuBLAS and of the stream are live.
            check(unsafe { (calls.set_stream)(state.handle, stream.raw) })?;
            // SAFETY: the workspace has the stated size and lives as long as the handle. It is set here again, because the handle forgets it when its stream
            // changes.
            check(unsafe { (calls.set_workspace)(state.handle, self.workspace.address, self.workspace.bytes()) })?;
            state.stream = Some(stream.raw);
        }
        let (alpha, beta) = (&raw const call.alpha, &raw const call.beta);
        let queueing = stream.queueing()?;
        // The thread's capture mode is relaxed, because the library may load a kernel during a capture.
        // SAFETY: the handle is live. The factors are f32, as this type of computation requires, and are read before the call returns. The sizes were checked,
        // and the caller guarantees that the arrays have these sizes.
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
        queueing.launched_by_library(&self.name, &[]);
        Ok(())
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        if self.device.may_free() {
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the handle came from `open` and is not used again; destroying it waits for the products that it has queued.
            between_captures(|| unsafe { (self.libraries.calls.destroy)(state.handle) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CublasLt, LtPlan};

    #[test]
    fn handles_and_plans_may_change_threads() {
        fn check<T: Send + Sync + 'static>() {}
        check::<Cublas>();
        check::<CublasLt>();
        check::<LtPlan>();
    }
}
