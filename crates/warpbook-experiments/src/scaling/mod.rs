//! Scaling of training steps: the time of a step on 1 to N ranks, each with its own process and GPU, and on the same
//! number of GPUs of one process.

mod collective;
mod measure;
mod network;
mod pytorch;
mod record;
mod threads;
mod timeline;

pub use collective::{AllReduce, all_reduce_on_threads, bus_bytes_per_s};
pub use measure::Measured;
pub use pytorch::PyTorch;
pub use record::{scaling_lines, scaling_table};
pub use threads::on_threads;

use crate::training::{Files, FilesPlace, Workload};
use network::{DrawnSamples, Net, Own};
use warpbook_data::Dataset;
use warpbook_lab::{Error, Lab, Result};
use warpbook_nn::train::{Precision, RanksOptions, Recipe};
use warpbook_ranks::Wire;

/// Allowed sizes of a global batch, in samples.
const BATCHES: std::ops::RangeInclusive<u64> = 1..=1 << 16;
/// Allowed widths of the AMP recipe's layers.
const FEATURES: std::ops::RangeInclusive<usize> = 16..=1 << 15;
/// Maximum number of ranks on one machine.
const MOST_RANKS: usize = 64;

/// The growth of the global batch with the number of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Growth {
    /// The batch of each rank stays constant, so the global batch grows with the number of ranks.
    Weak,
    /// The global batch stays constant, so the share of each rank shrinks.
    Strong,
}

impl Growth {
    /// Returns the name of this kind of scaling, "weak" or "strong".
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Weak => "weak",
            Self::Strong => "strong",
        }
    }
}

impl std::str::FromStr for Growth {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        match name.trim() {
            "weak" => Ok(Self::Weak),
            "strong" => Ok(Self::Strong),
            other => Err(format!("Unknown kind of scaling `{other}`: choose weak or strong")),
        }
    }
}

/// One way to train on several devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScalingWay {
    /// True if each device has its own rank; otherwise one thread of one process drives all devices.
    pub ranks: bool,
    pub precision: Precision,
    /// Data type in which CPU ranks send gradients.
    pub wire: Wire,
}

impl ScalingWay {
    /// Returns the id of the way, such as "ranks_amp_bf16" or "one_process_fp32".
    pub fn id(&self) -> String {
        let wire = match self.wire {
            Wire::F32 => "",
            Wire::F16 => "_fp16_gradients",
            Wire::Bf16 => "_bf16_gradients",
        };
        let kind = if self.ranks { "ranks" } else { "one_process" };
        format!("{kind}_{}{wire}", self.precision.name().replace('-', "_"))
    }
}

/// A planned measurement: a number of ranks, and the size of the global batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub network: Net,
    pub way: ScalingWay,
    pub world: usize,
    pub batch: u64,
}

/// Measures how training steps scale with the number of ranks.
///
/// Before the timing, the losses of some steps on all ranks are compared with the losses of a single rank with the same
/// global batch. The timed steps use the full recipe with dropout and augmentation. They are timed with the host's
/// clock: some steps are queued and waited for, and the time of the slowest rank counts.
#[derive(Debug, Clone)]
pub struct Scaling {
    networks: Vec<Net>,
    own: Option<Own>,
    batches: Option<Vec<u64>>,
    growths: Vec<Growth>,
    worlds: Vec<usize>,
    precisions: Vec<Precision>,
    wires: Vec<Wire>,
    one_process: bool,
    options: RanksOptions,
    features: usize,
    steps: Option<usize>,
    samples: Option<usize>,
    checked_steps: usize,
    timelines: bool,
    seed: u64,
    files: Files,
    drawn: DrawnSamples,
}

impl Scaling {
    /// Creates the default experiment on 1 to `ranks` ranks in powers of two: the CIFAR-10 CNN with its own batch per
    /// rank in fp32, weak and strong scaling, and the same GPUs driven by one process.
    #[must_use]
    pub fn new(ranks: usize) -> Self {
        let mut worlds: Vec<usize> = (0..16).map(|power| 1 << power).take_while(|world| *world < ranks).collect();
        worlds.push(ranks);
        Self {
            networks: vec![Net::Known(Workload::Cifar10)],
            own: None,
            batches: None,
            growths: vec![Growth::Weak, Growth::Strong],
            worlds,
            precisions: vec![Precision::Fp32],
            wires: vec![Wire::F32],
            one_process: true,
            options: RanksOptions::default(),
            features: crate::training::AMP_FEATURES,
            steps: None,
            samples: None,
            checked_steps: 10,
            timelines: true,
            seed: 1,
            files: Files::default(),
            drawn: DrawnSamples::default(),
        }
    }

