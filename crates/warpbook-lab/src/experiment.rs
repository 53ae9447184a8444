//! The interface between experiments and the driver that runs them.

use crate::activity::Timelines;
use crate::{Error, Lab, Result};
use std::sync::Arc;
use warpbook_device::{Element, Kernel, Samples, Slice, Stream};
use warpbook_kernels::Launch;
use warpbook_record::{
    Check, Descriptor, Dtype, Inputs, KernelSpec, KernelStats, Measurement, Part, PartGroup, Peaks, Problem, Right,
    Run, Rung, Source, Tile, Traffic, TrainLog,
};

/// An experiment does the same work in several ways, at one or more sizes. [`Lab::run`] plans, checks and times the
/// work that an experiment describes.
pub trait Experiment {
    /// Returns the experiment's plan, which is plain data. `lab` is the lab that will run it. Without a lab, the
    /// settings are checked, but not whether a device can do the work, and the rungs have the kernels of the published
    /// figures.
    ///
    /// # Errors
    /// If a setting is out of range, or the lab's device cannot do the work.
    fn plan(&self, lab: Option<&Lab>) -> Result<Plan>;

    /// Draws the inputs of a problem, and computes the reference for results.
    ///
    /// # Errors
    /// If the device reports an error, for example because the inputs do not fit into its memory.
    fn prepare<'a>(&'a self, lab: &'a Lab, problem: &Problem) -> Result<Box<dyn Prepared + 'a>>;

    /// Returns the reason for skipping a rung for a problem, based on the measurements so far; `None` if it should run.
    /// The lab itself checks the hardware.
    fn obstacle(&self, lab: &Lab, rung: &Rung, problem: &Problem, so_far: &Run) -> Option<String> {
        let _ = (lab, rung, problem, so_far);
        None
    }

    /// Records the GPU's activity during a run of some of the rungs. It is called after all measurements; an error
    /// becomes a note in the record.
    ///
    /// # Errors
    /// If the device reports an error, for example because CUPTI is not installed.
    fn activity(&self, lab: &Lab, measured: &Run) -> Result<Timelines> {
        let _ = (lab, measured);
        Ok(Timelines::default())
    }

    /// Returns the experiment with one problem that the emulator can run in a fraction of a second; `None` if it has no
    /// such problem.
    fn for_emulator(&self) -> Option<Box<dyn Experiment>> {
        None
    }

    /// Returns the spec of the first kernel that a rung uses for a problem. If the experiment chooses the tile without
    /// trials, the spec has only this tile. Returns `None` for a rung without kernels.
    fn compiled(&self, lab: &Lab, rung: &Rung, problem: &Problem) -> Option<KernelSpec> {
        let _ = (lab, problem);
        rung.kernels().first().cloned()
    }

    /// Returns conclusions from the measurements as sentences, which become notes in the record.
    fn notes(&self, measured: &Run) -> Vec<String> {
        let _ = measured;
        Vec::new()
    }

    /// Returns the problems of the plan without a lab; empty if a setting is invalid.
    fn problems(&self) -> Vec<Problem> {
        self.plan(None).map(|plan| plan.problems).unwrap_or_default()
    }

    /// Returns the rungs of the plan without a lab; empty if a setting is invalid.
    fn rungs(&self) -> Vec<Rung> {
        self.plan(None).map(|plan| plan.rungs).unwrap_or_default()
    }
}

