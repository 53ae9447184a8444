//! What a notebook imports.

pub use crate::charts::{Chart, draw};
pub use crate::device::{Bench, Buffer, Choice, CudaDevice, Device, Inventory, Kernel, Slice, Stream};
pub use crate::display::write_record;
pub use crate::nn::data::{self, Dataset, Splits, synthetic_digits};
pub use crate::nn::infer::{Frozen, Prediction, Predictor};
pub use crate::nn::model::{Model, OptimizerState};
pub use crate::nn::network::{
    Layer, Network, avg_pool, batch_norm, conv2d, dropout, flatten, gelu, linear, max_pool, own, relu, residual,
};
pub use crate::nn::ops::optimizer::Optimizer;
pub use crate::nn::ops::own::{OwnLayer, OwnReport};
pub use crate::nn::ops::schedule::Schedule;
pub use crate::nn::philox::gaussian;
pub use crate::nn::tensor::Tensor;
pub use crate::nn::train::{Loss, Place, Precision, Prefetcher, Recipe, Trainer};
pub use crate::nn::weights::Weights;
pub use crate::profile::{Cycle, HardwareCounters, Profile, Profiler, Work};
pub use crate::record::{
    Baseline, ChartKind, Check, Column, Descriptor, Dim, Dtype, Grid, KernelSpec, MemoryLevel, Part, PartGroup,
    Problem, Quantity, Requires, Run, Rung, Runner, Source, SweepAxis, SweepPoint, Tile, Traffic, count, setting,
};
pub use crate::{
    Attempt, Candidate, Checked, ConfusionMatrix, Convolutions, Details, Error, EvcxrDisplay, Event, Experiment, Guide,
    HostCode, KernelDiff, KernelView, Lab, LiveKernel, Matmul, PAIRS, Pair, Panel, PredictionGrid, Prepared,
    Regression, Result, Show, Training, TrainingLoop, TrainingRun, Trials, Workload, XrayRun, lines_against_speed,
    lines_of_code, matmul_figure, notebook_progress, on_cpu, on_gpu, read_record, training_progress,
};
