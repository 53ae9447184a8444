//! Placement of a network's activations and their gradients: planned before the network runs, in one arena.
//!
//! Time is counted in operations: forward from 1, then the loss, then backward if the network is trained. In-place operations share memory
//! with their input: a flattened image, a ReLU or a dropout whose input nothing else reads, and the end of a residual branch. Gradients
//! share memory in the same way.

mod footprint;
mod fusion_plan;

use crate::network::{Activation, Network, Node, Op, PoolKind, ValueId};
use crate::ops::custom_layer::OwnSizes;
use crate::ops::{Layout, batch_norm};
use warpbook_device::{Arena, ArenaLayout, ArenaPlan, Element, Result, Slice};
use warpbook_gemm::DeviceArray;
use warpbook_record::Dtype;

pub(in crate::train) use footprint::{ensure_it_fits, footprint, sums_of_gradients};
use fusion_plan::multiplies;
pub(in crate::train) use fusion_plan::{FusionPlan, NodePlan};

/// The purpose of a network's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::train) enum Purpose {
    /// Inference: only the forward pass.
    Inference,
    /// Training. `overlaps`: weight gradients run on a separate stream, so their inputs are kept until the end of the step.
    Training { overlaps: bool },
}

/// The times at which a network with this many operations uses its memory.
#[derive(Debug)]
struct Times {
    count: usize,
    /// Time of each operation's backward pass; empty in inference.
    backward: Vec<usize>,
    /// Time at which each operation is recomputed, if it is.
    recomputation: Vec<Option<usize>>,
}

impl Times {
    fn new(network: &Network, fusion: &FusionPlan, trains: bool) -> Self {
        let count = network.nodes().len();
        let mut times = Self { count, backward: Vec::new(), recomputation: vec![None; count] };
        if !trains {
            return times;
        }
        times.backward = vec![0; count];
        let mut now = times.loss();
        let mut next = || {
            now += 1;
            now
        };
        for segment in network.segments().into_iter().rev() {
            for i in segment.clone().filter(|i| fusion.recomputes(network.nodes(), *i)) {
                times.recomputation[i] = Some(next());
            }
            segment.rev().for_each(|i| times.backward[i] = next());
        }
        times
    }

    fn forward(&self, i: usize) -> usize {
        i + 1
    }

    /// Returns the time by which the second stream has finished work that it was given at `time`: before a segment is recomputed, and at the end.
    fn joined(&self, time: usize) -> usize {
        let joins = self.recomputation.iter().flatten().copied().filter(|next| *next > time);
        joins.min().map_or_else(|| self.backward[0], |next| next - 1)
    }

    /// Returns the time at which the outputs are read.
    fn loss(&self) -> usize {
        self.count + 1
    }

    /// Returns the time of an operation's backward pass; `None` in inference.
    fn backward(&self, i: usize) -> Option<usize> {
        self.backward.get(i).copied()
    }
}

/// Lifetime of an array, which grows with each use.
#[derive(Debug, Clone, Copy, Default)]
struct Life(Option<(usize, usize)>);

impl Life {
    fn at(&mut self, time: impl Into<Option<usize>>) {
        let Some(time) = time.into() else { return };
        let (first, last) = self.0.unwrap_or((time, time));
        self.0 = Some((first.min(time), last.max(time)));
    }
}

fn value_name(buffer: usize) -> String {
    format!("value {buffer}")
}

/// Returns the name of an array that is written again for the backward pass.
fn recomputed_name(name: &str) -> String {
    format!("{name} again")
}

fn gradient_name(buffer: usize) -> String {
    format!("gradient {buffer}")
}

fn join_name(i: usize) -> String {
    format!("joined {i}")
}

fn kept_name(i: usize) -> String {
    format!("kept {i}")
}

fn scratch_name(i: usize, backwards: bool) -> String {
    format!("scratch {i} {}", u8::from(backwards))
}

/// Inputs of a memory plan.
struct MemoryPlanner<'a> {
    network: &'a Network,
    fusion: &'a FusionPlan,
    times: Times,
    batch: usize,
    overlaps: bool,
}

