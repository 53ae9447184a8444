//! Launches of pools. Callers check types and lengths, and for adjacent windows also their sizes and the
//! alignment.
#![allow(unsafe_code)]

use crate::ops::Words;
use warpbook_device::{Kernel, KernelArg, Result, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::optional_array;

/// The struct `Pool` of `kernels/nn/pool.cu`, as words.
pub(super) type PoolArgs = Words<12>;

/// Launches the kernel over `n` elements of y or, for adjacent windows, `n` words of 16 bytes.
pub(super) fn max_forward(
    kernel: &Kernel,
    stream: &Stream,
    sizes: PoolArgs,
    (x, y): (&DeviceArray, &DeviceArray),
    index: &Slice<u8>,
    n: u32,
) -> Result<()> {
    let args: [&dyn KernelArg; 5] = [&sizes, x.bytes(), y.bytes(), index, &n];
    // SAFETY: the arguments match `max_forward(g, x, y, index, n)`, or `max_forward_adjacent(g, x, y, index, n)`. The callers check types and lengths.
    unsafe { kernel.launch(stream, kernel.shape(n.into()), &args) }
}

pub(super) fn max_backward(
    kernel: &Kernel,
    stream: &Stream,
    sizes: PoolArgs,
    index: &Slice<u8>,
    (dy, dx): (&DeviceArray, &DeviceArray),
) -> Result<()> {
    let n = dx.len() as u32;
    let args: [&dyn KernelArg; 5] = [&sizes, index, dy.bytes(), dx.bytes(), &n];
    // SAFETY: the arguments match `max_backward(g, index, dy, dx, n)`. The callers check types and lengths.
    unsafe { kernel.launch(stream, kernel.shape(n.into()), &args) }
}

/// Launches the kernel over rows and columns of windows, with `n` words of 16 bytes in all.
pub(super) fn max_backward_adjacent(
    kernel: &Kernel,
    stream: &Stream,
    sizes: PoolArgs,
    index: &Slice<u8>,
    (dy, mask, dx): (&DeviceArray, Option<(&DeviceArray, f32)>, &DeviceArray),
    [rows, columns, n]: [u32; 3],
) -> Result<()> {
    let (mask, scale) = mask.map_or((None, 1.0), |(mask, scale)| (Some(mask), scale));
    let args: [&dyn KernelArg; 9] =
        [&sizes, index, dy.bytes(), optional_array(mask), dx.bytes(), &rows, &columns, &n, &scale];
    // SAFETY: the arguments match `max_backward_adjacent(g, index, dy, mask, dx, rows, columns, n, scale)`. The callers check types and lengths.
    unsafe { kernel.launch(stream, kernel.shape(n.into()), &args) }
}

/// Computes averages, or their gradients; both kernels have one thread per element of `to`.
pub(super) fn average(
    kernel: &Kernel,
    stream: &Stream,
    sizes: PoolArgs,
    from: &DeviceArray,
    to: &DeviceArray,
) -> Result<()> {
    let n = to.len() as u32;
    // SAFETY: the arguments match `average_forward(g, x, y, n)`, or `average_backward(g, dy, dx, n)`. The callers check types and lengths.
    unsafe { kernel.launch(stream, kernel.shape(n.into()), &[&sizes, from.bytes(), to.bytes(), &n]) }
}
