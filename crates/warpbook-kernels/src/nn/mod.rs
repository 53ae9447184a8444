//! The kernels of a network's operations, in `kernels/nn/`.

pub mod conv2d;
mod last_block;
mod own;

pub use last_block::{cross_entropy_last, mse_last, sum_squares_last, updates_last};
pub use own::{OwnForm, own_layer};

use crate::matmul::type_number;
use crate::shared::source;
use warpbook_record::{Dim, Dtype, Grid, KernelSpec, Source, Tile};

const ACTIVATION: Source = source!("nn/activation.cu");
const ADD: Source = source!("nn/add.cu");
const AUGMENT: Source = source!("nn/augment.cu");
const BATCH_NORM: Source = source!("nn/batch_norm.cu");
const CROSS_ENTROPY: Source = source!("nn/cross_entropy.cu");
const DIRECT: Source = source!("nn/01_direct.cu");
const DROPOUT: Source = source!("nn/dropout.cu");
const FEW_CHANNELS: Source = source!("nn/07_few_channels.cu");
const GROUPS: Source = source!("nn/groups.cu");
const IM2COL: Source = source!("nn/02_im2col.cu");
const IMPLICIT: Source = source!("nn/03_implicit_gemm.cu");
const LIBRARY: Source = source!("nn/library.cu");
const LOSS: Source = source!("nn/loss.cu");
const MSE: Source = source!("nn/mse.cu");
const MUON: Source = source!("nn/muon.cu");
const NORM: Source = source!("nn/norm.cu");
const OPTIMIZER: Source = source!("nn/optimizer.cu");
const CONV_REFERENCE: Source = source!("nn/conv_reference.cu");
const COLUMN_SUMS: Source = source!("nn/column_sums.cu");
const POOL: Source = source!("nn/pool.cu");
const POOL_ADJACENT: Source = source!("nn/pool_adjacent.cu");
const SHIFTED_GRADIENT: Source = source!("nn/06_shifted_gradient.cu");
const SHIFTED_WINDOWS: Source = source!("nn/05_shifted_windows.cu");
const TMA_IM2COL: Source = source!("nn/08_tma_im2col.cu");
const TENSOR_CORES: Source = source!("nn/04_implicit_tensor_cores.cu");
const ROWS: Source = source!("nn/rows.cu");
const STEP: Source = source!("nn/step.cu");

/// Number of threads per block of every kernel in this module except `prepare`.
const THREADS: i64 = 256;
/// Element types that the kernels are compiled for.
pub const TYPES: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::Bf16];

/// Layout of images in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// `[batch][height][width][channels]`.
    Nhwc,
    /// `[batch][channels][height][width]`.
    Nchw,
}

/// Returns a tile with one item per thread; the grid has as many blocks as needed.
fn per_element() -> Tile {
    Tile::new("t256", &[("THREADS", THREADS)])
}

/// Returns a tile with several items per thread; the grid has as many blocks as needed.
fn chunk(id: &'static str, items: i64) -> Tile {
    Tile::new(id, &[("THREADS", THREADS), ("ITEMS", items)])
}

/// Returns a tile in which each thread handles 16 bytes of elements at a time, and then advances by the size of the grid.
fn groups(dtype: Dtype) -> Tile {
    groups_in_blocks(dtype, 8)
}

/// Like [`groups`], but with 4 or 8 blocks per SM.
fn groups_in_blocks(dtype: Dtype, blocks: i64) -> Tile {
    let items = 16 / dtype.bytes() as i64;
    let id = if blocks == 4 { "t256b4" } else { "t256b8" };
    Tile::new(id, &[("THREADS", THREADS), ("ITEMS", items), ("BLOCKS_PER_SM", blocks)])
}

/// Makes a kernel of a training step, which waits for its predecessor.
fn kernel(source: Source, entry: &'static str, tile: Tile, grid: Grid) -> KernelSpec {
    KernelSpec::new(source, entry, &[tile], grid).waiting()
}

fn typed(source: Source, entry: &'static str, tile: Tile, grid: Grid, dtype: Dtype) -> KernelSpec {
    kernel(source, entry, tile, grid).define("IN", type_number(dtype))
}

fn over_images(spec: KernelSpec, layout: Layout) -> KernelSpec {
    spec.define("CHANNELS_FIRST", i64::from(layout == Layout::Nchw))
}

