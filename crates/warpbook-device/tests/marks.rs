//! Tests on a real GPU that events time parts of a program, and that changes of memory are recorded.

mod common;

use common::{axpy, kernel};
use warpbook_device::{EventTimes, Pool, testing};

/// Number of cycles of a kernel, about a tenth of a millisecond.
const CYCLES: i64 = 180_000;

#[test]
fn a_part_has_the_time_of_what_it_queued_on_each_stream() {
    let Some(device) = testing::gpu("a_part_has_the_time_of_what_it_queued_on_each_stream") else { return };
    let late = kernel(&device, "late", 64);
    let [a, b, idle] = [(); 3].map(|()| device.stream().unwrap());
    let cell = device.zeros::<f32>(1).unwrap().range(..);
    let queue = |stream: &warpbook_device::Stream, times: i64| {
        // SAFETY: the arguments match `late(y, value, cycles)`; y has one element, and lives until the device has been waited for.
        unsafe { late.launch(stream, late.shape(1), &[&cell, &1.0f32, &(times * CYCLES)]) }.unwrap();
    };
    queue(&a, 1);
    device.synchronize().unwrap();
    let times = EventTimes::start(&device).unwrap();
    let begin = times.snapshot().unwrap();
    queue(&a, 4);
    let middle = times.snapshot().unwrap();
    queue(&b, 1);
    let made_meanwhile = device.stream().unwrap();
    queue(&made_meanwhile, 1);
    let end = times.snapshot().unwrap();
    device.synchronize().unwrap();
    let first = times.between(&begin, &middle).unwrap();
    let [of_a] = first[..] else { panic!("only one stream had work: {first:?}") };
    assert_eq!(of_a.queued, 1);
    // The kernel takes 720000 cycles at 0.5 to 4 GHz, plus the time of an event.
    assert!((150.0..2500.0).contains(&of_a.duration_us), "{of_a:?}");
    assert!(of_a.start_us >= 0.0 && of_a.start_us < 1e6, "{of_a:?}");
    let second = times.between(&middle, &end).unwrap();
    assert_eq!(second.len(), 2, "two streams, one of which is new: {second:?}");
    assert!(second.iter().all(|t| t.queued == 1 && t.duration_us > 30.0), "{second:?}");
    let whole = times.between(&begin, &end).unwrap();
    assert_eq!(whole.len(), 3, "{whole:?}");
    drop(idle);
    // A copy that the host waits for runs on a hidden stream.
    let begin = times.snapshot().unwrap();
    cell.write(&[1.0]).unwrap();
    let end = times.snapshot().unwrap();
    device.synchronize().unwrap();
    let copy = times.between(&begin, &end).unwrap();
    assert!(copy.len() == 1 && copy[0].stream == u64::MAX, "{copy:?}");
}

#[test]
fn a_stream_that_is_captured_has_no_event_and_stays_so() {
    let Some(device) = testing::gpu("a_stream_that_is_captured_has_no_event_and_stays_so") else { return };
    let stream = device.stream().unwrap();
    let array = || device.zeros::<f32>(1 << 20).unwrap().range(..);
    let owned = (kernel(&device, "axpy", 256), array(), array());
    let times = EventTimes::start(&device).unwrap();
    let graph = stream.capture_owning("axpy", owned, |(add, y, x)| {
        let begin = times.snapshot()?;
        axpy(add, &stream, y, x, 2.0)?;
        let end = times.snapshot()?;
        assert_eq!(times.between(&begin, &end)?, [], "the stream has no event");
        Ok(())
    });
    let graph = graph.unwrap();
    let begin = times.snapshot().unwrap();
    graph.launch(&stream).unwrap();
    let end = times.snapshot().unwrap();
    device.synchronize().unwrap();
    let launched = times.between(&begin, &end).unwrap();
    assert!(launched.len() == 1 && launched[0].duration_us > 0.0, "{launched:?}");
}

#[test]
fn allocations_are_told_as_they_are_made() {
    let Some(device) = testing::gpu("allocations_are_told_as_they_are_made") else { return };
    let watch = device.watch_memory();
    let before = watch.take()[0];
    let array = device.zeros::<f32>(1000).unwrap();
    let pool = Pool::new(&device);
    let pooled = pool.array::<f32>(1000).unwrap();
    drop(pooled);
    drop(pool);
    drop(array);
    // Other tests in this process also allocate memory, but on device objects of their own.
    let told: Vec<(i64, bool)> = watch.take().iter().map(|p| (p.change, p.of_pool)).collect();
    let segment = 2 << 20;
    assert_eq!(
        told,
        [(4000, false), (segment, false), (4096, true), (-4096, true), (0, true), (-segment, false), (-4000, false)]
    );
    assert_eq!((device.allocated(), before.pool_reserved), (before.allocated, 0));
}
