//! The ladder driver: the part of a run that is the same for all experiments.
//!
//! The driver prepares the inputs once for each problem. For each rung it makes a candidate, checks it against the
//! reference, times it, and checks it again. A failure becomes a row of the record, and the ladder continues.
//! Candidates close to the fastest are timed in rounds, with one sample of each per round, so that all see the same
//! clocks: a GPU at its power limit runs faster for the first candidate.

use crate::experiment::{Candidate, Checked, Plan, Prepared, Trials};
use crate::{Error, Event, Experiment, Lab, Result, emulated};
use std::cell::{OnceCell, RefCell};
use warpbook_device::{Bench, Compiler, CudaDevice, Samples, Stream};
use warpbook_kernels::{Include, includes};
use warpbook_record::{
    DeviceKind, Emulated, KernelSpec, KernelStats, Measurement, Outcome, Policy, Problem, Run, Rung,
};

/// Candidates within this factor of the fastest time are timed in rounds, one sample of each per round.
const IN_TURN_WITHIN: f64 = 5.0;
/// Variants within this factor of the fastest time are timed a second time; at most [`SECOND_LOOK_AT`] variants are.
const SECOND_LOOK_WITHIN: f64 = 1.05;
const SECOND_LOOK_AT: usize = 6;

/// Runs an experiment; results from before an error are kept.
///
/// # Errors
/// If a setting is out of range, or the device cannot be used at all.
pub fn run(lab: &Lab, experiment: &dyn Experiment) -> Result<Run> {
    let plan = experiment.plan(Some(lab))?;
    let mut run = empty(lab, &plan);
    run.rungs.clone_from(&plan.rungs);
    run.problems.clone_from(&plan.problems);
    collect_sources(&mut run, &plan.headers);
    let measurements = run.problems.len() * run.rungs.len();
    lab.tell(&Event::Planned { measurements, run: &run });
    lab.tell(&Event::Preparing("measuring the ceilings of the device"));
    match lab.peaks() {
        Ok(peaks) => run.peaks = peaks,
        Err(error) if error.is_cancelled() => {}
        Err(error) => run.notes.push(format!("The ceilings could not be measured: {error}")),
    }
    let ceilings = plan.ceilings.as_ref().filter(|_| !lab.is_emulated());
    if let Some(Err(error)) = ceilings.map(|measure| measure(lab, &mut run.peaks))
        && !error.is_cancelled()
    {
        run.notes.push(format!("Not all ceilings of the experiment could be measured: {error}"));
    }
    let compilations = Compilations::default();
    let mut ladder = Ladder { lab, experiment, plan: &plan, run, lost: None, in_turn: false, compilations };
    for problem in &plan.problems {
        ladder.run_problem(problem);
    }
    ladder.record_activity();
    let Ladder { mut run, in_turn, .. } = ladder;
    if in_turn {
        run.notes.push(format!(
            "Rungs within {IN_TURN_WITHIN:.0} times of the fastest were timed in turn, a sample of each a round, so that all saw the \
             same clocks."
        ));
    }
    run.notes.extend(experiment.notes(&run));
    // The clocks were watched during the run; the rest of the environment is unchanged.
    run.environment.clocks = lab.watch().report();
    if lab.bench().cancel.is_cancelled() {
        let (measured, ..) = run.counts();
        run.notes.push(format!("Interrupted after {measured} of {measurements} measurements."));
    }
    Ok(run)
}

/// Creates a record without measurements.
pub fn empty(lab: &Lab, plan: &Plan) -> Run {
    let info = lab.device().info();
    let by_events = info.kind == DeviceKind::Cuda && !plan.times_the_host;
    let policy = emulated::policy(lab, lab.bench().policy(by_events, plan.inputs.clone()));
    Run {
        command: plan.command_on(&info.selector()),
        descriptor: plan.descriptor.clone(),
        main_problem: plan.main_problem.as_ref().map(|p| p.id.clone()),
        ..begun(lab, &plan.name, plan.title.clone(), policy)
    }
}

/// Creates a record that starts now, with the lab's author.
pub fn begun(lab: &Lab, experiment: &str, title: impl Into<String>, policy: Policy) -> Run {
    Run {
        author: lab.author().map(str::to_owned),
        created: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
        ..Run::empty(experiment, title, lab.environment(), policy)
    }
}

