//! Tools that the checks need on this machine: finding or installing them.

pub(crate) mod apt;
pub(crate) mod evcxr;
pub(crate) mod npm;
pub(crate) mod nvrtc;
pub(crate) mod python;
