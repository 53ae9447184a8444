//! Convolutions: each pass of each layer of the trained networks, by several methods and by cuDNN.

mod layers;
mod prepared;
pub(crate) mod reference;
mod rows;

pub use layers::{ConvolutionLayer, LAYERS};

use crate::builders::{seeded, selects};
use layers::{Task, name_of};
use warpbook_lab::experiment::Prepared;
use warpbook_lab::settings::{self, Configurable, Preset, Selection, Setting, joined, list, parse_count, parse_dtype};
use warpbook_lab::{Error, Experiment, Lab, Plan, Result};
use warpbook_nn::ops::conv2d::cuda::{Method, Pass};
use warpbook_record::{
    Baseline, ChartKind, Column, Descriptor, Dtype, Inputs, KernelSpec, Problem, Quantity, Run, Rung, SweepAxis,
};

/// Minimum FLOP/s of one CPU thread, and the maximum expected time in seconds of a pass on the CPU.
const CPU_FLOPS_PER_S: f64 = 2e9;
const CPU_LIMIT_S: f64 = 4.0;
/// Maximum number of FLOPs for which the f64 definition is computed on the CPU.
const CPU_REFERENCE_FLOPS: u64 = 2_000_000_000;
/// Largest batch size.
const MAX_BATCH: u64 = 1 << 14;
/// Compute capability of the GPU of the published figures, whose kernels are listed if there is no GPU.
const PUBLISHED_ON: Option<(u32, u32)> = Some((9, 0));

/// The convolution experiment with its settings.
#[derive(Debug, Clone)]
pub struct Convolutions {
    layers: Vec<&'static ConvolutionLayer>,
    /// Batch sizes; `None` for the batch sizes of the published figures.
    batches: Option<Vec<u64>>,
    passes: Vec<Pass>,
    dtypes: Vec<Dtype>,
    seed: u64,
    selection: Selection,
}

impl Default for Convolutions {
    fn default() -> Self {
        Self {
            layers: LAYERS.iter().collect(),
            batches: None,
            passes: Pass::ALL.into(),
            dtypes: vec![Dtype::F16],
            seed: 1,
            selection: Selection::default(),
        }
    }
}

selects!(Convolutions);
seeded!(Convolutions, "Key of the random numbers.");

impl Convolutions {
    /// Creates the default experiment: every layer and pass with the published batch sizes in fp16, and every rung.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the experiment with the sizes of the quick suite: batches of 8, without the layers of the speedrun, which take twice as long on a CPU as all
    /// others together.
    #[must_use]
    pub fn quick() -> Self {
        let of_networks = LAYERS.iter().filter(|layer| !layer.is_of_speedrun());
        Self::default().layers(of_networks).batches([8]).dtypes([Dtype::F32, Dtype::F16])
    }

    /// Creates the experiment with the problems of the published record.
    #[must_use]
    pub fn sweep() -> Self {
        Self::default().dtypes([Dtype::F16, Dtype::Bf16])
    }

    /// Sets the layers; see [`LAYERS`].
    #[must_use]
    pub fn layers(mut self, layers: impl IntoIterator<Item = &'static ConvolutionLayer>) -> Self {
        self.layers = layers.into_iter().collect();
        self
    }

    /// Sets the batch sizes, which must be at least 1; each layer is run with each of them.
    #[must_use]
    pub fn batches(mut self, batches: impl IntoIterator<Item = u64>) -> Self {
        self.batches = Some(batches.into_iter().collect());
        self
    }

    /// Sets the passes that are measured. Leave out the input gradient for a network's first layer, which does not need it.
    #[must_use]
    pub fn passes(mut self, passes: impl IntoIterator<Item = Pass>) -> Self {
        self.passes = passes.into_iter().collect();
        self
    }

    /// Sets the data types of images and weights: `F32`, `Tf32`, `F16`, `Bf16`.
    #[must_use]
    pub fn dtypes(mut self, dtypes: impl IntoIterator<Item = Dtype>) -> Self {
        self.dtypes = dtypes.into_iter().collect();
        self
    }

    fn tasks(&self) -> Vec<Task> {
        let mut tasks = Vec::new();
        for dtype in &self.dtypes {
            for layer in &self.layers {
                for batch in self.batches.as_deref().unwrap_or(&layer.batches) {
                    let passes = layer.passes().filter(|pass| self.passes.contains(pass));
                    tasks.extend(passes.map(|pass| Task { layer, batch: *batch, pass, dtype: *dtype }));
                }
            }
        }
        tasks
    }

