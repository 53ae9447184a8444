//! The rows of the fused linear regression's ladder, the rule of the on-chip rung, and the kernels around them.

use crate::shared::source;
use warpbook_record::{
    Dim, Dtype, Grid, KernelSpec, MemoryLevel, Problem, Requires, Rung, Runner, Schedule, Source, SweepPoint, Tile,
    Traffic, count, kept_by_cache, setting, short_count,
};

/// The points of a run when none are asked for.
pub const STANDARD_POINTS: u64 = 5_000_000;
/// The sizes of the full sweep.
pub const SWEEP_POINTS: [u64; 7] = [100_000, 500_000, 1_000_000, 5_000_000, 10_000_000, 50_000_000, 200_000_000];
/// Weights before the first epoch: (w0, b0).
pub const INITIAL: (f32, f32) = (0.83, 0.7645);
/// The line that the data is drawn around: (w, b).
pub const TRUTH: (f32, f32) = (3.0, 2.0);
/// Where x lies with one feature: from the first number on, below the second.
pub const RANGE: (f32, f32) = (0.0, 10.0);
/// The loss is logged every so many epochs.
pub const LOG_EVERY: u64 = 10;
/// Streams of the rung that splits its pass.
pub const STREAMS: u32 = 4;

const UNFUSED: Source = source!("regression/01_unfused.cu");
const FUSED: Source = source!("regression/02_fused.cu");
const STAGED: Source = source!("regression/02b_fused_staged.cu");
const PERSISTENT: Source = source!("regression/05_persistent.cu");
const ON_CHIP: Source = source!("regression/06_on_chip.cu");
const ON_CHIP_CLUSTER: Source = source!("regression/06_on_chip_cluster.cu");
const STATISTICS: Source = source!("regression/07_sufficient_statistics.cu");
const MULTIVARIATE: Source = source!("regression/08_multivariate.cu");
const DATA: Source = source!("regression/data.cu");

/// The features of the one data set in the full sweep that has several.
pub const STANDARD_FEATURES: u64 = 16;
/// The most features that a rung takes.
pub const MAX_FEATURES: u64 = 256;
/// Blocks of the cluster that a small data set is kept in: the most that Hopper has.
pub const CLUSTER_BLOCKS: u32 = 16;
/// Groups of four points a thread from which on the whole grid is faster than one cluster.
const CLUSTER_GROUPS: u64 = 28;
/// Threads of a block that keeps its points: few, so that each may have 255 registers.
const RESIDENT_THREADS: u64 = 256;
/// Bytes of a group of four points, x and y.
const GROUP_BYTES: u64 = 32;
/// Shared memory of a block that the points cannot have: the sums, the slots of a cluster, and what the system keeps.
const SHARED_RESERVE_BYTES: u64 = 8 << 10;

/// A grid that stays resident and strides over the points.
fn strided() -> Vec<Tile> {
    let tile = |id, threads, items, blocks| {
        Tile::new(id, &[("THREADS", threads), ("ITEMS", items), ("BLOCKS_PER_SM", blocks)])
    };
    vec![
        tile("t512x16b2", 512, 16, 2),
        tile("t1024x8b1", 1024, 8, 1),
        tile("t1024x16b1", 1024, 16, 1),
        tile("t256x16b4", 256, 16, 4),
        tile("t256x8b4", 256, 8, 4),
    ]
}

/// A pass over the points.
fn pass(source: Source, entry: &'static str) -> KernelSpec {
    KernelSpec::new(source, entry, &strided(), Grid::Resident)
}

/// A grid that runs all epochs: one block a multiprocessor, so that few have to meet, with the registers of all.
fn persistent(alternate: bool) -> KernelSpec {
    let tile = |id, threads, items| Tile::new(id, &[("THREADS", threads), ("ITEMS", items), ("BLOCKS_PER_SM", 1)]);
    let mut tiles = vec![tile("t512x16b1", 512, 16), tile("t256x32b1", 256, 32)];
    if alternate {
        // More of the next epoch's points are here already; without that they only take registers.
        tiles.insert(0, tile("t512x32b1", 512, 32));
    }
    let spec = KernelSpec::new(PERSISTENT, "descend", &tiles, Grid::Resident);
    if alternate { spec.define("ALTERNATE", 1) } else { spec }
}

