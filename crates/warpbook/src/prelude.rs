//! What a notebook imports.

pub use crate::charts::{
    Chart, Quantity, ablation, compare, ladder, loss_curve, operations, roofline, sweep, sweep_bandwidth,
};
pub use crate::device::{Bench, Choice, Device, Inventory};
pub use crate::record::{MemoryLevel, Problem, Run, Rung, SpanGroup};
pub use crate::{
    Error, EvcxrDisplay, Event, Experiment, KernelView, Lab, Panel, Regression, Result, Show, lines_against_speed,
    lines_of_code, notebook_progress, read_record, write_record,
};
