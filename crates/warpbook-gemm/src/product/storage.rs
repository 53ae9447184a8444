//! Arrays on a device whose element type is chosen at run time.

use half::{bf16, f16};
use std::time::Duration;
use warpbook_data::parallel;
use warpbook_device::{Buffer, Communicator, CudaDevice, DevicePtr, Result};
use warpbook_record::Dtype;

/// An array of f32, f16 or bf16 on a device. `Tf32` is stored as f32.
#[derive(Debug)]
pub enum Storage {
    /// A buffer for `F32` or `Tf32`.
    F32(Buffer<f32>),
    /// A buffer for `F16`.
    F16(Buffer<f16>),
    /// A buffer for `Bf16`.
    Bf16(Buffer<bf16>),
}

impl Storage {
    /// Returns an array of these values, rounded to the type `dtype` (to nearest, ties to even).
    ///
    /// # Errors
    /// If the array does not fit into device memory.
    pub fn from_f32(device: &CudaDevice, values: &[f32], dtype: Dtype) -> Result<Self> {
        Ok(match dtype {
            Dtype::F16 => Self::F16(device.buffer_from(&parallel::to_f16(values))?),
            Dtype::Bf16 => Self::Bf16(device.buffer_from(&parallel::to_bf16(values))?),
            _ => Self::F32(device.buffer_from(values)?),
        })
    }

    /// Returns an array of zeros.
    ///
    /// # Errors
    /// If the array does not fit into device memory.
    pub fn zeros(device: &CudaDevice, len: usize, dtype: Dtype) -> Result<Self> {
        Ok(match dtype {
            Dtype::F16 => Self::F16(device.zeros(len)?),
            Dtype::Bf16 => Self::Bf16(device.zeros(len)?),
            _ => Self::F32(device.zeros(len)?),
        })
    }

    /// Returns an array of zeros in a memory window that all ranks share; see [`Communicator::zeros`].
    ///
    /// # Errors
    /// Returns the errors of [`Communicator::zeros`].
    pub fn zeros_of_ranks(ranks: &Communicator, len: usize, dtype: Dtype, limit: Duration) -> Result<Self> {
        Ok(match dtype {
            Dtype::F16 => Self::F16(ranks.zeros(len, limit)?),
            Dtype::Bf16 => Self::Bf16(ranks.zeros(len, limit)?),
            _ => Self::F32(ranks.zeros(len, limit)?),
        })
    }

    /// Returns the values as f32. It does not wait for streams.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        Ok(match self {
            Self::F32(b) => b.to_vec()?,
            Self::F16(b) => parallel::from_f16(&b.to_vec()?),
            Self::Bf16(b) => parallel::from_bf16(&b.to_vec()?),
        })
    }

    /// Copies values to the array, rounded to its type.
    ///
    /// # Errors
    /// If the driver reports an error.
    ///
    /// # Panics
    /// If the number of values differs from the number of elements.
    pub fn write_f32(&self, values: &[f32]) -> Result<()> {
        match self {
            Self::F32(b) => b.write(values),
            Self::F16(b) => b.write(&parallel::to_f16(values)),
            Self::Bf16(b) => b.write(&parallel::to_bf16(values)),
        }
    }

    /// Returns true for each element that still has all bits set, as after `fill_bytes(0xff)`: no arithmetic gives such a NaN.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn untouched(&self) -> Result<Vec<bool>> {
        Ok(match self {
            Self::F32(b) => b.to_vec()?.iter().map(|v| v.to_bits() == u32::MAX).collect(),
            Self::F16(b) => b.to_vec()?.iter().map(|v| v.to_bits() == u16::MAX).collect(),
            Self::Bf16(b) => b.to_vec()?.iter().map(|v| v.to_bits() == u16::MAX).collect(),
        })
    }

    /// Returns the address of an element, for a kernel.
    ///
    /// # Panics
    /// If `index` is past the end.
    #[must_use]
    pub fn at(&self, index: usize) -> DevicePtr {
        match self {
            Self::F32(b) => b.at(index),
            Self::F16(b) => b.at(index),
            Self::Bf16(b) => b.at(index),
        }
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F32(b) => b.len(),
            Self::F16(b) => b.len(),
            Self::Bf16(b) => b.len(),
        }
    }

    /// Returns true if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets every byte to a value, and waits until that is done.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn fill_bytes(&self, byte: u8) -> Result<()> {
        match self {
            Self::F32(b) => b.fill_bytes(byte),
            Self::F16(b) => b.fill_bytes(byte),
            Self::Bf16(b) => b.fill_bytes(byte),
        }
    }
}

/// Converts bytes of f32, f16 or bf16 to f32.
pub fn decoded(bytes: &[u8], dtype: Dtype) -> Vec<f32> {
    let pairs = || bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    match dtype {
        Dtype::F16 => pairs().map(|b| f16::from_bits(b).to_f32()).collect(),
        Dtype::Bf16 => pairs().map(|b| bf16::from_bits(b).to_f32()).collect(),
        _ => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
    }
}

/// Rounds a value to a type; for `Tf32` to its upper 19 bits, which tensor cores read.
#[must_use]
pub fn rounded(v: f32, dtype: Dtype) -> f32 {
    match dtype {
        Dtype::F16 => f16::from_f32(v).to_f32(),
        Dtype::Bf16 => bf16::from_f32(v).to_f32(),
        Dtype::Tf32 => f32::from_bits(v.to_bits() & !0x1fff),
        _ => v,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_rounded_as_their_type_does() {
        let check = |dtype, v: f32, expect: f32| assert_eq!(rounded(v, dtype), expect, "{v} as {dtype:?}");
        check(Dtype::Bf16, 1.0 + 1.0 / 512.0, 1.0);
        check(Dtype::Bf16, 1.0 + 3.0 / 256.0, 1.0 + 2.0 / 128.0);
        check(Dtype::F16, 1.0 + 1.0 / 1024.0, 1.0 + 1.0 / 1024.0);
        check(Dtype::F16, 70000.0, f32::INFINITY);
        check(Dtype::Tf32, 1.0 + 1.9 / 1024.0, 1.0 + 1.0 / 1024.0);
        check(Dtype::F32, 0.1, 0.1);
        assert!(rounded(f32::NAN, Dtype::Bf16).is_nan());
    }
}
