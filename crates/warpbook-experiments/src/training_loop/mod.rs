//! The training loop experiment: complete training runs including the loader, in fp32 and in mixed precision.

mod feeds;
mod prepared;

pub use feeds::Feed;
pub use feeds::{Way, WholeLoop, place};

use crate::builders::{seeded, selects};
use crate::training::{Files, FilesPlace, SYNTHETIC, Workload};
use feeds::WAYS;
use warpbook_data::{Splits, synthetic_digits};
use warpbook_lab::experiment::Prepared;
use warpbook_lab::settings::{self, Configurable, Preset, Selection, Setting, joined, list, parse_count};
use warpbook_lab::{Error, Experiment, Lab, Plan, Result};
use warpbook_nn::train::{Precision, Recipe};
use warpbook_record::{
    Baseline, ChartKind, Column, Descriptor, Dtype, Problem, Quantity, Run, Rung, Runner, Schedule, Size, SweepAxis,
    SweepPoint, count, setting,
};

/// Minimum FLOP/s of one CPU thread: half a core from ten years ago.
const CPU_FLOPS_PER_S: f64 = 10e9;
/// Maximum expected time in seconds of a training run on the CPU.
const CPU_LIMIT_S: f64 = 120.0;
/// Number of synthetic images for training and for testing, as many as in MNIST.
const DRAWN: [usize; 2] = [60_000, 10_000];
const MAX_BATCH: u64 = 1 << 14;
const MAX_EPOCHS: u64 = 1000;
const MAX_WORKERS: usize = 64;
/// Maximum number of steps that a GPU queues before their losses are read.
const MAX_QUEUED: u64 = 128;
/// Default accuracies to reach in percent, each with the minimum number of steps for which it applies.
const EXPECTED: [(u64, f64); 3] = [(1000, 98.0), (100, 90.0), (0, 20.0)];

/// The training loop experiment with its settings.
#[derive(Debug, Clone)]
pub struct TrainingLoop {
    batches: Vec<u64>,
    epochs: u64,
    workers: usize,
    /// Number of training images to use, counted from the first, and maximum number of test images; `None` for all.
    images: Option<u64>,
    read_losses: u64,
    to: Option<f64>,
    seed: u64,
    files: Files,
    selection: Selection,
}

impl Default for TrainingLoop {
    fn default() -> Self {
        Self {
            batches: vec![512, 1024],
            epochs: 20,
            workers: 2,
            images: None,
            read_losses: 1,
            to: None,
            seed: 1,
            files: Files::default(),
            selection: Selection::default(),
        }
    }
}

selects!(TrainingLoop);
seeded!(TrainingLoop, "Seed of weights, order, dropout and drawn images.");

impl TrainingLoop {
    /// Creates the default experiment: 20 epochs of MNIST with batches of 512 and of 1024, two workers, and every rung.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the experiment with the size of the quick suite: 2 epochs of 1024 synthetic digits with batches of 64.
    #[must_use]
    pub fn quick() -> Self {
        Self::default().batches([64]).epochs(2).images(1024).synthetic()
    }

    /// Sets the batch sizes, which must be at least 1.
    #[must_use]
    pub fn batches(mut self, batches: impl IntoIterator<Item = u64>) -> Self {
        self.batches = batches.into_iter().collect();
        self
    }

