//! Options of whole trainings, which are measured by time and accuracy.

use super::command::CommandLine;
use clap::Args;
use std::path::PathBuf;

/// Maximum number of trainings, since a measurement keeps at most this many samples.
const MOST_TRAININGS: u64 = 1000;

/// Options of `speedrun` that `train` also accepts, since the commands in older records use them.
pub const OPTIONS_OF_WHOLE_TRAININGS: [&str; 5] = ["seeds", "hold_out", "cold", "to", "data_note"];

#[derive(Debug, Args)]
pub struct WholeArgs {
    /// Train from this many seeds, the first of which is --seed, without reports of progress. Print each training's time, from images on the device to the
    /// accuracy, its accuracy, and the means. [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_TRAININGS))]
    pub seeds: Option<u64>,
    /// Hold out this many of the training images and test on them instead of the test images, to choose settings.
    #[arg(long, value_name = "N")]
    pub hold_out: Option<usize>,
    /// Train in this many new processes, one after the other, each with another seed, and time each from its start to its end. An additional first
    /// process compiles missing kernels and is not counted.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_TRAININGS), conflicts_with_all = ["seeds", "hold_out"])]
    pub cold: Option<u64>,
    /// Mean accuracy in percent that the trainings must reach, such as 99; the exit code is 1 if they do not.
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    pub to: Option<f64>,
    /// Description of the images for the record, if their files have none: for example "recompressed as JPEG q75".
    #[arg(long, value_name = "TEXT")]
    pub data_note: Option<String>,
    /// File for the result of one of the processes of --cold.
    #[arg(long, hide = true, value_name = "FILE", requires = "cold_seed")]
    pub cold_result: Option<PathBuf>,
    /// Seed of the process that --cold started.
    #[arg(long, hide = true, value_name = "N")]
    pub cold_seed: Option<u64>,
    /// File in which the first process of --cold begins the record of all processes.
    #[arg(long, hide = true, value_name = "FILE")]
    pub cold_record: Option<PathBuf>,
}

impl WholeArgs {
    /// Adds the options to a command line, except the options that one process sets for another.
    pub fn add_to(&self, line: &mut CommandLine) {
        line.option("seeds", self.seeds);
        line.option("hold-out", self.hold_out);
        line.option("cold", self.cold);
        line.option("to", self.to);
        line.option("data-note", self.data_note.as_ref());
    }
}
