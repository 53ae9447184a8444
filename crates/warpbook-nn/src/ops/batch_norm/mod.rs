//! Batch normalisation over the rows of `[rows][channels]`; NHWC images have batch x height x width rows.
//!
//! y = gamma (x - mean) / sqrt(variance + epsilon) + beta, with the mean and the biased variance of the batch in training, and the
//! running statistics in inference. Source: Ioffe and Szegedy, "Batch normalization", ICML 2015; the running variance is unbiased, as in
//! PyTorch.

pub mod cpu;
pub mod cuda;
mod launch;

use super::error::{Check, Result};

pub(crate) const OP: &str = "batch_norm";

/// Sizes and settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchNorm {
    /// Rows of x; at least 2 in training.
    pub rows: usize,
    /// Channels, each normalised separately.
    pub channels: usize,
    /// Constant added to the variance, at least 0; 1e-5 in PyTorch.
    pub epsilon: f32,
    /// Weight of the batch in the running statistics, 0 to 1; 0.1 in PyTorch.
    pub momentum: f32,
}

/// The running statistics, `[channels]` each; initially mean 0 and variance 1.
#[derive(Debug)]
pub struct Running<'a> {
    /// Running mean of each channel.
    pub mean: &'a mut [f32],
    /// Running unbiased variance of each channel.
    pub variance: &'a mut [f32],
}

/// Results of the forward pass that the backward pass needs, `[channels]` each.
#[derive(Debug)]
pub struct Saved<'a> {
    /// Mean of the batch in each channel.
    pub mean: &'a mut [f32],
    /// 1 / sqrt(variance + epsilon) of the batch.
    pub inverse_deviation: &'a mut [f32],
}

impl BatchNorm {
    /// Creates the sizes with PyTorch's default settings.
    #[must_use]
    pub fn new(rows: usize, channels: usize) -> Self {
        Self { rows, channels, epsilon: 1e-5, momentum: 0.1 }
    }

    /// Checks that settings are in range, `matrices` have the shape of x, and `vectors` have one element per channel.
    pub(crate) fn check(&self, matrices: &[(&'static str, usize)], vectors: &[(&'static str, usize)]) -> Result<()> {
        let Self { rows, channels, epsilon, momentum } = *self;
        let check = Check(OP);
        check.positive(&[("rows", rows), ("channels", channels)])?;
        check.value("epsilon", epsilon, epsilon >= 0.0 && epsilon.is_finite(), "at least 0 and finite")?;
        check.value("momentum", momentum, (0.0..=1.0).contains(&momentum), "0 to 1")?;
        for (name, len) in matrices {
            check.lengths(&[(name, *len, &[rows, channels])])?;
        }
        vectors.iter().try_for_each(|(name, len)| check.lengths(&[(name, *len, &[channels])]))
    }

    /// Checks that there are enough rows for a variance.
    pub(crate) fn check_training(&self) -> Result<()> {
        Check(OP).value("rows in training", self.rows, self.rows > 1, "at least 2, since one has no variance")
    }
}
