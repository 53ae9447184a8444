//! Pairs about the link between host and device: lesson 40.

use super::{Pair, cpu, cpus, host, its_own, made, same, scattered, small};
use crate::guide::made::training::{self, RESIDENT, from_host};
use crate::guide::over_time::loading;
use crate::guide::pair::{PairDevice, PairWork, Program};
use rayon::prelude::*;
use warpbook_kernels::guide as kernels;
use warpbook_record::Quantity;

pub(super) static MADE_ON_DEVICE: Pair = Pair {
    name: "made-on-device",
    record: "guide-made-on-device",
    title: "Data made on the host, or on the device",
    about: "An array of numbers is made by all threads of the host and copied to the device, or made by the device.",
    reason: "The host writes into a new array, whose pages the system provides one by one; it makes numbers more slowly than a GPU; and the \
             link has a small part of the device's bandwidth.",
    on_a_smaller_gpu: "Smaller: the device makes them more slowly, while host and link stay the same.",
    axis: "numbers",
    headline: Quantity::Time,
    sizes: &[1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 26],
    quick: &[1 << 12, 1 << 18],
    shown: 1 << 24,
    work: |size, _| PairWork { bytes: 4 * size, array_bytes: 4 * size, ..PairWork::each(size, 2) },
    input: |work| made(work, scattered),
    want: same,
    tolerance: 0.0,
    compared: ["01_on_the_host", "02_on_the_device"],
    counters: &[],
    over_time: None,
    halves: &[
        host(
            "01_on_the_host",
            "On the host, and copied",
            "All threads make it, then it is copied.",
            None,
            Program::Made,
        ),
        host("02_on_the_device", "On the device", "A thread makes a number.", Some(kernels::made), Program::Whole),
        cpus("cpu_all_threads", "CPU, all threads", "It stays where it was made.", |_, y, _, _| {
            y.par_iter_mut().enumerate().for_each(|(i, y)| *y = scattered(i as u64));
        }),
    ],
};

/// Number of sums computed one after another.
const SUMS: u64 = 100;

pub(super) static COPY_BACK: Pair = Pair {
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
        PairWork {
            n,
            inputs: 2 * n,
            outputs: SUMS,
            flops: 2 * SUMS * n,
            bytes: 8 * SUMS * n,
            written_bytes: 4 * SUMS,
            argument: 0,
            array_bytes: 8 * n + 4 * SUMS,
        }
    },
    input: |work| made(work, small),
    want: |x, _, _| {
        let (a, b) = x.split_at(x.len() / 2);
        vec![a.par_iter().zip(b).map(|(a, b)| f64::from(a * b)).sum(); SUMS as usize]
    },
    tolerance: 0.0,
    compared: ["01_each", "02_once"],
    counters: &[],
    over_time: None,
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
        cpus("cpu_all_threads", "CPU", "There is nothing to copy.", |x, y, _, _| {
            let (a, b) = x.split_at(x.len() / 2);
            y.iter_mut().for_each(|y| *y = a.par_iter().zip(b).map(|(a, b)| (a * b) as u32).sum::<u32>() as f32);
        }),
    ],
};

/// Number of samples that pass through the layer, and width of the layer.
const SAMPLES: u64 = 4096;
const WIDTH: u64 = 64;

/// Returns the weight between a feature and a neuron, as in `guide/dense.cu`.
fn weight(j: usize, o: usize) -> f32 {
    (((j * 7 + o * 13) % 17) as f32 - 8.0) / 32.0
}

