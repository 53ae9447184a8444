//! The ways of training on a GPU that are compared with each other, from direct convolutions to one graph, and the kernels that each runs.

use super::cuda::Sharing;
use super::variants::variants;
use super::{CudaOptions, Loss, Precision, Recipe, cuda};
use crate::network::{Activation, Network, Node, Op, PoolKind, Shape};
use crate::ops::Layout;
use crate::ops::conv2d::cuda::{HOPPER, Method, few_specs_of, gradient_sums_of, implicit_spec_of, shifted_kernel_of};
use crate::ops::own::{self, OwnSizes};
use crate::ops::pool::cuda::Pooling;
use warpbook_kernels::nn::{self, conv2d::Pass};
use warpbook_record::{Dtype, KernelSpec, Requires, Rung, Runner, Schedule};

/// A way of training on a GPU: each differs from the one before it, or from its base, in one thing.
#[derive(Debug, Clone, PartialEq)]
pub struct Way {
    /// Its id, as in `05_nhwc`; never renumbered.
    pub id: &'static str,
    /// A few words.
    pub title: &'static str,
    /// The idea in a sentence.
    pub idea: &'static str,
    /// The way that it changes one thing of, where that is not the one before it in the ladder.
    pub base: Option<&'static str>,
    /// The hardware it needs.
    pub requires: Requires,
    /// How a GPU trains this way.
    pub options: CudaOptions,
}

/// All ways: the ladder in its order, then those next to it.
#[must_use]
pub fn ways() -> Vec<Way> {
    let mut all = ladder();
    all.extend(variants(&all));
    all
}

