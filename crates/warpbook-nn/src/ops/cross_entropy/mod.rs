//! The mean cross entropy of a batch after softmax, with label smoothing, as `torch.nn.CrossEntropyLoss`.
//!
//! The target of a row gives 1 - s + s / classes to its label and s / classes to the others, s being the smoothing.

pub mod cpu;
pub mod cuda;

use super::error::{Check, OpError, Result};

pub(crate) const OP: &str = "cross_entropy";

/// Shape and settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrossEntropy {
    /// Rows of the logits, `[batch][classes]`.
    pub batch: usize,
    /// Classes, 1 to 256.
    pub classes: usize,
    /// Share of the target that is spread over all classes, 0 to 1.
    pub smoothing: f32,
}

/// What a batch gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanLoss {
    /// The mean loss of the rows.
    pub mean: f64,
    /// Rows whose largest logit, of equal ones the first, is that of the label; NaN counts as the largest.
    pub correct: usize,
}

impl CrossEntropy {
    /// Sizes and settings are in range.
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
