//! Launch of the product whose windows TMA gathers. Callers check lengths, types and alignment.
#![allow(unsafe_code)]

use crate::ops::Words;
use warpbook_device::{Kernel, KernelArg, Result, Slice, Stream, TensorMap};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::{optional, optional_array};
use warpbook_kernels::Launch;

/// Arguments of the kernel.
pub(super) struct Im2colArrays<'a> {
    /// Tensor maps of the images, the weights and the result.
    pub maps: [TensorMap; 3],
    pub g: Words<10>,
    pub bias: Option<&'a Slice<f32>>,
    pub mask: Option<&'a DeviceArray>,
    pub to: &'a DeviceArray,
}

pub(super) fn launch(kernel: &Kernel, stream: &Stream, shape: Launch, a: &Im2colArrays<'_>) -> Result<()> {
    let [images, weights, to] = &a.maps;
    let args: [&dyn KernelArg; 7] = [images, weights, to, &a.g, optional(a.bias), optional_array(a.mask), a.to.bytes()];
    // SAFETY: the arguments match `tma_im2col(map_images, map_weights, map_to, g, bias, mask, to)`. The callers check lengths, types and alignment.
    unsafe { kernel.launch(stream, shape, &args) }
}
