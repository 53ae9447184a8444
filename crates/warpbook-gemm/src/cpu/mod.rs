//! Matrix products on the CPU, and the reference for checking them.
//!
//! The entry point is [`gemm()`], with the types and epilogues of the products on a GPU. Below it are four versions of
//! `C = alpha op(A) op(B) + beta C` in f32: [`naive`], [`blocked`], [`threaded`] and [`library`]. The blocks and their packing follow Goto and van de Geijn,
//! "Anatomy of high-performance matrix multiplication", ACM TOMS 34(3), 2008.

mod library;
mod typed;

pub use typed::{HostArray, HostArrayMut, HostArrays, gemm};

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;
use warpbook_data::parallel::{chunks, collect};

/// A product in f32: op(A) is `[m][k]`, op(B) `[k][n]` and C `[m][n]`, all row-major with leading dimensions.
///
/// The rows of A are `k` long, or `m` if A is stored transposed; the rows of B are `n` long, or `k` if B is stored transposed. Only the last row may be shorter
/// than its leading dimension. The product is always multiplied by alpha, even by 0, so that 0 times infinity gives NaN.
#[derive(Clone, Copy)]
pub struct Operands<'a> {
    /// A, `[m][lda]`, or `[k][lda]` if it is stored transposed.
    pub a: &'a [f32],
    /// B, `[k][ldb]`, or `[n][ldb]` if it is stored transposed.
    pub b: &'a [f32],
    /// Number of rows of C, at least 1.
    pub m: usize,
    /// Number of columns of C, at least 1.
    pub n: usize,
    /// Number of products summed for each element, at least 1.
    pub k: usize,
    /// Number of elements from one stored row of A to the next.
    pub lda: usize,
    /// Number of elements from one stored row of B to the next.
    pub ldb: usize,
    /// Number of elements from one row of C to the next; elements after the first `n` of a row stay unchanged.
    pub ldc: usize,
    /// True if A is stored transposed.
    pub trans_a: bool,
    /// True if B is stored transposed.
    pub trans_b: bool,
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of C before the product is added; at 0, C is not read.
    pub beta: f32,
}

/// Error of a product that cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GemmError {
    /// A size is zero.
    #[error("A matrix product needs m, n and k of at least 1; they are {m}, {n} and {k}.")]
    Empty {
        /// Number of rows of C.
        m: usize,
        /// Number of columns of C.
        n: usize,
        /// Number of products summed for each element.
        k: usize,
    },
    /// Rows would overlap.
    #[error("The rows of {name} have {width} elements, so its leading dimension must be at least that; it is {ld}.")]
    LeadingDimension {
        /// Name of the matrix.
        name: &'static str,
        /// Number of elements in a row.
        width: usize,
        /// Leading dimension of the matrix in elements.
        ld: usize,
    },
    /// A slice is too short for its matrix.
    #[error(
        "{name} is stored as {rows} rows of {width} with a leading dimension of {ld}, which takes {needed} elements; the slice has {len}."
    )]
    TooShort {
        /// Name of the matrix.
        name: &'static str,
        /// Number of the matrix's stored rows.
        rows: usize,
        /// Number of elements in a row.
        width: usize,
        /// Leading dimension of the matrix in elements.
        ld: usize,
        /// Number of elements needed.
        needed: usize,
        /// Length of the slice.
        len: usize,
    },
    /// A row after the last row of C was requested.
    #[error("C has {m} rows, numbered from 0, so there is no row {row}.")]
    NoSuchRow {
        /// Index of the row.
        row: usize,
        /// Number of rows of C.
        m: usize,
    },
}

/// op(X) of a stored matrix X, whose element (i, j) is at `i * row + j * col`.
#[derive(Clone, Copy)]
struct View<'a> {
    data: &'a [f32],
    row: usize,
    col: usize,
}

impl<'a> View<'a> {
    fn new(data: &'a [f32], ld: usize, transposed: bool) -> Self {
        // The leading dimension of a single row may be anything, and is not used.
        let ld = ld.min(data.len());
        let (row, col) = if transposed { (1, ld) } else { (ld, 1) };
        Self { data, row, col }
    }

    fn at(self, i: usize, j: usize) -> f32 {
        self.data[i * self.row + j * self.col]
    }
}

