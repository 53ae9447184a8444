//! Training on a GPU: memory is planned before it starts, and each step is one graph that is launched again and again.
//!
//! A step chooses its samples, gathers and augments their images, and runs forward and backward pass and the optimiser's update without the
//! host: step, learning rate, losses and the gradient scaler are in device memory. The host writes the order of many batches, launches
//! their graphs, and then reads the outcomes.

mod control;
mod inference;
mod kernels;
mod loader;
mod memory;
mod options;
mod params;
mod passes;
mod program;
mod rank_step;
mod replicas;
mod resident;
mod work;

use super::engine::{AfterOperation, Ahead, Batches, Broken, Engine, State, TrainedSteps};
use super::{MeanLoss, Ranks, Recipe, Samples, ScalerState, Score, StepOutcome, TrainError};
use crate::ops::optimizer::groups::Grouped;
use crate::weights::Weights;
pub(in crate::train) use control::SLOTS;
use control::{StepControl, StepEnd};
pub(crate) use inference::CudaInference;
use kernels::{LayerKernels, StepKernels, UpdateKernels};
use loader::Staging;
pub(in crate::train) use loader::{IN_FLIGHT, Slot, gather, workers};
pub use loader::{Loader, Residency};
pub(in crate::train) use memory::{FusionPlan, NodePlan, footprint, sums_of_gradients};
use memory::{Memory, ensure_it_fits};
pub use options::CudaOptions;
use params::Params;
pub(in crate::train) use params::{is_half, rounded_params};
use passes::{PassInputs, StepParts};
use program::{BatchKind, Others, Program, Side};
use rank_step::RankStep;
pub(in crate::train) use replicas::CudaReplicas;
use resident::{Resident, Source};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use warpbook_data::Dataset;
use warpbook_device::{Arena, CudaDevice, Stream};
use warpbook_gemm::{Gemm, Workspace};
use warpbook_ranks::Shard;
use work::StepWork;

/// Prepared steps that are queued repeatedly.
#[derive(Debug, Clone)]
struct Repeated {
    source: Source,
    indices: Vec<u32>,
    kind: BatchKind,
    queued: usize,
}

/// Key of a program: its kind of batch, and the index of its data set.
type ProgramKey = (BatchKind, usize);

/// A recipe's training on a GPU.
#[derive(Debug)]
pub(crate) struct CudaTraining {
    device: CudaDevice,
    stream: Arc<Stream>,
    gemm: Gemm,
    recipe: Recipe,
    grouped: Option<Grouped>,
    options: CudaOptions,
    /// Number of samples of a step; `batch` is the number of samples that pass through the network at once.
    step_batch: usize,
    batch: usize,
    /// For a replica, the position of a step's first sample in the global batch.
    first_sample: usize,
    fusion: FusionPlan,
    memory: Memory,
    params: Params,
    control: StepControl,
    layers: LayerKernels,
    kernels: StepKernels,
    sets: Vec<Resident>,
    programs: HashMap<ProgramKey, Program>,
    /// Set if several ranks train.
    rank_step: Option<RankStep>,
    /// One workspace per stream.
    workspaces: [Option<Workspace>; 2],
    /// The second stream, and the ranks' stream.
    others: Others,
    /// Factor by which the gradients of the last step are multiplied.
    gradient_scale: f32,
    repeated: Option<Repeated>,
    /// Memory for batches of images that are not resident, with the indices of its slots in `sets`.
    staging: Option<(Staging, Vec<usize>)>,
    /// True if the optimiser's state is zero.
    is_fresh: bool,
    /// Bytes of free device memory before the training was created, and the least since then.
    free: [u64; 2],
}

