//! The operations in f64, straight from their definitions: loops over every index, in one thread, without blocks, and without code of the
//! implementations.
//!
//! Every implementation, on the CPU and on a GPU, is tested against these functions, and the functions' gradients against finite
//! differences ([`finite_difference`]). They panic if slices do not have the lengths of the shapes.
#![allow(dead_code, unused_imports, reason = "each executable uses some of the operations")]

#[path = "../../../warpbook-experiments/src/convolution/reference.rs"]
mod convolution;
mod layers;
mod losses;
mod muon;
mod norm;
mod optimizer;
mod pool;

pub use convolution::{conv2d, conv2d_input_gradient, conv2d_weight_gradient};
pub use layers::{
    activation, activation_gradient, conv2d_bias_gradient, linear, linear_bias_gradient, linear_input_gradient,
    linear_weight_gradient,
};
pub use losses::{cross_entropy, cross_entropy_gradient, mse, mse_gradient};
pub use muon::muon_step;
pub use norm::{batch_norm, batch_norm_gradient, batch_norm_with, moments};
pub use optimizer::{ParameterState, optimizer_step};
pub use pool::{average_pool, average_pool_gradient, max_pool, max_pool_gradient};

/// Gradient of `f` at `x` by central differences with a step of `step`. Its error is of the order of the step's square, plus 1e-16 divided
/// by the step.
pub fn finite_difference(x: &[f64], step: f64, f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let mut at = x.to_vec();
    let mut slope = |i: usize| {
        let mut value = |offset: f64| {
            at[i] = x[i] + offset;
            let value = f(&at);
            at[i] = x[i];
            value
        };
        (value(step) - value(-step)) / (2.0 * step)
    };
    (0..x.len()).map(&mut slope).collect()
}
