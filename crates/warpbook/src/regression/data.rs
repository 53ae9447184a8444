//! The points: drawn by Philox, in shuffled order, the same bits wherever they are drawn.

use rayon::prelude::*;
use warpbook_kernels::regression::TRUTH;
use warpbook_nn::parallel::collect;
use warpbook_nn::philox::{gaussian, permute};

/// Points in shuffled order; the first `train` are trained on.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSet {
    /// The features, f32 `[features][points]`: one evenly spaced in [0, 10), or several that are standard Gaussian numbers.
    pub x: Vec<Vec<f32>>,
    /// What was seen there, f32 `[points]`.
    pub y: Vec<f32>,
    /// Training points.
    pub train: usize,
}

/// Features f32 `[features][points]`, and y f32 `[points]`.
pub(crate) type Columns<'a> = (&'a [&'a [f32]], &'a [f32]);

/// The step between neighbours of x before they are shuffled.
pub(crate) fn step(points: u64) -> f64 {
    10.0 / points as f64
}

/// Training points of so many: 80 %, rounded down.
pub(crate) fn train_points(points: u64) -> u64 {
    // Four fifths without the overflow of 4 n.
    points / 5 * 4 + points % 5 * 4 / 5
}

impl DataSet {
    /// Draws the points on the CPU; `kernels/regression/data.cu` draws the same bits.
    #[must_use]
    pub fn draw(points: u64, features: u64, noise: f32, seed: u64) -> Self {
        let train = train_points(points) as usize;
        if features == 1 {
            let step = step(points);
            let (x, y) =
                (0..points).into_par_iter().map(|j| point(permute(seed, j, points), step, noise, seed)).unzip();
            return Self { x: vec![x], y, train };
        }
        let streams = 1..=u32::try_from(features).unwrap_or(u32::MAX);
        let x: Vec<Vec<f32>> = streams.map(|j| collect(points as usize, &|i| gaussian(seed, i as u64, j))).collect();
        // In the order of the kernel: b first, then a feature after the other, then the noise.
        let seen = |i: usize| {
            let line = x.iter().enumerate().fold(TRUTH.1, |line, (j, xj)| line + true_weight(j) * xj[i]);
            line + noise * gaussian(seed, i as u64, 0)
        };
        let y = collect(points as usize, &seen);
        Self { x, y, train }
    }

    /// The training points (x, y).
    #[must_use]
    pub fn training(&self) -> (Vec<&[f32]>, &[f32]) {
        (self.x.iter().map(|x| &x[..self.train]).collect(), &self.y[..self.train])
    }

    /// The test points (x, y).
    #[must_use]
    pub fn test(&self) -> (Vec<&[f32]>, &[f32]) {
        (self.x.iter().map(|x| &x[self.train..]).collect(), &self.y[self.train..])
    }
}

/// The weight of a feature that several are drawn around: 3, -3/2, 1, -3/4 ...
fn true_weight(feature: usize) -> f32 {
    let sign = if feature.is_multiple_of(2) { 1.0 } else { -1.0 };
    sign * TRUTH.0 / (feature + 1) as f32
}

fn point(i: u64, step: f64, noise: f32, seed: u64) -> (f32, f32) {
    // The largest float below 10 keeps the interval half open after rounding.
    let x = ((i as f64 * step) as f32).min(9.999_999);
    let line = TRUTH.0 * x + TRUTH.1;
    (x, line + noise * gaussian(seed, i, 0))
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
    fn several_features_are_gaussian_and_carry_their_weights() {
        let set = DataSet::draw(40_000, 3, 0.1, 3);
        let mean = |v: &mut dyn Iterator<Item = f64>| v.sum::<f64>() / 40_000.0;
        for (j, x) in set.x.iter().enumerate() {
            assert!(mean(&mut x.iter().map(|v| f64::from(*v))).abs() < 0.03);
            assert!((mean(&mut x.iter().map(|v| f64::from(v * v))) - 1.0).abs() < 0.03);
            // The covariance of independent features with y is their weight.
            let with_y = mean(&mut x.iter().zip(&set.y).map(|(x, y)| f64::from(x * y)));
            assert!((with_y - [3.0, -1.5, 1.0][j]).abs() < 0.1, "{j}: {with_y}");
        }
        assert_ne!(set.x[0], set.x[1]);
    }
}