    fn all_rungs(&self, compute_capability: Option<(u32, u32)>) -> Vec<Rung> {
        rows::rungs(&self.tasks(), compute_capability)
    }

    /// Returns one problem for each layer, pass, batch size and data type.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        self.tasks().iter().map(Task::problem).collect()
    }

    fn descriptor() -> Descriptor {
        use Column::{Check, Mad, Median, OfBound, OfLibrary};
        Descriptor {
            headline: Quantity::Time,
            quantities: vec![Quantity::Time, Quantity::Throughput, Quantity::Bandwidth, Quantity::SpeedUp],
            baseline: Baseline::FastestLibrary,
            axis: SweepAxis { caption: "batch".into(), unit: "images".into(), doubling: true },
            columns: vec![Median, Mad, Column::Throughput, Column::Bandwidth, OfLibrary, OfBound, Check],
            charts: vec![ChartKind::Ladder, ChartKind::HeatMap, ChartKind::Sweep, ChartKind::Roofline],
            item: "images".into(),
            ..Descriptor::default()
        }
    }

    /// Returns an error unless the settings are valid and the lab's device can hold the images.
    fn validate(&self, lab: Option<&Lab>) -> Result<()> {
        let setting = |text: String| Err(Error::Setting(text));
        if self.tasks().is_empty() {
            return setting(
                "No layer, batch, pass or type is left. Name at least one of each, as in --layer mnist-2 --pass forward; the first layer \
                 of a network has no input gradient."
                    .into(),
            );
        }
        for task in self.tasks() {
            if !matches!(task.dtype, Dtype::F32 | Dtype::Tf32 | Dtype::F16 | Dtype::Bf16) {
                return setting(format!("Unsupported type {}: choose fp32, tf32, fp16 or bf16.", task.dtype.label()));
            }
            if !(1..=MAX_BATCH).contains(&task.batch) {
                return setting(format!("A batch of {}: choose from 1 to {MAX_BATCH}.", task.batch));
            }
            if let Some(device) = lab.and_then(|lab| lab.device().cuda()) {
                let problem = task.problem();
                // The reference takes 16 bytes for each element of the output.
                let needed = problem.bytes.saturating_add(task.lengths()[2] as u64 * 16);
                let room = needed.saturating_mul(2).saturating_add(4 * warpbook_kernels::matmul::WORKSPACE_BYTES);
                device.ensure_free(problem.label.clone(), room)?;
            }
        }
        self.selection.validate(&self.all_rungs(PUBLISHED_ON))
    }
}

impl Experiment for Convolutions {
    fn plan(&self, lab: Option<&Lab>) -> Result<Plan> {
        self.validate(lab)?;
        let tasks = self.tasks();
        // This is the longest convolution of the MNIST CNN.
        let longest = |t: &&Task| t.layer.name == "mnist-2" && t.pass == Pass::InputGradient;
        let capability = lab.and_then(|lab| lab.device().info().compute_capability).or(PUBLISHED_ON);
        Ok(Plan {
            title: "Convolutions".into(),
            descriptor: Self::descriptor(),
            inputs: Inputs::of_all("images, gradients and weights standard Gaussian (Philox), rounded to their type")
                .with("", "channels last"),
            main_problem: tasks.iter().find(longest).or(tasks.first()).map(Task::problem),
            ..settings::plan(self, self.problems(), self.selection.select(self.all_rungs(capability)))
        })
    }

    fn obstacle(&self, lab: &Lab, rung: &Rung, problem: &Problem, _so_far: &Run) -> Option<String> {
        let task = Task::from_problem(problem)?;
        let Some(row) = rows::row_of(rung) else { return cpu_obstacle(lab, problem) };
        let device = lab.device().cuda()?;
        if row.method == Method::Stock {
            return warpbook_device::Cudnn::find(device).err().map(|e| e.to_string());
        }
        row.obstacle(&task, device.info().compute_capability)
    }

    fn compiled(&self, _: &Lab, rung: &Rung, problem: &Problem) -> Option<KernelSpec> {
        rows::row_of(rung)?.kernels(&Task::from_problem(problem)?, PUBLISHED_ON).into_iter().next()
    }

