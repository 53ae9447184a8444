//! Arithmetic in single and double precision.
//!
//! Everything that IEEE 754 defines is exact to the bit. Directed roundings are computed in double precision, rounded to odd, and then rounded to single
//! precision: rounding to odd first cannot change the final result. Approximations (`.approx`) return the number nearest to the true value; a GPU's results may
//! differ in the last bits.

use super::convert::{F32, Rounding};
use super::{Compute, Lanes, OpcodeRow, Word, each, rows};

/// Returns the sum rounded to odd: if the sum is inexact, the neighbouring number whose last bit is 1.
pub(super) fn add_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if !sum.is_finite() {
        return sum;
    }
    // Knuth's two-sum: `error` is the exact rounding error of `sum`.
    let b_part = sum - a;
    let error = (a - (sum - b_part)) + (b - b_part);
    if error == 0.0 || sum.to_bits() & 1 == 1 {
        return sum;
    }
    if error > 0.0 { sum.next_up() } else { sum.next_down() }
}

/// Returns the smaller number. -0 is smaller than 0. The result is NaN only if both numbers are NaN.
pub(super) fn smaller(a: f64, b: f64) -> f64 {
    if a.is_nan() {
        return b;
    }
    if b.is_nan() || a < b || (a == b && a.is_sign_negative()) { a } else { b }
}

/// Adds two single-precision numbers given as bits, for atomics in shared memory.
pub(crate) fn add_single(a: u64, b: u64) -> u64 {
    (f32::take(a) + f32::take(b)).put()
}

/// Adds two single-precision numbers given as bits, for atomics in global memory. GPUs replace denormal operands and results of these atomics with zeros.
pub(crate) fn add_single_flushed(a: u64, b: u64) -> u64 {
    flush(flush(f32::take(a)) + flush(f32::take(b))).put()
}

/// Rounds a double-precision number to single precision.
fn single(value: f64, rounding: Rounding) -> u64 {
    F32.narrow(value, rounding)
}

/// Replaces a denormal with a zero of the same sign.
fn flush(value: f32) -> f32 {
    if value.is_subnormal() { 0f32.copysign(value) } else { value }
}

/// Replaces a denormal in double precision with a zero of the same sign.
fn flush_double(value: f64) -> f64 {
    if value.is_subnormal() { 0f64.copysign(value) } else { value }
}

/// Divides as `div.approx.f32`, which multiplies by a reciprocal: above 2^126 the reciprocal of `b` is zero.
fn divide_approximately(a: f32, b: f32) -> f32 {
    // The smallest normal number is 2^-126.
    if b.abs() > 1.0 / f32::MIN_POSITIVE { a * 0f32.copysign(b) } else { a / b }
}

pub(super) fn add_rows(out: &mut Vec<OpcodeRow>) {
    single_and_double(out);
    directed(out);
    approximations(out);
}

fn single_and_double(out: &mut Vec<OpcodeRow>) {
    macro_rules! of_type {
        ($($t:ident $suffix:literal),*) => {$(rows! { out, $t, $suffix;
            "add" "add.rn" |a, b| a + b;
            "sub" "sub.rn" |a, b| a - b;
            "mul" "mul.rn" |a, b| a * b;
            "div.rn" |a, b| a / b;
            "rcp.rn" |a| 1.0 / a;
            "sqrt.rn" |a| a.sqrt();
            "copysign" |a, b| b.copysign(a);
        })*};
    }
    of_type!(f32 ".f32", f64 ".f64");
    rows! { out, f32, ".f32";
        "min" |a, b| min_single(a, b);
        "max" |a, b| -min_single(-a, -b);
        "min.NaN" |a, b| if a.is_nan() || b.is_nan() { f32::NAN } else { min_single(a, b) };
        "max.NaN" |a, b| if a.is_nan() || b.is_nan() { f32::NAN } else { -min_single(-a, -b) };
        "add.sat" |a, b| saturate(a + b);
        "mul.sat" |a, b| saturate(a * b);
        "fma.rn.sat" |a, b, c| saturate(fma_single(a, b, c));
    }
    out.extend(["fma.rn.f32", "mad.rn.f32"].map(|name| (name, Compute::Plain(3, fma))));
    rows! { out, f64, ".f64";
        "fma.rn" "mad.rn" |a, b, c| a.mul_add(b, c);
        "min" |a, b| smaller(a, b);
        "max" |a, b| -smaller(-a, -b);
    }
    // These operations change only the sign bit, even for NaN.
    rows! { out, u64, "";
        "neg.f32" |a| a ^ 1 << 31;
        "abs.f32" |a| a & 0x7fff_ffff;
        "neg.f64" |a| a ^ 1 << 63;
        "abs.f64" |a| a & !(1 << 63);
    }
}

/// Computes `a * b + c` with a single rounding. The product is exact in double precision, and the sum is first rounded to odd there.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)]
fn fma_single(a: f32, b: f32, c: f32) -> f32 {
    add_to_odd(f64::from(a) * f64::from(b), c.into()) as f32
}

/// Computes `fma.rn.f32`. Rounding the sum twice, first to double precision, is wrong only for ties of single precision. A tie ends with 28 zero bits (even for
/// denormals), so only such sums take the slower path.
#[allow(clippy::cast_possible_truncation)]
fn fma(into: &mut Lanes, a: &Lanes, b: &Lanes, c: &Lanes, _: &Lanes) {
    let single = |row: &Lanes, i: usize| f64::from(f32::take(row[i]));
    let mut ties = 0u64;
    for (i, into) in into.iter_mut().enumerate() {
        let sum = single(a, i) * single(b, i) + single(c, i);
        ties |= u64::from(sum.to_bits() & 0x0fff_ffff == 0);
        *into = (sum as f32).put();
    }
    if ties != 0 {
        each(into, |i| fma_single(f32::take(a[i]), f32::take(b[i]), f32::take(c[i])).put());
    }
}

