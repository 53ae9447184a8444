//! The sum of a residual connection, y = a + b. Backwards dy goes to both; where a gradient is there already, it is added to it.

pub mod cpu;

use super::error::{Check, Result};

pub(crate) fn check(name: &'static str, len: usize, of: usize) -> Result<()> {
    Check("add").lengths(&[(name, len, &[of])])
}
