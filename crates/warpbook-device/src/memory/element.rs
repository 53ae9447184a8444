//! Elements of arrays, and their addresses on the device.

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
