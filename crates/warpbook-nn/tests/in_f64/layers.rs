use warpbook_nn::ops::activation::Activation;
use warpbook_nn::ops::conv2d::Geometry;
use warpbook_nn::ops::linear::Sizes;

/// Computes y of [`linear`](mod@warpbook_nn::ops::linear).
pub fn linear(s: &Sizes, x: &[f64], weight: &[f64], bias: Option<&[f64]>) -> Vec<f64> {
    let element = |at: usize| {
        let (row, output) = (at / s.outputs, at % s.outputs);
        let product = |i: usize| x[row * s.inputs + i] * weight[output * s.inputs + i];
        bias.map_or(0.0, |b| b[output]) + (0..s.inputs).map(product).sum::<f64>()
    };
    (0..s.batch * s.outputs).map(element).collect()
}

/// Computes dx of a linear layer from dy.
pub fn linear_input_gradient(s: &Sizes, dy: &[f64], weight: &[f64]) -> Vec<f64> {
    let element = |at: usize| {
        let (row, input) = (at / s.inputs, at % s.inputs);
        (0..s.outputs).map(|o| dy[row * s.outputs + o] * weight[o * s.inputs + input]).sum()
    };
    (0..s.batch * s.inputs).map(element).collect()
}

/// Computes dW of a linear layer from x and dy.
pub fn linear_weight_gradient(s: &Sizes, x: &[f64], dy: &[f64]) -> Vec<f64> {
    let element = |at: usize| {
        let (output, input) = (at / s.inputs, at % s.inputs);
        (0..s.batch).map(|row| dy[row * s.outputs + output] * x[row * s.inputs + input]).sum()
    };
    (0..s.outputs * s.inputs).map(element).collect()
}

/// Computes the column sums of dy, whose rows have `outputs` elements.
pub fn linear_bias_gradient(dy: &[f64], outputs: usize) -> Vec<f64> {
    (0..outputs).map(|o| dy.iter().skip(o).step_by(outputs).sum()).collect()
}

/// Computes dbias of a convolution from dy.
pub fn conv2d_bias_gradient(g: &Geometry, dy: &[f64]) -> Vec<f64> {
    linear_bias_gradient(dy, g.filters)
}

/// Computes erf(x) by its series or, for |x| above 3, by the continued fraction of erfc (Abramowitz and Stegun, 7.1.6 and 7.1.14).
fn erf(x: f64) -> f64 {
    let z = x.abs();
    let value = if z <= 3.0 {
        let (mut term, mut sum, mut n) = (z, z, 0.0);
        while sum + term != sum {
            n += 1.0;
            term *= 2.0 * z * z / (2.0 * n + 1.0);
            sum += term;
        }
        2.0 / std::f64::consts::PI.sqrt() * (-z * z).exp() * sum
    } else {
        let fraction = (1..=60).rev().fold(z, |tail, k| z + f64::from(k) / 2.0 / tail);
        1.0 - (-z * z).exp() / (fraction * std::f64::consts::PI.sqrt())
    };
    value.copysign(x)
}

fn apply(f: Activation, x: f64) -> f64 {
    match f {
        Activation::Relu => 0.5 * (x + x.abs()),
        Activation::Gelu => 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2)),
    }
}

fn derivative(f: Activation, x: f64) -> f64 {
    match f {
        Activation::Relu => f64::from(u8::from(x > 0.0)),
        Activation::Gelu => {
            let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
            0.5 * (1.0 + erf(x / std::f64::consts::SQRT_2)) + x * density
        }
    }
}

/// Applies an activation.
pub fn activation(f: Activation, x: &[f64]) -> Vec<f64> {
    x.iter().map(|x| apply(f, *x)).collect()
}

/// Computes dx of an activation from dy; unlike the implementations it always needs x.
pub fn activation_gradient(f: Activation, x: &[f64], dy: &[f64]) -> Vec<f64> {
    x.iter().zip(dy).map(|(x, dy)| dy * derivative(f, *x)).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn erf_is_that_of_the_tables() {
        let table = [(0.5, 0.520_499_877_813_046_5), (1.0, 0.842_700_792_949_714_9), (2.0, 0.995_322_265_018_952_7)];
        for (x, want) in table {
            assert!((super::erf(x) - want).abs() < 1e-15 && (super::erf(-x) + want).abs() < 1e-15, "{x}");
        }
        assert!((super::erf(3.0) - super::erf(3.0 + 1e-12)).abs() < 1e-14, "the two forms meet");
    }
}
