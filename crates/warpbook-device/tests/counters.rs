//! Tests hardware counters on a real GPU, if its driver lets this user read them.

mod common;

use common::{axpy, kernel};
use std::sync::Mutex;
use warpbook_device::{Counted, Counters, CudaDevice, Error, Kernel, Recorder, Slice, Stream, testing};

/// A lock that every test takes, because a process can have only one reader of counters at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Number of elements in an array: 64 MiB, more than fits into any L2.
const N: usize = 1 << 24;
const TIME: &str = "gpu__time_duration.sum";
const READ: &str = "dram__bytes_read.sum";
const WRITTEN: &str = "dram__bytes_write.sum";
const L2: &str = "lts__t_bytes.sum";
const SECTORS: &str = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum";
const REQUESTS: &str = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum";
const FFMA: &str = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum";
const ISSUE: &str = "smsp__issue_active.avg.pct_of_peak_sustained_active";
const TENSOR: &str = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active";
const STALLED: &str = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio";
const ALL: [&str; 10] = [TIME, READ, WRITTEN, L2, SECTORS, REQUESTS, FFMA, ISSUE, TENSOR, STALLED];

/// Returns counters, or `None` if the machine does not let this process read them. In that case, the error must suggest
/// a remedy.
fn counters(test: &str, device: &CudaDevice) -> Option<Counters> {
    if let Err(why) = Recorder::find(Some(device.driver_cuda())) {
        testing::skip(test, "needs CUPTI", why);
        return None;
    }
    match Counters::open(device) {
        Ok(counters) => {
            println!("CUPTI {} at {}, {}", counters.version(), counters.path().display(), counters.chip());
            Some(counters)
        }
        Err(why) => {
            not_let(&why);
            None
        }
    }
}

/// Checks that an error is due to the machine: missing permissions, a virtual GPU or another reader. Any other error is
/// a bug in this crate.
fn not_let(why: &Error) {
    let said = why.to_string();
    let known =
        ["ERR_NVGPUCTRPERM", "another process, such as DCGM", "virtual GPU", "confidential computing", "CUDA 12.6"];
    assert!(known.iter().any(|k| said.contains(k)), "{said}");
    println!("not counted: {said}");
}

struct Work {
    axpy: Kernel,
    late: Kernel,
    x: Slice<f32>,
    y: Slice<f32>,
    stream: Stream,
}

impl Work {
    fn new(device: &CudaDevice) -> Self {
        let array = || device.zeros::<f32>(N).unwrap().range(..);
        let (axpy, late) = (kernel(device, "axpy", 256), kernel(device, "late", 64));
        Self { axpy, late, x: array(), y: array(), stream: device.stream().unwrap() }
    }

    fn axpy(&self) -> warpbook_device::Result<()> {
        axpy(&self.axpy, &self.stream, &self.y, &self.x, 2.0)
    }

    fn late(&self) -> warpbook_device::Result<()> {
        // SAFETY: the arguments match `late(y, value, cycles)`, and y has at least one element; the run is waited for while `self` lives.
        unsafe { self.late.launch(&self.stream, self.late.shape(1), &[&self.y, &1.0f32, &50_000i64]) }
    }
}

fn value(counted: &Counted, kernel: usize, metric: &str) -> f64 {
    let place = counted.metrics.iter().position(|m| m == metric).unwrap_or_else(|| panic!("no {metric}: {counted:?}"));
    counted.values[kernel][place]
}

fn nothing() -> warpbook_device::Result<()> {
    Ok(())
}

