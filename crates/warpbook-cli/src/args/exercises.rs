//! Options of `warpbook exercise`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

pub(super) const EXERCISE_EXAMPLES: &str = "\
Examples:
  warpbook exercise list                 all exercises, and how far you are
  warpbook exercise show E05             the task
  warpbook exercise watch E01            tries your file at each save, and moves on when it is right
  warpbook exercise try E05 mine.cu      tries a file of your own once
  warpbook exercise hint E05             the next hint
  warpbook exercise try Q00 b 32 a       answers to questions, in their order

Your file is notebooks/work/E05.cu unless you name another. Kernels are judged in the emulator, so no GPU is needed; where there is one, a right kernel is also
timed on it. Progress is kept in the user's data folder; WARPBOOK_PROGRESS names another folder.
Exit code 0: the answer is right; 1: it is not; 2: no such exercise, or a file cannot be read.";

#[derive(Debug, Args)]
pub struct ExerciseArgs {
    #[command(subcommand)]
    pub what: ExerciseCommand,
    /// Your name, for the progress file. [default: your user name on this system]
    #[arg(long, value_name = "NAME", global = true)]
    pub name: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum ExerciseCommand {
    /// List all exercises, and how far you are.
    List,
    /// Show the task of an exercise.
    Show {
        /// Exercise, such as E05.
        id: String,
    },
    /// Try your file, another file, or answers.
    Try {
        /// Exercise, such as E05.
        id: String,
        /// A file, or for an exercise with questions the answers in order. [default: notebooks/work/ID.cu]
        #[arg(value_name = "FILE|ANSWER", allow_negative_numbers = true)]
        given: Vec<String>,
    },
    /// Try your file at each save, and move on to the next exercise when it is right.
    Watch {
        /// Exercise to begin with. [default: the first that is not right yet]
        id: Option<String>,
        /// A file of your own; watching then ends when this file is right. [default: notebooks/work/ID.cu]
        file: Option<PathBuf>,
    },
    /// Show a hint.
    Hint {
        /// Exercise, such as E05.
        id: String,
        /// Number of the hint. [default: the next one]
        number: Option<usize>,
    },
    /// Show the solution: once your answer is right, or after three different tries.
    Solution {
        /// Exercise, such as E05.
        id: String,
    },
    /// Put your file aside, and begin again with the stub.
    Reset {
        /// Exercise, such as E05.
        id: String,
    },
}
