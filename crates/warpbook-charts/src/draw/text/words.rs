//! Numbers, times, rates and counts as text for readers: three digits and a suitable unit.
//!
//! The charts, the page, the notebooks, the command line and the README all use these functions.

/// Capitalises the first letter, as for a heading or a sentence.
#[must_use]
pub fn sentence_case(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

/// Formats a number with this many significant digits, without an exponent if possible: 1234, 12.3, 0.0123, 1.23e-9.
///
/// Digits before the point are never cut off. Infinity and NaN are written in words.
#[must_use]
pub fn significant(v: f64, digits: usize) -> String {
    let digits = digits.clamp(1, 17);
    if v == 0.0 || !v.is_finite() {
        return if v == 0.0 { "0".into() } else { not_finite(v) };
    }
    let exponent = exponent_of(v, digits);
    if !(-4..12).contains(&exponent) {
        return format!("{v:.*e}", digits - 1);
    }
    format!("{v:.*}", (digits as i32 - 1 - exponent).max(0) as usize)
}

/// Formats a number with three significant digits, such as "0.0101".
#[must_use]
pub fn number(v: f64) -> String {
    significant(v, 3)
}

/// Formats a number like [`number`] without trailing zeros, for exact values: 5, 0.5, 1.25.
#[must_use]
pub fn short(v: f64) -> String {
    let text = number(v);
    if !v.is_finite() || text.contains('e') { text } else { trim_zeros(&text).to_owned() }
}

/// Returns the decimal exponent of a rounded number: 999.6 rounded to three digits is 1.00e3.
fn exponent_of(v: f64, digits: usize) -> i32 {
    let text = format!("{:.*e}", digits - 1, v);
    text.rsplit_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0)
}

fn not_finite(v: f64) -> String {
    match v {
        v if v.is_nan() => "not a number".into(),
        v if v > 0.0 => "infinite".into(),
        _ => "minus infinite".into(),
    }
}

fn finite(v: f64, form: impl Fn(f64) -> String) -> String {
    if v.is_finite() { form(v) } else { not_finite(v) }
}

