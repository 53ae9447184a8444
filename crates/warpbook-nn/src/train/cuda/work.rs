//! The work of a step's operations: their computations, and the smallest number of bytes that they have to move.

use super::params::{ParamBytes, rounded_params};
use super::{CudaOptions, FusionPlan};
use crate::network::{Network, Node, Op, PoolKind, ValueId};
use crate::train::{Recipe, StepOperation};

/// Inputs from which the operations' work is computed.
pub(super) struct StepWork<'a> {
    pub recipe: &'a Recipe,
    pub options: &'a CudaOptions,
    pub fusion: &'a FusionPlan,
    /// Number of samples of the operation.
    pub n: usize,
}

/// FLOPs, and bytes read and written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Work {
    flops: u64,
    read: u64,
    written: u64,
}

impl StepWork<'_> {
    /// Returns the operation with a pass's name, such as "conv1 forward". Negligible work counts as 0, and so does unknown work, such as the
    /// arithmetic of custom layers.
    pub fn operation(&self, name: &str) -> StepOperation {
        let node_work = |node: &Node| {
            let pass = name.strip_prefix(&node.name)?.strip_prefix(' ')?;
            // A recomputation repeats the forward pass.
            self.node_work(node, if pass == "recomputation" { "forward" } else { pass })
        };
        let work = self.network().nodes().iter().find_map(node_work).unwrap_or_else(|| self.other_work(name));
        let Work { flops, read, written } = work;
        StepOperation { name: name.to_owned(), flops, bytes: read + written, written_bytes: written }
    }

    fn network(&self) -> &Network {
        &self.recipe.network
    }

    /// Returns the number of bytes of an activation element.
    fn element(&self) -> u64 {
        self.options.precision.activations().bytes()
    }

    fn elements(&self, value: ValueId) -> u64 {
        (self.network().value(value).elements() * self.n) as u64
    }

    /// Returns the number of bytes of a value, or of its gradient.
    fn value(&self, value: ValueId) -> u64 {
        self.elements(value) * self.element()
    }

    fn node_index(&self, node: &Node) -> Option<usize> {
        self.network().nodes().iter().position(|n| std::ptr::eq(n, node))
    }

    fn node_work(&self, node: &Node, pass: &str) -> Option<Work> {
        let (x, y) = (self.value(node.input), self.value(node.output));
        let masked = self.node_index(node).is_some_and(|i| self.fusion.nodes[i].mask);
        if matches!(node.op, Op::Conv2d(_) | Op::Linear { .. }) {
            return self.product_work(node, pass, masked);
        }
        // The position of each maximum takes one byte per output.
        let places = match node.op {
            Op::Pool(p) if p.kind == PoolKind::Max => self.elements(node.output),
            _ => 0,
        };
        let kept = match node.op {
            Op::Activation(_) | Op::BatchNorm { .. } => x,
            Op::Own => x + y,
            _ if masked => y,
            _ => 0,
        };
        let (read, written) = match (pass, node.op) {
            ("forward", Op::Add(_)) => (2 * x, y),
            ("forward", _) => (x, y + places),
            ("backward", _) => (y + kept + places, x),
            ("sum of gradients", _) => (2 * x, x),
            _ => return None,
        };
        Some(Work { flops: 0, read, written })
    }

    /// Returns the work of a convolution or a linear layer: each pass has as many operations as the forward pass.
    fn product_work(&self, node: &Node, pass: &str, masked: bool) -> Option<Work> {
        let (x, y) = (self.value(node.input), self.value(node.output));
        // If the epilogue computes a maximum, it writes the maxima and their positions.
        let (nodes, index) = (self.network().nodes(), self.node_index(node));
        let with_places = |pool: usize| self.value(nodes[pool].output) + self.elements(nodes[pool].output);
        let written = index.and_then(|i| self.fusion.nodes[i].pool).map_or(y, with_places);
        // If the weight gradient expands the gradient of the maxima, it reads both arrays, and the mask in the maximum's output.
        let mask = |pool: usize| if self.fusion.nodes[pool].mask { self.value(nodes[pool].output) } else { 0 };
        let dy = index.and_then(|i| self.fusion.unpooled(i)).map_or(y, |pool| with_places(pool) + mask(pool));
        let weight = self.network().params()[node.params[0]].len() as u64;
        let halves = self.element() < 4;
        let gradient = if rounded_params(self.network(), halves)[node.params[0]] { self.element() } else { 4 };
        let w = weight * self.element();
        let flops = self.network().node_flops(node) * self.n as u64;
        Some(match pass {
            "forward" => Work { flops, read: x + w, written },
            "input gradient" => Work { flops, read: y + w + if masked { x } else { 0 }, written: x },
            "weight gradient" => Work { flops, read: x + dy, written: weight * gradient },
            "sum of gradients" => Work { flops: 0, read: 2 * x, written: x },
            _ => return None,
        })
    }

    /// Returns the work outside the layers. The work of last blocks, or of the small kernels that replace them, is negligible.
    fn other_work(&self, name: &str) -> Work {
        let last = self.network().values().len() - 1;
        let ([inputs, outputs], element) = ([0, last].map(|v| self.elements(v)), self.element());
        let slots = self.recipe.optimizer.state_slots();
        let held = ParamBytes::new(self.network(), Some(slots), self.options.precision.activations());
        let (read, written) = match name {
            "images" => (inputs, inputs * element),
            "rows" => (4 * (inputs + outputs), element * inputs + 4 * outputs),
            "loss" => (outputs * element, outputs * element),
            // Each sum is read and written in f32, and also copied to the gradients.
            "sum of gradients" => (held.gradients + held.weights, held.gradients + held.weights),
            "norm of the gradients" => (held.gradients, 0),
            "optimiser" => (held.weights + held.state + held.gradients, held.weights + held.state + held.copy),
            _ => (0, 0),
        };
        Work { flops: 0, read, written }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::conv2d::cuda::{HOPPER, Method};
    use crate::train::Precision;

    fn check(recipe: &Recipe, precision: Precision, fused: bool, expect: &[(&str, u64, u64, u64)]) {
        check_with(recipe, CudaOptions { fused, ..CudaOptions::new(precision) }, expect);
    }

    fn check_with(recipe: &Recipe, options: CudaOptions, expect: &[(&str, u64, u64, u64)]) {
        let fusion = FusionPlan::new(&recipe.network, &options, Some(HOPPER));
        let work = StepWork { recipe, options: &options, fusion: &fusion, n: 10 };
        for (name, flops, read, written) in expect {
            let o = work.operation(name);
            assert_eq!((o.flops, o.bytes - o.written_bytes, o.written_bytes), (*flops, *read, *written), "{name}");
        }
    }

    #[test]
    fn a_weight_gradient_that_expands_the_maxima_s_reads_them() {
        let recipe = Recipe::cifar10();
        let (x, maxima, conv1) = (10 * 1024 * 3, 10 * 256 * 32, 2 * 10 * 1024 * 32 * 27);
        let options = CudaOptions::new(Precision::AmpBf16);
        let forward = ("conv1 forward", conv1, 2 * (x + 32 * 27), 3 * maxima);
        // The pass reads the gradient of the maxima, their values as the mask, and one byte for each position.
        let expanded = ("conv1 weight gradient", conv1, 2 * x + 5 * maxima, 4 * 32 * 27);
        let conv2 = ("conv2 weight gradient", 2 * 10 * 256 * 64 * 288, 2 * 10 * 256 * (32 + 64), 4 * 64 * 288);
        check_with(&recipe, options, &[forward, expanded, conv2]);
        let plain = ("conv1 weight gradient", conv1, 2 * (x + 4 * maxima), 4 * 32 * 27);
        let options = CudaOptions { convolution: Method::ShiftedWindows, ..options };
        check_with(&recipe, options, &[forward, plain, conv2, ("pool1 backward", 0, 5 * maxima, 8 * maxima)]);
    }

    #[test]
    fn operations_move_what_they_read_and_write() {
        let recipe = Recipe::mnist();
        let conv2 = 2 * 10 * 576 * 64 * 288;
        let fc1 = 2 * 10 * 128 * 9216;
        check(
            &recipe,
            Precision::AmpFp16,
            true,
            &[
                ("batch", 0, 0, 0),
                ("images", 0, 7840, 15_680),
                // The epilogue computes the maxima, which are written with their positions.
                ("conv2 forward", conv2, 2 * (10 * 676 * 32 + 18_432), 3 * 10 * 144 * 64),
                // The kernel reads its input again, as the mask of the ReLU before it.
                ("conv2 input gradient", conv2, 2 * (10 * 576 * 64 + 18_432 + 10 * 676 * 32), 2 * 10 * 676 * 32),
                // Gradients of convolutions are in f32, gradients of linear layers in half precision.
                ("conv2 weight gradient", conv2, 2 * 10 * (676 * 32 + 576 * 64), 4 * 18_432),
                ("fc1 weight gradient", fc1, 2 * 10 * (9216 + 128), 2 * 128 * 9216),
                ("pool1 backward", 0, 10 * 144 * 64 * (2 + 2 + 1), 2 * 10 * 576 * 64),
                ("dropout1 backward", 0, 2 * 10 * 9216, 2 * 10 * 9216),
                ("loss", 0, 200, 200),
                ("what is this", 0, 0, 0),
                ("conv2 upwards", 0, 0, 0),
            ],
        );
        check(
            &recipe,
            Precision::Fp32,
            false,
            &[
                ("conv2 forward", conv2, 4 * (10 * 676 * 32 + 18_432), 4 * 10 * 576 * 64),
                ("pool1 forward", 0, 4 * 10 * 576 * 64, 5 * 10 * 144 * 64),
                ("conv2 input gradient", conv2, 4 * (10 * 576 * 64 + 18_432), 4 * 10 * 676 * 32),
                ("relu1 backward", 0, 2 * 4 * 10 * 676 * 32, 4 * 10 * 676 * 32),
                ("fc1 weight gradient", fc1, 4 * 10 * (9216 + 128), 4 * 128 * 9216),
            ],
        );
        // Momentum and weights are read and written; gradients are read.
        let options = CudaOptions::new(Precision::Fp32);
        let fusion = FusionPlan::new(&recipe.network, &options, Some(HOPPER));
        let work = StepWork { recipe: &recipe, options: &options, fusion: &fusion, n: 10 };
        let o = work.operation("optimiser");
        assert!((4 * 1_199_882 * 5..4 * 1_199_882 * 5 + 4096).contains(&o.bytes), "{o:?}");
    }
}
