//! Training steps: with and without checkpointing, and with several ways of loading samples.

use super::{failure, in_region};
use crate::guide::pair::PairWork;
use crate::guide::prepared::Arrays;
use std::cell::RefCell;
use warpbook_data::Dataset;
use warpbook_device::{CudaDevice, Stream};
use warpbook_lab::experiment::{Candidate, Checked, Details};
use warpbook_lab::profile::Profile;
use warpbook_lab::{Lab, Result};
use warpbook_nn::network::{Layer, Network, conv2d, flatten, gelu, linear, max_pool, relu};
use warpbook_nn::train::{CudaOptions, Loader, Place, Precision, Recipe, Residency, TrainError, Trainer};
use warpbook_nn::weights::Weights;
use warpbook_record::Check;

/// Number of steps in a timed run with a loader, which is enough for the loader to work ahead.
const STEPS: u64 = 16;

/// A training run whose next steps are timed.
struct TrainingSteps<'p> {
    trainer: RefCell<Trainer>,
    /// The stream that the host waits for; `None` on the CPU.
    stream: Option<&'p Stream>,
    steps: u64,
    /// True if the host waits for each step, like a loop that reads each loss.
    one_by_one: bool,
    check: Check,
    error: Option<String>,
}

impl Candidate for TrainingSteps<'_> {
    fn stream(&self) -> Option<&Stream> {
        self.stream
    }

    /// The peak memory of a training run is measured, and the memory must be freed before the next candidate is made.
    fn timed_alone(&self) -> bool {
        true
    }

    /// Runs the steps and waits for them, since they use the training's own streams.
    fn launch(&self) -> warpbook_device::Result<()> {
        let mut trainer = self.trainer.borrow_mut();
        for _ in 0..self.steps {
            trainer.queue_step().map_err(in_region)?;
            if self.one_by_one {
                wait(&trainer)?;
            }
        }
        wait(&trainer)
    }

    fn resets_each_run(&self) -> bool {
        self.stream.is_some()
    }

    fn check(&self) -> Result<Checked> {
        let last = self.trainer.borrow_mut().step_outcomes(self.steps as usize).map_err(failure)?;
        let broken = last.iter().find(|o| !o.loss.is_finite());
        let error = self.error.clone().or(broken.map(|o| format!("a timed step has a loss of {}", o.loss)));
        Ok(Checked { check: self.check.clone(), error, log: None })
    }

    fn details(&self) -> Details {
        let peak_bytes = self.stream.map(|_| self.trainer.borrow().bytes());
        Details { peak_bytes, ..Details::default() }
    }
}

/// Waits for all queued steps.
fn wait(trainer: &Trainer) -> warpbook_device::Result<()> {
    trainer.stream().map_or(Ok(()), |stream| stream.synchronize())
}

