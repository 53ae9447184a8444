//! The command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use warpbook::device::{Bench, Choice};
use warpbook::record::Dtype;
use warpbook::{LiveKernel, Matmul, Regression};

/// A CUDA optimisation lab: kernels in steps, each checked and timed.
#[derive(Debug, Parser)]
#[command(name = "warpbook", version, about, long_about = LONG_ABOUT, after_help = EXAMPLES, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const LONG_ABOUT: &str = "\
A CUDA optimisation lab. An experiment does the same work in several ways, its rungs: from one thread of the processor \
through plain kernels to the fastest that the GPU allows. Each rung is checked against a reference and then timed, and \
all of it becomes a record (JSON) that `warpbook view` and the notebooks open. Without a GPU the processor's rungs run \
and the others are listed as skipped.";

const EXAMPLES: &str = "\
Examples:
  warpbook devices                       what there is to run on
  warpbook doctor                        what works, what is missing, and how to get it
  warpbook run regression --quick        a first record within a minute
  warpbook run regression --points 50M   one size, all rungs
  warpbook attempt mine.cu --like 02_coalesced   a kernel of your own
  warpbook view regression.json          the record in the browser

Exit codes:
    0  all was measured, or skipped for want of hardware
    1  a rung failed: an error, a wrong result, a descent that diverged
    2  bad usage or settings, an output that cannot be written, a file that is no record
    3  the device cannot be used
  130  interrupted (Ctrl-C); what was finished is in the record";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the GPUs and the processor, with driver, CUDA and NVRTC.
    #[command(after_help = DEVICES_EXAMPLES)]
    Devices(DevicesArgs),
    /// Run an experiment, or the quick suite of all of them.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Find the fastest rung and tile for products of some sizes on this device, and keep it.
    #[command(after_help = TUNE_EXAMPLES)]
    Tune(TuneArgs),
    /// Compile a kernel of your own in the place of a rung's, check it, and time it beside the ladder.
    #[command(long_about = ATTEMPT_ABOUT, after_help = ATTEMPT_EXAMPLES)]
    Attempt(AttemptArgs),
    /// What an attempt lets a process of its own do.
    #[command(hide = true)]
    Work(WorkArgs),
    /// Put records of the same work on the same device into one, as Warpbook's and another framework's.
    #[command(after_help = MERGE_EXAMPLES)]
    Merge(MergeArgs),
    /// Open records in the browser, or print them.
    #[command(after_help = VIEW_EXAMPLES)]
    View(ViewArgs),
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
#[command(args_conflicts_with_subcommands = true)]
pub struct RunArgs {
    #[command(subcommand)]
    pub experiment: Option<ExperimentCommand>,
    /// Run the quick form of every experiment.
    #[arg(long)]
    pub quick: bool,
    /// Folder for the records of the quick suite; made if it is not there.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
    #[command(flatten)]
    pub device: DeviceArg,
}

#[derive(Debug, Subcommand)]
pub enum ExperimentCommand {
    /// Fused linear regression: y = w x + b by batch gradient descent.
    #[command(long_about = REGRESSION_ABOUT, after_help = REGRESSION_EXAMPLES)]
    Regression(Box<RegressionArgs>),
    /// Matrix product: C = A B, from three loops to tensor cores.
    #[command(long_about = MATMUL_ABOUT, after_help = MATMUL_EXAMPLES)]
    Matmul(Box<MatmulArgs>),
}

const REGRESSION_ABOUT: &str = "\
Fused linear regression: y = w x + b by batch gradient descent on the mean squared error. The points are drawn around \
y = 3 x + 2 by a seeded generator; 80 % of them are trained on, the rest tested. Each rung does the whole descent; it is \
checked against the same descent in f64.";

const REGRESSION_EXAMPLES: &str = "\
Examples:
  warpbook run regression --quick
  warpbook run regression --points 100k,1M,10M --out sizes.json
  warpbook run regression --sweep --device cuda:1
  warpbook run regression --rungs 02_fused,04_fused_graph --samples 100 --budget 10
  warpbook run regression --lr 0.1          too large: the rows say that the descent diverged, exit code 1

Ctrl-C once ends after the sample under way and keeps what is finished; twice stops at once.
See `warpbook --help` for the exit codes.";

