//! Halves that are more than a kernel on the pair's arrays: products, convolutions, networks and trainings.

pub(super) mod convolution;
pub(super) mod expression;
pub(super) mod frozen;
pub(super) mod product;
pub(super) mod training;

use warpbook_lab::Error;
use warpbook_nn::train::TrainError;

/// Converts a training's error to one of the lab; errors of the device stay what they are.
fn failure(error: TrainError) -> Error {
    match error {
        TrainError::Device(e) => e.into(),
        other => Error::Train(other),
    }
}

/// Converts an error in a timed region to one of the device, since regions have no other errors.
fn in_region(error: TrainError) -> warpbook_device::Error {
    match error {
        TrainError::Device(e) => e,
        other => warpbook_device::Error::Unsupported { what: "This half".into(), why: other.to_string() },
    }
}
