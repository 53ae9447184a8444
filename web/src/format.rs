//! Numbers and sentences as the page prints them.

pub use warpbook_charts::words::{
    bandwidth, bytes, counted, number, percent, rate, sentence_case, short as plain, significant, versions,
};
use warpbook_record::{DeviceKind, L2State, Policy, Requires, Run, Rung, Runner, TimedBy};

/// What is shown where there is no figure.
pub const NONE: &str = "–";

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

/// What took the times.
pub fn clock(p: &Policy) -> &'static str {
    match p.timed_by {
        TimedBy::CudaEvents => "CUDA events",
        TimedBy::WallClock => "the host's clock",
        _ => "a clock that this page does not know",
    }
}

/// What is overwritten, or not, before each sample: L2 of a GPU, the caches of a CPU.
pub fn cache_name(run: &Run) -> &'static str {
    if run.environment.device.kind == DeviceKind::Cpu { "caches" } else { "L2" }
}

/// L2 at the start of a sample.
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

/// How a record was timed.
pub fn policy(run: &Run) -> String {
    let p = &run.policy;
    if run.measurements.is_empty() && !run.train_logs.is_empty() {
        // Nothing was timed by itself.
        return if p.inputs.is_empty() { String::new() } else { format!("{}.", p.inputs.trim_end_matches('.')) };
    }
    let warmup = counted(p.warmup as usize, "untimed repetition");
    let samples = counted(p.samples as usize, "sample");
    let (clock, cache, budget) = (clock(p), cache(p), budget(p));
    let mut text = format!("Timed by {clock}: {warmup}, then up to {samples} {budget}; {} {cache}", cache_name(run));
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
        Runner::Kernels { schedule, .. } => format!("Kernels: {}.", schedule.sentence()),
        Runner::Library(name) => format!("Runs in the GPU library {name}."),
        Runner::Cpu(with) => format!("Runs on the CPU: {with}."),
        Runner::External(name) => format!("Runs in another framework: {name}."),
        Runner::Chosen(rule) => format!("Runs the kernels of another rung, chosen by {rule}."),
    }
}

/// What a rung is called.
pub fn title(rung: &Rung) -> &str {
    if rung.title.trim().is_empty() { &rung.id } else { &rung.title }
}

/// The framework that a rung is of, where it is not ours.
pub fn framework(rung: &Rung) -> Option<&str> {
    rung.framework().map(|name| if name.is_empty() { "another framework" } else { name })
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
        let mut run = crate::open::tests::sample_run();
        run.policy = Policy {
            timed_by: TimedBy::CudaEvents,
            l2: L2State::Warm,
            warmup: 1,
            samples: 30,
            budget_s: 2.5,
            batch_below_us: 50.0,
            inputs: "seeded.".into(),
        };
        assert_eq!(
            policy(&run),
            "Timed by CUDA events: 1 untimed repetition, then up to 30 samples within 2.5 s; L2 as the previous sample \
             left it; regions below 50 µs in batches. Inputs: seeded."
        );
        run.environment.device.kind = DeviceKind::Cpu;
        (run.policy.timed_by, run.policy.l2) = (TimedBy::WallClock, L2State::Cold);
        let text = policy(&run);
        assert!(text.starts_with("Timed by the host's clock: "), "{text}");
        assert!(text.contains("; caches overwritten before each sample;"), "{text}");
    }

    #[test]
    fn what_runs_a_rung_is_a_sentence() {
        let run = crate::open::tests::sample_run();
        let of = |id: &str| runner(run.rung(id).unwrap());
        assert_eq!(of("02_fused"), "Kernels: launched one after another on one stream.");
        assert_eq!(of("04_fused_graph"), "Kernels: captured once as a CUDA graph and replayed.");
        assert_eq!(of("pytorch_eager"), "Runs in another framework: PyTorch 2.11.0.");
        assert_eq!(
            [sentence_case("median"), sentence_case("% of bound"), sentence_case("")],
            ["Median", "% of bound", ""]
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
