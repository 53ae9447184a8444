//! A convolution, and the passes that cuDNN can compute.

use super::constants::{BFLOAT16, FLOAT, HALF, kind, note};
use super::descriptor::{DataType, Note};
use crate::{Error, Result};
use std::ffi::c_int;
use warpbook_record::Dtype;

/// A convolution as cuDNN defines it: a cross-correlation, as in PyTorch. Pairs are ordered (height, width).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LibraryConvolution {
    /// Number of images in the batch.
    pub batch: u32,
    /// Number of channels of x.
    pub channels: u32,
    /// Height and width of x.
    pub x: [u32; 2],
    /// Number of filters, which is the number of channels of y.
    pub filters: u32,
    /// Height and width of y.
    pub y: [u32; 2],
    /// Height and width of a filter.
    pub kernel: [u32; 2],
    /// Vertical and horizontal step from one window to the next.
    pub stride: [u32; 2],
    /// Number of zeros added on each side, vertically and horizontally.
    pub padding: [u32; 2],
    /// Type of x, y and the weight: `F32`, `Tf32` (stored as f32), `F16` or `Bf16`. Sums are in f32.
    pub dtype: Dtype,
    /// True if images are NHWC and the weight is `[filters][kh][kw][channels]`; otherwise they are NCHW and
    /// `[filters][channels][kh][kw]`.
    pub channels_last: bool,
}

/// The forward pass of a convolution, or one of its two gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConvolutionPass {
    /// Computes y from x and the weight.
    Forward,
    /// Computes dx from the weight and dy.
    InputGradient,
    /// Computes dw, in the type of x, from x and dy.
    WeightGradient,
}

/// The arrays of a convolution; gradients count as the array that they belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operand {
    X,
    Weight,
    Y,
}

impl ConvolutionPass {
    /// Returns the two inputs and the output, in the order of the library's arguments.
    pub(super) fn arrays(self) -> [Operand; 3] {
        match self {
            Self::Forward => [Operand::X, Operand::Weight, Operand::Y],
            Self::InputGradient => [Operand::Weight, Operand::Y, Operand::X],
            Self::WeightGradient => [Operand::X, Operand::Y, Operand::Weight],
        }
    }

    /// Returns the kind of the pass's operation, and the number of its first attribute, which is alpha, the factor of the
    /// result.
    pub(super) fn operation(self) -> (c_int, c_int) {
        match self {
            Self::Forward => (kind::FORWARD, 700),
            Self::InputGradient => (kind::INPUT_GRADIENT, 706),
            Self::WeightGradient => (kind::WEIGHT_GRADIENT, 712),
        }
    }
}

impl Operand {
    /// Returns the array's offset from an operation's first attribute, which also serves as its id in a graph.
    pub(super) fn id_offset(self) -> c_int {
        match self {
            Self::Weight => 3,
            Self::X => 4,
            Self::Y => 5,
        }
    }
}

impl LibraryConvolution {
    fn elements(&self, operand: Operand) -> [u32; 4] {
        match operand {
            Operand::X => [self.batch, self.channels, self.x[0], self.x[1]],
            Operand::Weight => [self.filters, self.channels, self.kernel[0], self.kernel[1]],
            Operand::Y => [self.batch, self.filters, self.y[0], self.y[1]],
        }
    }

    pub(super) fn bytes(&self, operand: Operand) -> u64 {
        self.elements(operand).iter().fold(self.dtype.bytes(), |all, side| all.saturating_mul((*side).into()))
    }

    /// Returns the sizes in the library's order for every layout: images, channels, rows, columns.
    pub(super) fn sides(&self, operand: Operand) -> Result<[i64; 4]> {
        let sides = self.elements(operand);
        if sides.iter().any(|side| c_int::try_from(*side).unwrap_or(0) == 0) {
            return Err(self.refused(format!("needs sides from 1 to 2^31, but {operand:?} has {sides:?}")));
        }
        Ok(sides.map(i64::from))
    }

    /// Returns the strides of all dimensions in elements.
    pub(super) fn strides(&self, [_, c, h, w]: [i64; 4]) -> [i64; 4] {
        if self.channels_last { [c * h * w, 1, w * c, c] } else { [c * h * w, h * w, w, 1] }
    }