/// Returns the kernels `relu_forward(x, y, n)` and `relu_backward(y, dy, dx, n)`, and the corresponding kernels for GELU, whose gradient takes x in place of y.
#[must_use]
pub fn activation(dtype: Dtype) -> [KernelSpec; 4] {
    ["relu_forward", "relu_backward", "gelu_forward", "gelu_backward"]
        .map(|entry| typed(ACTIVATION, entry, groups(dtype), Grid::Resident, dtype))
}

/// Returns the kernels `add_forward(a, b, y, n)` and `add_accumulate(dy, dx, n)`.
#[must_use]
pub fn add(dtype: Dtype) -> [KernelSpec; 2] {
    ["add_forward", "add_accumulate"].map(|entry| typed(ADD, entry, groups(dtype), Grid::Resident, dtype))
}

/// Returns the kernel `add_weighted(x, share, first, sum, n)`, which also writes the f32 sum accumulated so far to `x`.
#[must_use]
pub fn add_weighted(dtype: Dtype) -> KernelSpec {
    typed(ADD, "add_weighted", groups(dtype), Grid::Resident, dtype)
}

/// Returns the kernels for work that a library does not do itself: `bias_forward(y, bias, channels, pixels, relu, n)` and `widen(from, to, n)`.
#[must_use]
pub fn library(dtype: Dtype) -> [KernelSpec; 2] {
    ["bias_forward", "widen"].map(|entry| typed(LIBRARY, entry, groups(dtype), Grid::Resident, dtype))
}

/// Returns the kernel `mean_loss(partial, hits, m, count, slot, losses, correct, slots)`.
#[must_use]
pub fn mean_loss() -> KernelSpec {
    kernel(LOSS, "mean_loss", per_element(), Grid::One)
}

/// Returns the kernel `cross_entropy(logits, labels, batch, classes, smoothing, rows, loss_scale, dlogits, partial, hits)`, with one warp per row.
#[must_use]
pub fn cross_entropy(dtype: Dtype) -> KernelSpec {
    typed(CROSS_ENTROPY, "cross_entropy", per_element(), Grid::Cover, dtype)
}

/// Returns the kernel `mse(output, target, n, factor, loss_scale, doutput, partial)`.
#[must_use]
pub fn mse(dtype: Dtype) -> KernelSpec {
    typed(MSE, "mse", chunk("t256x16", 16), Grid::Cover, dtype)
}

/// Returns the kernels `max_forward(g, x, y, index, n)`, `max_backward(g, index, dy, dx, n)`, `average_forward(g, x, y, n)` and `average_backward(g, dy, dx,
/// n)`.
#[must_use]
pub fn pool(dtype: Dtype, layout: Layout) -> [KernelSpec; 4] {
    ["max_forward", "max_backward", "average_forward", "average_backward"]
        .map(|entry| over_images(typed(POOL, entry, per_element(), Grid::Cover, dtype), layout))
}

/// Returns the pooling kernels for NHWC images with adjacent windows: `max_forward_adjacent(g, x, y, index, n)` and `max_backward_adjacent(g, index, dy, mask,
/// dx, rows, columns, n, scale)`.
#[must_use]
pub fn pool_adjacent(dtype: Dtype) -> [KernelSpec; 2] {
    ["max_forward_adjacent", "max_backward_adjacent"]
        .map(|entry| typed(POOL_ADJACENT, entry, per_element(), Grid::Cover, dtype))
}

/// Returns the kernel `partial_sums(from, rows, n, chunk, across, out)`; `dtype` is the type of the rows.
#[must_use]
pub fn partial_sums(dtype: Dtype) -> KernelSpec {
    typed(COLUMN_SUMS, "partial_sums", per_element(), Grid::Cover, dtype)
}

/// Returns the kernel `total_sums(from, rows, n, first, out, rest)`, with one block of 32 warps for every 32 columns.
#[must_use]
pub fn total_sums() -> KernelSpec {
    typed(COLUMN_SUMS, "total_sums", Tile::new("t1024", &[("THREADS", 1024), ("BN", 32)]), Grid::Cover, Dtype::F32)
}

/// Returns [`total_sums`] for rows with this many columns that are aligned to 16 bytes. If there are many columns, returns `wide_total_sums` instead, which has
/// one block of 16 warps for every 128 columns.
#[must_use]
pub fn total_sums_of(columns: u32) -> KernelSpec {
    // With fewer columns, the wide kernel would have too few blocks, each with many rows.
    let is_wide = columns >= 32 * 128 && columns.is_multiple_of(4);
    if !is_wide {
        return total_sums();
    }
    let tile = Tile::new("t512", &[("THREADS", 512), ("BN", 128)]);
    typed(COLUMN_SUMS, "wide_total_sums", tile, Grid::Cover, Dtype::F32)
}

