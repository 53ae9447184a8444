//! The command line.

use clap::{Arg, ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::path::PathBuf;
use warpbook::device::{Bench, Choice};
use warpbook::record::Dtype;
use warpbook::settings::{Entry, Preset, parse_dtype, parse_shape};
use warpbook::{Experiment, LiveKernel, Matmul, experiments};

/// A CUDA optimisation lab: kernels in steps, each checked and timed.
#[derive(Debug, Parser)]
#[command(name = "warpbook", version, about, long_about = LONG_ABOUT, after_help = EXAMPLES, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const LONG_ABOUT: &str = "\
A CUDA optimisation lab. An experiment does the same work in several ways, its rungs: from one CPU thread \
through plain kernels to the fastest that the GPU allows. Each rung is checked against a reference and then timed, and \
all of it becomes a record (JSON) that `warpbook view` and the notebooks open. Without a GPU the CPU's rungs run \
and the others are listed as skipped.";

const EXAMPLES: &str = "\
Examples:
  warpbook devices                       what there is to run on
  warpbook doctor                        what works, what is missing, and how to get it
  warpbook run regression --quick        a first record within a minute
  warpbook run regression --points 50M   one size, all rungs
  warpbook attempt mine.cu --like 02_coalesced   a kernel of your own
  warpbook view regression.json          the record in the browser
  warpbook data fetch mnist              images to train on
  warpbook train mnist                   a network that reads digits

Exit codes:
    0  all was measured, or skipped for want of hardware
    1  a rung failed: an error, a wrong result, a descent that diverged
    2  bad usage or settings, an output that cannot be written, a file that is no record
    3  the device cannot be used
  130  interrupted (Ctrl-C); what was finished is in the record";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the GPUs and the CPU, with driver, CUDA and NVRTC.
    #[command(after_help = DEVICES_EXAMPLES)]
    Devices(DevicesArgs),
    /// Run an experiment, or the quick suite of all of them.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Find the fastest rung and tile for products of some sizes on this device, and keep it.
    #[command(after_help = TUNE_EXAMPLES)]
    Tune(TuneArgs),
    /// Compile your own kernel in place of a rung's, check it, and time it with the ladder.
    #[command(long_about = ATTEMPT_ABOUT, after_help = ATTEMPT_EXAMPLES)]
    Attempt(AttemptArgs),
    /// The part of an attempt that runs in a separate process.
    #[command(hide = true)]
    Work(WorkArgs),
    /// Put records of the same work on the same device into one, as Warpbook's and another framework's.
    #[command(after_help = MERGE_EXAMPLES)]
    Merge(MergeArgs),
    /// Open records in the browser, or print them.
    #[command(after_help = VIEW_EXAMPLES)]
    View(ViewArgs),
    /// Train a network.
    #[command(after_help = TRAIN_EXAMPLES)]
    Train(TrainArgs),
    /// Classify the test images with a trained network.
    #[command(after_help = EVAL_EXAMPLES)]
    Eval(EvalArgs),
    /// Load data sets of images, and list them.
    #[command(after_help = DATA_EXAMPLES)]
    Data(DataArgs),
    /// Check driver, GPUs, compiler and cache, and run something tiny.
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
}

const DEVICES_EXAMPLES: &str = "\
Examples:
  warpbook devices
  warpbook devices --json | jq '.devices[0].name'";

#[derive(Debug, Args)]
pub struct DevicesArgs {
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

const RUN_EXAMPLES: &str = "\
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
    /// Folder for the records of the quick suite; made if it is not there.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
    #[command(flatten)]
    pub device: DeviceArg,
}

/// One experiment with its settings.
pub struct Chosen {
    pub experiment: Box<dyn Experiment>,
    pub quick: bool,
    pub run: ExperimentArgs,
}

/// The command line's words as what they ask for: for `run NAME` with the experiment, set up.
pub fn parse(
    words: impl IntoIterator<Item = std::ffi::OsString>,
) -> Result<(Command, Option<Chosen>), warpbook::Error> {
    let entries = experiments();
    let matches = command(&entries).get_matches_from(words);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
    let named = matches.subcommand_matches("run").and_then(ArgMatches::subcommand);
    let Some((name, of_it)) = named else { return Ok((cli.command, None)) };
    let Some(entry) = entries.iter().find(|e| e.name == name) else { return Ok((cli.command, None)) };
    chosen(entry, of_it).map(|c| (cli.command, Some(c)))
}

