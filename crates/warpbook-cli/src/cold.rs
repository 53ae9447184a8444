//! `warpbook train --cold`: whole processes that train, each timed from its start to its end by the one that starts them.

use crate::args::TrainArgs;
use crate::at_once::{conclude, keep, last_seed, target};
use crate::failure::{Failure, INTERRUPTED, RUNG_FAILED};
use crate::infer::failure;
use crate::output::{complain, say};
use crate::ranks::this_program;
use crate::save::Keeper;
use crate::scaling::{Folder, interrupted};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::Ordering;
use std::time::Instant;
use warpbook::nn::train::{Ended, Score};
use warpbook::{Lab, Sets, Timed, TrainingRun, WholeTraining, WholeTrainings, read_record, write_record};
use warpbook_record::Right;

/// An option whose work is not that of a plain training, or whose file each process would write again.
fn not_plain(args: &TrainArgs) -> Option<&'static str> {
    let options = [
        ("resume", args.resume.is_some()),
        ("checkpoint", args.checkpoint.is_some()),
        ("profile", args.profile.is_some()),
        ("time-budget", args.time_budget.is_some()),
    ];
    options.into_iter().find(|(_, is_said)| *is_said).map(|(name, _)| name)
}

/// Refuses what whole processes cannot be told.
pub fn validate(args: &TrainArgs) -> Result<(), Failure> {
    match not_plain(args) {
        Some(name) => Err(Failure::usage(format!(
            "--{name} does not go with --cold, whose processes train from the beginning to the end and keep nothing: leave one of them out."
        ))),
        None => target(args).map(drop),
    }
}

/// Starts this program again for each seed, one after the other, and makes a record of their times and accuracies. It uses no GPU itself, which
/// would keep the driver awake.
pub fn launch(args: &TrainArgs, first_seed: u64, mut out: Option<Keeper>) -> Result<ExitCode, Failure> {
    validate(args)?;
    let (program, count) = (this_program()?, args.cold.unwrap_or(1));
    last_seed("cold", first_seed, count)?;
    let (folder, interrupted) = (Folder::new("cold")?, interrupted());
    let (result, record) = (folder.path().join("result.json"), folder.path().join("record.json"));
    let mut all: Option<WholeTrainings> = None;
    for number in 0..=count {
        let seed = first_seed + number.saturating_sub(1);
        let _ = fs::remove_file(&result);
        let mut command = Command::new(&program);
        command.args(std::env::args_os().skip(1)).arg("--cold-result").arg(&result);
        command.args(["--cold-seed", &seed.to_string()]).stdin(Stdio::null()).stdout(Stdio::null());
        if number == 0 {
            command.arg("--cold-record").arg(&record);
        }
        let started = Instant::now();
        let ended = command.status();
        let seconds = started.elapsed().as_secs_f64();
        if interrupted.load(Ordering::SeqCst) > 0 {
            let done = number.saturating_sub(1);
            let kept = if out.is_some() && done > 0 { ", which the record has" } else { "" };
            complain(&format!("Interrupted after {done} of {count} processes{kept}."));
            return Ok(ExitCode::from(INTERRUPTED));
        }
        let ended = ended.map_err(|e| Failure::usage(format!("{} cannot be started: {e}.", program.display())))?;
        let right = fs::read(&result).ok().and_then(|text| serde_json::from_slice::<Right>(&text).ok());
        let Some(right) = right.filter(|_| ended.success()) else {
            let code = ended.code().and_then(|code| u8::try_from(code).ok()).filter(|code| *code > 0);
            return Err(Failure {
                code: code.unwrap_or(RUNG_FAILED),
                sentence: format!(
                    "The process that trains from seed {seed} gave no result ({ended}); what it said is above."
                ),
            });
        };
        let told = format!("{seconds:.3} s from the start of the process to its end, accuracy {}", words(right));
        match &mut all {
            None => {
                say(&format!("not counted: {told}"));
                all = Some(WholeTrainings::of(read_record(&record)?, first_seed));
            }
            Some(all) => {
                say(&format!("seed {seed}: {told}"));
                all.push(seconds, right);
                keep(all, out.as_mut());
            }
        }
    }
    Ok(all.map_or(ExitCode::SUCCESS, |all| conclude(&all, out)))
}

/// What of a score a record keeps.
pub fn right_of(score: &Score) -> Right {
    Right { correct: score.correct as u64, of: score.of as u64 }
}

/// As "99.10 % (9910 of 10000)".
fn words(right: Right) -> String {
    format!("{:.2} % ({} of {})", 100.0 * right.accuracy().unwrap_or(f64::NAN), right.correct, right.of)
}

/// Leaves what a process of `--cold` came to, and in the one that is not counted the record that the others go on with.
pub fn leave(args: &TrainArgs, lab: &Lab, whole: WholeTraining<'_>, right: Right, file: &Path) -> Result<(), Failure> {
    if let Some(path) = &args.cold_record {
        write_record(WholeTrainings::new(lab, &whole).record(), path)?;
    }
    let refused = |why: String| Failure::usage(format!("{} cannot be written: {why}.", file.display()));
    let text = serde_json::to_vec(&right).map_err(|e| refused(e.to_string()))?;
    // Not through a temporary file and the disk: that is part of the time, and a file that is cut off is no result.
    fs::write(file, text).map_err(|e| refused(e.to_string()))
}

/// The same of a training that was watched, unless it ended early.
pub fn leave_watched(
    args: &TrainArgs,
    lab: &Lab,
    sets: Sets<'_>,
    run: &mut TrainingRun,
    file: &Path,
) -> Result<(), Failure> {
    if run.ended() != Some(Ended::Finished) {
        return Ok(());
    }
    let last = run.last_epoch().and_then(|epoch| Some((epoch.step, epoch.test?)));
    let trainer = run.trainer();
    let right = match last.filter(|(step, _)| *step == trainer.step()) {
        Some((_, right)) => right,
        // It ended within an epoch.
        None => right_of(&trainer.evaluate(sets.test).map_err(failure)?),
    };
    let whole = WholeTraining {
        recipe: trainer.recipe(),
        place: trainer.place(),
        train: sets.train,
        test: sets.test,
        held_out: false,
        data_note: args.data_note.as_deref(),
        timed: Timed::Process,
        target: target(args)?,
        trainings: args.cold.unwrap_or(1),
        command: args.command(&lab.device().info().selector()),
    };
    leave(args, lab, whole, right, file)
}