/// The plan of an experiment. [`Plan::new`] takes the required parts; the other fields have defaults.
#[derive(Clone, Default)]
pub struct Plan {
    /// Name in a record and on the command line.
    pub name: String,
    /// Title in a few words, for headings.
    pub title: String,
    /// Descriptor that tells how to show the records; the default suits work that is compared by time.
    pub descriptor: Descriptor,
    /// Description of the input data of all problems.
    pub inputs: Inputs,
    /// Command that repeats the run, with [`Plan::DEVICE`] as a placeholder for the device.
    pub command: String,
    /// Problems, one for each size.
    pub problems: Vec<Problem>,
    /// Rungs, in the ladder's order.
    pub rungs: Vec<Rung>,
    /// Problem that charts show first; `None` lets the measurements decide.
    pub main_problem: Option<Problem>,
    /// Files that the kernels include, in addition to Warpbook's shared headers.
    pub headers: Vec<Source>,
    /// The experiment's name on the command line, and the settings (name and text) that recreate it in another process;
    /// `None` if other processes do not know it.
    pub settings: Option<(&'static str, Vec<(String, String)>)>,
    /// Reason why hardware counters of the rungs' kernels would be meaningless; if set, they are not read.
    pub uncounted: Option<String>,
    /// True if GPU rungs are also timed with the host's clock, because the work of the host is part of the result.
    /// Candidates then have no stream, and wait for the GPU themselves.
    pub times_the_host: bool,
    /// Seconds after which a learner's kernel is assumed to hang; `None` if all kernels are known to end.
    pub limit_s: Option<f64>,
    /// Measures additional ceilings for the records.
    pub ceilings: Option<MeasureCeilings>,
}

/// A function that adds further ceilings, such as the bandwidth of the link between GPUs, to the ceilings of the lab's
/// device. Ceilings that were measured before an error are kept, and a note in the record explains what is missing.
pub type MeasureCeilings = Arc<dyn Fn(&Lab, &mut Peaks) -> Result<()>>;

impl Plan {
    /// Placeholder for the device in [`Plan::command`].
    pub const DEVICE: &'static str = "{device}";

    /// Creates a plan with defaults: the title is the capitalised name, and the command says that a program or notebook
    /// ran it.
    #[must_use]
    pub fn new(name: impl Into<String>, problems: Vec<Problem>, rungs: Vec<Rung>) -> Self {
        let name = name.into();
        let mut rest = name.chars();
        let title = rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect());
        let command = format!("{name} on {}, run from a program or notebook", Self::DEVICE);
        Self { name, title, command, problems, rungs, ..Self::default() }
    }

    /// Returns the command that repeats the run on a device.
    #[must_use]
    pub fn command_on(&self, device: &str) -> String {
        self.command.replace(Self::DEVICE, device)
    }

    /// Returns the seconds after which a rung is assumed to hang; `None` if it is known to end.
    pub(crate) fn limit_of(&self, rung: &Rung) -> Option<f64> {
        self.limit_s.filter(|_| rung.variant_of.is_some())
    }
}

/// Returns the id of the tile that an experiment chooses for a rung and a problem without trials; `None` if trials
/// choose it.
pub(crate) fn tile_without_trials(
    experiment: &dyn Experiment,
    lab: &Lab,
    rung: &Rung,
    problem: &Problem,
) -> Option<String> {
    let spec = experiment.compiled(lab, rung, problem).filter(|spec| rung.kernels().first() != Some(spec))?;
    let [tile] = &*spec.tiles else { return None };
    Some(tile.id.to_string())
}

/// Repeated launches of the same work. Only the last repetition is counted; the earlier ones bring the caches into
/// their usual state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeated {
    /// Number of repetitions that are launched.
    pub times: usize,
    /// Describes the last repetition, such as "the second of two epochs".
    pub last: &'static str,
    /// Describes all repetitions together, such as "two epochs". It is used for graphs that can only be counted as a
    /// whole.
    pub all: &'static str,
}

/// The prepared inputs of one problem.
pub trait Prepared {
    /// Makes a rung ready to run: the kernel is compiled and loaded, and its tile or algorithm is chosen. A rung with
    /// `variant_of` is the rung with that id, with a learner's source; its arguments and its launch are the same.
    ///
    /// # Errors
    /// If the compiler or the device reports an error; it becomes the rung's row.
    fn candidate<'p>(&'p self, rung: &Rung, trials: &mut Trials<'_>) -> Result<Box<dyn Candidate + 'p>>;

