//! Records as JSON: reading without trust, numbers that JSON has no words for, and the upgrade of version 1.

pub mod json;
pub(crate) mod older;
pub(crate) mod read;
pub mod real;
pub(crate) mod v1;
