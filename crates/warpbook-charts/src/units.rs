//! Figures as a reader wants them: three digits and a unit that fits.

/// A number with so many significant digits, without an exponent where that can be.
pub(crate) fn significant(v: f64, digits: usize) -> String {
    if v == 0.0 || !v.is_finite() {
        return if v == 0.0 { "0".into() } else { not_finite(v) };
    }
    let exponent = exponent_of(v, digits);
    if !(-5..12).contains(&exponent) {
        return format!("{v:.*e}", digits - 1);
    }
    // Digits before the point are never cut off.
    format!("{v:.*}", (digits as i32 - 1 - exponent).max(0) as usize)
}

/// The decimal exponent after rounding: 999.6 to three digits is 1.00e3.
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

/// A step of units: the least value in the base unit, and its name.
type Unit = (f64, &'static str);

const TIMES_US: [Unit; 4] = [(1e-3, "ns"), (1.0, "µs"), (1e3, "ms"), (1e6, "s")];

/// The unit for times up to this many microseconds: (what to divide by, name).
pub(crate) fn time_unit(max_us: f64) -> Unit {
    TIMES_US.into_iter().rev().find(|(scale, _)| max_us.abs() >= *scale * 0.9995).unwrap_or(TIMES_US[0])
}

/// Microseconds as "2.94 ms".
pub(crate) fn time(us: f64) -> String {
    if us == 0.0 || !us.is_finite() {
        return if us == 0.0 { "0 µs".into() } else { not_finite(us) };
    }
    let (scale, name) = time_unit(us);
    format!("{} {name}", significant(us / scale, 3))
}

/// A round time on an axis, as "10 µs".
pub(crate) fn time_tick(us: f64) -> String {
    if us == 0.0 {
        return "0".into();
    }
    let (scale, name) = time_unit(us);
    format!("{} {name}", plain(us / scale))
}

/// Bytes a second as "4617 GB/s".
pub(crate) fn bandwidth(bytes_per_s: f64) -> String {
    match bytes_per_s / 1e9 {
        gb if gb >= 0.01 => format!("{} GB/s", significant(gb, 3)),
        gb => format!("{} MB/s", significant(gb * 1e3, 3)),
    }
}

/// A ratio as "18.1×".
pub(crate) fn times(ratio: f64) -> String {
    format!("{}×", significant(ratio, 3))
}

/// A fraction as "64 %".
pub(crate) fn percent(fraction: f64) -> String {
    let v = fraction * 100.0;
    if v.abs() < 10.0 { format!("{} %", significant(v, 2)) } else { format!("{v:.0} %") }
}

/// A difference with its sign, as "−1.03 µs".
pub(crate) fn time_difference(us: f64) -> String {
    let sign = if us < 0.0 { "−" } else { "+" };
    format!("{sign}{}", time(us.abs()))
}

/// A round number on an axis: 0.25, 5, 100000, 1e7.
pub(crate) fn plain(v: f64) -> String {
    if v == 0.0 {
        return "0".into();
    }
    // Ticks are 1, 2 or 5 times a power of ten, or multiples of such a step: twelve digits hide the rounding.
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

/// A count on an axis, as "100 k".
pub(crate) fn count(n: f64) -> String {
    let (scale, name) = match n {
        n if n < 1e3 => return plain(n),
        n if n < 1e6 => (1e3, "k"),
        n if n < 1e9 => (1e6, "M"),
        n if n < 1e12 => (1e9, "G"),
        _ => return plain(n),
    };
    format!("{} {name}", plain(n / scale))
}

/// "1 rung", "2 rungs".
pub(crate) fn counted(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Names as "a, b and c".
pub(crate) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
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
        assert_eq!(times(18.06), "18.1×");
        assert_eq!(percent(0.6437), "64 %");
        assert_eq!(percent(0.0213), "2.1 %");
        assert_eq!(time_difference(-1.03), "−1.03 µs");
        assert_eq!(counted(1, "rung"), "1 rung");
        assert_eq!(listed(&["a".into(), "b".into(), "c".into()]), "a, b and c");
        assert_eq!(significant(1e-9, 3), "1.00e-9");
    }
}
