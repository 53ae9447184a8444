//! The mean cross entropy of a batch after softmax, with label smoothing, like `torch.nn.CrossEntropyLoss`.
//!
//! A row's target is 1 - s + s / classes for its label and s / classes for the other classes, where s is the smoothing.

pub mod cpu;
pub mod cuda;

use super::error::{Check, OpError, Result};

pub(crate) const OP: &str = "cross_entropy";

/// Sizes and settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrossEntropy {
    /// Rows of the logits, `[batch][classes]`.
    pub batch: usize,
    /// Number of classes, 1 to 256.
    pub classes: usize,
    /// Share of the target that is spread over all classes, 0 to 1.
    pub smoothing: f32,
}

/// The mean loss of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanLoss {
    /// Mean loss over the rows.
    pub mean: f64,
    /// Number of rows whose largest logit (the first among equals) belongs to the label; NaN counts as the largest.
    pub correct: usize,
}

impl CrossEntropy {
    /// Checks that sizes and settings are in range.
    pub(crate) fn check_settings(&self) -> Result<()> {
        let Self { batch, classes, smoothing } = *self;
        let check = Check(OP);
        check.positive(&[("the batch", batch), ("classes", classes)])?;
        check.value("the number of classes", classes, classes <= 256, "at most 256, since labels are u8")?;
        check.value("the label smoothing", smoothing, (0.0..=1.0).contains(&smoothing), "0 to 1")
    }

    pub(crate) fn check(&self, logits: usize, labels: &[u8], dlogits: usize) -> Result<()> {
        let Self { batch, classes, .. } = *self;
        self.check_settings()?;
        Check(OP).lengths(&[
            ("logits", logits, &[batch, classes]),
            ("labels", labels.len(), &[batch]),
            ("dlogits", dlogits, &[batch, classes]),
        ])?;
        let wrong = labels.iter().position(|label| usize::from(*label) >= classes);
        wrong.map_or(Ok(()), |at| {
            Err(OpError::Index { op: OP, name: "label", at, value: labels[at].into(), count: classes })
        })
    }
}
