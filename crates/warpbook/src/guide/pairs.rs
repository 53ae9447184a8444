//! The pairs, in the guide's order.

use super::Pair;
use super::halves::{Half, How, Program, Work};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};
use warpbook_kernels::guide as kernels;
use warpbook_record::Quantity;

/// All of them.
pub const PAIRS: &[&Pair] = &[
    &MADE_ON_DEVICE,
    &COALESCING,
    &BANK_CONFLICTS,
    &DIVERGENCE,
    &REDUCTION,
    &VECTOR_LOADS,
    &LATENCY,
    &MEMORY_LATENCY,
    &GATHER,
    &ALLOCATION,
    &FUSION,
    &COPY_BACK,
    &BATCHES,
    &PINNED,
];

/// A number between -1 and 1 of an element's place.
fn scattered(i: u64) -> f32 {
    let word = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    word as f32 / (1 << 23) as f32 - 1.0
}

/// An input whose elements follow from their place.
fn made(work: &Work, of: fn(u64) -> f32) -> Vec<f32> {
    (0..work.inputs).into_par_iter().map(of).collect()
}

/// 0, 1, 2 or 3: sums of up to 2^22 of them are exact in f32.
fn small(i: u64) -> f32 {
    (scattered(i).abs() * 4.0).floor().min(3.0)
}

fn doubled(x: &[f32], _: &Work, _: u64) -> Vec<f64> {
    x.iter().map(|v| 2.0 * f64::from(*v)).collect()
}

fn same(x: &[f32], _: &Work, _: u64) -> Vec<f64> {
    x.iter().map(|v| f64::from(*v)).collect()
}

fn one_each(n: u64, _: u64) -> u64 {
    n
}

fn one_for_two(n: u64, _: u64) -> u64 {
    n / 2
}

fn one_for_four(n: u64, _: u64) -> u64 {
    n / 4
}

const fn kernel(
    id: &'static str,
    title: &'static str,
    idea: &'static str,
    spec: fn() -> warpbook_record::KernelSpec,
    threads: fn(u64, u64) -> u64,
) -> Half {
    Half { id, title, idea, how: How::Kernel { spec, threads, adds: false }, most: u64::MAX }
}

/// The same, given y as zeros.
const fn adding(mut half: Half) -> Half {
    if let How::Kernel { adds, .. } = &mut half.how {
        *adds = true;
    }
    half
}

/// The same at sizes up to this one.
const fn up_to(most: u64, mut half: Half) -> Half {
    half.most = most;
    half
}

const fn host(
    id: &'static str,
    title: &'static str,
    idea: &'static str,
    spec: Option<fn() -> warpbook_record::KernelSpec>,
    program: Program,
) -> Half {
    Half { id, title, idea, how: How::Host { spec, program }, most: u64::MAX }
}

const fn cpu(id: &'static str, title: &'static str, idea: &'static str, run: super::halves::OnCpu) -> Half {
    Half { id, title, idea, how: How::Cpu(run), most: u64::MAX }
}

/// Words of a line of a CPU's cache.
const LINE: usize = 16;

