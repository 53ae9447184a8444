//! Array elements, device addresses, and ranges of elements.

use std::ops::{Bound, RangeBounds};

/// A type whose values have the same byte representation on the host and on the device.
///
/// # Safety
/// Every bit pattern must be a valid value, and the type must have no padding.
pub unsafe trait Element: Copy + Send + Sync + 'static {}

macro_rules! elements {
    ($($t:ty),*) => {
        $(
            // SAFETY: plain numbers have no padding, and every bit pattern is a valid value.
            unsafe impl Element for $t {}
        )*
    };
}
elements!(f32, f64, u8, u16, u32, u64, i8, i16, i32, i64, half::f16, half::bf16);

/// Returns a view of the bytes of these values.
pub(crate) fn bytes_of<T: Element>(values: &[T]) -> &[u8] {
    // SAFETY: elements have no padding, so all `size_of_val(values)` bytes are initialised.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// Returns a writable view of the bytes of these values.
pub(crate) fn bytes_of_mut<T: Element>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: elements have no padding, so all bytes are initialised, and every bit pattern that may be written is a valid value.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

/// A device address, in the form in which kernels receive it. It keeps nothing alive. The default is
/// [`DevicePtr::NULL`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct DevicePtr(pub(crate) u64);

impl DevicePtr {
    /// The null pointer.
    pub const NULL: Self = Self(0);

    /// Returns the address that is `bytes` bytes further on.
    #[must_use]
    pub const fn offset(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }

    /// Returns the address as a number, to be passed to another library.
    #[must_use]
    pub const fn address(self) -> u64 {
        self.0
    }

    /// Returns true if the address is a multiple of this many bytes.
    #[must_use]
    pub const fn is_aligned(self, bytes: u64) -> bool {
        self.0.is_multiple_of(bytes)
    }
}

/// Defines the functions that arrays on the device and page-locked arrays have in common. The type must have a field
/// `len` and a function `part`.
macro_rules! parts_of_arrays {
    ($array:ident) => {
        impl<T> $array<T> {
            /// Returns the number of elements.
            #[must_use]
            pub fn len(&self) -> usize {
                self.len
            }

            /// Returns true if there are no elements.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }

            /// Returns a part of the array, as in `range(a..b)`, or all of it, as in `range(..)`. The part shares the
            /// memory and keeps it alive.
            ///
            /// # Panics
            /// Panics if the range ends before it begins or extends past the end of the array.
            #[must_use]
            pub fn range(&self, range: impl std::ops::RangeBounds<usize>) -> Self {
                let (start, end) = $crate::memory::element::bounds(range, self.len);
                self.part(start, end - start)
            }
        }
    };
}
pub(crate) use parts_of_arrays;

/// Returns the index of a range's first element, and the index one past its last element.
///
/// # Panics
/// Panics if the range ends before it begins, or extends past `len`.
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
}
