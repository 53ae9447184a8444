use serde::{Deserialize, Serialize};

/// The element type that the work is done in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Dtype {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// NVIDIA's 19-bit tensor-core format, stored as `f32`.
    Tf32,
    /// IEEE binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
    /// One that this version does not know.
    #[serde(other)]
    Other,
}

impl Dtype {
    /// The bytes that one element takes in memory.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::Tf32 | Self::Other => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// As a heading writes it: "bf16".
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::F64 => "fp64",
            Self::F32 => "fp32",
            Self::Tf32 => "tf32",
            Self::F16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Other => "another type",
        }
    }

    /// The distance from 1 to the next number (2^-23 for `f32`).
    #[must_use]
    pub fn epsilon(self) -> f64 {
        match self {
            Self::F64 => f64::EPSILON,
            Self::F32 | Self::Other => f64::from(f32::EPSILON),
            Self::Tf32 | Self::F16 => 2f64.powi(-10),
            Self::Bf16 => 2f64.powi(-7),
        }
    }
}

/// The sizes of a piece of work. The only place with formulas for operations and bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Problem {
    /// y = w x + b by batch gradient descent on the mean squared error, with one weight a feature.
    Regression {
        /// All points, test points included.
        points: u64,
        /// The points that are trained on.
        train_points: u64,
        /// Numbers that a point has beside its y, and so weights beside b.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        features: u64,
        /// Passes over the training points.
        epochs: u64,
        /// Step width of the descent.
        #[serde(with = "crate::real::one")]
        #[cfg_attr(feature = "schema", schemars(with = "crate::real::Real"))]
        learning_rate: f64,
        /// Standard deviation of the Gaussian noise on y.
        #[serde(with = "crate::real::one")]
        #[cfg_attr(feature = "schema", schemars(with = "crate::real::Real"))]
        noise: f64,
        /// Key of the Philox generator.
        seed: u64,
        /// Type of x, y, w and b.
        dtype: Dtype,
    },
    /// C = A B for dense matrices: C is m x n, op(A) m x k, op(B) k x n.
    Matmul {
        /// Rows of C.
        m: u64,
        /// Columns of C.
        n: u64,
        /// The length of each sum.
        k: u64,
        /// Type of A and B; sums are in f32.
        dtype: Dtype,
        /// Type of C, where it is another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        out: Option<Dtype>,
        /// Whether A is stored transposed, k x m.
        #[serde(default, skip_serializing_if = "is_false")]
        trans_a: bool,
        /// Whether B is stored transposed, n x k.
        #[serde(default, skip_serializing_if = "is_false")]
        trans_b: bool,
        /// Key of the Philox generator.
        seed: u64,
    },
    /// A kind that this version does not know; it can be listed, not charted.
    #[serde(other)]
    Unknown,
}

impl Problem {
    /// Floating-point operations of the whole work: for regression four a point and epoch and four more a feature
    /// (- y, err^2 and its sum, the sum of err; w x, its sum, err x, its sum); for a matrix product a multiplication and an
    /// addition for each of m n k terms.
    #[must_use]
    pub fn flops(&self) -> u64 {
        match self {
            Self::Regression { train_points, epochs, features, .. } => {
                train_points.saturating_mul(*epochs).saturating_mul(features.saturating_mul(4).saturating_add(4))
            }
            Self::Matmul { m, n, k, .. } => m.saturating_mul(*n).saturating_mul(*k).saturating_mul(2),
            Self::Unknown => 0,
        }
    }

