//! Arithmetic on 16-bit numbers, f16 and bf16, alone and in packed pairs. Results are computed exactly in double precision, and then rounded once.

use super::floats::{add_to_odd, smaller};
use super::{Compute, OpcodeRow, Word, each, rows};
use crate::compute::convert::{BF16, F16, Format, Rounding};

pub(super) fn add_rows(out: &mut Vec<OpcodeRow>) {
    macro_rules! of_format {
        ($format:ident $single:literal $pair:literal; $($($name:literal)+ |$($x:ident),+| $value:expr;)*) => {
            rows! { out, u64, $single; $($($name)+ |$($x),+| half($format, [$($x),+], 0, |[$($x),+]| $value);)* }
            rows! { out, u64, $pair; $($($name)+ |$($x),+| {
                half($format, [$($x),+], 0, |[$($x),+]| $value) | half($format, [$($x),+], 16, |[$($x),+]| $value)
            };)* }
        };
    }
    of_format! { F16 ".f16" ".f16x2";
        "add" "add.rn" |a, b| add_to_odd(a, b);
        "sub" "sub.rn" |a, b| add_to_odd(a, -b);
        "mul" "mul.rn" |a, b| a * b;
        "min" |a, b| smaller(a, b);
        "max" |a, b| -smaller(-a, -b);
        "fma.rn" |a, b, c| add_to_odd(a * b, c);
    }
    // There is no `add`, `sub` or `mul` of bf16, because these need compute capability 9.0.
    of_format! { BF16 ".bf16" ".bf16x2";
        "min" |a, b| smaller(a, b);
        "max" |a, b| -smaller(-a, -b);
        "fma.rn" |a, b, c| add_to_odd(a * b, c);
    }
    macro_rules! signs {
        ($($suffix:literal $sign:literal),*) => {$(
            rows! { out, u64, $suffix; "neg" |a| a ^ $sign; "abs" |a| a & !$sign; }
        )*};
    }
    signs!(".f16" 0x8000, ".bf16" 0x8000, ".f16x2" 0x8000_8000, ".bf16x2" 0x8000_8000);
}

/// Adds two f16 numbers given as bits, for atomics.
pub(crate) fn add_half(a: u64, b: u64) -> u64 {
    half(F16, [a, b], 0, |[a, b]| add_to_odd(a, b))
}

/// Adds two pairs of f16 numbers given as bits, for atomics.
pub(crate) fn add_halves(a: u64, b: u64) -> u64 {
    add_half(a, b) | half(F16, [a, b], 16, |[a, b]| add_to_odd(a, b))
}

/// Computes one half of a packed result. Its operands and its result begin at bit `shift` of their registers.
fn half<const N: usize>(format: Format, operands: [u64; N], shift: u32, f: impl Fn([f64; N]) -> f64) -> u64 {
    let wide = operands.map(|bits| format.widen(u16::take(bits >> shift).into()));
    format.narrow(f(wide), Rounding::Nearest) << shift
}
