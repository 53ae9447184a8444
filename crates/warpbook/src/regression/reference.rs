//! The descent in double precision.

use rayon::prelude::*;

/// Means and centred second moments of a set of points, in double precision.
///
/// They are all that a descent on the mean squared error of a line needs to know of the points, so that a reference costs
/// one pass over them. Chunks are merged by the updating formulas of Chan, Golub and LeVeque (1983), which do not cancel.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moments {
    /// Points.
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
    /// Of points (x, y), f32 `[n]` each; the shorter array counts.
    #[must_use]
    pub fn of(x: &[f32], y: &[f32]) -> Self {
        const CHUNK: usize = 4096;
        // In order, so that the same points give the same bits whatever threads there are.
        let chunks: Vec<Self> =
            x.par_chunks(CHUNK).zip(y.par_chunks(CHUNK)).map(|(x, y)| Self::of_chunk(x, y)).collect();
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

    /// Mean of (w x + b - y)^2; NaN of no points.
    #[must_use]
    pub fn loss(&self, w: f64, b: f64) -> f64 {
        let (n, mean_error) = (self.n as f64, self.mean_error(w, b));
        (w * w * self.sxx - 2.0 * w * self.sxy + self.syy) / n + mean_error * mean_error
    }

    fn mean_error(&self, w: f64, b: f64) -> f64 {
        w * self.mean_x + b - self.mean_y
    }

    /// Derivatives of the loss by w and b.
    #[must_use]
    pub fn gradient(&self, w: f64, b: f64) -> (f64, f64) {
        let mean_error = self.mean_error(w, b);
        let by_w = (w * self.sxx - self.sxy) / self.n as f64 + mean_error * self.mean_x;
        (2.0 * by_w, 2.0 * mean_error)
    }

    /// `epochs` steps from (w, b); the loss is logged in every `log_every`th.
    #[must_use]
    pub fn descend(&self, start: (f64, f64), learning_rate: f64, epochs: u64, log_every: u64) -> Reference {
        let ((mut w, mut b), mut losses) = (start, Vec::new());
        for epoch in 1..=epochs {
            if epoch % log_every == 0 {
                losses.push(self.loss(w, b));
            }
            let (by_w, by_b) = self.gradient(w, b);
            w -= learning_rate * by_w;
            b -= learning_rate * by_b;
        }
        Reference { w, b, losses }
    }
}

/// What the descent gives in double precision.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// Final weight.
    pub w: f64,
    /// Final bias.
    pub b: f64,
    /// Logged losses, each of the weights that its epoch began with.
    pub losses: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The descent as the formula says it, over every point in every epoch.
    fn literal(x: &[f32], y: &[f32], start: (f64, f64), rate: f64, epochs: u64, log_every: u64) -> Reference {
        let n = x.len() as f64;
        let ((mut w, mut b), mut losses) = (start, Vec::new());
        for epoch in 1..=epochs {
            let (mut loss, mut by_w, mut by_b) = (0.0, 0.0, 0.0);
            for (x, y) in x.iter().zip(y).map(|(x, y)| (f64::from(*x), f64::from(*y))) {
                let error = w * x + b - y;
                loss += error * error / n;
                by_w += 2.0 * error * x / n;
                by_b += 2.0 * error / n;
            }
            if epoch % log_every == 0 {
                losses.push(loss);
            }
            w -= rate * by_w;
            b -= rate * by_b;
        }
        Reference { w, b, losses }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn moments_descend_as_the_formula_does(
            points in prop::collection::vec((0.0f32..10.0, -50.0f32..50.0), 1..20_000),
            epochs in 1u64..40,
        ) {
            let (x, y): (Vec<f32>, Vec<f32>) = points.into_iter().unzip();
            let got = Moments::of(&x, &y).descend((0.83, 0.7645), 0.01, epochs, 3);
            let want = literal(&x, &y, (0.83, 0.7645), 0.01, epochs, 3);
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs().max(1.0);
            prop_assert!(near(got.w, want.w) && near(got.b, want.b), "{got:?} {want:?}");
            prop_assert_eq!(got.losses.len(), want.losses.len());
            for (a, b) in got.losses.iter().zip(&want.losses) {
                prop_assert!(near(*a, *b), "{} {}", a, b);
            }
        }
    }

    #[test]
    fn no_points_have_no_loss() {
        assert!(Moments::of(&[], &[]).loss(1.0, 1.0).is_nan());
    }
}
