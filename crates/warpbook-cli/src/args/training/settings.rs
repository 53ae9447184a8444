//! Options shared by `train` and `speedrun`: the recipe and changes to it.

use super::command::CommandLine;
use crate::args::common::{DataFrom, PlaceArgs};
use crate::recipe::ConvolutionBy;
use clap::Args;
use std::path::{Path, PathBuf};
use warpbook::gemm::ProductBy;
use warpbook::nn::train::Views;

#[derive(Debug, Args)]
pub struct TrainingArgs {
    /// Recipe: mnist, cifar10, cifar10-speedrun (90 % of CIFAR-10 in the least time; use --precision amp-bf16), amp-recipe (three square linear layers on random numbers), or a file of your own, such as my.toml.
    pub recipe: String,
    #[command(flatten)]
    pub from: DataFrom,
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Kernel or library that computes linear layers on a GPU, forwards and backwards: own (Warpbook's fastest product), stock (cuBLASLt), naive (one thread
    /// per output), tiled (32 x 32 tiles in shared memory), a rung of the matrix product, or a kernel of your own: FILE.cu, optionally with @ and the rung that
    /// it replaces (default 02_coalesced), and : and sizes of its tile, as in mine.cu@05_register_2d:BM=64,THREADS=128. A kernel of your own is tried before
    /// the training. [default: the recipe's, otherwise own]
    #[arg(long, value_name = "own|stock|naive|tiled|tiled-16|tiled-8|ID|FILE.cu", value_parser = parse_product)]
    pub product: Option<ProductBy>,
    /// Kernels or library that compute convolutions on a GPU, forwards and backwards: own (Warpbook's kernels), im2col (patches of the images as the columns of
    /// a matrix, which --product multiplies, so a kernel of your own computes the convolutions too) or stock (cuDNN, from `pip install nvidia-cudnn-cu13`).
    /// [default: the recipe's, otherwise own]
    #[arg(long, value_name = "own|im2col|stock")]
    pub convolution: Option<ConvolutionBy>,
    /// Keep images in GPU memory; auto does so if they take at most half of the free memory.
    #[arg(long, value_name = "auto|on|off", default_value = "auto", value_parser = ["auto", "on", "off"])]
    pub resident: String,
    /// Threads that gather batches of images that are not in GPU memory.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(..=1024))]
    pub workers: u16,
    /// Gather batches in page-locked memory.
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = ["on", "off"])]
    pub pin: String,
    /// Samples of a batch. [default: the recipe's]
    #[arg(long, value_name = "N")]
    pub batch: Option<usize>,
    /// Compute a batch in this many parts, one after the other, whose gradients are added up before the optimiser's step: only the activations of one part are
    /// in memory. Batch normalisation takes the statistics of each part. [default: the recipe's, otherwise 1]
    #[arg(long, value_name = "N")]
    pub accumulate: Option<usize>,
    /// Keep only the activations at the borders of this many segments of the network, and recompute the others in the backward pass: less memory, up to a
    /// forward pass more time, the same bits. [default: the recipe's, otherwise 1]
    #[arg(long, value_name = "N")]
    pub segments: Option<usize>,
    /// Passes over the training images. [default: the recipe's]
    #[arg(long, value_name = "N")]
    pub epochs: Option<u32>,
    /// Maximum number of steps, whatever the epochs. [default: the recipe's]
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
    /// Initial learning rate. [default: the recipe's]
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub lr: Option<f64>,
    /// Clip the norm of all gradients to this value. With `inf`, nothing is clipped, but each step's norm is recorded (otherwise only fp16 computes it).
    /// [default: the recipe's]
    #[arg(long, value_name = "NORM", allow_hyphen_values = true)]
    pub clip: Option<f64>,
    /// Seed of weights, order, dropout and augmentation. [default: the recipe's]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Take the images in the order of the file.
    #[arg(long)]
    pub no_shuffle: bool,
    /// Train on the original images, without random crops and flips.
    #[arg(long)]
    pub no_augment: bool,
    /// Train without dropout.
    #[arg(long)]
    pub no_dropout: bool,
    /// Views of a test image: one (the image itself), flips (the mean of the outputs for the image and its mirror image), or flips-and-shifts (the mean over six
    /// views: the image and its mirror image, each also shifted by one pixel down-right and up-left). [default: the recipe's, otherwise one]
    #[arg(long, value_name = "one|flips|flips-and-shifts")]
    pub views: Option<Views>,
    /// File for the record, written during the training: `train` records losses, accuracy, learning rate, loss scale and memory, `speedrun` the time and the
    /// accuracy of each training.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Name of the person who trains, for the record.
    #[arg(long, value_name = "NAME", env = "WARPBOOK_AUTHOR")]
    pub author: Option<String>,
}

/// Parses the choice for linear layers; a kernel's file is looked up in the working directory.
fn parse_product(text: &str) -> Result<ProductBy, String> {
    ProductBy::read(Path::new(""), text)
}

impl TrainingArgs {
    /// Starts the command line of `command` with these options. With a rung, the precision is left out, since the rung
    /// implies it.
    pub fn command(&self, command: &str, has_rung: bool) -> CommandLine {
        let mut line = CommandLine::new(command, &self.recipe, self.from.data.as_deref());
        line.option("precision", Some(self.place.precision).filter(|_| !has_rung));
        line.option("product", self.product);
        line.option("convolution", self.convolution.map(ConvolutionBy::name));
        line.option("resident", Some(&self.resident).filter(|r| *r != "auto"));
        line.option("workers", Some(self.workers).filter(|w| *w != 2));
        line.option("pin", Some(&self.pin).filter(|p| *p != "on"));
        line.option("batch", self.batch);
        line.option("accumulate", self.accumulate);
        line.option("segments", self.segments);
        line.option("epochs", self.epochs);
        line.option("steps", self.steps);
        line.option("lr", self.lr);
        line.option("clip", self.clip);
        line.option("seed", self.seed);
        line.option("views", self.views.map(|views| views.name().replace('_', "-")));
        line
    }

    /// Adds the options that have no value.
    pub fn add_flags_to(&self, line: &mut CommandLine) {
        line.flag("no-shuffle", self.no_shuffle);
        line.flag("no-augment", self.no_augment);
        line.flag("no-dropout", self.no_dropout);
    }
}