/// Kernels that keep their points: by the groups of four that a thread has in registers.
fn resident(source: Source, entry: &'static str) -> KernelSpec {
    let tile = |id, groups: i64| {
        Tile::new(
            id,
            &[
                ("THREADS", RESIDENT_THREADS.cast_signed()),
                ("ITEMS", 4),
                ("BLOCKS_PER_SM", 1),
                ("REGISTER_GROUPS", groups),
            ],
        )
    };
    let tiles = [tile("r24", 24), tile("r16", 16), tile("r8", 8), tile("r4", 4), tile("r2", 2), tile("r0", 0)];
    KernelSpec::new(source, entry, &tiles, Grid::Resident)
}

fn multivariate() -> KernelSpec {
    let tile = |id, threads, features| {
        Tile::new(id, &[("THREADS", threads), ("ITEMS", 4), ("BLOCKS_PER_SM", 1), ("FEATURES_PER_THREAD", features)])
    };
    KernelSpec::new(MULTIVARIATE, "descend", &[tile("t512f16", 512, 16), tile("t512f8", 512, 8)], Grid::Resident)
        .define("FEATURES", 16)
}

/// The multivariate kernel for numbers of features that split in different ways: what tests compile in addition to the row's own.
#[must_use]
pub fn feature_counts() -> Vec<KernelSpec> {
    let default_tile = |mut spec: KernelSpec| {
        spec.tiles.truncate(1);
        spec
    };
    [1, 2, 3, 7, 17, 100, 256].map(|n| default_tile(multivariate()).define("FEATURES", n)).into()
}

/// The warps of `08_multivariate` that share the same points, each with a part of their features: the kernel's `SPLIT`.
#[must_use]
pub fn multivariate_split(tile: &Tile, features: u64) -> u64 {
    features.div_ceil(tile.size(Dim::FeaturesPerThread)).next_power_of_two()
}

/// The points of one of its blocks that are in registers at once: the same arithmetic as in the kernel.
#[must_use]
pub fn multivariate_points_at_once(tile: &Tile, features: u64) -> u64 {
    let (a_thread, split) = (tile.size(Dim::FeaturesPerThread), multivariate_split(tile, features));
    let part = features.div_ceil(split);
    let groups = if part + 1 >= a_thread { 1 } else { a_thread / (part + 1) };
    tile.size(Dim::Threads) / 32 / split * groups * 32 * 4
}

/// Where `06_on_chip` keeps its points, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// In the multiprocessors of one cluster.
    Cluster(Residency),
    /// In all multiprocessors.
    Grid(Residency),
    /// Nowhere: they do not fit, and are read every epoch as by `05b_persistent_alternating`.
    Memory,
}

/// How points lie on the chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Residency {
    /// Blocks, each on its own multiprocessor.
    pub blocks: u32,
    /// Groups of four points that each thread has in registers: the tile's `REGISTER_GROUPS`.
    pub register_groups: u64,
    /// Dynamic shared memory of a block for the rest, in bytes.
    pub shared_bytes: u32,
    /// Points in registers; the others are in shared memory.
    pub register_points: u64,
}

impl Residency {
    /// The tile of that many register groups.
    #[must_use]
    pub fn tile_id(&self) -> String {
        format!("r{}", self.register_groups)
    }

    /// With as many groups in registers as a tile permits and every thread has; `None` if shared memory cannot take the rest.
    fn of(train_points: u64, blocks: u32, room: Room) -> Option<Self> {
        let threads = u64::from(blocks) * RESIDENT_THREADS;
        let groups = train_points / 4;
        if threads == 0 || groups > u64::from(u32::MAX) {
            return None;
        }
        let register_groups = room.register_groups().filter(|r| r * threads <= groups).max()?;
        let shared_bytes = (groups.div_ceil(threads) - register_groups) * RESIDENT_THREADS * GROUP_BYTES;
        (shared_bytes + SHARED_RESERVE_BYTES <= room.shared_bytes_per_block).then(|| Self {
            blocks,
            register_groups,
            shared_bytes: u32::try_from(shared_bytes).unwrap_or(u32::MAX),
            register_points: register_groups * threads * 4,
        })
    }
}