/// Adds the source files of the rungs' kernels, and the files that they include.
pub fn collect_sources(run: &mut Run, more: &[warpbook_record::Source]) {
    let known = || warpbook_kernels::HEADERS.iter().chain(more);
    let included = |text: &str| -> Vec<String> {
        includes(text).into_iter().filter_map(Include::name).map(str::to_owned).collect()
    };
    let mut wanted: Vec<String> = Vec::new();
    for kernel in run.rungs.iter().flat_map(Rung::kernels).filter(|k| !k.source.is_empty()) {
        wanted.extend(included(&kernel.source));
        run.sources.insert(kernel.file.to_string(), kernel.source.to_string());
        for header in &kernel.headers {
            wanted.extend(included(&header.text));
            run.sources.insert(header.path.clone(), header.text.clone());
        }
    }
    while let Some(path) = wanted.pop() {
        if let Some(header) = known().find(|h| h.path == path).filter(|_| !run.sources.contains_key(&path)) {
            wanted.extend(included(header.text));
            run.sources.insert(path, header.text.to_owned());
        }
    }
}

/// Register counts and spills of kernels that cannot run here, compiled for Hopper; empty without NVRTC. Each kernel is
/// compiled once, no matter how many rungs and problems use it.
#[derive(Default)]
struct Compilations {
    compiler: OnceCell<Option<Compiler>>,
    known: RefCell<Vec<Known>>,
}

struct Known {
    architecture: String,
    spec: KernelSpec,
    stats: Option<KernelStats>,
}

impl Compilations {
    fn stats(&self, rung: &Rung) -> Vec<KernelStats> {
        let Some(compiler) = self.compiler.get_or_init(|| Compiler::new(None).ok()) else { return Vec::new() };
        let architectures = rung.requires.architectures();
        let Some(architecture) = architectures.iter().find(|a| **a == "sm_90").or(architectures.first()) else {
            return Vec::new();
        };
        let stats = |spec: &KernelSpec| {
            let compiled = compiler.compile(spec, spec.tiles.first()?, architecture).ok()?;
            compiled.stats_of(&spec.entry).cloned()
        };
        let mut known = self.known.borrow_mut();
        let mut once = |spec: &KernelSpec| {
            let same = |k: &&Known| k.architecture == *architecture && k.spec == *spec;
            if let Some(found) = known.iter().find(same) {
                return found.stats.clone();
            }
            let stats = stats(spec);
            known.push(Known { architecture: architecture.to_string(), spec: spec.clone(), stats: stats.clone() });
            stats
        };
        rung.kernels().iter().filter_map(&mut once).collect()
    }
}

/// The state of a running ladder.
struct Ladder<'l> {
    lab: &'l Lab,
    experiment: &'l dyn Experiment,
    plan: &'l Plan,
    run: Run,
    /// Reason why the GPU is no longer usable.
    lost: Option<String>,
    /// True if some candidates were timed in rounds.
    in_turn: bool,
    compilations: Compilations,
}

/// A rung that passed its check and waits to be timed together with others.
struct Waiting<'p> {
    place: usize,
    candidate: Box<dyn Candidate + 'p>,
    first: Checked,
    samples: Samples,
}

/// Rows of one problem, which are added to the record in the ladder's order.
struct Rows {
    rows: Vec<Option<Measurement>>,
    told: usize,
}

