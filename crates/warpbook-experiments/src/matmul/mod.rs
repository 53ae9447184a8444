//! The matrix product, from three loops to Hopper's tensor cores.

mod cpu;
mod figures;
mod gpu;
mod launch;
pub mod survey;

pub use figures::{figure_of, matmul_figure};
pub(crate) use gpu::as_check;

use crate::builders::{seeded, selects};
use warpbook_gemm::{Findings, Product, choose_from};
use warpbook_kernels::matmul::{
    self, Body, LAYERS, Row, SHAPES, STANDARD_EDGE, SUM_PARTS_ENTRY, UNTUNED, rows, shape_of,
};
use warpbook_lab::experiment::Prepared;
use warpbook_lab::settings::{self, Configurable, Preset, Selection, Setting, joined, list, parse_dtype, parse_shape};
use warpbook_lab::{Error, Experiment, Lab, Plan, Result};
use warpbook_record::{
    Baseline, ChartKind, Column, Descriptor, DeviceInfo, Dtype, Inputs, KernelSpec, KernelStats, Measurement, Problem,
    Quantity, Run, Rung, SweepAxis,
};

/// Largest edge; the kernels and references use 32-bit sizes.
const MAX_EDGE: u64 = 1 << 20;
/// Maximum number of multiplications of a product in the emulator, and the product to use if every configured one is
/// larger.
const MOST_EMULATED: u64 = 1 << 19;
const EMULATED_SHAPE: (u64, u64, u64) = (64, 48, 32);
/// Bytes of workspace in the emulator, which is small because the emulator's checks scan all memory.
const EMULATED_WORKSPACE: u64 = 1 << 20;
/// Maximum expected time in seconds of a GPU rung for one product. With warm-up, checks and samples, a naive kernel at
/// the largest sizes would take minutes.
const LIMIT_S: f64 = 1.0;

/// Returns the statistics of the kernel that computed a measured product. Copies may run before this kernel, and a
/// kernel that adds up split-k results may run after it.
pub fn own_kernel(m: &Measurement) -> Option<&KernelStats> {
    m.kernels.iter().rfind(|k| k.entry != SUM_PARTS_ENTRY)
}

/// Shape and data type of a product, and whether A and B are stored transposed.
type Also = ((u64, u64, u64), Dtype, (bool, bool));

/// Rungs that the published record contains for the networks' layers.
const OF_LAYERS: [&str; 3] = ["as_chosen", "cublas", "cublaslt"];

/// The matrix product experiment with its settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Matmul {
    shapes: Vec<(u64, u64, u64)>,
    dtypes: Vec<Dtype>,
    also: Vec<Also>,
    transposed: (bool, bool),
    seed: u64,
    selection: Selection,
    tiles: bool,
    transfers: bool,
    rows: Vec<Row>,
}

impl Default for Matmul {
    fn default() -> Self {
        Self {
            shapes: vec![(STANDARD_EDGE, STANDARD_EDGE, STANDARD_EDGE)],
            dtypes: vec![Dtype::F32, Dtype::Bf16],
            also: Vec::new(),
            transposed: (false, false),
            seed: 1,
            selection: Selection::default(),
            tiles: true,
            transfers: true,
            rows: rows(),
        }
    }
}

selects!(Matmul);
seeded!(Matmul, "Key of the random numbers.");

impl Matmul {
    /// Creates the default experiment: 4096 x 4096 x 4096 in fp32 and bf16, with the fastest tile of every rung.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the experiment with the sizes of the quick suite.
    #[must_use]
    pub fn quick() -> Self {
        Self::default().shapes([(256, 256, 256), (512, 512, 512), (1000, 1000, 1000)])
    }

    /// Creates the experiment with the shapes and data types of the published record: all shapes in fp32 and bf16, and
    /// the cubes in tf32 and fp16. In bf16, it also has the shapes for which no tile was tuned, with and without B
    /// transposed.
    #[must_use]
    pub fn sweep() -> Self {
        let cubes = SHAPES.into_iter().filter(|(m, n, k)| m == n && n == k);
        let types = cubes.flat_map(|s| [Dtype::Tf32, Dtype::F16].map(|d| (s, d, (false, false))));
        let untuned = UNTUNED.into_iter().flat_map(|s| [false, true].map(|b| (s, Dtype::Bf16, (false, b))));
        let also = types.chain(untuned).collect();
        Self { also, ..Self::default().shapes(SHAPES).dtypes([Dtype::F32, Dtype::Bf16]) }
    }