impl MemoryPlanner<'_> {
    /// Returns the time until which the inputs of an operation's weight gradient are needed.
    fn weight_gradient(&self, i: usize) -> Option<usize> {
        self.times.backward(i).map(|time| if self.overlaps { self.times.joined(time) } else { time })
    }

    /// Plans the arrays that an operation keeps for its backward pass, and its temporary memory.
    fn plan_kept(&self, i: usize, node: &Node, plan: &mut ArenaPlan) {
        let (forward, backward) = (self.times.forward(i), self.times.backward(i));
        let b = self.network.batch_norm_sizes(node, self.batch);
        match node.op {
            Op::Pool(p) if p.kind == PoolKind::Max => {
                let by = self.fusion.nodes.iter().position(|conv| conv.pool == Some(i));
                // If a convolution's epilogue computes the maxima, it writes the positions earlier, and only if gradients are computed.
                let first = by.map_or(forward, |conv| self.times.forward(conv));
                if by.is_none() || backward.is_some() {
                    let len = self.network.value(node.output).elements() * self.batch;
                    let last = by
                        .filter(|conv| self.fusion.nodes[*conv].unpools)
                        .map_or(backward, |conv| self.weight_gradient(conv));
                    let last = last.unwrap_or(forward);
                    if let Some(time) = self.times.recomputation[by.unwrap_or(i)] {
                        plan.add(kept_name(i), len, first, forward);
                        plan.add(recomputed_name(&kept_name(i)), len, time, last);
                    } else {
                        plan.add(kept_name(i), len, first, last);
                    }
                }
            }
            Op::BatchNorm { .. } => {
                if let Some(backward) = backward {
                    plan.add(kept_name(i), 8 * b.channels, forward, backward);
                }
                for (time, backwards) in [(Some(forward), false), (backward, true)] {
                    let Some(time) = time else { continue };
                    let scratch = 8 * batch_norm::cuda::Normalisation::sums_len(&b) + 12 * b.channels;
                    plan.add(scratch_name(i, backwards), scratch, time, time);
                    if let Some(time) = self.times.recomputation[i].filter(|_| !backwards) {
                        plan.add(recomputed_name(&scratch_name(i, false)), scratch, time, time);
                    }
                }
            }
            Op::Own => {
                let shares =
                    |own| OwnSizes::new(own, self.network.value(node.input), self.batch, Layout::Nhwc).shares(own).1;
                let len = node.own.as_ref().map_or(0, shares);
                if let Some(backward) = backward.filter(|_| len > 0) {
                    plan.add(scratch_name(i, true), 4 * len, backward, backward);
                }
            }
            _ => {}
        }
    }
}

