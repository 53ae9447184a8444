//! Batch normalisation on a GPU, for both layouts of images.

use super::launch::{self, NormShape};
use super::{BatchNorm, OP};
use crate::ops::Layout;
use crate::ops::error::Check;
use warpbook_device::{CudaDevice, Kernel, Result, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::load;
use warpbook_kernels::Launch;
use warpbook_record::Dtype;

/// The kernels of batch normalisation, loaded for one element type and one layout.
#[derive(Debug, Clone)]
pub struct Normalisation {
    dtype: Dtype,
    layout: Layout,
    sums: [Kernel; 2],
    totals: Kernel,
    statistics: Kernel,
    inverse: Kernel,
    normalise: Kernel,
    lines: Kernel,
    backward: Kernel,
}

/// Two `[channels]` vectors of a layer on the device: gamma and beta, mean and variance, or mean and inverse deviation.
pub type Pair<'a> = [&'a Slice<f32>; 2];

/// Temporary memory of a pass.
#[derive(Debug, Clone, Copy)]
pub struct NormWorkspace<'a> {
    /// Partial sums: [`Normalisation::sums_len`] elements.
    pub sums: &'a Slice<f64>,
    /// Coefficients of the backward pass, `[3][channels]`.
    pub lines: &'a Slice<f32>,
    /// Set if the statistics cover several ranks' rows.
    pub across: Option<Across<'a>>,
}

/// Joins the statistics of several ranks, each of which has some of the rows.
#[derive(Clone, Copy)]
pub struct Across<'a> {
    /// Number of rows on all ranks.
    pub rows: usize,
    /// True if the statistics include this rank's rows.
    pub counts: bool,
    /// Sums over all ranks, `[2][channels]`.
    pub totals: &'a Slice<f64>,
    /// Function that queues the addition of the other ranks' values to an array.
    pub add: &'a dyn Fn(&Stream, &Slice<f64>) -> Result<()>,
}

impl std::fmt::Debug for Across<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Across({} rows)", self.rows)
    }
}

/// Largest number of channels per block in NHWC.
const TILE: u32 = 256;

/// Largest number of blocks that share the rows of 256 channels: about three for each of an H200's 132 SMs.
const MOST_CHUNKS: usize = 384;

/// Returns the smallest number of rows that a block sums, unless there are fewer.
fn least_rows(layout: Layout) -> usize {
    if layout == Layout::Nhwc { 64 } else { 256 }
}

/// Returns the number of rows that a block sums. It depends on the number of rows and the layout, so that every device adds in the same order.
fn chunk(rows: usize, layout: Layout) -> usize {
    rows.div_ceil(MOST_CHUNKS).max(least_rows(layout))
}

impl Normalisation {
    /// Compiles and loads the kernels.
    ///
    /// # Errors
    /// If compiling fails or the device reports an error.
    pub fn new(device: &CudaDevice, dtype: Dtype, layout: Layout) -> Result<Self> {
        let k = warpbook_kernels::nn::batch_norm(dtype, layout);
        let sums = load(device, [k.sums_forward, k.sums_backward])?;
        let rest = [k.totals, k.statistics, k.inverse_deviation, k.normalise, k.lines, k.backward];
        let [totals, statistics, inverse, normalise, lines, backward] = load(device, rest)?;
        Ok(Self { dtype, layout, sums, totals, statistics, inverse, normalise, lines, backward })
    }

    /// Returns the number of elements of [`NormWorkspace::sums`]. It is enough for every smaller number of rows, too.
    #[must_use]
    pub fn sums_len(b: &BatchNorm) -> usize {
        // This is not the number of chunks: fewer rows can have more chunks, as in the last batch of an epoch. NCHW never has more chunks than NHWC.
        b.rows.div_ceil(least_rows(Layout::Nhwc)).min(MOST_CHUNKS) * 2 * b.channels
    }

