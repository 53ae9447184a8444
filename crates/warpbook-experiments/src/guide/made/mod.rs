//! Halves of pairs that are more than one kernel on the pair's arrays: products, convolutions, networks and training
//! runs.

pub(super) mod convolution;
pub(super) mod expression;
pub(super) mod frozen;
pub(super) mod product;
pub(super) mod training;

use warpbook_lab::Error;
use warpbook_nn::train::TrainError;

/// Converts a training error to an error of the lab; device errors are passed through.
fn failure(error: TrainError) -> Error {
    match error {
        TrainError::Device(e) => e.into(),
        other => Error::Train(other),
    }
}

/// Converts an error in a timed region to a device error, since regions cannot return other errors.
fn in_region(error: TrainError) -> warpbook_device::Error {
    match error {
        TrainError::Device(e) => e,
        other => warpbook_device::Error::Unsupported { what: "This half".into(), why: other.to_string() },
    }
}
