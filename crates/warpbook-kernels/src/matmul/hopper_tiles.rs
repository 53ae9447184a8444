//! The tiles of the rungs on Hopper's tensor cores, with their costs.

use super::tile_table::{TileLine, TileTable};
use crate::tile::sizes;
use std::sync::LazyLock;
use warpbook_record::Tile;

/// Size in bytes of a tile's row in shared memory, which TMA swizzles, and of 64 such rows.
const ROW_BYTES: i64 = 128;
const CHUNK_BYTES: i64 = 64 * ROW_BYTES;

/// Returns a tile whose id begins with its numbers of rows and columns. The number after `s` in the id is the number of stages, each of which holds one
/// tile of A and one of B. `extra_bytes` of shared memory hold results in addition to the stages.
fn in_stages(id: &'static str, warpgroups: i64, extra_bytes: i64, more: &[(&'static str, i64)]) -> Tile {
    let ([bm, bn], [stages]) = (sizes(id, ""), sizes(id, "s"));
    // Operands that are contiguous along m or n are loaded in boxes of 64 rows or columns.
    let rows: i64 = [bm, bn].map(|side| (side + 63) / 64 * 64).iter().sum();
    let own = [
        ("THREADS", warpgroups * 128),
        ("BM", bm),
        ("BN", bn),
        ("STAGES", stages),
        // The additional 1024 bytes allow for alignment.
        ("DYNAMIC_SHARED_BYTES", stages * rows * ROW_BYTES + extra_bytes + 1024),
    ];
    Tile::new(id, &[&own[..], more].concat())
}

/// Returns a tile with one warpgroup per 64 rows and no producer warpgroup.
pub(super) fn unspecialised(id: &'static str) -> Tile {
    in_stages(id, sizes::<1>(id, "")[0] / 64, 0, &[])
}

/// Returns the numbers of registers per thread of the producer and of each consumer, with `blocks` blocks per SM. The counts are multiples of 8, and the
/// consumers share the registers that the producer gives up. 64 x 256 sums take 128 registers per thread.
fn registers(consumers: i64, blocks: i64) -> [(&'static str, i64); 2] {
    const PRODUCER: i64 = 40;
    const MOST: i64 = 232;
    let threads = (consumers + 1) * 128;
    let each = 65536 / (threads * blocks) / 8 * 8;
    let consumer = ((each * (consumers + 1) - PRODUCER) / consumers / 8 * 8).min(MOST);
    [("PRODUCER_REGISTERS", PRODUCER), ("CONSUMER_REGISTERS", consumer)]
}

/// Returns a tile with one producer warpgroup, and one consumer warpgroup for every 64 rows.
pub(super) fn specialised(id: &'static str) -> Tile {
    let consumers = sizes::<1>(id, "")[0] / 64;
    in_stages(id, consumers + 1, 0, &registers(consumers, 1))
}

/// Returns a tile of a persistent rung. Each consumer has shared memory for `chunks` chunks of 64 rows of C. In the id, `c` is followed by the shape of a
/// cluster in rows x columns of blocks, which share tiles of A and B, and `g` by the number of rows of clusters that are computed together.
fn persistent(id: &'static str, consumers: i64, chunks: i64) -> Tile {
    let ([m, n], [group]) = (sizes(id, "c"), sizes(id, "g"));
    let cluster = [("CLUSTER", m * n), ("CLUSTER_N", n), ("GROUP", group)];
    let more = [&registers(consumers, 1)[..], &cluster].concat();
    in_stages(id, consumers + 1, consumers * chunks * CHUNK_BYTES, &more)
}

/// Returns a tile of a persistent rung that stores C directly from registers.
pub(super) fn stored_directly(id: &'static str) -> Tile {
    persistent(id, sizes::<1>(id, "")[0] / 64, 0)
}

/// Returns a tile of a persistent rung that stores C through shared memory, with two chunks in flight per consumer.
pub(crate) fn stored_through_shared(id: &'static str) -> Tile {
    persistent(id, sizes::<1>(id, "")[0] / 64, 2)
}

fn stored(id: &'static str, costs: impl Into<Option<[f64; 3]>>) -> TileLine {
    TileLine::new(id, stored_through_shared(id), costs)
}

/// Returns a tile of a persistent rung that computes the transposed product, with one consumer for every 64 columns.
fn tf32(id: &'static str, costs: impl Into<Option<[f64; 3]>>) -> TileLine {
    TileLine::new(id, persistent(id, sizes::<2>(id, "")[1] / 64, 2), costs)
}

/// Returns a tile whose k is split among the blocks of a cluster. The number after `k` in the id is the number of these blocks, and the number after `b`
/// is the number of blocks per SM; if there are several, blocks of the next launch can start early. `c` has the same meaning as in [`persistent`].
fn general(id: &'static str, consumers: i64, more: &[(&'static str, i64)]) -> Tile {
    let ([bm, bn], [m, n], [split], [blocks]) = (sizes(id, ""), sizes(id, "c"), sizes(id, "k"), sizes(id, "b"));
    let own = [("SPLIT", split), ("CLUSTER", m * n), ("CLUSTER_N", n), ("BLOCKS_PER_SM", blocks)];
    // Size of the partial sums that other blocks send for this block's columns.
    let sent_bytes = bm * bn * 4 / split * (split - 1);
    in_stages(id, consumers + 1, sent_bytes, &[&registers(consumers, blocks)[..], &own, more].concat())
}

