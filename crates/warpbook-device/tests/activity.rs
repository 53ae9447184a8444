//! Tests on a real GPU that CUPTI records kernels, copies and fills.

mod common;

use common::{axpy, kernel};
use std::sync::Mutex;
use warpbook_device::{Activity, ActivityKind, CudaDevice, Kernel, Recorder, Result, Slice, Stream, testing};

const N: usize = 1 << 20;
/// Number of cycles that the kernel `late` waits, about 50 us.
const CYCLES: i64 = 90_000;

/// A lock that every test takes, because a process can have only one recorder at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Returns a recorder. If CUPTI is missing, reports the test as skipped and returns `None`.
fn recorder(test: &str, device: &CudaDevice) -> Option<Recorder> {
    match Recorder::start(device) {
        Ok(recorder) => {
            println!("CUPTI {} at {}", recorder.version(), recorder.path().display());
            Some(recorder)
        }
        Err(why) => {
            testing::skip(test, "needs CUPTI", why);
            None
        }
    }
}

fn told(activities: &[Activity]) -> String {
    activities.iter().map(|a| format!("{a:?}\n")).collect()
}

fn late(kernel: &Kernel, stream: &Stream, y: &Slice<f32>, cycles: i64) -> Result<()> {
    // SAFETY: the arguments match `late(y, value, cycles)`, and y has at least one element; a graph that captures the launch owns y.
    unsafe { kernel.launch(stream, kernel.shape(1), &[y, &1.0f32, &cycles]) }
}

/// Queues three kernels, a fill and a copy; the kernel in the middle is slow.
struct Work {
    axpy: Kernel,
    late: Kernel,
    x: Slice<f32>,
    y: Slice<f32>,
}

impl Work {
    fn new(device: &CudaDevice) -> Self {
        let array = || device.zeros::<f32>(N).unwrap().range(..);
        Self { axpy: kernel(device, "axpy", 128), late: kernel(device, "late", 64), x: array(), y: array() }
    }

    fn queue(&self, stream: &Stream) -> Result<()> {
        stream.fill(&self.y, 0)?;
        axpy(&self.axpy, stream, &self.y, &self.x, 2.0)?;
        late(&self.late, stream, &self.y, CYCLES)?;
        axpy(&self.axpy, stream, &self.y, &self.x, 3.0)?;
        stream.copy(&self.y, &self.x)
    }
}

const REPLAYS: usize = 4;
const KERNELS: [&str; 3] = ["axpy", "late", "axpy"];

fn kernels(activities: &[Activity]) -> Vec<&Activity> {
    activities.iter().filter(|a| matches!(a.kind, ActivityKind::Kernel { .. })).collect()
}

/// Checks the recorded replays of the graph: all kernels of a replay must belong to the same launch.
fn check_replays(activities: &[Activity], event_us: f64) {
    // The driver may implement a graph's fill as a kernel of its own, which is ignored here.
    let kernels: Vec<&Activity> = kernels(activities).into_iter().filter(|a| KERNELS.contains(&&*a.name)).collect();
    assert_eq!(kernels.len(), REPLAYS * KERNELS.len(), "{}", told(activities));
    for replay in kernels.chunks(KERNELS.len()) {
        assert_eq!(replay.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), KERNELS, "{}", told(activities));
        assert!(replay.iter().all(|a| a.correlation == replay[0].correlation), "one launch: {}", told(activities));
        assert!(
            replay.iter().all(|a| a.graph.is_some_and(|g| g.0 == replay[0].graph.unwrap().0)),
            "{}",
            told(activities)
        );
        let nodes: Vec<u64> = replay.iter().map(|a| a.graph.unwrap().1).collect();
        println!("nodes {nodes:?}, in the order in which they were captured: {}", nodes.is_sorted());
        assert!(nodes[0] != nodes[1] && nodes[0] != nodes[2] && nodes[1] != nodes[2], "{nodes:?}");
        assert!(replay.windows(2).all(|w| w[0].end_ns() <= w[1].start_ns), "one stream: {}", told(activities));
        assert!(replay.iter().all(|a| a.duration_ns > 0), "{}", told(activities));
        assert!((20_000..1_000_000).contains(&replay[1].duration_ns), "{} ns", replay[1].duration_ns);
        let ActivityKind::Kernel { grid, block, registers, .. } = &replay[0].kind else { unreachable!() };
        assert_eq!((*grid, *block), ([(N / 128) as u32, 1, 1], [128, 1, 1]));
        assert!(*registers > 0);
    }
    let first = kernels.iter().map(|a| a.correlation).min();
    assert!(kernels.iter().filter(|a| Some(a.correlation) == first).count() == KERNELS.len(), "a number a launch");
    let sum_us = kernels.iter().map(|a| a.duration_ns as f64 / 1e3).sum::<f64>();
    assert!(sum_us <= event_us, "the kernels took {sum_us} us, the events {event_us} us");
    assert!(sum_us >= 0.2 * event_us, "the kernels took {sum_us} us, the events {event_us} us");
    let count = |wanted: fn(&ActivityKind) -> bool| activities.iter().filter(|a| wanted(&a.kind)).count();
    let copies = count(|k| *k == ActivityKind::Copy { bytes: 4 * N as u64 });
    assert_eq!(copies, REPLAYS, "{}", told(activities));
    assert!(count(|k| *k == ActivityKind::Fill { bytes: 4 * N as u64 }) <= REPLAYS);
}

