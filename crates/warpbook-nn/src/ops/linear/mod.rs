//! The linear layer: y = x W^T + b, with x `[batch][inputs]`, W `[outputs][inputs]`, b `[outputs]` and y `[batch][outputs]`.

pub mod cpu;
pub mod cuda;

use super::error::{Check, Result};

pub(crate) const OP: &str = "linear";

/// The sizes of a linear layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sizes {
    /// Rows of x and y.
    pub batch: usize,
    /// Features of x.
    pub inputs: usize,
    /// Features of y.
    pub outputs: usize,
}

impl Sizes {
    /// Returns the number of floating-point operations of the forward pass without the bias; each of the two gradients
    /// needs the same number.
    #[must_use]
    pub fn flops(&self) -> u64 {
        (super::error::elements(&[self.batch, self.inputs, self.outputs]) as u64).saturating_mul(2)
    }

    pub(crate) fn check(
        &self,
        x: (&'static str, usize),
        weight: (&'static str, usize),
        y: (&'static str, usize),
    ) -> Result<()> {
        let Self { batch, inputs, outputs } = *self;
        Check(OP).positive(&[("the batch", batch), ("inputs", inputs), ("outputs", outputs)])?;
        Check(OP).lengths(&[
            (x.0, x.1, &[batch, inputs]),
            (weight.0, weight.1, &[outputs, inputs]),
            (y.0, y.1, &[batch, outputs]),
        ])
    }

    /// Checks that a bias, or its gradient, has one element per output.
    pub(crate) fn check_bias(&self, name: &'static str, len: Option<usize>) -> Result<()> {
        len.map_or(Ok(()), |len| Check(OP).lengths(&[(name, len, &[self.outputs])]))
    }
}
