//! The training experiment: one step of a network, from direct convolutions to one captured graph.

mod activity;
mod data;
mod prepared;
mod steps;
mod workload;

pub(crate) use data::{Files, ImageSource as FilesPlace, SYNTHETIC, Set};
pub(crate) use steps::failure;
pub(crate) use workload::AMP_FEATURES;
pub use workload::Workload;

use crate::builders::{seeded, selects};
use data::ImageSource;
use std::path::Path;
use warpbook_gemm::ProductBy;
use warpbook_lab::activity::Timelines;
use warpbook_lab::experiment::Prepared;
use warpbook_lab::settings::{self, Configurable, Preset, Selection, Setting, joined, list, parse_count};
use warpbook_lab::{Error, Event, Experiment, Lab, Plan, Result};
use warpbook_nn::train::{Recipe, Way, rungs_with_product, ways};
use warpbook_record::{Baseline, ChartKind, Column, Descriptor, Inputs, Problem, Quantity, Run, Rung, SweepAxis};
use workload::AMP_BATCHES;

/// Minimum FLOP/s of one CPU thread: half a core from ten years ago.
const CPU_FLOPS_PER_S: f64 = 10e9;
/// Maximum expected time in seconds of a step on the CPU, and of all steps of the reference.
const CPU_STEP_LIMIT_S: f64 = 5.0;
const REFERENCE_LIMIT_S: f64 = 900.0;
/// Largest batch size.
const MAX_BATCH: u64 = 1 << 14;
/// Allowed widths of the AMP recipe's layers.
const FEATURES: std::ops::RangeInclusive<usize> = 64..=1 << 15;
/// Maximum number of steps that are compared with the reference; a GPU stores this many losses.
const MAX_STEPS: u64 = 128;
/// Word that selects the batch sizes of the published record.
const PUBLISHED: &str = "published";
/// Compute capability of the GPU of the published figures, whose kernels are listed if there is no GPU.
const PUBLISHED_ON: Option<(u32, u32)> = Some((9, 0));

/// The batch sizes to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Batches {
    /// The batch size of each network's recipe.
    Own,
    /// Batch sizes of the published figures.
    Published,
    /// A list of batch sizes.
    Of(Vec<u64>),
}

/// The training step experiment with its settings.
#[derive(Debug, Clone)]
pub struct Training {
    networks: Vec<Workload>,
    batches: Batches,
    features: usize,
    /// Number of steps compared with the reference; `None` for each network's default.
    steps: Option<u64>,
    seed: u64,
    files: Files,
    ways: Vec<Way>,
    /// A learner's kernel that computes the linear layers in two additional rungs.
    product: Option<ProductBy>,
    selection: Selection,
}

impl Default for Training {
    fn default() -> Self {
        Self {
            networks: vec![Workload::Mnist],
            batches: Batches::Own,
            features: AMP_FEATURES,
            steps: None,
            seed: 1,
            files: Files::default(),
            ways: ways(),
            product: None,
            selection: Selection::default(),
        }
    }
}

selects!(Training);
seeded!(Training, "Seed of weights, order, dropout, augmentation and drawn samples.");

impl Training {
    /// Creates the default experiment: the MNIST CNN with batches of 512, and every rung.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the experiment with the size of the quick suite: the MNIST CNN with batches of 64, on synthetic digits.
    #[must_use]
    pub fn quick() -> Self {
        Self::default().batches([64]).steps(10).synthetic()
    }

    /// Creates the experiment with the problems of the published record.
    #[must_use]
    pub fn sweep() -> Self {
        Self { batches: Batches::Published, ..Self::default() }.networks(Workload::ALL)
    }

    /// Sets the networks to train.
    #[must_use]
    pub fn networks(mut self, networks: impl IntoIterator<Item = Workload>) -> Self {
        self.networks = networks.into_iter().collect();
        self
    }

    /// Sets the batch sizes, which must be at least 1; each network is trained with each of them.
    #[must_use]
    pub fn batches(mut self, batches: impl IntoIterator<Item = u64>) -> Self {
        self.batches = Batches::Of(batches.into_iter().collect());
        self
    }

    /// Sets the width of the AMP recipe's layers.
    #[must_use]
    pub fn features(mut self, features: usize) -> Self {
        self.features = features;
        self
    }

    /// Sets the number of steps whose losses are compared with the reference; by default 20, and 5 for the AMP recipe.
    #[must_use]
    pub fn steps(mut self, steps: u64) -> Self {
        self.steps = Some(steps);
        self
    }

