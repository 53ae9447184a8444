//! `warpbook train`.

use super::common::PlaceArgs;
use super::ranks::RanksArgs;
use super::schedule::ProfileSchedule;
use crate::recipe::ConvolutionBy;
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;
use warpbook::gemm::ProductBy;
use warpbook::nn::train::Views;

/// A measurement keeps no more samples.
const MOST_TRAININGS: u64 = 1000;

pub(super) const TRAIN_EXAMPLES: &str = "\
Examples:
  warpbook train mnist --epochs 3 --checkpoint mnist.safetensors
  warpbook train mnist --epochs 5 --resume mnist.safetensors --checkpoint mnist.safetensors
  warpbook train cifar10 --data ~/cifar10 --steps 100 --log-every 10
  warpbook train mnist --data synthetic --init weights.safetensors --no-shuffle --no-dropout
  warpbook train cifar10 --device cuda:0 --precision amp-fp16
  warpbook train mnist --device cuda:0 --precision amp-fp16 --convolution stock --product stock
  warpbook train mnist --device cuda:0 --product mine.cu@03_shared_tile --convolution im2col     by a kernel of your own
  warpbook train amp-recipe --edge 512 --batch 64
  warpbook train mnist --log-every 1 --out mnist.json     every step's loss; `warpbook view mnist.json` draws it
  warpbook train mnist --device cuda:0 --steps 20 --profile steps.json     what the GPU does in a step, at what rates
  warpbook train mnist --device cpu --steps 8 --profile steps.json --profile-schedule 2,1,2     what the CPU does in a step
  warpbook train cifar10 --epochs 50 --time-budget 10m --checkpoint cifar10.safetensors
  warpbook train cifar10-speedrun --precision amp-bf16 --seeds 10 --to 90 --out speedrun.json     time and accuracy of each seed
  warpbook train cifar10-speedrun --precision amp-bf16 --seeds 10 --views flips     test images as they are and mirrored, without shifts
  warpbook train cifar10-speedrun --precision amp-bf16 --seeds 10 --hold-out 5000 --epochs 8 --steps 175     judged by training images
  warpbook train mnist --precision amp-fp16 --epochs 8 --cold 10 --to 99 --out mnist-to-99.json     the same of whole processes
  warpbook train cifar10 --gpus 2 --batch 256     data-parallel: 128 samples a step on each of two GPUs
  warpbook train mnist --ranks 2 --steps 100      the same way on the CPU, with two processes
  torchrun --nproc-per-node 2 --no-python warpbook train cifar10     under a launcher that you have; srun and mpirun, too
  warpbook train my.toml --epochs 2      a recipe of your own; options override it

