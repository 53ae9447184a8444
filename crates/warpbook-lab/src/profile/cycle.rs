//! Recorded steps of a program, with the work of the host and of the device.

use super::{HardwareCounters, Work};
use std::collections::BTreeMap;
use std::time::Instant;
use warpbook_device::{Activity, ActivityKind, Call, EventSnapshot, EventTimes, MemoryPoint};
use warpbook_record::{Breakdown, ProfilerOverhead};

/// The time of a step on the host's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepTime {
    /// Number of the step from 0, including unrecorded steps.
    pub number: u64,
    /// Start of the step in microseconds from the cycle's start.
    pub start_us: f64,
    /// Duration in microseconds until the program ended the step; the device may still be busy then.
    pub duration_us: f64,
}

/// One pass through a range of the program.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeTime {
    /// Name that the program gave to the range.
    pub name: String,
    /// Index of the enclosing range; `None` for an outermost range.
    pub parent: Option<usize>,
    /// Number of ranges that enclose this one.
    pub depth: usize,
    /// Number of the step in which the range began.
    pub step: u64,
    /// Start in microseconds from the cycle's start, on the host's clock.
    pub start_us: f64,
    /// Duration in microseconds on the host's clock; the device may run the work later.
    pub duration_us: f64,
    /// Work of the range, as declared by the program.
    pub work: Work,
    /// Device time of the range, including nested ranges.
    pub device_us: f64,
    /// Number of kernels, copies and fills. If times come from events, it is the number of times that the host queued
    /// work.
    pub launches: u64,
    /// Bytes requested from the driver in the range; arrays in segments of a pool request no bytes.
    pub allocated_bytes: u64,
}

/// A kernel, copy or fill on the device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceWork {
    /// Name of the kernel, or a text such as "copy to the device".
    pub name: String,
    /// Kind of activity, with the bytes of a copy or the launch of a kernel.
    pub kind: ActivityKind,
    /// Number of the stream, assigned by CUPTI.
    pub stream: u32,
    /// Correlation number of the driver call that queued the work.
    pub correlation: u32,
    /// Numbers that CUPTI assigned to the graph and the node, if the work ran in a graph.
    pub graph: Option<(u32, u64)>,
    /// Index of the innermost range in which the host queued the work.
    pub range: Option<usize>,
    /// Operation of a training step, such as "conv1 forward"; empty if unknown.
    pub operation: String,
    /// Start in microseconds from the cycle's start.
    pub start_us: f64,
    /// Duration in microseconds.
    pub duration_us: f64,
}

impl DeviceWork {
    /// Returns true if this entry is the sum of a range's work, not a single kernel, copy or fill.
    #[must_use]
    pub fn is_range(&self) -> bool {
        self.kind == ActivityKind::Range
    }

    /// Returns the bytes per second of a copy or a fill.
    #[must_use]
    pub fn bytes_per_s(&self) -> Option<f64> {
        let bytes = self.kind.bytes().filter(|_| self.duration_us > 0.0)?;
        Some(bytes as f64 / (self.duration_us * 1e-6))
    }
}

/// A change in the amount of memory that arrays occupy on the device.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryChange {
    /// Time in microseconds from the cycle's start, on the host's clock.
    pub at_us: f64,
    /// The change, and the amount of memory in use after it.
    pub point: MemoryPoint,
    /// Index of the innermost range at the time of the change.
    pub range: Option<usize>,
}

/// Hardware counters of a range or of a training step; the work was repeated to read them.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeCounters {
    /// Index of the range; `None` for a training step.
    pub range: Option<usize>,
    /// Hardware counters of the range.
    pub counters: HardwareCounters,
}

/// A call of a CUDA driver function.
#[derive(Debug, Clone, PartialEq)]
pub struct HostCall {
    /// Name of the driver function.
    pub name: String,
    /// Number of the thread, assigned by the system.
    pub thread: u32,
    /// Correlation number of the device work that the call queued.
    pub correlation: u32,
    /// Index of the innermost range at the time of the call.
    pub range: Option<usize>,
    /// Start in microseconds from the cycle's start.
    pub start_us: f64,
    /// Duration on the host in microseconds.
    pub duration_us: f64,
}

