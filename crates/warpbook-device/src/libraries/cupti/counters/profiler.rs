//! CUPTI's range profiler: its functions, and what they say of a device.

use super::params::{
    AddMetrics, ChipName, DataInfo, DataInitialize, DataSize, Decode, Enable, Evaluate, HostInitialize, Image,
    ImageSize, Nothing, Object, Passes, Push, SetConfig, Stop, Supported,
};
use crate::{Error, Result};
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::{Path, PathBuf};

pub(super) type Status = c_int;
pub(super) type Call<P> = unsafe extern "C" fn(*mut P) -> Status;

/// What evaluates counters, which CUPTI loads by this name: found where it lies next to CUPTI.
const EVALUATOR: &str = if cfg!(windows) { "nvperf_host.dll" } else { "libnvperf_host.so" };
/// `CUPTI_PROFILER_CONFIGURATION_SUPPORTED`.
const SUPPORTED: u32 = 3;

/// The functions that are used.
pub(super) struct Calls {
    pub result_string: unsafe extern "C" fn(Status, *mut *const c_char) -> Status,
    pub initialize: Call<Nothing>,
    pub deinitialize: Call<Nothing>,
    pub supported: Call<Supported>,
    pub chip_name: Call<ChipName>,
    pub host_initialize: Call<HostInitialize>,
    pub host_deinitialize: Call<Object>,
    pub add_metrics: Call<AddMetrics>,
    pub image_size: Call<ImageSize>,
    pub image: Call<Image>,
    pub passes: Call<Passes>,
    pub evaluate: Call<Evaluate>,
    pub enable: Call<Enable>,
    pub disable: Call<Object>,
    pub data_size: Call<DataSize>,
    pub data_initialize: Call<DataInitialize>,
    pub set_config: Call<SetConfig>,
    pub start: Call<Object>,
    pub stop: Call<Stop>,
    pub push: Call<Push>,
    pub pop: Call<Object>,
    pub decode: Call<Decode>,
    pub data_info: Call<DataInfo>,
}

/// The library.
pub(super) struct Profiler {
    pub calls: Calls,
    /// Kept as long as its functions can be called; of two the first is dropped first.
    pub _loaded: Vec<Library>,
    pub path: PathBuf,
}

impl std::fmt::Debug for Profiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Profiler({})", self.path.display())
    }
}