    /// Creates the experiment with the products of the networks' linear layers, for the forward pass and both
    /// gradients, in fp16 and bf16. It compares the choice of `gemm` with the libraries. The published record also
    /// contains these products.
    #[must_use]
    pub fn layers() -> Self {
        let also = LAYERS.into_iter().flat_map(|(images, inputs, outputs)| {
            let forward = ((images, outputs, inputs), (false, true));
            let of_inputs = ((images, inputs, outputs), (false, false));
            let of_weights = ((outputs, inputs, images), (true, false));
            let all = [forward, of_inputs, of_weights];
            all.into_iter().flat_map(|(shape, stored)| [Dtype::F16, Dtype::Bf16].map(|d| (shape, d, stored)))
        });
        Self { also: also.collect(), ..Self::default().shapes([]).transfers(false).rungs(OF_LAYERS) }
    }

    /// Creates the experiment with the rows that the tuner tries, and with the libraries.
    #[must_use]
    pub fn tuning() -> Self {
        let mut this = Self::default().transfers(false);
        this.rows.retain(|r| r.tunable || r.rung.is_library());
        this
    }

    /// Sets the sizes (m, n, k) of each product, which must be at least 1. C is m x n, and each element is a sum of k
    /// terms.
    #[must_use]
    pub fn shapes(mut self, shapes: impl IntoIterator<Item = (u64, u64, u64)>) -> Self {
        self.shapes = shapes.into_iter().collect();
        self
    }

    /// Sets the data types of the matrices: `F32`, `Tf32`, `F16`, `Bf16`.
    #[must_use]
    pub fn dtypes(mut self, dtypes: impl IntoIterator<Item = Dtype>) -> Self {
        self.dtypes = dtypes.into_iter().collect();
        self
    }

    /// Adds a product. `transposed` says whether A and B are stored transposed.
    #[must_use]
    pub fn also(mut self, shape: (u64, u64, u64), dtype: Dtype, transposed: (bool, bool)) -> Self {
        self.also.push((shape, dtype, transposed));
        self
    }

    /// Returns the shape, data type and storage of each product.
    fn products(&self) -> Vec<Also> {
        let crossed = self.dtypes.iter().flat_map(|d| self.shapes.iter().map(move |s| (*s, *d, self.transposed)));
        crossed.chain(self.also.iter().copied()).collect()
    }

    /// Sets whether A and B of each shape are stored transposed.
    #[must_use]
    pub fn transposed(mut self, a: bool, b: bool) -> Self {
        self.transposed = (a, b);
        self
    }

    /// Sets a tile by id for the rungs that have this tile; by default, the fastest tile is used.
    #[must_use]
    pub fn tile(mut self, id: impl Into<String>) -> Self {
        self.selection.tile = Some(id.into());
        self
    }

    /// Sets whether all tiles of a rung are tried and the fastest is used; otherwise the first tile is used.
    #[must_use]
    pub fn tiles(mut self, tiles: bool) -> Self {
        self.tiles = tiles;
        self
    }

    /// Sets whether copies of the matrices to the device and back are also timed.
    #[must_use]
    pub fn transfers(mut self, transfers: bool) -> Self {
        self.transfers = transfers;
        self
    }

    /// Adds a rung after all others.
    #[must_use]
    pub fn row(mut self, row: Row) -> Self {
        self.rows.push(row);
        self
    }

    fn problem(&self, (shape, dtype, transposed): Also) -> Problem {
        matmul::problem(shape, dtype, transposed, self.seed)
    }

    fn all_rungs(&self) -> Vec<Rung> {
        self.rows.iter().map(|r| r.rung.clone()).collect()
    }