A recipe of your own is a TOML file; data, learning_rate and network are needed:
  # mnist, fashion-mnist, cifar10, synthetic, synthetic-colours, or a folder with a folder of images for each class
  data = \"mnist\"
  # input = [3, 64, 64]       channels, height, width; for a folder of images only
  batch = 128
  epochs = 10
  learning_rate = 0.05        # also: name, steps, seed, shuffle; clip = 1.0, or clip = inf: the norm is recorded
  # accumulate = 4            the batch in 4 parts, one after the other, gradients added up before the step: memory for 32 samples
  # segments = 4              activations inside of 4 segments are computed again, not kept: less memory, up to a forward pass more
  # product = \"stock\"         on a GPU: own, stock, naive, tiled, tiled-16, tiled-8, a rung, or a kernel of your own as \"mine.cu\";
  #                             convolution = \"own\", \"stock\" or \"im2col\" (columns of patches, multiplied by the product);
  #                             for one layer, in network: { layer = \"linear 128\", product = \"mine.cu\" }
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
  # linear: total, end; one_cycle: total, rise, start_divisor, end_divisor; all: by = \"epoch\" or \"step\"
  [schedule]
  kind = \"step\"
  every = 5
  gamma = 0.5
  [loss]
  kind = \"cross_entropy\"
  smoothing = 0.1
  [augmentation]
  crop = 4                    # from a border of 4 pixels: black, or the image mirrored with reflect = true
  flip = true                 # at random; in every second epoch with alternate = true
  # mean and deviation of each channel, of pixels from 0 to 1
  [normalise]
  mean = [0.1307]
  # Settings for some of the parameters, with sgd and momentum. The first group that names a parameter has it; \"*\" is any characters.
  # rate is a factor of learning_rate; also: momentum, weight_decay, schedule = { kind = \"linear\", total = 66 }
  [[groups]]
  params = \"conv*.weight\"     # filters may be updated by Muon: muon = true, steps = 5, normalise = true
  rate = 0.5
  # How weights begin: factors of the random numbers; identity = true for filters that pass their input on;
  # whiten = \"conv1\" for a first layer with the eigenvectors of the images' patches (two filters for each element of a patch)
  [initial]
  factors = [{ params = \"head.weight\", factor = 0.5 }]

Test images are seen once, or as the mean of several views: views = \"flips\" (as they are and mirrored) or \"flips_and_shifts\" (both, \
and both shifted by a pixel to either side), above [optimizer]; --views goes before it.
A layer with frozen after its name, as \"conv2d 24 2x2 frozen\", keeps its weight.

Ctrl-C ends after the step under way; the checkpoint and the record are then written. Losses of a training of more than 20000 lines are \
kept as means of several. See `warpbook --help` for the exit codes.";

/// Where images come from.
#[derive(Debug, Args)]
pub struct DataFrom {
    /// Folder with the data set's files, or `synthetic` for digits drawn by a program. [default: WARPBOOK_DATA, or where `warpbook
    /// data fetch` puts them; for mnist and cifar10 digits drawn by a program where neither has files]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct TrainArgs {
    /// Recipe: mnist, cifar10, cifar10-speedrun (90 % of CIFAR-10 in the least time; use --precision amp-bf16), amp-recipe (three square linear layers on random numbers), or a file of your own, such as my.toml.
    pub recipe: String,
    #[command(flatten)]
    pub from: DataFrom,
    #[command(flatten)]
    pub place: PlaceArgs,
    #[command(flatten)]
    pub together: RanksArgs,
    /// Train as the rung of this name does, for example 01_direct or 08_graph_fp16: see `warpbook run training`. [default: the fastest of the
    /// precision]
    #[arg(long, value_name = "ID", conflicts_with = "precision")]
    pub rung: Option<String>,
    /// The kernel or library that computes linear layers on a GPU, forwards and backwards: own (our fastest product), stock (cuBLASLt), naive (a thread an
    /// output), tiled (32 x 32 tiles in shared memory), a rung of the matrix product, or a kernel of your own: FILE.cu, with @ and the rung that
    /// it takes the place of (02_coalesced without it) and : and sizes of its tile, as in mine.cu@05_register_2d:BM=64,THREADS=128. A kernel is
    /// tried before it trains. [default: the recipe's, or else own]
    #[arg(long, value_name = "own|stock|naive|tiled|tiled-16|tiled-8|ID|FILE.cu", value_parser = parse_product)]
    pub product: Option<ProductBy>,
    /// The kernels or the library that compute convolutions on a GPU, forwards and backwards: own (our kernels), im2col (patches of the images as the
    /// columns of a matrix, which --product multiplies, so a kernel of your own computes the convolutions too) or stock (cuDNN, from `pip install
    /// nvidia-cudnn-cu13`). [default: the recipe's, or else own]
    #[arg(long, value_name = "own|im2col|stock")]
    pub convolution: Option<ConvolutionBy>,
    /// Whether images are kept in GPU memory: auto keeps them where they take at most half of what is free.
    #[arg(long, value_name = "auto|on|off", default_value = "auto")]
    pub resident: String,
    /// Threads that gather batches of images that are not kept there.
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
    /// Make a batch in so many parts, one after the other, whose gradients are added up before the optimiser's step: activations of a part only are
    /// in memory. Batch normalisation takes the statistics of each part. [default: the recipe's, or else 1]
    #[arg(long, value_name = "N")]
    pub accumulate: Option<usize>,
    /// Keep the activations at the borders of so many segments of the network only, and compute the others again in the backward pass: less
    /// memory, up to a forward pass more time, the same bits. [default: the recipe's, or else 1]
    #[arg(long, value_name = "N")]
    pub segments: Option<usize>,
    /// Passes over the training images. [default: the recipe's]
    #[arg(long, value_name = "N")]
    pub epochs: Option<u32>,
    /// The most steps, whatever the epochs. [default: the recipe's]
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
    /// The learning rate at the start. [default: the recipe's]
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub lr: Option<f64>,
    /// The largest norm of all gradients together; larger ones are scaled down to it. `inf` scales none, but computes and records the norm of each
    /// step, which is otherwise known of fp16 alone. [default: the recipe's]
    #[arg(long, value_name = "NORM", allow_hyphen_values = true)]
    pub clip: Option<f64>,
    /// Seed of weights, order, dropout and augmentation. [default: the recipe's]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Train at once, without a word in between, from so many seeds, the first of which is --seed, and say the time from images on the device
    /// to the accuracy, and the means. cifar10-speedrun trains so from one seed, unless a checkpoint, a record or a time budget is asked for.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_TRAININGS))]
    pub seeds: Option<u64>,
    /// Train at once, on all but so many of the training images, and judge by these in place of the test images: to choose settings by.
    #[arg(long, value_name = "N")]
    pub hold_out: Option<usize>,
    /// Train in so many new processes, one after the other, each from another seed, and take the time of each from its start to its end. One
    /// more comes first and is not counted: it compiles the kernels that the cache lacks.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_TRAININGS), conflicts_with_all = ["seeds", "hold_out"])]
    pub cold: Option<u64>,
    /// The accuracy in percent that the mean over the trainings of --seeds or --cold has to reach, such as 99. It is the check of their record, and
    /// the exit code is 1 where it is missed.
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    pub to: Option<f64>,
    /// What the images are, for the record of --seeds or --cold, where their files do not say so: for example "recompressed as JPEG q75".
    #[arg(long, value_name = "TEXT")]
    pub data_note: Option<String>,
    /// What one of the processes of --cold leaves: its result in this file.
    #[arg(long, hide = true, value_name = "FILE", requires = "cold_seed")]
    pub cold_result: Option<PathBuf>,
    /// The seed of that process.
    #[arg(long, hide = true, value_name = "N")]
    pub cold_seed: Option<u64>,
    /// The file in which that process begins the record of all of them.
    #[arg(long, hide = true, value_name = "FILE")]
    pub cold_record: Option<PathBuf>,
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
    /// How a test image is seen: one (as it is), flips (the mean of the outputs as it is and mirrored), or flips-and-shifts (the mean of six views:
    /// both, each also shifted by a pixel down and right, and up and left). [default: the recipe's, or else one]
    #[arg(long, value_name = "one|flips|flips-and-shifts")]
    pub views: Option<Views>,
    /// Batches between two lines of progress, each with the mean of their losses; the record has the same. 1 logs every step.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub log_every: u64,
    /// Time after which no further step begins, such as 90s, 5m or 1h; the test samples are then classified and the training is kept.
    #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    pub time_budget: Option<Duration>,
    /// File for a profile: of some steps (see --profile-schedule) what the device did, operation by operation and kernel by kernel,
    /// with FLOP/s and bandwidth where the work is known. The file is a record, whose timeline and roofline `warpbook view` shows; next to it lies the same as a trace (.trace.json) for ui.perfetto.dev. Each step is waited for then.
    /// Nsight Systems shows the same: nsys profile --trace=cuda,nvtx -o report warpbook train ... --profile FILE.
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Steps of a profile: WAIT that go by, WARMUP whose recording is thrown away, and ACTIVE that are kept. What recording costs is measured by those that go
    /// by, and by those after.
    #[arg(long, value_name = "WAIT,WARMUP,ACTIVE", default_value = "10,2,4", requires = "profile")]
    pub profile_schedule: ProfileSchedule,
    /// Read hardware counters of each kernel of a step, for the profile: bytes of DRAM and L2, sectors a request, bank conflicts, issue slots, stall reasons, use
    /// of the tensor cores. Needs CUPTI of CUDA 12.6 or later, and a driver that lets this user read them.
    #[arg(long, requires = "profile")]
    pub counters: bool,
    /// File for the record of the training: losses, accuracy, learning rate, loss scale, memory. It is written every few seconds. With --seeds, --hold-out
    /// or --cold: the time and the accuracy of each training, written after each.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Name of the person who trains, for the record.
    #[arg(long, value_name = "NAME", env = "WARPBOOK_AUTHOR")]
    pub author: Option<String>,
    /// Checkpoint file, written after every epoch, every minute within one, and at the end.
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// Continue from such a file.
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
}

/// A time such as 90s, 5m or 1h; a number alone counts seconds.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => return Err(format!("`{other}` is not a unit of time; write 90s, 5m or 1h")),
    };
    let seconds = number.trim().parse::<f64>().ok().map(|n| n * unit).filter(|s| (1e-3..=1e8).contains(s));
    let seconds = seconds.ok_or("write a time above 0 such as 90s, 5m or 1h")?;
    Ok(Duration::from_secs_f64(seconds))
}