    /// Sets the networks to train.
    #[must_use]
    pub fn networks(mut self, networks: impl IntoIterator<Item = Workload>) -> Self {
        self.networks = networks.into_iter().map(Net::Known).collect();
        self
    }

    /// Trains a custom network instead: a recipe and its images. The recipe is timed; the check omits dropout and
    /// augmentation. If losses jump because the learning rate is too high, the check fails, since this also magnifies
    /// rounding differences.
    #[must_use]
    pub fn own(mut self, recipe: Recipe, images: &Dataset) -> Self {
        self.networks = vec![Net::Own];
        self.own = Some(Own { recipe, images: images.clone() });
        self
    }

    /// Sets the batch sizes: the batch of each rank for weak scaling, and the global batch for strong scaling.
    #[must_use]
    pub fn batches(mut self, batches: impl IntoIterator<Item = u64>) -> Self {
        self.batches = Some(batches.into_iter().collect());
        self
    }

    /// Selects weak scaling, strong scaling, or both.
    #[must_use]
    pub fn growths(mut self, growths: impl IntoIterator<Item = Growth>) -> Self {
        self.growths = growths.into_iter().collect();
        self
    }

    /// Sets the precisions in which GPUs compute and send gradients. In mixed precision, weight gradients of linear
    /// layers have 16 bits. The CPU computes in fp32.
    #[must_use]
    pub fn precisions(mut self, precisions: impl IntoIterator<Item = Precision>) -> Self {
        self.precisions = precisions.into_iter().collect();
        self
    }

    /// Sets the data types in which CPU ranks send gradients.
    #[must_use]
    pub fn gradients(mut self, wires: impl IntoIterator<Item = Wire>) -> Self {
        self.wires = wires.into_iter().collect();
        self
    }

    /// Sets whether one process that drives all devices is also measured.
    #[must_use]
    pub fn one_process(mut self, one_process: bool) -> Self {
        self.one_process = one_process;
        self
    }

