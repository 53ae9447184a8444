//! The kernels of a training step, by rung, recipe and GPU. A record lists them even without a GPU.

use super::Way;
use crate::network::{Activation, Network, Node, Op, PoolKind, Shape};
use crate::ops::Layout;
use crate::ops::conv2d::cuda::{
    HOPPER, Method, few_specs_of, gradient_sums_of, implicit_spec_of, shifted_kernel_of, tma_kernel_of,
};
use crate::ops::custom_layer::{self, OwnSizes};
use crate::ops::pool::cuda::Pooling;
use crate::train::cuda::{FusionPlan, NodePlan};
use crate::train::{CudaOptions, Loss, Recipe};
use warpbook_kernels::nn::{self, conv2d::Pass};
use warpbook_record::{Dtype, KernelSpec};

impl Way {
    /// Returns the kernels of a recipe's training step on an H200, each once, in the order of their first launch. The list leaves out the kernels of
    /// libraries, and the kernels of linear layers if a rung of the matrix product is chosen by cost for each size.
    #[must_use]
    pub fn specs(&self, recipe: &Recipe) -> Vec<KernelSpec> {
        self.specs_on(Some(HOPPER), recipe)
    }

    /// Returns the kernels of [`Way::specs`] on a GPU of another compute capability.
    #[must_use]
    pub fn specs_on(&self, compute_capability: Option<(u32, u32)>, recipe: &Recipe) -> Vec<KernelSpec> {
        each_once(self.every_launch(compute_capability, recipe))
    }

    fn every_launch(&self, compute_capability: Option<(u32, u32)>, recipe: &Recipe) -> Vec<KernelSpec> {
        let CudaOptions { precision, layout, .. } = self.options;
        let (dtype, nodes) = (precision.activations(), recipe.network.nodes());
        let [start, judge, finish, loss_of_parts] = nn::step();
        let mut all = vec![start];
        if recipe.accumulate > 1 {
            all.extend([nn::add_weighted(Dtype::F32), nn::add_weighted(dtype), loss_of_parts]);
        }
        match recipe.network.input() {
            Shape::Image { .. } => all.push(nn::gather(dtype, layout)),
            // Targets stay in f32.
            Shape::Vector(_) => all.extend([nn::gather_rows(dtype), nn::gather_rows(Dtype::F32)]),
        }
        // An operation in an epilogue has no kernel of its own.
        let fusion = FusionPlan::new(&recipe.network, &self.options, compute_capability);
        let own_kernel = |skips: fn(&NodePlan) -> bool| -> Vec<(usize, &Node)> {
            nodes.iter().enumerate().filter(|(i, _)| !skips(&fusion.nodes[*i])).collect()
        };
        all.extend(own_kernel(|plan| plan.skips_forward).into_iter().flat_map(|(i, node)| match node.op {
            Op::Conv2d(_) => self.convolution(recipe, &fusion, (i, node), compute_capability),
            _ => self.forward(&recipe.network, &fusion, (i, node)),
        }));
        // A recipe that cannot be trained runs no kernel.
        let grouped = recipe.grouped().ok().flatten();
        let last_block = self.options.has_last_blocks(recipe);
        match recipe.loss {
            Loss::CrossEntropy { .. } if last_block => all.push(nn::cross_entropy_last(dtype)),
            Loss::Mse if last_block => all.push(nn::mse_last(dtype)),
            Loss::CrossEntropy { .. } => all.extend([nn::cross_entropy(dtype), nn::mean_loss()]),
            Loss::Mse => all.extend([nn::mse(dtype), nn::mean_loss()]),
        }
        let backwards = own_kernel(|plan| plan.skips_backward).into_iter().rev();
        all.extend(backwards.flat_map(|(i, node)| self.backward(&recipe.network, &fusion, (i, node))));
        let computes_norm = recipe.clip.is_some() || precision.scales_the_loss();
        if last_block {
            all.extend(computes_norm.then(|| nn::sum_squares_last(dtype)));
            all.push(recipe.optimizer.among(nn::updates_last(dtype)));
            return all;
        }
        if computes_norm {
            all.extend(nn::norm(Dtype::F32));
        }
        all.extend([judge, nn::prepare()]);
        match &grouped {
            None => all.push(recipe.optimizer.among(nn::updates(dtype))),
            Some(grouped) => {
                all.push(nn::update_groups(dtype));
                all.extend(grouped.has_muon().then(|| nn::muon(dtype)).into_iter().flatten());
            }
        }
        all.push(finish);
        all
    }

    fn forward(&self, network: &Network, fusion: &FusionPlan, (i, node): (usize, &Node)) -> Vec<KernelSpec> {
        let (dtype, layout) = (self.options.precision.activations(), self.options.layout);
        match node.op {
            Op::Linear { .. } => self.linear_forward(fusion, i, node),
            Op::Activation(f) => vec![activation(f, dtype)[0].clone()],
            Op::Pool(p) => vec![self.pool(network, node, p.kind)[0].clone()],
            Op::BatchNorm { .. } => {
                let b = nn::batch_norm(dtype, layout);
                vec![b.sums_forward, b.statistics, b.normalise]
            }
            Op::Dropout { p, .. } if p > 0.0 => vec![nn::dropout(dtype)],
            Op::Add(_) => vec![nn::add(dtype)[0].clone()],
            Op::Dropout { .. } | Op::Flatten | Op::Conv2d(_) => vec![],
            Op::Own => self.own(network, node, 0),
        }
    }

