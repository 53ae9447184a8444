//! Defines the rows of the ladder, and how they are built.

use super::{Epilogue, Form, Operands, shape_of};
use warpbook_record::{Dim, Dtype, KernelSpec, MemoryLevel, Problem, Requires, Rung, Runner, Schedule, Tile, Traffic};

/// The capabilities of a matrix product kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Capabilities {
    /// Types of A and B, each with the hardware that it requires in addition to the rung's requirement.
    pub dtypes: Vec<(Dtype, Requires)>,
    /// The form in which the operands are passed to the kernel.
    pub operands: Operands,
    /// Size of an element of C in bytes, if only one size is supported.
    pub out_bytes: Option<u64>,
    /// True if the kernel uses programmatic dependent launch: it may start while its predecessor is still running, and then waits for the predecessor's
    /// results.
    pub overlaps: bool,
    /// True if k is split into parts whose sums are left in the workspace, to be added by another kernel.
    pub in_parts: bool,
    /// True if tiles of the last waves are split along k when they would leave SMs idle. The blocks exchange their sums through the workspace.
    pub streams: bool,
    /// True if blocks on one SM hide each other's stalls, as on tensor cores. On CUDA cores, they compete for the arithmetic units.
    pub hides_stalls: bool,
}

impl Capabilities {
    /// Returns true if the kernel supports a type on the given hardware.
    #[must_use]
    pub fn takes(&self, dtype: Dtype) -> bool {
        self.dtypes.iter().any(|(d, _)| *d == dtype)
    }

    /// Returns the form that the kernel is compiled for, given a product's form; see [`Operands::given`]. If sums are left in the workspace, they are f32 and
    /// have no epilogue.
    #[must_use]
    pub fn compiled_for(&self, form: Form) -> Form {
        let given = self.operands.given(form);
        if self.in_parts { Form { out: Dtype::F32, epilogue: Epilogue::None, ..given } } else { given }
    }
}

/// The cost of a tile in microseconds: per launch, per wave of tiles, and per 128 bytes of k in a wave that is limited only by the tile itself. Costs that all
/// tiles of a product share (memory, power, straddled lines) are estimated separately.
///
/// The costs were fitted on an NVIDIA H200. For 16-bit types, Hopper's rungs are fitted to the logarithms of 23,000 timings of 1,000 random products, each
/// with the tiles that were cheapest by earlier costs. If there are few timings of a tile, its costs stay close to those that its area, split and cluster
/// suggest. For the accuracy, see `choose/README.md` of `warpbook-gemm`. The rung for tf32 only, and CUDA cores in fp32, are fitted to the published record.
/// tf32 takes as long as another type for the same number of bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Id of the tile that has these costs.
    pub tile: &'static str,
    /// Time per launch in microseconds.
    pub launch_us: f64,
    /// Time per wave of tiles in microseconds.
    pub wave_us: f64,
    /// Time per 128 bytes of k in a wave, in microseconds.
    pub k_us: f64,
}

/// The costs of a row's tiles, with the types and hardware that they apply to.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// Types that the costs apply to.
    pub dtypes: Vec<Dtype>,
    /// Hardware that the costs apply to.
    pub requires: Requires,
    /// The costs of the tiles that are worth choosing.
    pub tiles: &'static [Cost],
}

/// The tiles to use if no costs apply to a row: the first for products whose 128 x 128 tiles fill the device, the second for smaller ones. If several rows
/// qualify, the last one in the ladder is chosen.
pub type Fallback = [&'static str; 2];

/// The implementation behind a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// One of Warpbook's kernels, with its capabilities.
    Kernel(Capabilities),
    /// cuBLAS, with the algorithm that it chooses itself.
    Cublas,
    /// cuBLASLt, with the fastest of the algorithms that it suggests.
    CublasLt,
    /// The rung and tile with the shortest estimated time, chosen without the tuner's results.
    Chosen,
    /// An implementation on the CPU.
    Cpu(CpuBody),
}

/// The matrix product implementations on the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuBody {
    /// Three nested loops on one thread.
    Naive,
    /// Blocking for the caches and vector registers, on one thread.
    Blocked,
    /// Blocking for the caches and vector registers, on all threads.
    Threaded,
    /// The matrix product of the `gemm` crate.
    Library,
}