/// Reads the choice for linear layers; a kernel's file is looked for in the working directory.
fn parse_product(text: &str) -> Result<ProductBy, String> {
    ProductBy::read(Path::new(""), text)
}

impl TrainArgs {
    /// The command that trains the same again on the device of that name.
    pub fn command(&self, device: &str) -> String {
        let mut words = vec!["warpbook".to_owned(), "train".into(), self.recipe.clone()];
        let mut option = |name: &str, value: Option<String>| {
            words.extend(value.map(|value| [format!("--{name}"), value]).into_iter().flatten());
        };
        let path = |p: &Option<PathBuf>| p.as_ref().map(|p| p.display().to_string());
        let number = |n: Option<u64>| n.map(|n| n.to_string());
        option("data", path(&self.from.data));
        option("device", Some(device.to_owned()));
        option("precision", Some(self.place.precision.to_string()).filter(|_| self.rung.is_none()));
        option("rung", self.rung.clone());
        option("product", self.product.map(|by| by.to_string()));
        option("convolution", self.convolution.map(|by| by.name().to_owned()));
        option("resident", Some(self.resident.clone()).filter(|r| r != "auto"));
        option("workers", Some(self.workers.to_string()).filter(|w| w != "2"));
        option("pin", Some(self.pin.clone()).filter(|p| p != "on"));
        option("edge", number(self.edge.map(|n| n as u64)));
        option("batch", number(self.batch.map(|n| n as u64)));
        option("accumulate", number(self.accumulate.map(|n| n as u64)));
        option("segments", number(self.segments.map(|n| n as u64)));
        option("epochs", number(self.epochs.map(u64::from)));
        option("steps", number(self.steps));
        option("lr", self.lr.map(|rate| rate.to_string()));
        option("clip", self.clip.map(|norm| norm.to_string()));
        option("seed", number(self.seed));
        option("views", self.views.map(|views| views.name().replace('_', "-")));
        option("seeds", number(self.seeds));
        option("hold-out", number(self.hold_out.map(|n| n as u64)));
        option("cold", number(self.cold));
        option("to", self.to.map(|percent| percent.to_string()));
        option("data-note", self.data_note.clone());
        option("init", path(&self.init));
        option("resume", path(&self.resume));
        option("log-every", Some(self.log_every.to_string()));
        option("time-budget", self.time_budget.map(|b| format!("{}s", b.as_secs_f64())));
        option("checkpoint", path(&self.checkpoint));
        option("profile", path(&self.profile));
        option("profile-schedule", self.profile.as_ref().map(|_| self.profile_schedule.to_string()));
        option("out", path(&self.out));
        self.together.options(&mut option);
        let flags = [
            ("sync-batch-norm", self.together.sync_batch_norm),
            ("counters", self.counters),
            ("no-shuffle", self.no_shuffle),
            ("no-augment", self.no_augment),
            ("no-dropout", self.no_dropout),
        ];
        words.extend(flags.iter().filter(|(_, on)| *on).map(|(name, _)| format!("--{name}")));
        words.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" ")
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::{TRAIN_EXAMPLES, TrainArgs, time};
    use clap::{Args, Command, FromArgMatches};
    use std::time::Duration;

