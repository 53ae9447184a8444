//! One convolution: its inputs, its expected results, and the check of all three passes.

use super::bench::{Bench, Guarded, Poisoned, random, stored};
use super::want::{Want, wide};
use crate::in_f64 as reference;
use warpbook_device::CudnnPlan;
use warpbook_gemm::ProductBy;
use warpbook_nn::ops::Layout;
use warpbook_nn::ops::conv2d::Geometry;
use warpbook_nn::ops::conv2d::cuda::{Convolution, Epilogue, Form, Method};
use warpbook_record::Dtype;

/// Converts images or filters from `[outer][pixels][channels]` to the given layout.
fn laid_out(values: &[f32], layout: Layout, [pixels, channels]: [usize; 2]) -> Vec<f32> {
    if layout == Layout::Nhwc {
        return values.to_vec();
    }
    let image = |v: &[f32]| (0..pixels * channels).map(|i| v[i % pixels * channels + i / pixels]).collect::<Vec<_>>();
    values.chunks(pixels * channels).flat_map(image).collect()
}

/// Converts images or filters from the layout back to NHWC.
fn as_nhwc(values: &[f32], layout: Layout, [pixels, channels]: [usize; 2]) -> Vec<f32> {
    laid_out(values, layout, [channels, pixels])
}

/// Inputs and expected results of a convolution, NHWC.
pub struct Case {
    g: Geometry,
    dtype: Dtype,
    x: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
    dy: Vec<f32>,
    y: Want,
    dx: Want,
    dweight: Want,
    dbias: Want,
}

impl Case {
    pub fn new(g: Geometry, dtype: Dtype) -> Self {
        let (x, weight) = (random(g.input_len(), 1, dtype), random(g.weight_len(), 2, dtype));
        let (dy, bias) = (random(g.output_len().unwrap(), 3, dtype), random(g.filters, 4, Dtype::F32));
        let (x64, w64, dy64) = (wide(&x), wide(&weight), wide(&dy));
        let y = Want::new(|[x, w]| reference::conv2d(&g, x, w, None), [&x64, &w64]);
        let dx = Want::new(|[dy, w]| reference::conv2d_input_gradient(&g, dy, w), [&dy64, &w64]);
        let dweight = Want::new(|[x, dy]| reference::conv2d_weight_gradient(&g, x, dy), [&x64, &dy64]);
        let dbias = Want::new(|[dy, _]| reference::conv2d_bias_gradient(&g, dy), [&dy64, &[]]);
        Self { g, dtype, x, weight, bias, dy, y, dx, dweight, dbias }
    }

    pub fn check(&self, b: &Bench<'_>, method: Method, layout: Layout) {
        self.check_by(b, method, ProductBy::Own, layout);
    }