    /// Makes a rung ready for hardware counters, without a check. If the same kernels are launched repeatedly, a few
    /// repetitions are enough, since each launch is counted separately; the second result then says which part of the
    /// work runs.
    ///
    /// # Errors
    /// See [`Prepared::candidate`].
    fn to_count<'p>(
        &'p self,
        rung: &Rung,
        trials: &mut Trials<'_>,
    ) -> Result<(Box<dyn Candidate + 'p>, Option<Repeated>)> {
        Ok((self.candidate(rung, trials)?, None))
    }

    /// Tries a learner's kernel on a small problem that reveals mistakes, before it runs on the problem itself.
    ///
    /// # Errors
    /// If the rehearsal fails; the error is a sentence with the reason.
    fn rehearse(&self, rung: &Rung, limit_s: f64) -> Result<()> {
        let _ = (rung, limit_s);
        Ok(())
    }

    /// Compiles in parallel the kernels that these rungs' candidates need.
    fn compile_ahead(&self, rungs: &[Rung]) {
        let _ = rungs;
    }

    /// Makes further measurements after the ladder, such as parts of rungs and copies.
    ///
    /// # Errors
    /// If the device reports an error; a note in the record then says what is missing.
    fn extras(&self, lab: &Lab, so_far: &Run) -> Result<Vec<Part>> {
        let _ = (lab, so_far);
        Ok(Vec::new())
    }
}

/// A rung that is ready to run on one problem.
pub trait Candidate {
    /// Returns the stream of the work; `None` for a candidate that is timed with the host's clock (see
    /// [`Plan::times_the_host`]).
    fn stream(&self) -> Option<&Stream> {
        None
    }

    /// Restores inputs that a run changes, and fills its outputs with poison, so that an old result cannot pass for a
    /// new one.
    /// # Errors
    /// If the driver reports an error.
    fn reset(&self) -> warpbook_device::Result<()> {
        Ok(())
    }

    /// Returns true if each timed run needs an untimed [`Candidate::reset`] before it. Such candidates are timed one
    /// after another; other candidates of similar speed are timed in rounds.
    fn resets_each_run(&self) -> bool {
        false
    }

    /// Returns true if the candidate must be timed alone and dropped before the next one is made, because it uses much
    /// memory or has its own streams. Other candidates of similar speed are timed in rounds.
    fn timed_alone(&self) -> bool {
        self.resets_each_run()
    }

    /// Does the work once: queues it on the stream without waiting, or runs it on the CPU.
    ///
    /// # Errors
    /// If a launch is refused.
    fn launch(&self) -> warpbook_device::Result<()>;

    /// Compares the last run's result with the reference.
    ///
    /// # Errors
    /// If the device reports an error, in this run or earlier.
    fn check(&self) -> Result<Checked>;

    /// Returns facts about the candidate other than its times.
    fn details(&self) -> Details {
        Details::default()
    }
}

/// The result of a check.
#[derive(Debug, Clone)]
pub struct Checked {
    /// Comparison of the result with the reference.
    pub check: Check,
    /// Reason why the rung failed, in a sentence, if the comparison does not show the reason.
    pub error: Option<String>,
    /// Log of a training run.
    pub log: Option<TrainLog>,
}

impl Checked {
    /// Creates a result from a comparison alone.
    #[must_use]
    pub fn new(check: Check) -> Self {
        Self { check, error: None, log: None }
    }

    /// Returns true if the rung's result is right.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.check.passed && self.error.is_none()
    }

    /// Returns the reason why the rung's result is wrong, in a sentence; `None` if it is right.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let off = || {
            format!(
                "the result is off the reference by {:.1e}, more than the tolerance of {:.1e}",
                self.check.max_rel_error, self.check.tolerance
            )
        };
        (!self.passed()).then(|| self.error.clone().unwrap_or_else(off))
    }
}

/// Facts about a candidate that its measurement stores in addition to the times.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Details {
    /// Id of the tile.
    pub tile: Option<String>,
    /// Statistics of the compiler and the device for the kernels.
    pub kernels: Vec<KernelStats>,
    /// Describes the choice that a rule made for this size, with the reason.
    pub choice: Option<String>,
    /// Id of the rung that the rule chose, if it chooses among rungs.
    pub chosen: Option<String>,
    /// Computed number of bytes moved at each level of memory.
    pub traffic: Vec<Traffic>,
    /// Floating-point operations, if they differ from the problem's.
    pub flops: Option<u64>,
    /// Data type of most operations, if it differs from the type of the problem.
    pub dtype: Option<Dtype>,
    /// Peak device memory in bytes, including the inputs.
    pub peak_bytes: Option<u64>,
    /// Number of GPUs, if there are several.
    pub gpus: Option<u32>,
    /// Number of correctly classified test samples after each run, if each run trains a network to the end.
    pub test: Vec<Right>,
}

