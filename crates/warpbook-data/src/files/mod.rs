//! Published data sets in their own file formats, read without trust.

pub(crate) mod cifar;
pub(crate) mod file;
#[cfg(test)]
pub(crate) mod fuzz;
pub(crate) mod idx;
pub(crate) mod pickle;
pub(crate) mod recipes;
