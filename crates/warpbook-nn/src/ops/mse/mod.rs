//! The mean squared error over all elements, like `torch.nn.MSELoss`.

pub mod cpu;
pub mod cuda;

use super::error::{Check, Result};

pub(crate) const OP: &str = "mse";

pub(crate) fn check(output: usize, target: usize, doutput: usize) -> Result<()> {
    Check(OP).positive(&[("the number of elements", output)])?;
    Check(OP).lengths(&[("the target", target, &[output]), ("doutput", doutput, &[output])])
}