/// Returns a tile with one consumer for every 64 rows.
fn split(id: &'static str, costs: impl Into<Option<[f64; 3]>>) -> TileLine {
    TileLine::new(id, general(id, sizes::<1>(id, "")[0] / 64, &[]), costs)
}

/// Returns a tile with one consumer for every 128 rows. Each consumer multiplies with two instructions, so tiles can be larger than with one instruction
/// per consumer.
fn tall(id: &'static str, costs: impl Into<Option<[f64; 3]>>) -> TileLine {
    TileLine::new(id, general(id, sizes::<1>(id, "")[0] / 128, &[("HEIGHT", 2)]), costs)
}

/// Returns a tile of the transposed product, with one consumer for every 64 columns.
fn swapped(id: &'static str, costs: impl Into<Option<[f64; 3]>>) -> TileLine {
    TileLine::new(id, general(id, sizes::<2>(id, "")[1] / 64, &[("SWAPPED", 1)]), costs)
}

/// Returns a tile that is loaded through registers, with `[wm, wn]` sums per warp. In the id, `s` is followed by the number of warp groups that split k
/// within each of the `k` blocks of a cluster, and `b` by the number of blocks per SM.
fn shifted(id: &'static str, [wm, wn]: [i64; 2], costs: impl Into<Option<[f64; 3]>>) -> TileLine {
    let ([bm, bn], [slices], [split], [blocks]) = (sizes(id, ""), sizes(id, "s"), sizes(id, "k"), sizes(id, "b"));
    let bk = 32;
    // Each group has room for two tiles of 16-bit elements, or later for its sums, with a gap of 8 elements after each row. After that comes room for the sums
    // from other blocks, or for the tile of C, also with a gap of 8 elements after each row. A single group keeps its sums in registers, and the tile of C
    // reuses the memory of its other tiles.
    let (ring, staged) = (2 * (bm + bn) * bk * 2, bm * (bn + 8) * 2);
    let shared = match (slices, split) {
        (1, 1) => ring.max(staged),
        _ => slices * ring.max(bm * (bn + 8) * 4) + if split > 1 { bm * bn * 4 } else { staged },
    };
    let own = [
        ("THREADS", bm / wm * (bn / wn) * 32 * slices),
        ("BM", bm),
        ("BN", bn),
        ("BK", bk),
        ("WM", wm),
        ("WN", wn),
        ("SLICES", slices),
        ("SPLIT", split),
        // Number of blocks of k that are being loaded from memory; more would need too many registers.
        ("DEPTH", 1),
        ("BLOCKS_PER_SM", blocks),
        ("DYNAMIC_SHARED_BYTES", shared),
    ];
    TileLine::new(id, Tile::new(id, &own), costs)
}

