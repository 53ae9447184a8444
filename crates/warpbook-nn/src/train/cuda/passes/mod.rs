//! The launches of a step, operation by operation: built once, then queued or captured many times.

mod backward;
mod custom_layer;
mod forward;
mod update;

use super::control::{Start, StepControl, slots};
use super::kernels::{AnyLossKernels, GatherKernels, LayerKernels, StepKernels};
use super::memory::Memory;
use super::params::Params;
use super::program::{Launch, On, Pass};
use super::{CudaOptions, FusionPlan, Resident};
use crate::network::{Network, Node, Op, ValueId};
use crate::ops::batch_norm::BatchNorm;
use crate::ops::batch_norm::cuda::Across;
use crate::ops::conv2d::cuda::{Convolution, Form};
use crate::ops::cross_entropy::{self, CrossEntropy};
use crate::ops::dropout::{Dropout, cuda::Masks};
use crate::ops::linear::cuda::Linear;
use crate::train::{Loss, Recipe, TrainError};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use warpbook_device::{Communicator, CudaDevice, Result, Slice, Stream};
use warpbook_gemm::{DeviceArray, Gemm, Workspace};
use warpbook_ranks::Shard;

/// Inputs from which a network's passes are built.
#[derive(Debug, Clone, Copy)]
pub(super) struct PassInputs<'a> {
    pub device: &'a CudaDevice,
    pub gemm: &'a Gemm,
    pub network: &'a Network,
    pub options: &'a CudaOptions,
    pub fusion: &'a FusionPlan,
    /// Number of operations at the network's start whose gradients nothing needs.
    pub settled: usize,
    pub memory: &'a Memory,
    pub params: &'a Params,
    pub kernels: &'a LayerKernels,
}

/// Additional inputs of a step or an evaluation.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepParts<'a> {
    pub recipe: &'a Recipe,
    pub control: &'a StepControl,
    pub kernels: &'a StepKernels,
    /// Position of the step's first sample in the global batch.
    pub first_sample: usize,
}

/// A reduction over the ranks, which is ready once an operation's backward pass is queued.
pub(super) struct Reduction {
    /// True if the reduction includes the gradient of the operation's bias, if there is one.
    pub with_bias: bool,
    /// Index of the operation.
    pub node: usize,
    pub name: String,
    /// Parameters that can be updated after this reduction, while later reductions run; they end where the previous reduction's parameters
    /// begin. `None` leaves them to the update at the end.
    pub ready: Option<Range<usize>>,
    pub launch: Launch,
}

/// The other ranks, as a step on one rank sees them.
#[derive(Debug, Clone)]
pub(super) struct OfRanks {
    /// This rank's samples.
    pub shard: Shard,
    /// Adds up the statistics of batch normalisation, if ranks share them.
    pub norm: Option<Arc<Communicator>>,
    /// Memory to save parameters that are updated early, if the update may have to be reverted.
    pub kept: Option<Slice<f32>>,
}

/// Builds an [`Across`].
struct AcrossRanks {
    rows: usize,
    counts: bool,
    totals: Slice<f64>,
    ranks: Arc<Communicator>,
}

