//! CUPTI's range profiler: its functions, and checks of whether a device supports it.

use super::params::{
    AddMetrics, ChipName, DataInfo, DataInitialize, DataSize, Decode, Enable, Evaluate, HostInitialize, Image,
    ImageSize, Nothing, Object, Passes, Push, SetConfig, Stop, Supported,
};
use crate::libraries::loader::{SharedLibrary, Status, library};
use crate::{Error, Result};
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::{Path, PathBuf};

pub(super) type Function<P> = unsafe extern "C" fn(*mut P) -> Status;

/// The library that evaluates counters. It is in the same folder as CUPTI, which loads it by this name.
const EVALUATOR: &str = if cfg!(windows) { "nvperf_host.dll" } else { "libnvperf_host.so" };
/// The value `CUPTI_PROFILER_CONFIGURATION_SUPPORTED`.
const SUPPORTED: u32 = 3;

library! {
    /// The functions that are used, from the headers listed in `params`.
    pub(super) struct ProfilerCalls {
        fn result_string(Status, *mut *const c_char) -> Status = "cuptiGetResultString";
        fn initialize(*mut Nothing) -> Status = "cuptiProfilerInitialize";
        fn deinitialize(*mut Nothing) -> Status = "cuptiProfilerDeInitialize";
        fn supported(*mut Supported) -> Status = "cuptiProfilerDeviceSupported";
        fn chip_name(*mut ChipName) -> Status = "cuptiDeviceGetChipName";
        fn host_initialize(*mut HostInitialize) -> Status = "cuptiProfilerHostInitialize";
        fn host_deinitialize(*mut Object) -> Status = "cuptiProfilerHostDeinitialize";
        fn add_metrics(*mut AddMetrics) -> Status = "cuptiProfilerHostConfigAddMetrics";
        fn image_size(*mut ImageSize) -> Status = "cuptiProfilerHostGetConfigImageSize";
        fn image(*mut Image) -> Status = "cuptiProfilerHostGetConfigImage";
        fn passes(*mut Passes) -> Status = "cuptiProfilerHostGetNumOfPasses";
        fn evaluate(*mut Evaluate) -> Status = "cuptiProfilerHostEvaluateToGpuValues";
        fn enable(*mut Enable) -> Status = "cuptiRangeProfilerEnable";
        fn disable(*mut Object) -> Status = "cuptiRangeProfilerDisable";
        fn data_size(*mut DataSize) -> Status = "cuptiRangeProfilerGetCounterDataSize";
        fn data_initialize(*mut DataInitialize) -> Status = "cuptiRangeProfilerCounterDataImageInitialize";
        fn set_config(*mut SetConfig) -> Status = "cuptiRangeProfilerSetConfig";
        fn start(*mut Object) -> Status = "cuptiRangeProfilerStart";
        fn stop(*mut Stop) -> Status = "cuptiRangeProfilerStop";
        fn push(*mut Push) -> Status = "cuptiRangeProfilerPushRange";
        fn pop(*mut Object) -> Status = "cuptiRangeProfilerPopRange";
        fn decode(*mut Decode) -> Status = "cuptiRangeProfilerDecodeData";
        fn data_info(*mut DataInfo) -> Status = "cuptiRangeProfilerGetCounterDataInfo";
    }
}

/// The loaded range profiler.
pub(super) struct Profiler {
    pub calls: ProfilerCalls,
    /// The loaded files of CUPTI and of the evaluator. CUPTI is first in the list, so it is unloaded first.
    pub _files: Vec<SharedLibrary>,
    pub path: PathBuf,
}

impl std::fmt::Debug for Profiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Profiler({})", self.path.display())
    }
}

impl Profiler {
    /// Loads the range profiler from the CUPTI library at this path.
    ///
    /// # Errors
    /// If CUPTI does not load, or is older than 12.6.
    pub fn open(path: &Path) -> Result<Self> {
        let file = SharedLibrary::open(path).map_err(|why| Error::NotCounted { why })?;
        let calls = ProfilerCalls::load(&file.library).map_err(|lacks| {
            let needed = "install CUPTI 12.6 or later with `pip install --upgrade nvidia-cuda-cupti`";
            Error::NotCounted { why: format!("CUPTI at {} is too old ({lacks}): {needed}", path.display()) }
        })?;
        // Once the evaluator is loaded, CUPTI finds it by its name. If it is not in this folder, the loader's own search has to find it.
        let evaluator = path.with_file_name(EVALUATOR);
        let evaluator = evaluator.is_file().then(|| SharedLibrary::open(evaluator).ok()).flatten();
        Ok(Self { calls, _files: std::iter::once(file).chain(evaluator).collect(), path: path.to_owned() })
    }

