//! The parameters of a gradient descent, and its problem in the form of records.

use warpbook_record::{Dtype, Problem, SweepPoint, count, setting, short_count};

/// Weights before the first epoch: (w0, b0).
pub const INITIAL: (f32, f32) = (0.83, 0.7645);
/// The line around which the data is drawn: (w, b).
pub const TRUTH: (f32, f32) = (3.0, 2.0);
/// Range of x with one feature: from the first number up to, but not including, the second.
pub const RANGE: (f32, f32) = (0.0, 10.0);

/// The parameters of a gradient descent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Descent {
    /// Number of points, including test points.
    pub points: u64,
    /// Number of training points.
    pub train_points: u64,
    /// Features per point: the number of weights, excluding b.
    pub features: u64,
    /// Passes over the training points.
    pub epochs: u64,
    /// Learning rate.
    pub learning_rate: f64,
    /// Standard deviation of the Gaussian noise on y.
    pub noise: f64,
    /// Key of the Philox generator.
    pub seed: u64,
    /// Start of the descent, and the line around which points are drawn. A record has only the numbers that differ from the default.
    pub line: Line,
}

/// The start of a descent, and the line around which its points are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Weights before the first epoch: (w, b); with several features each weight starts at w.
    pub start: (f32, f32),
    /// The line around which points are drawn: (w, b); with several features the weights are w, -w/2, w/3, -w/4 and so on.
    pub truth: (f32, f32),
    /// Range of x with one feature: from the first number up to, but not including, the second.
    pub range: (f32, f32),
}

impl Default for Line {
    fn default() -> Self {
        Self { start: INITIAL, truth: TRUTH, range: RANGE }
    }
}

impl Line {
    /// Returns each pair that differs from the default, with the names of its two numbers in a record.
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

/// Returns the number of the shortest decimal form: 0.01 and not 0.009999999776.
#[must_use]
pub fn decimal(v: f32) -> f64 {
    v.to_string().parse().unwrap_or_else(|_| f64::from(v))
}

impl Descent {
    /// Describes the descent for a record. FLOPs per point and epoch: four (- y, err^2 and its sum, the sum of err), and four more per feature (w
    /// x, its sum, err x, its sum). Bytes: x and y once per epoch.
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

/// Returns the number of features of a regression's points.
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
