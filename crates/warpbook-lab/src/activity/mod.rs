//! GPU activity during a run of a rung: a breakdown by operation, and spans.
//!
//! Several runs are recorded one after the other, as they are when timed. One more run, made one operation at a time,
//! shows which operation each kernel belongs to; its activities have the same order.

mod busy;
mod labels;
mod runs;

use std::collections::HashMap;
use warpbook_device::{Activity, Recorder};
use warpbook_nn::train::{StepOperation, TrainError};
use warpbook_record::{Breakdown, Dtype, OperationTime, Problem, Profiled, Span, stats};

/// Nanoseconds by which the times of two successive activities may overlap.
const CLOCK_NS: u64 = 200;

/// An operation of a run, with its work and the device's activities.
#[derive(Debug, Clone, Default)]
pub struct Operation {
    /// Name of the operation, such as "conv1 weight gradient".
    pub name: String,
    /// Number of floating-point operations.
    pub flops: u64,
    /// Minimum number of bytes to read and write.
    pub bytes: u64,
    /// Number of bytes written, which `bytes` includes.
    pub written_bytes: u64,
    /// Activities of the device for this operation.
    pub activities: Vec<Activity>,
}

/// Runs a step one operation at a time. Returns the operations with their activities, and the number of lost records.
/// All earlier work on the device must have finished.
///
/// # Errors
/// If CUPTI fails, or the step does.
pub fn by_operation(
    recorder: &Recorder,
    step: impl FnOnce(&mut dyn FnMut(&StepOperation) -> Result<(), TrainError>) -> Result<(), TrainError>,
) -> Result<(Vec<Operation>, u64), TrainError> {
    recorder.take()?;
    let (mut operations, mut lost) = (Vec::new(), 0);
    step(&mut |o| {
        let taken = recorder.take()?;
        lost += taken.lost;
        let (name, activities) = (o.name.clone(), taken.activities);
        let (flops, bytes, written_bytes) = (o.flops, o.bytes, o.written_bytes);
        operations.push(Operation { name, flops, bytes, written_bytes, activities });
        Ok(())
    })?;
    Ok((operations, lost))
}

/// Returns for each activity of `all` its index among the operations' activities, and the index of its operation. `all`
/// may contain other activities before and after the run. Returns `None` if the run is incomplete.
pub fn run_among(operations: &[Operation], all: &[&Activity]) -> Option<Vec<Option<(usize, usize)>>> {
    let known = labels::queued(operations);
    let found = labels::among(&known, all)?;
    Some(found.into_iter().map(|place| place.map(|k| (k, known[k].0))).collect())
}

/// The recorded GPU activities of a rung.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// Operations of a run, in queue order.
    pub operations: Vec<Operation>,
    /// Number of recorded runs.
    pub runs: usize,
    /// Activities of the device in all these runs.
    pub activities: Vec<Activity>,
    /// Name of the recorder, such as "CUPTI 130001".
    pub source: String,
    /// Data type of the arithmetic, if it differs from the type of the problem.
    pub dtype: Option<Dtype>,
}

/// GPU activity in the form of a record.
#[derive(Debug, Clone, Default)]
pub struct Timelines {
    /// Breakdowns, one for each recorded rung and problem.
    pub breakdowns: Vec<Breakdown>,
    /// Spans of one run for each breakdown.
    pub spans: Vec<Span>,
    /// Memory, clocks and power over time.
    pub profiled: Vec<Profiled>,
    /// Reasons why recordings are missing.
    pub notes: Vec<String>,
}

impl Timelines {
    /// Adds the contents of another recording.
    pub fn extend(&mut self, other: Self) {
        self.breakdowns.extend(other.breakdowns);
        self.spans.extend(other.spans);
        self.profiled.extend(other.profiled);
        self.notes.extend(other.notes);
    }
}

