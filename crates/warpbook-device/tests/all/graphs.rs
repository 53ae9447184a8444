//! Tests on a real GPU what graphs capture, what they own, and how they are described.

use crate::common::{axpy, kernel};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use warpbook_device::{Arena, Buffer, CudaDevice, Error, Event, Graph, Kernel, Pinned, Slice, Stream, testing};

const N: usize = 1000;

/// The arrays and kernels of one step.
struct Step {
    axpy: Kernel,
    input: Pinned<f32>,
    output: Pinned<f32>,
    /// The device arrays, which are slices of an arena.
    x: Slice<f32>,
    y: Slice<f32>,
    z: Buffer<f32>,
    copy: Buffer<f32>,
    side: Stream,
    fork: Event,
    join: Event,
}

impl Step {
    fn new(device: &CudaDevice) -> Self {
        let arena = Arena::new(device, 3 * 4 * N).unwrap();
        Self {
            axpy: kernel(device, "axpy", 128),
            input: device.pinned(N).unwrap(),
            output: device.pinned(N).unwrap(),
            x: arena.slice(N).unwrap(),
            y: arena.slice(N).unwrap(),
            z: device.zeros(N).unwrap(),
            copy: device.zeros(N).unwrap(),
            side: device.stream().unwrap(),
            fork: device.event().unwrap(),
            join: device.event().unwrap(),
        }
    }

    /// Queues output = 4 input + 2. First y = input and z = 2 + 3 input are computed in parallel, then z is added to y.
    fn queue(&self, main: &Stream) -> Result<(), Error> {
        main.copy_to_device(&self.input, &self.x)?;
        self.fork.record(main)?;
        self.side.wait(&self.fork)?;
        self.side.fill_value(&self.z, 2.0)?;
        axpy(&self.axpy, &self.side, &self.z, &self.x, 3.0)?;
        self.join.record(&self.side)?;
        main.fill(&self.y, 0)?;
        axpy(&self.axpy, main, &self.y, &self.x, 1.0)?;
        main.wait(&self.join)?;
        axpy(&self.axpy, main, &self.y, &self.z, 1.0)?;
        main.copy(&self.y, &self.copy)?;
        main.copy_to_host(&self.copy, &self.output)
    }
}

#[test]
fn fills_copies_and_kernels_on_two_streams_are_replayed() {
    let Some(device) = testing::gpu("fills_copies_and_kernels_on_two_streams_are_replayed") else { return };
    let stream = device.stream().unwrap();
    let step = Step::new(&device);
    let (input, output) = (step.input.clone(), step.output.clone());
    let graph = stream.capture_owning("step", step, |step| step.queue(&stream)).unwrap();
    assert_eq!(graph.nodes(), 8, "a copy in, two fills, three kernels, a copy and a copy out");
    assert!(output.read().unwrap().iter().all(|v| *v == 0.0), "nothing has run yet");
    for round in 0..5 {
        let value = |i: usize| (i * 7 + round) as f32;
        input.write().unwrap().iter_mut().enumerate().for_each(|(i, v)| *v = value(i));
        graph.launch(&stream).unwrap();
        let read = output.read().unwrap();
        assert!((0..N).all(|i| read[i] == 4.0 * value(i) + 2.0), "round {round}: {:?}", &read[..4]);
    }
    // The same work is then queued without a graph.
    let step = graph.resources::<Step>().unwrap();
    input.write().unwrap().fill(1.0);
    step.queue(&stream).unwrap();
    assert!(output.read().unwrap().iter().all(|v| *v == 6.0));
}

#[test]
fn a_graph_owns_what_it_replays() {
    let Some(device) = testing::gpu("a_graph_owns_what_it_replays") else { return };
    let stream = device.stream().unwrap();
    // The graph is given no resources, but it must keep the arrays of the queued work.
    let result = device.pinned::<f32>(N).unwrap();
    let graph = {
        let (axpy_kernel, arena) = (kernel(&device, "axpy", 128), Arena::new(&device, 1 << 20).unwrap());
        let (x, y) = (arena.slice::<f32>(N).unwrap(), device.zeros::<f32>(N).unwrap());
        let host = device.pinned_from(&[0.5; N]).unwrap();
        let queue = |(): &()| {
            stream.copy_to_device(&host, &x)?;
            axpy(&axpy_kernel, &stream, &y, &x, 2.0)?;
            stream.copy_to_host(&y, &result)
        };
        stream.capture_owning("accumulate", (), queue).unwrap()
    };
    assert_eq!((device.allocated(), device.loaded_modules()), ((1 << 20) + 4 * N as u64, 1));
    // If the graph used freed memory, these new arrays would be overwritten.
    let others: Vec<_> = (0..8).map(|_| device.zeros::<f32>(N).unwrap()).collect();
    for round in 1..=3 {
        graph.launch(&stream).unwrap();
        assert!(result.read().unwrap().iter().all(|v| *v == round as f32), "round {round}");
    }
    assert!(others.iter().all(|o| o.to_vec().unwrap().iter().all(|v| *v == 0.0)));
    drop(others);
    graph.launch(&stream).unwrap();
    // The graph is dropped while it is running.
    drop(graph);
    assert_eq!((device.allocated(), device.loaded_modules()), (0, 0));
    assert!(result.read().unwrap().iter().all(|v| *v == 4.0));
    stream.synchronize().unwrap();
}

