//! The rungs of the fused linear regression, and the kernels beside them.

use crate::kernels::source;
use crate::rung::{Grid, KernelSpec, Requires, Rung, Runner, Schedule, Source, Tile};

/// The points of a run when none are asked for.
pub const STANDARD_POINTS: u64 = 5_000_000;
/// The sizes of the full sweep.
pub const SWEEP_POINTS: [u64; 7] = [100_000, 500_000, 1_000_000, 5_000_000, 10_000_000, 50_000_000, 200_000_000];
/// Weights before the first epoch: (w0, b0).
pub const INITIAL: (f32, f32) = (0.83, 0.7645);
/// The line that the data is drawn around: (w, b).
pub const TRUTH: (f32, f32) = (3.0, 2.0);
/// The loss is logged every so many epochs.
pub const LOG_EVERY: u64 = 10;
/// Streams of the rung that splits its pass.
pub const STREAMS: u32 = 4;

const UNFUSED: Source = source!("regression/01_unfused.cu");
const FUSED: Source = source!("regression/02_fused.cu");
const STAGED: Source = source!("regression/02b_fused_staged.cu");
const DATA: Source = source!("regression/data.cu");

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

/// One block that finishes the sums and takes the step.
fn update(source: Source) -> KernelSpec {
    KernelSpec::new(
        source,
        "update",
        &[Tile::new("t512", &[("THREADS", 512), ("ITEMS", 4), ("BLOCKS_PER_SM", 1)])],
        Grid::One,
    )
}

fn rung(id: &'static str, title: &'static str, idea: &'static str, runner: Runner) -> Rung {
    let requires = if matches!(runner, Runner::Cpu(_)) { Requires::Nothing } else { Requires::AtLeast(7, 5) };
    Rung { id: id.into(), title: title.into(), idea: idea.into(), requires, runner }
}

/// The rungs of the regression, in the ladder's order.
#[must_use]
pub fn rungs() -> Vec<Rung> {
    let kernels = |specs, schedule| Runner::Kernels { specs, schedule };
    let fused = || vec![pass(FUSED, "pass"), update(FUSED)];
    vec![
        rung(
            "cpu_1_thread",
            "CPU, one thread",
            "One vectorised loop over the points on one core.",
            Runner::Cpu("1 thread".into()),
        ),
        rung(
            "cpu_all_threads",
            "CPU, all threads",
            "The same loop over chunks of the points on every core, their sums added at the end.",
            Runner::Cpu("all threads".into()),
        ),
        rung(
            "01_unfused",
            "Unfused",
            "Forward, loss, both gradients and the update are kernels of their own and hand their results on through memory.",
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
        ),
        rung(
            "02_fused",
            "Fused",
            "One pass over x and y keeps prediction, error and all three sums in registers; a second kernel updates the weights.",
            kernels(fused(), Schedule::Launches),
        ),
        rung(
            "02b_fused_staged",
            "Fused, staged",
            "The fused pass copies x and y into shared memory before it uses them, once each.",
            kernels(vec![pass(STAGED, "pass"), update(STAGED)], Schedule::Launches),
        ),
        rung(
            "03_fused_streams",
            "Fused over streams",
            "The fused pass is cut into slices on four streams, which events join before each update.",
            kernels(fused(), Schedule::Streams(STREAMS)),
        ),
        rung(
            "04_fused_graph",
            "Fused in a graph",
            "All epochs of the fused kernels are captured once as a CUDA graph and replayed with a single launch.",
            kernels(fused(), Schedule::Graph),
        ),
        Rung {
            requires: Requires::AtLeast(9, 0),
            ..rung(
                "04b_fused_graph_overlapped",
                "Graph, launches overlapped",
                "In the same graph, each kernel starts while the last one ends and has its first points on the way before it waits for the weights.",
                kernels(fused(), Schedule::OverlappedGraph),
            )
        },
    ]
}

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
        ("only the reads", without(&["WITHOUT_LOSS", "WITHOUT_GRADIENTS", "WITHOUT_REDUCTION"])),
    ]
}

/// Fills x and y: see `kernels/regression/data.cu`.
#[must_use]
pub fn data_kernel() -> KernelSpec {
    KernelSpec::new(DATA, "points", &[Tile::new("t256", &[("THREADS", 256)])], Grid::Cover)
}
