#![allow(unsafe_code)]

use warpbook_device::{CudaDevice, Error, Kernel, KernelArg, Result, Slice, Stream};
use warpbook_kernels as kernels;

/// Kernels that draw random numbers on a device, loaded once.
///
/// Each function queues one kernel and waits for nothing, so it can be captured; the graph then owns the array. The numbers have the same bits as the numbers
/// of the CPU functions.
#[derive(Debug, Clone)]
pub struct Philox {
    gaussians: Kernel,
    uniforms: Kernel,
    permutation: Kernel,
}

impl Philox {
    /// Compiles and loads the kernels.
    ///
    /// # Errors
    /// If the compiler or the device reports an error.
    pub fn new(device: &CudaDevice) -> Result<Self> {
        let load = |spec: &warpbook_record::KernelSpec| device.kernel(spec, &spec.tiles[0]);
        Ok(Self {
            gaussians: load(&kernels::gaussians())?,
            uniforms: load(&kernels::uniforms())?,
            permutation: load(&kernels::permutation())?,
        })
    }

    /// Fills `out`, f32 `[n]`, with the standard Gaussian numbers `first_index` to `first_index + n - 1` of the random stream with this id.
    ///
    /// # Errors
    /// If the launch is refused.
    pub fn gaussians_into(
        &self,
        stream: &Stream,
        out: &Slice<f32>,
        seed: u64,
        stream_id: u32,
        first_index: u64,
    ) -> Result<()> {
        let n = out.len() as u64;
        // SAFETY: the arguments match `gaussians(out, n, seed, stream, first)`, and `out` has n elements.
        unsafe { fill(&self.gaussians, stream, n, &[out, &n, &seed, &stream_id, &first_index]) }
    }

    /// Fills `out`, f32 `[n]`, with the uniform numbers in (0, 1) `first_index` to `first_index + n - 1` of the random stream with this id.
    ///
    /// # Errors
    /// If the launch is refused.
    pub fn uniform_into(
        &self,
        stream: &Stream,
        out: &Slice<f32>,
        seed: u64,
        stream_id: u32,
        first_index: u64,
    ) -> Result<()> {
        let n = out.len() as u64;
        // SAFETY: the arguments match `uniforms(out, n, seed, stream, first)`, and `out` has n elements.
        unsafe { fill(&self.uniforms, stream, n, &[out, &n, &seed, &stream_id, &first_index]) }
    }

    /// Fills `out`, u64 `[n]`, with the elements `first_index` to `first_index + n - 1` of a permutation of `0..of`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the permutation does not have these elements, or has more than 2^62 elements; also returns an error if the launch is refused.
    pub fn permutation_into(
        &self,
        stream: &Stream,
        out: &Slice<u64>,
        seed: u64,
        first_index: u64,
        of: u64,
    ) -> Result<()> {
        let n = out.len() as u64;
        if of > 1 << 62 || first_index.checked_add(n).is_none_or(|end| end > of) {
            return Err(Error::Unsupported {
                what: format!("A permutation of {of} elements"),
                why: format!(
                    "does not have {n} elements from {first_index} on, or has more than 2^62 in total; request fewer"
                ),
            });
        }
        // SAFETY: the arguments match `permutation(out, n, seed, first, of)`, and `out` has n elements.
        unsafe { fill(&self.permutation, stream, n, &[out, &n, &seed, &first_index, &of]) }
    }
}

/// Queues one of the kernels over `n` elements.
///
/// # Safety
/// The arguments must be those that the kernel declares, the first of them an array of `n` elements.
unsafe fn fill(kernel: &Kernel, stream: &Stream, n: u64, args: &[&dyn KernelArg]) -> Result<()> {
    // SAFETY: the caller guarantees that the arguments match the kernel. Freeing the array waits for running kernels, and a graph that captures the launch owns
    // it.
    unsafe { kernel.launch(stream, kernel.shape(n), args) }
}
