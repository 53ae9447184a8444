//! The rows of the matrix product's ladder: each rung with its kernel, capabilities, costs and figure.

use crate::shared::source;
use warpbook_record::{
    Dim, Dtype, Grid, KernelSpec, MemoryLevel, Problem, Requires, Rung, Runner, Schedule, Size, Source, SweepPoint,
    Tile, Traffic, count, setting,
};

/// The shapes (m, n, k) of the published record: cubes, sizes without alignment, and thin ones.
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
/// Algorithms that cuBLASLt is asked for; each is timed, and the fastest is its result.
pub const LT_ALGORITHMS: usize = 32;
/// The largest workspace of a product in bytes, for our kernels and the libraries alike.
pub const WORKSPACE_BYTES: u64 = 64 << 20;

/// The epilogue: the function that is applied to v = alpha (op(A) op(B))ij + beta Cij before it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Epilogue {
    /// v.
    #[default]
    None,
    /// v + bias of the column.
    Bias,
    /// max(v + bias of the column, 0).
    BiasRelu,
    /// 0 where the mask is 0 or less, else v: the gradient through a ReLU.
    ReluMask,
    /// gelu(v) = v Φ(v), Φ being the distribution function of the standard normal distribution: the exact form, by erf, which
    /// `torch.nn.GELU` computes by default.
    Gelu,
    /// gelu(v + bias of the column).
    BiasGelu,
}

impl Epilogue {
    /// Every epilogue.
    pub const ALL: [Self; 6] = [Self::None, Self::Bias, Self::BiasRelu, Self::ReluMask, Self::Gelu, Self::BiasGelu];

    /// Whether it adds a bias.
    #[must_use]
    pub const fn has_bias(self) -> bool {
        matches!(self, Self::Bias | Self::BiasRelu | Self::BiasGelu)
    }

    /// Whether it reads a mask.
    #[must_use]
    pub const fn has_mask(self) -> bool {
        matches!(self, Self::ReluMask)
    }

    /// Its value of the macro `EPILOGUE` in `kernels/matmul/gemm.cuh`.
    const fn number(self) -> i64 {
        match self {
            Self::None => 0,
            Self::Bias => 1,
            Self::BiasRelu => 2,
            Self::ReluMask => 3,
            Self::Gelu => 4,
            Self::BiasGelu => 5,
        }
    }
}

/// What a kernel of the matrix product is compiled for, in addition to its tile.
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
    /// The epilogue.
    pub epilogue: Epilogue,
}

impl Form {
    /// Row-major matrices of one type, nothing transposed and nothing added.
    #[must_use]
    pub const fn plain(dtype: Dtype) -> Self {
        Self { dtype, out: dtype, trans_a: false, trans_b: false, epilogue: Epilogue::None }
    }

    /// A kernel's row compiled for this form.
    #[must_use]
    pub fn of(self, spec: &KernelSpec) -> KernelSpec {
        spec.clone()
            .define("IN", type_number(self.dtype))
            .define("OUT", type_number(self.out))
            .define("TRANS_A", self.trans_a.into())
            .define("TRANS_B", self.trans_b.into())
            .define("EPILOGUE", self.epilogue.number())
    }
}

/// The numbers that `kernels/matmul/gemm.cuh` gives the types.
pub(crate) fn type_number(dtype: Dtype) -> i64 {
    match dtype {
        Dtype::F16 => 1,
        Dtype::Bf16 => 2,
        _ => 0,
    }
}

/// How operands are passed to a kernel, which determines its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operands {
    /// By address: any leading dimension and alignment.
    Addresses,
    /// By tensor maps for TMA: rows that begin at multiples of 16 bytes; others are copied first.
    TensorMaps,
    /// The same, and C by a tensor map too, where its rows allow one.
    TensorMapsAndC,
    /// The same, and B's tiles go through registers: 32-bit ones are contiguous along n.
    BInRegisters,
}

