//! Uses streams and arrays of another library in this process, such as PyTorch.

use crate::cuda::capture::Busy;
use crate::cuda::context::relaxed;
use crate::memory::allocation::Allocation;
use crate::{CudaDevice, Element, Error, Result, Slice, Stream};
use cudarc::driver::sys;
use std::ffi::c_void;

impl CudaDevice {
    /// Wraps a stream that another library has created, so that work can be queued on it. `handle` is a `CUstream`, which is the same as the
    /// runtime's `cudaStream_t`; null is the default stream. Dropping the returned value does not destroy the stream.
    ///
    /// # Safety
    /// The handle must belong to the device's primary context, which is the one that CUDA's runtime uses. It must stay valid as long as the returned
    /// stream, and any graph that was captured on that stream.
    #[must_use]
    pub unsafe fn borrow_stream(&self, handle: *mut c_void) -> Stream {
        Stream::of_handle(self, handle as sys::CUstream, false)
    }

    /// Wraps an array of `len` elements that another library has allocated at an address in this device's memory. The array is neither freed nor
    /// counted by [`CudaDevice::allocated`].
    ///
    /// # Errors
    /// Returns an error if the address is null although `len` is not 0, or if the address is not aligned for the elements.
    ///
    /// # Safety
    /// The elements must stay allocated on this device as long as the array, its slices and any graphs that use them exist. Streams and events must
    /// order all other accesses to the memory with respect to accesses through this array.
    pub unsafe fn borrow_array<T: Element>(&self, address: u64, len: usize) -> Result<Slice<T>> {
        let refused = |why: String| Err(Error::Unsupported { what: format!("An array at address {address:#x}"), why });
        if address == 0 && len > 0 {
            return refused(format!("holds no {len} elements: the pointer is null"));
        }
        if !address.is_multiple_of(align_of::<T>() as u64) {
            let name = std::any::type_name::<T>();
            return refused(format!("is not aligned to the {} bytes of {name}", align_of::<T>()));
        }
        let Some(bytes) = len.checked_mul(size_of::<T>()) else {
            return refused(format!("cannot hold {len} elements"));
        };
        Ok(Slice::new(Allocation::borrowed(self, address, bytes), 0, len))
    }
}

/// Makes calls that the driver would refuse while another library is capturing a stream, such as allocating memory or loading kernels. Their effects
/// do not become part of the captured graph. Nothing can be timed during `call`.
pub fn outside_of_a_capture<R>(call: impl FnOnce() -> R) -> R {
    let _busy = Busy::begin();
    relaxed(call)
}
