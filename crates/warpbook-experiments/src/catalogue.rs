use crate::{Convolutions, Guide, Matmul, Regression, TensorParallel, Training, TrainingLoop};
use warpbook_lab::Experiment;
use warpbook_lab::settings::Entry;

/// Returns the experiments that the command line and the lab know, in their order.
#[must_use]
pub fn experiments() -> Vec<Entry> {
    vec![
        Entry::of::<Regression>(),
        Entry::of::<Matmul>(),
        Entry::of::<Convolutions>(),
        Entry::of::<Training>(),
        Entry::of::<TrainingLoop>(),
        Entry::of::<TensorParallel>(),
        Entry::of::<Guide>(),
    ]
}

/// Returns a small experiment that shows within seconds whether a device, its compiler and the checks work.
#[must_use]
pub fn trial() -> Box<dyn Experiment> {
    Box::new(Regression::new().points([10_000]).epochs(20).parts(false))
}
