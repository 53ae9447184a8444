//! Arrays in device memory, each with its own allocation.

use crate::memory::allocation::Allocation;
use crate::{CudaDevice, Element, Result, Slice};
use std::ops::Deref;
use std::sync::Arc;

impl CudaDevice {
    /// Returns an array of zeros.
    ///
    /// # Errors
    /// Returns an error if the array does not fit into the free memory, which is checked before anything is allocated.
    pub fn zeros<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::zeros(self, len)
    }

    /// Returns an array on the device with these values.
    ///
    /// # Errors
    /// Returns an error if the array does not fit into the free memory.
    pub fn buffer_from<T: Element>(&self, values: &[T]) -> Result<Buffer<T>> {
        let buffer = self.zeros(values.len())?;
        buffer.write(values)?;
        Ok(buffer)
    }
}

/// An array in device memory with its own allocation. It is a [`Slice`] that covers the whole allocation, which lives until the
/// buffer and all of its slices have been dropped.
pub struct Buffer<T> {
    whole: Slice<T>,
}

impl<T> std::fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer<{}>[{}]", std::any::type_name::<T>(), self.len())
    }
}

impl<T: Element> Buffer<T> {
    pub(crate) fn zeros(device: &CudaDevice, len: usize) -> Result<Self> {
        let bytes = len.saturating_mul(size_of::<T>());
        let memory = Allocation::zeros(device, bytes, format!("An array of {len} {}", std::any::type_name::<T>()))?;
        Ok(Self::whole(memory, len))
    }

    /// Returns the buffer that covers a whole allocation.
    pub(crate) fn whole(memory: Arc<Allocation>, len: usize) -> Self {
        Self { whole: Slice::new(memory, 0, len) }
    }
}

impl<T> Deref for Buffer<T> {
    type Target = Slice<T>;

    fn deref(&self) -> &Slice<T> {
        &self.whole
    }
}
