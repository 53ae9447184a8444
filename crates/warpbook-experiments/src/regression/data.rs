//! The points of the regression, drawn with Philox in shuffled order, with the same bits on every device.

use rayon::prelude::*;
use warpbook_data::parallel::collect;
use warpbook_data::philox::{gaussian, permute};
use warpbook_kernels::regression::Line;

/// Points in shuffled order; the first `train` are the training points.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSet {
    /// Features, f32 `[features][points]`: one evenly spaced feature, in [0, 10) by default, or several standard
    /// Gaussian ones.
    pub x: Vec<Vec<f32>>,
    /// Observed values, f32 `[points]`.
    pub y: Vec<f32>,
    /// Number of training points.
    pub train: usize,
}

/// Columns of points: the features, f32 `[features][points]`, and y, f32 `[points]`.
pub(crate) type Columns<'a> = (&'a [&'a [f32]], &'a [f32]);

/// An evenly spaced feature before shuffling: values start at `low`, are `step` apart, and never exceed `below_high`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spaced {
    pub low: f64,
    pub step: f64,
    /// Largest float below the end of the range, so that rounding cannot reach the end of the half-open range.
    pub below_high: f32,
}

impl Spaced {
    pub(crate) fn new(line: &Line, points: u64) -> Self {
        let (low, high) = (f64::from(line.range.0), f64::from(line.range.1));
        Self { low, step: (high - low) / points as f64, below_high: line.range.1.next_down() }
    }
}

/// Returns the number of training points, which is 80 % of `points`, rounded down.
pub(crate) fn train_points(points: u64) -> u64 {
    // This equals 4 n / 5, but 4 n could overflow.
    points / 5 * 4 + points % 5 * 4 / 5
}

impl DataSet {
    /// Draws the points around y = 3 x + 2 on the CPU.
    #[must_use]
    pub fn draw(points: u64, features: u64, noise: f32, seed: u64) -> Self {
        Self::around(&Line::default(), (points, features), noise, seed)
    }

    /// Draws points with this many features around a line on the CPU; `kernels/regression/data.cu` draws the same bits.
    #[must_use]
    pub fn around(line: &Line, (points, features): (u64, u64), noise: f32, seed: u64) -> Self {
        let train = train_points(points) as usize;
        let (w, b) = line.truth;
        if features == 1 {
            let Spaced { low, step, below_high } = Spaced::new(line, points);
            let point = |j: u64| {
                let i = permute(seed, j, points);
                let x = ((low + i as f64 * step) as f32).min(below_high);
                let line = w * x + b;
                (x, line + noise * gaussian(seed, i, 0))
            };
            let (x, y) = (0..points).into_par_iter().map(point).unzip();
            return Self { x: vec![x], y, train };
        }
        let streams = 1..=u32::try_from(features).unwrap_or(u32::MAX);
        let x: Vec<Vec<f32>> = streams.map(|j| collect(points as usize, &|i| gaussian(seed, i as u64, j))).collect();
        // Numbers are drawn in the same order as in the kernel: b first, then one feature after another, then the
        // noise.
        let seen = |i: usize| {
            let line = x.iter().enumerate().fold(b, |line, (j, xj)| line + true_weight(w, j) * xj[i]);
            line + noise * gaussian(seed, i as u64, 0)
        };
        let y = collect(points as usize, &seen);
        Self { x, y, train }
    }

    /// Returns the x and y columns of the training points.
    #[must_use]
    pub fn training(&self) -> (Vec<&[f32]>, &[f32]) {
        (self.x.iter().map(|x| &x[..self.train]).collect(), &self.y[..self.train])
    }

    /// Returns the x and y columns of the test points.
    #[must_use]
    pub fn test(&self) -> (Vec<&[f32]>, &[f32]) {
        (self.x.iter().map(|x| &x[self.train..]).collect(), &self.y[self.train..])
    }
}

