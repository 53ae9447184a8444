//! How a data set comes out.

use super::BatchLoss;

/// How a data set comes out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// The mean loss.
    pub loss: f64,
    /// Samples that are classified as their label says.
    pub correct: usize,
    /// Samples.
    pub of: usize,
}

impl Score {
    /// The share of samples that are right, from 0 to 1.
    #[must_use]
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.of.max(1) as f64
    }

    /// Of batches with so many samples each.
    pub(crate) fn of(batches: impl IntoIterator<Item = (BatchLoss, usize)>) -> Self {
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
        let batch = |mean, correct| BatchLoss { mean, correct };
        let score = Score::of([(batch(1.0, 3), 4), (batch(4.0, 0), 2)]);
        assert_eq!(score, Score { loss: 2.0, correct: 3, of: 6 });
        assert_eq!((score.accuracy(), Score::of([]).accuracy()), (0.5, 0.0));
        assert!(Score::of([(batch(f64::NAN, 0), 1), (batch(1.0, 1), 1)]).loss.is_nan());
    }
}
