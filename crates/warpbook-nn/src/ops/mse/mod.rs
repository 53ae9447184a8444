//! The mean squared error over all elements, as `torch.nn.MSELoss`.

pub mod cpu;

use super::error::{Check, Result};

pub(crate) fn check(output: usize, target: usize, doutput: usize) -> Result<()> {
    Check("mse").positive(&[("the number of elements", output)])?;
    Check("mse").lengths(&[("the target", target, &[output]), ("doutput", doutput, &[output])])
}
