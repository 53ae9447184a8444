//! Activations on a GPU.
#![allow(unsafe_code)]

use super::{Activation, OP};
use crate::ops::error::Check;
use warpbook_device::{CudaDevice, Kernel, Result, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::load;
use warpbook_record::Dtype;

/// The kernels of the activations, loaded for one element type.
#[derive(Debug, Clone)]
pub struct Activations {
    dtype: Dtype,
    relu: [Kernel; 2],
    gelu: [Kernel; 2],
}

impl Activations {
    /// Compiles and loads the kernels.
    ///
    /// # Errors
    /// If compiling fails or the device reports an error.
    pub fn new(device: &CudaDevice, dtype: Dtype) -> Result<Self> {
        let [relu, relu_gradient, gelu, gelu_gradient] = load(device, warpbook_kernels::nn::activation(dtype))?;
        Ok(Self { dtype, relu: [relu, relu_gradient], gelu: [gelu, gelu_gradient] })
    }

    fn kernels(&self, f: Activation) -> &[Kernel; 2] {
        match f {
            Activation::Relu => &self.relu,
            Activation::Gelu => &self.gelu,
        }
    }

    /// Queues y = f(x). y may be x.
    ///
    /// # Errors
    /// If the arrays differ in length or have the wrong type; if the launch fails.
    pub fn forward(&self, stream: &Stream, f: Activation, x: &DeviceArray, y: &DeviceArray) -> Result<()> {
        let n = x.len();
        Check(OP).arrays(self.dtype, &[("x", x, &[n]), ("y", y, &[n])])?;
        let [kernel, _] = self.kernels(f);
        // SAFETY: the arguments match `relu_forward(x, y, n)` or `gelu_forward(x, y, n)`; types and lengths were checked.
        unsafe { kernel.launch(stream, kernel.shape(n as u64), &[x.bytes(), y.bytes(), &(n as u64)]) }
    }

    /// Queues dx = dy f'(x). `kept` is the array that [`Activation::keeps`] names. dx may be dy or `kept`.
    ///
    /// # Errors
    /// See [`Activations::forward`].
    pub fn backward(
        &self,
        stream: &Stream,
        f: Activation,
        kept: &DeviceArray,
        dy: &DeviceArray,
        dx: &DeviceArray,
    ) -> Result<()> {
        let n = kept.len();
        Check(OP).arrays(self.dtype, &[("x or y", kept, &[n]), ("dy", dy, &[n]), ("dx", dx, &[n])])?;
        let [_, kernel] = self.kernels(f);
        let args: [&dyn warpbook_device::KernelArg; 4] = [kept.bytes(), dy.bytes(), dx.bytes(), &(n as u64)];
        // SAFETY: the arguments match `relu_backward(y, dy, dx, n)` or `gelu_backward(x, dy, dx, n)`; types and lengths were checked.
        unsafe { kernel.launch(stream, kernel.shape(n as u64), &args) }
    }
}
