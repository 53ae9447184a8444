//! Pairs about cache lines, banks and warps: lessons 01 and 02.

use super::{Pair, adding, cpu, cpus, doubled, kernel, made, one_each, one_for_four, one_for_two, scattered, small};
use crate::guide::pair::PairWork;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};
use warpbook_data::parallel::collect;
use warpbook_kernels::guide as kernels;
use warpbook_record::Quantity;

/// Number of 4-byte words in a cache line of a CPU.
const LINE: usize = 16;

pub(super) static COALESCING: Pair = Pair {
    name: "coalescing",
    record: "guide-coalescing",
    title: "Coalesced access",
    about: "Each word of an array is read and written once: by threads whose neighbours take words that lie apart, or neighbouring words.",
    reason: "A warp's load is split into the lines of 128 bytes that its 32 words lie in: up to 32 of them, or one.",
    on_a_smaller_gpu: "About the same: lines are as wide, and load units and memory shrink together.",
    axis: "words between neighbours",
    headline: Quantity::Bandwidth,
    sizes: &[1, 2, 4, 8, 16, 32],
    quick: &[1, 8, 32],
    shown: 32,
    work: |size, quick| PairWork::each(if quick { 1 << 20 } else { 1 << 25 }, 1).with(size),
    input: |work| made(work, scattered),
    want: doubled,
    tolerance: 0.0,
    compared: ["01_strided", "02_coalesced"],
    counters: &["sectors a load", "sectors a store", "L2", "DRAM read", "DRAM written", "warps wait for"],
    over_time: None,
    halves: &[
        kernel("01_strided", "Strided", "Lanes of a warp take words that lie apart.", kernels::strided, one_each),
        kernel("02_coalesced", "Coalesced", "Lanes of a warp take neighbouring words.", kernels::coalesced, one_each),
        cpu("cpu_lines_apart", "CPU, lines apart", "One word of a line, then one of another.", |x, y, _, size| {
            let step = LINE * size as usize;
            for first in 0..step {
                for i in (first..x.len()).step_by(step) {
                    y[i] = 2.0 * x[i];
                }
            }
        }),
        cpu("cpu_in_order", "CPU, in order", "Word after word.", |x, y, _, _| {
            y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
        }),
    ],
};

pub(super) static BANK_CONFLICTS: Pair = Pair {
    name: "bank-conflicts",
    record: "guide-bank-conflicts",
    title: "Bank conflicts",
    about: "A matrix is transposed: element by element, or by tiles in shared memory whose columns lie in one bank or in all 32.",
    reason: "Shared memory has 32 banks of a word each. A column of a tile of 32 x 32 lies in one of them, so its 32 words are read one \
             after another; one word of padding a row, or an exclusive or with the row, spreads them over all.",
    on_a_smaller_gpu: "Smaller: with less bandwidth the SM waits for memory anyway, which hides conflicts.",
    axis: "rows and columns",
    headline: Quantity::Bandwidth,
    sizes: &[512, 1024, 2048, 4096, 8192],
    quick: &[256, 512, 1024],
    shown: 4096,
    work: |size, _| PairWork::each(size * size, 0).with(size),
    input: |work| made(work, scattered),
    want: |x, _, size| {
        let edge = size as usize;
        collect(x.len(), &|i| f64::from(x[i % edge * edge + i / edge]))
    },
    tolerance: 0.0,
    compared: ["02_shared_tile", "03_padded"],
    counters: &["bank conflicts", "sectors a load", "sectors a store", "DRAM", "warps wait for"],
    over_time: None,
    halves: &[
        kernel(
            "01_direct",
            "Element by element",
            "Writes of a warp go to 32 lines.",
            kernels::transpose_direct,
            one_each,
        ),
        kernel(
            "02_shared_tile",
            "Tile with conflicts",
            "Both sides are coalesced; a column of the tile lies in one bank.",
            kernels::transpose_shared,
            one_for_four,
        ),
        kernel("03_padded", "Padded tile", "A row of the tile has 33 words.", kernels::transpose_padded, one_for_four),
        kernel(
            "04_swizzled",
            "Swizzled tile",
            "Row r has element c in place c ^ r.",
            kernels::transpose_swizzled,
            one_for_four,
        ),
        cpu("cpu_direct", "CPU, element by element", "Row after row of the input.", |x, y, _, size| {
            let edge = size as usize;
            for (row, line) in x.chunks(edge).enumerate() {
                line.iter().enumerate().for_each(|(column, v)| y[column * edge + row] = *v);
            }
        }),
        cpu("cpu_tiles", "CPU, by tiles", "Tiles of 32 x 32, which stay in its first cache.", |x, y, _, size| {
            let edge = size as usize;
            for tile in 0..edge.div_ceil(32) * edge.div_ceil(32) {
                let (top, left) = (tile / edge.div_ceil(32) * 32, tile % edge.div_ceil(32) * 32);
                for row in top..(top + 32).min(edge) {
                    for column in left..(left + 32).min(edge) {
                        y[column * edge + row] = x[row * edge + column];
                    }
                }
            }
        }),
    ],
};

/// Computes the expected result for an element of one of the kinds in f64.
fn steps(x: f32, kind: u64) -> f64 {
    let (a, b) = (f64::from(0.99f32 - 0.001 * kind as f32), f64::from(0.01 * kind as f32));
    (0..64).fold(f64::from(x), |v, _| a * v + b)
}

