//! The imports of a notebook, by topic: `use warpbook::prelude::*;` for kernels, ladders and charts, and one more line
//! each for networks ([`nn`]), custom experiments ([`experiment`]) and profiles ([`profile`]).

pub use crate::{
    EvcxrDisplay, Exercises, HostCode, KernelView, Panel, Show, Viewed, lines_against_speed, notebook_progress,
};
pub use warpbook_charts::{Chart, draw};
pub use warpbook_device::{Bench, Buffer, Choice, CudaDevice, Device, Kernel, Slice, Stream};
pub use warpbook_experiments::{Attempts, Convolutions, Guide, Matmul, PAIRS, Regression, Training, matmul_figure};
pub use warpbook_lab::exercise::{Exercise, Tried};
pub use warpbook_lab::write_and_link as write_record;
pub use warpbook_lab::{Attempt, Error, Event, Experiment, Lab, LiveKernel, Result, XrayRun, read_record};
pub use warpbook_record::{Dtype, Problem, Quantity, Run, Rung, Tile};

/// Names for networks: layers, data, training and use.
pub mod nn {
    pub use crate::{ConfusionMatrix, PredictionGrid};
    pub use warpbook_data as data;
    pub use warpbook_data::{Dataset, Splits, synthetic_digits};
    pub use warpbook_experiments::{TrainingLoop, TrainingRun, Trains, Workload, training_progress};
    pub use warpbook_lab::custom_layer::OwnReport;
    pub use warpbook_nn::infer::{Frozen, Prediction, Predictor};
    pub use warpbook_nn::model::{Model, OptimizerState};
    pub use warpbook_nn::network::{
        Layer, Network, avg_pool, batch_norm, conv2d, dropout, flatten, gelu, linear, max_pool, own, relu, residual,
    };
    pub use warpbook_nn::ops::custom_layer::OwnLayer;
    pub use warpbook_nn::ops::optimizer::Optimizer;
    pub use warpbook_nn::ops::schedule::Schedule;
    pub use warpbook_nn::tensor::Tensor;
    pub use warpbook_nn::train::{Loss, Place, Precision, Prefetcher, Recipe, Trainer};
    pub use warpbook_nn::weights::Weights;
}

/// Names for a custom experiment: problems, rungs, candidates and the descriptor of its records.
pub mod experiment {
    pub use warpbook_data::philox::gaussian;
    pub use warpbook_device::Inventory;
    pub use warpbook_lab::{Candidate, Checked, Details, Plan, Prepared, Trials, on_cpu, on_gpu};
    pub use warpbook_record::{
        Baseline, ChartKind, Check, Column, Descriptor, Dim, Grid, KernelSpec, MemoryLevel, Part, PartGroup, Requires,
        Runner, Source, SweepAxis, SweepPoint, Traffic, count, setting,
    };
}

/// Names for profiles and hardware counters.
pub mod profile {
    pub use warpbook_lab::profile::{Cycle, HardwareCounters, Profile, Profiler, Work};
}

#[cfg(test)]
mod tests {
    /// Maximum number of names that the prelude imports into a notebook.
    const MOST: usize = 45;

    #[test]
    fn the_first_topic_is_small() {
        let text = include_str!("prelude.rs");
        let first = text.split("pub mod nn").next().unwrap();
        let statements = first.split("pub use ").skip(1).map(|s| s.split(';').next().unwrap());
        let is_name = |part: &&str| !part.trim().is_empty() && !part.contains("::");
        let count = |statement: &str| statement.split(['{', ',', '}']).filter(is_name).count().max(1);
        let names: usize = statements.map(count).sum();
        assert!((30..=MOST).contains(&names), "{names} names");
    }
}
