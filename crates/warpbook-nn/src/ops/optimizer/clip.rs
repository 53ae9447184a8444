//! Clipping of gradients by their norm, like `torch.nn.utils.clip_grad_norm_`. Source: Pascanu, Mikolov and Bengio, ICML 2013.

use crate::ops::error::{Check, Result};
use warpbook_data::parallel::{CHUNK, chunks, sum};

/// Returns the Euclidean norm of all gradients together, summed in f64 in the order of the arrays.
#[must_use]
pub fn global_norm(gradients: &[&[f32]]) -> f64 {
    let squares = |g: &&[f32]| sum(g.len(), |range| g[range].iter().map(|v| f64::from(*v).powi(2)).sum());
    gradients.iter().map(squares).sum::<f64>().sqrt()
}

/// Returns the factor that reduces gradients of this norm to at most `max_norm`: min(1, `max_norm` / (norm + 1e-6)). NaN if the norm is
/// NaN.
///
/// # Errors
/// If `max_norm` is not above 0.
pub fn factor(norm: f64, max_norm: f64) -> Result<f32> {
    Check("clip").value("the largest norm", max_norm, max_norm > 0.0, "above 0")?;
    let factor = max_norm / (norm + 1e-6);
    // f64::min would turn a NaN into 1.
    Ok(if factor > 1.0 { 1.0 } else { factor as f32 })
}

/// Multiplies a gradient by the factor.
pub fn scale(gradient: &mut [f32], factor: f32) {
    chunks(gradient, CHUNK, &|_, g| g.iter_mut().for_each(|g| *g *= factor));
}
