//! The command `warpbook run`.

use super::progress::Progress;
use crate::args::{Chosen, RunArgs};
use crate::failure::{Failure, INTERRUPTED, RUNG_FAILED, USAGE};
use crate::files::{Files, Kind, RecordWriter, exit_now, print_written, reserve, trace_of};
use crate::output::{one_line, say, warn};
use crate::signals::{EndRequest, on_request_to_end};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use warpbook::device::{Bench, Cancel};
use warpbook::profile::{HardwareCounters, Profile};
use warpbook::settings::Preset;
use warpbook::{Event, Experiment, Lab, experiments, figures, write_record};
use warpbook_record::{Outcome, Run, TrainLog};

/// Runs an experiment with its settings, or the quick suite of all experiments.
pub fn start(args: &RunArgs, chosen: Option<Chosen>) -> Result<ExitCode, Failure> {
    match chosen {
        Some(Chosen { name, experiments, quick, run: options }) => {
            let bench = options.timing.bench(quick).map_err(Failure::usage)?;
            let lab = || -> Result<Lab, Failure> {
                let lab = Lab::on(options.device.choice()?)?.with_bench(bench.clone());
                Ok(match &options.author {
                    Some(author) => lab.with_author(author),
                    None => lab,
                })
            };
            let is_several = experiments.len() > 1;
            if let (Some(out), true) = (&options.out, is_several) {
                return Err(Failure::usage(format!(
                    "`{}` alone is {} experiments, each with a record, which one file {} cannot hold. Name one of them, or leave out --out.",
                    name,
                    experiments.len(),
                    out.display()
                )));
            }
            if let (Some(file), true) = (&options.profile, is_several) {
                return Err(Failure::usage(format!(
                    "`{}` alone is {} experiments, whose profiles one file {} cannot hold. Name one of them.",
                    name,
                    experiments.len(),
                    file.display()
                )));
            }
            let mut files = Files::default();
            let out = files.optional("--out", options.out.as_deref(), Kind::Record)?;
            let profile = files.profile(options.profile.as_deref())?;
            let more = More { losses: options.losses, counters: options.counters, profile };
            let interrupt = Interrupt::listen();
            let mut worst = 0;
            for experiment in experiments {
                let path = match &out {
                    Some(path) => path.clone(),
                    None => free_record("", &experiment.plan(None)?.name)?,
                };
                worst = worst.max(run(&*experiment, lab()?, &path, &interrupt, &more)?);
                if interrupt.cancelled() {
                    break;
                }
            }
            Ok(ExitCode::from(worst))
        }
        None if args.quick => suite(args),
        None => {
            let names: Vec<String> = experiments().iter().map(|e| format!("`warpbook run {}`", e.name)).collect();
            Err(Failure::usage(format!(
                "Name an experiment, as in {}, or run the quick form of all with `warpbook run --quick`.",
                names.join(" or ")
            )))
        }
    }
}

/// Runs the quick form of every experiment and writes one record each, named after the experiment.
fn suite(args: &RunArgs) -> Result<ExitCode, Failure> {
    let folder = &args.out;
    std::fs::create_dir_all(folder).map_err(|e| {
        Failure::usage(format!("The folder {} cannot be made: {e}. Choose another --out.", folder.display()))
    })?;
    let interrupt = Interrupt::listen();
    let mut worst = 0;
    let mut all = Vec::new();
    for entry in experiments() {
        all.extend(entry.make_each(Preset::Quick, &[])?);
    }
    let open = || Ok::<_, Failure>(Lab::on(args.device.choice()?)?.with_bench(Bench::quick()));
    let first = open()?;
    for experiment in all {
        let path = free_record(folder, &experiment.plan(None)?.name)?;
        let lab = open()?.with_ceilings_of(&first);
        worst = worst.max(run(&*experiment, lab, &path, &interrupt, &More::default())?);
        if interrupt.cancelled() {
            break;
        }
    }
    Ok(ExitCode::from(worst))
}

/// Reserves the first free name among `name.json`, `name-2.json` and so on.
fn free_record(folder: impl AsRef<Path>, name: &str) -> Result<PathBuf, Failure> {
    reserve(folder.as_ref(), name, ["json"]).map(|[path]| path)
}

/// Output that is requested in addition to the record.
#[derive(Default)]
struct More {
    /// True to print every logged loss.
    losses: bool,
    /// True to add hardware counters to the record.
    counters: bool,
    /// The file for a profile.
    profile: Option<PathBuf>,
}

