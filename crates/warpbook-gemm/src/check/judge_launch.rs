//! The launches that compute the reference of a product and compare results with it.
#![allow(unsafe_code)]

use crate::handle::refused;
use crate::product::ArraySpec;
use crate::{DeviceArray, Product};
use warpbook_device::{Buffer, Kernel, KernelArg, Result, Slice, Stream};

/// Computes op(A) op(B) and the sums of the magnitudes of its terms, both f64 `[m][n]`, and waits for the results.
pub(crate) fn reference(
    kernel: &Kernel,
    stream: &Stream,
    p: &Product,
    (a, b): (&DeviceArray, &DeviceArray),
    (want, sizes): (&Slice<f64>, &Slice<f64>),
) -> Result<()> {
    let [a_len, b_len, _] = p.elements();
    let holds = |name, array: &DeviceArray, len| array.spec().holds(name, ArraySpec { dtype: p.form.dtype, len });
    holds("A", a, a_len).and_then(|()| holds("B", b, b_len)).map_err(refused)?;
    assert_elements(p, want, sizes);
    let (a, b) = (a.address(), b.address());
    let shape = kernel.tiles_shape(p.m.into(), p.n.into());
    // SAFETY: the arguments match `reference(a, b, want, sizes, m, n, k, lda, ldb)`; the arrays have the sizes that the kernel accesses, and stay borrowed
    // until the stream has been waited for.
    unsafe { kernel.launch(stream, shape, &[&a, &b, want, sizes, &p.m, &p.n, &p.k, &p.lda, &p.ldb]) }?;
    stream.synchronize()
}

/// The bounds that [`compare`] applies.
pub(crate) struct Bounds {
    pub tolerance: f64,
    pub half_epsilon: f64,
    pub tiny: f64,
}

/// Compares C with a reference, and waits for the result: the four words of `Verdict` in `kernels/matmul/reference.cu`.
pub(crate) fn compare(
    kernel: &Kernel,
    stream: &Stream,
    p: &Product,
    c: &DeviceArray,
    (want, sizes): (&Slice<f64>, &Slice<f64>),
    bounds: &Bounds,
    verdict: &Buffer<u64>,
) -> Result<[u64; 4]> {
    c.spec().holds("C", ArraySpec { dtype: p.form.out, len: p.elements()[2] }).map_err(refused)?;
    assert_elements(p, want, sizes);
    let mut words = [0, 0, 0, u64::MAX];
    verdict.write(&words)?;
    let shape = kernel.shape(u64::from(p.m) * u64::from(p.n));
    let Bounds { tolerance, half_epsilon, tiny } = bounds;
    let (c, alpha) = (c.address(), f64::from(p.alpha));
    let args: [&dyn KernelArg; 11] =
        [&c, want, sizes, &p.m, &p.n, &p.ldc, &alpha, tolerance, half_epsilon, tiny, verdict];
    // SAFETY: the arguments match `compare(c, want, sizes, m, n, ldc, alpha, tolerance, half_epsilon, tiny, verdict)`; the arrays have the sizes that the
    // kernel accesses, and stay borrowed until the stream has been waited for. `write` has checked that `verdict` has room for four words.
    unsafe { kernel.launch(stream, shape, &args) }?;
    stream.synchronize()?;
    verdict.read(&mut words)?;
    Ok(words)
}

fn assert_elements(p: &Product, want: &Slice<f64>, sizes: &Slice<f64>) {
    let elements = p.m as usize * p.n as usize;
    assert!(want.len() == elements && sizes.len() == elements, "the reference is [m][n]");
}
