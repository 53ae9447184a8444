//! Options of `warpbook run`, with a command for each experiment and an option for each of its settings.

use crate::args::common::{DeviceArg, TimingArgs};
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches};
use std::path::PathBuf;
use warpbook::Experiment;
use warpbook::settings::{Entry, Preset};

pub const RUN_EXAMPLES: &str = "\
Examples:
  warpbook run --quick --out records                 the quick suite: one record an experiment, in records/
  warpbook run regression                            5 M points, all rungs
  warpbook run regression --quick --out first.json
  warpbook run regression --help                     its settings

The quick suite takes at most 60 seconds on two cores. See `warpbook --help` for the exit codes.";

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Run the quick form of every experiment.
    #[arg(long)]
    pub quick: bool,
    /// Folder for the records of the quick suite; created if missing.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
    #[command(flatten)]
    pub device: DeviceArg,
}

/// An experiment with its settings, or several experiments that a single name stands for.
pub struct Chosen {
    pub name: &'static str,
    pub experiments: Vec<Box<dyn Experiment>>,
    pub quick: bool,
    pub run: ExperimentArgs,
}

pub fn chosen(entry: &Entry, matches: &ArgMatches) -> Result<Chosen, warpbook::Error> {
    let run = ExperimentArgs::from_arg_matches(matches).unwrap_or_else(|e| e.exit());
    let preset = match (run.quick, run.sweep) {
        (true, _) => Preset::Quick,
        (_, true) => Preset::Sweep,
        _ => Preset::Standard,
    };
    let experiments = entry.make_each(preset, &setting_values(entry, matches))?;
    Ok(Chosen { name: entry.name, experiments, quick: run.quick, run })
}

/// Returns the settings given on the command line.
pub fn setting_values(entry: &Entry, matches: &ArgMatches) -> Vec<(String, String)> {
    let mut values = Vec::new();
    for option in &entry.options {
        match option.value {
            Some(_) => {
                let given: Vec<String> =
                    matches.get_many::<String>(option.name).into_iter().flatten().cloned().collect();
                if !given.is_empty() {
                    values.push((option.name.to_owned(), given.join(",")));
                }
            }
            None if matches.get_flag(option.name) => values.push((option.name.to_owned(), String::new())),
            None => {}
        }
    }
    values
}

/// Returns one option for each of the experiment's settings.
pub fn setting_options(entry: &Entry) -> impl Iterator<Item = Arg> + '_ {
    entry.options.iter().map(|o| {
        let arg = Arg::new(o.name).long(o.name).help(o.help);
        match o.value {
            Some(value) => arg.value_name(value).action(ArgAction::Append).allow_hyphen_values(true).num_args(1),
            None => arg.action(ArgAction::SetTrue),
        }
    })
}

/// Adds one command for each experiment to `run`, with one option for each setting.
pub fn with_experiments(run: clap::Command, entries: &[Entry]) -> clap::Command {
    run.args_conflicts_with_subcommands(true).subcommands(entries.iter().map(of_experiment))
}

fn of_experiment(entry: &Entry) -> clap::Command {
    let after = format!(
        "Examples:\n{}\n\nCtrl-C once ends after the sample under way and keeps what is finished; twice stops at once.\n\
         See `warpbook --help` for the exit codes.",
        entry.examples
    );
    let command = clap::Command::new(entry.name).args(setting_options(entry)).after_help(after);
    // The help texts of the experiment are set last, since the derived arguments would set their own.
    ExperimentArgs::augment_args(command).about(entry.about).long_about(entry.details)
}

/// Arguments of every experiment, in addition to its settings.
#[derive(Debug, Args)]
pub struct ExperimentArgs {
    /// Measure all sizes of the published record.
    #[arg(long, conflicts_with = "quick")]
    sweep: bool,
    /// Small sizes and few samples: at most 60 seconds on two cores.
    #[arg(long)]
    quick: bool,
    /// Print every logged loss at the end, not only the last.
    #[arg(long)]
    pub losses: bool,
    /// Name of the person who runs it, for the record.
    #[arg(long, value_name = "NAME", env = "WARPBOOK_AUTHOR")]
    pub author: Option<String>,
    /// File for a profile of the rungs at the main problem, made after all measurements: a few runs of each rung, after the same number of unrecorded runs. The
    /// file is a record, whose timeline `warpbook view` shows; a trace for ui.perfetto.dev (.trace.json) is written next to it. Each rung is an NVTX range,
    /// which Nsight Systems shows: nsys profile --trace=cuda,nvtx -o report warpbook run ... --profile FILE.
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Read hardware counters of each kernel of the rungs at the main problem, after all measurements: bytes of DRAM and L2, sectors a request, bank conflicts,
    /// issue slots, stall reasons, use of the tensor cores. Needs CUPTI of CUDA 12.6 or later, and a driver that lets this user read them.
    #[arg(long)]
    pub counters: bool,
    #[command(flatten)]
    pub timing: TimingArgs,
    /// File for the record. An existing file is replaced only if it is named here. [default: NAME.json in the working directory, or NAME-2.json and so on if
    /// that file exists]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub device: DeviceArg,
}
