//! Records a GPU's activity: kernels, copies and fills with their actual times, even inside graphs.
//!
//! The data comes from CUPTI's activity records, which the driver's profiling interface produces if the library is installed.

use super::activity::Recorded;
use super::library::LOADED;
use super::session::{self, Session};
use crate::cuda::module::Modules;
use crate::{CudaDevice, Result};
use std::path::{Path, PathBuf};

/// Records the activity of this process's GPUs until it is finished or dropped. A process can have only one recorder at a time.
///
/// Times are in nanoseconds on CUPTI's clock, and count from the start of the recorder. During the recording, each launch costs the host more time, and the
/// gaps between kernels in a graph are longer, so compare the results with a time measured without a recorder. CUPTI stays attached to the process afterwards:
/// a launch then costs the host 4.9 us instead of 3.9 us, measured on a machine with an NVIDIA H200. Once a recorder has been started, the code of dropped
/// kernels stays loaded until the context ends; otherwise CUPTI might report their names for other kernels.
#[derive(Debug)]
pub struct Recorder {
    session: Session,
}

impl Recorder {
    /// Begins to record. If `WARPBOOK_CUPTI` is set, it must name the library's folder. Otherwise these are searched in order: a `.venv` above the working
    /// directory, `VIRTUAL_ENV`, `CONDA_PREFIX`, the loader's own search path, `CUDA_HOME`, `CUDA_PATH` and `/usr/local/cuda`.
    ///
    /// Capture graphs only after this call, so that CUPTI sees all of their nodes.
    ///
    /// # Errors
    /// [`crate::Error::Library`] if the library was not found or does not load, and [`crate::Error::NotRecorded`] if there is another recorder or profiler, or
    /// the driver refuses.
    pub fn start(device: &CudaDevice) -> Result<Self> {
        Self::begin(device, false)
    }

    /// Like [`Recorder::start`], but also records the host's driver calls, each with the id most recently passed to [`Recorder::enter`]. Each call then costs
    /// the host a few microseconds more.
    ///
    /// # Errors
    /// The errors of [`Recorder::start`].
    pub fn with_calls(device: &CudaDevice) -> Result<Self> {
        Self::begin(device, true)
    }

    fn begin(device: &CudaDevice, calls: bool) -> Result<Self> {
        device.0.bind_for("Recordings of activity")?;
        let library = LOADED.load(Some(device.driver_cuda()))?;
        let session = Session::start(library, calls)?;
        device.0.extension::<Modules>().keep();
        Ok(Self { session })
    }

    /// Returns the nanoseconds since the start of the recorder, on the same clock as the activities.
    ///
    /// # Errors
    /// [`crate::Error::NotRecorded`] if CUPTI fails.
    pub fn now_ns(&self) -> Result<u64> {
        self.session.now_ns()
    }

    /// Associates driver calls of this thread with `id` until [`Recorder::leave`]; see [`Recorded::ranges`]. Ranges may be nested.
    ///
    /// # Errors
    /// [`crate::Error::NotRecorded`] if CUPTI fails.
    pub fn enter(&self, id: u64) -> Result<()> {
        self.session.push(id)
    }

    /// Ends the range that this thread entered last. Any ranges that are still open when the recorder ends are closed automatically.
    pub fn leave(&self) {
        self.session.pop();
    }

    /// Returns true if CUPTI is attached to this process, because of this recorder or an earlier one. Each launch then costs the host a little more time.
    #[must_use]
    pub fn is_attached() -> bool {
        session::is_registered()
    }

    /// Returns the version and path of the library that [`Recorder::start`] would find with a driver for this CUDA version.
    ///
    /// # Errors
    /// [`crate::Error::Library`] if the library was not found.
    pub fn find(driver_cuda: Option<(u32, u32)>) -> Result<(u32, PathBuf)> {
        let library = LOADED.load(driver_cuda)?;
        Ok((library.version, library.path.clone()))
    }

    /// Returns the records since the start or the last call. Wait for the work first, for example with [`crate::Stream::synchronize`]: an activity that has not
    /// ended yet is returned by a later call, or is lost.
    ///
    /// # Errors
    /// [`crate::Error::NotRecorded`] if CUPTI fails.
    pub fn take(&self) -> Result<Recorded> {
        self.session.take()
    }

    /// Ends the recording and returns the records since the start or the last [`Recorder::take`].
    ///
    /// # Errors
    /// [`crate::Error::NotRecorded`] if CUPTI fails.
    pub fn finish(self) -> Result<Recorded> {
        self.session.take()
    }

    /// Returns the path of the library.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.session.library().path
    }

    /// Returns the version of the library, such as 130001 for CUDA 13.0 or 26 for CUDA 12.9.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.session.library().version
    }
}
