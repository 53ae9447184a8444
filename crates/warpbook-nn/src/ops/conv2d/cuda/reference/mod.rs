//! Reference results of a convolution's passes, in f64 on the device.

mod launch;

use super::shapes::Shapes;
use super::stored;
use crate::ops::Layout;
use crate::ops::conv2d::{Geometry, OP};
use crate::ops::error::Check;
use warpbook_device::{CudaDevice, Result, Slice};
use warpbook_gemm::{DeviceArray, Judge, Product};
use warpbook_kernels::Tolerance;
use warpbook_kernels::matmul::Form;
use warpbook_kernels::nn::conv2d::{Pass, reference};
use warpbook_record::Dtype;

/// Permitted error of transformed operands, in units of their type's precision and of the summed magnitudes.
const OF_TRANSFORMS: f64 = 16.0;

/// A pass of a convolution in f64 on a device, with the sums of the magnitudes of its terms, for checking results. Images are NHWC, weights
/// `[filters][kh][kw][channels]`.
#[derive(Debug)]
pub struct Reference {
    device: CudaDevice,
    dtype: Dtype,
    /// Number of outputs that are adjacent in memory; `rows` is the number of groups of such outputs.
    columns: u32,
    rows: u32,
    terms: u32,
    /// Number of terms of the shortest sum: windows at a border have fewer taps inside the image.
    fewest_terms: u64,
    want: Slice<f64>,
    sizes: Slice<f64>,
}

/// Returns the number of products in the shortest nonempty sum of a pass.
fn fewest_terms(shapes: &Shapes, pass: Pass) -> u64 {
    let side = |axis: usize| {
        let [outputs, taps, inputs] = [shapes.y[axis], shapes.kernel[axis], shapes.x[axis]];
        let summed_into = match pass {
            Pass::Forward => outputs,
            Pass::InputGradient => inputs,
            Pass::WeightGradient => taps,
        };
        let mut terms = vec![0u64; summed_into as usize];
        for (output, tap) in (0..outputs).flat_map(|o| (0..taps).map(move |t| (o, t))) {
            let Some(input) = (output * shapes.stride[axis] + tap).checked_sub(shapes.padding[axis]) else { continue };
            if input < inputs {
                let at = match pass {
                    Pass::Forward => output,
                    Pass::InputGradient => input,
                    Pass::WeightGradient => tap,
                };
                terms[at as usize] += 1;
            }
        }
        terms.into_iter().filter(|n| *n > 0).min().unwrap_or(0)
    };
    let each = match pass {
        Pass::Forward => shapes.channels,
        Pass::InputGradient => shapes.filters,
        Pass::WeightGradient => shapes.batch,
    };
    side(0) * side(1) * u64::from(each)
}

impl Reference {
    /// Computes the reference and waits for it: y from x and the weight, dx from dy and the weight, or dw from x and dy, in the type
    /// `dtype`.
    ///
    /// # Errors
    /// If a size is zero or too large; if an array has the wrong length or type; if the device reports an
    /// error.
    pub fn new(
        device: &CudaDevice,
        geometry: &Geometry,
        dtype: Dtype,
        pass: Pass,
        [a, b]: [&DeviceArray; 2],
    ) -> Result<Self> {
        let shapes = Shapes::new(geometry, Layout::Nhwc)?;
        let (x, y, weight) = (geometry.input_len(), geometry.output_len()?, geometry.weight_len());
        let (lengths, columns, terms) = match pass {
            Pass::Forward => ([x, weight, y], shapes.filters, shapes.taps()),
            Pass::InputGradient => {
                ([y, weight, x], shapes.channels, shapes.filters * shapes.kernel[0] * shapes.kernel[1])
            }
            Pass::WeightGradient => ([x, y, weight], shapes.taps(), shapes.positions()),
        };
        let [a_len, b_len, len] = lengths;
        Check(OP).arrays(stored(dtype), &[("the first array", a, &[a_len]), ("the second", b, &[b_len])])?;
        let (want, sizes) = (device.zeros(len)?, device.zeros(len)?);
        let spec = &reference(dtype)[pass as usize];
        let kernel = device.kernel(spec, &spec.tiles[0])?;
        launch::reference(&kernel, &device.stream()?, &shapes, pass, [a, b], [&want, &sizes])?;
        let rows = u32::try_from(len).unwrap_or(u32::MAX) / columns;
        let (want, sizes) = (want.range(..), sizes.range(..));
        let fewest_terms = fewest_terms(&shapes, pass);
        Ok(Self { device: device.clone(), dtype, columns, rows, terms, fewest_terms, want, sizes })
    }

    /// Creates a [`Judge`] for results of type `out`. Set `transformed` for FFT or Winograd's algorithm, which also round the operands'
    /// transforms.
    ///
    /// # Errors
    /// If the device reports an error.
    pub fn judge(&self, out: Dtype, transformed: bool) -> Result<Judge> {
        let of_transforms = if transformed { OF_TRANSFORMS * stored(self.dtype).epsilon() } else { 0.0 };
        // The bits that tf32 drops cancel out less in a short sum.
        let [Tolerance(short), Tolerance(long)] =
            [self.fewest_terms, self.terms.into()].map(|k| Tolerance::product(self.dtype, k));
        let more = of_transforms + (short - long).max(0.0);
        let form = Form { out, ..Form::plain(self.dtype) };
        let product = Product::new(self.rows, self.columns, self.terms, form);
        Judge::with_reference(&self.device, &product, [self.want.clone(), self.sizes.clone()], more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_sum_of_each_pass_is_at_a_corner() {
        let g = |padding, stride| Geometry {
            batch: 2,
            height: 6,
            width: 7,
            channels: 3,
            filters: 5,
            kernel: [3, 3],
            stride: [stride; 2],
            padding: [padding; 2],
        };
        let fewest = |g: Geometry| {
            let shapes = Shapes::new(&g, Layout::Nhwc).unwrap();
            [Pass::Forward, Pass::InputGradient, Pass::WeightGradient].map(|pass| fewest_terms(&shapes, pass))
        };
        assert_eq!(fewest(g(0, 1)), [9 * 3, 5, 4 * 5 * 2]);
        assert_eq!(fewest(g(1, 1)), [4 * 3, 4 * 5, 5 * 6 * 2]);
        // Windows at rows 0 and 3, columns 0 and 3: no window reads the last row or the last column.
        assert_eq!(fewest(g(0, 3)), [9 * 3, 5, 2 * 2 * 2]);
    }
}