/// Returns the kernel `dropout(in, out, n, seed, name, step, threshold, scale, begin)`.
#[must_use]
pub fn dropout(dtype: Dtype) -> KernelSpec {
    typed(DROPOUT, "dropout", groups(dtype), Grid::Resident, dtype)
}

/// Returns the kernel `prepare(settings, control, found, loss_scale, clip, step)`, which runs with a single thread.
#[must_use]
pub fn prepare() -> KernelSpec {
    // The sizes are defined only because the other kernels in the file do not compile without them.
    let tile = Tile::new("t32", &[("THREADS", 32), ("ITEMS", 8)]);
    kernel(OPTIMIZER, "prepare", tile, Grid::One)
}

/// Returns the kernel `sgd(settings, step, weights, gradients, rounded, split, copy, n)`, and the kernels `sgd_momentum` and `adam`, which take one and two
/// additional arrays of optimiser state before `copy`. `dtype` is the type of the copy and of the rounded gradients.
#[must_use]
pub fn updates(dtype: Dtype) -> [KernelSpec; 3] {
    ["sgd", "sgd_momentum", "adam"].map(|entry| typed(OPTIMIZER, entry, chunk("t256x8", 8), Grid::Cover, dtype))
}

/// Returns the kernel `restore(found, counters, kept, n, weights, first, second, copy)`, which reverts a provisional update. `dtype` is the type of the copy.
#[must_use]
pub fn restore(dtype: Dtype) -> KernelSpec {
    let tile = Tile::new("t256x4b8", &[("THREADS", THREADS), ("ITEMS", 4), ("BLOCKS_PER_SM", 8)]);
    typed(OPTIMIZER, "restore", tile, Grid::Resident, dtype)
}

/// Returns the kernel `update_groups(cells, numbers, step, counters, rates, groups, weights, gradients, rounded, split, momentum, copy, n)`.
#[must_use]
pub fn update_groups(dtype: Dtype) -> KernelSpec {
    typed(GROUPS, "update_groups", chunk("t256x8", 8), Grid::Cover, dtype)
}

/// Returns the kernels `muon_direction(filters, numbers, step, weights, gradients, momentum, directions, partial)`, `muon_start(filters, step, directions,
/// partial, epsilon, normalises, work, factors)`, `muon_product(filters, step, what, iteration, work)` and `muon_update(filters, step, counters, rates, groups,
/// factors, iterations, work, weights, copy)`. `dtype` is the type of the copy.
#[must_use]
pub fn muon(dtype: Dtype) -> [KernelSpec; 4] {
    ["muon_direction", "muon_start", "muon_product", "muon_update"]
        .map(|entry| typed(MUON, entry, chunk("t256x8", 8), Grid::Cover, dtype))
}

/// Largest number of parts into which the sum over a gradient array is split, with one block per part. It is several times the number of blocks that an H100
/// runs at once, so that the SMs finish at about the same time. The number is the same on every GPU, and so are the bits of the result.
pub const MOST_PARTS: u64 = 4096;

/// Returns the number of blocks of `sum_squares` and `sum_squares_last` for `n` gradients, one for each part of the array.
#[must_use]
pub fn norm_blocks(tile: &Tile, n: u64) -> u64 {
    n.div_ceil(tile.size(Dim::Threads) * tile.size(Dim::Items)).min(MOST_PARTS)
}

fn of_parts(spec: KernelSpec) -> KernelSpec {
    spec.define("MOST_PARTS", MOST_PARTS as i64)
}

/// Returns the kernels `sum_squares(gradients, n, partial)` and `global_norm(partial, m, most, loss_scale, norm, clip, found)`.
#[must_use]
pub fn norm(dtype: Dtype) -> [KernelSpec; 2] {
    let tile = || chunk("t256x16", 16);
    [typed(NORM, "sum_squares", tile(), Grid::Cover, dtype), typed(NORM, "global_norm", tile(), Grid::One, dtype)]
        .map(of_parts)
}

/// Returns the kernels `start_step(counters, rates, control, order, count, first, labels, samples, n, indices, batch_labels, running, before, statistics)` with
/// one thread per sample, and `judge_step(counters, losses, overflow, found)`, `finish_step(end)` and `loss_of_parts(counters, part_losses, part_correct,
/// parts, n, losses, correct)` with a single thread each.
#[must_use]
pub fn step() -> [KernelSpec; 4] {
    let one = |entry| kernel(STEP, entry, Tile::new("t32", &[("THREADS", 32)]), Grid::One);
    let start = kernel(STEP, "start_step", per_element(), Grid::Cover);
    [start, one("judge_step"), one("finish_step"), one("loss_of_parts")]
}