/// Services for making a candidate: short measurements for choosing a tile or algorithm, and storage for their results.
pub struct Trials<'t> {
    /// The lab that runs the measurements.
    pub lab: &'t Lab,
    /// Id of the rung.
    pub rung: String,
    /// The problem that the candidate is for.
    pub problem: Problem,
    /// Results of the trials so far.
    pub parts: Vec<Part>,
    /// Id of the tile, if it was chosen earlier.
    pub tile: Option<String>,
    /// Seconds after which a run that checks a candidate is assumed to hang.
    pub limit_s: Option<f64>,
}

impl<'t> Trials<'t> {
    /// Creates the services for a rung and a problem, without a chosen tile and without a time limit.
    pub fn new(lab: &'t Lab, rung: &Rung, problem: &Problem) -> Self {
        let (rung, problem) = (rung.id.to_string(), problem.clone());
        Self { lab, rung, problem, parts: Vec::new(), tile: None, limit_s: None }
    }
}

impl Details {
    /// Returns the details of a single kernel and its launch shape.
    #[must_use]
    pub fn of_kernel(kernel: &Kernel, shape: Launch) -> Self {
        let stats = KernelStats { grid: Some(shape.grid), ..kernel.stats().clone() };
        Self { tile: Some(kernel.tile().id.to_string()), kernels: vec![stats], ..Self::default() }
    }
}

type Region<'p> = Box<dyn Fn() -> warpbook_device::Result<()> + 'p>;

/// A candidate made of closures; see [`on_cpu`] and [`on_gpu`].
pub struct Closures<'p> {
    stream: Option<&'p Stream>,
    reset: Option<Region<'p>>,
    launch: Region<'p>,
    check: Box<dyn Fn() -> Result<Check> + 'p>,
    details: Details,
    as_launched: bool,
}

/// Creates a candidate on the CPU: `launch` does the work, and `check` compares the output with the reference.
pub fn on_cpu<'p>(
    launch: impl Fn() -> warpbook_device::Result<()> + 'p,
    check: impl Fn() -> Result<Check> + 'p,
) -> Closures<'p> {
    Closures {
        stream: None,
        reset: None,
        launch: Box::new(launch),
        check: Box::new(check),
        details: Details::default(),
        as_launched: false,
    }
}

/// Creates a candidate on a GPU: `launch` queues the work on the stream without waiting, and `check` compares the
/// output with the reference after the stream has finished. Candidates for the same problem should share a stream, so
/// that they can be timed in rounds.
pub fn on_gpu<'p>(
    stream: &'p Stream,
    launch: impl Fn() -> warpbook_device::Result<()> + 'p,
    check: impl Fn() -> Result<Check> + 'p,
) -> Closures<'p> {
    Closures { stream: Some(stream), ..on_cpu(launch, check) }
}

impl<'p> Closures<'p> {
    /// Fills the output with NaNs before a checked run.
    #[must_use]
    pub fn poisoning<T: Element>(mut self, output: &'p Slice<T>) -> Self {
        self.reset = Some(Box::new(|| output.fill_bytes(0xff)));
        self
    }

    /// Calls `reset` before a checked run.
    #[must_use]
    pub fn resetting(mut self, reset: impl Fn() -> warpbook_device::Result<()> + 'p) -> Self {
        self.reset = Some(Box::new(reset));
        self
    }

    /// Times each run as the host launches it, including the host's waiting. By default, short work is captured and
    /// replayed as a graph of several runs.
    #[must_use]
    pub fn as_launched(mut self) -> Self {
        self.as_launched = true;
        self
    }

    /// Sets the details of the candidate.
    #[must_use]
    pub fn details(self, details: Details) -> Self {
        Self { details, ..self }
    }
}

