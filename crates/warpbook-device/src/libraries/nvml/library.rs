//! Loads NVML's shared library, and declares the few functions that are used.

use crate::libraries::loader::{Handle, SharedLibrary, Status, library};
use std::ffi::{CStr, CString, c_char, c_uint, c_ulonglong};
use std::sync::OnceLock;

/// File name of the library, which the driver installs; the loader finds the folder.
const NAME: &str = if cfg!(windows) { "nvml.dll" } else { "libnvidia-ml.so.1" };
/// The constant `NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE`.
const VERSION_BYTES: usize = 80;
/// The sensor on the die, `NVML_TEMPERATURE_GPU`.
const ON_THE_DIE: c_uint = 0;

/// A clock, numbered as in `nvmlClockType_t`.
#[derive(Debug, Clone, Copy)]
#[repr(u32)]
pub(super) enum Clock {
    Sm = 1,
    Memory = 2,
}

/// The reason `nvmlClocksThrottleReasonSwPowerCap`.
pub(super) const POWER_CAP: u64 = 0x04;

/// The bits of `nvmlClocksThrottleReasons*` that mean lowered clocks, with descriptions.
pub(super) const THROTTLING: [(u64, &str); 7] = [
    (POWER_CAP, "power cap"),
    (0x08, "hardware slowdown"),
    (0x80, "external power brake"),
    (0x20, "temperature, by software"),
    (0x40, "temperature, by hardware"),
    (0x02, "clocks set by the user"),
    (0x10, "clocks kept equal with other GPUs"),
];

library! {
    /// The functions of nvml.h that are used; older drivers may lack some of them.
    struct NvmlCalls {
        fn init() -> Status = "nvmlInit_v2", optional;
        fn driver_version(*mut c_char, c_uint) -> Status = "nvmlSystemGetDriverVersion", optional;
        fn by_uuid(*const c_char, *mut Handle) -> Status = "nvmlDeviceGetHandleByUUID", optional;
        fn clock(Handle, c_uint, *mut c_uint) -> Status = "nvmlDeviceGetClockInfo", optional;
        fn power(Handle, *mut c_uint) -> Status = "nvmlDeviceGetPowerUsage", optional;
        fn power_limit(Handle, *mut c_uint) -> Status = "nvmlDeviceGetEnforcedPowerLimit", optional;
        fn temperature(Handle, c_uint, *mut c_uint) -> Status = "nvmlDeviceGetTemperature", optional;
        fn throttling(Handle, *mut c_ulonglong) -> Status = "nvmlDeviceGetCurrentClocksThrottleReasons", optional;
    }
}

/// The loaded and initialised NVML library.
pub(super) struct Nvml {
    calls: NvmlCalls,
    _file: SharedLibrary,
}

/// A GPU known to NVML.
#[derive(Clone, Copy)]
pub(super) struct Gpu {
    nvml: &'static Nvml,
    /// NVML's handle, which stays valid because `nvmlShutdown` is never called.
    handle: Handle,
}

impl Nvml {
    /// Returns NVML, which is loaded and initialised once per process; `None` if there is no
    /// driver.
    pub fn get() -> Option<&'static Self> {
        static NVML: OnceLock<Option<Nvml>> = OnceLock::new();
        NVML.get_or_init(Self::open).as_ref()
    }

    fn open() -> Option<Self> {
        let file = SharedLibrary::open(NAME).ok()?;
        let calls = NvmlCalls::load(&file.library).ok()?;
        // SAFETY: the function has no parameters, and it is the first function of the library that is called.
        (unsafe { calls.init?() } == 0).then_some(Self { calls, _file: file })
    }

    /// Returns the version of the kernel-mode driver.
    pub fn driver_version(&self) -> Option<String> {
        let call = self.calls.driver_version?;
        let mut text = [0_u8; VERSION_BYTES];
        // SAFETY: `text` has `VERSION_BYTES` bytes.
        let status = unsafe { call(text.as_mut_ptr().cast(), VERSION_BYTES as c_uint) };
        let version = CStr::from_bytes_until_nul(&text).ok()?.to_str().ok()?;
        (status == 0).then(|| version.to_owned())
    }

    /// Returns the GPU with this UUID, such as "GPU-00112233-4455-6677-8899-aabbccddeeff".
    pub fn gpu(&'static self, uuid: &str) -> Option<Gpu> {
        let (call, uuid) = (self.calls.by_uuid?, CString::new(uuid).ok()?);
        let mut handle = std::ptr::null_mut();
        // SAFETY: the string ends in NUL, and `handle` is live.
        let status = unsafe { call(uuid.as_ptr(), &raw mut handle) };
        (status == 0).then_some(Gpu { nvml: self, handle })
    }
}

impl Gpu {
    /// Returns the current frequency of a clock in MHz.
    pub fn clock(&self, clock: Clock) -> Option<u32> {
        let (call, mut mhz) = (self.nvml.calls.clock?, 0);
        // SAFETY: NVML returned the handle, and `mhz` is live.
        let status = unsafe { call(self.handle, clock as c_uint, &raw mut mhz) };
        (status == 0).then_some(mhz)
    }

    /// Returns the current power draw in milliwatts.
    pub fn power(&self) -> Option<u32> {
        let (call, mut milliwatts) = (self.nvml.calls.power?, 0);
        // SAFETY: NVML returned the handle, and `milliwatts` is live.
        let status = unsafe { call(self.handle, &raw mut milliwatts) };
        (status == 0).then_some(milliwatts)
    }

    /// Returns the power limit in force, in milliwatts: the lowest of all limits that apply.
    pub fn power_limit(&self) -> Option<u32> {
        let (call, mut milliwatts) = (self.nvml.calls.power_limit?, 0);
        // SAFETY: NVML returned the handle, and `milliwatts` is live.
        let status = unsafe { call(self.handle, &raw mut milliwatts) };
        (status == 0).then_some(milliwatts)
    }

    /// Returns the current temperature of the die in degrees Celsius.
    pub fn temperature(&self) -> Option<u32> {
        let (call, mut celsius) = (self.nvml.calls.temperature?, 0);
        // SAFETY: NVML returned the handle, and `celsius` is live.
        let status = unsafe { call(self.handle, ON_THE_DIE, &raw mut celsius) };
        (status == 0).then_some(celsius)
    }

    /// Returns the reasons why the clocks are lowered, as bits of [`THROTTLING`] and others.
    pub fn throttling(&self) -> Option<u64> {
        let (call, mut reasons) = (self.nvml.calls.throttling?, 0);
        // SAFETY: NVML returned the handle, and `reasons` is live.
        let status = unsafe { call(self.handle, &raw mut reasons) };
        (status == 0).then_some(reasons)
    }
}
