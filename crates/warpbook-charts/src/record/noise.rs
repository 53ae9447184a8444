//! The rule for when a ratio of two medians counts as a change. This is the only place that defines it, in code and in
//! words.

use crate::draw::text::words::plain;
use warpbook_record::stats;

/// Relative difference that two runs of an unchanged program may show.
///
/// Samples of one run share its clocks, its memory addresses and its temperature, so their spread does not predict another run of the same program
/// (Kalibera and Jones, "Rigorous benchmarking in reasonable time", ISMM 2013). Of 693 GPU kernels and libraries of two published matrix-product
/// records whose sources are the same, the medians of three quarters lie within 2.4 %.
pub const THRESHOLD: f64 = 0.03;

/// Formats the threshold: "3 %".
pub(crate) fn threshold() -> String {
    format!("{} %", plain(THRESHOLD * 100.0))
}

/// The fewest samples with a meaningful spread.
pub const LEAST_SAMPLES: usize = 3;

/// Returns the rule in words, for a page.
#[must_use]
pub fn noise_rule() -> String {
    format!(
        "A row is faster or slower where the 95 % interval of the ratio of its two medians lies wholly beyond 1 ± {}; else it is within \
         noise. A median's standard error is 1.2533 × 1.4826 × MAD ÷ √samples, its MAD corrected for few samples (Croux and Rousseeuw, \
         1992); the two are combined as relative errors, with Student's t and Welch's degrees of freedom. The threshold is for what \
         samples of one run cannot show: two runs of an unchanged program differ by their clocks and addresses (Kalibera and Jones, \
         2013). Fewer than {LEAST_SAMPLES} samples are not judged.",
        threshold()
    )
}

/// The logarithm of a median, with its error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LogMedian {
    pub(crate) ln: f64,
    /// Variance of the logarithm; `None` for too few samples.
    pub(crate) error: Option<Error>,
}

/// A variance and its degrees of freedom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Error {
    pub(crate) variance: f64,
    pub(crate) freedom: f64,
}

impl LogMedian {
    /// Computes the logarithm of the samples' median; `None` if the median is not above zero.
    pub(crate) fn from_samples(samples: &[f64]) -> Option<Self> {
        let median = stats::median(samples).filter(|m| m.is_finite() && *m > 0.0)?;
        let n = samples.len();
        let error = stats::mad(samples).filter(|d| n >= LEAST_SAMPLES && d.is_finite()).map(|mad| {
            // Standard error of a normal sample's median, with the deviation estimated from the MAD. It is relative,
            // which makes it the error of the logarithm.
            let relative = 1.2533 * 1.4826 * few_samples(n) * (mad / median) / (n as f64).sqrt();
            // With larger errors nothing is significant, and the limit keeps squares finite.
            let relative = relative.min(1e3);
            Error { variance: relative * relative, freedom: (n - 1) as f64 }
        });
        Some(Self { ln: median.ln(), error })
    }
}

/// Returns the factor that makes the MAD of a few normal samples unbiased (Croux and Rousseeuw, "Time-efficient
/// algorithms for two highly robust estimators of scale", COMPSTAT 1992).
fn few_samples(n: usize) -> f64 {
    match n {
        0..=2 => 1.196,
        3 => 1.495,
        4 => 1.363,
        5 => 1.206,
        6 => 1.200,
        7 => 1.140,
        8 => 1.129,
        9 => 1.107,
        _ => n as f64 / (n as f64 - 0.8),
    }
}

/// Returns the sum of independent errors, with the degrees of freedom after Welch and Satterthwaite.
pub(crate) fn sum(errors: impl IntoIterator<Item = Error>) -> Error {
    let (mut variance, mut weight, mut least) = (0.0, 0.0, f64::INFINITY);
    for e in errors {
        variance += e.variance;
        weight += e.variance * e.variance / e.freedom;
        least = least.min(e.freedom);
    }
    let freedom = if weight > 0.0 { variance * variance / weight } else { least };
    Error { variance, freedom }
}

impl Error {
    /// Returns half of the 95 % interval.
    pub(crate) fn half_width(self) -> f64 {
        student(self.freedom) * self.variance.sqrt()
    }
}

/// Returns the 97.5 % quantile of Student's t, for two degrees of freedom and more.
fn student(freedom: f64) -> f64 {
    const FROM_TWO: [f64; 9] = [4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    if freedom < 11.0 {
        let at = (freedom.max(2.0) as usize - 2).min(FROM_TWO.len() - 1);
        return FROM_TWO[at];
    }
    // The Cornish-Fisher expansion is accurate to 0.001 from ten degrees of freedom on.
    let z: f64 = 1.959_964;
    z + (z.powi(3) + z) / (4.0 * freedom) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * freedom * freedom)
}

