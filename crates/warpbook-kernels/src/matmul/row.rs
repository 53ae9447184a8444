//! A row of the ladder: its contents and its construction.

use super::{Epilogue, Form, Operands, shape_of};
use warpbook_record::{Dim, Dtype, KernelSpec, MemoryLevel, Problem, Requires, Rung, Runner, Schedule, Tile, Traffic};

/// The capabilities of a kernel of the matrix product.
#[derive(Debug, Clone, PartialEq)]
pub struct Capabilities {
    /// Types of A and B, each with the hardware that it requires beyond the rung's.
    pub dtypes: Vec<(Dtype, Requires)>,
    /// How operands are passed.
    pub operands: Operands,
    /// Bytes of an element of C, if only one size is supported.
    pub out_bytes: Option<u64>,
    /// True for programmatic dependent launch: the kernel may start while its predecessor runs, and then waits for the results.
    pub overlaps: bool,
    /// True if k is divided into parts, each of which leaves sums in the workspace for another kernel to add.
    pub in_parts: bool,
    /// True if tiles of the last waves are divided along k if they would leave SMs idle; blocks exchange sums through the workspace.
    pub streams: bool,
    /// True if blocks on one SM hide each other's stalls, as on tensor cores; on CUDA cores they share the arithmetic units.
    pub hides_stalls: bool,
}

impl Capabilities {
    /// Returns true if the kernel supports a type on some hardware.
    #[must_use]
    pub fn takes(&self, dtype: Dtype) -> bool {
        self.dtypes.iter().any(|(d, _)| *d == dtype)
    }

    /// Returns the form for which the kernel is compiled, given a product's form: see [`Operands::given`]. Sums that are left in the workspace are
    /// f32 without an epilogue.
    #[must_use]
    pub fn compiled_for(&self, form: Form) -> Form {
        let given = self.operands.given(form);
        if self.in_parts { Form { out: Dtype::F32, epilogue: Epilogue::None, ..given } } else { given }
    }
}

/// The cost of a tile: microseconds per launch, per wave of tiles, and per 128 bytes of k in a wave limited only by the tile itself. Costs common to all tiles
/// of a product (memory, power, straddled lines) are estimated separately.
///
/// Fitted on an NVIDIA H200. Hopper's rungs in 16-bit types are fitted to the logarithms of 23,000 timings of 1,000 random products, each with the tiles that
/// were cheapest by earlier costs; a tile with few timings stays close to the costs that its area, split and cluster suggest. For the accuracy see
/// `choose/README.md` of `warpbook-gemm`. The rung for tf32 only, and CUDA cores in fp32, are fitted to the published record. tf32 takes as long as another
/// type for the same number of bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Id of the tile.
    pub tile: &'static str,
    /// Time of a launch in microseconds.
    pub launch_us: f64,
    /// Time of a wave of tiles in microseconds.
    pub wave_us: f64,
    /// Time of 128 bytes of k in a wave in microseconds.
    pub k_us: f64,
}

/// The costs of a row's tiles, with the types and hardware to which they apply.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// Types to which the costs apply.
    pub dtypes: Vec<Dtype>,
    /// Hardware to which the costs apply.
    pub requires: Requires,
    /// The tiles worth choosing.
    pub tiles: &'static [Cost],
}

/// The tiles of a row without applicable costs: the first for products whose 128 x 128 tiles fill the device, the second for smaller ones. If several rows
/// qualify, the last in the ladder is chosen.
pub type Fallback = [&'static str; 2];

/// The implementation of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// A kernel of Warpbook.
    Kernel(Capabilities),
    /// cuBLAS, which chooses its algorithm itself.
    Cublas,
    /// cuBLASLt, with the fastest algorithm that it suggests.
    CublasLt,
    /// The rung and tile with the shortest estimated time, without the tuner's findings.
    Chosen,
    /// The CPU.
    Cpu(CpuBody),
}

/// The implementations on the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuBody {
    /// Three loops on one thread.
    Naive,
    /// Blocks for the caches and vector registers, on one thread.
    Blocked,
    /// Blocks for the caches and vector registers, on all threads.
    Threaded,
    /// The `gemm` crate.
    Library,
}

impl CpuBody {
    /// The lowest expected FLOP/s of a thread; a product that would exceed its time budget at this rate is not started.
    #[must_use]
    pub const fn least_flops_per_s(self) -> f64 {
        match self {
            Self::Naive => 0.5e9,
            Self::Blocked | Self::Threaded => 10e9,
            Self::Library => 15e9,
        }
    }

    /// Returns true if the implementation uses all threads.
    #[must_use]
    pub const fn is_threaded(self) -> bool {
        matches!(self, Self::Threaded | Self::Library)
    }
}

/// The figure for a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Figure {
    /// The elements that a warp reads when adjacent threads compute adjacent rows.
    RowAccess,
    /// The elements that a warp reads when adjacent threads compute adjacent columns.
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
    /// k divided over a cluster.
    SplitK,
    /// B through registers.
    RegisterOperand,
}

