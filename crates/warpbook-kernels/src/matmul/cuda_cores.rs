//! The rungs on CUDA cores, and the rungs on tensor cores that use warp-level instructions.

use super::row::{kernel_row, on_tensor_cores};
use super::tile_table::{TileLine, TileTable};
use super::{Figure, Operands, Row};
use crate::shared::source;
use crate::tile::sizes;
use std::sync::LazyLock;
use warpbook_record::{Dtype, Grid, KernelSpec, Requires, Source, Tile};

const NAIVE: Source = source!("matmul/01_naive.cu");
const COALESCED: Source = source!("matmul/02_coalesced.cu");
const SHARED_TILE: Source = source!("matmul/03_shared_tile.cu");
const REGISTER_1D: Source = source!("matmul/04_register_1d.cu");
const REGISTER_2D: Source = source!("matmul/05_register_2d.cu");
const VECTORISED: Source = source!("matmul/06_vectorised.cu");
const WARP_TILE: Source = source!("matmul/07_warp_tile.cu");

const DOUBLE_BUFFERED: Source = source!("matmul/08_double_buffered.cu");
const WMMA: Source = source!("matmul/09_wmma.cu");
const MMA_SWIZZLED: Source = source!("matmul/10_mma_swizzled.cu");

/// Returns a tile with a ring of `s` stages in shared memory, with rows padded by 16 bytes. There are `[tm, tn]` sums per thread, `[wm, wn]` per warp, and
/// `blocks` blocks per SM. The number after `k` in the id is the number of thread groups that split k. Each group has its own ring, and they exchange
/// their sums through the rings' memory.
fn ring(
    id: &'static str,
    [tm, tn]: [i64; 2],
    [wm, wn]: [i64; 2],
    blocks: i64,
    costs: impl Into<Option<[f64; 3]>>,
) -> TileLine {
    let ([bm, bn, bk], [stages], [slices]) = (sizes(id, ""), sizes(id, "s"), sizes(id, "k"));
    let rings = slices * stages * bk * (bm + bn + 8) * 4;
    let sums = if slices > 1 { slices * bm * (bn + 4) * 4 } else { 0 };
    let more = [
        ("TM", tm),
        ("TN", tn),
        ("WM", wm),
        ("WN", wn),
        ("STAGES", stages),
        ("SLICES", slices),
        ("BLOCKS_PER_SM", blocks),
        ("DYNAMIC_SHARED_BYTES", rings.max(sums)),
    ];
    TileLine::new(id, block(id, bm * bn / tm / tn * slices, &more), costs)
}

static DOUBLE_BUFFERED_TILES: LazyLock<TileTable> = LazyLock::new(|| {
    TileTable::new([
        ring("128x256x8s4", [8, 16], [64, 64], 1, [11.3, 5.46, 5.108]),
        ring("128x256x16s4", [8, 16], [64, 64], 1, [11.3, 8.00, 5.07]),
        ring("256x128x8s4", [16, 8], [64, 64], 1, None),
        ring("128x128x8s4", [8, 8], [64, 32], 2, [4.04, 1.07, 2.721]),
        ring("128x128x8s4t16", [8, 16], [64, 64], 2, None),
        ring("64x64x8s4", [8, 8], [64, 32], 6, None),
        // These tiles split k among a block's warps, for products with few tiles.
        ring("64x128x8s4k4", [8, 16], [64, 64], 1, [1.78, 2.69, 1.426]),
        ring("32x64x16s3k8", [8, 8], [32, 64], 1, [1.58, 2.00, 0.389]),
        ring("32x32x8s3k8", [4, 8], [32, 32], 2, [1.62, 0.56, 0.249]),
        ring("32x16x8s3k8", [4, 4], [32, 16], 2, [1.89, 0.21, 0.188]),
    ])
});

/// Returns a tile for warps on tensor cores, with `[wm, wn]` sums per warp and `blocks` blocks per SM.
fn warps(id: &'static str, [wm, wn]: [i64; 2], blocks: i64, more: &[(&'static str, i64)]) -> Tile {
    let [bm, bn] = sizes(id, "");
    let own = [("WM", wm), ("WN", wn), ("BLOCKS_PER_SM", blocks)];
    block(id, bm / wm * (bn / wn) * 32, &[&own[..], more].concat())
}

fn wmma() -> KernelSpec {
    plain(WMMA, &[warps("128x128x32", [64, 32], 2, &[])])
}

fn mma_swizzled() -> KernelSpec {
    let tile = |id, warp, blocks| {
        let ([bm, bn, bk], [stages]) = (sizes(id, ""), sizes(id, "s"));
        // The stages have room for 4-byte elements, so that a tile works for every type.
        let bytes = stages * (bm + bn) * bk * 4;
        warps(id, warp, blocks, &[("STAGES", stages), ("GROUP", 8), ("DYNAMIC_SHARED_BYTES", bytes)])
    };
    plain(MMA_SWIZZLED, &[tile("128x256x32s4", [64, 64], 1), tile("128x128x32s3w64", [64, 64], 2)])
}

/// Returns a kernel on CUDA cores with one block per tile.
fn plain(source: Source, tiles: &[Tile]) -> KernelSpec {
    KernelSpec::new(source, "gemm", tiles, Grid::Tiles)
}

