//! Computes when a device is busy.

use warpbook_device::Activity;

/// Returns the first start and the last end, in nanoseconds.
pub(super) fn extent(run: &[&Activity]) -> (u64, u64) {
    let start = run.iter().map(|a| a.start_ns).min().unwrap_or(0);
    (start, run.iter().map(|a| a.end_ns()).max().unwrap_or(start))
}

/// Returns the nanoseconds during which at least one activity runs.
pub(super) fn busy_ns(run: &[&Activity]) -> u64 {
    let mut spans: Vec<(u64, u64)> = run.iter().map(|a| (a.start_ns, a.end_ns())).collect();
    spans.sort_unstable();
    let (mut busy, mut until) = (0, 0);
    for (start, end) in spans {
        busy += end.saturating_sub(start.max(until));
        until = until.max(end);
    }
    busy
}
