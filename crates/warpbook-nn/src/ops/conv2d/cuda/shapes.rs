//! Shapes in the form that the convolution kernels read.

use super::super::{Geometry, OP};
use super::Pass;
use crate::ops::Layout;
use crate::ops::error::{Check, elements};
use warpbook_device::{BoxShape, CudaDevice, Result, TensorMap};
use warpbook_gemm::DeviceArray;
use warpbook_record::Dtype;

/// The struct `Conv` of `kernels/nn/conv.cuh`, as words.
pub(super) type ConvWords = [u32; 13];
/// The struct `Patches` of `kernels/nn/patches.cuh`, as words.
pub(super) type PatchWords = [u32; 30];

/// Sizes of a convolution as 32-bit words; all products of sizes that kernels compute are below 2^31.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shapes {
    pub batch: u32,
    pub channels: u32,
    pub filters: u32,
    /// Height and width of x and of y.
    pub x: [u32; 2],
    pub y: [u32; 2],
    pub kernel: [u32; 2],
    pub stride: [u32; 2],
    pub padding: [u32; 2],
    pub layout: Layout,
}

/// Returns the struct `Divisor` of `kernels/nn/patches.cuh` for a division by d: n / d is the upper half of n times the second word, shifted by the
/// third, for n below 2^31.
pub(super) fn divisor(d: u32) -> [u32; 3] {
    if d <= 1 {
        return [1, 0, 0];
    }
    let bits = 32 - (d - 1).leading_zeros();
    let multiplier = (1u64 << (31 + bits)).div_ceil(u64::from(d));
    [d, u32::try_from(multiplier).unwrap_or(u32::MAX), bits - 1]
}

impl Shapes {
    pub fn new(g: &Geometry, layout: Layout) -> Result<Self> {
        let (oh, ow) = g.output()?;
        let check = Check(OP);
        let counts = [
            ("the number of elements of x", g.input_len()),
            ("the number of elements of y", elements(&[g.batch, oh, ow, g.filters])),
            ("the number of weights", g.weight_len()),
            // Number of rows of the patch matrix of x, and number of taps of the patch matrix of dy.
            ("the batch times the output's pixels", elements(&[g.batch, oh, ow])),
            ("the kernel times filters", elements(&[g.kernel[0], g.kernel[1], g.filters])),
        ];
        for (name, count) in counts {
            check.value(name, count, i32::try_from(count).is_ok(), "below 2^31 on a GPU")?;
        }
        for axis in g.axes() {
            let padded = axis.size.saturating_add(2 * axis.padding).saturating_add(axis.stride);
            check.value("a padded side and the stride", padded, padded < 1 << 24, "below 2^24 on a GPU")?;
        }
        let word = |size: usize| check.word("a size", size);
        let words = |[a, b]: [usize; 2]| Ok::<_, crate::ops::OpError>([word(a)?, word(b)?]);
        Ok(Self {
            batch: word(g.batch)?,
            channels: word(g.channels)?,
            filters: word(g.filters)?,
            x: words([g.height, g.width])?,
            y: words([oh, ow])?,
            kernel: words(g.kernel)?,
            stride: words(g.stride)?,
            padding: words(g.padding)?,
            layout,
        })
    }

    /// Returns the number of pixels per image of y.
    pub fn output_pixels(&self) -> u32 {
        self.y[0] * self.y[1]
    }

    /// Returns the number of pixels per image of x.
    pub fn input_pixels(&self) -> u32 {
        self.x[0] * self.x[1]
    }

    /// Returns the number of pixels of y in all images.
    pub fn positions(&self) -> u32 {
        self.batch * self.output_pixels()
    }

    /// Returns the kernel's height times its width.
    pub fn window(&self) -> u32 {
        self.kernel[0] * self.kernel[1]
    }

    /// Returns the number of elements of a patch of x.
    pub fn taps(&self) -> u32 {
        self.window() * self.channels
    }