    /// Sets the folder that contains the files of MNIST and CIFAR-10, or subfolders with these names.
    #[must_use]
    pub fn data(mut self, folder: impl Into<std::path::PathBuf>) -> Self {
        self.files = Files::at(ImageSource::Folder(folder.into()));
        self
    }

    /// Uses synthetic images, even if there are image files.
    #[must_use]
    pub fn synthetic(mut self) -> Self {
        self.files = Files::at(ImageSource::Synthetic);
        self
    }

    /// Adds a way of training on a GPU, as the last rung.
    #[must_use]
    pub fn way(mut self, way: Way) -> Self {
        self.ways.push(way);
        self
    }

    /// Computes the linear layers with a custom kernel in two more rungs: `own_products_fp32` and `own_products_fp16`.
    #[must_use]
    pub fn product(mut self, by: impl Into<ProductBy>) -> Self {
        let by = by.into();
        self.ways.retain(|way| self.product.is_none_or(|old| way.options.product != old));
        self.ways.extend(rungs_with_product(by));
        self.product = Some(by);
        self
    }

    /// Returns the way in which a rung trains.
    fn way_of(&self, rung: &Rung) -> Option<&Way> {
        self.ways.iter().find(|way| way.id == rung.id)
    }

    fn batches_of(&self, workload: Workload) -> Vec<u64> {
        match &self.batches {
            Batches::Own => workload.batches().iter().copied().take(1).collect(),
            Batches::Published => workload.batches().to_vec(),
            Batches::Of(batches) => batches.clone(),
        }
    }

    /// Returns the network and the batch size of each problem.
    fn sizes(&self) -> Vec<(Workload, u64)> {
        self.networks.iter().flat_map(|w| self.batches_of(*w).into_iter().map(|b| (*w, b))).collect()
    }

    fn steps_of(&self, workload: Workload) -> u64 {
        self.steps.unwrap_or_else(|| workload.checked_steps())
    }

    fn problem(&self, workload: Workload, batch: u64) -> Problem {
        workload.problem(batch, self.features, &self.files.label(workload))
    }

    /// Returns all rungs with the kernels for a GPU of this compute capability.
    fn all_rungs(&self, compute_capability: Option<(u32, u32)>) -> Vec<Rung> {
        let recipes: Vec<Recipe> = self.networks.iter().map(|w| w.recipe(1, self.features, self.seed)).collect();
        let cpu = Rung::cpu(
            "cpu_all_threads",
            "CPU",
            "The same step on the CPU in fp32, by all threads; its losses are the reference.",
            "all threads",
        );
        std::iter::once(cpu).chain(self.ways.iter().map(|way| way.rung(&recipes, compute_capability))).collect()
    }

    /// Returns an error unless the samples fit into the host's memory and the reference takes a reasonable time.
    fn fits(&self, lab: &Lab, workload: Workload, batch: u64) -> Result<()> {
        let problem = self.problem(workload, batch);
        let (steps, step_s) = (self.steps_of(workload), expected_s(lab, &problem));
        if steps as f64 * step_s > REFERENCE_LIMIT_S {
            return Err(Error::Setting(format!(
                "{}: the {steps} steps on the CPU that every rung is compared with would take about {:.0} minutes. Choose a smaller \
                 batch, or fewer --steps.",
                problem.label,
                steps as f64 * step_s / 60.0
            )));
        }
        if workload == Workload::AmpRecipe {
            let needed = (AMP_BATCHES as u64).saturating_mul(batch).saturating_mul(8 * self.features as u64);
            let (what, total) = (format!("{AMP_BATCHES} batches of {}", problem.label), lab.host_memory_bytes());
            let free = total / 4 * 3;
            if total > 0 && needed > free {
                return Err(warpbook_device::Error::OutOfMemory { what, needed, free, total }.into());
            }
        }
        Ok(())
    }

