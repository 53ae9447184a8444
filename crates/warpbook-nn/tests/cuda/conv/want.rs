//! Expected results of a pass, and the permitted error.

use warpbook_kernels::Tolerance;
use warpbook_record::Dtype;

pub fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|v| f64::from(*v)).collect()
}

fn magnitudes(values: &[f64]) -> Vec<f64> {
    values.iter().map(|v| v.abs()).collect()
}

/// Exact results, with the sums of magnitudes that scale their rounding errors.
pub struct Want {
    values: Vec<f64>,
    scales: Vec<f64>,
}

impl Want {
    pub fn new(f: impl Fn([&[f64]; 2]) -> Vec<f64>, [a, b]: [&[f64]; 2]) -> Self {
        Self { values: f([a, b]), scales: f([&magnitudes(a), &magnitudes(b)]) }
    }

    pub fn map(&self, f: impl Fn(usize, f64) -> f64) -> Self {
        let values = self.values.iter().enumerate().map(|(i, v)| f(i, *v)).collect();
        Self { values, scales: self.scales.clone() }
    }

    pub fn plus(&self, bias: &[f32]) -> Self {
        let bias_of = |i: usize| f64::from(bias[i % bias.len()]);
        let scales = self.scales.iter().enumerate().map(|(i, v)| v + bias_of(i).abs()).collect();
        Self { scales, ..self.map(|i, v| v + bias_of(i)) }
    }

    pub fn relu(&self) -> Self {
        self.map(|_, v| if v < 0.0 { 0.0 } else { v })
    }

    pub fn masked(&self, mask: &[f32]) -> Self {
        self.map(|i, v| if mask[i] <= 0.0 { 0.0 } else { v })
    }

    /// Checks sums of `k` products of `dtype`, stored as `out`.
    #[track_caller]
    pub fn check(&self, what: &str, got: &[f32], k: usize, types: (Dtype, Dtype)) {
        self.check_within(what, got, k, types, 0.0);
    }

    /// Like [`Self::check`], with additional errors of `more` times the scale.
    #[track_caller]
    pub fn check_within(&self, what: &str, got: &[f32], k: usize, (dtype, out): (Dtype, Dtype), more: f64) {
        assert_eq!(got.len(), self.values.len(), "{what}");
        let Tolerance(tolerance) = Tolerance::product(dtype, k as u64);
        let tiny = if out == Dtype::F16 { 1e-7 } else { 1e-30 };
        for (i, ((got, want), scale)) in got.iter().zip(&self.values).zip(&self.scales).enumerate() {
            let error = (f64::from(*got) - want).abs();
            // Allows for rounding to the type, then for the rounding of the sum.
            let bound = 0.5 * out.epsilon() * want.abs() + (tolerance + more) * scale + tiny;
            assert!(error <= bound, "{what}: element {i} is {got}, not {want}: {error:.1e} is above {bound:.1e}");
        }
    }
}
