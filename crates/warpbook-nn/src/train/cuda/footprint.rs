//! How much memory a training takes.

use super::CudaOptions;
use super::memory::{self, NodeBytes};
use super::params::ParamBytes;
use super::sharing::Sharing;
use crate::network::{Network, Node};
use crate::ops::conv2d::cuda::{Convolution, Form, HOPPER};
use crate::ops::pool::cuda::Pooling;
use crate::train::{Recipe, TrainError, fits};
use warpbook_device::CudaDevice;
use warpbook_record::Dtype;

/// What a network's operations share and skip on a GPU of a compute capability.
pub(in crate::train) fn sharing(
    network: &Network,
    options: &CudaOptions,
    compute_capability: Option<(u32, u32)>,
) -> Sharing {
    let dtype = options.precision.activations();
    let masks = |node: &Node| Pooling::masks(&network.pool_geometry(node, 1), dtype, options.layout);
    let form = |conv: &Node| {
        let (dtype, layout) = (options.precision.products(), options.layout);
        Form { method: options.method_of(conv), dtype, layout }
    };
    let pools = |conv: &Node, pool: &Node| {
        let g = network.pool_geometry(pool, 1);
        [g.size, g.stride, g.padding] == [[2; 2], [2; 2], [0; 2]]
            && Convolution::pools(&network.conv_geometry(conv, 1), form(conv))
    };
    let unpools = |conv: &Node| Convolution::unpools(&network.conv_geometry(conv, 1), form(conv), compute_capability);
    Sharing::of(network, options.fused, masks, pools).unpooling(network.nodes(), unpools)
}

/// The planned memory of a training.
pub(in crate::train) struct Footprint {
    pub params: ParamBytes,
    /// Of each operation.
    pub nodes: Vec<NodeBytes>,
    /// Of the batch's samples.
    pub input: u64,
    /// Of all arrays in the arena, each by itself.
    pub unshared: u64,
    /// Of the arena.
    pub activations: u64,
    /// FLOPs of what is computed again in the backward pass.
    pub again_flops: u64,
}

/// What is planned for a network's training with an optimiser of so many slots, on an H200.
pub(in crate::train) fn footprint(network: &Network, batch: usize, slots: usize, options: &CudaOptions) -> Footprint {
    let (options, _) = options.arranged(network);
    let (sharing, dtype) = (sharing(network, &options, Some(HOPPER)), options.precision.activations());
    let layout = memory::plan(network, &sharing, batch, dtype, options.purpose());
    let nodes = network.nodes().iter().enumerate();
    let again = nodes.clone().filter(|(i, _)| sharing.computes_again(network.nodes(), *i));
    Footprint {
        again_flops: again.map(|(_, node)| network.node_flops(node)).sum::<u64>().saturating_mul(batch as u64),
        params: ParamBytes::of(network, Some(slots), dtype),
        nodes: nodes.map(|(i, node)| memory::node_bytes(&layout, &sharing, node, i)).collect(),
        input: memory::input_bytes(&layout),
        unshared: layout.blocks().iter().map(|b| b.bytes as u64).sum(),
        activations: layout.peak_bytes() as u64,
    }
}

/// The bytes of the sums of gradients over the parts of a batch, which are f32; none where it is not taken in parts.
pub(in crate::train) fn sums_of_gradients(recipe: &Recipe) -> u64 {
    if recipe.accumulate > 1 { ParamBytes::of(&recipe.network, None, Dtype::F32).weights } else { 0 }
}

/// The bytes of a training with batches of this size, without its data and the workspaces of products.
fn bytes(recipe: &Recipe, options: &CudaOptions, sharing: &Sharing, batch: usize) -> u64 {
    let dtype = options.precision.activations();
    let planned = memory::plan(&recipe.network, sharing, batch, dtype, options.purpose()).peak_bytes() as u64;
    let params = ParamBytes::of(&recipe.network, Some(recipe.optimizer.state_slots()), dtype);
    planned + params.total() + sums_of_gradients(recipe)
}

pub(super) fn ensure_it_fits(
    device: &CudaDevice,
    recipe: &Recipe,
    options: &CudaOptions,
    sharing: &Sharing,
    batch: usize,
) -> Result<(), TrainError> {
    let (free, _) = device.memory()?;
    fits::ensure_it_fits(batch, (free, "device memory"), |batch| bytes(recipe, options, sharing, batch))
}
