//! Whole trainings as processes, each timed from start to end by the process that starts them.

use super::settings::Settings;
use super::whole::{Goal, ProcessResult, conclude, keep, last_seed};
use crate::failure::{Failure, INTERRUPTED, RUNG_FAILED};
use crate::output::{say, warn};
use crate::processes::{TemporaryFolder, count_requests_to_end, this_program};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::Instant;
use warpbook::{WholeTrainings, read_record};
use warpbook_record::Right;

/// Trainings from several seeds, as processes one after the other.
pub struct WholeProcesses {
    pub settings: Settings,
    pub goal: Goal,
}

impl WholeProcesses {
    /// Starts this program again for each seed, and records the times and accuracies. This process does not use a GPU
    /// itself, since that would keep the driver loaded.
    pub fn run(&self) -> Result<ExitCode, Failure> {
        let mut out = self.settings.record(true)?;
        let planned = self.settings.plan()?;
        let splits = planned.splits("--cold is")?;
        say(&splits.train.note());
        let (first_seed, count) = (planned.recipe.seed, self.goal.trainings);
        let program = this_program()?;
        last_seed("cold", first_seed, count)?;
        let (folder, interrupted) = (TemporaryFolder::new("cold")?, count_requests_to_end());
        let (result, record) = (folder.path().join("result.json"), folder.path().join("record.json"));
        let mut all: Option<WholeTrainings> = None;
        for number in 0..=count {
            let seed = first_seed + number.saturating_sub(1);
            let _ = fs::remove_file(&result);
            let mut command = again(&program, seed, &result);
            if number == 0 {
                command.arg("--cold-record").arg(&record);
            }
            let started = Instant::now();
            let ended = command.status();
            let seconds = started.elapsed().as_secs_f64();
            if interrupted.load(Ordering::SeqCst) > 0 {
                let done = number.saturating_sub(1);
                let kept = if out.is_some() && done > 0 { ", which the record has" } else { "" };
                warn(&format!("Interrupted after {done} of {count} processes{kept}."));
                return Ok(ExitCode::from(INTERRUPTED));
            }
            let ended = ended.map_err(|e| Failure::usage(format!("{} cannot be started: {e}.", program.display())))?;
            let Some(right) = ProcessResult::read(&result).filter(|_| ended.success()) else {
                return Err(without_result(seed, ended));
            };
            let told = format!("{seconds:.3} s from the start of the process to its end, accuracy {}", words(right));
            match &mut all {
                None => {
                    say(&format!("not counted: {told}"));
                    all = Some(WholeTrainings::from_record(read_record(&record)?, first_seed));
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
}

/// Returns a command that starts this program with its own arguments and a seed.
fn again(program: &Path, seed: u64, result: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).arg("--cold-result").arg(result);
    command.args(["--cold-seed", &seed.to_string()]).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn without_result(seed: u64, ended: ExitStatus) -> Failure {
    let code = ended.code().and_then(|code| u8::try_from(code).ok()).filter(|code| *code > 0);
    Failure {
        code: code.unwrap_or(RUNG_FAILED),
        sentence: format!("The process that trains from seed {seed} left no result ({ended}); its output is above."),
    }
}

/// Returns an accuracy such as "99.10 % (9910 of 10000)".
fn words(right: Right) -> String {
    format!("{:.2} % ({} of {})", 100.0 * right.accuracy().unwrap_or(f64::NAN), right.correct, right.of)
}
