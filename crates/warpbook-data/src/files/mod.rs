//! Readers for the published data sets in their own file formats. They check every file and trust none.

pub(crate) mod cifar;
pub(crate) mod file;
#[cfg(test)]
pub(crate) mod fuzz;
pub(crate) mod idx;
pub(crate) mod pickle;
pub(crate) mod recipes;