/// A recording of some steps; all times are in microseconds.
#[derive(Debug, Clone)]
pub struct Cycle {
    /// Number of the cycle, from 0.
    pub number: usize,
    /// Number of the first step in the cycle.
    pub first_step: u64,
    /// Name of the recorder, such as "CUPTI 130001". If CUPTI was unavailable, the name of the replacement and the
    /// reason.
    pub source: String,
    /// Time from the start of the profiler to the start of the cycle.
    pub began_us: f64,
    /// True if there is a device other than the host.
    pub has_device: bool,
    /// Number of bytes of the lab's arrays on the device at the end of the cycle.
    pub allocated_bytes: Option<u64>,
    /// Number of records that CUPTI dropped for lack of room.
    pub lost: u64,
    /// Time from the start of the cycle until the device finished.
    pub whole_us: f64,
    /// Recorded steps, in order.
    pub steps: Vec<StepTime>,
    /// Ranges in the order of their starts, followed by the spans of the `tracing` crate.
    pub ranges: Vec<RangeTime>,
    /// Device work, sorted by start time.
    pub work: Vec<DeviceWork>,
    /// Driver calls of the host, in order.
    pub calls: Vec<HostCall>,
    /// Memory that arrays occupy on the device: at the start, and after each change.
    pub memory: Vec<MemoryChange>,
    /// Cost of recording, if enough steps were timed without it.
    pub overhead: Option<ProfilerOverhead>,
    /// Hardware counters of each range that was counted.
    pub counters: Vec<RangeCounters>,
    /// The activity of the device in a training step, by operation, with the work of each operation: one sample for
    /// each recorded step.
    pub operations: Option<Breakdown>,
    /// Notes that say which parts are missing and why.
    pub notes: Vec<String>,
}

/// A moment read on two clocks; it converts times of a recorder's clock to the clock of a cycle.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joint {
    /// The moment on the recorder's clock, in nanoseconds.
    pub ns: u64,
    /// The moment in microseconds from the cycle's start.
    pub us: f64,
}

/// Returns the time from the start of the cycle in microseconds. Work that began before the cycle counts as starting
/// with it, since the clocks differ slightly.
fn since(start_ns: u64, begin: Joint) -> f64 {
    begin.us + start_ns.saturating_sub(begin.ns) as f64 / 1e3
}

pub(super) fn device_work(all: &[Activity], ranges: &BTreeMap<u32, usize>, begin: Joint) -> Vec<DeviceWork> {
    let to_work = |a: &Activity| DeviceWork {
        name: a.name.clone(),
        kind: a.kind.clone(),
        stream: a.stream,
        correlation: a.correlation,
        graph: a.graph,
        range: ranges.get(&a.correlation).copied(),
        operation: String::new(),
        start_us: since(a.start_ns, begin),
        duration_us: a.duration_ns as f64 / 1e3,
    };
    all.iter().map(to_work).collect()
}

pub(super) fn host_calls(all: &[Call], ranges: &BTreeMap<u32, usize>, begin: Joint) -> Vec<HostCall> {
    let to_host_call = |c: &Call| HostCall {
        name: c.name.clone(),
        thread: c.thread,
        correlation: c.correlation,
        range: ranges.get(&c.correlation).copied(),
        start_us: since(c.start_ns, begin),
        duration_us: c.duration_ns as f64 / 1e3,
    };
    // Earlier calls were made by the recorder itself.
    all.iter().filter(|c| c.start_ns >= begin.ns).map(to_host_call).collect()
}

/// Returns the device time of each range on each stream, from the events at the start and the end of the range; ranges
/// with unreadable events are skipped.
pub(super) fn range_work(
    times: &EventTimes,
    snapshots: &[(usize, EventSnapshot, EventSnapshot)],
    ranges: &mut [RangeTime],
) -> Vec<DeviceWork> {
    let mut all = Vec::new();
    // Streams are numbered by first use, so that readers can tell them apart.
    let mut streams: Vec<u64> = Vec::new();
    for (place, begin, end) in snapshots {
        let Some(range) = ranges.get_mut(*place) else { continue };
        for time in times.between(begin, end).unwrap_or_default() {
            let known = streams.iter().position(|s| *s == time.stream);
            let stream = known.unwrap_or_else(|| {
                streams.push(time.stream);
                streams.len() - 1
            });
            range.launches += time.queued;
            all.push(DeviceWork {
                name: range.name.clone(),
                kind: ActivityKind::Range,
                stream: stream as u32,
                correlation: 0,
                graph: None,
                range: Some(*place),
                operation: String::new(),
                start_us: time.start_us,
                duration_us: time.duration_us,
            });
        }
    }
    all.sort_by(|a, b| a.start_us.total_cmp(&b.start_us));
    all
}

