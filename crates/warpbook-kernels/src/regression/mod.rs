//! The rows of the fused linear regression's ladder, and the number of bytes that each moves.

mod descent;
mod kernels;
mod placement;

pub use descent::{Descent, INITIAL, Line, RANGE, TRUTH, decimal, features_of};
use kernels::{FUSED, ON_CHIP, ON_CHIP_CLUSTER, STAGED, STATISTICS, UNFUSED};
pub use kernels::{
    NO_POINTS, ONLY_READS, ablations, data_kernel, feature_counts, featured_data_kernel, multivariate_points_at_once,
    multivariate_split,
};
use kernels::{multivariate, pass, persistent, resident, update};
pub use placement::{CLUSTER_BLOCKS, Placement, Residency, Room, choose_placement};
use warpbook_record::{
    Grid, KernelSpec, MemoryLevel, Problem, Requires, Rung, Runner, Schedule, Tile, Traffic, kept_by_cache,
};

/// Default number of points in a run.
pub const STANDARD_POINTS: u64 = 5_000_000;
/// Numbers of points in the full sweep.
pub const SWEEP_POINTS: [u64; 7] = [100_000, 500_000, 1_000_000, 5_000_000, 10_000_000, 50_000_000, 200_000_000];
/// Number of epochs between two logged losses.
pub const LOG_EVERY: u64 = 10;
/// Number of streams used by the rung that splits its pass.
pub const STREAMS: u32 = 4;

/// Number of features in the full sweep's data set with several features.
pub const STANDARD_FEATURES: u64 = 16;
/// Largest number of features that any rung supports.
pub const MAX_FEATURES: u64 = 256;

/// The data that a rung moves during a descent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moves {
    /// The data is not counted, as for the rungs on the CPU.
    Uncounted,
    /// In every epoch, the inputs are read, and two intermediate arrays are written and read.
    Intermediates,
    /// The inputs are read in every epoch.
    Inputs,
    /// The inputs are read in every epoch, in alternating directions, so that each epoch begins with the points that are still on the chip.
    Alternating,
    /// The inputs are read from memory once; after that, every epoch reads them from registers and shared memory.
    OnChip,
    /// The inputs are read once; after that, only a few sums are needed.
    Once,
}

/// The structure of a descent: which kernels run, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// A descent on the CPU, with one thread or with all threads.
    Cpu {
        /// True if all threads are used.
        all_threads: bool,
    },
    /// Separate kernels for each operation of an epoch, with intermediate results in memory, followed by the update.
    Unfused,
    /// One pass per epoch followed by the update, launched as the schedule says.
    Fused,
    /// One cooperative launch whose blocks exchange their sums.
    Persistent,
    /// Points stay on the chip, where [`choose_placement`] puts them. There are kernels for the whole grid, for one cluster, and for points in memory.
    OnChip,
    /// A single pass that computes sufficient statistics, followed by a descent that uses only these.
    Statistics,
    /// Like [`Plan::Persistent`], but for points with several features.
    Multivariate,
}

impl Plan {
    /// Returns true if every epoch runs its own kernels, whether launched one by one or in a graph.
    #[must_use]
    pub const fn launches_each_epoch(self) -> bool {
        matches!(self, Self::Unfused | Self::Fused)
    }
}

/// A rung of the regression with all its properties.
#[derive(Debug, Clone, PartialEq)]
pub struct RegressionRow {
    /// The rung in the form used in records.
    pub rung: Rung,
    /// Structure of the descent.
    pub plan: Plan,
    /// The data that the rung moves.
    pub moves: Moves,
    /// True if the rung supports points with several features.
    pub several_features: bool,
    /// True if the parts of an epoch are also timed individually.
    pub timed_in_parts: bool,
}

impl RegressionRow {
    /// Returns the row marked so that the parts of an epoch are also timed individually.
    #[must_use]
    fn in_parts(self) -> Self {
        Self { timed_in_parts: true, ..self }
    }

    /// Returns the reason why the rung does not support a problem; `None` if it does.
    #[must_use]
    pub fn obstacle(&self, problem: &Problem) -> Option<String> {
        let several = features_of(problem) > 1 && !self.several_features;
        several.then(|| "takes points of one feature".into())
    }

    /// Returns the bytes that the rung moves at each memory level during a whole descent, and its number of operations if that differs from
    /// the problem's. `in_flight` is the number of points that all threads together have in registers at once.
    ///
    /// The bytes are counted, not measured: data that is read in every epoch is assumed to come from L2 if it fits into five eighths of L2,
    /// and from DRAM otherwise.
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
            // Each epoch reads x (twice), y, pred and err (twice), and writes pred and err: eight numbers per point. The four arrays together
            // are twice as large as the inputs.
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
                    // The loss and its sum are computed only in epochs whose loss is logged.
                    let flops = n * (6 * epochs + 2 * (epochs / LOG_EVERY));
                    (levels.into_iter().filter(|t| t.bytes > 0).collect(), Some(flops))
                }
                _ => (alternating(), None),
            },
            // There are seven operations for each of two sums, and ten for each of three products; see the kernel.
            Moves::Once => (vec![once], Some(n * 44)),
        }
    }
}

