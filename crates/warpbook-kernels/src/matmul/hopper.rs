//! The rows on Hopper's tensor cores.

use super::row::{cost, kernel_row, on_tensor_cores};
use super::{Capabilities, Cost, Figure, Operands, Row};
use crate::shared::source;
use warpbook_record::{Dtype, Grid, KernelSpec, Requires, Source, Tile};

/// For rungs with Hopper's architecture-specific instructions.
fn hopper() -> Requires {
    Requires::Exactly("sm_90a".into())
}

/// Bytes of a row of a tile in shared memory that TMA swizzles, and of 64 of them.
const ROW_BYTES: i64 = 128;
const CHUNK_BYTES: i64 = 64 * ROW_BYTES;
/// Bytes of shared memory in addition to the stages; not a macro of the kernel.
const EXTRA: &str = "EXTRA";

/// The product is computed transposed.
const SWAPPED: (&str, i64) = ("SWAPPED", 1);
/// A warpgroup multiplies 128 rows in two instructions.
const TALL: (&str, i64) = ("HEIGHT", 2);

/// The rows of a tile, or swapped its columns, that a warpgroup multiplies.
fn rows_of_a_warpgroup(more: &[(&str, i64)]) -> i64 {
    if more.contains(&TALL) { 128 } else { 64 }
}

/// A tile of a Hopper rung: `stages` tiles of A and B in flight, one warpgroup for every 64 or 128 rows, or swapped columns, and `others`
/// more.
fn hopper_tile(id: &'static str, (bm, bn): (i64, i64), stages: i64, others: i64, more: &[(&'static str, i64)]) -> Tile {
    // A kernel may need room for results next to the stages; 1024 bytes are for the alignment.
    let extra = more.iter().find(|(name, _)| *name == EXTRA).map_or(0, |(_, bytes)| *bytes);
    let warpgroups = if more.contains(&SWAPPED) { bn } else { bm } / rows_of_a_warpgroup(more);
    // What is contiguous along m or n is loaded in boxes of 64.
    let rows: i64 = [bm, bn].map(|side| (side + 63) / 64 * 64).iter().sum();
    let mut sizes = vec![
        ("THREADS", (warpgroups + others) * 128),
        ("BM", bm),
        ("BN", bn),
        ("STAGES", stages),
        ("DYNAMIC_SHARED_BYTES", stages * rows * ROW_BYTES + extra + 1024),
    ];
    sizes.extend(more.iter().filter(|(name, _)| *name != EXTRA));
    Tile::new(id, &sizes)
}

/// Registers per thread of a producer and of a consumer, where a kernel moves them: 64 x 256 sums take 128 per thread.
const REGISTERS: [(&str, i64); 2] = [("PRODUCER_REGISTERS", 40), ("CONSUMER_REGISTERS", 232)];