fn chosen(entry: &Entry, matches: &ArgMatches) -> Result<Chosen, warpbook::Error> {
    let run = ExperimentArgs::from_arg_matches(matches).unwrap_or_else(|e| e.exit());
    let preset = match (run.quick, run.sweep) {
        (true, _) => Preset::Quick,
        (_, true) => Preset::Sweep,
        _ => Preset::Standard,
    };
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
    Ok(Chosen { experiment: entry.make(preset, &values)?, quick: run.quick, run })
}

/// The whole command line: below `run` a command for each experiment, with an option for each of its settings.
fn command(entries: &[Entry]) -> clap::Command {
    Cli::command().mut_subcommand("run", |run| {
        run.args_conflicts_with_subcommands(true).subcommands(entries.iter().map(|entry| {
            let options = entry.options.iter().map(|o| {
                let arg = Arg::new(o.name).long(o.name).help(o.help);
                match o.value {
                    Some(value) => {
                        arg.value_name(value).action(ArgAction::Append).allow_hyphen_values(true).num_args(1)
                    }
                    None => arg.action(ArgAction::SetTrue),
                }
            });
            let after = format!(
                "Examples:\n{}\n\nCtrl-C once ends after the sample under way and keeps what is finished; twice stops at once.\n\
                 See `warpbook --help` for the exit codes.",
                entry.examples
            );
            let command = clap::Command::new(entry.name).about(entry.about).long_about(entry.details).after_help(after);
            ExperimentArgs::augment_args(command.args(options))
        }))
    })
}

/// What every experiment can be told apart from its settings.
#[derive(Debug, Args)]
pub struct ExperimentArgs {
    /// All sizes of the published record.
    #[arg(long, conflicts_with = "quick")]
    sweep: bool,
    /// Small sizes and few samples: at most 60 seconds on two cores.
    #[arg(long)]
    quick: bool,
    /// Print every logged loss at the end, and not only the last.
    #[arg(long)]
    pub losses: bool,
    /// Who runs it: the record says so.
    #[arg(long, value_name = "NAME", env = "WARPBOOK_AUTHOR")]
    pub author: Option<String>,
    #[command(flatten)]
    pub timing: TimingArgs,
    /// File for the record. An existing file is replaced only if it is named here. [default: NAME.json in the working directory,
    /// or NAME-2.json and so on if it is there]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub device: DeviceArg,
}

#[derive(Debug, Args)]
pub struct DeviceArg {
    /// Device to run on: cuda:0 (or another number), cpu, or best (the largest GPU, else the CPU).
    #[arg(long, value_name = "DEVICE", env = "WARPBOOK_DEVICE", default_value = "best")]
    device: String,
}

impl DeviceArg {
    /// The choice; an empty variable is none.
    pub fn choice(&self) -> Result<Choice, warpbook::device::Error> {
        if self.device.trim().is_empty() { Ok(Choice::Best) } else { self.device.parse() }
    }
}

#[derive(Debug, Args)]
pub struct TimingArgs {
    /// Most samples of a measurement. [default: 25, with --quick 7]
    #[arg(long, value_name = "N")]
    samples: Option<u32>,
    /// Seconds after which a measurement begins no further sample. [default: 2, with --quick 0.5]
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    budget: Option<f64>,
}

impl TimingArgs {
    pub fn bench(&self, quick: bool) -> Result<Bench, String> {
        let mut bench = if quick { Bench::quick() } else { Bench::default() };
        if let Some(samples) = self.samples {
            if samples == 0 || samples > 1_000_000 {
                return Err(format!("--samples {samples}: choose from 1 to 1000000."));
            }
            bench.samples = samples;
        }
        if let Some(budget) = self.budget {
            if !(0.0..=86_400.0).contains(&budget) {
                return Err(format!("--budget {budget}: choose a number of seconds from 0 to 86400."));
            }
            bench.budget_s = budget;
        }
        Ok(bench)
    }
}

