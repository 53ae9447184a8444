//! Assigns each activity of a run to an operation.

use super::Operation;
use std::collections::{HashMap, VecDeque};
use warpbook_device::{Activity, ActivityKind};

/// Returns the key of an activity, which is the same for the same work: the kernel and its grid, or the number of bytes
/// copied or filled.
pub(super) fn key(activity: &Activity) -> (&str, [u64; 4]) {
    let numbers = match activity.kind {
        ActivityKind::Kernel { grid: [x, y, z], block: [b, ..], .. } => [x, y, z, b].map(u64::from),
        ActivityKind::Copy { bytes } | ActivityKind::Fill { bytes } => [bytes, 0, 0, 0],
        _ => [0; 4],
    };
    (&activity.name, numbers)
}

fn is_kernel(activity: &Activity) -> bool {
    matches!(activity.kind, ActivityKind::Kernel { .. })
}

/// Returns the operations' activities in queue order, each with the index of its operation.
pub(super) fn queued(operations: &[Operation]) -> Vec<(usize, &Activity)> {
    let mut all = Vec::new();
    for (i, operation) in operations.iter().enumerate() {
        let mut queued: Vec<&Activity> = operation.activities.iter().collect();
        queued.sort_by_key(|a| (a.correlation, a.start_ns));
        all.extend(queued.into_iter().map(|a| (i, a)));
    }
    all
}

/// Returns the index of the operation of each activity of a run. If the run has the operations' activities in the same
/// order, either as queued or as started, they are matched one by one; the driver may have replaced a fill by a kernel.
/// Otherwise the nth activity of a kind to start is matched with the nth known activity of that kind.
pub(super) fn operations(operations: &[Operation], run: &[&Activity]) -> Vec<Option<usize>> {
    let known = queued(operations);
    let places = whole_run(&known, run).unwrap_or_else(|| by_kind(&known, run, false));
    places.into_iter().map(|place| place.map(|k| known[k].0)).collect()
}

/// Returns for each activity of `all` its index among the known activities. `all` may contain other activities before
/// and after the run. Returns `None` if a known kernel is missing.
pub(super) fn among(known: &[(usize, &Activity)], all: &[&Activity]) -> Option<Vec<Option<usize>>> {
    let mut found = vec![None; all.len()];
    for order in orders(all) {
        for places in order.windows(known.len().max(1)) {
            let part: Vec<&Activity> = places.iter().map(|place| all[*place]).collect();
            if is_in_order(known, &part) {
                places.iter().enumerate().for_each(|(k, place)| found[*place] = Some(k));
                return Some(found);
            }
        }
    }
    // Search from the end: only activities of the same run can follow it, but an evaluation with kernels of the same
    // kinds may come before it.
    let found = by_kind(known, all, true);
    // The driver may have replaced a fill with a kernel of an unknown kind, so only the known kernels must all be found.
    let is_there = |k: usize| !is_kernel(known[k].1) || found.contains(&Some(k));
    (!known.is_empty() && (0..known.len()).all(is_there)).then_some(found)
}

/// Returns the indices of activities in two orders: as queued and as started.
fn orders(run: &[&Activity]) -> [Vec<usize>; 2] {
    let queued: Vec<usize> = (0..run.len()).collect();
    let mut started = queued.clone();
    started.sort_by_key(|place| run[*place].start_ns);
    [queued, started]
}

/// Returns true if the activities of a run match the known ones one by one.
fn is_in_order(known: &[(usize, &Activity)], run: &[&Activity]) -> bool {
    let is_known = |b: &Activity| known.iter().any(|(_, a)| key(a) == key(b));
    let alike = |a: &Activity, b: &Activity| key(a) == key(b) || !is_kernel(a) && is_kernel(b) && !is_known(b);
    known.len() == run.len() && known.iter().zip(run).all(|((_, a), b)| alike(a, b))
}

fn whole_run(known: &[(usize, &Activity)], run: &[&Activity]) -> Option<Vec<Option<usize>>> {
    let in_order = |order: &Vec<usize>| is_in_order(known, &order.iter().map(|p| run[*p]).collect::<Vec<_>>());
    let order = orders(run).into_iter().find(in_order)?;
    let mut found = vec![None; run.len()];
    order.iter().enumerate().for_each(|(k, place)| found[*place] = Some(k));
    Some(found)
}

/// Matches activities of each kind in order, forwards or backwards from the end.
fn by_kind(known: &[(usize, &Activity)], run: &[&Activity], from_the_end: bool) -> Vec<Option<usize>> {
    let mut of_kind: HashMap<_, VecDeque<usize>> = HashMap::new();
    for (k, (_, activity)) in known.iter().enumerate() {
        of_kind.entry(key(activity)).or_default().push_back(k);
    }
    let [_, mut started] = orders(run);
    let mut next = |kind| {
        let left = of_kind.get_mut(&kind)?;
        if from_the_end { left.pop_back() } else { left.pop_front() }
    };
    if from_the_end {
        started.reverse();
    }
    let mut found = vec![None; run.len()];
    for place in started {
        found[place] = next(key(run[place]));
    }
    found
}
