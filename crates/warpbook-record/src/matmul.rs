//! The rungs of the matrix product, and what each of them takes.

use crate::kernels::source;
use crate::rung::{Grid, KernelSpec, Requires, Rung, Runner, Schedule, Source, Tile, base};
use crate::{Dtype, MemoryLevel, Problem, Traffic};

/// The shapes (m, n, k) of the published record: cubes, sizes that are multiples of nothing, and thin ones.
pub const SHAPES: [(u64, u64, u64); 13] = [
    (256, 256, 256),
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (16384, 16384, 16384),
    (1000, 1000, 1000),
    (4097, 4095, 4093),
    (128, 8192, 8192),
    (8192, 8192, 128),
    (64, 4096, 11008),
    (65536, 512, 512),
];
/// The edge of the cube that is measured when no shape is asked for.
pub const STANDARD_EDGE: u64 = 4096;
/// Algorithms that cuBLASLt is asked for; each is timed, and the best stands for it.
pub const LT_ALGORITHMS: usize = 32;
/// Memory that a product may use beside its matrices, ours and the libraries' alike, in bytes.
pub const WORKSPACE_BYTES: u64 = 64 << 20;

/// The rungs of the libraries.
pub const CUBLAS: &str = "cublas";
/// As [`CUBLAS`].
pub const CUBLASLT: &str = "cublaslt";

/// What becomes of a sum on its way into C, with v = alpha (op(A) op(B))ij + beta Cij.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Finish {
    /// v.
    #[default]
    None,
    /// v + bias of the column.
    Bias,
    /// max(v + bias of the column, 0).
    BiasRelu,
    /// v where the mask is above 0, else 0: the gradient through a ReLU.
    ReluMask,
}

/// What a kernel of the matrix product is compiled for, beside its tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Form {
    /// Type of A and B: `F32`, `Tf32`, `F16` or `Bf16`.
    pub dtype: Dtype,
    /// Type of C.
    pub out: Dtype,
    /// Whether A is stored transposed.
    pub trans_a: bool,
    /// Whether B is stored transposed.
    pub trans_b: bool,
    /// The last step.
    pub finish: Finish,
}

impl Form {
    /// Row-major matrices of one type, nothing transposed and nothing added.
    #[must_use]
    pub const fn plain(dtype: Dtype) -> Self {
        Self { dtype, out: dtype, trans_a: false, trans_b: false, finish: Finish::None }
    }

    /// A kernel's row compiled for this form.
    #[must_use]
    pub fn of(self, spec: &KernelSpec) -> KernelSpec {
        let finish = match self.finish {
            Finish::None => 0,
            Finish::Bias => 1,
            Finish::BiasRelu => 2,
            Finish::ReluMask => 3,
        };
        spec.clone()
            .define("IN", type_number(self.dtype))
            .define("OUT", type_number(self.out))
            .define("TRANS_A", self.trans_a.into())
            .define("TRANS_B", self.trans_b.into())
            .define("FINISH", finish)
    }
}

/// The numbers that `kernels/matmul/gemm.cuh` gives the types.
fn type_number(dtype: Dtype) -> i64 {
    match dtype {
        Dtype::F16 => 1,
        Dtype::Bf16 => 2,
        _ => 0,
    }
}

/// How a rung's kernel gets its operands, and so what it takes as arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operands {
    /// By address: any leading dimension and alignment.
    Addresses,
    /// By descriptions for TMA: rows that begin at multiples of 16 bytes; others are copied first.
    TensorMaps,
    /// The same, and C by a description too, where its rows allow one.
    TensorMapsAndC,
    /// The same, and B's tiles go through registers: 32-bit ones run along n.
    BInRegisters,
}

/// What a rung of kernels takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Takes {
    /// Types of A and B.
    pub dtypes: &'static [Dtype],
    /// How it gets them.
    pub operands: Operands,
    /// Whether it may be launched while its predecessor still runs, for whose results it then waits.
    pub overlaps: bool,
}