impl Recording {
    /// Returns the breakdown of a rung's time for a problem, and the spans of the run with the median length.
    ///
    /// # Errors
    /// Returns an error, as a sentence, if the runs differ so much that none of them can represent the others.
    pub fn taken_apart(&self, rung: &str, problem: &Problem) -> Result<(Breakdown, Vec<Span>), String> {
        let runs = runs::split(&self.activities, self.runs)?;
        let of_operation = labels::operations(&self.operations, &runs[0]);
        let whole_us: Vec<f64> = runs.iter().map(|r| us(busy::extent(r).1 - busy::extent(r).0)).collect();
        let between = |w: &[Vec<&Activity>]| busy::extent(&w[1]).0 as f64 / 1e3 - busy::extent(&w[0]).1 as f64 / 1e3;
        let median = stats::median(&whole_us).unwrap_or(0.0);
        let distance = |i: &usize| (whole_us[*i] - median).abs();
        let shown = (0..runs.len()).min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(0);
        let breakdown = Breakdown {
            rung: rung.to_owned(),
            problem: problem.clone(),
            source: self.source.clone(),
            busy_us: runs.iter().map(|r| us(busy::busy_ns(r))).collect(),
            between_us: runs.windows(2).map(between).map(rounded).collect(),
            operations: self.operation_times(&runs, &of_operation),
            whole_us,
        };
        Ok((breakdown, self.spans(&runs[shown], &of_operation, rung, problem)))
    }

    /// Returns the times of each operation in all runs. An activity without an operation counts under the name of its
    /// kernel.
    fn operation_times(&self, runs: &[Vec<&Activity>], of_operation: &[Option<usize>]) -> Vec<OperationTime> {
        let mut places: Vec<(Option<usize>, &str, Vec<usize>)> = Vec::new();
        for (place, (activity, operation)) in runs[0].iter().zip(of_operation).enumerate() {
            let name = operation.map_or(activity.name.as_str(), |o| self.operations[o].name.as_str());
            match places.iter_mut().find(|(o, n, _)| (*o, *n) == (*operation, name)) {
                Some((.., all)) => all.push(place),
                None => places.push((*operation, name, vec![place])),
            }
        }
        places.sort_by_key(|(o, _, all)| (o.unwrap_or(usize::MAX), all[0]));
        let time = |(operation, name, all): (Option<usize>, &str, Vec<usize>)| {
            let mut kernels: Vec<String> = Vec::new();
            for place in &all {
                let kernel = &runs[0][*place].name;
                if !kernels.contains(kernel) {
                    kernels.push(kernel.clone());
                }
            }
            let sum = |run: &Vec<&Activity>| us(all.iter().map(|place| run[*place].duration_ns).sum());
            let work = operation.map(|o| &self.operations[o]);
            OperationTime {
                name: name.to_owned(),
                kernels,
                launches: all.len() as u64,
                samples_us: runs.iter().map(sum).collect(),
                alone_us: Vec::new(),
                flops: work.map_or(0, |w| w.flops),
                bytes: work.map_or(0, |w| w.bytes),
                written_bytes: work.map_or(0, |w| w.written_bytes),
                dtype: self.dtype.filter(|_| work.is_some_and(|w| w.flops > 0)),
            }
        };
        places.into_iter().map(time).collect()
    }

    /// Returns the spans of a run, starting at its first activity. Streams are numbered by first use. If activities of
    /// a stream overlap, as in branches of a graph, the additional ones are on "0.1" and so on.
    fn spans(&self, run: &[&Activity], of_operation: &[Option<usize>], rung: &str, problem: &Problem) -> Vec<Span> {
        let (zero, _) = busy::extent(run);
        let mut streams: HashMap<u32, (usize, Vec<u64>)> = HashMap::new();
        let mut started: Vec<(&&Activity, &Option<usize>)> = run.iter().zip(of_operation).collect();
        started.sort_by_key(|(activity, _)| activity.start_ns);
        let span = |(activity, operation): (&&Activity, &Option<usize>)| {
            let next = streams.len();
            let (number, lanes) = streams.entry(activity.stream).or_insert((next, Vec::new()));
            let free = lanes.iter().position(|end| *end <= activity.start_ns + CLOCK_NS).unwrap_or(lanes.len());
            lanes.resize(lanes.len().max(free + 1), 0);
            lanes[free] = activity.end_ns();
            Span {
                rung: rung.to_owned(),
                problem: problem.clone(),
                name: activity.name.clone(),
                operation: operation.map_or_else(String::new, |o| self.operations[o].name.clone()),
                stream: if free == 0 { number.to_string() } else { format!("{number}.{free}") },
                start_us: us(activity.start_ns - zero),
                duration_us: us(activity.duration_ns),
                bytes: activity.kind.bytes(),
                correlation: None,
            }
        };
        started.into_iter().map(span).collect()
    }
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// Rounds to a nanosecond, the resolution of the recorder's times.
pub fn rounded(us: f64) -> f64 {
    (us * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests;