impl Operands {
    /// The form that a kernel is compiled for: 32-bit tiles that tensor cores read from shared memory must be contiguous along k, and
    /// those that go through registers along n. Copies provide what is stored otherwise.
    #[must_use]
    pub fn given(self, form: Form) -> Form {
        if self != Self::Addresses && form.dtype.bytes() == 4 {
            Form { trans_a: false, trans_b: self != Self::BInRegisters, ..form }
        } else {
            form
        }
    }
}

/// What a kernel of the matrix product can do.
#[derive(Debug, Clone, PartialEq)]
pub struct Capabilities {
    /// Types of A and B, each with the hardware that it needs beyond the rung's.
    pub dtypes: Vec<(Dtype, Requires)>,
    /// How operands are passed to it.
    pub operands: Operands,
    /// Bytes of an element of C, if it writes only such elements.
    pub out_bytes: Option<u64>,
    /// Whether it supports programmatic dependent launch: it may start while its predecessor runs, and waits for its results.
    pub overlaps: bool,
    /// Whether blocks on one SM hide each other's stalls, as those on tensor cores do; on CUDA cores they share the arithmetic.
    pub hides_stalls: bool,
}

impl Capabilities {
    /// Whether it takes a type on some hardware.
    #[must_use]
    pub fn takes(&self, dtype: Dtype) -> bool {
        self.dtypes.iter().any(|(d, _)| *d == dtype)
    }
}

/// The cost of a tile: microseconds of a launch, of a wave of tiles, and of 128 bytes of k in a wave.
///
/// Measured on an NVIDIA H200 over the shapes of the published record (least squares of the relative error): Hopper's rungs in bf16,
/// as tf32 takes as long for as many bytes, except the rung that only takes tf32; CUDA cores in fp32.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// The tile's id.
    pub tile: &'static str,
    /// Microseconds of a launch.
    pub launch_us: f64,
    /// Microseconds of a wave of tiles.
    pub wave_us: f64,
    /// Microseconds of 128 bytes of k in a wave.
    pub k_us: f64,
}

const fn cost(tile: &'static str, [launch_us, wave_us, k_us]: [f64; 3]) -> Cost {
    Cost { tile, launch_us, wave_us, k_us }
}

/// The costs of a row's tiles, and where they apply.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// The types that they apply to.
    pub dtypes: Vec<Dtype>,
    /// The hardware that they apply to.
    pub requires: Requires,
    /// The tiles worth choosing.
    pub tiles: &'static [Cost],
}

/// The tile that a row is used with where no costs apply: the first for products whose 128 x 128 tiles fill the device, the second
/// for smaller ones. Of several such rows the last of the ladder is taken.
pub type Fallback = [&'static str; 2];

/// What runs a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Our kernel.
    Kernel(Capabilities),
    /// cuBLAS, with the algorithm that it chooses itself.
    Cublas,
    /// cuBLASLt, with the fastest of the algorithms that it suggests.
    CublasLt,
    /// The CPU.
    Cpu(CpuBody),
}

/// The CPU's ways to multiply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuBody {
    /// Three loops on one thread.
    Naive,
    /// Blocks for the caches and vector registers, on one thread.
    Blocked,
    /// The same on all threads.
    Threaded,
    /// The `gemm` crate.
    Library,
}

impl CpuBody {
    /// The least FLOP/s of a thread: a product that would exceed its time budget is not started.
    #[must_use]
    pub const fn least_flops_per_s(self) -> f64 {
        match self {
            Self::Naive => 0.5e9,
            Self::Blocked | Self::Threaded => 10e9,
            Self::Library => 15e9,
        }
    }

    /// Whether it uses all threads.
    #[must_use]
    pub const fn is_threaded(self) -> bool {
        matches!(self, Self::Threaded | Self::Library)
    }
}

