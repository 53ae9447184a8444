//! A row-major matrix product, and its conversion to the form that the column-major libraries need.

use super::library::{ALIGNMENT, COMPUTE_32F, COMPUTE_32F_FAST_TF32, OP_N, OP_T, R_16BF, R_16F, R_32F};
use crate::{DevicePtr, Error, Result};
use std::ffi::c_int;
use warpbook_record::Dtype;

/// A matrix product as the libraries compute it: C = alpha op(A) op(B) + beta C, where all matrices are row-major.
///
/// op(A) is `[m][k]`, op(B) `[k][n]` and C `[m][n]`. Sums are in f32. If beta is 0, C is not read; if alpha is 0, the libraries do
/// not read A and B.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LibraryGemm {
    /// Rows of C, at least 1.
    pub m: u32,
    /// Columns of C, at least 1.
    pub n: u32,
    /// Number of terms in each sum, at least 1.
    pub k: u32,
    /// Number of elements from one stored row of A to the next.
    pub lda: u32,
    /// Number of elements from one stored row of B to the next.
    pub ldb: u32,
    /// Number of elements from one row of C to the next.
    pub ldc: u32,
    /// True if A is stored `[k][lda]`.
    pub trans_a: bool,
    /// True if B is stored `[n][ldb]`.
    pub trans_b: bool,
    /// Factor alpha of the product.
    pub alpha: f32,
    /// Factor beta, by which the old C is multiplied before the product is added.
    pub beta: f32,
    /// Type of A and B: `F32`, `Tf32` (stored as f32), `F16` or `Bf16`.
    pub dtype: Dtype,
    /// Type of C: the same as A and B, or `F32`.
    pub out: Dtype,
}

/// The product in column-major form, in which the operands are swapped: `first` is B, `second` is A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ColumnMajor {
    /// Rows and columns of the column-major result, and the length of the sums.
    pub m: c_int,
    pub n: c_int,
    pub k: c_int,
    pub ops: [c_int; 2],
    pub lds: [c_int; 3],
    /// Rows and columns of `first`, `second` and C as they are stored.
    pub stored: [(u64, u64); 3],
    /// The library's codes for the type of A and B (`data`), the type of C (`out`) and the arithmetic (`compute`).
    pub data: c_int,
    pub out: c_int,
    pub compute: c_int,
}

impl LibraryGemm {
    /// Converts the product to column-major form. A row-major matrix is its own transpose in column-major order, so the library
    /// computes C^T = op(B)^T op(A)^T: the operands B and A are swapped, but their storage and transposition flags stay the same.
    pub(super) fn column_major(&self) -> Result<ColumnMajor> {
        let Self { m, n, k, lda, ldb, ldc, trans_a, trans_b, .. } = *self;
        let refused = |why: String| Err(Error::Unsupported { what: "cuBLAS".into(), why });
        if m == 0 || n == 0 || k == 0 {
            return refused(format!("needs sizes of at least 1, but these are {m}, {n} and {k}"));
        }
        let stored = [if trans_b { (k, n) } else { (n, k) }, if trans_a { (m, k) } else { (k, m) }, (n, m)];
        for (name, ld, (row, _)) in [("B", ldb, stored[0]), ("A", lda, stored[1]), ("C", ldc, stored[2])] {
            if ld < row {
                return refused(format!(
                    "needs a leading dimension of at least {row}, the length of a row of {name}, but it is {ld}"
                ));
            }
        }
        let Ok([m, n, k, lda, ldb, ldc]) = <[c_int; 6]>::try_from(
            [m, n, k, lda, ldb, ldc].into_iter().filter_map(|v| c_int::try_from(v).ok()).collect::<Vec<_>>(),
        ) else {
            return refused("uses 32-bit sizes, but a size or a leading dimension is 2^31 or more".into());
        };
        let (data, compute) = match self.dtype {
            Dtype::F32 => (R_32F, COMPUTE_32F),
            Dtype::Tf32 => (R_32F, COMPUTE_32F_FAST_TF32),
            Dtype::F16 => (R_16F, COMPUTE_32F),
            Dtype::Bf16 => (R_16BF, COMPUTE_32F),
            other => return refused(format!("supports fp32, tf32, fp16 and bf16 here, not {other:?}")),
        };
        let out = match self.out {
            Dtype::F32 | Dtype::Tf32 => R_32F,
            out if out == self.dtype => data,
            other => {
                return refused(format!("writes F32 or the type of its operands, {:?}, not {other:?}", self.dtype));
            }
        };
        let op = |transposed| if transposed { OP_T } else { OP_N };
        Ok(ColumnMajor {
            m: n,
            n: m,
            k,
            ops: [op(trans_b), op(trans_a)],
            lds: [ldb, lda, ldc],
            stored: stored.map(|(rows, columns)| (rows.into(), columns.into())),
            data,
            out,
            compute,
        })
    }

