//! What each activity of a run belongs to.

use super::Operation;
use std::collections::{HashMap, VecDeque};
use warpbook_device::{Activity, ActivityKind};

/// What makes two activities the same work: the kernel and its grid, or the bytes that are copied or filled.
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

/// The operation of each activity of a run, by its number. Where the run has the operations' activities in their order, as queued or as started, place by
/// place; the driver may have turned a fill into a kernel. Otherwise the first of a kind to start is taken for the first of that kind, and so on.
pub(super) fn operations(operations: &[Operation], run: &[&Activity]) -> Vec<Option<usize>> {
    let known: Vec<(usize, &Activity)> = operations
        .iter()
        .enumerate()
        .flat_map(|(i, o)| {
            let mut queued: Vec<&Activity> = o.activities.iter().collect();
            queued.sort_by_key(|a| (a.correlation, a.start_ns));
            queued.into_iter().map(move |a| (i, a))
        })
        .collect();
    let queued: Vec<usize> = (0..run.len()).collect();
    let mut started = queued.clone();
    started.sort_by_key(|place| run[*place].start_ns);
    let is_known = |b: &Activity| known.iter().any(|(_, a)| key(a) == key(b));
    let alike = |a: &Activity, b: &Activity| key(a) == key(b) || !is_kernel(a) && is_kernel(b) && !is_known(b);
    let in_order = |places: &&Vec<usize>| {
        known.len() == run.len() && known.iter().zip(places.iter()).all(|((_, a), place)| alike(a, run[*place]))
    };
    let mut found = vec![None; run.len()];
    if let Some(places) = [&queued, &started].into_iter().find(in_order) {
        known.iter().zip(places).for_each(|((i, _), place)| found[*place] = Some(*i));
        return found;
    }
    let mut of_kind: HashMap<_, VecDeque<usize>> = HashMap::new();
    for (i, activity) in known {
        of_kind.entry(key(activity)).or_default().push_back(i);
    }
    for place in started {
        found[place] = of_kind.get_mut(&key(run[place])).and_then(VecDeque::pop_front);
    }
    found
}
