//! Launches of the optimisers and of the norm. Callers check types and lengths.
#![allow(unsafe_code)]

use super::cuda::{Control, NormOutputs, Parameters};
use crate::ops::step_launch::{End, Settings, Verdict};
use warpbook_device::{Kernel, KernelArg, Result, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::{optional, optional_array};
use warpbook_kernels::Launch;

pub(super) fn prepare(kernel: &Kernel, stream: &Stream, settings: &Settings, control: Control<'_>) -> Result<()> {
    let Control { rate_and_steps, step, found, loss_scale, clip } = control;
    let args: [&dyn KernelArg; 6] =
        [settings, rate_and_steps, optional(found), optional(loss_scale), optional(clip), step];
    // SAFETY: the arguments match `prepare(settings, control, found, loss_scale, clip, step)`. The callers check types and lengths.
    unsafe { kernel.launch(stream, kernel.shape(1), &args) }
}

/// Updates the parameters. `kernel` belongs to the optimiser, which has as many arrays of state as the kernel reads.
pub(super) fn update(
    kernel: &Kernel,
    stream: &Stream,
    settings: &Settings,
    step: &Slice<u32>,
    p: Parameters<'_>,
) -> Result<()> {
    let sizes = ParameterCounts::new(p);
    // SAFETY: the arguments match `sgd(settings, step, weights, gradients, rounded, split, copy, n)`, or the same parameters with one or two arrays of state
    // before `copy`. The callers check types and lengths.
    unsafe { kernel.launch(stream, kernel.shape(sizes.n), &update_args(settings, step, p, &sizes)) }
}

/// Updates the parameters and ends the step, with a kernel that has a last block.
pub(super) fn update_and_end(
    kernel: &Kernel,
    stream: &Stream,
    (settings, step): (&Settings, &Slice<u32>),
    p: Parameters<'_>,
    (arrived, end): (&Slice<u32>, &End),
) -> Result<()> {
    let sizes = ParameterCounts::new(p);
    let mut args = update_args(settings, step, p, &sizes);
    args.extend([arrived as &dyn KernelArg, end]);
    // SAFETY: the arguments match `sgd_last(settings, step, weights, gradients, rounded, split, copy, n, arrived, end)`, or the same parameters with one or two
    // arrays of state before `copy`. Only this kernel uses `arrived`. The callers check types and lengths.
    unsafe { kernel.launch(stream, kernel.shape(sizes.n), &args) }
}

/// Restores the parameters after a step with an overflow; `kept` is `[1 + state arrays][n]`.
pub(super) fn restore(
    kernel: &Kernel,
    stream: &Stream,
    (found, counters): (&Slice<u32>, &Slice<u32>),
    kept: &Slice<f32>,
    p: Parameters<'_>,
) -> Result<()> {
    let n = p.weights.len() as u64;
    let args: [&dyn KernelArg; 8] = [
        found,
        counters,
        kept,
        &n,
        p.weights,
        optional(p.state.first()),
        optional(p.state.get(1)),
        optional_array(p.copy),
    ];
    // SAFETY: the arguments match `restore(found, counters, kept, n, weights, first, second, copy)`. The callers check types and lengths.
    unsafe { kernel.launch(stream, kernel.shape(n), &args) }
}

/// Number of parameters, and number of parameters whose gradients are in f32.
struct ParameterCounts {
    n: u64,
    split: u64,
}

impl ParameterCounts {
    fn new(p: Parameters<'_>) -> Self {
        Self { n: p.weights.len() as u64, split: p.gradients.len() as u64 }
    }
}

fn update_args<'a>(
    settings: &'a Settings,
    step: &'a Slice<u32>,
    p: Parameters<'a>,
    sizes: &'a ParameterCounts,
) -> Vec<&'a dyn KernelArg> {
    let mut args: Vec<&dyn KernelArg> =
        vec![settings, step, p.weights, p.gradients, optional_array(p.rounded), &sizes.split];
    args.extend(p.state.iter().map(|s| s as &dyn KernelArg));
    args.extend([optional_array(p.copy), &sizes.n]);
    args
}

/// Writes the sums into `partial`, which has one element for each block of the launch's shape.
pub(super) fn squares(
    kernel: &Kernel,
    stream: &Stream,
    gradients: &DeviceArray,
    n: u64,
    partial: &Slice<f64>,
) -> Result<()> {
    let shape = Launch { grid: [u32::try_from(partial.len()).unwrap_or(u32::MAX), 1, 1], ..kernel.shape(n) };
    // SAFETY: the arguments match `sum_squares(gradients, n, partial)`. The callers check types and lengths.
    unsafe { kernel.launch(stream, shape, &[gradients.bytes(), &n, partial]) }
}

pub(super) fn norm(
    kernel: &Kernel,
    stream: &Stream,
    (partial, m): (&Slice<f64>, u32),
    max_norm: f64,
    loss_scale: Option<&Slice<f32>>,
    to: NormOutputs<'_>,
) -> Result<()> {
    let args: [&dyn KernelArg; 7] = [partial, &m, &max_norm, optional(loss_scale), to.norm, to.clip, to.found];
    // SAFETY: the arguments match `global_norm(partial, m, most, loss_scale, norm, clip, found)`. The callers check types and lengths.
    unsafe { kernel.launch(stream, kernel.shape(1), &args) }
}

/// Computes the norm of the gradients of both types, and the step's verdict. `partial` has one element for each of the `blocks` of both arrays,
/// followed by sums of other gradients.
pub(super) fn norm_and_verdict(
    kernel: &Kernel,
    stream: &Stream,
    (exact, rounded): (&Slice<f32>, Option<&DeviceArray>),
    (partial, blocks, arrived): (&Slice<f64>, u32, &Slice<u32>),
    (max_norm, loss_scale): (f64, Option<&Slice<f32>>),
    (to, verdict): (NormOutputs<'_>, &Verdict),
) -> Result<()> {
    let (split, last) = (exact.len() as u64, rounded.map_or(0, DeviceArray::len) as u64);
    let (n, m) = (split + last, u32::try_from(partial.len()).unwrap_or(u32::MAX));
    let args: [&dyn KernelArg; 13] = [
        exact,
        optional_array(rounded),
        &split,
        &n,
        partial,
        &m,
        arrived,
        &max_norm,
        optional(loss_scale),
        to.norm,
        to.clip,
        to.found,
        verdict,
    ];
    let shape = Launch { grid: [blocks, 1, 1], ..kernel.shape(n) };
    // SAFETY: the arguments match `sum_squares_last(gradients, rounded, split, n, partial, m, arrived, most, loss_scale, norm, clip, overflow, verdict)`. The
    // grid has one block for each part of the two arrays, `m` is at least the number of blocks, and only this kernel uses `arrived`. The callers check types
    // and lengths.
    unsafe { kernel.launch(stream, shape, &args) }
}
