//! A profiler that records the work of host and device in some steps of a learner's own loop.
//!
//! Most steps of a loop are not recorded: the profiler waits, warms up and then records some steps, which form a
//! [`Cycle`], and repeats this as often as requested. CUPTI's activity records tell what the device did, and in which
//! range of the program it was requested. Without CUPTI, the times come from events at the ends of each range.
//!
//! ```no_run
//! use warpbook_lab::{Lab, write_record};
//!
//! let lab = Lab::new()?;
//! let device = lab.device().cuda().expect("a GPU");
//! let (stream, y) = (device.stream()?, device.zeros::<f32>(1 << 20)?.range(..));
//! let profile = lab.profiler().schedule(1, 1, 2).repeat(1).on_cycle(|c| println!("{}", c.text())).run(|p| {
//!     for _ in 0..4 {
//!         p.range("clear", |_| stream.fill(&y, 0))?;
//!         p.step()?;
//!     }
//!     Ok(())
//! })?;
//! profile.save_trace("steps.trace.json")?; // opens in ui.perfetto.dev
//! write_record(&profile.record(&lab), "steps.json")?; // the page draws its timeline
//! # Ok::<(), warpbook_lab::Error>(())
//! ```
//!
//! The outputs are:
//!
//! - [`Cycle::table`] lists the ranges with the most device time, with FLOP/s and bandwidth if [`Profiler::range_of`] was given the work;
//!   [`Cycle::kernels`] lists the kernels, copies and fills; [`Cycle::memory`] is the memory that arrays occupy over time. In the record, ranges with known
//!   work are points of a roofline.
//! - [`Cycle::overhead`] is the cost of recording: steps before and after a cycle are timed without recording.
//! - [`Lab::counters`] reads hardware counters of each kernel of a repeatable part: bytes of DRAM and L2, sectors per request, bank conflicts, stall
//!   reasons, operations of the tensor cores. [`Profiler::counters`] does the same for a range of a profile.
//! - Spans of the `tracing` crate on the program's own thread also become ranges; a training on the CPU has a few for each operation.
//! - Nsight Systems also shows ranges: `nsys profile --trace=cuda,nvtx -o report program`. A process can have only one profiler; times then come from events.

mod count;
mod counters;
mod cycle;
mod operations;
mod record;
mod rungs;
mod spans;
mod tables;
mod trace;

pub use counters::{HardwareCounters, METRICS};
pub use cycle::{Cycle, DeviceWork, HostCall, MemoryChange, RangeCounters, RangeTime, StepTime};
pub use record::memory_at;
pub use tables::NOTHING;

use crate::{Lab, Result};
use cycle::Joint;
use spans::Spans;
use std::{collections::BTreeMap, sync::Arc, time::Instant};
use warpbook_device::{CudaDevice, EventSnapshot, EventTimes, MemoryWatch, Nvtx, Recorded, Recorder};
use warpbook_record::{ProfilerOverhead, stats};

/// The work of a range, from which tables compute rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Number of floating-point operations.
    pub flops: u64,
    /// Minimum bytes to read and write.
    pub bytes: u64,
}

/// The schedule of recorded steps: the first `wait` steps are not recorded, the next `warm_up` steps run with the recorder active, since its first calls are
/// slow, and the next `active` steps are recorded and kept. Then the schedule repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Steps {
    wait: u64,
    warm_up: u64,
    /// Number of recorded steps; `None` for all of them.
    active: Option<u64>,
    /// Number of cycles; 0 for no limit.
    repeat: usize,
}

/// The profiler's state during a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    WarmUp,
    Active,
}

impl Steps {
    fn phase(&self, step: u64) -> Phase {
        let Some(active) = self.active else { return Phase::Active };
        let cycle = self.wait + self.warm_up + active;
        if self.repeat > 0 && step / cycle >= self.repeat as u64 {
            return Phase::Idle;
        }
        match step % cycle {
            n if n < self.wait => Phase::Idle,
            n if n < self.wait + self.warm_up => Phase::WarmUp,
            _ => Phase::Active,
        }
    }

    /// Returns true if a cycle ends with this step.
    fn ends(&self, step: u64) -> bool {
        let last = |active| step % (self.wait + self.warm_up + active) == self.wait + self.warm_up + active - 1;
        self.phase(step) == Phase::Active && self.active.is_some_and(last)
    }
}