/// Plans the memory of batches with this many samples.
pub(in crate::train) fn plan(
    network: &Network,
    fusion: &FusionPlan,
    batch: usize,
    dtype: Dtype,
    purpose: Purpose,
) -> ArenaLayout {
    let nodes = network.nodes();
    let trains = purpose != Purpose::Inference;
    let overlaps = purpose == Purpose::Training { overlaps: true };
    let planner = MemoryPlanner { network, fusion, times: Times::new(network, fusion, trains), batch, overlaps };
    let (times, count) = (&planner.times, network.values().len());
    let bytes = |value: ValueId| network.value(value).elements().saturating_mul(batch * dtype.bytes() as usize);
    let (mut values, mut gradients) = (vec![Life::default(); count], vec![Life::default(); count]);
    // Lifetimes of recomputed values, starting at the recomputation.
    let mut recomputed_values = vec![Life::default(); count];
    let buffer = |value: ValueId| fusion.buffer[value];
    values[buffer(0)].at(0);
    values[buffer(count - 1)].at(times.loss());
    gradients[buffer(count - 1)].at(trains.then_some(times.loss()));
    let mut plan = ArenaPlan::new();
    for (i, node) in nodes.iter().enumerate() {
        let (forward, backward) = (times.forward(i), times.backward(i));
        let others = if let Op::Add(other) = node.op { Some(other) } else { None };
        for read in others.into_iter().chain([node.input, fusion.writes(nodes, i)]) {
            if fusion.is_stored(nodes, read) {
                values[buffer(read)].at(forward);
                // Inputs from an earlier segment are kept, so they are read directly.
                let lives =
                    if trains && fusion.recomputed[buffer(read)] { &mut recomputed_values } else { &mut values };
                lives[buffer(read)].at(times.recomputation[i]);
            }
        }
        for read in others.into_iter().chain([node.input, node.output]) {
            if fusion.stores_gradient(nodes, read) {
                gradients[buffer(read)].at(backward);
            }
        }
        let mut used_backwards = |value: ValueId, time: Option<usize>| {
            let lives = if fusion.recomputed[buffer(value)] { &mut recomputed_values } else { &mut values };
            lives[buffer(value)].at(time);
        };
        if multiplies(&node.op) {
            let read = planner.weight_gradient(i);
            used_backwards(node.input, read);
            gradients[buffer(fusion.backward_input(nodes, i))].at(read);
            if let Some(pool) = fusion.unpooled(i).filter(|pool| fusion.nodes[*pool].mask) {
                used_backwards(nodes[pool].output, read);
            }
        }
        match node.op {
            Op::Conv2d(_) | Op::Linear { .. } | Op::BatchNorm { .. } => used_backwards(node.input, backward),
            Op::Activation(Activation::Gelu) => used_backwards(node.input, backward),
            Op::Activation(Activation::Relu) if !fusion.nodes[i].skips_backward => {
                used_backwards(node.output, backward)
            }
            Op::Pool(_) if fusion.nodes[i].mask => used_backwards(node.output, backward),
            Op::Own => [node.input, node.output].into_iter().for_each(|v| used_backwards(v, backward)),
            _ => {}
        }
        let adds = others.is_none() && !fusion.in_place(node) && fusion.joins(nodes, i, node.input);
        let is_needed = fusion.needs_gradient(node.input);
        // A custom layer with parameters always writes the gradient of its input.
        let writes_apart = adds && is_needed || node.op == Op::Own && !is_needed && !node.params.is_empty();
        if let Some(backward) = backward.filter(|_| writes_apart) {
            plan.add(join_name(i), bytes(node.input), backward, backward);
        }
        planner.plan_kept(i, node, &mut plan);
    }
    let sizes: Vec<usize> =
        (0..count).map(|b| (0..count).filter(|v| buffer(*v) == b).map(bytes).max().unwrap_or(0)).collect();
    let names: [fn(usize) -> String; 3] = [value_name, |b| recomputed_name(&value_name(b)), gradient_name];
    for (lives, name) in [&values, &recomputed_values, &gradients].into_iter().zip(names) {
        for (b, life) in lives.iter().enumerate() {
            if let Some((first, last)) = life.0 {
                plan.add(name(b), sizes[b], first, last);
            }
        }
    }
    plan.layout()
}

/// Bytes that a plan holds for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::train) struct NodeBytes {
    /// Bytes of the output; 0 if the operation computes in place.
    pub output: u64,
    /// Bytes of the gradient of the output.
    pub gradient: u64,
    /// Bytes of everything else: positions of maxima, statistics, partial sums, a gradient that is added to another gradient.
    pub other: u64,
}

/// Returns the number of bytes of a batch's samples in a plan.
pub(in crate::train) fn input_bytes(layout: &ArenaLayout) -> u64 {
    layout.get(&value_name(0)).map_or(0, |block| block.bytes as u64)
}

/// Returns the number of bytes that operation `i` adds to a plan.
pub(in crate::train) fn node_bytes(layout: &ArenaLayout, fusion: &FusionPlan, node: &Node, i: usize) -> NodeBytes {
    let bytes_of = |name: &str| layout.get(name).map_or(0, |block| block.bytes as u64);
    let buffer = fusion.buffer[node.output];
    let [output, gradient] =
        if buffer == node.output { [bytes_of(&value_name(buffer)), bytes_of(&gradient_name(buffer))] } else { [0, 0] };
    let other = [kept_name(i), join_name(i), scratch_name(i, false), scratch_name(i, true)];
    let twice = |name: &str| bytes_of(name) + bytes_of(&recomputed_name(name));
    let output = if output > 0 { twice(&value_name(buffer)) } else { 0 };
    NodeBytes { output, gradient, other: other.iter().map(|name| twice(name)).sum() }
}

