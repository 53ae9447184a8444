//! The cross entropy on the CPU. Each row is computed in f64.

use super::{CrossEntropy, MeanLoss};
use crate::ops::error::Result;
use rayon::prelude::*;

/// Computes the loss of the logits, `[batch][classes]`, for the labels, `[batch]`, and its gradient times `scale`. dlogits is not read.
///
/// # Errors
/// If a size is zero, a setting is out of range, a slice has the wrong length, or a label is not below `classes`.
pub fn loss_and_gradient(
    c: &CrossEntropy,
    logits: &[f32],
    labels: &[u8],
    scale: f32,
    dlogits: &mut [f32],
) -> Result<MeanLoss> {
    c.check(logits.len(), labels, dlogits.len())?;
    let factor = f64::from(scale) / c.batch as f64;
    let rows = logits.par_chunks(c.classes).zip(labels).zip(dlogits.par_chunks_mut(c.classes)).with_min_len(ROWS);
    let rows = rows.map(|((logits, label), out)| {
        let row = SampleLogits::new(c, logits, *label);
        row.gradient(factor, out);
        row.loss()
    });
    Ok(mean(c, &rows.collect::<Vec<_>>()))
}

/// Computes only the loss, with the same bits as [`loss_and_gradient`].
///
/// # Errors
/// See [`loss_and_gradient`].
pub fn loss(c: &CrossEntropy, logits: &[f32], labels: &[u8]) -> Result<MeanLoss> {
    c.check(logits.len(), labels, logits.len())?;
    let rows = logits.par_chunks(c.classes).zip(labels).with_min_len(ROWS);
    Ok(mean(c, &rows.map(|(logits, label)| SampleLogits::new(c, logits, *label).loss()).collect::<Vec<_>>()))
}

/// Smallest number of rows that is worth a task of the thread pool.
const ROWS: usize = 16;

fn mean(c: &CrossEntropy, rows: &[(f64, bool)]) -> MeanLoss {
    let sum: f64 = rows.iter().map(|(loss, _)| loss).sum();
    MeanLoss { mean: sum / c.batch as f64, correct: rows.iter().filter(|(_, correct)| *correct).count() }
}

/// The logits of a sample with the values from which its loss and gradient are computed.
struct SampleLogits<'a> {
    logits: &'a [f32],
    label: usize,
    largest: usize,
    /// Sum of the exponentials of the shifted logits.
    sum: f64,
    /// Target of the label's class, in addition to `spread`, which every class gets.
    own: f64,
    spread: f64,
}

impl<'a> SampleLogits<'a> {
    fn new(c: &CrossEntropy, logits: &'a [f32], label: u8) -> Self {
        let (smoothing, largest) = (f64::from(c.smoothing), largest(logits));
        let spread = smoothing / c.classes as f64;
        let row = Self { logits, label: label.into(), largest, sum: 0.0, own: 1.0 - smoothing, spread };
        Self { sum: logits.iter().map(|logit| row.shifted(*logit).exp()).sum(), ..row }
    }

    /// Subtracts the largest logit from a logit, so that no exponential overflows.
    fn shifted(&self, logit: f32) -> f64 {
        f64::from(logit) - f64::from(self.logits[self.largest])
    }

    /// Returns the loss, and true if the largest logit belongs to the label.
    fn loss(&self) -> (f64, bool) {
        let mut loss = self.sum.ln() - self.own * self.shifted(self.logits[self.label]);
        if self.spread > 0.0 {
            loss -= self.spread * self.logits.iter().map(|logit| self.shifted(*logit)).sum::<f64>();
        }
        (loss, self.largest == self.label)
    }

    fn gradient(&self, factor: f64, out: &mut [f32]) {
        for (class, (out, logit)) in out.iter_mut().zip(self.logits).enumerate() {
            let target = if class == self.label { self.own + self.spread } else { self.spread };
            *out = (factor * (self.shifted(*logit).exp() / self.sum - target)) as f32;
        }
    }
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
