//! Batches of a data set that is not in device memory: the CPU gathers and copies a batch while the GPU trains on the previous one.

use super::Resident;
use crate::train::TrainError;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use warpbook_data::Dataset;
use warpbook_device::{CudaDevice, Event, Pinned, Slice, Stream};

/// Decides whether a data set is kept in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Residency {
    /// The data set is kept if it takes at most half of the free memory.
    #[default]
    Auto,
    /// The data set is always kept.
    On,
    /// The data set is never kept; its batches are copied one by one.
    Off,
}

/// The settings that decide how batches reach the GPU. They change neither the order of the samples nor the losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loader {
    /// Decides whether the data set is kept in device memory; the other fields matter only if it is not.
    pub resident: Residency,
    /// Number of threads that gather a batch; 0 to use the training thread.
    pub workers: usize,
    /// True if batches are gathered in page-locked memory, so that the CPU and the GPU continue during the copy.
    pub pinned: bool,
}

impl Default for Loader {
    fn default() -> Self {
        Self { resident: Residency::Auto, workers: 2, pinned: true }
    }
}

impl Loader {
    /// Returns true if a data set is kept on the device.
    pub(super) fn keeps(&self, device: &CudaDevice, set: &Dataset) -> Result<bool, TrainError> {
        Ok(match self.resident {
            Residency::On => true,
            Residency::Off => false,
            Residency::Auto => (set.images().len() + set.labels().len()) as u64 <= device.memory()?.0 / 2,
        })
    }
}

/// Number of batches in transit at the same time.
pub(in crate::train) const IN_FLIGHT: usize = 3;

/// Memory for several batches on host and device, and a stream for their copies.
#[derive(Debug)]
pub(super) struct Staging {
    copies: Stream,
    slots: Vec<Slot>,
    workers: Option<rayon::ThreadPool>,
    next: usize,
}

/// Memory for a batch on host and device.
#[derive(Debug)]
pub(in crate::train) struct Slot {
    images: Slice<u8>,
    labels: Slice<u8>,
    host: Host,
    copied: Event,
    consumed: Event,
}

#[derive(Debug)]
enum Host {
    Pinned([Pinned<u8>; 2]),
    Pageable([Vec<u8>; 2]),
}

impl Slot {
    /// Allocates memory for at most `batch` images of `len` bytes.
    ///
    /// # Errors
    /// If memory runs out or cannot be page-locked, or if the driver reports an error.
    pub fn new(device: &CudaDevice, pinned: bool, batch: usize, len: usize) -> Result<Self, TrainError> {
        let sizes = [batch * len, batch];
        let host = if pinned {
            Host::Pinned([device.pinned(sizes[0])?, device.pinned(sizes[1])?])
        } else {
            Host::Pageable(sizes.map(|n| vec![0; n]))
        };
        let (images, labels) = (device.zeros(sizes[0])?.range(..), device.zeros(sizes[1])?.range(..));
        let [copied, consumed] = [device.event()?, device.event()?];
        Ok(Self { images, labels, host, copied, consumed })
    }

    /// Gathers a batch, and queues its copy on the stream `copies` behind all uses of the previous batch.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn load(
        &mut self,
        copies: &Stream,
        workers: Option<&rayon::ThreadPool>,
        set: &Dataset,
        indices: &[u32],
    ) -> Result<(), TrainError> {
        let (n, len) = (indices.len(), set.pixels());
        let (images, labels) = (self.images.range(..n * len), self.labels.range(..n));
        match &mut self.host {
            Host::Pinned([host_images, host_labels]) => {
                let (host_images, host_labels) = (host_images.range(..n * len), host_labels.range(..n));
                gather(set, indices, workers, &mut host_images.write()?, &mut host_labels.write()?);
                copies.wait(&self.consumed)?;
                copies.copy_to_device(&host_images, &images)?;
                copies.copy_to_device(&host_labels, &labels)?;
                self.copied.record(copies)?;
            }
            Host::Pageable([host_images, host_labels]) => {
                gather(set, indices, workers, &mut host_images[..n * len], &mut host_labels[..n]);
                self.consumed.synchronize()?;
                images.write(&host_images[..n * len])?;
                labels.write(&host_labels[..n])?;
            }
        }
        Ok(())
    }

    /// Makes `stream` wait for the batch's copy from now on.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn ready(&self, stream: &Stream) -> Result<(), TrainError> {
        if matches!(self.host, Host::Pinned(_)) {
            stream.wait(&self.copied)?;
        }
        Ok(())
    }

    /// Records that all uses of the batch have been queued on `stream`.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn consumed(&self, stream: &Stream) -> Result<(), TrainError> {
        Ok(self.consumed.record(stream)?)
    }

    /// Returns the first `n` images and labels on the device.
    pub fn on_device(&self, n: usize, len: usize) -> [Slice<u8>; 2] {
        [self.images.range(..n * len), self.labels.range(..n)]
    }
}