    fn prepare<'a>(&'a self, lab: &'a Lab, problem: &Problem) -> Result<Box<dyn Prepared + 'a>> {
        let unknown = || Error::Setting(format!("{} is not a problem of this experiment.", problem.label));
        let task = Task::from_problem(problem).ok_or_else(unknown)?;
        Ok(Box::new(prepared::ConvolutionWork::new(lab, task, self.seed)?))
    }
}

/// Returns the reason why the CPU rung skips a problem; `None` if it runs.
fn cpu_obstacle(lab: &Lab, problem: &Problem) -> Option<String> {
    if problem.dtype != Dtype::F32 {
        return Some(format!("the CPU's rung is in fp32, not {}", problem.dtype.label()));
    }
    let expected_s = problem.flops as f64 / (CPU_FLOPS_PER_S * f64::from(lab.cpu_threads().max(1)));
    if expected_s > CPU_LIMIT_S {
        return Some(format!("would take about {expected_s:.0} s"));
    }
    let is_long = problem.flops > CPU_REFERENCE_FLOPS && lab.device().cuda().is_none();
    is_long.then(|| "its reference in f64 would take too long without a GPU".into())
}

fn parse_pass(name: &str) -> Result<Pass, String> {
    let found = Pass::ALL.into_iter().find(|pass| name_of(*pass) == name.trim());
    found.ok_or_else(|| format!("`{name}` is not a pass: choose {}", Pass::ALL.map(name_of).join(", ")))
}

impl Configurable for Convolutions {
    const NAME: &'static str = "convolution";
    const ABOUT: &'static str = "Convolutions of the trained networks, each pass by every method and by cuDNN";
    const DETAILS: &'static str = "\
Each pass of each convolution of the trained networks: forwards, the input's gradient, the weight's gradient, without bias, activation \
and pool. Images lie with their channels last. cuDNN's row is the fastest of the ten engines that its heuristics suggest first, of those that give the right result; a row whose \
library is not installed is skipped. Every element of every result is compared with the definition in f64, before and after it is timed.";
    const EXAMPLES: &'static str = "\
  warpbook run convolution --quick
  warpbook run convolution --layer mnist-2,cifar10-2 --batch 512
  warpbook run convolution --layer mnist-1 --pass weight-gradient --dtype fp16,bf16
  warpbook run convolution --rungs cudnn,05_shifted_windows --pass forward
  warpbook run convolution --sweep --out convolution.json";

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
                name: "layer",
                value: Some("NAME[,NAME..]"),
                help: "Layers: mnist-1, mnist-2, cifar10-1, cifar10-2, cifar10-3, speedrun-4, speedrun-5; several with commas. [default: all, with \
                       --quick the layers of mnist and cifar10]",
                set: |e, text| Ok(e.layers(list(text, ConvolutionLayer::named)?)),
                get: |e| Some(joined(e.layers.iter().map(|l| l.name.to_owned()))),
            },
            Setting {
                name: "batch",
                value: Some("N[,N..]"),
                help: "Images of a batch; several with commas. [default: 512 and 1024 of mnist, 128 and 512 of cifar10, 1000 and \
                       2000 of speedrun; with --quick 8]",
                set: |e, text| Ok(e.batches(list(text, parse_count)?)),
                get: |e| e.batches.as_ref().map(|b| joined(b.iter().map(u64::to_string))),
            },
            Setting {
                name: "pass",
                value: Some("PASS[,PASS..]"),
                help: "Passes: forward, input-gradient, weight-gradient; several with commas. [default: all]",
                set: |e, text| Ok(e.passes(list(text, parse_pass)?)),
                get: |e| Some(joined(e.passes.iter().map(|pass| name_of(*pass).to_owned()))),
            },
            Setting {
                name: "dtype",
                value: Some("TYPE[,..]"),
                help: "Types of images and weights: fp32, tf32, fp16, bf16; several with commas. [default: fp16, with --quick fp32,fp16, \
                       with --sweep fp16,bf16]",
                set: |e, text| Ok(e.dtypes(list(text, parse_dtype)?)),
                get: |e| Some(joined(e.dtypes.iter().map(|d| d.label().to_owned()))),
            },
            Self::seed_setting("Seed of the random numbers. [default: 1]"),
            rungs,
        ]
    }
}
