#![allow(unsafe_code)]

use super::Product;
use warpbook_device::{Buffer, CudaDevice, DevicePtr, Kernel, Result, Stream};
use warpbook_record::matmul::{compare, reference};
use warpbook_record::{Dtype, Tolerance};

/// A product in f64 on a device, and the sums of the magnitudes of its terms, to hold results against.
#[derive(Debug)]
pub struct Judge {
    product: Product,
    want: Buffer<f64>,
    sizes: Buffer<f64>,
    verdict: Buffer<u64>,
    compare: Kernel,
    tolerance: f64,
}

/// How far a result is off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// The largest |got - want|.
    pub max_abs_error: f64,
    /// The largest error beyond the rounding to C's type, relative to the sum of the magnitudes of the terms.
    pub max_error: f64,
    /// What bounds it, see [`Tolerance::product`].
    pub tolerance: f64,
    /// Elements that are off by more.
    pub wrong: u64,
    /// Row and column of the first of them.
    pub first_wrong: Option<(u32, u32)>,
}

impl Verdict {
    /// Whether every element is within the tolerance.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.wrong == 0 && self.max_error <= self.tolerance
    }
}

impl Judge {
    /// Bytes that it takes on the device for a product.
    #[must_use]
    pub fn bytes(product: &Product) -> u64 {
        u64::from(product.m) * u64::from(product.n) * 16
    }

    /// Computes op(A) op(B) in f64, and waits for it. alpha is applied when a result is judged; beta, bias and mask are none.
    ///
    /// # Errors
    /// The device's.
    ///
    /// # Safety
    /// `a` and `b` hold what the product says.
    pub unsafe fn new(device: &CudaDevice, product: &Product, a: DevicePtr, b: DevicePtr) -> Result<Self> {
        let form = product.form;
        let (spec, judging) = (reference(form), compare(form));
        let kernel = device.kernel(&spec, &spec.tiles[0])?;
        let elements = product.m as usize * product.n as usize;
        let (want, sizes) = (device.zeros(elements)?, device.zeros(elements)?);
        let stream = device.stream()?;
        let (m, n) = (product.m, product.n);
        let shape = kernel.tiles_shape(m.into(), n.into());
        // SAFETY: reference(a, b, want, sizes, m, n, k, lda, ldb); the outputs have m n elements, the inputs are the caller's.
        unsafe {
            kernel.launch(&stream, shape, &[&a, &b, &want, &sizes, &m, &n, &product.k, &product.lda, &product.ldb])?
        };
        stream.synchronize()?;
        let Tolerance(tolerance) = Tolerance::product(form.dtype, product.k.into());
        let compare = device.kernel(&judging, &judging.tiles[0])?;
        Ok(Self { product: *product, want, sizes, verdict: device.zeros(4)?, compare, tolerance })
    }

    /// Holds C against it; what was queued on `stream` before is waited for.
    ///
    /// # Errors
    /// The device's, those of earlier work on the stream included.
    ///
    /// # Safety
    /// `c` holds what the product says.
    pub unsafe fn judge(&self, stream: &Stream, c: DevicePtr) -> Result<Verdict> {
        let p = &self.product;
        self.verdict.write(&[0, 0, 0, u64::MAX])?;
        let half_epsilon = 0.5 * p.form.out.epsilon();
        // Below the smallest normal number of C's type its numbers lie further apart.
        let tiny = if p.form.out == Dtype::F16 { 1e-7 } else { 1e-37 };
        let shape = self.compare.shape(u64::from(p.m) * u64::from(p.n));
        let alpha = f64::from(p.alpha);
        // SAFETY: compare(c, want, sizes, m, n, ldc, alpha, tolerance, half_epsilon, tiny, verdict), all as large as it reads.
        unsafe {
            self.compare.launch(
                stream,
                shape,
                &[
                    &c,
                    &self.want,
                    &self.sizes,
                    &p.m,
                    &p.n,
                    &p.ldc,
                    &alpha,
                    &self.tolerance,
                    &half_epsilon,
                    &tiny,
                    &self.verdict,
                ],
            )?;
        }
        stream.synchronize()?;
        let got = self.verdict.to_vec()?;
        let at = got[3];
        let place = |i: u64| (i / u64::from(p.n), i % u64::from(p.n));
        let narrow = |(r, c): (u64, u64)| (u32::try_from(r).unwrap_or(u32::MAX), u32::try_from(c).unwrap_or(u32::MAX));
        Ok(Verdict {
            max_abs_error: f64::from_bits(got[0]),
            max_error: f64::from_bits(got[1]),
            tolerance: self.tolerance,
            wrong: got[2],
            first_wrong: (at != u64::MAX).then(|| narrow(place(at))),
        })
    }
}
