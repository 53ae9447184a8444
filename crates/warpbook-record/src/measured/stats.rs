//! The statistics of a measurement: median and median absolute deviation, mean and standard deviation.

/// Returns the median of the samples; `None` without samples. NaN samples sort last.
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

/// Returns the median absolute deviation from the median, unscaled, in the samples' unit; `None` without samples.
#[must_use]
pub fn mad(samples: &[f64]) -> Option<f64> {
    let centre = median(samples)?;
    median(&samples.iter().map(|s| (s - centre).abs()).collect::<Vec<_>>())
}

/// Returns the smallest sample; `None` without samples.
#[must_use]
pub fn min(samples: &[f64]) -> Option<f64> {
    samples.iter().copied().min_by(f64::total_cmp)
}

/// Returns the mean and the sample standard deviation (over n - 1; 0 for a single number) in the samples' unit; `None`
/// without samples.
#[must_use]
pub fn moments(samples: &[f64]) -> Option<(f64, f64)> {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let squares: f64 = samples.iter().map(|v| (v - mean).powi(2)).sum();
    (n > 0.0).then(|| (mean, (squares / (n - 1.0).max(1.0)).sqrt()))
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

    #[test]
    fn moments_are_those_of_a_sample() {
        assert_eq!(moments(&[1.0, 3.0]), Some((2.0, 2.0f64.sqrt())));
        assert_eq!(moments(&[4.0]), Some((4.0, 0.0)));
        assert_eq!(moments(&[]), None);
        assert!(moments(&[1.0, f64::NAN]).is_some_and(|(mean, deviation)| mean.is_nan() && deviation.is_nan()));
    }
}
