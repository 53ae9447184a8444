//! What a notebook imports.

pub use crate::{
    Attempts, ConfusionMatrix, EvcxrDisplay, HostCode, KernelDiff, KernelView, Panel, PredictionGrid, Show, Trains,
    Viewed, lines_against_speed, lines_of_code, notebook_progress,
};
pub use warpbook_charts::{
    Chart, ablation, accuracy, breakdown, compare, gradient_norm, ladder, learning_rate, link_bandwidth, loss_curve,
    loss_scale, operations, roofline, shapes, sweep, sweep_bandwidth, sweep_throughput, tiles, timeline, timelines,
    transfers, xray,
};
pub use warpbook_data as data;
pub use warpbook_data::philox::gaussian;
pub use warpbook_data::{Dataset, Splits, synthetic_digits};
pub use warpbook_device::{Bench, Buffer, Choice, CudaDevice, Device, Inventory, Kernel, Slice, Stream};
pub use warpbook_experiments::{
    Convolutions, Guide, Matmul, PAIRS, Pair, Regression, Training, TrainingLoop, TrainingRun, Workload, matmul_figure,
    training_progress,
};
pub use warpbook_lab::profile::{Cycle, HardwareCounters, Profile, Profiler, Work};
pub use warpbook_lab::write_and_link as write_record;
pub use warpbook_lab::{
    Attempt, Candidate, Checked, Details, Error, Event, Experiment, Lab, LiveKernel, Prepared, Result, Trials, XrayRun,
    on_cpu, on_gpu, read_record,
};
pub use warpbook_nn::infer::{Frozen, Prediction, Predictor};
pub use warpbook_nn::model::{Model, OptimizerState};
pub use warpbook_nn::network::{
    Layer, Network, avg_pool, batch_norm, conv2d, dropout, flatten, gelu, linear, max_pool, own, relu, residual,
};
pub use warpbook_nn::ops::optimizer::Optimizer;
pub use warpbook_nn::ops::custom_layer::{OwnLayer, OwnReport};
pub use warpbook_nn::ops::schedule::Schedule;
pub use warpbook_nn::tensor::Tensor;
pub use warpbook_nn::train::{Loss, Place, Precision, Prefetcher, Recipe, Trainer};
pub use warpbook_nn::weights::Weights;
pub use warpbook_record::{
    Baseline, ChartKind, Check, Column, Descriptor, Dim, Dtype, Grid, KernelSpec, MemoryLevel, Part, PartGroup,
    Problem, Quantity, Requires, Run, Rung, Runner, Source, SweepAxis, SweepPoint, Tile, Traffic, count, setting,
};
