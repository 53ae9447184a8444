//! The products of a survey: random products, or the products of the published record.

use crate::Matmul;
use serde::{Deserialize, Serialize};
use std::fmt;
use warpbook_data::philox::uniform;
use warpbook_gemm::Product;
use warpbook_kernels::matmul::Form;
use warpbook_record::Dtype;

/// Shortest and longest side of a product.
const SIDES: [u32; 2] = [16, 16384];
/// Maximum number of multiply-adds in a product.
pub const MOST_MULTIPLY_ADDS: u64 = 1 << 37;

/// A kind of size, which all three sides of a product have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sides {
    /// Multiples of 8: rows are multiples of 16 bytes, as TMA requires.
    MultiplesOf8,
    /// Odd numbers: rows have no alignment.
    Odd,
    /// Multiples of 64: rows are whole L2 lines.
    MultiplesOf64,
}

impl Sides {
    /// All kinds; each describes a third of a survey's products.
    pub const ALL: [Self; 3] = [Self::MultiplesOf8, Self::Odd, Self::MultiplesOf64];

    /// Returns a label for the kind, for tables.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::MultiplesOf8 => "multiples of 8",
            Self::Odd => "odd",
            Self::MultiplesOf64 => "multiples of 64",
        }
    }

    /// Returns the kind that describes all three sides.
    fn kind_of(sides: [u32; 3]) -> Self {
        let all = |of: u32| sides.iter().all(|side| side.is_multiple_of(of));
        match (all(64), all(8)) {
            (true, _) => Self::MultiplesOf64,
            (false, true) => Self::MultiplesOf8,
            (false, false) => Self::Odd,
        }
    }

    /// Returns a side of this kind from a number in (0, 1), log-uniform between the kind's shortest and longest side.
    fn side(self, u: f32) -> u32 {
        let [shortest, longest] = SIDES;
        let (least, most) = match self {
            Self::MultiplesOf8 => (shortest, longest),
            Self::Odd => (shortest + 1, longest - 1),
            Self::MultiplesOf64 => (64, longest),
        };
        let drawn = f64::from(least) * (f64::from(most) / f64::from(least)).powf(f64::from(u));
        let nearest_multiple = |of: u32| (drawn / f64::from(of)).round() as u32 * of;
        let side = match self {
            Self::MultiplesOf8 => nearest_multiple(8),
            Self::Odd => drawn as u32 | 1,
            Self::MultiplesOf64 => nearest_multiple(64),
        };
        side.clamp(least, most)
    }
}

/// A product that a survey has drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drawn {
    /// Number of rows of C.
    pub m: u32,
    /// Number of columns of C.
    pub n: u32,
    /// Number of terms in each sum.
    pub k: u32,
    /// Kind of the sides.
    pub sides: Sides,
    /// Data type of A, B and C.
    pub dtype: Dtype,
    /// True if A is stored transposed.
    pub trans_a: bool,
    /// True if B is stored transposed.
    pub trans_b: bool,
}

impl Drawn {
    /// Returns the number of multiply-adds, m * n * k.
    #[must_use]
    pub fn multiply_adds(&self) -> u64 {
        u64::from(self.m) * u64::from(self.n) * u64::from(self.k)
    }

    /// Returns the shape as a [`Product`].
    #[must_use]
    pub fn product(&self) -> Product {
        let form = Form { trans_a: self.trans_a, trans_b: self.trans_b, ..Form::plain(self.dtype) };
        Product::new(self.m, self.n, self.k, form)
    }

    /// Returns a phrase that says which of A and B are stored transposed.
    #[must_use]
    pub const fn stored(&self) -> &'static str {
        match (self.trans_a, self.trans_b) {
            (false, false) => "A, B as they are",
            (true, false) => "A transposed",
            (false, true) => "B transposed",
            (true, true) => "A and B transposed",
        }
    }
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{} {}", self.m, self.n, self.k, self.dtype.label())?;
        if self.trans_a || self.trans_b { write!(f, ", {}", self.stored()) } else { Ok(()) }
    }
}

/// Draws `count` products: a third of each kind of sides, and within a kind equally many of each transposition and data type. The same seed gives the same
/// products, and a longer list starts with the shorter one.
#[must_use]
pub fn draw(seed: u64, count: u32) -> Vec<Drawn> {
    (0..count).map(|place| one(seed, place)).collect()
}

/// Returns the products of the published record in 16-bit types without duplicates, including the products of the networks' linear layers. Sides that have no
/// kind in common count as odd.
#[must_use]
pub fn published() -> Vec<Drawn> {
    let all = [Matmul::sweep(), Matmul::layers()].into_iter().flat_map(|experiment| experiment.products());
    let mut drawn: Vec<Drawn> = Vec::new();
    for ((m, n, k), dtype, (trans_a, trans_b)) in all.filter(|(_, dtype, _)| dtype.bytes() == 2) {
        // The sides of published products are at most 65536.
        let sides @ [m, n, k] = [m, n, k].map(|side| u32::try_from(side).unwrap_or(u32::MAX));
        let one = Drawn { m, n, k, sides: Sides::kind_of(sides), dtype, trans_a, trans_b };
        if !drawn.contains(&one) {
            drawn.push(one);
        }
    }
    drawn
}

