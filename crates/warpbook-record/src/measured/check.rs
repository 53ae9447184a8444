use serde::{Deserialize, Serialize};

/// A result compared with a reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// The reference, such as "f64 descent on the CPU".
    pub reference: String,
    /// The largest |got - want|.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub max_abs_error: f64,
    /// The largest |got - want| / max(|want|, scale), where the caller of the comparison gives the scale. The tolerance
    /// limits this error.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub max_rel_error: f64,
    /// Limit on the relative error.
    #[serde(with = "crate::format::real::one")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::format::real::Real"))]
    pub tolerance: f64,
    /// True if the error stayed within the tolerance, before and after the timed loop.
    pub passed: bool,
}

impl Check {
    /// Compares pairs of (got, want). Errors are relative to `want`, or to `scale` if that is larger. The check fails
    /// on NaN and on an empty list.
    #[must_use]
    pub fn compare(reference: impl Into<String>, pairs: &[(f64, f64)], scale: f64, tolerance: f64) -> Self {
        Self::over(reference, pairs.iter().copied(), scale, tolerance)
    }

    /// Compares pairs like [`Check::compare`], but takes them from an iterator without storing them.
    #[must_use]
    pub fn over(
        reference: impl Into<String>,
        pairs: impl IntoIterator<Item = (f64, f64)>,
        scale: f64,
        tolerance: f64,
    ) -> Self {
        let worst = |a: f64, e: f64| if e.is_nan() || a.is_nan() { f64::NAN } else { a.max(e) };
        let (mut max_abs_error, mut max_rel_error, mut any) = (0.0, 0.0, false);
        for (got, want) in pairs {
            let error = (got - want).abs();
            (max_abs_error, any) = (worst(max_abs_error, error), true);
            max_rel_error = worst(max_rel_error, error / want.abs().max(scale));
        }
        // This uses `<=` and not `!(>)`, so that NaN fails.
        let passed = any && max_rel_error <= tolerance;
        Self { reference: reference.into(), max_abs_error, max_rel_error, tolerance, passed }
    }

    /// Returns the worse of two checks of one result, such as those before and after a timed loop.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        let passed = self.passed && other.passed;
        let pick = if other.max_rel_error.is_nan() || other.max_rel_error > self.max_rel_error { other } else { self };
        Self { passed, ..pick }
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