    /// Checks the sizes and returns the kernels' shape; `pixels` is height x width of an image and divides the rows.
    fn check(
        &self,
        b: &BatchNorm,
        pixels: usize,
        arrays: &[(&'static str, &DeviceArray)],
        vectors: &[(&'static str, &Slice<f32>)],
    ) -> Result<NormShape> {
        let check = Check(OP);
        let lengths: Vec<_> = arrays.iter().map(|(name, a)| (*name, a.len())).collect();
        let vectors: Vec<_> = vectors.iter().map(|(name, v)| (*name, v.len())).collect();
        b.check(&lengths, &vectors)?;
        for (name, array) in arrays {
            check.arrays(self.dtype, &[(name, array, &[b.rows, b.channels])])?;
        }
        check.word("the number of elements", b.rows.saturating_mul(b.channels).saturating_add(1 << 12))?;
        let divides = pixels > 0 && b.rows.is_multiple_of(pixels);
        check.value("the pixels of an image", pixels, divides, "at least 1 and a divisor of the rows")?;
        let word = |size| check.word("a size", size);
        // In NHWC the rows are contiguous.
        let pixels = if self.layout == Layout::Nchw { word(pixels)? } else { 1 };
        Ok(NormShape {
            rows: word(b.rows)?,
            channels: word(b.channels)?,
            pixels,
            chunk: word(chunk(b.rows, self.layout))?,
        })
    }

    fn check_workspace(b: &BatchNorm, w: NormWorkspace<'_>) -> Result<()> {
        b.check_training()?;
        Ok(Check(OP).lengths(&[
            ("the workspace's sums", w.sums.len(), &[Self::sums_len(b)]),
            ("the workspace's lines", w.lines.len(), &[3, b.channels]),
        ])?)
    }

    /// Returns the sums over all rows that the statistics cover, and the shape with which kernels read them.
    fn totals_over_ranks<'a>(
        &self,
        stream: &Stream,
        s: NormShape,
        NormWorkspace { sums, across, .. }: NormWorkspace<'a>,
    ) -> Result<(NormShape, &'a Slice<f64>)> {
        let Some(across) = across else { return Ok((s, sums)) };
        let check = Check(OP);
        check.lengths(&[("the totals", across.totals.len(), &[2, s.channels as usize])])?;
        let rows = check.word("the rows of all ranks", across.rows)?;
        launch::totals(&self.totals, stream, s, sums, across.counts, across.totals)?;
        (across.add)(stream, across.totals)?;
        Ok((NormShape { rows, chunk: rows, ..s }, across.totals))
    }

    /// Returns the launch with one block for each chunk of rows and each channel, or each [`TILE`] channels in NHWC.
    fn sums_shape(&self, kernel: &Kernel, s: NormShape) -> Launch {
        let across = if self.layout == Layout::Nchw { s.channels } else { s.channels.div_ceil(TILE) };
        Launch { grid: [s.rows.div_ceil(s.chunk).saturating_mul(across), 1, 1], ..kernel.shape(1) }
    }

    /// Returns the launch of a resident grid over the elements; in NHWC each [`TILE`] channels get the same number of blocks, at least one.
    fn elements_shape(&self, kernel: &Kernel, s: NormShape) -> Launch {
        let shape = kernel.shape(s.elements());
        let tiles = if self.layout == Layout::Nchw { 1 } else { s.channels.div_ceil(TILE) };
        Launch { grid: [(shape.grid[0] / tiles).max(1).saturating_mul(tiles), 1, 1], ..shape }
    }

    /// Queues the computation of y with the statistics of the batch, computed `across` ranks if they share the batch. The statistics are saved
    /// (mean and inverse deviation) and included in the running statistics (mean and variance). `pixels` is height x width; it matters for NCHW
    /// only, and may be 1 otherwise.
    ///
    /// # Errors
    /// If a size is zero, a setting is out of range, an array has the wrong length or type, there is a single
    /// row, or there are 2^32 - 2^12 elements or more; if a launch fails.
    pub fn forward_training(
        &self,
        stream: &Stream,
        (b, pixels): (&BatchNorm, usize),
        (x, y): (&DeviceArray, &DeviceArray),
        [gamma, beta]: Pair<'_>,
        ([running_mean, running_variance], [mean, inverse]): (Pair<'_>, Pair<'_>),
        workspace: NormWorkspace<'_>,
    ) -> Result<()> {
        let vectors = [
            ("gamma", gamma),
            ("beta", beta),
            ("the running mean", running_mean),
            ("the running variance", running_variance),
            ("the saved mean", mean),
            ("the saved inverse deviation", inverse),
        ];
        let s = self.check(b, pixels, &[("x", x), ("y", y)], &vectors)?;
        Self::check_workspace(b, workspace)?;
        let sums = &self.sums[0];
        launch::sums_forward(sums, stream, self.sums_shape(sums, s), s, x, workspace.sums)?;
        let (of_all, totals) = self.totals_over_ranks(stream, s, workspace)?;
        let factors = [b.epsilon, b.momentum];
        let written = [running_mean, running_variance, mean, inverse];
        launch::statistics(&self.statistics, stream, of_all, totals, factors, written)?;
        launch::normalise(
            &self.normalise,
            stream,
            self.elements_shape(&self.normalise, s),
            s,
            (x, y),
            [gamma, beta],
            [mean, inverse],
        )
    }

    /// Queues the computation of y from x with the running mean and variance.
    ///
    /// # Errors
    /// Returns the same errors as [`Normalisation::forward_training`], except that a single row is allowed.
    pub fn forward_inference(
        &self,
        stream: &Stream,
        (b, pixels): (&BatchNorm, usize),
        (x, y): (&DeviceArray, &DeviceArray),
        ([gamma, beta], [mean, variance]): (Pair<'_>, Pair<'_>),
        lines: &Slice<f32>,
    ) -> Result<()> {
        let vectors =
            [("gamma", gamma), ("beta", beta), ("the running mean", mean), ("the running variance", variance)];
        let s = self.check(b, pixels, &[("x", x), ("y", y)], &vectors)?;
        Check(OP).lengths(&[("the workspace's lines", lines.len(), &[3, b.channels])])?;
        let inverse = lines.range(..b.channels);
        launch::inverse_deviation(&self.inverse, stream, s, (variance, b.epsilon), &inverse)?;
        launch::normalise(
            &self.normalise,
            stream,
            self.elements_shape(&self.normalise, s),
            s,
            (x, y),
            [gamma, beta],
            [mean, &inverse],
        )
    }

    /// Queues dx, dgamma and dbeta after [`Normalisation::forward_training`], which saved mean and inverse deviation. dx uses the sums over all
    /// ranks in `across`; dgamma and dbeta cover this rank's rows only.
    ///
    /// # Errors
    /// See [`Normalisation::forward_training`].
    pub fn backward(
        &self,
        stream: &Stream,
        (b, pixels): (&BatchNorm, usize),
        [x, dy, dx]: [&DeviceArray; 3],
        (gamma, [mean, inverse]): (&Slice<f32>, Pair<'_>),
        [dgamma, dbeta]: Pair<'_>,
        workspace: NormWorkspace<'_>,
    ) -> Result<()> {
        let vectors = [
            ("gamma", gamma),
            ("the saved mean", mean),
            ("the saved inverse deviation", inverse),
            ("dgamma", dgamma),
            ("dbeta", dbeta),
        ];
        let s = self.check(b, pixels, &[("x", x), ("dy", dy), ("dx", dx)], &vectors)?;
        Self::check_workspace(b, workspace)?;
        let NormWorkspace { sums, lines, across } = workspace;
        let kernel = &self.sums[1];
        launch::sums_backward(kernel, stream, self.sums_shape(kernel, s), s, [x, dy], [mean, inverse], sums)?;
        launch::lines(&self.lines, stream, s, sums, [gamma, inverse, lines], Some([dgamma, dbeta]))?;
        if let Some(across) = across {
            let (of_all, totals) = self.totals_over_ranks(stream, s, workspace)?;
            // Placeholder rows have no gradient: the coefficients from this rank's own sums keep their gradient zero.
            if across.counts {
                launch::lines(&self.lines, stream, of_all, totals, [gamma, inverse, lines], None)?;
            }
        }
        launch::backward(&self.backward, stream, self.elements_shape(&self.backward, s), s, [x, dy, dx], [mean, lines])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_of_a_batch_is_enough_for_every_smaller_one() {
        let sums = |rows| Normalisation::sums_len(&BatchNorm { rows, channels: 1, epsilon: 1e-5, momentum: 0.1 });
        for layout in [Layout::Nhwc, Layout::Nchw] {
            let chunks = |rows: usize| rows.div_ceil(chunk(rows, layout));
            let mut most = 0;
            for rows in 1..200_000 {
                most = most.max(2 * chunks(rows));
                assert!(sums(rows) >= most, "{rows} rows, {layout:?}");
            }
        }
        // The first number of rows with a chunk more than 64 has fewer chunks than the number before it.
        let chunks = |rows: usize| rows.div_ceil(chunk(rows, Layout::Nhwc));
        assert_eq!((chunks(24_576), chunks(24_577)), (384, 379));
    }
}
