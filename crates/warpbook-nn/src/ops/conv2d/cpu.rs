//! CPU implementation: windows are unrolled block by block into a matrix that stays in the L2 cache, and multiplied.
//!
//! Blocks, and the order in which they are added, depend on the shapes alone, so any number of threads gives the same bits.

use super::Geometry;
use super::unroll::WindowPositions;
use crate::ops::error::Result;
use rayon::prelude::*;
use warpbook_data::parallel::{self, chunks};
use warpbook_gemm::cpu::{Operands, blocked};

/// Returns the number of rows of an unrolled block, which has 512 KiB, or more if packing the weight would otherwise dominate.
fn block_rows(window: usize) -> usize {
    const ELEMENTS: usize = 128 * 1024;
    const STEP: usize = 120;
    (ELEMENTS / window).clamp(2 * STEP, 16 * STEP) / STEP * STEP
}

/// A function that computes a chunk: it receives space for unrolled windows, the chunk's index and the chunk.
type Block<'a> = dyn Fn(&mut [f32], usize, &mut [f32]) -> Result<()> + Sync + 'a;

/// Calls `f` with space for unrolled windows, the index of each chunk of `len` elements, and the chunk, as [`chunks`] does.
fn blocks(out: &mut [f32], len: usize, space: usize, f: &Block<'_>) -> Result<()> {
    let tasks = out.par_chunks_mut(len).enumerate();
    tasks.try_for_each_init(|| vec![0.0; space], |unrolled, (task, out)| f(unrolled, task, out))
}

/// Convolves x with the weight and adds the bias. y is `[batch][oh][ow][filters]`; it is not read.
///
/// # Errors
/// Returns the same errors as [`Geometry::output`], and an error if a slice has the wrong length.
pub fn forward(g: &Geometry, x: &[f32], weight: &[f32], bias: Option<&[f32]>, y: &mut [f32]) -> Result<()> {
    let output = g.check(("x", x.len()), ("weight", weight.len()), ("y", y.len()))?;
    g.check_bias("bias", bias.map(<[f32]>::len))?;
    let windows = WindowPositions::new(g, output);
    let (k, filters) = (windows.len, g.filters);
    let rows = block_rows(k);
    // The weight is transposed once, so that packing copies whole rows for each block.
    let weight = transposed(weight, k);
    blocks(y, rows * filters, rows * k, &|unrolled, block, y| {
        let m = y.len() / filters;
        let unrolled = &mut unrolled[..m * k];
        windows.unroll(x, block * rows, unrolled);
        parallel::fill_rows(y, filters, bias);
        let beta = if bias.is_some() { 1.0 } else { 0.0 };
        Ok(blocked(&Operands { beta, ..product(unrolled, &weight, [m, filters, k]) }, y)?)
    })
}

/// Computes dx, `[batch][height][width][channels]`, from dy, `[batch][oh][ow][filters]`. dx is not read.
///
/// # Errors
/// See [`forward`].
pub fn input_gradient(g: &Geometry, dy: &[f32], weight: &[f32], dx: &mut [f32]) -> Result<()> {
    let output = g.check(("dx", dx.len()), ("weight", weight.len()), ("dy", dy.len()))?;
    let windows = WindowPositions::new(g, output);
    let (k, filters) = (windows.len, g.filters);
    let rows = block_rows(k);
    let pixels = output.0 * output.1;
    // Each chunk consists of whole images, because windows overlap.
    let images = rows.div_ceil(pixels);
    let image_len = g.height * g.width * g.channels;
    let output_len = pixels * filters;
    blocks(dx, images * image_len, rows * k, &|unrolled, task, dx| {
        let dy = &dy[task * images * output_len..][..dx.len() / image_len * output_len];
        dx.fill(0.0);
        for (block, dy) in dy.chunks(rows * filters).enumerate() {
            let m = dy.len() / filters;
            let unrolled = &mut unrolled[..m * k];
            blocked(&product(dy, weight, [m, k, filters]), unrolled)?;
            windows.fold(unrolled, block * rows, dx);
        }
        Ok(())
    })
}