impl Lab {
    /// Records a whole program: each part that runs in a [`Profiler::range`], and the work of the device for it.
    ///
    /// Graphs should be captured inside the program, so that the recorder sees their nodes.
    ///
    /// # Errors
    /// If the program fails, or the device reports an error.
    pub fn profile(&self, program: impl FnOnce(&mut Profiler<'_>) -> Result<()>) -> Result<Profile> {
        self.profiler().run(program)
    }

    /// Returns the options of a profiler that follows a schedule of steps.
    #[must_use]
    pub fn profiler(&self) -> ProfilerOptions<'_> {
        let steps = Steps { wait: 0, warm_up: 0, active: None, repeat: 0 };
        ProfilerOptions { lab: self, steps, on_cycle: None, alike: true }
    }
}

type Handler<'a> = Box<dyn FnMut(&Cycle) + 'a>;

/// The options of a profile; see [`Lab::profiler`].
pub struct ProfilerOptions<'a> {
    lab: &'a Lab,
    steps: Steps,
    on_cycle: Option<Handler<'a>>,
    alike: bool,
}

impl<'a> ProfilerOptions<'a> {
    /// Sets the schedule for the steps that [`Profiler::step`] ends: `wait` steps are not recorded, `warm_up` steps are recorded and discarded, since the
    /// recorder's first calls are slow, and `active` steps (at least one) are kept. Then the schedule repeats. A common choice is 1, 1 and 2.
    #[must_use]
    pub fn schedule(mut self, wait: u64, warm_up: u64, active: u64) -> Self {
        self.steps = Steps { wait, warm_up, active: Some(active.max(1)), ..self.steps };
        self
    }

    /// Sets the number of cycles of a [`ProfilerOptions::schedule`], after which recording stops; 0, the default, means no limit.
    #[must_use]
    pub fn repeat(mut self, cycles: usize) -> Self {
        self.steps.repeat = cycles;
        self
    }

    /// Declares that each cycle runs a different kind of step. Its steps are compared only with the unrecorded steps right before the cycle, except the first
    /// of these.
    pub fn cycles_differ(mut self) -> Self {
        self.alike = false;
        self
    }

    /// Calls `handler` with each cycle when it ends. The cost of recording is based on the steps so far.
    #[must_use]
    pub fn on_cycle(mut self, handler: impl FnMut(&Cycle) + 'a) -> Self {
        self.on_cycle = Some(Box::new(handler));
        self
    }

    /// Runs the program.
    ///
    /// # Errors
    /// If the program fails, or the device reports an error. Earlier recordings are then lost, except for cycles that the handler received.
    pub fn run(self, program: impl FnOnce(&mut Profiler<'_>) -> Result<()>) -> Result<Profile> {
        let device = self.lab.device().cuda();
        let mut profiler = Profiler {
            steps: self.steps,
            device,
            recorder: None,
            source: String::new(),
            handler: self.on_cycle,
            step: 0,
            recording: None,
            cycles: Vec::new(),
            began: Instant::now(),
            alike: self.alike,
            spans: Arc::default(),
            idle: None,
            idle_steps: 0,
            unrecorded: Vec::new(),
            attached_before: false,
        };
        profiler.enter()?;
        let spans = profiler.spans.clone();
        spans::heard_by(&spans, || program(&mut profiler))?;
        // With a schedule, the last step may still be running; without one, the whole program is one step.
        if self.steps.active.is_none() {
            profiler.end_step();
        }
        profiler.finish()?;
        profiler.compare_all();
        Ok(Profile { device: self.lab.device().info().name.clone(), cycles: profiler.cycles })
    }
}

/// The profiler to which a program reports its progress; see [`Lab::profile`].
pub struct Profiler<'a> {
    steps: Steps,
    device: Option<&'a CudaDevice>,
    recorder: Option<Recorder>,
    /// Name of the recorder, or the reason why parts are missing.
    source: String,
    handler: Option<Handler<'a>>,
    step: u64,
    recording: Option<CycleRecording>,
    cycles: Vec<Cycle>,
    began: Instant,
    spans: Arc<Spans>,
    /// True if all cycles have the same kind of step.
    alike: bool,
    idle: Option<Idle>,
    /// Number of unrecorded steps in the current wait.
    idle_steps: u64,
    unrecorded: Vec<Unrecorded>,
    /// True if CUPTI was attached during any of these steps.
    attached_before: bool,
}

/// Maximum number of batches of unrecorded steps that are timed in one wait, since each batch ends by waiting for the device.
const MOST_UNRECORDED: usize = 8;

/// Unrecorded steps that are being timed together.
struct Idle {
    begin: Instant,
    /// Number of finished steps.
    steps: u64,
}

/// A batch of steps timed without recording. It has as many steps as a cycle, so that device and host overlap as in a recorded cycle.
#[derive(Clone, Copy)]
struct Unrecorded {
    /// Mean time of a step in microseconds.
    us: f64,
    steps: u64,
}