pub(super) static BATCHES: Pair = Pair {
    name: "batches",
    record: "guide-batches",
    title: "Samples one by one, or in batches",
    about: "4096 samples of 64 features go to the device, through a layer of 64 neurons, and back: one by one, or in batches.",
    reason: "Two copies, a launch and a wait cost tens of microseconds for a sample as for a thousand, and one sample keeps one block of \
             one SM busy.",
    on_a_smaller_gpu: "Smaller: what is paid per batch is the same, while a full batch takes longer.",
    axis: "samples per batch",
    headline: Quantity::Time,
    sizes: &[1, 4, 16, 64, 256, 1024, 4096],
    quick: &[1, 64, 4096],
    shown: 64,
    work: |size, _| PairWork {
        n: SAMPLES,
        inputs: SAMPLES * WIDTH,
        outputs: SAMPLES * WIDTH,
        flops: 2 * SAMPLES * WIDTH * WIDTH,
        bytes: 8 * SAMPLES * WIDTH,
        written_bytes: 4 * SAMPLES * WIDTH,
        argument: size,
        array_bytes: 8 * SAMPLES * WIDTH,
    },
    input: |work| made(work, scattered),
    want: |x, _, _| {
        let width = WIDTH as usize;
        let neuron =
            |x: &[f32], o| x.iter().enumerate().map(|(j, x)| f64::from(*x) * f64::from(weight(j, o))).sum::<f64>();
        x.chunks(width).flat_map(|x| (0..width).map(move |o| neuron(x, o).max(0.0))).collect()
    },
    tolerance: 64.0 * f32::EPSILON as f64,
    compared: ["01_one_by_one", "02_batches"],
    counters: &[],
    over_time: None,
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

pub(super) static PINNED: Pair = Pair {
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
    work: |size, _| {
        PairWork { bytes: 1024 * size, written_bytes: 0, flops: 0, ..PairWork::each(256 * size, 0) }.with(size)
    },
    input: |work| made(work, scattered),
    want: same,
    tolerance: 0.0,
    compared: ["01_pageable_to_device", "02_pinned_to_device"],
    counters: &[],
    over_time: None,
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

pub(super) static LOADER: Pair = Pair {
    name: "loader",
    record: "guide-loader",
    title: "Samples loaded before a step, or during the one before",
    about: "Sixteen steps of a training whose images (3 x 64 x 64) come from the host's memory: gathered and copied while the GPU waits; the same \
            without waiting for each step; from page-locked memory on a stream of its own; gathered by more threads; or all of them on the GPU.",
    reason: "Gathering a batch on the host, its copy and the step use different hardware. A loop that waits for each of them takes the sum of their \
             times. With page-locked memory and a stream for copies they overlap, and a step takes as long as the longest of them.",
    on_a_smaller_gpu: "Smaller: the step takes longer there, and hides more of the same loading.",
    axis: "images per batch",
    headline: Quantity::Time,
    sizes: &[64, 256, 1024],
    quick: &[16],
    shown: 256,
    work: |size, _| training::fed_work(size),
    input: |_| vec![0.0],
    want: training::fed_want,
    tolerance: 5e-4,
    compared: ["01_synchronous", "04_prefetched"],
    counters: &[],
    over_time: Some(|shown| loading::record(shown, &[("01_synchronous", false), ("04_prefetched", true)])),
    halves: &[
        its_own("01_synchronous", "Load, copy, train, wait", "From pageable memory.", PairDevice::Gpu(7, 5), |a| {
            training::fed_steps(a, Some(from_host(false, 0)), true)
        }),
        its_own("02_pageable", "Without waiting for the step", "From pageable memory.", PairDevice::Gpu(7, 5), |a| {
            training::fed_steps(a, Some(from_host(false, 0)), false)
        }),
        its_own("03_pinned", "Page-locked", "Copied on a stream of its own.", PairDevice::Gpu(7, 5), |a| {
            training::fed_steps(a, Some(from_host(true, 0)), false)
        }),
        its_own("04_prefetched", "Page-locked, four threads", "Gathered faster, too.", PairDevice::Gpu(7, 5), |a| {
            training::fed_steps(a, Some(from_host(true, 4)), false)
        }),
        its_own("05_resident", "All images on the GPU", "Nothing is loaded.", PairDevice::Gpu(7, 5), |a| {
            training::fed_steps(a, Some(RESIDENT), false)
        }),
        its_own("cpu_all_threads", "CPU", "Its samples lie in its memory.", PairDevice::Cpu, |a| {
            training::fed_steps(a, None, false)
        }),
    ],
};
