//! What a notebook imports.

pub use crate::charts::{
    Chart, Quantity, ablation, compare, ladder, loss_curve, matmul_figure, operations, roofline, shapes, sweep,
    sweep_bandwidth, sweep_throughput, tiles, transfers,
};
pub use crate::device::{Bench, Choice, Device, Inventory};
pub use crate::record::{Dtype, MemoryLevel, Problem, Run, Rung, SpanGroup};
pub use crate::{
    Attempt, Error, EvcxrDisplay, Event, Experiment, KernelDiff, KernelView, Lab, LiveKernel, Matmul, Panel,
    Regression, Result, Show, lines_against_speed, lines_of_code, notebook_progress, read_record, write_record,
};
