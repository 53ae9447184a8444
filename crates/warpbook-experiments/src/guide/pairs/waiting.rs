//! Pairs about latency and hiding it: lesson 43.

use super::{Pair, cpu, kernel, made, one_each, scattered, small, up_to};
use crate::guide::pair::PairWork;
use warpbook_data::parallel::collect;
use warpbook_kernels::guide::{self as kernels, Walk};
use warpbook_record::Quantity;

/// Computes in f64 the sum of eight chains of 64 steps each.
fn eight_chains(x: f32) -> f64 {
    let chain = |j| (0..64).fold(f64::from(x + j as f32), |v, _| f64::from(0.99f32) * v + f64::from(0.01f32));
    (0..8).map(chain).sum()
}

pub(super) static LATENCY: Pair = Pair {
    name: "latency",
    record: "guide-latency",
    title: "Latency hidden by warps and by independent instructions",
    about: "The same multiply-adds with 1 to 32 warps per SM, each thread working on 1, 2, 4 or 8 of its chains at a time.",
    reason: "Little's law: what is in flight is the rate times the latency. A scheduler that starts one instruction per cycle, each of which \
             takes about four, needs four independent ones: four warps, or one warp with four chains.",
    on_a_smaller_gpu: "The same per SM, if its SMs have the same number of schedulers and the same latencies.",
    axis: "warps per SM",
    headline: Quantity::Throughput,
    sizes: &kernels::WARPS,
    quick: &[1, 8, 32],
    shown: 4,
    work: |size, quick| PairWork::each(if quick { 1 << 16 } else { 1 << 21 }, 1024).with(size),
    input: |work| made(work, scattered),
    want: |x, _, _| collect(x.len(), &|i| eight_chains(x[i])),
    tolerance: 512.0 * f32::EPSILON as f64,
    compared: ["01_one_chain", "04_eight_chains"],
    counters: &["issue slots", "warps", "warps wait for"],
    over_time: None,
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

/// Returns the successor of each 32-word line: all lines form one cycle in random order (Sattolo's algorithm, with
/// numbers from [`scattered`]).
fn cycle(lines: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..lines as u32).collect();
    for i in (1..lines).rev() {
        let share = f64::from(scattered(i as u64)).mul_add(0.5, 0.5);
        order.swap(i, ((share * i as f64) as usize).min(i - 1));
    }
    order
}

/// Number of steps in each of eight walks, whose starting points are evenly spaced.
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

