//! Launches of custom layers, with the arguments that are declared before the source. Callers check types, lengths and numbers of arrays.
//! The author promises that the source uses them correctly, as with every user-written kernel.
#![allow(unsafe_code)]

use super::cuda::Backward;
use warpbook_device::{Kernel, KernelArg, Result, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_kernels::Launch;

pub(super) fn forward(
    kernel: &Kernel,
    stream: &Stream,
    shape: Launch,
    (x, y): (&DeviceArray, &DeviceArray),
    parameters: &[Slice<f32>],
    n: u32,
) -> Result<()> {
    let mut args: Vec<&dyn KernelArg> = vec![x.bytes()];
    args.extend(parameters.iter().map(|p| p as &dyn KernelArg));
    args.extend([y.bytes() as &dyn KernelArg, &n]);
    // SAFETY: the arguments match `forward(x, parameters.., y, n)`. The callers check types, lengths and numbers of arrays.
    unsafe { kernel.launch(stream, shape, &args) }
}

pub(super) fn backward(kernel: &Kernel, stream: &Stream, shape: Launch, with: &Backward<'_>, n: u32) -> Result<()> {
    let Backward { x, y, dy, parameters, dx, gradients } = with;
    let mut args: Vec<&dyn KernelArg> = vec![x.bytes(), y.bytes(), dy.bytes()];
    args.extend(parameters.iter().map(|p| p as &dyn KernelArg));
    args.push(dx.bytes());
    args.extend(gradients.shares.iter().map(|p| p as &dyn KernelArg));
    args.push(&n);
    // SAFETY: the arguments match `backward(x, y, dy, parameters.., dx, gradients.., n)`, with one gradient for each parameter. The callers check types,
    // lengths and numbers of arrays.
    unsafe { kernel.launch(stream, shape, &args) }
}
