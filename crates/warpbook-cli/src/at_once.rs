//! `warpbook train` of recipes whose time counts: a whole training at once, for one seed or several.

use crate::args::TrainArgs;
use crate::cold::{self, right_of};
use crate::failure::{Failure, INTERRUPTED, RUNG_FAILED, USAGE};
use crate::infer::failure;
use crate::output::{complain, say};
use crate::recipe::SPEEDRUN;
use crate::save::{Keeper, exit_now};
use crate::signals::on_request_to_end;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use warpbook::data::Splits;
use warpbook::nn::train::{AtOnce, Place, Recipe, Trainer};
use warpbook::{Lab, Timed, WholeTraining, WholeTrainings, figures};
use warpbook_record::stats;

/// The seed that chooses the training images which are held out.
const HELD_OUT: u64 = 1;

/// Whether the command line asks for it.
pub fn is_asked(args: &TrainArgs) -> bool {
    let said = args.seeds.is_some() || args.hold_out.is_some();
    // Of several processes --out is the record of all, which none of them keeps.
    let kept = watched(args).is_some() || args.out.is_some() && args.cold.is_none();
    said || args.recipe == SPEEDRUN && !kept
}

/// An option that belongs to a training that can be watched, resumed and kept.
fn watched(args: &TrainArgs) -> Option<&'static str> {
    let options = [
        ("init", args.init.is_some()),
        ("resume", args.resume.is_some()),
        ("checkpoint", args.checkpoint.is_some()),
        ("time-budget", args.time_budget.is_some()),
        ("rung", args.rung.is_some()),
    ];
    options.into_iter().find(|(_, is_said)| *is_said).map(|(name, _)| name)
}

/// The last of so many seeds.
pub fn last_seed(option: &str, first: u64, count: u64) -> Result<u64, Failure> {
    let more = count.saturating_sub(1);
    first.checked_add(more).ok_or_else(|| {
        Failure::usage(format!(
            "--{option} {count}: there are not so many seeds from {first} on. Choose a --seed of at most {}.",
            u64::MAX - more
        ))
    })
}

/// The accuracy in percent that is asked for, if it is one; nothing but whole trainings is held against it.
pub fn target(args: &TrainArgs) -> Result<Option<f64>, Failure> {
    let is_whole = args.cold.is_some() || is_asked(args);
    let options = [("to", args.to.is_some()), ("data-note", args.data_note.is_some())];
    if let Some((name, _)) = options.into_iter().find(|(_, is_said)| *is_said && !is_whole) {
        return Err(Failure::usage(format!(
            "--{name} is for the record of whole trainings: add --seeds N, or --cold N for whole processes."
        )));
    }
    match args.to {
        Some(to) if !(to > 0.0 && to <= 100.0) => {
            Err(Failure::usage(format!("--to {to}: choose a percentage above 0, up to 100, such as 99.")))
        }
        to => Ok(to),
    }
}

