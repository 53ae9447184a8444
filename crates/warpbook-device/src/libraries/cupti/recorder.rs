//! Records a GPU's activity: kernels, copies and fills with their real times, even inside graphs.
//!
//! The data are CUPTI's activity records, which the driver's profiling interface writes if the library is installed.

use super::activity::Recorded;
use super::library::LOADED;
use super::session::{self, Session};
use crate::cuda::module::Modules;
use crate::{CudaDevice, Result};
use std::path::{Path, PathBuf};

/// Records the activity of this process's GPUs until it is finished or dropped. A process can have one at a time.
///
/// The clock is CUPTI's, in nanoseconds; its zero is the start of the recorder. During the recording each launch takes the host longer, and kernels in a graph
/// lie further apart: compare with a time measured without a recorder. CUPTI stays attached to the process afterwards: a launch then takes the host 4.9 us
/// instead of 3.9, measured on a machine with an NVIDIA H200. The code of kernels that are dropped during the recording or afterwards stays loaded as long as
/// the context; otherwise CUPTI might give their names to others.
#[derive(Debug)]
pub struct Recorder {
    session: Session,
}

impl Recorder {
    /// Begins to record. The library is searched for in the folder `WARPBOOK_CUPTI`, or else in a `.venv` above the working directory, `VIRTUAL_ENV`,
    /// `CONDA_PREFIX`, by the loader's own search, and in `CUDA_HOME`, `CUDA_PATH` and `/usr/local/cuda`, in this order.
    ///
    /// Capture graphs after this, so that CUPTI sees all of their nodes.
    ///
    /// # Errors
    /// [`crate::Error::Library`] if there is no library or it does not load, and [`crate::Error::NotRecorded`] if there is another recorder or profiler, or the
    /// driver refuses.
    pub fn start(device: &CudaDevice) -> Result<Self> {
        Self::begin(device, false)
    }

    /// Like [`Recorder::start`], but also records the host's driver calls and the id of the last [`Recorder::enter`]. Each call then takes the host some
    /// microseconds longer.
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

    /// Nanoseconds since the start of the recorder, by the clock of the activities.
    ///
    /// # Errors
    /// [`crate::Error::NotRecorded`] if CUPTI fails.
    pub fn now_ns(&self) -> Result<u64> {
        self.session.now_ns()
    }

    /// Assigns driver calls of this thread to this id until [`Recorder::leave`]: see [`Recorded::ranges`]. Ranges may be nested.
    ///
    /// # Errors
    /// [`crate::Error::NotRecorded`] if CUPTI fails.
    pub fn enter(&self, id: u64) -> Result<()> {
        self.session.push(id)
    }

    /// Ends the range that this thread entered last. Ranges that are still open when the recorder ends are closed.
    pub fn leave(&self) {
        self.session.pop();
    }

    /// Returns true if CUPTI is attached to this process, by this recorder or an earlier one; each launch then takes the host a little longer.
    #[must_use]
    pub fn is_attached() -> bool {
        session::is_registered()
    }

    /// Returns version and path of the library that [`Recorder::start`] would find for a driver of this CUDA.
    ///
    /// # Errors
    /// [`crate::Error::Library`] if there is none.
    pub fn find(driver_cuda: Option<(u32, u32)>) -> Result<(u32, PathBuf)> {
        let library = LOADED.load(driver_cuda)?;
        Ok((library.version, library.path.clone()))
    }

    /// Returns the records since the start or the last call. Wait for the work first, for example with
    /// [`crate::Stream::synchronize`]: an activity that has not ended comes later, or is lost.
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

    /// Path of the library.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.session.library().path
    }

    /// Version of the library, such as 130001 for CUDA 13.0 or 26 for CUDA 12.9.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.session.library().version
    }
}
