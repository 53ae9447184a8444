//! Pairs about memory traffic versus arithmetic, and about data types, layouts and values: lesson 44, the layout of
//! lesson 01, and the power of lesson 43.

use super::{Pair, its_own};
use crate::guide::made::training::{self, Saves};
use crate::guide::made::{convolution, product};
use crate::guide::over_time::power;
use crate::guide::pair::{PairDevice, PairWork};
use warpbook_nn::ops::Layout;
use warpbook_nn::ops::conv2d::cuda::Method;
use warpbook_record::{Dtype, Quantity};

const GPU: PairDevice = PairDevice::Gpu(7, 5);
/// Ampere GPUs are the first with tf32 and bf16.
const AMPERE: PairDevice = PairDevice::Gpu(8, 0);

pub(super) static PRECISION: Pair = Pair {
    name: "precision",
    record: "guide-precision",
    title: "The same product in four types",
    about: "A product of square matrices of Gaussian numbers in fp32, tf32, fp16 and bf16, by the kernels that the engine chooses: time, \
            memory, and the largest error against the product of the unrounded numbers in fp64.",
    reason: "Tensor cores multiply 16-bit numbers, and fp32 numbers that are cut to tf32, many times as fast as CUDA cores multiply fp32, \
             and 16-bit numbers take half the memory and half the traffic. The price is the rounding of the factors: fp16 and tf32 keep \
             ten bits after the point, bf16 seven.",
    on_a_smaller_gpu: "About the same within a generation, whose SMs have the same tensor cores; much smaller where a chip has few of them \
                       for its CUDA cores, as those made for games.",
    axis: "rows and columns",
    headline: Quantity::Throughput,
    sizes: &[256, 512, 1024, 2048, 4096, 8192],
    quick: &[128, 256],
    shown: 4096,
    work: |size, _| product::work(size, 4),
    input: product::gaussians,
    want: product::want,
    tolerance: 1e-4,
    compared: ["01_fp32", "04_bf16"],
    counters: &["FLOP/s", "tensor pipe", "DRAM read", "issue slots", "warps wait for"],
    over_time: None,
    halves: &[
        its_own("01_fp32", "fp32", "On CUDA cores.", GPU, |a| product::in_type(a, Dtype::F32)),
        its_own("02_tf32", "tf32", "fp32 in memory, cut to 19 bits by the tensor cores.", AMPERE, |a| {
            product::in_type(a, Dtype::Tf32)
        }),
        its_own("03_fp16", "fp16", "Ten bits after the point, a range up to 65504.", GPU, |a| {
            product::in_type(a, Dtype::F16)
        }),
        its_own("04_bf16", "bf16", "Seven bits after the point, the range of fp32.", AMPERE, |a| {
            product::in_type(a, Dtype::Bf16)
        }),
        its_own("cpu_fp32", "CPU, fp32", "By all threads.", PairDevice::Cpu, product::on_the_cpu),
    ],
};

pub(super) static LAYOUT: Pair = Pair {
    name: "layout",
    record: "guide-layout",
    title: "Channels first or channels last",
    about: "A convolution of 3 x 3 over images with 64 channels in fp16, forwards: NCHW, where the pixels of a channel lie together, and \
            NHWC, where the channels of a pixel do.",
    reason: "A convolution sums over channels. With NHWC the 64 channels of a pixel are one line of 128 bytes, which a kernel copies 16 bytes \
             at a time and a tensor core takes as a row of its operand; with NCHW each of them is in another line.",
    on_a_smaller_gpu: "Smaller where arithmetic bounds both layouts, as with fewer tensor cores for the bandwidth; otherwise about the \
                       same, since the width of a line is.",
    axis: "images",
    headline: Quantity::Time,
    sizes: &[4, 16, 64, 256],
    quick: &[1, 2],
    shown: 64,
    work: |size, _| convolution::work(size),
    input: convolution::ternary,
    want: convolution::want,
    tolerance: 0.0,
    compared: ["01_nchw", "02_nhwc"],
    counters: &["L2", "sectors a load", "bank conflicts", "tensor pipe", "warps wait for"],
    over_time: None,
    halves: &[
        its_own("01_nchw", "Channels first", "NCHW, by the implicit product.", GPU, |a| {
            convolution::on_the_gpu(a, Method::ImplicitGemm, Layout::Nchw)
        }),
        its_own("02_nhwc", "Channels last", "NHWC, by the same method.", GPU, |a| {
            convolution::on_the_gpu(a, Method::ImplicitGemm, Layout::Nhwc)
        }),
        its_own("03_shifted_windows", "Channels last, shifted windows", "What NHWC allows on Hopper.", GPU, |a| {
            convolution::on_the_gpu(a, Method::ShiftedWindows, Layout::Nhwc)
        }),
        its_own("cpu_nchw", "CPU, channels first", "The channels of a pixel lie apart.", PairDevice::Cpu, |a| {
            convolution::on_the_cpu(a, Layout::Nchw)
        }),
        its_own("cpu_nhwc", "CPU, channels last", "The channels of a pixel lie together.", PairDevice::Cpu, |a| {
            convolution::on_the_cpu(a, Layout::Nhwc)
        }),
    ],
};