/// Returns the true weight of a feature in data with several features; the weights are w, -w/2, w/3, -w/4 ...
fn true_weight(w: f32, feature: usize) -> f32 {
    let sign = if feature.is_multiple_of(2) { 1.0 } else { -1.0 };
    sign * w / (feature + 1) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_fifths_are_trained_on() {
        for (points, expect) in [(2, 1), (5, 4), (9, 7), (5_000_000, 4_000_000), (u64::MAX, u64::MAX / 5 * 4)] {
            assert_eq!(train_points(points), expect, "{points}");
        }
    }

    #[test]
    fn points_lie_on_the_line_but_for_their_noise() {
        let set = DataSet::draw(50_000, 1, 0.1, 3);
        let mut x = set.x[0].clone();
        x.sort_by(f32::total_cmp);
        assert!(x.iter().enumerate().all(|(i, v)| (f64::from(*v) - i as f64 * 2e-4).abs() < 1e-6), "evenly spaced");
        let noise: Vec<f64> = set.x[0].iter().zip(&set.y).map(|(x, y)| f64::from(y - (3.0 * x + 2.0))).collect();
        let sigma = (noise.iter().map(|e| e * e).sum::<f64>() / noise.len() as f64).sqrt();
        assert!((sigma - 0.1).abs() < 0.002, "{sigma}");
        assert_ne!(set, DataSet::draw(50_000, 1, 0.1, 4));
        assert_eq!(set, DataSet::draw(50_000, 1, 0.1, 3));
        assert_eq!((set.training().1.len(), set.test().0[0].len()), (40_000, 10_000));
    }

    #[test]
    fn without_noise_they_are_the_line() {
        let set = DataSet::draw(1000, 1, 0.0, 1);
        assert!(set.x[0].iter().zip(&set.y).all(|(x, y)| *y == 3.0 * x + 2.0));
    }

    #[test]
    fn points_lie_in_the_range_and_on_the_line_that_are_asked_for() {
        let line = Line { truth: (-2.0, 0.5), range: (-5.0, 5.0), ..Line::default() };
        let set = DataSet::around(&line, (1000, 1), 0.0, 1);
        let mut x = set.x[0].clone();
        x.sort_by(f32::total_cmp);
        assert_eq!((x[0], x[500]), (-5.0, 0.0));
        assert!(x[999] < 5.0 && x.windows(2).all(|p| (p[1] - p[0] - 0.01).abs() < 1e-5));
        assert!(set.x[0].iter().zip(&set.y).all(|(x, y)| *y == -2.0 * x + 0.5));
        // The default line must give the same bits as before the line became a setting.
        let (usual, bits) =
            (DataSet::draw(7, 1, 0.1, 1), |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>());
        let spaced = (0..7).map(|i| ((i as f64 * (10.0 / 7.0)) as f32).min(9.999_999)).collect::<Vec<_>>();
        let mut drawn = usual.x[0].clone();
        drawn.sort_by(f32::total_cmp);
        assert_eq!(bits(&drawn), bits(&spaced));
    }

    #[test]
    fn several_features_are_gaussian_and_carry_their_weights() {
        let set = DataSet::draw(40_000, 3, 0.1, 3);
        let mean = |v: &mut dyn Iterator<Item = f64>| v.sum::<f64>() / 40_000.0;
        for (j, x) in set.x.iter().enumerate() {
            assert!(mean(&mut x.iter().map(|v| f64::from(*v))).abs() < 0.03);
            assert!((mean(&mut x.iter().map(|v| f64::from(v * v))) - 1.0).abs() < 0.03);
            // With independent features, the covariance of a feature with y equals the weight of the feature.
            let with_y = mean(&mut x.iter().zip(&set.y).map(|(x, y)| f64::from(x * y)));
            assert!((with_y - [3.0, -1.5, 1.0][j]).abs() < 0.1, "{j}: {with_y}");
        }
        assert_ne!(set.x[0], set.x[1]);
    }
}