    /// The bytes that have to come from memory if every pass reads its inputs once and keeps nothing:
    /// for regression x and y, once an epoch; for a matrix product A, B and C once.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Regression { epochs, .. } => self.working_set_bytes().saturating_mul(*epochs),
            Self::Matmul { .. } => self.working_set_bytes(),
            Self::Unknown => 0,
        }
    }

    /// The bytes of the inputs themselves, which is the least that any method reads; of a matrix product those of C too.
    #[must_use]
    pub fn working_set_bytes(&self) -> u64 {
        match self {
            Self::Regression { train_points, features, dtype, .. } => {
                train_points.saturating_mul(features.saturating_add(1).saturating_mul(dtype.bytes()))
            }
            Self::Matmul { m, n, k, dtype, out, .. } => {
                let inputs = m.saturating_add(*n).saturating_mul(*k).saturating_mul(dtype.bytes());
                inputs.saturating_add(m.saturating_mul(*n).saturating_mul(out.unwrap_or(*dtype).bytes()))
            }
            Self::Unknown => 0,
        }
    }

    /// The size that a sweep runs over: the points of a regression, the edge of the cube with as many terms as a matrix product.
    #[must_use]
    pub fn size(&self) -> u64 {
        match self {
            Self::Regression { points, .. } => *points,
            Self::Matmul { m, n, k, .. } => (*m as f64 * *n as f64 * *k as f64).cbrt().round() as u64,
            Self::Unknown => 0,
        }
    }

    /// The features of a regression; one of anything else.
    #[must_use]
    pub fn features(&self) -> u64 {
        match self {
            Self::Regression { features, .. } => *features,
            Self::Matmul { .. } | Self::Unknown => 1,
        }
    }

    /// Whether the two differ in nothing but their size, and so stand on one line of a sweep.
    #[must_use]
    pub fn same_but_for_size(&self, other: &Self) -> bool {
        let resized = |p: &Self| match p.clone() {
            Self::Regression { epochs, features, learning_rate, noise, seed, dtype, .. } => {
                Self::Regression { points: 0, train_points: 0, features, epochs, learning_rate, noise, seed, dtype }
            }
            // Cubes lie on a line; of other shapes each stands for itself.
            Self::Matmul { m, n, k, dtype, out, trans_a, trans_b, seed } if m == n && n == k => {
                Self::Matmul { m: 0, n: 0, k: 0, dtype, out, trans_a, trans_b, seed }
            }
            Self::Matmul { .. } => p.clone(),
            Self::Unknown => Self::Unknown,
        };
        resized(self) == resized(other)
    }

    /// A few words, as in "5 M points, 200 epochs".
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Regression { points, epochs, features: 1, .. } => {
                format!("{} points, {epochs} epochs", short_count(*points))
            }
            Self::Regression { points, epochs, features, .. } => {
                format!("{} points of {features} features, {epochs} epochs", short_count(*points))
            }
            Self::Matmul { dtype, out, trans_a, trans_b, .. } => {
                let out = out.filter(|o| o != dtype).map_or_else(String::new, |o| format!(" to {}", o.label()));
                let transposed = match (trans_a, trans_b) {
                    (false, false) => "",
                    (true, false) => ", A transposed",
                    (false, true) => ", B transposed",
                    (true, true) => ", A and B transposed",
                };
                format!("{} {}{out}{transposed}", self.shape_label(), dtype.label())
            }
            Self::Unknown => "unknown work".into(),
        }
    }

    /// The shape of a matrix product: "4096³", or "128 × 8192 × 8192" for m, n and k.
    fn shape_label(&self) -> String {
        match self {
            Self::Matmul { m, n, k, .. } if m == n && n == k => format!("{m}³"),
            Self::Matmul { m, n, k, .. } => format!("{m} × {n} × {k}"),
            _ => String::new(),
        }
    }

    /// The type that the work is done in.
    #[must_use]
    pub fn dtype(&self) -> Option<Dtype> {
        match self {
            Self::Regression { dtype, .. } | Self::Matmul { dtype, .. } => Some(*dtype),
            Self::Unknown => None,
        }
    }

    /// Its size in a few characters, as in "5 M", or "5 M × 16" with several features, or "4096³" of a matrix product.
    #[must_use]
    pub fn short_label(&self) -> String {
        if let Self::Matmul { .. } = self {
            return self.shape_label();
        }
        match self.features() {
            1 => short_count(self.size()),
            features => format!("{} × {features}", short_count(self.size())),
        }
    }
}

const fn one() -> u64 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_one(features: &u64) -> bool {
    *features == 1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_false(v: &bool) -> bool {
    !*v
}

/// 5_000_000 as "5 M", 1_500 as "1.5 k".
fn short_count(n: u64) -> String {
    let (unit, name) = match n {
        0..1_000 => return n.to_string(),
        1_000..1_000_000 => (1e3, "k"),
        1_000_000..1_000_000_000 => (1e6, "M"),
        _ => (1e9, "G"),
    };
    let v = n as f64 / unit;
    let digits = usize::from(v.fract() != 0.0) * if v < 10.0 { 2 } else { 1 };
    let text = format!("{v:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(n: u64, expect: &str) {
        assert_eq!(short_count(n), expect);
    }

    #[test]
    fn counts_are_short() {
        check(7, "7");
        check(1_500, "1.5 k");
        check(100_000, "100 k");
        check(5_000_000, "5 M");
        check(1_250_000, "1.25 M");
        check(200_000_000, "200 M");
        check(3_000_000_000, "3 G");
    }

    #[test]
    fn a_product_reads_a_and_b_and_writes_c() {
        let p =
            |(m, n, k), dtype, out| Problem::Matmul { m, n, k, dtype, out, trans_a: false, trans_b: false, seed: 1 };
        let p1 = p((2, 3, 5), Dtype::Bf16, None);
        assert_eq!((p1.flops(), p1.bytes()), (60, (10 + 15 + 6) * 2));
        assert_eq!(p((2, 3, 5), Dtype::Bf16, Some(Dtype::F32)).bytes(), (10 + 15) * 2 + 6 * 4);
        let cube = |n, dtype| p((n, n, n), dtype, None);
        assert_eq!(cube(4096, Dtype::Tf32).label(), "4096³ tf32");
        assert_eq!(cube(4096, Dtype::Tf32).size(), 4096);
        assert_eq!(p1.label(), "2 × 3 × 5 bf16");
        assert!(cube(64, Dtype::F32).same_but_for_size(&cube(128, Dtype::F32)));
        assert!(!cube(64, Dtype::F32).same_but_for_size(&cube(64, Dtype::F16)));
        assert!(!p1.same_but_for_size(&p((2, 3, 6), Dtype::Bf16, None)));
    }

    #[test]
    fn regression_reads_x_and_y_once_an_epoch() {
        let p = |features| Problem::Regression {
            points: 5_000_000,
            train_points: 4_000_000,
            features,
            epochs: 200,
            learning_rate: 0.01,
            noise: 0.1,
            seed: 1,
            dtype: Dtype::F32,
        };
        assert_eq!(p(1).working_set_bytes(), 32_000_000);
        assert_eq!(p(1).bytes(), 6_400_000_000);
        assert_eq!(p(1).flops(), 6_400_000_000);
        assert_eq!(p(16).working_set_bytes(), 4_000_000 * 17 * 4);
        assert_eq!(p(16).flops(), 4_000_000 * 68 * 200);
        assert_eq!(p(16).label(), "5 M points of 16 features, 200 epochs");
        assert_eq!(p(16).short_label(), "5 M × 16");
        assert!(p(1).same_but_for_size(&p(1)) && !p(1).same_but_for_size(&p(16)));
    }
}