#[derive(Debug, Args)]
pub struct DeviceArg {
    /// Device to run on: cuda:0 (or another number), cpu, or best (the largest GPU, else the processor).
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
#[command(allow_negative_numbers = true)]
pub struct RegressionArgs {
    /// Points of a data set, test points included; several with commas or by repeating the option. k, M and G and
    /// underscores are read: 100k, 5M, 5_000_000. [default: 5M, with --quick 100k,500k,1M,5M]
    #[arg(long, value_name = "N[,N..]", value_delimiter = ',', value_parser = parse_count, conflicts_with = "sweep")]
    points: Vec<u64>,
    /// Features of a point: numbers beside its y, and so weights beside b; 1 to 256.
    #[arg(long, value_name = "N", value_parser = parse_count)]
    features: Option<u64>,
    /// One more data set with features of its own, as 5Mx16; may be repeated.
    #[arg(long, value_name = "NxF", value_parser = parse_size)]
    also: Vec<(u64, u64)>,
    /// All sizes of the published record: 100 k to 200 M points, and 5 M points of 16 features.
    #[arg(long, conflicts_with = "quick")]
    sweep: bool,
    /// Small sizes and few samples: at most 60 seconds on two cores.
    #[arg(long)]
    quick: bool,
    /// Passes over the training points, 1 to 10000.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = parse_count)]
    epochs: u64,
    /// Learning rate: the step width of the descent, above 0.
    #[arg(long, value_name = "R", default_value_t = 0.01)]
    lr: f32,
    /// Standard deviation of the Gaussian noise on y, from 0.
    #[arg(long, value_name = "S", default_value_t = 0.1)]
    noise: f32,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Only these rungs, by id, with commas between them. [default: all]
    #[arg(long, value_name = "ID[,ID..]", value_delimiter = ',')]
    rungs: Vec<String>,
    /// Another of the tiles that the kernels permit, by id, as t512x8b2. [default: each kernel's first]
    #[arg(long, value_name = "ID")]
    tile: Option<String>,
    /// Leave out the timing of an epoch's parts.
    #[arg(long)]
    no_parts: bool,
    #[command(flatten)]
    timing: TimingArgs,
    /// File for the record. An existing file is replaced only if it is named here. [default: regression.json in the
    /// working directory, or regression-2.json and so on if it is there]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub device: DeviceArg,
}

impl RegressionArgs {
    /// The experiment with these settings.
    pub fn experiment(&self) -> Regression {
        let mut r = match () {
            () if self.sweep => Regression::sweep(),
            () if self.quick => Regression::quick(),
            () => Regression::new(),
        };
        if !self.points.is_empty() {
            r = r.points(self.points.iter().copied());
        }
        if let Some(features) = self.features {
            r = r.features(features);
        }
        for (points, features) in &self.also {
            r = r.also(*points, *features);
        }
        if !self.rungs.is_empty() {
            r = r.rungs(self.rungs.iter().map(|id| id.trim()));
        }
        if let Some(tile) = &self.tile {
            r = r.tile(tile);
        }
        r.epochs(self.epochs).learning_rate(self.lr).noise(self.noise).seed(self.seed).parts(!self.no_parts)
    }

