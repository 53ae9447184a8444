#![allow(unsafe_code)]

use warpbook_device::{Buffer, CudaDevice, Result};
use warpbook_record::kernels;

/// `n` standard Gaussian numbers, f32 `[n]`.
///
/// # Errors
/// The device's.
pub fn gaussians(device: &CudaDevice, seed: u64, stream: u32, n: usize) -> Result<Buffer<f32>> {
    let spec = kernels::gaussians();
    let kernel = device.kernel(&spec, &spec.tiles[0])?;
    let out = device.zeros(n)?;
    let queue = device.stream()?;
    // SAFETY: gaussians(out, n, seed, stream); `out` has n elements and lives past the wait.
    unsafe { kernel.launch(&queue, kernel.shape(n as u64), &[&out, &(n as u64), &seed, &stream]) }?;
    queue.synchronize()?;
    Ok(out)
}

/// A permutation of `0..n`, u64 `[n]`.
///
/// # Errors
/// The device's.
pub fn permutation(device: &CudaDevice, seed: u64, n: usize) -> Result<Buffer<u64>> {
    let spec = kernels::permutation();
    let kernel = device.kernel(&spec, &spec.tiles[0])?;
    let out = device.zeros(n)?;
    let queue = device.stream()?;
    // SAFETY: permutation(out, n, seed); `out` has n elements and lives past the wait.
    unsafe { kernel.launch(&queue, kernel.shape(n as u64), &[&out, &(n as u64), &seed]) }?;
    queue.synchronize()?;
    Ok(out)
}