    /// Returns the number of columns of a weight gradient's partial sums; `with_bias`: the kernel also sums the bias gradient.
    pub fn gradient_columns(&self, with_bias: bool) -> u32 {
        self.filters * (self.taps() + u32::from(with_bias))
    }

    pub fn conv(&self) -> ConvWords {
        let [[h, w], [oh, ow], [kh, kw]] = [self.x, self.y, self.kernel];
        let [[sh, sw], [ph, pw]] = [self.stride, self.padding];
        [self.channels, h, w, self.filters, oh, ow, kh, kw, sh, sw, ph, pw, self.positions()]
    }

    /// Patches of x for each pixel of y.
    pub fn patches(&self) -> PatchWords {
        self.words((self.channels, self.x), self.y, self.stride, self.padding, [1, 1])
    }

    /// Patches of x for each pixel of y, ordered by adjacent windows of 2 x 2.
    pub fn pooled_patches(&self) -> PatchWords {
        self.words((self.channels, self.x), self.pooled(), self.stride, self.padding, [1, 1])
    }

    /// Returns the height and the width of the maxima of y over windows of 2 x 2.
    pub fn pooled(&self) -> [u32; 2] {
        self.y.map(|side| side / 2)
    }

    /// Returns the number of maxima in all images.
    pub fn maxima(&self) -> u32 {
        let [height, width] = self.pooled();
        self.batch * height * width
    }

    /// Patches of dy for each pixel of x: the pixels of dy are a stride apart, and the mirrored window begins kernel - 1 - padding before a
    /// pixel.
    pub fn mirrored_patches(&self) -> PatchWords {
        let before = [0, 1].map(|side| self.kernel[side].wrapping_sub(1).wrapping_sub(self.padding[side]));
        self.words((self.filters, self.y), self.x, [1, 1], before, self.stride)
    }

    fn words(
        &self,
        (channels, [h, w]): (u32, [u32; 2]),
        grid: [u32; 2],
        stride: [u32; 2],
        before: [u32; 2],
        dilation: [u32; 2],
    ) -> PatchWords {
        let (strides, inner) = match self.layout {
            Layout::Nhwc => ([h * w * channels, w * channels, channels, 1], channels),
            Layout::Nchw => ([h * w * channels, w, 1, h * w], self.window()),
        };
        let in_image = grid[0] * grid[1];
        let sizes = [self.batch * in_image, self.window() * channels];
        let extents = [(h - 1) * dilation[0] + 1, (w - 1) * dilation[1] + 1];
        let divisors = [in_image, grid[1], inner, self.kernel[1], dilation[0], dilation[1]].map(divisor);
        let mut words = [0; 30];
        let all = [&sizes[..], &extents, &strides, &stride, &before, divisors.as_flattened()];
        words.iter_mut().zip(all.into_iter().flatten()).for_each(|(to, word)| *to = *word);
        words
    }
}

/// A pass as Hopper's kernels compute it: a convolution whose windows are one pixel apart, of x for y, and of dy for dx.
#[derive(Debug, Clone, Copy)]
pub(super) struct Image {
    pub batch: u32,
    /// Number of channels of the input array. `before` says how far above and to the left of the array the first window begins.
    pub channels: u32,
    pub input: [u32; 2],
    pub before: [u32; 2],
    pub kernel: [u32; 2],
    /// Number of columns of the output array.
    pub columns: u32,
    pub output: [u32; 2],
}

impl Image {
    pub fn for_pass(pass: Pass, s: &Shapes) -> Option<Self> {
        let Shapes { batch, channels, filters, kernel, .. } = *s;
        Some(match pass {
            Pass::Forward => {
                Self { batch, channels, input: s.x, before: s.padding, kernel, columns: filters, output: s.y }
            }
            Pass::InputGradient => {
                let before = |side: usize| kernel[side].checked_sub(1 + s.padding[side]);
                let before = [before(0)?, before(1)?];
                Self { batch, channels: filters, input: s.y, before, kernel, columns: channels, output: s.x }
            }
            Pass::WeightGradient => return None,
        })
    }

