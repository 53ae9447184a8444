//! Texts: formatting, differences between sources, and coloured CUDA C++.

pub mod difference;
pub mod format;
pub mod highlight;
pub mod search;