/// What the rule of [`place`] asks of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// The most shared memory of a block in bytes.
    pub shared_bytes_per_block: u64,
    /// Blocks of its largest cluster, up to [`CLUSTER_BLOCKS`]; 0 where there are none.
    pub cluster_blocks: u32,
    /// The most groups of four points that a thread may have in registers.
    pub most_groups: u64,
}

impl Room {
    /// The permitted numbers of groups that a thread has in registers.
    fn register_groups(self) -> impl Iterator<Item = u64> {
        let of_tile = |t: Tile| t.get("REGISTER_GROUPS").map_or(0, i64::unsigned_abs);
        resident(ON_CHIP, "descend").tiles.into_iter().map(of_tile).filter(move |g| *g <= self.most_groups)
    }
}

/// The rule of `06_on_chip`: one cluster for few points, else all multiprocessors, else memory. With a sentence that says so.
#[must_use]
pub fn place(train_points: u64, room: Room) -> (Placement, String) {
    let Room { multiprocessors, cluster_blocks, .. } = room;
    let megabytes = |points: u64| format!("{:.1} MB", points as f64 * 8e-6);
    let where_to = |r: &Residency| {
        format!(
            "{} in registers ({} groups of four points per thread) and {} in shared memory",
            megabytes(r.register_points),
            r.register_groups,
            megabytes(train_points - r.register_points)
        )
    };
    let size = format!("{train_points} training points, {}", megabytes(train_points));
    let a_thread = train_points / 4 / (u64::from(cluster_blocks.max(1)) * RESIDENT_THREADS);
    if cluster_blocks > 0
        && a_thread < CLUSTER_GROUPS
        && let Some(r) = Residency::of(train_points, cluster_blocks, room)
    {
        let sentence = format!(
            "{size}: fewer than {CLUSTER_GROUPS} groups of four per thread of one cluster of {} blocks, so they lie there: {}.",
            r.blocks,
            where_to(&r)
        );
        return (Placement::Cluster(r), sentence);
    }
    if let Some(r) = Residency::of(train_points, multiprocessors, room) {
        let sentence = format!("{size}: they lie in {} multiprocessors: {}.", r.blocks, where_to(&r));
        return (Placement::Grid(r), sentence);
    }
    let most = most_resident_points(room);
    let sentence = format!(
        "{size}: more than the {} that registers and shared memory of {multiprocessors} multiprocessors hold, so they are read every epoch as by 05b_persistent_alternating.",
        megabytes(most)
    );
    (Placement::Memory, sentence)
}

/// The most points that the multiprocessors hold.
fn most_resident_points(room: Room) -> u64 {
    let registers = room.register_groups().max().unwrap_or(0);
    let shared = room.shared_bytes_per_block.saturating_sub(SHARED_RESERVE_BYTES) / (RESIDENT_THREADS * GROUP_BYTES);
    (registers + shared) * u64::from(room.multiprocessors) * RESIDENT_THREADS * 4
}

/// What a rung moves in a descent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moves {
    /// Nothing that is counted, as of the CPU's rungs.
    Uncounted,
    /// The inputs and two intermediates, written and read, every epoch.
    Intermediates,
    /// The inputs every epoch.
    Inputs,
    /// The inputs every epoch in alternating direction: an epoch begins with what is still on the chip.
    Alternating,
    /// The inputs once; every epoch reads them from where they stay.
    OnChip,
    /// The inputs once, and a few sums after that.
    Once,
}

/// How a rung's kernels make up a descent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// On the CPU: one thread, or all.
    Cpu {
        /// Whether all threads take part.
        all_threads: bool,
    },
    /// Kernels for each operation of an epoch, with intermediates in memory, then the update.
    Unfused,
    /// One pass an epoch, then the update, as the schedule says.
    Fused,
    /// One cooperative launch whose blocks exchange their sums.
    Persistent,
    /// The points stay on the chip, where the rule of [`place`] puts them: kernels for the grid, for a cluster, and for memory.
    OnChip,
    /// One pass that leaves sufficient statistics, and a descent on these.
    Statistics,
    /// As [`Plan::Persistent`], for several features.
    Multivariate,
}

impl Plan {
    /// Whether every epoch is kernels for itself, launched or in a graph.
    #[must_use]
    pub const fn launches_each_epoch(self) -> bool {
        matches!(self, Self::Unfused | Self::Fused)
    }
}