impl CudaTraining {
    pub fn new(
        device: &CudaDevice,
        options: &CudaOptions,
        recipe: &Recipe,
        batch: usize,
        weights: &Weights,
        ranks: Option<&Ranks>,
    ) -> Result<Self, TrainError> {
        options.precision.check(device.info())?;
        options.scaler.check()?;
        recipe.optimizer.check()?;
        let network = &recipe.network;
        let (mut options, arrangement) = options.arranged(network);
        let grouped = recipe.grouped()?;
        options.last_block = options.has_last_blocks(recipe);
        // `batch` now counts the samples that pass through the network at once.
        let (step_batch, batch) = (batch, recipe.largest_part(batch));
        device.reset_peak();
        let (free, _) = device.memory()?;
        let dtype = options.precision.activations();
        let fusion = FusionPlan::new(network, &options, device.info().compute_capability);
        let slots = Some(recipe.optimizer.state_slots());
        ensure_it_fits(device, recipe, &options, &fusion, batch)?;
        let communicator = ranks.map(|ranks| rank_step::join(device, ranks)).transpose()?;
        let params = Params::new(device, network, arrangement, slots, dtype, communicator.as_ref())?;
        params.write(weights)?;
        let layout = memory::plan(network, &fusion, batch, dtype, options.purpose());
        let memory = Memory::new(Arena::with_layout(device, layout)?, dtype);
        let control = StepControl::new(device, step_batch, recipe.accumulate)?;
        control.restore(0, options.scaler.start())?;
        let stream = device.stream()?;
        let side = options.overlap.then(|| Side::new(device, ranks.is_some())).transpose()?;
        if options.dependent {
            stream.make_dependent();
            side.iter().for_each(Side::make_dependent);
        }
        let keeps = options.updates_provisionally(recipe);
        let rank_step = |(ranks, communicator)| RankStep::new(device, ranks, communicator, network, &params, keeps);
        let rank_step = ranks.zip(communicator).map(rank_step).transpose()?;
        if rank_step.is_some() {
            // Restores the parameters, which the first reductions have changed.
            params.write(weights)?;
        }
        let others = Others { side: side.map(Arc::new), link: rank_step.as_ref().map(|t| t.link.clone()) };
        Ok(Self {
            stream: Arc::new(stream),
            // Rank 0 times kernels; the others use its choices.
            gemm: if ranks.is_none_or(|ranks| ranks.rank() == 0) { Gemm::new(device) } else { Gemm::untuned(device) },
            layers: LayerKernels::load(device, network, &options)?,
            kernels: StepKernels::load(device, (recipe, grouped.as_ref()), &options, &params)?,
            grouped,
            is_fresh: true,
            device: device.clone(),
            recipe: recipe.clone(),
            options,
            step_batch,
            batch,
            first_sample: 0,
            fusion,
            memory,
            params,
            control,
            sets: Vec::new(),
            programs: HashMap::new(),
            workspaces: [None, None],
            others,
            rank_step,
            gradient_scale: 1.0,
            repeated: None,
            staging: None,
            free: [free; 2],
        })
    }

    /// Returns the source of samples; copies them to the device if they are kept there.
    fn source(&mut self, samples: Samples<'_>) -> Result<Source, TrainError> {
        if let Some(at) = self.sets.iter().position(|r| r.holds(samples)) {
            return Ok(Source::Resident(at));
        }
        match samples {
            Samples::Images(set) if !self.options.loader.keeps(&self.device, set)? => {
                if self.recipe.augmentation.is_some_and(|a| a.alternate) {
                    return Err(TrainError::Setting(
                        "Alternating flips need the images in GPU memory: use --resident on, or flips that do not alternate.".into(),
                    ));
                }
                return Ok(Source::Host(set.clone()));
            }
            _ => {}
        }
        self.sets.push(Resident::new(&self.device, samples)?);
        Ok(Source::Resident(self.sets.len() - 1))
    }

    fn ensure_staging(&mut self, set: &Dataset) -> Result<(), TrainError> {
        if self.staging.is_none() {
            let len = set.shape().iter().product();
            let staging = Staging::new(&self.device, &self.options.loader, self.step_batch, len)?;
            let first = self.sets.len();
            self.sets.extend(staging.sets());
            self.staging = Some((staging, (first..self.sets.len()).collect()));
        }
        Ok(())
    }

    /// Returns the number of operations at the network's start whose parameters no longer change at a step. It is 0 on several ranks, and if gradients are
    /// clipped, because their norm includes the gradients of these operations.
    fn settled(&self, step: u64, per_epoch: u64) -> usize {
        let grouped = self.grouped.as_ref().filter(|_| self.rank_step.is_none() && self.recipe.clip.is_none());
        grouped.map_or(0, |grouped| grouped.settled(&self.recipe.network, self.recipe.schedule_time(step, per_epoch)))
    }