/// What a rung of ours takes, or the rung that it is a variant of; `None` of any other.
#[must_use]
pub fn takes(rung: &str) -> Option<Takes> {
    use Dtype::{Bf16, F16, F32, Tf32};
    let rung = base(rung);
    let (dtypes, operands): (&'static [Dtype], _) = match rung {
        "01_naive" | "02_coalesced" | "03_shared_tile" | "04_register_1d" | "05_register_2d" | "06_vectorised"
        | "07_warp_tile" | "08_double_buffered" => (&[F32, F16, Bf16], Operands::Addresses),
        "09_wmma" => (&[F16, Bf16], Operands::Addresses),
        "10_mma_swizzled" => (&[F16, Bf16, Tf32], Operands::Addresses),
        "11_wgmma_tma" | "12_warp_specialised" | "13_persistent_cluster" | "15_split_k" => {
            (&[F16, Bf16, Tf32], Operands::TensorMaps)
        }
        "14_overlapped_store" => (&[F16, Bf16, Tf32], Operands::TensorMapsAndC),
        "16_tf32_registers" => (&[Tf32], Operands::BInRegisters),
        _ => return None,
    };
    Some(Takes {
        dtypes,
        operands,
        overlaps: matches!(rung, "14_overlapped_store" | "15_split_k" | "16_tf32_registers"),
    })
}

const COPY: Source = source!("matmul/repack.cu");
const TRANSPOSE: Source = source!("matmul/transpose.cu");
const REFERENCE: Source = source!("matmul/reference.cu");

/// Copies a matrix into rows that begin at multiples of 16 bytes; `element_bytes` is 2 or 4.
#[must_use]
pub fn repack(element_bytes: u64, transpose: bool) -> KernelSpec {
    let (source, entry, tile) = if transpose {
        (TRANSPOSE, "repack_transposed", Tile::new("t256", &[("THREADS", 256), ("BM", 64), ("BN", 64)]))
    } else {
        // 64 threads a row, 16 bytes each.
        let columns = 64 * 16 / element_bytes.cast_signed();
        (COPY, "repack", Tile::new("t256", &[("THREADS", 256), ("BM", 4), ("BN", columns)]))
    };
    KernelSpec::new(source, entry, &[tile], Grid::Tiles).define("ELEMENT_BYTES", element_bytes.cast_signed())
}

/// The product in f64 that others are held against.
#[must_use]
pub fn reference(form: Form) -> KernelSpec {
    let tile = Tile::new("t256", &[("THREADS", 256), ("BM", 64), ("BN", 64)]);
    let spec = KernelSpec::new(REFERENCE, "reference", &[tile], Grid::Tiles);
    form.of(&spec).define("TF32", (form.dtype == Dtype::Tf32).into())
}

/// Holds a C against such a reference.
#[must_use]
pub fn compare(form: Form) -> KernelSpec {
    let tile = Tile::new("t256", &[("THREADS", 256), ("ITEMS", 4), ("BLOCKS_PER_SM", 8)]);
    let spec = KernelSpec::new(REFERENCE, "compare", &[tile], Grid::Resident);
    form.of(&spec).define("TF32", (form.dtype == Dtype::Tf32).into())
}

/// The rungs from here on need Hopper's own instructions.
fn hopper() -> Requires {
    Requires::Exactly("sm_90a".into())
}

/// Bytes of a row of a tile in shared memory that TMA swizzles, and of 64 of them.
const ROW_BYTES: i64 = 128;
const CHUNK_BYTES: i64 = 64 * ROW_BYTES;
/// Names bytes of shared memory beside the stages; no definition for the compiler.
const BESIDE: &str = "BESIDE";

/// A tile of a Hopper rung: `stages` tiles of A and B under way, one warpgroup for every 64 rows and `others` beside them.
fn hopper_tile(id: &'static str, (bm, bn): (i64, i64), stages: i64, others: i64, more: &[(&'static str, i64)]) -> Tile {
    // Beside the stages a kernel may want room for what leaves or arrives; the rest is for rounding up to 1024.
    let beside = more.iter().find(|(name, _)| *name == BESIDE).map_or(0, |(_, bytes)| *bytes);
    let mut sizes = vec![
        ("THREADS", (bm / 64 + others) * 128),
        ("BM", bm),
        ("BN", bn),
        ("STAGES", stages),
        ("DYNAMIC_SHARED_BYTES", stages * (bm + bn) * ROW_BYTES + beside + 1024),
    ];
    sizes.extend(more.iter().filter(|(name, _)| *name != BESIDE));
    Tile::new(id, &sizes)
}

