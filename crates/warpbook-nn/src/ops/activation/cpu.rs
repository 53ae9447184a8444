//! Activations on the CPU.

use super::{Activation, check};
use crate::ops::error::Result;
use warpbook_data::parallel::{map, map2};
use warpbook_gemm::{gelu, gelu_derivative};

/// Computes y = f(x). y is not read.
///
/// # Errors
/// If the slices differ in length.
pub fn forward(f: Activation, x: &[f32], y: &mut [f32]) -> Result<()> {
    check(x.len(), &[("y", y.len())])?;
    match f {
        // f32::max would turn a NaN into 0.
        Activation::Relu => map(x, y, |x| if x < 0.0 { 0.0 } else { x }),
        Activation::Gelu => map(x, y, |x| gelu(x.into()) as f32),
    }
    Ok(())
}

/// Computes dx = dy f'(x). `kept` is y for [`Activation::Relu`] and x for [`Activation::Gelu`]: see [`Activation::keeps`]. dx is not read.
///
/// # Errors
/// If the slices differ in length.
pub fn backward(f: Activation, kept: &[f32], dy: &[f32], dx: &mut [f32]) -> Result<()> {
    check(kept.len(), &[("dy", dy.len()), ("dx", dx.len())])?;
    match f {
        // As in PyTorch's threshold_backward, the gradient is 0 if y <= 0, so dy passes if y is NaN.
        Activation::Relu => map2(kept, dy, dx, |y, dy| if y <= 0.0 { 0.0 } else { dy }),
        Activation::Gelu => map2(kept, dy, dx, |x, dy| (f64::from(dy) * gelu_derivative(x.into())) as f32),
    }
    Ok(())
}
