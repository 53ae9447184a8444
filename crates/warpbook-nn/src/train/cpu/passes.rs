//! Passes of single operations.

use super::{CpuEngine, KeptValues, Mode};
use crate::network::{Node, Op, PoolKind, Shape, ValueId, transpose_into};
use crate::ops::batch_norm::{Running, Saved};
use crate::ops::dropout::Dropout;
use crate::ops::{activation, add, batch_norm, conv2d, dropout, linear, pool};
use crate::train::{Ranks, TrainError};
use std::mem::take;

impl CpuEngine {
    pub(super) fn node_forward(
        &mut self,
        node: &Node,
        n: usize,
        y: &mut [f32],
        kept: &mut KeptValues,
        is_first: bool,
    ) -> Result<(), TrainError> {
        let (input, output) = (self.network.value(node.input), self.network.value(node.output));
        let y = &mut y[..output.elements() * n];
        if let Op::BatchNorm { .. } = node.op {
            return self.batch_norm_forward(node, n, y, kept, is_first);
        }
        let x = &self.values[node.input][..input.elements() * n];
        match node.op {
            Op::Conv2d(_) => {
                conv2d::cpu::forward(&self.network.conv_geometry(node, n), x, self.weight(node), self.bias(node), y)?
            }
            Op::Linear { .. } => {
                linear::cpu::forward(&self.network.linear_sizes(node, n), x, self.weight(node), self.bias(node), y)?;
            }
            Op::Activation(f) => activation::cpu::forward(f, x, y)?,
            Op::Pool(p) => match (p.kind, kept) {
                (PoolKind::Max, KeptValues::Places(places)) => {
                    pool::cpu::max_forward(
                        &self.network.pool_geometry(node, n),
                        x,
                        y,
                        &mut places[..output.elements() * n],
                    )?;
                }
                _ => pool::cpu::average_forward(&self.network.pool_geometry(node, n), x, y)?,
            },
            Op::Dropout { .. } => match self.dropout(node) {
                Some(d) => dropout::cpu::forward_from(&d, self.first_element(output), x, y)?,
                None => y.copy_from_slice(x),
            },
            Op::Flatten => self.flatten(input, x, y, Direction::Forward),
            Op::Add(other) => add::cpu::forward(&self.values[other][..y.len()], x, y)?,
            Op::Own => self.custom_layer_forward(node, n, x, y)?,
            Op::BatchNorm { .. } => {}
        }
        Ok(())
    }

    fn batch_norm_forward(
        &mut self,
        node: &Node,
        n: usize,
        y: &mut [f32],
        kept: &mut KeptValues,
        is_first: bool,
    ) -> Result<(), TrainError> {
        let mut b = self.network.batch_norm_sizes(node, n);
        if !is_first {
            // The running statistics already include this batch.
            b.momentum = 0.0;
        }
        let [gamma, beta, mean, variance] = [0, 1, 2, 3].map(|i| node.params[i]);
        let x = &self.values[node.input][..y.len()];
        match (self.mode, kept) {
            (Mode::Training { .. }, KeptValues::Statistics([saved_mean, inverse_deviation])) => {
                let (mut m, mut v) = (take(&mut self.weights[mean]), take(&mut self.weights[variance]));
                let running = Running { mean: &mut m, variance: &mut v };
                let saved = Saved { mean: saved_mean, inverse_deviation };
                let scale = [&self.weights[gamma][..], &self.weights[beta][..]];
                let mut lost = Ok(());
                let mut add = |sums: &mut [f64]| add_ranks(self.part.norm.as_ref(), sums, &mut lost);
                let across =
                    batch_norm::cpu::JoinSums { counts: self.part.counts || self.part.norm.is_none(), add: &mut add };
                let done = batch_norm::cpu::forward_training_across(&b, x, scale, y, running, saved, across);
                (self.weights[mean], self.weights[variance]) = (m, v);
                lost?;
                Ok(done?)
            }
            _ => {
                let [gamma, beta, mean, variance] = [gamma, beta, mean, variance].map(|id| &self.weights[id][..]);
                Ok(batch_norm::cpu::forward_inference(&b, x, [gamma, beta], [mean, variance], y)?)
            }
        }
    }

