//! A record's timing policy as sentences.

use crate::text::format::{counted, plain};
use warpbook_record::{DeviceKind, L2State, Policy, Run, TimedBy};

/// Names the clock that took the times.
pub fn clock(p: &Policy) -> &'static str {
    match p.timed_by {
        TimedBy::CudaEvents => "CUDA events",
        TimedBy::WallClock => "the host's clock",
        TimedBy::Nothing => "nothing: the emulator has no times",
        _ => "a clock that this page does not know",
    }
}

/// Names the cache that may be overwritten before each sample: L2 on a GPU, the caches on a CPU.
pub fn cache_name(run: &Run) -> &'static str {
    if run.environment.device.kind == DeviceKind::Cpu { "caches" } else { "L2" }
}

/// Describes the state of L2 at the start of a sample.
pub fn cache(p: &Policy) -> &'static str {
    match p.l2 {
        L2State::Warm => "as the previous sample left it",
        L2State::Cold => "overwritten before each sample",
        _ => "in a state that this page does not know",
    }
}

/// Describes the time limit of a measurement.
pub fn budget(p: &Policy) -> String {
    if p.budget_s.is_finite() { format!("within {} s", plain(p.budget_s)) } else { "without a limit of time".into() }
}

/// Describes in a sentence how a record was timed.
pub fn sentence(run: &Run) -> String {
    let p = &run.policy;
    let inputs = p.inputs.to_string();
    let inputs = inputs.trim_end_matches('.');
    if run.measurements.is_empty() && !run.train_logs.is_empty() {
        // Without measurements nothing was timed, so only the inputs are described.
        return if inputs.is_empty() { String::new() } else { format!("{inputs}.") };
    }
    let warmup = counted(p.warmup as usize, "untimed repetition");
    let samples = counted(p.samples as usize, "sample");
    let (clock, cache, budget) = (clock(p), cache(p), budget(p));
    let mut text = format!("Timed by {clock}: {warmup}, then up to {samples} {budget}; {} {cache}", cache_name(run));
    if p.batch_below_us > 0.0 {
        text.push_str(&format!("; regions below {} µs in batches", plain(p.batch_below_us)));
    }
    text.push('.');
    if !inputs.is_empty() {
        text.push_str(&format!(" Inputs: {inputs}."));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_record::Inputs;

    #[test]
    fn a_policy_is_put_in_words() {
        let mut run = crate::testing::sample_run();
        run.policy = Policy {
            timed_by: TimedBy::CudaEvents,
            l2: L2State::Warm,
            warmup: 1,
            samples: 30,
            budget_s: 2.5,
            batch_below_us: 50.0,
            inputs: Inputs::of_all("seeded."),
        };
        assert_eq!(
            sentence(&run),
            "Timed by CUDA events: 1 untimed repetition, then up to 30 samples within 2.5 s; L2 as the previous sample \
             left it; regions below 50 µs in batches. Inputs: seeded."
        );
        run.environment.device.kind = DeviceKind::Cpu;
        (run.policy.timed_by, run.policy.l2) = (TimedBy::WallClock, L2State::Cold);
        let text = sentence(&run);
        assert!(text.starts_with("Timed by the host's clock: "), "{text}");
        assert!(text.contains("; caches overwritten before each sample;"), "{text}");
    }
}