/// Registers of a thread that fetches and of one that multiplies, where a kernel moves them: 64 x 256 sums take 128 of a thread.
const REGISTERS: [(&str, i64); 2] = [("PRODUCER_REGISTERS", 40), ("CONSUMER_REGISTERS", 232)];

fn specialised(id: &'static str, shape: (i64, i64), stages: i64) -> Tile {
    hopper_tile(id, shape, stages, 1, &REGISTERS)
}

/// A tile of a rung whose blocks stay, in clusters of `[m, n]` blocks that share what both need, tiles in groups of `group` rows of
/// clusters; `out` for a kernel that sends C by way of shared memory.
fn persistent(id: &'static str, shape: (i64, i64), stages: i64, [m, n]: [i64; 2], group: i64, out: bool) -> Tile {
    // Two chunks of C on their way out for each consumer.
    let chunks = if out { shape.0 / 64 * 2 } else { 0 };
    let cluster = [("CLUSTER", m * n), ("CLUSTER_N", n), ("GROUP", group), (BESIDE, chunks * CHUNK_BYTES)];
    hopper_tile(id, shape, stages, 1, &[&REGISTERS[..], &cluster].concat())
}

/// A tile whose k is shared by `split` blocks, `blocks` of which fit onto a multiprocessor: then the next product's begin early.
fn split(id: &'static str, shape: (i64, i64), stages: i64, split: i64, blocks: i64) -> Tile {
    // What a thread of `threads` may have, in eights; two warpgroups of consumers, or one, share what the producer leaves.
    let (consumers, threads) = (shape.0 / 64, (shape.0 / 64 + 1) * 128);
    let each = 65536 / (threads * blocks) / 8 * 8;
    let registers = ((each * (consumers + 1) - 40) / consumers / 8 * 8).min(232);
    let more = [
        ("SPLIT", split),
        ("BLOCKS_PER_SM", blocks),
        ("PRODUCER_REGISTERS", 40),
        ("CONSUMER_REGISTERS", registers),
        // The sums of its part of the columns that the other blocks send.
        (BESIDE, shape.0 * shape.1 * 4 / split * (split - 1)),
    ];
    hopper_tile(id, shape, stages, 1, &more)
}

const WGMMA: Source = source!("matmul/11_wgmma_tma.cu");
const SPECIALISED: Source = source!("matmul/12_warp_specialised.cu");
const PERSISTENT: Source = source!("matmul/13_persistent_cluster.cu");
const OVERLAPPED: Source = source!("matmul/14_overlapped_store.cu");
const SPLIT_K: Source = source!("matmul/15_split_k.cu");
const TF32_REGISTERS: Source = source!("matmul/16_tf32_registers.cu");

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
        split("128x128s6k1", (128, 128), 6, 1, 1),
        split("128x64s8k1", (128, 64), 8, 1, 1),
        split("128x64s8k2", (128, 64), 8, 2, 1),
        split("128x64s4k1b2", (128, 64), 4, 1, 2),
        split("64x256s4k4", (64, 256), 4, 4, 1),
        split("64x256s4k8", (64, 256), 4, 8, 1),
        split("64x128s8k2", (64, 128), 8, 2, 1),
        split("64x128s8k4", (64, 128), 8, 4, 1),
        split("64x128s4k1b2", (64, 128), 4, 1, 2),
        split("64x64s12k1", (64, 64), 12, 1, 1),
        split("64x64s12k2", (64, 64), 12, 2, 1),
        split("64x64s6k1b2", (64, 64), 6, 1, 2),
        split("64x64s6k2b2", (64, 64), 6, 2, 2),
        split("64x64s6k4b2", (64, 64), 6, 4, 2),
    ];
    KernelSpec::new(SPLIT_K, "gemm", &tiles, Grid::Tiles).needs(hopper())
}

