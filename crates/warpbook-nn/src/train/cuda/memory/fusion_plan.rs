//! The fusion plan of a network: which operations compute in place, and which are part of another operation's epilogue.

use crate::network::{Activation, Network, Node, Op, PoolKind, ValueId};
use crate::ops::conv2d::cuda::{Convolution, Form};
use crate::ops::pool::cuda::Pooling;
use crate::train::CudaOptions;

/// Shared buffers and fused operations of a network.
#[derive(Debug, Clone)]
pub(in crate::train) struct FusionPlan {
    /// The buffer of each value.
    pub buffer: Vec<usize>,
    /// For each buffer, true if it is written again for the backward pass: see [`Network::checkpointed`].
    pub recomputed: Vec<bool>,
    /// Plan of each operation.
    pub nodes: Vec<NodePlan>,
}

/// The fusion of an operation with its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::train) struct NodePlan {
    /// For a convolution or a linear layer, true if its epilogue computes the ReLU that follows.
    pub relu: bool,
    /// For a convolution or a linear layer, true if its input gradient is masked by its input, which is the output of a ReLU; for a
    /// maximum, true if its gradient is masked by its output.
    pub mask: bool,
    /// For a convolution, the maximum that its epilogue computes, so that its own output is never stored.
    pub pool: Option<usize>,
    /// For a convolution with such a maximum, true if its weight gradient expands the gradient of the maxima, so that the gradient of its
    /// own output is never stored.
    pub unpools: bool,
    /// For a maximum that is masked by its output, the dropout after it: the output has the dropout's zeros, and the gradient its factor.
    pub dropout: Option<usize>,
    /// True if another operation computes this operation in the forward pass: an epilogue computes a ReLU or a maximum.
    pub skips_forward: bool,
    /// True if another operation computes this operation in the backward pass: an input gradient does so for a ReLU, a maximum for a dropout, a weight
    /// gradient for a maximum.
    pub skips_backward: bool,
}

pub(super) fn multiplies(op: &Op) -> bool {
    matches!(op, Op::Conv2d(_) | Op::Linear { .. })
}

/// The part of a written buffer that the backward pass will read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum KeptPart {
    /// Nothing: any reader may overwrite the buffer.
    Nothing,
    /// The zeros of a ReLU's output: another ReLU or a dropout may overwrite the buffer.
    Zeros,
    /// Everything that a custom layer has written.
    Values,
}

/// Builds a [`FusionPlan`], operation by operation.
struct Planner<'a> {
    nodes: &'a [Node],
    /// For each value, the number of operations that read it; `producer` is the operation that writes it.
    readers: Vec<usize>,
    producer: Vec<Option<usize>>,
    /// For each buffer, the content that has to be kept.
    kept: Vec<KeptPart>,
    plan: FusionPlan,
}

impl<'a> Planner<'a> {
    fn new(network: &'a Network) -> Self {
        let (nodes, values) = (network.nodes(), network.values().len());
        let (mut readers, mut producer) = (vec![0; values], vec![None; values]);
        for (i, node) in nodes.iter().enumerate() {
            readers[node.input] += 1;
            producer[node.output] = Some(i);
            if let Op::Add(other) = node.op {
                readers[other] += 1;
            }
        }
        let plan = FusionPlan {
            buffer: (0..values).collect(),
            recomputed: Vec::new(),
            nodes: vec![NodePlan::default(); nodes.len()],
        };
        Self { nodes, readers, producer, kept: vec![KeptPart::Nothing; values], plan }
    }

    fn is_relu(&self, i: usize) -> bool {
        self.nodes[i].op == Op::Activation(Activation::Relu)
    }

    fn is_maximum(&self, i: usize) -> bool {
        matches!(self.nodes[i].op, Op::Pool(p) if p.kind == PoolKind::Max)
    }

    /// Returns the previous operation, if nothing else reads its output.
    fn only_before(&self, i: usize) -> Option<usize> {
        let x = self.nodes[i].input;
        self.producer[x].filter(|_| self.readers[x] == 1)
    }

