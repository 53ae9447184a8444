//! Slices: typed ranges of device memory.

use crate::memory::allocation::Allocation;
use crate::memory::element::{bytes_of, bytes_of_mut, parts_of_arrays};
use crate::{DevicePtr, Element, Result};
use cudarc::driver::result;
use std::marker::PhantomData;
use std::sync::Arc;

/// A range of device memory as an array: all of a [`Buffer`](crate::Buffer), a slice of an [`Arena`](crate::Arena), or a part of
/// either. Slices share the allocation, which is freed with the last of them. A clone refers to the same range.
///
/// Kernels receive a slice as a pointer to its first element. Slices may overlap: streams and events order accesses to them, not
/// this type.
pub struct Slice<T> {
    memory: Arc<Allocation>,
    pub(crate) address: u64,
    len: usize,
    element: PhantomData<fn() -> T>,
}

impl<T> Clone for Slice<T> {
    fn clone(&self) -> Self {
        Self { memory: self.memory.clone(), ..*self }
    }
}

impl<T> std::fmt::Debug for Slice<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Slice<{}>[{}]", std::any::type_name::<T>(), self.len)
    }
}

impl<T> Slice<T> {
    /// Returns a slice of `len` elements that begins at a byte offset in an allocation.
    ///
    /// # Panics
    /// Panics if the elements extend past the allocation, or the offset is not a multiple of T's alignment.
    pub(crate) fn new(memory: Arc<Allocation>, offset: usize, len: usize) -> Self {
        let end = len.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(offset));
        assert!(end.is_some_and(|end| end <= memory.bytes()), "the slice lies in its allocation");
        let address = memory.address + offset as u64;
        assert!(address.is_multiple_of(align_of::<T>() as u64), "the slice is aligned for its elements");
        Self { memory, address, len, element: PhantomData }
    }

    /// Returns the part with `len` elements that begins at index `start`.
    fn part(&self, start: usize, len: usize) -> Self {
        Self { memory: self.memory.clone(), address: self.at(start).0, len, element: PhantomData }
    }

    pub(crate) fn memory(&self) -> &Arc<Allocation> {
        &self.memory
    }

    /// Returns the index of the device whose memory this is, such as 0 for cuda:0.
    #[must_use]
    pub fn device_index(&self) -> u32 {
        self.memory.device.info.index
    }

    /// Returns the size of the slice in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// Returns the address of element `index`, to be passed to a kernel.
    ///
    /// # Panics
    /// Panics if `index` is past the end.
    #[must_use]
    pub fn at(&self, index: usize) -> DevicePtr {
        assert!(index <= self.len, "element {index} of {}", self.len);
        DevicePtr(self.address + (index * size_of::<T>()) as u64)
    }

    /// Returns true if the two slices have at least one byte in common.
    #[must_use]
    pub fn overlaps<U>(&self, other: &Slice<U>) -> bool {
        let end = |address: u64, bytes: usize| address + bytes as u64;
        !self.is_empty()
            && !other.is_empty()
            && self.address < end(other.address, other.bytes())
            && other.address < end(self.address, self.bytes())
    }
}

parts_of_arrays!(Slice);

impl<T: Element> Slice<T> {
    /// Reinterprets the slice's bytes as elements of another type.
    ///
    /// # Panics
    /// Panics if the size in bytes is not a multiple of the new element's size, or the address is not aligned for it.
    #[must_use]
    pub fn cast<U: Element>(&self) -> Slice<U> {
        let (bytes, size) = (self.bytes(), size_of::<U>().max(1));
        assert!(bytes.is_multiple_of(size), "{bytes} bytes are not a whole number of {}", std::any::type_name::<U>());
        Slice::new(self.memory.clone(), (self.address - self.memory.address) as usize, bytes / size)
    }

    /// Sets every byte to `byte`, and waits until that is done.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn fill_bytes(&self, byte: u8) -> Result<()> {
        self.memory.fill(self.address, self.bytes(), byte)
    }

    /// Copies values from the host to the slice, and waits for the copy.
    ///
    /// # Errors
    /// If the driver reports an error.
    ///
    /// # Panics
    /// Panics if `values` and the slice have different lengths.
    pub fn write(&self, values: &[T]) -> Result<()> {
        assert_eq!(values.len(), self.len, "as many values as elements");
        if self.len == 0 {
            return Ok(());
        }
        let device = &self.memory.device;
        if let Some(emulator) = device.emulator() {
            return emulator.write(self.address, bytes_of(values));
        }
        device.bind()?;
        // SAFETY: both ranges have `bytes()` bytes, and `values` stays borrowed until the copy has been waited for.
        unsafe { result::memcpy_htod_async(self.address, values, device.transfers) }
            .map_err(|e| device.error("Copying to the device", e))?;
        device.wait_for_transfers("Copying to the device")
    }

    /// Copies the slice's values into `values`; otherwise like [`Slice::to_vec`].
    ///
    /// # Errors
    /// If the driver reports an error.
    ///
    /// # Panics
    /// Panics if `values` and the slice have different lengths.
    pub fn read(&self, values: &mut [T]) -> Result<()> {
        assert_eq!(values.len(), self.len, "as many values as elements");
        if self.len == 0 {
            return Ok(());
        }
        let device = &self.memory.device;
        if let Some(emulator) = device.emulator() {
            return emulator.read(self.address, bytes_of_mut(values));
        }
        device.bind()?;
        // SAFETY: both ranges have `bytes()` bytes, all bit patterns are valid values of T, and `values` stays borrowed until the copy has been waited for.
        unsafe { result::memcpy_dtoh_async(values, self.address, device.transfers) }
            .map_err(|e| device.error("Copying from the device", e))?;
        device.wait_for_transfers("Copying from the device")
    }

    /// Copies the slice's values to the host. This does not wait for any stream: if a kernel may still be writing the values, call
    /// [`Stream::synchronize`](crate::Stream::synchronize) first.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        // SAFETY: all bit patterns are valid values of T, including zeros.
        let mut values = vec![unsafe { std::mem::zeroed::<T>() }; self.len];
        self.read(&mut values)?;
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_can_go_to_other_threads() {
        fn is_shared<T: Send + Sync + 'static>() {}
        is_shared::<Slice<f32>>();
        is_shared::<crate::Buffer<f32>>();
    }
}
