//! A network as a table, with the planned memory of its training.

use super::cuda::{self, CudaOptions};
use super::{Precision, Recipe};
use crate::network::{Network, ParamSpec};
use crate::ops::optimizer::Optimizer;

/// One operation of a [`Summary`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryRow {
    /// Name of the operation.
    pub name: String,
    /// The layer's text as it was written.
    pub layer: String,
    /// Shape of the output for one sample.
    pub output: String,
    /// Number of trained weights: the elements of all trained parameters.
    pub parameters: usize,
    /// FLOPs of the forward pass for the whole batch.
    pub flops: u64,
    /// Bytes of the output for the whole batch; 0 if the operation computes in place.
    pub output_bytes: u64,
    /// Bytes of the gradient of the output; 0 if the gradient is computed in place or not needed.
    pub gradient_bytes: u64,
    /// Bytes of other arrays: positions of maxima, statistics, partial sums.
    pub other_bytes: u64,
}

/// Planned bytes of a training on a GPU, without its data set, batches in transit and workspaces of products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedMemory {
    /// Weights in fp32, and the running statistics of batch normalisations.
    pub weights: u64,
    /// Copy of the weights in half precision, if products read one.
    pub half_copy: u64,
    /// Gradients of the weights, and their sums in f32 if a batch is computed in parts.
    pub gradients: u64,
    /// Optimiser state.
    pub state: u64,
    /// Activations, their gradients and other arrays of the operations, as if none shared memory.
    pub unshared: u64,
    /// Activations, their gradients and other arrays of the operations; arrays that are not in use at the same time share memory.
    pub activations: u64,
}

impl PlannedMemory {
    /// Returns the sum of all entries; `unshared` is not counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.weights + self.half_copy + self.gradients + self.state + self.activations
    }
}

/// Layers, shapes, parameters, FLOPs and memory of a network at a batch size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Samples per batch.
    pub batch: usize,
    /// Precision of the training.
    pub precision: Precision,
    /// Shape of the input.
    pub input: String,
    /// Operations in order.
    pub rows: Vec<SummaryRow>,
    /// FLOPs of one training step: forward, and the gradients of weights and inputs.
    pub step_flops: u64,
    /// Number of segments of the network: see [`Network::checkpointed`].
    pub segments: usize,
    /// FLOPs of a step's recomputation; not included in [`Self::step_flops`], so that rates remain comparable.
    pub recomputed_flops: u64,
    /// Bytes of a batch's samples on a GPU.
    pub input_bytes: u64,
    /// Planned memory of a training on a GPU.
    pub memory: PlannedMemory,
}

impl Summary {
    /// Summarises a training with these options and optimiser, and batches of this many samples.
    #[must_use]
    pub fn new(network: &Network, batch: usize, optimizer: &Optimizer, options: &CudaOptions) -> Self {
        let plan = cuda::footprint(network, batch, optimizer.state_slots(), options);
        let rows = network.nodes().iter().zip(plan.nodes).map(|(node, bytes)| {
            let trained = node.params.iter().map(|p| &network.params()[*p]).filter(|p| p.role.is_trained());
            SummaryRow {
                name: node.name.clone(),
                layer: node.written.clone(),
                output: network.value(node.output).to_string(),
                parameters: trained.map(ParamSpec::len).sum(),
                flops: network.node_flops(node) * batch as u64,
                output_bytes: bytes.output,
                gradient_bytes: bytes.gradient,
                other_bytes: bytes.other,
            }
        });
        let params = plan.params;
        Self {
            batch,
            precision: options.precision,
            input: network.input().to_string(),
            rows: rows.collect(),
            step_flops: network.training_flops() * batch as u64,
            segments: network.segments().len(),
            recomputed_flops: plan.recomputed_flops,
            input_bytes: plan.input,
            memory: PlannedMemory {
                weights: params.weights + params.running,
                half_copy: params.copy,
                gradients: params.gradients,
                state: params.state,
                unshared: plan.unshared,
                activations: plan.activations,
            },
        }
    }

    /// Returns the number of trained weights: the elements of all trained parameters.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.rows.iter().map(|r| r.parameters).sum()
    }
}

impl Network {
    /// Summarises layers, shapes, parameters, FLOPs and planned memory at a batch size, for a training in fp32 whose optimiser has no
    /// state. [`Summary::new`] takes other settings, and [`Recipe::summary`] takes them from a recipe.
    #[must_use]
    pub fn summary(&self, batch: usize) -> Summary {
        Summary::new(self, batch, &Optimizer::sgd(), &CudaOptions::new(Precision::Fp32))
    }
}

