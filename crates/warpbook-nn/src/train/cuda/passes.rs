//! The launches of a step, operation by operation: bound once, queued or captured many times.

use super::control::{Control, Finish, slots};
use super::memory::{Memory, Sharing};
use super::params::Params;
use super::{CudaOptions, Resident};
use crate::gemm::{DeviceArray, Gemm, Workspace};
use crate::network::{Network, Node, Op, PoolKind, Shape, ValueId};
use crate::ops::activation::{self, cuda::Activations};
use crate::ops::add::cuda::Add;
use crate::ops::augment::{Augment, cuda::Gather, cuda::GatherRows};
use crate::ops::batch_norm::cuda::{Normalisation, Workspace as BatchNormWorkspace};
use crate::ops::conv2d::cuda::{Convolution, Epilogue, Form};
use crate::ops::cross_entropy::{self, CrossEntropy};
use crate::ops::dropout::{Dropout, cuda::Masks};
use crate::ops::linear::cuda::{Linear, LinearEpilogue};
use crate::ops::mse;
use crate::ops::optimizer::cuda::{Control as UpdateControl, Norm, NormOutputs, Parameters, Update};
use crate::ops::pool::cuda::Pooling;
use crate::train::{Loss, Recipe, TrainError};
use std::sync::Arc;
use warpbook_device::{CudaDevice, Event, Graph, Result, Slice, Stream};
use warpbook_record::Dtype;

/// Something that is queued on a stream.
type Launch = Box<dyn Fn(&Stream) -> Result<()> + Send + Sync>;

/// Which stream an operation runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    /// The first.
    Main,
    /// The second, once the first has got here.
    Side,
    /// The first, once the second has got here.
    Both,
}

/// An operation's launches.
pub(super) struct Pass {
    /// As "conv1 forward".
    pub name: String,
    /// What it leaves for the operations after it: `None` of all but the network's forward passes.
    pub output: Option<DeviceArray>,
    on: On,
    launch: Launch,
}

impl Pass {
    pub fn queue(&self, stream: &Stream) -> Result<()> {
        (self.launch)(stream)
    }
}

impl std::fmt::Debug for Pass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// A second stream, and the events that order it and the first.
#[derive(Debug)]
pub(super) struct Side {
    stream: Stream,
    forked: Event,
    joined: Event,
}

impl Side {
    pub fn new(device: &CudaDevice) -> Result<Self> {
        Ok(Self { stream: device.stream()?, forked: device.event()?, joined: device.event()? })
    }

    fn queue(&self, main: &Stream, passes: &[Pass]) -> Result<()> {
        let mut is_forked = false;
        for pass in passes {
            match pass.on {
                On::Main => pass.queue(main)?,
                On::Side => {
                    self.forked.record(main)?;
                    self.stream.wait(&self.forked)?;
                    pass.queue(&self.stream)?;
                    is_forked = true;
                }
                On::Both => {
                    if is_forked {
                        self.joined.record(&self.stream)?;
                        main.wait(&self.joined)?;
                    }
                    is_forked = false;
                    pass.queue(main)?;
                }
            }
        }
        Ok(())
    }
}

/// A step, or the evaluation of a batch.
#[derive(Debug)]
pub(super) struct Program {
    pub passes: Arc<Vec<Pass>>,
    side: Option<Arc<Side>>,
    graph: Option<Graph>,
}

fn queue_all(main: &Stream, side: Option<&Side>, passes: &[Pass]) -> Result<()> {
    match side {
        Some(side) => side.queue(main, passes),
        None => passes.iter().try_for_each(|p| p.queue(main)),
    }
}

impl Program {
    /// Captures the passes, if they are to be one graph.
    pub fn new(
        (stream, side): (&Stream, Option<&Arc<Side>>),
        name: &str,
        passes: Vec<Pass>,
        as_graph: bool,
    ) -> Result<Self> {
        let (passes, side) = (Arc::new(passes), side.cloned());
        let capture = || {
            stream.capture_owning(name, (passes.clone(), side.clone()), |(passes, side)| {
                queue_all(stream, side.as_deref(), passes)
            })
        };
        let graph = as_graph.then(capture).transpose()?;
        Ok(Self { passes, side, graph })
    }

