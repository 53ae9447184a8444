//! Pooling on a GPU, for both layouts of images.

use super::launch::{self, PoolArgs};
use super::{OP, PoolGeometry};
use crate::ops::error::Check;
use crate::ops::{Layout, Words};
use warpbook_device::{CudaDevice, Kernel, Result, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::load;
use warpbook_record::Dtype;

/// The kernels of pooling, loaded for one element type and one layout.
#[derive(Debug, Clone)]
pub struct Pooling {
    dtype: Dtype,
    max: [Kernel; 2],
    /// Kernels for adjacent windows, in words of 16 bytes; NHWC only.
    adjacent: Option<[Kernel; 2]>,
    average: [Kernel; 2],
}

/// Returns the number of elements in 16 bytes.
fn group(dtype: Dtype) -> usize {
    16 / dtype.bytes() as usize
}

impl Pooling {
    /// Compiles and loads the kernels.
    ///
    /// # Errors
    /// If compiling fails or the device reports an error.
    pub fn new(device: &CudaDevice, dtype: Dtype, layout: Layout) -> Result<Self> {
        let [max, max_gradient, average, average_gradient] = load(device, warpbook_kernels::nn::pool(dtype, layout))?;
        let adjacent = match layout {
            Layout::Nhwc => Some(load(device, warpbook_kernels::nn::pool_adjacent(dtype))?),
            Layout::Nchw => None,
        };
        Ok(Self { dtype, max: [max, max_gradient], adjacent, average: [average, average_gradient] })
    }

    /// Returns true if [`Pooling::max_backward_masked`] supports a maximum of these sizes: adjacent windows of NHWC images whose channels
    /// fill whole words of 16 bytes.
    #[must_use]
    pub fn masks(g: &PoolGeometry, dtype: Dtype, layout: Layout) -> bool {
        let adjacent = g.stride == g.size && g.padding == [0; 2];
        layout == Layout::Nhwc && adjacent && g.channels.is_multiple_of(group(dtype))
    }

    /// Returns the kernels for adjacent windows, if arrays and index are aligned.
    fn adjacent(&self, g: &PoolGeometry, arrays: [&DeviceArray; 2], index: &Slice<u8>) -> Option<&[Kernel; 2]> {
        let fits = Self::masks(g, self.dtype, Layout::Nhwc)
            && arrays.iter().all(|a| a.address().is_aligned(16))
            && index.at(0).is_aligned(8);
        self.adjacent.as_ref().filter(|_| fits)
    }

    /// Checks the lengths and types of x and y, and returns the kernels' sizes.
    fn check(
        &self,
        g: &PoolGeometry,
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
        Ok(Words(words))
    }

    /// Queues the maxima and their indices in the windows, with the same results as [`max_forward`](super::cpu::max_forward).
    ///
    /// # Errors
    /// Returns the same errors as [`max_forward`](super::cpu::max_forward), and an error if an array has the wrong type or
    /// has 2^32 elements or more, or if the launch fails.
    pub fn max_forward(
        &self,
        stream: &Stream,
        g: &PoolGeometry,
        x: &DeviceArray,
        y: &DeviceArray,
        index: &Slice<u8>,
    ) -> Result<()> {
        let sizes = self.check(g, ("x", x), ("y", y))?;
        g.check_index(index.len(), y.len())?;
        if let Some([kernel, _]) = self.adjacent(g, [x, y], index) {
            let n = (y.len() / group(self.dtype)) as u32;
            return launch::max_forward(kernel, stream, sizes, (x, y), index, n);
        }
        launch::max_forward(&self.max[0], stream, sizes, (x, y), index, y.len() as u32)
    }

    /// Queues dx: dy is added to the elements that the index selects.
    ///
    /// # Errors
    /// See [`Pooling::max_forward`].
    pub fn max_backward(
        &self,
        stream: &Stream,
        g: &PoolGeometry,
        index: &Slice<u8>,
        dy: &DeviceArray,
        dx: &DeviceArray,
    ) -> Result<()> {
        let sizes = self.check(g, ("dx", dx), ("dy", dy))?;
        g.check_index(index.len(), dy.len())?;
        if let Some([_, kernel]) = self.adjacent(g, [dy, dx], index) {
            return self.queue_adjacent(kernel, stream, (g, sizes), index, (dy, None, dx));
        }
        launch::max_backward(&self.max[1], stream, sizes, index, (dy, dx))
    }

    /// Like [`Pooling::max_backward`], but also applies the gradient of the ReLU before the pool: `y` is the pool's output, and dy passes if its
    /// element of `y` is above 0 or NaN. If a dropout was applied to the pool's output in place, `y` has the dropout's zeros and `scale` is its
    /// factor; otherwise pass 1.
    ///
    /// # Errors
    /// Returns the same errors as [`Pooling::max_forward`], and an error if [`Pooling::masks`] is false, or an array is not aligned to 16 bytes.
    pub fn max_backward_masked(
        &self,
        stream: &Stream,
        g: &PoolGeometry,
        (index, y, scale): (&Slice<u8>, &DeviceArray, f32),
        dy: &DeviceArray,
        dx: &DeviceArray,
    ) -> Result<()> {
        let sizes = self.check(g, ("dx", dx), ("dy", dy))?;
        g.check_index(index.len(), dy.len())?;
        Check(OP).arrays(self.dtype, &[("y", y, &[dy.len()])])?;
        match self.adjacent(g, [dy, dx], index).filter(|_| y.address().is_aligned(16)) {
            Some([_, kernel]) => self.queue_adjacent(kernel, stream, (g, sizes), index, (dy, Some((y, scale)), dx)),
            None => Err(warpbook_device::Error::Unsupported {
                what: "The gradient of a pool and the ReLU before it".into(),
                why: "can be computed together only if windows are adjacent and channels fill whole words of 16 bytes"
                    .into(),
            }),
        }
    }

    /// Queues the gradient of adjacent windows; the caller has checked everything.
    fn queue_adjacent(
        &self,
        kernel: &Kernel,
        stream: &Stream,
        (g, sizes): (&PoolGeometry, PoolArgs),
        index: &Slice<u8>,
        (dy, mask, dx): (&DeviceArray, Option<(&DeviceArray, f32)>, &DeviceArray),
    ) -> Result<()> {
        let [rows, columns] = [g.height.div_ceil(g.size[0]), g.width.div_ceil(g.size[1])];
        let n = Check(OP).word("windows", g.batch * rows * columns * (g.channels / group(self.dtype)))?;
        let windows = [rows as u32, columns as u32, n];
        launch::max_backward_adjacent(kernel, stream, sizes, index, (dy, mask, dx), windows)
    }

    /// Queues the sums over the windows divided by their size, padding included.
    ///
    /// # Errors
    /// See [`Pooling::max_forward`].
    pub fn average_forward(&self, stream: &Stream, g: &PoolGeometry, x: &DeviceArray, y: &DeviceArray) -> Result<()> {
        let sizes = self.check(g, ("x", x), ("y", y))?;
        launch::average(&self.average[0], stream, sizes, x, y)
    }

    /// Queues dx: each element of a window gets an equal share of dy.
    ///
    /// # Errors
    /// See [`Pooling::max_forward`].
    pub fn average_backward(
        &self,
        stream: &Stream,
        g: &PoolGeometry,
        dy: &DeviceArray,
        dx: &DeviceArray,
    ) -> Result<()> {
        let sizes = self.check(g, ("dx", dx), ("dy", dy))?;
        launch::average(&self.average[1], stream, sizes, dy, dx)
    }
}
