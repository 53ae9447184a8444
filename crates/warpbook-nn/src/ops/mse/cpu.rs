//! The mean squared error on the CPU.

use super::check;
use crate::ops::error::Result;
use warpbook_data::parallel::{map2, sum};

/// Computes the mean of (output - target)^2, and its gradient, 2 (output - target) / n, times `scale`. doutput is not read.
///
/// # Errors
/// If there are no elements, or the slices differ in length.
pub fn loss_and_gradient(output: &[f32], target: &[f32], scale: f32, doutput: &mut [f32]) -> Result<f64> {
    check(output.len(), target.len(), doutput.len())?;
    let n = output.len() as f64;
    let factor = (2.0 * f64::from(scale) / n) as f32;
    map2(output, target, doutput, |output, target| factor * (output - target));
    loss(output, target)
}

/// Computes the mean of (output - target)^2 only, with the same bits as [`loss_and_gradient`].
///
/// # Errors
/// See [`loss_and_gradient`].
pub fn loss(output: &[f32], target: &[f32]) -> Result<f64> {
    check(output.len(), target.len(), output.len())?;
    let squares = sum(output.len(), |range| {
        let pairs = output[range.clone()].iter().zip(&target[range]);
        pairs.map(|(o, t)| (f64::from(*o) - f64::from(*t)).powi(2)).sum()
    });
    Ok(squares / output.len() as f64)
}
