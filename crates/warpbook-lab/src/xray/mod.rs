//! The X-ray of a rung: its kernels are compiled with marks, run once, and drawn as a timeline of every SM.

mod assemble;
mod keep;

use crate::driver::{collect_sources, empty, in_turn, run_checked, time_alone};
use crate::experiment::{Candidate, Plan, Prepared, Trials, tile_without_trials};
use crate::{Error, Event, Experiment, Lab, Result};
use assemble::{Taken, assemble};
use keep::Limits;
use std::time::Instant;
use warpbook_charts::{Chart, ChartError};
use warpbook_device::{CudaDevice, Samples, Xray as Recorder};
use warpbook_kernels::xray::Marks;
use warpbook_record::{ChartKind, Measurement, Outcome, Problem, Run, Rung, nearest};

/// Size in bytes of the device memory that receives marks.
const RING_BYTES: u64 = 512 << 20;
/// Minimum time limit in seconds after which a run's kernels are assumed to hang, and the limit as a multiple of the
/// time without marks.
const LEAST_LIMIT_S: f64 = 10.0;
const LIMIT_TIMES: f64 = 200.0;

/// Maximum number of recordings of a run, and the acceptable clock error in nanoseconds, about the time of a round trip
/// to L2.
const RECORDINGS: usize = 4;
const CLOSE_NS: f64 = 1000.0;

/// The X-ray of one run of a rung: a record with one measurement and the marks of every SM. It is displayed as a chart
/// with figures.
#[derive(Debug, Clone, PartialEq)]
pub struct XrayRun {
    /// The record, which can be written to a file and opened by the page.
    pub run: Run,
}

impl XrayRun {
    /// Returns the chart with few enough marks for a notebook; the page draws the lanes of all SMs.
    ///
    /// # Errors
    /// If the record has no X-ray, for example because it was removed.
    pub fn chart(&self) -> Result<Chart, ChartError> {
        let nothing = || ChartError::NothingToDraw("The record has no X-ray.".into());
        let problem = self.run.xrays.first().map(|x| x.problem.clone()).ok_or_else(nothing)?;
        warpbook_charts::draw().lighter().xray(&self.run, &problem)
    }
}

impl Lab {
    /// Records the activity of every SM in a run of a rung, at the experiment's main problem or its first. The rung's
    /// kernels are compiled with their marks (`MARK(phase)`, see `kernels/xray.cuh`), the result is checked, and one
    /// run is recorded. Runs are timed with and without marks.
    ///
    /// A product uses the requested tile, or else the tile that `gemm` would choose for the rung; other tiles are
    /// neither compiled nor timed. Kernels that run for more than 10 seconds, and more than 200 times as long as
    /// without marks, are abandoned.
    ///
    /// ```no_run
    /// # use warpbook_lab::{Experiment, Lab, Result, XrayRun};
    /// fn show(lab: &Lab, product: &dyn Experiment) -> Result<XrayRun> {
    ///     lab.xray(product, "14_overlapped_store")
    /// }
    /// ```
    ///
    /// # Errors
    /// If there is no GPU or no such rung, the rung has no marks, its result is wrong, its kernels hang, or the device
    /// reports an error.
    pub fn xray(&self, experiment: &dyn Experiment, rung: &str) -> Result<XrayRun> {
        self.xray_kept(experiment, rung, Limits::default())
    }

    /// Records an X-ray like [`Lab::xray`], but its marks take at most about `bytes` in the record's file. Marks beyond
    /// that are thinned out, and notes say by how much. This is meant for a record that is merged into another with
    /// [`Run::absorb`].
    ///
    /// # Errors
    /// See [`Lab::xray`].
    pub fn xray_within(&self, experiment: &dyn Experiment, rung: &str, bytes: usize) -> Result<XrayRun> {
        self.xray_kept(experiment, rung, Limits::of_bytes(bytes))
    }

    fn xray_kept(&self, experiment: &dyn Experiment, rung: &str, limits: Limits) -> Result<XrayRun> {
        let plan = experiment.plan(Some(self))?;
        let rungs = &plan.rungs;
        let phases = phases_of(&plan, rung)?;
        let rung = rungs.iter().find(|r| r.id == rung).ok_or_else(|| unknown(rung, rungs))?;
        let setting = |why: String| Err(Error::Setting(why));
        let Some(device) = self.device().cuda() else {
            return setting(format!(
                "An X-ray needs a GPU, and this lab runs on the CPU. It would show what every SM does in {} and when, block by block, in the phases \
                 {}, with the tail of the last wave, the spread of barriers and the lead of loads as figures.",
                rung.id,
                phases.join(", ")
            ));
        };
        let main = plan.main_problem.as_ref().filter(|p| plan.problems.contains(p));
        let Some(problem) = main.or(plan.problems.first()) else {
            return setting("An X-ray needs a size: the experiment has no problem.".into());
        };
        let mut run = empty(self, &plan);
        let obstacle = self.obstacle(rung).or_else(|| experiment.obstacle(self, rung, problem, &run));
        if let Some(why) = obstacle {
            return setting(format!("{} cannot be X-rayed here: it {why}.", rung.id));
        }
        run.command = command(&plan.name, &run.command, &rung.id);
        run.rungs = vec![rung.clone()];
        run.problems = vec![problem.clone()];
        run.main_problem = Some(problem.id.clone());
        run.descriptor.charts = vec![ChartKind::Xray];
        collect_sources(&mut run, &plan.headers);
        self.tell(&Event::Preparing(&format!("preparing {}", problem.label)));
        let prepared = experiment.prepare(self, problem)?;
        let tile = tile_without_trials(experiment, self, rung, problem);
        let limit_s = plan.limit_of(rung);
        let ray = Ray { lab: self, device, prepared: &*prepared, rung, problem, tile, limit_s, limits };
        ray.take(&mut run)?;
        run.environment.clocks = self.watch().report();
        Ok(XrayRun { run })
    }
}

