//! Loops on all threads of the rayon pool. Their results do not depend on the number of threads.
//!
//! The work on a chunk is passed as a `dyn Fn`, because rayon expands a loop to thousands of lines for the compiler. This way the loop is expanded once for
//! each element type and not once for each use. A call through a pointer costs nothing compared with the work on a chunk.

use half::{bf16, f16};
use rayon::prelude::*;

/// Number of elements in a task.
pub const CHUNK: usize = 16 * 1024;

/// Calls `f` with the index of each chunk of `len` elements and the chunk; the last chunk may be shorter.
pub fn chunks<T: Send>(out: &mut [T], len: usize, f: &(dyn Fn(usize, &mut [T]) + Sync)) {
    out.par_chunks_mut(len).enumerate().for_each(|(chunk, out)| f(chunk, out));
}

/// Returns `[f(0), f(1), ...]` with `len` elements.
pub fn collect<T: Send>(len: usize, f: &(dyn Fn(usize) -> T + Sync)) -> Vec<T> {
    (0..len).into_par_iter().map(f).collect()
}

/// Converts f16 to f32.
pub fn from_f16(values: &[f16]) -> Vec<f32> {
    values.par_iter().map(|v| v.to_f32()).collect()
}

/// Converts bf16 to f32.
pub fn from_bf16(values: &[bf16]) -> Vec<f32> {
    values.par_iter().map(|v| v.to_f32()).collect()
}

/// Rounds f32 to f16: to the nearest number, ties to even.
pub fn to_f16(values: &[f32]) -> Vec<f16> {
    values.par_iter().map(|v| f16::from_f32(*v)).collect()
}

/// Rounds f32 to bf16: to the nearest number, ties to even.
pub fn to_bf16(values: &[f32]) -> Vec<bf16> {
    values.par_iter().map(|v| bf16::from_f32(*v)).collect()
}

/// Computes `out[i] = f(x[i])`; both slices must have the same length.
pub fn map(x: &[f32], out: &mut [f32], f: impl Fn(f32) -> f32 + Sync) {
    chunks(out, CHUNK, &|chunk, out| {
        let x = &x[chunk * CHUNK..][..out.len()];
        out.iter_mut().zip(x).for_each(|(out, x)| *out = f(*x));
    });
}

/// Computes `out[i] = f(a[i], b[i])`; all slices must have the same length.
pub fn map2(a: &[f32], b: &[f32], out: &mut [f32], f: impl Fn(f32, f32) -> f32 + Sync) {
    chunks(out, CHUNK, &|chunk, out| {
        let [a, b] = [a, b].map(|v| &v[chunk * CHUNK..][..out.len()]);
        out.iter_mut().zip(a).zip(b).for_each(|((out, a), b)| *out = f(*a, *b));
    });
}

/// Returns the sum of `f` over the chunks of `0..len`, added in the order of the chunks.
pub fn sum(len: usize, f: impl Fn(std::ops::Range<usize>) -> f64 + Sync) -> f64 {
    collect(len.div_ceil(CHUNK), &|i| f(i * CHUNK..((i + 1) * CHUNK).min(len))).iter().sum()
}

/// Returns column sums over all rows of a matrix, `[sums]`, in f64.
///
/// `add` adds the rows of a range to `[sums]`, which are initially zero. The partial sums are then added in the order of the ranges.
pub fn column_sums(rows: usize, sums: usize, add: impl Fn(std::ops::Range<usize>, &mut [f64]) + Sync) -> Vec<f64> {
    /// Upper limit on the number of ranges; it keeps the partial sums small.
    const RANGES: usize = 64;
    const ROWS: usize = 64;
    let length = rows.div_ceil(RANGES).max(ROWS);
    let partial = collect(rows.div_ceil(length), &|i| {
        let mut partial = vec![0.0; sums];
        add(i * length..((i + 1) * length).min(rows), &mut partial);
        partial
    });
    let mut total = vec![0.0; sums];
    for partial in &partial {
        total.iter_mut().zip(partial).for_each(|(total, partial)| *total += partial);
    }
    total
}

/// Sums the columns of `x`, `[rows][out.len()]`: the gradient of a bias.
pub fn bias_gradient(x: &[f32], out: &mut [f32]) {
    let width = out.len();
    let sums = column_sums(x.len() / width, width, |rows, sums| {
        for row in x[rows.start * width..rows.end * width].chunks_exact(width) {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
        }
    });
    out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum as f32);
}

/// Copies the bias, or zeros, into every row of `y`, `[rows][width]`.
pub fn fill_rows(y: &mut [f32], width: usize, bias: Option<&[f32]>) {
    match bias {
        Some(bias) => y.chunks_exact_mut(width).for_each(|row| row.copy_from_slice(bias)),
        None => y.fill(0.0),
    }
}