impl AcrossRanks {
    /// Calls a pass's kernels with an [`Across`] if ranks share their statistics, else with `None`.
    fn with<R>(this: Option<&Self>, call: impl FnOnce(Option<Across<'_>>) -> R) -> R {
        let Some(across) = this else { return call(None) };
        let add = |stream: &Stream, totals: &Slice<f64>| across.ranks.sum(stream, totals);
        call(Some(Across { rows: across.rows, counts: across.counts, totals: &across.totals, add: &add }))
    }
}

impl std::fmt::Debug for Reduction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// A convolution or a linear layer of a batch.
#[derive(Debug, Clone)]
enum Multiply {
    Conv(Convolution),
    Linear(Linear),
}

impl Multiply {
    fn workspace_bytes(&self) -> u64 {
        match self {
            Self::Conv(c) => c.workspace_bytes(),
            Self::Linear(l) => l.workspace_bytes(),
        }
    }
}

/// Builds the passes of a batch of `n` samples.
struct PassBuilder<'a> {
    parts: PassInputs<'a>,
    n: usize,
    /// Part of a batch that the samples form; `None` for a whole batch.
    part: Option<BatchPart>,
    /// Position of the first sample in the global batch, which selects the random numbers of dropout and augmentation.
    first_sample: usize,
    trains: bool,
    ranks: Option<OfRanks>,
    /// Seed and step from which dropout draws its numbers.
    random: Option<(u64, Slice<u32>)>,
    products: Vec<Option<Multiply>>,
    /// Workspaces of the first and the second stream.
    workspaces: [Workspace; 2],
    /// Targets of a batch of rows.
    targets: Option<Slice<f32>>,
    /// True after the loss, when recomputed values are read from their new place.
    is_recomputing: bool,
    passes: Vec<Pass>,
    /// Reductions that are still to be queued, in the order in which they become ready; `links` is true if there were any reductions.
    reductions: VecDeque<Reduction>,
    links: bool,
    /// For each queued reduction, the parameters that can be updated after it.
    ready: Vec<Option<Range<usize>>>,
}

/// A part of a batch that passes through the network separately; gradients are added up over the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BatchPart {
    /// Index of the part.
    at: usize,
    /// Position of the part's first sample in the batch.
    first: usize,
    /// Number of samples of the batch.
    batch_len: usize,
}

/// Name of the pass that follows all parts of a batch.
pub(super) const LOSS_OF_PARTS: &str = "loss of all parts";

/// Builds the passes of a training step or an evaluation with `n` samples of a data set.
pub(super) fn passes(
    parts: PassInputs<'_>,
    step: StepParts<'_>,
    set: &Resident,
    (n, trains): (usize, bool),
    ranks: Option<OfRanks>,
    workspaces: &mut [Option<Workspace>; 2],
    reductions: Vec<Reduction>,
) -> std::result::Result<Vec<Pass>, TrainError> {
    let all = if trains { step.recipe.micro_batches(n) } else { std::iter::once(0..n).collect() };
    let mut passes = Vec::new();
    if let [first @ .., _] = &all[..]
        && all.len() > 1
    {
        for (at, part) in first.iter().enumerate() {
            let mut builder = PassBuilder::new(parts, part.len(), trains, workspaces)?;
            builder.passes = passes;
            builder.part = Some(BatchPart { at, first: part.start, batch_len: n });
            builder.ranks = ranks.clone();
            builder.gradients(step, set)?;
            passes = builder.passes;
        }
    }
    let last = all.last().cloned().unwrap_or(0..n);
    let mut builder = PassBuilder::new(parts, last.len(), trains, workspaces)?;
    builder.passes = passes;
    builder.part = (all.len() > 1).then_some(BatchPart { at: all.len() - 1, first: last.start, batch_len: n });
    builder.ranks = ranks;
    builder.links = !reductions.is_empty();
    builder.reductions = reductions.into();
    builder.gradients(step, set)?;
    if trains {
        if builder.part.is_some() {
            let control = step.control.clone();
            builder.push(LOSS_OF_PARTS, "", move |s| control.queue_loss_of_parts(s, n, all.len()));
            // From here on, gradients are the sums over all parts.
            let part = builder.part.take();
            builder.reduce(0);
            builder.part = part;
        }
        builder.update(step, n)?;
    }
    builder.finish(step, n);
    Ok(builder.passes)
}

