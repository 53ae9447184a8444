//! A collection of counters, from the first pass to the values.

use super::params::{
    AddMetrics, DataInfo, DataInitialize, DataSize, Decode, Enable, Evaluate, HostInitialize, Image, ImageSize, Object,
    Passes, Push, SetConfig, Stop,
};
use super::profiler::Profiler;
use crate::{Error, Result};
use std::ffi::{CStr, CString, c_char, c_void};

/// The mode `CUPTI_UserReplay`: the program runs again for each pass.
const USER_REPLAY: u32 = 3;

/// The range of a value: `CUPTI_AutoRange` or `CUPTI_UserRange`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ranges {
    /// One range for each kernel.
    Kernels = 1,
    /// One range for all work between two calls.
    Whole = 2,
}

impl Profiler {
    /// Returns the `metrics` that a chip has, in their order.
    pub fn known(&self, chip: &CStr, metrics: &[&str]) -> Result<Vec<String>> {
        // Without this check, all metrics would seem to be missing if the chip or the library does not work.
        drop(Host::new(self, chip)?);
        let has = |metric: &&&str| Host::new(self, chip).and_then(|host| host.image(&Names::new([**metric])?)).is_ok();
        Ok(metrics.iter().filter(has).map(|m| (*m).to_owned()).collect())
    }

    /// Number of times that a program has to run for these metrics.
    pub fn passes(&self, chip: &CStr, metrics: &[String]) -> Result<usize> {
        let image = Host::new(self, chip)?.image(&Names::new(metrics.iter().map(String::as_str))?)?;
        self.passes_of(&image)
    }

    fn passes_of(&self, image: &Image8) -> Result<usize> {
        let params = Passes { bytes: image.bytes, image: image.words.as_ptr().cast(), ..Passes::new() };
        Ok(self.ask("the number of passes", self.calls.passes, params)?.passes)
    }
}

/// Bytes whose address is a multiple of 8.
struct Image8 {
    words: Vec<u64>,
    bytes: usize,
}

impl Image8 {
    fn new(bytes: usize) -> Self {
        Self { words: vec![0; bytes.div_ceil(8)], bytes }
    }
}

/// Names as C strings.
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
            .map_err(|_| Error::NotCounted { why: "the name of a metric has a zero in it".into() })?;
        let pointers = texts.iter().map(|t| t.as_ptr()).collect();
        Ok(Self { _texts: texts, pointers })
    }
}

/// Translates names of metrics to the hardware's configuration, and counts to values.
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

    /// Returns the configuration of the hardware.
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

/// The profiler of a context, enabled as long as this lives.
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

/// Values of all ranges.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Collected {
    /// Values of each range, in the order of the metrics.
    pub values: Vec<Vec<f64>>,
    pub passes: usize,
    /// Number of ranges for which there was no room.
    pub dropped: usize,
}

/// Counts while a program runs, once per pass.
///
/// # Errors
/// CUPTI's errors, and the program's.
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
        // The program's error takes precedence, since a pass that it left early cannot end well.
        done?;
        popped?;
        let is_last = stopped?;
        made += 1;
        if is_last {
            break;
        }
        // There cannot be more than one pass for each nesting level.
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

/// A step of a pass, which the program executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Preparation that is not counted, such as restoring inputs that a run changes.
    Before,
    /// The run itself, until the device is done.
    Run,
}
