//! Plots: axes, bars, lines and the placement of labels.

pub(crate) mod bars;
pub(crate) mod labels;
pub(crate) mod lines;
pub(crate) mod ticks;