fn ladder() -> Vec<Way> {
    use Layout::{Nchw, Nhwc};
    use Method::{Direct, FewChannels, Im2col, ImplicitGemm, ShiftedWindows};
    use Precision::{AmpBf16, AmpFp16, Fp32, Tf32};
    let way = |id, title, idea, (precision, layout, convolution): (Precision, Layout, Method), fused, graph| Way {
        id,
        title,
        idea,
        base: None,
        requires: precision.requires(),
        options: CudaOptions {
            layout,
            convolution,
            fused,
            graph,
            overlap: false,
            dependent: false,
            last_block: false,
            ..CudaOptions::new(precision)
        },
    };
    vec![
        way(
            "01_direct",
            "Direct convolutions",
            "Each convolution is a loop over its window, each operation a kernel, and each kernel a launch; all in fp32.",
            (Fp32, Nchw, Direct),
            false,
            false,
        ),
        way(
            "02_im2col",
            "im2col and GEMM",
            "The windows are written out as a matrix, so that a convolution is a matrix product.",
            (Fp32, Nchw, Im2col),
            false,
            false,
        ),
        way(
            "03_implicit_gemm",
            "Implicit GEMM",
            "The product reads the windows from the image itself, so that their matrix never exists in memory.",
            (Fp32, Nchw, ImplicitGemm),
            false,
            false,
        ),
        way(
            "04_tf32",
            "tf32 tensor cores",
            "Products round their operands to tf32 and run on tensor cores; everything else stays in fp32.",
            (Tf32, Nchw, ImplicitGemm),
            false,
            false,
        ),
        way(
            "05_nhwc",
            "Channels last",
            "Images lie with their channels next to each other, so that a window is read in long pieces.",
            (Tf32, Nhwc, ImplicitGemm),
            false,
            false,
        ),
        way(
            "06_amp_fp16",
            "AMP, fp16",
            "Activations and operands are in fp16, half the bytes; the loss is scaled, and weights and sums stay in fp32.",
            (AmpFp16, Nhwc, ImplicitGemm),
            false,
            false,
        ),
        way(
            "06_amp_bf16",
            "AMP, bf16",
            "The same in bf16, whose range is that of fp32 and needs no scaled loss.",
            (AmpBf16, Nhwc, ImplicitGemm),
            false,
            false,
        ),
        way(
            "07_fused_fp16",
            "Fused epilogues, fp16",
            "Biases, ReLUs and pools are computed where a product stores its sums, so that what is between them is never written.",
            (AmpFp16, Nhwc, ImplicitGemm),
            true,
            false,
        ),
        way(
            "07_fused_bf16",
            "Fused epilogues, bf16",
            "The same in bf16: biases, ReLUs and pools in the epilogues of products.",
            (AmpBf16, Nhwc, ImplicitGemm),
            true,
            false,
        ),
        way(
            "08_graph_fp16",
            "One CUDA graph, fp16",
            "The whole step, from the choice of its samples to the update, is captured once and replayed by a single launch.",
            (AmpFp16, Nhwc, ImplicitGemm),
            true,
            true,
        ),
        way(
            "08_graph_bf16",
            "One CUDA graph, bf16",
            "The same in bf16: one launch per step.",
            (AmpBf16, Nhwc, ImplicitGemm),
            true,
            true,
        ),
        overlapped(way(
            "09_overlap_fp16",
            "Two streams, fp16",
            "Weight gradients run on a second branch of the graph, while the first goes on backwards to the layers before.",
            (AmpFp16, Nhwc, ImplicitGemm),
            true,
            true,
        )),
        overlapped(way(
            "09_overlap_bf16",
            "Two streams, bf16",
            "The same in bf16: a second branch for the weight gradients.",
            (AmpBf16, Nhwc, ImplicitGemm),
            true,
            true,
        )),
        hopper(overlapped(way(
            "10_windows_fp16",
            "Shifted windows, fp16",
            "A tile of the image is copied to shared memory once, by TMA, and each tap multiplies it shifted, by Hopper's wgmma.",
            (AmpFp16, Nhwc, ShiftedWindows),
            true,
            true,
        ))),
        hopper(overlapped(way(
            "10_windows_bf16",
            "Shifted windows, bf16",
            "The same in bf16: an element of the image is read from L2 once, not once a tap.",
            (AmpBf16, Nhwc, ShiftedWindows),
            true,
            true,
        ))),
        ampere(overlapped(way(
            "11_few_channels_fp16",
            "Few channels, fp16",
            "The first convolution puts its windows together in registers, its bias gradient is that of a tap which is always 1, and a pool's gradient is expanded there.",
            (AmpFp16, Nhwc, FewChannels),
            true,
            true,
        ))),
        overlapped(way(
            "11_few_channels_bf16",
            "Few channels, bf16",
            "The same in bf16: without tiles of windows in shared memory, whose elements would be found one by one.",
            (AmpBf16, Nhwc, FewChannels),
            true,
            true,
        )),
        dependent(overlapped(way(
            "12_dependent_launch_fp16",
            "Dependent launches, fp16",
            "A kernel is launched while its predecessor still runs, and waits for it itself, which hides what a launch costs.",
            (AmpFp16, Nhwc, FewChannels),
            true,
            true,
        ))),
        dependent(overlapped(way(
            "12_dependent_launch_bf16",
            "Dependent launches, bf16",
            "The same in bf16: programmatic dependent launch between the kernels of the graph.",
            (AmpBf16, Nhwc, FewChannels),
            true,
            true,
        ))),
        last_block(dependent(overlapped(way(
            "13_last_block_fp16",
            "Last blocks, fp16",
            "The block that arrives last goes on with the mean loss, the check of the gradients or the end of the step, which were kernels.",
            (AmpFp16, Nhwc, FewChannels),
            true,
            true,
        )))),
        last_block(dependent(overlapped(way(
            "13_last_block_bf16",
            "Last blocks, bf16",
            "The same in bf16, where the last block of the loss decides the step: no gradient has to be checked.",
            (AmpBf16, Nhwc, FewChannels),
            true,
            true,
        )))),
    ]
}

fn overlapped(way: Way) -> Way {
    Way { options: CudaOptions { overlap: true, ..way.options }, ..way }
}

