//! Tools that the checks need on this machine: found, or installed.

pub(crate) mod apt;
pub(crate) mod evcxr;
pub(crate) mod npm;
pub(crate) mod nvrtc;
pub(crate) mod python;
