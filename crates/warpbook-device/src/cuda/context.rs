//! A device's context.

use crate::cuda::driver;
use crate::cuda::streams::Streams;
use crate::emulator::{self, Emulator};
use crate::memory::counters::MemoryCounters;
use crate::{Compiler, Error, Result};
use cudarc::driver::CudaContext;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUstreamCaptureMode, cudaError_enum as Code};
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use warpbook_kernels::{Launch, over_items};
use warpbook_record::{DeviceInfo, KernelSpec, Requires, Tile};

/// Describes a CUDA error by name and in words.
pub(crate) fn describe(e: DriverError) -> String {
    driver::describe(e.0 as i32)
}

/// Returns true if the context is unusable after this error.
pub(crate) fn is_sticky(e: DriverError) -> bool {
    const STICKY: [Code; 11] = [
        Code::CUDA_ERROR_ILLEGAL_ADDRESS,
        Code::CUDA_ERROR_LAUNCH_FAILED,
        Code::CUDA_ERROR_LAUNCH_TIMEOUT,
        Code::CUDA_ERROR_ILLEGAL_INSTRUCTION,
        Code::CUDA_ERROR_MISALIGNED_ADDRESS,
        Code::CUDA_ERROR_INVALID_ADDRESS_SPACE,
        Code::CUDA_ERROR_INVALID_PC,
        Code::CUDA_ERROR_HARDWARE_STACK_ERROR,
        Code::CUDA_ERROR_ASSERT,
        Code::CUDA_ERROR_ECC_UNCORRECTABLE,
        Code::CUDA_ERROR_CONTEXT_IS_DESTROYED,
    ];
    // A newer driver may return codes that the enum lacks, so the codes are compared as numbers.
    STICKY.iter().any(|code| *code as i32 == e.0 as i32)
}

/// The backend that runs a device's work.
pub(crate) enum Backend {
    /// The CUDA driver runs the work in this context.
    Driver(Arc<CudaContext>),
    Emulator(Box<Emulator>),
}

/// The state that all buffers, streams and kernels of a device share.
pub(crate) struct Inner {
    backend: Backend,
    pub(crate) info: DeviceInfo,
    driver_cuda: (u32, u32),
    uuid: Option<String>,
    compiler: OnceLock<Result<Compiler>>,
    pub(crate) memory: MemoryCounters,
    pub(crate) streams: Streams,
    extensions: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    /// Stream for copies. Waiting for it waits for no other work, and does not disturb a capture on another thread.
    pub(crate) transfers: sys::CUstream,
    /// The error that made the context unusable; every launch checks it.
    lost: OnceLock<String>,
    /// True if a kernel never ends; freeing anything would then wait forever.
    abandoned: AtomicBool,
}

// SAFETY: the stream's handle may be used from any thread on which its context is current, and `bind` makes it current.
unsafe impl Send for Inner {}
// SAFETY: the driver serialises the calls on a stream.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.may_free() {
            // SAFETY: the handle was created by `open` and is not used again.
            let _ = unsafe { result::stream::destroy(self.transfers) };
        }
    }
}

impl Inner {
    /// Returns the emulator if it runs the device's work.
    pub(crate) fn emulator(&self) -> Option<&Emulator> {
        match &self.backend {
            Backend::Driver(_) => None,
            Backend::Emulator(emulator) => Some(emulator),
        }
    }

    /// Returns the driver's context.
    ///
    /// # Errors
    /// [`Error::NotEmulated`] if the device is emulated.
    pub(crate) fn context(&self) -> Result<&Arc<CudaContext>> {
        match &self.backend {
            Backend::Driver(context) => Ok(context),
            Backend::Emulator(_) => Err(Error::NotEmulated("This call of the driver")),
        }
    }

    /// Makes the context current, like [`Inner::bind`]. On an emulated device, returns an error that names `feature`, a plural noun.
    pub(crate) fn bind_for(&self, feature: &'static str) -> Result<()> {
        self.emulator().map_or(Ok(()), |_| Err(Error::NotEmulated(feature)))?;
        self.bind()
    }

    /// See [`CudaDevice::has_programmatic_launch`].
    pub(crate) fn has_programmatic_launch(&self) -> bool {
        self.info.compute_capability >= Some((9, 0)) && self.driver_cuda >= (12, 3)
    }