/// Below, nothing is launched early.
fn dependent(way: Way) -> Way {
    let options = CudaOptions { dependent: true, ..way.options };
    Way { requires: Requires::AtLeast(9, 0), options, ..way }
}

/// On any GPU, though below compute capability 9.0 nothing is launched early.
fn last_block(way: Way) -> Way {
    let options = CudaOptions { last_block: true, ..way.options };
    Way { requires: options.precision.requires(), options, ..way }
}

/// Below, its kernels are those of another rung.
fn ampere(way: Way) -> Way {
    Way { requires: Requires::AtLeast(8, 0), ..way }
}

fn hopper(way: Way) -> Way {
    Way { requires: Requires::Exactly("sm_90a".into()), ..way }
}

impl Way {
    /// How its kernels are launched on a GPU of a compute capability; below 9.0 none is launched early.
    #[must_use]
    pub fn schedule_on(&self, compute_capability: Option<(u32, u32)>) -> Schedule {
        let overlaps = compute_capability.is_none_or(|cc| cc >= (9, 0));
        match self.options {
            CudaOptions { graph: true, dependent: true, .. } if overlaps => Schedule::OverlappedGraph,
            CudaOptions { graph: true, .. } => Schedule::Graph,
            _ => Schedule::Launches,
        }
    }

    /// The way as a rung of a record, with the kernels that train these recipes on a GPU of a compute capability. Where a library computes a part of
    /// the step the rung counts as the library's, although most kernels are not: records compare the fastest rung of ours with it.
    #[must_use]
    pub fn rung(&self, recipes: &[Recipe], compute_capability: Option<(u32, u32)>) -> Rung {
        let specs = || each_once(recipes.iter().flat_map(|recipe| self.specs_on(compute_capability, recipe)));
        Rung {
            id: self.id.into(),
            title: self.title.into(),
            idea: self.idea.into(),
            requires: self.requires.clone(),
            runner: match self.library() {
                Some(library) => Runner::Library(library.into()),
                None => Runner::Kernels { specs: specs(), schedule: self.schedule_on(compute_capability) },
            },
            variant_of: None,
        }
    }

    /// The kernels of a recipe's training step on an H200, each once, in the order of their first launch. Not among them are those of a
    /// library, and those of linear layers where they are rungs of the matrix product that are chosen by their costs for each size.
    #[must_use]
    pub fn specs(&self, recipe: &Recipe) -> Vec<KernelSpec> {
        self.specs_on(Some(HOPPER), recipe)
    }

    /// The same on a GPU of another compute capability.
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
        // What an epilogue computes is no kernel.
        let sharing = cuda::sharing(&recipe.network, &self.options, compute_capability);
        let left = |pass: usize| -> Vec<(usize, &Node)> {
            nodes.iter().enumerate().filter(|(i, _)| !sharing.done[*i][pass]).collect()
        };
        all.extend(left(0).into_iter().flat_map(|(i, node)| match node.op {
            Op::Conv2d(_) => self.convolution(recipe, &sharing, (i, node), compute_capability),
            _ => self.forward(&recipe.network, &sharing, (i, node)),
        }));
        // Of a recipe that cannot be trained no kernel runs.
        let grouped = recipe.grouped().ok().flatten();
        let last_block = self.options.has_last_blocks(recipe);
        match recipe.loss {
            Loss::CrossEntropy { .. } if last_block => all.push(nn::cross_entropy_last(dtype)),
            Loss::Mse if last_block => all.push(nn::mse_last(dtype)),
            Loss::CrossEntropy { .. } => all.extend([nn::cross_entropy(dtype), nn::mean_loss()]),
            Loss::Mse => all.extend([nn::mse(dtype), nn::mean_loss()]),
        }
        all.extend(left(1).into_iter().rev().flat_map(|(i, node)| self.backward(&recipe.network, &sharing, (i, node))));
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

