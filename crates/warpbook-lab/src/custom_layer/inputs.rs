//! Random inputs for checking a layer.

use warpbook_data::philox;
use warpbook_gemm::storage::rounded;
use warpbook_nn::network::Shape;
use warpbook_nn::ops::Layout;
use warpbook_nn::ops::custom_layer::{OwnLayer, OwnParameter, OwnSizes};
use warpbook_record::Dtype;

const SEED: u64 = 11;

/// Random inputs of a layer, with images in NCHW.
#[derive(Debug, Clone)]
pub(super) struct Inputs {
    pub input: Shape,
    pub output: Shape,
    pub x: Vec<f32>,
    /// Gradient with respect to y. These are the weights of the sum of y whose slopes are measured.
    pub dy: Vec<f32>,
    pub parameters: Vec<Vec<f32>>,
    pub names: Vec<String>,
    /// Description of the distribution of x.
    pub range: String,
    /// Typical difference between elements of x.
    pub scale: f32,
}

impl Inputs {
    pub fn draw(layer: &OwnLayer, input: Shape, batch: usize) -> Self {
        let output = layer.output_of(input);
        let mut x = vec![0.0; batch * input.elements()];
        let mut dy = vec![0.0; batch * output.elements()];
        philox::fill_gaussians(&mut dy, SEED, 1, 0);
        let (range, scale) = match layer.input_range() {
            None => {
                philox::fill_gaussians(&mut x, SEED, 0, 0);
                ("standard Gaussian".to_owned(), 1.0)
            }
            Some([low, high]) => {
                philox::fill_uniforms(&mut x, SEED, 0, 0);
                x.iter_mut().for_each(|v| *v = low + *v * (high - low));
                (format!("between {low} and {high}"), ((high - low) / 4.0).min(1.0))
            }
        };
        // Parameters are close to their initial values but not equal to them, since an initial value may be special,
        // such as a factor of 1.
        let parameter = |(i, p): (usize, &OwnParameter)| {
            let mut values = vec![0.0; p.len()];
            philox::fill_uniforms(&mut values, SEED, 2 + i as u32, 0);
            let width = if p.initial == 0.0 { 0.25 } else { 0.25 * p.initial.abs() };
            values.iter_mut().for_each(|v| *v = p.initial + width * (2.0 * *v - 1.0));
            values
        };
        let parameters = layer.parameters().iter().enumerate().map(parameter).collect();
        let names = layer.parameters().iter().map(|p| p.name.clone()).collect();
        Self { input, output, x, dy, parameters, names, range, scale }
    }

    /// Returns the inputs rounded to a type.
    pub fn rounded(&self, dtype: Dtype) -> Self {
        let all = |values: &[f32]| values.iter().map(|v| rounded(*v, dtype)).collect();
        Self { x: all(&self.x), dy: all(&self.dy), ..self.clone() }
    }
}

/// Converts images from NCHW to NHWC (if `to` is NHWC), or back.
pub(super) fn reordered(values: &[f32], shape: Shape, to: Layout) -> Vec<f32> {
    let [channels, height, width] = shape.sides();
    let from = if to == Layout::Nhwc { Layout::Nchw } else { Layout::Nhwc };
    let mut out = vec![0.0; values.len()];
    let batch = values.len() / shape.elements().max(1);
    let sizes = |layout| OwnSizes { batch, input: shape, output: shape, layout };
    let (from, to) = (sizes(from), sizes(to));
    for n in 0..batch {
        for c in 0..channels {
            for row in 0..height {
                for column in 0..width {
                    out[to.index(n, c, row, column)] = values[from.index(n, c, row, column)];
                }
            }
        }
    }
    out
}

/// Returns the position of an element in samples of this shape, with images in NCHW, such as `[0][3][7][1]`.
pub(super) fn element_position(i: usize, shape: Shape) -> String {
    let (n, i) = (i / shape.elements().max(1), i % shape.elements().max(1));
    match shape {
        Shape::Image { height, width, .. } => {
            format!("[{n}][{}][{}][{}]", i / (height * width), i / width % height, i % width)
        }
        Shape::Vector(_) => format!("[{n}][{i}]"),
    }
}