    fn training_kind(&self, (n, shard): (usize, Option<Shard>), step: u64, per_epoch: u64) -> BatchKind {
        BatchKind { n, trains: true, shard, settled: self.settled(step, per_epoch) }
    }

    /// Builds the programs of these kinds of batches.
    fn prepare_all(&mut self, source: &Source, kinds: &[BatchKind]) -> Result<(), TrainError> {
        let sets = match source {
            Source::Resident(set) => vec![*set],
            Source::Host(set) => {
                self.ensure_staging(set)?;
                self.staging.as_ref().map_or_else(Vec::new, |(_, sets)| sets.clone())
            }
        };
        for kind in kinds {
            for set in &sets {
                self.prepare((*kind, *set))?;
            }
        }
        Ok(())
    }

    /// Returns the order for the device's counters: indices of samples if the data set is in device memory, or else positions in each batch's
    /// slot.
    fn order(source: &Source, indices: &[u32], size: usize) -> Vec<u32> {
        match source {
            Source::Resident(_) => indices.to_vec(),
            Source::Host(_) => indices.chunks(size).flat_map(|batch| 0..batch.len() as u32).collect(),
        }
    }

    /// Calls `queue` with the program of a batch, once its images are in transit.
    fn with_batch(
        &mut self,
        source: &Source,
        (indices, kind): (&[u32], BatchKind),
        queue: impl FnOnce(&Program, &Stream) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        match source {
            Source::Resident(set) => queue(&self.programs[&(kind, *set)], &self.stream),
            Source::Host(set) => {
                let Some((staging, sets)) = &mut self.staging else { return Ok(()) };
                let slot = staging.load(&self.stream, set, indices)?;
                queue(&self.programs[&(kind, sets[slot])], &self.stream)?;
                staging.consumed(slot, &self.stream)
            }
        }
    }

    /// Builds the program of a batch, if there is none yet.
    fn prepare(&mut self, key: ProgramKey) -> Result<(), TrainError> {
        if self.programs.contains_key(&key) {
            return Ok(());
        }
        let (BatchKind { n, trains, shard, settled }, set) = key;
        let parts = PassInputs {
            device: &self.device,
            gemm: &self.gemm,
            network: &self.recipe.network,
            options: &self.options,
            fusion: &self.fusion,
            settled,
            memory: &self.memory,
            params: &self.params,
            kernels: &self.layers,
        };
        let first_sample = shard.map_or(self.first_sample, |shard| shard.first);
        let step = StepParts { recipe: &self.recipe, control: &self.control, kernels: &self.kernels, first_sample };
        let reductions = self.rank_step.as_ref().zip(shard).map_or_else(Vec::new, |(rank_step, shard)| {
            let mut all = rank_step.reductions();
            all.extend(rank_step.statistics(&self.params, shard));
            all
        });
        let ranks = self.rank_step.as_ref().zip(shard).map(|(rank_step, shard)| rank_step.for_step(shard));
        let batch = (n, trains);
        // All ranks build the programs of training steps at the same time.
        let others = self.rank_step.as_ref().filter(|_| trains && shard.is_some()).map(|together| &together.ranks);
        if let Some(others) = others.filter(|ranks| ranks.rank() > 0) {
            self.gemm.take(&others.share_kernels(&[])?);
        }
        let passes = passes::passes(parts, step, &self.sets[set], batch, ranks, &mut self.workspaces, reductions)?;
        if let Some(others) = others.filter(|ranks| ranks.rank() == 0) {
            others.share_kernels(&self.gemm.chosen())?;
        }
        let name = if trains { "a training step" } else { "an evaluation" };
        let program = Program::new((&self.stream, &self.others), name, passes, self.options.graph)?;
        self.programs.insert(key, program);
        Ok(())
    }