/// The cycle being recorded.
struct CycleRecording {
    /// Start of the cycle, moved forward by the time for reading counters, which the cycle's clock excludes.
    begin: Instant,
    /// Time from the profiler's start to the cycle's start.
    began_us: f64,
    /// Relates the clock of the current recorder to the clock of the cycle.
    joint: Joint,
    /// Data from earlier recorders in this cycle.
    earlier: Earlier,
    step_begin: Instant,
    first_step: u64,
    steps: Vec<StepTime>,
    ranges: Vec<RangeTime>,
    /// Indices of the ranges that have not ended yet.
    open: Vec<usize>,
    memory: Option<MemoryWatch>,
    /// Times from events, if nothing else records the device: their clock, and the events of each range.
    times: Option<EventTimes>,
    events: Vec<(usize, EventSnapshot, EventSnapshot)>,
}

/// The part of a cycle's recording from before counters were read.
#[derive(Default)]
struct Earlier {
    work: Vec<DeviceWork>,
    calls: Vec<HostCall>,
    memory: Vec<MemoryChange>,
    lost: u64,
    counters: Vec<RangeCounters>,
    notes: Vec<String>,
}

impl CycleRecording {
    /// Saves a recorder's recording so far.
    fn keep(&mut self, recorded: &Recorded) {
        let of_correlation: BTreeMap<u32, usize> =
            recorded.ranges.iter().map(|(correlation, id)| (*correlation, *id as usize - 1)).collect();
        self.earlier.work.extend(cycle::device_work(&recorded.activities, &of_correlation, self.joint));
        self.earlier.calls.extend(cycle::host_calls(&recorded.calls, &of_correlation, self.joint));
        self.earlier.lost += recorded.lost;
    }

    /// Saves the allocations and frees so far.
    fn keep_memory(&mut self) {
        let points = self.memory.as_ref().map(MemoryWatch::take).unwrap_or_default();
        self.earlier.memory.extend(cycle::memory_changes(&points, self.begin, &mut self.ranges));
    }
}

