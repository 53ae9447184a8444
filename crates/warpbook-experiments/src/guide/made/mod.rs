//! Halves that are more than a kernel on the pair's arrays: products, convolutions, networks and trainings.

pub(super) mod convolution;
pub(super) mod expression;
pub(super) mod frozen;
pub(super) mod product;
pub(super) mod training;

use warpbook_lab::Error;
use warpbook_nn::train::TrainError;

/// Turns an error of a training into one of the lab's; errors of the device stay what they are.
fn failure(error: TrainError) -> Error {
    match error {
        TrainError::Device(e) => e.into(),
        other => Error::Train(other),
    }
}

/// Turns an error inside a timed region into one of the device, as the region knows no others.
fn in_region(error: TrainError) -> warpbook_device::Error {
    match error {
        TrainError::Device(e) => e,
        other => warpbook_device::Error::Unsupported { what: "This half".into(), why: other.to_string() },
    }
}
