//! The launches of the kernels of few channels. Arrays have the lengths, the type and the alignment that the kernels take.
#![allow(unsafe_code)]

use super::Forward;
use super::args::Words;
use crate::gemm::DeviceArray;
use crate::ops::device::optional;
use warpbook_device::{Kernel, KernelArg, Result, Slice, Stream};
use warpbook_kernels::Launch;

pub(super) fn forward(kernel: &Kernel, stream: &Stream, shape: Launch, g: Words<19>, f: &Forward<'_>) -> Result<()> {
    let relu = u32::from(f.relu);
    let mut args: Vec<&dyn KernelArg> = vec![&g, f.x.bytes(), f.weight.bytes(), optional(f.bias), &relu, f.y.bytes()];
    args.extend(f.pool.map(|index| optional(index)));
    // SAFETY: few_forward(g, x, weight, bias, relu, y), with `index` after them where it is compiled to pool.
    unsafe { kernel.launch(stream, shape, &args) }
}

/// Into `out`, f32 `[splits]`: `[filters][taps]`, then `[filters]`.
pub(super) fn gradient(
    kernel: &Kernel,
    stream: &Stream,
    shape: Launch,
    g: Words<19>,
    [x, dy]: [&DeviceArray; 2],
    out: &Slice<f32>,
) -> Result<()> {
    let args: [&dyn KernelArg; 4] = [&g, x.bytes(), dy.bytes(), out];
    // SAFETY: few_gradient(g, x, dy, out).
    unsafe { kernel.launch(stream, shape, &args) }
}
