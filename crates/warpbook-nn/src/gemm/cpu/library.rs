//! The call of the `gemm` crate.
#![allow(unsafe_code)]

use super::{GemmError, Operands};

/// The product by the `gemm` crate, on all threads of the current rayon pool.
pub(super) fn gemm(ops: &Operands<'_>, c: &mut [f32]) -> Result<(), GemmError> {
    ops.check(Some(c.len()))?;
    let (a, b) = (ops.op_a(), ops.op_b());
    // No overflow: none is longer than its slice, which has at most isize::MAX / 4 elements.
    let stride = |s: usize| s.cast_signed();
    let ldc = ops.ldc.min(c.len());
    // SAFETY: `check` found every element (i, j) of the three matrices inside its slice, at i * row + j * col; C is
    // borrowed exclusively, so that it overlaps neither A nor B, and is not read where beta is 0.
    unsafe {
        gemm::gemm(
            ops.m,
            ops.n,
            ops.k,
            c.as_mut_ptr(),
            1,
            stride(ldc),
            ops.beta != 0.0,
            a.data.as_ptr(),
            stride(a.col),
            stride(a.row),
            b.data.as_ptr(),
            stride(b.col),
            stride(b.row),
            // Its names are swapped: alpha is the factor of C, beta that of the product.
            ops.beta,
            ops.alpha,
            false,
            false,
            false,
            gemm::Parallelism::Rayon(0),
        );
    }
    Ok(())
}
