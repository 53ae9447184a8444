//! NCCL's symmetric windows: memory that is mapped on the GPUs of all ranks. A reduction of arrays in a window reads the other ranks' values in place instead
//! of copying them through NCCL's own buffers, which takes fewer blocks and less time.

use super::communicator::Communicator;
use super::handle::{NcclHandle, Window, check, in_time};
use super::library::{SYMMETRIC, WindowCalls};
use crate::cuda::context::relaxed;
use crate::memory::allocation::Allocation;
use crate::{Buffer, CudaDevice, Element, Result};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

impl Communicator {
    /// Returns an array of zeros in a window, for [`Communicator::all_reduce`] with [`crate::NcclReduce::Sum`]; other reductions do not use the window. All
    /// ranks must call this function at the same time, with the same length. The result is an ordinary array if NCCL does not support windows (before 2.27) or
    /// the GPUs cannot map each other's memory.
    ///
    /// # Errors
    /// NCCL's errors. Also returns an error if there is not enough memory, or the other ranks take longer than the limit.
    pub fn zeros<T: Element>(&self, len: usize, limit: Duration) -> Result<Buffer<T>> {
        let device = CudaDevice(self.device.clone());
        let bytes = len.saturating_mul(size_of::<T>());
        let Some(calls) = self.nccl.windows.filter(|_| bytes > 0) else { return Buffer::zeros(&device, len) };
        device.ensure_free(format!("An array of {len} {}", std::any::type_name::<T>()), bytes as u64)?;
        self.ensure_live()?;
        let mut address = std::ptr::null_mut();
        // SAFETY: `ensure_free` has made the context current, and `address` is live.
        let status = relaxed(|| unsafe { (calls.allocate)(&raw mut address, bytes) });
        check(&self.nccl, self.handle.0, "memory", status)?;
        let nccl = self.nccl.clone();
        let memory = Allocation::zeros_of_library(&device, address as u64, bytes, move |address| {
            // SAFETY: `ncclMemAlloc` returned the address, which is not used again. The closure keeps the library loaded.
            let _ = nccl.windows.map(|calls| unsafe { (calls.free)(address as *mut _) });
        })?;
        let handle = self.register(calls, &memory, limit)?;
        let window = handle.map(|handle| Window { handle, _memory: memory.clone() });
        self.windows.lock().unwrap_or_else(PoisonError::into_inner).extend(window);
        Ok(Buffer::whole(memory, len))
    }

    /// Registers an allocation with all ranks; `None` if NCCL does not create a window for it.
    fn register(&self, calls: WindowCalls, memory: &Arc<Allocation>, limit: Duration) -> Result<Option<NcclHandle>> {
        let (nccl, memory, communicator) = (self.nccl.clone(), memory.clone(), NcclHandle(self.handle.0));
        in_time(&self.device, "the other ranks' windows", limit, move || {
            // Moves the whole struct into the closure, because its raw pointer alone cannot be sent to another thread.
            let communicator = communicator;
            let mut window = std::ptr::null_mut();
            // SAFETY: the communicator is live. The memory is live, too, and NCCL has allocated at least this many bytes. `window` is live.
            let status = relaxed(|| unsafe {
                let (address, bytes) = (memory.address as *mut _, memory.bytes());
                (calls.register)(communicator.0, address, bytes, &raw mut window, SYMMETRIC)
            });
            check(&nccl, communicator.0, "a window", status)?;
            Ok((!window.is_null()).then_some(NcclHandle(window)))
        })
    }

    /// Deregisters all windows. Called before the communicator ends.
    pub(super) fn unregister_all(&mut self) {
        let Some(calls) = self.nccl.windows else { return };
        for window in self.windows.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // SAFETY: the window was created with this communicator, which is live, and is not used again.
            let _ = relaxed(|| unsafe { (calls.deregister)(self.handle.0, window.handle.0) });
        }
    }

    /// Returns the number of windows that NCCL has created for this communicator.
    #[must_use]
    pub fn windows(&self) -> usize {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Library, NcclId, NcclReduce, Slice};
    use warpbook_record::Dtype;

    /// Each rank is a thread with its own GPU. The test checks sums of windows, queued and captured, and the number of windows that are left.
    #[test]
    fn windows_are_reduced_to_the_sums_of_all_ranks() {
        let name = "windows_are_reduced_to_the_sums_of_all_ranks";
        let _one = crate::testing::one_at_a_time();
        let Some(devices) = crate::testing::two_gpus(name) else { return };
        let id = match NcclId::new(&devices[0]) {
            Ok(id) => id,
            Err(why) if why.is_missing(Library::Nccl) => return crate::testing::skip(name, "needs NCCL", why),
            Err(why) => panic!("{why}"),
        };
        let limit = Duration::from_secs(120);
        let before = devices.each_ref().map(CudaDevice::allocated);
        let of_rank = |rank: usize, device: &CudaDevice| {
            let ranks = Arc::new(Communicator::new(device, id, (rank, 2), limit).unwrap());
            let n = 300_007;
            let array = ranks.zeros::<f32>(n, limit).unwrap();
            assert!(array.to_vec().unwrap().iter().all(|v| *v == 0.0));
            assert!(ranks.zeros::<f32>(0, limit).unwrap().is_empty(), "nothing is registered of an empty array");
            assert_eq!(ranks.windows(), usize::from(ranks.version() >= 22_700));
            let values = |rank: usize| (0..n).map(|i| (i % 97) as f32 - 1000.0 * rank as f32).collect::<Vec<f32>>();
            let sums: Vec<f32> = values(0).iter().zip(values(1)).map(|(a, b)| a + b).collect();
            array.range(..).write(&values(rank)).unwrap();
            let (stream, bytes): (_, Slice<u8>) = (device.urgent_stream().unwrap(), array.range(..).cast());
            ranks.all_reduce(&stream, &bytes, Dtype::F32, NcclReduce::Sum).unwrap();
            stream.synchronize().unwrap();
            assert!(array.to_vec().unwrap() == sums);
            array.range(..).write(&values(rank)).unwrap();
            let graph = stream
                .capture_owning("a reduction", (ranks.clone(), bytes), |(ranks, bytes)| {
                    ranks.all_reduce(&stream, bytes, Dtype::F32, NcclReduce::Sum)
                })
                .unwrap();
            graph.launch(&stream).unwrap();
            stream.synchronize().unwrap();
            assert!(array.to_vec().unwrap() == sums);
        };
        std::thread::scope(|scope| {
            for (rank, device) in devices.iter().enumerate() {
                scope.spawn(move || of_rank(rank, device));
            }
        });
        assert_eq!(devices.each_ref().map(CudaDevice::allocated), before);
    }
}
