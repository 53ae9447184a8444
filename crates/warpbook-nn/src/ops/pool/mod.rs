//! Maximum and average over windows of an NHWC image, channel by channel, like `torch.nn.MaxPool2d` and `AvgPool2d` by default: incomplete
//! windows at the end are dropped.

pub mod cpu;
pub mod cuda;
mod launch;

use super::error::{Check, Result, elements};
use super::window::Axis;

pub(crate) const OP: &str = "pool";

/// The sizes of a pool. Pairs are height, width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolGeometry {
    /// Number of images.
    pub batch: usize,
    /// Rows per image.
    pub height: usize,
    /// Columns per image.
    pub width: usize,
    /// Channels of image and output.
    pub channels: usize,
    /// Height and width of a window; for the maximum at most 256 elements, because the index within the window is a u8.
    pub size: [usize; 2],
    /// Distance between neighbouring windows.
    pub stride: [usize; 2],
    /// Elements added at each end of a side, at most half a window: zeros for the average, which divides by the whole window; for the
    /// maximum they do not count.
    pub padding: [usize; 2],
}

impl PoolGeometry {
    /// Returns the height and the width of the output, floor((side + 2 padding - size) / stride) + 1.
    ///
    /// # Errors
    /// If a size is zero, a window is larger than the padded image, or the padding is more than half a window.
    pub fn output(&self) -> Result<(usize, usize)> {
        Check(OP).positive(&[("the batch", self.batch), ("channels", self.channels)])?;
        for (size, padding) in self.size.into_iter().zip(self.padding) {
            let fits = padding <= size / 2;
            Check(OP).value("the padding", padding, fits, "at most half the size of the window")?;
        }
        let [vertical, horizontal] = self.axes();
        Ok((vertical.output(OP, "height")?, horizontal.output(OP, "width")?))
    }

    /// Returns the number of elements of x.
    #[must_use]
    pub fn input_len(&self) -> usize {
        elements(&[self.batch, self.height, self.width, self.channels])
    }

    /// Returns the number of elements of y.
    ///
    /// # Errors
    /// See [`PoolGeometry::output`].
    pub fn output_len(&self) -> Result<usize> {
        let (oh, ow) = self.output()?;
        Ok(elements(&[self.batch, oh, ow, self.channels]))
    }

    pub(crate) fn axes(&self) -> [Axis; 2] {
        let axis = |size, side: usize| Axis {
            size,
            window: self.size[side],
            stride: self.stride[side],
            padding: self.padding[side],
        };
        [axis(self.height, 0), axis(self.width, 1)]
    }

    /// Checks the lengths of x and y, and returns the output's height and width.
    pub(crate) fn check(&self, x: (&'static str, usize), y: (&'static str, usize)) -> Result<(usize, usize)> {
        let (oh, ow) = self.output()?;
        Check(OP).lengths(&[
            (x.0, x.1, &[self.batch, self.height, self.width, self.channels]),
            (y.0, y.1, &[self.batch, oh, ow, self.channels]),
        ])?;
        Ok((oh, ow))
    }

    /// Checks that the index array has the length of y, and that its type can index every element of a window.
    pub(crate) fn check_index(&self, index: usize, y: usize) -> Result<()> {
        let window = elements(&self.size);
        Check(OP).value("the window of a maximum", window, window <= 256, "at most 256 elements")?;
        Check(OP).lengths(&[("index", index, &[y])])
    }
}