/// Builds the passes of `n` samples through a network that is not trained: `write` queues the samples into its input array, `read`
/// processes its outputs.
pub(super) fn inference(
    parts: PassInputs<'_>,
    n: usize,
    workspaces: &mut [Option<Workspace>; 2],
    write: impl FnOnce(DeviceArray) -> Launch,
    read: impl FnOnce(DeviceArray) -> Launch,
) -> std::result::Result<Vec<Pass>, TrainError> {
    let mut builder = PassBuilder::new(parts, n, false, workspaces)?;
    let write = write(builder.value(0)?);
    builder.push("input", "", write);
    builder.forward_all()?;
    let read = read(builder.value(parts.network.values().len() - 1)?);
    builder.push("output", "", read);
    Ok(builder.passes)
}

impl<'a> PassBuilder<'a> {
    /// Creates a builder without passes; plans the products of all layers, and makes the workspaces large enough for them.
    fn new(parts: PassInputs<'a>, n: usize, trains: bool, workspaces: &mut [Option<Workspace>; 2]) -> Result<Self> {
        let PassInputs { device, gemm, network, options, fusion, .. } = parts;
        let dtype = options.precision.products();
        let product = |(i, node): (usize, &Node)| -> Result<Option<Multiply>> {
            Ok(match node.op {
                Op::Conv2d(_) => {
                    let form = Form { method: options.method_of(node), dtype, layout: options.layout };
                    let geometry = network.conv_geometry(node, n);
                    Some(Multiply::Conv(match fusion.nodes[i].pool {
                        Some(_) if fusion.nodes[i].unpools => Convolution::unpooling(device, gemm, &geometry, form)?,
                        Some(_) => Convolution::pooled(device, gemm, &geometry, form)?,
                        None => Convolution::by(options.product_of(node), device, gemm, &geometry, form)?,
                    }))
                }
                Op::Linear { bias, .. } => {
                    let sizes = network.linear_sizes(node, n);
                    Some(Multiply::Linear(Linear::by(options.product_of(node), device, gemm, &sizes, dtype, bias)?))
                }
                _ => None,
            })
        };
        let products = network.nodes().iter().enumerate().map(product).collect::<Result<Vec<_>>>()?;
        let bytes = products.iter().flatten().map(Multiply::workspace_bytes).max().unwrap_or(0);
        // One workspace per stream serves all programs, since programs run one after another. The largest batch usually comes first.
        let workspace = |there: &mut Option<Workspace>| -> Result<Workspace> {
            Ok(match there {
                Some(there) if there.bytes() >= bytes => there.clone(),
                _ => there.insert(Workspace::new(device, bytes)?).clone(),
            })
        };
        let [main, side] = workspaces;
        let main = workspace(main)?;
        let workspaces = [main.clone(), if options.overlap && trains { workspace(side)? } else { main }];
        Ok(Self {
            parts,
            n,
            part: None,
            first_sample: 0,
            trains,
            ranks: None,
            random: None,
            products,
            workspaces,
            targets: None,
            is_recomputing: false,
            passes: Vec::new(),
            reductions: VecDeque::new(),
            links: false,
            ready: Vec::new(),
        })
    }

    /// Queues the forward pass of a batch, or of a part of a batch, and in training its backward pass.
    fn gradients(&mut self, step: StepParts<'_>, set: &Resident) -> std::result::Result<(), TrainError> {
        self.first_sample = step.first_sample + self.part.map_or(0, |part| part.first);
        self.random = Some((step.recipe.seed, step.control.step()));
        self.batch(step, set)?;
        self.forward_all()?;
        if !self.trains {
            self.other_views(step, set)?;
        }
        self.loss(step)?;
        if self.trains {
            self.backward_all()?;
            self.add_up(step)?;
        }
        Ok(())
    }

