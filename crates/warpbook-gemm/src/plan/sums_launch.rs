//! Launches column sums. Callers check types, lengths and alignment.
#![allow(unsafe_code)]

use crate::DeviceArray;
use crate::kernel_args::optional;
use warpbook_device::{Kernel, KernelArg, Result, Slice, Stream};
use warpbook_kernels::Launch;
use warpbook_record::{Dim, Dtype};

/// Column sums over chunks of rows, with 16 bytes of columns per thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vectors {
    pub n: u32,
    pub rows: u32,
    /// Number of rows in a chunk, and number of chunks.
    pub chunk: u32,
    pub chunks: u32,
    pub dtype: Dtype,
}

impl Vectors {
    /// Queues the sums of `from`, `[rows][n]` and aligned to 16 bytes, into `sums`, `[chunks][n]`.
    ///
    /// # Errors
    /// If the launch is refused.
    pub fn queue(&self, kernel: &Kernel, stream: &Stream, from: &DeviceArray, sums: &Slice<f32>) -> Result<()> {
        let groups = u32::try_from(u64::from(self.n) * self.dtype.bytes() / 16).unwrap_or(u32::MAX);
        let across = groups.next_power_of_two().min(8);
        let blocks = groups.div_ceil(across).saturating_mul(self.chunks);
        let shape = Launch { grid: [blocks, 1, 1], ..kernel.shape(1) };
        let args: [&dyn KernelArg; 6] = [from.bytes(), &self.rows, &self.n, &self.chunk, &across, sums];
        // SAFETY: the arguments match `partial_sums(from, rows, n, chunk, across, out)`, and the grid has one block for each chunk and each set of `across`
        // groups. The callers check types, lengths and alignment.
        unsafe { kernel.launch(stream, shape, &args) }
    }
}

/// Queues the sums of the rows of `from`, f32 `[rows][n]`: the first columns go to `out`, `[first]`, and the columns after them to `rest`.
pub(crate) fn queue_total_sums(
    kernel: &Kernel,
    stream: &Stream,
    from: &DeviceArray,
    [rows, n]: [u32; 2],
    (out, rest): (&Slice<f32>, Option<&Slice<f32>>),
) -> Result<()> {
    let columns = u32::try_from(kernel.tile().size(Dim::Bn)).unwrap_or(1);
    let shape = Launch { grid: [n.div_ceil(columns), 1, 1], ..kernel.shape(1) };
    let first = out.len() as u32;
    let args: [&dyn KernelArg; 6] = [from.bytes(), &rows, &n, &first, out, optional(rest)];
    // SAFETY: the arguments match `total_sums(from, rows, n, first, out, rest)`, or `wide_total_sums` with the same parameters. The grid has one block for each
    // tile of columns, and `from` is aligned to 16 bytes. The callers check types, lengths and alignment.
    unsafe { kernel.launch(stream, shape, &args) }
}
