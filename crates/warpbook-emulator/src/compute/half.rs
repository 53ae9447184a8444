//! Numbers of 16 bits, f16 and bf16, alone and in pairs: computed in double precision without a loss, then rounded once.

use super::floats::{add_to_odd, smaller};
use super::{Compute, Row, Word, each, rows};
use crate::compute::convert::{BF16, F16, Format, Rounding};

pub(super) fn add_rows(out: &mut Vec<Row>) {
    macro_rules! of_format {
        ($format:ident, $($op:literal $single:literal $pair:literal $n:ident $value:expr;)*) => {$(
            out.push((concat!($op, $single), of_format!(@ $n, $format, $value)));
            out.push((concat!($op, $pair), of_format!(@ pair $n, $format, $value)));
        )*};
        (@ two, $format:ident, $value:expr) => { Compute::Two(|into, a, b| each(into, |i| two($format, a[i], b[i], $value))) };
        (@ three, $format:ident, $value:expr) => {
            Compute::Three(|into, a, b, c| each(into, |i| three($format, a[i], b[i], c[i], $value)))
        };
        (@ pair two, $format:ident, $value:expr) => {
            Compute::Two(|into, a, b| {
                each(into, |i| two($format, a[i], b[i], $value) | two($format, a[i] >> 16, b[i] >> 16, $value) << 16);
            })
        };
        (@ pair three, $format:ident, $value:expr) => {
            Compute::Three(|into, a, b, c| {
                let half = |i: usize, shift: u32| three($format, a[i] >> shift, b[i] >> shift, c[i] >> shift, $value) << shift;
                each(into, |i| half(i, 0) | half(i, 16));
            })
        };
    }
    of_format! { F16,
        "add" ".f16" ".f16x2" two add_to_odd;
        "add.rn" ".f16" ".f16x2" two add_to_odd;
        "sub" ".f16" ".f16x2" two |a, b| add_to_odd(a, -b);
        "sub.rn" ".f16" ".f16x2" two |a, b| add_to_odd(a, -b);
        "mul" ".f16" ".f16x2" two |a, b| a * b;
        "mul.rn" ".f16" ".f16x2" two |a, b| a * b;
        "min" ".f16" ".f16x2" two smaller;
        "max" ".f16" ".f16x2" two |a, b| -smaller(-a, -b);
        "fma.rn" ".f16" ".f16x2" three |a, b, c| add_to_odd(a * b, c);
    }
    // Sums and products of these come with compute capability 9.0.
    of_format! { BF16,
        "min" ".bf16" ".bf16x2" two smaller;
        "max" ".bf16" ".bf16x2" two |a, b| -smaller(-a, -b);
        "fma.rn" ".bf16" ".bf16x2" three |a, b, c| add_to_odd(a * b, c);
    }
    macro_rules! signs {
        ($($suffix:literal $sign:literal),*) => {$(
            rows! { out, u64, $suffix; "neg" |a| a ^ $sign; "abs" |a| a & !$sign; }
        )*};
    }
    signs!(".f16" 0x8000, ".bf16" 0x8000, ".f16x2" 0x8000_8000, ".bf16x2" 0x8000_8000);
}

fn two(format: Format, a: u64, b: u64, f: impl Fn(f64, f64) -> f64) -> u64 {
    let wide = |bits| format.widen(u16::take(bits).into());
    format.narrow(f(wide(a), wide(b)), Rounding::Nearest)
}

fn three(format: Format, a: u64, b: u64, c: u64, f: impl Fn(f64, f64, f64) -> f64) -> u64 {
    let wide = |bits| format.widen(u16::take(bits).into());
    format.narrow(f(wide(a), wide(b), wide(c)), Rounding::Nearest)
}
