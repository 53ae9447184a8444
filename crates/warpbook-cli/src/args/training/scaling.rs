//! Options of `warpbook scaling`.

use crate::args::common::time;
use clap::{ArgGroup, Args};
use std::path::PathBuf;
use std::time::Duration;
use warpbook::Workload;
use warpbook::nn::train::Precision;
use warpbook::scaling::Growth;

pub const SCALING_ABOUT: &str = "\
Time training steps on 1 to N ranks, and write one record: the time of a step, samples a second, and the scaling efficiency.

With weak scaling every rank has --batch samples, whatever the number of ranks; with strong scaling all ranks together have them. A rank is a process, started \
as by `train --gpus`. For comparison, one process also drives the same devices from one thread, which is slower. Before a step is timed, the losses of some \
steps are compared with the losses of one rank with the same batch. At the end the timeline of every rank in one step is recorded; on GPUs that needs CUPTI.";

pub const SCALING_EXAMPLES: &str = "\
Examples:
  warpbook scaling --gpus 2 --network cifar10 --batch 128,512 --precision fp32,amp-fp16,amp-bf16 --out scaling.json
  warpbook scaling --gpus 2 --network amp-recipe --precision amp-bf16 --growth weak
  warpbook scaling --ranks 2 --network mnist --batch 32 --synthetic
  python3 notebooks/pytorch/ddp.py --gpus 2 --batch 512 --out ddp.json
  warpbook scaling --gpus 2 --batch 512 --pytorch ddp.json --out scaling.json";

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("where").required(true).args(["gpus", "ranks"])))]
pub struct ScalingArgs {
    /// Measure on 1 to N GPUs of this machine, doubling their number.
    #[arg(long, value_name = "N")]
    pub gpus: Option<usize>,
    /// Measure on 1 to N processes on the CPU, doubling their number.
    #[arg(long, value_name = "N")]
    pub ranks: Option<usize>,
    /// Networks to train: mnist, cifar10, amp-recipe; several with commas.
    #[arg(long, value_name = "NAME[,NAME..]", value_delimiter = ',', default_value = "cifar10")]
    pub network: Vec<Workload>,
    /// Batch size: of each rank for weak scaling, of all ranks together for strong; several with commas. [default: each network's own]
    #[arg(long, value_name = "N[,N..]", value_delimiter = ',')]
    pub batch: Vec<u64>,
    /// Scaling: weak (a batch for each rank) or strong (one batch for all ranks together); both with a comma.
    #[arg(long, value_name = "weak|strong", value_delimiter = ',', default_values = ["weak", "strong"])]
    pub growth: Vec<Growth>,
    /// Types that GPUs compute in and send gradients in: fp32, tf32, amp-fp16, amp-bf16; several with commas.
    #[arg(long, value_name = "P[,P..]", value_delimiter = ',', default_value = "fp32")]
    pub precision: Vec<Precision>,
    /// Types in which ranks on the CPU send gradients: fp32, bf16, fp16; several with commas.
    #[arg(long, value_name = "TYPE[,TYPE..]", value_delimiter = ',', default_value = "fp32", value_parser = ["fp32", "bf16", "fp16"])]
    pub gradients: Vec<String>,
    /// MiB of gradients in a bucket: each is sent as soon as it is full, during the backward pass. The first bucket has at most 1 MiB.
    #[arg(long, value_name = "MIB", default_value_t = 25.0)]
    pub bucket: f64,
    /// Width of the three layers of amp-recipe.
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub features: usize,
    /// Leave out measurements of one process that drives all devices.
    #[arg(long)]
    pub no_one_process: bool,
    /// Leave out the timeline of every rank in one step.
    #[arg(long)]
    pub no_timeline: bool,
    /// Steps of a sample. [default: 100, on the CPU 4]
    #[arg(long, value_name = "N")]
    pub steps: Option<usize>,
    /// Samples of a measurement. [default: 15, on the CPU 5]
    #[arg(long, value_name = "N")]
    pub samples: Option<usize>,
    /// Number of steps whose losses are compared with the losses of one rank.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub checked_steps: usize,
    /// Folder with the images' files. [default: where `data fetch` puts them; images are drawn if there are none]
    #[arg(long, value_name = "FOLDER", conflicts_with = "synthetic")]
    pub data: Option<PathBuf>,
    /// Draw images, even if there are files.
    #[arg(long)]
    pub synthetic: bool,
    /// File that notebooks/pytorch/ddp.py --out wrote; its figures become rows. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub pytorch: Vec<PathBuf>,
    /// End all ranks if one is silent for this long: 10m, or 90s.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time, allow_hyphen_values = true)]
    pub rank_timeout: Duration,
    /// File for the record. [default: scaling.json, or the first free name like it]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// File for the measurements of a process; the launcher sets it.
    #[arg(long, value_name = "FILE", hide = true)]
    pub worker: Option<PathBuf>,
    /// Let this process drive all devices; the launcher sets it.
    #[arg(long, hide = true, requires = "worker")]
    pub in_one_process: bool,
}