    fn forward(&self, network: &Network, sharing: &Sharing, (i, node): (usize, &Node)) -> Vec<KernelSpec> {
        let (dtype, layout) = (self.options.precision.activations(), self.options.layout);
        match node.op {
            Op::Linear { .. } => self.linear_forward(sharing, i, node),
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

    /// A kernel of a layer of the learner's own: forwards, or backwards.
    fn own(&self, network: &Network, node: &Node, which: usize) -> Vec<KernelSpec> {
        let (dtype, layout) = (self.options.precision.activations(), self.options.layout);
        let of = |own| own::specs(own, &OwnSizes::new(own, network.value(node.input), 1, layout), dtype)[which].clone();
        node.own.iter().map(of).collect()
    }

    fn backward(&self, network: &Network, sharing: &Sharing, (i, node): (usize, &Node)) -> Vec<KernelSpec> {
        let (dtype, layout) = (self.options.precision.activations(), self.options.layout);
        match node.op {
            Op::Linear { .. } => self.linear_backward(sharing, i, node),
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

    /// The kernels of a convolution's forward pass and of its gradients.
    fn convolution(
        &self,
        recipe: &Recipe,
        sharing: &Sharing,
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
                let products = self.im2col_products(sharing, i, node);
                nn::conv2d::im2col(stored, layout).into_iter().chain(products).chain(bias()).collect()
            }
            Method::Stock | Method::StockFastest => {
                let sums = if has_bias { bias() } else { vec![] };
                self.after_cudnn(sharing, i, node).into_iter().chain(sums).collect()
            }
            Method::ImplicitGemm | Method::ImplicitGemmTuring | Method::ShiftedWindows | Method::FewChannels => {
                let geometry = recipe.network.conv_geometry(node, recipe.batch);
                let pool = sharing.pool_after[i].is_some();
                let windows = matches!(method, Method::ShiftedWindows | Method::FewChannels);
                let shifted = |pass| {
                    (windows && compute_capability == Some(HOPPER))
                        .then(|| shifted_kernel_of(pass, dtype, &geometry, layout, pool))
                        .flatten()
                };
                let turing = method == Method::ImplicitGemmTuring;
                let spec =
                    |pass| shifted(pass).or_else(|| implicit_spec_of(pass, dtype, &geometry, layout, turing, pool));
                if method == Method::FewChannels
                    && let Some(few) = few_specs_of(dtype, &geometry, layout, [pool, sharing.unpools[i]])
                {
                    let dx = sharing.needs_gradient(node.input).then(|| spec(Pass::InputGradient)).flatten();
                    return few.into_iter().chain(dx).chain(gradient_sums_of(&geometry, layout, true)).collect();
                }
                // Shifted windows sum dy too.
                let is_shifted = shifted(Pass::WeightGradient).is_some();
                let sums = if has_bias && !is_shifted { bias() } else { vec![] };
                let total = gradient_sums_of(&geometry, layout, is_shifted);
                Pass::ALL.into_iter().filter_map(spec).chain(sums).chain(total).collect()
            }
        }
    }

    /// A pool forwards and backwards.
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

/// The first of equal kernels, in their order.
fn each_once(specs: impl IntoIterator<Item = KernelSpec>) -> Vec<KernelSpec> {
    let mut all = Vec::new();
    for spec in specs {
        if !all.contains(&spec) {
            all.push(spec);
        }
    }
    all
}

/// An activation forwards and backwards.
fn activation(f: Activation, dtype: Dtype) -> [KernelSpec; 2] {
    let [relu, relu_backward, gelu, gelu_backward] = nn::activation(dtype);
    match f {
        Activation::Relu => [relu, relu_backward],
        Activation::Gelu => [gelu, gelu_backward],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_gemm::ProductBy;
    use crate::network::{conv2d, flatten, linear};
    use crate::ops::muon::Muon;
    use crate::ops::optimizer::groups::Group;
    use crate::train::ways_with_product;

    fn way(id: &str) -> Way {
        ways().into_iter().find(|w| w.id == id).unwrap()
    }

    fn entries(id: &str, recipe: &Recipe) -> Vec<String> {
        way(id).specs(recipe).iter().map(|s| s.entry.to_string()).collect()
    }

    #[test]
    fn ids_are_unique_and_in_order() {
        let ids: Vec<&str> = ways().iter().map(|w| w.id).collect();
        let numbers: Vec<Option<u32>> = ids.iter().map(|id| id[..2].parse().ok()).collect();
        let ladder = numbers.iter().take_while(|n| n.is_some()).count();
        assert!(ladder > 10 && numbers[..ladder].is_sorted(), "{ids:?}");
        assert!(numbers[ladder..].iter().all(Option::is_none), "those next to the ladder come after it: {ids:?}");
        let different: std::collections::HashSet<&str> = ids.iter().copied().collect();
        assert_eq!(different.len(), ids.len());
        for w in ways() {
            assert!(w.idea.ends_with('.') && !w.title.is_empty(), "{}", w.id);
        }
    }

    /// fp16 and bf16 are two columns of one ladder; what is next to it names its base.
    #[test]
    fn neighbours_differ_in_one_thing() {
        let changes = |a: &CudaOptions, b: &CudaOptions| {
            let changed = [
                a.precision != b.precision,
                a.layout != b.layout,
                a.convolution != b.convolution,
                a.product != b.product,
                a.fused != b.fused,
                a.graph != b.graph,
                a.overlap != b.overlap,
                a.dependent != b.dependent,
                a.last_block != b.last_block,
            ];
            changed.iter().filter(|c| **c).count()
        };
        let (variants, all): (Vec<Way>, Vec<Way>) = ways().into_iter().partition(|w| w.base.is_some());
        assert_eq!(variants.len(), 11);
        let own = ways_with_product(ProductBy::Naive);
        for w in variants.iter().chain(&own) {
            let base = way(w.base.unwrap());
            assert_eq!(changes(&base.options, &w.options), 1, "{} and {}", base.id, w.id);
        }
        for column in ["fp16", "bf16"] {
            let other = if column == "fp16" { "bf16" } else { "fp16" };
            let ladder: Vec<&Way> = all.iter().filter(|w| !w.id.ends_with(other)).collect();
            for pair in ladder.windows(2) {
                let found = changes(&pair[0].options, &pair[1].options);
                assert_eq!(found, 1, "{} and {}", pair[0].id, pair[1].id);
            }
        }
    }

    #[test]
    fn a_gpu_that_launches_nothing_early_has_plain_graphs() {
        let check = |id, cc, expect| assert_eq!(way(id).schedule_on(cc), expect, "{id} on {cc:?}");
        for id in ["12_dependent_launch_bf16", "13_last_block_fp16", "naive_products_fp16"] {
            check(id, Some((9, 0)), Schedule::OverlappedGraph);
            check(id, Some((8, 9)), Schedule::Graph);
        }
        check("11_few_channels_fp16", Some((9, 0)), Schedule::Graph);
        check("07_fused_fp16", Some((8, 0)), Schedule::Launches);
    }

    #[test]
    fn fused_operations_are_no_kernels() {
        let count = |all: &[String], entry: &str| all.iter().filter(|e| *e == entry).count();
        let (plain, fused) = (entries("06_amp_fp16", &Recipe::mnist()), entries("07_fused_fp16", &Recipe::mnist()));
        assert_eq!((count(&plain, "relu_forward"), count(&fused, "relu_forward")), (1, 0));
        // That of the last linear layer: a dropout follows.
        assert_eq!((count(&plain, "relu_backward"), count(&fused, "relu_backward")), (1, 1));
        let rows = entries("07_fused_bf16", &Recipe::amp_recipe());
        assert_eq!(rows.iter().filter(|e| e.starts_with("relu")).count(), 0, "{rows:?}");
        assert_eq!(count(&rows, "gather_rows"), 2, "inputs in bf16, targets in fp32");
    }

    #[test]
    fn a_library_leaves_kernels_to_us_and_a_rung_is_shown() {
        let mnist = Recipe::mnist();
        let has = |id: &str, entry: &str| entries(id, &mnist).iter().any(|e| e == entry);
        // Biases and masks after a library; dw of fp16 is widened. The convolutions' own kernels are gone.
        assert!(has("stock_fp16", "bias_forward") && has("stock_fp16", "widen") && has("stock_fp16", "relu_backward"));
        assert!(has("09_overlap_fp16", "input_gradient") && !has("stock_fp16", "input_gradient"));
        assert!(has("stock_products_fp16", "bias_forward") && !has("stock_products_fp16", "widen"));
        assert_eq!(way("stock_fp16").library(), Some("cuDNN and cuBLASLt"));
        assert!(ways().iter().all(|w| w.library().is_some() == w.id.starts_with("stock")));
        let files = |id: &str| way(id).specs(&mnist).iter().map(|s| s.file.to_string()).collect::<Vec<_>>();
        for (id, file) in [
            ("naive_products_fp16", "matmul/01_naive.cu"),
            ("tiled_products_fp16", "matmul/03_shared_tile.cu"),
            ("tiled_products_fp32", "matmul/03_shared_tile.cu"),
        ] {
            // Forwards with and without a ReLU, and both gradients, of which one has a mask in this network or another.
            let count = files(id).iter().filter(|f| *f == file).count();
            assert!((3..=5).contains(&count), "{id}: {count}");
            let specs = way(id).specs(&mnist);
            assert!(specs.iter().filter(|s| s.file == file).all(|s| s.tiles.len() == 1), "{id}");
            assert!(!files("09_overlap_fp16").contains(&file.to_string()));
        }
    }

    #[test]
    fn a_layer_of_few_channels_has_an_input_gradient_where_it_is_needed() {
        use crate::network::{batch_norm, conv2d, flatten, linear};
        let gradients = |channels: usize, is_first: bool| -> Vec<KernelSpec> {
            let before = (!is_first).then(batch_norm);
            let layers = before.into_iter().chain([conv2d(8, 2), flatten(), linear(10)]);
            let network = Network::new([channels, 12, 12], layers.collect::<Vec<_>>()).unwrap();
            let specs = way("11_few_channels_fp16").specs(&Recipe { network, ..Recipe::mnist() });
            assert!(specs.iter().any(|s| s.entry == "few_forward"), "{channels} channels");
            specs.into_iter().filter(|s| s.entry == "input_gradient").collect()
        };
        for (channels, vectors) in [(4, 0), (8, 1)] {
            assert_eq!(gradients(channels, true), []);
            let [spec] = &gradients(channels, false)[..] else { panic!("one kernel") };
            let define = |name: &str| spec.defines.iter().find(|d| d.name == name).map(|d| d.value);
            // Of 16 bytes, where the channels are.
            assert_eq!(["VECTORS_A", "VECTORS_B"].map(define), [Some(vectors); 2], "{channels} channels");
        }
    }

    #[test]
    fn of_few_channels_a_weight_gradient_expands_the_pool_s() {
        use crate::network::{conv2d, flatten, linear, max_pool, relu};
        let layers = [conv2d(32, 3).padding(1), relu(), max_pool(2), flatten(), linear(10)];
        let recipe = Recipe { network: Network::new([3, 32, 32], layers).unwrap(), ..Recipe::cifar10() };
        let has = |id: &str, cc, entry: &str| way(id).specs_on(Some(cc), &recipe).iter().any(|s| s.entry == entry);
        assert!(has("10_windows_fp16", (9, 0), "max_backward_adjacent"));
        for id in
            ["11_few_channels_fp16", "11_few_channels_bf16", "12_dependent_launch_fp16", "12_dependent_launch_bf16"]
        {
            let gradient = way(id).specs(&recipe).into_iter().find(|s| s.entry == "few_gradient").unwrap();
            assert!(gradient.defines.iter().any(|d| d.name == "POOL" && d.value == 1), "{id}");
            assert!(!has(id, (9, 0), "max_backward_adjacent") && !has(id, (8, 0), "max_backward_adjacent"), "{id}");
        }
        // Below 8.0 the implicit product computes it, of y's gradient.
        assert!(has("11_few_channels_fp16", (7, 5), "max_backward_adjacent"));
        // In the first network the kernel reads the gradient of y: no pool follows.
        let gradient =
            way("11_few_channels_fp16").specs(&Recipe::mnist()).into_iter().find(|s| s.entry == "few_gradient");
        assert!(gradient.is_some_and(|s| s.defines.iter().all(|d| d.name != "POOL")));
    }

    #[test]
    fn kernels_follow_the_recipe_and_the_options() {
        let mnist = entries("06_amp_fp16", &Recipe::mnist());
        for entry in ["gather", "max_backward_adjacent", "dropout", "cross_entropy", "global_norm", "sgd_momentum"] {
            assert!(mnist.iter().any(|e| e == entry), "{entry} in {mnist:?}");
        }
        assert!(!entries("06_amp_bf16", &Recipe::mnist()).iter().any(|e| e == "global_norm"), "nothing is scaled");
        assert!(entries("01_direct", &Recipe::cifar10()).iter().any(|e| e == "adam"));
        let last = |id: &str, recipe: &Recipe| -> Vec<String> {
            entries(id, recipe).into_iter().filter(|e| e.ends_with("_last")).collect()
        };
        let [mnist, cifar10, rows] = [Recipe::mnist(), Recipe::cifar10(), Recipe::amp_recipe()];
        let update = ["sum_squares_last", "sgd_momentum_last"];
        assert_eq!(last("13_last_block_fp16", &mnist), [&["cross_entropy_last"][..], &update].concat());
        assert_eq!(last("13_last_block_bf16", &mnist), ["cross_entropy_last", "sgd_momentum_last"]);
        let clipped = Recipe { clip: Some(1.0), ..Recipe::mnist() };
        assert_eq!(last("13_last_block_bf16", &clipped), [&["cross_entropy_last"][..], &update].concat());
        assert_eq!(last("13_last_block_bf16", &cifar10).last().map(String::as_str), Some("adam_last"));
        assert_eq!(last("13_last_block_fp16", &rows)[0], "mse_last");
        assert!(last("12_dependent_launch_fp16", &mnist).is_empty());
        // Groups have kernels of their own, and no last blocks; a frozen weight makes groups.
        let group = Group { muon: Some(Muon::default()), ..Group::new("conv*.weight") };
        let grouped = entries("13_last_block_bf16", &Recipe { groups: vec![group], ..Recipe::mnist() });
        for entry in ["mean_loss", "judge_step", "update_groups", "muon_direction", "muon_update", "finish_step"] {
            assert!(grouped.iter().any(|e| e == entry), "{entry} in {grouped:?}");
        }
        assert!(grouped.iter().all(|e| !e.ends_with("_last") && e != "sgd_momentum"), "{grouped:?}");
        let frozen = Network::new([1, 28, 28], [conv2d(4, 3).frozen(), flatten(), linear(10)]).unwrap();
        let frozen = entries("13_last_block_bf16", &Recipe { network: frozen, ..Recipe::mnist() });
        assert!(frozen.iter().any(|e| e == "update_groups") && !frozen.iter().any(|e| e == "muon_update"));
        // Nothing that a last block does is a kernel too.
        let alone = ["mean_loss", "sum_squares", "global_norm", "judge_step", "prepare", "finish_step"];
        assert!(entries("13_last_block_fp16", &mnist).iter().all(|e| !alone.contains(&e.as_str())));
        assert!(alone.iter().all(|e| entries("12_dependent_launch_fp16", &mnist).iter().any(|k| k == e)));
        assert!(!entries("01_direct", &Recipe::mnist().without_dropout()).iter().any(|e| e == "dropout"));
        let layout = |id| way(id).specs(&Recipe::mnist())[1].defines.clone();
        assert_ne!(layout("04_tf32"), layout("05_nhwc"));
    }
}
