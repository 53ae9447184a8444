//! Records as JSON: a reader for untrusted input, numbers that JSON cannot express, and the upgrade from format 1.

pub mod json;
pub(crate) mod older;
pub(crate) mod read;
pub mod real;
pub(crate) mod v1;