    /// Checks all passes; `by` computes the products of im2col.
    pub fn check_by(&self, b: &Bench<'_>, method: Method, by: ProductBy, layout: Layout) {
        let Self { g, dtype, .. } = self;
        let (dtype, form) = (*dtype, Form { method, dtype: *dtype, layout });
        let what = |pass: &str| format!("{pass} of {g:?}, {form:?} by {by}");
        let convolution =
            Convolution::by(by, b.device, &b.gemm, g, form).unwrap_or_else(|e| panic!("{}: {e}", what("new")));
        let same = convolution.is_deterministic();
        let more = Rounding::new(&convolution, stored(dtype));
        let (oh, ow) = g.output().unwrap();
        let (of_x, of_y) = ([g.height * g.width, g.channels], [oh * ow, g.filters]);
        let of_weight = [g.kernel[0] * g.kernel[1], g.channels];
        let lay = |values: &[f32], shape| b.input(&laid_out(values, layout, shape), dtype);
        let (x, dy, weight) = (lay(&self.x, of_x), lay(&self.dy, of_y), lay(&self.weight, of_weight));
        // x serves as a mask, since it has positive and negative values.
        let mask = x.clone();
        let bias = b.buffer(&self.bias);
        let poisoned = Poisoned::new(b.device, convolution.workspace_bytes());
        let workspace = poisoned.workspace();
        let stored = stored(dtype);
        let (k, k_dx) = (of_weight[0] * g.channels, of_weight[0] * g.filters);

        let y = Guarded::new(b.device, self.dy.len(), dtype);
        let plain_relu = self.y.relu();
        let with_bias = self.y.plus(&self.bias);
        let with_both = with_bias.relu();
        let forwards = [
            ("y", None, Epilogue::None, &self.y),
            ("y with a ReLU", None, Epilogue::Relu, &plain_relu),
            ("y with a bias", Some(&*bias), Epilogue::None, &with_bias),
            ("y with bias and ReLU", Some(&*bias), Epilogue::Relu, &with_both),
        ];
        for (name, bias, epilogue, want) in forwards {
            let got = y.written_by(same[0], &what(name), b, &poisoned, || {
                convolution.forward(&b.stream, &x, &weight, bias, epilogue, &y.array(), &workspace).unwrap();
            });
            let of_bias = if bias.is_some() { more.twice } else { 0.0 };
            let got = as_nhwc(&got, layout, of_y);
            want.check_within(&what(name), &got, k + 1, (dtype, stored), more.transforms[0] + of_bias);
        }

        let dx = Guarded::new(b.device, self.x.len(), dtype);
        let has_dx = convolution.library_plans().is_none_or(|[_, plan, _]| plan.is_some());
        let gradients = [("dx", None, &self.dx), ("masked dx", Some(&mask), &self.dx.masked(&self.x))];
        for (name, mask, want) in gradients.into_iter().filter(|_| has_dx) {
            let got = dx.written_by(same[1], &what(name), b, &poisoned, || {
                convolution.input_gradient(&b.stream, &dy, &weight, mask, &dx.array(), &workspace).unwrap();
            });
            let got = as_nhwc(&got, layout, of_x);
            want.check_within(&what(name), &got, k_dx, (dtype, stored), more.transforms[1]);
        }

        let dweight = Guarded::new(b.device, self.weight.len(), Dtype::F32);
        let dbias = Guarded::new(b.device, g.filters, Dtype::F32);
        let positions = g.batch * oh * ow;
        let got = dweight.written_by(same[2], &what("dw"), b, &poisoned, || {
            convolution.weight_gradient(&b.stream, &x, &dy, &dweight.f32(), None, &workspace).unwrap();
        });
        let got = as_nhwc(&got, layout, of_weight);
        // cuDNN rounds its weight gradient to the type of the operands.
        let out = if method.is_stock() { stored } else { Dtype::F32 };
        self.dweight.check_within(&what("dw"), &got, positions, (dtype, out), more.transforms[2]);
        let got = dbias.written(&what("db"), b, &poisoned, || {
            convolution.weight_gradient(&b.stream, &x, &dy, &dweight.f32(), Some(&dbias.f32()), &workspace).unwrap();
        });
        self.dbias.check(&what("db"), &got, positions, (Dtype::F32, Dtype::F32));
    }
}

/// Additional rounding by a library, relative to the magnitudes that are added.
struct Rounding {
    /// Rounding of an output before a bias is added to it.
    twice: f64,
    /// Rounding by FFT or Winograd's algorithm, for each pass.
    transforms: [f64; 3],
}

impl Rounding {
    fn new(convolution: &Convolution, stored: Dtype) -> Self {
        let Some(plans) = convolution.library_plans() else { return Self { twice: 0.0, transforms: [0.0; 3] } };
        let transforms =
            plans.map(|plan| if plan.is_some_and(CudnnPlan::transforms) { 16.0 * stored.epsilon() } else { 0.0 });
        Self { twice: 0.5 * stored.epsilon(), transforms }
    }
}
