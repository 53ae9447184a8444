//! Checks of single views of the page.

pub(crate) mod beside;
pub(crate) mod board;
pub(crate) mod looks;
pub(crate) mod marks;
pub(crate) mod plots;
pub(crate) mod rung_panel;