pub(super) static POWER: Pair = Pair {
    name: "power",
    record: "guide-power",
    title: "Gaussian numbers or zeros",
    about: "The same product in bf16 twenty times in a row, by the same kernel: of Gaussian numbers, and of zeros.",
    reason: "A transistor takes energy when it switches, and with zeros next to none of a multiplier's do. A GPU that has reached its power cap \
             lowers its clocks until it draws no more than that, so numbers that switch more bits are multiplied more slowly.",
    on_a_smaller_gpu: "Smaller or none where the chip does not reach its power cap; larger where its cap is low for its size, as in a laptop.",
    axis: "rows and columns",
    headline: Quantity::Throughput,
    sizes: &[1024, 2048, 4096, 8192],
    quick: &[128, 256],
    shown: 8192,
    work: |size, _| {
        let one = product::work(size, 2);
        PairWork {
            flops: product::REPEATED * one.flops,
            bytes: product::REPEATED * one.bytes,
            written_bytes: product::REPEATED * one.written_bytes,
            ..one
        }
    },
    input: product::gaussians,
    want: product::want,
    tolerance: 1e-4,
    compared: ["01_gaussian", "02_zeros"],
    counters: &[],
    over_time: Some(|shown| power::record(shown, &[("01_gaussian", false), ("02_zeros", true)])),
    halves: &[
        its_own("01_gaussian", "Gaussian numbers", "Every bit of a factor is 0 or 1 by chance.", AMPERE, |a| {
            product::repeated(a, false)
        }),
        its_own("02_zeros", "Zeros", "No bit ever changes.", AMPERE, |a| product::repeated(a, true)),
        its_own("cpu_gaussian", "CPU, Gaussian numbers", "By all threads, in fp32.", PairDevice::Cpu, |a| {
            product::repeated_on_the_cpu(a, false)
        }),
        its_own("cpu_zeros", "CPU, zeros", "The same of zeros.", PairDevice::Cpu, |a| {
            product::repeated_on_the_cpu(a, true)
        }),
    ],
};

pub(super) static CHECKPOINTING: Pair = Pair {
    name: "checkpointing",
    record: "guide-checkpointing",
    title: "Activations kept, or computed again",
    about: "A training step of a network of 32 convolutions in fp32, which keeps all activations for the backward pass, or only those between \
            so many segments; those inside of a segment are computed again. The gradients are the same to the bit.",
    reason: "A backward pass reads the activations of the forward pass in the reverse order. With s segments of equal layers it takes the memory \
             of s borders and of one segment's layers, the least where both are the root of the number of layers, and up to one more forward \
             pass, which is about a third of a step.",
    on_a_smaller_gpu: "The same in memory and in time: both halves do the same kind of work, one of them more of it. What changes is which \
                       networks need it.",
    axis: "segments",
    headline: Quantity::Time,
    sizes: &[1, 2, 4, 8, 16, 32],
    quick: &[2, 4],
    shown: 8,
    work: |_, quick| training::deep_work(if quick { 8 } else { 32 }),
    input: |_| vec![0.0],
    want: training::deep_want,
    tolerance: 5e-4,
    compared: ["02_checkpointed", "01_kept"],
    counters: &[],
    over_time: None,
    halves: &[
        its_own("01_kept", "All activations kept", "As a network does that was told nothing.", GPU, |a| {
            training::deep_steps(a, true, Saves::Nothing)
        }),
        its_own("02_checkpointed", "Checkpointed", "network.checkpointed(segments).", GPU, |a| {
            training::deep_steps(a, true, Saves::Segments)
        }),
        its_own("cpu_kept", "CPU, all activations kept", "By all threads.", PairDevice::Cpu, |a| {
            training::deep_steps(a, false, Saves::Nothing)
        }),
        its_own("cpu_checkpointed", "CPU, checkpointed", "By all threads.", PairDevice::Cpu, |a| {
            training::deep_steps(a, false, Saves::Segments)
        }),
    ],
};

pub(super) static ACCUMULATION: Pair = Pair {
    name: "accumulation",
    record: "guide-accumulation",
    title: "A large batch, or its gradient added up",
    about: "A training step of a network of 32 convolutions in fp32 with a batch of 128: the whole batch at once, or in so many parts, whose gradients are \
            added up before the weights change.",
    reason: "The gradient of a batch is the mean of its samples' gradients, so it may be added up part by part before the weights change. Only one \
             part's activations are in memory at a time. The price is launches, the additions, and parts that become too small to fill the GPU.",
    on_a_smaller_gpu: "Smaller in time: a part fills a smaller GPU sooner, so that cutting the batch costs it less. The same in memory.",
    axis: "parts of the batch",
    headline: Quantity::Time,
    sizes: &[1, 2, 4, 8, 16, 32, 64],
    quick: &[2, 4],
    shown: 8,
    work: |_, quick| training::deep_work(if quick { 8 } else { 32 }),
    input: |_| vec![0.0],
    want: training::deep_want,
    tolerance: 5e-4,
    compared: ["02_accumulated", "01_at_once"],
    counters: &[],
    over_time: None,
    halves: &[
        its_own("01_at_once", "The whole batch", "One forward and one backward pass.", GPU, |a| {
            training::deep_steps(a, true, Saves::Nothing)
        }),
        its_own(
            "02_accumulated",
            "Accumulated",
            "Recipe { accumulate: parts, .. }: a forward and a backward pass of each part.",
            GPU,
            |a| training::deep_steps(a, true, Saves::Parts),
        ),
        its_own("cpu_at_once", "CPU, the whole batch", "By all threads.", PairDevice::Cpu, |a| {
            training::deep_steps(a, false, Saves::Nothing)
        }),
        its_own("cpu_accumulated", "CPU, accumulated", "By all threads.", PairDevice::Cpu, |a| {
            training::deep_steps(a, false, Saves::Parts)
        }),
    ],
};
