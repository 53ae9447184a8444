//! Philox4x32-10 random numbers on a GPU, with the same bits as [`warpbook_data::philox`] on the CPU, which cites the sources of the method.
//!
//! [`Philox`] only queues kernels; the functions of this module also wait for the results.

mod launch;

pub use launch::Philox;

use warpbook_device::{Buffer, CudaDevice, Result};

/// Draws `n` standard Gaussian numbers, f32 `[n]`, and waits for the result.
///
/// # Errors
/// If the device reports an error.
pub fn gaussians(device: &CudaDevice, seed: u64, stream_id: u32, n: usize) -> Result<Buffer<f32>> {
    let (philox, stream, out) = (Philox::new(device)?, device.stream()?, device.zeros(n)?);
    philox.gaussians_into(&stream, &out, seed, stream_id, 0)?;
    stream.synchronize()?;
    Ok(out)
}

/// Draws a permutation of `0..n`, u64 `[n]`, and waits for the result.
///
/// # Errors
/// If the device reports an error.
pub fn permutation(device: &CudaDevice, seed: u64, n: usize) -> Result<Buffer<u64>> {
    let (philox, stream, out) = (Philox::new(device)?, device.stream()?, device.zeros(n)?);
    philox.permutation_into(&stream, &out, seed, 0, n as u64)?;
    stream.synchronize()?;
    Ok(out)
}
