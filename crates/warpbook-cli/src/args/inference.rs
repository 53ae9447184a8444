//! Options of `warpbook freeze`, `warpbook eval` and `warpbook predict`.

use super::common::{DataFrom, PlaceArgs};
use clap::Args;
use std::path::PathBuf;

/// Arguments that select where a frozen network runs, and how long it is timed there.
#[derive(Debug, Args)]
pub struct UseArgs {
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Also measure the median time of a single image and the throughput of large batches, over this many passes each.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub repeat: Option<u32>,
}

pub(super) const FREEZE_EXAMPLES: &str = "\
Examples:
  warpbook freeze mnist.safetensors --out digits.safetensors
  warpbook freeze my.toml weights.safetensors --out mine.safetensors     weights alone do not say what network they are of
  warpbook freeze mnist.safetensors --out digits.safetensors --device cuda:0 --precision fp16 --repeat 50

The file holds weights in fp32, layers, normalisation, the classes' names, and how images were prepared: `warpbook predict` and `warpbook eval` need \
nothing else.
Batch normalisations become part of the layers before them; dropout is left out. The network is then tried on the device, in the
precision that is asked for, against the CPU.";

#[derive(Debug, Args)]
pub struct FreezeArgs {
    /// Checkpoint, or the recipe of the weights: mnist, cifar10, or a file of your own.
    #[arg(value_name = "CHECKPOINT|RECIPE")]
    pub recipe: String,
    /// Safetensors file with the weights: a checkpoint, or weights under PyTorch's names. Not needed if a checkpoint is named first.
    #[arg(value_name = "WEIGHTS")]
    pub weights: Option<PathBuf>,
    /// File for the frozen network; an existing file is replaced.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    #[command(flatten)]
    pub from: DataFrom,
    #[command(flatten)]
    pub usage: UseArgs,
}

pub(super) const EVAL_EXAMPLES: &str = "\
Examples:
  warpbook eval mnist.safetensors                    a checkpoint of `warpbook train`
  warpbook eval cifar10 weights.safetensors --data ~/cifar10
  warpbook eval digits.safetensors                   a frozen network, see `warpbook freeze`
  warpbook eval digits.safetensors --device cuda:0 --precision fp16 --repeat 50";

#[derive(Debug, Args)]
pub struct EvalArgs {
    /// Frozen network or checkpoint, or the recipe of the weights: mnist, cifar10, or a file of your own.
    #[arg(value_name = "FILE|RECIPE")]
    pub recipe: String,
    /// Safetensors file with the weights: a checkpoint, or weights under PyTorch's names.
    #[arg(value_name = "WEIGHTS")]
    pub weights: Option<PathBuf>,
    #[command(flatten)]
    pub from: DataFrom,
    #[command(flatten)]
    pub usage: UseArgs,
}

pub(super) const PREDICT_EXAMPLES: &str = "\
Examples:
  warpbook predict digits.safetensors three.png seven.jpg
  warpbook predict digits.safetensors scan.png --invert      dark strokes on light paper; MNIST's are light on dark
  warpbook predict digits.safetensors three.png --repeat 50  and how long it takes
  warpbook predict digits.safetensors three.png --device cuda:0 --precision bf16

An image is prepared as the images of the training were. It is turned upright as its EXIF data say. A network that was trained on a folder takes the \
whole image, scaled; one that was trained on images of a single size, as MNIST's, takes the centre of their proportions, scaled. It is made grey \
where the network takes grey.";

#[derive(Debug, Args)]
pub struct PredictArgs {
    /// Frozen network, as `warpbook freeze` writes it.
    #[arg(value_name = "FROZEN")]
    pub file: PathBuf,
    /// PNG or JPEG images.
    #[arg(value_name = "IMAGE", required = true)]
    pub images: Vec<PathBuf>,
    /// Invert light and dark first.
    #[arg(long)]
    pub invert: bool,
    /// Number of classes listed for an image.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub top: usize,
    #[command(flatten)]
    pub usage: UseArgs,
}
