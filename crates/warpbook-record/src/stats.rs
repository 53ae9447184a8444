//! The statistics of a measurement: median and median absolute deviation.

/// The median of the samples; `None` without samples. NaN samples sort last.
#[must_use]
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mid = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[mid]),
        _ => Some((sorted[mid - 1] + sorted[mid]) / 2.0),
    }
}

/// The median absolute deviation from the median, unscaled, in the samples' unit; `None` without samples.
#[must_use]
pub fn mad(samples: &[f64]) -> Option<f64> {
    let centre = median(samples)?;
    median(&samples.iter().map(|s| (s - centre).abs()).collect::<Vec<_>>())
}

/// The smallest sample; `None` without samples.
#[must_use]
pub fn min(samples: &[f64]) -> Option<f64> {
    samples.iter().copied().min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(samples: &[f64], expect: (Option<f64>, Option<f64>)) {
        assert_eq!((median(samples), mad(samples)), expect, "{samples:?}");
    }

    #[test]
    fn median_and_mad() {
        check(&[], (None, None));
        check(&[3.0], (Some(3.0), Some(0.0)));
        check(&[4.0, 1.0, 2.0], (Some(2.0), Some(1.0)));
        check(&[1.0, 2.0, 3.0, 100.0], (Some(2.5), Some(1.0)));
    }
}
