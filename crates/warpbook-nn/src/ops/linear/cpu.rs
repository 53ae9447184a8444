//! The linear layer on the CPU: one matrix product per pass, whose bits do not depend on the number of threads.

use super::Sizes;
use crate::ops::error::Result;
use warpbook_data::parallel;
use warpbook_gemm::cpu::{Operands, threaded};

/// Computes y = x W^T + b. y is not read.
///
/// # Errors
/// If a size is zero, or a slice has the wrong length.
pub fn forward(s: &Sizes, x: &[f32], weight: &[f32], bias: Option<&[f32]>, y: &mut [f32]) -> Result<()> {
    s.check(("x", x.len()), ("weight", weight.len()), ("y", y.len()))?;
    s.check_bias("bias", bias.map(<[f32]>::len))?;
    let Sizes { batch: m, inputs: k, outputs: n } = *s;
    parallel::fill_rows(y, n, bias);
    let beta = if bias.is_some() { 1.0 } else { 0.0 };
    let ops =
        Operands { a: x, b: weight, m, n, k, lda: k, ldb: k, ldc: n, trans_a: false, trans_b: true, alpha: 1.0, beta };
    Ok(threaded(&ops, y)?)
}

/// Computes dx = dy W. dx is not read.
///
/// # Errors
/// See [`forward`].
pub fn input_gradient(s: &Sizes, dy: &[f32], weight: &[f32], dx: &mut [f32]) -> Result<()> {
    s.check(("dx", dx.len()), ("weight", weight.len()), ("dy", dy.len()))?;
    let Sizes { batch: m, inputs: n, outputs: k } = *s;
    let (lda, ldb) = (k, n);
    let ops =
        Operands { a: dy, b: weight, m, n, k, lda, ldb, ldc: n, trans_a: false, trans_b: false, alpha: 1.0, beta: 0.0 };
    Ok(threaded(&ops, dx)?)
}

/// Computes dW = dy^T x, and db as the column sums of dy. The results are not read.
///
/// # Errors
/// See [`forward`].
pub fn weight_gradient(s: &Sizes, x: &[f32], dy: &[f32], dweight: &mut [f32], dbias: Option<&mut [f32]>) -> Result<()> {
    s.check(("x", x.len()), ("dweight", dweight.len()), ("dy", dy.len()))?;
    s.check_bias("dbias", dbias.as_ref().map(|b| b.len()))?;
    let Sizes { batch: k, inputs: n, outputs: m } = *s;
    let (lda, ldb) = (m, n);
    let ops = Operands { a: dy, b: x, m, n, k, lda, ldb, ldc: n, trans_a: true, trans_b: false, alpha: 1.0, beta: 0.0 };
    threaded(&ops, dweight)?;
    if let Some(dbias) = dbias {
        parallel::bias_gradient(dy, dbias);
    }
    Ok(())
}
