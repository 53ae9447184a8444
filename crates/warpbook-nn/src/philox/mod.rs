//! Philox4x32-10 random numbers: the same bits on the CPU and on a GPU.
//!
//! A number depends only on its seed, stream id and index, so arrays can be drawn in parts, in any order, and on any device.
//! On the CPU the `fill_` functions draw them, on a GPU [`Philox`], which only queues kernels.
//!
//! Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Gaussian numbers are
//! drawn by the Box-Muller transform (1958) with single IEEE operations; permutations by a Feistel network (Luby and
//! Rackoff, 1988) that is iterated until the result falls into the range (Black and Rogaway, 2002).

mod cpu;
mod launch;

pub(crate) use cpu::blocks;
pub use cpu::{fill_gaussians, fill_permutation, fill_uniforms, gaussian, permute, philox4x32, philox4x32_4, uniform};
pub use launch::Philox;

use warpbook_device::{Buffer, CudaDevice, Result};

/// `n` standard Gaussian numbers, f32 `[n]`. It waits for them.
///
/// # Errors
/// The device's.
pub fn gaussians(device: &CudaDevice, seed: u64, stream_id: u32, n: usize) -> Result<Buffer<f32>> {
    let (philox, stream, out) = (Philox::new(device)?, device.stream()?, device.zeros(n)?);
    philox.gaussians_into(&stream, &out, seed, stream_id, 0)?;
    stream.synchronize()?;
    Ok(out)
}

/// A permutation of `0..n`, u64 `[n]`. It waits for it.
///
/// # Errors
/// The device's.
pub fn permutation(device: &CudaDevice, seed: u64, n: usize) -> Result<Buffer<u64>> {
    let (philox, stream, out) = (Philox::new(device)?, device.stream()?, device.zeros(n)?);
    philox.permutation_into(&stream, &out, seed, 0, n as u64)?;
    stream.synchronize()?;
    Ok(out)
}
