//! What the launches of operations share.

use super::error::{Check, Result};
use crate::gemm::DeviceArray;
use warpbook_device::{CudaDevice, DevicePtr, Kernel, KernelArg, Slice};
use warpbook_record::KernelSpec;

/// Compiles and loads kernels with their first tiles.
pub(crate) fn load<const N: usize>(
    device: &CudaDevice,
    specs: [KernelSpec; N],
) -> warpbook_device::Result<[Kernel; N]> {
    let kernels: Vec<Kernel> =
        specs.iter().map(|spec| device.kernel(spec, &spec.tiles[0])).collect::<warpbook_device::Result<_>>()?;
    kernels.try_into().map_err(|_| warpbook_device::Error::Unsupported {
        what: "Loading kernels".into(),
        why: "gave another number of them than asked for".into(),
    })
}

/// An array that a kernel may do without: the null pointer where there is none.
pub(crate) fn optional<T>(array: Option<&Slice<T>>) -> &dyn KernelArg {
    array.map_or(&DevicePtr::NULL, |slice| slice)
}

/// The same of an array whose type is chosen at run time.
pub(crate) fn optional_array(array: Option<&DeviceArray>) -> &dyn KernelArg {
    array.map_or(&DevicePtr::NULL, |array| array.bytes())
}

/// One number on the device that a kernel reads or writes.
pub(crate) fn one<T>(check: Check, name: &'static str, slice: Option<&Slice<T>>) -> Result<()> {
    slice.map_or(Ok(()), |slice| check.lengths(&[(name, slice.len(), &[1])]))
}