/// The figure that shows what a kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Figure {
    /// The elements that a warp reads when adjacent threads compute adjacent rows.
    RowAccess,
    /// The same when they compute adjacent columns.
    ColumnAccess,
    /// Tiles of A and B in shared memory.
    SharedTile,
    /// A column of results per thread.
    RegisterColumn,
    /// A square of results per thread.
    RegisterSquare,
    /// 16-byte accesses.
    VectorAccess,
    /// A warp's part of a tile.
    WarpTile,
    /// Tiles in flight while others are multiplied.
    DoubleBuffer,
    /// Fragments of `wmma`.
    WmmaFragments,
    /// Swizzled rows of shared memory.
    Swizzle,
    /// A warpgroup's product from shared memory.
    Warpgroup,
    /// Producer and consumers.
    Specialisation,
    /// Clusters and the order of tiles.
    ClusterOrder,
    /// Stores that overlap the next tile.
    OverlappedStore,
    /// k split over a cluster.
    SplitK,
    /// B through registers.
    RegisterOperand,
}

/// A rung of the matrix product with everything that is known about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The rung, as a record has it.
    pub rung: Rung,
    /// What runs it.
    pub body: Body,
    /// Whether the tuner tries it.
    pub tunable: bool,
    /// The costs of its tiles, where they were measured.
    pub costs: Option<Costs>,
    /// The tiles that it is used with where no costs apply.
    pub fallback: Option<Fallback>,
    /// Its figure.
    pub figure: Option<Figure>,
}

impl Row {
    /// What its kernel can do; `None` of a row without one.
    #[must_use]
    pub fn capabilities(&self) -> Option<&Capabilities> {
        match &self.body {
            Body::Kernel(c) => Some(c),
            _ => None,
        }
    }

    /// Its kernel, as its row has it.
    #[must_use]
    pub fn kernel(&self) -> Option<&KernelSpec> {
        self.rung.kernels().first()
    }

    /// Why its kernel cannot compute a product on a device of this compute capability; `None` if it can, and of a row without a kernel.
    #[must_use]
    pub fn obstacle(&self, form: Form, compute_capability: Option<(u32, u32)>) -> Option<String> {
        let can = self.capabilities()?;
        if !self.rung.requires.met_by(compute_capability) {
            return Some(format!("needs {}", self.rung.requires.sentence()));
        }
        let Some((_, requires)) = can.dtypes.iter().find(|(d, _)| *d == form.dtype) else {
            let known: Vec<&str> = can.dtypes.iter().map(|(d, _)| d.label()).collect();
            return Some(format!("takes {}, not {}", known.join(", "), form.dtype.label()));
        };
        if !requires.met_by(compute_capability) {
            return Some(format!("needs {} for {}", requires.sentence(), form.dtype.label()));
        }
        if can.out_bytes.is_some_and(|b| b != form.out.bytes()) {
            return Some(format!("does not write {}", form.out.label()));
        }
        None
    }

    /// The bytes that it moves at each level of memory with one of its tiles, counted: the reads of its tiles from L2, and each matrix
    /// once from DRAM.
    #[must_use]
    pub fn traffic(&self, tile: &Tile, problem: &Problem) -> Vec<Traffic> {
        let (Some((m, n, k)), Some(_)) = (shape_of(problem), self.capabilities()) else { return Vec::new() };
        if tile.get(Dim::Bm.name()).is_none() {
            return Vec::new();
        }
        let (rows, columns) = (m.div_ceil(tile.size(Dim::Bm)), n.div_ceil(tile.size(Dim::Bn)));
        // Every tile reads its rows of A and columns of B; the blocks of a cluster read shared tiles once.
        let across = tile.size(Dim::ClusterN);
        let a = columns.div_ceil(across).saturating_mul(m.saturating_mul(k));
        let b = rows.div_ceil(tile.size(Dim::Cluster) / across).saturating_mul(n.saturating_mul(k));
        vec![
            Traffic { level: MemoryLevel::Dram, bytes: problem.bytes },
            Traffic { level: MemoryLevel::L2, bytes: a.saturating_add(b).saturating_mul(problem.dtype.bytes()) },
        ]
    }
}

/// m, n and k of a matrix product.
#[must_use]
pub fn shape_of(problem: &Problem) -> Option<(u64, u64, u64)> {
    Some((problem.count("m")?, problem.count("n")?, problem.count("k")?))
}

/// Whether A and B of a matrix product are stored transposed.
#[must_use]
pub fn transposed(problem: &Problem) -> (bool, bool) {
    (problem.count("trans_a").is_some(), problem.count("trans_b").is_some())
}

