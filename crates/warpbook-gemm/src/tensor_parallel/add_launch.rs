//! Launches the kernel that adds up partial products, after checking types and lengths.
#![allow(unsafe_code)]

use crate::DeviceArray;
use crate::kernel_args::load;
use warpbook_device::{CudaDevice, Kernel, Result, Slice, Stream};
use warpbook_kernels::matmul::add_partials;
use warpbook_record::Dtype;

/// Kernel that adds up partial products and rounds the sum to the type of C.
#[derive(Debug, Clone)]
pub(super) struct AddPartials(Kernel);

impl AddPartials {
    /// Loads the kernel for a C of this type.
    ///
    /// # Errors
    /// If the kernel does not compile, or the driver refuses it.
    pub fn new(device: &CudaDevice, out: Dtype) -> Result<Self> {
        let [kernel] = load(device, [add_partials(out)])?;
        Ok(Self(kernel))
    }

    /// Queues c = first + others[0] + others[1] ..., where all of these have the same length. Each of `others` begins `stride` elements after the previous
    /// one.
    ///
    /// # Errors
    /// If the launch is refused.
    ///
    /// # Panics
    /// If the lengths do not fit together.
    pub fn queue(
        &self,
        stream: &Stream,
        first: &Slice<f32>,
        (others, stride, count): (&Slice<f32>, usize, usize),
        c: &DeviceArray,
    ) -> Result<()> {
        let n = first.len();
        assert_eq!(c.len(), n, "as many elements in C as in a partial product");
        assert!(count == 0 || others.len() >= (count - 1) * stride + n, "room for all partial products");
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let shape = self.0.shape(n as u64);
        // SAFETY: the arguments match `add_partials(first, others, stride, count, out, n)`, and the arrays have the sizes that the kernel accesses. The kernel
        // is compiled for the product's output type, and `TensorParallel` has checked that `c` has this type. Freeing an array waits for running kernels.
        unsafe { self.0.launch(stream, shape, &[first, others, &(stride as u64), &count, c.bytes(), &(n as u64)]) }
    }
}
