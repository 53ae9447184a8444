//! Element-wise activations.

pub mod cpu;
pub mod cuda;

use super::error::{Check, Result};

pub(crate) const OP: &str = "activation";

/// An activation function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// max(x, 0); NaN stays NaN. Its derivative at 0 is 0.
    Relu,
    /// x Φ(x), the exact form of `torch.nn.GELU`; see [`warpbook_gemm::gelu`].
    Gelu,
}

impl Activation {
    /// Returns the array that the backward pass reads in addition to dy.
    #[must_use]
    pub fn keeps(self) -> Kept {
        match self {
            Self::Relu => Kept::Output,
            Self::Gelu => Kept::Input,
        }
    }
}

/// The array of the forward pass that a backward pass reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The input x.
    Input,
    /// The output y.
    Output,
}

/// Checks that the other slices have the length of the first.
pub(crate) fn check(first: usize, others: &[(&'static str, usize)]) -> Result<()> {
    others.iter().try_for_each(|(name, len)| Check(OP).lengths(&[(name, *len, &[first])]))
}