/// Returns the kernel `gather_rows(rows, count, width, indices, out)`, with one block per row.
#[must_use]
pub fn gather_rows(dtype: Dtype) -> KernelSpec {
    typed(ROWS, "gather_rows", per_element(), Grid::Cover, dtype)
}

/// Returns the kernel `gather(images, count, channels, h, w, indices, values, padding, flip, seed, step, reflect, steps_per_epoch, drawn, fixed_row,
/// fixed_column, first, out)`, with one block per image.
#[must_use]
pub fn gather(dtype: Dtype, layout: Layout) -> KernelSpec {
    over_images(typed(AUGMENT, "gather", per_element(), Grid::Cover, dtype), layout)
}

/// The kernels of batch normalisation.
#[derive(Debug, Clone)]
pub struct BatchNorm {
    /// Sums x and the squares of x for each chunk: `(s, x, partial)`.
    pub sums_forward: KernelSpec,
    /// Adds the sums of all chunks, with 32 threads per channel: `(s, partial, counts, total)`.
    pub totals: KernelSpec,
    /// Computes the mean and the inverse standard deviation, and updates the running statistics, with 32 threads per channel: `(s, partial, epsilon, momentum,
    /// running_mean, running_variance, mean, inverse)`.
    pub statistics: KernelSpec,
    /// Computes the inverse standard deviation from a variance: `(s, variance, epsilon, inverse)`.
    pub inverse_deviation: KernelSpec,
    /// Computes the normalised output y: `(s, x, gamma, beta, mean, inverse, y)`.
    pub normalise: KernelSpec,
    /// Sums dy and the products of dy with the normalised x for each chunk: `(s, x, dy, mean, inverse, partial)`.
    pub sums_backward: KernelSpec,
    /// Computes dgamma and dbeta, and the coefficients that express dx in terms of dy and x, with 32 threads per channel: `(s, partial, gamma, inverse, dgamma,
    /// dbeta, line)`.
    pub lines: KernelSpec,
    /// Computes the input gradient dx: `(s, x, dy, mean, line, dx)`.
    pub backward: KernelSpec,
}

/// Returns the kernels of batch normalisation for a type and a layout.
#[must_use]
pub fn batch_norm(dtype: Dtype, layout: Layout) -> BatchNorm {
    let spec = |entry, tile, grid| over_images(typed(BATCH_NORM, entry, tile, grid, dtype), layout);
    let per_channel = |entry| spec(entry, per_element(), Grid::Cover);
    // With channels last, a thread keeps the coefficients of its channels in registers, so only four blocks fit on an SM.
    let blocks = if layout == Layout::Nhwc { 4 } else { 8 };
    let per_group = |entry| spec(entry, groups_in_blocks(dtype, blocks), Grid::Resident);
    BatchNorm {
        sums_forward: per_channel("sums_forward"),
        totals: per_channel("totals"),
        statistics: per_channel("statistics"),
        inverse_deviation: per_channel("inverse_deviation"),
        normalise: per_group("normalise"),
        sums_backward: per_channel("sums_backward"),
        lines: per_channel("lines"),
        backward: per_group("backward"),
    }
}

/// Returns every kernel of this module, for each element type and each layout.
pub(crate) fn all() -> Vec<KernelSpec> {
    let mut all = vec![mean_loss(), prepare()];
    all.extend(conv2d::all());
    all.extend(step());
    all.push(total_sums());
    all.push(total_sums_of(1 << 16));
    for dtype in TYPES {
        all.extend(activation(dtype));
        all.extend(add(dtype));
        all.push(add_weighted(dtype));
        all.extend(library(dtype));
        all.extend([cross_entropy(dtype), mse(dtype), dropout(dtype), gather_rows(dtype)]);
        all.extend(updates(dtype));
        all.push(update_groups(dtype));
        all.push(restore(dtype));
        all.extend(muon(dtype));
        all.extend(norm(dtype));
        all.extend(last_block::all(dtype));
        all.extend(pool_adjacent(dtype));
        all.push(partial_sums(dtype));
        for layout in [Layout::Nhwc, Layout::Nchw] {
            all.extend(pool(dtype, layout));
            all.push(gather(dtype, layout));
            let b = batch_norm(dtype, layout);
            all.extend([b.sums_forward, b.totals, b.statistics, b.inverse_deviation, b.normalise]);
            all.extend([b.sums_backward, b.lines, b.backward]);
        }
    }
    all
}