    /// Returns the state that another module attaches to the device: one value of each type, created on first use.
    pub(crate) fn extension<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut extensions = self.extensions.lock().unwrap_or_else(PoisonError::into_inner);
        let extension = extensions.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default())).clone();
        extension.downcast().unwrap_or_else(|_| unreachable!("the key is its type"))
    }

    /// Waits for the copies on the device's own stream for copies.
    pub(crate) fn wait_for_transfers(&self, what: &str) -> Result<()> {
        self.streams.count_transfer();
        // SAFETY: the stream's handle lives as long as `self`.
        unsafe { result::stream::synchronize(self.transfers) }.map_err(|e| self.error(what, e))
    }

    /// Makes the context current on this thread. Call this before every driver call; it fails on an emulated device, which must not call the driver.
    pub(crate) fn bind(&self) -> Result<()> {
        if let Some(why) = self.lost.get() {
            return Err(Error::ContextLost(why.clone()));
        }
        self.context()?.bind_to_thread().map_err(|e| self.error("Choosing the device", e))
    }

    /// Makes the context current and returns true if it still works, so that resources of this device can be freed.
    pub(crate) fn may_free(&self) -> bool {
        !self.abandoned.load(Ordering::Relaxed) && self.context().is_ok_and(|context| context.bind_to_thread().is_ok())
    }

    /// Marks the device as unusable, because a kernel on it never ends.
    pub(crate) fn abandon(&self, why: &str) {
        if !self.abandoned.swap(true, Ordering::Relaxed) {
            // The context is deliberately leaked, because releasing it would also wait for the kernel.
            std::mem::forget(self.context().cloned());
        }
        self.lost.get_or_init(|| why.to_owned());
    }

    /// Converts a driver error, and remembers it if the context is unusable afterwards.
    pub(crate) fn error(&self, what: impl Into<String>, e: DriverError) -> Error {
        Error::Cuda { what: what.into(), why: describe(e), sticky: self.note(e) }
    }

    /// Converts the error of a library call. A call that the library refused becomes a different error from one that failed.
    pub(crate) fn library_error(&self, library: &str, what: &str, why: String, is_refused: bool) -> Error {
        if is_refused {
            return Error::Unsupported { what: library.into(), why: format!("refuses {what}: {why}") };
        }
        // The error may come from an earlier kernel, and the library does not say whether the context is still usable.
        let sticky = result::mem_get_info().is_err_and(|e| self.note(e));
        Error::Cuda { what: format!("{library}, asked for {what},"), why, sticky }
    }

    /// Remembers an error that makes the context unusable; returns true if this error does.
    pub(crate) fn note(&self, e: DriverError) -> bool {
        let sticky = is_sticky(e);
        if sticky {
            self.lost.get_or_init(|| describe(e));
        }
        sticky
    }
}

/// Makes a call that the driver normally forbids on a capturing thread, such as freeing memory. The call must have nothing to do with the captured
/// work.
pub(crate) fn relaxed<R>(call: impl FnOnce() -> R) -> R {
    let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: the pointer points to a live value, which receives the thread's previous mode.
    let exchanged = unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode) }.result();
    let done = call();
    if exchanged.is_ok() {
        // SAFETY: the pointer points to the thread's previous mode, which this call restores.
        let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode) };
    }
    done
}

/// Ends the process without the driver's clean-up, which would wait forever for a kernel that never ends.
pub fn exit_at_once(code: u8) -> ! {
    unsafe extern "C" {
        fn _exit(code: std::ffi::c_int) -> !;
    }
    let _ = std::io::stdout().flush();
    // SAFETY: `_exit` is the function of the C library, and nothing in this process is used afterwards.
    unsafe { _exit(code.into()) }
}

/// A CUDA device with its context, or the emulated GPU. Clones share the device.
#[derive(Clone)]
pub struct CudaDevice(pub(crate) Arc<Inner>);

impl std::fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CudaDevice({}, {})", self.0.info.selector(), self.0.info.name)
    }
}

impl CudaDevice {
    /// Opens CUDA device number `index`.
    ///
    /// # Errors
    /// Returns an error if there is no driver, the driver is too old, or the device does not exist.
    pub fn open(index: u32) -> Result<Self> {
        let driver_cuda = driver::driver()?;
        let count = driver::count()?;
        if index >= count {
            return Err(Error::NoSuchDevice { index, count });
        }
        driver::ensure_it_opens(index)?;
        let context = CudaContext::new(index as usize).map_err(|e| Error::DriverFailed(describe(e)));
        driver::let_go(index);
        let (context, info) = (context?, driver::info(index)?);
        // C's char is signed on x86 and unsigned on Arm.
        let uuid = context.uuid().ok().map(|u| format_uuid(&u.bytes.map(|b| b.to_ne_bytes()[0])));
        let transfers = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(|e| Error::DriverFailed(describe(e)))?;
        let backend = Backend::Driver(context);
        Ok(Self::new(backend, info, transfers, driver_cuda, uuid))
    }

