//! What a network is trained to make small.

use super::TrainError;
use crate::ops::cross_entropy::{self, CrossEntropy};
use crate::ops::mse;
use serde::{Deserialize, Serialize};

/// A loss, the mean over a batch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Loss {
    /// Softmax with cross entropy, of logits and class labels.
    CrossEntropy {
        /// Share of the target that is spread over all classes, from 0 to below 1 (Szegedy et al., 2016).
        smoothing: f32,
    },
    /// The mean squared error over all elements, of outputs and values.
    Mse,
}

/// What the outputs of a batch are compared with.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// Class labels, u8 `[batch]`.
    Labels(&'a [u8]),
    /// Values, f32 `[batch][outputs]`.
    Values(&'a [f32]),
}

/// The loss of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchLoss {
    /// Its mean.
    pub mean: f64,
    /// Samples whose largest logit is that of their label; 0 of a loss without labels.
    pub correct: usize,
}

impl Loss {
    /// The loss of outputs f32 `[batch][outputs]`, and where it is wanted its gradient times a scale.
    ///
    /// # Errors
    /// The target is not of the loss's kind, or a length does not fit.
    pub fn of(
        self,
        outputs: &[f32],
        target: Target<'_>,
        gradient: Option<(f32, &mut [f32])>,
    ) -> Result<BatchLoss, TrainError> {
        match (self, target) {
            (Self::CrossEntropy { smoothing }, Target::Labels(labels)) => {
                let c = CrossEntropy { batch: labels.len(), classes: outputs.len() / labels.len().max(1), smoothing };
                let loss = match gradient {
                    Some((scale, to)) => cross_entropy::cpu::loss_and_gradient(&c, outputs, labels, scale, to),
                    None => cross_entropy::cpu::loss(&c, outputs, labels),
                }?;
                Ok(BatchLoss { mean: loss.mean, correct: loss.correct })
            }
            (Self::Mse, Target::Values(values)) => {
                let mean = match gradient {
                    Some((scale, to)) => mse::cpu::loss_and_gradient(outputs, values, scale, to),
                    None => mse::cpu::loss(outputs, values),
                }?;
                Ok(BatchLoss { mean, correct: 0 })
            }
            (Self::CrossEntropy { .. }, Target::Values(_)) => Err(TrainError::Setting(
                "Cross entropy needs class labels; these targets are values: their loss is the mean squared error."
                    .into(),
            )),
            (Self::Mse, Target::Labels(_)) => Err(TrainError::Setting(
                "The mean squared error needs values; these targets are class labels: use Loss::CrossEntropy.".into(),
            )),
        }
    }
}