    /// Runs the batches of some samples, at most `SLOTS`, and returns their outcomes.
    fn run(
        &mut self,
        source: &Source,
        (indices, size): (&[u32], usize),
        rates: &[f64],
        (step, per_epoch): (u64, u64),
        trains: bool,
        shards: &[Shard],
    ) -> Result<Vec<StepOutcome>, TrainError> {
        let kind = |(at, batch): (usize, &[u32])| {
            let (n, shard) = (batch.len(), shards.get(at).copied());
            match trains {
                true => self.training_kind((n, shard), step + at as u64, per_epoch),
                false => BatchKind { n, trains, shard, settled: 0 },
            }
        };
        let kinds: Vec<BatchKind> = indices.chunks(size).enumerate().map(kind).collect();
        self.prepare_all(source, &kinds)?;
        self.control.begin(&Self::order(source, indices, size), rates, step)?;
        self.write_group_rates(rates, step, per_epoch)?;
        self.is_fresh &= !trains;
        for batch in indices.chunks(size).zip(&kinds) {
            self.with_batch(source, (batch.0, *batch.1), |program, stream| Ok(program.queue(stream)?))?;
        }
        match &self.rank_step {
            Some(rank_step) => rank_step.wait(&self.stream)?,
            None => self.stream.synchronize()?,
        }
        self.free[1] = self.free[1].min(self.device.memory()?.0);
        let outcomes = self.control.outcomes(kinds.len(), self.step_end(trains))?;
        if let Some(scale) = outcomes.last().and_then(|o| o.loss_scale) {
            self.gradient_scale = scale;
        }
        Ok(outcomes)
    }

    /// Returns the number of steps in an epoch of this many samples.
    fn per_epoch(&self, samples: usize) -> u64 {
        samples.div_ceil(self.recipe.batch) as u64
    }

    /// Writes the groups' learning rates for steps with these rates.
    fn write_group_rates(&self, rates: &[f64], step: u64, per_epoch: u64) -> Result<(), TrainError> {
        let (Some(grouped), UpdateKernels::Groups { rates: to, .. }) = (&self.grouped, &self.kernels.update) else {
            return Ok(());
        };
        let mut all = Vec::with_capacity(rates.len() * grouped.rules.len());
        for (step, rate) in (step..).zip(rates) {
            let group_rates = self.recipe.group_rates(grouped, *rate, step, per_epoch)?;
            all.extend(group_rates.into_iter().map(|rate| rate as f32));
        }
        Ok(if all.is_empty() { Ok(()) } else { to.range(..all.len()).write(&all) }?)
    }

    fn step_end(&self, trains: bool) -> StepEnd<'_> {
        let norm_is_computed = trains && self.options.computes_norm(&self.recipe);
        StepEnd { trains, norm_is_computed, scaler: self.options.scaler().filter(|_| trains) }
    }

    /// Queues the next of the prepared steps with the caller's function.
    fn queue_next(
        &mut self,
        queue: impl FnOnce(&Program, &Stream) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        let Some(mut r) = self.repeated.take() else {
            return Err(TrainError::Setting("No steps were prepared.".into()));
        };
        let first = r.queued * r.kind.n % r.indices.len();
        let batch = &r.indices[first..first + r.kind.n];
        let queued = self.with_batch(&r.source, (batch, r.kind), queue);
        r.queued += 1;
        self.repeated = Some(r);
        queued
    }

    /// Combines the outcomes of the ranks' parts into outcomes of the global batches.
    fn global_outcomes(
        &mut self,
        ranks: &Ranks,
        b: &Batches<'_>,
        source: &Source,
        mut outcomes: Vec<StepOutcome>,
    ) -> Result<TrainedSteps, TrainError> {
        let Some((at, rank)) = ranks.outcomes(&mut outcomes, b.shards)? else {
            return Ok(TrainedSteps { outcomes, broken: None });
        };
        let loss = outcomes[at].loss;
        outcomes.truncate(at);
        let mut name = Vec::new();
        if rank == ranks.rank() {
            let (batch, step) = (b.each()[at], b.step + at as u64);
            let kind = self.training_kind((batch.len(), b.shards.get(at).copied()), step, self.per_epoch(b.set.len()));
            name = self.find_first_not_finite(source, (batch, kind), step)?.into_bytes();
        } else {
            self.params.restore_statistics(&self.stream)?;
        }
        let named = ranks.all_gather(&name)?;
        let layer = format!("{} on rank {rank}", String::from_utf8_lossy(&named[rank]));
        Ok(TrainedSteps { outcomes, broken: Some(Broken { loss, layer }) })
    }

    /// Returns the first operation of a step's forward pass with an output that is not finite.
    fn find_first_not_finite(
        &mut self,
        source: &Source,
        (indices, kind): (&[u32], BatchKind),
        step: u64,
    ) -> Result<String, TrainError> {
        self.control.begin(&Self::order(source, indices, indices.len()), &[], step)?;
        self.params.restore_statistics(&self.stream)?;
        let mut found = "the loss".to_owned();
        self.with_batch(source, (indices, kind), |program, stream| {
            // For a batch in parts, runs the passes of all parts, which change no weights.
            let in_parts = program.passes.iter().any(|pass| pass.name == passes::LOSS_OF_PARTS);
            let end = if in_parts { passes::LOSS_OF_PARTS } else { "loss" };
            for pass in program.passes.iter().take_while(|pass| pass.name != end) {
                pass.queue(stream)?;
                let Some(output) = &pass.output else { continue };
                stream.synchronize()?;
                if output.to_f32()?.iter().any(|v| !v.is_finite()) {
                    found = pass.name.trim_end_matches(" forward").to_owned();
                    break;
                }
            }
            Ok(stream.synchronize()?)
        })?;
        // The repeated forward pass has changed the running statistics again.
        self.params.restore_statistics(&self.stream)?;
        self.stream.synchronize()?;
        Ok(found)
    }
}

