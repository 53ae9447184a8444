//! Dropout on a GPU.
#![allow(unsafe_code)]

use super::{Dropout, OP};
use crate::ops::error::Check;
use crate::ops::error::one;
use warpbook_device::{CudaDevice, Kernel, KernelArg, Result, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::load;
use warpbook_record::Dtype;

/// The kernel of dropout, loaded for one element type.
#[derive(Debug, Clone)]
pub struct Masks {
    dtype: Dtype,
    kernel: Kernel,
    /// Number of elements of the batch that come before the arrays' first element.
    begin: u64,
}

impl Masks {
    /// Compiles and loads the kernel.
    ///
    /// # Errors
    /// If compiling fails or the device reports an error.
    pub fn new(device: &CudaDevice, dtype: Dtype) -> Result<Self> {
        let [kernel] = load(device, [warpbook_kernels::nn::dropout(dtype)])?;
        Ok(Self { dtype, kernel, begin: 0 })
    }

    /// Sets the number of elements of the batch that come before this part: masks depend on an element's position in the batch.
    #[must_use]
    pub fn from_element(self, begin: u64) -> Self {
        Self { begin, ..self }
    }

    /// Queues y = scale x where the mask keeps the element, else 0. y may be x. `step`, `[1]`, is the training step and replaces
    /// [`Dropout::step`].
    ///
    /// # Errors
    /// If the probability is out of range, the arrays differ in length or have the wrong type; if the launch fails.
    pub fn forward(&self, s: &Stream, d: &Dropout, step: &Slice<u32>, x: &DeviceArray, y: &DeviceArray) -> Result<()> {
        self.masked(s, d, step, [("x", x), ("y", y)])
    }

    /// Queues dx from dy with the forward pass's mask. dx may be dy.
    ///
    /// # Errors
    /// See [`Masks::forward`].
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
        // SAFETY: the arguments match `dropout(in, out, n, seed, name, step, threshold, scale, begin)`; types and lengths were checked.
        unsafe { self.kernel.launch(stream, self.kernel.shape(n), &args) }
    }
}
