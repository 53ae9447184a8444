//! Kernels in which the last block to finish also does the work of the kernels that would follow.

use super::{chunk, of_parts, per_element, typed};
use crate::shared::source;
use warpbook_record::{Dtype, Grid, KernelSpec, Source};

const CROSS_ENTROPY: Source = source!("nn/cross_entropy_last_block.cu");
const MSE: Source = source!("nn/mse_last_block.cu");
const NORM: Source = source!("nn/norm_last_block.cu");
const OPTIMIZER: Source = source!("nn/optimizer_last_block.cu");

/// Returns the kernel `cross_entropy_last(logits, labels, batch, classes, smoothing, rows, loss_scale, dlogits, partial, hits, arrived, count, slot, losses,
/// correct, slots, verdict)`. It does the work of [`super::cross_entropy`] and [`super::mean_loss`], and decides whether the step is valid.
#[must_use]
pub fn cross_entropy_last(dtype: Dtype) -> KernelSpec {
    typed(CROSS_ENTROPY, "cross_entropy_last", per_element(), Grid::Cover, dtype)
}

/// Returns the kernel `mse_last(output, target, n, factor, loss_scale, doutput, partial, arrived, count, slot, losses, slots, verdict)`. It does the work of
/// [`super::mse`] and [`super::mean_loss`], and decides whether the step is valid.
#[must_use]
pub fn mse_last(dtype: Dtype) -> KernelSpec {
    typed(MSE, "mse_last", chunk("t256x16", 16), Grid::Cover, dtype)
}

/// Returns the kernel `sum_squares_last(gradients, rounded, split, n, partial, m, arrived, most, loss_scale, norm, clip, overflow, verdict)`. It does the work
/// of [`super::norm`] for both arrays, and decides whether the step is valid. `dtype` is the type of the rounded gradients. Each array has
/// [`super::norm_blocks`] blocks.
#[must_use]
pub fn sum_squares_last(dtype: Dtype) -> KernelSpec {
    of_parts(typed(NORM, "sum_squares_last", chunk("t256x16", 16), Grid::Cover, dtype))
}

/// Returns the kernels `sgd_last`, `sgd_momentum_last` and `adam_last`, which are the kernels of [`super::updates`] with the additional last
/// arguments `arrived, end`.
#[must_use]
pub fn updates_last(dtype: Dtype) -> [KernelSpec; 3] {
    ["sgd_last", "sgd_momentum_last", "adam_last"]
        .map(|entry| typed(OPTIMIZER, entry, chunk("t256x8", 8), Grid::Cover, dtype))
}

pub(super) fn all(dtype: Dtype) -> Vec<KernelSpec> {
    [cross_entropy_last(dtype), mse_last(dtype), sum_squares_last(dtype)]
        .into_iter()
        .chain(updates_last(dtype))
        .collect()
}