    /// Makes an operation overwrite its input, if possible.
    fn compute_in_place(&mut self, i: usize) {
        let (node, buffer) = (&self.nodes[i], &self.plan.buffer);
        let x = node.input;
        let (is_alone, is_input) = (self.readers[x] == 1, self.plan.share(x, 0));
        let free = |most| is_alone && !is_input && self.kept[buffer[x]] <= most;
        let in_place = match node.op {
            Op::Flatten => is_alone || is_input,
            // Elements that a dropout sets to zero have no gradient, regardless of the preceding ReLU.
            Op::Activation(Activation::Relu) | Op::Dropout { .. } => free(KeptPart::Zeros),
            Op::Add(other) => free(KeptPart::Nothing) && !self.plan.share(other, x),
            _ => false,
        };
        if in_place {
            self.plan.buffer[node.output] = self.plan.buffer[x];
        }
    }

    /// Fuses a ReLU into the epilogue of the operation before it.
    fn fuse_relu(&mut self, i: usize) {
        let has_epilogue = |op: &Op| matches!(op, Op::Conv2d(_) | Op::Linear { bias: true, .. });
        let before = self.producer[self.nodes[i].input].filter(|before| has_epilogue(&self.nodes[*before].op));
        if let Some(before) = before.filter(|_| self.is_relu(i) && self.plan.in_place(&self.nodes[i])) {
            self.plan.nodes[before].relu = true;
            self.plan.nodes[i].skips_forward = true;
        }
    }

    /// Fuses the ReLU before an operation into the gradient of the operation's input.
    fn mask(&mut self, i: usize, masks: impl Fn(&Node) -> bool) {
        let node = &self.nodes[i];
        let can_mask = multiplies(&node.op) || self.is_maximum(i) && masks(node);
        if let Some(relu) = self.only_before(i).filter(|before| can_mask && self.is_relu(*before)) {
            let mask = self.plan.in_place(&self.nodes[relu]);
            self.plan.nodes[i].mask = mask;
            self.plan.nodes[relu].skips_backward = mask;
        }
    }

    /// Fuses a maximum into a convolution's epilogue. The convolution comes directly before the maximum, or with only a ReLU between them; the
    /// gradient of the ReLU is then part of the maximum's gradient.
    fn fuse_pool(&mut self, i: usize, pools: impl Fn(&Node, &Node) -> bool) {
        let Some(before) = self.only_before(i).filter(|_| self.is_maximum(i)) else { return };
        let NodePlan { skips_forward, skips_backward, .. } = self.plan.nodes[before];
        let through = self.is_relu(before) && skips_forward && skips_backward;
        let conv = if through { self.producer[self.nodes[before].input] } else { Some(before) };
        let takes = |conv: &usize| {
            let node = &self.nodes[*conv];
            matches!(node.op, Op::Conv2d(_)) && pools(node, &self.nodes[i])
        };
        if let Some(conv) = conv.filter(takes) {
            self.plan.nodes[conv].pool = Some(i);
            self.plan.nodes[i].skips_forward = true;
        }
    }

    /// Fuses the factor of the dropout after a masked maximum into the maximum's gradient.
    fn fuse_dropout(&mut self, i: usize) {
        let node = &self.nodes[i];
        let is_dropout = matches!(node.op, Op::Dropout { .. }) && self.plan.in_place(node);
        let is_masked = |pool: &usize| matches!(self.nodes[*pool].op, Op::Pool(_)) && self.plan.nodes[*pool].mask;
        if let Some(pool) = self.producer[node.input].filter(|_| is_dropout).filter(is_masked) {
            self.plan.nodes[pool].dropout = Some(i);
            self.plan.nodes[i].skips_backward = true;
        }
    }

    /// Records which part of an operation's output the backward pass reads.
    fn note_kept(&mut self, i: usize) {
        let node = &self.nodes[i];
        let keeps = match node.op {
            Op::Own => KeptPart::Values,
            Op::Activation(Activation::Relu) => KeptPart::Zeros,
            Op::Pool(_) if self.plan.nodes[i].mask => KeptPart::Zeros,
            _ => KeptPart::Nothing,
        };
        let written = self.plan.buffer[node.output];
        self.kept[written] = self.kept[written].max(keeps);
    }
}

