//! `warpbook run`.

use crate::args::{ExperimentCommand, RunArgs};
use crate::failure::{Failure, INTERRUPTED, RUNG_FAILED, USAGE};
use crate::output::{complain, one_line, say};
use crate::progress::Progress;
use crate::save::{Keeper, check_writable, choose};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use warpbook::device::{Bench, Cancel, Choice};
use warpbook::{Event, Experiment, Lab, Matmul, Regression, figures};
use warpbook_record::{Outcome, Run};

/// One experiment with its settings, or the quick suite.
pub fn start(args: &RunArgs) -> Result<ExitCode, Failure> {
    match &args.experiment {
        Some(ExperimentCommand::Regression(r)) => {
            let bench = r.bench().map_err(Failure::usage)?;
            let path = choose(r.out.as_deref(), "regression");
            let interrupt = Interrupt::listen();
            run(&r.experiment(), r.device.choice()?, &bench, &path, &interrupt).map(ExitCode::from)
        }
        Some(ExperimentCommand::Matmul(m)) => {
            let bench = m.bench().map_err(Failure::usage)?;
            let path = choose(m.out.as_deref(), "matmul");
            let interrupt = Interrupt::listen();
            run(&m.experiment(), m.device.choice()?, &bench, &path, &interrupt).map(ExitCode::from)
        }
        None if args.quick => suite(args),
        None => Err(Failure::usage(
            "Name an experiment, as in `warpbook run regression`, or run the quick form of all with `warpbook run --quick`.",
        )),
    }
}

/// The quick form of every experiment, each into a record of its own.
fn suite(args: &RunArgs) -> Result<ExitCode, Failure> {
    let folder = &args.out;
    std::fs::create_dir_all(folder).map_err(|e| {
        Failure::usage(format!("The folder {} cannot be made: {e}. Choose another --out.", folder.display()))
    })?;
    let interrupt = Interrupt::listen();
    let mut worst = 0;
    for (name, quick) in SUITE {
        let path = folder.join(format!("{name}.json"));
        worst = worst.max(quick(args.device.choice()?, &path, &interrupt)?);
        if interrupt.cancelled() {
            break;
        }
    }
    Ok(ExitCode::from(worst))
}

type Quick = fn(Choice, &Path, &Interrupt) -> Result<u8, Failure>;

/// The quick form of each experiment, by the name of its record.
const SUITE: &[(&str, Quick)] = &[
    ("regression", |device, path, interrupt| run(&Regression::quick(), device, &Bench::quick(), path, interrupt)),
    ("matmul", |device, path, interrupt| run(&Matmul::quick(), device, &Bench::quick(), path, interrupt)),
];

/// Runs one experiment and writes its record; gives the exit code.
fn run(
    experiment: &impl Experiment,
    device: Choice,
    bench: &Bench,
    path: &Path,
    interrupt: &Interrupt,
) -> Result<u8, Failure> {
    let path = check_writable(path)?;
    let progress = Progress::new();
    let keeper = Arc::new(Mutex::new(Keeper::new(path.clone())));
    let rungs = experiment.rungs();
    let lab = Lab::on(device)?.with_bench(bench.clone());
    let heading = format!("{} on {}", experiment.name(), one_line(&lab.device().info().name));
    let lab = lab.with_listener({
        let (progress, keeper) = (progress.clone(), keeper.clone());
        move |event| {
            if let Event::Planned { .. } = event {
                progress.line(&heading);
            }
            progress.show(event, &rungs);
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
    progress.end();
    let record = outcome?;
    let written = keeper.lock().unwrap_or_else(PoisonError::into_inner).finish(&record);
    say(&summary(&record));
    let (_, _, failed) = record.counts();
    match &written {
        Ok(path) => {
            let path = path.display();
            say(&format!("Record: {path}\nView it with: warpbook view {path}"));
        }
        Err(why) => complain(why),
    }
    Ok(match () {
        () if interrupt.cancelled() => INTERRUPTED,
        () if written.is_err() => USAGE,
        () if failed > 0 => RUNG_FAILED,
        () => 0,
    })
}

/// What came out, in a few lines.
fn summary(run: &Run) -> String {
    let mut lines = vec![String::new()];
    for problem in run.problems() {
        let ladder = run.ladder(problem);
        let baseline = ladder.iter().find(|r| r.measurement.is_valid()).map(|r| r.measurement);
        let (Some(best), Some(baseline)) = (run.best(problem), baseline) else { continue };
        let time = best.median_us().map(figures::time).unwrap_or_default();
        let row = ladder.iter().find(|r| r.measurement.rung == best.rung);
        let against = match row.and_then(|r| r.speed_up) {
            Some(s) if best.rung != baseline.rung => format!(", {} {}", figures::times(s), baseline.rung),
            _ => String::new(),
        };
        let reached = row.and_then(|r| r.fraction_of_ceiling);
        let reached = reached.map(|f| format!(", {} of the measured ceiling", figures::percent(f))).unwrap_or_default();
        lines.push(format!("{}: {} is the fastest with {time}{against}{reached}.", problem.label(), best.rung));
    }
    let apart: Vec<&str> = run.rungs.iter().map(|r| &*r.id).filter(|id| does_less(run, id)).collect();
    if !apart.is_empty() {
        lines.push(format!("Apart, as it comes to the result with less work: {}.", apart.join(", ")));
    }
    let (measured, skipped, failed) = run.counts();
    lines.push(format!("{measured} measured, {skipped} skipped, {failed} failed."));
    // Said once each: without a GPU, every GPU rung is skipped for the same reason.
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

fn does_less(run: &Run, id: &str) -> bool {
    run.measurements.iter().any(|m| m.rung == id && m.is_valid() && m.does_less())
}

/// Ctrl-C: once to end well, twice to end.
struct Interrupt {
    pressed: Arc<AtomicBool>,
    /// What the first press stops.
    target: Arc<Mutex<Option<(Cancel, Progress)>>>,
}

impl Interrupt {
    fn listen() -> Self {
        let this = Self { pressed: Arc::default(), target: Arc::default() };
        let (pressed, target) = (this.pressed.clone(), this.target.clone());
        let handler = move || {
            if pressed.swap(true, Ordering::SeqCst) {
                // The record so far is on the disk already.
                std::process::exit(i32::from(INTERRUPTED));
            }
            // Nothing to end well yet, or somebody holds it: then the next press ends all.
            if let Ok(target) = target.lock()
                && let Some((cancel, progress)) = &*target
            {
                cancel.cancel();
                progress.warn("Finishing the sample under way; press Ctrl-C again to stop at once.");
            }
        };
        if let Err(why) = ctrlc::set_handler(handler) {
            complain(&format!("warning: Ctrl-C will end the run at once: {why}"));
        }
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
