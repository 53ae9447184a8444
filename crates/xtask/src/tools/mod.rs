//! Tools for the checks: found on this machine, or installed.

pub(crate) mod apt;
pub(crate) mod evcxr;
pub(crate) mod npm;
pub(crate) mod nvrtc;
pub(crate) mod python;
