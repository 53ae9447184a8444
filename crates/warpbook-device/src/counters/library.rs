//! CUPTI's range profiler: its functions, and a collection of counters from the first pass to the values.

use super::params::{
    AddMetrics, ChipName, DataInfo, DataInitialize, DataSize, Decode, Enable, Evaluate, HostInitialize, Image,
    ImageSize, Nothing, Object, Passes, Push, SetConfig, Stop, Supported,
};
use crate::{Error, Result};
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

pub(super) type Status = c_int;
type Call<P> = unsafe extern "C" fn(*mut P) -> Status;

/// What evaluates counters, which CUPTI loads by this name: found where it lies next to CUPTI.
const EVALUATOR: &str = if cfg!(windows) { "nvperf_host.dll" } else { "libnvperf_host.so" };
/// `CUPTI_PROFILER_CONFIGURATION_SUPPORTED`.
const SUPPORTED: u32 = 3;
/// `CUPTI_UserReplay`: the program is run again for each pass.
const USER_REPLAY: u32 = 3;

/// What values are of: `CUPTI_AutoRange` or `CUPTI_UserRange`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ranges {
    /// Each kernel.
    Kernels = 1,
    /// All that runs between two calls.
    Whole = 2,
}

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
    fn ask<P>(&self, what: &str, call: Call<P>, mut params: P) -> Result<P> {
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

    /// Those of some metrics that a chip has, in their order.
    pub fn known(&self, chip: &CStr, metrics: &[&str]) -> Result<Vec<String>> {
        // Of a chip or a library that does not work all would be missing.
        drop(Host::new(self, chip)?);
        let has = |metric: &&&str| Host::new(self, chip).and_then(|host| host.image(&Names::of([**metric])?)).is_ok();
        Ok(metrics.iter().filter(has).map(|m| (*m).to_owned()).collect())
    }

    /// How often a program has to run for these metrics.
    pub fn passes(&self, chip: &CStr, metrics: &[String]) -> Result<usize> {
        let image = Host::new(self, chip)?.image(&Names::of(metrics.iter().map(String::as_str))?)?;
        self.passes_of(&image)
    }

    fn passes_of(&self, image: &Image8) -> Result<usize> {
        let params = Passes { bytes: image.bytes, image: image.words.as_ptr().cast(), ..Passes::new() };
        Ok(self.ask("the number of passes", self.calls.passes, params)?.passes)
    }
}

/// Bytes at a multiple of 8.
struct Image8 {
    words: Vec<u64>,
    bytes: usize,
}

impl Image8 {
    fn new(bytes: usize) -> Self {
        Self { words: vec![0; bytes.div_ceil(8)], bytes }
    }
}

/// Names as C has them.
struct Names {
    _texts: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl Names {
    fn of<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Self> {
        let texts: Vec<CString> = names
            .into_iter()
            .map(CString::new)
            .collect::<Result<_, _>>()
            .map_err(|_| Error::NotCounted { why: "the name of a metric has a zero in it".into() })?;
        let pointers = texts.iter().map(|t| t.as_ptr()).collect();
        Ok(Self { _texts: texts, pointers })
    }
}

/// What turns names into what the hardware is told, and counts into values.
struct Host<'l> {
    library: &'l Profiler,
    raw: *mut c_void,
}

impl<'l> Host<'l> {
    fn new(library: &'l Profiler, chip: &CStr) -> Result<Self> {
        let params = HostInitialize { kind: 0, chip: chip.as_ptr(), ..HostInitialize::new() };
        let raw = library.ask("its metrics", library.calls.host_initialize, params)?.host;
        Ok(Self { library, raw })
    }

    /// What the hardware is told to count.
    fn image(&self, names: &Names) -> Result<Image8> {
        let Self { library, raw } = self;
        let (host, calls) = (*raw, &library.calls);
        let params =
            AddMetrics { host, names: names.pointers.as_ptr(), count: names.pointers.len(), ..AddMetrics::new() };
        library.ask("these metrics", calls.add_metrics, params)?;
        let bytes = library.ask("a size", calls.image_size, ImageSize { host, ..ImageSize::new() })?.bytes;
        let mut image = Image8::new(bytes);
        let params = Image { host, bytes, image: image.words.as_mut_ptr().cast(), ..Image::new() };
        library.ask("a configuration", calls.image, params)?;
        Ok(image)
    }

    fn values(&self, names: &Names, data: &Image8, range: usize) -> Result<Vec<f64>> {
        let mut values = vec![f64::NAN; names.pointers.len()];
        let params = Evaluate {
            host: self.raw,
            data: data.words.as_ptr().cast(),
            bytes: data.bytes,
            range,
            names: names.pointers.as_ptr(),
            count: names.pointers.len(),
            values: values.as_mut_ptr(),
            ..Evaluate::new()
        };
        self.library.ask("values", self.library.calls.evaluate, params)?;
        Ok(values)
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        let params = Object { object: self.raw, ..Object::new() };
        let _ = self.library.ask("an end", self.library.calls.host_deinitialize, params);
    }
}