/// Starts the threads that help the calling thread to gather, if there are any.
pub(in crate::train) fn workers(loader: &Loader) -> Result<Option<rayon::ThreadPool>, TrainError> {
    let pool = || {
        let built = rayon::ThreadPoolBuilder::new().num_threads(loader.workers).build();
        built.map_err(|e| TrainError::Setting(format!("{} workers cannot be started: {e}", loader.workers)))
    };
    (loader.workers > 0).then(pool).transpose()
}

impl Staging {
    /// Allocates memory for batches of at most `batch` images of `len` bytes.
    ///
    /// # Errors
    /// If memory runs out or cannot be page-locked, if no thread can be started, or if the driver reports an error.
    pub fn new(device: &CudaDevice, loader: &Loader, batch: usize, len: usize) -> Result<Self, TrainError> {
        let slots = (0..IN_FLIGHT).map(|_| Slot::new(device, loader.pinned, batch, len));
        Ok(Self {
            copies: device.stream()?,
            slots: slots.collect::<Result<_, _>>()?,
            workers: workers(loader)?,
            next: 0,
        })
    }

    /// Returns the slots, each as a data set of one batch.
    pub fn sets(&self) -> Vec<Resident> {
        let as_data_set = |s: &Slot| Resident::Images { set: None, images: s.images.clone(), labels: s.labels.clone() };
        self.slots.iter().map(as_data_set).collect()
    }

    /// Gathers a batch, queues its copy, and makes `stream` wait for it from now on. Returns its slot, which [`Staging::consumed`]
    /// releases.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn load(&mut self, stream: &Stream, set: &Dataset, indices: &[u32]) -> Result<usize, TrainError> {
        let at = self.next;
        self.next = (at + 1) % IN_FLIGHT;
        self.slots[at].load(&self.copies, self.workers.as_ref(), set, indices)?;
        self.slots[at].ready(stream)?;
        Ok(at)
    }

    /// Records that all uses of a slot have been queued on `stream`.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn consumed(&self, slot: usize, stream: &Stream) -> Result<(), TrainError> {
        self.slots[slot].consumed(stream)
    }
}

/// Copies the samples with these indices, `[batch]`, to `images` `[batch][len]` and `labels` `[batch]`.
pub(in crate::train) fn gather(
    set: &Dataset,
    indices: &[u32],
    workers: Option<&rayon::ThreadPool>,
    images: &mut [u8],
    labels: &mut [u8],
) {
    labels.iter_mut().zip(indices).for_each(|(label, i)| *label = set.labels()[*i as usize]);
    let len = images.len() / indices.len().max(1);
    let copy = |(to, i): (&mut [u8], &u32)| to.copy_from_slice(&set.images()[*i as usize * len..][..len]);
    match workers {
        Some(pool) => pool.install(|| images.par_chunks_mut(len).zip(indices).for_each(copy)),
        None => images.chunks_mut(len).zip(indices).for_each(copy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_data::synthetic_digits;

    #[test]
    fn workers_gather_what_one_thread_gathers() {
        let set = synthetic_digits(50, 10, 1).train;
        let indices = [7, 3, 49, 7, 0];
        let gathered_by = |workers: usize| {
            let pool = (workers > 0).then(|| rayon::ThreadPoolBuilder::new().num_threads(workers).build().unwrap());
            let (mut images, mut labels) = (vec![0; 5 * 784], vec![0; 5]);
            gather(&set, &indices, pool.as_ref(), &mut images, &mut labels);
            (images, labels)
        };
        let (images, labels) = gathered_by(0);
        assert_eq!(images[2 * 784..3 * 784], set.images()[49 * 784..]);
        assert_eq!((images[..784] == images[3 * 784..4 * 784], labels[1]), (true, set.labels()[3]));
        assert!(gathered_by(3) == (images, labels));
    }
}
