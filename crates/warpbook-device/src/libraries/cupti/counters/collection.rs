//! Collects hardware counters, from the first pass to the final values.

use super::params::{
    AddMetrics, DataInfo, DataInitialize, DataSize, Decode, Enable, Evaluate, HostInitialize, Image, ImageSize, Object,
    Passes, Push, SetConfig, Stop,
};
use super::profiler::Profiler;
use crate::{Error, Result};
use std::ffi::{CStr, CString, c_char, c_void};

/// The mode `CUPTI_UserReplay`, in which the program runs again for each pass.
const USER_REPLAY: u32 = 3;

/// The part of a run that each value covers: `CUPTI_AutoRange` or `CUPTI_UserRange`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ranges {
    /// One range for each kernel.
    Kernels = 1,
    /// One range for all work between the calls that push and pop the range.
    Whole = 2,
}

impl Profiler {
    /// Returns those of `metrics` that a chip supports, in their order.
    ///
    /// # Errors
    /// If CUPTI fails, for example because it does not know the chip.
    pub fn known(&self, chip: &CStr, metrics: &[&str]) -> Result<Vec<String>> {
        // If the chip or the library does not work at all, this fails; without it, all metrics would just seem to be
        // unsupported.
        drop(Host::new(self, chip)?);
        let has = |metric: &&&str| Host::new(self, chip).and_then(|host| host.image(&Names::new([**metric])?)).is_ok();
        Ok(metrics.iter().filter(has).map(|m| (*m).to_owned()).collect())
    }

    /// Returns the number of times that a program has to run for these metrics.
    ///
    /// # Errors
    /// If CUPTI fails, for example because it does not know the chip or a metric.
    pub fn passes(&self, chip: &CStr, metrics: &[String]) -> Result<usize> {
        let image = Host::new(self, chip)?.image(&Names::new(metrics.iter().map(String::as_str))?)?;
        self.passes_of(&image)
    }

    fn passes_of(&self, image: &Image8) -> Result<usize> {
        let params = Passes { bytes: image.bytes, image: image.words.as_ptr().cast(), ..Passes::new() };
        Ok(self.ask("the number of passes", self.calls.passes, params)?.passes)
    }
}

/// A byte buffer aligned to 8 bytes.
struct Image8 {
    words: Vec<u64>,
    bytes: usize,
}

impl Image8 {
    fn new(bytes: usize) -> Self {
        Self { words: vec![0; bytes.div_ceil(8)], bytes }
    }
}

/// Names as C strings, with an array of pointers to them.
struct Names {
    _texts: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl Names {
    fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Self> {
        let texts: Vec<CString> = names
            .into_iter()
            .map(CString::new)
            .collect::<Result<_, _>>()
            .map_err(|_| Error::NotCounted { why: "the name of a metric contains a NUL byte".into() })?;
        let pointers = texts.iter().map(|t| t.as_ptr()).collect();
        Ok(Self { _texts: texts, pointers })
    }
}

/// CUPTI's host-side object: it translates names of metrics to a hardware configuration, and raw counts to values.
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

    /// Returns the hardware configuration for these metrics.
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

/// The range profiler of a context, enabled until this value is dropped.
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

/// The collected values of all ranges.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Collected {
    /// The values of each range, in the order of the metrics.
    pub values: Vec<Vec<f64>>,
    pub passes: usize,
    /// Number of ranges that did not fit into the buffer.
    pub dropped: usize,
}

/// Counts events while a program runs, once per pass.
///
/// # Errors
/// CUPTI's errors, and those of the program.
///
/// # Safety
/// The context must be a live context of the driver, current on this thread.
pub(super) unsafe fn collect(
    library: &Profiler,
    (chip, context): (&CStr, *mut c_void),
    (metrics, ranges, most): (&[String], Ranges, usize),
    mut pass: impl FnMut(Step) -> Result<()>,
) -> Result<Collected> {
    let calls = &library.calls;
    let names = Names::new(metrics.iter().map(String::as_str))?;
    let host = Host::new(library, chip)?;
    let image = host.image(&names)?;
    let passes = library.passes_of(&image)?;
    // CUPTI keeps pointers to both images until the target is disabled, so the target must be dropped before
    // them.
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
        // The program's error is reported first, because a pass that it left early cannot end correctly either.
        done?;
        popped?;
        let is_last = stopped?;
        made += 1;
        if is_last {
            break;
        }
        // A guard against an endless loop: CUPTI should not need more passes than it announced.
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

/// A step of a pass, which the caller's function executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Preparation that is not counted, such as restoring inputs that a run changes.
    Before,
    /// The counted run itself, including the wait for the device.
    Run,
}
