//! The sum of a residual connection, y = a + b. The backward pass gives dy to both terms, adding it to a gradient that already
//! exists.

pub mod cpu;
pub mod cuda;

use super::error::{Check, Result};

pub(crate) const OP: &str = "add";

pub(crate) fn check(name: &'static str, len: usize, expected: usize) -> Result<()> {
    Check(OP).lengths(&[(name, len, &[expected])])
}
