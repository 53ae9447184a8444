//! Many small kernels or few large ones: lesson 42.

use super::{Pair, cpu, host, made, scattered};
use crate::guide::halves::{Program, Work};
use rayon::prelude::*;
use warpbook_kernels::guide as kernels;
use warpbook_record::Quantity;

/// Operations of the expression.
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
    work: |size, _| Work::each(size, 2 * OPERATIONS).with(OPERATIONS),
    input: |work| made(work, scattered),
    want: |x, _, _| {
        let operation = |v: f64, k: u64| if k.is_multiple_of(2) { v * 0.9 + 0.1 } else { v.max(0.0) };
        x.par_iter().map(|x| (0..OPERATIONS).fold(f64::from(*x), operation)).collect()
    },
    tolerance: 16.0 * f32::EPSILON as f64,
    halves: &[
        host(
            "01_launches",
            "A launch an operation",
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
        cpu("cpu_passes", "CPU, a pass an operation", "Intermediates go through memory.", |x, y, _, _| {
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