    pub(super) fn name(&self) -> String {
        let op = |name, transposed| format!("{name}{}", if transposed { "^T" } else { "" });
        format!(
            "the product {} {} with m = {}, n = {}, k = {}, leading dimensions {}, {} and {}, in {:?} into {:?}",
            op("A", self.trans_a),
            op("B", self.trans_b),
            self.m,
            self.n,
            self.k,
            self.lda,
            self.ldb,
            self.ldc,
            self.dtype,
            self.out
        )
    }

    /// Returns the sizes of A, B and C in bytes, as they are stored, up to the last element of the last row.
    pub(super) fn bytes(&self) -> [u64; 3] {
        let bytes = |(rows, columns): (u32, u32), ld: u32, dtype: Dtype| {
            (u64::from(rows.saturating_sub(1)) * u64::from(ld) + u64::from(columns)) * dtype.bytes()
        };
        let a = if self.trans_a { (self.k, self.m) } else { (self.m, self.k) };
        let b = if self.trans_b { (self.n, self.k) } else { (self.k, self.n) };
        [bytes(a, self.lda, self.dtype), bytes(b, self.ldb, self.dtype), bytes((self.m, self.n), self.ldc, self.out)]
    }

    /// Returns, for each of A, B and C, the largest power of two up to [`ALIGNMENT`] that divides the address of every row.
    pub(super) fn alignments(&self, [a, b, c]: [DevicePtr; 3]) -> [u64; 3] {
        [(a, self.lda, self.dtype), (b, self.ldb, self.dtype), (c, self.ldc, self.out)]
            .map(|(at, ld, dtype)| alignment(at.0 | (u64::from(ld) * dtype.bytes())))
    }
}