/// Returns the memory changes on the cycle's clock, each with its range; changes before the cycle are skipped.
pub(super) fn memory_changes(points: &[MemoryPoint], begin: Instant, ranges: &mut [RangeTime]) -> Vec<MemoryChange> {
    let mut all = Vec::new();
    for point in points {
        let at_us = point.at.saturating_duration_since(begin).as_secs_f64() * 1e6;
        let holds = |r: &RangeTime| r.start_us <= at_us && at_us <= r.start_us + r.duration_us;
        // The innermost of nested ranges is the one that began last.
        let range = ranges.iter().rposition(holds).filter(|_| point.change != 0);
        if point.change > 0 && !point.of_pool {
            let mut at = range;
            while let Some(place) = at {
                ranges[place].allocated_bytes += point.change as u64;
                at = ranges[place].parent;
            }
        }
        all.push(MemoryChange { at_us, point: *point, range });
    }
    all
}

/// Returns the time in microseconds during which the device was busy; overlapping work counts once. The work must be
/// sorted by start.
fn union_us<'w>(work: impl Iterator<Item = &'w DeviceWork>) -> f64 {
    let (mut busy, mut until) = (0.0, 0.0_f64);
    for work in work {
        let end = work.start_us + work.duration_us;
        busy += (end - work.start_us.max(until)).max(0.0);
        until = until.max(end);
    }
    busy
}

impl Cycle {
    /// Adds the ranges' total device times and launches.
    pub(super) fn with_sums(mut self) -> Self {
        for work in self.work.iter().filter(|w| !w.is_range()) {
            let mut at = work.range.filter(|r| *r < self.ranges.len());
            while let Some(place) = at {
                let range = &mut self.ranges[place];
                range.device_us += work.duration_us;
                range.launches += 1;
                at = range.parent;
            }
        }
        // A range's events also enclose its nested ranges, and streams run at the same time.
        if self.work.iter().any(DeviceWork::is_range) {
            for (place, range) in self.ranges.iter_mut().enumerate() {
                range.device_us = union_us(self.work.iter().filter(|w| w.range == Some(place)));
            }
        }
        self
    }

    /// Returns the name of a range with counters.
    pub fn counted_name(&self, counted: &RangeCounters) -> &str {
        match counted.range {
            Some(range) => self.ranges.get(range).map_or("", |r| &r.name),
            None => "a step",
        }
    }

    /// Returns true if ranges were timed with events.
    pub(crate) fn is_of_events(&self) -> bool {
        self.work.iter().any(DeviceWork::is_range)
    }

    /// Returns the work without double counting: all device work by innermost range or, if times come from events, only
    /// the ranges without nested ranges.
    pub(crate) fn counted_work(&self) -> impl Iterator<Item = &DeviceWork> {
        let timed = |place: usize| self.work.iter().any(|w| w.range == Some(place));
        let has_parts = move |place| self.ranges.iter().enumerate().any(|(i, r)| r.parent == Some(place) && timed(i));
        self.work.iter().filter(move |w| !w.is_range() || !w.range.is_some_and(has_parts))
    }

    /// Returns the cost of recording in a sentence; `None` if it was not measured.
    pub(crate) fn overhead_in_words(&self) -> Option<String> {
        let overhead = self.overhead?;
        let [with, without] = [overhead.recorded_us, overhead.unrecorded_us].map(warpbook_charts::words::time);
        let steps = warpbook_charts::words::counted(overhead.unrecorded_steps as usize, "step");
        let found = match overhead.ratio() {
            Some(ratio) => format!("{} as long", warpbook_charts::words::times(ratio)),
            None => {
                format!(
                    "not measurable, since steps of the same kind differ by {}",
                    warpbook_charts::words::time(overhead.noise_us)
                )
            }
        };
        let attached = match overhead.attached_before {
            true => {
                "; CUPTI was attached to the process during some of these, which makes launches slightly slower also without recording"
            }
            false => "",
        };
        Some(format!(
            "a recorded step took {with}, and one that nothing recorded {without}, the median of {steps}: {found}{attached}."
        ))
    }

    /// Returns the device's total time in microseconds.
    #[must_use]
    pub fn device_us(&self) -> f64 {
        match self.is_of_events() {
            true => self.busy_us(),
            false => self.work.iter().map(|w| w.duration_us).sum(),
        }
    }

    /// Returns the time in microseconds during which the device was busy in the cycle; overlapping work counts once.
    #[must_use]
    pub fn busy_us(&self) -> f64 {
        union_us(self.work.iter())
    }
}