/// Runs one experiment and writes its record; returns the exit code.
fn run(experiment: &dyn Experiment, lab: Lab, path: &Path, interrupt: &Interrupt, more: &More) -> Result<u8, Failure> {
    let progress = Progress::new();
    let keeper = Arc::new(Mutex::new(RecordWriter::new(path.to_owned())));
    let device = one_line(&lab.device().info().name);
    let lab = lab.with_listener({
        let (progress, keeper) = (progress.clone(), keeper.clone());
        move |event| {
            if let Event::Planned { run, .. } = event {
                progress.line(&format!("{} on {device}", run.experiment));
            }
            progress.show(event);
            if let Event::Finished { run, .. } = event {
                let warning = keeper.lock().unwrap_or_else(PoisonError::into_inner).keep(run);
                if let Some(warning) = warning {
                    progress.warn(&warning);
                }
            }
        }
    });
    interrupt.watch(lab.cancel(), progress.clone());
    let outcome = lab.run(experiment);
    let mut record = match outcome {
        Ok(record) => record,
        Err(why) => {
            progress.end();
            return Err(why.into());
        }
    };
    if more.counters && !interrupt.cancelled() {
        match lab.count_rungs(experiment, &record) {
            Ok((found, notes)) => {
                record.profiled.extend(found);
                record.notes.extend(notes);
            }
            // A record with missing parts is still valuable.
            Err(why) => record.notes.push(why.to_string()),
        }
    }
    let profile = more.profile.as_deref().filter(|_| !interrupt.cancelled());
    let profile = profile.map(|file| (file, lab.profile_rungs(experiment, &record)));
    progress.end();
    let written = keeper.lock().unwrap_or_else(PoisonError::into_inner).finish(&record);
    say(&summary(&record));
    for line in trainings(&record, more.losses) {
        say(&line);
    }
    for counted in record.profiled.iter().filter(|p| !p.counters.is_empty()) {
        let (source, kernels, notes) = (counted.source.clone(), counted.counters.clone(), Vec::new());
        say(&format!(
            "\n{}, {}\n{}",
            counted.rung,
            counted.problem.label,
            HardwareCounters { source, kernels, notes }.text()
        ));
    }
    let unprofiled = match profile {
        Some((file, Ok(profile))) => keep_profile(&lab, &profile, file)?,
        Some((_, Err(why))) => Some(why.to_string()),
        None => None,
    };
    if let Some(why) = &unprofiled {
        warn(&format!("There is no profile: {why}"));
    }
    let (_, _, failed) = record.counts();
    print_written(&written);
    Ok(match () {
        () if interrupt.cancelled() => INTERRUPTED,
        () if written.is_err() => USAGE,
        () if failed > 0 => RUNG_FAILED,
        () => 0,
    })
}

/// Prints a profile of rungs and writes its record and its trace. If there is no profile, returns the reason.
fn keep_profile(lab: &Lab, profile: &Profile, file: &Path) -> Result<Option<String>, Failure> {
    let Some(whole) = profile.whole() else { return Ok(Some("no rung has a valid figure".into())) };
    say(&whole.text());
    for cycle in &profile.cycles {
        let (Some(range), Some(overhead)) = (cycle.ranges.first(), cycle.overhead) else { continue };
        say(&match overhead.ratio() {
            Some(cost) => format!("{}: recorded runs took {} the time of others.", range.name, figures::times(cost)),
            None => format!("{}: the cost of recording is not measurable.", range.name),
        });
    }
    let trace = trace_of(file);
    write_record(&profile.record(lab), file)?;
    profile.save_trace(&trace)?;
    say(&format!("Profile: {}, and as a trace for ui.perfetto.dev {}", file.display(), trace.display()));
    Ok(None)
}

