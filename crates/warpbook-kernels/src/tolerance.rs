use warpbook_record::Dtype;

/// Bounds on rounding errors, from the type and the length of the sums.
///
/// A sum of n terms in any tree of depth d has a relative error of at most about d u against the sum of magnitudes, where u is half of epsilon (Higham,
/// Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance(pub f64);

impl Tolerance {
    /// Returns the tolerance of a gradient descent whose gradients are sums over `points` in `dtype`, after `epochs` steps.
    ///
    /// Each step adds the rounding of one update and that of one gradient, whose summation tree has blocks of at most 256 serial additions below
    /// log2(points) levels. None of it is forgotten in the slow direction of the descent.
    #[must_use]
    pub fn descent(dtype: Dtype, points: u64, epochs: u64) -> Self {
        let depth = 256.0 + (points.max(2) as f64).log2();
        Self(dtype.epsilon() * 0.5 * (depth + epochs as f64))
    }

    /// Returns the tolerance of an element of a matrix product, relative to the sum of the magnitudes of its `k` terms and beyond the rounding to C's type.
    ///
    /// Sums are in f32. Their roundings are independent enough that their error grows with the root of k: with high probability it is below 8 sqrt(k) u
    /// (Higham and Mary, "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41, 2019). u is 2^-23, since tensor cores
    /// truncate. f16 and bf16 are multiplied exactly. For tf32 the reference drops the last 13 bits of each factor, while a kernel may round them,
    /// which changes a term by at most 2^-9 of it; k terms of equal size leave 2^-9 / sqrt(k). Four times that is allowed, and at least 2^-12.
    #[must_use]
    pub fn product(dtype: Dtype, k: u64) -> Self {
        let root = (k.max(1) as f64).sqrt();
        let of_factors = if dtype == Dtype::Tf32 { (2f64.powi(-8) / root).max(2f64.powi(-13)) * 2.0 } else { 0.0 };
        Self(8.0 * root * 2f64.powi(-23) + of_factors)
    }

    /// Returns the relative tolerance of each of the first twenty losses of a training run, compared with those in fp32; `products` is the operand type of
    /// convolutions and linear layers. It was measured against PyTorch's losses of the MNIST CNN: the rounding of one step is far smaller, but it accumulates
    /// over steps.
    #[must_use]
    pub fn losses(products: Dtype) -> Self {
        Self(if products == Dtype::F32 { 2e-4 } else { 1e-2 })
    }
}
