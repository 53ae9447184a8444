//! The reference: a gradient descent in double precision.

use super::data::Columns;
use warpbook_data::parallel::collect;

/// Means and centred second moments of a set of points, in double precision.
///
/// A descent on the mean squared error of a line depends only on these moments, so the reference needs a single pass
/// over the points. Chunks are merged with the updating formulas of Chan, Golub and LeVeque (1983), which avoid
/// cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moments {
    /// Number of points.
    pub n: u64,
    /// Mean of x.
    pub mean_x: f64,
    /// Mean of y.
    pub mean_y: f64,
    /// Sum of (x - mean)^2.
    pub sxx: f64,
    /// Sum of (x - mean)(y - mean).
    pub sxy: f64,
    /// Sum of (y - mean)^2.
    pub syy: f64,
}

impl Moments {
    /// Computes the moments of points (x, y), f32 `[n]` each; the shorter array determines n.
    #[must_use]
    pub fn from_points(x: &[f32], y: &[f32]) -> Self {
        const CHUNK: usize = 4096;
        // Chunks are merged in order, so that the result has the same bits with any number of threads.
        let chunks: Vec<_> = x.chunks(CHUNK).zip(y.chunks(CHUNK)).collect();
        let chunks = collect(chunks.len(), &|i| Self::of_chunk(chunks[i].0, chunks[i].1));
        Self::merge_all(&chunks)
    }

    fn of_chunk(x: &[f32], y: &[f32]) -> Self {
        let n = x.len().min(y.len());
        let points = || x.iter().zip(y).map(|(x, y)| (f64::from(*x), f64::from(*y)));
        let (sum_x, sum_y) = points().fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
        let (mean_x, mean_y) = (sum_x / n.max(1) as f64, sum_y / n.max(1) as f64);
        let (mut sxx, mut sxy, mut syy) = (0.0, 0.0, 0.0);
        for (x, y) in points() {
            let (dx, dy) = (x - mean_x, y - mean_y);
            sxx += dx * dx;
            sxy += dx * dy;
            syy += dy * dy;
        }
        Self { n: n as u64, mean_x, mean_y, sxx, sxy, syy }
    }

    fn merge_all(parts: &[Self]) -> Self {
        match parts {
            [] => Self::default(),
            [one] => *one,
            more => {
                let (left, right) = more.split_at(more.len() / 2);
                Self::merge_all(left).merge(Self::merge_all(right))
            }
        }
    }

    fn merge(self, other: Self) -> Self {
        if self.n == 0 || other.n == 0 {
            return if self.n == 0 { other } else { self };
        }
        let n = (self.n + other.n) as f64;
        let (dx, dy) = (other.mean_x - self.mean_x, other.mean_y - self.mean_y);
        let weight = self.n as f64 * other.n as f64 / n;
        let share = other.n as f64 / n;
        Self {
            n: self.n + other.n,
            mean_x: self.mean_x + dx * share,
            mean_y: self.mean_y + dy * share,
            sxx: self.sxx + other.sxx + dx * dx * weight,
            sxy: self.sxy + other.sxy + dx * dy * weight,
            syy: self.syy + other.syy + dy * dy * weight,
        }
    }

    /// Returns the mean of (w x + b - y)^2; NaN without points.
    #[must_use]
    pub fn loss(&self, w: f64, b: f64) -> f64 {
        let (n, mean_error) = (self.n as f64, self.mean_error(w, b));
        (w * w * self.sxx - 2.0 * w * self.sxy + self.syy) / n + mean_error * mean_error
    }

    fn mean_error(&self, w: f64, b: f64) -> f64 {
        w * self.mean_x + b - self.mean_y
    }

    /// Returns the partial derivatives of the loss with respect to w and b.
    #[must_use]
    pub fn gradient(&self, w: f64, b: f64) -> (f64, f64) {
        let mean_error = self.mean_error(w, b);
        let by_w = (w * self.sxx - self.sxy) / self.n as f64 + mean_error * self.mean_x;
        (2.0 * by_w, 2.0 * mean_error)
    }
}

