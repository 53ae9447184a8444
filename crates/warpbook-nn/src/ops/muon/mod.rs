//! Muon: momentum, orthogonalised by a Newton-Schulz iteration, for the filters of convolutions. Source: Jordan et al., "Muon: An optimizer
//! for hidden layers in neural networks", 2024; normalised weights as in Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU", 2024.
//!
//! A filter `[out][in][height][width]` is the matrix W `[out][in height width]`. A step is m = momentum m + g, D = g + momentum m with
//! Nesterov's momentum and m without, X = D / (|D| + epsilon) in the Frobenius norm, transposed if it has more rows than columns; then
//! `steps` times A = X X^T, B = b A + c A A, X = a X + B X; and W = W sqrt(out) / |W| - rate X. Without `normalise` W is not rescaled. The
//! order of a filter's columns does not change the result.

pub mod cpu;
pub mod cuda;
mod launch;

use super::error::{Check, Result};
use serde::{Deserialize, Serialize};

pub(crate) const OP: &str = "muon";

/// Coefficients of the iteration's polynomial.
pub const COEFFICIENTS: [f64; 3] = [3.4445, -4.7750, 2.0315];

/// Constant added to the norm of the direction.
pub const EPSILON: f64 = 1e-7;

/// Settings of Muon, except momentum and learning rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Muon {
    /// Number of Newton-Schulz iterations, 1 to 16.
    pub steps: u32,
    /// True if a filter's weights are rescaled to the norm sqrt(out) before each step.
    pub normalise: bool,
}

impl Default for Muon {
    fn default() -> Self {
        Self { steps: 3, normalise: true }
    }
}

impl Muon {
    /// Checks the settings.
    ///
    /// # Errors
    /// If a setting is out of range; the message names it.
    pub fn check(&self) -> Result<()> {
        Check(OP).value("the number of steps", self.steps, (1..=16).contains(&self.steps), "from 1 to 16")
    }
}
