//! The timeline of all ranks in one step, on a common clock.

use crate::training::failure;
use serde::{Deserialize, Serialize};
use std::time::SystemTime;
use warpbook_device::{Activity, Recorder};
use warpbook_lab::{Error, Result};
use warpbook_nn::train::{RankThread, RankWork, Ranks};
use warpbook_record::{Problem, Span};

/// Number of recorded steps; the middle one is shown.
pub(super) const RECORDED: usize = 3;
/// Name for all GPU activities other than communication.
const KERNEL: &str = "kernel";
/// Nanoseconds by which successive activities may overlap.
const CLOCK_NS: u64 = 200;

/// An activity of a rank in a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Moment {
    pub rank: usize,
    /// Name of the lane, such as "compute", "compute 2" or "communication".
    pub lane: String,
    /// Kind of the activity, such as "backward" or "all-reduce".
    pub kind: String,
    pub name: String,
    /// Start in nanoseconds since 1970, according to the machine's clock.
    pub start_ns: u64,
    pub duration_ns: u64,
}

/// Returns the activities of a rank on the CPU in one step.
pub(super) fn of_work(rank: usize, work: &[RankWork]) -> Vec<Moment> {
    let moment = |w: &RankWork| {
        let is_reduction = w.name.ends_with("all-reduce");
        Moment {
            rank,
            lane: match w.thread {
                RankThread::Compute => "compute".into(),
                RankThread::Communication => "communication".into(),
            },
            kind: if is_reduction { "all-reduce".into() } else { w.name.clone() },
            name: w.name.clone(),
            start_ns: u64::try_from(w.begun.as_nanos()).unwrap_or(u64::MAX),
            duration_ns: u64::try_from(w.took.as_nanos()).unwrap_or(u64::MAX),
        }
    };
    work.iter().map(moment).collect()
}

/// Returns the activities of a rank's GPU in the middle one of the recorded steps.
pub(super) fn of_activities(rank: usize, recorder: &Recorder) -> Result<Vec<Moment>> {
    let recorded = recorder.take()?;
    // Read the time on CUPTI's clock and on the machine's clock at the same moment.
    let (now, here) = (recorder.now_ns()?, SystemTime::now());
    let here = here.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let zero = u64::try_from(here).unwrap_or(u64::MAX).saturating_sub(now);
    Ok(of_step(rank, &recorded.activities, zero))
}

/// Returns the activities of a step. A step is one graph launch, so all of its activities share a correlation number.
fn of_step(rank: usize, activities: &[Activity], zero_ns: u64) -> Vec<Moment> {
    let mut launches: Vec<(u32, usize)> = Vec::new();
    for activity in activities {
        match launches.iter_mut().find(|(correlation, _)| *correlation == activity.correlation) {
            Some((_, count)) => *count += 1,
            None => launches.push((activity.correlation, 1)),
        }
    }
    // Copies between steps also have correlation numbers, but fewer activities.
    let most = launches.iter().map(|(_, count)| *count).max().unwrap_or(0);
    launches.retain(|(_, count)| *count == most);
    let Some((step, _)) = launches.get(launches.len() / 2) else { return Vec::new() };
    let mut of_step: Vec<&Activity> = activities.iter().filter(|a| a.correlation == *step).collect();
    of_step.sort_by_key(|a| a.start_ns);
    let mut ends: Vec<u64> = Vec::new();
    let moment = |a: &Activity| {
        let talks = a.name.to_ascii_lowercase().contains("nccl");
        let lane = if talks {
            "communication".to_owned()
        } else {
            let free = ends.iter().position(|end| *end <= a.start_ns + CLOCK_NS).unwrap_or(ends.len());
            ends.resize(ends.len().max(free + 1), 0);
            ends[free] = a.end_ns();
            if free == 0 { "compute".to_owned() } else { format!("compute {}", free + 1) }
        };
        Moment {
            rank,
            lane,
            kind: if talks { "all-reduce".into() } else { KERNEL.into() },
            name: a.name.clone(),
            start_ns: zero_ns.saturating_add(a.start_ns),
            duration_ns: a.duration_ns,
        }
    };
    of_step.into_iter().map(moment).collect()
}

