//! Launches of the products of shifted windows. Callers check lengths, types and alignment.
#![allow(unsafe_code)]

use crate::ops::Words;
use warpbook_device::{Kernel, KernelArg, Result, Slice, Stream, TensorMap};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::{optional, optional_array};
use warpbook_kernels::Launch;

/// Arguments of the forward kernel.
pub(super) struct WindowArrays<'a> {
    /// Tensor maps of the input images and of the weights.
    pub maps: [TensorMap; 2],
    pub g: Words<20>,
    pub bias: Option<&'a Slice<f32>>,
    pub mask: Option<&'a DeviceArray>,
    pub to: &'a DeviceArray,
    /// For kernels that pool, the optional array for the maxima's positions.
    pub pool: Option<Option<&'a Slice<u8>>>,
}

pub(super) fn launch(kernel: &Kernel, stream: &Stream, shape: Launch, a: WindowArrays<'_>) -> Result<()> {
    let [images, weights] = &a.maps;
    let mut args: Vec<&dyn KernelArg> =
        vec![images, weights, &a.g, optional(a.bias), optional_array(a.mask), a.to.bytes()];
    args.extend(a.pool.map(|index| optional(index)));
    // SAFETY: the arguments match `shifted_windows(map_images, map_weights, g, bias, mask, to)`, followed by `index` if the kernel was compiled with pooling.
    // The callers check lengths, types and alignment.
    unsafe { kernel.launch(stream, shape, &args) }
}

/// Writes f32 partial sums into `out`: for each split `[filters][kh][kw][channels]`, followed by `[filters]`. The tensor maps describe dy and x.
pub(super) fn launch_gradient(
    kernel: &Kernel,
    stream: &Stream,
    shape: Launch,
    [y, x]: &[TensorMap; 2],
    g: Words<16>,
    out: &Slice<f32>,
) -> Result<()> {
    let args: [&dyn KernelArg; 4] = [y, x, &g, out];
    // SAFETY: the arguments match `shifted_gradient(map_y, map_x, g, out)`. The callers check lengths, types and alignment.
    unsafe { kernel.launch(stream, shape, &args) }
}
