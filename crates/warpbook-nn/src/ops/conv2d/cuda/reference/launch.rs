//! Launch of a convolution's reference.
#![allow(unsafe_code)]

use crate::ops::Words;
use crate::ops::conv2d::cuda::shapes::Shapes;
use warpbook_device::{Buffer, Kernel, KernelArg, Result, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_kernels::Launch;
use warpbook_kernels::nn::conv2d::Pass;

/// Computes a pass and the sums of its terms' magnitudes, and waits for the results. Callers check types and lengths.
pub(super) fn reference(
    kernel: &Kernel,
    stream: &Stream,
    shapes: &Shapes,
    pass: Pass,
    [a, b]: [&DeviceArray; 2],
    [want, sizes]: [&Buffer<f64>; 2],
) -> Result<()> {
    let (g, n) = (Words(shapes.conv()), want.len() as u32);
    let shape = match pass {
        Pass::WeightGradient => Launch { grid: [n, 1, 1], ..kernel.shape(1) },
        _ => kernel.shape(n.into()),
    };
    let args: [&dyn KernelArg; 6] = [&g, a.bytes(), b.bytes(), want, sizes, &n];
    // SAFETY: the parameters of all these kernels are (g, a, b, want, sizes, n). The types and lengths were checked, and the arrays stay borrowed until the
    // stream has been waited for.
    unsafe { kernel.launch(stream, shape, &args) }?;
    stream.synchronize()
}
