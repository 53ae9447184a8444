//! Comparisons of `setp`, and how they are combined with a third predicate.

use super::{Lanes, Word, each};
use crate::ptx::Type;

/// Compares all lanes; the first parameter becomes 0 or 1 in each.
pub(crate) type Compare = fn(&mut Lanes, &Lanes, &Lanes);

/// Returns the function of a comparison's name and type, such as `ltu` and `f32`.
pub(crate) fn comparison(name: &str, ty: Type) -> Option<Compare> {
    macro_rules! lanes {
        ($t:ident |$a:ident, $b:ident| $holds:expr) => {
            Some(|into, a, b| {
                each(into, |lane| {
                    let ($a, $b) = ($t::take(a[lane]), $t::take(b[lane]));
                    u64::from($holds)
                })
            })
        };
    }
    macro_rules! ordered {
        ($t:ident) => {
            match name {
                "eq" => lanes!($t | a, b | a == b),
                "ne" => lanes!($t | a, b | a != b),
                "lt" | "lo" => lanes!($t | a, b | a < b),
                "le" | "ls" => lanes!($t | a, b | a <= b),
                "gt" | "hi" => lanes!($t | a, b | a > b),
                "ge" | "hs" => lanes!($t | a, b | a >= b),
                _ => None,
            }
        };
    }
    macro_rules! float {
        ($t:ident) => {
            match name {
                // A comparison with NaN is false, `ne` too; those that end in `u` are true.
                "ne" => lanes!($t | a, b | a != b && !(a.is_nan() || b.is_nan())),
                "equ" => lanes!($t | a, b | a == b || a.is_nan() || b.is_nan()),
                "neu" => lanes!($t | a, b | a != b),
                "ltu" => lanes!($t | a, b | a < b || a.is_nan() || b.is_nan()),
                "leu" => lanes!($t | a, b | a <= b || a.is_nan() || b.is_nan()),
                "gtu" => lanes!($t | a, b | a > b || a.is_nan() || b.is_nan()),
                "geu" => lanes!($t | a, b | a >= b || a.is_nan() || b.is_nan()),
                "num" => lanes!($t | a, b | !a.is_nan() && !b.is_nan()),
                "nan" => lanes!($t | a, b | a.is_nan() || b.is_nan()),
                "lo" | "ls" | "hi" | "hs" => None,
                _ => ordered!($t),
            }
        };
    }
    let found: Option<Compare> = match ty {
        Type::Unsigned(2) | Type::Bits(2) => ordered!(u16),
        Type::Unsigned(4) | Type::Bits(4) => ordered!(u32),
        Type::Unsigned(8) | Type::Bits(8) => ordered!(u64),
        Type::Signed(2) => ordered!(i16),
        Type::Signed(4) => ordered!(i32),
        Type::Signed(8) => ordered!(i64),
        Type::Float(4) => float!(f32),
        Type::Float(8) => float!(f64),
        _ => None,
    };
    // Untyped bits can only be equal or different.
    found.filter(|_| !matches!(ty, Type::Bits(_)) || matches!(name, "eq" | "ne"))
}

/// Combines a comparison with a third predicate.
pub(crate) type Combine = fn(u64, u64) -> u64;

/// Returns the function of a combination, such as `and`.
pub(crate) fn combination(name: &str) -> Option<Combine> {
    match name {
        "and" => Some(|a, b| a & b),
        "or" => Some(|a, b| a | b),
        "xor" => Some(|a, b| a ^ b),
        _ => None,
    }
}