impl Ladder<'_> {
    fn cancelled(&self) -> bool {
        self.lab.bench().cancel.is_cancelled()
    }

    /// Records the GPU's activity during a run, if the experiment records it.
    fn record_activity(&mut self) {
        if self.lab.device().gpu().is_none() || self.lost.is_some() || self.cancelled() {
            return;
        }
        match self.experiment.activity(self.lab, &self.run) {
            Ok(found) => {
                self.run.breakdowns.extend(found.breakdowns);
                self.run.spans.extend(found.spans);
                self.run.profiled.extend(found.profiled);
                self.run.notes.extend(found.notes);
            }
            Err(error) if error.is_cancelled() => {}
            Err(error) => self.run.notes.push(error.to_string()),
        }
    }

    /// Runs every rung on one problem.
    fn run_problem(&mut self, problem: &Problem) {
        let (lab, experiment) = (self.lab, self.experiment);
        lab.tell(&Event::Preparing(&format!("preparing {}", problem.label)));
        let prepared = match () {
            () if self.cancelled() => Err("interrupted before it began".into()),
            () => experiment.prepare(lab, problem).map_err(|e| {
                self.note_loss(&e, "the preparation");
                e.to_string()
            }),
        };
        let rungs = &self.plan.rungs;
        if let Ok(prepared) = &prepared {
            prepared.compile_ahead(rungs);
        }
        let mut rows = Rows { rows: rungs.iter().map(|_| None).collect(), told: 0 };
        // Learners' kernels are untested, so they come last, when all other rungs are already measured.
        for variants in [false, true] {
            let mut waiting: Vec<Waiting<'_>> = Vec::new();
            for (place, rung) in rungs.iter().enumerate().filter(|(_, r)| r.variant_of.is_some() == variants) {
                match self.attempt(&prepared, rung, problem) {
                    Attempted::Row(row) => rows.rows[place] = Some(*row),
                    Attempted::Waits(candidate, first) => {
                        waiting.push(Waiting { place, candidate, first, samples: Samples::default() });
                    }
                }
                rows.tell(lab, &mut self.run);
            }
            self.time_in_turn(&mut waiting, problem);
            for w in waiting {
                rows.rows[w.place] = Some(self.finish(&rungs[w.place], problem, &*w.candidate, w.first, w.samples));
                rows.tell(lab, &mut self.run);
            }
        }
        if let (Ok(prepared), None, false) = (&prepared, &self.lost, self.cancelled() || lab.is_emulated()) {
            match prepared.extras(lab, &self.run) {
                Ok(parts) => self.run.parts.extend(parts),
                Err(error) if error.is_cancelled() => {}
                Err(error) => {
                    self.note_loss(&error, "a measurement outside the ladder");
                    self.run
                        .notes
                        .push(format!("{}: not all outside the ladder could be measured: {error}", problem.label));
                }
            }
        }
    }

    /// Returns the reason why a rung is skipped; `None` if it runs.
    fn why_not(&self, rung: &Rung, problem: &Problem) -> Option<String> {
        let lost = || self.lost.clone().filter(|_| !rung.is_cpu());
        let obstacle = || self.experiment.obstacle(self.lab, rung, problem, &self.run);
        let interrupted = || self.cancelled().then(|| "interrupted before it began".into());
        emulated::obstacle(self.lab, rung)
            .or_else(obstacle)
            .or_else(|| self.lab.obstacle(rung))
            .or_else(interrupted)
            .or_else(lost)
    }

    /// Makes a rung's candidate and checks it; also times it if it must be timed alone.
    fn attempt<'p>(
        &mut self,
        prepared: &'p Result<Box<dyn Prepared + 'p>, String>,
        rung: &Rung,
        problem: &Problem,
    ) -> Attempted<'p> {
        let outcome = |outcome| Measurement::without_samples(&*rung.id, problem.clone(), outcome);
        if let Some(why) = self.why_not(rung, problem) {
            let runs_here = rung.requires.met_by(self.lab.device().info().compute_capability);
            let kernels = if runs_here { Vec::new() } else { self.compilations.stats(rung) };
            return Attempted::row(Measurement { kernels, ..outcome(Outcome::Skipped { why }) });
        }
        self.lab.tell(&Event::Started { rung, problem });
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Attempted::row(outcome(Outcome::Failed { error: error.clone() })),
        };
        let mut trials = Trials::new(self.lab, rung, problem);
        let limit_s = self.plan.limit_of(rung);
        let rehearse = |limit_s| emulated::checked(self.lab, || prepared.rehearse(rung, limit_s));
        let rehearsed = limit_s.map_or(Ok(()), rehearse);
        let made = rehearsed.and_then(|()| prepared.candidate(rung, &mut trials));
        self.run.parts.append(&mut trials.parts);
        let tried = made.and_then(|candidate| match (candidate.stream(), self.lab.device().cuda()) {
            (_, Some(device)) if device.is_emulated() => self.try_in_emulator(device, rung, problem, &*candidate),
            (Some(_), Some(device)) => self.try_on_gpu(device, rung, problem, candidate, limit_s),
            (Some(_), None) => Err(warpbook_device::Error::NeedsCuda("This rung").into()),
            (None, _) => self.try_by_host(rung, problem, &*candidate),
        });
        tried.unwrap_or_else(|error| Attempted::row(self.failed(rung, problem, &error)))
    }

    fn try_on_gpu<'p>(
        &mut self,
        device: &CudaDevice,
        rung: &Rung,
        problem: &Problem,
        candidate: Box<dyn Candidate + 'p>,
        limit_s: Option<f64>,
    ) -> Result<Attempted<'p>> {
        // The check comes first, since a wrong rung is not worth timing.
        let first = run_checked(&*candidate, limit_s)?;
        if !first.passed() {
            return Ok(Attempted::row(self.finish(rung, problem, &*candidate, first, Samples::default())));
        }
        if !candidate.timed_alone() {
            return Ok(Attempted::Waits(candidate, first));
        }
        let samples = time_alone(self.lab, device, self.lab.bench(), &*candidate)?;
        Ok(Attempted::row(self.finish(rung, problem, &*candidate, first, samples)))
    }

    /// Runs a rung once with all of the emulator's checks; its row has no times.
    fn try_in_emulator<'p>(
        &mut self,
        device: &CudaDevice,
        rung: &Rung,
        problem: &Problem,
        candidate: &dyn Candidate,
    ) -> Result<Attempted<'p>> {
        candidate.reset()?;
        let ((), counted) = device.checked(|| candidate.launch())?;
        let found = candidate.check()?;
        let mut row = self.row(rung, problem, candidate, found.clone(), found, Samples::default());
        if row.outcome == Outcome::Measured {
            row.outcome = Outcome::Skipped { why: Emulated::NO_TIME.into() };
        }
        row.emulated = Some(Box::new(counted));
        Ok(Attempted::row(row))
    }

    fn try_by_host<'p>(&mut self, rung: &Rung, problem: &Problem, candidate: &dyn Candidate) -> Result<Attempted<'p>> {
        // The first repetition is checked before the rest are timed; a long run is not repeated for its check.
        let mut first = None;
        let mut reset = || candidate.reset();
        let setup: Option<&mut dyn FnMut() -> warpbook_device::Result<()>> =
            if candidate.resets_each_run() { Some(&mut reset) } else { None };
        let samples = self.lab.bench().cpu_checked(
            setup,
            || candidate.launch(),
            || {
                let found = candidate.check();
                let right = found.as_ref().is_ok_and(Checked::passed);
                first = Some(found);
                right
            },
        )?;
        let first = first.unwrap_or_else(|| candidate.check())?;
        let last = candidate.check()?;
        Ok(Attempted::row(self.row(rung, problem, candidate, first, last, samples)))
    }

    /// Times the waiting rungs: those close to the fastest in turn, the others one by one.
    fn time_in_turn(&mut self, waiting: &mut [Waiting<'_>], problem: &Problem) {
        let Some(device) = self.lab.device().cuda().filter(|_| !waiting.is_empty() && !self.cancelled()) else {
            return;
        };
        if let Err(error) = time_waiting(self.lab, device, waiting)
            && !error.is_cancelled()
        {
            let last = waiting.last().map_or(String::new(), |w| self.run.rungs[w.place].id.to_string());
            self.note_loss(&error, &last);
            self.run.notes.push(format!("{}: timing ended early: {error}", problem.label));
        }
        self.in_turn |= waiting.len() > 1;
    }

    /// Returns the row of a rung that ran on a GPU, after its result is compared with the reference again.
    fn finish(
        &mut self,
        rung: &Rung,
        problem: &Problem,
        candidate: &dyn Candidate,
        first: Checked,
        samples: Samples,
    ) -> Measurement {
        if first.passed() && samples.us.is_empty() {
            let why = self.lost.clone().unwrap_or_else(|| "interrupted before it was timed".into());
            return Measurement::without_samples(&*rung.id, problem.clone(), Outcome::Skipped { why });
        }
        let last = if first.passed() { run_checked(candidate, None) } else { Ok(first.clone()) };
        match last {
            Ok(last) => self.row(rung, problem, candidate, first, last, samples),
            Err(error) => self.failed(rung, problem, &error),
        }
    }

    fn row(
        &mut self,
        rung: &Rung,
        problem: &Problem,
        candidate: &dyn Candidate,
        first: Checked,
        last: Checked,
        samples: Samples,
    ) -> Measurement {
        let outcome = match first.failure().or_else(|| last.failure()) {
            Some(error) => Outcome::Failed { error },
            None => Outcome::Measured,
        };
        let mut details = candidate.details();
        // Drop test results of runs before the first sample.
        details.test.drain(..details.test.len().saturating_sub(samples.us.len()));
        let mut m = Measurement {
            tile: details.tile,
            kernels: details.kernels,
            choice: details.choice,
            chosen: details.chosen,
            traffic: details.traffic,
            flops: details.flops,
            dtype: details.dtype,
            peak_bytes: details.peak_bytes,
            gpus: details.gpus,
            test: details.test,
            ..Measurement::without_samples(&*rung.id, problem.clone(), outcome)
        };
        m.check = Some(first.check.worse(last.check));
        m.set_samples(samples.us, samples.wall_us);
        self.run.train_logs.extend(last.log);
        m
    }

    /// Returns the row of a rung that failed.
    fn failed(&mut self, rung: &Rung, problem: &Problem, error: &Error) -> Measurement {
        use warpbook_device::{Error as D, Library};
        let found = match error {
            Error::Device(D::Fault { fault, .. }) => Some(Box::new(emulated::of_fault(fault))),
            _ => None,
        };
        let outcome = match error {
            Error::Device(D::Cancelled) => Outcome::Skipped { why: "interrupted".into() },
            Error::Device(
                e @ (D::Library { which: Library::Cublas | Library::Cudnn | Library::Nccl, fault: None, .. }
                | D::Unsupported { .. }
                | D::NotEmulated(_)),
            ) => Outcome::Skipped { why: e.to_string() },
            _ => {
                self.note_loss(error, &rung.id);
                Outcome::Failed { error: self.sentence(rung, error) }
            }
        };
        Measurement { emulated: found, ..Measurement::without_samples(&*rung.id, problem.clone(), outcome) }
    }

    /// Describes the error of a rung for its row. If a learner's kernel failed in a separate process, everything else
    /// remains usable.
    fn sentence(&self, rung: &Rung, error: &Error) -> String {
        let alone = rung.variant_of.is_some() && self.lab.is_isolated();
        match error {
            Error::Device(warpbook_device::Error::StillRunning { limit_s, .. }) if alone => format!(
                "The kernel was still running after {limit_s} s and was stopped. The cause may be an endless loop, or a barrier that not all threads reach. It ran in a separate process, so nothing else was lost."
            ),
            Error::Device(
                warpbook_device::Error::Launch { why, sticky: true, .. }
                | warpbook_device::Error::Graph { why, sticky: true, .. },
            ) if alone => format!(
                "The kernel failed: {why}. Most often it reads or writes outside of its arrays: look at its guards and at how it \
                 computes addresses. It ran in a separate process, so nothing else was lost."
            ),
            _ => error.to_string(),
        }
    }

    /// Remembers an error that makes the GPU unusable.
    fn note_loss(&mut self, error: &Error, who: &str) {
        if let Error::Device(e) = error
            && e.is_sticky()
        {
            self.lost.get_or_insert_with(|| format!("not run: {who} had failed and ended the CUDA context"));
        }
    }
}

