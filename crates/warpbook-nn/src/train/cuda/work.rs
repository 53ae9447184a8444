//! The work of a step's operations: what they compute, and the bytes that they have to move at least.

use super::params::{ParamBytes, rounded_params};
use super::{CudaOptions, Sharing};
use crate::network::{Network, Node, Op, PoolKind, ValueId};
use crate::train::{Recipe, StepOperation};

/// What the operations' work follows from.
pub(super) struct StepWork<'a> {
    pub recipe: &'a Recipe,
    pub options: &'a CudaOptions,
    pub sharing: &'a Sharing,
    /// Samples of the step.
    pub n: usize,
}

/// FLOPs, and bytes that are read and written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Work {
    flops: u64,
    read: u64,
    written: u64,
}

impl StepWork<'_> {
    /// The operation of a pass by the pass's name, as "conv1 forward". Of those whose work is next to nothing, and of layers of the learner's own
    /// source, whose arithmetic is not known, nothing is counted that is not certain.
    pub fn operation(&self, name: &str) -> StepOperation {
        let of_node = |node: &Node| {
            let pass = name.strip_prefix(&node.name)?.strip_prefix(' ')?;
            self.of_node(node, pass)
        };
        let work = self.network().nodes().iter().find_map(of_node).unwrap_or_else(|| self.around(name));
        let Work { flops, read, written } = work;
        StepOperation { name: name.to_owned(), flops, bytes: read + written, written_bytes: written }
    }

    fn network(&self) -> &Network {
        &self.recipe.network
    }

    /// Bytes of an activation.
    fn element(&self) -> u64 {
        self.options.precision.activations().bytes()
    }

    fn elements(&self, value: ValueId) -> u64 {
        (self.network().value(value).elements() * self.n) as u64
    }

    /// Bytes of a value, or of its gradient.
    fn value(&self, value: ValueId) -> u64 {
        self.elements(value) * self.element()
    }

    fn place(&self, node: &Node) -> Option<usize> {
        self.network().nodes().iter().position(|n| std::ptr::eq(n, node))
    }

    fn of_node(&self, node: &Node, pass: &str) -> Option<Work> {
        let (x, y) = (self.value(node.input), self.value(node.output));
        let masked = self.place(node).is_some_and(|i| self.sharing.mask_before[i]);
        if matches!(node.op, Op::Conv2d(_) | Op::Linear { .. }) {
            return self.of_product(node, pass, masked);
        }
        // Where each maximum was, a byte an output.
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

    /// Of a convolution or a linear layer: each pass has the forward pass's operations.
    fn of_product(&self, node: &Node, pass: &str, masked: bool) -> Option<Work> {
        let (x, y) = (self.value(node.input), self.value(node.output));
        // Where the epilogue computes a maximum, that is what is written, and where it was.
        let pool = self.place(node).and_then(|i| self.sharing.pool_after[i]).map(|i| self.network().nodes()[i].output);
        let written = pool.map_or(y, |pooled| self.value(pooled) + self.elements(pooled));
        let weight = self.network().params()[node.params[0]].len() as u64;
        let halves = self.element() < 4;
        let gradient = if rounded_params(self.network(), halves)[node.params[0]] { self.element() } else { 4 };
        let w = weight * self.element();
        let flops = self.network().node_flops(node) * self.n as u64;
        Some(match pass {
            "forward" => Work { flops, read: x + w, written },
            "input gradient" => Work { flops, read: y + w + if masked { x } else { 0 }, written: x },
            "weight gradient" => Work { flops, read: x + y, written: weight * gradient },
            "sum of gradients" => Work { flops: 0, read: 2 * x, written: x },
            _ => return None,
        })
    }

    /// Of what is around the layers. What their last blocks do, or small kernels after them, is next to nothing.
    fn around(&self, name: &str) -> Work {
        let last = self.network().values().len() - 1;
        let ([inputs, outputs], element) = ([0, last].map(|v| self.elements(v)), self.element());
        let slots = self.recipe.optimizer.state_slots();
        let held = ParamBytes::of(self.network(), Some(slots), self.options.precision.activations());
        let (read, written) = match name {
            "images" => (inputs, inputs * element),
            "rows" => (4 * (inputs + outputs), element * inputs + 4 * outputs),
            "loss" => (outputs * element, outputs * element),
            "norm of the gradients" => (held.gradients, 0),
            "optimiser" => (held.weights + held.state + held.gradients, held.weights + held.state + held.copy),
            _ => (0, 0),
        };
        Work { flops: 0, read, written }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sharing;
    use super::*;
    use crate::train::Precision;

    fn check(recipe: &Recipe, precision: Precision, fused: bool, expect: &[(&str, u64, u64, u64)]) {
        let options = CudaOptions { fused, ..CudaOptions::new(precision) };
        let sharing = sharing(&recipe.network, &options);
        let work = StepWork { recipe, options: &options, sharing: &sharing, n: 10 };
        for (name, flops, read, written) in expect {
            let o = work.operation(name);
            assert_eq!((o.flops, o.bytes - o.written_bytes, o.written_bytes), (*flops, *read, *written), "{name}");
        }
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
                // Its epilogue computes the maxima: they are written, and where they were.
                ("conv2 forward", conv2, 2 * (10 * 676 * 32 + 18_432), 3 * 10 * 144 * 64),
                // It reads its input again, as the mask of the ReLU before.
                ("conv2 input gradient", conv2, 2 * (10 * 576 * 64 + 18_432 + 10 * 676 * 32), 2 * 10 * 676 * 32),
                // Gradients of convolutions are in f32, those of linear layers in half.
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
        // Momentum is read and written, weights too; gradients are read.
        let options = CudaOptions::new(Precision::Fp32);
        let sharing = sharing(&recipe.network, &options);
        let work = StepWork { recipe: &recipe, options: &options, sharing: &sharing, n: 10 };
        let o = work.operation("optimiser");
        assert!((4 * 1_199_882 * 5..4 * 1_199_882 * 5 + 4096).contains(&o.bytes), "{o:?}");
    }
}