/// Replays the graph once for warm-up, and then several times; returns the recorded activities of the latter, and their time
/// by events.
fn replay(
    device: &CudaDevice,
    stream: &Stream,
    graph: &warpbook_device::Graph,
    recorder: &Recorder,
) -> (Vec<Activity>, f64) {
    let [begin, end] = [device.event().unwrap(), device.event().unwrap()];
    graph.launch(stream).unwrap();
    stream.synchronize().unwrap();
    recorder.take().unwrap();
    begin.record(stream).unwrap();
    (0..REPLAYS).for_each(|_| graph.launch(stream).unwrap());
    end.record(stream).unwrap();
    stream.synchronize().unwrap();
    let recorded = recorder.take().unwrap();
    assert_eq!(recorded.lost, 0);
    (recorded.activities, begin.elapsed_us(&end).unwrap())
}

#[test]
fn a_graphs_kernels_are_recorded() {
    let _one = ONE.lock();
    let test = "a_graphs_kernels_are_recorded";
    let Some(device) = testing::gpu(test) else { return };
    let stream = device.stream().unwrap();
    let Some(recorder) = recorder(test, &device) else { return };
    let graph = stream.capture_owning("three", Work::new(&device), |w| w.queue(&stream)).unwrap();
    let (activities, event_us) = replay(&device, &stream, &graph, &recorder);
    check_replays(&activities, event_us);
    drop(recorder);

    // This time, the graph was captured before the recorder began.
    let Some(recorder) = self::recorder(test, &device) else { return };
    let (activities, event_us) = replay(&device, &stream, &graph, &recorder);
    println!("captured before the recorder began:\n{}", told(&activities));
    check_replays(&activities, event_us);
    drop(recorder);

    // Nothing is recorded while there is no recorder.
    graph.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    let recorder = self::recorder(test, &device).unwrap();
    assert_eq!(recorder.finish().unwrap().activities, []);
}

#[test]
fn two_streams_overlap() {
    let _one = ONE.lock();
    let test = "two_streams_overlap of activities";
    let Some(device) = testing::gpu(test) else { return };
    let [a, b] = [device.stream().unwrap(), device.stream().unwrap()];
    let work = Work::new(&device);
    let cell = device.zeros::<f32>(1).unwrap().range(..);
    for stream in [&a, &b] {
        late(&work.late, stream, &cell, 1).unwrap();
        stream.synchronize().unwrap();
    }
    // If other programs use the GPU or the CPU, the second launch may be late, so longer kernels are tried until the two
    // overlap.
    let mut cycles = 20 * CYCLES;
    loop {
        let Some(recorder) = recorder(test, &device) else { return };
        for stream in [&a, &b] {
            late(&work.late, stream, &cell, cycles).unwrap();
        }
        a.synchronize().unwrap();
        b.synchronize().unwrap();
        let recorded = recorder.finish().unwrap();
        let [first, second] = kernels(&recorded.activities)[..] else { panic!("{}", told(&recorded.activities)) };
        assert!(first.stream != second.stream, "{}", told(&recorded.activities));
        assert_eq!((first.graph, second.graph), (None, None));
        assert!(second.correlation > first.correlation);
        if second.start_ns < first.end_ns() {
            return;
        }
        assert!(cycles < 2000 * CYCLES, "they do not overlap: {}", told(&recorded.activities));
        cycles *= 5;
    }
}

/// The driver may load a kernel at the address of an unloaded one, for which CUPTI would still report the old name.
#[test]
fn kernels_of_modules_that_are_dropped_do_not_name_others() {
    let _one = ONE.lock();
    let test = "kernels_of_modules_that_are_dropped_do_not_name_others";
    let Some(device) = testing::gpu(test) else { return };
    let Some(first) = recorder(test, &device) else { return };
    named_right(&device, &first, 32);
    drop(first);
    // Kernels that existed only between two recorders must not cause wrong names either.
    let stream = device.stream().unwrap();
    let cell = device.zeros::<f32>(1).unwrap().range(..);
    late(&kernel(&device, "late", 96), &stream, &cell, 10).unwrap();
    stream.synchronize().unwrap();
    named_right(&device, &recorder(test, &device).unwrap(), 48);
}

/// Launches kernels that are dropped immediately, with at least `threads` threads per block, and checks the recorded names.
fn named_right(device: &CudaDevice, recorder: &Recorder, threads: i64) {
    let before = device.loaded_modules();
    let stream = device.stream().unwrap();
    let (x, y) = (device.zeros::<f32>(N).unwrap().range(..), device.zeros::<f32>(N).unwrap().range(..));
    for round in 0..5 {
        for name in [["axpy", "late"], ["late", "axpy"]][round % 2] {
            // The code differs each time, and only this kernel keeps it loaded.
            let kernel = kernel(device, name, threads << round);
            match name {
                "axpy" => axpy(&kernel, &stream, &y, &x, 2.0),
                _ => late(&kernel, &stream, &y, 10),
            }
            .unwrap();
            stream.synchronize().unwrap();
            drop(kernel);
            let taken = recorder.take().unwrap();
            let names: Vec<&str> = kernels(&taken.activities).iter().map(|a| a.name.as_str()).collect();
            assert_eq!(names, [name], "round {round}: {}", told(&taken.activities));
        }
    }
    assert_eq!(device.loaded_modules(), before);
}