pub(super) static MEMORY_LATENCY: Pair = Pair {
    name: "memory-latency",
    record: "guide-memory-latency",
    title: "Latency of memory",
    about: "A million loads, each of which needs the one before it to know its address, or eight such chains at once, in a set of lines \
            that fits into L1, into L2, or into neither. A millisecond of the time of one chain is a nanosecond a load. A run goes on where \
            the last one ended, so that no line is met again before all others were.",
    reason: "The time of a load is the latency of the level that has the line. Independent loads wait together.",
    on_a_smaller_gpu: "The same for the chains; L2 is smaller, so a set leaves it earlier.",
    axis: "KiB walked through",
    headline: Quantity::Time,
    sizes: &[16, 128, 1024, 8192, 32768, 131_072, 524_288],
    quick: &[16, 512],
    shown: 524_288,
    work: |size, _| PairWork {
        inputs: 256 * size,
        outputs: 8,
        bytes: 4_000_000,
        written_bytes: 0,
        flops: 0,
        n: 256 * size,
        argument: 0,
        array_bytes: 1024 * size,
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
    compared: ["01_one_chain", "02_eight_chains"],
    counters: &["L2 hits", "DRAM read", "warps", "warps wait for"],
    over_time: None,
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

/// Returns the index of a pseudo-random word, as in `guide/gather.cu`.
fn word_index(k: usize, words: usize) -> usize {
    let h = (k as u32).wrapping_mul(0x9e37_79b1);
    ((h ^ h >> 15).wrapping_mul(0x85eb_ca6b)) as usize & (words - 1)
}

pub(super) static GATHER: Pair = Pair {
    name: "gather",
    record: "guide-gather",
    title: "Occupancy and loads in flight",
    about: "Words from random places in DRAM with 1 to 32 warps per SM, each thread asking for 1, 2, 4 or 8 of them at a time.",
    reason: "Little's law again: bytes in flight over the latency. More warps and more loads per thread are two ways to the same number; \
             registers are what the second one costs, and what limits the first.",
    on_a_smaller_gpu: "Smaller: less bandwidth is reached with fewer bytes in flight.",
    axis: "warps per SM",
    headline: Quantity::Time,
    sizes: &kernels::WARPS,
    quick: &[1, 32],
    shown: 1,
    work: |_, quick| {
        let words: u64 = if quick { 1 << 18 } else { 1 << 26 };
        let bytes = 4 * words + words / 2;
        PairWork { outputs: words / 8, bytes, written_bytes: words / 2, array_bytes: bytes, ..PairWork::each(words, 1) }
    },
    input: |work| made(work, small),
    want: |x, work, _| {
        let sum = |i: usize| (0..8).map(|j| f64::from(x[word_index(8 * i + j, x.len())])).sum();
        collect(work.outputs as usize, &sum)
    },
    tolerance: 0.0,
    compared: ["01_one_load", "04_eight_loads"],
    counters: &["DRAM", "L2 hits", "warps", "warps wait for"],
    over_time: None,
    halves: &[
        kernel("01_one_load", "One load at a time", "The next one waits for it.", || kernels::gather(1), eighth),
        kernel("02_two_loads", "Two", "Two wait together.", || kernels::gather(2), eighth),
        kernel("03_four_loads", "Four", "Four wait together.", || kernels::gather(4), eighth),
        kernel("04_eight_loads", "Eight", "Eight wait together.", || kernels::gather(8), eighth),
        cpu("cpu_1_thread", "CPU, one thread", "Its core looks ahead by itself.", |x, y, _, _| {
            for (i, y) in y.iter_mut().enumerate() {
                *y = (0..8).map(|j| x[word_index(8 * i + j, x.len())]).sum();
            }
        }),
    ],
};

fn eighth(n: u64, _: u64) -> u64 {
    n / 8
}

/// Returns the number of threads: one for every 64 words.
fn threads(words: u64, _: u64) -> u64 {
    words / 64
}

/// Number of steps in a warp's walk.
const WALK: u32 = 128;

/// Returns the index of a pseudo-random line, as in `guide/walk.cu`.
fn line(h: u32, lines: u32) -> u32 {
    let h = h.wrapping_mul(0x9e37_79b1);
    (h ^ h >> 15).wrapping_mul(0x85eb_ca6b) & (lines - 1)
}

/// Follows the walk of a warp, and passes each step and the values read in it to `visit`.
fn walk(x: &[f32], warp: usize, mut visit: impl FnMut(usize, &[f32])) {
    let (lines, seed) = ((x.len() / 32) as u32, warp as u32 * WALK);
    let mut at = line(seed, lines);
    for step in 0..WALK {
        let words = &x[32 * at as usize..][..32];
        visit(step as usize, words);
        at = line((at + words[0] as u32) ^ (seed + step + 1), lines);
    }
}

pub(super) static OCCUPANCY: Pair = Pair {
    name: "occupancy",
    record: "guide-occupancy",
    title: "Registers against resident warps",
    about: "Each warp walks through random lines of DRAM, one after another, and adds up what it finds: at once, or after it has kept so many \
            values in registers, in as many as they take or in as many as __launch_bounds__ leaves.",
    reason: "A warp of this kernel waits for one line at a time, so what hides the latency is other warps. An SM has a fixed number of registers; \
             threads that take four times as many leave room for a quarter of the warps, and a quarter of the lines are on their way. \
             __launch_bounds__ limits the registers of a thread and so keeps the warps; values that no longer fit are spilled to local memory, which is \
             a store and a load each.",
    on_a_smaller_gpu: "The same where an SM has as many registers and warps; smaller where it holds fewer warps at most, since there the \
                       registers limit them later.",
    axis: "values in registers",
    headline: Quantity::Time,
    sizes: &kernels::HELD,
    quick: &[16, 128],
    shown: 128,
    work: |_, quick| {
        let words: u64 = if quick { 1 << 16 } else { 1 << 26 };
        let threads = threads(words, 0);
        PairWork {
            n: words,
            inputs: words,
            outputs: threads,
            flops: u64::from(WALK) * threads,
            bytes: 4 * (u64::from(WALK) + 1) * threads,
            written_bytes: 4 * threads,
            argument: threads,
            array_bytes: 4 * (words + threads),
        }
    },
    input: |work| made(work, small),
    want: |x, work, _| {
        let sums = |warp: usize| {
            let mut sums = [0.0f64; 32];
            walk(x, warp, |_, words| sums.iter_mut().zip(words).for_each(|(sum, v)| *sum += f64::from(*v)));
            sums
        };
        collect(work.outputs as usize / 32, &sums).concat()
    },
    tolerance: 0.0,
    compared: ["01_held", "02_added"],
    counters: &["warps", "issue slots", "DRAM", "warps wait for"],
    over_time: None,
    halves: &[
        kernel(
            "01_held",
            "Kept in registers",
            "Added from the last to the first.",
            || kernels::walk(Walk::Held),
            threads,
        ),
        kernel("02_added", "Added at once", "One register for all.", || kernels::walk(Walk::Added), threads),
        kernel(
            "03_bounded",
            "Kept within launch bounds",
            "__launch_bounds__ asks for eight blocks per SM: at most 64 registers per thread, and what does not fit is spilled.",
            || kernels::walk(Walk::Bounded),
            threads,
        ),
        cpu("cpu_held", "CPU, kept", "All values of a walk are kept in memory before they are added.", |x, y, _, _| {
            let mut held = vec![0.0f32; WALK as usize * 32];
            for (warp, y) in y.chunks_mut(32).enumerate() {
                walk(x, warp, |step, words| held[32 * step..][..32].copy_from_slice(words));
                y.fill(0.0);
                for words in held.chunks(32).rev() {
                    y.iter_mut().zip(words).for_each(|(y, v)| *y += v);
                }
            }
        }),
        cpu("cpu_added", "CPU, added at once", "A core has a walk at a time anyway.", |x, y, _, _| {
            for (warp, y) in y.chunks_mut(32).enumerate() {
                y.fill(0.0);
                walk(x, warp, |_, words| y.iter_mut().zip(words).for_each(|(y, v)| *y += v));
            }
        }),
    ],
};
