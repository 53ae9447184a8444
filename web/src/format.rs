//! Numbers and sentences as the page prints them.

use warpbook_record::{L2State, Outcome, Policy, Requires, Rung, Runner, Schedule, TimedBy};

/// What stands where there is no figure.
pub const NONE: &str = "–";

/// Three significant digits without an exponent where that is short: 1234, 12.3, 0.0123.
pub fn number(v: f64) -> String {
    let size = v.abs();
    match size {
        _ if v.is_nan() => "NaN".into(),
        _ if v.is_infinite() => if v > 0.0 { "infinity" } else { "−infinity" }.into(),
        _ if size == 0.0 => "0".into(),
        _ if !(1e-3..1e7).contains(&size) => format!("{v:.2e}"),
        _ if size >= 999.5 => format!("{v:.0}"),
        _ if size >= 99.95 => format!("{v:.0}"),
        _ if size >= 9.995 => format!("{v:.1}"),
        _ if size >= 0.9995 => format!("{v:.2}"),
        _ if size >= 0.09995 => format!("{v:.3}"),
        _ => format!("{v:.4}"),
    }
}

/// The same without zeros at its end, for what is exact: 5, 0.5, 1.25.
pub fn plain(v: f64) -> String {
    let text = number(v);
    if !text.contains('.') || text.contains('e') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A time in the unit that suits it.
pub fn time(us: f64) -> String {
    let size = us.abs();
    match size {
        _ if !us.is_finite() => number(us),
        _ if size >= 999_500.0 => format!("{} s", number(us / 1e6)),
        _ if size >= 999.5 => format!("{} ms", number(us / 1e3)),
        _ if size >= 0.9995 || size == 0.0 => format!("{} µs", number(us)),
        _ => format!("{} ns", number(us * 1e3)),
    }
}

/// Bytes with a binary unit.
pub fn bytes(n: u64) -> String {
    let v = n as f64;
    match n {
        0..1024 => format!("{n} B"),
        1024..1_048_576 => format!("{} KiB", plain(v / 1024.0)),
        1_048_576..1_073_741_824 => format!("{} MiB", plain(v / 1_048_576.0)),
        _ => format!("{} GiB", plain(v / 1_073_741_824.0)),
    }
}

/// A bandwidth.
pub fn bandwidth(bytes_per_s: f64) -> String {
    format!("{} GB/s", number(bytes_per_s / 1e9))
}

/// An arithmetic rate.
pub fn rate(flops_per_s: f64) -> String {
    if flops_per_s >= 1e12 {
        format!("{} TFLOP/s", number(flops_per_s / 1e12))
    } else {
        format!("{} GFLOP/s", number(flops_per_s / 1e9))
    }
}

/// An RFC 3339 time in UTC as "21 November 2026, 07:00 UTC"; anything else as it is.
pub fn date(created: &str) -> String {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let parse = || {
        let (day, clock) = created.strip_suffix('Z')?.split_once('T')?;
        let mut parts = day.splitn(3, '-');
        let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
        let number = |t: &str| if t.bytes().all(|b| b.is_ascii_digit()) { t.parse::<usize>().ok() } else { None };
        let month = MONTHS.get(number(month)?.checked_sub(1)?)?;
        let mut clock = clock.split(':');
        let (hour, minute) = (clock.next()?, clock.next()?);
        number(hour).zip(number(minute))?;
        Some(format!("{} {month} {}, {hour}:{minute} UTC", number(day)?, number(year)?))
    };
    parse().unwrap_or_else(|| created.to_owned())
}

/// The same in a few characters: "2026-11-21, 07:00 UTC".
pub fn short_date(created: &str) -> String {
    let parse = || {
        let (day, clock) = created.strip_suffix('Z')?.split_once('T')?;
        Some(format!("{day}, {} UTC", clock.get(..5)?))
    };
    parse().unwrap_or_else(|| created.to_owned())
}

/// A count with its noun.
pub fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// What took the times.
pub fn clock(p: &Policy) -> &'static str {
    match p.timed_by {
        TimedBy::CudaEvents => "CUDA events",
        TimedBy::WallClock => "the processor's clock",
        _ => "a clock that this page does not know",
    }
}

/// The cache at the start of a sample.
pub fn cache(p: &Policy) -> &'static str {
    match p.l2 {
        L2State::Warm => "as the previous sample left it",
        L2State::Cold => "overwritten before each sample",
        _ => "in a state that this page does not know",
    }
}

/// How long a measurement may take.
pub fn budget(p: &Policy) -> String {
    if p.budget_s.is_finite() { format!("within {} s", plain(p.budget_s)) } else { "without a limit of time".into() }
}

/// A policy in words.
pub fn policy(p: &Policy) -> String {
    let warmup = count(p.warmup as usize, "untimed repetition", "untimed repetitions");
    let samples = count(p.samples as usize, "sample", "samples");
    let (clock, cache, budget) = (clock(p), cache(p), budget(p));
    let mut text = format!("Timed by {clock}: {warmup}, then up to {samples} {budget}; cache {cache}");
    if p.batch_below_us > 0.0 {
        text.push_str(&format!("; regions below {} µs in batches", plain(p.batch_below_us)));
    }
    text.push('.');
    if !p.inputs.is_empty() {
        text.push_str(&format!(" Inputs: {}.", p.inputs.trim_end_matches('.')));
    }
    text
}

