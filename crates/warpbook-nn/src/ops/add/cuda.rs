//! Sums of arrays on a GPU.
#![allow(unsafe_code)]

use super::OP;
use crate::ops::error::Check;
use warpbook_device::{CudaDevice, Kernel, Result, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::load;
use warpbook_record::Dtype;

/// The kernels for y = a + b and dx += dy, loaded for one element type.
#[derive(Debug, Clone)]
pub struct Add {
    dtype: Dtype,
    forward: Kernel,
    accumulate: Kernel,
}

impl Add {
    /// Compiles and loads the kernels.
    ///
    /// # Errors
    /// If compiling fails or the device reports an error.
    pub fn new(device: &CudaDevice, dtype: Dtype) -> Result<Self> {
        let [forward, accumulate] = load(device, warpbook_kernels::nn::add(dtype))?;
        Ok(Self { dtype, forward, accumulate })
    }

    /// Queues y = a + b. y may be a or b.
    ///
    /// # Errors
    /// If the arrays differ in length or have the wrong type; if the launch fails.
    pub fn forward(&self, stream: &Stream, a: &DeviceArray, b: &DeviceArray, y: &DeviceArray) -> Result<()> {
        let n = a.len();
        Check(OP).arrays(self.dtype, &[("a", a, &[n]), ("b", b, &[n]), ("y", y, &[n])])?;
        let shape = self.forward.shape(n as u64);
        // SAFETY: the arguments match `add_forward(a, b, y, n)`; types and lengths were checked.
        unsafe { self.forward.launch(stream, shape, &[a.bytes(), b.bytes(), y.bytes(), &(n as u64)]) }
    }

    /// Queues dx += dy.
    ///
    /// # Errors
    /// See [`Add::forward`].
    pub fn accumulate(&self, stream: &Stream, dy: &DeviceArray, dx: &DeviceArray) -> Result<()> {
        let n = dy.len();
        Check(OP).arrays(self.dtype, &[("dy", dy, &[n]), ("dx", dx, &[n])])?;
        let shape = self.accumulate.shape(n as u64);
        // SAFETY: the arguments match `add_accumulate(dy, dx, n)`; types and lengths were checked.
        unsafe { self.accumulate.launch(stream, shape, &[dy.bytes(), dx.bytes(), &(n as u64)]) }
    }
}

/// The kernel of a weighted sum of several arrays, loaded for one element type.
#[derive(Debug, Clone)]
pub struct Weighted {
    dtype: Dtype,
    kernel: Kernel,
}

impl Weighted {
    /// Compiles and loads the kernel.
    ///
    /// # Errors
    /// If compiling fails or the device reports an error.
    pub fn new(device: &CudaDevice, dtype: Dtype) -> Result<Self> {
        let [kernel] = load(device, [warpbook_kernels::nn::add_weighted(dtype)])?;
        Ok(Self { dtype, kernel })
    }

    /// Queues sum += share x, starting from 0 if `is_first`; x becomes the rounded sum.
    ///
    /// # Errors
    /// If the arrays differ in length or have the wrong type; if the launch fails.
    pub fn queue(
        &self,
        stream: &Stream,
        x: &DeviceArray,
        (share, is_first): (f32, bool),
        sum: &Slice<f32>,
    ) -> Result<()> {
        let n = sum.len();
        Check(OP).arrays(self.dtype, &[("x", x, &[n])])?;
        let shape = self.kernel.shape(n as u64);
        // SAFETY: the arguments match `add_weighted(x, share, first, sum, n)`; types and lengths were checked.
        unsafe { self.kernel.launch(stream, shape, &[x.bytes(), &share, &u32::from(is_first), sum, &(n as u64)]) }
    }
}