impl Candidate for Closures<'_> {
    fn stream(&self) -> Option<&Stream> {
        self.stream
    }

    fn reset(&self) -> warpbook_device::Result<()> {
        self.stream.map_or(Ok(()), Stream::synchronize)?;
        self.reset.as_ref().map_or(Ok(()), |reset| reset())
    }

    fn resets_each_run(&self) -> bool {
        self.as_launched
    }

    fn launch(&self) -> warpbook_device::Result<()> {
        (self.launch)()
    }

    fn check(&self) -> Result<Checked> {
        self.stream.map_or(Ok(()), Stream::synchronize)?;
        (self.check)().map(Checked::new)
    }

    fn details(&self) -> Details {
        self.details.clone()
    }
}

impl Trials<'_> {
    /// Returns the candidate with the fastest of a kernel's tiles. The tiles are timed in rounds, and the times of all
    /// of them are stored as parts. A tile that the device refuses is skipped.
    ///
    /// # Errors
    /// If the device reports an error, or no tile works.
    pub fn fastest_tile<'p>(
        &mut self,
        spec: &KernelSpec,
        candidate: impl Fn(&Tile) -> Result<Closures<'p>>,
    ) -> Result<Box<dyn Candidate + 'p>> {
        let (mut made, mut refused) = (Vec::new(), None);
        for tile in spec.tiles.iter().filter(|t| self.wants(t)) {
            match candidate(tile) {
                Ok(c) => made.push(c),
                Err(Error::Device(e)) if e.is_sticky() => return Err(e.into()),
                Err(e) => refused = refused.or(Some(e)),
            }
        }
        let (best, times) = self.fastest(&made.iter().map(|c| c as &dyn Candidate).collect::<Vec<_>>())?;
        for (c, samples) in made.iter().zip(times) {
            let name = c.details.tile.clone().unwrap_or_default();
            self.keep(PartGroup::Tile, name, samples.us);
        }
        match (best.and_then(|i| made.into_iter().nth(i)), refused) {
            (Some(best), _) => Ok(Box::new(best)),
            (None, Some(error)) => Err(error),
            (None, None) => Err(Error::Setting(format!("{} has no tile: give its row at least one.", spec.path()))),
        }
    }

    /// Returns true if a tile should be tried: every tile, unless one was chosen earlier.
    #[must_use]
    pub fn wants(&self, tile: &Tile) -> bool {
        self.tile.as_ref().is_none_or(|wanted| *wanted == tile.id)
    }

    /// Stores measured times of the rung in the record as a part.
    pub fn keep(&mut self, group: PartGroup, name: impl Into<String>, samples_us: Vec<f64>) {
        let (rung, problem) = (self.rung.clone(), self.problem.clone());
        self.parts.push(Part { rung, problem, group, name: name.into(), samples_us });
    }

    /// Times variants of a rung in rounds. Returns the index of the fastest, and the samples of each. The variants must
    /// run on the same stream and need no reset. Those close to the fastest are timed a second time, since a few
    /// samples cannot tell them apart.
    ///
    /// # Errors
    /// If the device reports an error.
    pub fn fastest(&self, variants: &[&dyn Candidate]) -> Result<(Option<usize>, Vec<Samples>)> {
        crate::driver::fastest(self.lab, variants)
    }
}

/// Events that a lab reports while it runs an experiment.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The measurements are planned; reported once.
    Planned {
        /// Number of planned measurements.
        measurements: usize,
        /// The record, still empty; its descriptor determines the columns of a table that is filled row by row.
        run: &'a Run,
    },
    /// Untimed work that takes a while begins; the text describes it.
    Preparing(&'a str),
    /// A measurement begins.
    Started {
        /// The rung that is measured.
        rung: &'a Rung,
        /// The problem that is measured.
        problem: &'a Problem,
    },
    /// A measurement has ended and is in the record.
    Finished {
        /// The measurement that was added.
        measurement: &'a Measurement,
        /// The record so far.
        run: &'a Run,
    },
    /// A line about the progress of a training run, at most once per second and after each evaluation.
    Training(&'a str),
}

impl Error {
    /// Returns true if the user asked to stop.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Device(warpbook_device::Error::Cancelled))
    }
}
