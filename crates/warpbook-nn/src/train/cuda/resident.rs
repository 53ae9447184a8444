//! Memory of a training's samples.

use crate::train::Samples;
use std::sync::Arc;
use warpbook_data::{Dataset, Rows};
use warpbook_device::{CudaDevice, Slice};

/// Samples in device memory, and the host's arrays, whose addresses identify them.
#[derive(Debug)]
pub(super) enum Resident {
    /// Images; `set` is `None` if the device memory is overwritten with other batches.
    Images {
        set: Option<Dataset>,
        images: Slice<u8>,
        labels: Slice<u8>,
    },
    Rows {
        rows: Rows,
        inputs: Slice<f32>,
        targets: Slice<f32>,
    },
}

impl Resident {
    pub fn new(device: &CudaDevice, samples: Samples<'_>) -> warpbook_device::Result<Self> {
        Ok(match samples {
            Samples::Images(set) => {
                let (images, labels) = (device.buffer_from(set.images())?, device.buffer_from(set.labels())?);
                Self::Images { set: Some(set.clone()), images: images.range(..), labels: labels.range(..) }
            }
            Samples::Rows(rows) => {
                let (inputs, targets) = (device.buffer_from(rows.inputs())?, device.buffer_from(rows.targets())?);
                Self::Rows { rows: rows.clone(), inputs: inputs.range(..), targets: targets.range(..) }
            }
        })
    }

    pub fn holds(&self, samples: Samples<'_>) -> bool {
        match (self, samples) {
            (Self::Images { set: Some(own), .. }, Samples::Images(set)) => {
                Arc::ptr_eq(own.images(), set.images()) && Arc::ptr_eq(own.labels(), set.labels())
            }
            (Self::Rows { rows: own, .. }, Samples::Rows(rows)) => {
                std::ptr::eq(own.inputs(), rows.inputs()) && std::ptr::eq(own.targets(), rows.targets())
            }
            _ => false,
        }
    }
}

/// The source of the samples of batches.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// The data set with this index in device memory.
    Resident(usize),
    /// Host memory; batches are copied one by one.
    Host(Dataset),
}