/// The allocated memory of a plan.
#[derive(Debug)]
pub(super) struct Memory {
    arena: Arena,
    dtype: Dtype,
}

impl Memory {
    pub fn new(arena: Arena, dtype: Dtype) -> Self {
        Self { arena, dtype }
    }

    fn array(&self, name: &str, len: usize) -> Result<DeviceArray> {
        Ok(match self.dtype {
            Dtype::F16 => (&self.arena.planned::<half::f16>(name)?.range(..len)).into(),
            Dtype::Bf16 => (&self.arena.planned::<half::bf16>(name)?.range(..len)).into(),
            _ => (&self.arena.planned::<f32>(name)?.range(..len)).into(),
        })
    }

    /// Returns the first `len` elements of a value's buffer.
    ///
    /// # Errors
    /// If the plan has no such array.
    pub fn value(&self, buffer: usize, len: usize) -> Result<DeviceArray> {
        self.array(&value_name(buffer), len)
    }

    /// Returns the first `len` elements of a recomputed value's buffer.
    ///
    /// # Errors
    /// If the plan has no such array.
    pub fn recomputed_value(&self, buffer: usize, len: usize) -> Result<DeviceArray> {
        self.array(&recomputed_name(&value_name(buffer)), len)
    }

    /// Like [`Memory::kept`], for recomputed operations.
    ///
    /// # Errors
    /// If the plan has no such array.
    pub fn recomputed_kept<T: Element>(&self, i: usize, len: usize) -> Result<Slice<T>> {
        Ok(self.arena.planned::<T>(&recomputed_name(&kept_name(i)))?.range(..len))
    }

    /// Returns the first `len` elements of the buffer of a value's gradient.
    ///
    /// # Errors
    /// If the plan has no such array.
    pub fn gradient(&self, buffer: usize, len: usize) -> Result<DeviceArray> {
        self.array(&gradient_name(buffer), len)
    }

    /// Returns the temporary array for the gradient of a node's input, before it is added to another gradient.
    ///
    /// # Errors
    /// If the plan has no such array.
    pub fn joined(&self, i: usize, len: usize) -> Result<DeviceArray> {
        self.array(&join_name(i), len)
    }

    /// Returns the array that a node keeps for its backward pass.
    ///
    /// # Errors
    /// If the plan has no such array.
    pub fn kept<T: Element>(&self, i: usize, len: usize) -> Result<Slice<T>> {
        Ok(self.arena.planned::<T>(&kept_name(i))?.range(..len))
    }

    /// Returns the temporary memory of a node: f64 `[sums]`, then f32 `[lines]`.
    ///
    /// # Errors
    /// If the plan has no such array.
    pub fn scratch(&self, i: usize, backwards: bool, sums: usize, lines: usize) -> Result<(Slice<f64>, Slice<f32>)> {
        self.scratch_of(&scratch_name(i, backwards), sums, lines)
    }

    /// Returns the temporary memory of a node that is recomputed.
    ///
    /// # Errors
    /// If the plan has no such array.
    pub fn recomputation_scratch(&self, i: usize, sums: usize, lines: usize) -> Result<(Slice<f64>, Slice<f32>)> {
        self.scratch_of(&recomputed_name(&scratch_name(i, false)), sums, lines)
    }

