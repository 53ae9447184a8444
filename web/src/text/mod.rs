//! Texts: numbers and sentences, what differs between two sources, and CUDA C++ in colours.

pub mod difference;
pub mod format;
pub mod highlight;
pub mod search;