/// C = op(A) op(B) as a record has it: a multiplication and an addition for each of m n k terms; A, B and C moved once.
#[must_use]
pub fn problem((m, n, k): (u64, u64, u64), dtype: Dtype, (trans_a, trans_b): (bool, bool), seed: u64) -> Problem {
    let mut sizes: Vec<Size> = vec![count("m", m, "rows"), count("n", n, "columns"), count("k", k, "terms")];
    let flags = [("trans_a", trans_a), ("trans_b", trans_b)];
    sizes.extend(flags.into_iter().filter(|(_, is)| *is).map(|(name, _)| setting(name, 1u64)));
    sizes.push(setting("seed", seed));
    let cube = m == n && n == k;
    let short = if cube { format!("{m}³") } else { format!("{m} × {n} × {k}") };
    let stored = match (trans_a, trans_b) {
        (false, false) => "",
        (true, false) => ", A transposed",
        (false, true) => ", B transposed",
        (true, true) => ", A and B transposed",
    };
    let line = format!("{}{stored}", dtype.label());
    let inputs = m.saturating_add(n).saturating_mul(k);
    let bytes = inputs.saturating_add(m.saturating_mul(n)).saturating_mul(dtype.bytes());
    Problem::new(format!("{short} {line}"), short, sizes, dtype).with(|p| {
        p.flops = m.saturating_mul(n).saturating_mul(k).saturating_mul(2);
        (p.bytes, p.working_set_bytes) = (bytes, bytes);
        p.sweep = cube.then_some(SweepPoint { size: m, line });
    })
}

const COPY: Source = source!("matmul/repack.cu");
const TRANSPOSE: Source = source!("matmul/transpose.cu");
const COLUMN_SUMS: Source = source!("matmul/column_sums.cu");
const REFERENCE: Source = source!("matmul/reference.cu");

/// Copies a matrix into rows at multiples of 16 bytes; `element_bytes` is 2 or 4.
#[must_use]
pub fn repack(element_bytes: u64, transpose: bool) -> KernelSpec {
    let (source, entry, tile) = if transpose {
        (TRANSPOSE, "repack_transposed", Tile::new("t256", &[("THREADS", 256), ("BM", 64), ("BN", 64)]))
    } else {
        // 64 threads per row, 16 bytes each.
        let columns = 64 * 16 / element_bytes.cast_signed();
        (COPY, "repack", Tile::new("t256", &[("THREADS", 256), ("BM", 4), ("BN", columns)]))
    };
    KernelSpec::new(source, entry, &[tile], Grid::Tiles).define("ELEMENT_BYTES", element_bytes.cast_signed())
}

/// Sums the columns of op(B) over each `BM` of its rows: `column_sums(b, ldb, n, k, rows, alpha, beta, out)`. `dtype` is that of B as
/// it is stored.
#[must_use]
pub fn column_sums(dtype: Dtype, trans_b: bool) -> KernelSpec {
    let tile = Tile::new("t256", &[("THREADS", 256), ("BM", 256), ("BN", 32)]);
    Form { trans_b, ..Form::plain(dtype) }.of(&KernelSpec::new(COLUMN_SUMS, "column_sums", &[tile], Grid::Tiles))
}

/// The product in f64 that results are checked against.
#[must_use]
pub fn reference(form: Form) -> KernelSpec {
    let tile = Tile::new("t256", &[("THREADS", 256), ("BM", 64), ("BN", 64)]);
    let spec = KernelSpec::new(REFERENCE, "reference", &[tile], Grid::Tiles);
    form.of(&spec).define("TF32", (form.dtype == Dtype::Tf32).into())
}

/// Compares C with the reference.
#[must_use]
pub fn compare(form: Form) -> KernelSpec {
    let tile = Tile::new("t256", &[("THREADS", 256), ("ITEMS", 4), ("BLOCKS_PER_SM", 8)]);
    let spec = KernelSpec::new(REFERENCE, "compare", &[tile], Grid::Resident);
    form.of(&spec).define("TF32", (form.dtype == Dtype::Tf32).into())
}

