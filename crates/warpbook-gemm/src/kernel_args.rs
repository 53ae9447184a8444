//! Helpers for loading kernels and passing arguments, shared by the launches of products and of operations.

use crate::DeviceArray;
use warpbook_device::{CudaDevice, DevicePtr, Kernel, KernelArg, Slice};
use warpbook_record::KernelSpec;

/// Compiles and loads kernels, each with the first of its tiles.
///
/// # Errors
/// If a kernel does not compile, or the driver refuses it.
pub fn load<const N: usize>(device: &CudaDevice, specs: [KernelSpec; N]) -> warpbook_device::Result<[Kernel; N]> {
    let kernels: Vec<Kernel> =
        specs.iter().map(|spec| device.kernel(spec, &spec.tiles[0])).collect::<warpbook_device::Result<_>>()?;
    kernels.try_into().map_err(|_| warpbook_device::Error::Unsupported {
        what: "Loading kernels".into(),
        why: "gave another number of them than asked for".into(),
    })
}

/// Passes an optional array to a kernel; `None` becomes the null pointer.
pub fn optional<T>(array: Option<&Slice<T>>) -> &dyn KernelArg {
    array.map_or(&DevicePtr::NULL, |slice| slice)
}

/// Like [`optional`], for an array whose type is chosen at run time.
pub fn optional_array(array: Option<&DeviceArray>) -> &dyn KernelArg {
    array.map_or(&DevicePtr::NULL, |array| array.bytes())
}
