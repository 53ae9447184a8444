//! Samples that are vectors of numbers, each with the target numbers that a network should compute from it.

use crate::error::{Error, Result};
use crate::philox;
use std::fmt;
use std::sync::Arc;

/// Samples whose inputs and targets are vectors of f32. Clones share the numbers.
#[derive(Clone, PartialEq)]
pub struct Rows {
    inputs: Arc<[f32]>,
    targets: Arc<[f32]>,
    widths: [usize; 2],
    seed: Option<u64>,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} samples of {} numbers and {} targets", self.len(), self.widths[0], self.widths[1])
    }
}

impl Rows {
    /// Creates samples from `inputs`, f32 `[n][features]`, and `targets`, f32 `[n][outputs]`.
    ///
    /// # Errors
    /// If the lengths of the arrays do not match.
    pub fn new(inputs: Vec<f32>, targets: Vec<f32>, [features, outputs]: [usize; 2]) -> Result<Self> {
        let whole = |len: usize, width: usize| width > 0 && len.is_multiple_of(width);
        if !whole(inputs.len(), features) || !whole(targets.len(), outputs) {
            return Err(Error::Setting(format!(
                "{} input values and {} target values do not make a whole number of samples with {features} inputs and {outputs} targets each.",
                inputs.len(),
                targets.len()
            )));
        }
        let [samples, aims] = [inputs.len() / features, targets.len() / outputs];
        if samples != aims || samples == 0 {
            return Err(Error::Setting(format!("{samples} samples and {aims} targets; each sample needs one target.")));
        }
        Ok(Self { inputs: inputs.into(), targets: targets.into(), widths: [features, outputs], seed: None })
    }

    /// Draws `n` samples of standard Gaussian numbers, inputs and targets, from a seed.
    #[must_use]
    pub fn gaussian(n: usize, [features, outputs]: [usize; 2], seed: u64) -> Self {
        let draw = |width: usize, stream: u32| {
            let mut values = vec![0.0; n.max(1) * width.max(1)];
            philox::fill_gaussians(&mut values, seed, stream, 0);
            values
        };
        let widths = [features.max(1), outputs.max(1)];
        Self { inputs: draw(features, 0).into(), targets: draw(outputs, 1).into(), widths, seed: Some(seed) }
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inputs.len() / self.widths[0]
    }

    /// Returns true if there are no samples, which never happens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Returns the lengths of an input vector and of a target vector.
    #[must_use]
    pub fn widths(&self) -> [usize; 2] {
        self.widths
    }

    /// Returns the seed that [`Rows::gaussian`] drew the samples from; `None` for other samples.
    #[must_use]
    pub fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// Returns the inputs, f32 `[n][features]`.
    #[must_use]
    pub fn inputs(&self) -> &[f32] {
        &self.inputs
    }

    /// Returns the targets, f32 `[n][outputs]`.
    #[must_use]
    pub fn targets(&self) -> &[f32] {
        &self.targets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_do_not_fit_are_refused() {
        let check = |inputs: usize, targets: usize, widths, expect: &str| {
            let sentence = Rows::new(vec![0.0; inputs], vec![0.0; targets], widths).unwrap_err().to_string();
            assert!(sentence.contains(expect), "{sentence}");
        };
        assert_eq!(Rows::new(vec![0.0; 6], vec![0.0; 4], [3, 2]).unwrap().len(), 2);
        check(7, 4, [3, 2], "do not make a whole number");
        check(6, 6, [3, 2], "2 samples and 3 targets");
        check(0, 0, [3, 2], "0 samples");
        check(6, 4, [0, 2], "do not make a whole number");
    }

    #[test]
    fn gaussian_rows_repeat() {
        let (a, b) = (Rows::gaussian(4, [5, 2], 1), Rows::gaussian(4, [5, 2], 1));
        assert!(a == b && a.len() == 4 && a.widths() == [5, 2]);
        assert!(a != Rows::gaussian(4, [5, 2], 2) && a.inputs()[..8] != a.targets()[..8]);
    }
}