/// For rungs with Hopper's architecture-specific instructions.
fn hopper() -> Requires {
    Requires::Exactly("sm_90a".into())
}

/// Bytes of a row of a tile in shared memory that TMA swizzles, and of 64 of them.
const ROW_BYTES: i64 = 128;
const CHUNK_BYTES: i64 = 64 * ROW_BYTES;
/// Bytes of shared memory in addition to the stages; not a macro of the kernel.
const EXTRA: &str = "EXTRA";

/// A tile of a Hopper rung: `stages` tiles of A and B in flight, one warpgroup for every 64 rows and `others` more.
fn hopper_tile(id: &'static str, (bm, bn): (i64, i64), stages: i64, others: i64, more: &[(&'static str, i64)]) -> Tile {
    // A kernel may need room for results next to the stages; 1024 bytes are for the alignment.
    let extra = more.iter().find(|(name, _)| *name == EXTRA).map_or(0, |(_, bytes)| *bytes);
    let mut sizes = vec![
        ("THREADS", (bm / 64 + others) * 128),
        ("BM", bm),
        ("BN", bn),
        ("STAGES", stages),
        ("DYNAMIC_SHARED_BYTES", stages * (bm + bn) * ROW_BYTES + extra + 1024),
    ];
    sizes.extend(more.iter().filter(|(name, _)| *name != EXTRA));
    Tile::new(id, &sizes)
}

/// Registers per thread of a producer and of a consumer, where a kernel moves them: 64 x 256 sums take 128 per thread.
const REGISTERS: [(&str, i64); 2] = [("PRODUCER_REGISTERS", 40), ("CONSUMER_REGISTERS", 232)];

fn specialised(id: &'static str, shape: (i64, i64), stages: i64) -> Tile {
    hopper_tile(id, shape, stages, 1, &REGISTERS)
}

/// A tile of a persistent rung, in clusters of `[m, n]` blocks that share tiles of A and B, in groups of `group` rows of clusters; `out`
/// for a kernel that stores C through shared memory.
fn persistent(id: &'static str, shape: (i64, i64), stages: i64, [m, n]: [i64; 2], group: i64, out: bool) -> Tile {
    // Two chunks of C in flight for each consumer.
    let chunks = if out { shape.0 / 64 * 2 } else { 0 };
    let cluster = [("CLUSTER", m * n), ("CLUSTER_N", n), ("GROUP", group), (EXTRA, chunks * CHUNK_BYTES)];
    hopper_tile(id, shape, stages, 1, &[&REGISTERS[..], &cluster].concat())
}

/// A tile whose k is split over `split` blocks, `blocks` of which fit on an SM, so that those of the next launch can start early.
fn split(id: &'static str, shape: (i64, i64), stages: i64, split: i64, blocks: i64) -> Tile {
    // The registers of each of `threads` threads, in units of 8; the consumers divide those that the producer gives up.
    let (consumers, threads) = (shape.0 / 64, (shape.0 / 64 + 1) * 128);
    let each = 65536 / (threads * blocks) / 8 * 8;
    let registers = ((each * (consumers + 1) - 40) / consumers / 8 * 8).min(232);
    let more = [
        ("SPLIT", split),
        ("BLOCKS_PER_SM", blocks),
        ("PRODUCER_REGISTERS", 40),
        ("CONSUMER_REGISTERS", registers),
        // The partial sums that the other blocks send, of its part of the columns.
        (EXTRA, shape.0 * shape.1 * 4 / split * (split - 1)),
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
        split("128x64s8k2", (128, 64), 8, 2, 1),
        split("64x256s4k4", (64, 256), 4, 4, 1),
        split("64x256s4k8", (64, 256), 4, 8, 1),
        split("64x128s8k2", (64, 128), 8, 2, 1),
        split("64x128s8k4", (64, 128), 8, 4, 1),
        split("64x64s12k2", (64, 64), 12, 2, 1),
        split("64x64s6k2b2", (64, 64), 6, 2, 2),
        split("64x64s6k4b2", (64, 64), 6, 4, 2),
    ];
    KernelSpec::new(SPLIT_K, "gemm", &tiles, Grid::Tiles).needs(hopper())
}

