use crate::Dtype;
use serde::{Deserialize, Serialize};

/// A result held against a reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// What it was held against, as in "f64 descent on the CPU".
    pub reference: String,
    /// The largest |got - want|.
    #[serde(with = "crate::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::real::Real"))]
    pub max_abs_error: f64,
    /// The largest |got - want| / max(|want|, scale), the scale being the comparer's; this is what the tolerance bounds.
    #[serde(with = "crate::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::real::Real"))]
    pub max_rel_error: f64,
    /// The bound on the relative error.
    #[serde(with = "crate::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::real::Real"))]
    pub tolerance: f64,
    /// Whether the error stayed within it, before the timed loop and after it.
    pub passed: bool,
}

impl Check {
    /// Compares pairs of (got, want); `scale` is the least magnitude that errors are taken relative to.
    /// Anything that is not a number, and an empty list, fails.
    #[must_use]
    pub fn compare(reference: impl Into<String>, pairs: &[(f64, f64)], scale: f64, tolerance: f64) -> Self {
        let worst = |errors: &mut dyn Iterator<Item = f64>| {
            errors.fold(0.0, |a: f64, e| if e.is_nan() || a.is_nan() { f64::NAN } else { a.max(e) })
        };
        let max_abs_error = worst(&mut pairs.iter().map(|(g, w)| (g - w).abs()));
        let max_rel_error = worst(&mut pairs.iter().map(|(g, w)| (g - w).abs() / w.abs().max(scale)));
        // `<=` and not `!(>)`: NaN must fail.
        let passed = !pairs.is_empty() && max_rel_error <= tolerance;
        Self { reference: reference.into(), max_abs_error, max_rel_error, tolerance, passed }
    }

    /// The worse of two checks of the same thing, as of before and after a timed loop.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        let passed = self.passed && other.passed;
        let pick = if other.max_rel_error.is_nan() || other.max_rel_error > self.max_rel_error { other } else { self };
        Self { passed, ..pick }
    }
}

/// Bounds on rounding errors, from the dtype and the length of what is summed.
///
/// A sum of n terms in any tree of depth d has a relative error of at most about d u against the sum of magnitudes
/// (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2), u being half of epsilon.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance(pub f64);

impl Tolerance {
    /// Of a gradient descent whose gradients are sums over `points` in `dtype`, after `epochs` steps.
    ///
    /// Each step adds the rounding of one update and that of one gradient, whose summation tree has blocks of at most
    /// 256 serial additions below log2(points) levels; none of it is forgotten in the slow direction of the descent.
    #[must_use]
    pub fn descent(dtype: Dtype, points: u64, epochs: u64) -> Self {
        let depth = 256.0 + (points.max(2) as f64).log2();
        Self(dtype.epsilon() * 0.5 * (depth + epochs as f64))
    }

    /// Of an element of a matrix product, relative to the sum of the magnitudes of its `k` terms and beyond the rounding to C's type.
    ///
    /// Sums are in f32. Their roundings are independent enough that their error grows with the root of k: with high probability it
    /// is below 8 sqrt(k) u (Higham and Mary, "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41,
    /// 2019). u is 2^-23, as tensor cores cut off what they cannot keep. f16 and bf16 are multiplied exactly; tf32 loses the last
    /// 13 bits of each factor, which the reference does too, or may round them: 2^-9 of a term, which of k such terms as large as
    /// each other leaves 2^-9 / sqrt(k), up to the same factor.
    #[must_use]
    pub fn product(dtype: Dtype, k: u64) -> Self {
        let root = (k.max(1) as f64).sqrt();
        let of_factors = if dtype == Dtype::Tf32 { (2f64.powi(-8) / root).max(2f64.powi(-13)) * 2.0 } else { 0.0 };
        Self(8.0 * root * 2f64.powi(-23) + of_factors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pairs: &[(f64, f64)], expect: bool) {
        assert_eq!(Check::compare("r", pairs, 1.0, 1e-3).passed, expect, "{pairs:?}");
    }

    #[test]
    fn within_tolerance_passes_and_nan_never_does() {
        check(&[(1.0, 1.0), (100.05, 100.0)], true);
        check(&[(1.0, 1.0), (1.01, 1.0)], false);
        check(&[(f64::NAN, 1.0)], false);
        check(&[(f64::NAN, 1.0), (1.0, 1.0)], false);
        check(&[(1.0, f64::NAN)], false);
        check(&[(f64::INFINITY, f64::INFINITY)], false);
        check(&[], false);
    }

    #[test]
    fn the_worse_of_two_keeps_a_failure() {
        let good = Check::compare("r", &[(1.0, 1.0)], 1.0, 1e-3);
        let bad = Check::compare("r", &[(f64::NAN, 1.0)], 1.0, 1e-3);
        assert!(!good.clone().worse(bad.clone()).passed);
        assert!(bad.clone().worse(good.clone()).max_rel_error.is_nan());
        assert!(good.clone().worse(bad).max_rel_error.is_nan());
    }
}
