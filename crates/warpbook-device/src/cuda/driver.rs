//! The driver's first calls. They bypass cudarc, which panics if a symbol is missing and assumes that it knows every status
//! code.

use crate::libraries::loader::{Status, function, library};
use crate::{Error, Result};
use cudarc::driver::sys::{self, CUdevice_attribute_enum as Attribute};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use warpbook_record::{DeviceInfo, DeviceKind};

/// The oldest CUDA version whose driver has every function that is used; cudarc is pinned to the same version (`cuda-12000`).
const MINIMUM: (u32, u32) = (12, 0);

/// All driver functions that are called through cudarc. Every driver since CUDA 12.0 has them.
#[rustfmt::skip]
pub const THROUGH_CUDARC: [&str; 64] = [
    "cuCtxEnablePeerAccess", "cuCtxGetCurrent", "cuCtxGetStreamPriorityRange", "cuCtxSetCurrent", "cuCtxSynchronize", "cuDeviceCanAccessPeer",
    "cuDeviceGet", "cuDeviceGetAttribute", "cuDeviceGetCount", "cuDeviceGetName", "cuDeviceGetUuid", "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain", "cuDeviceTotalMem_v2", "cuDriverGetVersion", "cuEventCreate", "cuEventDestroy_v2", "cuEventElapsedTime",
    "cuEventQuery", "cuEventRecord", "cuEventSynchronize", "cuFuncGetAttribute", "cuFuncSetAttribute", "cuGetErrorName", "cuGetErrorString",
    "cuGraphDestroy", "cuGraphExecDestroy", "cuGraphGetNodes", "cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuGraphUpload", "cuInit",
    "cuLaunchKernelEx", "cuMemAlloc_v2", "cuMemFreeHost", "cuMemFree_v2", "cuMemGetInfo_v2", "cuMemHostAlloc", "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyPeerAsync", "cuMemsetD16Async", "cuMemsetD32Async", "cuMemsetD8Async",
    "cuModuleGetFunction", "cuModuleGetGlobal_v2", "cuModuleLoadData", "cuModuleUnload", "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuOccupancyMaxActiveClusters", "cuStreamBeginCapture_v2", "cuStreamCreate", "cuStreamCreateWithPriority", "cuStreamDestroy_v2",
    "cuStreamEndCapture", "cuStreamGetCaptureInfo_v2", "cuStreamIsCapturing", "cuStreamQuery", "cuStreamSynchronize", "cuStreamWaitEvent",
    "cuTensorMapEncodeIm2col", "cuTensorMapEncodeTiled", "cuThreadExchangeStreamCaptureMode",
];

type TextOf = unsafe extern "C" fn(Status, *mut *const c_char) -> Status;

library! {
    /// The functions of cuda.h that are called before any others.
    struct DriverCalls {
        fn init(c_uint) -> Status = "cuInit";
        fn count(*mut c_int) -> Status = "cuDeviceGetCount";
        fn device(*mut c_int, c_int) -> Status = "cuDeviceGet";
        fn name(*mut c_char, c_int, c_int) -> Status = "cuDeviceGetName";
        fn memory(*mut usize, c_int) -> Status = "cuDeviceTotalMem_v2";
        fn attribute(*mut c_int, c_int, c_int) -> Status = "cuDeviceGetAttribute";
        fn retain(*mut *mut c_void, c_int) -> Status = "cuDevicePrimaryCtxRetain";
        fn release(c_int) -> Status = "cuDevicePrimaryCtxRelease_v2";
        fn error_name(Status, *mut *const c_char) -> Status = "cuGetErrorName";
        fn error_text(Status, *mut *const c_char) -> Status = "cuGetErrorString";
    }
}

/// A driver that can be used.
struct Driver {
    cuda: (u32, u32),
    calls: DriverCalls,
}

/// Returns the newest CUDA version that the driver supports, or the reason why the driver cannot be used.
///
/// Call this before any other function of the driver.
pub(crate) fn driver() -> Result<(u32, u32)> {
    found().map(|driver| driver.cuda)
}

fn found() -> Result<&'static Driver> {
    static FOUND: OnceLock<Result<Driver>> = OnceLock::new();
    FOUND.get_or_init(probe).as_ref().map_err(Clone::clone)
}

fn probe() -> Result<Driver> {
    // SAFETY: this call only tries to load the library, whose initialisers have no preconditions.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::NoDriver);
    }
    // SAFETY: the call above has found the library, so this one can load it.
    let library = unsafe { sys::culib() };
    let failed = |why: String| Error::DriverFailed(why);
    // SAFETY: the requested type is the type of `cuDriverGetVersion` in cuda.h.
    let version = unsafe { function::<unsafe extern "C" fn(*mut c_int) -> Status>(library, "cuDriverGetVersion") };
    let version = version.map_err(|lacks| failed(format!("its library {lacks}")))?;
    let mut number = 0;
    // SAFETY: the pointer points to a live integer.
    let status = unsafe { version(&raw mut number) };
    if status != 0 {
        return Err(failed(format!("cuDriverGetVersion returned the error {status}")));
    }
    let number = number.unsigned_abs();
    let cuda = (number / 1000, number % 1000 / 10);
    if cuda < MINIMUM {
        let text = |(major, minor)| format!("{major}.{minor}");
        return Err(Error::DriverTooOld { found: text(cuda), needed: text(MINIMUM) });
    }
    // SAFETY: the symbol is only looked up; the pointer that is found is never used.
    let lacks = |name: &&&str| unsafe { library.get::<*const c_void>(**name) }.is_err();
    let missing: Vec<&str> = THROUGH_CUDARC.iter().filter(lacks).copied().collect();
    if let [first, others @ ..] = &missing[..] {
        let more = if others.is_empty() { String::new() } else { format!(" and {} more functions", others.len()) };
        return Err(failed(format!("its library lacks {first}{more}, so it is not NVIDIA's or is incomplete")));
    }
    let calls = DriverCalls::load(library).map_err(failed)?;
    // SAFETY: `cuInit` may be called at any time, and its argument must be 0.
    let status = unsafe { (calls.init)(0) };
    calls.check(status)?;
    Ok(Driver { cuda, calls })
}

