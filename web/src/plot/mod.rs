//! Computations for pictures: marks, zoom, timelines and samples.

pub mod marks;
pub mod sample_plot;
pub mod trace;
pub mod zoom;