    /// Adds a part's gradients to the gradients of earlier parts, in f32. The gradients' own arrays then hold the sum.
    fn add_up(&mut self, step: StepParts<'_>) -> Result<()> {
        let (Some(part), Some(sums)) = (self.part, &step.kernels.sums) else { return Ok(()) };
        let share_and_first = (self.n as f32 / part.batch_len as f32, part.at == 0);
        let (exact, rounded) = self.parts.params.gradients();
        let arrays: Vec<DeviceArray> = std::iter::once((&exact).into()).chain(rounded).collect();
        let sums = sums.clone();
        self.push("sum of gradients", "", move |s| {
            sums.iter().zip(&arrays).try_for_each(|((kernel, sum), array)| kernel.queue(s, array, share_and_first, sum))
        });
        self.run_last_on(On::Both);
        Ok(())
    }

    fn forward_all(&mut self) -> std::result::Result<(), TrainError> {
        (0..self.network().nodes().len()).try_for_each(|i| self.forward(i))
    }

    /// Queues the segments, the last segment first: its recomputation, then its gradients.
    fn backward_all(&mut self) -> std::result::Result<(), TrainError> {
        self.is_recomputing = true;
        for segment in self.network().segments().into_iter().rev() {
            let before = self.passes.len();
            let nodes = self.network().nodes();
            let operations: Vec<usize> = segment.clone().filter(|i| self.parts.fusion.recomputes(nodes, *i)).collect();
            operations.iter().try_for_each(|i| self.recompute_forward(*i))?;
            if !operations.is_empty() {
                // The second stream may still read memory that is written here.
                if self.passes.len() == before {
                    self.push("recomputation", "", |_| Ok(()));
                }
                self.passes[before].on = On::Both;
            }
            segment.rev().try_for_each(|i| {
                self.backward(i)?;
                self.reduce(i);
                Ok::<_, TrainError>(())
            })?;
        }
        self.is_recomputing = false;
        Ok(())
    }

    /// Queues the reductions that are ready after an operation's backward pass; for a batch in parts, only after the sum over all parts.
    fn reduce(&mut self, node: usize) {
        if self.part.is_some() {
            return;
        }
        while let Some(Reduction { name, launch, ready, .. }) = self.reductions.pop_front_if(|r| r.node >= node) {
            self.passes.push(Pass { name, n: self.n, output: None, on: On::Link(self.ready.len()), launch });
            self.ready.push(ready);
        }
    }

    /// Returns true if a step computes the gradient of a value: a trained parameter that still changes lies before it.
    fn needs_gradient(&self, value: ValueId) -> bool {
        let settled = &self.network().nodes()[..self.parts.settled];
        self.parts.fusion.needs_gradient(value) && settled.iter().all(|node| node.output != value)
    }