pub(super) static OVERLAPPED_STORE: LazyLock<TileTable> = LazyLock::new(|| {
    TileTable::new([
        stored("128x256s4c2g8", [1.70, 1.91, 0.556]),
        stored("128x256s4c2g4", None),
        stored("128x256s4c2g16", None),
        stored("128x256s4c1g8", [1.70, 1.79, 0.552]),
        stored("128x256s4c1g16", [1.70, 1.84, 0.556]),
        stored("128x256s4c1g1", [1.70, 1.76, 0.560]),
        stored("128x256s4c1x2g8", None),
        stored("128x192s4c1g8", [1.70, 1.32, 0.443]),
        stored("128x192s4c1g16", None),
        stored("192x128s4c1g8", [1.70, 1.28, 0.461]),
        stored("128x128s6c2g8", None),
        stored("128x128s6c1g8", [1.70, 0.91, 0.286]),
        stored("128x128s6c2x2g4", None),
        stored("128x64s8c1g8", [1.70, 0.37, 0.197]),
        stored("128x64s6c1x2g1", [1.70, 0.36, 0.237]),
        stored("64x256s4c1g16", [1.70, 0.99, 0.298]),
    ])
});

pub(super) static SPLIT_K: LazyLock<TileTable> = LazyLock::new(|| {
    TileTable::new([
        split("128x128s6k2", [0.00, 3.41, 0.421]),
        split("128x128s5k4", [0.00, 3.51, 0.390]),
        split("128x128s5k8", None),
        split("128x256s3k2", None),
        split("128x192s4k2", None),
        split("128x192s4k3", [0.00, 7.31, 0.502]),
        split("192x128s4k2", [0.00, 4.51, 0.523]),
        split("192x192s3k2", None),
        split("128x64s8k2", None),
        split("128x64s8k4", None),
        split("128x64s8k8", None),
        split("64x256s4k2", None),
        split("64x256s4k4", None),
        split("64x256s4k8", None),
        split("64x128s8k2", [0.00, 2.21, 0.231]),
        split("64x128s8k4", None),
        split("64x64s12k2", [0.00, 1.71, 0.151]),
        split("64x64s12k4", [0.00, 1.89, 0.175]),
        split("64x64s12k8", [0.00, 1.92, 0.221]),
        split("64x64s6k2b2", None),
        split("64x64s6k4b2", None),
        split("128x128s6k2c2x2", [0.00, 3.47, 0.343]),
        split("128x128s5k4c2", [0.00, 3.54, 0.396]),
        split("128x192s4k2c1x2", [0.00, 4.21, 0.493]),
        split("128x64s8k2c1x2", [0.00, 2.00, 0.228]),
        split("128x64s8k4c1x2", [0.00, 2.37, 0.237]),
        split("64x128s8k4c2", [0.00, 2.42, 0.240]),
        split("64x160s6k2", [0.00, 2.76, 0.256]),
        split("64x160s6k4c2", [0.00, 3.06, 0.256]),
        split("64x96s8k2c1x2", [0.00, 2.25, 0.183]),
        split("64x96s8k4c1x2", [0.00, 2.55, 0.183]),
        split("64x96s8k3c2", [0.00, 2.40, 0.183]),
        split("64x32s12k2", [0.00, 1.75, 0.110]),
        split("64x32s12k4c2", [0.00, 2.05, 0.110]),
        split("128x160s4k2", [0.00, 4.01, 0.420]),
        split("192x96s4k4", [0.00, 4.06, 0.438]),
        split("192x96s4k2", [0.00, 3.76, 0.438]),
    ])
});

