//! Options of `warpbook train`.

use super::command::CommandLine;
use super::ranks::RanksArgs;
use super::schedule::ProfileSchedule;
use super::settings::TrainingArgs;
use super::whole::WholeArgs;
use crate::args::common::time;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Default number of batches between two lines of progress.
const LOG_EVERY: u64 = 100;

pub const TRAIN_EXAMPLES: &str = "\
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
  warpbook train mnist --device cuda:0 --steps 20 --profile steps.json     the GPU's work in a step, with its rates
  warpbook train mnist --device cpu --steps 8 --profile steps.json --profile-schedule 2,1,2     the CPU's work in a step
  warpbook train cifar10 --epochs 50 --time-budget 10m --checkpoint cifar10.safetensors
  warpbook train cifar10 --gpus 2 --batch 256     data-parallel: 128 samples per step on each of two GPUs
  warpbook train mnist --ranks 2 --steps 100      data-parallel on the CPU, with two processes
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
  # segments = 4              activations inside of 4 segments are recomputed, not kept: less memory, up to a forward pass more
  # product = \"stock\"         on a GPU: own, stock, naive, tiled, tiled-16, tiled-8, a rung, or a kernel of your own as \"mine.cu\";
  #                             convolution = \"own\", \"stock\" or \"im2col\" (columns of patches, multiplied by the product);
  #                             for a single layer, in network: { layer = \"linear 128\", product = \"mine.cu\" }
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
  # Settings for some of the parameters, with sgd and momentum. A parameter belongs to the first group that names it; \"*\" matches any characters.
  # rate is a factor of learning_rate; also: momentum, weight_decay, schedule = { kind = \"linear\", total = 66 }
  [[groups]]
  params = \"conv*.weight\"     # filters may be updated by Muon: muon = true, steps = 5, normalise = true
  rate = 0.5
  # Initial weights: factors of the random numbers; identity = true for filters that pass their input on;
  # whiten = \"conv1\" for a first layer with the eigenvectors of the images' patches (two filters for each element of a patch)
  [initial]
  factors = [{ params = \"head.weight\", factor = 0.5 }]

Test images are seen once, or as the mean of several views: views = \"flips\" (the image and its mirror image) or \"flips_and_shifts\" (both, \
and both shifted by a pixel to either side), above [optimizer]; --views overrides it.
A layer with frozen after its name, such as \"conv2d 24 2x2 frozen\", keeps its weight.

`warpbook speedrun` measures the time and the accuracy of whole trainings. Its --seeds, --hold-out, --cold and --to work here, too, for the \
commands of older records; --data-note TEXT describes the images in the record of --out, too. cifar10-speedrun is timed from one seed unless a \
checkpoint, a record, a profile or a time budget is asked for.

Ctrl-C ends the training after the current step; the checkpoint and the record are then written. If a training has more than 20000 lines of losses, \
the record keeps means of several. See `warpbook --help` for the exit codes.";

#[derive(Debug, Args)]
pub struct TrainArgs {
    #[command(flatten)]
    pub training: TrainingArgs,
    /// Edge of the amp-recipe's square layers. [default: 4096]
    #[arg(long, value_name = "N")]
    pub edge: Option<usize>,
    /// Initial weights, a safetensors file with PyTorch's names. [default: random]
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    pub init: Option<PathBuf>,
    #[command(flatten)]
    pub watched: WatchedArgs,
    #[command(flatten)]
    pub together: RanksArgs,
    #[command(flatten)]
    pub whole: WholeArgs,
}

/// Options of a training that is shown step by step.
#[derive(Debug, Args)]
pub struct WatchedArgs {
    /// Train like the rung of this name, for example 01_direct or 08_graph_fp16: see `warpbook run training`. [default: the fastest of the precision]
    #[arg(long, value_name = "ID", conflicts_with = "precision")]
    pub rung: Option<String>,
    /// Batches between two lines of progress, each with the mean of their losses, as in the record. 1 logs every step.
    #[arg(long, value_name = "N", default_value_t = LOG_EVERY)]
    pub log_every: u64,
    /// Stop training after this time, such as 90s, 5m or 1h; the test samples are then classified and the result is saved.
    #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    pub time_budget: Option<Duration>,
    /// File for a profile of some steps (see --profile-schedule): the device's work, operation by operation and kernel by kernel, with FLOP/s and bandwidth
    /// where the work is known. The file is a record, whose timeline and roofline `warpbook view` shows; a trace for ui.perfetto.dev (.trace.json) is written
    /// next to it. A profile waits for each step. Nsight Systems can show the steps, too: nsys profile --trace=cuda,nvtx -o report warpbook train ... --profile
    /// FILE.
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Steps of a profile: WAIT are skipped, WARMUP are recorded and thrown away, and ACTIVE are kept. The cost of recording is measured by comparison with the
    /// skipped steps and those after the profile.
    #[arg(long, value_name = "WAIT,WARMUP,ACTIVE", default_value_t, requires = "profile")]
    pub profile_schedule: ProfileSchedule,
    /// Read hardware counters of each kernel of a step, for the profile: bytes of DRAM and L2, sectors a request, bank conflicts, issue slots, stall reasons, use
    /// of the tensor cores. Needs CUPTI of CUDA 12.6 or later, and a driver that lets this user read them.
    #[arg(long, requires = "profile")]
    pub counters: bool,
    /// File for checkpoints, written after every epoch, every minute within one, and at the end.
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// Checkpoint file to continue from.
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
}

impl Default for WatchedArgs {
    fn default() -> Self {
        Self {
            rung: None,
            log_every: LOG_EVERY,
            time_budget: None,
            profile: None,
            profile_schedule: ProfileSchedule::default(),
            counters: false,
            checkpoint: None,
            resume: None,
        }
    }
}

impl WatchedArgs {
    /// Returns the name of a given option that resumes, saves, profiles or ends a training.
    pub fn given(&self) -> Option<&'static str> {
        let options = [
            ("resume", self.resume.is_some()),
            ("checkpoint", self.checkpoint.is_some()),
            ("profile", self.profile.is_some()),
            ("time-budget", self.time_budget.is_some()),
        ];
        options.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }
}

impl TrainArgs {
    /// Returns the command that repeats the training.
    pub fn command(&self) -> CommandLine {
        let watched = &self.watched;
        let mut line = self.training.command("train", watched.rung.is_some());
        self.whole.add_to(&mut line);
        line.option("rung", watched.rung.as_ref());
        line.option("edge", self.edge);
        line.file("init", self.init.as_deref());
        line.file("resume", watched.resume.as_deref());
        line.option("log-every", Some(watched.log_every));
        line.option("time-budget", watched.time_budget.map(|b| format!("{}s", b.as_secs_f64())));
        line.file("checkpoint", watched.checkpoint.as_deref());
        line.file("profile", watched.profile.as_deref());
        line.option("profile-schedule", watched.profile.as_ref().map(|_| watched.profile_schedule));
        line.file("out", self.training.out.as_deref());
        self.together.add_to(&mut line);
        line.flag("counters", watched.counters);
        self.training.add_flags_to(&mut line);
        line
    }
}

#[cfg(test)]
mod tests {
    use super::{TRAIN_EXAMPLES, TrainArgs};
    use clap::{Args, Command, FromArgMatches};

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
            "--rung",
            "08_graph_fp16",
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
        let text = parsed(&words).command().on("cuda:1");
        let expect = words.map(|w| match w {
            "my net.toml" => "'my net.toml'",
            "it's here" => "'it'\\''s here'",
            w => w,
        });
        assert_eq!(text, format!("warpbook train {}", expect.join(" ")));
        assert_eq!(
            parsed(&["mnist"]).command().on("cpu"),
            "warpbook train mnist --device cpu --precision fp32 --log-every 100"
        );
        let amp = parsed(&["amp-recipe", "--edge", "64", "--precision", "tf32", "--init", "w"]).command().on("cpu");
        assert_eq!(amp, "warpbook train amp-recipe --device cpu --precision tf32 --edge 64 --init w --log-every 100");
    }

    #[test]
    fn the_recipe_of_the_help_is_one() {
        let (_, recipe) = TRAIN_EXAMPLES.split_once("are needed:\n").unwrap();
        let (recipe, _) = recipe.split_once("\n\n").unwrap();
        let plan = crate::recipe::parse(std::path::Path::new("help.toml"), recipe).unwrap();
        assert_eq!((plan.recipe.batch, plan.recipe.network.params().len()), (128, 13));
    }
}
