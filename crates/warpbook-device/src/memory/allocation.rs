//! Device memory that is freed when its last owner is dropped.

use crate::cuda::context::{Inner, relaxed};
use crate::{CudaDevice, MemoryWatch, Result};
use cudarc::driver::result;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Alignment in bytes of every allocation, as guaranteed by CUDA, and of every slice of an arena.
pub(crate) const ALIGNMENT: usize = 256;

impl CudaDevice {
    /// Returns the number of bytes currently allocated for buffers and arenas of this device (and its clones), as requested.
    #[must_use]
    pub fn allocated(&self) -> u64 {
        self.0.memory.now.load(Ordering::Relaxed)
    }

    /// Returns the peak of [`CudaDevice::allocated`] since the device was opened or [`CudaDevice::reset_peak`] was last called.
    #[must_use]
    pub fn peak_allocated(&self) -> u64 {
        self.0.memory.peak.load(Ordering::Relaxed)
    }

    /// Resets the peak to the number of bytes allocated now.
    pub fn reset_peak(&self) {
        self.0.memory.reset_peak();
    }

    /// Runs `work` without counting its temporary allocations in [`CudaDevice::peak_allocated`]. Memory that is still allocated
    /// afterwards counts; memory that other threads allocate and free meanwhile does not.
    pub fn keeping_peak<R>(&self, work: impl FnOnce() -> R) -> R {
        let peak = self.peak_allocated();
        let result = work();
        self.0.memory.restore_peak(peak);
        result
    }

    /// Records every allocation and release of this device's arrays, including those in pools, until the watch is dropped. The first point is the
    /// current state.
    #[must_use]
    pub fn watch_memory(&self) -> MemoryWatch {
        self.0.memory.watch()
    }
}

/// One allocation, shared by all of its slices.
pub(crate) struct Allocation {
    pub(crate) device: Arc<Inner>,
    pub(crate) address: u64,
    bytes: usize,
    owner: Owner,
}

/// The owner of an allocation's memory, which decides how the memory is freed.
enum Owner {
    /// Another library owns and frees the memory, which is not counted.
    Other,
    /// The driver, or the emulator, allocated the memory.
    Driver,
    /// A library allocated the memory, and this function frees it, given its address.
    Library(Box<dyn Fn(u64) + Send + Sync>),
}

impl Allocation {
    /// Wraps memory that another library has allocated and will free.
    pub(crate) fn borrowed(device: &CudaDevice, address: u64, bytes: usize) -> Arc<Self> {
        Arc::new(Self { device: device.0.clone(), address, bytes, owner: Owner::Other })
    }

    /// Wraps zeroed memory that a library has allocated and that the given function frees.
    pub(crate) fn zeros_of_library(
        device: &CudaDevice,
        address: u64,
        bytes: usize,
        free: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<Arc<Self>> {
        let memory = Arc::new(Self { device: device.0.clone(), address, bytes, owner: Owner::Library(Box::new(free)) });
        device.0.memory.add(bytes as u64);
        memory.fill(memory.address, bytes, 0)?;
        Ok(memory)
    }

    /// Allocates zeroed memory. If there is not enough, the error names `what`.
    pub(crate) fn zeros(device: &CudaDevice, bytes: usize, what: String) -> Result<Arc<Self>> {
        let memory = Self::uninitialised(device, bytes, what)?;
        memory.fill(memory.address, bytes, 0)?;
        Ok(memory)
    }

    /// Allocates memory with undefined contents.
    pub(crate) fn uninitialised(device: &CudaDevice, bytes: usize, what: String) -> Result<Arc<Self>> {
        device.ensure_free(what, bytes as u64)?;
        let inner = &device.0;
        if let Some(emulator) = inner.emulator() {
            let address = emulator.allocate(bytes)?;
            inner.memory.add(bytes as u64);
            return Ok(Arc::new(Self { device: inner.clone(), address, bytes, owner: Owner::Driver }));
        }
        // SAFETY: `ensure_free` has made the context current. At least one byte is requested, because CUDA refuses to allocate zero bytes.
        let address = unsafe { result::malloc_sync(bytes.max(1)) }.map_err(|e| inner.error("Allocating memory", e))?;
        inner.memory.add(bytes as u64);
        Ok(Arc::new(Self { device: inner.clone(), address, bytes, owner: Owner::Driver }))
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets every byte of a range to `byte`, and waits until that is done.
    pub(crate) fn fill(&self, address: u64, bytes: usize, byte: u8) -> Result<()> {
        assert!(address >= self.address && address + bytes as u64 <= self.address + self.bytes as u64);
        if let Some(emulator) = self.device.emulator() {
            return emulator.write(address, &vec![byte; bytes]);
        }
        self.device.bind()?;
        if bytes > 0 {
            // SAFETY: the assertion above has checked that the range lies in this allocation.
            unsafe { result::memset_d8_async(address, byte, bytes, self.device.transfers) }
                .map_err(|e| self.device.error("Filling memory", e))?;
        }
        self.device.wait_for_transfers("Filling memory")
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let (Owner::Driver, Some(emulator)) = (&self.owner, self.device.emulator()) {
            emulator.free(self.address);
            self.device.memory.subtract(self.bytes as u64);
            return;
        }
        if matches!(self.owner, Owner::Other) || !self.device.may_free() {
            return;
        }
        relaxed(|| match &self.owner {
            Owner::Other => {}
            Owner::Driver => {
                // SAFETY: `malloc_sync` returned the address, which is not used again. Freeing the memory waits for all running work.
                let _ = unsafe { result::free_sync(self.address) };
            }
            Owner::Library(free) => free(self.address),
        });
        self.device.memory.subtract(self.bytes as u64);
    }
}