/// Summarises the results in a few lines.
fn summary(run: &Run) -> String {
    let mut lines = vec![String::new()];
    for problem in run.problems() {
        let ladder = run.ladder(problem);
        let (Some(best), Some(baseline)) = (run.fastest(problem), run.baseline(problem)) else { continue };
        let time = best.median_us().map(figures::time).unwrap_or_default();
        let row = ladder.iter().find(|r| r.measurement.rung == best.rung);
        let against = match row.and_then(|r| r.speed_up) {
            Some(s) if best.rung != baseline.rung => format!(", {} as fast as {}", figures::times(s), baseline.rung),
            _ => String::new(),
        };
        let reached = row.and_then(|r| r.fraction_of_bound);
        let reached = reached.map(|f| format!(", {} of bound", figures::percent(f))).unwrap_or_default();
        lines.push(format!("{}: {} is the fastest with {time}{against}{reached}.", problem.label, best.rung));
    }
    let apart: Vec<&str> = run.rungs.iter().map(|r| &*r.id).filter(|id| does_less(run, id)).collect();
    if !apart.is_empty() {
        lines.push(format!("Not ranked, as it reaches the result with less work: {}.", apart.join(", ")));
    }
    let (measured, skipped, failed) = run.counts();
    lines.push(format!("{measured} measured, {skipped} skipped, {failed} failed."));
    // Each reason is printed only once, since without a GPU every GPU rung is skipped for the same reason.
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for m in &run.measurements {
        if let Outcome::Skipped { why } = &m.outcome {
            *reasons.entry(one_line(why)).or_default() += 1;
        }
    }
    lines.extend(reasons.iter().map(|(why, n)| format!("  skipped {n}: {why}")));
    if run.environment.debug_assertions && measured > 0 {
        lines.push("  This build has debug assertions on: CPU figures are lower than a release build's.".into());
    }
    lines.extend(run.notes.iter().map(|n| format!("  note: {}", one_line(n))));
    lines.join("\n")
}

/// Lists the results of trainings, with one line for the parameters and losses of each. If `losses` is set, all logged
/// losses follow.
fn trainings(run: &Run, losses: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for log in &run.train_logs {
        lines.push(training(log));
        let point = |p: &warpbook_record::LossPoint| match p.step {
            Some(step) => format!("    epoch {:>6}  step {step:>8}  loss {}", p.epoch, p.loss),
            None => format!("    epoch {:>6}  loss {}", p.epoch, p.loss),
        };
        lines.extend(log.losses.iter().filter(|_| losses).map(point));
    }
    lines
}

fn training(log: &TrainLog) -> String {
    /// Maximum number of parameters to print; the record has all of them.
    const PARAMETERS: usize = 4;
    let mut parameters: Vec<String> =
        log.parameters.iter().take(PARAMETERS).map(|(name, v)| format!("{} = {v:.6}", one_line(name))).collect();
    if log.parameters.len() > PARAMETERS {
        parameters.push(format!("and {} more", log.parameters.len() - PARAMETERS));
    }
    let parameters = if parameters.is_empty() { String::new() } else { parameters.join(", ") + "; " };
    // The test loss is NaN without test points, or after a divergence.
    let tested = !log.test_loss.is_nan() || log.diverged();
    let test = if tested { format!(", test loss {:.6}", log.test_loss) } else { String::new() };
    let (rung, work) = (one_line(&log.rung), one_line(&log.problem.label));
    format!("  {rung} at {work}: {parameters}train loss {:.6}{test}", log.train_loss)
}

fn does_less(run: &Run, id: &str) -> bool {
    run.measurements.iter().any(|m| m.rung == id && m.is_valid() && m.does_less())
}

/// Handles requests to end. A first Ctrl-C ends the run cleanly, and a second Ctrl-C ends it at once. SIGTERM and
/// SIGHUP end it cleanly.
struct Interrupt {
    pressed: Arc<AtomicBool>,
    /// The run that the first request stops.
    target: Arc<Mutex<Option<(Cancel, Progress)>>>,
}

impl Interrupt {
    fn listen() -> Self {
        let this = Self { pressed: Arc::default(), target: Arc::default() };
        let (pressed, target) = (this.pressed.clone(), this.target.clone());
        let handler = move |asked| {
            if pressed.swap(true, Ordering::SeqCst) {
                if asked == EndRequest::ByHand {
                    // The record of the finished measurements is already on the disk.
                    exit_now(INTERRUPTED);
                }
                return;
            }
            // If there is no run to stop cleanly yet, or the lock is taken, the next request ends the program.
            if let Ok(target) = target.lock()
                && let Some((cancel, progress)) = &*target
            {
                cancel.cancel();
                progress.warn(match asked {
                    EndRequest::ByHand => "Finishing the sample under way; press Ctrl-C again to stop at once.",
                    EndRequest::BySystem => "The run was asked to end: it ends after the sample under way.",
                });
            }
        };
        on_request_to_end("warning: Ctrl-C will end the run at once", handler);
        this
    }

    fn watch(&self, cancel: Cancel, progress: Progress) {
        if self.cancelled() {
            cancel.cancel();
        }
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = Some((cancel, progress));
    }

    fn cancelled(&self) -> bool {
        self.pressed.load(Ordering::SeqCst)
    }
}