impl Recipe {
    /// Summarises the recipe's network at its batch size, or at the size of a part of a batch ([`Recipe::accumulate`]), with the memory
    /// of its optimiser and a GPU's options.
    #[must_use]
    pub fn summary(&self, options: &CudaOptions) -> Summary {
        let mut summary = Summary::new(&self.network, self.largest_part(self.batch), &self.optimizer, options);
        summary.memory.gradients += cuda::sums_of_gradients(self);
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::*;

    #[test]
    fn a_summary_adds_up() {
        let summary = mnist_cnn(0.25, 0.5).summary(512);
        assert_eq!((summary.parameters(), summary.rows.len()), (1_199_882, 11));
        assert_eq!(summary.rows[2].flops, 2 * 512 * 576 * 64 * 288);
        assert_eq!(summary.step_flops, mnist_cnn(0.25, 0.5).training_flops() * 512);
        // Each parameter begins at a multiple of 64 numbers: biases of 32 and 10 numbers take 64.
        let weights = 4 * (288 + 32 + 64 + 18432 + 64 + 1_179_648 + 128 + 1280 + 64);
        let memory = summary.memory;
        assert_eq!((memory.weights, memory.gradients, memory.half_copy, memory.state), (weights, weights, 0, 0));
        let rows: u64 = summary.rows.iter().map(|r| r.output_bytes + r.gradient_bytes + r.other_bytes).sum();
        assert_eq!(rows + summary.input_bytes, memory.unshared);
        assert!(memory.activations < memory.unshared);
        assert_eq!(memory.total(), 2 * weights + memory.activations);
    }

    #[test]
    fn rows_say_what_is_in_place_and_what_is_kept() {
        let summary = mnist_cnn(0.25, 0.5).summary(2);
        let row = |name: &str| summary.rows.iter().find(|r| r.name == name).unwrap();
        let bytes = |name: &str| (row(name).output_bytes, row(name).gradient_bytes, row(name).other_bytes);
        assert_eq!(summary.input_bytes, 4 * 2 * 784);
        assert_eq!(bytes("conv1"), (4 * 2 * 32 * 676, 4 * 2 * 32 * 676, 0));
        assert_eq!(bytes("relu1"), (0, 0, 0), "in place");
        assert_eq!(bytes("pool1"), (4 * 2 * 9216, 4 * 2 * 9216, 2 * 9216), "a byte for each maximum");
        assert_eq!(bytes("fc2"), (4 * 2 * 10, 4 * 2 * 10, 0));
    }

    #[test]
    fn precision_and_optimizer_change_the_memory() {
        let memory_with = |precision, optimizer| {
            let recipe = Recipe { optimizer, batch: 64, ..Recipe::mnist() };
            recipe.summary(&CudaOptions::new(precision)).memory
        };
        let (plain, adam) =
            (memory_with(Precision::Fp32, Optimizer::sgd()), memory_with(Precision::Fp32, Optimizer::adam()));
        assert_eq!((plain.state, adam.state, adam.activations), (0, 2 * plain.weights, plain.activations));
        let half = memory_with(Precision::AmpBf16, Optimizer::sgd());
        assert_eq!((half.half_copy, half.weights), (plain.weights / 2, plain.weights));
        // The linear layers' gradients are in half precision.
        assert!(2 * half.gradients >= plain.gradients && half.gradients < plain.gradients * 6 / 10);
        // The positions of maxima are bytes in any precision.
        assert!(2 * half.activations >= plain.activations && half.activations < plain.activations * 6 / 10);
    }

    #[test]
    fn every_network_has_a_summary() {
        let layers = [
            batch_norm(),
            conv2d(2, 3).padding(1),
            residual([conv2d(2, 1), gelu(), dropout(0.1)]),
            flatten(),
            residual([linear(32), relu()]),
            linear(3),
        ];
        let network = Network::new([1, 4, 4], layers).unwrap();
        let summary = network.summary(3);
        let row = |name: &str| summary.rows.iter().find(|r| r.name == name).unwrap();
        // Mean and deviation of the channel in f32, and partial sums and lines of the forward and the backward pass.
        assert!(row("bn1").other_bytes > 8 && row("residual1").output == "2 x 4 x 4");
        assert!(row("conv2").other_bytes >= 4 * 3 * 32, "a gradient that is added to that of the sum");
    }
}
