//! The CUDA body, for either layout of images.
#![allow(unsafe_code)]

use super::{Geometry, OP};
use crate::gemm::DeviceArray;
use crate::ops::Layout;
use crate::ops::device::load;
use crate::ops::error::Check;
use std::ffi::c_void;
use warpbook_device::{CudaDevice, Kernel, KernelArg, Result, Slice, Stream};
use warpbook_record::Dtype;

/// `Pool` of `kernels/nn/pool.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
struct PoolArgs([u32; 12]);

// SAFETY: the layout is that of the kernel's struct: twelve words.
unsafe impl KernelArg for PoolArgs {
    fn as_arg(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

/// The kernels of pooling, loaded once for a type of elements and a layout.
#[derive(Debug, Clone)]
pub struct Pooling {
    dtype: Dtype,
    max: [Kernel; 2],
    average: [Kernel; 2],
}

impl Pooling {
    /// Compiles and loads the kernels.
    ///
    /// # Errors
    /// The compiler's and the device's.
    pub fn new(device: &CudaDevice, dtype: Dtype, layout: Layout) -> Result<Self> {
        let [max, max_gradient, average, average_gradient] = load(device, warpbook_kernels::nn::pool(dtype, layout))?;
        Ok(Self { dtype, max: [max, max_gradient], average: [average, average_gradient] })
    }

    /// The kernels' sizes, if x and y have their lengths and types.
    fn check(
        &self,
        g: &Geometry,
        x: (&'static str, &DeviceArray),
        y: (&'static str, &DeviceArray),
    ) -> Result<PoolArgs> {
        let (oh, ow) = g.check((x.0, x.1.len()), (y.0, y.1.len()))?;
        let check = Check(OP);
        check.arrays(self.dtype, &[(x.0, x.1, &[x.1.len()]), (y.0, y.1, &[y.1.len()])])?;
        check.word("the number of elements", x.1.len().max(y.1.len()))?;
        let mut words = [0; 12];
        let sizes = [g.batch, g.channels, g.height, g.width, oh, ow, g.size[0], g.size[1]];
        for (word, size) in words.iter_mut().zip(sizes.iter().chain(&g.stride).chain(&g.padding)) {
            *word = check.word("a size", *size)?;
        }
        Ok(PoolArgs(words))
    }

    /// The maxima and their indices in the windows, as [`max_forward`](super::cpu::max_forward) has them.
    ///
    /// # Errors
    /// As there; an array holds another type, or has 2^32 elements or more; the launch is refused.
    pub fn max_forward(
        &self,
        stream: &Stream,
        g: &Geometry,
        x: &DeviceArray,
        y: &DeviceArray,
        index: &Slice<u8>,
    ) -> Result<()> {
        let sizes = self.check(g, ("x", x), ("y", y))?;
        g.check_index(index.len(), y.len())?;
        let (kernel, n) = (&self.max[0], y.len() as u32);
        let args: [&dyn KernelArg; 5] = [&sizes, x.bytes(), y.bytes(), index, &n];
        // SAFETY: max_forward(g, x, y, index, n); types and lengths were checked.
        unsafe { kernel.launch(stream, kernel.shape(n.into()), &args) }
    }

    /// dx of dy, which goes to the elements that the index names.
    ///
    /// # Errors
    /// As of [`Pooling::max_forward`].
    pub fn max_backward(
        &self,
        stream: &Stream,
        g: &Geometry,
        index: &Slice<u8>,
        dy: &DeviceArray,
        dx: &DeviceArray,
    ) -> Result<()> {
        let sizes = self.check(g, ("dx", dx), ("dy", dy))?;
        g.check_index(index.len(), dy.len())?;
        let (kernel, n) = (&self.max[1], dx.len() as u32);
        let args: [&dyn KernelArg; 5] = [&sizes, index, dy.bytes(), dx.bytes(), &n];
        // SAFETY: max_backward(g, index, dy, dx, n); types and lengths were checked.
        unsafe { kernel.launch(stream, kernel.shape(n.into()), &args) }
    }

    /// The sums over the windows divided by their size, padding included.
    ///
    /// # Errors
    /// As of [`Pooling::max_forward`].
    pub fn average_forward(&self, stream: &Stream, g: &Geometry, x: &DeviceArray, y: &DeviceArray) -> Result<()> {
        let sizes = self.check(g, ("x", x), ("y", y))?;
        let (kernel, n) = (&self.average[0], y.len() as u32);
        // SAFETY: average_forward(g, x, y, n); types and lengths were checked.
        unsafe { kernel.launch(stream, kernel.shape(n.into()), &[&sizes, x.bytes(), y.bytes(), &n]) }
    }

    /// dx of dy, of which each element of a window gets an equal part.
    ///
    /// # Errors
    /// As of [`Pooling::max_forward`].
    pub fn average_backward(&self, stream: &Stream, g: &Geometry, dy: &DeviceArray, dx: &DeviceArray) -> Result<()> {
        let sizes = self.check(g, ("dx", dx), ("dy", dy))?;
        let (kernel, n) = (&self.average[1], dx.len() as u32);
        // SAFETY: average_backward(g, dy, dx, n); types and lengths were checked.
        unsafe { kernel.launch(stream, kernel.shape(n.into()), &[&sizes, dy.bytes(), dx.bytes(), &n]) }
    }
}