impl FusionPlan {
    /// Plans a network on a GPU of this compute capability.
    pub fn new(network: &Network, options: &CudaOptions, compute_capability: Option<(u32, u32)>) -> Self {
        let dtype = options.precision.activations();
        let masks = |node: &Node| Pooling::masks(&network.pool_geometry(node, 1), dtype, options.layout);
        let form = |conv: &Node| {
            let (dtype, layout) = (options.precision.products(), options.layout);
            Form { method: options.method_of(conv).on(compute_capability, dtype), dtype, layout }
        };
        let pools = |conv: &Node, pool: &Node| {
            let g = network.pool_geometry(pool, 1);
            [g.size, g.stride, g.padding] == [[2; 2], [2; 2], [0; 2]]
                && Convolution::pools(&network.conv_geometry(conv, 1), form(conv))
        };
        let unpools =
            |conv: &Node| Convolution::unpools(&network.conv_geometry(conv, 1), form(conv), compute_capability);
        Self::with(network, options.fused, masks, pools).unpooling(network.nodes(), unpools)
    }

    /// Plans a network with these choices. `fused`: epilogues compute the operations that follow them; `masks`: a pool's gradient includes
    /// the ReLU before it; `pools`: a convolution's epilogue computes a pool.
    pub(super) fn with(
        network: &Network,
        fused: bool,
        masks: impl Fn(&Node) -> bool,
        pools: impl Fn(&Node, &Node) -> bool,
    ) -> Self {
        let mut planner = Planner::new(network);
        for i in 0..network.nodes().len() {
            planner.compute_in_place(i);
            if fused {
                planner.fuse_relu(i);
                planner.mask(i, &masks);
                planner.fuse_pool(i, &pools);
                planner.fuse_dropout(i);
            }
            planner.note_kept(i);
        }
        let recomputed = network.recomputed(&planner.plan.buffer);
        FusionPlan { recomputed, ..planner.plan }
    }

    /// Lets weight gradients expand the gradient of the maximum in their convolution's epilogue, if `unpools` permits it and the convolution's
    /// input needs no gradient: an input gradient would read the gradient of the convolution's own output.
    pub fn unpooling(mut self, nodes: &[Node], unpools: impl Fn(&Node) -> bool) -> Self {
        for (i, node) in nodes.iter().enumerate() {
            let Some(pool) = self.nodes[i].pool.filter(|_| !self.needs_gradient(node.input)) else { continue };
            self.nodes[i].unpools = unpools(node);
            self.nodes[pool].skips_backward |= self.nodes[i].unpools;
        }
        self
    }

    /// Returns the maximum whose gradient the weight gradient of operation i expands.
    pub fn unpooled(&self, i: usize) -> Option<usize> {
        self.nodes[i].pool.filter(|_| self.nodes[i].unpools)
    }

    /// Returns true if a node overwrites its input.
    pub fn in_place(&self, node: &Node) -> bool {
        self.share(node.output, node.input)
    }

    /// Returns true if two values use the same memory.
    fn share(&self, a: ValueId, b: ValueId) -> bool {
        self.buffer[a] == self.buffer[b]
    }

    /// Returns the value that operation i writes in the forward pass: the output of the maximum after it, if its epilogue computes that maximum.
    pub fn writes(&self, nodes: &[Node], i: usize) -> ValueId {
        nodes[self.nodes[i].pool.unwrap_or(i)].output
    }

    /// Returns true if operation i is recomputed for the backward pass.
    pub fn recomputes(&self, nodes: &[Node], i: usize) -> bool {
        self.recomputed[self.buffer[self.writes(nodes, i)]]
    }

    /// Returns true if a value is stored: false for the input of a pool that is part of an epilogue.
    pub fn is_stored(&self, nodes: &[Node], value: ValueId) -> bool {
        !nodes.iter().zip(&self.nodes).any(|(node, plan)| plan.pool.is_some() && self.share(node.output, value))
    }

    /// Returns true if an operation after operation i has already written the gradient of a value that operation i reads.
    pub fn joins(&self, nodes: &[Node], i: usize, value: ValueId) -> bool {
        let writes = |n: &Node| n.input == value && !self.in_place(n) || matches!(n.op, Op::Add(o) if o == value);
        nodes[i + 1..].iter().any(writes)
    }

    /// Returns the value whose gradient operation i reads: the output of the maximum after it, if its weight gradient expands the maximum's
    /// gradient.
    pub fn backward_input(&self, nodes: &[Node], i: usize) -> ValueId {
        nodes[self.unpooled(i).unwrap_or(i)].output
    }

