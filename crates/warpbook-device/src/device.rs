//! Chooses a device, and lists the devices of the machine.

use crate::cuda::driver;
use crate::libraries::nvml;
use crate::{CudaDevice, Error, Nvrtc, Result, cpu};
use std::fmt;
use std::str::FromStr;
use warpbook_record::{DeviceInfo, DeviceKind};

/// The device that the user requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// The CUDA device with the most multiprocessors, or the CPU if there is no CUDA.
    #[default]
    Best,
    /// The CPU.
    Cpu,
    /// The CUDA device with this index.
    Cuda(u32),
    /// The emulated GPU.
    Emulator,
}

impl Choice {
    /// Reads the choice from the environment variable `WARPBOOK_DEVICE`; [`Choice::Best`] if it is not set.
    ///
    /// # Errors
    /// [`Error::BadChoice`] if the variable's value names no device.
    pub fn from_env() -> Result<Self> {
        match std::env::var("WARPBOOK_DEVICE") {
            Ok(text) if !text.trim().is_empty() => text.parse(),
            _ => Ok(Self::Best),
        }
    }
}

impl FromStr for Choice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::BadChoice(text.into());
        match text.trim().to_ascii_lowercase().as_str() {
            "best" => Ok(Self::Best),
            "cpu" => Ok(Self::Cpu),
            "emulator" => Ok(Self::Emulator),
            "cuda" | "gpu" => Ok(Self::Cuda(0)),
            other => other.strip_prefix("cuda:").ok_or_else(bad)?.parse().map(Self::Cuda).map_err(|_| bad()),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Best => f.write_str("best"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(i) => write!(f, "cuda:{i}"),
            Self::Emulator => f.write_str("emulator"),
        }
    }
}

/// A device on which work runs.
#[derive(Debug, Clone)]
pub enum Device {
    /// An NVIDIA GPU.
    Cuda(CudaDevice),
    /// The emulated GPU: kernels run on the CPU, and nothing is timed.
    Emulator(CudaDevice),
    /// The CPU.
    Cpu(DeviceInfo),
}

impl Device {
    /// Opens the chosen device. Without CUDA, [`Choice::Best`] falls back on the CPU instead of failing.
    ///
    /// # Errors
    /// Returns an error if a specific device was requested and cannot be opened.
    pub fn open(choice: Choice) -> Result<Self> {
        match choice {
            Choice::Cpu => Ok(Self::Cpu(cpu::info())),
            Choice::Emulator => Ok(Self::Emulator(CudaDevice::emulated())),
            Choice::Cuda(index) => CudaDevice::open(index).map(Self::Cuda),
            Choice::Best => {
                let infos = Inventory::cuda_devices().unwrap_or_default();
                // Of several equal devices the first is chosen, because CUDA lists the fastest first.
                let best = infos.iter().rev().max_by_key(|i| i.multiprocessors);
                match best.map(|i| CudaDevice::open(i.index)) {
                    Some(Ok(device)) => Ok(Self::Cuda(device)),
                    _ => Ok(Self::Cpu(cpu::info())),
                }
            }
        }
    }

    /// Returns the name and the limits of the device.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        match self {
            Self::Cuda(device) | Self::Emulator(device) => device.info(),
            Self::Cpu(info) => info,
        }
    }

    /// Returns the device that runs CUDA kernels, which may be the emulator; `None` for the CPU.
    #[must_use]
    pub fn cuda(&self) -> Option<&CudaDevice> {
        match self {
            Self::Cuda(device) | Self::Emulator(device) => Some(device),
            Self::Cpu(_) => None,
        }
    }

    /// Returns the GPU, whose clocks can be read and on which work can be timed; `None` for the CPU and for the
    /// emulator.
    #[must_use]
    pub fn gpu(&self) -> Option<&CudaDevice> {
        self.cuda().filter(|device| !device.is_emulated())
    }
}

/// All devices of the machine, with the reasons if CUDA or NVRTC cannot be used.
#[derive(Debug, Clone)]
pub struct Inventory {
    /// The CUDA devices in CUDA's order, followed by the CPU.
    pub devices: Vec<DeviceInfo>,
    /// The newest CUDA that the driver supports, or the reason why there is no CUDA.
    pub cuda: Result<(u32, u32)>,
    /// Version of the kernel-mode driver, from NVML.
    pub driver: Option<String>,
    /// The NVRTC that would be used, or the reason why there is none.
    pub nvrtc: Result<Nvrtc>,
    /// Current clocks of each CUDA device; `None` for a device if NVML is not available.
    pub clocks: Vec<Option<warpbook_record::ClockReport>>,
}

impl Inventory {
    /// Inspects the machine without opening a device.
    #[must_use]
    pub fn take() -> Self {
        // If the driver cannot list its devices, CUDA cannot be used.
        let (cuda, mut devices) = match Self::cuda_devices() {
            Ok(devices) => (driver::driver(), devices),
            Err(why) => (Err(why), Vec::new()),
        };
        let clocks = devices.iter().map(|d| nvml::snapshot_of_index(d.index)).collect();
        devices.push(cpu::info());
        let nvrtc = Nvrtc::load(cuda.as_ref().ok().copied());
        Self { devices, driver: nvml::driver_version(), nvrtc, cuda, clocks }
    }

    /// Returns the version of the kernel-mode driver, from NVML.
    #[must_use]
    pub fn driver_version() -> Option<String> {
        nvml::driver_version()
    }

    /// Returns the CUDA devices, in CUDA's order.
    ///
    /// # Errors
    /// Returns an error if there is no driver, or it does not start.
    pub fn cuda_devices() -> Result<Vec<DeviceInfo>> {
        (0..driver::count()?).map(driver::info).collect()
    }

    /// Returns the GPUs among the devices.
    pub fn gpus(&self) -> impl Iterator<Item = &DeviceInfo> {
        self.devices.iter().filter(|d| d.kind == DeviceKind::Cuda)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read() {
        let check = |text: &str, expect: Option<Choice>| assert_eq!(text.parse::<Choice>().ok(), expect, "{text}");
        check("best", Some(Choice::Best));
        check(" CPU ", Some(Choice::Cpu));
        check("Emulator", Some(Choice::Emulator));
        check("cuda:3", Some(Choice::Cuda(3)));
        check("cuda", Some(Choice::Cuda(0)));
        check("cuda:-1", None);
        check("cuda:", None);
        check("tpu", None);
        for choice in [Choice::Best, Choice::Cpu, Choice::Cuda(7), Choice::Emulator] {
            assert_eq!(choice.to_string().parse::<Choice>().unwrap(), choice);
        }
    }

    #[test]
    fn the_cpu_is_always_there() {
        let inventory = Inventory::take();
        assert_eq!(inventory.devices.last().map(|d| d.kind), Some(DeviceKind::Cpu));
        assert_eq!(inventory.gpus().count() + 1, inventory.devices.len());
        assert!(Device::open(Choice::Best).is_ok());
    }

    #[test]
    fn a_device_that_is_not_there_is_an_error() {
        let message = Device::open(Choice::Cuda(4096)).unwrap_err().to_string();
        assert!(message.contains("cuda:4096") || message.contains("--device cpu"), "{message}");
    }
}
