//! The positions of a measurement's samples in a strip.

use warpbook_record::stats;

/// The maximum number of dots; more samples are thinned out evenly.
const MAX_DOTS: usize = 400;

/// Positions in a strip of width and height 1, from its upper left corner.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplePlot {
    /// The samples from top to bottom, in the order in which they were taken.
    pub dots: Vec<(f64, f64)>,
    /// The horizontal position of the median.
    pub median: f64,
    /// The horizontal positions of the median minus and plus the MAD.
    pub band: (f64, f64),
    /// The horizontal positions of the smallest and the largest sample.
    pub ends: (f64, f64),
}

impl SamplePlot {
    /// Computes the positions; `None` if no sample is finite.
    pub fn from_samples(samples: &[f64]) -> Option<Self> {
        let finite: Vec<f64> = samples.iter().copied().filter(|v| v.is_finite()).collect();
        let (median, mad) = (stats::median(&finite)?, stats::mad(&finite)?);
        let low = finite.iter().copied().fold(f64::INFINITY, f64::min);
        let high = finite.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let place =
            |v: f64| if high > low { ((v / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0)).clamp(0.0, 1.0) } else { 0.5 };
        let n = finite.len();
        let drawn = n.min(MAX_DOTS);
        let nth = |i: usize| i * n / drawn;
        let down = |i: usize| (i as f64 + 0.5) / drawn as f64;
        Some(Self {
            dots: (0..drawn).map(|i| (place(finite[nth(i)]), down(i))).collect(),
            median: place(median),
            band: (place(median - mad), place(median + mad)),
            ends: (low, high),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_lie_between_the_least_and_the_most() {
        let strip = SamplePlot::from_samples(&[10.0, 14.0, 11.0, 12.0, f64::NAN]).unwrap();
        assert_eq!(strip.ends, (10.0, 14.0));
        assert_eq!(strip.dots, [(0.0, 0.125), (1.0, 0.375), (0.25, 0.625), (0.5, 0.875)]);
        assert_eq!(strip.median, 0.375);
        assert!(strip.band.0 < strip.median && strip.median < strip.band.1);
    }

    #[test]
    fn equal_few_and_many_samples_have_places() {
        assert_eq!(SamplePlot::from_samples(&[3.0, 3.0]).unwrap().dots, [(0.5, 0.25), (0.5, 0.75)]);
        assert!(SamplePlot::from_samples(&[]).is_none() && SamplePlot::from_samples(&[f64::NAN]).is_none());
        let many: Vec<f64> = (0..1000).map(f64::from).collect();
        assert_eq!(SamplePlot::from_samples(&many).unwrap().dots.len(), MAX_DOTS);
        assert!(
            SamplePlot::from_samples(&[-f64::MAX, f64::MAX]).is_none_or(|s| s.dots.iter().all(|d| d.0.is_finite()))
        );
    }
}