impl Profiler<'_> {
    /// Ends a step of the loop; waits for the device at the end of a cycle.
    ///
    /// # Errors
    /// If the device reports an error.
    pub fn step(&mut self) -> Result<()> {
        self.end_step();
        self.end_idle_step()?;
        if self.steps.ends(self.step) {
            self.finish()?;
        }
        self.step += 1;
        self.enter()
    }

    /// Returns true if this step is recorded.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.recording.is_some()
    }

    /// Runs a part of the program as a named range, such as "forward"; ranges can be nested. In an unrecorded step a range costs almost nothing. Device work is
    /// attributed to the innermost range in which the host queued it, and to the enclosing ones, no matter when the device runs it.
    pub fn range<T>(&mut self, name: &str, part: impl FnOnce(&mut Self) -> T) -> T {
        self.range_of(name, Work::default(), part)
    }

    /// Runs a range with known work, so that tables can show its rates.
    pub fn range_of<T>(&mut self, name: &str, work: Work, part: impl FnOnce(&mut Self) -> T) -> T {
        let _heard = Nvtx::tool().map(|tool| tool.range(name));
        let Some(recording) = &mut self.recording else { return part(self) };
        let place = recording.ranges.len();
        let (parent, depth) = (recording.open.last().copied(), recording.open.len());
        recording.ranges.push(RangeTime {
            name: name.to_owned(),
            parent,
            depth,
            step: self.step,
            start_us: us(recording.begin.elapsed()),
            duration_us: 0.0,
            work,
            device_us: 0.0,
            launches: 0,
            allocated_bytes: 0,
        });
        recording.open.push(place);
        let cycle = self.cycles.len();
        let snapshot = |recording: &CycleRecording| recording.times.as_ref().and_then(|times| times.snapshot().ok());
        let begin = snapshot(recording);
        // Ids start at 1. A range that CUPTI rejects is timed only on the host.
        let pushed = self.recorder.as_ref().is_some_and(|r| r.enter(place as u64 + 1).is_ok());
        let done = part(self);
        if pushed && let Some(recorder) = &self.recorder {
            recorder.leave();
        }
        // If the part ended a step, the cycle or its entry for this range may no longer exist.
        if let Some(recording) = &mut self.recording
            && cycle == self.cycles.len()
            && recording.open.last() == Some(&place)
            && let Some(range) = recording.ranges.get_mut(place)
        {
            range.duration_us = us(recording.begin.elapsed()) - range.start_us;
            recording.open.pop();
            // If recording an event fails, the program's next call reports the error.
            if let (Some(begin), Some(end)) = (begin, snapshot(recording)) {
                recording.events.push((place, begin, end));
            }
        }
        done
    }

    /// Starts the next step in the phase that the schedule gives it.
    fn enter(&mut self) -> Result<()> {
        let phase = self.steps.phase(self.step);
        if phase == Phase::Idle {
            self.recorder = None;
            return self.idle();
        }
        self.end_idle()?;
        if self.recording.is_some() {
            return Ok(());
        }
        if let (None, Some(device)) = (&self.recorder, self.device) {
            match Recorder::with_calls(device) {
                Ok(recorder) => {
                    self.source = format!("CUPTI {}", recorder.version());
                    self.recorder = Some(recorder);
                }
                Err(why) => {
                    self.source =
                        format!("CUDA events at the ends of each range, as no kernels can be recorded: {why}");
                }
            }
        } else if self.device.is_none() {
            self.source = "the host's clock".into();
        }
        if phase == Phase::WarmUp {
            return Ok(());
        }
        if let Some(device) = self.device {
            device.synchronize()?;
        }
        // The recording of the warm-up is discarded.
        self.recorder.as_ref().map(Recorder::take).transpose()?;
        let times = self.device.filter(|_| self.recorder.is_none()).map(EventTimes::start).transpose()?;
        let memory = self.device.map(CudaDevice::watch_memory);
        let begin_ns = self.recorder.as_ref().map_or(Ok(0), Recorder::now_ns)?;
        drop(self.spans.take());
        self.spans.record(true);
        let now = Instant::now();
        self.recording = Some(CycleRecording {
            begin: now,
            began_us: us(now - self.began),
            joint: Joint { ns: begin_ns, us: 0.0 },
            earlier: Earlier::default(),
            step_begin: now,
            first_step: self.step,
            steps: Vec::new(),
            ranges: Vec::new(),
            open: Vec::new(),
            memory,
            times,
            events: Vec::new(),
        });
        Ok(())
    }

    /// Starts an unrecorded step, which is timed together with others to measure the cost of recording. A program's first step is excluded, since
    /// first-time work makes it slow.
    fn idle(&mut self) -> Result<()> {
        self.idle_steps += 1;
        let is_cold = self.step == 0 || (!self.alike && self.idle_steps == 1);
        let most = MOST_UNRECORDED as u64 * self.steps.active.unwrap_or(1);
        if is_cold || self.idle.is_some() || self.idle_steps > most {
            return Ok(());
        }
        self.wait()?;
        self.idle = Some(Idle { begin: Instant::now(), steps: 0 });
        Ok(())
    }

    /// Ends one step that was not recorded.
    fn end_idle_step(&mut self) -> Result<()> {
        let Some(idle) = &mut self.idle else { return Ok(()) };
        idle.steps += 1;
        // Without a device, the work is finished when the step ends, so each step can be timed alone.
        let together = if self.device.is_some() { self.steps.active.unwrap_or(1) } else { 1 };
        if idle.steps >= together { self.keep_idle() } else { Ok(()) }
    }

    /// Ends a sequence of steps that were not recorded.
    fn end_idle(&mut self) -> Result<()> {
        self.idle_steps = 0;
        self.keep_idle()
    }

    /// Stores the time of the current unrecorded steps.
    fn keep_idle(&mut self) -> Result<()> {
        let Some(Idle { begin, steps }) = self.idle.take().filter(|idle| idle.steps > 0) else { return Ok(()) };
        self.wait()?;
        self.unrecorded.push(Unrecorded { us: us(begin.elapsed()) / steps as f64, steps });
        self.attached_before |= Recorder::is_attached();
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        Ok(self.device.map_or(Ok(()), CudaDevice::synchronize)?)
    }

    /// Returns the cost of recording for a cycle that took `whole_us`; `None` if too few steps were timed without recording to know their variation.
    fn overhead(&self, whole_us: f64, steps: &[StepTime]) -> Option<ProfilerOverhead> {
        let unrecorded: Vec<f64> = self.unrecorded.iter().map(|u| u.us).collect();
        if unrecorded.len() < 2 || steps.is_empty() {
            return None;
        }
        let durations: Vec<f64> = steps.iter().map(|s| s.duration_us).collect();
        let mean = whole_us / steps.len() as f64;
        let spread = [&unrecorded, &durations].map(|all| stats::mad(all).unwrap_or(0.0));
        Some(ProfilerOverhead {
            recorded_us: if self.device.is_some() { mean } else { stats::median(&durations).unwrap_or(mean) },
            unrecorded_us: stats::median(&unrecorded)?,
            unrecorded_steps: self.unrecorded.iter().map(|u| u.steps).sum(),
            attached_before: self.attached_before,
            noise_us: 2.0 * spread[0].max(spread[1]),
        })
    }

    /// Compares every cycle with the steps after it, in addition to the steps before it.
    fn compare_all(&mut self) {
        if !self.alike {
            return;
        }
        let found: Vec<_> = self.cycles.iter().map(|c| self.overhead(c.whole_us, &c.steps)).collect();
        for (cycle, overhead) in self.cycles.iter_mut().zip(found) {
            cycle.overhead = overhead;
        }
    }

    fn end_step(&mut self) {
        let Some(recording) = &mut self.recording else { return };
        let now = Instant::now();
        recording.steps.push(StepTime {
            number: self.step,
            start_us: us(recording.step_begin - recording.begin),
            duration_us: us(now - recording.step_begin),
        });
        recording.step_begin = now;
    }

    /// Ends the current cycle.
    fn finish(&mut self) -> Result<()> {
        let Some(mut recording) = self.recording.take() else { return Ok(()) };
        self.spans.record(false);
        if let Some(device) = self.device {
            device.synchronize()?;
        }
        let whole_us = us(recording.begin.elapsed());
        // Ranges that are still open at the end of the step end here.
        for range in recording.ranges.iter_mut().filter(|r| r.duration_us == 0.0) {
            range.duration_us = whole_us - range.start_us;
        }
        if let Some(recorder) = &self.recorder {
            recording.keep(&recorder.take()?);
        }
        recording.keep_memory();
        let CycleRecording { begin, began_us, earlier, first_step, steps, mut ranges, times, events, .. } = recording;
        let work = match &times {
            Some(times) => cycle::range_work(times, &events, &mut ranges),
            None => earlier.work,
        };
        spans::add(self.spans.take(), begin, &steps, &mut ranges);
        let cycle = Cycle {
            number: self.cycles.len(),
            first_step,
            source: self.source.clone(),
            has_device: self.device.is_some(),
            allocated_bytes: self.device.map(CudaDevice::allocated),
            lost: earlier.lost,
            whole_us,
            began_us,
            overhead: self.overhead(whole_us, &steps),
            steps,
            work,
            memory: earlier.memory,
            calls: earlier.calls,
            ranges,
            counters: earlier.counters,
            operations: None,
            notes: earlier.notes,
        };
        let cycle = cycle.with_sums();
        if let Some(handler) = &mut self.handler {
            handler(&cycle);
        }
        self.cycles.push(cycle);
        if !self.alike {
            self.unrecorded.clear();
        }
        Ok(())
    }
}