/// The profiler of a context, enabled as long as it lives.
struct Target<'l> {
    library: &'l Profiler,
    raw: *mut c_void,
}

impl<'l> Target<'l> {
    fn new(library: &'l Profiler, context: *mut c_void) -> Result<Self> {
        let params = Enable { context, ..Enable::new() };
        let raw = library.ask("the counters of this context", library.calls.enable, params)?.object;
        Ok(Self { library, raw })
    }

    fn object(&self) -> Object {
        Object { object: self.raw, ..Object::new() }
    }

    fn stop(&self) -> Result<bool> {
        let params = Stop { object: self.raw, ..Stop::new() };
        Ok(self.library.ask("the end of a pass", self.library.calls.stop, params)?.all_submitted != 0)
    }
}

impl Drop for Target<'_> {
    fn drop(&mut self) {
        let _ = self.library.ask("an end", self.library.calls.disable, self.object());
    }
}

/// What was counted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Collected {
    /// The values of each range, in the order of the metrics.
    pub values: Vec<Vec<f64>>,
    pub passes: usize,
    /// Ranges that there was no room for.
    pub dropped: usize,
}

/// Counts while a program runs, once a pass.
///
/// # Errors
/// CUPTI's and the program's.
///
/// # Safety
/// The context is a live one of the driver's, current on this thread.
pub(super) unsafe fn collect(
    library: &Profiler,
    (chip, context): (&CStr, *mut c_void),
    (metrics, ranges, most): (&[String], Ranges, usize),
    mut pass: impl FnMut(Step) -> Result<()>,
) -> Result<Collected> {
    let calls = &library.calls;
    let names = Names::of(metrics.iter().map(String::as_str))?;
    let host = Host::new(library, chip)?;
    let image = host.image(&names)?;
    let passes = library.passes_of(&image)?;
    // CUPTI keeps pointers to both images until the target is disabled, which is dropped before them.
    let mut data;
    let target = Target::new(library, context)?;
    let params = DataSize {
        object: target.raw,
        names: names.pointers.as_ptr(),
        count: metrics.len(),
        ranges: most,
        nodes: most as u32,
        ..DataSize::new()
    };
    data = Image8::new(library.ask("a size", calls.data_size, params)?.bytes);
    let at = data.words.as_mut_ptr().cast::<u8>();
    let params = DataInitialize { object: target.raw, bytes: data.bytes, data: at, ..DataInitialize::new() };
    library.ask("room for values", calls.data_initialize, params)?;
    let params = SetConfig {
        object: target.raw,
        image_bytes: image.bytes,
        image: image.words.as_ptr().cast(),
        data_bytes: data.bytes,
        data: at,
        range: ranges as u32,
        replay: USER_REPLAY,
        ranges_a_pass: most,
        levels: 1,
        least_level: 1,
        pass: 0,
        target_level: 1,
        ..SetConfig::new()
    };
    library.ask("a configuration", calls.set_config, params)?;
    let mut made = 0;
    loop {
        pass(Step::Before)?;
        library.ask("a pass", calls.start, target.object())?;
        if ranges == Ranges::Whole {
            let params = Push { object: target.raw, name: c"run".as_ptr(), ..Push::new() };
            library.ask("a range", calls.push, params)?;
        }
        let done = pass(Step::Run);
        let popped = match ranges {
            Ranges::Whole => library.ask("the end of a range", calls.pop, target.object()).map(drop),
            Ranges::Kernels => Ok(()),
        };
        let stopped = target.stop();
        // What the program says comes first: a pass that it left early cannot end well.
        done?;
        popped?;
        let is_last = stopped?;
        made += 1;
        if is_last {
            break;
        }
        // More than a pass for each nesting level there cannot be.
        if made > 2 * passes + 2 {
            return Err(Error::NotCounted {
                why: format!("CUPTI asks for more than the {passes} passes that it announced"),
            });
        }
    }
    let dropped =
        library.ask("what was counted", calls.decode, Decode { object: target.raw, ..Decode::new() })?.dropped;
    let params = DataInfo { data: at, bytes: data.bytes, ..DataInfo::new() };
    let counted = library.ask("how much was counted", calls.data_info, params)?.ranges;
    drop(target);
    let values = (0..counted).map(|range| host.values(&names, &data, range)).collect::<Result<_>>()?;
    Ok(Collected { values, passes: made, dropped })
}

/// What a program is asked for in a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// What is not counted, as inputs that a run changes.
    Before,
    /// The run itself, until the device is done.
    Run,
}
