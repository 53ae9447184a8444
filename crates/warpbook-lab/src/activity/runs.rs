//! Splits recorded activities into runs.

use super::labels::key;
use warpbook_device::Activity;

/// Returns the activities of each run in queue order: by the driver call that queued them, and within a graph by node.
pub(super) fn split(activities: &[Activity], runs: usize) -> Result<Vec<Vec<&Activity>>, String> {
    let mut queued: Vec<&Activity> = activities.iter().collect();
    queued.sort_by_key(|a| (a.correlation, a.graph.map(|g| g.1), a.start_ns));
    let each = queued.len() / runs.max(1);
    if each == 0 || each * runs != queued.len() {
        return Err(format!(
            "{} activities were recorded in {runs} runs, which is not the same number for each",
            queued.len()
        ));
    }
    let split: Vec<Vec<&Activity>> = queued.chunks(each).map(<[&Activity]>::to_vec).collect();
    for (i, run) in split.iter().enumerate().skip(1) {
        if let Some((a, b)) = split[0].iter().zip(run).find(|(a, b)| key(a) != key(b)) {
            return Err(format!("the recorded runs differ: {} in the first is {} in run {}", a.name, b.name, i + 1));
        }
    }
    Ok(split)
}