impl Profiler {
    /// The range profiler of the CUPTI at a place.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |why: String| Error::NotCounted { why };
        // SAFETY: loading NVIDIA's library runs its initialisers, which have no preconditions.
        let library = unsafe { Library::new(path) }.map_err(|e| failed(e.to_string()))?;
        macro_rules! call {
            ($name:literal) => {
                // SAFETY: the type of the field is the function's in the headers that `params` names.
                *unsafe { library.get($name) }.map_err(|_| {
                    failed(format!(
                        "CUPTI at {} is too old for it: CUDA 12.6 or later has the range profiler, as `pip install nvidia-cuda-cupti`",
                        path.display()
                    ))
                })?
            };
        }
        let calls = Calls {
            result_string: call!(b"cuptiGetResultString\0"),
            initialize: call!(b"cuptiProfilerInitialize\0"),
            deinitialize: call!(b"cuptiProfilerDeInitialize\0"),
            supported: call!(b"cuptiProfilerDeviceSupported\0"),
            chip_name: call!(b"cuptiDeviceGetChipName\0"),
            host_initialize: call!(b"cuptiProfilerHostInitialize\0"),
            host_deinitialize: call!(b"cuptiProfilerHostDeinitialize\0"),
            add_metrics: call!(b"cuptiProfilerHostConfigAddMetrics\0"),
            image_size: call!(b"cuptiProfilerHostGetConfigImageSize\0"),
            image: call!(b"cuptiProfilerHostGetConfigImage\0"),
            passes: call!(b"cuptiProfilerHostGetNumOfPasses\0"),
            evaluate: call!(b"cuptiProfilerHostEvaluateToGpuValues\0"),
            enable: call!(b"cuptiRangeProfilerEnable\0"),
            disable: call!(b"cuptiRangeProfilerDisable\0"),
            data_size: call!(b"cuptiRangeProfilerGetCounterDataSize\0"),
            data_initialize: call!(b"cuptiRangeProfilerCounterDataImageInitialize\0"),
            set_config: call!(b"cuptiRangeProfilerSetConfig\0"),
            start: call!(b"cuptiRangeProfilerStart\0"),
            stop: call!(b"cuptiRangeProfilerStop\0"),
            push: call!(b"cuptiRangeProfilerPushRange\0"),
            pop: call!(b"cuptiRangeProfilerPopRange\0"),
            decode: call!(b"cuptiRangeProfilerDecodeData\0"),
            data_info: call!(b"cuptiRangeProfilerGetCounterDataInfo\0"),
        };
        // CUPTI finds it by its name once it is loaded; where it is not here, the loader's own search has to find it.
        let evaluator = path.with_file_name(EVALUATOR);
        // SAFETY: as above.
        let evaluator = evaluator.is_file().then(|| unsafe { Library::new(&evaluator) }.ok()).flatten();
        let loaded = std::iter::once(library).chain(evaluator).collect();
        Ok(Self { calls, _loaded: loaded, path: path.to_owned() })
    }

    /// A status in words, as an error that says what to do.
    pub fn check(&self, what: &str, status: Status) -> Result<()> {
        let why = match status {
            0 => return Ok(()),
            35 | 40 => "the driver lets only administrators do that (ERR_NVGPUCTRPERM). Run as root, in a container with --cap-add=SYS_ADMIN; or let an \
                 administrator write `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into a file of /etc/modprobe.d and start the machine anew"
                .into(),
            36 | 39 => "another profiler is attached to this process, as ncu, nsys and compute-sanitizer are: run without it".into(),
            26 => "another process reads them: there is one at a time on a GPU, and DCGM (dcgm-exporter, `dcgmi profile --pause`) is such a process too".into(),
            46 => format!("CUPTI at {} does not know this chip: install a later one with `pip install --upgrade nvidia-cuda-cupti`", self.path.display()),
            15 => format!(
                "CUPTI at {} cannot evaluate them, as it has not found {EVALUATOR}: it belongs into the same folder, and `pip install --force-reinstall \
                 nvidia-cuda-cupti` puts it there",
                self.path.display()
            ),
            _ => format!("CUPTI at {}, asked for {what}, says {}", self.path.display(), self.describe(status)),
        };
        Err(Error::NotCounted { why })
    }

    fn describe(&self, status: Status) -> String {
        let mut name = std::ptr::null();
        // SAFETY: the pointer is to a live pointer, which is then null or to a static string.
        unsafe {
            if (self.calls.result_string)(status, &raw mut name) != 0 || name.is_null() {
                return format!("error {status}");
            }
            CStr::from_ptr(name).to_string_lossy().into_owned()
        }
    }

    /// Calls a function with its parameters, which have what it writes afterwards.
    pub fn ask<P>(&self, what: &str, call: Call<P>, mut params: P) -> Result<P> {
        // SAFETY: the parameters are those of the function, begin with their size, and what they point to lives until it returns, or as long as the
        // functions after it need it: see `Collection`.
        let status = unsafe { call(&raw mut params) };
        self.check(what, status)?;
        Ok(params)
    }

    /// Sets the profiler up for this process; it needs a driver.
    pub fn initialize(&self) -> Result<()> {
        self.ask("the profiler", self.calls.initialize, Nothing::new()).map(drop)
    }

    pub fn deinitialize(&self) {
        let _ = self.ask("its end", self.calls.deinitialize, Nothing::new());
    }

    /// Why a device has no counters that can be read, where that is known beforehand.
    pub fn ensure_supported(&self, device: c_int) -> Result<()> {
        let found = self.ask("support", self.calls.supported, Supported { device, ..Supported::new() })?;
        let reasons = [
            (found.architecture, "this GPU is older than compute capability 7.0"),
            (found.sli, "GPUs are joined by SLI"),
            (found.virtual_gpu, "this is a virtual GPU whose host does not let it"),
            (found.confidential, "confidential computing is switched on"),
            (found.mining, "this GPU is one for mining"),
            (found.wsl, "this version of WSL does not let it"),
        ];
        if found.supported == SUPPORTED {
            return Ok(());
        }
        let why = reasons.into_iter().find(|(level, _)| *level != SUPPORTED).map(|(_, why)| why);
        Err(Error::NotCounted { why: why.unwrap_or("CUPTI says that it is not supported here").into() })
    }

    /// As "GH100".
    pub fn chip(&self, index: u32) -> Result<CString> {
        let found =
            self.ask("the chip", self.calls.chip_name, ChipName { index: index as usize, ..ChipName::new() })?;
        if found.name.is_null() {
            return Err(Error::NotCounted { why: "CUPTI knows no name of this chip".into() });
        }
        // SAFETY: a zero-terminated string of the library's.
        Ok(unsafe { CStr::from_ptr(found.name) }.to_owned())
    }
}
