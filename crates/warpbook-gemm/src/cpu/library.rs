//! The call of `gemm-f32`: `gemm` itself also compiles the kernels of f64 and of complex numbers, which a notebook would wait for.
#![allow(unsafe_code)]

use super::{GemmError, Operands};

/// Computes the product by the `gemm` crate, on all threads of the current rayon pool.
pub(super) fn gemm(ops: &Operands<'_>, c: &mut [f32]) -> Result<(), GemmError> {
    ops.check(Some(c.len()))?;
    let (a, b) = (ops.op_a(), ops.op_b());
    // No overflow: none is longer than its slice, which has at most isize::MAX / 4 elements.
    let stride = |s: usize| s.cast_signed();
    let ldc = ops.ldc.min(c.len());
    // Its kernels prefer a C whose columns are adjacent, so they get C^T = op(B)^T op(A)^T.
    let product = gemm_f32::gemm::f32::get_gemm_fn();
    // SAFETY: `check` found every element (i, j) of the three matrices inside its slice, at i * row + j * col; C is
    // borrowed exclusively, so that it overlaps neither A nor B, and is not read where beta is 0.
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
            // Its names are swapped: alpha is the factor of C, beta that of the product.
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