/// Draws a product; its sides are redrawn until the product is small enough.
fn one(seed: u64, place: u32) -> Drawn {
    let sides = Sides::ALL[place as usize % 3];
    let stored = place / 3 % 4;
    let dtype = [Dtype::Bf16, Dtype::F16][(place / 12 % 2) as usize];
    let attempt = |attempt: u64| {
        let [m, n, k] = [0, 1, 2].map(|side| sides.side(uniform(seed, 3 * attempt + side, place)));
        Drawn { m, n, k, sides, dtype, trans_a: stored & 1 == 1, trans_b: stored & 2 == 2 }
    };
    let mut drawn = attempt(0);
    for again in 1.. {
        if drawn.multiply_adds() <= MOST_MULTIPLY_ADDS {
            break;
        }
        drawn = attempt(again);
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_products_are_those_of_16_bits() {
        let all = published();
        assert!(all.len() > 50 && all.iter().all(|d| d.dtype.bytes() == 2), "{}", all.len());
        let has = |text: &str| all.iter().filter(|d| d.to_string() == text).count() == 1;
        for text in ["4096x4096x4096 bf16", "1536x1536x1536 bf16, B transposed", "10x512x512 fp16, A transposed"] {
            assert!(has(text), "{text}");
        }
        let sides = |m| all.iter().find(|d| d.m == m).unwrap().sides;
        assert_eq!([4096, 1000, 4097].map(sides), [Sides::MultiplesOf64, Sides::MultiplesOf8, Sides::Odd]);
    }

    #[test]
    fn sides_are_of_their_kind_and_within_bounds() {
        for seed in 0..20 {
            for drawn in draw(seed, 200) {
                let sides = [drawn.m, drawn.n, drawn.k];
                assert!(sides.iter().all(|s| (16..=16384).contains(s)), "{drawn}");
                assert!(drawn.multiply_adds() <= 1 << 37, "{drawn}");
                let of_kind = |s: &u32| match drawn.sides {
                    Sides::MultiplesOf8 => s.is_multiple_of(8),
                    Sides::Odd => s % 2 == 1,
                    Sides::MultiplesOf64 => s.is_multiple_of(64),
                };
                assert!(sides.iter().all(of_kind), "{drawn}: not all {}", drawn.sides.label());
            }
        }
    }

    #[test]
    fn thirds_types_and_transpositions_have_equal_shares() {
        let drawn = draw(7, 240);
        let count = |is: &dyn Fn(&Drawn) -> bool| drawn.iter().filter(|d| is(d)).count();
        for sides in Sides::ALL {
            assert_eq!(count(&|d| d.sides == sides), 80);
            for stored in [(false, false), (true, false), (false, true), (true, true)] {
                for dtype in [Dtype::Bf16, Dtype::F16] {
                    let such = |d: &Drawn| (d.trans_a, d.trans_b) == stored && d.dtype == dtype && d.sides == sides;
                    assert_eq!(count(&such), 10, "{sides:?} {stored:?} {dtype:?}");
                }
            }
        }
        let of_200 = draw(7, 200);
        assert_eq!(Sides::ALL.map(|s| of_200.iter().filter(|d| d.sides == s).count()), [67, 67, 66]);
        assert_eq!(of_200[..], drawn[..200]);
    }

    #[test]
    fn a_seed_is_repeated_and_another_gives_other_products() {
        assert_eq!(draw(1, 50), draw(1, 50));
        assert_ne!(draw(1, 50), draw(2, 50));
        assert_ne!(draw(1, 50), draw(1 + (1 << 32), 50));
    }

    /// Log-uniform sides over ten powers of two put a fifth of the sides into each pair of powers, apart from products that were too large.
    #[test]
    fn sides_are_log_uniform() {
        let sides: Vec<u32> = (0..20_000).map(|i| Sides::MultiplesOf8.side((i as f32 + 0.5) / 20_000.0)).collect();
        for fifth in 0..5 {
            let (from, to) = (16 << (2 * fifth), 64 << (2 * fifth));
            let share = sides.iter().filter(|s| (from..to).contains(*s)).count() as f64 / sides.len() as f64;
            assert!((share - 0.2).abs() < 0.05, "{from} to {to}: {share}");
        }
        for sides in Sides::ALL {
            let ends = [sides.side(1e-7), sides.side(1.0 - 1e-7)];
            let expected = match sides {
                Sides::MultiplesOf8 => [16, 16384],
                Sides::Odd => [17, 16383],
                Sides::MultiplesOf64 => [64, 16384],
            };
            assert_eq!(ends, expected);
        }
    }

    #[test]
    fn a_product_is_named_by_its_shape_type_and_transposes() {
        let drawn =
            Drawn { m: 16, n: 24, k: 32, sides: Sides::MultiplesOf8, dtype: Dtype::F16, trans_a: false, trans_b: true };
        assert_eq!(drawn.to_string(), "16x24x32 fp16, B transposed");
        let product = drawn.product();
        assert_eq!((product.lda, product.ldb, product.form.out), (32, 32, Dtype::F16));
        assert_eq!(Drawn { trans_b: false, ..drawn }.to_string(), "16x24x32 fp16");
    }
}