    pub fn queue(&self, stream: &Stream) -> Result<()> {
        match &self.graph {
            Some(graph) => graph.launch(stream),
            None => queue_all(stream, self.side.as_deref(), &self.passes),
        }
    }
}

/// The kernels that do not depend on the batch.
#[derive(Debug)]
pub(super) struct Kernels {
    activations: Activations,
    add: Add,
    masks: Masks,
    pooling: Pooling,
    normalisation: Option<Normalisation>,
    loss: LossKernels,
    update: Update,
    norm: Option<Norm>,
    gather: GatherKernels,
}

#[derive(Debug)]
enum GatherKernels {
    /// With augmentation, and without.
    Images(Box<[Gather; 2]>),
    /// In the type of the activations, and in f32.
    Rows(Box<[GatherRows; 2]>),
}

#[derive(Debug)]
enum LossKernels {
    CrossEntropy(Arc<cross_entropy::cuda::Loss>),
    Mse(Arc<mse::cuda::Loss>),
}

impl Kernels {
    pub fn load(device: &CudaDevice, recipe: &Recipe, options: &CudaOptions) -> std::result::Result<Self, TrainError> {
        let (dtype, layout) = (options.precision.activations(), options.layout);
        let nodes = recipe.network.nodes();
        let normalises = nodes.iter().any(|n| matches!(n.op, Op::BatchNorm { .. }));
        let copy = if dtype == Dtype::F32 { Dtype::F32 } else { dtype };
        let gather = |[channels, height, width]: [usize; 3], random: bool| {
            let random = recipe.augmentation.filter(|_| random);
            let augment = Augment {
                channels,
                height,
                width,
                mean: &recipe.mean,
                deviation: &recipe.deviation,
                padding: random.map_or(0, |a| a.crop),
                flip: random.is_some_and(|a| a.flip),
                seed: recipe.seed,
                step: 0,
            };
            Gather::new(device, &augment, dtype, layout)
        };
        Ok(Self {
            activations: Activations::new(device, dtype)?,
            add: Add::new(device, dtype)?,
            masks: Masks::new(device, dtype)?,
            pooling: Pooling::new(device, dtype, layout)?,
            normalisation: normalises.then(|| Normalisation::new(device, dtype, layout)).transpose()?,
            loss: match recipe.loss {
                Loss::CrossEntropy { .. } => {
                    LossKernels::CrossEntropy(Arc::new(cross_entropy::cuda::Loss::new(device, dtype)?))
                }
                Loss::Mse => LossKernels::Mse(Arc::new(mse::cuda::Loss::new(device, dtype)?)),
            },
            update: Update::new(device, recipe.optimizer, copy)?,
            norm: options.computes_norm(recipe).then(|| Norm::new(device, Dtype::F32)).transpose()?,
            gather: match recipe.network.input() {
                Shape::Image { channels, height, width } => {
                    let shape = [channels, height, width];
                    GatherKernels::Images(Box::new([gather(shape, true)?, gather(shape, false)?]))
                }
                Shape::Vector(_) => {
                    let kernels = [GatherRows::new(device, dtype)?, GatherRows::new(device, Dtype::F32)?];
                    GatherKernels::Rows(Box::new(kernels))
                }
            },
        })
    }
}

/// All that passes are made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts<'a> {
    pub device: &'a CudaDevice,
    pub gemm: &'a Gemm,
    pub recipe: &'a Recipe,
    pub options: &'a CudaOptions,
    pub sharing: &'a Sharing,
    pub memory: &'a Memory,
    pub params: &'a Params,
    pub control: &'a Control,
    pub kernels: &'a Kernels,
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

/// Makes the passes of a batch of `n` samples.
struct Builder<'a> {
    parts: Parts<'a>,
    n: usize,
    trains: bool,
    products: Vec<Option<Multiply>>,
    /// Of the first stream, and of the second.
    workspaces: [Workspace; 2],
    /// The targets of a batch of rows.
    targets: Option<Slice<f32>>,
    passes: Vec<Pass>,
}