/// A rung of the regression and everything that is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The rung, as a record has it.
    pub rung: Rung,
    /// How its kernels make up a descent.
    pub plan: Plan,
    /// What it moves.
    pub moves: Moves,
    /// Whether it takes points of several features.
    pub several_features: bool,
    /// Whether the parts of its epoch are timed alone.
    pub timed_in_parts: bool,
}

impl Row {
    /// The same with the parts of its epoch timed alone.
    #[must_use]
    fn in_parts(self) -> Self {
        Self { timed_in_parts: true, ..self }
    }

    /// Why it does not take a problem; `None` if it does.
    #[must_use]
    pub fn obstacle(&self, problem: &Problem) -> Option<String> {
        let several = features_of(problem) > 1 && !self.several_features;
        several.then(|| "takes points of one feature".into())
    }

    /// The bytes that it moves at each level of memory in a whole descent, and its operations where they are not those of the
    /// problem. `in_flight` are the points that its threads have in registers at once.
    ///
    /// Counted, not measured: what is read every epoch comes from L2 where five eighths of it hold it, else from DRAM.
    #[must_use]
    pub fn traffic(
        &self,
        problem: &Problem,
        l2_bytes: Option<u64>,
        placement: Option<&Placement>,
        in_flight: u64,
    ) -> (Vec<Traffic>, Option<u64>) {
        let (Some(n), epochs) = (problem.count("train_points"), problem.passes) else { return (Vec::new(), None) };
        let inputs = problem.working_set_bytes;
        let cached = kept_by_cache(l2_bytes.unwrap_or(0));
        let level_of = |bytes: u64| if bytes <= cached { MemoryLevel::L2 } else { MemoryLevel::Dram };
        let once = Traffic { level: level_of(inputs), bytes: inputs };
        let alternating = || {
            let a_point = inputs / n.max(1);
            let in_registers = in_flight.min(n) * a_point;
            let from_l2 = inputs - in_registers;
            let from_dram = if inputs <= cached { 0 } else { from_l2.saturating_sub(cached) };
            [(MemoryLevel::Registers, in_registers), (MemoryLevel::L2, from_l2), (MemoryLevel::Dram, from_dram)]
                .map(|(level, bytes)| Traffic { level, bytes: bytes.saturating_mul(epochs) })
                .into_iter()
                .filter(|t| t.bytes > 0)
                .collect()
        };
        match self.moves {
            Moves::Uncounted => (Vec::new(), None),
            // Reads x, y, err twice and pred, and writes pred and err: eight numbers a point, four of them an array's whole length.
            Moves::Intermediates => {
                let level = level_of(2 * inputs);
                (vec![Traffic { level, bytes: (n * 32).saturating_mul(epochs) }], None)
            }
            Moves::Inputs => (vec![Traffic { level: level_of(inputs), bytes: inputs.saturating_mul(epochs) }], None),
            Moves::Alternating => (alternating(), None),
            Moves::OnChip => match placement {
                Some(Placement::Cluster(r) | Placement::Grid(r)) => {
                    let kept = |level, points: u64| Traffic { level, bytes: (points * 8).saturating_mul(epochs) };
                    let levels = [
                        once,
                        kept(MemoryLevel::Registers, r.register_points),
                        kept(MemoryLevel::Shared, n - r.register_points),
                    ];
                    // The loss and its sum only where it is logged.
                    let flops = n * (6 * epochs + 2 * (epochs / LOG_EVERY));
                    (levels.into_iter().filter(|t| t.bytes > 0).collect(), Some(flops))
                }
                _ => (alternating(), None),
            },
            // Seven for each of two sums and ten for each of three products: see the kernel.
            Moves::Once => (vec![once], Some(n * 44)),
        }
    }
}

/// The numbers of a descent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Descent {
    /// All points, test points included.
    pub points: u64,
    /// The points that are trained on.
    pub train_points: u64,
    /// Features of a point, and so weights apart from b.
    pub features: u64,
    /// Passes over the training points.
    pub epochs: u64,
    /// Step width of the descent.
    pub learning_rate: f64,
    /// Standard deviation of the Gaussian noise on y.
    pub noise: f64,
    /// Key of the Philox generator.
    pub seed: u64,
    /// Its start, and the line that the points are drawn around. A record has only the numbers that are not the usual ones.
    pub line: Line,
}