const TUNE_EXAMPLES: &str = "\
Examples:
  warpbook tune matmul --shape 4096,128x8192x8192 --dtype bf16
  warpbook tune matmul --shape 1000 --dtype fp32,tf32 --trans-b

What is found is kept with the compiled kernels, by device. It is never required: without it, rung and tile are chosen
by a table of costs.";

#[derive(Debug, Args)]
pub struct TuneArgs {
    #[command(subcommand)]
    pub what: TuneCommand,
}

#[derive(Debug, Subcommand)]
pub enum TuneCommand {
    /// Matrix products.
    #[command(after_help = TUNE_EXAMPLES)]
    Matmul(TuneMatmulArgs),
}

#[derive(Debug, Args)]
pub struct TuneMatmulArgs {
    /// Sizes m x n x k of a product, as 128x8192x8192, or one number for a cube; several with commas or by repeating the
    /// option.
    #[arg(long, value_name = "MxNxK[,..]", value_delimiter = ',', value_parser = parse_shape, required = true)]
    shape: Vec<(u64, u64, u64)>,
    /// Types of the matrices: fp32, tf32, fp16, bf16; several with commas.
    #[arg(long, value_name = "TYPE[,..]", value_delimiter = ',', value_parser = parse_dtype, required = true)]
    dtype: Vec<Dtype>,
    /// A is stored transposed, k x m.
    #[arg(long)]
    trans_a: bool,
    /// B is stored transposed, n x k.
    #[arg(long)]
    trans_b: bool,
    #[command(flatten)]
    timing: TimingArgs,
    #[command(flatten)]
    pub device: DeviceArg,
}

impl TuneMatmulArgs {
    /// The rungs that may be the fastest, and the libraries.
    pub fn experiment(&self) -> Matmul {
        Matmul::tuning()
            .shapes(self.shape.iter().copied())
            .dtypes(self.dtype.iter().copied())
            .transposed(self.trans_a, self.trans_b)
    }

    /// The timing with these settings, or why it cannot be.
    pub fn bench(&self) -> Result<Bench, String> {
        self.timing.bench(false)
    }
}

const ATTEMPT_ABOUT: &str = "\
Compiles a kernel of your own in the place of a rung of the matrix product, with the same parameters and launch. It is tried at \
three small products, where what is wrong can be told, then checked and timed with its rung and cuBLAS. It runs in a process of \
its own, which is ended if the kernel does not end. Without a GPU it is compiled only; registers and spills are shown.";

const ATTEMPT_EXAMPLES: &str = "\
Examples:
  warpbook attempt --like 02_coalesced > mine.cu             a rung's source, to begin with
  warpbook attempt mine.cu --like 02_coalesced
  warpbook attempt mine.cu --like 05_register_2d --size BM=64 --size THREADS=128 --shape 1024
  warpbook attempt mine.cu --like 02_coalesced --against 01_naive,02_coalesced,cublas --out mine.json

Exit code 0: it is right, or there is no GPU to run it; 1: it does not compile, is wrong, or does not end.";

#[derive(Debug, Args)]
pub struct AttemptArgs {
    /// The kernel, CUDA C++. [default: print the rung's own]
    pub file: Option<PathBuf>,
    /// The rung in whose place it is put, by id.
    #[arg(long, value_name = "ID")]
    pub like: String,
    /// Its name in the record. [default: that of the file]
    #[arg(long)]
    name: Option<String>,
    /// Another of the rung's tiles, by id. [default: its first]
    #[arg(long, value_name = "ID")]
    tile: Option<String>,
    /// A size of the tile, as BM=64; may be repeated.
    #[arg(long, value_name = "NAME=N", value_parser = parse_named_size)]
    size: Vec<(String, i64)>,
    /// Sizes m x n x k of the product that is timed, or one number for a cube. [default: 2048]
    #[arg(long, value_name = "MxNxK", value_parser = parse_shape)]
    shape: Option<(u64, u64, u64)>,
    /// Type of the matrices: fp32, tf32, fp16, bf16. [default: fp32 where the rung takes it, else bf16]
    #[arg(long, value_name = "TYPE", value_parser = parse_dtype)]
    dtype: Option<Dtype>,
    /// The rungs that are timed with it, by id, with commas between them. [default: its rung and cublas]
    #[arg(long, value_name = "ID[,ID..]", value_delimiter = ',')]
    against: Vec<String>,
    /// Seconds after which the kernel is taken for endless.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    limit: f64,
    #[command(flatten)]
    timing: TimingArgs,
    /// File for the record; none is written without it.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub device: DeviceArg,
}

