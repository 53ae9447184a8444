//! What operations of a network share memory, and what epilogues compute of their neighbours.

use crate::network::{Activation, Network, Node, Op, PoolKind, ValueId};

/// What the operations of a network share and skip.
#[derive(Debug, Clone)]
pub(in crate::train) struct Sharing {
    /// The buffer of each value.
    pub buffer: Vec<usize>,
    /// Of a convolution or a linear layer: its epilogue computes the ReLU that follows.
    pub relu_after: Vec<bool>,
    /// Of a convolution or a linear layer: its input gradient is masked by its input, the output of a ReLU; of a maximum, by its output.
    pub mask_before: Vec<bool>,
    /// Of a convolution: its epilogue computes this maximum, so that its own output is never stored.
    pub pool_after: Vec<Option<usize>>,
    /// Of such a convolution: its weight gradient expands the gradient of the maxima, so that that of its own output is never stored.
    pub unpools: Vec<bool>,
    /// Of a maximum that is masked by its output: the dropout after it, whose zeros that output has, and whose factor its gradient takes.
    pub dropout_after: Vec<Option<usize>>,
    /// Whether another operation computes it forwards, and backwards: an epilogue a ReLU or a maximum, a maximum a dropout, a weight
    /// gradient a maximum.
    pub done: Vec<[bool; 2]>,
    /// Whether a buffer is written again for the backward pass: see [`Network::checkpointed`].
    pub again: Vec<bool>,
}

pub(super) fn multiplies(op: &Op) -> bool {
    matches!(op, Op::Conv2d(_) | Op::Linear { .. })
}

/// What is read backwards of a buffer that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kept {
    /// Nothing: whoever reads it may write over it.
    Nothing,
    /// Where the output of a ReLU is 0: another ReLU or a dropout may write over it.
    Zeros,
    /// All that a layer of the learner's own has written.
    Values,
}

impl Sharing {
    /// `fused`: whether epilogues compute what follows; `masks`: whether a pool's gradient goes through the ReLU before it at once;
    /// `pools`: whether a convolution's epilogue computes a pool.
    pub fn of(
        network: &Network,
        fused: bool,
        masks: impl Fn(&Node) -> bool,
        pools: impl Fn(&Node, &Node) -> bool,
    ) -> Self {
        let nodes = network.nodes();
        let mut readers = vec![0; network.values().len()];
        let mut producer: Vec<Option<usize>> = vec![None; network.values().len()];
        for (i, node) in nodes.iter().enumerate() {
            readers[node.input] += 1;
            producer[node.output] = Some(i);
            if let Op::Add(other) = node.op {
                readers[other] += 1;
            }
        }
        let mut kept = vec![Kept::Nothing; network.values().len()];
        let is_relu = |i: Option<usize>| i.is_some_and(|i| nodes[i].op == Op::Activation(Activation::Relu));
        let mut shared = Self {
            buffer: (0..network.values().len()).collect(),
            relu_after: vec![false; nodes.len()],
            mask_before: vec![false; nodes.len()],
            pool_after: vec![None; nodes.len()],
            unpools: vec![false; nodes.len()],
            dropout_after: vec![None; nodes.len()],
            done: vec![[false; 2]; nodes.len()],
            again: Vec::new(),
        };
        for (i, node) in nodes.iter().enumerate() {
            let (x, before) = (node.input, producer[node.input]);
            let is_input = shared.buffer[x] == shared.buffer[0];
            let free = |most| readers[x] == 1 && !is_input && kept[shared.buffer[x]] <= most;
            let in_place = match node.op {
                Op::Flatten => readers[x] == 1 || is_input,
                // What a dropout sets to zero has no gradient, whatever the ReLU before it would say.
                Op::Activation(Activation::Relu) | Op::Dropout { .. } => free(Kept::Zeros),
                Op::Add(other) => free(Kept::Nothing) && shared.buffer[other] != shared.buffer[x],
                _ => false,
            };
            if in_place {
                shared.buffer[node.output] = shared.buffer[x];
            }
            if fused && in_place && is_relu(Some(i)) {
                let has_epilogue = |op: &Op| matches!(op, Op::Conv2d(_) | Op::Linear { bias: true, .. });
                if let Some(before) = before.filter(|b| has_epilogue(&nodes[*b].op)) {
                    shared.relu_after[before] = true;
                    shared.done[i][0] = true;
                }
            }
            let is_max = matches!(node.op, Op::Pool(p) if p.kind == PoolKind::Max);
            let can_mask = multiplies(&node.op) || is_max && masks(node);
            if let Some(relu) = before.filter(|_| fused && can_mask && is_relu(before) && readers[x] == 1) {
                shared.mask_before[i] = shared.in_place(&nodes[relu]);
                shared.done[relu][1] = shared.mask_before[i];
            }
            if let Some(before) = before.filter(|_| fused && is_max && readers[x] == 1) {
                // Either the convolution itself, or the ReLU after it, whose gradient goes through the pool.
                let through =
                    (is_relu(Some(before)) && shared.done[before] == [true; 2]).then(|| producer[nodes[before].input]);
                let conv = through.unwrap_or(Some(before)).filter(|c| matches!(nodes[*c].op, Op::Conv2d(_)));
                if let Some(conv) = conv.filter(|conv| pools(&nodes[*conv], node)) {
                    shared.pool_after[conv] = Some(i);
                    shared.done[i][0] = true;
                }
            }
            if let (Op::Dropout { .. }, Some(pool)) = (&node.op, before.filter(|_| in_place))
                && matches!(nodes[pool].op, Op::Pool(_))
                && shared.mask_before[pool]
            {
                shared.dropout_after[pool] = Some(i);
                shared.done[i][1] = true;
            }
            let keeps = match node.op {
                Op::Own => Kept::Values,
                Op::Activation(Activation::Relu) => Kept::Zeros,
                Op::Pool(_) if shared.mask_before[i] => Kept::Zeros,
                _ => Kept::Nothing,
            };
            let written = shared.buffer[node.output];
            kept[written] = kept[written].max(keeps);
        }
        shared.again = network.recomputed(&shared.buffer);
        shared
    }