/// A rung of the matrix product with all its properties.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The rung in the form of records.
    pub rung: Rung,
    /// The implementation of the row.
    pub body: Body,
    /// True if the tuner tries it.
    pub tunable: bool,
    /// Costs of the row's tiles, if they were measured.
    pub costs: Option<Costs>,
    /// Tiles to use if no costs apply.
    pub fallback: Option<Fallback>,
    /// The figure of the rung.
    pub figure: Option<Figure>,
}

impl Row {
    /// Capabilities of the kernel; `None` if the row has no kernel.
    #[must_use]
    pub fn capabilities(&self) -> Option<&Capabilities> {
        match &self.body {
            Body::Kernel(c) => Some(c),
            _ => None,
        }
    }

    /// The kernel, as the row defines it.
    #[must_use]
    pub fn kernel(&self) -> Option<&KernelSpec> {
        self.rung.kernels().first()
    }

    /// Returns the reason why the kernel cannot compute a product on a device of this compute capability; `None` if it can, or if the row has no
    /// kernel.
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

    /// Returns the counted bytes that the kernel moves at each level of memory with one of its tiles: the reads of tiles from L2, and each matrix
    /// once from DRAM.
    #[must_use]
    pub fn traffic(&self, tile: &Tile, problem: &Problem) -> Vec<Traffic> {
        let (Some((m, n, k)), Some(_)) = (shape_of(problem), self.capabilities()) else { return Vec::new() };
        if tile.get(Dim::Bm.name()).is_none() {
            return Vec::new();
        }
        let (rows, columns) = (m.div_ceil(tile.size(Dim::Bm)), n.div_ceil(tile.size(Dim::Bn)));
        // Every tile reads its rows of A and columns of B; the blocks of a cluster read shared tiles once.
        let [down, across] = tile.cluster_shape();
        let a = columns.div_ceil(across).saturating_mul(m.saturating_mul(k));
        let b = rows.div_ceil(down).saturating_mul(n.saturating_mul(k));
        vec![
            Traffic { level: MemoryLevel::Dram, bytes: problem.bytes },
            Traffic { level: MemoryLevel::L2, bytes: a.saturating_add(b).saturating_mul(problem.dtype.bytes()) },
        ]
    }
}

/// Makes a row with the capabilities of kernels on CUDA cores; [`Row::can`] changes them.
pub(super) fn kernel_row(
    id: &'static str,
    title: &'static str,
    idea: &'static str,
    requires: Requires,
    spec: KernelSpec,
) -> Row {
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
            in_parts: false,
            streams: false,
            hides_stalls: false,
        }),
        tunable: false,
        costs: None,
        fallback: None,
        figure: None,
    }
}

impl Row {
    /// Returns the row with this figure.
    #[must_use]
    pub fn drawn(self, figure: Figure) -> Self {
        Self { figure: Some(figure), ..self }
    }

    /// Returns the row, marked for the tuner to try.
    #[must_use]
    pub fn tuned(self) -> Self {
        Self { tunable: true, ..self }
    }

    /// Returns the row with its capabilities changed.
    #[must_use]
    pub fn can(mut self, change: impl FnOnce(&mut Capabilities)) -> Self {
        if let Body::Kernel(c) = &mut self.body {
            change(c);
        }
        self
    }

    /// Returns the row with costs.
    #[must_use]
    pub(super) fn costing(self, dtypes: &[Dtype], requires: Requires, tiles: &'static [Cost]) -> Self {
        Self { costs: Some(Costs { dtypes: dtypes.to_vec(), requires, tiles }), ..self }
    }
}

/// Sets the capabilities that the rungs on Hopper's tensor cores have in common.
pub(super) fn on_tensor_cores(operands: Operands, overlaps: bool) -> impl FnOnce(&mut Capabilities) {
    use Dtype::{Bf16, F16, Tf32};
    move |c| {
        c.dtypes = [F16, Bf16, Tf32].map(|d| (d, Requires::Nothing)).into();
        (c.operands, c.overlaps, c.hides_stalls) = (operands, overlaps, true);
    }
}

pub(super) fn rung(
    id: &'static str,
    title: &'static str,
    idea: &'static str,
    requires: Requires,
    runner: Runner,
) -> Rung {
    Rung { id: id.into(), title: title.into(), idea: idea.into(), requires, runner, variant_of: None }
}

pub(super) fn cpu_row(
    id: &'static str,
    title: &'static str,
    idea: &'static str,
    what: &'static str,
    body: CpuBody,
) -> Row {
    plain_row(rung(id, title, idea, Requires::Nothing, Runner::Cpu(what.into())), Body::Cpu(body))
}

pub(super) fn library_row(
    id: &'static str,
    title: &'static str,
    idea: &'static str,
    name: &'static str,
    body: Body,
) -> Row {
    plain_row(rung(id, title, idea, Requires::AtLeast(7, 5), Runner::Library(name.into())), body)
}

pub(super) fn plain_row(rung: Rung, body: Body) -> Row {
    Row { rung, body, tunable: false, costs: None, fallback: None, figure: None }
}