    /// Sets how ranks train together.
    #[must_use]
    pub fn options(mut self, options: RanksOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the width of the AMP recipe's layers.
    #[must_use]
    pub fn features(mut self, features: usize) -> Self {
        self.features = features;
        self
    }

    /// Sets the number of steps per sample, and the number of samples; by default 100 and 15 on GPUs, 4 and 5 on the
    /// CPU.
    #[must_use]
    pub fn timed(mut self, steps: usize, samples: usize) -> Self {
        (self.steps, self.samples) = (Some(steps.max(1)), Some(samples.max(1)));
        self
    }

    /// Sets the number of steps whose losses are compared with the losses of a single rank.
    #[must_use]
    pub fn checked_steps(mut self, steps: usize) -> Self {
        self.checked_steps = steps;
        self
    }

    /// Sets whether the activity of every rank in one step is recorded after all timing.
    #[must_use]
    pub fn timelines(mut self, timelines: bool) -> Self {
        self.timelines = timelines;
        self
    }

    /// Sets the folder that contains the files of MNIST and CIFAR-10, or subfolders with these names.
    #[must_use]
    pub fn data(mut self, folder: impl Into<std::path::PathBuf>) -> Self {
        (self.files, self.drawn) = (Files::at(FilesPlace::Folder(folder.into())), DrawnSamples::default());
        self
    }

    /// Uses synthetic images, even if there are image files.
    #[must_use]
    pub fn synthetic(mut self) -> Self {
        (self.files, self.drawn) = (Files::at(FilesPlace::Synthetic), DrawnSamples::default());
        self
    }

    /// Returns the numbers of ranks that are measured.
    #[must_use]
    pub fn worlds(&self) -> &[usize] {
        &self.worlds
    }

    fn batches_of(&self, network: Net) -> Vec<u64> {
        self.batches.clone().unwrap_or_else(|| self.own_batches(network))
    }

    /// Returns the ways to train on the lab's kind of device (GPUs or CPU).
    fn ways(&self, on_gpu: bool) -> Vec<ScalingWay> {
        let mut all = Vec::new();
        match on_gpu {
            true => {
                all.extend(self.precisions.iter().map(|p| ScalingWay { ranks: true, precision: *p, wire: Wire::F32 }));
                // Leave out fp16 in one process, because only one of the devices would know the loss scale.
                let alone = self.precisions.iter().filter(|p| self.one_process && !p.scales_the_loss());
                all.extend(alone.map(|p| ScalingWay { ranks: false, precision: *p, wire: Wire::F32 }));
            }
            false => {
                let way = |ranks, wire| ScalingWay { ranks, precision: Precision::Fp32, wire };
                all.extend(self.wires.iter().map(|wire| way(true, *wire)));
                all.extend(self.one_process.then(|| way(false, Wire::F32)));
            }
        }
        all
    }

    /// Returns the size of the global batch.
    fn global(growth: Growth, batch: u64, world: usize) -> u64 {
        match growth {
            Growth::Weak => batch * world as u64,
            Growth::Strong => batch,
        }
    }

    /// Returns the measurements on this many ranks, without duplicates.
    fn cells(&self, world: usize, on_gpu: bool) -> Vec<Cell> {
        let mut all = Vec::new();
        for network in &self.networks {
            for batch in self.batches_of(*network) {
                for growth in &self.growths {
                    for way in self.ways(on_gpu) {
                        let cell = Cell { network: *network, way, world, batch: Self::global(*growth, batch, world) };
                        // A measurement in one process must not be repeated for each rank.
                        if !all.contains(&cell) {
                            all.push(cell);
                        }
                    }
                }
            }
        }
        all
    }

    /// Returns an error if the settings are invalid on this lab's device.
    ///
    /// # Errors
    /// If there is nothing to measure, a batch cannot be split, the CPU would train a network too slowly, or files are
    /// missing.
    pub fn validate(&self, lab: &Lab) -> Result<()> {
        let on_gpu = lab.device().cuda().is_some();
        let setting = |why: String| Err(Error::Setting(why));
        if self.networks.is_empty() || self.growths.is_empty() || self.ways(on_gpu).is_empty() {
            return setting("Nothing is to be measured: name a network, a kind of scaling, and a precision.".into());
        }
        if let Some(world) = self.worlds.iter().find(|world| !(1..=MOST_RANKS).contains(*world)) {
            return setting(format!("{world} ranks: choose from 1 to {MOST_RANKS}."));
        }
        if !on_gpu && self.precisions != [Precision::Fp32] {
            return setting(
                "The CPU computes in fp32: --precision is for GPUs, and --gradients for ranks on the CPU.".into(),
            );
        }
        if on_gpu && self.wires != [Wire::F32] {
            return setting(
                "On GPUs gradients travel as they are kept, which is in 16 bits where --precision is amp-fp16 or amp-bf16: leave --gradients out."
                    .into(),
            );
        }
        if !FEATURES.contains(&self.features) {
            let (least, most) = (FEATURES.start(), FEATURES.end());
            return setting(format!("Layers of {} features: choose from {least} to {most}.", self.features));
        }
        if !(1..=100).contains(&self.checked_steps) {
            return setting(format!("{} steps to be checked: choose from 1 to 100.", self.checked_steps));
        }
        for network in &self.networks {
            self.validate_network(*network)?;
            for batch in self.batches_of(*network) {
                for (growth, world) in self.growths.iter().flat_map(|g| self.worlds.iter().map(move |w| (*g, *w))) {
                    let global = Self::global(growth, batch, world);
                    if !BATCHES.contains(&global) {
                        let (least, most) = (BATCHES.start(), BATCHES.end());
                        return setting(format!("A batch of {global} of all ranks: choose from {least} to {most}."));
                    }
                    if !global.is_multiple_of(world as u64) {
                        return setting(format!(
                            "A batch of {global} cannot be split evenly among {world} ranks: choose a multiple of {world}."
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}
