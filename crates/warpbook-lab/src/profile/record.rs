//! Converts a profile to a record, whose timeline and breakdown the page shows.

use super::{Cycle, Profile};
use crate::{Lab, driver};
use warpbook_device::MemoryPoint;
use warpbook_record::{
    Breakdown, ChartKind, Column, Descriptor, DeviceKind, Dtype, Measurement, MemoryAt, OperationTime, Outcome, Peaks,
    Problem, Profiled, Quantity, Requires, Run, Rung, Runner, Span, count,
};

/// The only rung of a profile's record.
pub(super) const RUNG: &str = "program";

impl Profile {
    /// Returns the profile as a record. It has one problem for each cycle, with the steps' times on the host's clock,
    /// the timeline, the device's work by range, the memory over time and the cost of recording. Nothing is checked, so
    /// none of the times counts as a result. If ranges have work or counters, the device's ceilings are measured first,
    /// unless they are known.
    #[must_use]
    pub fn record(&self, lab: &Lab) -> Run {
        let on_gpu = lab.device().info().kind == DeviceKind::Cuda;
        let problems: Vec<Problem> = self.cycles.iter().map(Cycle::problem).collect();
        let spans = |make: fn(&Cycle, &Problem) -> Vec<Span>| {
            self.cycles.iter().zip(&problems).flat_map(|(c, p)| make(c, p)).collect::<Vec<Span>>()
        };
        let measurement = |(cycle, problem): (&Cycle, &Problem)| Measurement {
            samples_us: cycle.steps.iter().map(|s| s.duration_us).collect(),
            samples_total: cycle.steps.len() as u64,
            ..Measurement::without_samples(RUNG, problem.clone(), Outcome::Measured)
        };
        let mut notes: Vec<String> = self.cycles.iter().map(|c| format!("Recorded by {}.", c.source)).collect();
        notes.dedup();
        notes.push("The steps were timed while they were recorded, which costs the host extra time.".into());
        notes
            .extend(self.cycles.iter().filter_map(|c| Some(format!("Cycle {}: {}", c.number, c.overhead_in_words()?))));
        notes.extend(self.cycles.iter().flat_map(|c| c.notes.iter().cloned()));
        let mut charts = vec![ChartKind::Ladder, ChartKind::Timeline, ChartKind::Breakdown];
        let has_work = |c: &Cycle| c.ranges.iter().any(|r| r.work != super::Work::default());
        let mut peaks = Peaks::default();
        if self.cycles.iter().any(|c| has_work(c) || c.operations.is_some() || !c.counters.is_empty()) {
            charts.insert(1, ChartKind::Roofline);
            match lab.peaks() {
                Ok(measured) => peaks = measured,
                Err(why) => notes.push(format!("The ceilings could not be measured: {why}")),
            }
        }
        let policy = lab.bench().policy(on_gpu, "those of the program".into());
        Run {
            peaks,
            descriptor: Descriptor {
                quantities: vec![Quantity::Time],
                columns: vec![Column::Median, Column::Mad],
                charts,
                ..Descriptor::default()
            },
            main_problem: problems.first().map(|p| p.id.clone()),
            measurements: self.cycles.iter().zip(&problems).map(measurement).collect(),
            spans: spans(Cycle::spans),
            breakdowns: self.cycles.iter().zip(&problems).filter_map(|(c, p)| c.breakdown(p)).collect(),
            profiled: self.cycles.iter().zip(&problems).map(|(c, p)| c.profiled(p)).collect(),
            problems,
            rungs: vec![Rung {
                id: RUNG.into(),
                title: "The program".into(),
                idea: "As it is written.".into(),
                requires: Requires::Nothing,
                runner: Runner::External("a program".into()),
                variant_of: None,
            }],
            notes,
            ..driver::begun(lab, "profile", "Profile", policy)
        }
    }
}

impl Cycle {
    pub(crate) fn problem(&self) -> Problem {
        let (cycle, steps) = (self.number as u64, self.steps.len() as u64);
        // The name of the outermost range, if all outermost ranges share it.
        let mut outer = self.ranges.iter().filter(|r| r.parent.is_none()).map(|r| &r.name);
        let only = outer.next().filter(|first| outer.all(|other| other == *first));
        let prefix = only.map(|name| format!("{name}, ")).unwrap_or_default();
        let label = format!("{prefix}cycle {cycle}, from step {} on", self.first_step);
        Problem::new(
            label,
            format!("cycle {cycle}"),
            vec![count("cycle", cycle, ""), count("steps", steps, "")],
            Dtype::F32,
        )
    }