impl AttemptArgs {
    /// The kernel with these settings.
    pub fn settings(&self, mut live: LiveKernel) -> warpbook::Result<LiveKernel> {
        let of_file = self.file.as_deref().and_then(|f| f.file_stem()).map(|s| s.to_string_lossy().into_owned());
        if let Some(name) = self.name.clone().or(of_file) {
            live = live.named(name);
        }
        if let Some(tile) = &self.tile {
            live = live.tile(tile)?;
        }
        for (name, value) in &self.size {
            live = live.size(name.clone(), *value);
        }
        if let Some((m, n, k)) = self.shape {
            live = live.shape(m, n, k);
        }
        if let Some(dtype) = self.dtype {
            live = live.dtype(dtype);
        }
        if !self.against.is_empty() {
            live = live.against(self.against.iter().map(|id| id.trim()));
        }
        Ok(live.time_limit(self.limit))
    }

    /// The timing with these settings, or why it cannot be.
    pub fn bench(&self) -> Result<Bench, String> {
        self.timing.bench(false)
    }
}

#[derive(Debug, Args)]
pub struct WorkArgs {
    /// What is asked for.
    pub request: PathBuf,
    /// Where the record goes.
    #[arg(long)]
    pub out: PathBuf,
}

const MERGE_EXAMPLES: &str = "\
Examples:
  warpbook run regression --sweep --out ours.json
  python3 notebooks/pytorch/regression.py --like ours.json --out pytorch.json
  warpbook merge ours.json pytorch.json --out regression.json

Run both right after another: figures of one chart should come from one GPU in one state.";

#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The record that gives the environment, the ceilings and the notes, then those whose rungs are added.
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// File for the record; one that exists is replaced.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

const VIEW_EXAMPLES: &str = "\
Examples:
  warpbook view                              the records that come with the page
  warpbook view regression.json old.json     these, in the browser
  warpbook view --text regression.json       tables in the terminal
  warpbook view --html report.html regression.json
                                             a page of their charts and tables, to be sent to somebody

The page is the viewer that `cargo xtask web` builds (or the one that WARPBOOK_VIEWER names). Where it is not built, a
simpler page takes its place.";

#[derive(Debug, Args)]
pub struct ViewArgs {
    /// Records, as `warpbook run` and the notebooks write them.
    pub files: Vec<PathBuf>,
    /// Print tables to the terminal and open nothing.
    #[arg(long, requires = "files", conflicts_with_all = ["html", "no_open"])]
    pub text: bool,
    /// Write the charts and tables into this HTML file and open nothing.
    #[arg(long, value_name = "FILE", requires = "files")]
    pub html: Option<PathBuf>,
    /// Write the page and print its path, but open no browser.
    #[arg(long)]
    pub no_open: bool,
}

const DATA_EXAMPLES: &str = "\
Examples:
  warpbook data list
  warpbook data fetch mnist                  into the cache, or into WARPBOOK_DATA/mnist
  warpbook data fetch cifar10 --dir cifar
  WARPBOOK_MIRROR=http://server/data/ warpbook data fetch mnist
                                             from a server of your own, as in a class

Files are compared with their published SHA-256. What breaks off goes on from there the next time.
Exit code 0: all files are there and as published; 2: they are not.";

const TRAIN_EXAMPLES: &str = "\
Examples:
  warpbook train mnist --epochs 3 --checkpoint mnist.safetensors
  warpbook train mnist --epochs 5 --resume mnist.safetensors --checkpoint mnist.safetensors
  warpbook train cifar10 --data ~/cifar10 --steps 100 --log-every 10
  warpbook train mnist --data synthetic --init weights.safetensors --no-shuffle --no-dropout

