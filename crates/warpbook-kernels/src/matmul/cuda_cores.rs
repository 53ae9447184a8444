//! The rows on CUDA cores, and those that use tensor cores by warp instructions.

use super::row::{cost, kernel_row, on_tensor_cores};
use super::{Cost, Figure, Operands, Row};
use crate::shared::source;
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

/// A ring of `stages` tiles in shared memory, rows padded by 16 bytes; `[tm, tn]` sums per thread, `[wm, wn]` per warp.
fn ring(id: &'static str, shape: [i64; 3], sums: [i64; 2], warp: [i64; 2], [stages, blocks]: [i64; 2]) -> Tile {
    sliced(id, shape, sums, warp, [stages, blocks], 1)
}

/// The same with its k divided among `slices` groups of threads with a ring each; their sums are exchanged in place of the rings.
fn sliced(
    id: &'static str,
    [bm, bn, bk]: [i64; 3],
    [tm, tn]: [i64; 2],
    [wm, wn]: [i64; 2],
    [stages, blocks]: [i64; 2],
    slices: i64,
) -> Tile {
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
    block(id, bm * bn / tm / tn * slices, [bm, bn, bk], &more)
}

fn double_buffered() -> KernelSpec {
    let tiles = [
        ring("128x256x8s4", [128, 256, 8], [8, 16], [64, 64], [4, 1]),
        ring("128x256x16s4", [128, 256, 16], [8, 16], [64, 64], [4, 1]),
        ring("256x128x8s4", [256, 128, 8], [16, 8], [64, 64], [4, 1]),
        ring("128x128x8s4", [128, 128, 8], [8, 8], [64, 32], [4, 2]),
        ring("128x128x8s4t16", [128, 128, 8], [8, 16], [64, 64], [4, 2]),
        ring("64x64x8s4", [64, 64, 8], [8, 8], [64, 32], [4, 6]),
        // For few tiles: the warps of a block divide k.
        sliced("64x128x8s4k4", [64, 128, 8], [8, 16], [64, 64], [4, 1], 4),
        sliced("32x64x16s3k8", [32, 64, 16], [8, 8], [32, 64], [3, 1], 8),
        sliced("32x32x8s3k8", [32, 32, 8], [4, 8], [32, 32], [3, 2], 8),
        sliced("32x16x8s3k8", [32, 16, 8], [4, 4], [32, 16], [3, 2], 8),
    ];
    KernelSpec::new(DOUBLE_BUFFERED, "gemm", &tiles, Grid::Tiles)
}

/// A tile of warps that multiply with tensor cores: `[wm, wn]` per warp.
fn warps(
    id: &'static str,
    [bm, bn, bk]: [i64; 3],
    [wm, wn]: [i64; 2],
    blocks: i64,
    more: &[(&'static str, i64)],
) -> Tile {
    let sizes = [("WM", wm), ("WN", wn), ("BLOCKS_PER_SM", blocks)];
    block(id, bm / wm * (bn / wn) * 32, [bm, bn, bk], &[&sizes[..], more].concat())
}

fn wmma() -> KernelSpec {
    KernelSpec::new(WMMA, "gemm", &[warps("128x128x32", [128, 128, 32], [64, 32], 2, &[])], Grid::Tiles)
}

fn mma_swizzled() -> KernelSpec {
    // Room for elements of four bytes, so that a tile works for every type.
    let tile = |id, shape: [i64; 3], warp, blocks, stages| {
        let bytes = stages * (shape[0] + shape[1]) * shape[2] * 4;
        warps(id, shape, warp, blocks, &[("STAGES", stages), ("GROUP", 8), ("DYNAMIC_SHARED_BYTES", bytes)])
    };
    let tiles =
        [tile("128x256x32s4", [128, 256, 32], [64, 64], 1, 4), tile("128x128x32s3w64", [128, 128, 32], [64, 64], 2, 3)];
    KernelSpec::new(MMA_SWIZZLED, "gemm", &tiles, Grid::Tiles)
}

/// A kernel on CUDA cores with one block per tile.
fn plain(source: Source, tiles: &[Tile]) -> KernelSpec {
    KernelSpec::new(source, "gemm", tiles, Grid::Tiles)
}

/// A tile of `bm` x `bn`, `bk` deep, and `more`.
fn block(id: &'static str, threads: i64, [bm, bn, bk]: [i64; 3], more: &[(&'static str, i64)]) -> Tile {
    let sizes = [("THREADS", threads), ("BM", bm), ("BN", bn), ("BK", bk)];
    Tile::new(id, &[&sizes[..], more].concat())
}

/// Square tiles, one thread per element.
fn shared_tiles() -> Vec<Tile> {
    [("32x32x32", 32), ("16x16x16", 16), ("8x8x8", 8)].map(|(id, edge)| block(id, edge * edge, [edge; 3], &[])).into()
}

/// 8 x 8 sums per thread.
fn register_tiles(warps: bool) -> Vec<Tile> {
    let tile = |id, threads, shape, blocks, warp: [i64; 2]| {
        let mut more = vec![("TM", 8), ("TN", 8), ("BLOCKS_PER_SM", blocks)];
        if warps {
            more.extend([("WM", warp[0]), ("WN", warp[1])]);
        }
        block(id, threads, shape, &more)
    };
    vec![
        tile("128x128x8", 256, [128, 128, 8], 2, [64, 32]),
        tile("128x128x16", 256, [128, 128, 16], 2, [64, 32]),
        tile("64x64x8", 64, [64, 64, 8], 6, [64, 32]),
    ]
}

/// fp32 on CUDA cores; 16-bit types where there is nothing better.
pub(super) fn on_cuda_cores() -> Vec<Row> {
    let any = || Requires::AtLeast(7, 5);
    vec![
        kernel_row(
            "01_naive",
            "Naive",
            "One thread computes one element of C; adjacent threads compute adjacent rows.",
            any(),
            plain(NAIVE, &[block("32x8", 256, [32, 8, 1], &[])]),
        )
        .drawn(Figure::RowAccess),
        kernel_row(
            "02_coalesced",
            "Coalesced",
            "Adjacent threads compute adjacent columns, so that a warp's accesses are coalesced.",
            any(),
            plain(COALESCED, &[block("8x32", 256, [8, 32, 1], &[])]),
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
            plain(REGISTER_1D, &[block("64x64x8", 512, [64, 64, 8], &[("TM", 8)])]),
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
            double_buffered(),
        )
        .drawn(Figure::DoubleBuffer)
        .tuned()
        // Asynchronous copies convert nothing, so they are for f32 only, from compute capability 8.0 on.
        .costing(&[Dtype::F32], Requires::AtLeast(8, 0), &CUDA_CORE_COSTS),
    ]
}

/// Tensor cores by warp instructions.
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

const CUDA_CORE_COSTS: [Cost; 7] = [
    cost("128x256x8s4", [11.3, 5.46, 5.108]),
    cost("128x256x16s4", [11.3, 8.00, 5.07]),
    cost("128x128x8s4", [4.04, 1.07, 2.721]),
    cost("64x128x8s4k4", [1.78, 2.69, 1.426]),
    cost("32x64x16s3k8", [1.58, 2.00, 0.389]),
    cost("32x32x8s3k8", [1.62, 0.56, 0.249]),
    cost("32x16x8s3k8", [1.89, 0.21, 0.188]),
];