    /// Returns one problem for each network and batch size.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        self.sizes().into_iter().map(|(w, b)| self.problem(w, b)).collect()
    }

    fn descriptor() -> Descriptor {
        use Column::{Check, ItemRate, Median, PeakMemory, Samples, SpeedUp};
        Descriptor {
            headline: Quantity::ItemRate,
            quantities: vec![
                Quantity::ItemRate,
                Quantity::Time,
                Quantity::SpeedUp,
                Quantity::Throughput,
                Quantity::PeakMemory,
            ],
            baseline: Baseline::Rung("01_direct".into()),
            axis: SweepAxis { caption: "batch".into(), unit: "images".into(), doubling: true },
            columns: vec![Median, ItemRate, SpeedUp, Column::Throughput, PeakMemory, Check, Samples],
            charts: vec![
                ChartKind::Ladder,
                ChartKind::Breakdown,
                ChartKind::Timeline,
                ChartKind::Loss,
                ChartKind::Sweep,
            ],
            item: "images".into(),
            loss: "loss of the batch in the checked steps".into(),
            ..Descriptor::default()
        }
    }

    fn inputs(&self) -> Inputs {
        let mut networks = self.networks.clone();
        networks.dedup();
        let data =
            networks.iter().fold(Inputs::default(), |all, w| all.with(w.title(), self.files.note(*w, self.seed)));
        data.with("", format!("weights from seed {}", self.seed))
    }

    /// Returns an error unless the settings are valid and the lab, if given, has the files and can do the work.
    fn validate(&self, lab: Option<&Lab>) -> Result<()> {
        let setting = |text: String| Err(Error::Setting(text));
        if self.sizes().is_empty() {
            return setting(
                "No network or no batch was given. Name at least one of each, as in --network mnist --batch 512."
                    .into(),
            );
        }
        if !FEATURES.contains(&self.features) {
            let [least, most] = [FEATURES.start(), FEATURES.end()];
            return setting(format!("Layers of {} features: choose from {least} to {most}.", self.features));
        }
        if self.steps.is_some_and(|steps| !(1..=MAX_STEPS).contains(&steps)) {
            let steps = self.steps.unwrap_or(0);
            return setting(format!("Steps compared with the reference: {steps}; choose from 1 to {MAX_STEPS}."));
        }
        for (workload, batch) in self.sizes() {
            if !(1..=MAX_BATCH).contains(&batch) {
                return setting(format!("A batch of {batch}: choose from 1 to {MAX_BATCH}."));
            }
            if let Some(lab) = lab {
                self.files.validate(workload)?;
                self.fits(lab, workload, batch)?;
            }
        }
        self.selection.validate(&self.all_rungs(PUBLISHED_ON))
    }
}

/// Returns the maximum expected time in seconds of a step on the CPU, based on the number of operations.
fn expected_s(lab: &Lab, problem: &Problem) -> f64 {
    problem.flops as f64 / (CPU_FLOPS_PER_S * f64::from(lab.cpu_threads().max(1)))
}

impl Experiment for Training {
    fn plan(&self, lab: Option<&Lab>) -> Result<Plan> {
        self.validate(lab)?;
        let problems = self.problems();
        let capability = lab.and_then(|lab| lab.device().info().compute_capability).or(PUBLISHED_ON);
        Ok(Plan {
            title: "Training step".into(),
            descriptor: Self::descriptor(),
            inputs: self.inputs(),
            main_problem: problems.first().cloned(),
            // Settings cannot express a way that was added in code.
            settings: None,
            ..settings::plan(self, problems, self.selection.select(self.all_rungs(capability)))
        })
    }

    fn obstacle(&self, lab: &Lab, rung: &Rung, problem: &Problem, _so_far: &Run) -> Option<String> {
        let step_s = expected_s(lab, problem);
        if rung.is_cpu() {
            return (step_s > CPU_STEP_LIMIT_S).then(|| format!("would take about {step_s:.0} s a step"));
        }
        let workload = Workload::from_problem(problem)?;
        let recipe = workload.recipe(1, self.features, self.seed);
        self.way_of(rung)?.obstacle(lab.device().cuda()?, &recipe)
    }

    fn activity(&self, lab: &Lab, measured: &Run) -> Result<Timelines> {
        let Some(device) = lab.device().cuda() else { return Ok(Timelines::default()) };
        lab.tell(&Event::Preparing("recording what the GPU does in a step"));
        activity::record(self, lab, device, measured)
    }

    fn prepare<'a>(&'a self, lab: &'a Lab, problem: &Problem) -> Result<Box<dyn Prepared + 'a>> {
        Ok(Box::new(prepared::TrainingWork::new(self, lab, problem)?))
    }
}

