//! The kernels of the guide's pairs: the same work in a slow way and in a fast one.
//!
//! All take `(x, y, n, size)`: two arrays of floats, their elements, and the size that the pair is swept over.

use crate::shared::source;
use warpbook_record::{Grid, KernelSpec, Tile};

/// Threads of a block, and blocks of an SM where the grid stays resident.
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
    /// Reads words that lie `size` apart.
    strided = "guide/strided.cu", "scale", 256;
    /// Reads neighbouring words.
    coalesced = "guide/coalesced.cu", "scale", 256;
    /// Transposes a matrix of edge `size`, a thread an element.
    transpose_direct = "guide/transpose_direct.cu", "transpose", 256;
    /// By tiles in shared memory, with bank conflicts. A thread has four elements.
    transpose_shared = "guide/transpose_shared.cu", "transpose", 256;
    /// The same without, by padding.
    transpose_padded = "guide/transpose_padded.cu", "transpose", 256;
    /// The same without, by a swizzle.
    transpose_swizzled = "guide/transpose_swizzled.cu", "transpose", 256;
    /// `size` paths through the code, with all of them in each warp.
    branches_divergent = "guide/branches_divergent.cu", "branch", 256;
    /// The same with one in each warp.
    branches_uniform = "guide/branches_uniform.cu", "branch", 256;
    /// A sum by an atomic addition an element.
    sum_atomics = "guide/sum_atomics.cu", "sum", 256;
    /// A sum by one a warp.
    sum_warps = "guide/sum_warps.cu", "sum", 256;
    /// Accesses of 4 bytes.
    loads_4 = "guide/loads_4.cu", "scale", 256;
    /// Accesses of 8 bytes, by a thread for every two elements.
    loads_8 = "guide/loads_8.cu", "scale", 256;
    /// Accesses of 16 bytes, by a thread for every four elements.
    loads_16 = "guide/loads_16.cu", "scale", 256;
    /// Operation number `size` on every element.
    one_operation = "guide/one_operation.cu", "operation", 256;
    /// The first `size` operations on every element.
    all_operations = "guide/all_operations.cu", "operations", 256;
    /// Walks through a cycle of lines in shared memory.
    chase_shared = "guide/chase_shared.cu", "chase", 256;
    /// Numbers that follow from an element's place.
    made = "guide/made.cu", "make", 256;
    /// An expression of each element, which whoever compiles it defines before the source.
    expression = "guide/expression.cu", "expression", 256;
    /// A layer of 64 neurons; a thread for each neuron of each of `n` samples.
    dense = "guide/dense.cu", "dense", 64;
}

/// A sum by registers, shuffles and one atomic addition a block.
#[must_use]
pub fn sum_blocks() -> KernelSpec {
    KernelSpec::new(source!("guide/sum_blocks.cu"), "sum", &tile(512, 4), Grid::Resident)
}

/// The sum of the products of both halves of x, added to `y[size]`.
#[must_use]
pub fn products() -> KernelSpec {
    KernelSpec::new(source!("guide/products.cu"), "products", &tile(512, 2), Grid::Resident)
}

/// Warps that [`chains`] has on an SM, of 32 threads a block.
pub const WARPS: [u64; 6] = [1, 2, 4, 8, 16, 32];

/// Eight walks through a cycle of lines by one thread, so many of them at a time.
#[must_use]
pub fn chase(at_a_time: u32) -> KernelSpec {
    KernelSpec::new(source!("guide/chase.cu"), "chase", &tile(32, 1), Grid::One).define("CHAINS", at_a_time.into())
}

/// Sums of eight words from random places, so many of them asked for at a time; tiles as of [`chains`].
#[must_use]
pub fn gather(at_a_time: u32) -> KernelSpec {
    let tiles =
        WARPS.map(|warps| Tile::new(format!("w{warps}"), &[("THREADS", 32), ("BLOCKS_PER_SM", warps.cast_signed())]));
    KernelSpec::new(source!("guide/gather.cu"), "gather", &tiles, Grid::Resident).define("LOADS", at_a_time.into())
}

/// Eight sums an element, so many of them at a time; a tile for each of [`WARPS`], by its place there.
#[must_use]
pub fn chains(at_a_time: u32) -> KernelSpec {
    let tiles =
        WARPS.map(|warps| Tile::new(format!("w{warps}"), &[("THREADS", 32), ("BLOCKS_PER_SM", warps.cast_signed())]));
    KernelSpec::new(source!("guide/chains.cu"), "chains", &tiles, Grid::Resident).define("CHAINS", at_a_time.into())
}

/// Values that [`walk`] may keep in registers.
pub const HELD: [u64; 5] = [8, 16, 32, 64, 128];

/// Where the values of a [`walk`] go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walk {
    /// Each is added at once.
    Added,
    /// So many are kept before they are added, in as many registers as they take.
    Held,
    /// The same with `__launch_bounds__` that ask for [`WALK_BLOCKS`] blocks an SM: what does not fit into the registers that are left to a thread is spilled to
    /// local memory.
    Bounded,
}

/// Blocks of 128 threads an SM that [`Walk::Bounded`] asks for: 1024 threads, which an SM of every GPU holds, so 64 registers a thread.
pub const WALK_BLOCKS: u64 = 8;

/// A warp's walk through random lines. Where its values are kept there is a tile for each of [`HELD`], named as those of [`chains`] are.
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

/// Whether a kernel spills registers on purpose.
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