pub(super) static SMALL_TILES: LazyLock<TileTable> = LazyLock::new(|| {
    TileTable::new([
        split("64x64s12k1", [0.00, 1.30, 0.127]),
        split("128x64s8k1", [0.00, 1.46, 0.187]),
        split("128x128s6k1", [0.00, 2.09, 0.315]),
        split("128x192s5k1", [0.00, 2.88, 0.434]),
        split("192x128s5k1", [0.00, 2.39, 0.440]),
        split("192x192s4k1", [0.00, 2.75, 0.647]),
        split("128x256s4k1", [0.00, 2.72, 0.578]),
        split("128x64s4k1b2", [0.00, 1.36, 0.332]),
        split("64x128s4k1b2", [0.00, 1.48, 0.437]),
        split("64x64s6k1b2", [0.00, 1.12, 0.111]),
        split("128x128s6k1c2x2", [0.00, 2.20, 0.341]),
        split("64x128s8k1c2", [0.00, 1.61, 0.241]),
        split("128x192s5k1c1x2", [0.00, 2.39, 0.482]),
        split("192x128s5k1c2", [0.00, 2.58, 0.468]),
        split("128x128s6k1c4", [0.00, 2.14, 0.349]),
        split("128x128s6k1c1x4", [0.00, 2.08, 0.341]),
        split("192x192s4k1c2", [0.00, 3.35, 0.640]),
        split("192x192s4k1c1x2", [0.00, 2.97, 0.674]),
        split("128x96s6k1c2", [0.00, 1.79, 0.316]),
        split("256x96s4k1c2", [0.00, 2.41, 0.523]),
        split("192x96s5k1", [0.00, 1.90, 0.398]),
        split("192x192s4k1c2x2", [0.00, 3.11, 0.684]),
        split("128x192s5k1c2x2", [0.00, 2.89, 0.461]),
        split("256x96s4k1c4", [0.00, 2.53, 0.564]),
        split("128x160s5k1c2", [0.00, 2.67, 0.400]),
        split("128x160s5k1c1x2", [0.00, 2.37, 0.423]),
        split("128x224s4k1c2", [0.00, 2.77, 0.527]),
        split("128x112s6k1c1x2", [0.00, 3.28, 0.326]),
        split("128x96s6k1c4", [0.00, 1.77, 0.281]),
        split("64x64s12k1c4", [0.00, 1.48, 0.156]),
        split("64x32s12k1c4", [0.00, 1.46, 0.154]),
        split("64x96s8k1c2", [0.00, 1.42, 0.192]),
        split("64x96s8k1c1x2", [0.00, 1.39, 0.236]),
        split("192x160s4k1c1x2", [0.00, 2.62, 0.557]),
        split("192x112s5k1c2x2", [0.00, 3.77, 0.430]),
        split("192x96s5k1c2", [0.00, 2.04, 0.409]),
        split("64x160s6k1c2", [0.00, 1.60, 0.265]),
        split("64x160s6k1c1x2", [0.00, 1.60, 0.265]),
        tall("256x144s4k1c2", [0.00, 3.00, 0.703]),
        tall("256x160s4k1c1x2", [0.00, 3.07, 0.749]),
        tall("256x160s4k1c2", [0.00, 3.07, 0.749]),
        tall("256x176s4k1", [0.00, 3.13, 0.803]),
        tall("256x192s4k1c1x2", [0.00, 3.20, 0.876]),
        split("128x64s8k1c4x2", [0.00, 1.53, 0.256]),
        split("128x64s8k1c4", [0.00, 1.53, 0.256]),
        split("128x96s6k1c1x2", [0.00, 1.70, 0.310]),
        split("64x144s7k1c4", [0.00, 1.57, 0.237]),
        split("64x128s8k1c1x4", [0.00, 1.53, 0.219]),
        split("128x128s6k1c2", [0.00, 1.87, 0.365]),
        split("128x128s6k1c1x2", [0.00, 1.87, 0.365]),
        split("192x80s5k1c1x4", [0.00, 1.82, 0.402]),
        split("64x112s9k1c2x4", [0.00, 1.49, 0.201]),
        split("64x80s9k1c2x4", [0.00, 1.41, 0.164]),
        split("64x80s9k1c1x4", [0.00, 1.41, 0.164]),
        split("128x112s6k1c2", [0.00, 1.78, 0.338]),
        split("64x64s12k1c1x4", [0.00, 1.45, 0.168]),
        split("64x64s12k1c2x4", [0.00, 1.45, 0.168]),
        split("64x64s12k1c4x2", [0.00, 1.51, 0.161]),
        split("64x96s9k1c4x2", [0.00, 1.45, 0.183]),
        split("64x96s9k1c2x4", [0.00, 1.39, 0.192]),
        split("64x128s9k1c1x2", [0.00, 1.50, 0.208]),
        split("64x128s9k1c2x2", [0.00, 1.50, 0.197]),
        split("64x128s9k1c4x2", [0.00, 1.50, 0.197]),
        split("64x160s7k1c4x2", [0.00, 1.84, 0.230]),
        split("64x192s7k1c1x2", [0.00, 2.30, 0.321]),
        split("64x192s7k1c4", [0.00, 2.38, 0.248]),
        split("128x64s9k1c1x4", [0.00, 1.50, 0.205]),
        split("128x64s9k1c2x4", [0.00, 1.43, 0.205]),
        split("128x80s7k1c4x2", [0.00, 1.53, 0.269]),
        split("128x96s7k1c1x4", [0.00, 1.64, 0.264]),
        split("128x96s7k1c2x4", [0.00, 1.89, 0.264]),
        split("128x96s7k1c4x2", [0.00, 1.56, 0.264]),
        split("128x128s7k1c2x4", [0.00, 2.41, 0.310]),
        split("128x128s7k1c4x2", [0.00, 2.41, 0.310]),
        split("128x144s5k1c4x2", [0.00, 2.55, 0.354]),
        split("128x160s5k1c4x2", [0.00, 2.47, 0.399]),
        split("128x176s5k1c2", [0.00, 2.71, 0.425]),
        split("192x64s7k1c4x2", [0.00, 1.56, 0.310]),
        split("192x128s5k1c2x4", [0.00, 2.50, 0.434]),
        split("192x144s4k1c4x2", [0.00, 2.67, 0.493]),
        split("192x160s4k1c4x2", [0.00, 2.72, 0.526]),
        tall("256x64s5k1c4x2", [0.00, 2.22, 0.380]),
    ])
});