    /// Returns the emulated GPU. Kernels are compiled to PTX and run to completion during their launch; nothing is timed. Arrays, copies and launches
    /// work as on a GPU; events, graphs, pools and libraries are refused with [`Error::NotEmulated`].
    #[must_use]
    pub fn emulated() -> Self {
        Self::new(Backend::Emulator(Box::default()), emulator::info(), std::ptr::null_mut(), (0, 0), None)
    }

    fn new(
        backend: Backend,
        info: DeviceInfo,
        transfers: sys::CUstream,
        driver_cuda: (u32, u32),
        uuid: Option<String>,
    ) -> Self {
        Self(Arc::new(Inner {
            transfers,
            backend,
            info,
            driver_cuda,
            uuid,
            compiler: OnceLock::new(),
            memory: MemoryCounters::default(),
            streams: Streams::new(transfers),
            extensions: Mutex::default(),
            lost: OnceLock::new(),
            abandoned: AtomicBool::new(false),
        }))
    }

    /// Returns true if this is the emulated GPU, which cannot time anything.
    #[must_use]
    pub fn is_emulated(&self) -> bool {
        self.0.emulator().is_some()
    }

    /// Returns the device's name and limits.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// Returns the newest CUDA version that the driver supports; (0, 0) for an emulated device.
    #[must_use]
    pub fn driver_cuda(&self) -> (u32, u32) {
        self.0.driver_cuda
    }

    /// Returns true if the device was given up because a kernel on it never ends. A normal exit would wait for that kernel, so the process must call
    /// [`exit_at_once`].
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.0.abandoned.load(Ordering::Relaxed)
    }

    /// Returns true if both values share one opened device, so that objects created for one can be used with the other.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the device's UUID in NVML's notation, "GPU-...".
    #[must_use]
    pub fn uuid(&self) -> Option<&str> {
        self.0.uuid.as_deref()
    }

    /// Returns true if a kernel may be launched before its predecessor on the stream has ended. This needs compute capability 9.0 and, because launches
    /// may be captured in graphs, CUDA 12.3.
    #[must_use]
    pub fn has_programmatic_launch(&self) -> bool {
        self.0.has_programmatic_launch()
    }

    /// Returns the compiler for this device.
    ///
    /// # Errors
    /// Returns an error if NVRTC is missing.
    pub fn compiler(&self) -> Result<&Compiler> {
        let driver_cuda = (!self.is_emulated()).then_some(self.0.driver_cuda);
        self.0.compiler.get_or_init(|| Compiler::new(driver_cuda)).as_ref().map_err(Clone::clone)
    }

    /// Returns the architecture that a kernel is compiled for on this device: the device's own, such as "sm_90", or the exact one that the kernel needs.
    #[must_use]
    pub fn architecture_of(&self, spec: &KernelSpec) -> String {
        match &spec.requires {
            // Code for sm_90a differs from code for sm_90.
            Some(Requires::Exactly(name)) => name.to_string(),
            _ => self.0.info.architecture().unwrap_or_default(),
        }
    }

    /// Returns the free and the total device memory in bytes.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn memory(&self) -> Result<(u64, u64)> {
        if self.is_emulated() {
            let total = self.0.info.memory_bytes;
            return Ok((total.saturating_sub(self.allocated()), total));
        }
        self.0.bind()?;
        let (free, total) = result::mem_get_info().map_err(|e| self.0.error("Asking for the free memory", e))?;
        Ok((free as u64, total as u64))
    }

    /// Returns an error unless this many bytes are free, in addition to a reserve for the driver.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], which states the free bytes.
    pub fn ensure_free(&self, what: impl Into<String>, needed: u64) -> Result<()> {
        const RESERVE: u64 = 64 << 20;
        let (free, total) = self.memory()?;
        if needed > free.saturating_sub(RESERVE) {
            return Err(Error::OutOfMemory { what: what.into(), needed, free, total });
        }
        Ok(())
    }

    /// Returns the shape of a kernel's launch over this many items on this device.
    #[must_use]
    pub fn launch_shape(&self, spec: &KernelSpec, tile: &Tile, items: u64) -> Launch {
        over_items(spec, tile, items, self.0.info.multiprocessors)
    }
}

fn format_uuid(b: &[u8; 16]) -> String {
    let hex = |r: std::ops::Range<usize>| b[r].iter().map(|x| format!("{x:02x}")).collect::<String>();
    format!("GPU-{}-{}-{}-{}-{}", hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_reads_as_nvml_writes_it() {
        let bytes: [u8; 16] = std::array::from_fn(|i| i as u8 * 17);
        assert_eq!(format_uuid(&bytes), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }
}
