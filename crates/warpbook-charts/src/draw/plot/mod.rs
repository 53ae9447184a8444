//! Plots: axes, bars, lines, and where labels go.

pub(crate) mod bars;
pub(crate) mod labels;
pub(crate) mod lines;
pub(crate) mod ticks;