#[test]
fn a_graph_is_not_launched_into_memory_that_the_host_has_borrowed() {
    let Some(device) = testing::gpu("a_graph_is_not_launched_into_memory_that_the_host_has_borrowed") else { return };
    let stream = device.stream().unwrap();
    let (step, other) = (Step::new(&device), device.stream().unwrap());
    let (input, output) = (step.input.clone(), step.output.clone());
    // Capturing the graph is allowed while the output is borrowed, because nothing is copied at that time.
    let reading = output.read().unwrap();
    let graph = stream.capture_owning("step", step, |step| step.queue(&stream)).unwrap();
    let refused = graph.launch(&stream).unwrap_err();
    assert!(matches!(refused, Error::PinnedInUse { loan: "read", .. }), "{refused}");
    drop(reading);
    let writing = input.write().unwrap();
    assert!(matches!(graph.launch(&stream), Err(Error::PinnedInUse { loan: "write", .. })));
    drop(writing);
    let reading = input.read().unwrap();
    graph.launch(&stream).unwrap();
    graph.launch(&other).unwrap();
    assert_eq!(reading[0], 0.0);
    drop(reading);
    assert!(output.read().unwrap().iter().all(|v| *v == 2.0));
}

#[test]
fn a_graph_is_not_launched_into_a_capture() {
    let Some(device) = testing::gpu("a_graph_is_not_launched_into_a_capture") else { return };
    let stream = device.stream().unwrap();
    let step = Step::new(&device);
    let (input, output) = (step.input.clone(), step.output.clone());
    let inner = stream.capture_owning("step", step, |step| step.queue(&stream)).unwrap();
    let refused = stream.capture_owning("outer", (), |()| inner.launch(&stream)).unwrap_err().to_string();
    assert!(refused.contains("step") && refused.contains("during a capture"), "{refused}");
    // The refused launch does not invalidate the capture.
    input.write().unwrap().fill(3.0);
    inner.launch(&stream).unwrap();
    assert!(output.read().unwrap().iter().all(|v| *v == 14.0));
}

#[test]
fn a_graph_has_a_name_and_a_launch_that_is_refused_tells_it() {
    let Some(device) = testing::gpu("a_graph_has_a_name_and_a_launch_that_is_refused_tells_it") else { return };
    let stream = device.stream().unwrap();
    let step = Step::new(&device);
    let graph = stream.capture_owning("step", step, |step| step.queue(&stream)).unwrap();
    assert_eq!((graph.name(), graph.kernels().collect::<Vec<_>>()), ("step", vec!["axpy in live/memory.cu"]));
    assert!(graph.resources::<Step>().is_some() && graph.resources::<u32>().is_none());
    // Waiting for a stream that is being captured invalidates the capture, so every later operation is refused.
    let mut refused = None;
    let failed = stream.capture_owning("outer", (), |()| {
        assert!(stream.synchronize().is_err());
        refused = graph.launch(&stream).err();
        Ok(())
    });
    assert!(failed.is_err());
    let error = refused.unwrap();
    assert!(matches!(&error, Error::Graph { graph, sticky: false, .. } if graph == "step"), "{error}");
    assert!(error.to_string().contains("`step`, which launches axpy in live/memory.cu, failed"), "{error}");
    graph.launch(&stream).unwrap();
    stream.synchronize().unwrap();

    // SAFETY: nothing is captured, so the graph accesses no memory.
    let empty: Graph = unsafe { stream.capture(|| Ok(())) }.unwrap();
    assert_eq!((empty.name(), empty.nodes()), ("unnamed", 0));
    assert_eq!(empty.named("nothing").name(), "nothing");
}

