use super::collection::{Collected, Ranges, Step, collect};
use super::params::*;
use super::profiler::{Profiler, ProfilerCalls};
use super::reader::Only;
use crate::libraries::cupti::exclusive::COLLECTING;
use crate::libraries::loader::Status;
use crate::testing;
use crate::{Error, Recorder, Result, counter_passes};
use std::cell::RefCell;
use std::ffi::{CStr, c_char};

/// Some of the metrics that the lab reads for a kernel on a GH100.
const SOME: [&str; 5] = [
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "lts__t_bytes.sum",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
];

/// A mock of CUPTI. It announces three passes, supports no metric whose name begins with "no", and derives each value from the range's
/// number.
mod fake {
    use super::*;

    #[derive(Default)]
    pub struct Heard {
        pub calls: Vec<String>,
        pub passes: usize,
        pub ranges: usize,
        pub most: usize,
        /// The name of the call that the mock refuses, and the status that it returns.
        pub refused: Option<(&'static str, Status)>,
        pub replay: Option<(u32, u32)>,
    }

    thread_local! {
        pub static HEARD: RefCell<Heard> = RefCell::default();
    }

    pub fn heard<R>(f: impl FnOnce(&mut Heard) -> R) -> R {
        HEARD.with_borrow_mut(f)
    }

    pub const PASSES: usize = 3;
    const HOST: usize = 0x1230;
    const TARGET: usize = 0x4560;

    fn note(call: &'static str) -> Status {
        heard(|h| {
            h.calls.push(call.into());
            h.refused.filter(|(which, _)| *which == call).map_or(0, |(_, status)| status)
        })
    }

    pub fn library() -> Profiler {
        let calls = ProfilerCalls {
            result_string,
            initialize,
            deinitialize,
            supported,
            chip_name,
            host_initialize,
            host_deinitialize,
            add_metrics,
            image_size,
            image,
            passes,
            evaluate,
            enable,
            disable,
            data_size,
            data_initialize,
            set_config,
            start,
            stop,
            push,
            pop,
            decode,
            data_info,
        };
        Profiler { calls, _files: Vec::new(), path: "fake".into() }
    }