impl<'a> Operands<'a> {
    fn op_a(&self) -> View<'a> {
        View::new(self.a, self.lda, self.trans_a)
    }

    fn op_b(&self) -> View<'a> {
        View::new(self.b, self.ldb, self.trans_b)
    }

    /// Returns the number of elements from the first to the last element of C, including gaps between rows.
    fn c_len(&self) -> usize {
        (self.m - 1) * self.ldc + self.n
    }

    /// Checks sizes and slices; `c_len` is `None` if C is not read.
    fn check(&self, c_len: Option<usize>) -> Result<(), GemmError> {
        let Self { m, n, k, .. } = *self;
        if m == 0 || n == 0 || k == 0 {
            return Err(GemmError::Empty { m, n, k });
        }
        let stored = |rows, width, transposed| if transposed { (width, rows) } else { (rows, width) };
        let holds = |name, (rows, width): (usize, usize), ld: usize, len: usize| {
            if ld < width {
                return Err(GemmError::LeadingDimension { name, width, ld });
            }
            let needed = (rows - 1).saturating_mul(ld).saturating_add(width);
            if len < needed {
                return Err(GemmError::TooShort { name, rows, width, ld, needed, len });
            }
            Ok(())
        };
        holds("A", stored(m, k, self.trans_a), self.lda, self.a.len())?;
        holds("B", stored(k, n, self.trans_b), self.ldb, self.b.len())?;
        c_len.map_or(Ok(()), |len| holds("C", (m, n), self.ldc, len))
    }
}

/// Updates an element of C; if beta is 0, the old value is not read and may be NaN.
#[inline(always)]
fn update(c: &mut f32, sum: f32, alpha: f32, beta: f32) {
    *c = if beta == 0.0 { alpha * sum } else { alpha * sum + beta * *c };
}

/// Computes the product with three loops: one thread computes every element of C as a row of op(A) times a column of op(B), summed in order.
///
/// # Errors
/// If a size is zero, or a slice is too short for its matrix; C is then unchanged.
pub fn naive(ops: &Operands<'_>, c: &mut [f32]) -> Result<(), GemmError> {
    ops.check(Some(c.len()))?;
    let (a, b) = (ops.op_a(), ops.op_b());
    for i in 0..ops.m {
        for j in 0..ops.n {
            let mut sum = 0.0f32;
            for p in 0..ops.k {
                sum += a.at(i, p) * b.at(p, j);
            }
            update(&mut c[i * ops.ldc + j], sum, ops.alpha, ops.beta);
        }
    }
    Ok(())
}

/// Multiplies blocks that fit into the caches, packed in the order in which they are read, with a tile of C in vector registers. Uses one
/// thread.
///
/// # Errors
/// Returns the errors of [`naive`].
pub fn blocked(ops: &Operands<'_>, c: &mut [f32]) -> Result<(), GemmError> {
    product(ops, c, Threads::One)
}

/// Like [`blocked`], with the bands of rows divided among the threads of the current rayon pool.
///
/// # Errors
/// Returns the errors of [`naive`].
pub fn threaded(ops: &Operands<'_>, c: &mut [f32]) -> Result<(), GemmError> {
    product(ops, c, Threads::All)
}

/// Multiplies with the `gemm` crate, on all threads of the current rayon pool.
///
/// # Errors
/// Returns the errors of [`naive`].
pub fn library(ops: &Operands<'_>, c: &mut [f32]) -> Result<(), GemmError> {
    library::gemm(ops, c)
}

/// Depth of a block: a panel of B this deep stays in the L1 cache while a block of A streams through.
const KC: usize = 256;
/// Rows of a block of A, a multiple of the rows of every tile. A block has 120 KiB and fits into the L2 cache.
const MC: usize = 120;
/// Columns of a block of B, a multiple of the columns of every tile. A block has 2 MiB and fits into the last-level cache.
const NC: usize = 2048;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Threads {
    One,
    All,
}

/// Operation that returns the number of f32 lanes in a vector register.
struct Lanes;

impl WithSimd for Lanes {
    type Output = usize;

    fn with_simd<S: Simd>(self, _: S) -> usize {
        S::F32_LANES
    }
}

fn product(ops: &Operands<'_>, c: &mut [f32], threads: Threads) -> Result<(), GemmError> {
    ops.check(Some(c.len()))?;
    let c = &mut c[..ops.c_len()];
    let arch = Arch::new();
    // Each tile is the largest that fits into the registers. Sums use 24 of the 32 registers of AVX-512, 12 of the 16 of AVX2, and 16 of the 32 of Neon. A CPU
    // without any of these extensions has no FMA instruction either, and Rust would call a function for each FMA.
    match arch.dispatch(Lanes) {
        16 => Tiles::<12, 32, true> { arch, threads }.run(ops, c),
        8 => Tiles::<6, 16, true> { arch, threads }.run(ops, c),
        4 => Tiles::<8, 8, true> { arch, threads }.run(ops, c),
        _ => Tiles::<4, 8, false> { arch, threads }.run(ops, c),
    }
    Ok(())
}

/// The blocked product with tiles of MR rows and NR columns.
#[derive(Clone, Copy)]
struct Tiles<const MR: usize, const NR: usize, const FMA: bool> {
    arch: Arch,
    threads: Threads,
}

