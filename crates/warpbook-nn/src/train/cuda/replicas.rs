//! Replicas of a network on several GPUs, driven by one thread: copies between the GPUs, and sums on the first.

use super::program::Program;
use super::resident::Source;
use super::{CudaTraining, ProgramKey};
use crate::ops::add::cuda::Weighted;
use crate::train::engine::{Batches, Engine, StepOutcome};
use crate::train::replicas::{PreparedSamples, Replicas};
use crate::train::{CudaOptions, Place, Recipe, TrainError};
use crate::weights::Weights;
use warpbook_device::{CudaDevice, Event, Result, Slice};
use warpbook_gemm::DeviceArray;
use warpbook_ranks::Shard;

/// The replicas; the first has the optimiser.
#[derive(Debug)]
pub(in crate::train) struct CudaReplicas {
    all: Vec<CudaTraining>,
    /// One event per replica, which marks its progress.
    here: Vec<Event>,
    shards: Vec<Shard>,
    gather: Vec<GatheredGradients>,
}

/// An array of gradients on the first GPU: a copy of another GPU's gradients, and the sum in f32.
#[derive(Debug)]
struct GatheredGradients {
    weighted: Weighted,
    staged: DeviceArray,
    sum: Slice<f32>,
}

impl GatheredGradients {
    fn new(device: &CudaDevice, array: &DeviceArray) -> Result<Self> {
        let size = array.dtype().bytes() as usize;
        let staged = DeviceArray::of_bytes(&device.zeros::<u8>(array.len() * size)?.range(..), array.dtype());
        Ok(Self {
            weighted: Weighted::new(device, array.dtype())?,
            staged,
            sum: device.zeros::<f32>(array.len())?.range(..),
        })
    }
}

impl CudaReplicas {
    pub fn new(places: &[Place], recipe: &Recipe, shards: &[Shard], weights: &Weights) -> Result<Self, TrainError> {
        let gpus = gpus(places, shards)?;
        let (first, _) = gpus[0];
        let mut all = Vec::new();
        for ((device, options), shard) in gpus.iter().zip(shards) {
            first.connect(device)?;
            // A single thread launches passes; a graph of one device cannot copy from another one.
            let options = CudaOptions { graph: false, dependent: false, last_block: false, ..**options };
            let mut replica = CudaTraining::new(device, &options, recipe, shard.len, weights, None)?;
            replica.first_sample = shard.first;
            all.push(replica);
        }
        let gather =
            all[0].gradient_arrays().iter().map(|array| GatheredGradients::new(first, array)).collect::<Result<_>>()?;
        let here = gpus.iter().map(|(device, _)| device.event()).collect::<Result<_>>()?;
        Ok(Self { all, here, shards: shards.to_vec(), gather })
    }

    /// Copies the first GPU's weights, in every array that a forward pass reads, to all others.
    fn broadcast(&self) -> Result<()> {
        let (first, others) = (&self.all[0], &self.all[1..]);
        self.here[0].record(&first.stream)?;
        for other in others {
            other.stream.wait(&self.here[0])?;
            for (from, to) in first.forward_arrays().iter().zip(other.forward_arrays()) {
                other.stream.copy_across(from.bytes(), to.bytes())?;
            }
        }
        Ok(())
    }

    /// Computes the mean of all gradients over the global batch, on the first GPU.
    fn gather(&self) -> Result<()> {
        let (first, others) = (&self.all[0], &self.all[1..]);
        for (other, event) in others.iter().zip(&self.here[1..]) {
            event.record(&other.stream)?;
            first.stream.wait(event)?;
        }
        let share = |i: usize| self.shards[i].weight() as f32;
        for (at, (own, gather)) in first.gradient_arrays().iter().zip(&self.gather).enumerate() {
            gather.weighted.queue(&first.stream, own, (share(0), true), &gather.sum)?;
            for (i, other) in others.iter().enumerate() {
                let from = &other.gradient_arrays()[at];
                first.stream.copy_across(from.bytes(), gather.staged.bytes())?;
                gather.weighted.queue(&first.stream, &gather.staged, (share(i + 1), false), &gather.sum)?;
            }
            if !others.is_empty() {
                first.stream.copy(gather.staged.bytes(), own.bytes())?;
            }
        }
        Ok(())
    }
}

