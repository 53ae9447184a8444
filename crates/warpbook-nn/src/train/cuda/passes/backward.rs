//! Gradients of values and weights.

use super::{AcrossRanks, Multiply, On, PassBuilder, PassInputs};
use crate::network::{Op, PoolKind, ValueId};
use crate::ops::Layout;
use crate::ops::activation;
use crate::ops::batch_norm::cuda::{NormWorkspace, Normalisation};
use crate::ops::conv2d::cuda::PooledGradient;
use crate::train::TrainError;
use warpbook_device::Result;
use warpbook_gemm::{DeviceArray, RowsOf, Sums, Workspace};

impl PassBuilder<'_> {
    pub(super) fn backward(&mut self, i: usize) -> std::result::Result<(), TrainError> {
        let node = self.node(i);
        let PassInputs { fusion, kernels, .. } = self.parts;
        if !self.needs_gradient(node.output) || fusion.nodes[i].skips_backward {
            return Ok(());
        }
        let dy = self.gradient(fusion.backward_input(self.network().nodes(), i))?;
        if matches!(node.op, Op::Conv2d(_) | Op::Linear { .. }) {
            self.weight_gradient(i, &dy)?;
        }
        let (in_place, needed) = (fusion.in_place(node), self.needs_gradient(node.input));
        if let Op::Add(other) = node.op {
            return self.add_backward(i, other, &dy);
        }
        if let Op::BatchNorm { .. } = node.op {
            return self.batch_norm_backward(i, dy);
        }
        if node.op == Op::Own {
            return self.custom_layer_backward(i, dy);
        }
        if !needed {
            return Ok(());
        }
        let joins = !in_place && fusion.joins(self.network().nodes(), i, node.input);
        let dx = if joins { self.parts.memory.joined(i, self.len(node.input))? } else { self.gradient(node.input)? };
        match node.op {
            Op::Conv2d(_) | Op::Linear { .. } => self.product_backward(i, dy, dx.clone())?,
            Op::Activation(f) => {
                let kept = match f.keeps() {
                    activation::Kept::Input => self.value(node.input)?,
                    activation::Kept::Output => self.value(node.output)?,
                };
                let (kernel, dx) = (kernels.activations()?, dx.clone());
                self.push(&node.name, "backward", move |s| kernel.backward(s, f, &kept, &dy, &dx));
            }
            Op::Pool(p) => {
                let (kernel, g) = (kernels.pooling()?, self.network().pool_geometry(node, self.n));
                let dx = dx.clone();
                if p.kind == PoolKind::Max {
                    let places = self.maxima_positions(i, dy.len())?;
                    if let Some((y, scale)) = self.pool_mask(i)? {
                        self.push(&node.name, "backward", move |s| {
                            kernel.max_backward_masked(s, &g, (&places, &y, scale), &dy, &dx)
                        });
                    } else {
                        self.push(&node.name, "backward", move |s| kernel.max_backward(s, &g, &places, &dy, &dx));
                    }
                } else {
                    self.push(&node.name, "backward", move |s| kernel.average_backward(s, &g, &dy, &dx));
                }
            }
            Op::Dropout { .. } => match self.dropout(node) {
                Some((d, step)) => {
                    let (kernel, dx) = (self.masks(node)?, dx.clone());
                    self.push(&node.name, "backward", move |s| kernel.backward(s, &d, &step, &dy, &dx));
                }
                None if in_place => {}
                None => self.copy(&node.name, "backward", &dy, &dx),
            },
            Op::Flatten if in_place => {}
            Op::Flatten => self.copy(&node.name, "backward", &dy, &dx),
            Op::Add(_) | Op::BatchNorm { .. } | Op::Own => {}
        }
        if joins {
            self.accumulate(&node.name, dx, self.gradient(node.input)?)?;
        }
        Ok(())
    }

    pub(super) fn accumulate(&mut self, name: &str, from: DeviceArray, to: DeviceArray) -> Result<()> {
        let kernel = self.parts.kernels.add()?;
        self.push(name, "sum of gradients", move |s| kernel.accumulate(s, &from, &to));
        Ok(())
    }

    /// Returns the mask for the gradient of a pool that follows a ReLU, which is the pool's output, and the factor of a dropout after the pool.
    fn pool_mask(&self, i: usize) -> Result<Option<(DeviceArray, f32)>> {
        let fusion = self.parts.fusion;
        if !fusion.nodes[i].mask {
            return Ok(None);
        }
        let dropout = fusion.nodes[i].dropout.and_then(|i| self.dropout(self.node(i)));
        let scale = dropout.map_or(1.0, |(d, _)| d.scale());
        Ok(Some((self.value(self.node(i).output)?, scale)))
    }

    /// Passes the gradient of a sum on to both inputs.
    fn add_backward(&mut self, i: usize, other: ValueId, dy: &DeviceArray) -> std::result::Result<(), TrainError> {
        let (node, fusion) = (self.node(i), self.parts.fusion);
        for value in [other, node.input] {
            let same = fusion.buffer[value] == fusion.buffer[node.output];
            if same || !self.needs_gradient(value) {
                continue;
            }
            let to = self.gradient(value)?;
            if fusion.joins(self.network().nodes(), i, value) {
                self.accumulate(&node.name, dy.clone(), to)?;
            } else {
                self.copy(&node.name, "backward", dy, &to);
            }
        }
        Ok(())
    }

    fn batch_norm_backward(&mut self, i: usize, dy: DeviceArray) -> std::result::Result<(), TrainError> {
        let node = self.node(i);
        let kernel = self.parts.kernels.normalisation()?;
        let (memory, params, fusion) = (self.parts.memory, self.parts.params, self.parts.fusion);
        let b = self.network().batch_norm_sizes(node, self.n);
        let pixels = self.network().value(node.input).positions();
        let saved = memory.kept::<f32>(i, 2 * b.channels)?;
        let (mean, inverse) = (saved.range(..b.channels), saved.range(b.channels..));
        let (sums, lines) = memory.scratch(i, true, Normalisation::sums_len(&b), 3 * b.channels)?;
        let (gamma, x) = (params.master(node.params[0]), self.value(node.input)?);
        let [dgamma, dbeta] = [0, 1].map(|p| params.gradient(node.params[p]));
        let needed = self.needs_gradient(node.input);
        let joins = needed && fusion.joins(self.network().nodes(), i, node.input);
        // The kernel always writes dx; if nothing reads dx, it overwrites dy.
        let dx = match (needed, joins) {
            (false, _) => dy.clone(),
            (_, true) => memory.joined(i, self.len(node.input))?,
            _ => self.gradient(node.input)?,
        };
        let (to, across) = (dx.clone(), self.across(&b, pixels)?);
        self.push(&node.name, "backward", move |s| {
            let (arrays, saved, gradients) = ([&x, &dy, &to], (&gamma, [&mean, &inverse]), [&dgamma, &dbeta]);
            AcrossRanks::with(across.as_ref(), |across| {
                let workspace = NormWorkspace { sums: &sums, lines: &lines, across };
                kernel.backward(s, (&b, pixels), arrays, saved, gradients, workspace)
            })
        });
        if joins {
            self.accumulate(&node.name, dx, self.gradient(node.input)?)?;
        }
        Ok(())
    }

    /// Computes only the gradient of the bias, if the layer has one.
    fn frozen_gradient(&mut self, i: usize, dy: &DeviceArray) -> Result<()> {
        let (node, device, options) = (self.node(i), self.parts.device, self.parts.options);
        let Some(id) = node.params.get(1) else { return Ok(()) };
        let (db, output) = (self.parts.params.gradient(*id), self.network().value(node.output));
        // The layer was planned with these sizes, so they fit.
        let word = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let rows = match options.layout {
            Layout::Nhwc => RowsOf::Matrix { rows: word(self.n * output.positions()) },
            Layout::Nchw => RowsOf::Images { images: word(self.n), pixels: word(output.positions()) },
        };
        let sums = Sums::new(device, options.precision.activations(), word(output.channels()), rows)?;
        let workspace = Workspace::new(device, sums.workspace_bytes())?;
        let dy = dy.clone();
        self.push(&node.name, "weight gradient", move |s| sums.queue(s, &dy, &db, &workspace));
        self.run_last_on(On::Side);
        Ok(())
    }

    fn weight_gradient(&mut self, i: usize, dy: &DeviceArray) -> Result<()> {
        let node = self.node(i);
        let (on, workspace) = self.stream_of_weights(i);
        let (x, dy) = (self.value(node.input)?, dy.clone());
        let params = self.parts.params;
        let db = node.params.get(1).map(|id| self.parts.params.gradient(*id));
        if self.network().params()[node.params[0]].frozen && self.parts.fusion.unpooled(i).is_none() {
            return self.frozen_gradient(i, &dy);
        }
        match self.products[i].clone() {
            Some(Multiply::Conv(c)) => {
                let dw = params.gradient(node.params[0]);
                if let Some(pool) = self.parts.fusion.unpooled(i) {
                    let places = self.maxima_positions(pool, dy.len())?;
                    let mask = self.pool_mask(pool)?;
                    self.push(&node.name, "weight gradient", move |s| {
                        let mask = mask.as_ref().map(|(mask, scale)| (mask, *scale));
                        let pooled = PooledGradient { dy: &dy, places: &places, mask };
                        c.pooled_weight_gradient(s, &x, &pooled, &dw, db.as_ref(), &workspace)
                    });
                } else {
                    self.push(&node.name, "weight gradient", move |s| {
                        c.weight_gradient(s, &x, &dy, &dw, db.as_ref(), &workspace)
                    });
                }
            }
            Some(Multiply::Linear(l)) => {
                let dw = params.gradient_array(node.params[0]);
                // If the bias gradient is reduced later, the reduction of the weight gradient does not wait for the bias gradient.
                let later = db.clone().filter(|_| self.reductions.front().is_some_and(|r| r.node == i && !r.with_bias));
                let db = db.filter(|_| later.is_none());
                let (linear, of_bias, of_weights) = (l.clone(), dy.clone(), workspace.clone());
                self.push(&node.name, "weight gradient", move |s| {
                    linear.weight_gradient(s, &x, &dy, &dw, db.as_ref(), &of_weights)
                });
                if let Some(db) = later {
                    self.run_last_on(on);
                    self.reduce(i);
                    self.push(&node.name, "bias gradient", move |s| l.bias_gradient(s, &of_bias, &db, &workspace));
                }
            }
            None => {}
        }
        self.run_last_on(on);
        self.reduce(i);
        Ok(())
    }

    /// Returns the stream and the workspace of a layer's weight gradient. The weight gradient runs in parallel with the input gradients, except in a layer
    /// without an input gradient, such as the first: there it runs on the first stream, which then waits only for the end of the second.
    fn stream_of_weights(&self, i: usize) -> (On, Workspace) {
        let at = usize::from(self.needs_gradient(self.node(i).input));
        ([On::Main, On::Side][at], self.workspaces[at].clone())
    }

    fn product_backward(&mut self, i: usize, dy: DeviceArray, dx: DeviceArray) -> Result<()> {
        let node = self.node(i);
        let w = self.parts.params.operand(node.params[0]);
        let mask = self.parts.fusion.nodes[i].mask.then(|| self.value(node.input)).transpose()?;
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
}