#[test]
fn kernels_are_counted_one_by_one() {
    let _one = ONE.lock();
    let test = "kernels_are_counted_one_by_one";
    let Some(device) = testing::gpu(test) else { return };
    let work = Work::new(&device);
    let Some(counters) = counters(test, &device) else { return };
    let counted = counters.of_kernels(&ALL, nothing, || work.axpy().and_then(|()| work.late()));
    let counted = match counted {
        Ok(counted) => counted,
        Err(why) => return not_let(&why),
    };
    println!("{counted:#?}");
    assert_eq!((counted.values.len(), counted.dropped), (2, 0));
    assert!((1..=32).contains(&counted.passes));
    let mib = |metric| value(&counted, 0, metric) / (1 << 20) as f64;
    // The kernel reads 128 MiB and writes 64 MiB, minus the part that is still in L2 from the previous pass.
    assert!((40.0..=170.0).contains(&mib(READ)), "{} MiB read", mib(READ));
    assert!((5.0..=120.0).contains(&mib(WRITTEN)), "{} MiB written", mib(WRITTEN));
    if counted.metrics.iter().any(|m| m == L2) {
        assert!((150.0..=500.0).contains(&mib(L2)), "{} MiB of L2", mib(L2));
    }
    let sectors = value(&counted, 0, SECTORS) / value(&counted, 0, REQUESTS);
    assert!((3.9..=4.1).contains(&sectors), "{sectors} sectors a request: a warp reads 128 bytes in a row");
    assert_eq!(value(&counted, 0, FFMA), N as f64, "one for each element");
    assert!((0.0..=100.0).contains(&value(&counted, 0, ISSUE)) && value(&counted, 0, ISSUE) > 0.0);
    assert_eq!(value(&counted, 0, TENSOR), 0.0);
    assert!(value(&counted, 0, STALLED) > 1.0, "a kernel that does nothing but read waits for memory");
    // On any GPU, transferring 192 MiB takes more than 20 us and less than 10 ms.
    assert!((20e3..10e6).contains(&value(&counted, 0, TIME)), "{} ns", value(&counted, 0, TIME));
    assert_eq!(value(&counted, 1, FFMA), 0.0, "the kernel that waits multiplies nothing");
    // Counting works again after the first collection, and unknown metrics are left out.
    let again = counters.of_kernels(&[TIME, "no__such_metric.sum"], nothing, || work.axpy()).unwrap();
    assert_eq!((again.metrics.len(), again.values.len()), (1, 1));
    assert!(counters.of_kernels(&["no__such_metric.sum"], nothing, || work.axpy()).is_err());
    let refused = Recorder::start(&device).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(refused.contains("counters"), "no recorder next to it: {refused}");
    drop(counters);
    // Activity can be recorded again once the counters have been dropped.
    let recorder = Recorder::start(&device).unwrap();
    assert!(Counters::open(&device).unwrap_err().to_string().contains("a recorder"));
    work.axpy().unwrap();
    device.synchronize().unwrap();
    assert_eq!(recorder.finish().unwrap().activities.len(), 1);
}

#[test]
fn a_graph_is_counted_as_a_whole_and_an_error_ends_the_passes() {
    let _one = ONE.lock();
    let test = "a_graph_is_counted_as_a_whole_and_an_error_ends_the_passes";
    let Some(device) = testing::gpu(test) else { return };
    let work = Work::new(&device);
    let graph = {
        let owned = Work::new(&device);
        let stream = device.stream().unwrap();
        let queue =
            |w: &Work| axpy(&w.axpy, &stream, &w.y, &w.x, 2.0).and_then(|()| axpy(&w.axpy, &stream, &w.y, &w.x, 3.0));
        stream.capture_owning("two", owned, queue).unwrap()
    };
    let Some(counters) = counters(test, &device) else { return };
    let launch = || graph.launch(&work.stream);
    match counters.of_kernels(&[TIME, FFMA], nothing, launch) {
        Ok(counted) => println!("kernels of a graph: {counted:?}"),
        Err(why) => println!("kernels of a graph cannot be told apart: {why}"),
    }
    match counters.of_run(&[TIME, FFMA, READ], nothing, launch) {
        Ok(counted) => {
            println!("{counted:?}");
            assert_eq!(counted.values.len(), 1);
            assert_eq!(counted.metrics, [TIME, READ], "instructions are not counted in a graph");
            // Both kernels read x and y, which together are larger than L2.
            let read = value(&counted, 0, READ) / (16.0 * N as f64);
            assert!((0.5..1.5).contains(&read), "{read} of what both read");
        }
        Err(why) => not_let(&why),
    }
    let failed = counters.of_kernels(&[TIME], nothing, || Err(Error::Cancelled));
    assert!(matches!(failed, Err(Error::Cancelled)), "{failed:?}");
    match counters.of_kernels(&[TIME], nothing, || work.axpy()) {
        Ok(counted) => assert_eq!(counted.values.len(), 1),
        Err(why) => not_let(&why),
    }
}
