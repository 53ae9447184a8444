//! A network's passes and its optimiser's steps on the CPU, in f32, images in NHWC.

mod custom_layer;
mod passes;
mod segments;
mod training;

pub(super) use training::{CpuTraining, Owned};

use super::memory_check::ensure_host_memory;
use super::{Loss, MeanLoss, Ranks, Target, TrainError};
use crate::network::{Arrangement, Network, Node, Op, ParamId, PoolKind, Shape};
use crate::ops::muon;
use crate::ops::optimizer::groups::Grouped;
use crate::ops::optimizer::{self, Optimizer};
use crate::weights::Weights;
use std::mem::take;
use std::ops::Range;
use tracing::trace_span;

/// The mode of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Dropout draws its numbers from seed and step; batch normalisation uses the batch's statistics.
    Training {
        /// Seed of the dropout.
        seed: u64,
        /// Index of the step.
        step: u32,
    },
    /// No dropout; batch normalisation uses the running statistics.
    Inference,
}

/// A network with all memory for training on the CPU: weights, their gradients, the optimiser's state, and the activations of one batch
/// with their gradients. Everything is allocated once.
#[derive(Debug)]
pub struct CpuEngine {
    network: Network,
    arrangement: Arrangement,
    batch: usize,
    weights: Vec<Vec<f32>>,
    gradients: Vec<Vec<f32>>,
    state: Vec<Vec<Vec<f32>>>,
    values: Vec<Vec<f32>>,
    value_gradients: Vec<Vec<f32>>,
    /// Further inputs of each node's backward pass.
    kept: Vec<KeptValues>,
    /// For each value, true if it exists only while its segment is computed.
    recomputed: Vec<bool>,
    most_bytes: u64,
    /// Mode of the last forward pass.
    mode: Mode,
    /// Part of a global batch that the samples form.
    pub(super) part: RankPart,
}

/// A rank's part of a global batch.
#[derive(Debug)]
pub(super) struct RankPart {
    /// Position of the part's first sample in the global batch, which selects dropout's random numbers.
    pub first: usize,
    /// True if the part's samples count; otherwise the part has one placeholder sample.
    pub counts: bool,
    /// Ranks that share the statistics of batch normalisation; `None` if statistics are not shared.
    pub norm: Option<Ranks>,
}

impl Default for RankPart {
    fn default() -> Self {
        Self { first: 0, counts: true, norm: None }
    }
}

#[derive(Debug)]
enum KeptValues {
    Nothing,
    /// Positions of maxima in their windows.
    Places(Vec<u8>),
    /// Means, and inverse standard deviations.
    Statistics([Vec<f32>; 2]),
}

impl KeptValues {
    fn new(network: &Network, node: &Node, batch: usize) -> Self {
        let output = network.value(node.output);
        match node.op {
            Op::Pool(p) if p.kind == PoolKind::Max => Self::Places(vec![0; output.elements() * batch]),
            Op::BatchNorm { .. } => Self::Statistics([vec![0.0; output.channels()], vec![0.0; output.channels()]]),
            _ => Self::Nothing,
        }
    }
}

/// Refuses an engine whose arrays do not fit into free memory, as far as the system reports it.
pub(super) fn ensure_it_fits(network: &Network, batch: usize, optimizer: &Optimizer) -> Result<(), TrainError> {
    ensure_host_memory(batch, |batch| planned_bytes(network, batch, optimizer))
}

/// Computes [`CpuEngine::bytes`] before the engine exists.
fn planned_bytes(network: &Network, batch: usize, optimizer: &Optimizer) -> u64 {
    let all = network.params().iter();
    let params =
        all.map(|p| p.len() * if p.role.is_trained() { 2 + optimizer.state_slots() } else { 1 }).sum::<usize>();
    let values = segments::value_floats(network).into_iter().fold(0, usize::saturating_add);
    let kept = |node: &Node| match node.op {
        Op::Pool(p) if p.kind == PoolKind::Max => network.value(node.output).elements().saturating_mul(batch),
        Op::BatchNorm { .. } => 8 * network.value(node.output).channels(),
        _ => 0,
    };
    let kept = network.nodes().iter().map(kept).fold(0, usize::saturating_add);
    values.saturating_mul(batch).saturating_mul(2).saturating_add(params).saturating_mul(4).saturating_add(kept) as u64
}

