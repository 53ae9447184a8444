//! Calls `gemm-f32`: the crate `gemm` would also compile the kernels of f64 and of complex numbers, which makes a notebook wait.
#![allow(unsafe_code)]

use super::{GemmError, Operands};

/// Computes the product with the `gemm` crate, on all threads of the current rayon pool.
pub(super) fn gemm(ops: &Operands<'_>, c: &mut [f32]) -> Result<(), GemmError> {
    ops.check(Some(c.len()))?;
    let (a, b) = (ops.op_a(), ops.op_b());
    // The cast cannot overflow: no stride exceeds the slice, which has at most isize::MAX / 4 elements.
    let stride = |s: usize| s.cast_signed();
    let ldc = ops.ldc.min(c.len());
    // The crate's kernels prefer a C with adjacent columns, so they compute C^T = op(B)^T op(A)^T.
    let product = gemm_f32::gemm::f32::get_gemm_fn();
    // SAFETY: `check` has verified that every element (i, j) of the three matrices lies inside its slice, at i * row + j * col. C is borrowed exclusively, so
    // it overlaps neither A nor B, and it is not read if beta is 0.
    unsafe {
        product(
            ops.n,
            ops.m,
            ops.k,
            c.as_mut_ptr(),
            stride(ldc),
            1,
            ops.beta != 0.0,
            b.data.as_ptr(),
            stride(b.row),
            stride(b.col),
            a.data.as_ptr(),
            stride(a.row),
            stride(a.col),
            // The crate swaps the names: its alpha is the factor of C, and its beta is the factor of the product.
            ops.beta,
            ops.alpha,
            false,
            false,
            false,
            gemm_common::Parallelism::Rayon(0),
        );
    }
    Ok(())
}
