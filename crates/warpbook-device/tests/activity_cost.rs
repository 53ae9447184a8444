//! Measures the cost that a finished recorder leaves behind, in a process without any other recorder.

mod common;

use common::{axpy, kernel};
use std::time::Instant;
use warpbook_device::{CudaDevice, Recorder, testing};

const LAUNCHES: u32 = 2000;

/// Returns the microseconds per launch until the host has queued the kernels, and until the GPU has run them.
fn launch_us(device: &CudaDevice) -> [f64; 2] {
    let (stream, axpy_kernel) = (device.stream().unwrap(), kernel(device, "axpy", 128));
    let [x, y] = [(); 2].map(|()| device.zeros::<f32>(128).unwrap().range(..));
    let round = || {
        let clock = Instant::now();
        (0..LAUNCHES).for_each(|_| axpy(&axpy_kernel, &stream, &y, &x, 1.0).unwrap());
        let queued = clock.elapsed();
        stream.synchronize().unwrap();
        [queued, clock.elapsed()].map(|t| t.as_secs_f64() * 1e6 / f64::from(LAUNCHES))
    };
    round();
    let mut rounds: Vec<[f64; 2]> = (0..9).map(|_| round()).collect();
    rounds.sort_by(|a, b| a[1].total_cmp(&b[1]));
    rounds[4]
}

#[test]
fn a_finished_recorder_costs_launches_little() {
    let test = "a_finished_recorder_costs_launches_little";
    let Some(device) = testing::gpu(test) else { return };
    let before = launch_us(&device);
    let recorder = match Recorder::start(&device) {
        Ok(recorder) => recorder,
        Err(why) => return testing::skip(test, "needs CUPTI", why),
    };
    let recorded = launch_us(&device);
    let all = recorder.finish().unwrap();
    let launches = all.activities.iter().filter(|a| a.name == "axpy").count();
    assert_eq!((all.lost, launches), (0, 10 * LAUNCHES as usize), "{} activities", all.activities.len());
    let after = launch_us(&device);
    println!("us a launch, queued and done: {before:?} before, {recorded:?} recorded, {after:?} after");
    // CUPTI stays attached to the process. This costs about 1 us per launch on machines with an H100 or an H200, and recording costs
    // hardly more.
    assert!(after[1] <= 1.5 * before[1], "{before:?} before, {recorded:?} recorded, {after:?} after");
}