/// Where a descent begins, and what its points are drawn around.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Weights before the first epoch: (w, b); with several features each of them begins at w.
    pub start: (f32, f32),
    /// The line that the points are drawn around: (w, b); with several features their weights are w, -w/2, w/3, -w/4 and so on.
    pub truth: (f32, f32),
    /// Where x lies with one feature: from the first number on, below the second.
    pub range: (f32, f32),
}

impl Default for Line {
    fn default() -> Self {
        Self { start: INITIAL, truth: TRUTH, range: RANGE }
    }
}

impl Line {
    /// Each pair that is not the default one, with the names of its two numbers in a record.
    fn changed(&self) -> Vec<([&'static str; 2], (f32, f32))> {
        let default = Self::default();
        let pairs = [
            (["start_w", "start_b"], self.start, default.start),
            (["true_w", "true_b"], self.truth, default.truth),
            (["x_min", "x_max"], self.range, default.range),
        ];
        pairs.into_iter().filter(|(_, own, usual)| own != usual).map(|(names, own, _)| (names, own)).collect()
    }
}

/// The number that its shortest decimal form says: 0.01 and not 0.009999999776.
#[must_use]
pub fn decimal(v: f32) -> f64 {
    v.to_string().parse().unwrap_or_else(|_| f64::from(v))
}

impl Descent {
    /// As a record has it. FLOPs: four a point and epoch and four more a feature (- y, err^2 and its sum, the sum of err; w x, its sum,
    /// err x, its sum). Bytes: x and y once an epoch.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let Self { points, train_points, features, epochs, .. } = *self;
        let mut sizes = vec![count("points", points, "points"), count("train_points", train_points, "points")];
        if features != 1 {
            sizes.push(count("features", features, ""));
        }
        sizes.extend([
            count("epochs", epochs, ""),
            setting("learning_rate", self.learning_rate),
            setting("noise", self.noise),
            setting("seed", self.seed),
        ]);
        let mut also = String::new();
        for (names, (first, second)) in self.line.changed() {
            sizes.extend([setting(names[0], decimal(first)), setting(names[1], decimal(second))]);
            also += &format!(", {} {first}, {} {second}", names[0], names[1]);
        }
        let (short, label, line) = match (short_count(points), features) {
            (n, 1) => (n.clone(), format!("{n} points, {epochs} epochs{also}"), format!("{epochs} epochs{also}")),
            (n, f) => (
                format!("{n} × {f}"),
                format!("{n} points of {f} features, {epochs} epochs{also}"),
                format!("{f} features, {epochs} epochs{also}"),
            ),
        };
        let working_set = train_points.saturating_mul(features.saturating_add(1).saturating_mul(Dtype::F32.bytes()));
        Problem::new(label, short, sizes, Dtype::F32).with(|p| {
            p.flops = train_points.saturating_mul(epochs).saturating_mul(features.saturating_mul(4).saturating_add(4));
            p.working_set_bytes = working_set;
            p.bytes = working_set.saturating_mul(epochs);
            p.passes = epochs;
            p.sweep = Some(SweepPoint { size: points, line });
        })
    }
}

/// The features of a regression's points.
#[must_use]
pub fn features_of(problem: &Problem) -> u64 {
    problem.count("features").unwrap_or(1)
}

/// One block that finishes the sums and takes the step.
fn update(source: Source) -> KernelSpec {
    KernelSpec::new(
        source,
        "update",
        &[Tile::new("t512", &[("THREADS", 512), ("ITEMS", 4), ("BLOCKS_PER_SM", 1)])],
        Grid::One,
    )
}

fn row(id: &'static str, title: &'static str, idea: &'static str, runner: Runner, plan: Plan, moves: Moves) -> Row {
    let requires = if matches!(runner, Runner::Cpu(_)) { Requires::Nothing } else { Requires::AtLeast(7, 5) };
    let rung = Rung { id: id.into(), title: title.into(), idea: idea.into(), requires, runner, variant_of: None };
    let several_features = matches!(plan, Plan::Cpu { .. } | Plan::Multivariate);
    Row { rung, plan, moves, several_features, timed_in_parts: false }
}

fn kernels(specs: Vec<KernelSpec>, schedule: Schedule) -> Runner {
    Runner::Kernels { specs, schedule }
}

/// The rungs of the regression, in the ladder's order.
#[must_use]
pub fn rungs() -> Vec<Rung> {
    rows().into_iter().map(|r| r.rung).collect()
}