    /// Computes the gradients of a node's parameters and input from the gradient of its output. `written` marks the values that
    /// already have a gradient, to which further ones are added.
    pub(super) fn node_backward(
        &mut self,
        i: usize,
        node: &Node,
        n: usize,
        dy: &[f32],
        written: &mut [bool],
    ) -> Result<(), TrainError> {
        let (input, output) = (self.network.value(node.input), self.network.value(node.output));
        let dy = &dy[..output.elements() * n];
        match node.op {
            // The branch ends here; the value at its beginning gets the same gradient.
            Op::Add(other) => {
                self.join(other, dy, written)?;
                return self.join(node.input, dy, written);
            }
            Op::BatchNorm { .. } => return self.batch_norm_backward(i, node, n, dy, written),
            Op::Own => return self.custom_layer_backward(node, n, dy, written),
            Op::Conv2d(_) | Op::Linear { .. } => self.weight_gradient(node, n, dy)?,
            _ => {}
        }
        if node.input == 0 {
            return Ok(());
        }
        let len = input.elements() * n;
        let mut dx = take(&mut self.value_gradients[node.input]);
        let before = written[node.input].then(|| dx[..len].to_vec());
        let done = self.input_gradient(i, node, n, dy, &mut dx[..len]);
        let joined = done.and_then(|()| Ok(before.map_or(Ok(()), |b| add::cpu::accumulate(&b, &mut dx[..len]))?));
        self.value_gradients[node.input] = dx;
        written[node.input] = true;
        joined
    }

    /// Adds `dy` to the gradient of a value, or stores `dy` if the value has no gradient yet.
    pub(super) fn join(&mut self, value: ValueId, dy: &[f32], written: &mut [bool]) -> Result<(), TrainError> {
        if value == 0 {
            return Ok(());
        }
        let dx = &mut self.value_gradients[value][..dy.len()];
        if written[value] {
            add::cpu::accumulate(dy, dx)?;
        } else {
            dx.copy_from_slice(dy);
        }
        written[value] = true;
        Ok(())
    }

    fn weight_gradient(&mut self, node: &Node, n: usize, dy: &[f32]) -> Result<(), TrainError> {
        let input = self.network.value(node.input);
        if self.network.params()[node.params[0]].frozen {
            if let Some(id) = node.params.get(1) {
                sum_columns(dy, &mut self.gradients[*id]);
            }
            return Ok(());
        }
        let x = &self.values[node.input][..input.elements() * n];
        let mut dw = take(&mut self.gradients[node.params[0]]);
        let mut db = node.params.get(1).map(|id| take(&mut self.gradients[*id]));
        let done = if matches!(node.op, Op::Conv2d(_)) {
            conv2d::cpu::weight_gradient(&self.network.conv_geometry(node, n), x, dy, &mut dw, db.as_deref_mut())
        } else {
            linear::cpu::weight_gradient(&self.network.linear_sizes(node, n), x, dy, &mut dw, db.as_deref_mut())
        };
        self.gradients[node.params[0]] = dw;
        db.into_iter().zip(&node.params[1..]).for_each(|(db, id)| self.gradients[*id] = db);
        Ok(done?)
    }

    fn batch_norm_backward(
        &mut self,
        i: usize,
        node: &Node,
        n: usize,
        dy: &[f32],
        written: &mut [bool],
    ) -> Result<(), TrainError> {
        let b = self.network.batch_norm_sizes(node, n);
        let [gamma, beta] = [node.params[0], node.params[1]];
        let (mut dgamma, mut dbeta) = (take(&mut self.gradients[gamma]), take(&mut self.gradients[beta]));
        let mut dx = vec![0.0; dy.len()];
        let mut lost = Ok(());
        let mut add = |sums: &mut [f64]| add_ranks(self.part.norm.as_ref(), sums, &mut lost);
        let across = batch_norm::cpu::JoinSums { counts: self.part.counts || self.part.norm.is_none(), add: &mut add };
        let done = match &self.kept[i] {
            KeptValues::Statistics([mean, inverse_deviation]) => batch_norm::cpu::backward_across(
                &b,
                &self.values[node.input][..dy.len()],
                &self.weights[gamma],
                [mean, inverse_deviation],
                dy,
                &mut dx,
                [&mut dgamma, &mut dbeta],
                across,
            ),
            _ => Ok(()),
        };
        (self.gradients[gamma], self.gradients[beta]) = (dgamma, dbeta);
        lost?;
        done?;
        self.join(node.input, &dx, written)
    }