pub(super) static DIVERGENCE: Pair = Pair {
    name: "divergence",
    record: "guide-divergence",
    title: "Divergent branches",
    about: "Elements of several kinds take different paths through the code: kinds mixed within each warp, or one kind per warp.",
    reason: "The lanes of a warp share their instructions. Where they branch apart, the warp walks every path, with the lanes of the other \
             paths switched off.",
    on_a_smaller_gpu: "About the same: divergence is a property of the warp. It changes where scattered accesses cost the fast half more or less.",
    axis: "kinds of elements",
    headline: Quantity::Time,
    sizes: &[1, 2, 4, 8, 16, 32],
    quick: &[1, 4, 32],
    shown: 32,
    work: |size, quick| PairWork::each(if quick { 1 << 18 } else { 1 << 22 }, 128).with(size),
    input: |work| made(work, scattered),
    want: |x, _, kinds| collect(x.len(), &|i| steps(x[i], i as u64 % kinds)),
    tolerance: 128.0 * f32::EPSILON as f64,
    compared: ["01_divergent", "02_uniform"],
    counters: &["lanes", "issue slots", "warps wait for"],
    over_time: None,
    halves: &[
        kernel(
            "01_divergent",
            "Kinds mixed",
            "Neighbouring lanes take different paths.",
            kernels::branches_divergent,
            one_each,
        ),
        kernel(
            "02_uniform",
            "One kind per warp",
            "All lanes of a warp take one path.",
            kernels::branches_uniform,
            one_each,
        ),
        cpu(
            "cpu_1_thread",
            "CPU, one thread",
            "A processor's core walks one path at a time anyway.",
            |x, y, _, kinds| {
                for (i, (y, x)) in y.iter_mut().zip(x).enumerate() {
                    let kind = (i as u64 % kinds) as f32;
                    let (a, b) = (0.99 - 0.001 * kind, 0.01 * kind);
                    *y = (0..64).fold(*x, |v, _| a * v + b);
                }
            },
        ),
    ],
};

pub(super) static REDUCTION: Pair = Pair {
    name: "reduction",
    record: "guide-reduction",
    title: "Atomics or a hierarchy",
    about: "The sum of an array: every element by an atomic addition, or first in registers, warps and blocks.",
    reason: "Atomic additions to one address are made one after another. A hierarchy makes one for each block, and the rest in registers \
             and shuffles, which all SMs do at once.",
    on_a_smaller_gpu: "Smaller: a small GPU does as many additions per second to one address, but reads the array more slowly.",
    axis: "elements",
    headline: Quantity::Time,
    sizes: &[1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22],
    quick: &[1 << 12, 1 << 16, 1 << 20],
    shown: 1 << 20,
    work: |size, _| {
        PairWork {
            outputs: 1,
            bytes: 4 * size + 4,
            written_bytes: 4,
            array_bytes: 4 * size + 4,
            ..PairWork::each(size, 1)
        }
        .with(size)
    },
    input: |work| made(work, small),
    want: |x, _, _| vec![x.iter().map(|v| f64::from(*v)).sum()],
    tolerance: 0.0,
    compared: ["01_atomics", "03_blocks"],
    counters: &["L2", "DRAM", "issue slots", "warps wait for"],
    over_time: None,
    halves: &[
        adding(kernel(
            "01_atomics",
            "One atomic per element",
            "All threads add to one address.",
            kernels::sum_atomics,
            one_each,
        )),
        adding(kernel("02_warps", "One per warp", "Shuffles first.", kernels::sum_warps, one_each)),
        adding(kernel(
            "03_blocks",
            "One per block",
            "Registers, shuffles and shared memory first.",
            kernels::sum_blocks,
            one_for_four,
        )),
        cpus("cpu_atomics", "CPU, atomics", "All threads add to one address.", |x, y, _, _| {
            let sum = AtomicU32::new(0);
            x.par_iter().for_each(|v| {
                sum.fetch_add(*v as u32, Ordering::Relaxed);
            });
            y[0] = sum.into_inner() as f32;
        }),
        cpus("cpu_sums", "CPU, one sum per thread", "The threads' sums are added at the end.", |x, y, _, _| {
            y[0] = x.par_iter().map(|v| *v as u32).sum::<u32>() as f32;
        }),
    ],
};

pub(super) static VECTOR_LOADS: Pair = Pair {
    name: "vector-loads",
    record: "guide-vector-loads",
    title: "Wide loads and stores",
    about: "An array is read and written with 4, 8 or 16 bytes per instruction.",
    reason: "A thread that moves 16 bytes has four times as many of them in flight as one that moves 4. Bandwidth times latency has to be in \
             flight to keep a memory busy, DRAM as well as L2, and the warps that fit on an SM fall short of it with 4 bytes per thread. A \
             quarter of the instructions and requests move the same bytes, too.",
    on_a_smaller_gpu: "Smaller: with less bandwidth per SM, narrow accesses keep up more easily.",
    axis: "elements",
    headline: Quantity::Bandwidth,
    sizes: &[1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26],
    quick: &[1 << 14, 1 << 18],
    shown: 1 << 22,
    work: |size, _| PairWork::each(size, 1).with(size),
    input: |work| made(work, scattered),
    want: doubled,
    tolerance: 0.0,
    compared: ["01_words", "03_quads"],
    counters: &["sectors a load", "DRAM", "issue slots", "warps wait for"],
    over_time: None,
    halves: &[
        kernel("01_words", "4 bytes", "One float per thread.", kernels::loads_4, one_each),
        kernel("02_pairs", "8 bytes", "One float2 per thread.", kernels::loads_8, one_for_two),
        kernel("03_quads", "16 bytes", "One float4 per thread.", kernels::loads_16, one_for_four),
        cpu("cpu_1_thread", "CPU, one thread", "The compiler makes it wide by itself.", |x, y, _, _| {
            y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
        }),
    ],
};
