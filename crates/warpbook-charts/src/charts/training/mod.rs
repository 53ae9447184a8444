//! Charts of trainings: losses, accuracies, learning rates and gradients.

pub(crate) mod accuracy;
pub(crate) mod course;
pub(crate) mod loss;
