//! The CUDA body.
#![allow(unsafe_code)]

use super::{Dropout, OP};
use crate::ops::error::Check;
use crate::ops::error::one;
use warpbook_device::{CudaDevice, Kernel, KernelArg, Result, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::load;
use warpbook_record::Dtype;

/// The kernel of dropout, loaded once for a type of elements.
#[derive(Debug, Clone)]
pub struct Masks {
    dtype: Dtype,
    kernel: Kernel,
    /// Elements of the batch before the first.
    begin: u64,
}

impl Masks {
    /// Compiles and loads the kernel.
    ///
    /// # Errors
    /// The compiler's and the device's.
    pub fn new(device: &CudaDevice, dtype: Dtype) -> Result<Self> {
        let [kernel] = load(device, [warpbook_kernels::nn::dropout(dtype)])?;
        Ok(Self { dtype, kernel, begin: 0 })
    }

    /// The same for a part of a batch that comes after `begin` elements: masks are drawn by an element's place in the batch.
    #[must_use]
    pub fn from_element(self, begin: u64) -> Self {
        Self { begin, ..self }
    }

    /// y = x where the mask keeps it, scaled, else 0. y may be x. `step`, `[1]`, is the training step, in place of [`Dropout::step`].
    ///
    /// # Errors
    /// The probability is out of range, the arrays differ in length, or hold another type; the launch is refused.
    pub fn forward(&self, s: &Stream, d: &Dropout, step: &Slice<u32>, x: &DeviceArray, y: &DeviceArray) -> Result<()> {
        self.masked(s, d, step, [("x", x), ("y", y)])
    }

    /// dx of dy, by the same mask. dx may be dy.
    ///
    /// # Errors
    /// As of [`Masks::forward`].
    pub fn backward(
        &self,
        s: &Stream,
        d: &Dropout,
        step: &Slice<u32>,
        dy: &DeviceArray,
        dx: &DeviceArray,
    ) -> Result<()> {
        self.masked(s, d, step, [("dy", dy), ("dx", dx)])
    }

    fn masked(
        &self,
        stream: &Stream,
        d: &Dropout,
        step: &Slice<u32>,
        [from, to]: [(&'static str, &DeviceArray); 2],
    ) -> Result<()> {
        let n = from.1.len();
        d.check((from.0, n), (to.0, to.1.len()))?;
        Check(OP).arrays(self.dtype, &[(from.0, from.1, &[n]), (to.0, to.1, &[n])])?;
        one(Check(OP), "the step", Some(step))?;
        let ([name, _], threshold, scale, n) = (d.counter(), d.threshold(), d.scale(), n as u64);
        let args: [&dyn KernelArg; 9] =
            [from.1.bytes(), to.1.bytes(), &n, &d.seed, &name, step, &threshold, &scale, &self.begin];
        // SAFETY: dropout(in, out, n, seed, name, step, threshold, scale, begin); types and lengths were checked.
        unsafe { self.kernel.launch(stream, self.kernel.shape(n), &args) }
    }
}
