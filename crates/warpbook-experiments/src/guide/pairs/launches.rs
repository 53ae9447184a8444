//! Pairs about many small kernels versus a few large ones: lesson 42.

use super::{Pair, cpu, host, its_own, made, scattered};
use crate::guide::made::expression::{self, Compiled};
use crate::guide::made::frozen::{self, Passes};
use crate::guide::pair::{PairDevice, PairWork, Program};
use warpbook_data::parallel::collect;
use warpbook_kernels::guide as kernels;
use warpbook_record::Quantity;

/// Number of operations in the expression.
const OPERATIONS: u64 = 8;

pub(super) static FUSION: Pair = Pair {
    name: "fusion",
    record: "guide-fusion",
    title: "Launches, a graph, one kernel",
    about: "Eight operations on every element: a launch each, a CUDA graph of the launches, or one kernel of all.",
    reason: "A graph saves the host's part of each launch, which is what small arrays cost. One kernel saves the trips to memory \
             between the operations too, which is what large ones cost.",
    on_a_smaller_gpu: "Smaller for small arrays, where launches cost the same and the kernels take longer; the same for large ones, \
                       whose bytes are the same.",
    axis: "elements",
    headline: Quantity::Time,
    sizes: &[1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 26],
    quick: &[1 << 10, 1 << 16],
    shown: 1 << 14,
    work: |size, _| PairWork::each(size, 2 * OPERATIONS).with(OPERATIONS),
    input: |work| made(work, scattered),
    want: |x, _, _| {
        let operation = |v: f64, k: u64| if k.is_multiple_of(2) { v * 0.9 + 0.1 } else { v.max(0.0) };
        collect(x.len(), &|i| (0..OPERATIONS).fold(f64::from(x[i]), operation))
    },
    tolerance: 16.0 * f32::EPSILON as f64,
    compared: ["01_launches", "03_one_kernel"],
    counters: &["time", "DRAM read", "DRAM written", "L2", "warps wait for"],
    over_time: None,
    halves: &[
        host(
            "01_launches",
            "One launch per operation",
            "As a framework runs what it has not compiled.",
            Some(kernels::one_operation),
            Program::Operations { in_a_graph: false },
        ),
        host(
            "02_graph",
            "A graph of the launches",
            "The same kernels, started together.",
            Some(kernels::one_operation),
            Program::Operations { in_a_graph: true },
        ),
        host(
            "03_one_kernel",
            "One kernel",
            "Intermediates stay in registers.",
            Some(kernels::all_operations),
            Program::Whole,
        ),
        cpu("cpu_passes", "CPU, one pass per operation", "Intermediates go through memory.", |x, y, _, _| {
            y.copy_from_slice(x);
            for k in 0..OPERATIONS {
                y.iter_mut().for_each(|v| *v = if k % 2 == 0 { *v * 0.9 + 0.1 } else { v.max(0.0) });
            }
        }),
        cpu("cpu_one_pass", "CPU, one pass", "Intermediates stay in registers.", |x, y, _, _| {
            for (y, x) in y.iter_mut().zip(x) {
                *y = (0..OPERATIONS).fold(*x, |v, k| if k % 2 == 0 { v * 0.9 + 0.1 } else { v.max(0.0) });
            }
        }),
    ],
};

pub(super) static JIT_EXPRESSION: Pair = Pair {
    name: "jit-expression",
    record: "guide-jit-expression",
    title: "Compiled in the first call, kept for the later ones",
    about: "A chain of element-wise operations is given as text and made into one kernel by NVRTC: a call that compiles it, as the first one does; a \
            call that finds it on the disk, as the first one of the next process; and a later call.",
    reason: "A compiler takes milliseconds whatever the size of the array, and a launch microseconds. What it compiled is kept in memory for this \
             process and on the disk for the next, which has to read and load it only.",
    on_a_smaller_gpu: "Smaller for large arrays, whose kernel takes longer there; the same for small ones, as compiler and disk are the host's.",
    axis: "elements",
    headline: Quantity::Time,
    sizes: &[1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 26],
    quick: &[1 << 10, 1 << 16],
    shown: 1 << 18,
    work: |size, _| expression::work(size),
    input: |work| made(work, scattered),
    want: expression::want,
    tolerance: 32.0 * f32::EPSILON as f64,
    compared: ["01_first_call", "03_later_calls"],
    counters: &[],
    over_time: None,
    halves: &[
        its_own("01_first_call", "First call", "Nobody has compiled it.", PairDevice::Gpu(7, 5), |a| {
            expression::on_the_gpu(a, Compiled::Anew)
        }),
        its_own(
            "02_next_process",
            "Found on disk",
            "As in the next process: read and loaded, not compiled.",
            PairDevice::Gpu(7, 5),
            |a| expression::on_the_gpu(a, Compiled::OnDisk),
        ),
        its_own("03_later_calls", "Later calls", "It is loaded.", PairDevice::Gpu(7, 5), |a| {
            expression::on_the_gpu(a, Compiled::Loaded)
        }),
        cpu("cpu_arrays", "CPU, array by array", "Every operation makes a new array.", |x, y, _, _| {
            expression::by_arrays(x, y);
        }),
        cpu("cpu_elements", "CPU, element by element", "The expression's tree is walked for each.", |x, y, _, _| {
            expression::by_elements(x, y);
        }),
    ],
};

pub(super) static SMALL_NETWORK: Pair = Pair {
    name: "small-network",
    record: "guide-small-network",
    title: "A small network, operation by operation or frozen",
    about: "A thousand passes of a batch through a network of 100, 50 and 10 neurons in fp32, with its images from the host and its outputs back: a \
            launch for each operation, or frozen, saved, loaded again and launched as one graph.",
    reason: "The arithmetic of a small network takes less time than the host needs to launch its kernels. Frozen it is a fixed list of operations: \
             biases and ReLUs move into the products before them, and one graph starts all that is left, copies included.",
    on_a_smaller_gpu: "About the same: both halves wait for the host and the link, and kernels this small leave most of any GPU idle.",
    axis: "samples per batch",
    headline: Quantity::Time,
    sizes: &[1, 8, 32, 128, 512],
    quick: &[1, 32],
    shown: 32,
    work: |size, quick| frozen::work(size, if quick { 20 } else { 1000 }),
    input: frozen::pixels,
    want: frozen::want,
    tolerance: 256.0 * f32::EPSILON as f64,
    compared: ["01_operations", "03_frozen"],
    counters: &[],
    over_time: None,
    halves: &[
        its_own(
            "01_operations",
            "Operation by operation",
            "A launch for each, biases and ReLUs too.",
            PairDevice::Gpu(7, 5),
            |a| frozen::on_the_gpu(a, Passes::Operations),
        ),
        its_own(
            "02_fused",
            "Fused, launch by launch",
            "Biases and ReLUs are in the products.",
            PairDevice::Gpu(7, 5),
            |a| frozen::on_the_gpu(a, Passes::Fused),
        ),
        its_own("03_frozen", "Frozen, as one graph", "Saved and loaded again.", PairDevice::Gpu(7, 5), |a| {
            frozen::on_the_gpu(a, Passes::Graph)
        }),
        its_own(
            "cpu_anew",
            "CPU, made ready each time",
            "Memory and weights anew in each pass.",
            PairDevice::Cpu,
            |a| frozen::on_the_cpu(a, false),
        ),
        its_own("cpu_kept", "CPU, made ready once", "Saved and loaded again.", PairDevice::Cpu, |a| {
            frozen::on_the_cpu(a, true)
        }),
    ],
};