fn row(
    id: &'static str,
    title: &'static str,
    idea: &'static str,
    runner: Runner,
    plan: Plan,
    moves: Moves,
) -> RegressionRow {
    let requires = if matches!(runner, Runner::Cpu(_)) { Requires::Nothing } else { Requires::AtLeast(7, 5) };
    let rung = Rung { id: id.into(), title: title.into(), idea: idea.into(), requires, runner, variant_of: None };
    let several_features = matches!(plan, Plan::Cpu { .. } | Plan::Multivariate);
    RegressionRow { rung, plan, moves, several_features, timed_in_parts: false }
}

fn kernels(specs: Vec<KernelSpec>, schedule: Schedule) -> Runner {
    Runner::Kernels { specs, schedule }
}

/// Returns the rungs of the regression, in the ladder's order.
#[must_use]
pub fn rungs() -> Vec<Rung> {
    rows().into_iter().map(|r| r.rung).collect()
}

/// Returns the rows of the regression, in the ladder's order.
#[must_use]
pub fn rows() -> Vec<RegressionRow> {
    [on_cpu(), by_epochs(), resident_grids()].into_iter().flatten().collect()
}

fn on_cpu() -> Vec<RegressionRow> {
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

/// Returns the rungs with separate kernels for each epoch.
fn by_epochs() -> Vec<RegressionRow> {
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

fn on_hopper(mut row: RegressionRow) -> RegressionRow {
    row.rung.requires = Requires::AtLeast(9, 0);
    row
}

/// Returns the rungs in which one grid runs all epochs.
fn resident_grids() -> Vec<RegressionRow> {
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
                    pass(STATISTICS, "moments"),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn descent(points: u64, features: u64) -> Problem {
        let train_points = points / 5 * 4;
        let line = Line::default();
        Descent { points, train_points, features, epochs: 200, learning_rate: 0.01, noise: 0.1, seed: 1, line }
            .problem()
    }

    #[test]
    fn traffic_is_counted_where_the_points_are() {
        let problem = descent;
        let h200 = Room { multiprocessors: 132, shared_bytes_per_block: 232_448, cluster_blocks: 16, most_groups: 24 };
        let traffic = |rung: &str, p: &Problem, placement: Option<&Placement>| {
            let row = rows().into_iter().find(|r| r.rung.id == rung).unwrap();
            let (traffic, _) = row.traffic(p, Some(60 << 20), placement, 1_000_000);
            traffic.iter().map(|t| (t.level, t.bytes)).collect::<Vec<_>>()
        };
        let (small, large) = (problem(5_000_000, 1), problem(200_000_000, 1));
        assert_eq!(traffic("02_fused", &small, None), [(MemoryLevel::L2, 6_400_000_000)]);
        assert_eq!(traffic("02_fused", &large, None), [(MemoryLevel::Dram, 256_000_000_000)]);
        // The four arrays are twice as large as the inputs, and no longer fit into L2.
        assert_eq!(traffic("01_unfused", &small, None), [(MemoryLevel::Dram, 4 * 6_400_000_000)]);
        assert_eq!(traffic("07_sufficient_statistics", &large, None), [(MemoryLevel::Dram, 1_280_000_000)]);
        let kept = choose_placement(4_000_000, h200).0;
        let on_chip = traffic("06_on_chip", &small, Some(&kept));
        assert_eq!(on_chip[0], (MemoryLevel::L2, 32_000_000));
        assert_eq!(on_chip[1].1 + on_chip[2].1, 6_400_000_000);
        let wide = traffic("08_multivariate", &problem(5_000_000, 16), None);
        assert_eq!(wide[0], (MemoryLevel::Registers, 1_000_000 * 17 * 4 * 200));
        assert_eq!(wide[1], (MemoryLevel::L2, 3_000_000 * 17 * 4 * 200));
        assert!(wide[2].0 == MemoryLevel::Dram && wide[2].1 < wide[1].1, "{wide:?}");
        assert_eq!(traffic("cpu_1_thread", &small, None), []);
        // The traffic of every Warpbook rung on a GPU is counted.
        for rung in rungs().iter().filter(|r| r.requires != Requires::Nothing) {
            assert!(!traffic(&rung.id, &small, Some(&kept)).is_empty(), "{}", rung.id);
        }
    }
}