    /// The timing with these settings, or why it cannot be.
    pub fn bench(&self) -> Result<Bench, String> {
        self.timing.bench(self.quick)
    }
}

#[derive(Debug, Args)]
pub struct TimingArgs {
    /// Most samples of a measurement. [default: 25, with --quick 7]
    #[arg(long, value_name = "N")]
    samples: Option<u32>,
    /// Seconds after which a measurement begins no further sample. [default: 2, with --quick 0.5]
    #[arg(long, value_name = "SECONDS")]
    budget: Option<f64>,
}

impl TimingArgs {
    fn bench(&self, quick: bool) -> Result<Bench, String> {
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

const MATMUL_ABOUT: &str = "\
Matrix product: C = A B, C being m x n and each of its elements a sum of k terms. A and B hold Gaussian numbers, rounded \
to their type; sums are in fp32. Each rung is held against the product in f64, every element, and then timed; those that \
are close to the fastest, NVIDIA's libraries among them, are timed in turn, so that all see the same clocks.";

const MATMUL_EXAMPLES: &str = "\
Examples:
  warpbook run matmul --quick
  warpbook run matmul --shape 4096 --dtype bf16
  warpbook run matmul --shape 128x8192x8192,4097x4095x4093 --dtype bf16,fp16
  warpbook run matmul --rungs 14_overlapped_store,cublaslt --shape 8192 --dtype bf16 --samples 100 --budget 10
  warpbook run matmul --sweep --out matmul.json

See `warpbook --help` for the exit codes.";

#[derive(Debug, Args)]
pub struct MatmulArgs {
    /// Sizes m x n x k of a product, as 128x8192x8192, or one number for a cube; several with commas or by repeating the
    /// option. [default: 4096, with --quick 256,512,1000]
    #[arg(long, value_name = "MxNxK[,..]", value_delimiter = ',', value_parser = parse_shape, conflicts_with = "sweep")]
    shape: Vec<(u64, u64, u64)>,
    /// Types of the matrices: fp32, tf32, fp16, bf16; several with commas. [default: fp32,bf16, with --sweep all]
    #[arg(long, value_name = "TYPE[,..]", value_delimiter = ',', value_parser = parse_dtype)]
    dtype: Vec<Dtype>,
    /// One more product with a type of its own, as 4096:tf32; may be repeated.
    #[arg(long, value_name = "MxNxK:TYPE", value_parser = parse_product)]
    also: Vec<((u64, u64, u64), Dtype)>,
    /// The published record: all shapes in fp32 and bf16, the cubes in tf32 and fp16.
    #[arg(long, conflicts_with = "quick")]
    sweep: bool,
    /// Small sizes and few samples: at most 60 seconds on two cores.
    #[arg(long)]
    quick: bool,
    /// A is stored transposed, k x m.
    #[arg(long)]
    trans_a: bool,
    /// B is stored transposed, n x k.
    #[arg(long)]
    trans_b: bool,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Only these rungs, by id, with commas between them. [default: all]
    #[arg(long, value_name = "ID[,ID..]", value_delimiter = ',')]
    rungs: Vec<String>,
    /// One tile for the rungs that have it, by id, as 128x256s4c2g8. [default: the fastest of each rung's]
    #[arg(long, value_name = "ID")]
    tile: Option<String>,
    /// Take each rung's first tile and try no other.
    #[arg(long)]
    no_tiles: bool,
    /// Leave out the timing of the ways to the device and back.
    #[arg(long)]
    no_transfers: bool,
    #[command(flatten)]
    timing: TimingArgs,
    /// File for the record. An existing file is replaced only if it is named here. [default: matmul.json in the working
    /// directory, or matmul-2.json and so on if it is there]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub device: DeviceArg,
}

impl MatmulArgs {
    /// The experiment with these settings.
    pub fn experiment(&self) -> Matmul {
        let mut e = match () {
            () if self.sweep => Matmul::sweep(),
            () if self.quick => Matmul::quick(),
            () => Matmul::new(),
        };
        if !self.shape.is_empty() {
            e = e.shapes(self.shape.iter().copied());
        }
        if !self.dtype.is_empty() {
            e = e.dtypes(self.dtype.iter().copied());
        }
        if !self.rungs.is_empty() {
            e = e.rungs(self.rungs.iter().map(|id| id.trim()));
        }
        if let Some(tile) = &self.tile {
            e = e.tile(tile);
        }
        for (shape, dtype) in &self.also {
            e = e.also(*shape, *dtype);
        }
        e.transposed(self.trans_a, self.trans_b).seed(self.seed).tiles(!self.no_tiles).transfers(!self.no_transfers)
    }

    /// The timing with these settings, or why it cannot be.
    pub fn bench(&self) -> Result<Bench, String> {
        self.timing.bench(self.quick)
    }
}

const TUNE_EXAMPLES: &str = "\
Examples:
  warpbook tune matmul --shape 4096,128x8192x8192 --dtype bf16
  warpbook tune matmul --shape 1000 --dtype fp32,tf32 --trans-b

What is found is kept beside the compiled kernels, by device. It is never required: without it, rung and tile are chosen
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
    /// The rungs that may be the fastest, and the libraries beside them.
    pub fn experiment(&self) -> Matmul {
        // fp32 is multiplied on CUDA cores, everything else by tensor cores where there are any.
        let candidates: &[&str] = if self.dtype.contains(&Dtype::F32) {
            &["cublas", "07_", "08_", "09_", "10_", "13_", "14_", "15_"]
        } else {
            &["cublas", "09_", "10_", "13_", "14_", "15_"]
        };
        let may_be_fastest = |id: &str| candidates.iter().any(|c| id.starts_with(c));
        let rungs = warpbook::record::matmul::rungs();
        Matmul::new()
            .shapes(self.shape.iter().copied())
            .dtypes(self.dtype.iter().copied())
            .transposed(self.trans_a, self.trans_b)
            .rungs(rungs.iter().map(|r| r.id.to_string()).filter(|id| may_be_fastest(id)))
            .transfers(false)
    }

    /// The timing with these settings, or why it cannot be.
    pub fn bench(&self) -> Result<Bench, String> {
        self.timing.bench(false)
    }
}

const ATTEMPT_ABOUT: &str = "\
Compiles a kernel of your own in the place of a rung of the matrix product, with the same parameters and launch. It is tried at \
three small products, where what is wrong can be told, then checked and timed beside its rung and cuBLAS. It runs in a process of \
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
    /// The rungs that are timed beside it, by id, with commas between them. [default: its rung and cublas]
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
  python3 notebooks/pytorch/regression.py --sweep --also 5000000x16 --out pytorch.json
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

const DOCTOR_EXAMPLES: &str = "\
Examples:
  warpbook doctor
  warpbook doctor --device cpu

Exit code 0: the lab can run (the processor is enough); 3: it cannot.";

#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub device: DeviceArg,
}

/// A count: 5000000, 5_000_000, 5M, 1.5M, 100k.
fn parse_count(text: &str) -> Result<u64, String> {
    let plain: String = text.trim().chars().filter(|c| *c != '_').collect();
    let (digits, scale) = match plain.char_indices().last() {
        Some((at, 'k' | 'K')) => (plain[..at].trim_end(), 1_000),
        Some((at, 'm' | 'M')) => (plain[..at].trim_end(), 1_000_000),
        Some((at, 'g' | 'G')) => (plain[..at].trim_end(), 1_000_000_000),
        _ => (plain.as_str(), 1),
    };
    let bad = || format!("`{text}` is no count: write a whole number, as 5000000, 5_000_000, 5M or 100k");
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) || (digits.contains('.') && fraction.is_empty()) {
        return Err(bad());
    }
    let too_large = || format!("`{text}` is too large");
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let mut parts = 0;
    let mut unit = scale;
    for b in fraction.bytes() {
        if unit % 10 != 0 {
            // 1.5 points, or 1.2345k: digits behind the last whole one.
            return Err(bad());
        }
        unit /= 10;
        parts += u64::from(b - b'0') * unit;
    }
    whole.checked_mul(scale).and_then(|n| n.checked_add(parts)).ok_or_else(too_large)
}

