//! `warpbook train` and `warpbook eval`.

use clap::Args;
use std::path::PathBuf;

pub(super) const TRAIN_EXAMPLES: &str = "\
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

pub(super) const EVAL_EXAMPLES: &str = "\
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