impl DriverCalls {
    fn check(&self, status: Status) -> Result<()> {
        if status == 0 { Ok(()) } else { Err(Error::DriverFailed(self.describe(status))) }
    }

    /// Describes an error by name and in words, or by its number if the driver has no name for it.
    fn describe(&self, status: Status) -> String {
        let text = |get: TextOf| {
            let mut text = std::ptr::null();
            // SAFETY: the argument points to a live pointer, which the driver sets to a static string or leaves unchanged.
            let given = unsafe { get(status, &raw mut text) } == 0 && !text.is_null();
            // SAFETY: the driver has set the pointer to a static string, since the call succeeded and the pointer is not null.
            given.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        match (text(self.error_name), text(self.error_text)) {
            (Some(name), Some(text)) => format!("{name}, {text}"),
            _ => format!("the error {status}, for which it has no name"),
        }
    }
}

/// Describes a driver error by name and in words.
pub(crate) fn describe(status: i32) -> String {
    found().map_or_else(|_| format!("the error {status}"), |driver| driver.calls.describe(status))
}

/// Returns the number of CUDA devices.
pub(crate) fn count() -> Result<u32> {
    let calls = &found()?.calls;
    let mut count = 0;
    // SAFETY: the pointer points to a live integer.
    calls.check(unsafe { (calls.count)(&raw mut count) })?;
    Ok(count.unsigned_abs())
}

/// Returns the driver's handle of a device.
fn device(calls: &DriverCalls, index: u32) -> Result<c_int> {
    let mut device = 0;
    // SAFETY: the pointer points to a live integer.
    calls.check(unsafe { (calls.device)(&raw mut device, c_int::try_from(index).unwrap_or(c_int::MAX)) })?;
    Ok(device)
}

/// Returns an error unless a context can be created on a device.
pub(crate) fn ensure_it_opens(index: u32) -> Result<()> {
    let calls = &found()?.calls;
    let device = device(calls, index)?;
    let mut context = std::ptr::null_mut();
    // SAFETY: the driver returned the device, and `context` is a live pointer that receives the handle.
    calls.check(unsafe { (calls.retain)(&raw mut context, device) })
}

/// Releases the reference that [`ensure_it_opens`] took on the context. Call this once another owner holds the context.
pub(crate) fn let_go(index: u32) {
    let Ok(Driver { calls, .. }) = found() else { return };
    if let Ok(device) = device(calls, index) {
        // SAFETY: the driver returned the device, and `ensure_it_opens` has retained its context.
        let _ = unsafe { (calls.release)(device) };
    }
}

/// Returns the name and limits of a device without opening it.
pub(crate) fn info(index: u32) -> Result<DeviceInfo> {
    const NAME_BYTES: usize = 256;
    let calls = &found()?.calls;
    let device = device(calls, index)?;
    let attribute = |attribute: Attribute| -> Result<u32> {
        let mut value = 0;
        // SAFETY: the driver returned the device, and the pointer points to a live integer.
        calls.check(unsafe { (calls.attribute)(&raw mut value, attribute as c_int, device) })?;
        Ok(value.unsigned_abs())
    };
    let bytes = |a| attribute(a).map(u64::from);
    let (mut memory, mut name) = (0, [0 as c_char; NAME_BYTES]);
    // SAFETY: the driver returned the device, and the pointer points to a live integer.
    calls.check(unsafe { (calls.memory)(&raw mut memory, device) })?;
    // SAFETY: the driver writes at most the given number of bytes, which is less than the length of the array, including a terminating zero.
    calls.check(unsafe { (calls.name)(name.as_mut_ptr(), NAME_BYTES as c_int - 1, device) })?;
    // SAFETY: the last byte of the array is zero, because the driver does not write it.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    Ok(DeviceInfo {
        kind: DeviceKind::Cuda,
        index,
        name,
        memory_bytes: memory as u64,
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        compute_capability: Some((
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        )),
        l2_bytes: Some(bytes(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
        shared_bytes_per_multiprocessor: Some(bytes(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
        )?),
        shared_bytes_per_block: Some(bytes(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?),
        registers_per_multiprocessor: Some(bytes(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)?),
        max_sm_mhz: Some(attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)? / 1000),
        max_memory_mhz: Some(attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)? / 1000),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Collects the names of the driver functions that the sources call.
    fn called(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                called(&path, found);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                let names = text
                    .split("sys::cu")
                    .skip(1)
                    .map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next());
                found.extend(names.flatten().filter(|n| n.starts_with(char::is_uppercase)).map(|n| format!("cu{n}")));
            }
        }
    }

    #[test]
    fn every_function_that_is_called_is_looked_for_first() {
        let mut all = BTreeSet::new();
        called(&crate::testing::manifest_dir(env!("CARGO_MANIFEST_DIR")).join("src"), &mut all);
        assert!(all.len() > 15, "{all:?}");
        let unknown: Vec<_> = all.iter().filter(|name| !THROUGH_CUDARC.contains(&name.as_str())).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