    fn scratch_of(&self, name: &str, sums: usize, lines: usize) -> Result<(Slice<f64>, Slice<f32>)> {
        let first = self.arena.planned::<f64>(name)?.range(..sums);
        let rest = self.arena.planned::<f32>(name)?.range(2 * sums..2 * sums + lines);
        Ok((first, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::*;
    use crate::ops::custom_layer::OwnLayer;

    fn names(layout: &ArenaLayout) -> Vec<&str> {
        layout.blocks().iter().map(|b| b.name.as_str()).collect()
    }

    #[test]
    fn what_a_layer_of_the_learner_s_own_reads_backwards_is_kept() {
        let scale = OwnLayer::new("scale", "no kernels").parameter("by", [4], 1.0).one_block_a_sample();
        let layers = [own(&scale), conv2d(4, 1), own(&scale), flatten(), relu(), dropout(0.5), linear(3)];
        let n = Network::new([2, 5, 5], layers).unwrap();
        let s = FusionPlan::with(&n, true, |_| false, |_, _| false);
        // The ReLU must not overwrite the output of scale2, which the flattened image shares; the dropout may overwrite the ReLU's output.
        assert_eq!(s.buffer, [0, 1, 2, 3, 3, 5, 5, 7]);
        let layout = plan(&n, &s, 8, Dtype::F16, Purpose::Training { overlaps: false });
        let uses = |name: &str| layout.get(name).map(|b| (b.first_use, b.last_use)).unwrap();
        // Times: seven operations forward from 1, the loss at 8, backward from 9: scale2 is the third, backward at 13, scale1 at 15.
        assert!(uses("value 3").1 >= 13 && uses("value 2").1 >= 13 && uses("value 0").1 == 15);
        assert_eq!((uses("scratch 2 1"), uses("scratch 0 1")), ((13, 13), (15, 15)));
        assert_eq!(layout.get("scratch 2 1").unwrap().bytes, 4 * 8 * 4, "a row of four numbers for each sample");
        // scale1 writes the gradient of the network's input, which nothing needs.
        assert_eq!(uses("joined 0"), (15, 15));
    }

    #[test]
    fn the_plan_reuses_memory_and_nothing_in_use_overlaps() {
        for fused in [false, true] {
            let n = mnist_cnn(0.25, 0.5);
            let fusion = FusionPlan::with(&n, fused, |_| true, |_, _| false);
            let plan_for = |purpose| plan(&n, &fusion, 512, Dtype::F16, purpose);
            let layout = plan_for(Purpose::Training { overlaps: false });
            let overlapping = plan_for(Purpose::Training { overlaps: true });
            assert!(overlapping.peak_bytes() > layout.peak_bytes(), "gradients are kept longer");
            let blocks = layout.blocks();
            for (i, a) in blocks.iter().enumerate() {
                for b in &blocks[i + 1..] {
                    let live = a.first_use <= b.last_use && b.first_use <= a.last_use;
                    let apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
                    assert!(!live || apart, "{} and {}", a.name, b.name);
                }
            }
            let sum: usize = blocks.iter().map(|b| b.bytes).sum();
            let mib = |bytes: usize| bytes >> 20;
            assert!(layout.peak_bytes() < sum, "{} of {sum} bytes", layout.peak_bytes());
            // Activations only: 512 x (784 + 26² 32 + 24² 64 + 9216 + 128 + 10) f16 numbers are 66 MiB.
            assert!((70..140).contains(&mib(layout.peak_bytes())), "{} MiB", mib(layout.peak_bytes()));
        }
    }

    #[test]
    fn inference_keeps_nothing_for_gradients() {
        let layers = [
            batch_norm(),
            conv2d(4, 3).padding(1),
            residual([conv2d(4, 3).padding(1), batch_norm(), gelu()]),
            max_pool(2),
            flatten(),
            linear(6),
            relu(),
            linear(3),
        ];
        for (n, batch) in [(mnist_cnn(0.25, 0.5), 512), (Network::new([2, 6, 6], layers).unwrap(), 7)] {
            let fusion = FusionPlan::with(&n, true, |_| true, |_, _| false);
            let layout = plan(&n, &fusion, batch, Dtype::F32, Purpose::Inference);
            assert!(!names(&layout).iter().any(|n| n.starts_with("gradient") || n.starts_with("joined")));
            assert!(layout.blocks().iter().all(|b| b.last_use <= n.nodes().len() + 1));
            let training = plan(&n, &fusion, batch, Dtype::F32, Purpose::Training { overlaps: true });
            let [own, training] = [layout.peak_bytes(), training.peak_bytes()];
            assert!(own < training * 2 / 3, "{own} of {training} bytes");
            // Inference writes every array that training writes, so every value has a place.
            for value in 0..n.values().len() {
                assert!(layout.get(&value_name(fusion.buffer[value])).is_some(), "value {value}");
            }
            let maxima = n.nodes().iter().position(|n| matches!(n.op, Op::Pool(_))).unwrap();
            assert!(layout.get(&kept_name(maxima)).is_some_and(|b| b.first_use == b.last_use));
        }
    }
}