    /// Returns true if the gradient of a value is stored: false for the input, and for a gradient that a weight gradient expands.
    pub fn stores_gradient(&self, nodes: &[Node], value: ValueId) -> bool {
        let is_expanded = |(node, plan): (&Node, &NodePlan)| plan.unpools && self.share(node.output, value);
        self.needs_gradient(value) && !nodes.iter().zip(&self.nodes).any(is_expanded)
    }

    /// Returns true if the gradient of a value is needed: false for the input.
    pub fn needs_gradient(&self, value: ValueId) -> bool {
        !self.share(value, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Purpose, plan};
    use super::*;
    use crate::network::*;
    use warpbook_record::Dtype;

    #[test]
    fn what_is_computed_in_place_shares_memory() {
        // Values: input, conv1, relu1, conv2, relu2, pool1, dropout1, flatten1, fc1, relu3, dropout2, fc2
        let n = mnist_cnn(0.25, 0.5);
        let s = FusionPlan::with(&n, true, |_| false, |_, _| false);
        assert_eq!(s.buffer, [0, 1, 1, 3, 3, 5, 5, 5, 8, 8, 8, 11]);
        let names = |plan: &FusionPlan, flag: fn(&NodePlan) -> bool| -> Vec<String> {
            let flagged = n.nodes().iter().zip(&plan.nodes).filter(|(_, plan)| flag(plan));
            flagged.map(|(node, _)| node.name.clone()).collect()
        };
        assert_eq!(names(&s, |node| node.relu), ["conv1", "conv2", "fc1"]);
        assert_eq!(names(&s, |node| node.mask), ["conv2"], "a pool or a dropout is between the others");
        assert_eq!(names(&s, |node| node.skips_backward), ["relu1"]);
        let masked = FusionPlan::with(&n, true, |_| true, |_, _| false);
        assert_eq!(names(&masked, |node| node.mask), ["conv2", "pool1"]);
        let plain = FusionPlan::with(&n, false, |_| true, |_, _| false);
        assert_eq!(plain.buffer, s.buffer);
        assert!(!plain.nodes.iter().any(|node| node.relu || node.mask));
        assert!(!s.needs_gradient(0) && s.needs_gradient(1));
    }

    #[test]
    fn a_masked_pool_takes_the_factor_of_the_dropout_after_it() {
        let fused_dropouts = |masks: bool, layers: Vec<Layer>| {
            let n = Network::new([2, 6, 6], layers).unwrap();
            let s = FusionPlan::with(&n, true, |_| masks, |_, _| false);
            let nodes = s.nodes.iter();
            let skips: Vec<bool> = nodes.clone().map(|node| node.skips_backward).collect();
            (nodes.map(|node| node.dropout).collect::<Vec<_>>(), skips)
        };
        let layers = |before: Layer| vec![conv2d(2, 3), before, max_pool(2), dropout(0.5), flatten(), linear(2)];
        let (after, done) = fused_dropouts(true, layers(relu()));
        assert_eq!((after[2], &done[..4]), (Some(3), &[false, true, false, true][..]));
        for (after, done) in [fused_dropouts(false, layers(relu())), fused_dropouts(true, layers(gelu()))] {
            assert!(after.iter().all(Option::is_none) && !done[3], "the pool's output is no mask");
        }
    }

    fn pools(plan: &FusionPlan) -> Vec<Option<usize>> {
        plan.nodes.iter().map(|node| node.pool).collect()
    }

    /// Returns, for the forward and the backward pass, true if another operation computes operation i.
    fn skips(plan: &FusionPlan, i: usize) -> [bool; 2] {
        [plan.nodes[i].skips_forward, plan.nodes[i].skips_backward]
    }

    #[test]
    fn what_a_pool_in_an_epilogue_reads_has_no_memory() {
        let n = mnist_cnn(0.25, 0.5);
        let [plain, pooled] = [false, true].map(|fuses| FusionPlan::with(&n, true, |_| true, |_, _| fuses));
        // The fifth operation is the pool, after conv2 and relu2.
        assert_eq!(pools(&pooled), [None, None, Some(4), None, None, None, None, None, None, None, None]);
        assert_eq!((skips(&pooled, 4), skips(&plain, 4)), ([true, false], [false; 2]));
        assert_eq!((pooled.writes(n.nodes(), 2), plain.writes(n.nodes(), 2)), (5, 3));
        assert_eq!(pooled.buffer, plain.buffer);
        for purpose in [Purpose::Training { overlaps: false }, Purpose::Inference] {
            let [plain, pooled] = [&plain, &pooled].map(|s| plan(&n, s, 512, Dtype::F16, purpose));
            assert!(plain.get("value 3").is_some() && pooled.get("value 3").is_none());
            assert!(pooled.peak_bytes() <= plain.peak_bytes(), "the peak of a training may be in its backward pass");
            let first = |name: &str| pooled.get(name).map(|block| block.first_use);
            // conv2 is the third operation, and writes the maxima and their positions.
            assert_eq!(first("value 5"), Some(3));
            assert_eq!(first("kept 4"), (purpose != Purpose::Inference).then_some(3));
            assert_eq!(pooled.get("gradient 3").is_some(), purpose != Purpose::Inference);
        }
        // Without a mask the ReLU's gradient reads the pool's input.
        assert!(pools(&FusionPlan::with(&n, true, |_| false, |_, _| true)).iter().all(Option::is_none));
        assert!(pools(&FusionPlan::with(&n, false, |_| true, |_, _| true)).iter().all(Option::is_none));
        let fused_pools = |layers: Vec<Layer>| {
            let n = Network::new([2, 6, 6], layers).unwrap();
            pools(&FusionPlan::with(&n, true, |_| true, |_, _| true))
        };
        let conv = || conv2d(2, 3).padding(1);
        assert_eq!(fused_pools(vec![conv(), max_pool(2), flatten(), linear(2)])[0], Some(1), "without a ReLU");
        assert_eq!(fused_pools(vec![conv(), relu(), avg_pool(2), flatten(), linear(2)])[0], None);
        assert_eq!(fused_pools(vec![conv(), gelu(), max_pool(2), flatten(), linear(2)])[0], None);
        assert_eq!(
            fused_pools(vec![conv(), residual([conv()]), max_pool(2), flatten(), linear(2)])[0],
            None,
            "it is read twice"
        );
    }

    /// Returns a network of these layers for images of 2 x 6 x 6, whose weight gradients expand the gradients of maxima if possible.
    fn unpooling(layers: Vec<Layer>) -> (Network, FusionPlan) {
        let n = Network::new([2, 6, 6], layers).unwrap();
        let s = FusionPlan::with(&n, true, |_| true, |_, _| true).unpooling(n.nodes(), |_| true);
        (n, s)
    }

    #[test]
    fn a_weight_gradient_expands_the_maxima_s_where_nothing_else_needs_it() {
        let conv = || conv2d(2, 3).padding(1);
        let stage = || vec![conv(), relu(), max_pool(2)];
        let end = || vec![flatten(), linear(2)];
        // conv1, relu1, pool1, conv2, relu2, pool2: the input gradient of conv2 reads the gradient of its output.
        let (n, s) = unpooling([stage(), stage(), end()].concat());
        let unpools: Vec<bool> = s.nodes.iter().map(|node| node.unpools).collect();
        assert_eq!((&unpools[..4], s.unpooled(0), s.unpooled(3)), (&[true, false, false, false][..], Some(2), None));
        assert_eq!([1, 2, 5].map(|i| skips(&s, i)), [[true; 2], [true; 2], [true, false]]);
        assert_eq!((s.backward_input(n.nodes(), 0), s.backward_input(n.nodes(), 3)), (3, 4));
        let stored: Vec<bool> = (0..8).map(|v| s.stores_gradient(n.nodes(), v)).collect();
        assert_eq!(stored, [false, false, false, true, true, true, true, true]);
        // Other cases: without a ReLU; with a dropout before the convolution; without a kernel that expands the gradient; with a separate pool.
        let (_, s) = unpooling([vec![conv(), max_pool(2)], end()].concat());
        assert!(s.nodes[0].unpools && !s.nodes[1].mask && skips(&s, 1) == [true; 2]);
        let (_, s) = unpooling([vec![dropout(0.5)], stage(), end()].concat());
        assert_eq!((s.nodes[1].pool, s.unpooled(1)), (Some(3), None), "the dropout's output has a gradient");
        let s = FusionPlan::with(&n, true, |_| true, |_, _| true).unpooling(n.nodes(), |_| false);
        assert!(s.nodes.iter().all(|node| !node.unpools) && skips(&s, 2) == [true, false]);
        let s = FusionPlan::with(&n, true, |_| true, |_, _| false).unpooling(n.nodes(), |_| true);
        assert!(s.nodes.iter().all(|node| !node.unpools) && skips(&s, 2) == [false; 2], "the pool is a kernel");
    }

    #[test]
    fn a_gradient_that_is_expanded_has_no_memory_and_what_it_comes_from_is_kept() {
        // conv1, relu1, pool1, dropout1, conv2, flatten1, fc1.
        let layers = [conv2d(2, 3).padding(1), relu(), max_pool(2), dropout(0.5), conv2d(2, 1), flatten(), linear(2)];
        let n = Network::new([2, 6, 6], layers).unwrap();
        let plain = FusionPlan::with(&n, true, |_| true, |_, _| true);
        let s = plain.clone().unpooling(n.nodes(), |_| true);
        assert_eq!((s.unpooled(0), s.nodes[2].dropout, s.buffer[4]), (Some(2), Some(3), 3));
        for overlaps in [false, true] {
            let [plain, layout] = [&plain, &s].map(|s| plan(&n, s, 16, Dtype::F16, Purpose::Training { overlaps }));
            assert!(plain.get("gradient 1").is_some() && layout.get("gradient 1").is_none());
            assert!(layout.peak_bytes() < plain.peak_bytes());
            // Times: seven operations forward, the loss at 8, backward from 9 to 15. conv1, which is last, reads the gradient of the maxima,
            // their positions, and their values, which are the mask.
            for name in ["gradient 3", "kept 2", "value 3", "value 0"] {
                assert_eq!(layout.get(name).map(|b| b.last_use), Some(15), "{name}, overlaps {overlaps}");
            }
        }
        // Without a mask the maxima themselves are free once the next layer has read them.
        let layers = [conv2d(2, 3).padding(1), max_pool(2), gelu(), flatten(), linear(2)];
        let (n, s) = unpooling(layers.to_vec());
        let layout = plan(&n, &s, 16, Dtype::F16, Purpose::Training { overlaps: false });
        let last = |name: &str| layout.get(name).map(|b| b.last_use);
        // Times: five operations forward, the loss at 6, backward from 7: gelu1 at 9, conv1 at 11.
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
        let s = FusionPlan::with(&n, true, |_| false, |_, _| false);
        // The branch ends in a ReLU, whose backward pass needs its output, so the sum is written to another buffer; the ReLU after the sum is in
        // place.
        assert_eq!(s.buffer, [0, 1, 1, 3, 3, 5, 5, 5, 8]);
        assert_eq!(s.nodes.iter().filter(|node| node.mask).count(), 0, "relu1 is read twice, relu3 before a flatten");
        let nodes = n.nodes();
        // conv2 also reads the sum's input, and runs backward after the sum.
        assert!(s.joins(nodes, 2, nodes[2].input) && !s.joins(nodes, 4, 2));
        let layout = plan(&n, &s, 4, Dtype::F32, Purpose::Training { overlaps: false });
        assert!(layout.get("joined 2").is_some());
    }

    #[test]
    fn a_sum_does_not_write_over_a_relu_s_output_whatever_is_between() {
        let buffers = |branch: Vec<Layer>| {
            let n = Network::new(8, [linear(8), residual(branch), linear(3)]).unwrap();
            FusionPlan::with(&n, false, |_| false, |_, _| false).buffer
        };
        // The dropout may overwrite the output of the ReLU, because the zeros stay zeros; the sum must not overwrite it.
        assert_eq!(buffers(vec![linear(8), relu(), dropout(0.2)]), [0, 1, 2, 2, 2, 5, 6]);
        assert_eq!(buffers(vec![linear(8), gelu(), dropout(0.2)]), [0, 1, 2, 3, 3, 3, 6]);
        assert_eq!(buffers(vec![linear(8), dropout(0.2)]), [0, 1, 2, 2, 2, 5]);
    }
}
