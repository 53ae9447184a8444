//! Forward passes.

use super::{AcrossRanks, Multiply, PassBuilder, PassInputs};
use crate::network::{Op, PoolKind};
use crate::ops::batch_norm::cuda::{NormWorkspace, Normalisation};
use crate::ops::conv2d::cuda::Epilogue;
use crate::ops::linear::cuda::LinearEpilogue;
use crate::train::TrainError;
use warpbook_gemm::DeviceArray;

impl PassBuilder<'_> {
    pub(super) fn forward(&mut self, i: usize) -> Result<(), TrainError> {
        let before = self.passes.len();
        self.queue_forward(i)?;
        if self.passes.len() > before {
            let output = self.value(self.parts.fusion.writes(self.network().nodes(), i))?;
            if let Some(last) = self.passes.last_mut() {
                last.output = Some(output);
            }
        }
        Ok(())
    }

    /// Recomputes an operation for the backward pass, with the same bits; running statistics stay unchanged.
    pub(super) fn recompute_forward(&mut self, i: usize) -> Result<(), TrainError> {
        let before = self.passes.len();
        self.queue_forward(i)?;
        let name = format!("{} recomputation", self.node(i).name);
        self.passes[before..].iter_mut().for_each(|pass| pass.name.clone_from(&name));
        Ok(())
    }

    fn queue_forward(&mut self, i: usize) -> Result<(), TrainError> {
        let node = self.node(i);
        let PassInputs { fusion, kernels, .. } = self.parts;
        if fusion.nodes[i].skips_forward {
            return Ok(());
        }
        let (x, y) = (self.value(node.input)?, self.value(fusion.writes(self.network().nodes(), i))?);
        let in_place = fusion.in_place(node);
        match node.op {
            Op::Conv2d(_) | Op::Linear { .. } => self.product_forward(i, x, y)?,
            Op::Activation(f) => {
                let kernel = kernels.activations()?;
                self.push(&node.name, "forward", move |s| kernel.forward(s, f, &x, &y));
            }
            Op::Pool(p) => {
                let (kernel, g) = (kernels.pooling()?, self.network().pool_geometry(node, self.n));
                if p.kind == PoolKind::Max {
                    let places = self.maxima_positions(i, y.len())?;
                    self.push(&node.name, "forward", move |s| kernel.max_forward(s, &g, &x, &y, &places));
                } else {
                    self.push(&node.name, "forward", move |s| kernel.average_forward(s, &g, &x, &y));
                }
            }
            Op::BatchNorm { .. } => self.batch_norm_forward(i, x, y)?,
            Op::Dropout { .. } => match self.dropout(node) {
                Some((d, step)) => {
                    let kernel = self.masks(node)?;
                    self.push(&node.name, "forward", move |s| kernel.forward(s, &d, &step, &x, &y));
                }
                None if in_place => {}
                None => self.copy(&node.name, "forward", &x, &y),
            },
            Op::Flatten if in_place => {}
            Op::Flatten => self.copy(&node.name, "forward", &x, &y),
            Op::Own => self.custom_layer_forward(i, x, y),
            Op::Add(other) => {
                let (kernel, other) = (kernels.add()?, self.value(other)?);
                self.push(&node.name, "forward", move |s| kernel.forward(s, &other, &x, &y));
            }
        }
        Ok(())
    }

    fn product_forward(&mut self, i: usize, x: DeviceArray, y: DeviceArray) -> Result<(), TrainError> {
        let node = self.node(i);
        let relu = self.parts.fusion.nodes[i].relu;
        let (w, b, workspace) =
            (self.parts.params.operand(node.params[0]), self.bias(node), self.workspaces[0].clone());
        match self.products[i].clone() {
            Some(Multiply::Conv(c)) => {
                let epilogue = if relu { Epilogue::Relu } else { Epilogue::None };
                let Some(pool) = self.parts.fusion.nodes[i].pool else {
                    self.push(&node.name, "forward", move |s| {
                        c.forward(s, &x, &w, b.as_ref(), epilogue, &y, &workspace)
                    });
                    return Ok(());
                };
                let places = self.trains.then(|| self.maxima_positions(pool, y.len())).transpose()?;
                self.push(&node.name, "forward", move |s| {
                    c.forward_pooled(s, &x, &w, b.as_ref(), epilogue, (&y, places.as_ref()), &workspace)
                });
            }
            Some(Multiply::Linear(l)) => {
                let epilogue = if relu { LinearEpilogue::Relu } else { LinearEpilogue::None };
                self.push(&node.name, "forward", move |s| l.forward(s, &x, &w, b.as_ref(), epilogue, &y, &workspace));
            }
            None => {}
        }
        Ok(())
    }

    fn batch_norm_forward(&mut self, i: usize, x: DeviceArray, y: DeviceArray) -> Result<(), TrainError> {
        let node = self.node(i);
        let kernel = self.parts.kernels.normalisation()?;
        let mut b = self.network().batch_norm_sizes(node, self.n);
        if self.is_recomputing {
            // The running statistics already include this batch.
            b.momentum = 0.0;
        }
        let pixels = self.network().value(node.input).positions();
        let [gamma, beta, mean, variance] = [0, 1, 2, 3].map(|p| self.parts.params.master(node.params[p]));
        let sums = Normalisation::sums_len(&b);
        let (memory, lines) = (self.parts.memory, 3 * b.channels);
        let (sums, lines) = if self.is_recomputing {
            memory.recomputation_scratch(i, sums, lines)?
        } else {
            memory.scratch(i, false, sums, lines)?
        };
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
        let across = self.across(&b, pixels)?;
        self.push(&node.name, "forward", move |s| {
            let statistics = ([&mean, &variance], [&saved_mean, &inverse]);
            AcrossRanks::with(across.as_ref(), |across| {
                let workspace = NormWorkspace { sums: &sums, lines: &lines, across };
                kernel.forward_training(s, (&b, pixels), (&x, &y), [&gamma, &beta], statistics, workspace)
            })
        });
        Ok(())
    }
}