/// The kernel of split k with the whole k in one block.
fn small_tiles() -> KernelSpec {
    let tiles = [
        split("64x64s12k1", (64, 64), 12, 1, 1),
        split("128x64s8k1", (128, 64), 8, 1, 1),
        split("128x128s6k1", (128, 128), 6, 1, 1),
        split("128x64s4k1b2", (128, 64), 4, 1, 2),
        split("64x128s4k1b2", (64, 128), 4, 1, 2),
        split("64x64s6k1b2", (64, 64), 6, 1, 2),
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

/// A row with the capabilities of kernels on CUDA cores; [`Row::can`] changes them.
fn kernel_row(id: &'static str, title: &'static str, idea: &'static str, requires: Requires, spec: KernelSpec) -> Row {
    use Dtype::{Bf16, F16, F32};
    let schedule =
        if spec.tiles.iter().any(|t| t.cluster_blocks() > 1) { Schedule::Clusters } else { Schedule::Launches };
    Row {
        rung: rung(id, title, idea, requires, Runner::Kernels { specs: vec![spec], schedule }),
        body: Body::Kernel(Capabilities {
            dtypes: [F32, F16, Bf16].map(|d| (d, Requires::Nothing)).into(),
            operands: Operands::Addresses,
            out_bytes: None,
            overlaps: false,
            hides_stalls: false,
        }),
        tunable: false,
        costs: None,
        fallback: None,
        figure: None,
    }
}

impl Row {
    /// The same with this figure.
    #[must_use]
    pub fn drawn(self, figure: Figure) -> Self {
        Self { figure: Some(figure), ..self }
    }

    /// The same, tried by the tuner.
    #[must_use]
    pub fn tuned(self) -> Self {
        Self { tunable: true, ..self }
    }

    /// The same with its capabilities changed.
    #[must_use]
    pub fn can(mut self, change: impl FnOnce(&mut Capabilities)) -> Self {
        if let Body::Kernel(c) = &mut self.body {
            change(c);
        }
        self
    }

    /// The same with costs.
    #[must_use]
    fn costing(self, dtypes: &[Dtype], requires: Requires, tiles: &'static [Cost]) -> Self {
        Self { costs: Some(Costs { dtypes: dtypes.to_vec(), requires, tiles }), ..self }
    }
}

/// What the rungs on Hopper's tensor cores have in common.
fn on_tensor_cores(operands: Operands, overlaps: bool) -> impl FnOnce(&mut Capabilities) {
    use Dtype::{Bf16, F16, Tf32};
    move |c| {
        c.dtypes = [F16, Bf16, Tf32].map(|d| (d, Requires::Nothing)).into();
        (c.operands, c.overlaps, c.hides_stalls) = (operands, overlaps, true);
    }
}

const TENSOR_TYPES: [Dtype; 3] = [Dtype::F16, Dtype::Bf16, Dtype::Tf32];

fn rung(id: &'static str, title: &'static str, idea: &'static str, requires: Requires, runner: Runner) -> Rung {
    Rung { id: id.into(), title: title.into(), idea: idea.into(), requires, runner, variant_of: None }
}

fn cpu_row(id: &'static str, title: &'static str, idea: &'static str, what: &'static str, body: CpuBody) -> Row {
    plain_row(rung(id, title, idea, Requires::Nothing, Runner::Cpu(what.into())), Body::Cpu(body))
}

fn library_row(id: &'static str, title: &'static str, idea: &'static str, name: &'static str, body: Body) -> Row {
    plain_row(rung(id, title, idea, Requires::AtLeast(7, 5), Runner::Library(name.into())), body)
}

fn plain_row(rung: Rung, body: Body) -> Row {
    Row { rung, body, tunable: false, costs: None, fallback: None, figure: None }
}

/// The rows of the matrix product, in the ladder's order.
#[must_use]
pub fn rows() -> Vec<Row> {
    [not_kernels(), on_cuda_cores(), on_warps(), on_hopper()].into_iter().flatten().collect()
}

/// The rungs of the matrix product, in the ladder's order.
#[must_use]
pub fn rungs() -> Vec<Rung> {
    rows().into_iter().map(|r| r.rung).collect()
}

/// The CPU rungs, and NVIDIA's libraries.
fn not_kernels() -> Vec<Row> {
    vec![
        cpu_row(
            "cpu_naive",
            "CPU, three loops",
            "The definition: each element of C is a row of A times a column of B.",
            "1 thread",
            CpuBody::Naive,
        ),
        cpu_row(
            "cpu_blocked",
            "CPU, blocked",
            "Blocks of A and B are packed to fit into the caches and the vector registers.",
            "1 thread",
            CpuBody::Blocked,
        ),
        cpu_row(
            "cpu_threaded",
            "CPU, blocked, all threads",
            "The same on all cores, each computing a band of rows.",
            "all threads",
            CpuBody::Threaded,
        ),
        cpu_row(
            "cpu_library",
            "CPU, gemm crate",
            "A library tuned for this CPU's vector units.",
            "gemm crate, all threads",
            CpuBody::Library,
        ),
        library_row(
            "cublas",
            "cuBLAS",
            "NVIDIA's library, with the algorithm that it chooses itself.",
            "cuBLAS",
            Body::Cublas,
        ),
        library_row(
            "cublaslt",
            "cuBLASLt, best of 32",
            "NVIDIA's library with every algorithm that it suggests timed, and the fastest kept.",
            "cuBLASLt",
            Body::CublasLt,
        ),
    ]
}

/// fp32 on CUDA cores; 16-bit types where there is nothing better.
fn on_cuda_cores() -> Vec<Row> {
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
fn on_warps() -> Vec<Row> {
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

/// Hopper's tensor cores, by warpgroup instructions.
fn on_hopper() -> Vec<Row> {
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

const OVERLAPPED_COSTS: [Cost; 8] = [
    cost("128x256s4c2g8", [1.45, 1.60, 0.709]),
    cost("128x256s4c1g1", [1.43, 1.40, 0.712]),
    cost("128x256s4c1g8", [1.46, 1.47, 0.704]),
    cost("128x256s4c1g16", [1.50, 1.75, 0.701]),
    cost("128x128s6c1g8", [1.48, 0.74, 0.358]),
    cost("128x64s8c1g8", [1.17, 0.49, 0.257]),
    cost("128x64s6c1x2g1", [1.37, 0.41, 0.272]),
    cost("64x256s4c1g16", [1.29, 1.13, 0.378]),
];

const SPLIT_K_COSTS: [Cost; 3] = [
    cost("128x128s6k2", [0.00, 2.75, 0.440]),
    cost("64x128s8k2", [0.00, 2.10, 0.337]),
    cost("64x64s12k2", [0.29, 1.52, 0.265]),
];

const SMALL_TILE_COSTS: [Cost; 2] = [cost("128x64s8k1", [0.12, 0.94, 0.270]), cost("64x64s12k1", [0.00, 1.23, 0.181])];

const REGISTER_COSTS: [Cost; 4] = [
    cost("256x128s4c1g4", [0.00, 2.78, 0.672]),
    cost("128x128s6c1g8", [0.00, 1.30, 0.344]),
    cost("128x64s8c1g8", [0.78, 1.02, 0.226]),
    cost("64x64s12c1g8", [0.14, 1.51, 0.146]),
];

/// Every kernel of the matrix product with the types and transpositions that tests compile.
#[must_use]
pub fn compiled_forms() -> Vec<(KernelSpec, Requires)> {
    let mut all = Vec::new();
    for row in rows() {
        let (Some(can), Some(spec)) = (row.capabilities(), row.kernel()) else { continue };
        for (i, (dtype, requires)) in can.dtypes.iter().enumerate() {
            let mut spec = can.operands.given(Form::plain(*dtype)).of(spec);
            // All tiles for the first type, one for the others.
            if i > 0 {
                spec.tiles.truncate(1);
            }
            let requires = if *requires == Requires::Nothing { &row.rung.requires } else { requires };
            all.push((spec, requires.clone()));
        }
    }
    for dtype in [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16] {
        all.push((reference(Form::plain(dtype)), Requires::AtLeast(7, 5)));
        all.push((compare(Form::plain(dtype)), Requires::AtLeast(7, 5)));
    }
    for transpose in [false, true] {
        for bytes in [2, 4] {
            all.push((repack(bytes, transpose), Requires::AtLeast(7, 5)));
        }
        for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
            all.push((column_sums(dtype, transpose), Requires::AtLeast(7, 5)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_reads_a_and_b_and_writes_c() {
        let of = |shape, dtype| problem(shape, dtype, (false, false), 1);
        let thin = of((2, 3, 5), Dtype::Bf16);
        assert_eq!((thin.flops, thin.bytes, &*thin.label, thin.size()), (60, (10 + 15 + 6) * 2, "2 × 3 × 5 bf16", 0));
        let cube = |n, dtype| of((n, n, n), dtype);
        assert_eq!((&*cube(4096, Dtype::Tf32).label, cube(4096, Dtype::Tf32).size()), ("4096³ tf32", 4096));
        assert!(cube(64, Dtype::F32).same_line(&cube(128, Dtype::F32)));
        assert!(!cube(64, Dtype::F32).same_line(&cube(64, Dtype::F16)) && !thin.same_line(&thin));
        let transposed_a = problem((8, 8, 8), Dtype::F32, (true, false), 1);
        assert_eq!((transposed(&transposed_a), shape_of(&transposed_a)), ((true, false), Some((8, 8, 8))));
    }

    #[test]
    fn the_header_has_every_epilogue() {
        let header = crate::HEADERS.iter().find(|h| h.path == "matmul/gemm.cuh").unwrap();
        let numbers: Vec<i64> = Epilogue::ALL.iter().map(|e| e.number()).collect();
        assert_eq!(numbers, (0..6).collect::<Vec<_>>());
        for epilogue in Epilogue::ALL {
            // BiasRelu as BIAS_RELU.
            let mut name = String::new();
            for c in format!("{epilogue:?}").chars() {
                if c.is_uppercase() && !name.is_empty() {
                    name.push('_');
                }
                name.push(c.to_ascii_uppercase());
            }
            let define = format!("#define EPILOGUE_{name} {} ", epilogue.number());
            assert!(header.text.contains(&define), "{define}");
        }
    }

    #[test]
    fn every_kernel_has_a_figure_and_costs_name_its_tiles() {
        for row in rows() {
            let id = &row.rung.id;
            assert_eq!(row.figure.is_some(), row.capabilities().is_some(), "{id}");
            let known = |tile: &str| row.kernel().is_some_and(|k| k.tile(tile).is_some());
            assert!(row.costs.iter().flat_map(|c| c.tiles).all(|c| known(c.tile)), "{id}");
            assert!(row.fallback.iter().flatten().all(|t| known(t)), "{id}");
            // The tuner tries every row that costs or a fallback can choose.
            assert!(row.tunable || (row.costs.is_none() && row.fallback.is_none()), "{id}");
        }
    }

    #[test]
    fn obstacles_are_named() {
        let of = |id: &str| rows().into_iter().find(|r| r.rung.id == id).unwrap();
        let why = |id: &str, form: Form, cc| of(id).obstacle(form, Some(cc)).unwrap_or_default();
        let plain = Form::plain;
        assert_eq!(why("01_naive", plain(Dtype::F32), (7, 5)), "");
        assert_eq!(why("01_naive", plain(Dtype::Tf32), (9, 0)), "takes fp32, fp16, bf16, not tf32");
        assert!(why("09_wmma", plain(Dtype::Bf16), (7, 5)).contains("8.0 or later for bf16"));
        assert!(why("14_overlapped_store", plain(Dtype::Bf16), (8, 0)).contains("sm_90a"));
        assert_eq!(
            why("16_tf32_registers", Form { out: Dtype::Bf16, ..plain(Dtype::Tf32) }, (9, 0)),
            "does not write bf16"
        );
        assert_eq!(of("cublas").obstacle(plain(Dtype::F64), None), None);
    }
}