/// The outcome of a rung's first run.
enum Attempted<'p> {
    Row(Box<Measurement>),
    Waits(Box<dyn Candidate + 'p>, Checked),
}

impl Attempted<'_> {
    fn row(m: Measurement) -> Self {
        Self::Row(Box::new(m))
    }
}

impl Rows {
    /// Moves complete rows into the record, in the ladder's order.
    fn tell(&mut self, lab: &Lab, run: &mut Run) {
        while let Some(row) = self.rows.get_mut(self.told).and_then(Option::take) {
            self.told += 1;
            run.measurements.push(row);
            if let Some(measurement) = run.measurements.last() {
                lab.tell(&Event::Finished { measurement, run });
            }
        }
    }
}

/// Runs a candidate once and checks it; `limit_s` is a time limit in seconds for kernels that may loop forever.
///
/// # Errors
/// If the device reports an error, or the time limit is exceeded.
pub fn run_checked(candidate: &dyn Candidate, limit_s: Option<f64>) -> Result<Checked> {
    candidate.reset()?;
    candidate.launch()?;
    if let (Some(limit_s), Some(stream)) = (limit_s, candidate.stream()) {
        stream.synchronize_within(limit_s)?;
    }
    candidate.check()
}

fn stream_of(candidate: &dyn Candidate) -> Result<&Stream> {
    candidate.stream().ok_or_else(|| warpbook_device::Error::NeedsCuda("This rung").into())
}