/// Returns images whose pixels and labels are computed from their index.
fn images(n: usize, shape: [usize; 3], classes: u8) -> Result<Dataset> {
    let byte = |i: usize| ((i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
    let labels = (0..n).map(|i| byte(i) % classes).collect();
    let pixels = (0..n * shape.iter().product::<usize>()).map(|i| byte(i + n)).collect();
    Dataset::from_arrays("made", shape, pixels, labels, (0..classes).map(|c| c.to_string()))
        .map_err(|e| warpbook_lab::Error::Setting(e.to_string()))
}

fn flat(weights: &Weights) -> Vec<f32> {
    weights.values().iter().flatten().copied().collect()
}

/// Returns the deep network: `layers` convolutions with `channels` filters each, and a classifying layer.
fn deep(layers: usize, channels: usize, segments: usize) -> Result<Network> {
    let stack = (0..layers).flat_map(|_| [conv2d(channels, 3).padding(1), gelu()]);
    let all: Vec<Layer> = stack.chain([max_pool(2), flatten(), linear(10)]).collect();
    let network = Network::new([1, 16, 16], all).and_then(|n| n.checkpointed(segments));
    network.map_err(|e| warpbook_lab::Error::Setting(e.to_string()))
}

/// Returns the number of layers, the number of channels and the batch size of a deep network with `layers` layers.
fn sizes(layers: usize) -> [usize; 3] {
    if layers >= 32 { [layers, 32, 128] } else { [layers, 4, 4] }
}

fn deep_recipe(layers: usize, segments: usize) -> Result<Recipe> {
    let [layers, channels, batch] = sizes(layers);
    let network = deep(layers, channels, segments)?;
    Ok(Recipe { name: "deep".into(), network, batch, learning_rate: 1e-4, shuffle: false, ..Recipe::mnist() })
}

/// Returns the work of a training step with this many layers.
pub(in crate::guide) fn deep_work(layers: u64) -> PairWork {
    let [layers, channels, batch] = sizes(layers as usize);
    let recipe = deep_recipe(layers, 1).map(|r| (r.network.parameter_count() as u64, r.network.training_flops()));
    let (parameters, flops) = recipe.unwrap_or_default();
    // The forward pass writes the activations of each layer and its ReLU, and the backward pass reads them.
    let activations = (4 * 2 * layers * channels * 16 * 16 * batch) as u64;
    let bytes = 2 * activations + 16 * parameters;
    PairWork {
        n: layers as u64,
        inputs: 1,
        outputs: parameters,
        flops: flops * batch as u64,
        bytes,
        written_bytes: activations,
        argument: 0,
        array_bytes: activations + 16 * parameters,
    }
}

/// Returns the gradients of the first step, and the trainer after that step.
fn first_gradients(place: &Place, recipe: Recipe, set: &Dataset) -> Result<(Vec<f32>, Trainer)> {
    let mut trainer = Trainer::on(place, recipe, set, None).map_err(failure)?;
    trainer.prepare_steps(set).map_err(failure)?;
    trainer.queue_step().map_err(failure)?;
    trainer.step_outcomes(1).map_err(failure)?;
    let gradients = flat(&trainer.gradients().map_err(failure)?);
    Ok((gradients, trainer))
}

/// Computes the gradients of the first step on the CPU without checkpointing, relative to the largest gradient.
pub(in crate::guide) fn deep_want(_: &[f32], work: &PairWork, _: u64) -> Vec<f64> {
    let train = || -> Result<Vec<f64>> {
        let recipe = deep_recipe(work.n as usize, 1)?;
        let set = images(recipe.batch, [1, 16, 16], 10)?;
        Ok(relative(&first_gradients(&Place::Cpu, recipe, &set)?.0))
    };
    // If the training fails, every comparison fails.
    train().unwrap_or_else(|_| vec![f64::NAN; work.outputs as usize])
}

fn relative(gradients: &[f32]) -> Vec<f64> {
    let largest = gradients.iter().fold(0.0f32, |m, g| m.max(g.abs()));
    gradients.iter().map(|g| f64::from(g / largest)).collect()
}

/// Returns the place where a half trains: the CPU, or the GPU with its options.
fn place(arrays: &Arrays, on_gpu: bool, loader: Loader, precision: Precision) -> Result<Place> {
    Ok(if on_gpu {
        let options = CudaOptions { loader, ..CudaOptions::new(precision) };
        Place::Cuda(arrays.on_gpu()?.device.clone(), options)
    } else {
        Place::Cpu
    })
}

/// A step's way of saving memory in the deep network; the size of the pair is its parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::guide) enum Saves {
    /// The step keeps the activations of the whole batch.
    Nothing,
    /// The step keeps only the activations at the borders of this many segments.
    Segments,
    /// The step computes the batch in this many parts and accumulates their gradients.
    Parts,
}

/// Creates a candidate that runs a training step of the deep network in fp32.
pub(in crate::guide) fn deep_steps(arrays: &Arrays, on_gpu: bool, saves: Saves) -> Result<Box<dyn Candidate + '_>> {
    let place = place(arrays, on_gpu, Loader::default(), Precision::Fp32)?;
    let layers = arrays.work.n as usize;
    let checkpointed = saves == Saves::Segments;
    let segments = if checkpointed { arrays.size as usize } else { 1 };
    let accumulate = if saves == Saves::Parts { arrays.size as usize } else { 1 };
    let recipe = Recipe { accumulate, ..deep_recipe(layers, segments)? };
    let set = images(recipe.batch, [1, 16, 16], 10)?;
    // The gradients are computed first, so that their memory is free before the timed training run allocates its own.
    let plain = if checkpointed { Some(first_gradients(&place, deep_recipe(layers, 1)?, &set)?.0) } else { None };
    let (gradients, trainer) = first_gradients(&place, recipe, &set)?;
    let bits = |all: &[f32]| all.iter().map(|g| g.to_bits()).collect::<Vec<u32>>();
    let differs = plain.is_some_and(|plain| bits(&plain) != bits(&gradients));
    let got = relative(&gradients).into_iter().zip(arrays.want.iter().copied());
    let check = Check::over(
        "the first step's gradients on the CPU, of the whole batch without checkpoints, relative to the largest",
        got,
        1.0,
        arrays.tolerance(),
    );
    let stream = if on_gpu { Some(&arrays.on_gpu()?.stream) } else { None };
    let error = differs.then(|| "the gradients are not bit for bit equal to a training without checkpoints".to_owned());
    Ok(Box::new(TrainingSteps { trainer: RefCell::new(trainer), stream, steps: 1, one_by_one: false, check, error }))
}

/// Returns the recipe for timing the loader, with little arithmetic on large images.
fn fed(batch: usize) -> Result<Recipe> {
    let layers = [conv2d(16, 3).stride(2), relu(), max_pool(2), flatten(), linear(10)];
    let network = Network::new([3, 64, 64], layers).map_err(|e| warpbook_lab::Error::Setting(e.to_string()))?;
    let (mean, deviation) = (vec![0.5; 3], vec![0.25; 3]);
    Ok(Recipe { name: "fed".into(), network, batch, mean, deviation, learning_rate: 1e-3, ..Recipe::mnist() })
}

