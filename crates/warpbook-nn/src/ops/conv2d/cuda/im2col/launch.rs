//! Launches around the products of im2col. Callers check the lengths and types of arrays.
#![allow(unsafe_code)]

use crate::ops::Words;
use crate::ops::conv2d::cuda::shapes::Shapes;
use warpbook_device::{Kernel, KernelArg, Result, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::optional_array;

/// Converts between NCHW and rows `[pixels][channels]`.
pub(super) fn exchange(
    kernel: &Kernel,
    stream: &Stream,
    [from, to]: [&DeviceArray; 2],
    [channels, pixels]: [u32; 2],
    to_rows: bool,
) -> Result<()> {
    let (n, to_rows) = (to.len() as u32, u32::from(to_rows));
    let args: [&dyn KernelArg; 6] = [from.bytes(), to.bytes(), &channels, &pixels, &to_rows, &n];
    // SAFETY: the arguments match `exchange(from, to, channels, pixels, to_rows, n)`, and both arrays have n elements. The callers check lengths and types.
    unsafe { kernel.launch(stream, kernel.shape(n.into()), &args) }
}

/// Unrolls a panel's images x to columns: `ld` elements per output pixel.
pub(super) fn unroll(
    kernel: &Kernel,
    stream: &Stream,
    panel: &Shapes,
    x: &DeviceArray,
    columns: &DeviceArray,
    ld: u32,
) -> Result<()> {
    let n = columns.len() as u32;
    let args: [&dyn KernelArg; 5] = [&Words(panel.patches()), x.bytes(), columns.bytes(), &ld, &n];
    // SAFETY: the arguments match `unroll(g, x, columns, ld, n)`. The callers check lengths and types.
    unsafe { kernel.launch(stream, kernel.shape(n.into()), &args) }
}

/// Adds up the gradient of a panel's columns to get the gradient of its images, in f32.
pub(super) fn fold(
    kernel: &Kernel,
    stream: &Stream,
    panel: &Shapes,
    (columns, ld): (&DeviceArray, u32),
    mask: Option<&DeviceArray>,
    dx: &DeviceArray,
) -> Result<()> {
    let n = dx.len() as u32;
    let args: [&dyn KernelArg; 6] = [&Words(panel.conv()), columns.bytes(), &ld, optional_array(mask), dx.bytes(), &n];
    // SAFETY: the arguments match `fold(g, dcolumns, ld, mask, dx, n)`. The callers check lengths and types.
    unsafe { kernel.launch(stream, kernel.shape(n.into()), &args) }
}

/// Computes max(y, 0) in place.
pub(super) fn relu(kernel: &Kernel, stream: &Stream, y: &DeviceArray) -> Result<()> {
    let n = y.len() as u64;
    // SAFETY: the arguments match `relu_forward(x, y, n)`, where x and y may be the same array. The callers check lengths and types.
    unsafe { kernel.launch(stream, kernel.shape(n), &[y.bytes(), y.bytes(), &n]) }
}