/// The passes of a step with `n` samples of a data set, or of their evaluation.
pub(super) fn passes(
    parts: Parts<'_>,
    set: &Resident,
    (n, trains): (usize, bool),
    workspaces: &mut [Option<Workspace>; 2],
) -> std::result::Result<Vec<Pass>, TrainError> {
    let network = &parts.recipe.network;
    let dtype = parts.options.precision.products();
    let product = |node: &Node| -> Result<Option<Multiply>> {
        Ok(match node.op {
            Op::Conv2d(_) => {
                let form = Form { method: parts.options.convolution, dtype, layout: parts.options.layout };
                let geometry = network.conv_geometry(node, n);
                Some(Multiply::Conv(Convolution::new(parts.device, parts.gemm, &geometry, form)?))
            }
            Op::Linear { bias, .. } => {
                let sizes = network.linear_sizes(node, n);
                Some(Multiply::Linear(Linear::new(parts.device, parts.gemm, &sizes, dtype, bias)?))
            }
            _ => None,
        })
    };
    let products = network.nodes().iter().map(product).collect::<Result<Vec<_>>>()?;
    let bytes = products.iter().flatten().map(Multiply::workspace_bytes).max().unwrap_or(0);
    // One a stream for all programs, since they run one after the other. A larger batch has come first, as a rule.
    let workspace = |there: &mut Option<Workspace>| -> Result<Workspace> {
        Ok(match there {
            Some(there) if there.bytes() >= bytes => there.clone(),
            _ => there.insert(Workspace::new(parts.device, bytes)?).clone(),
        })
    };
    let [main, side] = workspaces;
    let main = workspace(main)?;
    let workspaces = [main.clone(), if parts.options.overlap && trains { workspace(side)? } else { main }];
    let mut builder = Builder { parts, n, trains, products, workspaces, targets: None, passes: Vec::new() };
    builder.batch(set)?;
    for i in 0..network.nodes().len() {
        builder.forward(i)?;
    }
    builder.loss()?;
    if trains {
        for i in (0..network.nodes().len()).rev() {
            builder.backward(i)?;
        }
        builder.update()?;
    }
    builder.finish();
    Ok(builder.passes)
}