/// The rows of the regression, in the ladder's order.
#[must_use]
pub fn rows() -> Vec<Row> {
    [on_cpu(), by_epochs(), resident_grids()].into_iter().flatten().collect()
}

fn on_cpu() -> Vec<Row> {
    vec![
        row(
            "cpu_1_thread",
            "CPU, one thread",
            "One vectorised loop over the points on one core.",
            Runner::Cpu("1 thread".into()),
            Plan::Cpu { all_threads: false },
            Moves::Uncounted,
        ),
        row(
            "cpu_all_threads",
            "CPU, all threads",
            "The same loop over chunks of the points on every core, their sums added at the end.",
            Runner::Cpu("all threads".into()),
            Plan::Cpu { all_threads: true },
            Moves::Uncounted,
        ),
    ]
}

/// Rungs with kernels for each epoch.
fn by_epochs() -> Vec<Row> {
    let fused = || vec![pass(FUSED, "pass"), update(FUSED)];
    vec![
        row(
            "01_unfused",
            "Unfused",
            "Forward, loss, both gradients and the update are kernels by themselves and pass their results on through memory.",
            kernels(
                vec![
                    pass(UNFUSED, "forward"),
                    pass(UNFUSED, "loss"),
                    pass(UNFUSED, "gradient_w"),
                    pass(UNFUSED, "gradient_b"),
                    update(UNFUSED),
                ],
                Schedule::Launches,
            ),
            Plan::Unfused,
            Moves::Intermediates,
        )
        .in_parts(),
        row(
            "02_fused",
            "Fused",
            "One pass over x and y keeps prediction, error and all three sums in registers; a second kernel updates the weights.",
            kernels(fused(), Schedule::Launches),
            Plan::Fused,
            Moves::Inputs,
        )
        .in_parts(),
        row(
            "02b_fused_staged",
            "Fused, staged",
            "The fused pass copies x and y into shared memory before it uses them, once each.",
            kernels(vec![pass(STAGED, "pass"), update(STAGED)], Schedule::Launches),
            Plan::Fused,
            Moves::Inputs,
        ),
        row(
            "03_fused_streams",
            "Fused over streams",
            "The fused pass is cut into slices on four streams, which events join before each update.",
            kernels(fused(), Schedule::Streams(STREAMS)),
            Plan::Fused,
            Moves::Inputs,
        ),
        row(
            "04_fused_graph",
            "Fused in a graph",
            "All epochs of the fused kernels are captured once as a CUDA graph and replayed with a single launch.",
            kernels(fused(), Schedule::Graph),
            Plan::Fused,
            Moves::Inputs,
        ),
        on_hopper(row(
            "04b_fused_graph_overlapped",
            "Graph, launches overlapped",
            "In the same graph, each kernel starts while the last one ends and requests its first points before it waits for the weights.",
            kernels(fused(), Schedule::OverlappedGraph),
            Plan::Fused,
            Moves::Inputs,
        )),
    ]
}

fn on_hopper(mut row: Row) -> Row {
    row.rung.requires = Requires::AtLeast(9, 0);
    row
}

/// Rungs whose grid runs all epochs.
fn resident_grids() -> Vec<Row> {
    vec![
        row(
            "05_persistent",
            "Persistent",
            "One cooperative launch runs all epochs; its blocks exchange their sums through L2 instead of ending.",
            kernels(vec![persistent(false)], Schedule::Cooperative),
            Plan::Persistent,
            Moves::Inputs,
        ),
        row(
            "05b_persistent_alternating",
            "Alternating direction",
            "Every other epoch goes through the points backwards and so begins with what the caches still have.",
            kernels(vec![persistent(true)], Schedule::Cooperative),
            Plan::Persistent,
            Moves::Alternating,
        ),
        row(
            "06_on_chip",
            "On the chip",
            "The points are read once and stay in registers and shared memory; few of them in one cluster, whose blocks write into each other's shared memory.",
            kernels(
                vec![
                    resident(ON_CHIP, "descend"),
                    resident(ON_CHIP_CLUSTER, "descend_in_cluster")
                        .define("BLOCKS", i64::from(CLUSTER_BLOCKS))
                        .needs(Requires::AtLeast(9, 0)),
                    persistent(true),
                ],
                Schedule::Cooperative,
            ),
            Plan::OnChip,
            Moves::OnChip,
        ),
        row(
            "07_sufficient_statistics",
            "Sufficient statistics",
            "The same descent with less work: one pass leaves six numbers, and the epochs look at those.",
            kernels(
                vec![
                    KernelSpec::new(STATISTICS, "moments", &strided(), Grid::Resident),
                    KernelSpec::new(
                        STATISTICS,
                        "descend",
                        &[Tile::new("t256", &[("THREADS", 256), ("ITEMS", 4), ("BLOCKS_PER_SM", 1)])],
                        Grid::One,
                    ),
                ],
                Schedule::Launches,
            ),
            Plan::Statistics,
            Moves::Once,
        ),
        row(
            "08_multivariate",
            "Several features",
            "The persistent pass with 1 to 256 weights: a point's features are read once for its prediction and its gradients.",
            kernels(vec![multivariate()], Schedule::Cooperative),
            Plan::Multivariate,
            Moves::Alternating,
        ),
    ]
}