/// The same for a kernel with so many consumers, `blocks` of which fit on an SM: the registers of a thread come in units of 8, and the
/// consumers divide those that the producer gives up.
fn registers(consumers: i64, blocks: i64) -> [(&'static str, i64); 2] {
    let threads = (consumers + 1) * 128;
    let each = 65536 / (threads * blocks) / 8 * 8;
    let [(producer, kept), (consumer, most)] = REGISTERS;
    [(producer, kept), (consumer, ((each * (consumers + 1) - kept) / consumers / 8 * 8).min(most))]
}

fn specialised(id: &'static str, shape: (i64, i64), stages: i64) -> Tile {
    hopper_tile(id, shape, stages, 1, &REGISTERS)
}

/// A tile of a persistent rung, in clusters of `[m, n]` blocks that share tiles of A and B, in groups of `group` rows of clusters; `out`
/// for a kernel that stores C through shared memory.
fn persistent(id: &'static str, shape: (i64, i64), stages: i64, [m, n]: [i64; 2], group: i64, out: bool) -> Tile {
    // Two chunks of C in flight for each consumer.
    let chunks = if out { shape.0 / 64 * 2 } else { 0 };
    let cluster = [("CLUSTER", m * n), ("CLUSTER_N", n), ("GROUP", group), (EXTRA, chunks * CHUNK_BYTES)];
    hopper_tile(id, shape, stages, 1, &[&registers(shape.0 / 64, 1)[..], &cluster].concat())
}

/// A tile whose k is split over `split` blocks, `blocks` of which fit on an SM, so that those of the next launch can start early.
fn split(id: &'static str, shape: (i64, i64), stages: i64, split: i64, blocks: i64) -> Tile {
    split_and_shared(id, shape, stages, split, blocks, [1, 1], &[])
}

/// The same in clusters of `[m, n]` adjacent tiles, whose blocks load what they share once.
fn shared(id: &'static str, shape: (i64, i64), stages: i64, split: i64, adjacent: [i64; 2]) -> Tile {
    split_and_shared(id, shape, stages, split, 1, adjacent, &[])
}

/// The same with the product computed transposed.
fn swapped(id: &'static str, shape: (i64, i64), stages: i64, split: i64, adjacent: [i64; 2]) -> Tile {
    split_and_shared(id, shape, stages, split, 1, adjacent, &[SWAPPED])
}

/// A tile of `shared` that is not split, with warpgroups of 128 rows: larger than what one instruction of each covers.
fn tall(id: &'static str, shape: (i64, i64), stages: i64, adjacent: [i64; 2]) -> Tile {
    split_and_shared(id, shape, stages, 1, 1, adjacent, &[TALL])
}

fn split_and_shared(
    id: &'static str,
    shape: (i64, i64),
    stages: i64,
    split: i64,
    blocks: i64,
    [m, n]: [i64; 2],
    others: &[(&'static str, i64)],
) -> Tile {
    let rows = if others.contains(&SWAPPED) { shape.1 } else { shape.0 };
    let more = [
        ("SPLIT", split),
        ("CLUSTER", m * n),
        ("CLUSTER_N", n),
        ("BLOCKS_PER_SM", blocks),
        // The partial sums that the other blocks send, of its part of the columns.
        (EXTRA, shape.0 * shape.1 * 4 / split * (split - 1)),
    ];
    let consumers = rows / rows_of_a_warpgroup(others);
    hopper_tile(id, shape, stages, 1, &[&registers(consumers, blocks)[..], &more, others].concat())
}

const WGMMA: Source = source!("matmul/11_wgmma_tma.cu");
const SPECIALISED: Source = source!("matmul/12_warp_specialised.cu");
const PERSISTENT: Source = source!("matmul/13_persistent_cluster.cu");
const OVERLAPPED: Source = source!("matmul/14_overlapped_store.cu");
const SPLIT_K: Source = source!("matmul/15_split_k.cu");
const TF32_REGISTERS: Source = source!("matmul/16_tf32_registers.cu");
const UNALIGNED: Source = source!("matmul/17_unaligned.cu");
const STREAM_K: Source = source!("matmul/18_stream_k.cu");

fn wgmma() -> KernelSpec {
    let tiles = [
        hopper_tile("128x128s4", (128, 128), 4, 0, &[]),
        hopper_tile("128x64s6", (128, 64), 6, 0, &[]),
        hopper_tile("64x64s8", (64, 64), 8, 0, &[]),
    ];
    KernelSpec::new(WGMMA, "gemm", &tiles, Grid::Tiles).needs(hopper())
}

fn warp_specialised() -> KernelSpec {
    let tiles = [
        specialised("128x256s4", (128, 256), 4),
        specialised("128x128s6", (128, 128), 6),
        specialised("64x256s5", (64, 256), 5),
    ];
    KernelSpec::new(SPECIALISED, "gemm", &tiles, Grid::Tiles).needs(hopper())
}

fn persistent_cluster() -> KernelSpec {
    let tiles = [
        persistent("128x256s4c2g8", (128, 256), 4, [2, 1], 8, false),
        persistent("128x256s4c1g8", (128, 256), 4, [1, 1], 8, false),
        persistent("128x128s6c2g8", (128, 128), 6, [2, 1], 8, false),
    ];
    KernelSpec::new(PERSISTENT, "gemm", &tiles, Grid::ResidentTiles).needs(hopper())
}

fn overlapped_store() -> KernelSpec {
    let tiles = [
        persistent("128x256s4c2g8", (128, 256), 4, [2, 1], 8, true),
        persistent("128x256s4c2g4", (128, 256), 4, [2, 1], 4, true),
        persistent("128x256s4c2g16", (128, 256), 4, [2, 1], 16, true),
        persistent("128x256s4c1g8", (128, 256), 4, [1, 1], 8, true),
        persistent("128x256s4c1g16", (128, 256), 4, [1, 1], 16, true),
        persistent("128x256s4c1g1", (128, 256), 4, [1, 1], 1, true),
        persistent("128x256s4c1x2g8", (128, 256), 4, [1, 2], 8, true),
        persistent("128x192s4c1g8", (128, 192), 4, [1, 1], 8, true),
        persistent("128x192s4c1g16", (128, 192), 4, [1, 1], 16, true),
        persistent("192x128s4c1g8", (192, 128), 4, [1, 1], 8, true),
        persistent("128x128s6c2g8", (128, 128), 6, [2, 1], 8, true),
        persistent("128x128s6c1g8", (128, 128), 6, [1, 1], 8, true),
        persistent("128x128s6c2x2g4", (128, 128), 6, [2, 2], 4, true),
        persistent("128x64s8c1g8", (128, 64), 8, [1, 1], 8, true),
        persistent("128x64s6c1x2g1", (128, 64), 6, [1, 2], 1, true),
        persistent("64x256s4c1g16", (64, 256), 4, [1, 1], 16, true),
    ];
    KernelSpec::new(OVERLAPPED, "gemm", &tiles, Grid::ResidentTiles).needs(hopper())
}

fn split_k() -> KernelSpec {
    let tiles = [
        split("128x128s6k2", (128, 128), 6, 2, 1),
        split("128x128s5k4", (128, 128), 5, 4, 1),
        split("128x128s5k8", (128, 128), 5, 8, 1),
        split("128x256s3k2", (128, 256), 3, 2, 1),
        split("128x192s4k2", (128, 192), 4, 2, 1),
        split("128x192s4k3", (128, 192), 4, 3, 1),
        split("192x128s4k2", (192, 128), 4, 2, 1),
        split("192x192s3k2", (192, 192), 3, 2, 1),
        split("128x64s8k2", (128, 64), 8, 2, 1),
        split("128x64s8k4", (128, 64), 8, 4, 1),
        split("128x64s8k8", (128, 64), 8, 8, 1),
        split("64x256s4k2", (64, 256), 4, 2, 1),
        split("64x256s4k4", (64, 256), 4, 4, 1),
        split("64x256s4k8", (64, 256), 4, 8, 1),
        split("64x128s8k2", (64, 128), 8, 2, 1),
        split("64x128s8k4", (64, 128), 8, 4, 1),
        split("64x64s12k2", (64, 64), 12, 2, 1),
        split("64x64s12k4", (64, 64), 12, 4, 1),
        split("64x64s12k8", (64, 64), 12, 8, 1),
        split("64x64s6k2b2", (64, 64), 6, 2, 2),
        split("64x64s6k4b2", (64, 64), 6, 4, 2),
        shared("128x128s6k2c2x2", (128, 128), 6, 2, [2, 2]),
        shared("128x128s5k4c2", (128, 128), 5, 4, [2, 1]),
        shared("128x192s4k2c1x2", (128, 192), 4, 2, [1, 2]),
        shared("128x64s8k2c1x2", (128, 64), 8, 2, [1, 2]),
        shared("128x64s8k4c1x2", (128, 64), 8, 4, [1, 2]),
        shared("64x128s8k4c2", (64, 128), 8, 4, [2, 1]),
        split("64x160s6k2", (64, 160), 6, 2, 1),
        shared("64x160s6k4c2", (64, 160), 6, 4, [2, 1]),
        shared("64x96s8k2c1x2", (64, 96), 8, 2, [1, 2]),
        shared("64x96s8k4c1x2", (64, 96), 8, 4, [1, 2]),
        shared("64x96s8k3c2", (64, 96), 8, 3, [2, 1]),
        split("64x32s12k2", (64, 32), 12, 2, 1),
        shared("64x32s12k4c2", (64, 32), 12, 4, [2, 1]),
        split("128x160s4k2", (128, 160), 4, 2, 1),
        split("192x96s4k4", (192, 96), 4, 4, 1),
        split("192x96s4k2", (192, 96), 4, 2, 1),
    ];
    KernelSpec::new(SPLIT_K, "gemm", &tiles, Grid::Tiles).needs(hopper())
}

/// The kernel of split k with the whole k in one block.
fn small_tiles() -> KernelSpec {
    let tiles = [
        split("64x64s12k1", (64, 64), 12, 1, 1),
        split("128x64s8k1", (128, 64), 8, 1, 1),
        split("128x128s6k1", (128, 128), 6, 1, 1),
        split("128x192s5k1", (128, 192), 5, 1, 1),
        split("192x128s5k1", (192, 128), 5, 1, 1),
        split("192x192s4k1", (192, 192), 4, 1, 1),
        split("128x256s4k1", (128, 256), 4, 1, 1),
        split("128x64s4k1b2", (128, 64), 4, 1, 2),
        split("64x128s4k1b2", (64, 128), 4, 1, 2),
        split("64x64s6k1b2", (64, 64), 6, 1, 2),
        shared("128x128s6k1c2x2", (128, 128), 6, 1, [2, 2]),
        shared("64x128s8k1c2", (64, 128), 8, 1, [2, 1]),
        shared("128x192s5k1c1x2", (128, 192), 5, 1, [1, 2]),
        shared("192x128s5k1c2", (192, 128), 5, 1, [2, 1]),
        shared("128x128s6k1c4", (128, 128), 6, 1, [4, 1]),
        shared("128x128s6k1c1x4", (128, 128), 6, 1, [1, 4]),
        shared("192x192s4k1c2", (192, 192), 4, 1, [2, 1]),
        shared("192x192s4k1c1x2", (192, 192), 4, 1, [1, 2]),
        shared("128x96s6k1c2", (128, 96), 6, 1, [2, 1]),
        shared("256x96s4k1c2", (256, 96), 4, 1, [2, 1]),
        split("192x96s5k1", (192, 96), 5, 1, 1),
        shared("192x192s4k1c2x2", (192, 192), 4, 1, [2, 2]),
        shared("128x192s5k1c2x2", (128, 192), 5, 1, [2, 2]),
        shared("256x96s4k1c4", (256, 96), 4, 1, [4, 1]),
        shared("128x160s5k1c2", (128, 160), 5, 1, [2, 1]),
        shared("128x160s5k1c1x2", (128, 160), 5, 1, [1, 2]),
        shared("128x224s4k1c2", (128, 224), 4, 1, [2, 1]),
        shared("128x112s6k1c1x2", (128, 112), 6, 1, [1, 2]),
        shared("128x96s6k1c4", (128, 96), 6, 1, [4, 1]),
        shared("64x64s12k1c4", (64, 64), 12, 1, [4, 1]),
        shared("64x32s12k1c4", (64, 32), 12, 1, [4, 1]),
        shared("64x96s8k1c2", (64, 96), 8, 1, [2, 1]),
        shared("64x96s8k1c1x2", (64, 96), 8, 1, [1, 2]),
        shared("192x160s4k1c1x2", (192, 160), 4, 1, [1, 2]),
        shared("192x112s5k1c2x2", (192, 112), 5, 1, [2, 2]),
        shared("192x96s5k1c2", (192, 96), 5, 1, [2, 1]),
        shared("64x160s6k1c2", (64, 160), 6, 1, [2, 1]),
        shared("64x160s6k1c1x2", (64, 160), 6, 1, [1, 2]),
        tall("256x144s4k1c2", (256, 144), 4, [2, 1]),
        tall("256x160s4k1c1x2", (256, 160), 4, [1, 2]),
        tall("256x160s4k1c2", (256, 160), 4, [2, 1]),
        tall("256x176s4k1", (256, 176), 4, [1, 1]),
        tall("256x192s4k1c1x2", (256, 192), 4, [1, 2]),
        shared("128x64s8k1c4x2", (128, 64), 8, 1, [4, 2]),
        shared("128x64s8k1c4", (128, 64), 8, 1, [4, 1]),
        shared("128x96s6k1c1x2", (128, 96), 6, 1, [1, 2]),
        shared("64x144s7k1c4", (64, 144), 7, 1, [4, 1]),
        shared("64x128s8k1c1x4", (64, 128), 8, 1, [1, 4]),
        shared("128x128s6k1c2", (128, 128), 6, 1, [2, 1]),
        shared("128x128s6k1c1x2", (128, 128), 6, 1, [1, 2]),
        shared("192x80s5k1c1x4", (192, 80), 5, 1, [1, 4]),
        shared("64x112s9k1c2x4", (64, 112), 9, 1, [2, 4]),
        shared("64x80s9k1c2x4", (64, 80), 9, 1, [2, 4]),
        shared("64x80s9k1c1x4", (64, 80), 9, 1, [1, 4]),
        shared("128x112s6k1c2", (128, 112), 6, 1, [2, 1]),
        shared("64x64s12k1c1x4", (64, 64), 12, 1, [1, 4]),
        shared("64x64s12k1c2x4", (64, 64), 12, 1, [2, 4]),
        shared("64x64s12k1c4x2", (64, 64), 12, 1, [4, 2]),
        shared("64x96s9k1c4x2", (64, 96), 9, 1, [4, 2]),
        shared("64x96s9k1c2x4", (64, 96), 9, 1, [2, 4]),
        shared("64x128s9k1c1x2", (64, 128), 9, 1, [1, 2]),
        shared("64x128s9k1c2x2", (64, 128), 9, 1, [2, 2]),
        shared("64x128s9k1c4x2", (64, 128), 9, 1, [4, 2]),
        shared("64x160s7k1c4x2", (64, 160), 7, 1, [4, 2]),
        shared("64x192s7k1c1x2", (64, 192), 7, 1, [1, 2]),
        shared("64x192s7k1c4", (64, 192), 7, 1, [4, 1]),
        shared("128x64s9k1c1x4", (128, 64), 9, 1, [1, 4]),
        shared("128x64s9k1c2x4", (128, 64), 9, 1, [2, 4]),
        shared("128x80s7k1c4x2", (128, 80), 7, 1, [4, 2]),
        shared("128x96s7k1c1x4", (128, 96), 7, 1, [1, 4]),
        shared("128x96s7k1c2x4", (128, 96), 7, 1, [2, 4]),
        shared("128x96s7k1c4x2", (128, 96), 7, 1, [4, 2]),
        shared("128x128s7k1c2x4", (128, 128), 7, 1, [2, 4]),
        shared("128x128s7k1c4x2", (128, 128), 7, 1, [4, 2]),
        shared("128x144s5k1c4x2", (128, 144), 5, 1, [4, 2]),
        shared("128x160s5k1c4x2", (128, 160), 5, 1, [4, 2]),
        shared("128x176s5k1c2", (128, 176), 5, 1, [2, 1]),
        shared("192x64s7k1c4x2", (192, 64), 7, 1, [4, 2]),
        shared("192x128s5k1c2x4", (192, 128), 5, 1, [2, 4]),
        shared("192x144s4k1c4x2", (192, 144), 4, 1, [4, 2]),
        shared("192x160s4k1c4x2", (192, 160), 4, 1, [4, 2]),
        tall("256x64s5k1c4x2", (256, 64), 5, [4, 2]),
    ];
    KernelSpec::new(SPLIT_K, "gemm", &tiles, Grid::Tiles).needs(hopper())
}

/// The kernel of split k on the transposed product.
fn transposed_product() -> KernelSpec {
    let tiles = [
        swapped("32x64s12k4", (32, 64), 12, 4, [1, 1]),
        swapped("32x128s8k2", (32, 128), 8, 2, [1, 1]),
        swapped("96x128s6k2", (96, 128), 6, 2, [1, 1]),
        swapped("96x128s6k1c1x4", (96, 128), 6, 1, [1, 4]),
        swapped("112x128s6k1c1x2", (112, 128), 6, 1, [1, 2]),
        swapped("32x64s12k1c1x4", (32, 64), 12, 1, [1, 4]),
        swapped("96x128s6k1c4", (96, 128), 6, 1, [4, 1]),
        swapped("96x256s4k1c1x2", (96, 256), 4, 1, [1, 2]),
        swapped("160x128s5k1c2", (160, 128), 5, 1, [2, 1]),
        swapped("160x128s5k1c1x2", (160, 128), 5, 1, [1, 2]),
        swapped("144x128s5k1c1x2", (144, 128), 5, 1, [1, 2]),
        swapped("160x64s6k2c1x2", (160, 64), 6, 2, [1, 2]),
        swapped("160x64s6k4", (160, 64), 6, 4, [1, 1]),
        swapped("96x64s8k2", (96, 64), 8, 2, [1, 1]),
        swapped("160x192s4k1c2", (160, 192), 4, 1, [2, 1]),
        swapped("144x64s6k1c2", (144, 64), 6, 1, [2, 1]),
        swapped("96x64s9k1c1x4", (96, 64), 9, 1, [1, 4]),
        swapped("96x192s5k1c1x2", (96, 192), 5, 1, [1, 2]),
        swapped("80x128s7k1c2", (80, 128), 7, 1, [2, 1]),
        swapped("80x128s7k1c1x4", (80, 128), 7, 1, [1, 4]),
        swapped("80x128s7k1c4x2", (80, 128), 7, 1, [4, 2]),
        swapped("96x64s9k1c2x4", (96, 64), 9, 1, [2, 4]),
        swapped("96x128s7k1c4x2", (96, 128), 7, 1, [4, 2]),
        swapped("96x128s7k1c2x4", (96, 128), 7, 1, [2, 4]),
        swapped("160x64s7k1c1x4", (160, 64), 7, 1, [1, 4]),
        swapped("208x128s4k1c2x4", (208, 128), 4, 1, [2, 4]),
    ];
    KernelSpec::new(SPLIT_K, "gemm", &tiles, Grid::Tiles).needs(hopper())
}

/// The kernel of split k, each part of k with sums of C for itself.
fn split_over_workspace() -> KernelSpec {
    let tiles = [
        shared("128x128s6c4", (128, 128), 6, 1, [4, 1]),
        shared("128x128s6c1x4", (128, 128), 6, 1, [1, 4]),
        shared("128x128s6c2x2", (128, 128), 6, 1, [2, 2]),
        split("128x128s6c1", (128, 128), 6, 1, 1),
        shared("64x128s8c4", (64, 128), 8, 1, [4, 1]),
        shared("128x64s8c1x4", (128, 64), 8, 1, [1, 4]),
        shared("64x64s12c2x2", (64, 64), 12, 1, [2, 2]),
        split("64x64s12c1", (64, 64), 12, 1, 1),
        shared("128x192s5c1x2", (128, 192), 5, 1, [1, 2]),
        shared("192x128s5c2", (192, 128), 5, 1, [2, 1]),
        shared("192x192s4c1x2", (192, 192), 4, 1, [1, 2]),
        shared("128x256s4c2", (128, 256), 4, 1, [2, 1]),
        shared("64x96s8c1x2", (64, 96), 8, 1, [1, 2]),
        shared("128x64s8k2c1x2", (128, 64), 8, 2, [1, 2]),
        split("64x64s12k4", (64, 64), 12, 4, 1),
        shared("192x112s5c1x2", (192, 112), 5, 1, [1, 2]),
        shared("64x64s12c4", (64, 64), 12, 1, [4, 1]),
        shared("64x96s9c2x4", (64, 96), 9, 1, [2, 4]),
        shared("64x128s9c1x2", (64, 128), 9, 1, [1, 2]),
        shared("64x128s9c2x4", (64, 128), 9, 1, [2, 4]),
        shared("128x96s7c4", (128, 96), 7, 1, [4, 1]),
        shared("128x96s7c2x2", (128, 96), 7, 1, [2, 2]),
        shared("128x80s7c2x4", (128, 80), 7, 1, [2, 4]),
    ];
    KernelSpec::new(SPLIT_K, "gemm", &tiles, Grid::Tiles).needs(hopper())
}

fn tf32_registers() -> KernelSpec {
    // As `persistent` with stores through shared memory, but one consumer for every 64 columns.
    let tile = |id, (bm, bn): (i64, i64), stages, [m, n]: [i64; 2], group| {
        let more = [("CLUSTER", m * n), ("CLUSTER_N", n), ("GROUP", group), (EXTRA, bn / 64 * 2 * CHUNK_BYTES)];
        hopper_tile(id, (bm, bn), stages, (bn - bm) / 64 + 1, &[&REGISTERS[..], &more].concat())
    };
    let tiles = [
        tile("256x128s4c1g4", (256, 128), 4, [1, 1], 4),
        tile("256x128s4c2g4", (256, 128), 4, [2, 1], 4),
        tile("256x128s4c1x2g4", (256, 128), 4, [1, 2], 4),
        tile("128x128s6c1g8", (128, 128), 6, [1, 1], 8),
        tile("128x64s8c1g8", (128, 64), 8, [1, 1], 8),
        tile("64x64s12c1g8", (64, 64), 12, [1, 1], 8),
    ];
    KernelSpec::new(TF32_REGISTERS, "gemm", &tiles, Grid::ResidentTiles).needs(hopper())
}

/// A tile that is loaded through registers, `[wm, wn]` per warp; k is shared out to `slices` groups of warps in each of the `split` blocks
/// of a cluster, `blocks` of which fit on an SM.
fn shifted(id: &'static str, [bm, bn]: [i64; 2], [wm, wn]: [i64; 2], [slices, split]: [i64; 2], blocks: i64) -> Tile {
    let bk = 32;
    // Two tiles of 16-bit elements of each group, or its sums with a gap of 8 in each row; then the sums that other blocks send, or the tile
    // of C with a gap of 8 elements in each row. A single group keeps its sums in registers, and its tiles lie where C's is staged.
    let (ring, staged) = (2 * (bm + bn) * bk * 2, bm * (bn + 8) * 2);
    let shared = match (slices, split) {
        (1, 1) => ring.max(staged),
        _ => slices * ring.max(bm * (bn + 8) * 4) + if split > 1 { bm * bn * 4 } else { staged },
    };
    let sizes = [
        ("THREADS", bm / wm * (bn / wn) * 32 * slices),
        ("BM", bm),
        ("BN", bn),
        ("BK", bk),
        ("WM", wm),
        ("WN", wn),
        ("SLICES", slices),
        ("SPLIT", split),
        // Blocks of k on their way from memory: more take more registers than there are.
        ("DEPTH", 1),
        ("BLOCKS_PER_SM", blocks),
        ("DYNAMIC_SHARED_BYTES", shared),
    ];
    Tile::new(id, &sizes)
}

fn unaligned() -> KernelSpec {
    let tiles = [
        shifted("64x64s4", [64, 64], [32, 32], [4, 1], 1),
        shifted("64x64s2b2", [64, 64], [32, 32], [2, 1], 2),
        shifted("64x64s1b4", [64, 64], [32, 32], [1, 1], 4),
        shifted("128x64s1b2", [128, 64], [32, 32], [1, 1], 2),
        shifted("64x64s4k2", [64, 64], [32, 32], [4, 2], 1),
        shifted("64x64s4k4", [64, 64], [32, 32], [4, 4], 1),
        shifted("64x64s4k8", [64, 64], [32, 32], [4, 8], 1),
        shifted("64x32s4", [64, 32], [32, 16], [4, 1], 1),
        shifted("32x32s8", [32, 32], [16, 16], [8, 1], 1),
        shifted("32x32s4b2", [32, 32], [16, 16], [4, 1], 2),
        shifted("32x32s8k4", [32, 32], [16, 16], [8, 4], 1),
        shifted("32x32s8k8", [32, 32], [16, 16], [8, 8], 1),
        shifted("128x64s2", [128, 64], [32, 32], [2, 1], 1),
        shifted("128x128s1", [128, 128], [64, 32], [1, 1], 1),
        shifted("128x128s1b2", [128, 128], [32, 64], [1, 1], 2),
        shifted("32x64s4", [32, 64], [16, 32], [4, 1], 1),
        shifted("32x64s1b6", [32, 64], [16, 32], [1, 1], 6),
        shifted("64x32s4k4", [64, 32], [32, 16], [4, 4], 1),
        shifted("64x128s1b2", [64, 128], [32, 32], [1, 1], 2),
        shifted("32x128s1b3", [32, 128], [32, 32], [1, 1], 3),
        shifted("64x32s1b6", [64, 32], [32, 16], [1, 1], 6),
    ];
    KernelSpec::new(UNALIGNED, "gemm", &tiles, Grid::Tiles)
}

/// What the kernel of unaligned rows takes.
fn on_unaligned_rows(c: &mut Capabilities) {
    on_tensor_cores(Operands::Addresses, true)(c);
    c.dtypes.retain(|(dtype, _)| dtype.bytes() == 2);
}

/// The unaligned rung for a product whose k is divided over the grid, with those of its tiles that have costs there.
fn unaligned_in_parts() -> KernelSpec {
    let all = unaligned();
    let tiles = UNALIGNED_IN_PARTS_COSTS.iter().filter_map(|cost| all.tile(cost.tile).cloned()).collect();
    KernelSpec { tiles, ..all }
}

fn stream_k() -> KernelSpec {
    let tiles = [
        persistent("128x256s4c1g8", (128, 256), 4, [1, 1], 8, true),
        persistent("128x256s4c2g8", (128, 256), 4, [2, 1], 8, true),
        persistent("128x192s4c1g8", (128, 192), 4, [1, 1], 8, true),
        persistent("128x192s4c2g8", (128, 192), 4, [2, 1], 8, true),
        persistent("192x128s4c1g8", (192, 128), 4, [1, 1], 8, true),
        persistent("128x128s6c1g8", (128, 128), 6, [1, 1], 8, true),
        persistent("128x128s6c2g8", (128, 128), 6, [2, 1], 8, true),
        persistent("128x64s8c1g8", (128, 64), 8, [1, 1], 8, true),
        persistent("64x192s6c1g16", (64, 192), 6, [1, 1], 16, true),
    ];
    KernelSpec::new(STREAM_K, "gemm", &tiles, Grid::ResidentTiles).needs(hopper())
}

const TENSOR_TYPES: [Dtype; 3] = [Dtype::F16, Dtype::Bf16, Dtype::Tf32];

/// Hopper's tensor cores, by warpgroup instructions.
pub(super) fn on_hopper() -> Vec<Row> {
    vec![
        kernel_row(
            "11_wgmma_tma",
            "wgmma and TMA",
            "A copy engine (TMA) loads whole tiles, and a warpgroup of 128 threads multiplies them directly from shared memory.",
            hopper(),
            wgmma(),
        )
        .can(on_tensor_cores(Operands::TensorMaps, false))
        .drawn(Figure::Warpgroup),
        kernel_row(
            "12_warp_specialised",
            "Warp-specialised",
            "One warpgroup only loads, the others only multiply.",
            hopper(),
            warp_specialised(),
        )
        .can(on_tensor_cores(Operands::TensorMaps, false))
        .drawn(Figure::Specialisation),
        kernel_row(
            "13_persistent_cluster",
            "Persistent, in clusters",
            "Persistent blocks compute many tiles, in an order that reuses L2, and the blocks of a cluster load shared tiles once.",
            hopper(),
            persistent_cluster(),
        )
        .can(on_tensor_cores(Operands::TensorMaps, false))
        .drawn(Figure::ClusterOrder)
        .tuned(),
        kernel_row(
            "14_overlapped_store",
            "Stores overlapped",
            "Sums are stored through shared memory and TMA while the next tile is multiplied.",
            hopper(),
            overlapped_store(),
        )
        .can(on_tensor_cores(Operands::TensorMapsAndC, true))
        .drawn(Figure::OverlappedStore)
        .tuned()
        .costing(&TENSOR_TYPES, hopper(), &OVERLAPPED_COSTS),
        kernel_row(
            "15_split_k",
            "Split k",
            "The blocks of a cluster split the k of one tile and add their partial sums through distributed shared memory.",
            hopper(),
            split_k(),
        )
        .can(on_tensor_cores(Operands::TensorMaps, true))
        .drawn(Figure::SplitK)
        .tuned()
        .costing(&TENSOR_TYPES, hopper(), &SPLIT_K_COSTS),
        kernel_row(
            "15b_small_tiles",
            "Small tiles",
            "The kernel of split k with the whole k in one block: tiles small enough that every SM gets one, or two at once.",
            hopper(),
            small_tiles(),
        )
        .can(on_tensor_cores(Operands::TensorMaps, true))
        .drawn(Figure::SplitK)
        .tuned()
        .costing(&TENSOR_TYPES, hopper(), &SMALL_TILE_COSTS),
        kernel_row(
            "15c_transposed_product",
            "The transposed product",
            "The kernel of split k on C^T = B^T A^T: an instruction's 64 rows are columns of C, so that a tile has any multiple of 16 rows.",
            hopper(),
            transposed_product(),
        )
        .can(|c| {
            on_tensor_cores(Operands::TensorMaps, true)(c);
            c.dtypes.retain(|(dtype, _)| dtype.bytes() == 2);
            c.out_bytes = Some(2);
        })
        .drawn(Figure::SplitK)
        .tuned()
        .costing(&[Dtype::F16, Dtype::Bf16], hopper(), &TRANSPOSED_COSTS),
        kernel_row(
            "15d_split_over_workspace",
            "Split k over the workspace",
            "The kernel of split k in any number of parts: each leaves its sums in the workspace, and a second kernel adds them.",
            hopper(),
            split_over_workspace(),
        )
        .can(|c| {
            on_tensor_cores(Operands::TensorMaps, true)(c);
            c.in_parts = true;
        })
        .drawn(Figure::SplitK)
        .tuned()
        .costing(&TENSOR_TYPES, hopper(), &WORKSPACE_COSTS),
        kernel_row(
            "16_tf32_registers",
            "tf32 through registers",
            "The tensor cores read B through registers, in the order in which it is stored, so no copy transposes it first.",
            hopper(),
            tf32_registers(),
        )
        .can(|c| {
            on_tensor_cores(Operands::BInRegisters, true)(c);
            c.dtypes = vec![(Dtype::Tf32, Requires::Nothing)];
            c.out_bytes = Some(4);
        })
        .drawn(Figure::RegisterOperand)
        .tuned()
        .costing(&[Dtype::Tf32], hopper(), &REGISTER_COSTS),
        kernel_row(
            "17_unaligned",
            "Unaligned rows",
            "Rows that begin anywhere are read by aligned loads and shifted in registers, so no copy comes before a small product.",
            Requires::AtLeast(9, 0),
            unaligned(),
        )
        .can(on_unaligned_rows)
        .drawn(Figure::Swizzle)
        .tuned()
        .costing(&[Dtype::F16, Dtype::Bf16], hopper(), &UNALIGNED_COSTS),
        kernel_row(
            "17b_unaligned_in_parts",
            "Unaligned rows, k in parts",
            "The kernel of unaligned rows with k in any number of parts: a few long rows fill the chip, and a second kernel adds the sums.",
            Requires::AtLeast(9, 0),
            unaligned_in_parts(),
        )
        .can(|c| {
            on_unaligned_rows(c);
            c.in_parts = true;
        })
        .drawn(Figure::SplitK)
        .tuned()
        .costing(&[Dtype::F16, Dtype::Bf16], hopper(), &UNALIGNED_IN_PARTS_COSTS),
        kernel_row(
            "18_stream_k",
            "Stream-k",
            "The tiles of the last waves are cut along k so that every SM multiplies as much, and partial sums meet in the workspace.",
            hopper(),
            stream_k(),
        )
        .can(|c| {
            on_tensor_cores(Operands::TensorMapsAndC, true)(c);
            c.streams = true;
        })
        .drawn(Figure::SplitK)
        .tuned(),
    ]
}

const OVERLAPPED_COSTS: [Cost; 10] = [
    cost("128x256s4c2g8", [1.70, 1.91, 0.556]),
    cost("128x256s4c1g1", [1.70, 1.76, 0.560]),
    cost("128x256s4c1g8", [1.70, 1.79, 0.552]),
    cost("128x256s4c1g16", [1.70, 1.84, 0.556]),
    cost("128x192s4c1g8", [1.70, 1.32, 0.443]),
    cost("128x128s6c1g8", [1.70, 0.91, 0.286]),
    cost("128x64s8c1g8", [1.70, 0.37, 0.197]),
    cost("128x64s6c1x2g1", [1.70, 0.36, 0.237]),
    cost("64x256s4c1g16", [1.70, 0.99, 0.298]),
    cost("192x128s4c1g8", [1.70, 1.28, 0.461]),
];

const SPLIT_K_COSTS: [Cost; 24] = [
    cost("128x128s6k2", [0.00, 3.41, 0.421]),
    cost("128x128s5k4", [0.00, 3.51, 0.390]),
    cost("64x128s8k2", [0.00, 2.21, 0.231]),
    cost("64x64s12k2", [0.00, 1.71, 0.151]),
    cost("64x64s12k4", [0.00, 1.89, 0.175]),
    cost("64x64s12k8", [0.00, 1.92, 0.221]),
    cost("128x192s4k3", [0.00, 7.31, 0.502]),
    cost("192x128s4k2", [0.00, 4.51, 0.523]),
    cost("128x128s6k2c2x2", [0.00, 3.47, 0.343]),
    cost("128x128s5k4c2", [0.00, 3.54, 0.396]),
    cost("128x192s4k2c1x2", [0.00, 4.21, 0.493]),
    cost("128x64s8k2c1x2", [0.00, 2.00, 0.228]),
    cost("128x64s8k4c1x2", [0.00, 2.37, 0.237]),
    cost("64x128s8k4c2", [0.00, 2.42, 0.240]),
    cost("64x160s6k2", [0.00, 2.76, 0.256]),
    cost("64x160s6k4c2", [0.00, 3.06, 0.256]),
    cost("64x96s8k2c1x2", [0.00, 2.25, 0.183]),
    cost("64x96s8k4c1x2", [0.00, 2.55, 0.183]),
    cost("64x96s8k3c2", [0.00, 2.40, 0.183]),
    cost("64x32s12k2", [0.00, 1.75, 0.110]),
    cost("64x32s12k4c2", [0.00, 2.05, 0.110]),
    cost("128x160s4k2", [0.00, 4.01, 0.420]),
    cost("192x96s4k4", [0.00, 4.06, 0.438]),
    cost("192x96s4k2", [0.00, 3.76, 0.438]),
];

const SMALL_TILE_COSTS: [Cost; 82] = [
    cost("128x64s8k1", [0.00, 1.46, 0.187]),
    cost("64x64s12k1", [0.00, 1.30, 0.127]),
    cost("128x64s4k1b2", [0.00, 1.36, 0.332]),
    cost("64x64s6k1b2", [0.00, 1.12, 0.111]),
    cost("128x128s6k1", [0.00, 2.09, 0.315]),
    cost("192x128s5k1", [0.00, 2.39, 0.440]),
    cost("192x192s4k1", [0.00, 2.75, 0.647]),
    cost("128x256s4k1", [0.00, 2.72, 0.578]),
    cost("128x128s6k1c2x2", [0.00, 2.20, 0.341]),
    cost("64x128s8k1c2", [0.00, 1.61, 0.241]),
    cost("128x192s5k1c1x2", [0.00, 2.39, 0.482]),
    cost("192x128s5k1c2", [0.00, 2.58, 0.468]),
    cost("128x128s6k1c4", [0.00, 2.14, 0.349]),
    cost("128x128s6k1c1x4", [0.00, 2.08, 0.341]),
    cost("192x192s4k1c2", [0.00, 3.35, 0.640]),
    cost("192x192s4k1c1x2", [0.00, 2.97, 0.674]),
    cost("128x96s6k1c2", [0.00, 1.79, 0.316]),
    cost("256x96s4k1c2", [0.00, 2.41, 0.523]),
    cost("192x96s5k1", [0.00, 1.90, 0.398]),
    cost("128x192s5k1", [0.00, 2.88, 0.434]),
    cost("64x128s4k1b2", [0.00, 1.48, 0.437]),
    cost("192x192s4k1c2x2", [0.00, 3.11, 0.684]),
    cost("128x192s5k1c2x2", [0.00, 2.89, 0.461]),
    cost("256x96s4k1c4", [0.00, 2.53, 0.564]),
    cost("128x160s5k1c2", [0.00, 2.67, 0.400]),
    cost("128x160s5k1c1x2", [0.00, 2.37, 0.423]),
    cost("128x224s4k1c2", [0.00, 2.77, 0.527]),
    cost("128x112s6k1c1x2", [0.00, 3.28, 0.326]),
    cost("128x96s6k1c4", [0.00, 1.77, 0.281]),
    cost("64x64s12k1c4", [0.00, 1.48, 0.156]),
    cost("64x32s12k1c4", [0.00, 1.46, 0.154]),
    cost("64x96s8k1c2", [0.00, 1.42, 0.192]),
    cost("64x96s8k1c1x2", [0.00, 1.39, 0.236]),
    cost("192x160s4k1c1x2", [0.00, 2.62, 0.557]),
    cost("192x112s5k1c2x2", [0.00, 3.77, 0.430]),
    cost("192x96s5k1c2", [0.00, 2.04, 0.409]),
    cost("64x160s6k1c2", [0.00, 1.60, 0.265]),
    cost("64x160s6k1c1x2", [0.00, 1.60, 0.265]),
    cost("256x144s4k1c2", [0.00, 3.00, 0.703]),
    cost("256x160s4k1c1x2", [0.00, 3.07, 0.749]),
    cost("256x160s4k1c2", [0.00, 3.07, 0.749]),
    cost("256x176s4k1", [0.00, 3.13, 0.803]),
    cost("256x192s4k1c1x2", [0.00, 3.20, 0.876]),
    cost("128x64s8k1c4x2", [0.00, 1.53, 0.256]),
    cost("128x64s8k1c4", [0.00, 1.53, 0.256]),
    cost("128x96s6k1c1x2", [0.00, 1.70, 0.310]),
    cost("64x144s7k1c4", [0.00, 1.57, 0.237]),
    cost("64x128s8k1c1x4", [0.00, 1.53, 0.219]),
    cost("128x128s6k1c2", [0.00, 1.87, 0.365]),
    cost("128x128s6k1c1x2", [0.00, 1.87, 0.365]),
    cost("192x80s5k1c1x4", [0.00, 1.82, 0.402]),
    cost("64x112s9k1c2x4", [0.00, 1.49, 0.201]),
    cost("64x80s9k1c2x4", [0.00, 1.41, 0.164]),
    cost("64x80s9k1c1x4", [0.00, 1.41, 0.164]),
    cost("128x112s6k1c2", [0.00, 1.78, 0.338]),
    cost("64x64s12k1c1x4", [0.00, 1.45, 0.168]),
    cost("64x64s12k1c2x4", [0.00, 1.45, 0.168]),
    cost("64x64s12k1c4x2", [0.00, 1.51, 0.161]),
    cost("64x96s9k1c4x2", [0.00, 1.45, 0.183]),
    cost("64x96s9k1c2x4", [0.00, 1.39, 0.192]),
    cost("64x128s9k1c1x2", [0.00, 1.50, 0.208]),
    cost("64x128s9k1c2x2", [0.00, 1.50, 0.197]),
    cost("64x128s9k1c4x2", [0.00, 1.50, 0.197]),
    cost("64x160s7k1c4x2", [0.00, 1.84, 0.230]),
    cost("64x192s7k1c1x2", [0.00, 2.30, 0.321]),
    cost("64x192s7k1c4", [0.00, 2.38, 0.248]),
    cost("128x64s9k1c1x4", [0.00, 1.50, 0.205]),
    cost("128x64s9k1c2x4", [0.00, 1.43, 0.205]),
    cost("128x80s7k1c4x2", [0.00, 1.53, 0.269]),
    cost("128x96s7k1c1x4", [0.00, 1.64, 0.264]),
    cost("128x96s7k1c2x4", [0.00, 1.89, 0.264]),
    cost("128x96s7k1c4x2", [0.00, 1.56, 0.264]),
    cost("128x128s7k1c2x4", [0.00, 2.41, 0.310]),
    cost("128x128s7k1c4x2", [0.00, 2.41, 0.310]),
    cost("128x144s5k1c4x2", [0.00, 2.55, 0.354]),
    cost("128x160s5k1c4x2", [0.00, 2.47, 0.399]),
    cost("128x176s5k1c2", [0.00, 2.71, 0.425]),
    cost("192x64s7k1c4x2", [0.00, 1.56, 0.310]),
    cost("192x128s5k1c2x4", [0.00, 2.50, 0.434]),
    cost("192x144s4k1c4x2", [0.00, 2.67, 0.493]),
    cost("192x160s4k1c4x2", [0.00, 2.72, 0.526]),
    cost("256x64s5k1c4x2", [0.00, 2.22, 0.380]),
];

const WORKSPACE_COSTS: [Cost; 23] = [
    cost("128x128s6c4", [0.60, 3.90, 0.373]),
    cost("128x128s6c1x4", [0.60, 3.82, 0.383]),
    cost("128x128s6c2x2", [0.60, 4.09, 0.403]),
    cost("128x128s6c1", [0.60, 3.71, 0.399]),
    cost("64x128s8c4", [0.60, 3.78, 0.211]),
    cost("128x64s8c1x4", [0.60, 2.67, 0.216]),
    cost("64x64s12c2x2", [0.60, 2.63, 0.160]),
    cost("64x64s12c1", [0.60, 2.53, 0.104]),
    cost("128x192s5c1x2", [0.60, 4.82, 0.582]),
    cost("192x128s5c2", [0.60, 4.17, 0.595]),
    cost("192x192s4c1x2", [0.60, 6.03, 0.680]),
    cost("128x256s4c2", [0.60, 6.21, 0.646]),
    cost("64x96s8c1x2", [0.60, 2.71, 0.300]),
    cost("128x64s8k2c1x2", [0.60, 2.68, 0.247]),
    cost("64x64s12k4", [0.60, 2.07, 0.182]),
    cost("192x112s5c1x2", [0.60, 3.68, 0.475]),
    cost("64x64s12c4", [0.60, 2.97, 0.146]),
    cost("64x96s9c2x4", [0.60, 2.56, 0.183]),
    cost("64x128s9c1x2", [0.60, 2.59, 0.274]),
    cost("64x128s9c2x4", [0.60, 3.05, 0.197]),
    cost("128x96s7c4", [0.60, 3.13, 0.279]),
    cost("128x96s7c2x2", [0.60, 3.48, 0.264]),
    cost("128x80s7c2x4", [0.60, 2.93, 0.241]),
];

const TRANSPOSED_COSTS: [Cost; 26] = [
    cost("32x64s12k4", [0.00, 1.71, 0.164]),
    cost("32x128s8k2", [0.00, 1.99, 0.210]),
    cost("96x128s6k2", [0.00, 3.13, 0.398]),
    cost("96x128s6k1c1x4", [0.00, 3.12, 0.321]),
    cost("112x128s6k1c1x2", [0.00, 3.72, 0.408]),
    cost("32x64s12k1c1x4", [0.00, 1.73, 0.173]),
    cost("96x128s6k1c4", [0.00, 3.18, 0.274]),
    cost("96x256s4k1c1x2", [0.00, 2.99, 0.501]),
    cost("160x128s5k1c2", [0.00, 4.30, 0.410]),
    cost("160x128s5k1c1x2", [0.00, 4.25, 0.420]),
    cost("144x128s5k1c1x2", [0.00, 3.90, 0.375]),
    cost("160x64s6k2c1x2", [0.00, 3.36, 0.256]),
    cost("160x64s6k4", [0.00, 3.66, 0.256]),
    cost("96x64s8k2", [0.00, 2.85, 0.183]),
    cost("160x192s4k1c2", [0.00, 3.90, 0.584]),
    cost("144x64s6k1c2", [0.00, 2.58, 0.237]),
    cost("96x64s9k1c1x4", [0.00, 2.45, 0.183]),
    cost("96x192s5k1c1x2", [0.00, 2.95, 0.438]),
    cost("80x128s7k1c2", [0.00, 2.51, 0.255]),
    cost("80x128s7k1c1x4", [0.00, 2.80, 0.255]),
    cost("80x128s7k1c4x2", [0.00, 2.99, 0.226]),
    cost("96x64s9k1c2x4", [0.00, 2.58, 0.183]),
    cost("96x128s7k1c4x2", [0.00, 3.26, 0.248]),
    cost("96x128s7k1c2x4", [0.00, 3.26, 0.248]),
    cost("160x64s7k1c1x4", [0.00, 3.09, 0.218]),
    cost("208x128s4k1c2x4", [0.00, 4.45, 0.502]),
];

const REGISTER_COSTS: [Cost; 4] = [
    cost("256x128s4c1g4", [0.00, 2.78, 0.600]),
    cost("128x128s6c1g8", [0.00, 2.60, 0.300]),
    cost("128x64s8c1g8", [0.78, 0.50, 0.226]),
    cost("64x64s12c1g8", [0.14, 1.51, 0.146]),
];

const UNALIGNED_IN_PARTS_COSTS: [Cost; 6] = [
    cost("32x32s8", [0.60, 3.04, 0.397]),
    cost("32x32s8k4", [0.60, 2.98, 0.420]),
    cost("32x64s4", [0.60, 2.63, 0.639]),
    cost("64x32s4", [0.60, 2.42, 0.644]),
    cost("64x64s4", [0.60, 3.49, 0.758]),
    cost("64x64s4k2", [0.60, 3.88, 0.737]),
];

const UNALIGNED_COSTS: [Cost; 19] = [
    cost("64x64s4", [0.00, 2.48, 0.744]),
    cost("64x64s4k2", [0.00, 3.15, 0.713]),
    cost("64x64s4k4", [0.00, 3.04, 0.710]),
    cost("32x32s8", [0.00, 1.97, 0.410]),
    cost("32x32s4b2", [0.00, 1.64, 0.710]),
    cost("32x32s8k4", [0.00, 2.64, 0.420]),
    cost("128x64s2", [0.00, 2.70, 1.094]),
    cost("32x32s8k8", [0.00, 2.87, 0.424]),
    cost("128x64s1b2", [0.00, 1.96, 1.844]),
    cost("128x128s1b2", [0.00, 3.04, 2.889]),
    cost("32x64s4", [0.00, 1.82, 0.623]),
    cost("32x64s1b6", [0.00, 1.38, 2.407]),
    cost("64x32s4k4", [0.00, 2.32, 0.694]),
    cost("64x64s4k8", [0.00, 3.09, 0.717]),
    cost("64x32s4", [0.00, 1.93, 0.613]),
    cost("64x64s1b4", [0.00, 1.61, 2.127]),
    cost("64x32s1b6", [0.00, 1.66, 2.364]),
    cost("64x128s1b2", [0.00, 1.77, 1.841]),
    cost("32x128s1b3", [0.00, 1.11, 2.245]),
];
