//! Launches of batch normalisation. Callers check types and lengths.
#![allow(unsafe_code)]

use super::cuda::Pair;
use std::ffi::c_void;
use warpbook_device::{Kernel, KernelArg, Result, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::optional;
use warpbook_kernels::Launch;

/// The struct `Shape` of `kernels/nn/batch_norm.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct NormShape {
    pub(super) rows: u32,
    pub(super) channels: u32,
    pub(super) pixels: u32,
    pub(super) chunk: u32,
}

// SAFETY: the fields have the layout of the kernel's struct: four 32-bit words.
unsafe impl KernelArg for NormShape {
    fn as_arg(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

impl NormShape {
    pub(super) fn elements(self) -> u64 {
        u64::from(self.rows) * u64::from(self.channels)
    }

    /// Returns the number of threads of a kernel that adds up chunks: 32 for each channel.
    fn adders(self) -> u64 {
        32 * u64::from(self.channels)
    }
}

/// Writes two sums per channel and chunk into `partial`.
pub(super) fn sums_forward(
    kernel: &Kernel,
    stream: &Stream,
    shape: Launch,
    s: NormShape,
    x: &DeviceArray,
    partial: &Slice<f64>,
) -> Result<()> {
    // SAFETY: the arguments match `sums_forward(s, x, partial)`. The callers check types and lengths.
    unsafe { kernel.launch(stream, shape, &[&s, x.bytes(), partial]) }
}

/// Adds the sums of all chunks, or writes zeros if `counts` is false.
pub(super) fn totals(
    kernel: &Kernel,
    stream: &Stream,
    s: NormShape,
    partial: &Slice<f64>,
    counts: bool,
    totals: &Slice<f64>,
) -> Result<()> {
    let args: [&dyn KernelArg; 4] = [&s, partial, &u32::from(counts), totals];
    // SAFETY: the arguments match `totals(s, partial, counts, total)`. The callers check types and lengths.
    unsafe { kernel.launch(stream, kernel.shape(s.adders()), &args) }
}

pub(super) fn statistics(
    kernel: &Kernel,
    stream: &Stream,
    s: NormShape,
    partial: &Slice<f64>,
    [epsilon, momentum]: [f32; 2],
    [running_mean, running_variance, mean, inverse]: [&Slice<f32>; 4],
) -> Result<()> {
    let args: [&dyn KernelArg; 8] = [&s, partial, &epsilon, &momentum, running_mean, running_variance, mean, inverse];
    // SAFETY: the arguments match `statistics(s, partial, epsilon, momentum, running_mean, running_variance, mean, inverse)`. The callers check types and
    // lengths.
    unsafe { kernel.launch(stream, kernel.shape(s.adders()), &args) }
}

pub(super) fn inverse_deviation(
    kernel: &Kernel,
    stream: &Stream,
    s: NormShape,
    (variance, epsilon): (&Slice<f32>, f32),
    inverse: &Slice<f32>,
) -> Result<()> {
    // SAFETY: the arguments match `inverse_deviation(s, variance, epsilon, inverse)`. The callers check types and lengths.
    unsafe { kernel.launch(stream, kernel.shape(s.channels.into()), &[&s, variance, &epsilon, inverse]) }
}

pub(super) fn normalise(
    kernel: &Kernel,
    stream: &Stream,
    shape: Launch,
    s: NormShape,
    (x, y): (&DeviceArray, &DeviceArray),
    [gamma, beta]: Pair<'_>,
    [mean, inverse]: Pair<'_>,
) -> Result<()> {
    let args: [&dyn KernelArg; 7] = [&s, x.bytes(), gamma, beta, mean, inverse, y.bytes()];
    // SAFETY: the arguments match `normalise(s, x, gamma, beta, mean, inverse, y)`. The callers check types and lengths.
    unsafe { kernel.launch(stream, shape, &args) }
}

pub(super) fn sums_backward(
    kernel: &Kernel,
    stream: &Stream,
    shape: Launch,
    s: NormShape,
    [x, dy]: [&DeviceArray; 2],
    [mean, inverse]: Pair<'_>,
    partial: &Slice<f64>,
) -> Result<()> {
    let args: [&dyn KernelArg; 6] = [&s, x.bytes(), dy.bytes(), mean, inverse, partial];
    // SAFETY: the arguments match `sums_backward(s, x, dy, mean, inverse, partial)`. The callers check types and lengths.
    unsafe { kernel.launch(stream, shape, &args) }
}

/// Computes the coefficients `[3][channels]`; without `gradients`, dgamma and dbeta are not written.
pub(super) fn lines(
    kernel: &Kernel,
    stream: &Stream,
    s: NormShape,
    partial: &Slice<f64>,
    [gamma, inverse, lines]: [&Slice<f32>; 3],
    gradients: Option<Pair<'_>>,
) -> Result<()> {
    let [dgamma, dbeta] = [0, 1].map(|i| optional(gradients.map(|of| of[i])));
    let args: [&dyn KernelArg; 7] = [&s, partial, gamma, inverse, dgamma, dbeta, lines];
    // SAFETY: the arguments match `lines(s, partial, gamma, inverse, dgamma, dbeta, line)`. The callers check types and lengths.
    unsafe { kernel.launch(stream, kernel.shape(s.adders()), &args) }
}

pub(super) fn backward(
    kernel: &Kernel,
    stream: &Stream,
    shape: Launch,
    s: NormShape,
    [x, dy, dx]: [&DeviceArray; 3],
    [mean, lines]: [&Slice<f32>; 2],
) -> Result<()> {
    let args: [&dyn KernelArg; 6] = [&s, x.bytes(), dy.bytes(), mean, lines, dx.bytes()];
    // SAFETY: the arguments match `backward(s, x, dy, mean, line, dx)`. The callers check types and lengths.
    unsafe { kernel.launch(stream, shape, &args) }
}