impl<const MR: usize, const NR: usize, const FMA: bool> Tiles<MR, NR, FMA> {
    fn run(self, ops: &Operands<'_>, c: &mut [f32]) {
        const { assert!(MC.is_multiple_of(MR) && NC.is_multiple_of(NR), "whole tiles in a block") };
        let (a, b) = (ops.op_a(), ops.op_b());
        let (m, ldc) = (ops.m, ops.ldc.min(c.len()));
        // If there would be fewer bands than threads, bands get fewer rows.
        let band = match self.threads {
            Threads::One => MC,
            Threads::All => m.div_ceil(rayon::current_num_threads()).next_multiple_of(MR).min(MC),
        };
        let deepest = ops.k.min(KC);
        let mut b_space = Packed::new(ops.n.min(NC).next_multiple_of(NR) * deepest);
        let a_space = || Packed::new(band * deepest);
        let mut a_of_one = a_space();
        for first_col in (0..ops.n).step_by(NC) {
            let cols = (ops.n - first_col).min(NC);
            for from in (0..ops.k).step_by(KC) {
                let depth = (ops.k - from).min(KC);
                let b_packed = &mut b_space.slice()[..cols.next_multiple_of(NR) * depth];
                let pack_b = |panel: usize, out: &mut [f32]| {
                    let col = panel * NR;
                    let source = &b.data[from * b.row + (first_col + col) * b.col..];
                    pack::<NR>(out, source, (b.col, b.row), (cols - col).min(NR));
                };
                match self.threads {
                    Threads::One => {
                        b_packed.chunks_mut(NR * depth).enumerate().for_each(|(panel, out)| pack_b(panel, out))
                    }
                    Threads::All => chunks(b_packed, NR * depth, &pack_b),
                }
                let b_packed = &*b_packed;
                // The first block along k scales C by beta; later blocks add to C.
                let beta = if from == 0 { ops.beta } else { 1.0 };
                let one_band = |a_space: &mut Packed, index: usize, c: &mut [f32]| {
                    let first_row = index * band;
                    let rows = (m - first_row).min(band);
                    let a_packed = &mut a_space.slice()[..rows.next_multiple_of(MR) * depth];
                    for (panel, out) in a_packed.chunks_mut(MR * depth).enumerate() {
                        let row = panel * MR;
                        let source = &a.data[(first_row + row) * a.row + from * a.col..];
                        pack::<MR>(out, source, (a.row, a.col), (rows - row).min(MR));
                    }
                    let (a, b, c) = (&*a_packed, b_packed, &mut c[first_col..]);
                    let band = Band::<MR, NR, FMA> { a, b, c, depth, rows, cols, ldc, alpha: ops.alpha, beta };
                    self.arch.dispatch(band);
                };
                match self.threads {
                    Threads::One => {
                        c.chunks_mut(band * ldc).enumerate().for_each(|(i, c)| one_band(&mut a_of_one, i, c));
                    }
                    Threads::All => bands(c, band * ldc, &a_space, &one_band),
                }
            }
        }
    }
}

/// Like [`chunks`], with space for packed rows of A.
fn bands(
    c: &mut [f32],
    len: usize,
    space: &(dyn Fn() -> Packed + Sync),
    f: &(dyn Fn(&mut Packed, usize, &mut [f32]) + Sync),
) {
    c.par_chunks_mut(len).enumerate().for_each_init(space, |space, (band, c)| f(space, band, c));
}

/// Multiplies packed rows of A by packed columns of B, and adds the product to a band of C.
///
/// This is not a closure: it has to be inlined into the function that is compiled for the CPU's vector extension, and a closure would be called through a
/// function that is not compiled for it.
struct Band<'a, const MR: usize, const NR: usize, const FMA: bool> {
    a: &'a [f32],
    b: &'a [f32],
    c: &'a mut [f32],
    depth: usize,
    rows: usize,
    cols: usize,
    ldc: usize,
    alpha: f32,
    beta: f32,
}

impl<const MR: usize, const NR: usize, const FMA: bool> WithSimd for Band<'_, MR, NR, FMA> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (b, col) in self.b.chunks_exact(NR * self.depth).zip((0..self.cols).step_by(NR)) {
            let cols = (self.cols - col).min(NR);
            for (a, row) in self.a.chunks_exact(MR * self.depth).zip((0..self.rows).step_by(MR)) {
                let sums = Self::tile(a, b);
                let rows = (self.rows - row).min(MR);
                for (i, sums) in sums[..rows].iter().enumerate() {
                    let c = &mut self.c[(row + i) * self.ldc + col..][..cols];
                    for (c, sum) in c.iter_mut().zip(sums) {
                        update(c, *sum, self.alpha, self.beta);
                    }
                }
            }
        }
    }
}

