//! Pairs about memory allocation: lesson 41.

use super::{Pair, cpu, host, made, scattered};
use crate::guide::over_time::memory as over_time;
use crate::guide::pair::{PairWork, Program};
use warpbook_kernels::guide as kernels;
use warpbook_record::Quantity;

pub(super) static ALLOCATION: Pair = Pair {
    name: "allocation",
    record: "guide-allocation",
    title: "Memory from the driver, or from a pool",
    about: "Ten times an array is allocated for an intermediate result: each time by the driver, or from a pool that keeps what was given back.",
    reason: "The driver maps memory, and waits for the device before it takes it back, so the kernels cannot run ahead. A pool hands the same \
             block out again without asking.",
    on_a_smaller_gpu: "Smaller: the driver costs the same, while the kernels take longer.",
    axis: "elements",
    headline: Quantity::Time,
    sizes: &[1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 26],
    quick: &[1 << 10, 1 << 18],
    shown: 1 << 18,
    work: |size, _| PairWork {
        bytes: 160 * size,
        written_bytes: 80 * size,
        // The input, the output and one intermediate array exist at the same time.
        array_bytes: 12 * size,
        ..PairWork::each(size, 20)
    },
    input: |work| made(work, scattered),
    want: |x, _, _| x.iter().map(|v| 4.0 * f64::from(*v)).collect(),
    tolerance: 0.0,
    compared: ["01_driver", "02_pool"],
    counters: &[],
    over_time: Some(|shown| over_time::record(shown, &[("01_driver", false), ("02_pool", true)])),
    halves: &[
        host(
            "01_driver",
            "From the driver each time",
            "And back to it.",
            Some(kernels::loads_4),
            Program::Allocations { pooled: false },
        ),
        host(
            "02_pool",
            "From a pool",
            "The driver is asked once.",
            Some(kernels::loads_4),
            Program::Allocations { pooled: true },
        ),
        cpu("cpu_each_time", "CPU, allocated each time", "The host's allocator keeps a pool itself.", |x, y, _, _| {
            for _ in 0..10 {
                let between: Vec<f32> = x.iter().map(|v| 2.0 * v).collect();
                y.iter_mut().zip(&between).for_each(|(y, v)| *y = 2.0 * v);
            }
        }),
        cpu("cpu_once", "CPU, allocated once", "Ten times the same array.", |x, y, _, _| {
            let mut between = vec![0.0f32; x.len()];
            for _ in 0..10 {
                between.iter_mut().zip(x).for_each(|(v, x)| *v = 2.0 * x);
                y.iter_mut().zip(&between).for_each(|(y, v)| *y = 2.0 * v);
            }
        }),
    ],
};
