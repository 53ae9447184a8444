use crate::{Convolutions, Guide, Matmul, Regression, TensorParallel, Training, TrainingLoop};
use warpbook_lab::Experiment;
use warpbook_lab::settings::Entry;

/// Returns the experiments that the command line and the lab offer, in display order.
#[must_use]
pub fn experiments() -> Vec<Entry> {
    vec![
        Entry::new::<Regression>(),
        Entry::new::<Matmul>(),
        Entry::new::<Convolutions>(),
        Entry::new::<Training>(),
        Entry::new::<TrainingLoop>(),
        Entry::new::<TensorParallel>(),
        Entry::new::<Guide>(),
    ]
}

/// Returns a small experiment that tests a device, its compiler and the checks within seconds.
#[must_use]
pub fn trial() -> Box<dyn Experiment> {
    Box::new(Regression::new().points([10_000]).epochs(20).parts(false))
}