    /// The same with weight gradients that expand the gradient of the maximum in their convolution's epilogue: those that `unpools` says
    /// can, of convolutions whose input needs no gradient, which would read that of their own output.
    pub fn unpooling(mut self, nodes: &[Node], unpools: impl Fn(&Node) -> bool) -> Self {
        for (i, node) in nodes.iter().enumerate() {
            let Some(pool) = self.pool_after[i].filter(|_| !self.needs_gradient(node.input)) else { continue };
            self.unpools[i] = unpools(node);
            self.done[pool][1] |= self.unpools[i];
        }
        self
    }

    /// The maximum whose gradient the weight gradient of operation i expands.
    pub fn unpooled(&self, i: usize) -> Option<usize> {
        self.pool_after[i].filter(|_| self.unpools[i])
    }

    /// Whether a node writes where it reads.
    pub fn in_place(&self, node: &Node) -> bool {
        self.buffer[node.output] == self.buffer[node.input]
    }

    /// What operation i writes forwards: the output of the maximum after it, where its epilogue computes that.
    pub fn writes(&self, nodes: &[Node], i: usize) -> ValueId {
        nodes[self.pool_after[i].unwrap_or(i)].output
    }

    /// Whether operation i is computed again for the backward pass.
    pub fn computes_again(&self, nodes: &[Node], i: usize) -> bool {
        self.again[self.buffer[self.writes(nodes, i)]]
    }

    /// Whether a value is stored: what a pool in an epilogue reads is not.
    pub fn is_stored(&self, nodes: &[Node], value: ValueId) -> bool {
        let is_skipped =
            |(conv, pool): (&Node, &Option<usize>)| pool.is_some() && self.buffer[conv.output] == self.buffer[value];
        !nodes.iter().zip(&self.pool_after).any(is_skipped)
    }

    /// Whether the gradient of a value that operation i reads was written before, by an operation after it.
    pub fn joins(&self, nodes: &[Node], i: usize, value: ValueId) -> bool {
        let writes = |n: &Node| n.input == value && !self.in_place(n) || matches!(n.op, Op::Add(o) if o == value);
        nodes[i + 1..].iter().any(writes)
    }

