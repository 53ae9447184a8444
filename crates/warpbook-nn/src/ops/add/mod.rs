//! The sum of a residual connection, y = a + b. Backwards dy goes to both; where a gradient is there already, it is added to it.

pub mod cpu;
pub mod cuda;

use super::error::{Check, Result};

pub(crate) const OP: &str = "add";

pub(crate) fn check(name: &'static str, len: usize, of: usize) -> Result<()> {
    Check(OP).lengths(&[(name, len, &[of])])
}