    /// Sets the number of passes over the training images.
    #[must_use]
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.epochs = epochs;
        self
    }

    /// Sets the number of threads that gather batches if the images are not on the GPU; with 0, the training thread
    /// gathers them.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Limits the training images to the first `images`, and the test images to the same number.
    #[must_use]
    pub fn images(mut self, images: u64) -> Self {
        self.images = Some(images);
        self
    }

    /// Sets the number of steps after which losses are read, for the rungs that read them; with 1, the host waits for
    /// each step.
    #[must_use]
    pub fn read_losses(mut self, steps: u64) -> Self {
        self.read_losses = steps;
        self
    }

    /// Sets the percentage of test images that each training run must classify correctly.
    #[must_use]
    pub fn to(mut self, percent: f64) -> Self {
        self.to = Some(percent);
        self
    }

    /// Sets the folder that contains the files of MNIST, or a subfolder `mnist` with these files.
    #[must_use]
    pub fn data(mut self, folder: impl Into<std::path::PathBuf>) -> Self {
        self.files = Files::at(FilesPlace::Folder(folder.into()));
        self
    }

    /// Uses synthetic images, even if there are image files.
    #[must_use]
    pub fn synthetic(mut self) -> Self {
        self.files = Files::at(FilesPlace::Synthetic);
        self
    }

    fn recipe(&self, batch: u64) -> Recipe {
        let epochs = u32::try_from(self.epochs).unwrap_or(u32::MAX);
        Recipe { epochs, ..Workload::Mnist.recipe(batch, 0, self.seed) }
    }

    /// Returns the numbers of training and test images.
    fn counts(&self) -> [usize; 2] {
        let files = self.files.open(Workload::Mnist).ok().flatten();
        let all = files.map_or(DRAWN, |splits| [splits.train.len(), splits.test.len()]);
        let most = self.images.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
        all.map(|n| n.min(most))
    }

    fn splits(&self) -> Result<Splits> {
        let [train, test] = self.counts();
        Ok(match self.files.open(Workload::Mnist).map_err(Error::Setting)? {
            Some(splits) => Splits { train: splits.train.take(train), test: splits.test.take(test) },
            None => synthetic_digits(train, test, self.seed),
        })
    }

    fn is_drawn(&self) -> bool {
        matches!(self.files.open(Workload::Mnist), Ok(None))
    }

    /// Returns the number of steps after which losses are read; with `None`, the device decides.
    fn reads(&self, feed: Feed) -> Option<u64> {
        (feed == Feed::LoaderAndLosses).then_some(self.read_losses)
    }

    /// Returns the percentage of test images that must be classified correctly.
    fn target(&self, batch: u64) -> f64 {
        let steps = self.recipe(batch).total_steps(self.counts()[0]);
        let expected = EXPECTED.iter().find(|(least, _)| steps >= *least).map_or(0.0, |(_, percent)| *percent);
        self.to.unwrap_or(expected)
    }

    /// Returns a complete training run with batches of this size as a problem.
    ///
    /// FLOPs: the operations of convolutions and linear layers, for the forward pass, the weight gradients and the
    /// input gradients (except in the first layer), times the images of all epochs. Bytes are not counted.
    fn problem(&self, batch: u64) -> Problem {
        let ([train, test], data) = (self.counts(), self.files.label(Workload::Mnist));
        let sizes = vec![
            setting("network", Workload::Mnist.name()),
            setting("data", data.as_str()),
            count("images", train as u64, "images"),
            count("test_images", test as u64, "images"),
            count("batch", batch, "images"),
            count("epochs", self.epochs, ""),
            count("workers", self.workers as u64, ""),
            count("read_losses", self.read_losses, "steps"),
            Size { name: "accuracy".into(), value: self.target(batch).into(), unit: Some("%".into()) },
        ];
        let all = self.epochs.saturating_mul(train as u64);
        let line = format!(
            "{}, {}, {}",
            Workload::Mnist.title(),
            several(self.epochs, "epoch"),
            several(self.workers as u64, "worker")
        );
        let short = format!("{} {batch}", Workload::Mnist.name());
        Problem::new(format!("{line}, batch {batch}, {data}"), short, sizes, Dtype::F32).with(|p| {
            p.flops = self.recipe(batch).network.training_flops().saturating_mul(all);
            p.items = Some(all);
            p.passes = self.epochs;
            p.sweep = Some(SweepPoint { size: batch, line });
        })
    }

    fn all_rungs(&self) -> Vec<Rung> {
        let cpu = Rung::cpu(
            "cpu_all_threads",
            "CPU",
            "The whole training on the CPU in fp32, by all threads. Nothing is copied, so there is one way to feed it.",
            "all threads",
        );
        std::iter::once(cpu).chain(WAYS.into_iter().map(|way| self.rung(way))).collect()
    }

    fn rung(&self, way: Way) -> Rung {
        let often = match self.read_losses {
            1 => "each loss read".to_owned(),
            n => format!("losses read every {n} steps"),
        };
        let how = match way.feed {
            Feed::LoaderAndLosses => often,
            Feed::Loader => "loader".to_owned(),
            Feed::Resident => "images on the GPU".to_owned(),
        };
        let idea = match way.feed {
            Feed::LoaderAndLosses => {
                "Workers gather each batch in page-locked memory, and it is copied to the GPU. The host waits for the loss before it queues further \
                 steps, as a loop does that prints `loss.item()`."
            }
            Feed::Loader => {
                "Workers gather each batch in page-locked memory, and it is copied while the GPU trains on the one before. Losses are read after many \
                 steps, so that the host queues ahead."
            }
            Feed::Resident => {
                "All images are on the GPU, where each step picks its shuffled batch. Losses are read after many steps."
            }
        };
        let precision = if way.precision == Precision::AmpFp16 { "AMP fp16" } else { way.precision.name() };
        Rung {
            id: way.id.into(),
            title: format!("{precision}, {how}").into(),
            idea: idea.into(),
            requires: way.precision.requires(),
            // The kernels are listed in the ladder of the training step.
            runner: Runner::Kernels { specs: Vec::new(), schedule: Schedule::Graph },
            variant_of: None,
        }
    }

    /// Returns one problem for each batch size.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        self.batches.iter().map(|batch| self.problem(*batch)).collect()
    }

    fn descriptor() -> Descriptor {
        use Column::{Accuracy, Check, ItemRate, Mad, Median, PassTime, PeakMemory, Samples, SpeedUp};
        Descriptor {
            headline: Quantity::Time,
            quantities: vec![Quantity::Time, Quantity::SpeedUp, Quantity::ItemRate, Quantity::PeakMemory],
            baseline: Baseline::Rung(WAYS[0].id.into()),
            axis: SweepAxis { caption: "batch".into(), unit: "images".into(), doubling: true },
            columns: vec![Median, Mad, PassTime, SpeedUp, ItemRate, PeakMemory, Accuracy, Check, Samples],
            charts: vec![ChartKind::Ladder, ChartKind::Loss, ChartKind::Sweep],
            pass: "epoch".into(),
            item: "images".into(),
            levels: Vec::new(),
            loss: "mean loss of an epoch's batches".into(),
            sample: "trainings".into(),
            ..Descriptor::default()
        }
    }

    /// Returns an error unless the settings are valid.
    fn validate(&self) -> Result<()> {
        let setting = |text: String| Err(Error::Setting(text));
        if self.batches.is_empty() {
            return setting("No batch was given. Name at least one, as in --batch 512.".into());
        }
        if let Some(batch) = self.batches.iter().find(|batch| !(1..=MAX_BATCH).contains(*batch)) {
            return setting(format!("A batch of {batch}: choose from 1 to {MAX_BATCH}."));
        }
        if !(1..=MAX_EPOCHS).contains(&self.epochs) {
            return setting(format!("{} epochs: choose from 1 to {MAX_EPOCHS}.", self.epochs));
        }
        if self.workers > MAX_WORKERS {
            return setting(format!("{} workers: choose from 0 to {MAX_WORKERS}.", self.workers));
        }
        if self.images == Some(0) {
            return setting("0 images: choose at least 1.".into());
        }
        if !(1..=MAX_QUEUED).contains(&self.read_losses) {
            let steps = self.read_losses;
            return setting(format!("Losses read every {steps} steps: choose from 1 to {MAX_QUEUED}."));
        }
        if let Some(percent) = self.to.filter(|percent| !(*percent > 0.0 && *percent <= 100.0)) {
            return setting(format!("An accuracy of {percent} %: choose a percentage above 0, up to 100."));
        }
        self.selection.validate(&self.all_rungs())
    }
}