/// Number of batches in the data set that the loader reads.
const BATCHES: usize = 4;

/// Returns the work of the timed steps with a batch size.
pub(in crate::guide) fn fed_work(batch: u64) -> PairWork {
    let flops = fed(1).map_or(0, |r| r.network.training_flops());
    let image = 3 * 64 * 64;
    PairWork {
        n: batch,
        inputs: 1,
        outputs: STEPS,
        flops: STEPS * batch * flops,
        bytes: STEPS * batch * (image + 1),
        written_bytes: 0,
        argument: 0,
        array_bytes: BATCHES as u64 * batch * (image + 1),
    }
}

/// Returns the losses of the first steps of a training run.
fn losses(trainer: &mut Trainer, set: &Dataset) -> std::result::Result<Vec<f64>, TrainError> {
    trainer.prepare_steps(set)?;
    (0..STEPS).try_for_each(|_| trainer.queue_step())?;
    Ok(trainer.step_outcomes(STEPS as usize)?.iter().map(|o| o.loss).collect())
}

/// Computes the expected losses on the CPU.
pub(in crate::guide) fn fed_want(_: &[f32], work: &PairWork, _: u64) -> Vec<f64> {
    let train = || -> Result<Vec<f64>> {
        let set = images(BATCHES * work.n as usize, [3, 64, 64], 10)?;
        let mut trainer = Trainer::on(&Place::Cpu, fed(work.n as usize)?, &set, None).map_err(failure)?;
        losses(&mut trainer, &set).map_err(failure)
    };
    train().unwrap_or_else(|_| vec![f64::NAN; STEPS as usize])
}

/// Creates a candidate that runs training steps on batches from page-locked or pageable memory, gathered by `workers`
/// threads in addition to the training thread, or on batches that are already on the GPU. The host waits for each step,
/// or only for the last.
pub(in crate::guide) fn fed_steps(
    arrays: &Arrays,
    loader: Option<Loader>,
    one_by_one: bool,
) -> Result<Box<dyn Candidate + '_>> {
    let place = place(arrays, loader.is_some(), loader.unwrap_or_default(), Precision::Fp32)?;
    let recipe = fed(arrays.work.n as usize)?;
    let set = images(BATCHES * recipe.batch, [3, 64, 64], 10)?;
    let mut trainer = Trainer::on(&place, recipe, &set, None).map_err(failure)?;
    let found = losses(&mut trainer, &set).map_err(failure)?;
    let what = "the losses of the first steps on the CPU, whose samples lie in its memory";
    let check = Check::over(what, found.into_iter().zip(arrays.want.iter().copied()), 1.0, arrays.tolerance());
    let stream = if loader.is_some() { Some(&arrays.on_gpu()?.stream) } else { None };
    Ok(Box::new(TrainingSteps { trainer: RefCell::new(trainer), stream, steps: STEPS, one_by_one, check, error: None }))
}

/// Profiles two training steps on a GPU, after a few others: either the host waits for each step and memory is
/// pageable, or a loader works ahead. Ranges for loading and queueing on the host are added here.
pub(crate) fn profiled(lab: &Lab, device: &CudaDevice, batch: usize, ahead: bool) -> Result<Profile> {
    let loader = if ahead { from_host(true, 4) } else { from_host(false, 0) };
    let options = CudaOptions { loader, ..CudaOptions::new(Precision::Fp32) };
    let recipe = fed(batch)?;
    let set = images(BATCHES * batch, [3, 64, 64], 10)?;
    // The training is created inside the profile, so that the recorder sees the nodes of the graph during the capture.
    lab.profiler().schedule(0, WARM_UP, 2).repeat(1).run(|p| {
        let place = Place::Cuda(device.clone(), options);
        let mut trainer = Trainer::on(&place, recipe, &set, None).map_err(failure)?;
        trainer.prepare_steps(&set).map_err(failure)?;
        for _ in 0..WARM_UP + 2 {
            p.range("load and queue", |_| trainer.queue_step()).map_err(failure)?;
            if !ahead {
                p.range("wait", |_| wait(&trainer))?;
            }
            p.step()?;
        }
        wait(&trainer)?;
        Ok(())
    })
}

/// Number of steps before a profile.
const WARM_UP: u64 = 4;

/// Returns a loader that takes batches from host memory.
pub(in crate::guide) const fn from_host(pinned: bool, workers: usize) -> Loader {
    Loader { resident: Residency::Off, workers, pinned }
}

/// A loader that keeps all samples on the GPU.
pub(in crate::guide) const RESIDENT: Loader = Loader { resident: Residency::On, workers: 0, pinned: true };
