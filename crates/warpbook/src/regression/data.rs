//! The points: drawn by Philox, in shuffled order, the same bits wherever they are drawn.

use rayon::prelude::*;
use warpbook_nn::philox::{gaussian, permute};
use warpbook_record::regression::TRUTH;

/// Points in shuffled order, f32 `[points]` each; the first `train` are trained on.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSet {
    /// Where the line is looked at, in [0, 10).
    pub x: Vec<f32>,
    /// What was seen there.
    pub y: Vec<f32>,
    /// Training points.
    pub train: usize,
}

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
    /// Draws the points on the processor; `kernels/regression/data.cu` draws the same bits.
    #[must_use]
    pub fn draw(points: u64, noise: f32, seed: u64) -> Self {
        let step = step(points);
        let (x, y) = (0..points).into_par_iter().map(|j| point(permute(seed, j, points), step, noise, seed)).unzip();
        Self { x, y, train: train_points(points) as usize }
    }

    /// The training points (x, y).
    #[must_use]
    pub fn training(&self) -> (&[f32], &[f32]) {
        (&self.x[..self.train], &self.y[..self.train])
    }

    /// The test points (x, y).
    #[must_use]
    pub fn test(&self) -> (&[f32], &[f32]) {
        (&self.x[self.train..], &self.y[self.train..])
    }
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
        let set = DataSet::draw(50_000, 0.1, 3);
        let mut x = set.x.clone();
        x.sort_by(f32::total_cmp);
        assert!(x.iter().enumerate().all(|(i, v)| (f64::from(*v) - i as f64 * 2e-4).abs() < 1e-6), "evenly spaced");
        let noise: Vec<f64> = set.x.iter().zip(&set.y).map(|(x, y)| f64::from(y - (3.0 * x + 2.0))).collect();
        let sigma = (noise.iter().map(|e| e * e).sum::<f64>() / noise.len() as f64).sqrt();
        assert!((sigma - 0.1).abs() < 0.002, "{sigma}");
        assert_ne!(set, DataSet::draw(50_000, 0.1, 4));
        assert_eq!(set, DataSet::draw(50_000, 0.1, 3));
        assert_eq!((set.training().0.len(), set.test().0.len()), (40_000, 10_000));
    }

    #[test]
    fn without_noise_they_are_the_line() {
        let set = DataSet::draw(1000, 0.0, 1);
        assert!(set.x.iter().zip(&set.y).all(|(x, y)| *y == 3.0 * x + 2.0));
    }
}