    /// Returns the innermost ranges on the host, and the work on the device's streams, which are numbered by first use.
    pub fn spans(&self, problem: &Problem) -> Vec<Span> {
        let span = |name: &str, operation: &str, stream: String, (start_us, duration_us): (f64, f64)| Span {
            rung: RUNG.into(),
            problem: problem.clone(),
            name: name.to_owned(),
            operation: operation.to_owned(),
            stream,
            start_us,
            duration_us,
            bytes: None,
            correlation: None,
        };
        let has_parts = |place: usize| self.ranges.iter().any(|r| r.parent == Some(place));
        let leaves = self.ranges.iter().enumerate().filter(|(place, _)| !has_parts(*place));
        let mut all: Vec<Span> =
            leaves.map(|(_, r)| span(&r.name, &r.name, "host".into(), (r.start_us, r.duration_us))).collect();
        let mut streams: Vec<u32> = Vec::new();
        for work in self.counted_work() {
            let number = streams.iter().position(|s| *s == work.stream).unwrap_or_else(|| {
                streams.push(work.stream);
                streams.len() - 1
            });
            let range = work.range.and_then(|r| self.ranges.get(r)).map_or("", |r| &r.name);
            let operation = if work.operation.is_empty() { range } else { &work.operation };
            all.push(Span {
                bytes: work.kind.bytes(),
                correlation: Some(work.correlation).filter(|c| *c != 0),
                ..span(&work.name, operation, number.to_string(), (work.start_us, work.duration_us))
            });
        }
        all
    }

    /// Returns the memory over time and the cost of recording.
    pub(crate) fn profiled(&self, problem: &Problem) -> Profiled {
        Profiled {
            memory: self.memory.iter().map(|change| memory_at(change.at_us, &change.point)).collect(),
            overhead: self.overhead,
            counters: self.counters.iter().flat_map(|c| c.counters.kernels.iter().cloned()).collect(),
            ..Profiled::new(RUNG, problem.clone(), self.source.clone())
        }
    }

    /// Returns the times of the innermost ranges on the host, if the host is the device; `None` if there are no ranges.
    fn breakdown_of_host(&self, problem: &Problem) -> Option<Breakdown> {
        if self.has_device {
            return None;
        }
        let has_parts = |place: usize| self.ranges.iter().any(|r| r.parent == Some(place));
        let leaves = self.ranges.iter().enumerate().filter(|(place, _)| !has_parts(*place));
        let mut operations: Vec<OperationTime> = Vec::new();
        for (_, range) in leaves {
            let operation = named(&mut operations, &range.name);
            operation.launches += 1;
            operation.samples_us[0] += range.duration_us;
            operation.flops += range.work.flops;
            operation.bytes += range.work.bytes;
        }
        let busy_us = operations.iter().map(|o| o.samples_us[0]).sum();
        (!operations.is_empty()).then(|| self.breakdown_of(operations, problem, [self.whole_us, busy_us]))
    }

    /// Returns the device's activity by operation of a training step, or else by innermost range. Work outside of
    /// operations and ranges is a separate entry. Returns `None` if the device was not recorded.
    fn breakdown(&self, problem: &Problem) -> Option<Breakdown> {
        if let Some(apart) = &self.operations {
            return Some(apart.clone());
        }
        if self.work.is_empty() {
            return self.breakdown_of_host(problem);
        }
        let (first, last) =
            (self.work.first()?, self.work.iter().map(|w| w.start_us + w.duration_us).fold(0.0, f64::max));
        let mut operations: Vec<OperationTime> = Vec::new();
        for work in self.counted_work() {
            let range = work.range.and_then(|r| self.ranges.get(r));
            let name = range.map_or(&work.name, |r| &r.name);
            let operation = named(&mut operations, name);
            if operation.launches == 0 {
                for r in self.ranges.iter().filter(|r| range.is_some() && r.name == *name) {
                    operation.flops += r.work.flops;
                    operation.bytes += r.work.bytes;
                }
            }
            operation.launches += 1;
            operation.samples_us[0] += work.duration_us;
            if !operation.kernels.contains(&work.name) {
                operation.kernels.push(work.name.clone());
            }
        }
        Some(self.breakdown_of(operations, problem, [last - first.start_us, self.busy_us()]))
    }

    /// Returns the breakdown of the recorded steps into these operations.
    fn breakdown_of(
        &self,
        operations: Vec<OperationTime>,
        problem: &Problem,
        [whole_us, busy_us]: [f64; 2],
    ) -> Breakdown {
        Breakdown {
            rung: RUNG.into(),
            problem: problem.clone(),
            source: self.source.clone(),
            whole_us: vec![whole_us],
            busy_us: vec![busy_us],
            between_us: Vec::new(),
            operations,
        }
    }
}

/// Converts a memory change at `at_us` microseconds after the start.
pub fn memory_at(at_us: f64, point: &MemoryPoint) -> MemoryAt {
    MemoryAt {
        at_us,
        allocated_bytes: point.allocated,
        pool_allocated_bytes: point.pool_allocated,
        pool_reserved_bytes: point.pool_reserved,
    }
}

/// Returns the operation with this name. If there is none, adds one without work and time.
fn named<'o>(operations: &'o mut Vec<OperationTime>, name: &str) -> &'o mut OperationTime {
    let place = operations.iter().position(|o| o.name == name).unwrap_or_else(|| {
        operations.push(OperationTime {
            name: name.to_owned(),
            kernels: Vec::new(),
            launches: 0,
            samples_us: vec![0.0],
            alone_us: Vec::new(),
            flops: 0,
            bytes: 0,
            written_bytes: 0,
            dtype: None,
        });
        operations.len() - 1
    });
    &mut operations[place]
}
