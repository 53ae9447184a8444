//! The number that decimal digits write, rounded as IEEE 754 wants it.
//!
//! The standard library's reader is faster, and brings a table of 10 KB that no compression makes smaller: too much for a page.

/// More digits than any number has that lies half-way between two `f64` (767): of what follows only matters whether it is 0.
const MOST_DIGITS: usize = 800;

/// The number that a text writes, as `str::parse` reads it, with exponents, infinity and NaN.
#[must_use]
pub fn number(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is = |word: &str| unsigned.eq_ignore_ascii_case(word);
    let size = if is("inf") || is("infinity") {
        f64::INFINITY
    } else if is("nan") {
        f64::NAN
    } else {
        decimal(unsigned)?
    };
    Some(if text.starts_with('-') { -size } else { size })
}

/// The same of a text without a sign.
pub(super) fn decimal(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let (before, mut few) = leading(bytes, 0);
    let (mut end, mut after) = (before, 0);
    if bytes.get(end) == Some(&b'.') {
        (after, few) = leading(&bytes[end + 1..], few);
        end += 1 + after;
    }
    if before + after == 0 {
        return None;
    }
    let mut exponent = -(after as i64);
    match bytes.get(end) {
        None => {}
        Some(b'e' | b'E') => exponent += exponent_of(&text[end + 1..])?,
        Some(_) => return None,
    }
    let digits = bytes[..end].iter().copied().filter(|b| *b != b'.');
    let is_few = before + after <= 19 || digits.clone().skip_while(|b| *b == b'0').count() <= 19;
    let quick = if is_few { quick(few, exponent) } else { None };
    Some(quick.unwrap_or_else(|| nearest(digits, exponent)))
}

/// How many digits a text begins with, and the number of these after others; meaningless where they are too many for it.
fn leading(text: &[u8], mut number: u64) -> (usize, u64) {
    let mut count = 0;
    while let Some(digit @ b'0'..=b'9') = text.get(count) {
        number = number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
        count += 1;
    }
    (count, number)
}

/// One that is too large for any number is as good as any such.
fn exponent_of(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let add = |sum: i64, d: u8| d.is_ascii_digit().then(|| (sum * 10 + i64::from(d - b'0')).min(i64::from(i32::MAX)));
    let size = digits.bytes().try_fold(0, add).filter(|_| !digits.is_empty())?;
    Some(if text.starts_with('-') { -size } else { size })
}

/// Most numbers that are written, without large ones.
fn quick(few: u64, exponent: i64) -> Option<f64> {
    let size = exponent.unsigned_abs() as u32;
    match exponent {
        _ if few == 0 => Some(0.0),
        // Both are exact, so that their product or quotient is rounded once.
        -22..=22 if few <= 1 << 53 => {
            let power = (0..size).fold(1.0, |p, _| p * 10.0);
            Some(if exponent < 0 { few as f64 / power } else { few as f64 * power })
        }
        0..=27 => few.checked_mul(5_u64.pow(size)).map(|n| n as f64 * (1_u64 << size) as f64),
        -26..0 if few < 1 << 62 => Some(divided(few, 5_u64.pow(size), exponent as i32)),
        _ => None,
    }
}

/// One number over another, × 2^`exponent`, bit by bit; both are below 2^62.
fn divided(above: u64, below: u64, exponent: i32) -> f64 {
    // Shifted so that they have the same length, and then so that the quotient is at least 1 and less than 2.
    let (a, b) = (above.leading_zeros() - 2, below.leading_zeros() - 2);
    let (mut above, below, mut exponent) = (above << a, below << b, exponent + b as i32 - a as i32);
    if above < below {
        above <<= 1;
        exponent -= 1;
    }
    let mut mantissa: u64 = 0;
    for _ in 0..53 {
        let one = above >= below;
        above = (above - if one { below } else { 0 }) << 1;
        mantissa = mantissa << 1 | u64::from(one);
    }
    // What is left, times 2.
    mantissa += u64::from(above > below || (above == below && mantissa & 1 == 1));
    mantissa as f64 * f64::from_bits(((exponent - 52 + 1023) as u64) << 52)
}

/// The `f64` nearest to `digits` (ASCII) × 10^`exponent`; of two as near the even one, and infinity where it is too large.
fn nearest(digits: impl Iterator<Item = u8>, mut exponent: i64) -> f64 {
    let mut many = Large(Vec::new());
    let (mut count, mut rest) = (0, false);
    for digit in digits.map(|d| d - b'0') {
        if count == 0 && digit == 0 {
            continue;
        }
        if count < MOST_DIGITS {
            count += 1;
            many.scale(10, u32::from(digit));
        } else {
            exponent += 1;
            rest |= digit != 0;
        }
    }
    // The first digit stands for at most 10^magnitude.
    let magnitude = exponent.saturating_add(count as i64);
    if count == 0 || magnitude < -330 {
        return 0.0;
    }
    if magnitude > 310 {
        return f64::INFINITY;
    }
    if rest {
        many.scale(10, 1);
        exponent -= 1;
    }
    let mut divisor = Large::of(1);
    let scaled = if exponent < 0 { &mut divisor } else { &mut many };
    for _ in 0..exponent.abs() {
        scaled.scale(10, 0);
    }
    quotient(many, divisor)
}

