//! The record of whole trainings, and the lines printed at its end.

use crate::args::WholeArgs;
use crate::failure::{Failure, RUNG_FAILED, USAGE};
use crate::files::{RecordWriter, print_written};
use crate::output::{say, warn};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use warpbook::nn::train::{Place, Recipe, Samples, Score};
use warpbook::{Lab, Timed, WholeTraining, WholeTrainings, write_record};
use warpbook_record::{Right, stats};

/// The goal of whole trainings, and their number.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// Mean accuracy in percent that must be reached; `None` if nothing is checked.
    accuracy: Option<f64>,
    /// A description of the images, if their files have none.
    data_note: Option<String>,
    pub trainings: u64,
}

impl Goal {
    /// Reads the goal from the command line, or returns an error if the accuracy is out of range.
    pub fn new(args: &WholeArgs) -> Result<Self, Failure> {
        match args.to {
            Some(to) if !(to > 0.0 && to <= 100.0) => {
                Err(Failure::usage(format!("--to {to}: choose a percentage above 0, up to 100, such as 99.")))
            }
            accuracy => {
                let trainings = args.cold.or(args.seeds).unwrap_or(1);
                Ok(Self { accuracy, data_note: args.data_note.clone(), trainings })
            }
        }
    }

    /// Returns the facts for the record of these trainings.
    pub fn training<'a>(
        &'a self,
        (recipe, place): (&'a Recipe, &'a Place),
        (train, test): (Samples<'a>, Samples<'a>),
        timed: Timed,
        command: String,
    ) -> WholeTraining<'a> {
        let (data_note, target, trainings) = (self.data_note.as_deref(), self.accuracy, self.trainings);
        WholeTraining { recipe, place, train, test, held_out: false, data_note, timed, target, trainings, command }
    }
}

/// Returns the last of `count` seeds.
pub fn last_seed(option: &str, first: u64, count: u64) -> Result<u64, Failure> {
    let more = count.saturating_sub(1);
    first.checked_add(more).ok_or_else(|| {
        Failure::usage(format!(
            "--{option} {count}: too many seeds from {first} on. Choose a --seed of at most {}.",
            u64::MAX - more
        ))
    })
}

/// Writes the current record, if one is requested, so that finished trainings are saved however the program ends.
pub fn keep(all: &WholeTrainings, out: Option<&mut RecordWriter>) {
    if let Some(warning) = out.and_then(|out| out.keep_now(all.record())) {
        warn(&warning);
    }
}

/// Prints the means and the file of the record. The exit code says whether the accuracy was reached.
pub fn conclude(all: &WholeTrainings, out: Option<RecordWriter>) -> ExitCode {
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
    written.iter().for_each(print_written);
    match &m.check {
        Some(check) if !check.passed => {
            warn(&format!("This is not {}: it lacks {:.3} points.", check.reference, check.max_abs_error));
            ExitCode::from(RUNG_FAILED)
        }
        _ if written.is_some_and(|written| written.is_err()) => ExitCode::from(USAGE),
        _ => ExitCode::SUCCESS,
    }
}

/// Converts a score to the form that records use.
pub fn right_of(score: &Score) -> Right {
    Right { correct: score.correct as u64, of: score.of as u64 }
}

/// The file in which a --cold process leaves its result for the process that started it.
pub struct ProcessResult {
    /// The file for the result.
    file: PathBuf,
    /// The file in which the uncounted first process starts the record of all processes.
    record: Option<PathBuf>,
}

impl ProcessResult {
    /// Returns the files named on the command line, if this process is one of several.
    pub fn asked(args: &WholeArgs) -> Option<Self> {
        Some(Self { file: args.cold_result.clone()?, record: args.cold_record.clone() })
    }

    /// Writes the result. The uncounted first process also writes the record to which the results of the other
    /// processes are added.
    pub fn leave(&self, lab: &Lab, whole: &WholeTraining<'_>, right: Right) -> Result<(), Failure> {
        if let Some(path) = &self.record {
            write_record(WholeTrainings::new(lab, whole).record(), path)?;
        }
        let refused = |why: String| Failure::usage(format!("{} cannot be written: {why}.", self.file.display()));
        let text = serde_json::to_vec(&right).map_err(|e| refused(e.to_string()))?;
        // The file is written directly and without waiting for the disk, since this is part of the measured time; a
        // truncated file is not read as a result.
        fs::write(&self.file, text).map_err(|e| refused(e.to_string()))
    }

    /// Reads the result that a process left; `None` if it left none.
    pub fn read(file: &Path) -> Option<Right> {
        serde_json::from_slice(&fs::read(file).ok()?).ok()
    }
}
