//! Column sums outside of a product, in two levels: the bias gradients of layers, and sums split over blocks.

use crate::plan::launch::Columns;
use crate::plan::sums_launch::{Vectors, queue_total_sums};
use crate::product::ArraySpec;
use crate::{DeviceArray, Workspace, refused};
use warpbook_device::{CudaDevice, Error, Kernel, Result, Slice, Stream};
use warpbook_kernels::matmul::column_sums;
use warpbook_kernels::nn::{partial_sums, total_sums, total_sums_of};
use warpbook_record::{Dtype, KernelSpec};

/// Largest number of chunks of rows. The second level adds the sums of the chunks.
const CHUNKS: u32 = 512;
/// Least number of rows in a chunk.
const LEAST_ROWS: u32 = 64;

/// Layout of the values that are summed into a column.
#[derive(Debug, Clone, Copy)]
pub enum RowsOf {
    /// Rows of a matrix, `[rows][n]`.
    Matrix {
        /// Number of rows that are added up.
        rows: u32,
    },
    /// Pixels of images, `[images][n][pixels]`.
    Images {
        /// Number of images in the batch.
        images: u32,
        /// Number of pixels in a channel of an image.
        pixels: u32,
    },
}

/// Sums each of `n` columns, with the same bits on every run.
#[derive(Debug, Clone)]
pub struct Sums {
    n: u32,
    first: First,
    /// Kernel of the second level, which adds the rows that the first level leaves.
    total: Kernel,
    rows: u32,
}

#[derive(Debug, Clone)]
enum First {
    /// There are few rows, so the first level is skipped.
    None,
    /// Sums over chunks of rows, with 16 bytes of columns per thread.
    Vectors { kernel: Kernel, dtype: Dtype, rows: u32, chunk: u32 },
    /// Sums element by element, for columns that are not whole vectors.
    Elements { kernel: Kernel, columns: Columns },
    /// Sums over the pixels of each image.
    Images { kernel: Kernel, columns: Columns },
}

fn load(device: &CudaDevice, spec: &KernelSpec) -> Result<Kernel> {
    device.kernel(spec, &spec.tiles[0])
}

impl Sums {
    /// Compiles and loads the kernels.
    ///
    /// # Errors
    /// If a kernel does not compile, or the driver refuses it.
    pub fn new(device: &CudaDevice, dtype: Dtype, n: u32, rows: RowsOf) -> Result<Self> {
        let total = load(device, &total_sums())?;
        let (first, rows) = match rows {
            RowsOf::Matrix { rows } => {
                let chunk = rows.div_ceil(CHUNKS).max(LEAST_ROWS);
                let first = if (u64::from(n) * dtype.bytes()).is_multiple_of(16) {
                    First::Vectors { kernel: load(device, &partial_sums(dtype))?, dtype, rows, chunk }
                } else {
                    let columns = Columns { n, k: rows, ld: n, rows: chunk };
                    First::Elements { kernel: load(device, &column_sums(dtype, false))?, columns }
                };
                (first, rows.div_ceil(chunk))
            }
            RowsOf::Images { images, pixels } => {
                let columns = Columns { n: images.saturating_mul(n), k: pixels, ld: pixels, rows: pixels };
                (First::Images { kernel: load(device, &column_sums(dtype, true))?, columns }, images)
            }
        };
        Ok(Self { n, first, total, rows })
    }

    /// Prepares the sums of an f32 matrix with few rows that begins at a multiple of 16 bytes. Such sums need no workspace.
    ///
    /// # Errors
    /// If the kernel does not compile, or the driver refuses it.
    pub fn of_few(device: &CudaDevice, n: u32, rows: u32) -> Result<Self> {
        Ok(Self { n, first: First::None, total: load(device, &total_sums_of(n))?, rows })
    }

    /// Returns the number of bytes of workspace for the sums of the first level.
    pub fn workspace_bytes(&self) -> u64 {
        if matches!(self.first, First::None) { 0 } else { 4 * u64::from(self.n) * u64::from(self.rows) }
    }

    /// Queues the sums of `from` into `out`, `[n]`.
    ///
    /// # Errors
    /// If an array has the wrong length or type, `from` is not aligned to 16 bytes where this is needed, or a launch is refused.
    pub fn queue(&self, stream: &Stream, from: &DeviceArray, out: &Slice<f32>, workspace: &Workspace) -> Result<()> {
        let sums = || workspace.part(0, self.workspace_bytes()).cast::<f32>();
        match &self.first {
            First::None => self.queue_total(stream, from, out),
            First::Vectors { kernel, dtype, rows, chunk } => {
                let sums = sums();
                let len = *rows as usize * self.n as usize;
                from.spec().holds("The columns", ArraySpec { dtype: *dtype, len }).map_err(refused)?;
                aligned(from)?;
                let vectors = Vectors { n: self.n, rows: *rows, chunk: *chunk, chunks: self.rows, dtype: *dtype };
                vectors.queue(kernel, stream, from, &sums)?;
                self.queue_total(stream, &(&sums).into(), out)
            }
            First::Elements { kernel, columns } | First::Images { kernel, columns } => {
                let sums = sums();
                let is_transposed = matches!(self.first, First::Images { .. });
                columns.queue(kernel, is_transposed, stream, from, &sums)?;
                self.queue_total(stream, &(&sums).into(), out)
            }
        }
    }

    fn queue_total(&self, stream: &Stream, from: &DeviceArray, out: &Slice<f32>) -> Result<()> {
        DeviceArray::from(out).spec().holds("The totals", f32s(self.n as usize)).map_err(refused)?;
        self.queue_parts(stream, from, (out, None))
    }

    /// Queues the column sums of a matrix `from` with few rows. The first columns go to `out`, as many as it has room for, and the others to `rest`, if given.
    ///
    /// # Errors
    /// If an array has the wrong length or type, `from` is not aligned to 16 bytes, or the launch is refused.
    pub fn queue_parts(
        &self,
        stream: &Stream,
        from: &DeviceArray,
        (out, rest): (&Slice<f32>, Option<&Slice<f32>>),
    ) -> Result<()> {
        let (rows, n) = (self.rows as usize, self.n as usize);
        from.spec().holds("The sums", f32s(rows * n)).map_err(refused)?;
        if let Some(rest) = rest {
            DeviceArray::from(rest)
                .spec()
                .holds("The other totals", f32s(n.saturating_sub(out.len())))
                .map_err(refused)?;
        }
        aligned(from)?;
        queue_total_sums(&self.total, stream, from, [self.rows, self.n], (out, rest))
    }
}

fn aligned(from: &DeviceArray) -> Result<()> {
    if from.address().is_aligned(16) {
        return Ok(());
    }
    Err(Error::Unsupported {
        what: "Column sums".into(),
        why: "need an array that starts at a multiple of 16 bytes; align it".into(),
    })
}

fn f32s(len: usize) -> ArraySpec {
    ArraySpec { dtype: Dtype::F32, len }
}