    /// Returns the number of pixels of the output array in all images.
    pub fn pixels(&self) -> u64 {
        u64::from(self.batch) * u64::from(self.output[0]) * u64::from(self.output[1])
    }

    pub fn taps(&self) -> u32 {
        self.kernel[0] * self.kernel[1]
    }

    /// Returns the number of bytes of a pixel's channels that are copied as one row.
    pub fn row_bytes(&self) -> u32 {
        if self.channels.is_multiple_of(64) { 128 } else { 64 }
    }

    /// Returns the number of rows of `row_bytes` per pixel; the last may be padded.
    pub fn blocks(&self) -> u32 {
        (self.channels * 2).div_ceil(self.row_bytes())
    }

    /// Returns the tensor map of the weight `[filters][taps * channels]` for a pass: boxes `[columns, rows]` run along its rows for y, and across them for
    /// dx, which sums over filters.
    pub fn map_weights(
        &self,
        device: &CudaDevice,
        (pass, dtype): (Pass, Dtype),
        weight: &DeviceArray,
        boxes: [u32; 2],
    ) -> Result<TensorMap> {
        let [rows, row] = match pass {
            Pass::Forward => [self.columns, self.channels],
            _ => [self.channels, self.columns],
        }
        .map(u64::from);
        let columns = u64::from(self.taps()) * row;
        let shape = BoxShape {
            dtype,
            sizes: &[columns, rows],
            strides: &[columns * 2],
            boxes: &boxes,
            swizzle_bytes: boxes[0] * 2,
        };
        TensorMap::of_boxes(device, weight.address(), shape)
    }

    /// Returns the number of bytes of the weights of this many columns, padded like the channels of a pixel.
    pub fn weight_bytes(&self, columns: u32) -> u64 {
        u64::from(self.taps()) * u64::from(self.blocks() * self.row_bytes()) * u64::from(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_divide() {
        let divides = |n: u32, d: u32| {
            let [value, multiplier, shift] = divisor(d);
            let high = ((u64::from(n) * u64::from(multiplier)) >> 32) as u32;
            let got = if value == 1 { n } else { high >> shift };
            assert_eq!((value, got), (d, n / d), "{n} / {d}");
        };
        let numbers = (0..31).flat_map(|bit| [(1u32 << bit) - 1, 1 << bit, (1 << bit) + 1]).chain([(1 << 31) - 1]);
        for d in numbers.clone().chain(2..300).filter(|d| *d > 0) {
            for n in numbers.clone() {
                let multiple = n / d * d;
                for n in [n, multiple, multiple.saturating_sub(1)] {
                    divides(n, d);
                }
            }
        }
    }

    #[test]
    fn patches_have_their_words() {
        let g = Geometry {
            batch: 2,
            height: 5,
            width: 7,
            channels: 3,
            filters: 4,
            kernel: [3, 2],
            stride: [2, 1],
            padding: [1, 0],
        };
        let shapes = Shapes::new(&g, Layout::Nhwc).unwrap();
        assert_eq!(shapes.y, [3, 6]);
        assert_eq!(shapes.patches()[..12], [36, 18, 5, 7, 105, 21, 3, 1, 2, 1, 1, 0]);
        assert_eq!(shapes.mirrored_patches()[..12], [70, 24, 5, 6, 72, 24, 4, 1, 1, 1, 1, 1]);
        let first = Shapes { layout: Layout::Nchw, ..shapes };
        assert_eq!(first.patches()[4..8], [105, 7, 1, 35]);
        let large = Geometry { batch: 1 << 20, height: 64, width: 64, ..g };
        let error = Shapes::new(&large, Layout::Nhwc).unwrap_err().to_string();
        assert!(error.contains("the number of elements of x") && error.contains("below 2^31"), "{error}");
    }
}