impl<'a> Builder<'a> {
    fn network(&self) -> &'a Network {
        &self.parts.recipe.network
    }

    fn node(&self, i: usize) -> &'a Node {
        &self.network().nodes()[i]
    }

    fn push(&mut self, name: &str, what: &str, launch: impl Fn(&Stream) -> Result<()> + Send + Sync + 'static) {
        let name = format!("{name} {what}").trim_end().to_owned();
        self.passes.push(Pass { name, output: None, on: On::Main, launch: Box::new(launch) });
    }

    /// The last pass runs there.
    fn last_on(&mut self, on: On) {
        if let Some(last) = self.passes.last_mut() {
            last.on = on;
        }
    }

    fn len(&self, value: ValueId) -> usize {
        self.network().value(value).elements() * self.n
    }

    fn value(&self, value: ValueId) -> Result<DeviceArray> {
        self.parts.memory.value(self.parts.sharing.buffer[value], self.len(value))
    }

    fn gradient(&self, value: ValueId) -> Result<DeviceArray> {
        self.parts.memory.gradient(self.parts.sharing.buffer[value], self.len(value))
    }

    fn bias(&self, node: &Node) -> Option<Slice<f32>> {
        node.params.get(1).map(|id| self.parts.params.master(*id))
    }

    /// Choice of the samples, and their images.
    fn batch(&mut self, set: &Resident) -> Result<()> {
        let (control, n, trains) = (self.parts.control.clone(), self.n, self.trains);
        let (indices, step, x) = (control.indices.range(..n), control.step(), self.value(0)?);
        let labels = if let Resident::Images { labels, .. } = set { Some(labels.clone()) } else { None };
        self.push("batch", "", move |s| control.queue_start(s, n, labels.as_ref(), trains));
        match (set, &self.parts.kernels.gather) {
            (Resident::Images { images, .. }, GatherKernels::Images(gather)) => {
                let (gather, images) = (gather[usize::from(!trains)].clone(), images.clone());
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

    fn forward(&mut self, i: usize) -> std::result::Result<(), TrainError> {
        let before = self.passes.len();
        self.queue_forward(i)?;
        if self.passes.len() > before {
            let output = self.value(self.node(i).output)?;
            if let Some(last) = self.passes.last_mut() {
                last.output = Some(output);
            }
        }
        Ok(())
    }

    fn queue_forward(&mut self, i: usize) -> std::result::Result<(), TrainError> {
        let node = self.node(i);
        let (x, y) = (self.value(node.input)?, self.value(node.output)?);
        let Parts { sharing, kernels, control, .. } = self.parts;
        let in_place = sharing.in_place(node);
        match node.op {
            Op::Conv2d(_) | Op::Linear { .. } => self.product_forward(i, x, y),
            Op::Activation(f) => {
                if !sharing.done[i][0] {
                    let kernel = kernels.activations.clone();
                    self.push(&node.name, "forward", move |s| kernel.forward(s, f, &x, &y));
                }
            }
            Op::Pool(p) => {
                let (kernel, g) = (kernels.pooling.clone(), self.network().pool_geometry(node, self.n));
                if p.kind == PoolKind::Max {
                    let places = self.parts.memory.kept::<u8>(i, y.len())?;
                    self.push(&node.name, "forward", move |s| kernel.max_forward(s, &g, &x, &y, &places));
                } else {
                    self.push(&node.name, "forward", move |s| kernel.average_forward(s, &g, &x, &y));
                }
            }
            Op::BatchNorm { .. } => self.batch_norm_forward(i, x, y)?,
            Op::Dropout { .. } => match self.dropout(node) {
                Some(d) => {
                    let (kernel, step) = (kernels.masks.clone(), control.step());
                    self.push(&node.name, "forward", move |s| kernel.forward(s, &d, &step, &x, &y));
                }
                None if in_place => {}
                None => self.copy(&node.name, "forward", &x, &y),
            },
            Op::Flatten if in_place => {}
            Op::Flatten => self.copy(&node.name, "forward", &x, &y),
            Op::Add(other) => {
                let (kernel, other) = (kernels.add.clone(), self.value(other)?);
                self.push(&node.name, "forward", move |s| kernel.forward(s, &other, &x, &y));
            }
        }
        Ok(())
    }

    fn product_forward(&mut self, i: usize, x: DeviceArray, y: DeviceArray) {
        let node = self.node(i);
        let relu = self.parts.sharing.relu_after[i];
        let (w, b, workspace) =
            (self.parts.params.operand(node.params[0]), self.bias(node), self.workspaces[0].clone());
        match self.products[i].clone() {
            Some(Multiply::Conv(c)) => {
                let epilogue = if relu { Epilogue::Relu } else { Epilogue::None };
                self.push(&node.name, "forward", move |s| c.forward(s, &x, &w, b.as_ref(), epilogue, &y, &workspace));
            }
            Some(Multiply::Linear(l)) => {
                let epilogue = if relu { LinearEpilogue::Relu } else { LinearEpilogue::None };
                self.push(&node.name, "forward", move |s| l.forward(s, &x, &w, b.as_ref(), epilogue, &y, &workspace));
            }
            None => {}
        }
    }

    fn batch_norm_forward(&mut self, i: usize, x: DeviceArray, y: DeviceArray) -> std::result::Result<(), TrainError> {
        let node = self.node(i);
        let Some(kernel) = self.parts.kernels.normalisation.clone() else { return Ok(()) };
        let b = self.network().batch_norm_sizes(node, self.n);
        let pixels = self.network().value(node.input).positions();
        let [gamma, beta, mean, variance] = [0, 1, 2, 3].map(|p| self.parts.params.master(node.params[p]));
        let sums = Normalisation::sums_len(&b);
        let (sums, lines) = self.parts.memory.scratch(i, false, sums, 3 * b.channels)?;
        if !self.trains {
            self.push(&node.name, "forward", move |s| {
                let pairs = ([&gamma, &beta], [&mean, &variance]);
                kernel.forward_inference(s, (&b, pixels), (&x, &y), pairs, &lines)
            });
            return Ok(());
        }
        b.check_training()?;
        let saved = self.parts.memory.kept::<f32>(i, 2 * b.channels)?;
        let (saved_mean, inverse) = (saved.range(..b.channels), saved.range(b.channels..));
        self.push(&node.name, "forward", move |s| {
            let statistics = ([&mean, &variance], [&saved_mean, &inverse]);
            let workspace = BatchNormWorkspace { sums: &sums, lines: &lines };
            kernel.forward_training(s, (&b, pixels), (&x, &y), [&gamma, &beta], statistics, workspace)
        });
        Ok(())
    }

    /// A node's dropout in training; `None` in an evaluation.
    fn dropout(&self, node: &Node) -> Option<Dropout> {
        match node.op {
            Op::Dropout { p, layer } if self.trains && p > 0.0 => {
                Some(Dropout { seed: self.parts.recipe.seed, layer, step: 0, probability: p })
            }
            _ => None,
        }
    }

    fn copy(&mut self, name: &str, what: &str, from: &DeviceArray, to: &DeviceArray) {
        let (from, to) = (from.bytes().clone(), to.bytes().clone());
        self.push(name, what, move |s| s.copy(&from, &to));
    }

    fn loss(&mut self) -> Result<()> {
        let (n, device) = (self.n, self.parts.device);
        let last = self.network().values().len() - 1;
        let (outputs, gradient) = (self.value(last)?, self.gradient(last)?);
        let to = self.parts.control.loss_slots();
        let scale = self.parts.options.scaler().map(|_| self.parts.control.scale.clone()).filter(|_| self.trains);
        match (&self.parts.kernels.loss, self.parts.recipe.loss) {
            (LossKernels::CrossEntropy(kernel), Loss::CrossEntropy { smoothing }) => {
                let c = CrossEntropy { batch: n, classes: outputs.len() / n, smoothing };
                let blocks = cross_entropy::cuda::Loss::blocks(n);
                let (losses, hits) = (device.zeros::<f64>(blocks)?.range(..), device.zeros::<u32>(blocks)?.range(..));
                let (kernel, labels) = (kernel.clone(), self.parts.control.labels.range(..n));
                self.push("loss", "", move |s| {
                    let workspace = cross_entropy::cuda::Workspace { losses: &losses, hits: &hits };
                    let slots = (workspace, slots(&to));
                    kernel.loss_and_gradient(s, &c, (&outputs, &labels), scale.as_ref(), &gradient, slots)
                });
            }
            (LossKernels::Mse(kernel), _) => {
                let partial = device.zeros::<f64>(kernel.blocks(outputs.len()))?.range(..);
                let Some(target) = self.targets.clone() else { return Ok(()) };
                let kernel = kernel.clone();
                self.push("loss", "", move |s| {
                    let slots = (&partial, slots(&to));
                    kernel.loss_and_gradient(s, (&outputs, &target), scale.as_ref(), &gradient, slots)
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn backward(&mut self, i: usize) -> std::result::Result<(), TrainError> {
        let node = self.node(i);
        let Parts { sharing, kernels, control, .. } = self.parts;
        if !sharing.needs_gradient(node.output) {
            return Ok(());
        }
        let dy = self.gradient(node.output)?;
        if matches!(node.op, Op::Conv2d(_) | Op::Linear { .. }) {
            self.weight_gradient(i, &dy)?;
        }
        let (in_place, needed) = (sharing.in_place(node), sharing.needs_gradient(node.input));
        if let Op::Add(other) = node.op {
            return self.add_backward(i, other, &dy);
        }
        if let Op::BatchNorm { .. } = node.op {
            return self.batch_norm_backward(i, dy);
        }
        if !needed {
            return Ok(());
        }
        let joins = !in_place && sharing.joins(self.network().nodes(), i, node.input);
        let dx = if joins { self.parts.memory.joined(i, self.len(node.input))? } else { self.gradient(node.input)? };
        match node.op {
            Op::Conv2d(_) | Op::Linear { .. } => self.product_backward(i, dy, dx.clone())?,
            Op::Activation(f) => {
                if !sharing.done[i][1] {
                    let kept = match f.keeps() {
                        activation::Kept::Input => self.value(node.input)?,
                        activation::Kept::Output => self.value(node.output)?,
                    };
                    let (kernel, dx) = (kernels.activations.clone(), dx.clone());
                    self.push(&node.name, "backward", move |s| kernel.backward(s, f, &kept, &dy, &dx));
                }
            }
            Op::Pool(p) => {
                let (kernel, g) = (kernels.pooling.clone(), self.network().pool_geometry(node, self.n));
                let dx = dx.clone();
                if p.kind == PoolKind::Max {
                    let places = self.parts.memory.kept::<u8>(i, dy.len())?;
                    if sharing.mask_before[i] {
                        let y = self.value(node.output)?;
                        self.push(&node.name, "backward", move |s| {
                            kernel.max_backward_masked(s, &g, (&places, &y), &dy, &dx)
                        });
                    } else {
                        self.push(&node.name, "backward", move |s| kernel.max_backward(s, &g, &places, &dy, &dx));
                    }
                } else {
                    self.push(&node.name, "backward", move |s| kernel.average_backward(s, &g, &dy, &dx));
                }
            }
            Op::Dropout { .. } => match self.dropout(node) {
                Some(d) => {
                    let (kernel, step, dx) = (kernels.masks.clone(), control.step(), dx.clone());
                    self.push(&node.name, "backward", move |s| kernel.backward(s, &d, &step, &dy, &dx));
                }
                None if in_place => {}
                None => self.copy(&node.name, "backward", &dy, &dx),
            },
            Op::Flatten if in_place => {}
            Op::Flatten => self.copy(&node.name, "backward", &dy, &dx),
            Op::Add(_) | Op::BatchNorm { .. } => {}
        }
        if joins {
            self.accumulate(&node.name, dx, self.gradient(node.input)?);
        }
        Ok(())
    }

    fn accumulate(&mut self, name: &str, from: DeviceArray, to: DeviceArray) {
        let kernel = self.parts.kernels.add.clone();
        self.push(name, "sum of gradients", move |s| kernel.accumulate(s, &from, &to));
    }

    /// Both inputs get the gradient of the sum.
    fn add_backward(&mut self, i: usize, other: ValueId, dy: &DeviceArray) -> std::result::Result<(), TrainError> {
        let (node, sharing) = (self.node(i), self.parts.sharing);
        for value in [other, node.input] {
            let same = sharing.buffer[value] == sharing.buffer[node.output];
            if same || !sharing.needs_gradient(value) {
                continue;
            }
            let to = self.gradient(value)?;
            if sharing.joins(self.network().nodes(), i, value) {
                self.accumulate(&node.name, dy.clone(), to);
            } else {
                self.copy(&node.name, "backward", dy, &to);
            }
        }
        Ok(())
    }

    fn batch_norm_backward(&mut self, i: usize, dy: DeviceArray) -> std::result::Result<(), TrainError> {
        let node = self.node(i);
        let Some(kernel) = self.parts.kernels.normalisation.clone() else { return Ok(()) };
        let (memory, params, sharing) = (self.parts.memory, self.parts.params, self.parts.sharing);
        let b = self.network().batch_norm_sizes(node, self.n);
        let pixels = self.network().value(node.input).positions();
        let saved = memory.kept::<f32>(i, 2 * b.channels)?;
        let (mean, inverse) = (saved.range(..b.channels), saved.range(b.channels..));
        let (sums, lines) = memory.scratch(i, true, Normalisation::sums_len(&b), 3 * b.channels)?;
        let (gamma, x) = (params.master(node.params[0]), self.value(node.input)?);
        let [dgamma, dbeta] = [0, 1].map(|p| params.gradient(node.params[p]));
        let needed = sharing.needs_gradient(node.input);
        let joins = needed && sharing.joins(self.network().nodes(), i, node.input);
        // The kernel writes dx in any case: over dy, where nothing reads it.
        let dx = match (needed, joins) {
            (false, _) => dy.clone(),
            (_, true) => memory.joined(i, self.len(node.input))?,
            _ => self.gradient(node.input)?,
        };
        let to = dx.clone();
        self.push(&node.name, "backward", move |s| {
            let workspace = BatchNormWorkspace { sums: &sums, lines: &lines };
            let arrays = [&x, &dy, &to];
            kernel.backward(s, (&b, pixels), arrays, (&gamma, [&mean, &inverse]), [&dgamma, &dbeta], workspace)
        });
        if joins {
            self.accumulate(&node.name, dx, self.gradient(node.input)?);
        }
        Ok(())
    }

    fn weight_gradient(&mut self, i: usize, dy: &DeviceArray) -> Result<()> {
        let node = self.node(i);
        let (x, dy, workspace) = (self.value(node.input)?, dy.clone(), self.workspaces[1].clone());
        let dw = self.parts.params.gradient(node.params[0]);
        let db = node.params.get(1).map(|id| self.parts.params.gradient(*id));
        match self.products[i].clone() {
            Some(Multiply::Conv(c)) => self.push(&node.name, "weight gradient", move |s| {
                c.weight_gradient(s, &x, &dy, &dw, db.as_ref(), &workspace)
            }),
            Some(Multiply::Linear(l)) => self.push(&node.name, "weight gradient", move |s| {
                l.weight_gradient(s, &x, &dy, &dw, db.as_ref(), &workspace)
            }),
            None => {}
        }
        self.last_on(On::Side);
        Ok(())
    }

    fn product_backward(&mut self, i: usize, dy: DeviceArray, dx: DeviceArray) -> Result<()> {
        let node = self.node(i);
        let w = self.parts.params.operand(node.params[0]);
        let mask = self.parts.sharing.mask_before[i].then(|| self.value(node.input)).transpose()?;
        let workspace = self.workspaces[0].clone();
        match self.products[i].clone() {
            Some(Multiply::Conv(c)) => self.push(&node.name, "input gradient", move |s| {
                c.input_gradient(s, &dy, &w, mask.as_ref(), &dx, &workspace)
            }),
            Some(Multiply::Linear(l)) => self.push(&node.name, "input gradient", move |s| {
                l.input_gradient(s, &dy, &w, mask.as_ref(), &dx, &workspace)
            }),
            None => {}
        }
        Ok(())
    }

    fn update(&mut self) -> Result<()> {
        let (control, params) = (self.parts.control.clone(), self.parts.params);
        let (gradients, backward_end) = (params.gradients.clone(), self.passes.len());
        let scale = self.parts.options.scaler().map(|_| control.scale.clone());
        let computes_norm = self.parts.kernels.norm.is_some();
        if let Some(norm) = self.parts.kernels.norm.clone() {
            let most = self.parts.recipe.clip.unwrap_or(f64::INFINITY);
            let workspace = self.parts.device.zeros::<f64>(norm.blocks(gradients.len()))?.range(..);
            let (control, scale, array) = (control.clone(), scale.clone(), DeviceArray::from(&gradients));
            self.push("norm of the gradients", "", move |s| {
                let to = NormOutputs { norm: &control.norm, clip: &control.clip, found: &control.overflow };
                norm.queue(s, &array, most, scale.as_ref(), &workspace, to)
            });
        }
        let judge = control.clone();
        self.push("check", "", move |s| judge.queue_judge(s, computes_norm));
        let update = self.parts.kernels.update.clone();
        let (weights, slots, copy) = (params.weights.clone(), params.slots.clone(), params.copy());
        let clips = self.parts.recipe.clip.is_some();
        self.push("optimiser", "", move |s| {
            let parameters =
                Parameters { weights: &weights, gradients: &gradients, state: &slots, copy: copy.as_ref() };
            let control = UpdateControl {
                rate_and_steps: &control.rate_and_updates,
                step: &control.update,
                found: Some(&control.found),
                loss_scale: scale.as_ref(),
                clip: clips.then_some(&control.clip),
            };
            update.step(s, parameters, control)
        });
        self.passes[backward_end].on = On::Both;
        Ok(())
    }

    fn finish(&mut self) {
        let (control, n, trains) = (self.parts.control.clone(), self.n, self.trains);
        let scaler = self.parts.options.scaler().filter(|_| trains).copied();
        let norm_is_computed = trains && self.parts.kernels.norm.is_some();
        self.push("end of the step", "", move |s| {
            control.queue_finish(s, n, Finish { trains, norm_is_computed, scaler: scaler.as_ref() })
        });
    }
}