    unsafe extern "C" fn result_string(_: Status, text: *mut *const c_char) -> Status {
        // SAFETY: the caller passes a pointer to a live pointer.
        unsafe { text.write(c"CUPTI_ERROR_OF_A_TEST".as_ptr()) };
        0
    }
    unsafe extern "C" fn initialize(_: *mut Nothing) -> Status {
        note("initialize")
    }
    unsafe extern "C" fn deinitialize(_: *mut Nothing) -> Status {
        note("deinitialize")
    }
    /// Declares a mock function that writes one field.
    macro_rules! function {
        ($name:ident, $params:ident, |$p:ident| $body:block) => {
            unsafe extern "C" fn $name($p: *mut $params) -> Status {
                // SAFETY: the caller passes a pointer to a live parameter struct that nothing else uses.
                let $p = unsafe { &mut *$p };
                let status = note(stringify!($name));
                if status == 0 {
                    $body
                }
                status
            }
        };
    }
    function!(supported, Supported, |p| {
        (p.supported, p.architecture, p.sli, p.virtual_gpu) = (1, 3, 3, 2);
        (p.confidential, p.mining, p.wsl) = (3, 3, 3);
    });
    function!(chip_name, ChipName, |p| {
        p.name = if p.index == 0 { c"GH100".as_ptr() } else { std::ptr::null() };
    });
    function!(host_initialize, HostInitialize, |p| {
        assert_eq!(p.kind, 0, "the range profiler");
        p.host = HOST as *mut _;
    });
    function!(host_deinitialize, Object, |p| {
        assert_eq!(p.object as usize, HOST);
    });
    unsafe extern "C" fn add_metrics(p: *mut AddMetrics) -> Status {
        // SAFETY: the caller passes a live struct with `count` names.
        unsafe {
            let p = &*p;
            assert_eq!(p.host as usize, HOST);
            let names = std::slice::from_raw_parts(p.names, p.count);
            let unknown = names.iter().any(|n| CStr::from_ptr(*n).to_bytes().starts_with(b"no"));
            if unknown { 17 } else { note("add_metrics") }
        }
    }
    function!(image_size, ImageSize, |p| {
        p.bytes = 13;
    });
    function!(image, Image, |p| {
        assert!(p.bytes == 13 && p.image.addr().is_multiple_of(8));
        // SAFETY: `image` points to 13 bytes, as the assertion above checks.
        unsafe { p.image.write_bytes(7, 13) };
    });
    function!(passes, Passes, |p| {
        // SAFETY: `image` points to 13 bytes, so byte 12 exists.
        assert_eq!((p.bytes, unsafe { *p.image.add(12) }), (13, 7));
        p.passes = PASSES;
    });
    function!(enable, Enable, |p| {
        assert_eq!(p.context as usize, 0x99);
        p.object = TARGET as *mut _;
    });
    function!(disable, Object, |p| {
        assert_eq!(p.object as usize, TARGET);
    });
    function!(data_size, DataSize, |p| {
        heard(|h| h.most = p.ranges);
        assert_eq!(p.nodes as usize, p.ranges);
        p.bytes = 64;
    });
    function!(data_initialize, DataInitialize, |p| {
        assert!(p.bytes == 64 && p.data.addr().is_multiple_of(8));
    });
    function!(set_config, SetConfig, |p| {
        assert_eq!((p.image_bytes, p.data_bytes, p.levels, p.least_level, p.target_level), (13, 64, 1, 1, 1));
        heard(|h| (h.replay, h.most) = (Some((p.range, p.replay)), p.ranges_a_pass));
    });
    function!(start, Object, |p| {
        assert_eq!(p.object as usize, TARGET);
        heard(|h| h.ranges = 0);
    });
    function!(push, Push, |p| {
        assert!(!p.name.is_null());
    });
    function!(pop, Object, |p| {
        assert_eq!(p.object as usize, TARGET);
        heard(|h| h.ranges = 1);
    });
    function!(stop, Stop, |p| {
        p.all_submitted = heard(|h| {
            h.passes += 1;
            u8::from(h.passes == PASSES)
        });
    });
    function!(decode, Decode, |p| {
        p.dropped = 2;
    });
    function!(data_info, DataInfo, |p| {
        p.ranges = heard(|h| h.ranges);
    });
    function!(evaluate, Evaluate, |p| {
        for i in 0..p.count {
            // SAFETY: `values` points to `count` values.
            unsafe { p.values.add(i).write((100 * p.range + i) as f64) };
        }
    });
}

/// Runs a collection with the mock; the program queues two kernels in each pass.
fn collected(ranges: Ranges, fail: bool) -> (Result<Collected>, Vec<String>) {
    fake::heard(|h| *h = fake::Heard { refused: h.refused, ..fake::Heard::default() });
    let library = fake::library();
    let metrics = ["a".to_owned(), "b".to_owned()];
    let pass = |step| {
        fake::heard(|h| {
            h.calls.push(format!("{step:?}"));
            if step == Step::Run && ranges == Ranges::Kernels {
                h.ranges = 2;
            }
        });
        if fail { Err(Error::NoDriver) } else { Ok(()) }
    };
    // SAFETY: the mock library never uses the context.
    let found = unsafe { collect(&library, (c"GH100", 0x99 as *mut _), (&metrics, ranges, 8), pass) };
    (found, fake::heard(|h| std::mem::take(&mut h.calls)))
}

#[test]
fn a_program_runs_once_a_pass_and_each_kernel_has_its_values() {
    let (found, calls) = collected(Ranges::Kernels, false);
    let expect = Collected { values: vec![vec![0.0, 1.0], vec![100.0, 101.0]], passes: 3, dropped: 2 };
    assert_eq!(found.unwrap(), expect);
    let order = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    let pass = ["Before", "start", "Run", "stop"];
    let mut all = order(&["host_initialize", "add_metrics", "image_size", "image", "passes", "enable"]);
    all.extend(order(&["data_size", "data_initialize", "set_config"]));
    all.extend((0..3).flat_map(|_| order(&pass)));
    all.extend(order(&["decode", "data_info", "disable", "evaluate", "evaluate", "host_deinitialize"]));
    assert_eq!(calls, all);
    assert_eq!(fake::heard(|h| (h.replay, h.most)), (Some((1, 3)), 8), "kernels, replayed by the program");

    let (found, calls) = collected(Ranges::Whole, false);
    assert_eq!(found.unwrap().values, [[0.0, 1.0]]);
    assert_eq!(calls.iter().filter(|c| *c == "push").count(), 3);
    assert_eq!(fake::heard(|h| h.replay), Some((2, 3)));
}

#[test]
fn whatever_fails_all_is_ended_again() {
    let (found, calls) = collected(Ranges::Whole, true);
    assert!(matches!(found, Err(Error::NoDriver)), "{found:?}");
    assert!(calls.ends_with(&["Before", "disable", "host_deinitialize"].map(str::to_owned)), "{calls:?}");
    for (which, status, words) in [
        ("enable", 35, "NVreg_RestrictProfilingToAdminUsers=0"),
        ("start", 40, "--cap-add=SYS_ADMIN"),
        ("set_config", 39, "ncu, nsys"),
        ("start", 26, "DCGM"),
        ("host_initialize", 46, "install a later one"),
        ("host_initialize", 15, "libnvperf_host.so"),
        ("decode", 999, "asked for what was counted, says CUPTI_ERROR_OF_A_TEST"),
    ] {
        fake::heard(|h| h.refused = Some((which, status)));
        let (found, calls) = collected(Ranges::Kernels, false);
        let said = found.unwrap_err().to_string();
        assert!(said.starts_with("Hardware counters cannot be read") && said.contains(words), "{said}");
        let count = |name: &str| calls.iter().filter(|c| *c == name).count();
        let is_first = |name: &str| which == name;
        assert_eq!(count("disable") + usize::from(is_first("enable")), count("enable"), "{which}: {calls:?}");
        let made = count("host_initialize") - usize::from(is_first("host_initialize"));
        assert_eq!(count("host_deinitialize"), made, "{which}: {calls:?}");
    }
    fake::heard(|h| h.refused = None);
}

#[test]
fn metrics_that_a_chip_lacks_are_left_out_and_a_device_says_what_it_lacks() {
    let library = fake::library();
    assert_eq!(library.known(c"GH100", &["a", "no such", "b"]).unwrap(), ["a", "b"]);
    let said = library.ensure_supported(0).unwrap_err().to_string();
    assert!(said.contains("virtual GPU"), "{said}");
    assert_eq!(library.chip(0).unwrap().to_bytes(), b"GH100");
    assert!(library.chip(1).unwrap_err().to_string().contains("no name of this chip"));
}

#[test]
fn there_is_one_collection_at_a_time() {
    // Another test may be recording at the same time.
    let begun = std::time::Instant::now();
    let only = loop {
        match Only::claim() {
            Ok(only) => break only,
            Err(why) if why.to_string().contains("a recorder") && begun.elapsed().as_secs() < 30 => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            Err(why) => panic!("{why}"),
        }
    };
    let second = Only::claim().unwrap_err().to_string();
    assert!(second.contains("is active in this process"), "{second}");
    drop(only);
    assert!(!COLLECTING.load(std::sync::atomic::Ordering::SeqCst));
}

/// Tests the real library, which needs no GPU for this check.
#[test]
fn the_library_has_these_metrics_of_hopper() {
    let test = "the_library_has_these_metrics_of_hopper";
    match Recorder::find(None) {
        Ok(_) => {}
        Err(why) => return testing::skip(test, "needs CUPTI, which is installed for a GPU", why),
    }
    let (known, passes) = match counter_passes("GH100", &SOME) {
        Ok(found) => found,
        Err(why) => return testing::skip(test, "needs CUPTI of CUDA 12.6 or later, which is installed for a GPU", why),
    };
    assert_eq!(known, SOME);
    assert!((1..=8).contains(&passes), "{passes}");
    let (some, _) = counter_passes("GH100", &[SOME[0], "no__such_metric.sum"]).unwrap();
    assert_eq!(some, [SOME[0]]);
    assert_eq!(counter_passes("GH100", &["no__such_metric.sum"]).unwrap(), (Vec::new(), 0));
    let unknown = counter_passes("no chip", &SOME).unwrap_err().to_string();
    assert!(unknown.contains("Hardware counters cannot be read"), "{unknown}");
}
