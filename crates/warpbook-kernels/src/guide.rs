//! The kernels of the guide's pairs. The two kernels of a pair do the same work, one in a slow way and one in a fast way.
//!
//! Their parameters are `(x, y, n, size)`: two arrays of floats, the number of elements in each, and the size that the pair varies.

use crate::shared::source;
use warpbook_record::{Grid, KernelSpec, Tile};

/// Makes a tile with `threads` threads per block and, for a grid that fits on the GPU at once, `blocks` blocks per SM.
fn tile(threads: i64, blocks: i64) -> [Tile; 1] {
    [Tile::new(format!("t{threads}b{blocks}"), &[("THREADS", threads), ("BLOCKS_PER_SM", blocks)])]
}

macro_rules! covering {
    ($($(#[$about:meta])* $name:ident = $path:literal, $entry:literal, $threads:literal;)*) => {
        $(
            $(#[$about])*
            #[must_use]
            pub fn $name() -> KernelSpec {
                KernelSpec::new(source!($path), $entry, &tile($threads, 1), Grid::Cover)
            }
        )*

        fn all_covering() -> Vec<KernelSpec> {
            vec![$($name()),*]
        }
    };
}

covering! {
    /// Each thread reads words that are `size` elements apart.
    strided = "guide/strided.cu", "scale", 256;
    /// Each thread reads words next to those of its neighbours.
    coalesced = "guide/coalesced.cu", "scale", 256;
    /// Transposes a matrix with edges of length `size`, using one thread per element.
    transpose_direct = "guide/transpose_direct.cu", "transpose", 256;
    /// Transposes tile by tile through shared memory, with bank conflicts. Each thread handles four elements.
    transpose_shared = "guide/transpose_shared.cu", "transpose", 256;
    /// Transposes tile by tile through shared memory; padding avoids bank conflicts.
    transpose_padded = "guide/transpose_padded.cu", "transpose", 256;
    /// Transposes tile by tile through shared memory; a swizzle avoids bank conflicts.
    transpose_swizzled = "guide/transpose_swizzled.cu", "transpose", 256;
    /// Branches into `size` paths, all of which occur in each warp.
    branches_divergent = "guide/branches_divergent.cu", "branch", 256;
    /// Branches into `size` paths, only one of which occurs in each warp.
    branches_uniform = "guide/branches_uniform.cu", "branch", 256;
    /// Computes a sum with one atomic addition per element.
    sum_atomics = "guide/sum_atomics.cu", "sum", 256;
    /// Computes a sum with one atomic addition per warp.
    sum_warps = "guide/sum_warps.cu", "sum", 256;
    /// Scales an array with 4-byte accesses.
    loads_4 = "guide/loads_4.cu", "scale", 256;
    /// Scales an array with 8-byte accesses, one thread for every two elements.
    loads_8 = "guide/loads_8.cu", "scale", 256;
    /// Scales an array with 16-byte accesses, one thread for every four elements.
    loads_16 = "guide/loads_16.cu", "scale", 256;
    /// Applies operation number `size` to every element.
    one_operation = "guide/one_operation.cu", "operation", 256;
    /// Applies the first `size` operations to every element.
    all_operations = "guide/all_operations.cu", "operations", 256;
    /// Follows chains of indices in shared memory, each element of which holds the index of the next.
    chase_shared = "guide/chase_shared.cu", "chase", 256;
    /// Writes values that are computed from each element's index.
    made = "guide/made.cu", "make", 256;
    /// Evaluates an expression for each element. The caller prepends a definition of the expression to the source.
    expression = "guide/expression.cu", "expression", 256;
    /// Computes a layer of 64 neurons, with one thread for each neuron of each of `n` samples.
    dense = "guide/dense.cu", "dense", 64;
}

/// Returns the kernel that computes a sum in registers and by shuffles, with one atomic addition per block.
#[must_use]
pub fn sum_blocks() -> KernelSpec {
    KernelSpec::new(source!("guide/sum_blocks.cu"), "sum", &tile(512, 4), Grid::Resident)
}

/// Returns the kernel that multiplies both halves of x element by element and adds the sum of the products to `y[size]`.
#[must_use]
pub fn products() -> KernelSpec {
    KernelSpec::new(source!("guide/products.cu"), "products", &tile(512, 2), Grid::Resident)
}

/// The numbers of warps per SM in the tiles of [`chains`], with 32 threads per block.
pub const WARPS: [u64; 6] = [1, 2, 4, 8, 16, 32];

/// Returns the kernel in which a single thread follows eight chains of 128-byte lines, `at_a_time` of them simultaneously.
#[must_use]
pub fn chase(at_a_time: u32) -> KernelSpec {
    KernelSpec::new(source!("guide/chase.cu"), "chase", &tile(32, 1), Grid::One).define("CHAINS", at_a_time.into())
}

/// Returns the kernel that sums eight words from random places, requesting `at_a_time` of them at once. It has the same tiles as [`chains`].
#[must_use]
pub fn gather(at_a_time: u32) -> KernelSpec {
    let tiles =
        WARPS.map(|warps| Tile::new(format!("w{warps}"), &[("THREADS", 32), ("BLOCKS_PER_SM", warps.cast_signed())]));
    KernelSpec::new(source!("guide/gather.cu"), "gather", &tiles, Grid::Resident).define("LOADS", at_a_time.into())
}

/// Returns the kernel that computes eight sums per element, `at_a_time` of them simultaneously. It has a tile for each of [`WARPS`].
#[must_use]
pub fn chains(at_a_time: u32) -> KernelSpec {
    let tiles =
        WARPS.map(|warps| Tile::new(format!("w{warps}"), &[("THREADS", 32), ("BLOCKS_PER_SM", warps.cast_signed())]));
    KernelSpec::new(source!("guide/chains.cu"), "chains", &tiles, Grid::Resident).define("CHAINS", at_a_time.into())
}

/// The numbers of values that [`walk`] may keep in registers.
pub const HELD: [u64; 5] = [8, 16, 32, 64, 128];

/// The way in which a [`walk`] uses the values that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walk {
    /// Each value is added immediately.
    Added,
    /// The values are kept in registers before they are added.
    Held,
    /// The values are kept as in [`Walk::Held`], but `__launch_bounds__` requests [`WALK_BLOCKS`] blocks per SM, which limits the registers per
    /// thread. Values that do not fit are spilled to local memory.
    Bounded,
}

/// Number of blocks of 128 threads per SM that [`Walk::Bounded`] requests. These are 1024 threads, which fit on an SM of every GPU, so each thread
/// has 64 registers.
pub const WALK_BLOCKS: u64 = 8;

/// Returns the kernel in which each warp reads random 128-byte lines one after another. If values are kept, it has a tile for each of [`HELD`], named like the
/// tiles of [`chains`].
#[must_use]
pub fn walk(values: Walk) -> KernelSpec {
    let blocks = if values == Walk::Bounded { WALK_BLOCKS.cast_signed() } else { 1 };
    let tile =
        |name: String, held: i64| Tile::new(name, &[("THREADS", 128), ("BLOCKS_PER_SM", blocks), ("HELD", held)]);
    let tiles = match values {
        Walk::Added => vec![tile("added".into(), 1)],
        Walk::Held | Walk::Bounded => HELD.map(|held| tile(format!("w{held}"), held.cast_signed())).to_vec(),
    };
    KernelSpec::new(source!("guide/walk.cu"), "walk", &tiles, Grid::Cover)
}

/// Returns true if a kernel spills registers on purpose with this tile.
#[must_use]
pub fn spills(kernel: &KernelSpec, tile: &Tile) -> bool {
    let bounded = walk(Walk::Bounded);
    *kernel == bounded && bounded.tiles.contains(tile)
}

pub(crate) fn all() -> Vec<KernelSpec> {
    let mut all = all_covering();
    all.extend([sum_blocks(), products()]);
    all.extend([1, 2, 4, 8].map(chains));
    all.extend([1, 2, 4, 8].map(gather));
    all.extend([1, 8].map(chase));
    all.extend([Walk::Held, Walk::Added, Walk::Bounded].map(walk));
    all
}