pub(super) static TRANSPOSED_PRODUCT: LazyLock<TileTable> = LazyLock::new(|| {
    TileTable::new([
        swapped("32x64s12k4", [0.00, 1.71, 0.164]),
        swapped("32x128s8k2", [0.00, 1.99, 0.210]),
        swapped("96x128s6k2", [0.00, 3.13, 0.398]),
        swapped("96x128s6k1c1x4", [0.00, 3.12, 0.321]),
        swapped("112x128s6k1c1x2", [0.00, 3.72, 0.408]),
        swapped("32x64s12k1c1x4", [0.00, 1.73, 0.173]),
        swapped("96x128s6k1c4", [0.00, 3.18, 0.274]),
        swapped("96x256s4k1c1x2", [0.00, 2.99, 0.501]),
        swapped("160x128s5k1c2", [0.00, 4.30, 0.410]),
        swapped("160x128s5k1c1x2", [0.00, 4.25, 0.420]),
        swapped("144x128s5k1c1x2", [0.00, 3.90, 0.375]),
        swapped("160x64s6k2c1x2", [0.00, 3.36, 0.256]),
        swapped("160x64s6k4", [0.00, 3.66, 0.256]),
        swapped("96x64s8k2", [0.00, 2.85, 0.183]),
        swapped("160x192s4k1c2", [0.00, 3.90, 0.584]),
        swapped("144x64s6k1c2", [0.00, 2.58, 0.237]),
        swapped("96x64s9k1c1x4", [0.00, 2.45, 0.183]),
        swapped("96x192s5k1c1x2", [0.00, 2.95, 0.438]),
        swapped("80x128s7k1c2", [0.00, 2.51, 0.255]),
        swapped("80x128s7k1c1x4", [0.00, 2.80, 0.255]),
        swapped("80x128s7k1c4x2", [0.00, 2.99, 0.226]),
        swapped("96x64s9k1c2x4", [0.00, 2.58, 0.183]),
        swapped("96x128s7k1c4x2", [0.00, 3.26, 0.248]),
        swapped("96x128s7k1c2x4", [0.00, 3.26, 0.248]),
        swapped("160x64s7k1c1x4", [0.00, 3.09, 0.218]),
        swapped("208x128s4k1c2x4", [0.00, 4.45, 0.502]),
    ])
});