    /// Returns cuDNN's type of the elements.
    pub(super) fn data_type(&self) -> Result<DataType> {
        match self.dtype {
            Dtype::F32 | Dtype::Tf32 => Ok(FLOAT),
            Dtype::F16 => Ok(HALF),
            Dtype::Bf16 => Ok(BFLOAT16),
            other => Err(self.refused(format!("supports fp32, tf32, fp16 and bf16 here, not {other:?}"))),
        }
    }

    /// Returns true if an engine is as accurate as the type promises: fp32 without tensor cores, inputs that are not
    /// rounded, and sums in f32.
    pub(super) fn permits(&self, notes: &[Note]) -> bool {
        let has = |note| notes.contains(&note);
        let is_wide = matches!(self.dtype, Dtype::F32 | Dtype::Tf32);
        !(has(note::SHORT_SUMS)
            || is_wide && has(note::ROUNDS_INPUTS)
            || self.dtype == Dtype::F32 && has(note::TENSOR_CORES))
    }

    pub(super) fn refused(&self, why: String) -> Error {
        Error::Unsupported { what: "cuDNN".into(), why }
    }

    pub(super) fn name(&self, pass: ConvolutionPass) -> String {
        let pass = match pass {
            ConvolutionPass::Forward => "a convolution",
            ConvolutionPass::InputGradient => "the input gradient of a convolution",
            ConvolutionPass::WeightGradient => "the weight gradient of a convolution",
        };
        let layout = if self.channels_last { "NHWC" } else { "NCHW" };
        let Self { batch, channels, x, filters, kernel, stride, padding, dtype, .. } = self;
        format!(
            "{pass} of {batch} images of {channels} x {x:?} with {filters} filters of {kernel:?}, stride {stride:?}, padding \
             {padding:?}, {layout} in {dtype:?}"
        )
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn shape() -> LibraryConvolution {
        LibraryConvolution {
            batch: 2,
            channels: 3,
            x: [7, 5],
            filters: 4,
            y: [4, 3],
            kernel: [3, 3],
            stride: [2, 2],
            padding: [1, 1],
            dtype: Dtype::F16,
            channels_last: true,
        }
    }

    #[test]
    fn arrays_have_their_sides_and_types() {
        let s = shape();
        assert_eq!(s.bytes(Operand::X), 2 * 2 * 3 * 7 * 5);
        assert_eq!(s.bytes(Operand::Weight), 2 * 4 * 3 * 3 * 3);
        assert_eq!(s.bytes(Operand::Y), 2 * 2 * 4 * 4 * 3);
        let with_type = |dtype| LibraryConvolution { dtype, ..s };
        let types =
            [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16].map(|dtype| with_type(dtype).data_type().unwrap());
        assert_eq!(types, [FLOAT, FLOAT, HALF, BFLOAT16]);
        let x = s.sides(Operand::X).unwrap();
        assert_eq!((x, s.strides(x)), ([2, 3, 7, 5], [105, 1, 15, 3]));
        assert_eq!(LibraryConvolution { channels_last: false, ..s }.strides(x), [105, 35, 5, 1]);
        let permitted = |note| [Dtype::F32, Dtype::Tf32, Dtype::F16].map(|dtype| with_type(dtype).permits(&[note]));
        assert_eq!(permitted(note::TENSOR_CORES), [false, true, true], "fp32 is no TF32");
        assert_eq!(permitted(note::ROUNDS_INPUTS), [false, false, true]);
        assert_eq!(permitted(note::SHORT_SUMS), [false; 3]);
        assert_eq!(permitted(note::NOT_DETERMINISTIC), [true; 3]);
        let refused =
            |s: LibraryConvolution| s.data_type().map(drop).and(s.sides(Operand::X).map(drop)).unwrap_err().to_string();
        assert!(refused(LibraryConvolution { dtype: Dtype::F64, ..s }).contains("not F64"));
        assert!(refused(LibraryConvolution { batch: 0, ..s }).contains("sides from 1"));
        assert!(refused(LibraryConvolution { x: [1 << 31, 1], ..s }).contains("2147483648"));
        for pass in [ConvolutionPass::Forward, ConvolutionPass::InputGradient, ConvolutionPass::WeightGradient] {
            let [a, b, c] = pass.arrays();
            assert!(a != b && b != c && a != c);
            assert!(s.name(pass).contains("2 images of 3 x [7, 5] with 4 filters of [3, 3]"), "{}", s.name(pass));
        }
    }
}