Ctrl-C ends after the step under way; the checkpoint is then written. See `warpbook --help` for the exit codes.";

/// Where images come from.
#[derive(Debug, Args)]
pub struct DataFrom {
    /// Folder with the data set's files, or `synthetic` for digits drawn by a program. [default: WARPBOOK_DATA, or where `warpbook
    /// data fetch` puts them; for mnist synthetic digits where neither has files]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct TrainArgs {
    /// What: mnist or cifar10.
    pub recipe: String,
    #[command(flatten)]
    pub from: DataFrom,
    /// Samples of a batch. [default: the recipe's]
    #[arg(long, value_name = "N")]
    pub batch: Option<usize>,
    /// Passes over the training images. [default: the recipe's]
    #[arg(long, value_name = "N")]
    pub epochs: Option<u32>,
    /// The most steps, whatever the epochs.
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
    /// The learning rate at the start. [default: the recipe's]
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub lr: Option<f64>,
    /// Seed of weights, order, dropout and augmentation.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Initial weights, a safetensors file with PyTorch's names. [default: random]
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    pub init: Option<PathBuf>,
    /// Take the images in the order of the file.
    #[arg(long)]
    pub no_shuffle: bool,
    /// Train on the images as they are, without random crops and flips.
    #[arg(long)]
    pub no_augment: bool,
    /// Train without dropout.
    #[arg(long)]
    pub no_dropout: bool,
    /// Batches between two lines of progress.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub log_every: u64,
    /// File that the training is kept in after every epoch and at the end.
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// Go on from such a file.
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
}

const EVAL_EXAMPLES: &str = "\
Examples:
  warpbook eval mnist mnist.safetensors
  warpbook eval cifar10 weights.safetensors --data ~/cifar10";

#[derive(Debug, Args)]
pub struct EvalArgs {
    /// The recipe that the network is of: mnist or cifar10.
    pub recipe: String,
    /// A checkpoint, or weights with PyTorch's names: a safetensors file.
    #[arg(value_name = "FILE")]
    pub weights: PathBuf,
    #[command(flatten)]
    pub from: DataFrom,
}

#[derive(Debug, Args)]
pub struct DataArgs {
    #[command(subcommand)]
    pub what: DataCommand,
}

#[derive(Debug, Subcommand)]
pub enum DataCommand {
    /// Load the files of a data set and check them.
    #[command(after_help = DATA_EXAMPLES)]
    Fetch(FetchArgs),
    /// List the data sets, and where their files are.
    #[command(after_help = DATA_EXAMPLES)]
    List,
}

#[derive(Debug, Args)]
pub struct FetchArgs {
    /// Which: mnist, fashion-mnist or cifar10.
    pub name: String,
    /// Folder for its files; made if it is not there. [default: the set's name in WARPBOOK_DATA, or in data in the cache]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// A mirror of your own, e.g. a class's server, in place of the public ones: the URL of a folder with the files, http or
    /// https; several with commas.
    #[arg(long, value_name = "URL[,..]", value_delimiter = ',', env = "WARPBOOK_MIRROR")]
    mirror: Vec<String>,
    /// Seconds without an answer or a byte after which a mirror is given up.
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0, allow_hyphen_values = true)]
    timeout: f64,
}

impl FetchArgs {
    /// The user's mirrors, each ending in a slash; none where the public ones are to be used.
    pub fn mirrors(&self) -> Result<Vec<String>, String> {
        let given = self.mirror.iter().map(|m| m.trim()).filter(|m| !m.is_empty());
        let mirror = |m: &str| match m.starts_with("https://") || m.starts_with("http://") {
            true => Ok(format!("{}/", m.trim_end_matches('/'))),
            false => Err(format!("`{m}` is no mirror: write a URL that begins with https:// or http://.")),
        };
        given.map(mirror).collect()
    }

    /// How long a mirror may be silent.
    pub fn stall(&self) -> Result<std::time::Duration, String> {
        if !(0.1..=3600.0).contains(&self.timeout) {
            return Err(format!("--timeout {}: choose a number of seconds from 0.1 to 3600.", self.timeout));
        }
        Ok(std::time::Duration::from_secs_f64(self.timeout))
    }
}

