//! Options of `warpbook xray`, with a command for each experiment and an option for each of its settings.

use super::run::{setting_options, setting_values};
use crate::args::common::{DeviceArg, TimingArgs};
use clap::{ArgMatches, Args, FromArgMatches};
use std::path::PathBuf;
use warpbook::Experiment;
use warpbook::settings::{Entry, Preset};

pub const XRAY_ABOUT: &str = "\
Show the timeline of every SM in a run of a rung: the rung's kernels are compiled with marks, at which each warp records its phase, \
its SM and the SM's clock; the clocks of the SMs are compared first. The figures are the time by phase, the tail of the last \
wave, how far apart warps arrive at barriers, how far ahead loads are, and the cost of the marks themselves. A product has the \
tile that `gemm` would take for that rung, or the one that --tile names; no others are compiled or timed. Kernels that do not \
end are given up after ten seconds, and the message says that they hang.";

pub const XRAY_EXAMPLES: &str = "\
Examples:
  warpbook xray matmul --rung 14_overlapped_store --shape 2048 --dtype bf16
  warpbook xray matmul --rung 14_overlapped_store --shape 2048 --dtype bf16 --tile 128x128s6c2g8
  warpbook xray regression --rung 05_persistent --epochs 20 --out xray.json
  warpbook xray training --rung 13_last_block_bf16 --network mnist
  warpbook xray regression --rung 05_persistent --epochs 20 --kib 400 --out xray.json
  warpbook merge regression.json xray.json --out both.json      the X-ray added to the record of the rungs

See `warpbook --help` for the exit codes.";

#[derive(Debug, Args)]
pub struct XrayArgs {}

/// The rung whose kernel is marked, and the settings of its experiment.
pub struct ChosenXray {
    pub experiment: Box<dyn Experiment>,
    pub options: XrayOptions,
}

/// Options of an X-ray, in addition to the experiment's settings.
#[derive(Debug, Args)]
pub struct XrayOptions {
    /// Id of the rung.
    #[arg(long, value_name = "ID")]
    pub rung: String,
    /// Thin out the marks to about this many KiB, for example for a record that `warpbook merge` adds to another one. [default: as many as a picture shows,
    /// up to some MB]
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u32).range(16..))]
    pub kib: Option<u32>,
    #[command(flatten)]
    pub timing: TimingArgs,
    /// File for the record. An existing file is replaced only if it is named here. [default: NAME-xray.json in the working directory, or NAME-xray-2.json and
    /// so on if that file exists]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub device: DeviceArg,
}

pub fn chosen(entry: &Entry, matches: &ArgMatches) -> Result<ChosenXray, warpbook::Error> {
    let options = XrayOptions::from_arg_matches(matches).unwrap_or_else(|e| e.exit());
    let experiment = entry.make(Preset::Standard, &setting_values(entry, matches))?;
    Ok(ChosenXray { experiment, options })
}

/// Adds one command for each experiment to `xray`, with one option for each setting.
pub fn with_experiments(xray: clap::Command, entries: &[Entry]) -> clap::Command {
    xray.subcommand_required(true).subcommands(entries.iter().map(|entry| {
        let command = clap::Command::new(entry.name).args(setting_options(entry));
        XrayOptions::augment_args(command).about(entry.about).long_about(entry.details)
    }))
}
