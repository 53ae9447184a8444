//! Failures that end the program early, each with an exit code and a sentence that says what to do.

use warpbook::nn::train::TrainError;
use warpbook::{device, ranks};

/// Exit code if a rung failed.
pub const RUNG_FAILED: u8 = 1;
/// Exit code for wrong usage or settings, an output that cannot be written, or an input that cannot be read.
pub const USAGE: u8 = 2;
/// Exit code if the device cannot be used.
pub const DEVICE: u8 = 3;
/// Exit code if another rank of the training failed, died or hangs.
pub const OTHER_RANK: u8 = 4;
/// Exit code after Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// An exit code with the reason for it.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    pub sentence: String,
}

impl Failure {
    pub fn usage(sentence: impl Into<String>) -> Self {
        Self { code: USAGE, sentence: sentence.into() }
    }

    pub fn device(sentence: impl Into<String>) -> Self {
        Self { code: DEVICE, sentence: sentence.into() }
    }
}

impl From<warpbook::Error> for Failure {
    fn from(error: warpbook::Error) -> Self {
        match error {
            warpbook::Error::Train(error) => error.into(),
            warpbook::Error::Device(e) => e.into(),
            warpbook::Error::WrongProduct(_) => Self { code: RUNG_FAILED, sentence: error.to_string() },
            _ => Self::usage(error.to_string()),
        }
    }
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Self {
        match error {
            TrainError::NotFinite(sentence) => Self { code: RUNG_FAILED, sentence },
            TrainError::Ranks(error) => error.into(),
            TrainError::Device(error) => error.into(),
            error => Self::usage(error.to_string()),
        }
    }
}

impl From<ranks::Error> for Failure {
    fn from(error: ranks::Error) -> Self {
        match &error {
            ranks::Error::Lost(_) => Self { code: OTHER_RANK, sentence: error.to_string() },
            _ => Self::usage(error.to_string()),
        }
    }
}

impl From<device::Error> for Failure {
    fn from(error: device::Error) -> Self {
        match &error {
            // A different size or a different word would work, so this is a usage error.
            device::Error::OutOfMemory { .. } | device::Error::BadChoice(_) => Self::usage(error.to_string()),
            device::Error::Cancelled => Self { code: INTERRUPTED, sentence: error.to_string() },
            _ => Self::device(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_tell_settings_from_devices() {
        let check = |e: warpbook::Error, expect| assert_eq!(Failure::from(e).code, expect);
        check(warpbook::Error::Setting("s".into()), USAGE);
        assert_eq!(i32::from(OTHER_RANK), ranks::ENDED_BY_ANOTHER, "which the launcher knows");
        check(TrainError::NotFinite("The loss of step 3".into()).into(), RUNG_FAILED);
        check(TrainError::Device(device::Error::NoDriver).into(), DEVICE);
        check(TrainError::Ranks(ranks::Error::Lost("Rank 1 died".into())).into(), OTHER_RANK);
        check(device::Error::NoDriver.into(), DEVICE);
        check(device::Error::BadChoice("tpu".into()).into(), USAGE);
        check(device::Error::OutOfMemory { what: "x".into(), needed: 2, free: 1, total: 1 }.into(), USAGE);
        check(device::Error::Cancelled.into(), INTERRUPTED);
    }
}