pub(super) static SPLIT_OVER_WORKSPACE: LazyLock<TileTable> = LazyLock::new(|| {
    TileTable::new([
        split("128x128s6c4", [0.60, 3.90, 0.373]),
        split("128x128s6c1x4", [0.60, 3.82, 0.383]),
        split("128x128s6c2x2", [0.60, 4.09, 0.403]),
        split("128x128s6c1", [0.60, 3.71, 0.399]),
        split("64x128s8c4", [0.60, 3.78, 0.211]),
        split("128x64s8c1x4", [0.60, 2.67, 0.216]),
        split("64x64s12c2x2", [0.60, 2.63, 0.160]),
        split("64x64s12c1", [0.60, 2.53, 0.104]),
        split("128x192s5c1x2", [0.60, 4.82, 0.582]),
        split("192x128s5c2", [0.60, 4.17, 0.595]),
        split("192x192s4c1x2", [0.60, 6.03, 0.680]),
        split("128x256s4c2", [0.60, 6.21, 0.646]),
        split("64x96s8c1x2", [0.60, 2.71, 0.300]),
        split("128x64s8k2c1x2", [0.60, 2.68, 0.247]),
        split("64x64s12k4", [0.60, 2.07, 0.182]),
        split("192x112s5c1x2", [0.60, 3.68, 0.475]),
        split("64x64s12c4", [0.60, 2.97, 0.146]),
        split("64x96s9c2x4", [0.60, 2.56, 0.183]),
        split("64x128s9c1x2", [0.60, 2.59, 0.274]),
        split("64x128s9c2x4", [0.60, 3.05, 0.197]),
        split("128x96s7c4", [0.60, 3.13, 0.279]),
        split("128x96s7c2x2", [0.60, 3.48, 0.264]),
        split("128x80s7c2x4", [0.60, 2.93, 0.241]),
    ])
});

pub(super) static TF32_REGISTERS: LazyLock<TileTable> = LazyLock::new(|| {
    TileTable::new([
        tf32("256x128s4c1g4", [0.00, 2.78, 0.600]),
        tf32("256x128s4c2g4", None),
        tf32("256x128s4c1x2g4", None),
        tf32("128x128s6c1g8", [0.00, 2.60, 0.300]),
        tf32("128x64s8c1g8", [0.78, 0.50, 0.226]),
        tf32("64x64s12c1g8", [0.14, 1.51, 0.146]),
    ])
});

pub(super) static UNALIGNED: LazyLock<TileTable> = LazyLock::new(|| {
    TileTable::new([
        shifted("64x64s4", [32, 32], [0.00, 2.48, 0.744]),
        shifted("64x64s2b2", [32, 32], None),
        shifted("64x64s1b4", [32, 32], [0.00, 1.61, 2.127]),
        shifted("128x64s1b2", [32, 32], [0.00, 1.96, 1.844]),
        shifted("64x64s4k2", [32, 32], [0.00, 3.15, 0.713]),
        shifted("64x64s4k4", [32, 32], [0.00, 3.04, 0.710]),
        shifted("64x64s4k8", [32, 32], [0.00, 3.09, 0.717]),
        shifted("64x32s4", [32, 16], [0.00, 1.93, 0.613]),
        shifted("32x32s8", [16, 16], [0.00, 1.97, 0.410]),
        shifted("32x32s4b2", [16, 16], [0.00, 1.64, 0.710]),
        shifted("32x32s8k4", [16, 16], [0.00, 2.64, 0.420]),
        shifted("32x32s8k8", [16, 16], [0.00, 2.87, 0.424]),
        shifted("128x64s2", [32, 32], [0.00, 2.70, 1.094]),
        shifted("128x128s1", [64, 32], None),
        shifted("128x128s1b2", [32, 64], [0.00, 3.04, 2.889]),
        shifted("32x64s4", [16, 32], [0.00, 1.82, 0.623]),
        shifted("32x64s1b6", [16, 32], [0.00, 1.38, 2.407]),
        shifted("64x32s4k4", [32, 16], [0.00, 2.32, 0.694]),
        shifted("64x128s1b2", [32, 32], [0.00, 1.77, 1.841]),
        shifted("32x128s1b3", [32, 32], [0.00, 1.11, 2.245]),
        shifted("64x32s1b6", [32, 16], [0.00, 1.66, 2.364]),
    ])
});

