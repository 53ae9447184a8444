//! Launches of the implicit product. Callers check lengths, types and alignment.
#![allow(unsafe_code)]

use crate::ops::Words;
use crate::ops::conv2d::cuda::ForwardArrays;
use crate::ops::conv2d::cuda::shapes::Shapes;
use warpbook_device::{Kernel, KernelArg, Result, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::{optional, optional_array};
use warpbook_kernels::Launch;

pub(super) fn forward(kernel: &Kernel, stream: &Stream, s: &Shapes, f: &ForwardArrays<'_>) -> Result<()> {
    let (patches, rows) = match f.pool {
        None => (s.patches(), s.positions().into()),
        // Four windows of 2 x 2 make 16 rows.
        Some(_) => (s.pooled_patches(), u64::from(s.maxima()).div_ceil(4) * 16),
    };
    let (g, relu) = (Words(patches), u32::from(f.relu));
    let shape = kernel.tiles_shape(rows, s.filters.into());
    let mut args: Vec<&dyn KernelArg> =
        vec![&g, f.x.bytes(), f.weight.bytes(), optional(f.bias), &relu, f.y.bytes(), &s.filters];
    args.extend(f.pool.map(|index| optional(index)));
    // SAFETY: the arguments match `forward(g, x, weight, bias, relu, y, filters)`, followed by `index` if the kernel was compiled with pooling. The callers
    // check lengths, types and alignment.
    unsafe { kernel.launch(stream, shape, &args) }
}

pub(super) fn input_gradient(
    kernel: &Kernel,
    stream: &Stream,
    s: &Shapes,
    [dy, weight]: [&DeviceArray; 2],
    mask: Option<&DeviceArray>,
    dx: &DeviceArray,
) -> Result<()> {
    let (g, window) = (Words(s.mirrored_patches()), s.window());
    let shape = kernel.tiles_shape(u64::from(s.batch) * u64::from(s.input_pixels()), s.channels.into());
    let args: [&dyn KernelArg; 8] =
        [&g, dy.bytes(), weight.bytes(), optional_array(mask), dx.bytes(), &s.channels, &s.filters, &window];
    // SAFETY: the arguments match `input_gradient(g, dy, weight, mask, dx, channels, filters, window)`. The callers check lengths, types and alignment.
    unsafe { kernel.launch(stream, shape, &args) }
}

/// Writes f32 partial sums `[splits][filters][taps]` into `out`; each split sums `share` pixels.
pub(super) fn weight_gradient(
    kernel: &Kernel,
    stream: &Stream,
    s: &Shapes,
    [x, dy]: [&DeviceArray; 2],
    [share, splits]: [u32; 2],
    out: &Slice<f32>,
) -> Result<()> {
    let one = kernel.tiles_shape(s.filters.into(), s.taps().into());
    let shape = Launch { grid: [one.grid[0].saturating_mul(splits), 1, 1], ..one };
    let args: [&dyn KernelArg; 6] = [&Words(s.patches()), x.bytes(), dy.bytes(), out, &s.filters, &share];
    // SAFETY: the arguments match `weight_gradient(g, x, dy, out, filters, share)`. The callers check lengths, types and alignment.
    unsafe { kernel.launch(stream, shape, &args) }
}
