//! cuDNN, opened on a device.

use super::library::{Cudnn9, LOADED};
use crate::cuda::capture::between_captures;
use crate::cuda::context::Inner;
use crate::libraries::loader::{Handle, failed, version};
use crate::{CudaDevice, Result};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// cuDNN on a device.
#[derive(Clone)]
pub struct Cudnn(pub(super) Arc<Opened>);

pub(super) struct Opened {
    pub library: Arc<Cudnn9>,
    pub device: Arc<Inner>,
    /// The handle is locked for each call, because setting its stream and queueing the convolution must not be interrupted.
    pub raw: Mutex<Handle>,
    pub name: Arc<str>,
}

// SAFETY: the handle may be used from any thread on which its context is current, but only by one thread at a time, which the lock ensures.
unsafe impl Send for Opened {}
// SAFETY: the lock around the handle prevents concurrent calls.
unsafe impl Sync for Opened {}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.device.may_free() {
            let raw = self.raw.get_mut().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the handle came from `open` and is not used again.
            between_captures(|| unsafe { (self.library.calls.destroy)(*raw) });
        }
    }
}

impl std::fmt::Debug for Cudnn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cudnn({:?} at {})", self.version(), self.0.library.file.path.display())
    }
}

impl Cudnn {
    /// Finds cuDNN 9 and opens it on a device. If `WARPBOOK_CUDNN` is set, it must name cuDNN's folder. Otherwise these are
    /// searched in order: a `.venv` above the working directory, `VIRTUAL_ENV`, `CONDA_PREFIX`, the loader's own search path,
    /// `CUDA_HOME`, `CUDA_PATH` and `/usr/local/cuda`. Libraries for a later major version than the driver's CUDA are skipped.
    ///
    /// # Errors
    /// [`Error::Library`](crate::Error::Library) if the library was not found, or does not load or start.
    pub fn open(device: &CudaDevice) -> Result<Self> {
        device.0.bind_for("Calls of cuDNN")?;
        let library = LOADED.load(Some(device.driver_cuda()))?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is live and receives the handle, and the context is current.
        let status = between_captures(|| unsafe { (library.calls.create)(&raw mut raw) });
        if status != 0 {
            return Err(failed::<Cudnn9>(&library.file.path, library.describe(status)));
        }
        let name = Arc::from("of cuDNN, which does not tell its shape");
        Ok(Self(Arc::new(Opened { library, device: device.0.clone(), raw: Mutex::new(raw), name })))
    }

    /// Returns the version (major, minor, patch) of the library that [`Cudnn::open`] would find.
    ///
    /// # Errors
    /// [`Error::Library`](crate::Error::Library) if the library was not found.
    pub fn find(device: &CudaDevice) -> Result<(u32, u32, u32)> {
        let library = LOADED.load(Some(device.driver_cuda()))?;
        Ok(version(library.calls.property).unwrap_or_default())
    }

    /// Returns the version of the library: (major, minor, patch).
    #[must_use]
    pub fn version(&self) -> (u32, u32, u32) {
        version(self.0.library.calls.property).unwrap_or_default()
    }

    /// Returns the path of the library.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.library.file.path
    }
}
