//! Checks products against f64 on the device.

use crate::check::judge_launch::{self as launch, Bounds};
use crate::handle::refused;
use crate::{DeviceArray, Product};
use warpbook_device::{Buffer, CudaDevice, Kernel, Result, Slice, Stream};
use warpbook_kernels::Tolerance;
use warpbook_kernels::matmul::{compare, reference};
use warpbook_record::Dtype;

/// A product in f64 on a device, with the sums of the magnitudes of its terms, against which results are checked.
#[derive(Debug)]
pub struct Judge {
    product: Product,
    want: Slice<f64>,
    sizes: Slice<f64>,
    verdict: Buffer<u64>,
    compare: Kernel,
    tolerance: f64,
}

/// Summary of the errors of a result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// Largest |got - want|.
    pub max_abs_error: f64,
    /// Largest error beyond the rounding to C's type, relative to the sum of the magnitudes of the terms.
    pub max_error: f64,
    /// Bound of `max_error`: see [`Tolerance::product`].
    pub tolerance: f64,
    /// Number of elements whose error exceeds the tolerance.
    pub wrong: u64,
    /// Row and column of the first wrong element.
    pub first_wrong: Option<(u32, u32)>,
}

impl Verdict {
    /// Returns true if the error of every element is within the tolerance.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.wrong == 0 && self.max_error <= self.tolerance
    }
}

impl Judge {
    /// Returns the number of bytes of device memory that a product's reference takes.
    #[must_use]
    pub fn bytes(product: &Product) -> u64 {
        u64::from(product.m) * u64::from(product.n) * 16
    }

    /// Computes op(A) op(B) in f64, and waits for the result. alpha is applied when a result is checked; products with a beta or an epilogue cannot be checked.
    ///
    /// # Errors
    /// [`warpbook_device::Error::Unsupported`] if A or B is too short or does not have the product's type. Also returns errors of the device.
    pub fn new(
        device: &CudaDevice,
        product: &Product,
        a: impl Into<DeviceArray>,
        b: impl Into<DeviceArray>,
    ) -> Result<Self> {
        product.validate().map_err(refused)?;
        let form = product.form;
        let spec = reference(form);
        let kernel = device.kernel(&spec, &spec.tiles[0])?;
        let elements = product.m as usize * product.n as usize;
        let (want, sizes) = (device.zeros(elements)?, device.zeros(elements)?);
        let stream = device.stream()?;
        launch::reference(&kernel, &stream, product, (&a.into(), &b.into()), (&want, &sizes))?;
        Self::with_reference(device, product, [want.range(..), sizes.range(..)], 0.0)
    }

    /// Returns a judge for results that were computed in f64 by other means, with the sums of the magnitudes of their terms, both `[m][n]`; k is the number of
    /// terms of a sum. The tolerance is the tolerance of a product plus `more`.
    ///
    /// # Errors
    /// If the comparing kernel does not compile, or device memory is too small.
    pub fn with_reference(
        device: &CudaDevice,
        product: &Product,
        [want, sizes]: [Slice<f64>; 2],
        more: f64,
    ) -> Result<Self> {
        let spec = compare(product.form);
        let compare = device.kernel(&spec, &spec.tiles[0])?;
        let Tolerance(tolerance) = Tolerance::product(product.form.dtype, product.k.into());
        let (product, tolerance) = (*product, tolerance + more);
        Ok(Self { product, want, sizes, verdict: device.zeros(4)?, compare, tolerance })
    }

    /// Compares C with the reference, after waiting for earlier work on `stream`.
    ///
    /// # Errors
    /// [`warpbook_device::Error::Unsupported`] if C is too short or does not have the product's type. Also returns errors of the device, including errors of
    /// earlier work on the stream.
    pub fn judge(&self, stream: &Stream, c: impl Into<DeviceArray>) -> Result<Verdict> {
        let p = &self.product;
        let bounds = Bounds {
            tolerance: self.tolerance,
            half_epsilon: 0.5 * p.form.out.epsilon(),
            // Below the smallest normal number of C's type, values are further apart relative to their size.
            tiny: if p.form.out == Dtype::F16 { 1e-7 } else { 1e-37 },
        };
        let reference = (&self.want, &self.sizes);
        let got = launch::compare(&self.compare, stream, p, &c.into(), reference, &bounds, &self.verdict)?;
        let place = |i: u64| (i / u64::from(p.n), i % u64::from(p.n));
        let narrow = |(r, c): (u64, u64)| (u32::try_from(r).unwrap_or(u32::MAX), u32::try_from(c).unwrap_or(u32::MAX));
        Ok(Verdict {
            max_abs_error: f64::from_bits(got[0]),
            max_error: f64::from_bits(got[1]),
            tolerance: self.tolerance,
            wrong: got[2],
            first_wrong: (got[3] != u64::MAX).then(|| narrow(place(got[3]))),
        })
    }
}