    fn network(&self) -> &'a Network {
        self.parts.network
    }

    fn node(&self, i: usize) -> &'a Node {
        &self.network().nodes()[i]
    }

    fn push(&mut self, name: &str, what: &str, launch: impl Fn(&Stream) -> Result<()> + Send + Sync + 'static) {
        let name = format!("{name} {what}").trim_end().to_owned();
        self.passes.push(Pass { name, n: self.n, output: None, on: On::Main, launch: Box::new(launch) });
    }

    /// Moves the last pass to this stream.
    fn run_last_on(&mut self, on: On) {
        if let Some(last) = self.passes.last_mut() {
            last.on = on;
        }
    }

    fn len(&self, value: ValueId) -> usize {
        self.network().value(value).elements() * self.n
    }

    /// Returns the kernel of a node's dropout, starting at the position of its first element in the global batch.
    fn masks(&self, node: &Node) -> Result<Masks> {
        let begin = self.first_sample * self.network().value(node.input).elements();
        Ok(self.parts.kernels.masks()?.from_element(begin as u64))
    }

    fn value(&self, value: ValueId) -> Result<DeviceArray> {
        let (buffer, len) = (self.parts.fusion.buffer[value], self.len(value));
        if self.is_recomputed(value) {
            self.parts.memory.recomputed_value(buffer, len)
        } else {
            self.parts.memory.value(buffer, len)
        }
    }

    /// Returns true if a value is now read from the memory of its recomputation.
    fn is_recomputed(&self, value: ValueId) -> bool {
        self.is_recomputing && self.parts.fusion.recomputed[self.parts.fusion.buffer[value]]
    }

    /// Returns the positions of a pool's maxima.
    fn maxima_positions(&self, pool: usize, len: usize) -> Result<Slice<u8>> {
        let memory = self.parts.memory;
        if self.is_recomputed(self.node(pool).output) {
            memory.recomputed_kept(pool, len)
        } else {
            memory.kept(pool, len)
        }
    }

    fn gradient(&self, value: ValueId) -> Result<DeviceArray> {
        self.parts.memory.gradient(self.parts.fusion.buffer[value], self.len(value))
    }

    /// Joins a batch normalisation's statistics with the statistics of the other ranks; `pixels` is the number of pixels of an image.
    fn across(&self, b: &BatchNorm, pixels: usize) -> Result<Option<AcrossRanks>> {
        let Some(OfRanks { shard, norm: Some(ranks), .. }) = &self.ranks else { return Ok(None) };
        Ok(Some(AcrossRanks {
            rows: shard.global * pixels,
            counts: shard.len > 0,
            totals: self.parts.device.zeros(2 * b.channels)?.range(..),
            ranks: ranks.clone(),
        }))
    }

    fn bias(&self, node: &Node) -> Option<Slice<f32>> {
        node.params.get(1).map(|id| self.parts.params.master(*id))
    }

    /// Averages the outputs of all views of the images, and stores the mean in place of the first view's outputs.
    fn other_views(&mut self, step_parts: StepParts<'_>, set: &Resident) -> std::result::Result<(), TrainError> {
        let (Resident::Images { images, .. }, GatherKernels::Images(gather)) = (set, &step_parts.kernels.gather) else {
            return Ok(());
        };
        if gather.views.len() < 2 {
            return Ok(());
        }
        let last = self.network().values().len() - 1;
        let sum = self.parts.device.zeros::<f32>(self.len(last))?.range(..);
        let kernel = self.parts.kernels.weighted()?;
        for (i, (gather, share)) in gather.views.iter().enumerate() {
            if i > 0 {
                let (indices, step, x) =
                    (step_parts.control.indices.range(..self.n), step_parts.control.step(), self.value(0)?);
                let (gather, images) = (gather.clone(), images.clone());
                self.push("images", "", move |s| gather.gather(s, (&images, &indices), &step, &x));
                self.forward_all()?;
            }
            let (kernel, sum, outputs, share) = (kernel.clone(), sum.clone(), self.value(last)?, *share);
            self.push("views", "", move |s| kernel.queue(s, &outputs, (share, i == 0), &sum));
        }
        Ok(())
    }

    /// Chooses the samples and gathers their images.
    fn batch(&mut self, step_parts: StepParts<'_>, set: &Resident) -> Result<()> {
        let (control, n, trains) = (step_parts.control.clone(), self.n, self.trains);
        let (indices, step, x) = (control.indices.range(..n), control.step(), self.value(0)?);
        let labels = if let Resident::Images { labels, .. } = set { Some(labels.clone()) } else { None };
        let first = self.part.map_or(0, |part| part.first);
        // Saves statistics from before the step, in the first part only.
        let statistics = self.parts.params.statistics().filter(|_| trains && first == 0).cloned();
        self.push("batch", "", move |s| {
            control.queue_start(s, n, labels.as_ref(), Start { first, trains, statistics: statistics.as_ref() })
        });
        match (set, &step_parts.kernels.gather) {
            (Resident::Images { images, .. }, GatherKernels::Images(gather)) => {
                let count = images.len() / self.network().input().elements();
                let per_epoch = u32::try_from(count.div_ceil(step_parts.recipe.batch)).unwrap_or(u32::MAX);
                let gather = if trains { &gather.training } else { &gather.views[0].0 };
                let first_sample = u32::try_from(self.first_sample).unwrap_or(u32::MAX);
                let gather = gather.clone().steps_per_epoch(per_epoch).from_sample(first_sample);
                let images = images.clone();
                self.push("images", "", move |s| gather.gather(s, (&images, &indices), &step, &x));
            }
            (Resident::Rows { inputs, targets, .. }, GatherKernels::Rows(kernels)) => {
                let [gather, gather_f32] = &**kernels;
                let (gather, gather_f32, inputs, targets) =
                    (gather.clone(), gather_f32.clone(), inputs.clone(), targets.clone());
                let last = self.network().values().len() - 1;
                let target = self.parts.device.zeros::<f32>(self.len(last))?.range(..);
                self.targets = Some(target.clone());
                self.push("rows", "", move |s| {
                    gather.gather(s, (&inputs, &indices), &x)?;
                    gather_f32.gather(s, (&targets, &indices), &(&target).into())
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns a node's dropout in training, with the step on the device; `None` otherwise.
    fn dropout(&self, node: &Node) -> Option<(Dropout, Slice<u32>)> {
        let (seed, step) = self.random.as_ref().filter(|_| self.trains)?;
        match node.op {
            Op::Dropout { p, layer } if p > 0.0 => {
                Some((Dropout { seed: *seed, layer, step: 0, probability: p }, step.clone()))
            }
            _ => None,
        }
    }

    fn copy(&mut self, name: &str, what: &str, from: &DeviceArray, to: &DeviceArray) {
        let (from, to) = (from.bytes().clone(), to.bytes().clone());
        self.push(name, what, move |s| s.copy(&from, &to));
    }

    /// Queues the loss, and in training its gradient.
    fn loss(&mut self, step: StepParts<'_>) -> Result<()> {
        let (n, device) = (self.n, self.parts.device);
        let last = self.network().values().len() - 1;
        let outputs = self.value(last)?;
        let gradient = self.trains.then(|| self.gradient(last)).transpose()?;
        let to = self.part.map_or_else(|| step.control.loss_slots(), |part| step.control.part_slots(part.at));
        let scale = self.parts.options.scaler().map(|_| step.control.scale.clone()).filter(|_| self.trains);
        let verdict = self.loss_verdict(step);
        // The gradient is multiplied by this rank's share, since the ranks' gradients are added up.
        let share = self.ranks.as_ref().map_or(1.0, |ranks| ranks.shard.weight());
        match (&step.kernels.loss, step.recipe.loss) {
            (AnyLossKernels::CrossEntropy(kernel), Loss::CrossEntropy { smoothing }) => {
                let c = CrossEntropy { batch: n, classes: outputs.len() / n, smoothing };
                let blocks = cross_entropy::cuda::LossKernels::blocks(n);
                let (losses, hits) = (device.zeros::<f64>(blocks)?.range(..), device.zeros::<u32>(blocks)?.range(..));
                let (kernel, labels) = (kernel.clone(), step.control.labels.range(..n));
                self.push("loss", "", move |s| {
                    let workspace = cross_entropy::cuda::LossWorkspace { losses: &losses, hits: &hits };
                    let (slots, to) = ((workspace, slots(&to)), (scale.as_ref(), share, gradient.as_ref()));
                    kernel.loss_and_verdict(s, &c, (&outputs, &labels), to, slots, &verdict)
                });
            }
            (AnyLossKernels::Mse(kernel), _) => {
                let partial = device.zeros::<f64>(kernel.blocks(outputs.len()))?.range(..);
                let Some(target) = self.targets.clone() else { return Ok(()) };
                let kernel = kernel.clone();
                self.push("loss", "", move |s| {
                    let (slots, to) = ((&partial, slots(&to)), (scale.as_ref(), share, gradient.as_ref()));
                    kernel.loss_and_verdict(s, (&outputs, &target), to, slots, &verdict)
                });
            }
            _ => {}
        }
        Ok(())
    }
}