/// Points and features: 5Mx16.
fn parse_size(text: &str) -> Result<(u64, u64), String> {
    let (points, features) = text
        .split_once(['x', 'X', '×'])
        .ok_or_else(|| format!("`{text}` is no size: write points, an x and features, as 5Mx16"))?;
    Ok((parse_count(points)?, parse_count(features)?))
}

/// m x n x k: 128x8192x8192, or 4096 for a cube.
fn parse_shape(text: &str) -> Result<(u64, u64, u64), String> {
    let sizes = text.split(['x', 'X', '×']).map(parse_count).collect::<Result<Vec<u64>, _>>()?;
    match sizes[..] {
        [edge] => Ok((edge, edge, edge)),
        [m, n, k] => Ok((m, n, k)),
        _ => Err(format!(
            "`{text}` is no shape: write m, n and k with an x between them, as 128x8192x8192, or one number for a cube"
        )),
    }
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

/// A shape and a type: 4096:tf32.
fn parse_product(text: &str) -> Result<((u64, u64, u64), Dtype), String> {
    let (shape, dtype) = text
        .rsplit_once(':')
        .ok_or_else(|| format!("`{text}` is no product: write a shape, a colon and a type, as 4096:tf32"))?;
    Ok((parse_shape(shape)?, parse_dtype(dtype)?))
}

/// fp32 and f32 are one.
fn parse_dtype(text: &str) -> Result<Dtype, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "fp32" | "f32" => Ok(Dtype::F32),
        "tf32" => Ok(Dtype::Tf32),
        "fp16" | "f16" => Ok(Dtype::F16),
        "bf16" => Ok(Dtype::Bf16),
        _ => Err(format!("`{text}` is no type of a matrix: choose fp32, tf32, fp16 or bf16")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn shapes_and_types_are_read() {
        let check = |text: &str, expect: Option<(u64, u64, u64)>| assert_eq!(parse_shape(text).ok(), expect, "{text}");
        check("4096", Some((4096, 4096, 4096)));
        check("128x8192x8k", Some((128, 8192, 8000)));
        check("1 x 2 x 3", Some((1, 2, 3)));
        check("1x2", None);
        check("1x2x3x4", None);
        check("", None);
        check("axbxc", None);
        assert_eq!(parse_product("64x8x9:tf32").ok(), Some(((64, 8, 9), Dtype::Tf32)));
        assert!(parse_product("64x8x9").unwrap_err().contains("as 4096:tf32"));
        assert_eq!(parse_dtype(" BF16").ok(), Some(Dtype::Bf16));
        assert_eq!(parse_dtype("f32").ok(), Some(Dtype::F32));
        assert_eq!(parse_named_size(" BM = 64"), Ok(("BM".into(), 64)));
        for bad in ["BM", "BM=x", "=3", "B M=3", "3B=3"] {
            assert!(parse_named_size(bad).unwrap_err().contains("as BM=64"), "{bad}");
        }
        assert!(parse_dtype("int8").unwrap_err().contains("choose fp32"));
    }

    #[test]
    fn sizes_are_read() {
        let check = |text: &str, expect: Option<(u64, u64)>| assert_eq!(parse_size(text).ok(), expect, "{text}");
        check("5Mx16", Some((5_000_000, 16)));
        check("1000 x 3", Some((1000, 3)));
        check("5M", None);
        check("x", None);
        check("5Mx", None);
        check("5x3x2", None);
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn counts_are_read() {
        let check = |text: &str, expect: Option<u64>| assert_eq!(parse_count(text).ok(), expect, "{text}");
        check("5000000", Some(5_000_000));
        check("5_000_000", Some(5_000_000));
        check("5M", Some(5_000_000));
        check("100k", Some(100_000));
        check("1.5M", Some(1_500_000));
        check("1.250k", Some(1_250));
        check(" 2 G ", Some(2_000_000_000));
        check("0", Some(0));
        check("1.5", None);
        check("1.2345k", None);
        check("1.", None);
        check("-5", None);
        check("", None);
        check("M", None);
        check("5e6", None);
        check("5MM", None);
        check("é", None);
        check("18446744073709551616", None);
        check("99999999999999G", None);
    }

    fn regression(words: &[&str]) -> Box<RegressionArgs> {
        let words = ["warpbook", "run", "regression"].iter().chain(words);
        let Command::Run(RunArgs { experiment: Some(ExperimentCommand::Regression(args)), .. }) =
            Cli::parse_from(words).command
        else {
            panic!("not a regression")
        };
        args
    }

    #[test]
    fn settings_reach_the_experiment() {
        let command = |words: &[&str]| regression(words).experiment().command("cpu");
        assert_eq!(command(&[]), Regression::new().command("cpu"));
        assert_eq!(command(&["--sweep"]), Regression::sweep().command("cpu"));
        assert_eq!(command(&["--quick"]), Regression::quick().command("cpu"));
        // The record's own command gives the same experiment again.
        let words = [
            "--points", "1k,2_000", "--points", "3k", "--epochs", "7", "--lr", "-0.5", "--noise", "0.2", "--seed", "9",
        ];
        let all = [
            &words[..],
            &[
                "--features",
                "3",
                "--also",
                "5kx16",
                "--rungs",
                "02_fused,cpu_1_thread",
                "--tile",
                "t512x8b2",
                "--no-parts",
            ],
        ]
        .concat();
        let text = command(&all);
        assert!(text.contains("--points 1000,2000,3000 --epochs 7 --lr -0.5"), "{text}");
        let again: Vec<&str> = text.split(' ').skip(3).collect();
        assert_eq!(command(&again), text);
    }

    #[test]
    fn the_timing_is_bounded() {
        assert_eq!(regression(&["--quick"]).bench().unwrap().samples, Bench::quick().samples);
        assert_eq!(regression(&["--samples", "3", "--budget", "0.5"]).bench().unwrap().samples, 3);
        assert!(regression(&["--samples", "0"]).bench().is_err());
        for bad in ["-1", "nan", "inf"] {
            assert!(regression(&["--budget", bad]).bench().is_err(), "{bad}");
        }
    }
}