/// Converts weights to the engine's layout; an error if they do not match the network.
fn arranged(network: &Network, arrangement: &Arrangement, weights: &Weights) -> Result<Vec<Vec<f32>>, TrainError> {
    let checked = Weights::new(network, weights.values().to_vec())?;
    Ok(checked.values().iter().enumerate().map(|(id, v)| arrangement.store(id, v)).collect())
}

impl CpuEngine {
    /// Creates an engine for batches of at most `batch` samples, with these weights.
    ///
    /// # Errors
    /// If the batch is empty, or the weights do not match the network.
    pub fn new(network: &Network, batch: usize, weights: &Weights, optimizer: &Optimizer) -> Result<Self, TrainError> {
        if batch == 0 {
            return Err(TrainError::Setting("The batch is 0: it needs at least one sample.".into()));
        }
        custom_layer::ensure_bodies(network)?;
        optimizer.check()?;
        ensure_it_fits(network, batch, optimizer)?;
        let arrangement = Arrangement::new(network);
        let stored = arranged(network, &arrangement, weights)?;
        let trained = |id: ParamId| network.params()[id].role.is_trained();
        let zeros = |id: usize| if trained(id) { vec![0.0; stored[id].len()] } else { Vec::new() };
        let state = |id: usize| (0..if trained(id) { optimizer.state_slots() } else { 0 }).map(|_| zeros(id)).collect();
        let recomputed = segments::recomputed(network);
        let place =
            |(shape, recomputed): (&Shape, &bool)| vec![0.0; if *recomputed { 0 } else { shape.elements() * batch }];
        let activations = |_| network.values().iter().zip(&recomputed).map(place).collect::<Vec<_>>();
        let kept = network.nodes().iter().map(|node| KeptValues::new(network, node, batch)).collect();
        let ids = 0..stored.len();
        Ok(Self {
            gradients: ids.clone().map(zeros).collect(),
            state: ids.map(state).collect(),
            values: activations(()),
            value_gradients: activations(()),
            kept,
            recomputed: recomputed.clone(),
            most_bytes: 0,
            mode: Mode::Inference,
            part: RankPart::default(),
            network: network.clone(),
            arrangement,
            batch,
            weights: stored,
        })
    }