/// Tiles of the [`UNALIGNED`] kernel for products whose k is split over the grid.
pub(super) static UNALIGNED_IN_PARTS: LazyLock<TileTable> = LazyLock::new(|| {
    TileTable::new([
        shifted("32x32s8", [16, 16], [0.60, 3.04, 0.397]),
        shifted("32x32s8k4", [16, 16], [0.60, 2.98, 0.420]),
        shifted("32x64s4", [16, 32], [0.60, 2.63, 0.639]),
        shifted("64x32s4", [32, 16], [0.60, 2.42, 0.644]),
        shifted("64x64s4", [32, 32], [0.60, 3.49, 0.758]),
        shifted("64x64s4k2", [32, 32], [0.60, 3.88, 0.737]),
    ])
});

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks all macros of one tile of each kind.
    #[test]
    fn tiles_have_what_their_ids_say() {
        let check = |tile: &Tile, expect: &str| {
            let defines: Vec<String> = tile.defines.iter().map(|d| format!("{}={}", d.name, d.value)).collect();
            assert_eq!(defines.join(" "), expect, "{}", tile.id);
        };
        let line = |table: &TileTable, id: &str, expect: &str| {
            check(table.tiles.iter().find(|tile| tile.id == id).expect("a tile"), expect);
        };
        check(&unspecialised("128x64s6"), "THREADS=256 BM=128 BN=64 STAGES=6 DYNAMIC_SHARED_BYTES=148480");
        check(
            &specialised("128x256s4"),
            "THREADS=384 BM=128 BN=256 STAGES=4 DYNAMIC_SHARED_BYTES=197632 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232",
        );
        check(
            &stored_through_shared("128x256s4c1x2g8"),
            "THREADS=384 BM=128 BN=256 STAGES=4 DYNAMIC_SHARED_BYTES=230400 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232 \
             CLUSTER=2 CLUSTER_N=2 GROUP=8",
        );
        line(
            &SPLIT_K,
            "128x192s4k3",
            "THREADS=384 BM=128 BN=192 STAGES=4 DYNAMIC_SHARED_BYTES=230400 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232 \
             SPLIT=3 CLUSTER=1 CLUSTER_N=1 BLOCKS_PER_SM=1",
        );
        line(
            &SMALL_TILES,
            "256x160s4k1c1x2",
            "THREADS=384 BM=256 BN=160 STAGES=4 DYNAMIC_SHARED_BYTES=230400 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232 \
             SPLIT=1 CLUSTER=2 CLUSTER_N=2 BLOCKS_PER_SM=1 HEIGHT=2",
        );
        line(
            &TRANSPOSED_PRODUCT,
            "208x128s4k1c2x4",
            "THREADS=384 BM=208 BN=128 STAGES=4 DYNAMIC_SHARED_BYTES=197632 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232 \
             SPLIT=1 CLUSTER=8 CLUSTER_N=4 BLOCKS_PER_SM=1 SWAPPED=1",
        );
        line(
            &UNALIGNED,
            "32x64s1b6",
            "THREADS=128 BM=32 BN=64 BK=32 WM=16 WN=32 SLICES=1 SPLIT=1 DEPTH=1 BLOCKS_PER_SM=6 DYNAMIC_SHARED_BYTES=12288",
        );
    }
}