    /// Checks a call's status; the error names a remedy where one is known.
    ///
    /// # Errors
    /// If the status is not success.
    pub fn check(&self, what: &str, status: Status) -> Result<()> {
        let why = match status {
            0 => return Ok(()),
            35 | 40 => "the driver lets only administrators do that (ERR_NVGPUCTRPERM). Run as root, in a container with --cap-add=SYS_ADMIN; or let an \
                 administrator write `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into a file of /etc/modprobe.d and start the machine anew"
                .into(),
            36 | 39 => "another profiler (such as ncu, nsys or compute-sanitizer) is attached to this process: run without it".into(),
            26 => "another process, such as DCGM (dcgm-exporter; pause it with `dcgmi profile --pause`), is reading them; a GPU allows one at a time".into(),
            46 => format!("CUPTI at {} does not know this chip: install a later one with `pip install --upgrade nvidia-cuda-cupti`", self.path.display()),
            15 => format!(
                "CUPTI at {} cannot evaluate them, as it has not found {EVALUATOR}: it belongs in the same folder, and `pip install --force-reinstall \
                 nvidia-cuda-cupti` puts it there",
                self.path.display()
            ),
            _ => format!("CUPTI at {}, asked for {what}, says {}", self.path.display(), self.describe(status)),
        };
        Err(Error::NotCounted { why })
    }

    fn describe(&self, status: Status) -> String {
        let mut name = std::ptr::null();
        // SAFETY: `name` is a live pointer, which the call leaves null or sets to a static string.
        unsafe {
            if (self.calls.result_string)(status, &raw mut name) != 0 || name.is_null() {
                return format!("error {status}");
            }
            CStr::from_ptr(name).to_string_lossy().into_owned()
        }
    }

    /// Calls a function with its parameter struct, and returns the struct, into which the function writes its results.
    ///
    /// # Errors
    /// If the function fails.
    pub fn ask<P>(&self, what: &str, call: Function<P>, mut params: P) -> Result<P> {
        // SAFETY: `params` is the function's own struct and begins with its size. The caller keeps everything that it points to alive until the function
        // returns, and the images in `collect` until the profiler is disabled.
        let status = unsafe { call(&raw mut params) };
        self.check(what, status)?;
        Ok(params)
    }

    /// Initialises the profiler for this process. This needs a driver.
    ///
    /// # Errors
    /// If CUPTI fails, for example because there is no driver.
    pub fn initialize(&self) -> Result<()> {
        self.ask("the profiler", self.calls.initialize, Nothing::new()).map(drop)
    }

    pub fn deinitialize(&self) {
        let _ = self.ask("its end", self.calls.deinitialize, Nothing::new());
    }

    /// Checks whether this device's counters can be read, as far as that is known in advance.
    ///
    /// # Errors
    /// If CUPTI fails, or says that this device's counters cannot be read; the message gives the reason.
    pub fn ensure_supported(&self, device: c_int) -> Result<()> {
        let found = self.ask("support", self.calls.supported, Supported { device, ..Supported::new() })?;
        let reasons = [
            (found.architecture, "this GPU is older than compute capability 7.0"),
            (found.sli, "GPUs are joined by SLI"),
            (found.virtual_gpu, "this is a virtual GPU whose host does not allow it"),
            (found.confidential, "confidential computing is switched on"),
            (found.mining, "this GPU is one for mining"),
            (found.wsl, "this version of WSL does not allow it"),
        ];
        if found.supported == SUPPORTED {
            return Ok(());
        }
        let why = reasons.into_iter().find(|(level, _)| *level != SUPPORTED).map(|(_, why)| why);
        Err(Error::NotCounted { why: why.unwrap_or("CUPTI says that it is not supported here").into() })
    }

    /// Returns the chip's name, such as "GH100".
    ///
    /// # Errors
    /// If CUPTI fails, or knows no name of the chip.
    pub fn chip(&self, index: u32) -> Result<CString> {
        let found =
            self.ask("the chip", self.calls.chip_name, ChipName { index: index as usize, ..ChipName::new() })?;
        if found.name.is_null() {
            return Err(Error::NotCounted { why: "CUPTI knows no name of this chip".into() });
        }
        // SAFETY: `found.name` is not null, and points to a zero-terminated string that belongs to the library.
        Ok(unsafe { CStr::from_ptr(found.name) }.to_owned())
    }
}