/// Means of the products of features, 1 and y with each other, in double precision. This is the counterpart of
/// [`Moments`] for several features. The products are not centred, which is unnecessary for standardised features.
#[derive(Debug, Clone, PartialEq)]
pub struct Gram {
    /// Number of points.
    pub n: u64,
    /// Products of (features, 1, y) with each other, row by row: `[features + 2][features + 2]`.
    pub products: Vec<f64>,
    size: usize,
}

impl Gram {
    /// Computes the products from points (x, y).
    #[must_use]
    pub fn from_points((x, y): Columns<'_>) -> Self {
        const CHUNK: usize = 512;
        let (n, size) = (y.len(), x.len() + 2);
        let starts: Vec<usize> = (0..n).step_by(CHUNK).collect();
        // The parts are summed in order, so that the result has the same bits with any number of threads.
        let parts: Vec<_> = starts.chunks(starts.len().div_ceil(64).max(1)).collect();
        let parts = collect(parts.len(), &|part| {
            let mut sums = vec![0.0; size * size];
            let mut rows = vec![vec![0.0; CHUNK]; size];
            for &from in parts[part] {
                let points = from..(from + CHUNK).min(n);
                for (row, column) in rows.iter_mut().zip(x.iter().copied().map(Some).chain([None, Some(y)])) {
                    row.resize(points.len(), 0.0);
                    match column {
                        Some(c) => row.iter_mut().zip(&c[points.clone()]).for_each(|(r, v)| *r = f64::from(*v)),
                        None => row.fill(1.0),
                    }
                }
                for i in 0..size {
                    for j in 0..=i {
                        sums[i * size + j] += dot(&rows[i], &rows[j]);
                    }
                }
            }
            sums
        });
        let mut products = vec![0.0; size * size];
        for part in &parts {
            products.iter_mut().zip(part).for_each(|(a, b)| *a += b);
        }
        for i in 0..size {
            for j in 0..=i {
                products[i * size + j] /= n as f64;
                products[j * size + i] = products[i * size + j];
            }
        }
        Self { n: n as u64, products, size }
    }

    /// Returns the products of each feature, of 1 and of y with the error, by multiplying the matrix by (weights, b,
    /// -1).
    fn with_error(&self, weights: &[f64]) -> Vec<f64> {
        let factors: Vec<f64> = weights.iter().copied().chain([-1.0]).collect();
        self.products.chunks(self.size).map(|row| row.iter().zip(&factors).map(|(p, f)| p * f).sum()).collect()
    }

    /// Returns the mean squared error for these weights (b last); NaN without points.
    #[must_use]
    pub fn loss(&self, weights: &[f64]) -> f64 {
        let with_error = self.with_error(weights);
        with_error.iter().zip(weights.iter().chain([&-1.0])).map(|(p, f)| p * f).sum()
    }

    /// Returns the partial derivatives of the loss with respect to the weights (b last).
    #[must_use]
    pub fn gradient(&self, weights: &[f64]) -> Vec<f64> {
        self.with_error(weights).iter().take(self.size - 1).map(|p| 2.0 * p).collect()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; 16];
    let (rows_a, rows_b) = (a.chunks_exact(16), b.chunks_exact(16));
    let rest: f64 = rows_a.remainder().iter().zip(rows_b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in rows_a.zip(rows_b) {
        for i in 0..16 {
            lanes[i] += a[i] * b[i];
        }
    }
    lanes.iter().sum::<f64>() + rest
}

/// The statistics of the points that determine a descent.
#[derive(Debug, Clone, PartialEq)]
pub enum Statistics {
    /// The moments of a single feature.
    One(Moments),
    /// The mean products of several features.
    Many(Gram),
}

impl Statistics {
    /// Computes the statistics of points (x, y).
    #[must_use]
    pub fn from_points(points: Columns<'_>) -> Self {
        match points.0 {
            [x] => Self::One(Moments::from_points(x, points.1)),
            _ => Self::Many(Gram::from_points(points)),
        }
    }