    fn input_gradient(&self, i: usize, node: &Node, n: usize, dy: &[f32], dx: &mut [f32]) -> Result<(), TrainError> {
        let input = self.network.value(node.input);
        match node.op {
            Op::Conv2d(_) => {
                conv2d::cpu::input_gradient(&self.network.conv_geometry(node, n), dy, self.weight(node), dx)?
            }
            Op::Linear { .. } => {
                linear::cpu::input_gradient(&self.network.linear_sizes(node, n), dy, self.weight(node), dx)?;
            }
            Op::Activation(f) => {
                let kept = match f.keeps() {
                    activation::Kept::Input => node.input,
                    activation::Kept::Output => node.output,
                };
                activation::cpu::backward(f, &self.values[kept][..dy.len()], dy, dx)?;
            }
            Op::Pool(_) => match &self.kept[i] {
                KeptValues::Places(places) => {
                    pool::cpu::max_backward(&self.network.pool_geometry(node, n), &places[..dy.len()], dy, dx)?;
                }
                _ => pool::cpu::average_backward(&self.network.pool_geometry(node, n), dy, dx)?,
            },
            Op::Dropout { .. } => match self.dropout(node) {
                Some(d) => dropout::cpu::backward_from(&d, self.first_element(input), dy, dx)?,
                None => dx.copy_from_slice(dy),
            },
            Op::Flatten => self.flatten(input, dy, dx, Direction::Backward),
            // These operations add their gradients themselves.
            Op::BatchNorm { .. } | Op::Add(_) | Op::Own => {}
        }
        Ok(())
    }

    /// Returns the index of a value's first element in the global batch's value.
    fn first_element(&self, value: Shape) -> u64 {
        (self.part.first * value.elements()) as u64
    }

    fn weight(&self, node: &Node) -> &[f32] {
        &self.weights[node.params[0]]
    }

    fn bias(&self, node: &Node) -> Option<&[f32]> {
        node.params.get(1).map(|id| &self.weights[*id][..])
    }

    /// Returns a node's dropout in this pass; `None` in inference.
    fn dropout(&self, node: &Node) -> Option<Dropout> {
        match (node.op, self.mode) {
            (Op::Dropout { p, layer }, Mode::Training { seed, step }) => {
                Some(Dropout { seed, layer, step, probability: p })
            }
            _ => None,
        }
    }

    fn flatten(&self, image: Shape, from: &[f32], to: &mut [f32], direction: Direction) {
        let (channels, pixels) = (image.channels(), image.positions());
        if !self.arrangement.transposes() || channels == 1 || pixels == 1 {
            to.copy_from_slice(from);
            return;
        }
        let (rows, columns) = match direction {
            Direction::Forward => (pixels, channels),
            Direction::Backward => (channels, pixels),
        };
        transpose_into(from, to, rows, columns);
    }
}

/// Adds the other ranks' sums, if ranks share statistics.
fn add_ranks(ranks: Option<&Ranks>, sums: &mut [f64], lost: &mut Result<(), TrainError>) {
    let (Some(ranks), true) = (ranks, lost.is_ok()) else { return };
    match ranks.sums(sums) {
        Ok(all) => sums.copy_from_slice(&all),
        Err(why) => *lost = Err(why),
    }
}

/// Sums each column over all rows, in f64; `rows` is `[n][to.len()]`.
fn sum_columns(rows: &[f32], to: &mut [f32]) {
    let mut sums = vec![0.0f64; to.len()];
    for row in rows.chunks_exact(to.len()) {
        sums.iter_mut().zip(row).for_each(|(sum, v)| *sum += f64::from(*v));
    }
    to.iter_mut().zip(sums).for_each(|(to, sum)| *to = sum as f32);
}

#[derive(Clone, Copy)]
enum Direction {
    Forward,
    Backward,
}