/// Times one candidate alone.
///
/// # Errors
/// If the device reports an error.
pub fn time_alone(lab: &Lab, device: &CudaDevice, bench: &Bench, candidate: &dyn Candidate) -> Result<Samples> {
    let mut reset = || candidate.reset();
    let setup: Option<&mut dyn FnMut() -> warpbook_device::Result<()>> =
        if candidate.resets_each_run() { Some(&mut reset) } else { None };
    Ok(bench.cuda(device, stream_of(candidate)?, Some(lab.watch()), setup, || candidate.launch())?)
}

fn time_waiting(lab: &Lab, device: &CudaDevice, waiting: &mut [Waiting<'_>]) -> Result<()> {
    let first_look = Bench { warmup: 1, samples: 1, ..lab.bench().clone() };
    let mut looks = Vec::new();
    for w in &*waiting {
        let stream = stream_of(&*w.candidate)?;
        looks.push(first_look.cuda(device, stream, None, None, || w.candidate.launch())?.median_us());
    }
    let fastest = looks.iter().copied().fold(f64::INFINITY, f64::min);
    // Events on this stream would not time work that is queued on another stream.
    let stream = stream_of(&*waiting[0].candidate)?;
    let same_stream = |w: &Waiting<'_>| w.candidate.stream().is_some_and(|s| std::ptr::eq(s, stream));
    let close: Vec<bool> =
        waiting.iter().zip(&looks).map(|(w, us)| *us <= IN_TURN_WITHIN * fastest && same_stream(w)).collect();
    let together: Vec<&dyn Candidate> =
        waiting.iter().zip(&close).filter(|(_, close)| **close).map(|(w, _)| &*w.candidate).collect();
    let mut samples = in_turn(lab, device, lab.bench(), &together, true)?.into_iter();
    for (w, (us, close)) in waiting.iter_mut().zip(looks.iter().zip(&close)) {
        w.samples = if *close {
            samples.next().unwrap_or_default()
        } else {
            // A rung whose run takes a large part of the time budget was already warmed up by its check.
            let slow = us * 1e-6 > lab.bench().budget_s / 4.0;
            let bench = if slow { Bench { warmup: 1, samples: 3, ..lab.bench().clone() } } else { lab.bench().clone() };
            time_alone(lab, device, &bench, &*w.candidate)?
        };
    }
    Ok(())
}

/// Times candidates in turn on the stream of the first. It fails if that has none, the device fails, or the run is cancelled.
pub fn in_turn(
    lab: &Lab,
    device: &CudaDevice,
    bench: &Bench,
    candidates: &[&dyn Candidate],
    watched: bool,
) -> Result<Vec<Samples>> {
    let Some(first) = candidates.first() else { return Ok(Vec::new()) };
    let regions: Vec<Box<dyn Fn() -> warpbook_device::Result<()> + '_>> =
        candidates.iter().map(|c| Box::new(|| c.launch()) as _).collect();
    let regions: Vec<&dyn Fn() -> warpbook_device::Result<()>> = regions.iter().map(|r| &**r).collect();
    Ok(bench.cuda_in_turn(device, stream_of(*first)?, watched.then(|| lab.watch()), &regions)?)
}

/// Implements [`Trials::fastest`]. It fails if there is no GPU, the device fails, or the run is cancelled.
pub fn fastest(lab: &Lab, variants: &[&dyn Candidate]) -> Result<(Option<usize>, Vec<Samples>)> {
    let Some(device) = lab.device().cuda() else { return Err(warpbook_device::Error::NeedsCuda("A trial").into()) };
    let bench = lab.bench();
    let trial = Bench { warmup: 1, samples: 5.min(bench.samples), budget_s: 0.1, ..bench.clone() };
    let mut times = match variants {
        [] => return Ok((None, Vec::new())),
        [_] => return Ok((Some(0), Vec::new())),
        // The emulator measures no times, so the first variant is chosen.
        _ if device.is_emulated() => return Ok((Some(0), Vec::new())),
        _ => in_turn(lab, device, &trial, variants, false)?,
    };
    let mut order: Vec<usize> = (0..variants.len()).collect();
    order.sort_by(|a, b| times[*a].median_us().total_cmp(&times[*b].median_us()));
    let limit = times[order[0]].median_us() * SECOND_LOOK_WITHIN;
    order.retain(|i| times[*i].median_us() <= limit);
    order.truncate(SECOND_LOOK_AT);
    if order.len() == 1 {
        return Ok((order.first().copied(), times));
    }
    let longer = Bench { samples: 4 * trial.samples, budget_s: 2.0 * trial.budget_s, ..trial };
    let close: Vec<&dyn Candidate> = order.iter().map(|i| variants[*i]).collect();
    let again = in_turn(lab, device, &longer, &close, false)?;
    order.iter().zip(again).for_each(|(i, samples)| times[*i] = samples);
    let best = order.into_iter().min_by(|a, b| times[*a].median_us().total_cmp(&times[*b].median_us()));
    Ok((best, times))
}
