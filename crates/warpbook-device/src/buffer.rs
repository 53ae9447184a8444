use crate::cuda::Inner;
use crate::{CudaDevice, Result};
use cudarc::driver::result;
use std::marker::PhantomData;
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

/// An address on the device, as a kernel takes it; it does not keep anything alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

    /// Whether it is a multiple of so many bytes.
    #[must_use]
    pub const fn is_aligned(self, bytes: u64) -> bool {
        self.0.is_multiple_of(bytes)
    }
}

/// An array in device memory; freed with its owner.
pub struct Buffer<T> {
    device: Arc<Inner>,
    pub(crate) address: u64,
    len: usize,
    element: PhantomData<T>,
}

impl<T> std::fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer<{}>[{}]", std::any::type_name::<T>(), self.len)
    }
}

impl<T: Element> Buffer<T> {
    pub(crate) fn zeros(device: &CudaDevice, len: usize) -> Result<Self> {
        let bytes = len.saturating_mul(size_of::<T>());
        device.ensure_free(format!("An array of {len} {}", std::any::type_name::<T>()), bytes as u64)?;
        let inner = &device.0;
        // SAFETY: the context is current (`ensure_free` binds it); CUDA refuses zero bytes, so one is asked for at least.
        let address = unsafe { result::malloc_sync(bytes.max(1)) }.map_err(|e| inner.error("Allocating memory", e))?;
        let buffer = Self { device: inner.clone(), address, len, element: PhantomData };
        buffer.fill_bytes(0)?;
        Ok(buffer)
    }

    /// Sets every byte, and waits for it.
    ///
    /// # Errors
    /// The driver's.
    pub fn fill_bytes(&self, byte: u8) -> Result<()> {
        self.device.bind()?;
        if self.len > 0 {
            // SAFETY: the range is this buffer's own.
            unsafe { result::memset_d8_async(self.address, byte, self.bytes(), self.device.transfers) }
                .map_err(|e| self.device.error("Filling memory", e))?;
        }
        self.device.wait_for_transfers("Filling memory")
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
        self.device.bind()?;
        // SAFETY: both ranges are `bytes()` long, and the values live past the wait.
        unsafe { result::memcpy_htod_async(self.address, values, self.device.transfers) }
            .map_err(|e| self.device.error("Copying to the device", e))?;
        self.device.wait_for_transfers("Copying to the device")
    }

    /// Copies the values into memory that is there already; as of [`Buffer::to_vec`] otherwise.
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
        self.device.bind()?;
        // SAFETY: both ranges are `bytes()` long, any bytes are values of T, and the values live past the wait.
        unsafe { result::memcpy_dtoh_async(values, self.address, self.device.transfers) }
            .map_err(|e| self.device.error("Copying from the device", e))?;
        self.device.wait_for_transfers("Copying from the device")
    }

    /// Copies the values out. It waits for no stream: [`Stream::synchronize`](crate::Stream::synchronize) comes first
    /// where a kernel is still writing them.
    ///
    /// # Errors
    /// The driver's.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.device.bind()?;
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

impl<T> Buffer<T> {
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
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        if self.device.may_free() {
            // SAFETY: the address came from `malloc_sync` and is not used again. Freeing waits for kernels under way.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}