    /// Returns the forward (`which` is 0) or backward (`which` is 1) kernel of a custom layer.
    fn own(&self, network: &Network, node: &Node, which: usize) -> Vec<KernelSpec> {
        let (dtype, layout) = (self.options.precision.activations(), self.options.layout);
        let spec_of = |own| {
            custom_layer::specs(own, &OwnSizes::new(own, network.value(node.input), 1, layout), dtype)[which].clone()
        };
        node.own.iter().map(spec_of).collect()
    }

    fn backward(&self, network: &Network, fusion: &FusionPlan, (i, node): (usize, &Node)) -> Vec<KernelSpec> {
        let (dtype, layout) = (self.options.precision.activations(), self.options.layout);
        match node.op {
            Op::Linear { .. } => self.linear_backward(fusion, i, node),
            Op::Activation(f) => vec![activation(f, dtype)[1].clone()],
            Op::Pool(p) => vec![self.pool(network, node, p.kind)[1].clone()],
            Op::BatchNorm { .. } => {
                let b = nn::batch_norm(dtype, layout);
                vec![b.sums_backward, b.lines, b.backward]
            }
            Op::Dropout { p, .. } if p > 0.0 => vec![nn::dropout(dtype)],
            Op::Add(_) => vec![nn::add(dtype)[1].clone()],
            Op::Own => self.own(network, node, 1),
            _ => vec![],
        }
    }

    /// Returns the kernels of a convolution's forward pass and of its gradients.
    fn convolution(
        &self,
        recipe: &Recipe,
        fusion: &FusionPlan,
        (i, node): (usize, &Node),
        compute_capability: Option<(u32, u32)>,
    ) -> Vec<KernelSpec> {
        let CudaOptions { precision, layout, .. } = self.options;
        let (dtype, stored, has_bias) = (precision.products(), precision.activations(), node.params.len() > 1);
        let bias = || match layout {
            Layout::Nhwc => vec![nn::partial_sums(stored), nn::total_sums()],
            Layout::Nchw => vec![warpbook_kernels::matmul::column_sums(stored, true), nn::total_sums()],
        };
        let method = self.options.method_of(node).on(compute_capability, dtype);
        match method {
            Method::Direct => nn::conv2d::direct(layout).into(),
            Method::Im2col => {
                let products = self.im2col_products(fusion, i, node);
                nn::conv2d::im2col(stored, layout).into_iter().chain(products).chain(bias()).collect()
            }
            Method::Stock | Method::StockFastest => {
                let sums = if has_bias { bias() } else { vec![] };
                self.after_cudnn(fusion, i, node).into_iter().chain(sums).collect()
            }
            Method::ImplicitGemm
            | Method::ImplicitGemmTuring
            | Method::ShiftedWindows
            | Method::FewChannels
            | Method::ManyChannels => {
                let geometry = recipe.network.conv_geometry(node, recipe.batch);
                let pool = fusion.nodes[i].pool.is_some();
                let shifted = |pass| {
                    (method.has_shifted_windows() && compute_capability == Some(HOPPER))
                        .then(|| shifted_kernel_of(pass, dtype, &geometry, layout, pool))
                        .flatten()
                };
                let turing = method == Method::ImplicitGemmTuring;
                let by_tma = |pass| {
                    (method == Method::ManyChannels).then(|| tma_kernel_of(pass, dtype, &geometry, layout)).flatten()
                };
                let implicit = |pass| implicit_spec_of(pass, dtype, &geometry, layout, turing, pool);
                let spec = |pass| by_tma(pass).or_else(|| shifted(pass)).or_else(|| implicit(pass));
                if method.has_few_channels()
                    && let Some(few) = few_specs_of(dtype, &geometry, layout, [pool, fusion.nodes[i].unpools])
                {
                    let dx = fusion.needs_gradient(node.input).then(|| spec(Pass::InputGradient)).flatten();
                    return few.into_iter().chain(dx).chain(gradient_sums_of(&geometry, layout, true)).collect();
                }
                // Shifted windows also sum dy.
                let uses_shifted_windows = shifted(Pass::WeightGradient).is_some();
                let sums = if has_bias && !uses_shifted_windows { bias() } else { vec![] };
                let total = gradient_sums_of(&geometry, layout, uses_shifted_windows);
                Pass::ALL.into_iter().filter_map(spec).chain(sums).chain(total).collect()
            }
        }
    }

    /// Returns the kernels of a pool, forward and backward.
    fn pool(&self, network: &Network, node: &Node, kind: PoolKind) -> [KernelSpec; 2] {
        let (dtype, layout) = (self.options.precision.activations(), self.options.layout);
        let [max, max_backward, average, average_backward] = nn::pool(dtype, layout);
        match kind {
            PoolKind::Max if Pooling::masks(&network.pool_geometry(node, 1), dtype, layout) => nn::pool_adjacent(dtype),
            PoolKind::Max => [max, max_backward],
            PoolKind::Average => [average, average_backward],
        }
    }
}

/// Keeps the first of equal kernels, in order.
pub(super) fn each_once(specs: impl IntoIterator<Item = KernelSpec>) -> Vec<KernelSpec> {
    let mut all = Vec::new();
    for spec in specs {
        if !all.contains(&spec) {
            all.push(spec);
        }
    }
    all
}

/// Returns the kernels of an activation, forward and backward.
fn activation(f: Activation, dtype: Dtype) -> [KernelSpec; 2] {
    let [relu, relu_backward, gelu, gelu_backward] = nn::activation(dtype);
    match f {
        Activation::Relu => [relu, relu_backward],
        Activation::Gelu => [gelu, gelu_backward],
    }
}
