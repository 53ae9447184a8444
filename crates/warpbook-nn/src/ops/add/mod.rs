//! The sum of a residual connection, y = a + b. In the backward pass dy goes to both terms; it is added to a gradient that is already
//! there.

pub mod cpu;
pub mod cuda;

use super::error::{Check, Result};

pub(crate) const OP: &str = "add";

pub(crate) fn check(name: &'static str, len: usize, expected: usize) -> Result<()> {
    Check(OP).lengths(&[(name, len, &[expected])])
}