    /// Returns the row of a rung. For a variant, returns the row of its base with the rung replaced by the variant.
    pub(crate) fn row_of(&self, rung: &Rung) -> Option<Row> {
        let id = rung.variant_of.as_ref().unwrap_or(&rung.id);
        let base = self.rows.iter().find(|r| r.rung.id == *id)?;
        Some(Row { rung: rung.clone(), ..base.clone() })
    }

    /// Returns the tile of a rung: the requested tile, else the tile that `gemm` would choose if it had only this rung,
    /// else the first tile of the row.
    #[must_use]
    pub fn tile_by_costs(&self, rung: &Rung, problem: &Problem, info: &DeviceInfo, tuned: &Findings) -> Option<String> {
        let row = self.row_of(rung)?;
        let kernel = row.kernel()?;
        if let Some(asked) = self.selection.tile.as_deref().filter(|id| kernel.tile(id).is_some()) {
            return Some(asked.to_owned());
        }
        let product = product_of(problem).ok()?;
        let chosen = choose_from(std::slice::from_ref(&row), &product, info, tuned).map(|c| c.tile.id.to_string());
        chosen.or_else(|| kernel.tiles.first().map(|t| t.id.to_string()))
    }

    /// Returns an error unless the matrices, the reference and the workspaces fit into the memory of the device or of
    /// the host.
    fn fits(&self, lab: &Lab, problem: &Problem) -> Result<()> {
        let Some((m, n, _)) = shape_of(problem) else { return Ok(()) };
        let elements = m.saturating_mul(n);
        let what = format!("A product of {}", problem.label);
        match lab.device().cuda() {
            // The reference takes 16 bytes for each element of C.
            Some(device) => {
                let needed = problem.bytes.saturating_add(elements.saturating_mul(16));
                device.ensure_free(what, needed.saturating_add(4 * matmul::WORKSPACE_BYTES))?;
            }
            None => {
                let (host, needed) = (lab.host_memory_bytes(), problem.bytes.saturating_mul(4));
                if host > 0 && needed > host / 4 * 3 {
                    let error = warpbook_device::Error::OutOfMemory { what, needed, free: host / 4 * 3, total: host };
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Returns one problem for each product of the experiment.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        self.products().into_iter().map(|product| self.problem(product)).collect()
    }

    fn descriptor() -> Descriptor {
        use Column::{Check, Mad, Median, OfBound, OfLibrary};
        Descriptor {
            headline: Quantity::Throughput,
            quantities: vec![Quantity::Throughput, Quantity::Time, Quantity::SpeedUp],
            baseline: Baseline::FastestLibrary,
            axis: SweepAxis { caption: "edge of the matrices (m = n = k)".into(), unit: String::new(), doubling: true },
            columns: vec![Median, Mad, Column::Throughput, OfLibrary, OfBound, Check, Column::Tile],
            charts: vec![
                ChartKind::Ladder,
                ChartKind::HeatMap,
                ChartKind::Sweep,
                ChartKind::Roofline,
                ChartKind::Tiles,
                ChartKind::Transfers,
            ],
            above_bound:
                "bytes are counted as blocks request them, and requests of neighbouring SMs for one line can be served \
                          at once"
                    .into(),
            ..Descriptor::default()
        }
    }

    /// Returns an error unless the settings are valid and the lab's device can hold the matrices.
    fn validate(&self, lab: Option<&Lab>) -> Result<()> {
        let setting = |text: String| Err(Error::Setting(text));
        if self.products().is_empty() {
            return setting(
                "No shape or no type was given. Name at least one of each, as in --shape 4096 --dtype bf16.".into(),
            );
        }
        for product @ ((m, n, k), dtype, _) in self.products() {
            if !matches!(dtype, Dtype::F32 | Dtype::Tf32 | Dtype::F16 | Dtype::Bf16) {
                return setting(format!("Unsupported type {}: choose fp32, tf32, fp16 or bf16.", dtype.label()));
            }
            if m.min(n).min(k) == 0 || m.max(n).max(k) > MAX_EDGE {
                return setting(format!("{m} x {n} x {k}: each size is from 1 to {MAX_EDGE}."));
            }
            lab.map_or(Ok(()), |lab| self.fits(lab, &self.problem(product)))?;
        }
        self.selection.validate(&self.all_rungs())
    }
}

impl Experiment for Matmul {
    fn plan(&self, lab: Option<&Lab>) -> Result<Plan> {
        self.validate(lab)?;
        let problems = self.problems();
        Ok(Plan {
            title: "Matrix product".into(),
            descriptor: Self::descriptor(),
            inputs: Inputs::of_all("A and B standard Gaussian (Philox), rounded to their type"),
            // The main problem has the data type of the last rungs of the ladder, if this type is measured.
            main_problem: problems.iter().filter(|p| is_standard(p)).max_by_key(|p| p.dtype == Dtype::Bf16).cloned(),
            ..settings::plan(self, problems, self.selection.select(self.all_rungs()))
        })
    }

    fn obstacle(&self, lab: &Lab, rung: &Rung, problem: &Problem, so_far: &Run) -> Option<String> {
        let row = self.row_of(rung)?;
        match &row.body {
            Body::Cpu(body) => cpu::obstacle(lab, *body, problem),
            _ => {
                let cc = lab.device().info().compute_capability?;
                match product_of(problem) {
                    Ok(product) => row.obstacle(product.form, Some(cc)).or_else(|| too_slow(so_far, rung, problem)),
                    Err(why) => Some(why.to_string()),
                }
            }
        }
    }

    fn for_emulator(&self) -> Option<Box<dyn Experiment>> {
        let fits = |(m, n, k): &(u64, u64, u64)| m.saturating_mul(*n).saturating_mul(*k) <= MOST_EMULATED;
        let shape = self.shapes.iter().copied().find(fits).unwrap_or(EMULATED_SHAPE);
        let small = Self { also: Vec::new(), ..self.clone() };
        Some(Box::new(small.shapes([shape]).tiles(false).transfers(false)))
    }

    fn compiled(&self, lab: &Lab, rung: &Rung, problem: &Problem) -> Option<KernelSpec> {
        let info = lab.device().info();
        let mut spec = warpbook_gemm::Plan::spec(&self.row_of(rung)?, &product_of(problem).ok()?)?;
        let chosen = self.tile_by_costs(rung, problem, info, &Findings::published(info))?;
        spec.tiles.retain(|tile| tile.id == chosen);
        Some(spec)
    }

    fn prepare<'a>(&'a self, lab: &'a Lab, problem: &Problem) -> Result<Box<dyn Prepared + 'a>> {
        Ok(match lab.device().cuda() {
            Some(device) => Box::new(gpu::GpuMatrices::draw(self, lab, device, problem)?),
            None => Box::new(cpu::CpuMatrices::new(self, &product_of(problem)?)),
        })
    }
}

impl Configurable for Matmul {
    const NAME: &'static str = "matmul";
    const ABOUT: &'static str = "Matrix product: C = A B, from three loops to tensor cores";
    const DETAILS: &'static str = "\
Matrix product: C = A B, C being m x n and each of its elements a sum of k terms. A and B hold Gaussian numbers, rounded \
to their type; sums are in fp32. Every element of each rung is compared with the product in f64, and the rung is then timed; those that \
are close to the fastest, NVIDIA's libraries among them, are timed in turn, so that all see the same clocks.";
    const EXAMPLES: &'static str = "\
  warpbook run matmul --quick
  warpbook run matmul --shape 4096 --dtype bf16
  warpbook run matmul --shape 128x8192x8192,4097x4095x4093 --dtype bf16,fp16
  warpbook run matmul --rungs 14_overlapped_store,cublaslt --shape 8192 --dtype bf16 --samples 100 --budget 10
  warpbook run matmul --sweep --out matmul.json";

    fn preset(preset: Preset) -> Self {
        match preset {
            Preset::Standard => Self::new(),
            Preset::Quick => Self::quick(),
            Preset::Sweep => Self::sweep(),
        }
    }

    fn offered() -> Vec<Setting<Self>> {
        let [rungs, tile] = Selection::settings();
        vec![
            Setting {
                name: "shape",
                value: Some("MxNxK[,..]"),
                help: "Sizes m x n x k of a product, such as 128x8192x8192, or one number for a cube; several with commas; `none` to measure \
                       only the products of --also. [default: 4096, with --quick 256,512,1000]",
                set: |e, text| Ok(if text == "none" { e.shapes([]) } else { e.shapes(list(text, parse_shape)?) }),
                get: |e| {
                    Some(if e.shapes.is_empty() { "none".into() } else { joined(e.shapes.iter().map(shape_text)) })
                },
            },
            Setting {
                name: "dtype",
                value: Some("TYPE[,..]"),
                help: "Types of the matrices: fp32, tf32, fp16, bf16; several with commas. [default: fp32,bf16]",
                set: |e, text| Ok(e.dtypes(list(text, parse_dtype)?)),
                get: |e| Some(joined(e.dtypes.iter().map(|d| d.label().to_owned()))),
            },
            Setting {
                name: "also",
                value: Some("MxNxK:TYPE[:AB][,..]"),
                help: "More products, each with its own type, such as 4096:tf32, and with n or t for A and for B if one is stored transposed: \
                       512x128x9216:fp16:nt.",
                set: |mut e, text| {
                    e.also = list(text, parse_product)?;
                    Ok(e)
                },
                get: |e| {
                    let also = joined(e.also.iter().map(product_text));
                    (!also.is_empty()).then_some(also)
                },
            },
            Setting {
                name: "layers",
                value: None,
                help: "Measure the products of the networks' linear layers, forward and both gradients, in fp16 and bf16: gemm's choice and the libraries.",
                set: |e, _| Ok(Self { seed: e.seed, ..Self::layers() }),
                get: |_| None,
            },
            Setting {
                name: "trans-a",
                value: None,
                help: "Store A transposed, k x m.",
                set: |mut e, _| {
                    e.transposed.0 = true;
                    Ok(e)
                },
                get: |e| e.transposed.0.then(String::new),
            },
            Setting {
                name: "trans-b",
                value: None,
                help: "Store B transposed, n x k.",
                set: |mut e, _| {
                    e.transposed.1 = true;
                    Ok(e)
                },
                get: |e| e.transposed.1.then(String::new),
            },
            Self::seed_setting("Seed of the random numbers. [default: 1]"),
            Setting {
                name: "no-tiles",
                value: None,
                help: "Take each rung's first tile and try no other.",
                set: |e, _| Ok(e.tiles(false)),
                get: |e| (!e.tiles).then(String::new),
            },
            Setting {
                name: "no-transfers",
                value: None,
                help: "Leave out the timing of copies to the device and back.",
                set: |e, _| Ok(e.transfers(false)),
                get: |e| (!e.transfers).then(String::new),
            },
            rungs,
            tile,
        ]
    }
}

fn shape_text((m, n, k): &(u64, u64, u64)) -> String {
    format!("{m}x{n}x{k}")
}

/// Parses a shape and a data type, with the storage if an operand is transposed, such as 4096:tf32 or 4096:bf16:nt.
fn parse_product(text: &str) -> Result<Also, String> {
    let why = || {
        format!(
            "`{text}` is not a product: write a shape, a colon and a type, such as 4096:tf32; and where A or B is stored transposed another colon and n or t \
             for each, such as 4096:bf16:nt"
        )
    };
    let mut words = text.split(':');
    let (shape, dtype) = words.next().zip(words.next()).ok_or_else(why)?;
    let transposed = match words.next() {
        None | Some("nn") => (false, false),
        Some("nt") => (false, true),
        Some("tn") => (true, false),
        Some("tt") => (true, true),
        Some(_) => return Err(why()),
    };
    words.next().map_or(Ok(()), |_| Err(why()))?;
    Ok((parse_shape(shape)?, parse_dtype(dtype)?, transposed))
}

fn product_text((shape, dtype, (a, b)): &Also) -> String {
    let letter = |is: bool| if is { 't' } else { 'n' };
    let stored = if *a || *b { format!(":{}{}", letter(*a), letter(*b)) } else { String::new() };
    format!("{}:{}{stored}", shape_text(shape), dtype.label())
}

/// Returns the reason for skipping a rung at a size, based on its best rate in this data type at earlier sizes.
fn too_slow(so_far: &Run, rung: &Rung, problem: &Problem) -> Option<String> {
    let same = |m: &&Measurement| m.rung == rung.id && m.problem.dtype == problem.dtype && m.is_valid();
    let rate = so_far.measurements.iter().filter(same).filter_map(Measurement::flops_per_s).fold(0.0, f64::max);
    let expected_s = problem.flops as f64 / rate;
    (rate > 0.0 && expected_s > LIMIT_S).then(|| format!("would take about {expected_s:.1} s a product"))
}

/// Returns true if the product is the cube that is measured by default.
fn is_standard(problem: &Problem) -> bool {
    shape_of(problem) == Some((STANDARD_EDGE, STANDARD_EDGE, STANDARD_EDGE))
}

/// Returns the product that a problem of this experiment describes.
fn product_of(problem: &Problem) -> Result<Product> {
    Product::try_from(problem).map_err(|malformed| Error::Setting(malformed.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_record::Runner;

    #[test]
    fn products_are_read() {
        assert_eq!(parse_product("64x8x9:tf32").ok(), Some(((64, 8, 9), Dtype::Tf32, (false, false))));
        assert!(parse_product("64x8x9").unwrap_err().contains("as 4096:tf32"));
        assert!(parse_product("64x8x9:int8").is_err());
    }

    #[test]
    fn without_trials_a_rung_has_the_tile_that_costs_choose() {
        let h200 = DeviceInfo {
            kind: warpbook_record::DeviceKind::Cuda,
            index: 0,
            name: "H200".into(),
            memory_bytes: 1 << 37,
            multiprocessors: 132,
            compute_capability: Some((9, 0)),
            l2_bytes: None,
            shared_bytes_per_multiprocessor: None,
            shared_bytes_per_block: Some(232_448),
            registers_per_multiprocessor: None,
            max_sm_mhz: None,
            max_memory_mhz: None,
        };
        let tile = |experiment: &Matmul, id: &str| {
            let rung = Experiment::rungs(experiment).into_iter().find(|r| r.id == id).unwrap();
            let problem = Experiment::problems(experiment).remove(0);
            experiment.tile_by_costs(&rung, &problem, &h200, &Findings::default())
        };
        let product = |edge| Matmul::new().shapes([(edge, edge, edge)]).dtypes([Dtype::Bf16]);
        // `gemm` uses these tiles if it chooses the same rung (see the tests of `choose`).
        assert_eq!(tile(&product(4096), "14_overlapped_store").as_deref(), Some("128x256s4c2g8"));
        assert_eq!(tile(&product(1024), "15b_small_tiles").as_deref(), Some("128x64s8k1"));
        // The tile depends on the size, even for a rung that `gemm` does not choose there.
        assert_ne!(tile(&product(512), "14_overlapped_store"), tile(&product(8192), "14_overlapped_store"));
        // Without a cost model, the first tile is used; a rung without tiles has none.
        assert_eq!(tile(&product(2048), "11_wgmma_tma").as_deref(), Some("128x128s4"));
        assert_eq!(tile(&product(2048), "cublas"), None);
        // A requested tile is used by the rungs that have it.
        let asked = product(2048).tile("128x128s6c2g8");
        assert_eq!(tile(&asked, "14_overlapped_store").as_deref(), Some("128x128s6c2g8"));
        assert_eq!(tile(&asked, "11_wgmma_tma").as_deref(), Some("128x128s4"));
    }

    #[test]
    fn the_tuner_tries_every_row_that_may_be_chosen() {
        let tried = Experiment::rungs(&Matmul::tuning());
        for row in rows().iter().filter(|r| r.costs.is_some() || r.fallback.is_some()) {
            assert!(tried.iter().any(|r| r.id == row.rung.id), "{}", row.rung.id);
        }
        assert!(tried.iter().any(|r| r.id == "16_tf32_registers") && tried.iter().any(Rung::is_library));
        // The rung that runs `gemm`'s choice is not one of the candidates itself.
        let is_choice = |r: &Rung| matches!(r.runner, Runner::Chosen(_));
        assert!(!tried.iter().any(is_choice) && Experiment::rungs(&Matmul::new()).iter().any(is_choice));
    }
}
