//! Reads hardware counters of a device.

use super::collection::{Collected, Ranges, Step, collect};
use super::profiler::Profiler;
use crate::libraries::cupti::exclusive::{COLLECTING, RECORDING};
use crate::{CudaDevice, Error, Recorder, Result};
use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Largest number of kernels counted in one run; kernels beyond it are dropped.
pub const MOST_KERNELS: usize = 256;

/// Values of hardware counters.
#[derive(Debug, Clone, PartialEq)]
pub struct Counted {
    /// NVIDIA's names of the counted metrics, which are those that the chip supports.
    pub metrics: Vec<String>,
    /// The values of each kernel in launch order, or of the whole run, in the order of `metrics`; NaN where a value is missing.
    pub values: Vec<Vec<f64>>,
    /// Number of times that the program was run.
    pub passes: usize,
    /// Number of kernels that were not counted because they did not fit.
    pub dropped: usize,
}

/// Reads hardware counters of a device. A process can have only one `Counters` at a time, and no [`Recorder`] at the same time.
#[derive(Debug)]
pub struct Counters {
    library: Profiler,
    device: CudaDevice,
    chip: CString,
    version: u32,
    _only: Only,
}

/// A guard that allows only one collection at a time in the process.
#[derive(Debug)]
pub(super) struct Only;

impl Only {
    pub fn claim() -> Result<Self> {
        let taken = |what: &str| Error::NotCounted {
            why: format!("{what} is active in this process: finish or drop it first"),
        };
        if RECORDING.load(Ordering::Acquire) {
            return Err(taken("a recorder of the device's activity"));
        }
        if COLLECTING.swap(true, Ordering::AcqRel) {
            return Err(taken("another reader of counters"));
        }
        Ok(Self)
    }
}

impl Drop for Only {
    fn drop(&mut self) {
        COLLECTING.store(false, Ordering::Release);
    }
}

impl Counters {
    /// Opens the counters of a device. The library is searched for in the same places as by [`Recorder::start`].
    ///
    /// # Errors
    /// The errors of [`Recorder::find`], and [`Error::NotCounted`], which names what is missing: permissions, a newer CUPTI, or a GPU with
    /// counters.
    pub fn open(device: &CudaDevice) -> Result<Self> {
        device.0.bind_for("Hardware counters")?;
        let (version, path) = Recorder::find(Some(device.driver_cuda()))?;
        let only = Only::claim()?;
        device.0.bind()?;
        let library = Profiler::open(&path)?;
        library.initialize()?;
        let found =
            library.ensure_supported(device.0.context()?.cu_device()).and_then(|()| library.chip(device.info().index));
        match found {
            Ok(chip) => Ok(Self { library, device: device.clone(), chip, version, _only: only }),
            Err(why) => {
                library.deinitialize();
                Err(why)
            }
        }
    }

    /// Returns the name of the chip, such as "GH100".
    #[must_use]
    pub fn chip(&self) -> String {
        self.chip.to_string_lossy().into_owned()
    }

    /// Returns the version of the library, such as 130001.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns the path of the library.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.library.path
    }

    /// Counts each kernel of a run. `run` has to queue the same work in every call; work in `before` is not counted. Some versions of CUPTI cannot
    /// tell apart the kernels that a graph launches: use [`Counters::of_run`] for graphs.
    ///
    /// # Errors
    /// [`Error::NotCounted`], and the errors of `before` and `run`.
    pub fn of_kernels(
        &self,
        metrics: &[&str],
        before: impl FnMut() -> Result<()>,
        run: impl FnMut() -> Result<()>,
    ) -> Result<Counted> {
        self.collect((metrics, Ranges::Kernels, MOST_KERNELS), before, run)
    }

    /// Counts a run as a whole, whatever it launches.
    ///
    /// # Errors
    /// The errors of [`Counters::of_kernels`].
    pub fn of_run(
        &self,
        metrics: &[&str],
        before: impl FnMut() -> Result<()>,
        run: impl FnMut() -> Result<()>,
    ) -> Result<Counted> {
        self.collect((metrics, Ranges::Whole, 1), before, run)
    }

    fn collect(
        &self,
        (metrics, ranges, most): (&[&str], Ranges, usize),
        mut before: impl FnMut() -> Result<()>,
        mut run: impl FnMut() -> Result<()>,
    ) -> Result<Counted> {
        self.device.synchronize()?;
        // These metrics are counted per kernel, so they would be 0 for a run that is counted as a whole.
        let by_kernel = |metric: &str| metric.contains("__sass_");
        let metrics: Vec<&str> =
            metrics.iter().copied().filter(|m| matches!(ranges, Ranges::Kernels) || !by_kernel(m)).collect();
        let metrics = self.library.known(&self.chip, &metrics)?;
        if metrics.is_empty() {
            return Err(Error::NotCounted { why: format!("{} has none of these metrics", self.chip()) });
        }
        let context = self.device.0.context()?.cu_ctx().cast::<c_void>();
        let pass = |step| {
            match step {
                Step::Before => before()?,
                Step::Run => run()?,
            }
            self.device.synchronize()
        };
        // SAFETY: the context belongs to the device, which is alive, and `synchronize` has made it current on this thread.
        let found = unsafe { collect(&self.library, (&self.chip, context), (&metrics, ranges, most), pass) }?;
        let Collected { values, passes, dropped } = found;
        Ok(Counted { metrics, values, passes, dropped })
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        self.library.deinitialize();
    }
}

/// Returns those of `metrics` that a chip (such as "GH100") supports, and the number of times that a program would have to run for them. Needs
/// CUPTI, but no GPU.
///
/// # Errors
/// [`Error::Library`] or [`Error::NotCounted`], for example if CUPTI does not know the chip.
pub fn counter_passes(chip: &str, metrics: &[&str]) -> Result<(Vec<String>, usize)> {
    let (_, path): (u32, PathBuf) = Recorder::find(None)?;
    let library = Profiler::open(&path)?;
    let chip =
        CString::new(chip).map_err(|_| Error::NotCounted { why: "the chip's name contains a NUL byte".into() })?;
    let known = library.known(&chip, metrics)?;
    let passes = if known.is_empty() { 0 } else { library.passes(&chip, &known)? };
    Ok((known, passes))
}
