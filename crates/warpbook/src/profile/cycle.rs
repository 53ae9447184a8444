//! Some steps of a program: what the host and the device did in them.

use super::Work;
use std::collections::BTreeMap;
use warpbook_device::{Activity, ActivityKind, Call};

/// A step, by the host's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepTime {
    /// Counted from 0, those that were not recorded too.
    pub number: u64,
    /// From the cycle's start.
    pub start_us: f64,
    /// Until the program ended it; the device may not have been done with it.
    pub duration_us: f64,
}

/// A range of the program, once.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeTime {
    /// Its name.
    pub name: String,
    /// The range around it, by its place.
    pub parent: Option<usize>,
    /// How many are around it.
    pub depth: usize,
    /// The step that it began in.
    pub step: u64,
    /// From the cycle's start, by the host's clock.
    pub start_us: f64,
    /// By the host's clock: the device may do its work later.
    pub duration_us: f64,
    /// What it was said to work on.
    pub work: Work,
    /// The sum of what the device did for it and for the ranges in it.
    pub device_us: f64,
    /// How many kernels, copies and fills that is.
    pub launches: u64,
}

/// A kernel, a copy or a fill.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceWork {
    /// A kernel's name, or as "copy to the device".
    pub name: String,
    /// What it is; a copy's bytes, a kernel's launch.
    pub kind: ActivityKind,
    /// CUPTI's number.
    pub stream: u32,
    /// That of the call that led to it.
    pub correlation: u32,
    /// The innermost range in which the host asked for it, by its place.
    pub range: Option<usize>,
    /// From the cycle's start.
    pub start_us: f64,
    /// How long it took.
    pub duration_us: f64,
}

/// A call of the driver.
#[derive(Debug, Clone, PartialEq)]
pub struct HostCall {
    /// The function.
    pub name: String,
    /// The thread, by the system's number.
    pub thread: u32,
    /// That of the device's work that it led to.
    pub correlation: u32,
    /// The innermost range that it was made in, by its place.
    pub range: Option<usize>,
    /// From the cycle's start.
    pub start_us: f64,
    /// How long it took the host.
    pub duration_us: f64,
}

/// What was recorded of some steps; times are in microseconds.
#[derive(Debug, Clone)]
pub struct Cycle {
    /// Counted from 0.
    pub number: usize,
    /// The number of its first step.
    pub first_step: u64,
    /// What recorded it, as "CUPTI 130001", or what there was instead, and why.
    pub source: String,
    /// Whether there is a device other than the host.
    pub has_device: bool,
    /// Bytes that the lab's arrays held on the device at its end.
    pub allocated_bytes: Option<u64>,
    /// Records that CUPTI had no room for.
    pub lost: u64,
    /// From its start until the device was done.
    pub whole_us: f64,
    /// One by one.
    pub steps: Vec<StepTime>,
    /// In the order in which they began.
    pub ranges: Vec<RangeTime>,
    /// In the order in which it began.
    pub work: Vec<DeviceWork>,
    /// In the order in which they were made.
    pub calls: Vec<HostCall>,
}

/// From the cycle's start; what began before it, as the clocks are not exactly one, begins with it.
fn since(start_ns: u64, begin_ns: u64) -> f64 {
    start_ns.saturating_sub(begin_ns) as f64 / 1e3
}

pub(super) fn device_work(all: &[Activity], ranges: &BTreeMap<u32, usize>, begin_ns: u64) -> Vec<DeviceWork> {
    let of = |a: &Activity| DeviceWork {
        name: a.name.clone(),
        kind: a.kind.clone(),
        stream: a.stream,
        correlation: a.correlation,
        range: ranges.get(&a.correlation).copied(),
        start_us: since(a.start_ns, begin_ns),
        duration_us: a.duration_ns as f64 / 1e3,
    };
    all.iter().map(of).collect()
}

pub(super) fn host_calls(all: &[Call], ranges: &BTreeMap<u32, usize>, begin_ns: u64) -> Vec<HostCall> {
    let of = |c: &Call| HostCall {
        name: c.name.clone(),
        thread: c.thread,
        correlation: c.correlation,
        range: ranges.get(&c.correlation).copied(),
        start_us: since(c.start_ns, begin_ns),
        duration_us: c.duration_ns as f64 / 1e3,
    };
    // Those from before are the recorder's own.
    all.iter().filter(|c| c.start_ns >= begin_ns).map(of).collect()
}

impl Cycle {
    /// With what the device did summed up over ranges.
    pub(super) fn with_sums(mut self) -> Self {
        for work in &self.work {
            let mut at = work.range.filter(|r| *r < self.ranges.len());
            while let Some(place) = at {
                let range = &mut self.ranges[place];
                range.device_us += work.duration_us;
                range.launches += 1;
                at = range.parent;
            }
        }
        self
    }

    /// The sum of what the device did.
    #[must_use]
    pub fn device_us(&self) -> f64 {
        self.work.iter().map(|w| w.duration_us).sum()
    }

    /// The part of the cycle in which the device did something; what overlaps counts once.
    #[must_use]
    pub fn busy_us(&self) -> f64 {
        let (mut busy, mut until) = (0.0, 0.0_f64);
        for work in &self.work {
            let end = work.start_us + work.duration_us;
            busy += (end - work.start_us.max(until)).max(0.0);
            until = until.max(end);
        }
        busy
    }
}