#[allow(clippy::cast_possible_truncation)]
fn min_single(a: f32, b: f32) -> f32 {
    smaller(a.into(), b.into()) as f32
}

/// Clamps a number to the range from 0 to 1; NaN becomes 0.
fn saturate(a: f32) -> f32 {
    if a > 0.0 { a.min(1.0) } else { 0.0 }
}

/// Adds the table rows of single-precision arithmetic that rounds towards zero, down or up.
fn directed(out: &mut Vec<OpcodeRow>) {
    macro_rules! of_rounding {
        ($($rounding:ident $suffix:literal),*) => {$(rows! { out, f32, $suffix;
            "add" |a, b| single(add_directed(a.into(), b.into(), Rounding::$rounding), Rounding::$rounding);
            "sub" |a, b| single(add_directed(a.into(), -f64::from(b), Rounding::$rounding), Rounding::$rounding);
            "mul" |a, b| single(f64::from(a) * f64::from(b), Rounding::$rounding);
            "fma" |a, b, c| single(add_directed(f64::from(a) * f64::from(b), c.into(), Rounding::$rounding), Rounding::$rounding);
        })*};
    }
    of_rounding!(Zero ".rz.f32", Down ".rm.f32", Up ".rp.f32");
}

/// Returns a sum rounded to odd. With rounding down, the sum of opposite numbers is -0.
fn add_directed(a: f64, b: f64, rounding: Rounding) -> f64 {
    let sum = add_to_odd(a, b);
    if rounding == Rounding::Down
        && sum == 0.0
        && !(a == 0.0 && b == 0.0 && a.is_sign_positive() && b.is_sign_positive())
    {
        return -0.0;
    }
    sum
}

#[allow(clippy::cast_possible_truncation)]
fn approximations(out: &mut Vec<OpcodeRow>) {
    macro_rules! approximate {
        ($($name:literal |$a:ident| $value:expr;)*) => {
            rows! { out, f32, ".approx.f32"; $($name |$a| { let $a = f64::from($a); ($value) as f32 };)* }
            rows! { out, f32, ".approx.ftz.f32"; $($name |$a| { let $a = f64::from(flush($a)); flush(($value) as f32) };)* }
        };
    }
    approximate! {
        "ex2" |a| a.exp2();
        "lg2" |a| a.log2();
        "rcp" |a| 1.0 / a;
        "sqrt" |a| a.sqrt();
        "rsqrt" |a| 1.0 / a.sqrt();
        "sin" |a| a.sin();
        "cos" |a| a.cos();
    }
    rows! { out, f32, ".f32";
        "tanh.approx" |a| f64::from(a).tanh() as f32;
        "div.approx" |a, b| divide_approximately(a, b);
        "div.approx.ftz" |a, b| flush(divide_approximately(flush(a), flush(b)));
        "div.full" |a, b| a / b;
        "div.full.ftz" |a, b| flush(flush(a) / flush(b));
    }
    // Only the upper 32 bits are computed, as on a GPU; programs refine the result.
    rows! { out, f64, ".f64";
        "rcp.approx.ftz" |a| flush_double(1.0 / flush_double(a)).to_bits() & !0xffff_ffff;
        "rsqrt.approx" |a| (1.0 / a.sqrt()).to_bits() & !0xffff_ffff;
        "rsqrt.approx.ftz" |a| (1.0 / flush_double(a).sqrt()).to_bits() & !0xffff_ffff;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directed_roundings_enclose_the_true_value() {
        let (third, tiny) = (1.0f32 / 3.0, f32::MIN_POSITIVE);
        let sum = |rounding| f32::take(single(add_directed(third.into(), tiny.into(), rounding), rounding));
        assert_eq!(sum(Rounding::Down), third);
        assert_eq!(sum(Rounding::Zero), third);
        assert_eq!(sum(Rounding::Up), third.next_up());
        assert_eq!(add_directed(1.0, -1.0, Rounding::Down).to_bits(), (-0.0f64).to_bits());
    }

    #[test]
    fn a_fused_product_is_rounded_once() {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // The fraction has few bits, so that ties are common. The exponents are around 0 or below those of normal numbers.
            let exponent = if state & 1 == 0 { 120 + (state >> 40) % 16 } else { 60 + (state >> 40) % 12 };
            (state >> 33 & 0x8000_0000) | exponent << 23 | (state >> 20 & 0x7f_f800) | (state >> 60 & 1)
        };
        for _ in 0..2000 {
            let [a, b, c] = [(); 3].map(|()| std::array::from_fn::<u64, 32, _>(|_| next()));
            let mut into = [0; 32];
            fma(&mut into, &a, &b, &c, &c);
            for i in 0..32 {
                let expect = f32::take(a[i]).mul_add(f32::take(b[i]), f32::take(c[i]));
                assert_eq!(into[i], expect.put(), "{:e} {:e} {:e}", f32::take(a[i]), f32::take(b[i]), f32::take(c[i]));
            }
        }
    }

    #[test]
    fn the_smaller_of_zeros_and_nan() {
        assert!(smaller(0.0, -0.0).is_sign_negative() && smaller(-0.0, 0.0).is_sign_negative());
        assert_eq!(smaller(f64::NAN, 2.0), 2.0);
    }
}