impl Engine for CudaTraining {
    fn steps_at_once(&self) -> usize {
        SLOTS
    }

    fn train(&mut self, b: &Batches<'_>) -> Result<TrainedSteps, TrainError> {
        let source = self.source(b.set)?;
        let per_epoch = self.per_epoch(b.set.len());
        let mut outcomes =
            self.run(&source, (b.indices, b.size), b.learning_rates, (b.step, per_epoch), true, b.shards)?;
        if let Some(ranks) = self.rank_step.as_ref().map(|t| t.ranks.clone()) {
            return self.global_outcomes(&ranks, b, &source, outcomes);
        }
        let Some(at) = outcomes.iter().position(|o| !o.loss.is_finite()) else {
            return Ok(TrainedSteps { outcomes, broken: None });
        };
        let loss = outcomes[at].loss;
        outcomes.truncate(at);
        let end = ((at + 1) * b.size).min(b.indices.len());
        let (batch, step) = (&b.indices[at * b.size..end], b.step + at as u64);
        let kind = self.training_kind((batch.len(), None), step, per_epoch);
        let layer = self.find_first_not_finite(&source, (batch, kind), step)?;
        Ok(TrainedSteps { outcomes, broken: Some(Broken { loss, layer }) })
    }

    fn make_ready(&mut self, ahead: &Ahead<'_>) -> Result<bool, TrainError> {
        let per_epoch = self.per_epoch(ahead.train.len());
        let mut kinds = Vec::new();
        for step in ahead.steps.clone() {
            let is_last = (step + 1).is_multiple_of(per_epoch);
            let kind = self.training_kind(ahead.batches[usize::from(is_last)], step, per_epoch);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let source = self.source(ahead.train)?;
        self.prepare_all(&source, &kinds)?;
        if let Some((test, part)) = &ahead.test {
            let (whole, last) = (self.batch.min(part.len()), part.len() % self.batch);
            let kinds: Vec<BatchKind> = [whole, last]
                .into_iter()
                .filter(|n| *n > 0)
                .map(|n| BatchKind { n, trains: false, shard: None, settled: 0 })
                .collect();
            let source = self.source(*test)?;
            self.prepare_all(&source, &kinds)?;
        }
        self.stream.synchronize()?;
        Ok(true)
    }

    fn state_is_fresh(&self) -> bool {
        self.is_fresh
    }

    fn prepare_steps(&mut self, b: &Batches<'_>) -> Result<(), TrainError> {
        let source = self.source(b.set)?;
        let kind = self.training_kind((b.size, b.shards.first().copied()), b.step, self.per_epoch(b.set.len()));
        self.prepare_all(&source, &[kind])?;
        self.control.begin(&Self::order(&source, b.indices, b.size), b.learning_rates, b.step)?;
        self.write_group_rates(b.learning_rates, b.step, self.per_epoch(b.set.len()))?;
        self.is_fresh = false;
        self.repeated = Some(Repeated { source, indices: b.indices.to_vec(), kind, queued: 0 });
        Ok(())
    }

    fn queue_step(&mut self) -> Result<(), TrainError> {
        self.queue_next(|program, stream| Ok(program.queue(stream)?))
    }

    fn step_by_operation(&mut self, after: AfterOperation<'_>) -> Result<(), TrainError> {
        let (recipe, options, fusion) = (self.recipe.clone(), self.options, self.fusion.clone());
        self.queue_next(|program, stream| {
            for pass in program.passes.iter() {
                pass.queue(stream)?;
                stream.synchronize()?;
                let work = StepWork { recipe: &recipe, options: &options, fusion: &fusion, n: pass.n };
                after(&work.operation(&pass.name))?;
            }
            Ok(())
        })
    }

    fn wait(&mut self) -> Result<(), TrainError> {
        match &self.rank_step {
            Some(rank_step) => rank_step.wait(&self.stream),
            None => Ok(self.stream.synchronize()?),
        }
    }

    fn step_outcomes(&mut self, count: usize) -> Result<Vec<StepOutcome>, TrainError> {
        let queued = self.repeated.as_ref().map_or(0, |r| r.queued);
        let count = count.min(queued).min(SLOTS);
        self.wait()?;
        let all = self.control.outcomes(SLOTS, self.step_end(true))?;
        Ok((queued - count..queued).map(|step| all[step % SLOTS]).collect())
    }

    fn stream(&self) -> Option<Arc<Stream>> {
        Some(self.stream.clone())
    }

    fn evaluate(&mut self, set: Samples<'_>, part: Range<usize>) -> Result<Score, TrainError> {
        let source = self.source(set)?;
        let at_once = SLOTS * self.batch;
        let mut batches = Vec::new();
        for first in part.clone().step_by(at_once) {
            let indices: Vec<u32> = (first as u32..(first + at_once).min(part.end) as u32).collect();
            let outcomes = self.run(&source, (&indices, self.batch), &[], (0, 1), false, &[])?;
            let losses = outcomes.iter().map(|o| MeanLoss { mean: o.loss, correct: o.correct });
            batches.extend(losses.zip(indices.chunks(self.batch).map(<[u32]>::len)));
        }
        Ok(Score::from_batches(batches))
    }

    fn weights(&self) -> Result<Weights, TrainError> {
        self.params.read()
    }

    fn gradients(&self) -> Result<Weights, TrainError> {
        let gradients = self.params.read_gradients()?;
        let unscaled = gradients.values().iter().map(|v| v.iter().map(|g| g / self.gradient_scale).collect()).collect();
        Ok(Weights::new(&self.recipe.network, unscaled)?)
    }

    fn state(&self) -> Result<State, TrainError> {
        let slots = self.params.slots.iter().map(|s| self.params.read_trained(s)).collect::<Result<_, _>>()?;
        let scaler: Option<ScalerState> = self.options.scaler().map(|_| self.control.scaler()).transpose()?;
        let kernels = self.gemm.chosen();
        Ok(State { weights: self.params.read()?, slots, updates: self.control.updates()?, scaler, kernels })
    }

    fn restore(&mut self, state: &State) -> Result<(), TrainError> {
        let mut changed = self.gemm.take(&state.kernels);
        if let Some(together) = self.rank_step.as_ref().filter(|_| !state.kernels.is_empty()) {
            // Ranks build programs at the same time, so if one rank rebuilds its programs, all ranks do.
            changed = together.ranks.any(&[changed])?[0];
        }
        if changed {
            self.programs.clear();
        }
        self.params.write(&state.weights)?;
        self.is_fresh &= state.slots.is_empty();
        for (slot, values) in state.slots.iter().enumerate() {
            self.params.write_slot(slot, values)?;
        }
        Ok(self.control.restore(state.updates, state.scaler.unwrap_or_else(|| self.options.scaler.start()))?)
    }

    fn peak_bytes(&self) -> u64 {
        self.device.peak_allocated()
    }

    fn reserved_bytes(&self) -> Option<u64> {
        let [before, least] = self.free;
        // The result is never less than the requested bytes: memory that was freed earlier may have been reused, which the amount of free memory
        // does not show.
        Some((before - least.min(before)).max(self.device.peak_allocated()))
    }
}
