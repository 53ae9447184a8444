//! Figures as a reader wants them: three digits, and a unit that fits.

/// A number with three significant digits, without an exponent where that can be.
fn three_digits(v: f64) -> String {
    if v == 0.0 {
        return "0".into();
    }
    // From the rounded form: 999.6 has the digits of 1000.
    let text = format!("{v:.2e}");
    let exponent: i32 = text.rsplit_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    match exponent {
        -4..12 => format!("{v:.*}", usize::try_from(2 - exponent).unwrap_or(0)),
        _ => text,
    }
}

fn or_words(v: f64, form: impl Fn(f64) -> String) -> String {
    match v {
        v if v.is_nan() => "not a number".into(),
        v if v.is_infinite() => "infinite".into(),
        v => form(v),
    }
}

/// A number with three significant digits, as "0.0101".
#[must_use]
pub fn number(v: f64) -> String {
    or_words(v, three_digits)
}

/// Microseconds as "2.94 ms".
#[must_use]
pub fn time(us: f64) -> String {
    or_words(us, |us| {
        let (scale, unit) = match us.abs() {
            t if t >= 999_500.0 => (1e6, "s"),
            t if t >= 999.5 => (1e3, "ms"),
            t if t >= 0.9995 || t == 0.0 => (1.0, "µs"),
            _ => (1e-3, "ns"),
        };
        format!("{} {unit}", three_digits(us / scale))
    })
}

/// Bytes a second as "4617 GB/s".
#[must_use]
pub fn bandwidth(bytes_per_s: f64) -> String {
    or_words(bytes_per_s, |b| format!("{} GB/s", three_digits(b / 1e9)))
}

/// A ratio as "18.1×".
#[must_use]
pub fn times(ratio: f64) -> String {
    or_words(ratio, |r| format!("{}×", three_digits(r)))
}

/// A fraction as "64 %".
#[must_use]
pub fn percent(fraction: f64) -> String {
    or_words(fraction * 100.0, |p| if p.abs() < 9.95 { format!("{p:.1} %") } else { format!("{p:.0} %") })
}

/// Bytes as "141 GB" (of 10^9) or "48 KiB" (of 2^10): memories are sold by the one, caches by the other.
#[must_use]
pub fn bytes(n: u64) -> String {
    match n {
        0..1_024 => format!("{n} B"),
        1_024..1_048_576 => format!("{} KiB", short(n as f64 / 1024.0)),
        1_048_576..1_000_000_000 => format!("{} MiB", short(n as f64 / 1_048_576.0)),
        _ => format!("{} GB", short(n as f64 / 1e9)),
    }
}

fn short(v: f64) -> String {
    if v.fract() == 0.0 || v >= 100.0 { format!("{v:.0}") } else { format!("{v:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        let check = |got: String, expect: &str| assert_eq!(got, expect);
        check(time(2942.7), "2.94 ms");
        check(time(0.42), "420 ns");
        check(time(999.6), "1.00 ms");
        check(time(999.4), "999 µs");
        check(time(5_624_000.0), "5.62 s");
        check(time(0.0), "0 µs");
        check(time(f64::NAN), "not a number");
        check(bandwidth(4.617e12), "4617 GB/s");
        check(times(18.06), "18.1×");
        check(times(f64::INFINITY), "infinite");
        check(percent(0.6437), "64 %");
        check(percent(0.0213), "2.1 %");
        check(number(0.010_12), "0.0101");
        check(number(-1e-9), "-1.00e-9");
        check(bytes(49_152), "48 KiB");
        check(bytes(52_428_800), "50 MiB");
        check(bytes(150_000_000_000), "150 GB");
        check(bytes(7), "7 B");
    }
}
