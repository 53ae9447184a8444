//! Memory that a training needs.

use super::{FusionPlan, NodeBytes};
use crate::network::Network;
use crate::ops::conv2d::cuda::HOPPER;
use crate::train::cuda::params::ParamBytes;
use crate::train::{CudaOptions, Recipe, TrainError, memory_check};
use warpbook_device::CudaDevice;
use warpbook_record::Dtype;

/// The planned memory of a training.
pub(in crate::train) struct Footprint {
    pub params: ParamBytes,
    /// Bytes of each operation.
    pub nodes: Vec<NodeBytes>,
    /// Bytes of the batch's samples.
    pub input: u64,
    /// Bytes of all arrays in the arena if none of them shared memory.
    pub unshared: u64,
    /// Bytes of the arena.
    pub activations: u64,
    /// FLOPs of the recomputation in the backward pass.
    pub recomputed_flops: u64,
}

/// Plans a network's training on an H200, with an optimiser of this many slots.
pub(in crate::train) fn footprint(network: &Network, batch: usize, slots: usize, options: &CudaOptions) -> Footprint {
    let (options, _) = options.arranged(network);
    let (fusion, dtype) = (FusionPlan::new(network, &options, Some(HOPPER)), options.precision.activations());
    let layout = super::plan(network, &fusion, batch, dtype, options.purpose());
    let nodes = network.nodes().iter().enumerate();
    let recomputed = nodes.clone().filter(|(i, _)| fusion.recomputes(network.nodes(), *i));
    Footprint {
        recomputed_flops: recomputed
            .map(|(_, node)| network.node_flops(node))
            .sum::<u64>()
            .saturating_mul(batch as u64),
        params: ParamBytes::new(network, Some(slots), dtype),
        nodes: nodes.map(|(i, node)| super::node_bytes(&layout, &fusion, node, i)).collect(),
        input: super::input_bytes(&layout),
        unshared: layout.blocks().iter().map(|b| b.bytes as u64).sum(),
        activations: layout.peak_bytes() as u64,
    }
}

/// Returns the number of bytes of the f32 sums of gradients over the parts of a batch; 0 for an undivided batch.
pub(in crate::train) fn sums_of_gradients(recipe: &Recipe) -> u64 {
    if recipe.accumulate > 1 { ParamBytes::new(&recipe.network, None, Dtype::F32).weights } else { 0 }
}

/// Returns the number of bytes of a training with batches of this size, without its data and the workspaces of
/// products.
fn bytes(recipe: &Recipe, options: &CudaOptions, fusion: &FusionPlan, batch: usize) -> u64 {
    let dtype = options.precision.activations();
    let planned = super::plan(&recipe.network, fusion, batch, dtype, options.purpose()).peak_bytes() as u64;
    let params = ParamBytes::new(&recipe.network, Some(recipe.optimizer.state_slots()), dtype);
    planned + params.total() + sums_of_gradients(recipe)
}

pub(in crate::train) fn ensure_it_fits(
    device: &CudaDevice,
    recipe: &Recipe,
    options: &CudaOptions,
    fusion: &FusionPlan,
    batch: usize,
) -> Result<(), TrainError> {
    let (free, _) = device.memory()?;
    memory_check::ensure_it_fits(batch, (free, "device memory"), |batch| bytes(recipe, options, fusion, batch))
}
