//! Sentences and tables about the matrix product: a rung's counted demand on the chip, its time, and the comparison with the libraries.

mod compare;
mod costs;
mod counters;
mod forecast;

pub use super::{
    Guesses, Together, WarpReads, against, at, balance, guessed, learn_at, mma_sync, mma_sync_ceiling, only,
    same_lines, shared_wavefronts, table, wgmma_counters, with, without, xray_or_why,
};
use super::{cell, valid, verdict};
use crate::figures;
use crate::prelude::*;
pub use compare::{by_type, checks, every_rung, last_word, ratios, relative_to_library, steps, the_line};
pub use costs::{attempts, copy_cost, store_cost, there_and_back, tile_ranges, waves, without_reuse};
pub use counters::{counters_of_factors, l2_of_rungs, sectors_of_rungs};
pub use forecast::{Demand, Forecast, demand, demands, forecast, outcome, prediction, relieved};
use warpbook_experiments::matmul::own_kernel;
use warpbook_gemm::Findings;
use warpbook_kernels::matmul::{self as catalogue, Row, SUM_PARTS_ENTRY, rows, rungs, shape_of, transposed};
use warpbook_record::{Measurement, Tile};

/// Rungs on CUDA cores, in the order of the ladder.
pub const CUDA_CORES: [&str; 8] = [
    "01_naive",
    "02_coalesced",
    "03_shared_tile",
    "04_register_1d",
    "05_register_2d",
    "06_vectorised",
    "07_warp_tile",
    "08_double_buffered",
];
/// Rungs on tensor cores, in the order of the ladder.
pub const TENSOR_CORES: [&str; 10] = [
    "09_wmma",
    "10_mma_swizzled",
    "11_wgmma_tma",
    "12_warp_specialised",
    "13_persistent_cluster",
    "14_overlapped_store",
    "15_split_k",
    "15b_small_tiles",
    "15c_transposed_product",
    "15d_split_over_workspace",
];
/// Id of the rung that exists only in tf32.
pub const TF32_RUNG: &str = "16_tf32_registers";
/// Ids of the rungs for rows of any alignment, which one of the published shapes has.
pub const UNALIGNED_RUNGS: [&str; 2] = ["17_unaligned", "17b_unaligned_in_parts"];
/// Id of the rung that splits the tiles of a partial wave along k. If all waves are full, it equals the rung with overlapped stores.
pub const STREAM_K_RUNG: &str = "18_stream_k";
/// Libraries on the GPU.
pub const LIBRARIES: [&str; 2] = ["cublas", "cublaslt"];

/// Returns `story` with the results of these rungs at a size, measured here; rungs with similar times are timed alternately. Without a GPU, returns `story`
/// unchanged.
///
/// # Errors
/// See [`learn_at`].
pub fn learn(lab: &Lab, story: &Run, problem: &Problem, ids: &[&str]) -> Result<Run> {
    match products(&[problem]) {
        Some(experiment) => learn_at(lab, story, &experiment.rungs(ids.iter().copied()).transfers(false)),
        None => Ok(story.clone()),
    }
}

/// Returns the experiment for one or more problems that have the same type and the same storage order.
fn products(problems: &[&Problem]) -> Option<Matmul> {
    let first = problems.first()?;
    let ((trans_a, trans_b), seed) = (transposed(first), first.count("seed")?);
    let shapes = problems.iter().filter_map(|p| shape_of(p));
    Some(Matmul::new().shapes(shapes).dtypes([first.dtype]).transposed(trans_a, trans_b).seed(seed))
}

/// Returns a rung's row in the table of the matrix product's rungs.
fn ladder_row(id: &str) -> Option<Row> {
    rows().into_iter().find(|r| r.rung.id == id)
}

/// Returns the product in another type.
#[must_use]
pub fn in_type(problem: &Problem, to: Dtype) -> Problem {
    again(problem, to, transposed(problem))
}

/// Returns the product in a type, with its factors stored transposed or not.
fn again(problem: &Problem, dtype: Dtype, stored: (bool, bool)) -> Problem {
    let shape = shape_of(problem).unwrap_or_default();
    catalogue::problem(shape, dtype, stored, problem.count("seed").unwrap_or(1))
}

/// Returns the product with B stored transposed, so that its elements along k are contiguous.
#[must_use]
pub fn along_k(problem: &Problem) -> Problem {
    again(problem, problem.dtype, (transposed(problem).0, true))
}

/// Returns the ladder's rung with this id; `None` if there is none.
fn ladder_rung(id: &str) -> Option<Rung> {
    rungs().into_iter().find(|r| r.id == id)
}

/// Returns a rung's title, even if a record does not have the rung yet.
fn title(run: &Run, id: &str) -> String {
    let known = run.rung(id).cloned().or_else(|| ladder_rung(id));
    known.map_or_else(|| id.to_owned(), |r| r.title.into_owned())
}

/// Returns the tile that a rung ran with. For a rung that was not measured yet, returns the tile that the cost model chooses for the record's device.
fn tile_of(run: &Run, problem: &Problem, id: &str) -> Option<Tile> {
    // A record has no entry for a rung that was not measured.
    let rung = run.rung(id).cloned().or_else(|| ladder_rung(id))?;
    let spec = rung.kernels().first()?;
    let ran = run.measurement(id, problem).and_then(|m| m.tile.as_deref()).and_then(|t| spec.tile(t));
    let chosen = || Matmul::new().tile_by_costs(&rung, problem, &run.environment.device, &Findings::default());
    ran.or_else(|| spec.tile(&chosen()?)).or(spec.tiles.first()).cloned()
}

fn rate_of(problem: &Problem, us: f64) -> String {
    figures::rate(problem.flops as f64 / us * 1e6)
}

fn device(run: &Run) -> &str {
    &run.environment.device.name
}

fn not_measured(run: &Run, problem: &Problem, id: &str) -> String {
    use warpbook_record::Outcome::{Failed, Skipped};
    let why = match run.measurement(id, problem).map(|m| &m.outcome) {
        Some(Skipped { why }) => format!(": {}", why.trim_end_matches('.')),
        Some(Failed { error }) => format!(", it failed: {}", error.trim_end_matches('.')),
        _ => String::new(),
    };
    format!("{} was not measured at {}{why}.", title(run, id), problem.label)
}

/// Says what a step of the ladder gains at a size, taking the noise into account.
#[must_use]
pub fn step(run: &Run, problem: &Problem, new: &str, old: &str) -> String {
    against(&at(run, problem), new, old)
}

/// Returns the number of parts into which k is divided. The blocks of each part write their sums to the workspace.
fn k_splits(m: &Measurement) -> u64 {
    let added = m.kernels.iter().any(|k| k.entry == SUM_PARTS_ENTRY);
    own_kernel(m).and_then(|k| k.grid).filter(|_| added).map_or(1, |grid| grid[1].into())
}

/// Returns the product with nothing transposed.
fn plain(problem: &Problem) -> Problem {
    again(problem, problem.dtype, (false, false))
}

#[cfg(test)]
mod tests;