/// Returns the largest power of two that divides `bytes`, up to [`ALIGNMENT`].
fn alignment(bytes: u64) -> u64 {
    1 << (bytes | ALIGNMENT).trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(trans_a: bool, trans_b: bool) -> LibraryGemm {
        let (m, n, k) = (3, 5, 4);
        let (lda, ldb) = (if trans_a { m } else { k } + 2, if trans_b { k } else { n } + 1);
        LibraryGemm {
            m,
            n,
            k,
            lda,
            ldb,
            ldc: n + 3,
            trans_a,
            trans_b,
            alpha: 2.0,
            beta: 0.5,
            dtype: Dtype::F32,
            out: Dtype::F32,
        }
    }

    /// Computes BLAS's gemm in column-major order, as a reference.
    fn column_major_gemm(p: &ColumnMajor, alpha: f32, first: &[f32], second: &[f32], beta: f32, c: &mut [f32]) {
        let [ld_first, ld_second, ld_c] = p.lds.map(|ld| ld as usize);
        let at = |x: &[f32], op, ld, i, j| if op == OP_T { x[i * ld + j] } else { x[j * ld + i] };
        for i in 0..p.m as usize {
            for j in 0..p.n as usize {
                let sum: f32 = (0..p.k as usize)
                    .map(|q| at(first, p.ops[0], ld_first, i, q) * at(second, p.ops[1], ld_second, q, j))
                    .sum();
                let c = &mut c[j * ld_c + i];
                *c = alpha * sum + beta * *c;
            }
        }
    }

    #[test]
    fn a_row_major_product_is_a_column_major_one_of_swapped_operands() {
        let values = |n: u32| (0..n).map(|i| (i % 11) as f32 - 5.0).collect::<Vec<f32>>();
        for (trans_a, trans_b) in [(false, false), (false, true), (true, false), (true, true)] {
            let call = call(trans_a, trans_b);
            let p = call.column_major().unwrap();
            let (a, b) = (values(call.lda * 4), values(call.ldb * 5));
            let before = values(call.ldc * call.m);
            let mut got = before.clone();
            column_major_gemm(&p, call.alpha, &b, &a, call.beta, &mut got);
            let (lda, ldb, ldc) = (call.lda as usize, call.ldb as usize, call.ldc as usize);
            for i in 0..3 {
                for j in 0..ldc {
                    let a = |q: usize| if trans_a { a[q * lda + i] } else { a[i * lda + q] };
                    let b = |q: usize| if trans_b { b[j * ldb + q] } else { b[q * ldb + j] };
                    let old = before[i * ldc + j];
                    let want = if j < 5 { 2.0 * (0..4).map(|q| a(q) * b(q)).sum::<f32>() + 0.5 * old } else { old };
                    assert_eq!(got[i * ldc + j], want, "{trans_a} {trans_b}: C[{i}][{j}]");
                }
            }
            // In column-major order, the number of stored rows must not exceed the leading dimension.
            for ((rows, _), ld) in p.stored.iter().zip(p.lds) {
                assert!(*rows <= ld.unsigned_abs().into());
            }
            let after_op = |(rows, columns), op| if op == OP_T { (columns, rows) } else { (rows, columns) };
            assert_eq!(after_op(p.stored[0], p.ops[0]), (5, 4));
            assert_eq!(after_op(p.stored[1], p.ops[1]), (4, 3));
            assert_eq!(p.stored[2], (5, 3));
        }
    }

    #[test]
    fn types_are_as_the_headers_number_them() {
        let types = |dtype| {
            let p = LibraryGemm { dtype, out: dtype, ..call(false, false) }.column_major().unwrap();
            assert_eq!(p.out, p.data);
            (p.data, p.compute)
        };
        assert_eq!(types(Dtype::F32), (0, 68));
        assert_eq!(types(Dtype::Tf32), (0, 77));
        assert_eq!(types(Dtype::F16), (2, 68));
        assert_eq!(types(Dtype::Bf16), (14, 68));
        let wide = LibraryGemm { dtype: Dtype::F16, ..call(false, false) }.column_major().unwrap();
        assert_eq!((wide.data, wide.out), (2, 0), "fp16 operands, f32 sums");
        // A is stored `[4][5]`, B `[4][6]` and C `[3][8]`, with unused elements at the ends of their rows.
        let bytes = LibraryGemm { dtype: Dtype::F16, ..call(true, false) }.bytes();
        assert_eq!(bytes, [2 * (3 * 5 + 3), 2 * (3 * 6 + 5), 4 * (2 * 8 + 5)]);
    }

    #[test]
    fn products_that_make_no_sense_are_refused_in_words() {
        let check = |call: LibraryGemm, expect: &str| {
            let error = call.column_major().unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }) && error.to_string().contains(expect), "{error}");
        };
        let fine = call(true, false);
        check(LibraryGemm { k: 0, ..fine }, "these are 3, 5 and 0");
        check(LibraryGemm { lda: 2, ..fine }, "at least 3, the length of a row of A");
        check(LibraryGemm { ldb: 4, ..fine }, "at least 5, the length of a row of B");
        check(LibraryGemm { ldc: 4, ..fine }, "at least 5, the length of a row of C");
        check(LibraryGemm { ldc: 1 << 31, ..fine }, "32-bit sizes");
        check(LibraryGemm { dtype: Dtype::F64, ..fine }, "not F64");
        check(LibraryGemm { out: Dtype::Bf16, ..fine }, "writes F32 or the type of its operands, F32, not Bf16");
    }

    #[test]
    fn alignment_is_that_of_the_address_and_of_every_row() {
        assert_eq!([0, 1, 2, 24, 4096, 4096 + 64].map(alignment), [256, 1, 2, 8, 256, 64]);
        let f16 = Dtype::F16;
        let call = LibraryGemm { lda: 4093, ldb: 4096, ldc: 24, dtype: f16, out: f16, ..call(false, false) };
        assert_eq!(call.alignments([DevicePtr::NULL; 3]), [2, 256, 16]);
        assert_eq!(call.alignments([DevicePtr(512), DevicePtr(512 + 8), DevicePtr(512 + 2)]), [2, 8, 2]);
    }
}