impl<const MR: usize, const NR: usize, const FMA: bool> Band<'_, MR, NR, FMA> {
    /// Multiplies a panel of A `[depth][MR]` by a panel of B `[depth][NR]`, one column times one row at a time, with all sums in registers.
    #[inline(always)]
    fn tile(a: &[f32], b: &[f32]) -> [[f32; NR]; MR] {
        let mut sums = [[0.0f32; NR]; MR];
        for (a, b) in a.as_chunks::<MR>().0.iter().zip(b.as_chunks::<NR>().0) {
            for i in 0..MR {
                for j in 0..NR {
                    sums[i][j] = if FMA { a[i].mul_add(b[j], sums[i][j]) } else { a[i] * b[j] + sums[i][j] };
                }
            }
        }
        sums
    }
}

/// Packs a panel, `[depth][W]`: element (lane, p) comes from `lane * strides.0 + p * strides.1`, and lanes outside of the matrix become
/// zero. Their sums are never stored, so 0 times infinity does no harm there.
fn pack<const W: usize>(out: &mut [f32], source: &[f32], strides: (usize, usize), lanes: usize) {
    let (out, _) = out.as_chunks_mut::<W>();
    if lanes < W {
        out.as_flattened_mut().fill(0.0);
    }
    if strides.0 == 1 {
        for (p, out) in out.iter_mut().enumerate() {
            out[..lanes].copy_from_slice(&source[p * strides.1..][..lanes]);
        }
    } else {
        for lane in 0..lanes {
            let source = source[lane * strides.0..].iter().step_by(strides.1);
            out.iter_mut().zip(source).for_each(|(out, value)| out[lane] = *value);
        }
    }
}

/// Memory for packed panels, aligned to a cache line so that no vector crosses one.
struct Packed {
    data: Vec<f32>,
    len: usize,
}

impl Packed {
    const LINE_BYTES: usize = 64;

    fn new(len: usize) -> Self {
        Self { data: vec![0.0; len + Self::LINE_BYTES / size_of::<f32>()], len }
    }

    fn slice(&mut self) -> &mut [f32] {
        let start = self.data.as_ptr().align_offset(Self::LINE_BYTES);
        &mut self.data[start..][..self.len]
    }
}

/// Computes some rows of the product in f64, `[rows.len()][n]`, as a reference: products of two f32 are exact in f64, so each of the k
/// additions has an error of at most 2^-53 of the magnitudes that it adds.
///
/// `c` is C before the product; if beta is 0 it is not read and may be empty. Uses all threads of the rayon pool.
///
/// # Errors
/// Returns the errors of [`naive`], or an error if C does not have one of the rows.
pub fn reference_rows(ops: &Operands<'_>, c: &[f32], rows: &[usize]) -> Result<Vec<f64>, GemmError> {
    /// Rows and columns of the block of sums of a task, which stays in the L1 cache while B streams through.
    const ROWS: usize = 32;
    const COLS: usize = 64;
    ops.check((ops.beta != 0.0).then_some(c.len()))?;
    if let Some(&row) = rows.iter().find(|r| **r >= ops.m) {
        return Err(GemmError::NoSuchRow { row, m: ops.m });
    }
    let (a, b) = (ops.op_a(), ops.op_b());
    let (alpha, beta) = (f64::from(ops.alpha), f64::from(ops.beta));
    let mut out = vec![0.0f64; rows.len() * ops.n];
    chunks(&mut out, ROWS * ops.n, &|band, out| {
        let rows = &rows[band * ROWS..][..out.len() / ops.n];
        let starts: Vec<usize> = (0..ops.n).step_by(COLS).collect();
        let parts: Vec<Vec<f64>> = collect(starts.len(), &|part| {
            let from = starts[part];
            let cols = (ops.n - from).min(COLS);
            let mut sums = vec![0.0f64; rows.len() * cols];
            let mut values = [0.0f64; COLS];
            for p in 0..ops.k {
                let values = &mut values[..cols];
                values.iter_mut().enumerate().for_each(|(j, v)| *v = f64::from(b.at(p, from + j)));
                for (sums, &row) in sums.chunks_exact_mut(cols).zip(rows) {
                    let factor = f64::from(a.at(row, p));
                    sums.iter_mut().zip(&*values).for_each(|(sum, v)| *sum += factor * v);
                }
            }
            sums
        });
        for ((part, &from), cols) in parts.iter().zip(&starts).map(|p| (p, (ops.n - p.1).min(COLS))) {
            for (r, (sums, &row)) in part.chunks_exact(cols).zip(rows).enumerate() {
                for (j, sum) in sums.iter().enumerate() {
                    let before = if beta == 0.0 { 0.0 } else { beta * f64::from(c[row * ops.ldc + from + j]) };
                    out[r * ops.n + from + j] = alpha * sum + before;
                }
            }
        }
    });
    Ok(out)
}

#[cfg(test)]
mod tests;