    /// Returns the network with its layers and parameters.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Returns the largest number of samples of a batch.
    #[must_use]
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Returns the largest number of bytes so far of weights, gradients, the optimiser's state, and activations with their gradients.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.most_bytes.max(self.held_bytes())
    }

    fn held_bytes(&self) -> u64 {
        let floats = |arrays: &[Vec<f32>]| arrays.iter().map(Vec::len).sum::<usize>();
        let state: usize = self.state.iter().map(|s| floats(s)).sum();
        let all = [&self.weights, &self.gradients, &self.values, &self.value_gradients];
        let kept = |k: &KeptValues| match k {
            KeptValues::Nothing => 0,
            KeptValues::Places(places) => places.len(),
            KeptValues::Statistics(both) => 4 * floats(both),
        };
        let floats = all.into_iter().map(|a| floats(a)).sum::<usize>() + state;
        (4 * floats + self.kept.iter().map(kept).sum::<usize>()) as u64
    }

    /// Returns the memory for the next batch of `n` samples: f32 `[n][height][width][channels]`, or `[n][features]`.
    ///
    /// # Panics
    /// If `n` exceeds the engine's batch.
    pub fn input(&mut self, n: usize) -> &mut [f32] {
        let len = self.network.input().elements() * n;
        &mut self.values[0][..len]
    }

    /// Returns the outputs of the first `n` samples in the last pass.
    #[must_use]
    pub fn outputs(&self, n: usize) -> &[f32] {
        &self.values[self.values.len() - 1][..self.network.output().elements() * n]
    }

    /// Returns the gradient of the output of an operation such as `conv1`, for the first `n` samples of the last backward pass, times its scale: f32
    /// `[n][height][width][channels]`, or `[n][features]`. `None` if the network has no such operation, or if the gradient is inside a segment
    /// and therefore not kept ([`Network::checkpointed`]).
    ///
    /// # Panics
    /// If `n` exceeds the engine's batch.
    #[must_use]
    pub fn output_gradient(&self, operation: &str, n: usize) -> Option<&[f32]> {
        let node = self.network.nodes().iter().find(|node| node.name == operation && !self.recomputed[node.output])?;
        Some(&self.value_gradients[node.output][..self.network.value(node.output).elements() * n])
    }

    /// Returns the weights in PyTorch's layout.
    ///
    /// # Errors
    /// Never fails at present; the return type leaves room for errors.
    pub fn weights(&self) -> Result<Weights, TrainError> {
        self.in_pytorch_layout(&self.weights)
    }

    /// Returns the gradients of the last backward pass in PyTorch's layout; zeros for untrained parameters.
    ///
    /// # Errors
    /// Never fails at present; the return type leaves room for errors.
    pub fn gradients(&self) -> Result<Weights, TrainError> {
        let all: Vec<Vec<f32>> = self
            .gradients
            .iter()
            .zip(&self.weights)
            .map(|(g, w)| if g.is_empty() { vec![0.0; w.len()] } else { g.clone() })
            .collect();
        self.in_pytorch_layout(&all)
    }

    /// Returns the optimiser's state in PyTorch's layout, one set per slot; zeros for untrained parameters.
    pub(super) fn state(&self) -> Result<Vec<Weights>, TrainError> {
        let slots = self.state.iter().map(Vec::len).max().unwrap_or(0);
        let slot_weights = |slot: usize| {
            let all: Vec<Vec<f32>> = self
                .state
                .iter()
                .zip(&self.weights)
                .map(|(s, w)| s.get(slot).cloned().unwrap_or_else(|| vec![0.0; w.len()]))
                .collect();
            self.in_pytorch_layout(&all)
        };
        (0..slots).map(slot_weights).collect()
    }

    /// Restores weights and the optimiser's state.
    pub(super) fn restore(&mut self, weights: &Weights, state: &[Weights]) -> Result<(), TrainError> {
        let stored = |w: &Weights| arranged(&self.network, &self.arrangement, w);
        let slots = state.iter().map(&stored).collect::<Result<Vec<_>, _>>()?;
        self.weights = stored(weights)?;
        for (id, arrays) in self.state.iter_mut().enumerate() {
            arrays.iter_mut().zip(&slots).for_each(|(array, slot)| array.clone_from(&slot[id]));
        }
        Ok(())
    }

    /// Returns all gradients, so that the caller can overwrite them.
    pub(super) fn gradients_mut(&mut self) -> &mut [Vec<f32>] {
        &mut self.gradients
    }

    /// Copies the weights and running statistics of another engine for the same network.
    fn copy_weights_from(&mut self, other: &Self) {
        self.weights.iter_mut().zip(&other.weights).for_each(|(to, from)| to.copy_from_slice(from));
    }

    /// Adds the gradients of another engine for the same network.
    fn add_gradients_from(&mut self, other: &Self) {
        for (sum, gradients) in self.gradients.iter_mut().zip(&other.gradients) {
            sum.iter_mut().zip(gradients).for_each(|(sum, g)| *sum += g);
        }
    }

    fn weight_and_gradient_floats(&self) -> [u64; 2] {
        [&self.weights, &self.gradients].map(|arrays| arrays.iter().map(|a| a.len() as u64).sum())
    }

    /// Returns the running statistics of batch normalisations.
    pub(super) fn statistics(&self) -> Vec<(ParamId, Vec<f32>)> {
        let ids = (0..self.weights.len()).filter(|id| !self.network.params()[*id].role.is_trained());
        ids.map(|id| (id, self.weights[id].clone())).collect()
    }

    /// Restores running statistics.
    pub(super) fn restore_statistics(&mut self, statistics: Vec<(ParamId, Vec<f32>)>) {
        statistics.into_iter().for_each(|(id, values)| self.weights[id] = values);
    }

    /// Computes the loss of the last forward pass, without a backward pass.
    ///
    /// # Errors
    /// See [`CpuEngine::backward`].
    pub fn loss(&self, loss: Loss, target: Target<'_>, n: usize) -> Result<MeanLoss, TrainError> {
        loss.evaluate(self.outputs(n), target, None)
    }

    /// Returns true if an output of the last forward pass has an element that is not finite.
    fn is_not_finite(&self, node: &Node, n: usize) -> bool {
        let (values, len) = (&self.values[node.output], self.network.value(node.output).elements() * n);
        values[..len.min(values.len())].iter().any(|v| !v.is_finite())
    }

    fn in_pytorch_layout(&self, stored: &[Vec<f32>]) -> Result<Weights, TrainError> {
        let values = stored.iter().enumerate().map(|(id, v)| self.arrangement.load(id, v)).collect();
        Ok(Weights::new(&self.network, values)?)
    }

    /// Runs the forward pass of the `n` samples in [`CpuEngine::input`].
    ///
    /// # Errors
    /// If an operation fails; for example, batch normalisation cannot train with a single value per channel.
    ///
    /// # Panics
    /// If `n` exceeds the engine's batch.
    pub fn forward(&mut self, n: usize, mode: Mode) -> Result<(), TrainError> {
        assert!(n <= self.batch, "{n} samples of at most {}", self.batch);
        self.mode = mode;
        let _span = trace_span!("forward").entered();
        for segment in self.network.segments() {
            self.open(&segment, false);
            let done = self.forward_segment(&segment, n, true);
            self.close(&segment);
            done?;
        }
        Ok(())
    }

    /// Computes the loss of the last forward pass, and sends its gradient times `scale` backward through the network.
    ///
    /// # Errors
    /// If the target does not match the loss or the batch.
    pub fn backward(&mut self, loss: Loss, target: Target<'_>, n: usize, scale: f32) -> Result<MeanLoss, TrainError> {
        self.backward_with_callback(loss, target, (n, scale), &mut |_, _| {})
    }

    /// Like [`CpuEngine::backward`], but calls `after` for each operation whose gradients are complete, with its index and all gradients.
    pub(super) fn backward_with_callback(
        &mut self,
        loss: Loss,
        target: Target<'_>,
        (n, scale): (usize, f32),
        after: &mut dyn FnMut(usize, &[Vec<f32>]),
    ) -> Result<MeanLoss, TrainError> {
        let _span = trace_span!("backward").entered();
        let last = self.values.len() - 1;
        let outputs = self.network.output().elements() * n;
        let gradient = &mut self.value_gradients[last][..outputs];
        let values = &self.values[last][..outputs];
        let batch_loss = trace_span!("loss").in_scope(|| loss.evaluate(values, target, Some((scale, gradient))))?;
        let mut written = vec![false; self.values.len()];
        written[last] = true;
        for segment in self.network.segments().into_iter().rev() {
            self.open(&segment, true);
            let done = self.backward_segment(&segment, n, &mut written, after);
            self.close(&segment);
            done?;
        }
        Ok(batch_loss)
    }

    /// Recomputes the values of a segment that were not kept, then computes the segment's gradients.
    fn backward_segment(
        &mut self,
        segment: &Range<usize>,
        n: usize,
        written: &mut [bool],
        after: &mut dyn FnMut(usize, &[Vec<f32>]),
    ) -> Result<(), TrainError> {
        self.forward_segment(segment, n, false)?;
        for i in segment.clone().rev() {
            let node = self.network.nodes()[i].clone();
            let dy = take(&mut self.value_gradients[node.output]);
            let span = trace_span!("backward", operation = &*node.name);
            let done = span.in_scope(|| self.node_backward(i, &node, n, &dy, written));
            self.value_gradients[node.output] = dy;
            done?;
            after(i, &self.gradients);
        }
        Ok(())
    }

    /// Makes one step of the optimiser with the gradients of the last backward pass; `step` counts from 1.
    ///
    /// # Errors
    /// If a setting of the optimiser is out of range.
    pub fn update(&mut self, optimizer: &Optimizer, learning_rate: f64, step: u64) -> Result<(), TrainError> {
        for id in 0..self.weights.len() {
            if self.network.params()[id].role.is_trained() && !self.network.params()[id].frozen {
                let (weights, gradients, state) = (&mut self.weights[id], &self.gradients[id], &mut self.state[id]);
                optimizer::cpu::step(optimizer, learning_rate, step, weights, gradients, state)?;
            }
        }
        Ok(())
    }

    /// Like [`CpuEngine::update`], for parameters in groups, with one learning rate per rule.
    ///
    /// # Errors
    /// If a setting is out of range, or there are fewer rates than rules.
    pub fn update_groups(&mut self, grouped: &Grouped, rates: &[f64], step: u64) -> Result<(), TrainError> {
        for (id, rule) in grouped.rule_of_parameter.iter().enumerate() {
            let Some((rule, rate)) = rule.and_then(|rule| grouped.rules.get(rule).zip(rates.get(rule))) else {
                continue;
            };
            let (weights, gradients, state) = (&mut self.weights[id], &self.gradients[id], &mut self.state[id]);
            match (rule.muon, state.as_mut_slice()) {
                (Some(muon), [momentum]) => {
                    let (factor, _, nesterov) = rule.numbers();
                    let out = self.network.params()[id].shape[0];
                    muon::cpu::step(&muon, (*rate, factor, nesterov), out, weights, gradients, momentum)?;
                }
                _ => optimizer::cpu::step(&rule.optimizer, *rate, step, weights, gradients, state)?,
            }
        }
        Ok(())
    }

    /// Scales the gradients so that their global norm is at most `max_norm`, and returns the norm before scaling.
    ///
    /// # Errors
    /// If `max_norm` is not above 0.
    pub fn clip(&mut self, max_norm: f64) -> Result<f64, TrainError> {
        let all: Vec<&[f32]> = self.gradients.iter().map(Vec::as_slice).collect();
        let norm = optimizer::clip::global_norm(&all);
        let factor = optimizer::clip::factor(norm, max_norm)?;
        self.gradients.iter_mut().for_each(|g| optimizer::clip::scale(g, factor));
        Ok(norm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::*;

    #[test]
    fn an_engine_takes_the_memory_that_was_planned() {
        let layers = [conv2d(4, 3), batch_norm(), relu(), max_pool(2), flatten(), linear(3)];
        let own = Network::new([2, 9, 8], layers).unwrap();
        for network in [own, mnist_cnn(0.25, 0.5), amp_recipe(24)] {
            for optimizer in [Optimizer::sgd(), Optimizer::adam()] {
                let weights = Weights::init(&network, 1);
                let engine = CpuEngine::new(&network, 5, &weights, &optimizer).unwrap();
                assert_eq!(engine.bytes(), planned_bytes(&network, 5, &optimizer));
            }
        }
    }

    #[test]
    fn the_gradient_of_an_output_is_that_of_the_loss() {
        let network = Network::new(Shape::Vector(3), [linear(4), relu(), linear(2)]).unwrap();
        let weights = Weights::init(&network, 5);
        let mut engine = CpuEngine::new(&network, 2, &weights, &Optimizer::sgd()).unwrap();
        engine.input(2).copy_from_slice(&[0.5, -1.0, 2.0, 1.5, 0.25, -0.75]);
        engine.forward(2, Mode::Inference).unwrap();
        engine.backward(Loss::CrossEntropy { smoothing: 0.0 }, Target::Labels(&[0, 1]), 2, 8.0).unwrap();
        // A logit's gradient is the probability of its class, minus 1 for the label's class, divided by the batch size and multiplied by the
        // scale. The gradient of a bias is the sum over the batch.
        let outputs = engine.outputs(2).to_vec();
        let gradient = engine.output_gradient("fc2", 2).unwrap();
        for (i, g) in gradient.iter().enumerate() {
            let (row, other) = (i / 2, outputs[i ^ 1]);
            let probability = 1.0 / (1.0 + (other - outputs[i]).exp());
            let expect = 8.0 / 2.0 * (probability - f32::from(u8::from(i % 2 == row)));
            assert!((g - expect).abs() < 1e-5, "{i}: {g} {expect}");
        }
        let gradients = engine.gradients().unwrap();
        let bias = gradients.get("fc2.bias").unwrap();
        assert!((bias[0] - gradient[0] - gradient[2]).abs() < 1e-5);
        assert_eq!(engine.output_gradient("fc1", 1).map(<[f32]>::len), Some(4));
        assert!(engine.output_gradient("conv1", 1).is_none());
    }

    #[test]
    fn a_batch_that_does_not_fit_is_refused() {
        if warpbook_device::free_host_memory().is_none() {
            return;
        }
        // This network would need exabytes.
        let network = Network::new([2, 6, 7], [conv2d(1000, 1).padding(700), relu(), avg_pool(9)]).unwrap();
        let (weights, batch) = (Weights::init(&network, 1), 1 << 30);
        let why = CpuEngine::new(&network, batch, &weights, &Optimizer::sgd()).unwrap_err().to_string();
        assert!(why.starts_with("A batch of 1073741824 needs ") && why.contains(" MiB of memory, and "), "{why}");
    }
}
