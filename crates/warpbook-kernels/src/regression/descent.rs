//! The parameters of a gradient descent, and their description in records.

use warpbook_record::{Dtype, Problem, SweepPoint, count, setting, short_count};

/// Weights (w, b) before the first epoch.
pub const INITIAL: (f32, f32) = (0.83, 0.7645);
/// The line (w, b) around which the data points are drawn.
pub const TRUTH: (f32, f32) = (3.0, 2.0);
/// Range of x if there is one feature: from the first number up to, but not including, the second.
pub const RANGE: (f32, f32) = (0.0, 10.0);

/// The parameters of a gradient descent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Descent {
    /// Number of points, including those for testing.
    pub points: u64,
    /// Number of points for training; the others are for testing.
    pub train_points: u64,
    /// Number of features per point, which is the number of weights without b.
    pub features: u64,
    /// Number of passes over the training points.
    pub epochs: u64,
    /// Factor of the gradient in each update of the weights.
    pub learning_rate: f64,
    /// Standard deviation of the Gaussian noise on y.
    pub noise: f64,
    /// Seed of the random numbers: the key of the Philox generator.
    pub seed: u64,
    /// Start of the descent, and the line around which points are drawn. A record contains only the numbers that differ from the defaults.
    pub line: Line,
}

/// The start of a descent, and the line around which its points are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Weights (w, b) before the first epoch; if there are several features, every weight starts at w.
    pub start: (f32, f32),
    /// The line (w, b) around which points are drawn; if there are several features, the weights are w, -w/2, w/3, -w/4 and so on.
    pub truth: (f32, f32),
    /// Range of x if there is one feature: from the first number up to, but not including, the second.
    pub range: (f32, f32),
}

impl Default for Line {
    fn default() -> Self {
        Self { start: INITIAL, truth: TRUTH, range: RANGE }
    }
}

impl Line {
    /// Returns each pair of numbers that differs from the default, with the names of the two numbers in a record.
    fn changed(&self) -> Vec<([&'static str; 2], (f32, f32))> {
        let default = Self::default();
        let pairs = [
            (["start_w", "start_b"], self.start, default.start),
            (["true_w", "true_b"], self.truth, default.truth),
            (["x_min", "x_max"], self.range, default.range),
        ];
        pairs.into_iter().filter(|(_, own, usual)| own != usual).map(|(names, own, _)| (names, own)).collect()
    }
}

/// Returns the f64 with the same shortest decimal form as `v`, such as 0.01 instead of 0.009999999776.
#[must_use]
pub fn decimal(v: f32) -> f64 {
    v.to_string().parse().unwrap_or_else(|_| f64::from(v))
}

impl Descent {
    /// Describes the descent for a record. FLOPs per point and epoch: four (- y, err^2 and its sum, the sum of err), and four more per feature (w
    /// x, its sum, err x, its sum). Bytes: x and y are read once per epoch.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let Self { points, train_points, features, epochs, .. } = *self;
        let mut sizes = vec![count("points", points, "points"), count("train_points", train_points, "points")];
        if features != 1 {
            sizes.push(count("features", features, ""));
        }
        sizes.extend([
            count("epochs", epochs, ""),
            setting("learning_rate", self.learning_rate),
            setting("noise", self.noise),
            setting("seed", self.seed),
        ]);
        let mut also = String::new();
        for (names, (first, second)) in self.line.changed() {
            sizes.extend([setting(names[0], decimal(first)), setting(names[1], decimal(second))]);
            also += &format!(", {} {first}, {} {second}", names[0], names[1]);
        }
        let (short, label, line) = match (short_count(points), features) {
            (n, 1) => (n.clone(), format!("{n} points, {epochs} epochs{also}"), format!("{epochs} epochs{also}")),
            (n, f) => (
                format!("{n} × {f}"),
                format!("{n} points of {f} features, {epochs} epochs{also}"),
                format!("{f} features, {epochs} epochs{also}"),
            ),
        };
        let working_set = train_points.saturating_mul(features.saturating_add(1).saturating_mul(Dtype::F32.bytes()));
        Problem::new(label, short, sizes, Dtype::F32).with(|p| {
            p.flops = train_points.saturating_mul(epochs).saturating_mul(features.saturating_mul(4).saturating_add(4));
            p.working_set_bytes = working_set;
            p.bytes = working_set.saturating_mul(epochs);
            p.passes = epochs;
            p.sweep = Some(SweepPoint { size: points, line });
        })
    }
}

/// Returns the number of features per point of a regression problem.
#[must_use]
pub fn features_of(problem: &Problem) -> u64 {
    problem.count("features").unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_names_the_numbers_of_its_line_that_are_not_the_usual_ones() {
        let own = |line| {
            let (points, train_points, features, epochs) = (5_000_000, 4_000_000, 1, 200);
            Descent { points, train_points, features, epochs, learning_rate: 0.01, noise: 0.1, seed: 1, line }.problem()
        };
        let names = ["start_w", "start_b", "true_w", "true_b", "x_min", "x_max"];
        let values =
            |p: &Problem| names.map(|name| p.sizes.iter().find(|s| s.name == name).map(|s| s.value.to_string()));
        let usual = own(Line::default());
        assert_eq!(
            (values(&usual), usual.clone()),
            ([const { None }; 6], own(Line { start: INITIAL, truth: TRUTH, range: RANGE }))
        );
        let other = own(Line { start: (-1.0, 0.1), range: (-5.0, 5.0), ..Line::default() });
        let want = [Some("-1"), Some("0.1"), None, None, Some("-5"), Some("5")];
        assert_eq!(values(&other), want.map(|v| v.map(str::to_owned)));
        assert_eq!(other.label, "5 M points, 200 epochs, start_w -1, start_b 0.1, x_min -5, x_max 5");
        assert!(other.id != usual.id && !other.same_line(&usual));
    }
}