/// Trains from each seed, says time and accuracy of each, and their means, and keeps them in a record if one is asked for.
pub fn train(
    args: &TrainArgs,
    lab: &Lab,
    place: &Place,
    (recipe, splits): (&Recipe, &Splits),
    mut out: Option<Keeper>,
) -> Result<ExitCode, Failure> {
    if let Some(name) = watched(args) {
        return Err(Failure::usage(format!(
            "--{name} is for a training that can be watched and kept: leave out --seeds and --hold-out, or --{name}."
        )));
    }
    let (train, test) = match args.hold_out {
        None => (splits.train.clone(), splits.test.clone()),
        Some(count) => splits.train.split(count, HELD_OUT).map_err(|e| Failure::usage(e.to_string()))?,
    };
    let count = args.seeds.unwrap_or(1);
    let last = last_seed("seeds", recipe.seed, count)?;
    let mut whole = WholeTraining {
        recipe,
        place,
        train: (&train).into(),
        test: (&test).into(),
        held_out: args.hold_out.is_some(),
        data_note: args.data_note.as_deref(),
        timed: Timed::AtOnce,
        target: target(args)?,
        trainings: count,
        command: args.command(&lab.device().info().selector()),
    };
    say(&format!(
        "{} training images, {} {}, {} in batches of {}, on {place}",
        train.len(),
        test.len(),
        if args.hold_out.is_some() { "that are held out of them" } else { "test images" },
        figures::counted(recipe.total_steps(train.len()) as usize, "step"),
        recipe.batch,
    ));
    let once = |seed: u64| -> Result<AtOnce, Failure> {
        let mut trainer = Trainer::on(place, Recipe { seed, ..recipe.clone() }, &train, None).map_err(failure)?;
        trainer.prepare_at_once(&train, &test).map_err(failure)?;
        let made = trainer.train_at_once(&train, &test).map_err(failure)?;
        say(&format!(
            "seed {seed}: {:.3} s from images on the device to an accuracy of {:.2} % ({} of {}), last loss {:.4}",
            made.seconds,
            100.0 * made.test.accuracy(),
            made.test.correct,
            made.test.of,
            made.loss
        ));
        Ok(made)
    };
    if let Some(file) = &args.cold_result {
        let made = once(recipe.seed)?;
        whole.trainings = args.cold.unwrap_or(1);
        cold::leave(args, lab, WholeTraining { timed: Timed::Process, ..whole }, right_of(&made.test), file)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut all = WholeTrainings::new(lab, &whole);
    let ended = end_between_seeds(count, args.out.is_some());
    for seed in recipe.seed..=last {
        let made = once(seed)?;
        ended.fetch_add(1, Ordering::Relaxed);
        all.push(made.seconds, right_of(&made.test));
        all.note_clocks(lab);
        keep(&all, out.as_mut());
    }
    Ok(conclude(&all, out))
}

/// Lets Ctrl-C and the system's requests end the program at once, and say what is kept; returns the counter of the seeds that have ended.
fn end_between_seeds(count: u64, is_kept: bool) -> Arc<AtomicU64> {
    let ended = Arc::new(AtomicU64::new(0));
    let counted = ended.clone();
    on_request_to_end("Ctrl-C ends at once", move |_| {
        let ended = counted.load(Ordering::Relaxed);
        let kept = if is_kept && ended > 0 { "; their times and accuracies are in the record" } else { "" };
        complain(&format!("Interrupted after {ended} of {count} seeds{kept}."));
        exit_now(INTERRUPTED);
    });
    ended
}

/// Writes the record so far, if one is asked for: what is done is kept, however the program ends.
pub fn keep(all: &WholeTrainings, out: Option<&mut Keeper>) {
    if let Some(warning) = out.and_then(|out| out.keep_now(all.record())) {
        complain(&warning);
    }
}

/// Says the means and where the record is; the exit code says whether the accuracy was reached.
pub fn conclude(all: &WholeTrainings, out: Option<Keeper>) -> ExitCode {
    let m = all.measurement();
    let seconds: Vec<f64> = m.samples_us.iter().map(|us| us * 1e-6).collect();
    if let (Some((time, time_deviation)), Some((accuracy, deviation)), true) =
        (stats::moments(&seconds), m.accuracy(), seconds.len() > 1)
    {
        say(&format!(
            "mean of {} seeds: {time:.3} s (standard deviation {time_deviation:.3}), {:.2} % ({:.2})",
            seconds.len(),
            100.0 * accuracy,
            100.0 * deviation
        ));
    }
    let written = out.map(|mut out| out.finish(all.record()));
    match &written {
        Some(Ok(path)) => say(&format!("Record: {path}\nView it with: warpbook view {path}", path = path.display())),
        Some(Err(why)) => complain(why),
        None => {}
    }
    match &m.check {
        Some(check) if !check.passed => {
            complain(&format!("This is not {}: it lacks {:.3} points.", check.reference, check.max_abs_error));
            ExitCode::from(RUNG_FAILED)
        }
        _ if written.is_some_and(|written| written.is_err()) => ExitCode::from(USAGE),
        _ => ExitCode::SUCCESS,
    }
}
