//! What a GPU did and when: kernels, copies and fills with true times, inside of graphs too.
//!
//! From CUPTI's activity records, which the driver's profiling interface writes where the library is present. cudarc's bindings panic where it is not and
//! know its names up to the CUDA that they are pinned to only, so that it is loaded here, as NVRTC, cuBLAS and cuDNN are.

mod library;
mod name;
mod records;

use crate::{CudaDevice, Result};
pub(crate) use library::is_recording;
use library::{Cupti, Session};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What an [`Activity`] is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActivityKind {
    /// A kernel's run.
    Kernel {
        /// Blocks.
        grid: [u32; 3],
        /// Threads.
        block: [u32; 3],
        /// Registers of a thread.
        registers: u32,
        /// Static and dynamic shared memory of a block, in bytes.
        shared_bytes: u64,
    },
    /// A copy.
    Copy {
        /// Its length.
        bytes: u64,
    },
    /// A fill.
    Fill {
        /// Its length.
        bytes: u64,
    },
    /// All that a part of a program did on a stream, as its two events tell.
    Range,
}

impl ActivityKind {
    /// Bytes of a copy or a fill.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Self::Copy { bytes } | Self::Fill { bytes } => Some(*bytes),
            _ => None,
        }
    }
}

/// Something that a GPU did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// Kernel, copy or fill.
    pub kind: ActivityKind,
    /// A kernel's name without arguments and template arguments; "copy to the device", "fill".
    pub name: String,
    /// Nanoseconds from the start of the recorder to its own start.
    pub start_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
    /// The stream, by CUPTI's number.
    pub stream: u32,
    /// The same for all that one call of the driver led to, as the launch of a graph; larger for later calls.
    pub correlation: u32,
    /// The graph that it was a node of, and the node: larger for nodes that were added later. Both are CUPTI's own numbers.
    pub graph: Option<(u32, u64)>,
}

impl Activity {
    /// Nanoseconds from the start of the recorder to its end.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }
}

/// A call of the driver by the host, as that which launches a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The function's name, as "cuLaunchKernel".
    pub name: String,
    /// Nanoseconds from the start of the recorder to its own start.
    pub start_ns: u64,
    /// How long it took the host.
    pub duration_ns: u64,
    /// The thread, by the system's number.
    pub thread: u32,
    /// That of the activities that it led to.
    pub correlation: u32,
}

/// What was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recorded {
    /// In the order of their starts.
    pub activities: Vec<Activity>,
    /// In the order of their starts; none but of [`Recorder::with_calls`].
    pub calls: Vec<Call>,
    /// Of each correlation of a call that was made after a [`Recorder::enter`] its id, the innermost one's.
    pub ranges: BTreeMap<u32, u64>,
    /// Activities that CUPTI had no room for, or no times of.
    pub lost: u64,
}

/// Records what the GPUs of this process do until it is finished or dropped. There is one at a time in a process.
///
/// The clock is CUPTI's, in nanoseconds; its zero is the start of the recorder. While it records, each launch takes the host longer, and in a
/// graph the kernels lie further apart than without: compare with a time that was measured without it. CUPTI stays attached to the process
/// afterwards: a launch then takes the host 4.9 us instead of 3.9, measured on a machine with an NVIDIA H200.
/// The code of kernels that are dropped meanwhile or afterwards stays loaded as long as the context: else CUPTI might name another by it.
#[derive(Debug)]
pub struct Recorder {
    session: Session,
}

impl Recorder {
    /// Begins to record. The library is searched for in the folder `WARPBOOK_CUPTI`, or else in a `.venv` above the working directory,
    /// `VIRTUAL_ENV`, `CONDA_PREFIX`, by the loader's own search, and in `CUDA_HOME`, `CUDA_PATH` and `/usr/local/cuda`, in this order.
    ///
    /// A graph is best captured after this: then CUPTI has seen all of its nodes.
    ///
    /// # Errors
    /// [`crate::Error::NoCupti`] where there is no library, [`crate::Error::CuptiFailed`] where it does not load, and
    /// [`crate::Error::NotRecorded`] where there is another recorder or profiler, or the driver does not let it.
    pub fn start(device: &CudaDevice) -> Result<Self> {
        Self::begin(device, false)
    }

    /// The same, which records the host's calls of the driver too, and the id by which [`Recorder::enter`] was called before. Each call takes the host some
    /// microseconds longer then.
    ///
    /// # Errors
    /// Those of [`Recorder::start`].
    pub fn with_calls(device: &CudaDevice) -> Result<Self> {
        Self::begin(device, true)
    }

    fn begin(device: &CudaDevice, calls: bool) -> Result<Self> {
        let library = Cupti::load(Some(device.driver_cuda()))?;
        device.0.bind()?;
        let session = Session::start(library, calls)?;
        device.0.modules.keep();
        Ok(Self { session })
    }

    /// Nanoseconds since the start of the recorder, by the clock of the activities.
    ///
    /// # Errors
    /// [`crate::Error::NotRecorded`] where CUPTI fails.
    pub fn now_ns(&self) -> Result<u64> {
        self.session.now_ns()
    }

    /// From here on what this thread asks the driver for is counted to this id, until [`Recorder::leave`]: see [`Recorded::ranges`]. Ranges may be nested.
    ///
    /// # Errors
    /// [`crate::Error::NotRecorded`] where CUPTI fails.
    pub fn enter(&self, id: u64) -> Result<()> {
        self.session.push(id)
    }

    /// Ends the range that this thread entered last. Those that it has not left when the recorder ends are left then.
    pub fn leave(&self) {
        self.session.pop();
    }

    /// Whether CUPTI is attached to this process, by this recorder or one before: then each launch takes the host a little longer.
    #[must_use]
    pub fn is_attached() -> bool {
        library::is_registered()
    }

    /// Version and place of the library that [`Recorder::start`] would find, for a driver of that CUDA.
    ///
    /// # Errors
    /// [`crate::Error::NoCupti`] or [`crate::Error::CuptiFailed`].
    pub fn find(driver_cuda: Option<(u32, u32)>) -> Result<(u32, PathBuf)> {
        let library = Cupti::load(driver_cuda)?;
        Ok((library.version(), library.path().to_owned()))
    }

    /// What has been recorded since the start, or since this was called last. Wait for the work first, as by
    /// [`crate::Stream::synchronize`]: an activity that has not ended comes later, or is lost.
    ///
    /// # Errors
    /// [`crate::Error::NotRecorded`] where CUPTI fails.
    pub fn take(&self) -> Result<Recorded> {
        self.session.take()
    }

    /// Ends the recording and says what has been recorded since the start, or since [`Recorder::take`].
    ///
    /// # Errors
    /// [`crate::Error::NotRecorded`] where CUPTI fails.
    pub fn finish(self) -> Result<Recorded> {
        self.session.take()
    }

    /// Where the library was found.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.session.library().path()
    }

    /// The version that the library says, as 130001 of CUDA 13.0 or 26 of CUDA 12.9.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.session.library().version()
    }
}