/// The name of the fused pass without anything but its reads.
pub const ONLY_READS: &str = "only the reads";
/// The name of that pass over no points at all: its launch, and the start and end of its blocks.
pub const NO_POINTS: &str = "only the launch";

/// The fused pass with one of its parts left out, by name.
#[must_use]
pub fn ablations() -> Vec<(&'static str, KernelSpec)> {
    let without = |names: &[&'static str]| pass(FUSED, "pass").with(names);
    vec![
        ("whole pass", without(&[])),
        ("without the loss", without(&["WITHOUT_LOSS"])),
        ("without the gradients", without(&["WITHOUT_GRADIENTS"])),
        ("without the reduction", without(&["WITHOUT_REDUCTION"])),
        ("without reading y", without(&["WITHOUT_Y"])),
        (ONLY_READS, without(&["WITHOUT_LOSS", "WITHOUT_GRADIENTS", "WITHOUT_REDUCTION"])),
    ]
}

/// Fills x and y: see `kernels/regression/data.cu`.
#[must_use]
pub fn data_kernel() -> KernelSpec {
    KernelSpec::new(DATA, "points", &[Tile::new("t256", &[("THREADS", 256)])], Grid::Cover)
}

/// The same for several features.
#[must_use]
pub fn featured_data_kernel() -> KernelSpec {
    KernelSpec { entry: "featured_points".into(), ..data_kernel() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An H200.
    const fn room(cluster_blocks: u32) -> Room {
        Room { multiprocessors: 132, shared_bytes_per_block: 232_448, cluster_blocks, most_groups: 24 }
    }

    fn check(train_points: u64, cluster_blocks: u32, expect: &str) {
        let (placement, sentence) = place(train_points, room(cluster_blocks));
        let found = match &placement {
            Placement::Cluster(r) => format!("cluster {} {}", r.blocks, r.tile_id()),
            Placement::Grid(r) => format!("grid {} {}", r.blocks, r.tile_id()),
            Placement::Memory => "memory".to_owned(),
        };
        assert_eq!(found, expect, "{sentence}");
        if let Placement::Cluster(r) | Placement::Grid(r) = placement {
            // Every thread has its register groups, and shared memory takes the rest.
            let threads = u64::from(r.blocks) * RESIDENT_THREADS;
            assert!(r.register_groups * threads * 4 <= train_points);
            let rest = (train_points / 4).saturating_sub(r.register_groups * threads).div_ceil(threads);
            assert_eq!(u64::from(r.shared_bytes), rest * RESIDENT_THREADS * GROUP_BYTES);
            assert!(u64::from(r.shared_bytes) <= 232_448 - SHARED_RESERVE_BYTES);
        }
        assert!(sentence.starts_with(&train_points.to_string()) && sentence.ends_with('.'), "{sentence}");
    }

    #[test]
    fn points_lie_in_a_cluster_in_the_grid_or_in_memory() {
        check(1, 16, "cluster 16 r0");
        check(80_000, 16, "cluster 16 r4");
        check(80_000, 0, "grid 132 r0");
        check(400_000, 16, "cluster 16 r24");
        check(800_000, 16, "grid 132 r4");
        check(4_000_000, 16, "grid 132 r24");
        check(8_000_000, 16, "memory");
        check(u64::MAX, 16, "memory");
        let most = most_resident_points(room(16));
        check(most, 16, "grid 132 r24");
        check(most + 4 * RESIDENT_THREADS * 132, 16, "memory");
    }

    #[test]
    fn a_block_of_the_multivariate_kernel_holds_so_many_points() {
        let tile = &multivariate().tiles[0];
        // 16 warps of 32 lanes with four points each: eight groups of them with one feature, one with 16, shared by 16 warps with 256.
        assert_eq!(multivariate_points_at_once(tile, 1), 16 * 32 * 4 * 8);
        assert_eq!(multivariate_points_at_once(tile, 16), 16 * 32 * 4);
        assert_eq!(multivariate_points_at_once(tile, 256), 32 * 4);
    }

    fn descent(points: u64, features: u64) -> Problem {
        let train_points = points / 5 * 4;
        let line = Line::default();
        Descent { points, train_points, features, epochs: 200, learning_rate: 0.01, noise: 0.1, seed: 1, line }
            .problem()
    }

    #[test]
    fn a_problem_names_the_numbers_of_its_line_that_are_not_the_usual_ones() {
        let own = |line| {
            let (points, train_points, features, epochs) = (5_000_000, 4_000_000, 1, 200);
            Descent { points, train_points, features, epochs, learning_rate: 0.01, noise: 0.1, seed: 1, line }.problem()
        };
        let names = ["start_w", "start_b", "true_w", "true_b", "x_min", "x_max"];
        let values =
            |p: &Problem| names.map(|name| p.sizes.iter().find(|s| s.name == name).map(|s| s.value.to_string()));
        let usual = own(Line::default());
        assert_eq!((values(&usual), usual.clone()), ([const { None }; 6], descent(5_000_000, 1)));
        let other = own(Line { start: (-1.0, 0.1), range: (-5.0, 5.0), ..Line::default() });
        let want = [Some("-1"), Some("0.1"), None, None, Some("-5"), Some("5")];
        assert_eq!(values(&other), want.map(|v| v.map(str::to_owned)));
        assert_eq!(other.label, "5 M points, 200 epochs, start_w -1, start_b 0.1, x_min -5, x_max 5");
        assert!(other.id != usual.id && !other.same_line(&usual));
    }

    #[test]
    fn traffic_is_counted_where_the_points_are() {
        let problem = descent;
        let of = |rung: &str, p: &Problem, placement: Option<&Placement>| {
            let row = rows().into_iter().find(|r| r.rung.id == rung).unwrap();
            let (traffic, _) = row.traffic(p, Some(60 << 20), placement, 1_000_000);
            traffic.iter().map(|t| (t.level, t.bytes)).collect::<Vec<_>>()
        };
        let (small, large) = (problem(5_000_000, 1), problem(200_000_000, 1));
        assert_eq!(of("02_fused", &small, None), [(MemoryLevel::L2, 6_400_000_000)]);
        assert_eq!(of("02_fused", &large, None), [(MemoryLevel::Dram, 256_000_000_000)]);
        // Twice the inputs do not fit any more.
        assert_eq!(of("01_unfused", &small, None), [(MemoryLevel::Dram, 4 * 6_400_000_000)]);
        assert_eq!(of("07_sufficient_statistics", &large, None), [(MemoryLevel::Dram, 1_280_000_000)]);
        let kept = place(4_000_000, room(16)).0;
        let on_chip = of("06_on_chip", &small, Some(&kept));
        assert_eq!(on_chip[0], (MemoryLevel::L2, 32_000_000));
        assert_eq!(on_chip[1].1 + on_chip[2].1, 6_400_000_000);
        let wide = of("08_multivariate", &problem(5_000_000, 16), None);
        assert_eq!(wide[0], (MemoryLevel::Registers, 1_000_000 * 17 * 4 * 200));
        assert_eq!(wide[1], (MemoryLevel::L2, 3_000_000 * 17 * 4 * 200));
        assert!(wide[2].0 == MemoryLevel::Dram && wide[2].1 < wide[1].1, "{wide:?}");
        assert_eq!(of("cpu_1_thread", &small, None), []);
        // Every rung of ours is counted.
        for rung in rungs().iter().filter(|r| r.requires != Requires::Nothing) {
            assert!(!of(&rung.id, &small, Some(&kept)).is_empty(), "{}", rung.id);
        }
    }
}
