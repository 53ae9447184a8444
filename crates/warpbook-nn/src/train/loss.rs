//! Loss functions that training minimises.

use super::TrainError;
use crate::ops::cross_entropy::{self, CrossEntropy, MeanLoss};
use crate::ops::mse;
use serde::{Deserialize, Serialize};

/// A loss function, averaged over a batch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Loss {
    /// Softmax with cross entropy, of logits and class labels.
    CrossEntropy {
        /// Fraction of the target that is spread over all classes, from 0 to below 1 (Szegedy et al., 2016).
        smoothing: f32,
    },
    /// Mean squared error between the outputs and the target values, over all elements.
    Mse,
}

/// The targets of a batch's outputs.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// Class labels, u8 `[batch]`.
    Labels(&'a [u8]),
    /// Values, f32 `[batch][outputs]`.
    Values(&'a [f32]),
}

impl Loss {
    /// Computes the loss of outputs f32 `[batch][outputs]` and, if requested, its gradient times a scale.
    ///
    /// # Errors
    /// If the target has the wrong kind for the loss, or a length does not match.
    pub fn evaluate(
        self,
        outputs: &[f32],
        target: Target<'_>,
        gradient: Option<(f32, &mut [f32])>,
    ) -> Result<MeanLoss, TrainError> {
        match (self, target) {
            (Self::CrossEntropy { smoothing }, Target::Labels(labels)) => {
                let c = CrossEntropy { batch: labels.len(), classes: outputs.len() / labels.len().max(1), smoothing };
                Ok(match gradient {
                    Some((scale, to)) => cross_entropy::cpu::loss_and_gradient(&c, outputs, labels, scale, to),
                    None => cross_entropy::cpu::loss(&c, outputs, labels),
                }?)
            }
            (Self::Mse, Target::Values(values)) => {
                let mean = match gradient {
                    Some((scale, to)) => mse::cpu::loss_and_gradient(outputs, values, scale, to),
                    None => mse::cpu::loss(outputs, values),
                }?;
                Ok(MeanLoss { mean, correct: 0 })
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