/// Returns the phases marked by a rung's kernels.
fn phases_of(plan: &Plan, id: &str) -> Result<Vec<String>> {
    let rungs = &plan.rungs;
    let marked = |r: &Rung| -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for marks in r.kernels().iter().filter_map(Marks::for_kernel) {
            marks
                .named()
                .filter(|p| !all.iter().any(|a| a == p))
                .map(str::to_owned)
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|p| all.push(p));
        }
        all
    };
    let rung = rungs.iter().find(|r| r.id == id).ok_or_else(|| unknown(id, rungs))?;
    let phases = marked(rung);
    if !phases.is_empty() {
        return Ok(phases);
    }
    let others: Vec<&str> = rungs.iter().filter(|r| !marked(r).is_empty()).map(|r| &*r.id).collect();
    let instead = match others.as_slice() {
        [] => format!("{} has no rung with marks.", plan.title),
        others => format!("Rungs with marks: {}.", others.join(", ")),
    };
    Err(Error::Setting(format!(
        "{id} has no marks in its kernels, so there is nothing to record. {instead} A kernel of your own has marks if it includes xray.cuh and uses \
         MARK_BEGIN(entry), MARK(phase) and MARK(end)."
    )))
}

fn unknown(id: &str, rungs: &[Rung]) -> Error {
    let near = nearest(id, rungs.iter().map(|r| &*r.id)).into_iter().map(str::to_owned).collect();
    Error::UnknownRung { name: id.to_owned(), nearest: near }
}

/// Returns the command that repeats an X-ray, based on the command that runs the experiment.
fn command(experiment: &str, run: &str, rung: &str) -> String {
    match run.strip_prefix(&format!("warpbook run {experiment}")) {
        Some(settings) => format!("warpbook xray {experiment} --rung {rung}{settings}"),
        None => run.to_owned(),
    }
}

/// Returns the time limit in seconds for work with marks. The same work without marks started at `begun` and has just
/// ended.
fn limit_after(begun: Instant) -> f64 {
    (LIMIT_TIMES * begun.elapsed().as_secs_f64()).max(LEAST_LIMIT_S)
}

/// A rung to X-ray.
struct Ray<'r> {
    lab: &'r Lab,
    device: &'r CudaDevice,
    prepared: &'r dyn Prepared,
    rung: &'r Rung,
    problem: &'r Problem,
    /// Id of the tile that the rung uses; `None` if tiles are tried.
    tile: Option<String>,
    /// Seconds after which the rung without marks is assumed to hang; `None` if it is known to end.
    limit_s: Option<f64>,
    /// Limits on the number of kept marks.
    limits: Limits,
}