impl CpuBody {
    /// Returns the lowest FLOP/s to be expected per thread. A product that would exceed its time budget at this rate is not started.
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

/// The figure that explains a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Figure {
    /// The elements that a warp reads if adjacent threads compute adjacent rows.
    RowAccess,
    /// The elements that a warp reads if adjacent threads compute adjacent columns.
    ColumnAccess,
    /// Tiles of A and B in shared memory.
    SharedTile,
    /// A column of results computed by each thread.
    RegisterColumn,
    /// A square of results computed by each thread.
    RegisterSquare,
    /// Memory accesses of 16 bytes per thread.
    VectorAccess,
    /// The part of a tile that a warp computes.
    WarpTile,
    /// Tiles that are being loaded while others are multiplied.
    DoubleBuffer,
    /// The fragments that `wmma` instructions multiply.
    WmmaFragments,
    /// Rows in shared memory with a swizzled order of elements.
    Swizzle,
    /// The product that a warpgroup computes from shared memory.
    Warpgroup,
    /// Warps that are specialised as a producer and consumers.
    Specialisation,
    /// Clusters of blocks, and the order in which tiles are computed.
    ClusterOrder,
    /// Stores of a tile that overlap the computation of the next one.
    OverlappedStore,
    /// A sum over k that is split among the blocks of a cluster.
    SplitK,
    /// An operand B that is read through registers.
    RegisterOperand,
}

/// A rung of the matrix product with all its properties.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The rung in the form used in records.
    pub rung: Rung,
    /// The implementation behind the row.
    pub body: Body,
    /// True if the tuner tries this rung.
    pub tunable: bool,
    /// Costs of the tiles, if they have been measured.
    pub costs: Option<Costs>,
    /// Tiles to use if no costs apply.
    pub fallback: Option<Fallback>,
    /// The figure that explains the rung.
    pub figure: Option<Figure>,
}

impl Row {
    /// Returns the capabilities of the kernel; `None` if the row has no kernel.
    #[must_use]
    pub fn capabilities(&self) -> Option<&Capabilities> {
        match &self.body {
            Body::Kernel(c) => Some(c),
            _ => None,
        }
    }

    /// Returns the kernel as the row defines it, not yet compiled for a form.
    #[must_use]
    pub fn kernel(&self) -> Option<&KernelSpec> {
        self.rung.kernels().first()
    }

    /// Returns the reason why the kernel cannot compute a product on a device with this compute capability; `None` if it can, or if the row has no kernel.
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

    /// Returns the counted bytes that the kernel moves at each memory level with one of its tiles: the tiles that are read from L2, and each matrix once from
    /// or to DRAM.
    #[must_use]
    pub fn traffic(&self, tile: &Tile, problem: &Problem) -> Vec<Traffic> {
        let (Some((m, n, k)), Some(_)) = (shape_of(problem), self.capabilities()) else { return Vec::new() };
        if tile.get(Dim::Bm.name()).is_none() {
            return Vec::new();
        }
        let (rows, columns) = (m.div_ceil(tile.size(Dim::Bm)), n.div_ceil(tile.size(Dim::Bn)));
        // Every tile reads its rows of A and its columns of B. The blocks of a cluster read the tiles that they share only once.
        let [down, across] = tile.cluster_shape();
        let a = columns.div_ceil(across).saturating_mul(m.saturating_mul(k));
        let b = rows.div_ceil(down).saturating_mul(n.saturating_mul(k));
        vec![
            Traffic { level: MemoryLevel::Dram, bytes: problem.bytes },
            Traffic { level: MemoryLevel::L2, bytes: a.saturating_add(b).saturating_mul(problem.dtype.bytes()) },
        ]
    }
}

/// Makes a row with the capabilities of a kernel on CUDA cores; [`Row::can`] changes them.
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
    /// Returns the row with the given figure.
    #[must_use]
    pub fn drawn(self, figure: Figure) -> Self {
        Self { figure: Some(figure), ..self }
    }

    /// Returns the row marked as one that the tuner tries.
    #[must_use]
    pub fn tuned(self) -> Self {
        Self { tunable: true, ..self }
    }

    /// Returns the row after changing its capabilities.
    #[must_use]
    pub fn can(mut self, change: impl FnOnce(&mut Capabilities)) -> Self {
        if let Body::Kernel(c) = &mut self.body {
            change(c);
        }
        self
    }

    /// Returns the row with costs for the given types and hardware.
    #[must_use]
    pub(super) fn costing(self, dtypes: &[Dtype], requires: Requires, tiles: &'static [Cost]) -> Self {
        Self { costs: Some(Costs { dtypes: dtypes.to_vec(), requires, tiles }), ..self }
    }
}

/// Returns a function that sets the capabilities shared by the rungs on Hopper's tensor cores.
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