fn tf32_registers() -> KernelSpec {
    // As `persistent` with stores through shared memory, but with a consumer for every 64 columns.
    let tile = |id, (bm, bn): (i64, i64), stages, [m, n]: [i64; 2], group| {
        let more = [("CLUSTER", m * n), ("CLUSTER_N", n), ("GROUP", group), (BESIDE, bn / 64 * 2 * CHUNK_BYTES)];
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

/// A ring of `stages` tiles in shared memory, rows padded by 16 bytes; `[tm, tn]` sums a thread, `[wm, wn]` a warp.
fn ring(id: &'static str, shape: [i64; 3], sums: [i64; 2], warp: [i64; 2], [stages, blocks]: [i64; 2]) -> Tile {
    sliced(id, shape, sums, warp, [stages, blocks], 1)
}

/// The same with its k shared by `slices` groups of threads, each with a ring of its own; their sums meet where the rings were.
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
        // Few tiles: the warps of a block share k.
        sliced("64x128x8s4k4", [64, 128, 8], [8, 16], [64, 64], [4, 1], 4),
        sliced("32x64x16s3k8", [32, 64, 16], [8, 8], [32, 64], [3, 1], 8),
        sliced("32x32x8s3k8", [32, 32, 8], [4, 8], [32, 32], [3, 2], 8),
        sliced("32x16x8s3k8", [32, 16, 8], [4, 4], [32, 16], [3, 2], 8),
    ];
    KernelSpec::new(DOUBLE_BUFFERED, "gemm", &tiles, Grid::Tiles)
}

/// Tiles of warps that multiply with tensor cores: `[wm, wn]` a warp.
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
    // Room for elements of four bytes, so that a tile serves every type.
    let tile = |id, shape: [i64; 3], warp, blocks, stages| {
        let bytes = stages * (shape[0] + shape[1]) * shape[2] * 4;
        warps(id, shape, warp, blocks, &[("STAGES", stages), ("GROUP", 8), ("DYNAMIC_SHARED_BYTES", bytes)])
    };
    let tiles =
        [tile("128x256x32s4", [128, 256, 32], [64, 64], 1, 4), tile("128x128x32s3w64", [128, 128, 32], [64, 64], 2, 3)];
    KernelSpec::new(MMA_SWIZZLED, "gemm", &tiles, Grid::Tiles)
}

/// A kernel on CUDA cores with one block a tile.
fn plain(source: Source, tiles: &[Tile]) -> KernelSpec {
    KernelSpec::new(source, "gemm", tiles, Grid::Tiles)
}

/// A tile of `bm` x `bn` with `bk` of k at a time, and `more`.
fn block(id: &'static str, threads: i64, [bm, bn, bk]: [i64; 3], more: &[(&'static str, i64)]) -> Tile {
    let sizes = [("THREADS", threads), ("BM", bm), ("BN", bn), ("BK", bk)];
    Tile::new(id, &[&sizes[..], more].concat())
}

/// 8 x 8 sums a thread.
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

fn rung(id: &'static str, title: &'static str, idea: &'static str, requires: Requires, runner: Runner) -> Rung {
    Rung { id: id.into(), title: title.into(), idea: idea.into(), requires, runner }
}

