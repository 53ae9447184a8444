//! `warpbook train`.

use super::common::PlaceArgs;
use clap::Args;
use std::path::PathBuf;

pub(super) const TRAIN_EXAMPLES: &str = "\
Examples:
  warpbook train mnist --epochs 3 --checkpoint mnist.safetensors
  warpbook train mnist --epochs 5 --resume mnist.safetensors --checkpoint mnist.safetensors
  warpbook train cifar10 --data ~/cifar10 --steps 100 --log-every 10
  warpbook train mnist --data synthetic --init weights.safetensors --no-shuffle --no-dropout
  warpbook train cifar10 --device cuda:0 --precision amp-fp16
  warpbook train amp-recipe --edge 512 --batch 64
  warpbook train my.toml --epochs 2      a recipe of your own; options override it

A recipe of your own is a TOML file; data, learning_rate and network are needed:
  # mnist, fashion-mnist, cifar10, synthetic, or a folder with a folder of images for each class
  data = \"mnist\"
  # input = [3, 64, 64]       channels, height, width; for a folder of images only
  batch = 128
  epochs = 10
  learning_rate = 0.05        # also: name, steps, seed, clip, shuffle
  network = [
      \"conv2d 32 3x3 padding 1\", \"batch_norm\", \"relu\",
      { residual = [\"conv2d 32 3x3 padding 1 no_bias\", \"batch_norm\", \"gelu\"] },
      \"max_pool 2\", \"avg_pool 2 stride 1\", \"dropout 0.25\",
      \"flatten\", \"linear 10 name head\",
  ]
  # sgd: momentum, nesterov, weight_decay; adam and adam_w: betas, epsilon, weight_decay
  [optimizer]
  kind = \"sgd\"
  momentum = 0.9
  # constant; step: every, gamma; cosine: period, minimum;
  # one_cycle: total, rise, start_divisor, end_divisor; all: by = \"epoch\" or \"step\"
  [schedule]
  kind = \"step\"
  every = 5
  gamma = 0.5
  [loss]
  kind = \"cross_entropy\"
  smoothing = 0.1
  [augmentation]
  crop = 4
  flip = true
  # mean and deviation of each channel, of pixels from 0 to 1
  [normalise]
  mean = [0.1307]

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
    /// What: mnist, cifar10, amp-recipe (three square linear layers on random numbers), or a file of your own, as my.toml.
    pub recipe: String,
    #[command(flatten)]
    pub from: DataFrom,
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Train as this rung of the ladder does, as 01_direct or 08_graph_fp16: see `warpbook run training`. [default: the fastest of the
    /// precision]
    #[arg(long, value_name = "ID", conflicts_with = "precision")]
    pub rung: Option<String>,
    /// Whether images are kept in GPU memory: auto keeps them where they take at most half of what is free.
    #[arg(long, value_name = "auto|on|off", default_value = "auto")]
    pub resident: String,
    /// Threads that gather batches of images that are not.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub workers: usize,
    /// Whether those batches are gathered in page-locked memory.
    #[arg(long, value_name = "on|off", default_value = "on")]
    pub pin: String,
    /// Edge of the amp-recipe's square layers. [default: 4096]
    #[arg(long, value_name = "N")]
    pub edge: Option<usize>,
    /// Samples of a batch. [default: the recipe's]
    #[arg(long, value_name = "N")]
    pub batch: Option<usize>,
    /// Passes over the training images. [default: the recipe's]
    #[arg(long, value_name = "N")]
    pub epochs: Option<u32>,
    /// The most steps, whatever the epochs. [default: the recipe's]
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
    /// The learning rate at the start. [default: the recipe's]
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub lr: Option<f64>,
    /// Seed of weights, order, dropout and augmentation. [default: the recipe's]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
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

#[cfg(test)]
mod tests {
    use super::TRAIN_EXAMPLES;

    #[test]
    fn the_recipe_of_the_help_is_one() {
        let (_, recipe) = TRAIN_EXAMPLES.split_once("are needed:\n").unwrap();
        let (recipe, _) = recipe.split_once("\n\n").unwrap();
        let plan = crate::recipe::parse(std::path::Path::new("help.toml"), recipe).unwrap();
        assert_eq!((plan.recipe.batch, plan.recipe.network.params().len()), (128, 13));
    }
}
