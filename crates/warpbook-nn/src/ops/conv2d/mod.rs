//! Convolution in two dimensions.
//!
//! Images are NHWC, `[batch][height][width][channels]`, filters `[filters][kh][kw][channels]`. As in PyTorch, the operation is a cross-correlation:
//! y\[n\]\[oy\]\[ox\]\[o\] = bias\[o\] + the sum over i, j, c of x\[n\]\[oy stride + i - padding\]\[ox stride + j - padding\]\[c\]
//! weight\[o\]\[i\]\[j\]\[c\], where x is 0 outside the image.

pub mod cpu;
pub mod cuda;
mod unroll;

use super::error::{Check, Result, elements};
use super::window::Axis;

pub(crate) const OP: &str = "conv2d";

/// The sizes of a convolution. Pairs are height, width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Number of images.
    pub batch: usize,
    /// Rows per image.
    pub height: usize,
    /// Columns per image.
    pub width: usize,
    /// Channels per image.
    pub channels: usize,
    /// Channels of the output.
    pub filters: usize,
    /// Height and width of a filter.
    pub kernel: [usize; 2],
    /// Distance between neighbouring windows.
    pub stride: [usize; 2],
    /// Zeros added at each end of a side.
    pub padding: [usize; 2],
}

impl Geometry {
    /// Returns the height and the width of the output, floor((size + 2 padding - kernel) / stride) + 1.
    ///
    /// # Errors
    /// If a size is zero, the kernel is larger than the padded image, or a padded side is 2^31 or longer.
    pub fn output(&self) -> Result<(usize, usize)> {
        let sizes = [("the batch", self.batch), ("channels", self.channels), ("filters", self.filters)];
        Check(OP).positive(&sizes)?;
        let [vertical, horizontal] = self.axes();
        Ok((vertical.output(OP, "height")?, horizontal.output(OP, "width")?))
    }

    /// Returns the number of floating-point operations of the forward pass without the bias, two per product. Each of the two gradients needs the same
    /// number.
    ///
    /// # Errors
    /// See [`Geometry::output`].
    pub fn flops(&self) -> Result<u64> {
        let (oh, ow) = self.output()?;
        let products = elements(&[self.batch, oh, ow, self.filters, self.window()]);
        Ok((products as u64).saturating_mul(2))
    }

    /// Returns the number of elements of x.
    #[must_use]
    pub fn input_len(&self) -> usize {
        elements(&[self.batch, self.height, self.width, self.channels])
    }

    /// Returns the number of elements of the weight.
    #[must_use]
    pub fn weight_len(&self) -> usize {
        elements(&[self.filters, self.window()])
    }

    /// Returns the number of elements of y.
    ///
    /// # Errors
    /// See [`Geometry::output`].
    pub fn output_len(&self) -> Result<usize> {
        let (oh, ow) = self.output()?;
        Ok(elements(&[self.batch, oh, ow, self.filters]))
    }

    /// Returns the number of elements of one filter, `[kh][kw][channels]`.
    pub(crate) fn window(&self) -> usize {
        elements(&[self.kernel[0], self.kernel[1], self.channels])
    }

    pub(crate) fn axes(&self) -> [Axis; 2] {
        let axis = |size, side: usize| Axis {
            size,
            window: self.kernel[side],
            stride: self.stride[side],
            padding: self.padding[side],
        };
        [axis(self.height, 0), axis(self.width, 1)]
    }

    /// Checks the lengths of x, the weight and y, and returns the output's height and width.
    pub(crate) fn check(
        &self,
        x: (&'static str, usize),
        weight: (&'static str, usize),
        y: (&'static str, usize),
    ) -> Result<(usize, usize)> {
        let (oh, ow) = self.output()?;
        let [kh, kw] = self.kernel;
        Check(OP).lengths(&[
            (x.0, x.1, &[self.batch, self.height, self.width, self.channels]),
            (weight.0, weight.1, &[self.filters, kh, kw, self.channels]),
            (y.0, y.1, &[self.batch, oh, ow, self.filters]),
        ])?;
        Ok((oh, ow))
    }

    /// Checks that a bias, or its gradient, has one element per filter.
    pub(crate) fn check_bias(&self, name: &'static str, len: Option<usize>) -> Result<()> {
        len.map_or(Ok(()), |len| Check(OP).lengths(&[(name, len, &[self.filters])]))
    }
}