/// The rungs of the matrix product, in the ladder's order.
#[must_use]
pub fn rungs() -> Vec<Rung> {
    let kernel = |spec: KernelSpec, schedule| Runner::Kernels { specs: vec![spec], schedule };
    let cpu = |id, title, idea, what: &'static str| rung(id, title, idea, Requires::Nothing, Runner::Cpu(what.into()));
    let any = Requires::AtLeast(7, 5);
    vec![
        cpu(
            "cpu_naive",
            "CPU, three loops",
            "The definition: a row of A times a column of B, one element after the other.",
            "1 thread",
        ),
        cpu(
            "cpu_blocked",
            "CPU, blocked",
            "Blocks of A and B are packed so that the caches and the vector registers hold them.",
            "1 thread",
        ),
        cpu(
            "cpu_threaded",
            "CPU, blocked, all threads",
            "The same on every core, each with rows of its own.",
            "all threads",
        ),
        cpu(
            "cpu_library",
            "CPU, gemm crate",
            "A library that was tuned for this processor's vector units.",
            "gemm crate, all threads",
        ),
        rung(
            CUBLAS,
            "cuBLAS",
            "NVIDIA's library, with the algorithm that it chooses itself.",
            any.clone(),
            Runner::Library("cuBLAS".into()),
        ),
        rung(
            CUBLASLT,
            "cuBLASLt, best of 32",
            "The same company's library with every algorithm that it suggests timed, and the fastest kept.",
            any,
            Runner::Library("cuBLASLt".into()),
        ),
        rung(
            "01_naive",
            "Naive",
            "A thread computes one element; neighbouring threads take neighbouring rows.",
            Requires::AtLeast(7, 5),
            kernel(plain(NAIVE, &[block("32x8", 256, [32, 8, 1], &[])]), Schedule::Launches),
        ),
        rung(
            "02_coalesced",
            "Coalesced",
            "Neighbouring threads take neighbouring columns, so that a warp's reads are neighbours too.",
            Requires::AtLeast(7, 5),
            kernel(plain(COALESCED, &[block("8x32", 256, [8, 32, 1], &[])]), Schedule::Launches),
        ),
        rung(
            "03_shared_tile",
            "Shared tiles",
            "A block fetches tiles of 32 x 32 into shared memory, and each of their elements is used 32 times.",
            Requires::AtLeast(7, 5),
            kernel(plain(SHARED_TILE, &[block("32x32x32", 1024, [32, 32, 32], &[])]), Schedule::Launches),
        ),
        rung(
            "04_register_1d",
            "Register tile, 1-D",
            "A thread computes eight elements of a column, so that an element of B is read once for eight.",
            Requires::AtLeast(7, 5),
            kernel(plain(REGISTER_1D, &[block("64x64x8", 512, [64, 64, 8], &[("TM", 8)])]), Schedule::Launches),
        ),
        rung(
            "05_register_2d",
            "Register tile, 2-D",
            "A thread computes 8 x 8 elements from 8 + 8 that it holds in registers.",
            Requires::AtLeast(7, 5),
            kernel(plain(REGISTER_2D, &register_tiles(false)[..1]), Schedule::Launches),
        ),
        rung(
            "06_vectorised",
            "Vectorised",
            "Memory and shared memory are read and written 16 bytes at a time.",
            Requires::AtLeast(7, 5),
            kernel(plain(VECTORISED, &register_tiles(false)), Schedule::Launches),
        ),
        rung(
            "07_warp_tile",
            "Warp tiles",
            "The threads of a warp share a compact part of the tile, so that its reads fall together.",
            Requires::AtLeast(7, 5),
            kernel(plain(WARP_TILE, &register_tiles(true)), Schedule::Launches),
        ),
        rung(
            "08_double_buffered",
            "Double-buffered",
            "Tiles come by asynchronous copies while others are multiplied, and registers are filled while the last are used.",
            Requires::AtLeast(7, 5),
            kernel(double_buffered(), Schedule::Launches),
        ),
        rung(
            "09_wmma",
            "Tensor cores, wmma",
            "A warp multiplies blocks of 16 x 16 x 16 at once, in 16-bit types with fp32 sums.",
            Requires::AtLeast(7, 5),
            kernel(wmma(), Schedule::Launches),
        ),
        rung(
            "10_mma_swizzled",
            "mma.sync, swizzled",
            "Fragments come by ldmatrix from tiles whose 16-byte pieces are permuted, so that no two meet in a bank.",
            Requires::AtLeast(8, 0),
            kernel(mma_swizzled(), Schedule::Launches),
        ),
        rung(
            "11_wgmma_tma",
            "wgmma and TMA",
            "A copy engine fetches whole tiles, and 128 threads together multiply them straight from shared memory.",
            hopper(),
            kernel(wgmma(), Schedule::Launches),
        ),
        rung(
            "12_warp_specialised",
            "Warp-specialised",
            "One warpgroup does nothing but fetch, the others nothing but multiply.",
            hopper(),
            kernel(warp_specialised(), Schedule::Launches),
        ),
        rung(
            "13_persistent_cluster",
            "Persistent, in clusters",
            "Blocks stay for many tiles, in an order that the cache likes, and neighbours fetch what both need once.",
            hopper(),
            kernel(persistent_cluster(), Schedule::Cluster(2)),
        ),
        rung(
            "14_overlapped_store",
            "Stores overlapped",
            "Sums leave through shared memory and the copy engine while the next tile is under way.",
            hopper(),
            kernel(overlapped_store(), Schedule::Cluster(2)),
        ),
        rung(
            "15_split_k",
            "Split k",
            "The blocks of a cluster share the k of one tile and add up through distributed shared memory.",
            hopper(),
            kernel(split_k(), Schedule::Cluster(2)),
        ),
        rung(
            "16_tf32_registers",
            "tf32 through registers",
            "B goes to the tensor cores by way of registers, which read it as it lies: no copy transposes it first.",
            hopper(),
            kernel(tf32_registers(), Schedule::Cluster(2)),
        ),
    ]
}

