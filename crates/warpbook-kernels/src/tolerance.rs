use warpbook_record::Dtype;

/// A bound on rounding errors, derived from the type and the length of the sums.
///
/// A sum of n terms, added in any tree of depth d, has an error of at most about d u relative to the sum of the magnitudes, where u is half of epsilon
/// (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance(pub f64);

impl Tolerance {
    /// Returns the tolerance of a gradient descent after `epochs` steps, whose gradients are sums over `points` points in `dtype`.
    ///
    /// Each step adds the rounding error of one update and of one gradient. The summation tree of the gradient has blocks of at most 256 serial additions
    /// below log2(points) levels. In the direction in which the descent converges slowly, none of this error is forgotten.
    #[must_use]
    pub fn descent(dtype: Dtype, points: u64, epochs: u64) -> Self {
        let depth = 256.0 + (points.max(2) as f64).log2();
        Self(dtype.epsilon() * 0.5 * (depth + epochs as f64))
    }

    /// Returns the tolerance of an element of a matrix product. It is relative to the sum of the magnitudes of the element's `k` terms, and does not include
    /// the rounding to C's type.
    ///
    /// Sums are computed in f32. Their rounding errors are independent enough that the total error grows with the square root of k: with high probability it
    /// is below 8 sqrt(k) u (Higham and Mary, "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41, 2019). u is 2^-23, because
    /// tensor cores truncate. Products of f16 and bf16 values are exact. For tf32, the reference drops the last 13 bits of each factor, but a kernel may
    /// round them instead, which changes a term by at most 2^-9 of its value; the sum of k terms of equal size then changes by 2^-9 / sqrt(k). Four times
    /// this value is allowed, and at least 2^-12.
    #[must_use]
    pub fn product(dtype: Dtype, k: u64) -> Self {
        let root = (k.max(1) as f64).sqrt();
        let of_factors = if dtype == Dtype::Tf32 { (2f64.powi(-8) / root).max(2f64.powi(-13)) * 2.0 } else { 0.0 };
        Self(8.0 * root * 2f64.powi(-23) + of_factors)
    }

    /// Returns the relative tolerance of each of the first twenty losses of a training run, compared with a run in fp32. `products` is the operand type of
    /// convolutions and linear layers. The tolerance was measured against PyTorch's losses of the MNIST CNN: the rounding error of a single step is far
    /// smaller, but it accumulates over the steps.
    #[must_use]
    pub fn losses(products: Dtype) -> Self {
        Self(if products == Dtype::F32 { 2e-4 } else { 1e-2 })
    }
}
