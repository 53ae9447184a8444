//! Launches of the kernels for convolutions of few channels. Callers check lengths, types and alignment.
#![allow(unsafe_code)]

use crate::ops::Words;
use crate::ops::conv2d::cuda::{ForwardArrays, PooledGradient};
use warpbook_device::{Kernel, KernelArg, Result, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::{optional, optional_array};
use warpbook_kernels::Launch;

pub(super) fn forward(
    kernel: &Kernel,
    stream: &Stream,
    shape: Launch,
    g: Words<19>,
    f: &ForwardArrays<'_>,
) -> Result<()> {
    let relu = u32::from(f.relu);
    let mut args: Vec<&dyn KernelArg> = vec![&g, f.x.bytes(), f.weight.bytes(), optional(f.bias), &relu, f.y.bytes()];
    args.extend(f.pool.map(|index| optional(index)));
    // SAFETY: the arguments match `few_forward(g, x, weight, bias, relu, y)`, followed by `index` if the kernel was compiled with pooling. The callers check
    // lengths, types and alignment.
    unsafe { kernel.launch(stream, shape, &args) }
}

/// Writes f32 partial sums into `out`: for each split `[filters][taps]`, followed by `[filters]`. With `pooled`, dy is the gradient of the
/// maxima, and the kernel must be compiled for that.
pub(super) fn gradient(
    kernel: &Kernel,
    stream: &Stream,
    shape: Launch,
    g: Words<19>,
    [x, dy]: [&DeviceArray; 2],
    pooled: Option<&PooledGradient<'_>>,
    out: &Slice<f32>,
) -> Result<()> {
    let (mask, scale) = pooled.and_then(|p| p.mask).map_or((None, 1.0), |(mask, scale)| (Some(mask), scale));
    let mut args: Vec<&dyn KernelArg> = vec![&g, x.bytes(), dy.bytes(), out];
    if let Some(pooled) = pooled {
        args.extend([pooled.places as &dyn KernelArg, optional_array(mask), &scale]);
    }
    // SAFETY: the arguments match `few_gradient(g, x, dy, out)`, followed by `index, mask, scale` if the kernel was compiled with pooling. The callers check
    // lengths, types and alignment.
    unsafe { kernel.launch(stream, shape, &args) }
}