/// Bytes that a rung of ours moves at each level of memory, counted: what its tiles read from the level-2 cache, and each matrix once
/// from memory.
#[must_use]
pub fn traffic(rung: &str, tile: &Tile, problem: &Problem) -> Vec<Traffic> {
    let Problem::Matmul { m, n, k, dtype, .. } = problem else { return Vec::new() };
    if takes(rung).is_none() || tile.get("BM").is_none() {
        return Vec::new();
    }
    let (rows, columns) = (m.div_ceil(tile.size("BM")), n.div_ceil(tile.size("BN")));
    // Every tile reads its rows of A and its columns of B; the blocks of a cluster read once what they share.
    let beside = tile.size("CLUSTER_N");
    let a = columns.div_ceil(beside).saturating_mul(m.saturating_mul(*k));
    let b = rows.div_ceil(tile.size("CLUSTER") / beside).saturating_mul(n.saturating_mul(*k));
    vec![
        Traffic { level: MemoryLevel::Dram, bytes: problem.bytes() },
        Traffic { level: MemoryLevel::L2, bytes: a.saturating_add(b).saturating_mul(dtype.bytes()) },
    ]
}

/// Every kernel of the matrix product with the types and transpositions that tests compile.
#[must_use]
pub fn compiled_forms() -> Vec<(KernelSpec, Requires)> {
    let mut all = Vec::new();
    for rung in rungs() {
        let (Some(takes), Some(spec)) = (takes(&rung.id), rung.kernels().first()) else { continue };
        for dtype in takes.dtypes {
            let mut form = Form::plain(*dtype);
            // 32-bit tiles that Hopper's tensor cores read run along k; a copy comes before them otherwise.
            if *dtype == Dtype::Tf32 && matches!(takes.operands, Operands::TensorMaps | Operands::TensorMapsAndC) {
                form.trans_b = true;
            }
            let mut spec = form.of(spec);
            // The first type has every tile; 16-bit types on CUDA cores are a way out, not a rung.
            if takes.dtypes[0] != *dtype {
                spec.tiles.truncate(1);
            }
            // wmma's bf16 came with compute capability 8.0.
            let requires = if rung.id == "09_wmma" && *dtype == Dtype::Bf16 {
                Requires::AtLeast(8, 0)
            } else {
                rung.requires.clone()
            };
            all.push((spec, requires));
        }
    }
    for dtype in [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16] {
        all.push((reference(Form::plain(dtype)), Requires::AtLeast(7, 5)));
        all.push((compare(Form::plain(dtype)), Requires::AtLeast(7, 5)));
    }
    for bytes in [2, 4] {
        for transpose in [false, true] {
            all.push((repack(bytes, transpose), Requires::AtLeast(7, 5)));
        }
    }
    all
}
