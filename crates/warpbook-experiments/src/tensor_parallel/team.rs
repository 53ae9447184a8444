//! The GPUs that take part in a run.

use std::sync::{Arc, OnceLock};
use std::time::Duration;
use warpbook_device::{Communicator, CudaDevice, Inventory};
use warpbook_lab::{Error, Result};

/// Time limit for NCCL to create its communicators.
const LIMIT: Duration = Duration::from_secs(120);

/// The GPUs of a run, starting with the lab's GPU, and NCCL's communicators.
#[derive(Debug)]
pub(super) struct Team {
    pub devices: Vec<CudaDevice>,
    /// Communicators of NCCL, created on first use.
    nccl: OnceLock<warpbook_device::Result<Arc<Vec<Communicator>>>>,
    /// Measured bandwidth of the link in bytes per second; empty until it is measured.
    link: OnceLock<f64>,
}

impl Team {
    /// Opens the lab's device and the devices that follow it, `count` in total.
    ///
    /// # Errors
    /// If there is no driver, there are fewer devices than `count`, or one of them cannot be opened.
    pub fn open(first: &CudaDevice, count: Option<u64>) -> Result<Self> {
        let there: Vec<u32> = Inventory::cuda_devices()?.iter().map(|d| d.index).collect();
        if let Some(asked) = count.filter(|n| *n > there.len() as u64) {
            let have = if there.len() == 1 { "one GPU".to_owned() } else { format!("{} GPUs", there.len()) };
            return Err(Error::Setting(format!(
                "--gpus {asked}: this machine has {have}. Name no more, or leave it out."
            )));
        }
        let count = count.map_or(there.len(), |n| usize::try_from(n).unwrap_or(usize::MAX));
        let mut devices = vec![first.clone()];
        for index in there.into_iter().filter(|i| *i != first.info().index).take(count.saturating_sub(1)) {
            devices.push(CudaDevice::open(index)?);
        }
        Ok(Self { devices, nccl: OnceLock::new(), link: OnceLock::new() })
    }

    /// Returns true if this device is the first of the team.
    pub fn is_of(&self, first: &CudaDevice) -> bool {
        self.devices.first().is_some_and(|d| d.is_same(first))
    }

    /// Returns NCCL's communicators, which the first call creates.
    ///
    /// # Errors
    /// If NCCL is not found or reports an error, or if creating them takes too long.
    pub fn nccl(&self) -> warpbook_device::Result<Arc<Vec<Communicator>>> {
        self.nccl.get_or_init(|| Communicator::all(&self.devices, LIMIT).map(Arc::new)).clone()
    }

    pub fn keep_link_rate(&self, bytes_per_s: f64) {
        let _ = self.link.set(bytes_per_s);
    }

    pub fn link_rate(&self) -> Option<f64> {
        self.link.get().copied()
    }
}