    fn parsed(words: &[&str]) -> TrainArgs {
        let command = TrainArgs::augment_args(Command::new("train"));
        TrainArgs::from_arg_matches(&command.get_matches_from([&["train"], words].concat())).unwrap()
    }

    #[test]
    fn the_command_of_a_record_trains_the_same() {
        let words = [
            "my net.toml",
            "--data",
            "it's here",
            "--device",
            "cuda:1",
            "--rung",
            "08_graph_fp16",
            "--resident",
            "off",
            "--workers",
            "4",
            "--pin",
            "off",
            "--batch",
            "64",
            "--epochs",
            "2",
            "--steps",
            "9",
            "--lr",
            "0.5",
            "--clip",
            "inf",
            "--seed",
            "3",
            "--views",
            "flips-and-shifts",
            "--resume",
            "c.st",
            "--log-every",
            "1",
            "--time-budget",
            "90s",
            "--checkpoint",
            "c.st",
            "--out",
            "r.json",
            "--no-shuffle",
            "--no-augment",
            "--no-dropout",
        ];
        let text = parsed(&words).command("cuda:1");
        let expect = words.map(|w| match w {
            "my net.toml" => "'my net.toml'",
            "it's here" => "'it'\\''s here'",
            w => w,
        });
        assert_eq!(text, format!("warpbook train {}", expect.join(" ")));
        assert_eq!(
            parsed(&["mnist"]).command("cpu"),
            "warpbook train mnist --device cpu --precision fp32 --log-every 100"
        );
        let amp = parsed(&["amp-recipe", "--edge", "64", "--precision", "tf32", "--init", "w"]).command("cpu");
        assert_eq!(amp, "warpbook train amp-recipe --device cpu --precision tf32 --edge 64 --init w --log-every 100");
    }

    #[test]
    fn times_have_units() {
        let check = |text: &str, seconds: f64| assert_eq!(time(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        check("90", 90.0);
        check("90s", 90.0);
        check("1.5 m", 90.0);
        check("2h", 7200.0);
        check("250ms", 0.25);
        for bad in ["", "s", "-1s", "0", "NaN", "inf", "1d", "1e300s"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_recipe_of_the_help_is_one() {
        let (_, recipe) = TRAIN_EXAMPLES.split_once("are needed:\n").unwrap();
        let (recipe, _) = recipe.split_once("\n\n").unwrap();
        let plan = crate::recipe::parse(std::path::Path::new("help.toml"), recipe).unwrap();
        assert_eq!((plan.recipe.batch, plan.recipe.network.params().len()), (128, 13));
    }
}
