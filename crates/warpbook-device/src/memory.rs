//! Device memory that is freed with its last owner, and counters of how much of it there is.

use crate::capture::relaxed;
use crate::cuda::Inner;
use crate::{CudaDevice, Result};
use cudarc::driver::result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Alignment of every allocation, as CUDA guarantees it, and of every slice of an arena; in bytes.
pub(crate) const ALIGNMENT: usize = 256;

/// Bytes allocated on a device, now and at most.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    now: AtomicU64,
    peak: AtomicU64,
}

impl Counters {
    fn add(&self, bytes: u64) {
        let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(now, Ordering::Relaxed);
    }

    fn subtract(&self, bytes: u64) {
        self.now.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn reset_peak(&self) {
        self.peak.store(self.now.load(Ordering::Relaxed), Ordering::Relaxed);
        // An allocation on another thread between the two lines above would be lost otherwise.
        self.peak.fetch_max(self.now.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl CudaDevice {
    /// Bytes that buffers and arenas of this device (and its clones) hold now, as they were asked for.
    #[must_use]
    pub fn allocated(&self) -> u64 {
        self.0.memory.now.load(Ordering::Relaxed)
    }

    /// The largest value of [`CudaDevice::allocated`] since the device was opened or [`CudaDevice::reset_peak`] was called.
    #[must_use]
    pub fn peak_allocated(&self) -> u64 {
        self.0.memory.peak.load(Ordering::Relaxed)
    }

    /// Lets the peak start again from what is allocated now.
    pub fn reset_peak(&self) {
        self.0.memory.reset_peak();
    }
}

/// One allocation, shared by the slices of it.
pub(crate) struct Allocation {
    pub(crate) device: Arc<Inner>,
    pub(crate) address: u64,
    bytes: usize,
    /// Whether it is freed, and counted.
    owned: bool,
}

impl Allocation {
    /// Memory that another library has allocated and frees.
    pub(crate) fn borrowed(device: &CudaDevice, address: u64, bytes: usize) -> Arc<Self> {
        Arc::new(Self { device: device.0.clone(), address, bytes, owned: false })
    }

    /// Memory of zeros; `what` names it where it does not fit.
    pub(crate) fn zeros(device: &CudaDevice, bytes: usize, what: String) -> Result<Arc<Self>> {
        let memory = Self::uninitialised(device, bytes, what)?;
        memory.fill(memory.address, bytes, 0)?;
        Ok(memory)
    }

    /// Memory of whatever bytes were there.
    pub(crate) fn uninitialised(device: &CudaDevice, bytes: usize, what: String) -> Result<Arc<Self>> {
        device.ensure_free(what, bytes as u64)?;
        let inner = &device.0;
        // SAFETY: the context is current (`ensure_free` binds it); CUDA refuses zero bytes, so one is asked for at least.
        let address = unsafe { result::malloc_sync(bytes.max(1)) }.map_err(|e| inner.error("Allocating memory", e))?;
        inner.memory.add(bytes as u64);
        Ok(Arc::new(Self { device: inner.clone(), address, bytes, owned: true }))
    }

    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets every byte of a range of it, and waits for that.
    pub(crate) fn fill(&self, address: u64, bytes: usize, byte: u8) -> Result<()> {
        assert!(address >= self.address && address + bytes as u64 <= self.address + self.bytes as u64);
        self.device.bind()?;
        if bytes > 0 {
            // SAFETY: the range was checked to lie in this allocation.
            unsafe { result::memset_d8_async(address, byte, bytes, self.device.transfers) }
                .map_err(|e| self.device.error("Filling memory", e))?;
        }
        self.device.wait_for_transfers("Filling memory")
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.owned && self.device.may_free() {
            // SAFETY: the address came from `malloc_sync` and is not used again. Freeing waits for all work under way.
            let _ = relaxed(|| unsafe { result::free_sync(self.address) });
            self.device.memory.subtract(self.bytes as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_the_largest_sum_and_starts_again() {
        let counters = Counters::default();
        let check = |now, peak| {
            assert_eq!((counters.now.load(Ordering::Relaxed), counters.peak.load(Ordering::Relaxed)), (now, peak));
        };
        counters.add(100);
        counters.add(50);
        counters.subtract(100);
        check(50, 150);
        counters.add(60);
        check(110, 150);
        counters.reset_peak();
        check(110, 110);
        counters.subtract(110);
        check(0, 110);
    }
}