/// Returns the GPUs, checking that they compute in the same way, are distinct, and have equally large parts of a batch.
fn gpus<'a>(places: &'a [Place], shards: &[Shard]) -> Result<Vec<(&'a CudaDevice, &'a CudaOptions)>, TrainError> {
    let refused = |why: String| Err(TrainError::Setting(why));
    let gpu_of = |place: &'a Place| match place {
        Place::Cuda(device, options) => Some((device, options)),
        Place::Cpu => None,
    };
    let Some(gpus) = places.iter().map(gpu_of).collect::<Option<Vec<_>>>() else {
        return refused("One process can train on several GPUs or on the CPU, not on both.".into());
    };
    for (i, (device, options)) in gpus.iter().enumerate() {
        if gpus[..i].iter().any(|(other, _)| other.info().index == device.info().index) {
            return refused(format!("cuda:{} is named twice: name every GPU once.", device.info().index));
        }
        if **options != *gpus[0].1 {
            return refused(
                "The GPUs of one process have to train in the same precision, with the same options.".into(),
            );
        }
        if options.precision.scales_the_loss() {
            return refused(format!(
                "{} scales the loss, which one process with several GPUs does not support: train in fp32, tf32 or bf16, or with one process per GPU (--gpus).",
                options.precision
            ));
        }
    }
    if shards.iter().any(|shard| shard.len != shards[0].len) {
        let n = shards.len();
        return refused(format!("A batch of {} cannot be split evenly among {n} GPUs.", shards[0].global));
    }
    Ok(gpus)
}

impl Replicas for CudaReplicas {
    fn prepare(&mut self, p: &PreparedSamples<'_>) -> Result<(), TrainError> {
        for (replica, shard) in self.all.iter_mut().zip(&self.shards) {
            let part = p.part(shard);
            let rates = vec![p.learning_rate; super::SLOTS];
            // Each replica takes its own batches from its own samples; shares are applied when gradients are gathered.
            let batches =
                Batches { set: p.set, indices: &part, size: shard.len, learning_rates: &rates, step: 0, shards: &[] };
            replica.prepare_steps(&batches)?;
            replica.ensure_resident()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), TrainError> {
        self.broadcast()?;
        for replica in &mut self.all {
            replica.queue_gradients()?;
        }
        self.gather()?;
        for (i, replica) in self.all.iter().enumerate() {
            replica.queue_end(i == 0)?;
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), TrainError> {
        self.all.iter_mut().try_for_each(|replica| replica.wait())
    }

    fn outcomes(&mut self, count: usize) -> Result<Vec<Vec<StepOutcome>>, TrainError> {
        self.all.iter_mut().map(|replica| replica.step_outcomes(count)).collect()
    }

    fn weights(&self) -> Result<Weights, TrainError> {
        self.all[0].stream.synchronize()?;
        self.all[0].params.read()
    }

    fn copied_bytes(&self) -> [u64; 2] {
        let bytes = |arrays: Vec<DeviceArray>| arrays.iter().map(|a| a.bytes().len() as u64).sum();
        [bytes(self.all[0].forward_arrays()), bytes(self.all[0].gradient_arrays())]
    }
}

impl CudaTraining {
    /// Returns the weights, the half-precision weights, and running statistics.
    fn forward_arrays(&self) -> Vec<DeviceArray> {
        let statistics = self.params.statistics().map(|s| (&s.running).into());
        let weights: DeviceArray = (&self.params.weights).into();
        std::iter::once(weights).chain(self.params.copy()).chain(statistics).collect()
    }

    /// Returns the gradients in f32 and in half precision.
    fn gradient_arrays(&self) -> Vec<DeviceArray> {
        let (exact, rounded) = self.params.gradients();
        let exact: DeviceArray = (&exact).into();
        std::iter::once(exact).chain(rounded).filter(|a| !a.is_empty()).collect()
    }

    fn ensure_resident(&self) -> Result<(), TrainError> {
        match self.repeated.as_ref().map(|r| &r.source) {
            Some(Source::Resident(_)) => Ok(()),
            _ => Err(TrainError::Setting(
                "One process with several GPUs keeps all images in their memory: there is not enough of it, or --resident off was given.".into(),
            )),
        }
    }

    /// Queues the next prepared step up to its gradients.
    fn queue_gradients(&mut self) -> Result<(), TrainError> {
        self.queue_next(|program, stream| Ok(program.queue_part(stream, 0..program.update_begins())?))
    }

    /// Queues the rest of the step; without `updates` only the step is counted.
    fn queue_end(&self, updates: bool) -> Result<(), TrainError> {
        let Some(program) = self.repeated.as_ref().and_then(|r| self.program_of(r)) else {
            return Err(TrainError::Setting("No steps were prepared.".into()));
        };
        let all = program.passes.len();
        let begin = if updates { program.update_begins() } else { all - 1 };
        Ok(program.queue_part(&self.stream, begin..all)?)
    }

    fn program_of(&self, r: &super::Repeated) -> Option<&Program> {
        let Source::Resident(set) = r.source else { return None };
        let key: ProgramKey = (r.kind, set);
        self.programs.get(&key)
    }
}
