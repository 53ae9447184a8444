//! The device on which a network is computed, with its options.

use super::{CudaOptions, Precision, TrainError};
use std::fmt;
use warpbook_device::{CudaDevice, Device};

/// The place where a network is trained or used.
#[derive(Debug, Clone, Default)]
pub enum Place {
    /// The CPU, in fp32.
    #[default]
    Cpu,
    /// A GPU, with the options of the training.
    Cuda(CudaDevice, CudaOptions),
}

impl Place {
    /// Returns the place on a device in a precision, with the fastest options.
    ///
    /// # Errors
    /// If the precision is not fp32 on the CPU, or neither fp32 nor fp16 on a GPU below compute capability 8.0.
    pub fn new(device: &Device, precision: Precision) -> Result<Self, TrainError> {
        match device {
            Device::Cuda(device) | Device::Emulator(device) => {
                precision.check(device.info())?;
                Ok(Self::Cuda(device.clone(), CudaOptions::new(precision)))
            }
            Device::Cpu(_) if precision == Precision::Fp32 => Ok(Self::Cpu),
            Device::Cpu(_) => Err(TrainError::Setting(format!(
                "The CPU computes in fp32; {precision} needs a GPU: choose the device cuda:0 (--device cuda:0)."
            ))),
        }
    }
}

/// Computes on a device in fp32.
impl From<&Device> for Place {
    fn from(device: &Device) -> Self {
        match device {
            Device::Cuda(device) | Device::Emulator(device) => {
                Self::Cuda(device.clone(), CudaOptions::new(Precision::Fp32))
            }
            Device::Cpu(_) => Self::Cpu,
        }
    }
}

/// Compares devices and options.
impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cpu, Self::Cpu) => true,
            (Self::Cuda(a, a_options), Self::Cuda(b, b_options)) => {
                a.info().index == b.info().index && a_options == b_options
            }
            _ => false,
        }
    }
}

/// Writes "the CPU in fp32".
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("the CPU in fp32"),
            Self::Cuda(device, options) => write!(f, "{} in {}", device.info().name, options.precision),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_device::Choice;

    #[test]
    fn the_cpu_computes_in_fp32_only() {
        let cpu = Device::open(Choice::Cpu).unwrap();
        assert_eq!(Place::new(&cpu, Precision::Fp32).unwrap(), Place::Cpu);
        assert_eq!((Place::from(&cpu), Place::Cpu.to_string().as_str()), (Place::Cpu, "the CPU in fp32"));
        let sentence = Place::new(&cpu, Precision::AmpFp16).unwrap_err().to_string();
        assert!(sentence.contains("amp-fp16 needs a GPU"), "{sentence}");
    }
}
