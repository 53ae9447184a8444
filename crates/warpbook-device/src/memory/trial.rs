//! Temporary memory for running a library's kernel once in advance.
//!
//! A library loads a kernel only when it is first launched, and rejects some suggested kernels only then. A plan is therefore run once on
//! temporary arrays when it is created, so that a graph may capture it afterwards.

use crate::cuda::context::{Inner, relaxed};
use cudarc::driver::result;
use std::sync::Arc;

/// Temporary arrays that are freed when this value is dropped. They are gone before the plan is used, so they are not counted.
pub(crate) struct Trial {
    device: Arc<Inner>,
    arrays: Vec<u64>,
}

impl Trial {
    /// Allocates arrays of these sizes with undefined contents; returns `None` if they do not fit into the free memory. The context must be
    /// current.
    pub fn new<const N: usize>(device: &Arc<Inner>, bytes: [usize; N]) -> Option<(Self, [u64; N])> {
        let mut trial = Self { device: device.clone(), arrays: Vec::new() };
        for bytes in bytes {
            // SAFETY: the context is current. At least one byte is requested, because CUDA refuses to allocate zero bytes.
            let address = relaxed(|| unsafe { result::malloc_sync(bytes.max(1)) }).ok()?;
            trial.arrays.push(address);
        }
        let arrays = <[u64; N]>::try_from(&*trial.arrays).ok()?;
        Some((trial, arrays))
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        if self.device.may_free() {
            for address in &self.arrays {
                // SAFETY: `malloc_sync` returned the address, which is not used again. Freeing the memory waits for all running work.
                let _ = relaxed(|| unsafe { result::free_sync(*address) });
            }
        }
    }
}