static COALESCING: Pair = Pair {
    name: "coalescing",
    record: "guide-coalescing",
    title: "Coalesced access",
    about: "Each word of an array is read and written once: by threads whose neighbours take words that lie apart, or neighbouring words.",
    reason: "A warp's load is split into the lines of 128 bytes that its 32 words lie in: up to 32 of them, or one.",
    on_a_smaller_gpu: "About the same: the width of a line is, while load units and memory shrink together.",
    axis: "words between neighbours",
    headline: Quantity::Bandwidth,
    sizes: &[1, 2, 4, 8, 16, 32],
    quick: &[1, 8, 32],
    shown: 32,
    work: |size, quick| Work::each(if quick { 1 << 20 } else { 1 << 25 }, 1).with(size),
    input: |work| made(work, scattered),
    want: doubled,
    tolerance: 0.0,
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

static BANK_CONFLICTS: Pair = Pair {
    name: "bank-conflicts",
    record: "guide-bank-conflicts",
    title: "Bank conflicts",
    about: "A matrix is transposed: element by element, or by tiles in shared memory whose columns lie in one bank or in all 32.",
    reason: "Shared memory has 32 banks of a word each. A column of a tile of 32 x 32 lies in one of them, so its 32 words are read one \
             after another; one word of padding a row, or an exclusive or with the row, spreads them over all.",
    on_a_smaller_gpu: "Smaller: conflicts cost cycles of the SM, which less bandwidth hides, as the SM waits for memory anyway.",
    axis: "rows and columns",
    headline: Quantity::Bandwidth,
    sizes: &[512, 1024, 2048, 4096, 8192],
    quick: &[256, 512, 1024],
    shown: 4096,
    work: |size, _| Work::each(size * size, 0).with(size),
    input: |work| made(work, scattered),
    want: |x, _, size| {
        let edge = size as usize;
        (0..x.len()).into_par_iter().map(|i| f64::from(x[i % edge * edge + i / edge])).collect()
    },
    tolerance: 0.0,
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

/// The steps of an element of a kind, in f64.
fn steps(x: f32, kind: u64) -> f64 {
    let (a, b) = (f64::from(0.99f32 - 0.001 * kind as f32), f64::from(0.01 * kind as f32));
    (0..64).fold(f64::from(x), |v, _| a * v + b)
}

static DIVERGENCE: Pair = Pair {
    name: "divergence",
    record: "guide-divergence",
    title: "Divergent branches",
    about: "Elements of several kinds take different paths through the code: kinds mixed within each warp, or one kind a warp.",
    reason: "The lanes of a warp share their instructions. Where they branch apart, the warp walks every path, with the lanes of the other \
             paths switched off.",
    on_a_smaller_gpu: "The same: it is a property of the warp, and both halves are bound by arithmetic.",
    axis: "kinds of elements",
    headline: Quantity::Time,
    sizes: &[1, 2, 4, 8, 16, 32],
    quick: &[1, 4, 32],
    shown: 32,
    work: |size, quick| Work::each(if quick { 1 << 18 } else { 1 << 22 }, 128).with(size),
    input: |work| made(work, scattered),
    want: |x, _, kinds| x.par_iter().enumerate().map(|(i, x)| steps(*x, i as u64 % kinds)).collect(),
    tolerance: 128.0 * f32::EPSILON as f64,
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
            "A kind a warp",
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

static REDUCTION: Pair = Pair {
    name: "reduction",
    record: "guide-reduction",
    title: "Atomics or a hierarchy",
    about: "The sum of an array: every element by an atomic addition, or first in registers, warps and blocks.",
    reason: "Atomic additions to one address are made one after another. A hierarchy makes one for each block, and the rest in registers \
             and shuffles, which all SMs do at once.",
    on_a_smaller_gpu: "Smaller: one address takes as many additions a second on a small GPU, while reading the array takes longer.",
    axis: "elements",
    headline: Quantity::Time,
    sizes: &[1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22],
    quick: &[1 << 12, 1 << 16, 1 << 20],
    shown: 1 << 20,
    work: |size, _| Work { outputs: 1, bytes: 4 * size + 4, written_bytes: 4, ..Work::each(size, 1) }.with(size),
    input: |work| made(work, small),
    want: |x, _, _| vec![x.iter().map(|v| f64::from(*v)).sum()],
    tolerance: 0.0,
    halves: &[
        adding(kernel(
            "01_atomics",
            "An atomic addition an element",
            "All threads add to one address.",
            kernels::sum_atomics,
            one_each,
        )),
        adding(kernel("02_warps", "One a warp", "Shuffles first.", kernels::sum_warps, one_each)),
        adding(kernel(
            "03_blocks",
            "One a block",
            "Registers, shuffles and shared memory first.",
            kernels::sum_blocks,
            one_for_four,
        )),
        cpu("cpu_atomics", "CPU, atomics", "All threads add to one address.", |x, y, _, _| {
            let sum = AtomicU32::new(0);
            x.par_iter().for_each(|v| {
                sum.fetch_add(*v as u32, Ordering::Relaxed);
            });
            y[0] = sum.into_inner() as f32;
        }),
        cpu("cpu_sums", "CPU, a sum a thread", "The threads' sums are added at the end.", |x, y, _, _| {
            y[0] = x.par_iter().map(|v| *v as u32).sum::<u32>() as f32;
        }),
    ],
};

static VECTOR_LOADS: Pair = Pair {
    name: "vector-loads",
    record: "guide-vector-loads",
    title: "Wide loads and stores",
    about: "An array is read and written with 4, 8 or 16 bytes an instruction.",
    reason: "Fewer instructions and requests move the same bytes, and a thread has more bytes in flight. It shows where memory is not what \
             bounds the kernel: in L2, and in small arrays.",
    on_a_smaller_gpu: "Smaller: with less bandwidth an SM, narrow accesses keep up more easily.",
    axis: "elements",
    headline: Quantity::Bandwidth,
    sizes: &[1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26],
    quick: &[1 << 14, 1 << 18],
    shown: 1 << 22,
    work: |size, _| Work::each(size, 1).with(size),
    input: |work| made(work, scattered),
    want: doubled,
    tolerance: 0.0,
    halves: &[
        kernel("01_words", "4 bytes", "A float a thread.", kernels::loads_4, one_each),
        kernel("02_pairs", "8 bytes", "A float2 a thread.", kernels::loads_8, one_for_two),
        kernel("03_quads", "16 bytes", "A float4 a thread.", kernels::loads_16, one_for_four),
        cpu("cpu_1_thread", "CPU, one thread", "The compiler makes it wide by itself.", |x, y, _, _| {
            y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
        }),
    ],
};

/// Eight chains of 64 steps, added up, in f64.
fn eight_chains(x: f32) -> f64 {
    let chain = |j| (0..64).fold(f64::from(x + j as f32), |v, _| f64::from(0.99f32) * v + f64::from(0.01f32));
    (0..8).map(chain).sum()
}

static LATENCY: Pair = Pair {
    name: "latency",
    record: "guide-latency",
    title: "Latency hidden by warps and by independent instructions",
    about: "The same multiply-adds with 1 to 32 warps an SM, each thread working on 1, 2, 4 or 8 of its chains at a time.",
    reason: "Little's law: what is in flight is the rate times the latency. A scheduler that starts an instruction a cycle, each of which \
             takes about four, needs four independent ones: four warps, or one warp with four chains.",
    on_a_smaller_gpu: "The same an SM: schedulers and latencies are those of the architecture.",
    axis: "warps an SM",
    headline: Quantity::Throughput,
    sizes: &kernels::WARPS,
    quick: &[1, 8, 32],
    shown: 4,
    work: |size, quick| Work::each(if quick { 1 << 16 } else { 1 << 21 }, 1024).with(size),
    input: |work| made(work, scattered),
    want: |x, _, _| x.par_iter().map(|x| eight_chains(*x)).collect(),
    tolerance: 512.0 * f32::EPSILON as f64,
    halves: &[
        kernel(
            "01_one_chain",
            "One chain at a time",
            "Each step waits for the one before.",
            || kernels::chains(1),
            one_each,
        ),
        kernel("02_two_chains", "Two", "Two independent steps.", || kernels::chains(2), one_each),
        kernel("03_four_chains", "Four", "Four independent steps.", || kernels::chains(4), one_each),
        kernel("04_eight_chains", "Eight", "Eight independent steps.", || kernels::chains(8), one_each),
        cpu("cpu_one_chain", "CPU, one chain", "Each step waits for the one before.", |x, y, _, _| {
            for (y, x) in y.iter_mut().zip(x) {
                *y = (0..8).map(|j| (0..64).fold(x + j as f32, |v, _| 0.99 * v + 0.01)).sum();
            }
        }),
        cpu("cpu_eight_chains", "CPU, eight chains", "Eight independent steps.", |x, y, _, _| {
            for (y, x) in y.iter_mut().zip(x) {
                let mut v: [f32; 8] = std::array::from_fn(|j| x + j as f32);
                for _ in 0..64 {
                    v.iter_mut().for_each(|v| *v = 0.99 * *v + 0.01);
                }
                *y = v.iter().sum();
            }
        }),
    ],
};

/// The line after each: all lines of 32 words in one cycle, in a random order (Sattolo's algorithm, with the numbers of [`scattered`]).
fn cycle(lines: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..lines as u32).collect();
    for i in (1..lines).rev() {
        let share = f64::from(scattered(i as u64)).mul_add(0.5, 0.5);
        order.swap(i, ((share * i as f64) as usize).min(i - 1));
    }
    order
}

/// Steps of each of eight walks.
const STEPS: usize = 125_000;

fn walks(next: impl Fn(usize) -> usize, lines: usize, y: &mut [f32], together: bool) {
    let mut at: [usize; 8] = std::array::from_fn(|j| j * (lines / 8));
    if together {
        (0..STEPS).for_each(|_| at.iter_mut().for_each(|p| *p = next(*p)));
    } else {
        at.iter_mut().for_each(|p| (0..STEPS).for_each(|_| *p = next(*p)));
    }
    y.iter_mut().zip(at).for_each(|(y, p)| *y = p as f32);
}

static MEMORY_LATENCY: Pair = Pair {
    name: "memory-latency",
    record: "guide-memory-latency",
    title: "Latency of memory",
    about: "A million loads, each of which needs the one before it to know its address, or eight such chains at once, in a set of lines \
            that fits into L1, into L2, or into neither. A millisecond of the time of one chain is a nanosecond a load.",
    reason: "The time of a load is the latency of the level that has the line. Independent loads wait together.",
    on_a_smaller_gpu: "The same for the chains; L2 is smaller, so a set leaves it earlier.",
    axis: "KiB walked through",
    headline: Quantity::Time,
    sizes: &[16, 128, 1024, 8192, 32768, 131_072],
    quick: &[16, 512],
    shown: 131_072,
    work: |size, _| Work {
        inputs: 256 * size,
        outputs: 8,
        bytes: 4_000_000,
        written_bytes: 0,
        flops: 0,
        n: 256 * size,
        argument: 0,
    },
    input: |work| {
        let next = cycle(work.n as usize / 32);
        (0..work.n as usize).map(|i| if i % 32 == 0 { f32::from_bits(next[i / 32]) } else { 0.0 }).collect()
    },
    want: |x, _, _| {
        let mut y = vec![0.0; 8];
        walks(|p| x[32 * p].to_bits() as usize, x.len() / 32, &mut y, true);
        y.into_iter().map(f64::from).collect()
    },
    tolerance: 0.0,
    halves: &[
        kernel("01_one_chain", "One chain", "Each load waits for the one before.", || kernels::chase(1), one_each),
        kernel("02_eight_chains", "Eight chains at once", "Eight loads wait together.", || kernels::chase(8), one_each),
        up_to(
            128,
            kernel("03_shared_memory", "One chain in shared memory", "The same walk.", kernels::chase_shared, |_, _| 1),
        ),
        cpu("cpu_one_chain", "CPU, one chain", "Each load waits for the one before.", |x, y, _, _| {
            walks(|p| x[32 * p].to_bits() as usize, x.len() / 32, y, false);
        }),
        cpu("cpu_eight_chains", "CPU, eight chains at once", "Eight loads wait together.", |x, y, _, _| {
            walks(|p| x[32 * p].to_bits() as usize, x.len() / 32, y, true);
        }),
    ],
};

/// The place of a random word, as in `guide/gather.cu`.
fn place(k: usize, words: usize) -> usize {
    let h = (k as u32).wrapping_mul(0x9e37_79b1);
    ((h ^ h >> 15).wrapping_mul(0x85eb_ca6b)) as usize & (words - 1)
}

static GATHER: Pair = Pair {
    name: "gather",
    record: "guide-gather",
    title: "Occupancy and loads in flight",
    about: "Words from random places in DRAM with 1 to 32 warps an SM, each thread asking for 1, 2, 4 or 8 of them at a time.",
    reason: "Little's law again: bytes in flight over the latency. More warps and more loads a thread are two ways to the same number; \
             registers are what the second one costs, and what limits the first.",
    on_a_smaller_gpu: "Smaller: less bandwidth is reached with fewer bytes in flight.",
    axis: "warps an SM",
    headline: Quantity::Time,
    sizes: &kernels::WARPS,
    quick: &[1, 32],
    shown: 8,
    work: |_, quick| {
        let words: u64 = if quick { 1 << 18 } else { 1 << 26 };
        Work { outputs: words / 8, bytes: 4 * words + words / 2, written_bytes: words / 2, ..Work::each(words, 1) }
    },
    input: |work| made(work, small),
    want: |x, work, _| {
        let sum = |i: usize| (0..8).map(|j| f64::from(x[place(8 * i + j, x.len())])).sum();
        (0..work.outputs as usize).into_par_iter().map(sum).collect()
    },
    tolerance: 0.0,
    halves: &[
        kernel("01_one_load", "One load at a time", "The next one waits for it.", || kernels::gather(1), eighth),
        kernel("02_two_loads", "Two", "Two wait together.", || kernels::gather(2), eighth),
        kernel("03_four_loads", "Four", "Four wait together.", || kernels::gather(4), eighth),
        kernel("04_eight_loads", "Eight", "Eight wait together.", || kernels::gather(8), eighth),
        cpu("cpu_1_thread", "CPU, one thread", "Its core looks ahead by itself.", |x, y, _, _| {
            for (i, y) in y.iter_mut().enumerate() {
                *y = (0..8).map(|j| x[place(8 * i + j, x.len())]).sum();
            }
        }),
    ],
};

fn eighth(n: u64, _: u64) -> u64 {
    n / 8
}

static MADE_ON_DEVICE: Pair = Pair {
    name: "made-on-device",
    record: "guide-made-on-device",
    title: "Data made on the host, or on the device",
    about: "An array of numbers is made by all threads of the host and copied to the device, or made by the device.",
    reason: "The link to the host has a small part of the device's bandwidth, and the host makes numbers more slowly than a GPU.",
    on_a_smaller_gpu: "Smaller: the device makes them more slowly, while host and link stay the same.",
    axis: "numbers",
    headline: Quantity::Time,
    sizes: &[1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 26],
    quick: &[1 << 12, 1 << 18],
    shown: 1 << 24,
    work: |size, _| Work { bytes: 4 * size, ..Work::each(size, 2) },
    input: |work| made(work, scattered),
    want: same,
    tolerance: 0.0,
    halves: &[
        host(
            "01_on_the_host",
            "On the host, and copied",
            "All threads make it, then it is copied.",
            None,
            Program::Made,
        ),
        host("02_on_the_device", "On the device", "A thread makes a number.", Some(kernels::made), Program::Whole),
        cpu("cpu_all_threads", "CPU, all threads", "It stays where it was made.", |_, y, _, _| {
            y.par_iter_mut().enumerate().for_each(|(i, y)| *y = scattered(i as u64));
        }),
    ],
};

static ALLOCATION: Pair = Pair {
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
    work: |size, _| Work { bytes: 160 * size, written_bytes: 80 * size, ..Work::each(size, 20) },
    input: |work| made(work, scattered),
    want: |x, _, _| x.iter().map(|v| 4.0 * f64::from(*v)).collect(),
    tolerance: 0.0,
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

/// Operations of the expression.
const OPERATIONS: u64 = 8;

static FUSION: Pair = Pair {
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

/// Sums that are computed one after another.
const SUMS: u64 = 100;

static COPY_BACK: Pair = Pair {
    name: "copy-back",
    record: "guide-copy-back",
    title: "A result copied back each time, or once",
    about: "(a * b).sum() of two matrices, a hundred times: each sum copied to the host before the next begins, or all of them at the end.",
    reason: "A copy to the host waits for all that was queued, and nothing more is queued meanwhile: the GPU is idle for the copy and for \
             the next launch, a hundred times.",
    on_a_smaller_gpu: "Smaller: the copy costs the same, and the sum itself takes longer.",
    axis: "rows and columns",
    headline: Quantity::Time,
    sizes: &[100, 200, 400, 1000, 2000],
    quick: &[100, 400],
    shown: 1000,
    work: |size, _| {
        let n = size * size;
        Work {
            n,
            inputs: 2 * n,
            outputs: SUMS,
            flops: 2 * SUMS * n,
            bytes: 8 * SUMS * n,
            written_bytes: 4 * SUMS,
            argument: 0,
        }
    },
    input: |work| made(work, small),
    want: |x, _, _| {
        let (a, b) = x.split_at(x.len() / 2);
        vec![a.par_iter().zip(b).map(|(a, b)| f64::from(a * b)).sum(); SUMS as usize]
    },
    tolerance: 0.0,
    halves: &[
        host(
            "01_each",
            "Copied back each time",
            "As `.item()` in a loop does.",
            Some(kernels::products),
            Program::Sums { copied_each: true },
        ),
        host(
            "02_once",
            "Copied back once",
            "The sums stay on the device until the loop is over.",
            Some(kernels::products),
            Program::Sums { copied_each: false },
        ),
        cpu("cpu_all_threads", "CPU", "There is nothing to copy.", |x, y, _, _| {
            let (a, b) = x.split_at(x.len() / 2);
            y.iter_mut().for_each(|y| *y = a.par_iter().zip(b).map(|(a, b)| (a * b) as u32).sum::<u32>() as f32);
        }),
    ],
};

/// Samples that go through the layer, and its width.
const SAMPLES: u64 = 4096;
const WIDTH: u64 = 64;

/// The weight of a feature for a neuron, as in `guide/dense.cu`.
fn weight(j: usize, o: usize) -> f32 {
    (((j * 7 + o * 13) % 17) as f32 - 8.0) / 32.0
}

static BATCHES: Pair = Pair {
    name: "batches",
    record: "guide-batches",
    title: "Samples one by one, or in batches",
    about: "4096 samples of 64 features go to the device, through a layer of 64 neurons, and back: one by one, or so many at a time.",
    reason: "Two copies, a launch and a wait cost tens of microseconds for a sample as for a thousand, and one sample keeps one block of \
             one SM busy.",
    on_a_smaller_gpu: "Smaller: what is paid a batch is the same, while a full batch takes longer.",
    axis: "samples a batch",
    headline: Quantity::Time,
    sizes: &[1, 4, 16, 64, 256, 1024, 4096],
    quick: &[1, 64, 4096],
    shown: 64,
    work: |size, _| Work {
        n: SAMPLES,
        inputs: SAMPLES * WIDTH,
        outputs: SAMPLES * WIDTH,
        flops: 2 * SAMPLES * WIDTH * WIDTH,
        bytes: 8 * SAMPLES * WIDTH,
        written_bytes: 4 * SAMPLES * WIDTH,
        argument: size,
    },
    input: |work| made(work, scattered),
    want: |x, _, _| {
        let width = WIDTH as usize;
        let neuron =
            |x: &[f32], o| x.iter().enumerate().map(|(j, x)| f64::from(*x) * f64::from(weight(j, o))).sum::<f64>();
        x.chunks(width).flat_map(|x| (0..width).map(move |o| neuron(x, o).max(0.0))).collect()
    },
    tolerance: 64.0 * f32::EPSILON as f64,
    halves: &[
        host(
            "01_one_by_one",
            "One by one",
            "A copy, a launch and a copy back for every sample.",
            Some(kernels::dense),
            Program::Batches { one_by_one: true },
        ),
        host(
            "02_batches",
            "In batches",
            "The same for a batch.",
            Some(kernels::dense),
            Program::Batches { one_by_one: false },
        ),
        cpu("cpu_1_thread", "CPU, one thread", "Nothing is copied or launched, so nothing is gained.", |x, y, _, _| {
            let width = WIDTH as usize;
            for (x, y) in x.chunks(width).zip(y.chunks_mut(width)) {
                for (o, y) in y.iter_mut().enumerate() {
                    *y = x.iter().enumerate().map(|(j, x)| x * weight(j, o)).sum::<f32>().max(0.0);
                }
            }
        }),
    ],
};

static PINNED: Pair = Pair {
    name: "pinned",
    record: "guide-pinned",
    title: "Pageable or page-locked memory",
    about: "An array is copied to the device and back, from memory of the host that is pageable or page-locked (pinned).",
    reason: "The copy engine reads physical addresses, so memory that may move is first copied into a page-locked buffer of the driver's, \
             and the host waits for that. Only page-locked memory is copied while host and kernels go on.",
    on_a_smaller_gpu: "About the same, where the link to the host is: the CPU's copy is what the pageable half waits for.",
    axis: "KiB",
    headline: Quantity::Bandwidth,
    sizes: &[4, 64, 1024, 16384, 262_144],
    quick: &[4, 1024],
    shown: 16384,
    work: |size, _| Work { bytes: 1024 * size, written_bytes: 0, flops: 0, ..Work::each(256 * size, 0) }.with(size),
    input: |work| made(work, scattered),
    want: same,
    tolerance: 0.0,
    halves: &[
        host(
            "01_pageable_to_device",
            "To the device, pageable",
            "From an ordinary array.",
            None,
            Program::Copy { pinned: false, to_device: true },
        ),
        host(
            "02_pinned_to_device",
            "To the device, pinned",
            "From page-locked memory.",
            None,
            Program::Copy { pinned: true, to_device: true },
        ),
        host(
            "03_pageable_to_host",
            "To the host, pageable",
            "Into an ordinary array.",
            None,
            Program::Copy { pinned: false, to_device: false },
        ),
        host(
            "04_pinned_to_host",
            "To the host, pinned",
            "Into page-locked memory.",
            None,
            Program::Copy { pinned: true, to_device: false },
        ),
        cpu("cpu_copy", "CPU, from array to array", "What the host's own memory allows one thread.", |x, y, _, _| {
            y.copy_from_slice(x)
        }),
    ],
};