impl Ray<'_> {
    /// Makes a candidate. Runs that are needed to make it are abandoned after `limit_s`.
    fn candidate(&self, tile: Option<String>, limit_s: Option<f64>) -> Result<Box<dyn Candidate + '_>> {
        let trials = Trials::new(self.lab, self.rung, self.problem);
        self.prepared.candidate(self.rung, &mut Trials { tile, limit_s, ..trials })
    }

    /// Reports the current step to the listener.
    fn says(&self, what: &str) {
        self.lab.tell(&Event::Preparing(what));
    }

    /// Runs the candidate once and compares its result with the reference.
    fn checked(&self, candidate: &dyn Candidate, what: &str, limit_s: Option<f64>) -> Result<warpbook_record::Check> {
        let checked = run_checked(candidate, limit_s).map_err(|e| self.endless(e, what))?;
        match checked.failure() {
            Some(why) => Err(Error::Setting(format!("{} {what} gives a wrong result: {why}.", self.rung.id))),
            None => Ok(checked.check),
        }
    }

    /// Explains a run's error; if the run did not end, says that the kernels hang, and with which marks.
    fn endless(&self, error: Error, what: &str) -> Error {
        match error {
            Error::Device(warpbook_device::Error::StillRunning { kernel, limit_s }) => {
                let kernel = format!("{kernel} of {} {what}", self.rung.id);
                warpbook_device::Error::StillRunning { kernel, limit_s }.into()
            }
            other => other,
        }
    }

    fn take(&self, run: &mut Run) -> Result<()> {
        self.lab.tell(&Event::Started { rung: self.rung, problem: self.problem });
        self.says(&match &self.tile {
            Some(tile) => format!("compiling {} with the tile {tile}", self.rung.id),
            None => format!("compiling {} and choosing its tile", self.rung.id),
        });
        let begun = Instant::now();
        let plain = self.candidate(self.tile.clone(), self.limit_s).map_err(|e| self.endless(e, "without marks"))?;
        let making_limit_s = limit_after(begun);
        let begun = Instant::now();
        let check = self.checked(&*plain, "without marks", self.limit_s)?;
        // The measured time includes the check, and loading the kernel at the first launch.
        let limit_s = limit_after(begun);
        let details = plain.details();
        let alone = plain.timed_alone();
        let bench = self.lab.bench();
        let time = |c: &dyn Candidate| time_alone(self.lab, self.device, bench, c);
        // If a candidate needs all of the memory, it is dropped before the other one is made.
        let (plain, first) = if alone {
            let first = time(&*plain)?;
            drop(plain);
            (None, Some(first))
        } else {
            (Some(plain), None)
        };
        self.says("compiling it with its marks");
        let recorder = Recorder::begin(self.device)?;
        let marked = self
            .candidate(details.tile.clone().or_else(|| self.tile.clone()), Some(making_limit_s))
            .map_err(|e| self.endless(e, "with its marks"))?;
        recorder.pause();
        if recorder.marked() == 0 {
            return Err(Error::Setting(format!(
                "{} ran no kernel with marks at {}: another one was chosen for this size or this GPU.",
                self.rung.id, self.problem.label
            )));
        }
        self.says("running it with its marks");
        // This run shows how many warps there are; the next one is the first to be recorded.
        self.checked(&*marked, "with its marks", Some(limit_s))?;
        let (free, _) = self.device.memory()?;
        let ring_bytes = recorder.allocate(RING_BYTES.min(free / 2))?;
        let stream = marked.stream().ok_or(warpbook_device::Error::NeedsCuda("An X-ray"))?;
        self.says(&format!("recording a run into {} MiB of marks", ring_bytes >> 20));
        let record = || -> Result<warpbook_device::Marks> {
            marked.reset()?;
            let recorded = recorder.record(stream, limit_s, || marked.launch());
            recorded.map_err(|e| self.endless(e.into(), "while its marks are recorded"))
        };
        let mut marks = record()?;
        // If the GPU changes its clock rate during a run, the times of the SMs drift apart; another run may avoid this.
        for _ in 1..RECORDINGS {
            if marks.clocks.largest_error_ns() <= CLOSE_NS {
                break;
            }
            let again = record()?;
            if again.clocks.largest_error_ns() < marks.clocks.largest_error_ns() {
                marks = again;
            }
        }
        let found = marked.check()?;
        if let Some(why) = found.failure() {
            return Err(Error::Setting(format!("{} gives a wrong result while it is recorded: {why}.", self.rung.id)));
        }
        self.says("timing it with marks and without");
        let [unmarked, with_marks] = match (&plain, first) {
            (Some(plain), _) => self.in_turn([&**plain, &*marked])?,
            (None, first) => [first.unwrap_or_default(), time(&*marked)?],
        };
        let taken = Taken {
            rung: self.rung.id.to_string(),
            problem: self.problem.clone(),
            marked_us: with_marks.us,
            unmarked_us: unmarked.us.clone(),
        };
        self.says("setting the marks on one scale");
        let (xray, notes) = assemble(&marks, taken, &self.limits).map_err(Error::Setting)?;
        // In a merged record, a note must name the rung that it refers to.
        run.notes.extend(notes.iter().map(|note| format!("X-ray of {}: {note}", self.rung.id)));
        run.xrays.push(xray);
        let mut m = Measurement {
            tile: details.tile,
            kernels: details.kernels,
            choice: details.choice,
            chosen: details.chosen,
            traffic: details.traffic,
            flops: details.flops,
            dtype: details.dtype,
            ..Measurement::without_samples(&*self.rung.id, self.problem.clone(), Outcome::Measured)
        };
        m.check = Some(check);
        m.set_samples(unmarked.us, unmarked.wall_us);
        run.measurements.push(m);
        Ok(())
    }

    /// Times both candidates, in rounds if they share a stream and need no reset.
    fn in_turn(&self, both: [&dyn Candidate; 2]) -> Result<[Samples; 2]> {
        let bench = self.lab.bench();
        let same = match both.map(Candidate::stream) {
            [Some(a), Some(b)] => std::ptr::eq(a, b),
            _ => false,
        };
        if same && !both.iter().any(|c| c.resets_each_run()) {
            let mut samples = in_turn(self.lab, self.device, bench, &both, true)?.into_iter();
            return Ok([samples.next().unwrap_or_default(), samples.next().unwrap_or_default()]);
        }
        let time = |c| time_alone(self.lab, self.device, bench, c);
        Ok([time(both[0])?, time(both[1])?])
    }
}

#[cfg(test)]
mod tests;