/// The profile of a program.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Name of the device that ran the program.
    pub device: String,
    /// The recorded cycles, in order.
    pub cycles: Vec<Cycle>,
}

impl Profile {
    /// Returns all cycles merged into one, whose tables cover all of them; `None` if there are no cycles.
    #[must_use]
    pub fn whole(&self) -> Option<Cycle> {
        let mut cycles = self.cycles.iter();
        let mut whole = cycles.next()?.clone();
        for cycle in cycles {
            let (at, base) = (cycle.began_us - whole.began_us, whole.ranges.len());
            let moved = |range: Option<usize>| range.map(|r| r + base);
            whole.lost += cycle.lost;
            whole.whole_us += cycle.whole_us;
            whole.allocated_bytes = cycle.allocated_bytes;
            whole.overhead = None;
            whole.steps.extend(cycle.steps.iter().map(|s| StepTime { start_us: s.start_us + at, ..*s }));
            let range = |r: &RangeTime| RangeTime { parent: moved(r.parent), start_us: r.start_us + at, ..r.clone() };
            whole.ranges.extend(cycle.ranges.iter().map(range));
            let work = |w: &DeviceWork| DeviceWork { range: moved(w.range), start_us: w.start_us + at, ..w.clone() };
            whole.work.extend(cycle.work.iter().map(work));
            let call = |c: &HostCall| HostCall { range: moved(c.range), start_us: c.start_us + at, ..c.clone() };
            whole.calls.extend(cycle.calls.iter().map(call));
            let change = |m: &MemoryChange| MemoryChange { range: moved(m.range), at_us: m.at_us + at, ..m.clone() };
            whole.memory.extend(cycle.memory.iter().map(change));
            let counted = |c: &RangeCounters| RangeCounters { range: moved(c.range), ..c.clone() };
            whole.counters.extend(cycle.counters.iter().map(counted));
            whole.notes.extend(cycle.notes.iter().cloned());
        }
        Some(whole)
    }
}

fn us(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests;
