//! The CPU body. A row is computed in f64.

use super::{CrossEntropy, Loss};
use crate::ops::error::Result;
use rayon::prelude::*;

/// The loss of the logits, `[batch][classes]`, for the labels, `[batch]`, and its gradient times `scale`. dlogits is not read.
///
/// # Errors
/// A size is zero, a setting is out of range, a slice has not the length of its shape, or a label is not below `classes`.
pub fn loss_and_gradient(
    c: &CrossEntropy,
    logits: &[f32],
    labels: &[u8],
    scale: f32,
    dlogits: &mut [f32],
) -> Result<Loss> {
    /// Rows of a task at least.
    const ROWS: usize = 16;
    c.check(logits.len(), labels, dlogits.len())?;
    let factor = f64::from(scale) / c.batch as f64;
    let rows = logits.par_chunks(c.classes).zip(labels).zip(dlogits.par_chunks_mut(c.classes)).with_min_len(ROWS);
    let rows: Vec<(f64, bool)> =
        rows.map(|((logits, label), out)| row(c, logits, usize::from(*label), factor, out)).collect();
    let sum: f64 = rows.iter().map(|(loss, _)| loss).sum();
    Ok(Loss { mean: sum / c.batch as f64, correct: rows.iter().filter(|(_, correct)| *correct).count() })
}

/// The loss of a row, and whether its largest logit is the label's.
fn row(c: &CrossEntropy, logits: &[f32], label: usize, factor: f64, out: &mut [f32]) -> (f64, bool) {
    let largest = largest(logits);
    // Subtracted before exp, so that no sum overflows.
    let max = f64::from(logits[largest]);
    let shifted = |logit: &f32| f64::from(*logit) - max;
    let sum: f64 = logits.iter().map(|logit| shifted(logit).exp()).sum();
    let spread = f64::from(c.smoothing) / c.classes as f64;
    let own = 1.0 - f64::from(c.smoothing);
    let mut loss = sum.ln() - own * shifted(&logits[label]);
    if spread > 0.0 {
        loss -= spread * logits.iter().map(shifted).sum::<f64>();
    }
    for (class, (out, logit)) in out.iter_mut().zip(logits).enumerate() {
        let target = if class == label { own + spread } else { spread };
        *out = (factor * (shifted(logit).exp() / sum - target)) as f32;
    }
    (loss, largest == label)
}

fn largest(logits: &[f32]) -> usize {
    let mut largest = 0;
    for (class, logit) in logits.iter().enumerate() {
        let best = logits[largest];
        if *logit > best || (logit.is_nan() && !best.is_nan()) {
            largest = class;
        }
    }
    largest
}
