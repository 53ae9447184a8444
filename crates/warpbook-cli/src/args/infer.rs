//! `warpbook freeze`, `warpbook eval` and `warpbook predict`.

use super::common::DeviceArg;
use super::train::DataFrom;
use clap::Args;
use std::path::PathBuf;
use warpbook::nn::train::Precision;

pub(super) const FREEZE_EXAMPLES: &str = "\
Examples:
  warpbook freeze mnist mnist.safetensors --out digits.safetensors
  warpbook freeze my.toml checkpoint.safetensors --out mine.safetensors

The file holds weights, layers, normalisation and the classes' names: `warpbook predict` and `warpbook eval` need nothing else.
Batch normalisations become part of the layers before them; dropout is left out.";

#[derive(Debug, Args)]
pub struct FreezeArgs {
    /// The recipe that the network is of: mnist, cifar10, or a file of your own.
    pub recipe: String,
    /// A checkpoint, or weights with PyTorch's names: a safetensors file.
    #[arg(value_name = "CHECKPOINT")]
    pub weights: PathBuf,
    /// File for the frozen network; one that exists is replaced.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    #[command(flatten)]
    pub from: DataFrom,
}

pub(super) const EVAL_EXAMPLES: &str = "\
Examples:
  warpbook eval mnist mnist.safetensors
  warpbook eval cifar10 weights.safetensors --data ~/cifar10
  warpbook eval digits.safetensors                   a frozen network, see `warpbook freeze`";

#[derive(Debug, Args)]
pub struct EvalArgs {
    /// The recipe that the network is of: mnist, cifar10, or a file of your own. Or a frozen network.
    #[arg(value_name = "RECIPE|FROZEN")]
    pub recipe: String,
    /// A checkpoint, or weights with PyTorch's names: a safetensors file. A frozen network needs none.
    #[arg(value_name = "FILE")]
    pub weights: Option<PathBuf>,
    #[command(flatten)]
    pub from: DataFrom,
    #[command(flatten)]
    pub device: DeviceArg,
    /// Types that a checkpoint is judged in: fp32, tf32, amp-fp16 or amp-bf16. The CPU computes in fp32, and a frozen network on the CPU.
    #[arg(long, value_name = "P", default_value = "fp32")]
    pub precision: Precision,
}

pub(super) const PREDICT_EXAMPLES: &str = "\
Examples:
  warpbook predict digits.safetensors three.png seven.jpg
  warpbook predict digits.safetensors scan.png --invert      dark strokes on light paper; MNIST's are light on dark
  warpbook predict digits.safetensors three.png --repeat 50  and how long it takes

An image is cut to its centre of the network's proportions, scaled, and made grey where the network takes grey.";

#[derive(Debug, Args)]
pub struct PredictArgs {
    /// A frozen network, as `warpbook freeze` writes it.
    #[arg(value_name = "FROZEN")]
    pub file: PathBuf,
    /// PNG or JPEG images.
    #[arg(value_name = "IMAGE", required = true)]
    pub images: Vec<PathBuf>,
    /// Exchange light and dark first.
    #[arg(long)]
    pub invert: bool,
    /// Classes that are listed for an image.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub top: usize,
    /// Measure, too: the median time of an image alone and the throughput of a large batch, of so many passes each.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub repeat: Option<u32>,
}