impl Configurable for Training {
    const NAME: &'static str = "training";
    const ABOUT: &'static str =
        "Training step of a network, from direct convolutions to one CUDA graph in mixed precision";
    const DETAILS: &'static str = "\
One step of training: a shuffled batch is gathered and converted, the network runs forwards and backwards, and the optimiser changes \
the weights. The rungs go from direct convolutions in fp32 over implicit GEMM, tensor cores, channels last and mixed precision to one \
CUDA graph. Next to them are the same step with convolutions by cuDNN, with linear layers by cuBLASLt, and with the linear layers as a \
beginner writes them; a row whose library is not installed is skipped. Each first makes some steps without dropout and augmentation, \
whose losses are compared with the CPU's in fp32; then steps with both are timed, a new batch each. Peak memory is the memory of the \
timed training, its data included. At the end, where CUPTI is \
installed, what the GPU does in a step is recorded: every kernel's time, by operation, and the gaps between kernels.";
    const EXAMPLES: &'static str = "\
  warpbook run training --quick
  warpbook run training --network mnist --batch 512,1024
  warpbook run training --network cifar10 --data ~/data --rungs 01_direct,08_graph_bf16
  warpbook run training --network mnist --rungs 13_last_block_fp16,stock_convolutions_fp16,stock_fp16
  warpbook run training --product mine.cu --rungs own_products_fp32,tiled_products_fp32,stock_products_fp32
  warpbook run training --network amp-recipe --features 2048
  warpbook run training --sweep --out training.json";

    fn preset(preset: Preset) -> Self {
        match preset {
            Preset::Standard => Self::new(),
            Preset::Quick => Self::quick(),
            Preset::Sweep => Self::sweep(),
        }
    }

    fn offered() -> Vec<Setting<Self>> {
        let [rungs, _] = Selection::settings();
        vec![
            Setting {
                name: "network",
                value: Some("NAME[,NAME..]"),
                help: "Networks to train: mnist, cifar10, amp-recipe; several with commas. [default: mnist, with --sweep all]",
                set: |e, text| Ok(e.networks(list(text, str::parse)?)),
                get: |e| Some(joined(e.networks.iter().map(|w| w.name().to_owned()))),
            },
            Setting {
                name: "batch",
                value: Some("N[,N..]"),
                help: "Samples of a batch; several with commas; `published` for the sizes of the published figures. [default: 512, of cifar10 \
                       128; with --quick 64]",
                set: |e, text| match text.trim() {
                    PUBLISHED => Ok(Self { batches: Batches::Published, ..e }),
                    _ => Ok(e.batches(list(text, parse_count)?)),
                },
                get: |e| match &e.batches {
                    Batches::Own => None,
                    Batches::Published => Some(PUBLISHED.into()),
                    Batches::Of(batches) => Some(joined(batches.iter().map(u64::to_string))),
                },
            },
            Setting {
                name: "features",
                value: Some("N"),
                help: "Width of the three layers of amp-recipe. [default: 4096]",
                set: |e, text| Ok(e.features(usize::try_from(parse_count(text)?).unwrap_or(usize::MAX))),
                get: |e| (e.features != AMP_FEATURES).then(|| e.features.to_string()),
            },
            Setting {
                name: "steps",
                value: Some("N"),
                help: "Steps whose losses are compared with the CPU's. [default: 20, of amp-recipe 5; with --quick 10]",
                set: |e, text| Ok(e.steps(parse_count(text)?)),
                get: |e| e.steps.map(|steps| steps.to_string()),
            },
            Setting {
                name: "data",
                value: Some("DIR"),
                help: "Folder with the files of the data sets, or `synthetic` for images that are drawn. [default: where `warpbook data \
                       fetch` puts them; images are drawn if there are none]",
                set: |e, text| Ok(if text.trim() == SYNTHETIC { e.synthetic() } else { e.data(text) }),
                get: |e| match e.files.source() {
                    ImageSource::Usual => None,
                    ImageSource::Folder(folder) => Some(folder.display().to_string()),
                    ImageSource::Synthetic => Some(SYNTHETIC.into()),
                },
            },
            Self::seed_setting("Seed of weights, order, dropout and drawn samples. [default: 1]"),
            Setting {
                name: "product",
                value: Some("FILE.cu[@ID[:NAME=N,..]]"),
                help: "A kernel of your own for the linear layers, in the rungs own_products_fp32 and own_products_fp16. @ names the rung of the \
                       matrix product that it takes the place of, 02_coalesced without it, and : sizes of its tile, as in \
                       mine.cu@05_register_2d:BM=64,THREADS=128.",
                set: |e, text| {
                    Ok(e.product(
                        ProductBy::read(Path::new(""), text).map_err(|why| why.trim_end_matches('.').to_owned())?,
                    ))
                },
                get: |e| e.product.map(|by| by.to_string()),
            },
            rungs,
        ]
    }
}