/// One number over another, bit by bit.
fn quotient(mut above: Large, mut below: Large) -> f64 {
    // Shifted so that `above / below` is at least 1 and less than 2; the quotient is that × 2^exponent.
    let mut exponent = above.bits() - below.bits();
    if exponent < 0 { &mut above } else { &mut below }.shift(exponent.unsigned_abs());
    if above.is_less(&below) {
        above.shift(1);
        exponent -= 1;
    }
    // Below 2^-1022 an f64 has fewer bits.
    let bits = if exponent < -1022 { 53 + 1022 + exponent } else { 53 };
    if bits < 0 {
        return 0.0;
    }
    let mut mantissa: u64 = 0;
    for _ in 0..bits {
        let one = !above.is_less(&below);
        if one {
            above.subtract(&below);
        }
        mantissa = mantissa << 1 | u64::from(one);
        above.shift(1);
    }
    // What is left, times 2.
    if below.is_less(&above) || (!above.is_less(&below) && mantissa & 1 == 1) {
        mantissa += 1;
    }
    let last = exponent - bits + 1;
    if last > 971 {
        return f64::INFINITY;
    }
    let unit = if last < -1022 { 1 << (last + 1074) } else { ((last + 1023) as u64) << 52 };
    mantissa as f64 * f64::from_bits(unit)
}

/// A natural number; the lowest 32 bits are first, and the last are not 0.
struct Large(Vec<u32>);

impl Large {
    fn of(n: u64) -> Self {
        let mut parts = vec![n as u32, (n >> 32) as u32];
        while parts.last() == Some(&0) {
            parts.pop();
        }
        Self(parts)
    }

    /// Multiplied by one number, plus another.
    fn scale(&mut self, by: u32, plus: u32) {
        let mut carry = u64::from(plus);
        for part in &mut self.0 {
            carry += u64::from(*part) * u64::from(by);
            *part = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    /// How many bits it has.
    fn bits(&self) -> i32 {
        self.0.last().map_or(0, |last| self.0.len() as i32 * 32 - last.leading_zeros() as i32)
    }

    /// Multiplied by 2^`by`.
    fn shift(&mut self, by: u32) {
        self.scale(1 << (by % 32), 0);
        self.0.splice(0..0, (0..by / 32).map(|_| 0));
    }

    fn is_less(&self, other: &Self) -> bool {
        let length = self.0.len().cmp(&other.0.len());
        length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev())).is_lt()
    }

    /// Less another, which is not larger.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        for (i, part) in self.0.iter_mut().enumerate() {
            let (less, under) = part.overflowing_sub(other.0.get(i).copied().unwrap_or(0));
            let (less, again) = less.overflowing_sub(u32::from(borrow));
            (*part, borrow) = (less, under || again);
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn same(text: &str) {
        let (got, expect) = (number(text).map(f64::to_bits), text.parse().ok().map(f64::to_bits));
        assert_eq!(got, expect, "{text}");
    }

    #[test]
    fn what_is_hard_to_round_is_rounded_as_the_standard_library_does() {
        let texts = [
            "0",
            "-0",
            "0.0e5",
            "1",
            "-1.5",
            "+7",
            ".5",
            "5.",
            "0.1",
            "0.30000000000000004",
            "123456789012345678",
            "9007199254740992",
            "9007199254740993",
            "9007199254740993.0000000000000000001",
            "9007199254740995",
            "1e22",
            "1e23",
            "8.98846567431158e307",
            "1.7976931348623157e308",
            "1.7976931348623158e308",
            "1.7976931348623159e308",
            "1e309",
            "1e400",
            "-1e99999999999999999999",
            "1e-400",
            "0e99999999999999999999",
            "1e-99999999999999999999",
            "5e-324",
            "4.9e-324",
            "2.5e-324",
            "2.4703282292062327e-324",
            "2.4703282292062328e-324",
            "2.2250738585072011e-308",
            "2.2250738585072012e-308",
            "2.2250738585072014e-308",
            "7.4109846876186982e-324",
            "6.02214076e23",
            "inf",
            "-Infinity",
            "",
            ".",
            "-",
            "e5",
            "1e",
            "1e+",
            "1e5.0",
            "1.2.3",
            "1_000",
            " 1",
            "0x10",
            "--1",
            "+-1",
            "1e--5",
            "١",
        ];
        for text in texts {
            same(text);
        }
        assert!(number("NaN").is_some_and(f64::is_nan));
        // The smallest number has 1074 decimals; half of it, and a little more or less.
        let smallest = format!("{:.1074}", f64::from_bits(1));
        let half = half_of(&smallest);
        same(&half);
        for extra in ["0", "1", "00000001"] {
            same(&format!("{half}{extra}"));
            same(&format!("9007199254740993.{}{extra}", "0".repeat(900)));
            same(&format!("{}{extra}", "12345".repeat(70)));
        }
    }

    /// Half of a decimal number.
    fn half_of(text: &str) -> String {
        let mut carry = 0;
        let mut halved = |c: char| match c.to_digit(10) {
            None => c,
            Some(d) => {
                let all = carry * 10 + d;
                carry = all % 2;
                char::from_digit(all / 2, 10).expect("a digit")
            }
        };
        text.chars().chain(['0']).map(&mut halved).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn any_number_is_read_as_it_was_written(bits in any::<u64>(), digits in 0..20usize) {
            let v = f64::from_bits(bits);
            if v.is_finite() {
                assert_eq!(number(&format!("{v:e}")).map(f64::to_bits), Some(bits));
                same(&format!("{v:.digits$e}"));
                same(&v.to_string());
            }
        }

        #[test]
        fn a_time_is_read_as_it_was_written(few in any::<u64>(), exponent in -30..30i32) {
            same(&format!("{few}e{exponent}"));
            same(&format!("{}e{exponent}", few >> 3));
            let time = few as f64 / 2f64.powi(62 - exponent);
            assert_eq!(number(&time.to_string()), Some(time));
        }

        #[test]
        fn any_digits_are_read_as_the_standard_library_does(text in "[+-]?[0-9]{0,30}(\\.[0-9]{0,40})?(e-?[0-9]{1,3})?") {
            same(&text);
        }
    }
}