/// Formats a count: "1 worker", "2 workers", "no workers".
fn several(n: u64, what: &str) -> String {
    match n {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

impl Experiment for TrainingLoop {
    fn plan(&self, lab: Option<&Lab>) -> Result<Plan> {
        self.validate()?;
        lab.map_or(Ok(()), |_| self.files.validate(Workload::Mnist))?;
        let problems = self.problems();
        let uncounted = "Hardware counters of a whole training would add up thousands of steps. `warpbook run training --counters` reads the \
             counters of one step.";
        Ok(Plan {
            title: "Training loop".into(),
            descriptor: Self::descriptor(),
            inputs: (self.files.inputs(Workload::Mnist, self.seed))
                .with("", format!("weights from seed {}", self.seed)),
            main_problem: problems.first().cloned(),
            times_the_host: true,
            uncounted: Some(uncounted.into()),
            settings: None,
            ..settings::plan(self, problems, self.selection.select(self.all_rungs()))
        })
    }

    fn obstacle(&self, lab: &Lab, rung: &Rung, problem: &Problem, _so_far: &Run) -> Option<String> {
        let seconds = problem.flops as f64 / (CPU_FLOPS_PER_S * f64::from(lab.cpu_threads().max(1)));
        (rung.is_cpu() && seconds > CPU_LIMIT_S).then(|| {
            format!("would take about {:.0} minutes; fewer --epochs or --images take less", (seconds / 60.0).ceil())
        })
    }

    fn notes(&self, _measured: &Run) -> Vec<String> {
        let mut notes = vec![
            "A sample is a whole training, by the host's clock, from the first step to the end of the last. Before it kernels are compiled, memory is \
             allocated, and images that stay on the GPU are copied; the test images are classified after it."
                .to_owned(),
        ];
        if self.is_drawn() {
            let images = self.files.note(Workload::Mnist, self.seed);
            notes.push(format!("Accuracies are of {images}, whose files were not used."));
        }
        notes
    }

    fn prepare<'a>(&'a self, lab: &'a Lab, problem: &Problem) -> Result<Box<dyn Prepared + 'a>> {
        Ok(Box::new(prepared::LoopWork::new(self, lab, problem)?))
    }
}

impl Configurable for TrainingLoop {
    const NAME: &'static str = "loop";
    const ABOUT: &'static str = "Whole trainings with the loader in the loop, in fp32 and in mixed precision";
    const DETAILS: &'static str = "\
Whole trainings of the MNIST CNN, shuffled, with a learning rate that is halved every five epochs: their total seconds, peak memory and test \
accuracy. The rungs are the ways of feeding it, each in fp32 and with AMP in fp16: workers gather and copy the batches, and each loss is \
read before the next step; the same without reading losses; and all images on the GPU. Each training has to classify a share of the test \
images right. A sample is a whole training; how many are made depends on --samples and --budget, and one is always made. Without MNIST's \
files digits are drawn, and the record says so.";
    const EXAMPLES: &'static str = "\
  warpbook run loop --quick
  warpbook run loop --batch 512 --rungs losses_fp32,losses_amp_fp16
  warpbook run loop --workers 8 --read-losses 10
  warpbook run loop --samples 5 --budget 60 --out loop.json";

    fn preset(preset: Preset) -> Self {
        match preset {
            Preset::Standard | Preset::Sweep => Self::new(),
            Preset::Quick => Self::quick(),
        }
    }

    fn offered() -> Vec<Setting<Self>> {
        let [rungs, _] = Selection::settings();
        let mut all = sizes();
        all.extend(conditions());
        all.push(rungs);
        all
    }
}

/// Returns the settings for the amount of work and for the feeds.
fn sizes() -> Vec<Setting<TrainingLoop>> {
    vec![
        Setting {
            name: "batch",
            value: Some("N[,N..]"),
            help: "Samples of a batch; several with commas. [default: 512,1024; with --quick 64]",
            set: |e, text| Ok(e.batches(list(text, parse_count)?)),
            get: |e| Some(joined(e.batches.iter().map(u64::to_string))),
        },
        Setting {
            name: "epochs",
            value: Some("N"),
            help: "Passes over the training images. [default: 20; with --quick 2]",
            set: |e, text| Ok(e.epochs(parse_count(text)?)),
            get: |e| Some(e.epochs.to_string()),
        },
        Setting {
            name: "workers",
            value: Some("N"),
            help: "Threads that gather batches; with 0 the thread that trains does it. [default: 2]",
            set: |e, text| Ok(e.workers(usize::try_from(parse_count(text)?).unwrap_or(usize::MAX))),
            get: |e| Some(e.workers.to_string()),
        },
        Setting {
            name: "read-losses",
            value: Some("N"),
            help: "Steps after which the rungs that read losses read them: 1 waits for each step. [default: 1]",
            set: |e, text| Ok(e.read_losses(parse_count(text)?)),
            get: |e| Some(e.read_losses.to_string()),
        },
        Setting {
            name: "images",
            value: Some("N"),
            help: "Use only the first N training images, and at most as many test images. [default: all; with --quick 1024]",
            set: |e, text| Ok(e.images(parse_count(text)?)),
            get: |e| e.images.map(|n| n.to_string()),
        },
    ]
}

/// Returns the settings for the samples and the accuracy to reach.
fn conditions() -> Vec<Setting<TrainingLoop>> {
    vec![
        Setting {
            name: "to",
            value: Some("PERCENT"),
            help: "Percent of the test images that each training has to classify right. [default: 98 after 1000 steps or more, 90 after 100 or more, else 20]",
            set: |e, text| {
                let percent =
                    text.trim().parse().map_err(|_| format!("`{text}` is not a number: write one such as 98.5"))?;
                Ok(e.to(percent))
            },
            get: |e| e.to.map(|percent| percent.to_string()),
        },
        Setting {
            name: "data",
            value: Some("DIR"),
            help: "Folder with MNIST's files, or `synthetic` for digits that are drawn. [default: where `warpbook data fetch` puts them; \
                   digits are drawn if there are none]",
            set: |e, text| Ok(if text.trim() == SYNTHETIC { e.synthetic() } else { e.data(text) }),
            get: |e| match e.files.source() {
                FilesPlace::Usual => None,
                FilesPlace::Folder(folder) => Some(folder.display().to_string()),
                FilesPlace::Synthetic => Some(SYNTHETIC.into()),
            },
        },
        TrainingLoop::seed_setting("Seed of weights, order, dropout and drawn images. [default: 1]"),
    ]
}
