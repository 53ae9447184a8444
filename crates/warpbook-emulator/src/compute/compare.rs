//! Comparisons of `setp`, and how they are combined with a third predicate.

use super::Word;
use crate::ptx::Type;

/// A comparison's name and type, such as `ltu` and `f32`, as a function to 0 or 1.
pub(crate) fn comparison(name: &str, ty: Type) -> Option<fn(u64, u64) -> u64> {
    macro_rules! ordered {
        ($t:ident) => {
            match name {
                "eq" => Some(|a, b| u64::from($t::take(a) == $t::take(b))),
                "ne" => Some(|a, b| u64::from($t::take(a) != $t::take(b))),
                "lt" | "lo" => Some(|a, b| u64::from($t::take(a) < $t::take(b))),
                "le" | "ls" => Some(|a, b| u64::from($t::take(a) <= $t::take(b))),
                "gt" | "hi" => Some(|a, b| u64::from($t::take(a) > $t::take(b))),
                "ge" | "hs" => Some(|a, b| u64::from($t::take(a) >= $t::take(b))),
                _ => None,
            }
        };
    }
    macro_rules! float {
        ($t:ident) => {
            match name {
                // A comparison with NaN is false, `ne` too; those that end in `u` are true.
                "ne" => Some(|a, b| u64::from($t::take(a) < $t::take(b) || $t::take(a) > $t::take(b))),
                "equ" => Some(|a, b| u64::from(!($t::take(a) < $t::take(b) || $t::take(a) > $t::take(b)))),
                "neu" => Some(|a, b| u64::from($t::take(a) != $t::take(b))),
                "ltu" => Some(|a, b| u64::from(!($t::take(a) >= $t::take(b)))),
                "leu" => Some(|a, b| u64::from(!($t::take(a) > $t::take(b)))),
                "gtu" => Some(|a, b| u64::from(!($t::take(a) <= $t::take(b)))),
                "geu" => Some(|a, b| u64::from(!($t::take(a) < $t::take(b)))),
                "num" => Some(|a, b| u64::from(!$t::take(a).is_nan() && !$t::take(b).is_nan())),
                "nan" => Some(|a, b| u64::from($t::take(a).is_nan() || $t::take(b).is_nan())),
                "lo" | "ls" | "hi" | "hs" => None,
                _ => ordered!($t),
            }
        };
    }
    let found: Option<fn(u64, u64) -> u64> = match ty {
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
    // Untyped bits are equal or not.
    found.filter(|_| !matches!(ty, Type::Bits(_)) || matches!(name, "eq" | "ne"))
}

/// How a comparison is combined with a third predicate.
pub(crate) fn combination(name: &str) -> Option<fn(u64, u64) -> u64> {
    match name {
        "and" => Some(|a, b| a & b),
        "or" => Some(|a, b| a | b),
        "xor" => Some(|a, b| a ^ b),
        _ => None,
    }
}