/// A unit of a scale: the smallest value, in the base unit, that uses it, and its name.
type Unit = (f64, &'static str);

const TIMES_US: [Unit; 4] = [(1e-3, "ns"), (1.0, "µs"), (1e3, "ms"), (1e6, "s")];

/// Returns the unit for times up to this many microseconds: (divisor, name).
pub(crate) fn time_unit(max_us: f64) -> Unit {
    TIMES_US.into_iter().rev().find(|(scale, _)| max_us.abs() >= *scale * 0.9995).unwrap_or(TIMES_US[0])
}

/// Formats microseconds with a suitable unit, such as "2.94 ms".
#[must_use]
pub fn time(us: f64) -> String {
    if us == 0.0 {
        return "0 µs".into();
    }
    finite(us, |us| {
        let (scale, name) = time_unit(us);
        format!("{} {name}", number(us / scale))
    })
}

/// Formats a round time on an axis, such as "10 µs".
pub(crate) fn time_tick(us: f64) -> String {
    if us == 0.0 {
        return "0".into();
    }
    let (scale, name) = time_unit(us);
    format!("{} {name}", plain(us / scale))
}

/// Formats a difference of times with its sign, such as "−1.03 µs".
#[must_use]
pub fn time_difference(us: f64) -> String {
    let sign = if us < 0.0 { "−" } else { "+" };
    format!("{sign}{}", time(us.abs()))
}

/// Formats bytes per second as "4617 GB/s", and as "33.0 TB/s" from ten thousand GB/s on.
#[must_use]
pub fn bandwidth(bytes_per_s: f64) -> String {
    finite(bytes_per_s, |b| match b.abs() {
        size if size >= 9.9995e12 => format!("{} TB/s", number(b / 1e12)),
        size if size >= 1e7 || size == 0.0 => format!("{} GB/s", number(b / 1e9)),
        _ => format!("{} MB/s", number(b / 1e6)),
    })
}

/// Formats a round bandwidth on an axis, such as "10 TB/s".
pub(crate) fn bandwidth_tick(bytes_per_s: f64) -> String {
    let (scale, name) = match bytes_per_s {
        b if b >= 9.995e11 => (1e12, "TB/s"),
        b if b >= 9.995e8 => (1e9, "GB/s"),
        _ => (1e6, "MB/s"),
    };
    format!("{} {name}", plain(bytes_per_s / scale))
}

/// Formats FLOP/s with a suitable prefix, such as "65.9 TFLOP/s".
#[must_use]
pub fn rate(flops_per_s: f64) -> String {
    finite(flops_per_s, |r| {
        let (scale, name) = rate_unit(r);
        format!("{} {name}", number(r / scale))
    })
}

/// Formats a round rate on an axis, such as "10 TFLOP/s".
pub(crate) fn rate_tick(flops_per_s: f64) -> String {
    let (scale, name) = rate_unit(flops_per_s);
    format!("{} {name}", plain(flops_per_s / scale))
}

/// Returns the unit for FLOP/s: (divisor, name).
pub(crate) fn rate_unit(flops_per_s: f64) -> Unit {
    match flops_per_s.abs() {
        size if size >= 9.995e11 => (1e12, "TFLOP/s"),
        size if size >= 1e7 || size == 0.0 => (1e9, "GFLOP/s"),
        _ => (1e6, "MFLOP/s"),
    }
}

/// Formats items per second, such as "1.20 M images/s"; if `item` is empty, the noun is "items".
#[must_use]
pub fn item_rate(per_s: f64, item: &str) -> String {
    finite(per_s, |r| {
        let (scale, prefix) = count_unit(r);
        format!("{} {prefix}{}", number(r / scale), item_rate_unit(item))
    })
}

/// Returns the unit of a rate, such as "images/s".
pub(crate) fn item_rate_unit(item: &str) -> String {
    format!("{}/s", if item.is_empty() { "items" } else { item })
}

/// Returns the prefix for counts of this size, as (divisor, prefix such as "M ").
pub(crate) fn count_unit(n: f64) -> Unit {
    match n.abs() {
        size if size >= 9.995e8 => (1e9, "G "),
        size if size >= 9.995e5 => (1e6, "M "),
        size if size >= 999.5 => (1e3, "k "),
        _ => (1.0, ""),
    }
}

/// Formats bytes of memory and of files in binary units, such as "48 KiB", "881 MiB" or "1.02 GiB".
#[must_use]
pub fn bytes(n: u64) -> String {
    memory(n as f64)
}

/// Formats bytes of device memory in binary units, such as "592 MiB" or "2.05 GiB".
#[must_use]
pub fn memory(bytes: f64) -> String {
    finite(bytes, |b| {
        let (scale, name) = memory_unit(b);
        format!("{} {name}", short(b / scale))
    })
}

/// Formats a round amount of memory on an axis, such as "256 MiB".
pub(crate) fn memory_tick(bytes: f64) -> String {
    let (scale, name) = memory_unit(bytes);
    format!("{} {name}", plain(bytes / scale))
}

/// Returns the binary unit for amounts of this size: (divisor, name).
pub(crate) fn memory_unit(bytes: f64) -> Unit {
    // 1023.5 MiB is written as 1 GiB.
    [(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1024.0, "KiB")]
        .into_iter()
        .find(|(scale, _)| bytes.abs() >= scale * (1023.5 / 1024.0))
        .unwrap_or((1.0, "B"))
}

/// Formats a power of two, such as a loss scale, as "2^16"; writes other numbers like [`plain`].
#[must_use]
pub fn power_of_two(v: f64) -> String {
    match v.log2() {
        exponent if exponent.fract() == 0.0 => format!("2^{exponent}"),
        _ => plain(v),
    }
}

/// Formats a loss scale for a sentence, with all of its digits and as a power of two: "524288 (2^19)".
#[must_use]
pub fn scale(v: f64) -> String {
    let (power, digits) = (power_of_two(v), whole(v));
    match power.starts_with("2^") && v > 1.0 {
        true if digits.len() <= 7 => format!("{digits} ({power})"),
        true => power,
        false => digits,
    }
}

/// Formats a whole number with all digits that a float has.
#[must_use]
pub fn whole(v: f64) -> String {
    if v.fract() == 0.0 && v.abs() < 1e15 { format!("{v:.0}") } else { plain(v) }
}

/// Rewrites versions of CUPTI and NCCL in a text in their usual form: "CUPTI 13.0.1" for "CUPTI 130001", "NCCL 2.28.3"
/// for "NCCL 22803". Both libraries encode minor and patch in two digits each. CUPTI's versions before CUDA 13 were
/// plain counts and stay unchanged.
#[must_use]
pub fn versions(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = ["CUPTI ", "NCCL "].iter().filter_map(|n| Some(rest.find(n)? + n.len())).min() {
        let (before, after) = rest.split_at(at);
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (number, after) = after.split_at(digits);
        out.push_str(before);
        match number.parse::<u32>() {
            Ok(v) if v >= 10_000 => out.push_str(&format!("{}.{}.{}", v / 10_000, v / 100 % 100, v % 100)),
            _ => out.push_str(number),
        }
        rest = after;
    }
    out + rest
}

/// Formats a ratio such as "18.1×".
#[must_use]
pub fn times(ratio: f64) -> String {
    finite(ratio, |r| format!("{}×", number(r)))
}

/// Formats a fraction in percent, such as "64 %".
#[must_use]
pub fn percent(fraction: f64) -> String {
    finite(fraction * 100.0, |p| if p.abs() < 9.95 { format!("{} %", significant(p, 2)) } else { format!("{p:.0} %") })
}

/// Formats a round number: 0.25, 5, 100000, 1e7. Cutting to twelve digits hides rounding errors of summed steps.
#[must_use]
pub fn plain(v: f64) -> String {
    if v == 0.0 || !v.is_finite() {
        return if v == 0.0 { "0".into() } else { not_finite(v) };
    }
    let exponent = exponent_of(v, 12);
    if !(-5..7).contains(&exponent) {
        let text = format!("{v:.11e}");
        let (mantissa, e) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{e}", trim_zeros(mantissa));
    }
    trim_zeros(&format!("{v:.*}", (11 - exponent).max(0) as usize)).to_owned()
}

fn trim_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Formats a round count, such as "100 k".
#[must_use]
pub fn count(n: f64) -> String {
    let (scale, name) = match n {
        n if n < 1e3 => return plain(n),
        n if n < 1e6 => (1e3, "k"),
        n if n < 1e9 => (1e6, "M"),
        n if n < 1e12 => (1e9, "G"),
        _ => return plain(n),
    };
    format!("{} {name}", plain(n / scale))
}

/// Formats a count with its noun: "1 rung", "2 rungs".
#[must_use]
pub fn counted(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Formats names as "a, b and c"; as "a, b; c" if one of them contains a comma.
#[must_use]
pub fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        _ if names.iter().any(|n| n.contains(',')) => names.join("; "),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Returns the possessive of a name, such as "memory's" or "registers'".
#[must_use]
pub fn possessive(name: &str) -> String {
    if name.ends_with('s') { format!("{name}'") } else { format!("{name}'s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_fitting_unit() {
        let check = |us: f64, expect: &str| assert_eq!(time(us), expect, "{us}");
        check(2942.7, "2.94 ms");
        check(0.42, "420 ns");
        check(1.0, "1.00 µs");
        check(999.6, "1.00 ms");
        check(999.4, "999 µs");
        check(5_624_000.0, "5.62 s");
        check(1.5e9, "1500 s");
        check(0.0, "0 µs");
        check(f64::NAN, "not a number");
        check(f64::INFINITY, "infinite");
    }

    #[test]
    fn ticks_are_plain() {
        let check = |v: f64, expect: &str| assert_eq!(plain(v), expect);
        check(0.1 + 0.2, "0.3");
        check(1000.0, "1000");
        check(1e-4, "0.0001");
        check(2e-7, "2e-7");
        check(1e20, "1e20");
        assert_eq!(time_tick(10.0), "10 µs");
        assert_eq!(time_tick(1e6), "1 s");
        assert_eq!(time_tick(0.5), "500 ns");
        assert_eq!(time_tick(2.5e4), "25 ms");
        assert_eq!(count(100_000.0), "100 k");
        assert_eq!(count(2e8), "200 M");
        assert_eq!(count(1e15), "1e15");
    }

    #[test]
    fn rates_and_ratios() {
        assert_eq!(bandwidth(4.617e12), "4617 GB/s");
        assert_eq!(bandwidth(1.3e10), "13.0 GB/s");
        assert_eq!(bandwidth(2e6), "2.00 MB/s");
        assert_eq!(bandwidth(3.3e13), "33.0 TB/s");
        assert_eq!(bandwidth(9.9997e12), "10.0 TB/s");
        assert_eq!(bandwidth(0.0), "0 GB/s");
        assert_eq!(bandwidth(f64::NAN), "not a number");
        assert_eq!(rate(6.59e13), "65.9 TFLOP/s");
        assert_eq!(rate(9.998e11), "1.00 TFLOP/s");
        assert_eq!(rate(2.5e9), "2.50 GFLOP/s");
        assert_eq!(rate_tick(1e13), "10 TFLOP/s");
        assert_eq!(item_rate(1.2e6, "images"), "1.20 M images/s");
        assert_eq!(item_rate(999.6, ""), "1.00 k items/s");
        assert_eq!(item_rate(0.25, "images"), "0.250 images/s");
        assert_eq!(times(f64::INFINITY), "infinite");
        assert_eq!(times(18.06), "18.1×");
        assert_eq!(percent(0.6437), "64 %");
        assert_eq!(percent(0.0213), "2.1 %");
        assert_eq!(percent(0.0996), "10 %");
        assert_eq!(time_difference(-1.03), "−1.03 µs");
        assert_eq!(counted(1, "rung"), "1 rung");
        assert_eq!(listed(&["a".into(), "b".into(), "c".into()]), "a, b and c");
        assert_eq!(listed(&["a, b".into(), "c".into()]), "a, b; c");
        assert_eq!(possessive("memory") + possessive("registers").as_str(), "memory'sregisters'");
        assert_eq!(significant(1e-9, 3), "1.00e-9");
    }

    #[test]
    fn scales_of_losses_are_powers_of_two() {
        let check = |got: String, expect: &str| assert_eq!(got, expect);
        check(power_of_two(65_536.0), "2^16");
        check(power_of_two(0.25), "2^-2");
        check(power_of_two(1.0), "2^0");
        check(power_of_two(3.0), "3");
        check(power_of_two(0.0), "0");
        check(power_of_two(-4.0), "-4");
        check(scale(524_288.0), "524288 (2^19)");
        check(scale(2f64.powi(40)), "2^40");
        check(scale(1000.0), "1000");
        check(scale(1.0), "1");
        check(scale(f64::NAN), "not a number");
        check(whole(1_099_511_627_776.0), "1099511627776");
    }

    #[test]
    fn versions_have_points() {
        let check = |text: &str, expect: &str| assert_eq!(versions(text), expect);
        check("Recorded by CUPTI 130001 over 3 runs", "Recorded by CUPTI 13.0.1 over 3 runs");
        check("CUPTI 130100, 12 passes; NCCL 22803", "CUPTI 13.1.0, 12 passes; NCCL 2.28.3");
        check("CUPTI 26", "CUPTI 26");
        check("NCCL and CUPTI 99999999999", "NCCL and CUPTI 99999999999");
        check("", "");
    }

    #[test]
    fn numbers_have_three_digits_and_bytes_a_unit() {
        let check = |got: String, expect: &str| assert_eq!(got, expect);
        check(number(0.010_12), "0.0101");
        check(number(-1e-9), "-1.00e-9");
        check(number(99.99), "100");
        check(number(f64::NEG_INFINITY), "minus infinite");
        check(significant(1.5, 0), "2");
        check(short(5.0), "5");
        check(short(0.500), "0.5");
        check(short(1.5e-6), "1.50e-6");
        check(bytes(7), "7 B");
        check(bytes(49_152), "48 KiB");
        check(bytes(1_536), "1.5 KiB");
        check(bytes(52_428_800), "50 MiB");
        check(bytes(1_048_575), "1 MiB");
        check(bytes(924_000_000), "881 MiB");
        check(bytes(1_074_000_000), "1 GiB");
        check(bytes(150_109_880_320), "140 GiB");
        check(memory(592.0 * 1_048_576.0), "592 MiB");
        check(memory(1023.6 * 1_048_576.0), "1 GiB");
        check(memory(2.2e9), "2.05 GiB");
        check(memory(700.0), "700 B");
        check(memory(f64::NAN), "not a number");
        check(memory_tick(1.25 * 1_073_741_824.0), "1.25 GiB");
        check(memory_tick(0.0), "0 B");
    }
}