/// A speed-up, with the ends of its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Median of the first record divided by the median of this record.
    pub value: f64,
    /// Low end; the value itself if there are too few samples.
    pub low: f64,
    /// High end; the value itself if there are too few samples.
    pub high: f64,
}

impl Ratio {
    /// The ratio of the first record to itself.
    pub(crate) const ONE: Self = Self { value: 1.0, low: 1.0, high: 1.0 };

    pub(crate) fn new(ln: f64, error: Option<Error>) -> Self {
        let half = error.map_or(0.0, Error::half_width);
        // The limits are beyond any figure that can be drawn or written.
        let exp = |v: f64| v.clamp(-300.0, 300.0).exp();
        Self { value: exp(ln), low: exp(ln - half), high: exp(ln + half) }
    }

    /// Compares two measurements of one record by their samples; `None` if one has no median or too few samples.
    pub(crate) fn between(first: &[f64], this: &[f64]) -> Option<Self> {
        let (first, this) = (LogMedian::from_samples(first)?, LogMedian::from_samples(this)?);
        Some(Self::new(first.ln - this.ln, Some(sum([first.error?, this.error?]))))
    }

    /// Returns true if the interval lies wholly above the threshold.
    #[must_use]
    pub fn is_faster(&self) -> bool {
        self.is_above(&Self::ONE)
    }

    /// Returns true if the interval lies wholly below the threshold.
    #[must_use]
    pub fn is_slower(&self) -> bool {
        Self::ONE.is_above(self)
    }

    /// Returns true if the intervals are apart, and this one is higher by more than the threshold.
    pub(crate) fn is_above(&self, other: &Self) -> bool {
        self.low > (1.0 + THRESHOLD) * other.high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(a: &[f64], b: &[f64]) -> Ratio {
        let (a, b) = (LogMedian::from_samples(a).unwrap(), LogMedian::from_samples(b).unwrap());
        Ratio::new(a.ln - b.ln, a.error.zip(b.error).map(|(x, y)| sum([x, y])))
    }

    #[test]
    fn the_quantile_is_that_of_the_tables() {
        for (freedom, expect) in
            [(2.0, 4.303), (4.9, 2.776), (10.0, 2.228), (10.9, 2.228), (12.0, 2.179), (24.0, 2.064), (1e9, 1.960)]
        {
            assert!((student(freedom) - expect).abs() < 2e-3, "{freedom}: {}", student(freedom));
        }
    }

    #[test]
    fn a_change_must_leave_both_its_interval_and_the_threshold() {
        let around = |centre: f64, spread: f64, n: usize| -> Vec<f64> {
            (0..n).map(|i| centre * (1.0 + spread * (i as f64 / (n - 1) as f64 - 0.5))).collect()
        };
        let fine = ratio(&around(220.0, 0.01, 25), &around(188.0, 0.01, 25));
        assert!(fine.is_faster() && !fine.is_slower(), "{fine:?}");
        assert!((fine.value - 220.0 / 188.0).abs() < 1e-9);
        let slower = ratio(&around(188.0, 0.01, 25), &around(220.0, 0.01, 25));
        assert!(slower.is_slower() && !slower.is_faster(), "{slower:?}");
        // A certain difference of 2 % is below the threshold; a difference of 17 % from three scattered samples is uncertain.
        let small = ratio(&around(102.0, 0.001, 25), &around(100.0, 0.001, 25));
        assert!(!small.is_faster() && small.low > 1.0, "{small:?}");
        let loose = ratio(&around(220.0, 0.3, 3), &around(188.0, 0.3, 3));
        assert!(!loose.is_faster() && loose.high > 1.5, "{loose:?}");
    }

    /// Checks that the interval contains the truth about as often as it claims, for the numbers of samples that records
    /// have. Normal samples are sums of twelve uniform ones.
    #[test]
    fn the_interval_covers_what_it_says() {
        let mut state = 1_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        for n in [3, 5, 8, 25, 50] {
            let mut normal = || 100.0 + (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
            let trials = 2000;
            let covered = (0..trials)
                .filter(|_| {
                    let a: Vec<f64> = (0..n).map(|_| normal()).collect();
                    let b: Vec<f64> = (0..n).map(|_| normal()).collect();
                    let r = ratio(&a, &b);
                    r.low <= 1.0 && r.high >= 1.0
                })
                .count();
            let share = covered as f64 / f64::from(trials);
            assert!((0.90..=0.995).contains(&share), "{n} samples: {share}");
        }
    }

    #[test]
    fn samples_that_have_no_spread_are_not_judged() {
        assert!(LogMedian::from_samples(&[1.0, 2.0]).unwrap().error.is_none());
        assert!(LogMedian::from_samples(&[0.0, 0.0, 0.0]).is_none() && LogMedian::from_samples(&[]).is_none());
        assert!(LogMedian::from_samples(&[f64::NAN; 3]).is_none());
        assert!(noise_rule().contains("3 %") && noise_rule().contains("95 %"));
    }
}
