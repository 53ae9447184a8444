use crate::memory::Allocation;
use crate::{CudaDevice, Result, Slice};
use std::ops::Deref;
use std::sync::Arc;

/// A type whose values are the same bytes on the host and on the device, and may be any bytes.
///
/// # Safety
/// Every bit pattern is a value, and there is no padding.
pub unsafe trait Element: Copy + Send + Sync + 'static {}

macro_rules! elements {
    ($($t:ty),*) => {
        $(
            // SAFETY: a plain number without padding, of which every bit pattern is a value.
            unsafe impl Element for $t {}
        )*
    };
}
elements!(f32, f64, u8, u16, u32, u64, i8, i16, i32, i64, half::f16, half::bf16);

/// An address on the device, as a kernel takes it; it does not keep anything alive. The default is [`DevicePtr::NULL`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct DevicePtr(pub(crate) u64);

impl DevicePtr {
    /// The null pointer.
    pub const NULL: Self = Self(0);

    /// The address so many bytes further on.
    #[must_use]
    pub const fn offset(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }

    /// The address as a number, for another library.
    #[must_use]
    pub const fn address(self) -> u64 {
        self.0
    }

    /// Whether it is a multiple of so many bytes.
    #[must_use]
    pub const fn is_aligned(self, bytes: u64) -> bool {
        self.0.is_multiple_of(bytes)
    }
}

/// An array in device memory, allocated for itself: it is a [`Slice`] of all of its allocation, which lives as long as the
/// buffer and the slices that were taken of it.
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

    /// All of an allocation.
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
