//! Column sums outside of a product, in two levels: the bias gradients of layers, and sums that are split over blocks.

use super::launch::Columns;
use super::{DeviceArray, Workspace};
use warpbook_device::{CudaDevice, Kernel, Result, Slice, Stream};
use warpbook_kernels::matmul::column_sums;
use warpbook_record::Dtype;

/// Chunks of rows whose sums are added in the second level, at most.
const CHUNKS: u32 = 256;
/// Rows of a chunk, at least.
const LEAST_ROWS: u32 = 64;

/// How the values of a column lie.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RowsOf {
    /// In `[rows][n]`.
    Matrix { rows: u32 },
    /// In `[images][n][pixels]`.
    Images { images: u32, pixels: u32 },
}

/// The sum of each of `n` columns; the same bits on every run.
#[derive(Debug, Clone)]
pub(crate) struct Sums {
    first: (Kernel, Columns),
    second: Option<(Kernel, Columns)>,
    is_transposed: bool,
}

impl Sums {
    /// Compiles and loads the kernels.
    pub fn new(device: &CudaDevice, dtype: Dtype, n: u32, rows: RowsOf) -> Result<Self> {
        let chunk = |rows: u32| rows.div_ceil(CHUNKS).max(LEAST_ROWS);
        let (first, is_transposed, chunks) = match rows {
            RowsOf::Matrix { rows } => {
                (Columns { n, k: rows, ld: n, rows: chunk(rows) }, false, rows.div_ceil(chunk(rows)))
            }
            RowsOf::Images { images, pixels } => {
                (Columns { n: images.saturating_mul(n), k: pixels, ld: pixels, rows: pixels }, true, images)
            }
        };
        let load = |dtype, is_transposed| {
            let spec = column_sums(dtype, is_transposed);
            device.kernel(&spec, &spec.tiles[0])
        };
        let second = Columns { n, k: chunks, ld: n, rows: chunks };
        let second = if chunks > 1 { Some((load(Dtype::F32, false)?, second)) } else { None };
        Ok(Self { first: (load(dtype, is_transposed)?, first), second, is_transposed })
    }

    /// The sums of the few rows of a f32 matrix, without a workspace.
    pub fn of_few(device: &CudaDevice, n: u32, rows: u32) -> Result<Self> {
        let spec = column_sums(Dtype::F32, false);
        let columns = Columns { n, k: rows, ld: n, rows };
        Ok(Self { first: (device.kernel(&spec, &spec.tiles[0])?, columns), second: None, is_transposed: false })
    }

    /// Bytes of the workspace for the first level's sums.
    pub fn workspace_bytes(&self) -> u64 {
        if self.second.is_some() { 4 * self.first.1.sums() as u64 } else { 0 }
    }

    /// Queues the sums of `from` into `out`, `[n]`.
    pub fn queue(&self, stream: &Stream, from: &DeviceArray, out: &Slice<f32>, workspace: &Workspace) -> Result<()> {
        let (kernel, columns) = &self.first;
        let Some((second, totals)) = &self.second else {
            return columns.queue(kernel, self.is_transposed, stream, from, out);
        };
        let sums = workspace.part(0, self.workspace_bytes()).cast::<f32>();
        columns.queue(kernel, self.is_transposed, stream, from, &sums)?;
        totals.queue(second, false, stream, &(&sums).into(), out)
    }
}