/// Computes dweight, `[filters][kh][kw][channels]`, and the bias gradient, `[filters]`, from x and dy. The results are not read.
///
/// # Errors
/// See [`forward`].
pub fn weight_gradient(
    g: &Geometry,
    x: &[f32],
    dy: &[f32],
    dweight: &mut [f32],
    dbias: Option<&mut [f32]>,
) -> Result<()> {
    let output = g.check(("x", x.len()), ("dweight", dweight.len()), ("dy", dy.len()))?;
    g.check_bias("dbias", dbias.as_ref().map(|b| b.len()))?;
    let windows = WindowPositions::new(g, output);
    let (k, filters) = (windows.len, g.filters);
    let rows = block_rows(k);
    let task_rows = (dy.len() / filters).div_ceil(partial_sums(dweight.len())).next_multiple_of(rows);
    let mut partial = vec![0.0; dy.len().div_ceil(task_rows * filters) * dweight.len()];
    let narrow = narrow(filters, k);
    let task_len = task_rows * filters;
    blocks(&mut partial, dweight.len(), rows * k, &|unrolled, task, sum| {
        let dy = &dy[task * task_len..];
        for (block, dy) in dy[..task_len.min(dy.len())].chunks(rows * filters).enumerate() {
            let m = dy.len() / filters;
            let unrolled = &mut unrolled[..m * k];
            windows.unroll(x, task * task_rows + block * rows, unrolled);
            let of_block = if narrow {
                Operands { trans_a: true, lda: k, ..product(unrolled, dy, [k, filters, m]) }
            } else {
                Operands { trans_a: true, lda: filters, ..product(dy, unrolled, [filters, k, m]) }
            };
            blocked(&Operands { beta: if block == 0 { 0.0 } else { 1.0 }, ..of_block }, sum)?;
        }
        Ok(())
    })?;
    add_up(&partial, dweight);
    if narrow {
        dweight.copy_from_slice(&transposed(dweight, filters));
    }
    if let Some(dbias) = dbias {
        parallel::bias_gradient(dy, dbias);
    }
    Ok(())
}

/// Returns true if windows are so short that the transposed product, with windows as rows, fills the tiles better.
fn narrow(filters: usize, window: usize) -> bool {
    /// Tile of the AVX-512 kernel, the largest of all tiles.
    const TILE: [usize; 2] = [12, 32];
    let computed = |rows: usize, columns: usize| rows.div_ceil(TILE[0]) * columns.div_ceil(TILE[1]);
    computed(window, filters) < computed(filters, window)
}

/// Returns the largest number of partial sums of a weight gradient: as many as fit into 16 MiB, but at least 8 and at most 32.
fn partial_sums(weight: usize) -> usize {
    (4 * 1024 * 1024 / weight).clamp(8, 32)
}

/// Sums the arrays in `partial`, each of the length of `out`, in order.
fn add_up(partial: &[f32], out: &mut [f32]) {
    const CHUNK: usize = 4096;
    let len = out.len();
    chunks(out, CHUNK, &|chunk, out| {
        out.fill(0.0);
        for partial in partial.chunks_exact(len) {
            let partial = &partial[chunk * CHUNK..][..out.len()];
            out.iter_mut().zip(partial).for_each(|(out, value)| *out += value);
        }
    });
}

/// Returns the operands of C = A B with contiguous matrices.
fn product<'a>(a: &'a [f32], b: &'a [f32], [m, n, k]: [usize; 3]) -> Operands<'a> {
    Operands { a, b, m, n, k, lda: k, ldb: n, ldc: n, trans_a: false, trans_b: false, alpha: 1.0, beta: 0.0 }
}

/// Transposes a matrix that has `width` columns.
fn transposed(matrix: &[f32], width: usize) -> Vec<f32> {
    let rows = matrix.len() / width;
    let mut out = vec![0.0; matrix.len()];
    chunks(&mut out, rows, &|column, out| {
        let source = matrix[column..].iter().step_by(width);
        out.iter_mut().zip(source).for_each(|(out, value)| *out = *value);
    });
    out
}