/// What a rung needs, as a sentence.
pub fn requires(r: &Requires) -> String {
    match r {
        Requires::Nothing => "Runs on any device.".into(),
        _ => format!("Needs {}.", r.sentence()),
    }
}

/// What runs a rung, as a sentence.
pub fn runner(rung: &Rung) -> String {
    match &rung.runner {
        Runner::Kernels { schedule, .. } => match schedule {
            Schedule::Launches => "Kernels launched one after another on one stream.".into(),
            Schedule::Streams(n) => format!("Kernels over {n} streams, joined by events."),
            Schedule::Graph => "Kernels captured once as a CUDA graph and replayed.".into(),
            Schedule::Cooperative => "One cooperative launch of a grid that is resident all at once.".into(),
            Schedule::Cluster(n) => format!("Kernels launched in clusters of {n} thread blocks."),
            _ => "Kernels launched in a way that this page does not know.".into(),
        },
        Runner::Library(name) => format!("Runs in the GPU library {name}."),
        Runner::Cpu(with) => format!("Runs on the processor: {with}."),
        Runner::External(name) => format!("Runs in another framework: {name}."),
    }
}

/// How a measurement ended.
pub fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Measured => "Measured".into(),
        Outcome::Skipped { why } => format!("Skipped: {why}"),
        Outcome::Failed { error } => format!("Failed: {error}"),
    }
}

/// A name for a file to save, of letters, digits and hyphens.
pub fn slug(parts: &[&str]) -> String {
    let mut out = String::new();
    for c in parts.join("-").chars() {
        match c {
            _ if out.len() >= 80 => break,
            'a'..='z' | '0'..='9' => out.push(c),
            'A'..='Z' => out.push(c.to_ascii_lowercase()),
            _ if out.ends_with('-') || out.is_empty() => {}
            _ => out.push('-'),
        }
    }
    let out = out.trim_matches('-');
    if out.is_empty() { "warpbook".into() } else { out.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let check = |v: f64, expect: &str| assert_eq!(number(v), expect, "{v}");
        check(0.0, "0");
        check(1.0, "1.00");
        check(9.999, "10.0");
        check(99.99, "100");
        check(0.5, "0.500");
        check(0.0123, "0.0123");
        check(1.5e-6, "1.50e-6");
        check(123_456.0, "123456");
        check(4.8e12, "4.80e12");
        check(f64::NAN, "NaN");
        check(f64::NEG_INFINITY, "−infinity");
    }

    #[test]
    fn times_and_bytes_have_units_that_suit() {
        let check = |us: f64, expect: &str| assert_eq!(time(us), expect, "{us}");
        check(0.25, "250 ns");
        check(12.0, "12.0 µs");
        check(999.7, "1.00 ms");
        check(2_654.0, "2.65 ms");
        check(1e6, "1.00 s");
        check(f64::INFINITY, "infinity");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(227 * 1024), "227 KiB");
        assert_eq!(bytes(60 << 20), "60 MiB");
        assert_eq!(bandwidth(4.43e12), "4430 GB/s");
        assert_eq!(rate(6.7e13), "67.0 TFLOP/s");
    }

    #[test]
    fn dates_are_read_or_left() {
        let check = |text: &str, expect: &str| assert_eq!(date(text), expect);
        check("2026-11-21T07:00:00Z", "21 November 2026, 07:00 UTC");
        check("2026-13-21T07:00:00Z", "2026-13-21T07:00:00Z");
        check("2026-11-21T07:00:00+01:00", "2026-11-21T07:00:00+01:00");
        check("<b>now</b>", "<b>now</b>");
        check("", "");
        assert_eq!(short_date("2026-11-21T07:00:00Z"), "2026-11-21, 07:00 UTC");
        assert_eq!(short_date("long ago"), "long ago");
    }

    #[test]
    fn a_policy_is_put_in_words() {
        let policy = Policy {
            timed_by: TimedBy::CudaEvents,
            l2: L2State::Warm,
            warmup: 1,
            samples: 30,
            budget_s: 2.5,
            batch_below_us: 50.0,
            inputs: "seeded.".into(),
        };
        assert_eq!(
            super::policy(&policy),
            "Timed by CUDA events: 1 untimed repetition, then up to 30 samples within 2.5 s; cache as the previous \
             sample left it; regions below 50 µs in batches. Inputs: seeded."
        );
    }

    #[test]
    fn file_names_are_plain() {
        assert_eq!(slug(&["Regression", "NVIDIA H200", "ladder"]), "regression-nvidia-h200-ladder");
        assert_eq!(slug(&["../../etc/passwd"]), "etc-passwd");
        assert_eq!(slug(&["<>"]), "warpbook");
        assert!(slug(&["x".repeat(500).as_str()]).len() <= 80);
    }
}