const DOCTOR_EXAMPLES: &str = "\
Examples:
  warpbook doctor
  warpbook doctor --device cpu

Exit code 0: the lab can run (the CPU is enough); 3: it cannot.";

#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub device: DeviceArg,
}

/// A size of a tile: BM=64.
fn parse_named_size(text: &str) -> Result<(String, i64), String> {
    let is_name = |n: &str| {
        n.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && n.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    match text.split_once('=').map(|(name, value)| (name.trim(), value.trim().parse())) {
        Some((name, Ok(value))) if is_name(name) => Ok((name.to_owned(), value)),
        _ => Err(format!("`{text}` is no size: write a macro's name and a whole number, as BM=64")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook::Regression;

    #[test]
    fn sizes_of_tiles_are_read() {
        assert_eq!(parse_named_size(" BM = 64"), Ok(("BM".into(), 64)));
        for bad in ["BM", "BM=x", "=3", "B M=3", "3B=3"] {
            assert!(parse_named_size(bad).unwrap_err().contains("as BM=64"), "{bad}");
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        command(&experiments()).debug_assert();
    }

    fn run(words: &[&str]) -> Result<Chosen, warpbook::Error> {
        let words = ["warpbook", "run"].iter().chain(words).map(std::ffi::OsString::from);
        parse(words).map(|(_, chosen)| chosen.expect("an experiment was named"))
    }

    #[test]
    fn settings_reach_the_experiment_and_its_command_repeats_them() {
        let command = |words: &[&str]| run(words).unwrap().experiment.command("cpu");
        assert_eq!(command(&["regression"]), Regression::new().command("cpu"));
        assert_eq!(command(&["regression", "--sweep"]), Regression::sweep().command("cpu"));
        assert_eq!(command(&["matmul", "--quick"]), Matmul::quick().command("cpu"));
        let regression = [
            "regression",
            "--points",
            "1k,2_000",
            "--points",
            "3k",
            "--epochs",
            "7",
            "--lr",
            "-0.5",
            "--noise",
            "0.2",
            "--seed",
            "9",
            "--features",
            "3",
            "--also",
            "5kx16",
            "--rungs",
            "02_fused,cpu_1_thread",
            "--tile",
            "t512x8b2",
            "--no-parts",
        ];
        let matmul =
            ["matmul", "--shape", "64,1x2x3", "--dtype", "tf32", "--also", "8:bf16", "--trans-a", "--no-tiles"];
        for words in [&regression[..], &matmul[..]] {
            let text = command(words);
            let again: Vec<&str> = text.split(' ').skip(2).collect();
            assert_eq!(command(&again), text);
        }
        let text = command(&regression);
        assert!(text.contains("--points 1000,2000,3000 --features 3 --also 5000x16 --epochs 7 --lr -0.5"), "{text}");
    }

    #[test]
    fn settings_that_say_nothing_are_refused_by_name() {
        let check = |words: &[&str], expect: &str| {
            let error = run(words).err().expect("it is refused").to_string();
            assert!(error.contains(expect), "{error}");
        };
        check(&["regression", "--points", "many"], "--points: `many` is no count");
        check(&["regression", "--also", "5M"], "--also: `5M` is no size");
        check(&["matmul", "--dtype", "int8"], "--dtype: `int8` is no type");
        check(&["matmul", "--shape", "1x2"], "--shape: `1x2` is no shape");
    }

    #[test]
    fn the_timing_is_bounded() {
        let bench = |words: &[&str]| {
            let chosen = run(&[&["regression"], words].concat()).unwrap();
            chosen.run.timing.bench(chosen.quick)
        };
        assert_eq!(bench(&["--quick"]).unwrap().samples, Bench::quick().samples);
        assert_eq!(bench(&["--samples", "3", "--budget", "0.5"]).unwrap().samples, 3);
        assert!(bench(&["--samples", "0"]).is_err());
        for bad in ["-1", "nan", "inf"] {
            assert!(bench(&["--budget", bad]).is_err(), "{bad}");
        }
    }
}