/// Returns a tile whose id begins with its numbers of rows and columns and its step along k.
fn block(id: &'static str, threads: i64, more: &[(&'static str, i64)]) -> Tile {
    let [bm, bn, bk] = sizes(id, "");
    let own = [("THREADS", threads), ("BM", bm), ("BN", bn), ("BK", bk)];
    Tile::new(id, &[&own[..], more].concat())
}

/// Returns square tiles with one thread per element of C.
fn shared_tiles() -> [Tile; 3] {
    [("32x32x32", 32), ("16x16x16", 16), ("8x8x8", 8)].map(|(id, edge)| block(id, edge * edge, &[]))
}

/// Returns tiles in which each thread computes 8 x 8 sums.
fn register_tiles(warps: bool) -> [Tile; 3] {
    [("128x128x8", 256, 2), ("128x128x16", 256, 2), ("64x64x8", 64, 6)].map(|(id, threads, blocks)| {
        let sizes = [("TM", 8), ("TN", 8), ("BLOCKS_PER_SM", blocks), ("WM", 64), ("WN", 32)];
        block(id, threads, if warps { &sizes } else { &sizes[..3] })
    })
}

/// Returns the rungs on CUDA cores: fp32, and 16-bit types on GPUs whose tensor cores do not support them.
pub(super) fn on_cuda_cores() -> Vec<Row> {
    let any = || Requires::AtLeast(7, 5);
    vec![
        kernel_row(
            "01_naive",
            "Naive",
            "One thread computes one element of C; adjacent threads compute adjacent rows.",
            any(),
            plain(NAIVE, &[block("32x8", 256, &[])]),
        )
        .drawn(Figure::RowAccess),
        kernel_row(
            "02_coalesced",
            "Coalesced",
            "Adjacent threads compute adjacent columns, so that a warp's accesses are coalesced.",
            any(),
            plain(COALESCED, &[block("8x32", 256, &[])]),
        )
        .drawn(Figure::ColumnAccess),
        kernel_row(
            "03_shared_tile",
            "Shared tiles",
            "A block loads tiles of A and B into shared memory, where each element is reused once per row or column of the tile.",
            any(),
            plain(SHARED_TILE, &shared_tiles()),
        )
        .drawn(Figure::SharedTile),
        kernel_row(
            "04_register_1d",
            "Register tile, 1-D",
            "Each thread computes eight elements of a column, so that an element of B is read once for eight FMAs.",
            any(),
            plain(REGISTER_1D, &[block("64x64x8", 512, &[("TM", 8)])]),
        )
        .drawn(Figure::RegisterColumn),
        kernel_row(
            "05_register_2d",
            "Register tile, 2-D",
            "Each thread computes 8 x 8 elements from 8 + 8 operands in registers.",
            any(),
            plain(REGISTER_2D, &register_tiles(false)[..1]),
        )
        .drawn(Figure::RegisterSquare),
        kernel_row(
            "06_vectorised",
            "Vectorised",
            "Every access to global and shared memory moves 16 bytes per thread.",
            any(),
            plain(VECTORISED, &register_tiles(false)),
        )
        .drawn(Figure::VectorAccess),
        Row {
            fallback: Some(["128x128x8", "64x64x8"]),
            ..kernel_row(
                "07_warp_tile",
                "Warp tiles",
                "The threads of a warp compute a compact part of the tile, so that shared memory serves their reads in fewer wavefronts.",
                any(),
                plain(WARP_TILE, &register_tiles(true)),
            )
        }
        .drawn(Figure::WarpTile)
        .tuned(),
        kernel_row(
            "08_double_buffered",
            "Double-buffered",
            "Tiles arrive by asynchronous copies, and fragments are loaded, while the previous ones are multiplied.",
            any(),
            plain(DOUBLE_BUFFERED, &DOUBLE_BUFFERED_TILES.tiles),
        )
        .drawn(Figure::DoubleBuffer)
        .tuned()
        // Asynchronous copies cannot convert types, so these costs apply only to f32, from compute capability 8.0 on.
        .costing(&[Dtype::F32], Requires::AtLeast(8, 0), &DOUBLE_BUFFERED_TILES.costs),
    ]
}

/// Returns the rungs on tensor cores that use warp-level instructions.
pub(super) fn on_warps() -> Vec<Row> {
    use Dtype::{Bf16, F16};
    vec![
        Row {
            fallback: Some(["128x128x32"; 2]),
            ..kernel_row(
                "09_wmma",
                "Tensor cores, wmma",
                "One warp instruction multiplies blocks of 16 x 16 x 16 in 16-bit types with fp32 sums.",
                Requires::AtLeast(7, 5),
                wmma(),
            )
        }
        .can(|c| {
            c.dtypes = vec![(F16, Requires::Nothing), (Bf16, Requires::AtLeast(8, 0))];
            c.hides_stalls = true;
        })
        .drawn(Figure::WmmaFragments)
        .tuned(),
        Row {
            fallback: Some(["128x256x32s4", "128x128x32s3w64"]),
            ..kernel_row(
                "10_mma_swizzled",
                "mma.sync, swizzled",
                "ldmatrix loads fragments from tiles whose 16-byte pieces are permuted, without bank conflicts.",
                Requires::AtLeast(8, 0),
                mma_swizzled(),
            )
        }
        .can(on_tensor_cores(Operands::Addresses, false))
        .drawn(Figure::Swizzle)
        .tuned(),
    ]
}
