use crate::memory::allocation::Allocation;
use crate::{DevicePtr, Element, Result};
use cudarc::driver::result;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// A range of device memory as an array: all of a [`Buffer`](crate::Buffer), a slice of an [`Arena`](crate::Arena), or a
/// part of either. It owns a share of the allocation, which is freed with its last slice; a clone is the same range.
///
/// Kernels take it as a pointer to its first element. Slices may overlap: nothing here orders what is done to them, streams and
/// events do.
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
    /// `len` elements from a byte of an allocation on.
    ///
    /// # Panics
    /// If they do not lie in the allocation, or not at a multiple of T's alignment.
    pub(crate) fn new(memory: Arc<Allocation>, offset: usize, len: usize) -> Self {
        let end = len.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(offset));
        assert!(end.is_some_and(|end| end <= memory.bytes()), "the slice lies in its allocation");
        let address = memory.address + offset as u64;
        assert!(address.is_multiple_of(align_of::<T>() as u64), "the slice is aligned for its elements");
        Self { memory, address, len, element: PhantomData }
    }

    pub(crate) fn memory(&self) -> &Arc<Allocation> {
        &self.memory
    }

    /// Elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of the device that it is on, as in cuda:0.
    #[must_use]
    pub fn device_index(&self) -> u32 {
        self.memory.device.info.index
    }

    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The address of element `index`, for a kernel.
    ///
    /// # Panics
    /// If `index` is past the end.
    #[must_use]
    pub fn at(&self, index: usize) -> DevicePtr {
        assert!(index <= self.len, "element {index} of {}", self.len);
        DevicePtr(self.address + (index * size_of::<T>()) as u64)
    }

    /// A part of it, `range(a..b)`, or all of it, `range(..)`; it shares the memory and keeps it alive.
    ///
    /// # Panics
    /// If the range ends before it begins, or past the end.
    #[must_use]
    pub fn range(&self, range: impl RangeBounds<usize>) -> Self {
        let (start, end) = bounds(range, self.len);
        Self { memory: self.memory.clone(), address: self.at(start).0, len: end - start, element: PhantomData }
    }

    /// Whether two slices have a byte in common.
    #[must_use]
    pub fn overlaps<U>(&self, other: &Slice<U>) -> bool {
        let end = |address: u64, bytes: usize| address + bytes as u64;
        !self.is_empty()
            && !other.is_empty()
            && self.address < end(other.address, other.bytes())
            && other.address < end(self.address, self.bytes())
    }
}

impl<T: Element> Slice<T> {
    /// The same bytes as elements of another type.
    ///
    /// # Panics
    /// If they are no whole number of such elements, or not aligned for them.
    #[must_use]
    pub fn cast<U: Element>(&self) -> Slice<U> {
        let (bytes, size) = (self.bytes(), size_of::<U>().max(1));
        assert!(bytes.is_multiple_of(size), "{bytes} bytes are no whole number of {}", std::any::type_name::<U>());
        Slice::new(self.memory.clone(), (self.address - self.memory.address) as usize, bytes / size)
    }

    /// Sets every byte, and waits for it.
    ///
    /// # Errors
    /// The driver's.
    pub fn fill_bytes(&self, byte: u8) -> Result<()> {
        self.memory.fill(self.address, self.bytes(), byte)
    }

    /// Copies values in, and waits for it.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// If there are not as many values as elements.
    pub fn write(&self, values: &[T]) -> Result<()> {
        assert_eq!(values.len(), self.len, "as many values as elements");
        if self.len == 0 {
            return Ok(());
        }
        let device = &self.memory.device;
        device.bind()?;
        // SAFETY: both ranges are `bytes()` long, and the values live past the wait.
        unsafe { result::memcpy_htod_async(self.address, values, device.transfers) }
            .map_err(|e| device.error("Copying to the device", e))?;
        device.wait_for_transfers("Copying to the device")
    }

    /// Copies the values into memory that is there already; as of [`Slice::to_vec`] otherwise.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// If there is not room for as many values as elements.
    pub fn read(&self, values: &mut [T]) -> Result<()> {
        assert_eq!(values.len(), self.len, "as many values as elements");
        if self.len == 0 {
            return Ok(());
        }
        let device = &self.memory.device;
        device.bind()?;
        // SAFETY: both ranges are `bytes()` long, any bytes are values of T, and the values live past the wait.
        unsafe { result::memcpy_dtoh_async(values, self.address, device.transfers) }
            .map_err(|e| device.error("Copying from the device", e))?;
        device.wait_for_transfers("Copying from the device")
    }

    /// Copies the values out. It waits for no stream: call [`Stream::synchronize`](crate::Stream::synchronize) first
    /// where a kernel is still writing them.
    ///
    /// # Errors
    /// The driver's.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.memory.device.bind()?;
        let mut values = Vec::with_capacity(self.len);
        if self.len > 0 {
            let spare = values.spare_capacity_mut();
            // SAFETY: MaybeUninit<T> has the layout of T; the slice has room for `len` of them.
            let target = unsafe { std::slice::from_raw_parts_mut(spare.as_mut_ptr().cast::<T>(), self.len) };
            self.read(target)?;
            // SAFETY: the copy has written all of them.
            unsafe { values.set_len(self.len) };
        }
        Ok(values)
    }
}

/// The first element of a range and the one after its last.
///
/// # Panics
/// If the range ends before it begins, or past `len`.
pub(crate) fn bounds(range: impl RangeBounds<usize>, len: usize) -> (usize, usize) {
    let after = |index: usize| index.checked_add(1).expect("an index below the largest number");
    let start = match range.start_bound() {
        Bound::Included(&i) => i,
        Bound::Excluded(&i) => after(i),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&i) => after(i),
        Bound::Excluded(&i) => i,
        Bound::Unbounded => len,
    };
    assert!(start <= end && end <= len, "elements {start}..{end} of {len}");
    (start, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_a_vec() {
        assert_eq!(bounds(.., 5), (0, 5));
        assert_eq!(bounds(2.., 5), (2, 5));
        assert_eq!(bounds(..=2, 5), (0, 3));
        assert_eq!(bounds(1..4, 5), (1, 4));
        assert_eq!(bounds((Bound::Excluded(1), Bound::Unbounded), 5), (2, 5));
        assert_eq!(bounds(5..5, 5), (5, 5));
        let refused = |range: std::ops::Range<usize>| std::panic::catch_unwind(|| bounds(range, 5)).is_err();
        #[expect(clippy::reversed_empty_ranges, reason = "such a range is what has to be refused")]
        let reversed = 3..2;
        assert!(refused(reversed) && refused(0..6) && refused(6..6));
    }

    #[test]
    fn slices_can_go_to_other_threads() {
        fn is_shared<T: Send + Sync + 'static>() {}
        is_shared::<Slice<f32>>();
        is_shared::<crate::Buffer<f32>>();
    }
}