/// Gathers the activities of all ranks.
pub(super) fn of_all(ranks: &Ranks, own: &[Moment]) -> Result<Vec<Moment>> {
    let bytes = serde_json::to_vec(own).map_err(|e| Error::Setting(e.to_string()))?;
    let mut all = Vec::new();
    for bytes in ranks.all_gather(&bytes).map_err(failure)? {
        all.extend(serde_json::from_slice::<Vec<Moment>>(&bytes).map_err(|e| Error::Setting(e.to_string()))?);
    }
    Ok(all)
}

/// Returns the activities as spans of a record, starting at the first activity. Each rank has one lane for its
/// computation and one for its communication.
pub(super) fn spans(moments: &[Moment], rung: &str, problem: &Problem) -> Vec<Span> {
    let zero = moments.iter().map(|m| m.start_ns).min().unwrap_or(0);
    let mut ordered: Vec<&Moment> = moments.iter().collect();
    ordered.sort_by(|a, b| (a.rank, &a.lane, a.start_ns).cmp(&(b.rank, &b.lane, b.start_ns)));
    // The communication lane goes below the rank's compute lane; sorted by name, it would come first.
    ordered.sort_by_key(|m| (m.rank, m.lane == "communication"));
    let span = |m: &&Moment| Span {
        rung: rung.to_owned(),
        problem: problem.clone(),
        name: m.name.clone(),
        // For a kernel, the name already identifies the span.
        operation: if m.kind == KERNEL { String::new() } else { format!("rank-{} {}", m.rank, m.kind) },
        stream: format!("rank {} {}", m.rank, m.lane),
        start_us: (m.start_ns - zero) as f64 / 1e3,
        duration_us: m.duration_ns as f64 / 1e3,
        bytes: None,
        correlation: None,
    };
    ordered.iter().map(span).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_device::ActivityKind;
    use warpbook_record::Dtype;

    fn activity(name: &str, start_ns: u64, duration_ns: u64, correlation: u32) -> Activity {
        let kind = ActivityKind::Kernel { grid: [1; 3], block: [32, 1, 1], registers: 32, shared_bytes: 0 };
        Activity { kind, name: name.into(), start_ns, duration_ns, stream: 7, correlation, graph: None }
    }

    #[test]
    fn the_middle_step_is_shown_with_a_lane_for_what_runs_at_once() {
        let mut all = vec![activity("copy to the device", 10, 5, 1)];
        for step in 0..3u32 {
            let at = 10_000 * u64::from(step) + 1000;
            all.push(activity("conv", at, 2000, 10 + step));
            all.push(activity("weight_gradient", at + 500, 3000, 10 + step));
            all.push(activity("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at + 1000, 4000, 10 + step));
            all.push(activity("sgd", at + 6000, 500, 10 + step));
        }
        let moments = of_step(1, &all, 1_000_000);
        let lanes: Vec<(&str, u64)> = moments.iter().map(|m| (m.lane.as_str(), m.start_ns - 1_000_000)).collect();
        let want = [("compute", 11_000), ("compute 2", 11_500), ("communication", 12_000), ("compute", 17_000)];
        assert_eq!(lanes, want, "the second of three steps");
        assert!(of_step(0, &[], 0).is_empty());
    }

    #[test]
    fn ranks_lie_below_each_other_on_one_clock() {
        let moment = |rank, lane: &str, kind: &str, start_ns| Moment {
            rank,
            lane: lane.into(),
            kind: kind.into(),
            name: kind.into(),
            start_ns,
            duration_ns: 1000,
        };
        let all = [
            moment(1, "compute", KERNEL, 7000),
            moment(0, "communication", "all-reduce", 6000),
            moment(0, "compute", "backward", 5000),
        ];
        let problem = Problem::new("", "", Vec::new(), Dtype::F32);
        let spans = spans(&all, "ranks_fp32", &problem);
        let said: Vec<_> = spans.iter().map(|s| (s.stream.as_str(), s.operation.as_str(), s.start_us)).collect();
        let want = [
            ("rank 0 compute", "rank-0 backward", 0.0),
            ("rank 0 communication", "rank-0 all-reduce", 1.0),
            ("rank 1 compute", "", 2.0),
        ];
        assert_eq!(said, want);
    }
}
