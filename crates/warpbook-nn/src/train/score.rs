//! Loss and accuracy of a network on a data set.

use super::{MeanLoss, TrainError};

/// Loss and accuracy of a network on a data set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// Mean loss over all samples.
    pub loss: f64,
    /// Number of correctly classified samples.
    pub correct: usize,
    /// Number of samples that were evaluated.
    pub of: usize,
}

impl Score {
    /// Returns the fraction of correctly classified samples, from 0 to 1.
    #[must_use]
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.of.max(1) as f64
    }

    /// Checks that the loss is finite; otherwise the accuracy is meaningless.
    ///
    /// # Errors
    /// If the loss is not finite.
    pub fn finite(self) -> Result<Self, TrainError> {
        if self.loss.is_finite() {
            return Ok(self);
        }
        Err(TrainError::NotFinite(format!(
            "The loss over these images is {}, so the accuracy means nothing: an output of the network is not a finite number. Its weights have \
             diverged, or are too large for this precision.",
            self.loss
        )))
    }

    /// Combines batches with their numbers of samples.
    pub(crate) fn from_batches(batches: impl IntoIterator<Item = (MeanLoss, usize)>) -> Self {
        let (mut sum, mut correct, mut of) = (0.0, 0, 0);
        for (loss, n) in batches {
            sum += loss.mean * n as f64;
            correct += loss.correct;
            of += n;
        }
        Self { loss: sum / of.max(1) as f64, correct, of }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_weighs_batches_by_their_samples() {
        let batch = |mean, correct| MeanLoss { mean, correct };
        let score = Score::from_batches([(batch(1.0, 3), 4), (batch(4.0, 0), 2)]);
        assert_eq!(score, Score { loss: 2.0, correct: 3, of: 6 });
        assert_eq!((score.accuracy(), Score::from_batches([]).accuracy()), (0.5, 0.0));
        assert_eq!(score.finite().unwrap(), score);
        let broken = Score::from_batches([(batch(f64::NAN, 0), 1), (batch(1.0, 1), 1)]);
        assert!(broken.loss.is_nan() && broken.finite().unwrap_err().to_string().contains("is NaN"));
    }
}