    /// Returns the number of points.
    #[must_use]
    pub fn n(&self) -> u64 {
        match self {
            Self::One(m) => m.n,
            Self::Many(g) => g.n,
        }
    }

    /// Returns the mean squared error for these weights (b last).
    #[must_use]
    pub fn loss(&self, weights: &[f64]) -> f64 {
        match self {
            Self::One(m) => m.loss(weights[0], weights[1]),
            Self::Many(g) => g.loss(weights),
        }
    }

    fn gradient(&self, weights: &[f64]) -> Vec<f64> {
        match self {
            Self::One(m) => {
                let (w, b) = m.gradient(weights[0], weights[1]);
                vec![w, b]
            }
            Self::Many(g) => g.gradient(weights),
        }
    }

    /// Runs `epochs` steps from these weights (b last), and logs the loss every `log_every` steps.
    #[must_use]
    pub fn descend(&self, start: &[f64], learning_rate: f64, epochs: u64, log_every: u64) -> Reference {
        let (mut weights, mut losses) = (start.to_vec(), Vec::new());
        for epoch in 1..=epochs {
            if epoch % log_every == 0 {
                losses.push(self.loss(&weights));
            }
            let gradient = self.gradient(&weights);
            weights.iter_mut().zip(&gradient).for_each(|(w, g)| *w -= learning_rate * g);
        }
        Reference { weights, losses }
    }
}

/// The result of the reference descent in double precision.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// Final weights: one weight for each feature, then b.
    pub weights: Vec<f64>,
    /// Logged losses; each is the loss for the weights at the start of its epoch.
    pub losses: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs the descent directly, over every point in every epoch.
    fn literal(x: &[&[f32]], y: &[f32], start: &[f64], rate: f64, epochs: u64, log_every: u64) -> Reference {
        let n = y.len() as f64;
        let (mut weights, mut losses) = (start.to_vec(), Vec::new());
        for epoch in 1..=epochs {
            let (mut loss, mut gradient) = (0.0, vec![0.0; start.len()]);
            for i in 0..y.len() {
                let features: Vec<f64> = x.iter().map(|x| f64::from(x[i])).chain([1.0]).collect();
                let error = features.iter().zip(&weights).map(|(x, w)| x * w).sum::<f64>() - f64::from(y[i]);
                loss += error * error / n;
                gradient.iter_mut().zip(&features).for_each(|(g, x)| *g += 2.0 * error * x / n);
            }
            if epoch % log_every == 0 {
                losses.push(loss);
            }
            weights.iter_mut().zip(&gradient).for_each(|(w, g)| *w -= rate * g);
        }
        Reference { weights, losses }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn statistics_descend_as_the_formula_does(
            points in prop::collection::vec(([0.0f32..10.0, -1.0f32..1.0, -3.0f32..0.0], -50.0f32..50.0), 1..8_000),
            features in 1usize..4,
            epochs in 1u64..40,
        ) {
            let x: Vec<Vec<f32>> = (0..features).map(|j| points.iter().map(|p| p.0[j]).collect()).collect();
            let x: Vec<&[f32]> = x.iter().map(|x| &**x).collect();
            let y: Vec<f32> = points.iter().map(|p| p.1).collect();
            let start = [0.83, 0.5, -0.2, 0.7645];
            let start = &start[3 - features..];
            let got = Statistics::from_points((&x, &y)).descend(start, 0.01, epochs, 3);
            let want = literal(&x, &y, start, 0.01, epochs, 3);
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs().max(1.0);
            prop_assert!(got.weights.iter().zip(&want.weights).all(|(a, b)| near(*a, *b)), "{got:?} {want:?}");
            prop_assert_eq!(got.losses.len(), want.losses.len());
            for (a, b) in got.losses.iter().zip(&want.losses) {
                prop_assert!(near(*a, *b), "{} {}", a, b);
            }
        }
    }

    #[test]
    fn no_points_have_no_loss() {
        assert!(Moments::from_points(&[], &[]).loss(1.0, 1.0).is_nan());
        assert!(Gram::from_points((&[&[], &[]], &[])).loss(&[1.0, 1.0, 1.0]).is_nan());
    }
}
