//! Streams and arrays of another library in this process, such as PyTorch.

use crate::cuda::capture::Busy;
use crate::cuda::context::relaxed;
use crate::memory::allocation::Allocation;
use crate::{CudaDevice, Element, Error, Result, Slice, Stream};
use cudarc::driver::sys;
use std::ffi::c_void;

impl CudaDevice {
    /// Wraps a stream that another library has created, so that work can be queued on it: a `CUstream`, which is also the runtime's `cudaStream_t`;
    /// null is the default stream. It is not destroyed with the returned value.
    ///
    /// # Safety
    /// The handle must belong to the device's primary context, which CUDA's runtime uses, and live as long as the returned stream and its clones
    /// in graphs that were captured on it.
    #[must_use]
    pub unsafe fn borrow_stream(&self, handle: *mut c_void) -> Stream {
        Stream::of_handle(self, handle as sys::CUstream, false)
    }

    /// Wraps an array of `len` elements at an address in this device's memory that another library has allocated. It is neither freed nor
    /// counted by [`CudaDevice::allocated`].
    ///
    /// # Errors
    /// If the address is null although there are elements, or is not aligned for them.
    ///
    /// # Safety
    /// The elements must stay allocated on this device as long as the array, its slices and the graphs that use it exist, and streams and events
    /// must order all other accesses with this use.
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

/// Makes calls that the driver refuses while another library captures a stream, such as allocating memory and loading kernels. Their effects are not
/// part of the captured graph. Nothing is timed meanwhile.
pub fn outside_of_a_capture<R>(call: impl FnOnce() -> R) -> R {
    let _busy = Busy::begin();
    relaxed(call)
}
