//! Convolution in two dimensions.
//!
//! Images are NHWC, `[batch][height][width][channels]`, filters `[filters][kh][kw][channels]`. As in PyTorch it is the
//! cross-correlation: y\[n\]\[oy\]\[ox\]\[o\] = bias\[o\] + the sum over i, j, c of
//! x\[n\]\[oy stride + i - padding\]\[ox stride + j - padding\]\[c\] weight\[o\]\[i\]\[j\]\[c\], x being 0 outside of the image.

pub mod cpu;
pub mod cuda;
mod unroll;

use super::error::{Check, Result, elements};
use super::window::Axis;

pub(crate) const OP: &str = "conv2d";

/// The shapes of a convolution. Pairs are height, width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Images.
    pub batch: usize,
    /// Rows of an image.
    pub height: usize,
    /// Columns of an image.
    pub width: usize,
    /// Channels of an image.
    pub channels: usize,
    /// Channels of the output.
    pub filters: usize,
    /// Size of a filter.
    pub kernel: [usize; 2],
    /// Step from one window to the next.
    pub stride: [usize; 2],
    /// Zeros added at each end of a side.
    pub padding: [usize; 2],
}

impl Geometry {
    /// Height and width of the output, floor((size + 2 padding - kernel) / stride) + 1.
    ///
    /// # Errors
    /// A size is zero, the kernel is larger than the padded image, or a padded side is 2^31 or longer.
    pub fn output(&self) -> Result<(usize, usize)> {
        let sizes = [("the batch", self.batch), ("channels", self.channels), ("filters", self.filters)];
        Check(OP).positive(&sizes)?;
        let [vertical, horizontal] = self.axes();
        Ok((vertical.output(OP, "height")?, horizontal.output(OP, "width")?))
    }

    /// Operations of the forward pass without the bias: two per product. Each of the two gradients takes as many.
    ///
    /// # Errors
    /// As of [`Geometry::output`].
    pub fn flops(&self) -> Result<u64> {
        let (oh, ow) = self.output()?;
        let products = elements(&[self.batch, oh, ow, self.filters, self.window()]);
        Ok((products as u64).saturating_mul(2))
    }

    /// Elements of x.
    #[must_use]
    pub fn input_len(&self) -> usize {
        elements(&[self.batch, self.height, self.width, self.channels])
    }

    /// Elements of the weight.
    #[must_use]
    pub fn weight_len(&self) -> usize {
        elements(&[self.filters, self.window()])
    }

    /// Elements of y.
    ///
    /// # Errors
    /// As of [`Geometry::output`].
    pub fn output_len(&self) -> Result<usize> {
        let (oh, ow) = self.output()?;
        Ok(elements(&[self.batch, oh, ow, self.filters]))
    }

    /// Elements of one filter, `[kh][kw][channels]`.
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

    /// The output's height and width, if x, the weight and y have their lengths.
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

    /// A bias, or its gradient, has an element per filter.
    pub(crate) fn check_bias(&self, name: &'static str, len: Option<usize>) -> Result<()> {
        len.map_or(Ok(()), |len| Check(OP).lengths(&[(name, len, &[self.filters])]))
    }
}
