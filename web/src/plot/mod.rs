//! What is worked out for a picture: its marks, the part of a plot in sight, timelines and samples.

pub mod marks;
pub mod sample_plot;
pub mod trace;
pub mod zoom;