#[test]
fn a_graph_that_does_not_end_in_time_is_named_before_it_ends() {
    let Some(device) = testing::gpu("a_graph_that_does_not_end_in_time_is_named_before_it_ends") else { return };
    let (stream, late, y) = (device.stream().unwrap(), kernel(&device, "late", 32), device.zeros::<f32>(1).unwrap());
    // The kernel takes several seconds; the test stops waiting and gives up the device long before that.
    let cycles = 4_000_000_000i64;
    let queue = |y: &Buffer<f32>| {
        // SAFETY: the arguments match `late(y, value, cycles)`; y has one element, and the graph owns y.
        unsafe { late.launch(&stream, late.shape(1), &[y, &1.0f32, &cycles]) }
    };
    let graph = stream.capture_owning("slow", y, queue).unwrap();
    graph.launch(&stream).unwrap();
    let error = stream.synchronize_within(0.05).unwrap_err();
    let words = error.to_string();
    assert!(matches!(error, Error::StillRunning { .. }), "{words}");
    assert!(
        words.contains("The kernel in the graph `slow`, which launches late in live/memory.cu, was still"),
        "{words}"
    );
}

#[test]
fn a_capture_ends_where_its_work_panics_or_is_not_joined() {
    let Some(device) = testing::gpu("a_capture_ends_where_its_work_panics_or_is_not_joined") else { return };
    let stream = device.stream().unwrap();
    let step = Step::new(&device);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        stream.capture_owning("panics", (), |()| {
            step.queue(&stream).unwrap();
            panic!("as work may")
        })
    }));
    assert!(panicked.is_err());
    let unjoined = stream.capture_owning("unjoined", (), |()| {
        step.fork.record(&stream)?;
        step.side.wait(&step.fork)?;
        step.side.fill(&step.y, 1)
    });
    assert!(unjoined.is_err());
    // After the failed captures, both streams run newly queued work as before.
    step.input.write().unwrap().fill(1.0);
    step.queue(&stream).unwrap();
    assert!(step.output.read().unwrap().iter().all(|v| *v == 6.0));
    assert_eq!(device.allocated(), 5 * 4 * N as u64, "nothing is allocated but by the step");
    drop(step);
    assert_eq!(device.allocated(), 0, "nothing is kept by captures that failed");
}

#[test]
fn memory_may_be_freed_during_a_capture() {
    let Some(device) = testing::gpu("memory_may_be_freed_during_a_capture") else { return };
    let stream = device.stream().unwrap();
    let (large, y) = (device.zeros::<u8>(1 << 30).unwrap(), device.zeros::<f32>(4).unwrap());
    let (host, module) = (device.pinned::<f32>(4).unwrap(), kernel(&device, "late", 32));
    let before = device.memory().unwrap().0;
    let graph = stream.capture_owning("frees", (), |()| {
        stream.fill_value(&y, 1.0)?;
        drop(large);
        drop(host);
        drop(module);
        stream.fill_value(&y.range(1..), 2.0)
    });
    let graph = graph.unwrap();
    assert!(device.memory().unwrap().0 > before + (1 << 29), "a GiB was given back");
    graph.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(y.to_vec().unwrap(), [1.0, 2.0, 2.0, 2.0]);
}

#[test]
fn captures_and_work_on_other_threads_do_not_meet() {
    let Some(device) = testing::gpu("captures_and_work_on_other_threads_do_not_meet") else { return };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..3u32 {
            let (device, done) = (&device, &done);
            scope.spawn(move || {
                let (stream, y) = (device.stream().unwrap(), device.zeros::<u32>(64).unwrap());
                let host = device.pinned::<u32>(64).unwrap();
                for round in 0.. {
                    let value = round * 3 + seed;
                    stream.fill_value(&y, value).unwrap();
                    stream.copy_to_host(&y, &host).unwrap();
                    assert!(host.read().unwrap().iter().all(|v| *v == value), "work of another thread was captured");
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let stream = device.stream().unwrap();
        let step = Step::new(&device);
        for round in 0..50 {
            let graph = stream.capture_owning("step", (), |()| step.queue(&stream)).unwrap();
            assert_eq!(graph.nodes(), 8);
            step.input.write().unwrap().fill(round as f32);
            graph.launch(&stream).unwrap();
            assert!(step.output.read().unwrap().iter().all(|v| *v == 4.0 * round as f32 + 2.0));
        }
        done.store(true, Ordering::Relaxed);
    });
}