    /// The value whose gradient operation i reads: the output of the maximum after it, where its weight gradient expands that.
    pub fn reads_backwards(&self, nodes: &[Node], i: usize) -> ValueId {
        nodes[self.unpooled(i).unwrap_or(i)].output
    }

    /// Whether the gradient of a value is stored: that of the input is not, nor what a weight gradient expands.
    pub fn stores_gradient(&self, nodes: &[Node], value: ValueId) -> bool {
        let is_expanded = |(conv, unpools): (&Node, &bool)| *unpools && self.buffer[conv.output] == self.buffer[value];
        self.needs_gradient(value) && !nodes.iter().zip(&self.unpools).any(is_expanded)
    }

    /// Whether the gradient of a value is needed: that of the input is not.
    pub fn needs_gradient(&self, value: ValueId) -> bool {
        self.buffer[value] != self.buffer[0]
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::{Purpose, plan};
    use super::*;
    use crate::network::*;
    use warpbook_record::Dtype;

    #[test]
    fn what_is_computed_in_place_shares_memory() {
        // input, conv1, relu1, conv2, relu2, pool1, dropout1, flatten1, fc1, relu3, dropout2, fc2
        let n = mnist_cnn(0.25, 0.5);
        let s = Sharing::of(&n, true, |_| false, |_, _| false);
        assert_eq!(s.buffer, [0, 1, 1, 3, 3, 5, 5, 5, 8, 8, 8, 11]);
        let of = |flags: &[bool]| -> Vec<String> {
            n.nodes().iter().zip(flags).filter(|(_, f)| **f).map(|(n, _)| n.name.clone()).collect()
        };
        assert_eq!(of(&s.relu_after), ["conv1", "conv2", "fc1"]);
        assert_eq!(of(&s.mask_before), ["conv2"], "a pool or a dropout is between the others");
        assert_eq!(of(&s.done.iter().map(|d| d[1]).collect::<Vec<_>>()), ["relu1"]);
        assert_eq!(of(&Sharing::of(&n, true, |_| true, |_, _| false).mask_before), ["conv2", "pool1"]);
        let plain = Sharing::of(&n, false, |_| true, |_, _| false);
        assert_eq!(plain.buffer, s.buffer);
        assert!(!plain.relu_after.iter().chain(&plain.mask_before).any(|f| *f));
        assert!(!s.needs_gradient(0) && s.needs_gradient(1));
    }

    #[test]
    fn a_masked_pool_takes_the_factor_of_the_dropout_after_it() {
        let of = |masks: bool, layers: Vec<Layer>| {
            let n = Network::new([2, 6, 6], layers).unwrap();
            let s = Sharing::of(&n, true, |_| masks, |_, _| false);
            (s.dropout_after.clone(), s.done.iter().map(|done| done[1]).collect::<Vec<_>>())
        };
        let layers = |before: Layer| vec![conv2d(2, 3), before, max_pool(2), dropout(0.5), flatten(), linear(2)];
        let (after, done) = of(true, layers(relu()));
        assert_eq!((after[2], &done[..4]), (Some(3), &[false, true, false, true][..]));
        for (after, done) in [of(false, layers(relu())), of(true, layers(gelu()))] {
            assert!(after.iter().all(Option::is_none) && !done[3], "the pool's output is no mask");
        }
    }

    #[test]
    fn what_a_pool_in_an_epilogue_reads_has_no_memory() {
        let n = mnist_cnn(0.25, 0.5);
        let [plain, pooled] = [false, true].map(|pools| Sharing::of(&n, true, |_| true, |_, _| pools));
        // The fifth operation is the pool, after conv2 and relu2.
        assert_eq!(pooled.pool_after, [None, None, Some(4), None, None, None, None, None, None, None, None]);
        assert_eq!((pooled.done[4], plain.done[4]), ([true, false], [false; 2]));
        assert_eq!((pooled.writes(n.nodes(), 2), plain.writes(n.nodes(), 2)), (5, 3));
        assert_eq!(pooled.buffer, plain.buffer);
        for purpose in [Purpose::Training { overlaps: false }, Purpose::Inference] {
            let [plain, pooled] = [&plain, &pooled].map(|s| plan(&n, s, 512, Dtype::F16, purpose));
            assert!(plain.get("value 3").is_some() && pooled.get("value 3").is_none());
            assert!(pooled.peak_bytes() <= plain.peak_bytes(), "the peak of a training may be in its backward pass");
            let first = |name: &str| pooled.get(name).map(|block| block.first_use);
            // conv2 is the third operation, and writes the maxima and their places.
            assert_eq!(first("value 5"), Some(3));
            assert_eq!(first("kept 4"), (purpose != Purpose::Inference).then_some(3));
            assert_eq!(pooled.get("gradient 3").is_some(), purpose != Purpose::Inference);
        }
        // Without a mask the ReLU's gradient reads what the pool has read.
        assert!(Sharing::of(&n, true, |_| false, |_, _| true).pool_after.iter().all(Option::is_none));
        assert!(Sharing::of(&n, false, |_| true, |_, _| true).pool_after.iter().all(Option::is_none));
        let of = |layers: Vec<Layer>| {
            let n = Network::new([2, 6, 6], layers).unwrap();
            Sharing::of(&n, true, |_| true, |_, _| true).pool_after
        };
        let conv = || conv2d(2, 3).padding(1);
        assert_eq!(of(vec![conv(), max_pool(2), flatten(), linear(2)])[0], Some(1), "without a ReLU");
        assert_eq!(of(vec![conv(), relu(), avg_pool(2), flatten(), linear(2)])[0], None);
        assert_eq!(of(vec![conv(), gelu(), max_pool(2), flatten(), linear(2)])[0], None);
        assert_eq!(
            of(vec![conv(), residual([conv()]), max_pool(2), flatten(), linear(2)])[0],
            None,
            "it is read twice"
        );
    }

    /// Of a network of such layers for images of 2 x 6 x 6, whose weight gradients expand what they can.
    fn unpooling(layers: Vec<Layer>) -> (Network, Sharing) {
        let n = Network::new([2, 6, 6], layers).unwrap();
        let s = Sharing::of(&n, true, |_| true, |_, _| true).unpooling(n.nodes(), |_| true);
        (n, s)
    }

    #[test]
    fn a_weight_gradient_expands_the_maxima_s_where_nothing_else_needs_it() {
        let conv = || conv2d(2, 3).padding(1);
        let stage = || vec![conv(), relu(), max_pool(2)];
        let end = || vec![flatten(), linear(2)];
        // conv1, relu1, pool1, conv2, relu2, pool2: the input gradient of conv2 reads that of its output.
        let (n, s) = unpooling([stage(), stage(), end()].concat());
        assert_eq!((&s.unpools[..4], s.unpooled(0), s.unpooled(3)), (&[true, false, false, false][..], Some(2), None));
        assert_eq!((s.done[1], s.done[2], s.done[5]), ([true; 2], [true; 2], [true, false]));
        assert_eq!((s.reads_backwards(n.nodes(), 0), s.reads_backwards(n.nodes(), 3)), (3, 4));
        let stored: Vec<bool> = (0..8).map(|v| s.stores_gradient(n.nodes(), v)).collect();
        assert_eq!(stored, [false, false, false, true, true, true, true, true]);
        // Without a ReLU; behind a dropout of the input; and where no kernel can.
        let (_, s) = unpooling([vec![conv(), max_pool(2)], end()].concat());
        assert!(s.unpools[0] && !s.mask_before[1] && s.done[1] == [true; 2]);
        let (_, s) = unpooling([vec![dropout(0.5)], stage(), end()].concat());
        assert_eq!((s.pool_after[1], s.unpooled(1)), (Some(3), None), "the dropout's output has a gradient");
        let s = Sharing::of(&n, true, |_| true, |_, _| true).unpooling(n.nodes(), |_| false);
        assert!(s.unpools.iter().all(|u| !u) && s.done[2] == [true, false]);
        let s = Sharing::of(&n, true, |_| true, |_, _| false).unpooling(n.nodes(), |_| true);
        assert!(s.unpools.iter().all(|u| !u) && s.done[2] == [false; 2], "the pool is a kernel");
    }

    #[test]
    fn a_gradient_that_is_expanded_has_no_memory_and_what_it_comes_from_is_kept() {
        // conv1, relu1, pool1, dropout1, conv2, flatten1, fc1.
        let layers = [conv2d(2, 3).padding(1), relu(), max_pool(2), dropout(0.5), conv2d(2, 1), flatten(), linear(2)];
        let n = Network::new([2, 6, 6], layers).unwrap();
        let plain = Sharing::of(&n, true, |_| true, |_, _| true);
        let s = plain.clone().unpooling(n.nodes(), |_| true);
        assert_eq!((s.unpooled(0), s.dropout_after[2], s.buffer[4]), (Some(2), Some(3), 3));
        for overlaps in [false, true] {
            let [plain, layout] = [&plain, &s].map(|s| plan(&n, s, 16, Dtype::F16, Purpose::Training { overlaps }));
            assert!(plain.get("gradient 1").is_some() && layout.get("gradient 1").is_none());
            assert!(layout.peak_bytes() < plain.peak_bytes());
            // Seven operations forwards, the loss at 8, backwards from 9: conv1 at 15, the last. It reads the maxima's gradient, their
            // places, and their values, the mask.
            for name in ["gradient 3", "kept 2", "value 3", "value 0"] {
                assert_eq!(layout.get(name).map(|b| b.last_use), Some(15), "{name}, overlaps {overlaps}");
            }
        }
        // Without a mask the maxima themselves are free once the next layer has read them.
        let layers = [conv2d(2, 3).padding(1), max_pool(2), gelu(), flatten(), linear(2)];
        let (n, s) = unpooling(layers.to_vec());
        let layout = plan(&n, &s, 16, Dtype::F16, Purpose::Training { overlaps: false });
        let last = |name: &str| layout.get(name).map(|b| b.last_use);
        // Five operations, the loss at 6, backwards from 7: gelu1 at 9, conv1 at 11.
        assert_eq!((last("value 2"), last("gradient 2"), last("kept 1")), (Some(9), Some(11), Some(11)));
        let layout = plan(&n, &s, 16, Dtype::F16, Purpose::Inference);
        assert!(layout.get("kept 1").is_none() && layout.get("value 2").is_some());
    }

    #[test]
    fn a_value_that_is_read_twice_keeps_its_memory() {
        let layers = [
            conv2d(2, 3).padding(1),
            relu(),
            residual([conv2d(2, 3).padding(1), relu()]),
            relu(),
            flatten(),
            linear(3),
        ];
        let n = Network::new([2, 5, 5], layers).unwrap();
        let s = Sharing::of(&n, true, |_| false, |_, _| false);
        // The branch ends in a ReLU, which needs its output: the sum is written elsewhere; the ReLU after it is in place.
        assert_eq!(s.buffer, [0, 1, 1, 3, 3, 5, 5, 5, 8]);
        assert_eq!(s.mask_before.iter().filter(|m| **m).count(), 0, "relu1 is read twice, relu3 before a flatten");
        let nodes = n.nodes();
        // conv2 reads what the sum reads too, and runs backwards after it.
        assert!(s.joins(nodes, 2, nodes[2].input) && !s.joins(nodes, 4, 2));
        let layout = plan(&n, &s, 4, Dtype::F32, Purpose::Training { overlaps: false });
        assert!(layout.get("joined 2").is_some());
    }

    #[test]
    fn a_sum_does_not_write_over_a_relu_s_output_whatever_is_between() {
        let buffers = |branch: Vec<Layer>| {
            let n = Network::new(8, [linear(8), residual(branch), linear(3)]).unwrap();
            Sharing::of(&n, false, |_| false, |_, _| false).buffer
        };
        // The dropout writes over the ReLU's output, whose zeros stay; the sum may not.
        assert_eq!(buffers(vec![linear(8), relu(), dropout(0.2)]), [0, 1, 2, 2, 2, 5, 6]);
        assert_eq!(buffers(vec![linear(8), gelu(), dropout(0.2)]), [0, 1, 2, 3, 3, 3, 6]);
        assert_eq!(buffers(vec![linear(8), dropout(0.2)]), [0, 1, 2, 2, 2, 5]);
    }
}
