//! Demand of a rung on the chip, counted from its tile, and the resulting forecast of its time.

use super::{cell, device, ladder_row, not_measured, rate_of, table, tile_of, title, valid};
use crate::figures;
use crate::prelude::*;
use warpbook_charts::Table;
use warpbook_kernels::matmul::Figure;
use warpbook_record::MemoryLevel;
use warpbook_record::Tile;

/// Number of lanes in a warp, and number of bytes that shared memory or L1 serves in one wavefront.
const LANES: f64 = 32.0;
const WAVEFRONT_BYTES: f64 = 128.0;

/// Demand of a rung on a multiprocessor for each multiply-add of a warp, counted from its source for a tile; a lower bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// Number of issued instructions, including the multiply-add; not counted on tensor cores.
    pub instructions: Option<f64>,
    /// Wavefronts of 128 bytes through shared memory, or through L1, which is the same memory.
    pub wavefronts: f64,
    /// True if the wavefronts go through L1 instead of shared memory.
    pub by_l1: bool,
}

/// Returns the demand of one of the project's own rungs; `None` for other rungs.
#[must_use]
pub fn demand(rung: &str, tile: &Tile, dtype: Dtype) -> Option<Demand> {
    use Figure::{
        ClusterOrder, ColumnAccess, DoubleBuffer, OverlappedStore, RegisterColumn, RegisterOperand, RegisterSquare,
        RowAccess, SharedTile, Specialisation, SplitK, Swizzle, VectorAccess, WarpTile, Warpgroup, WmmaFragments,
    };
    let figure = ladder_row(rung)?.figure?;
    let size = |name: &str| tile.get(name).map_or(1.0, |v| v as f64);
    let [bm, bn, tm, tn] = ["BM", "BN", "TM", "TN"].map(size);
    let terms = tm * tn;
    let on_cuda_cores = |reads: f64, wavefronts: f64, fetch: f64, stored: f64| Demand {
        instructions: Some(1.0 + reads / terms + fetch),
        wavefronts: wavefronts / terms + stored,
        by_l1: matches!(figure, RowAccess | ColumnAccess),
    };
    let on_tensor_cores = |rows: f64, columns: f64| {
        let bytes = dtype.bytes() as f64 * (1.0 / rows + 1.0 / columns);
        Demand { instructions: None, wavefronts: bytes * LANES / WAVEFRONT_BYTES, by_l1: false }
    };
    // Elements of A and of B that a block loads into shared memory for each multiply-add.
    let (of_a, of_b) = (1.0 / bn, 1.0 / bm);
    // A read of groups of four elements is served half a warp at a time. This returns the wavefronts of the different groups that a half-warp reads if `across`
    // of its threads are side by side.
    let fours = |across: f64| {
        let wavefront = |lanes: f64| (lanes * 4.0 / LANES).max(1.0);
        let across = across.min(LANES / 2.0);
        2.0 * (tm / 4.0 * wavefront(LANES / 2.0 / across) + tn / 4.0 * wavefront(across))
    };
    Some(match figure {
        // Each lane reads its own line of A, and all lanes read the same element of B.
        RowAccess => on_cuda_cores(2.0, bm.min(LANES) + 1.0, 0.0, 0.0),
        ColumnAccess => on_cuda_cores(2.0, 2.0, 0.0, 0.0),
        SharedTile | RegisterColumn | RegisterSquare => {
            on_cuda_cores(tm + tn, tm + tn, 2.0 * (of_a + of_b), of_a + of_b)
        }
        // A is transposed on its way into shared memory, so only its loads are in groups of four.
        VectorAccess | WarpTile => {
            let across = if figure == VectorAccess { bn / tn } else { size("WN") / tn };
            on_cuda_cores((tm + tn) / 4.0, fours(across), 1.25 * of_a + 0.5 * of_b, of_a + of_b)
        }
        DoubleBuffer => on_cuda_cores((tm + tn) / 4.0, fours(size("WN") / tn), of_a + 0.25 * of_b, of_a + of_b),
        // A warp reads its part of both tiles for each step of k.
        WmmaFragments | Swizzle => on_tensor_cores(size("WM"), size("WN")),
        // wgmma reads 64 rows of A and all columns of B.
        Warpgroup | Specialisation | ClusterOrder | OverlappedStore | SplitK => on_tensor_cores(64.0, bn),
        // The operands are exchanged: wgmma reads 64 columns of B from registers, and all rows of A.
        RegisterOperand => on_tensor_cores(bm, 64.0),
    })
}

/// Least time that a rung's demand on each part of the chip allows.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// Id of the tile that the demand is counted for.
    pub tile: String,
    /// Demand counted for this tile.
    pub demand: Demand,
    /// Each part of the chip with its least time in microseconds.
    pub parts: Vec<(&'static str, f64)>,
}

impl Forecast {
    /// Returns the part that takes longest, which is the bound.
    #[must_use]
    pub fn bound(&self) -> (&'static str, f64) {
        self.parts.iter().copied().fold(("nothing", 0.0), |most, part| if part.1 > most.1 { part } else { most })
    }
}

/// Returns the forecast from the measured ceilings and a rung's counts; `None` if ceilings are missing, or the rung's demand cannot be counted.
#[must_use]
pub fn forecast(run: &Run, problem: &Problem, id: &str) -> Option<Forecast> {
    let tile = tile_of(run, problem, id)?;
    let dtype = problem.dtype;
    let demand = demand(id, &tile, dtype)?;
    let flops = problem.flops as f64;
    // On CUDA cores, 16-bit numbers are multiplied in f32.
    let units = if demand.instructions.is_some() { Dtype::F32 } else { dtype };
    let peak =
        |of: Dtype| run.peaks.compute.iter().find(|p| p.dtype == of).map(|p| p.flops_per_s()).filter(|f| *f > 0.0);
    let bandwidth = |level| run.peaks.level(level).map(|p| p.bytes_per_s()).filter(|b| *b > 0.0);
    let arithmetic = flops / peak(units)? * 1e6;
    let mut parts = match demand.instructions {
        Some(n) => vec![("instructions", arithmetic * n)],
        None => vec![("tensor cores", arithmetic)],
    };
    let wavefronts = flops / 2.0 / LANES * demand.wavefronts;
    let shared = if demand.by_l1 { "L1" } else { "shared memory" };
    parts.extend(bandwidth(MemoryLevel::Shared).map(|b| (shared, wavefronts * WAVEFRONT_BYTES / b * 1e6)));
    // Data that stay in L2 from one product to the next need not come from memory.
    let kept = run.ceiling(problem).is_some_and(|c| c.level == MemoryLevel::L2);
    for t in ladder_row(id)?.traffic(&tile, problem).into_iter().filter(|t| t.level != MemoryLevel::Dram || !kept) {
        let name = t.level.label();
        parts.extend(bandwidth(t.level).map(|b| (name, t.bytes as f64 / b * 1e6)));
    }
    Some(Forecast { tile: tile.id.to_string(), demand, parts })
}

/// Returns the forecast in words.
#[must_use]
pub fn prediction(run: &Run, problem: &Problem, id: &str) -> String {
    let counted = |tile: &str, d: &Demand| {
        let instructions =
            d.instructions.map_or_else(String::new, |n| format!("{} instructions and ", figures::number(n)));
        let through = if d.by_l1 { "L1" } else { "shared memory" };
        format!(
            "{} with tile {tile}: {instructions}{} wavefronts of {through} for every 32 multiply-adds.",
            title(run, id),
            figures::number(d.wavefronts)
        )
    };
    let Some(f) = forecast(run, problem, id) else {
        let known = tile_of(run, problem, id).and_then(|t| Some((demand(id, &t, problem.dtype)?, t)));
        return known.map_or_else(
            || format!("{} has nothing to count.", title(run, id)),
            |(d, t)| {
                let counted = counted(&t.id, &d);
                format!("{counted} What that takes is not known here: the ceilings of a GPU were not measured.")
            },
        );
    };
    let parts: Vec<String> = f.parts.iter().map(|(name, us)| format!("{name} {}", figures::time(*us))).collect();
    let (by, us) = f.bound();
    format!(
        "Prediction for {}, {}. {} At least that takes: {}. The longest is the bound: {by}, so {} or more, {} at most.",
        device(run),
        problem.label,
        counted(&f.tile, &f.demand),
        parts.join(", "),
        figures::time(us),
        rate_of(problem, us)
    )
}

/// Says how long a rung took, and how much of that the forecast explains.
#[must_use]
pub fn outcome(run: &Run, problem: &Problem, id: &str) -> String {
    let Some((m, us)) = valid(run, id, problem).and_then(|m| Some((m, m.median_us()?))) else {
        return not_measured(run, problem, id);
    };
    let tile = m.tile.as_ref().map_or_else(String::new, |t| format!(" with tile {t}"));
    let measured = format!(
        "Measured on {}: {}{tile} took {}, {}",
        device(run),
        title(run, id),
        figures::time(us),
        rate_of(problem, us)
    );
    let Some((by, bound)) = forecast(run, problem, id).map(|f| f.bound()) else { return measured + "." };
    let share = figures::percent(bound / us);
    let (take, are) = if by.ends_with('s') { ("take", "they are") } else { ("takes", "it is") };
    let why = match bound / us {
        s if s >= 0.8 && by == MemoryLevel::L2.label() => format!(
            "Its {by} takes {share} of that by the count, which is no proof that it is the limit: L2 may answer several requests for the same \
             line at once."
        ),
        s if s > 1.03 => {
            format!(
                "That is less than was counted for its {by}: the chip does better there than the count gives it credit for."
            )
        }
        s if s >= 1.0 => format!(
            "Its {by} {take} {share} of that: by the count {are} the limit. The ceiling in the bound is what the lab's own kernel for it reached, \
             so another kernel can beat it slightly."
        ),
        s if s >= 0.8 => format!("Its {by} {take} {share} of that: by the count {are} the limit."),
        s if s >= 0.5 => {
            format!("Its {by} {take} {share} of that. Counting cannot explain the rest: look at the stall reasons.")
        }
        _ => format!(
            "Its {by} {take} no more than {share} of that: by the count none of the limits is near. Counting cannot explain the rest: look at the \
             stall reasons."
        ),
    };
    format!("{measured}. {why}")
}

/// Names the demand that a step of the ladder lowers most according to the count, and says whether the time falls accordingly.
#[must_use]
pub fn relieved(run: &Run, problem: &Problem, new: &str, old: &str) -> String {
    let (Some(now), Some(before)) = (forecast(run, problem, new), forecast(run, problem, old)) else {
        return format!("{} and {} have no counts to compare.", title(run, new), title(run, old));
    };
    let less = |(name, us): &(&'static str, f64)| {
        let was = before.parts.iter().find(|(n, _)| n == name)?.1;
        Some((*name, 1.0 - us / was))
    };
    let most = now.parts.iter().filter_map(less).max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((part, relief)) = most.filter(|(_, relief)| *relief > 0.01) else {
        return format!("By the count {} relieves nothing that {} asks for.", title(run, new), title(run, old));
    };
    let counted = format!(
        "By the count {} takes {} less of its {part} than {}",
        title(run, new),
        figures::percent(relief),
        title(run, old)
    );
    let us = |id: &str| valid(run, id, problem).and_then(|m| m.median_us());
    let Some((was, is)) = us(old).zip(us(new)) else {
        return format!("{counted}; their times were not both measured.");
    };
    let gain = 1.0 - is / was;
    let time = match gain {
        g if g >= 0.005 => format!("its time falls by {}", figures::percent(g)),
        g if g <= -0.005 => format!("its time grows by {}", figures::percent(-g)),
        _ => "its time stays the same".to_owned(),
    };
    let so = match gain / relief {
        r if r >= 0.7 => format!("as it would if {part} were what limits both"),
        r if r >= 0.3 => format!("so {part} is only a part of what limits them"),
        _ => format!("so {part} was not what limited {}, whatever share of its time the count has", title(run, old)),
    };
    format!("{counted}, and {time}: {so}.")
}

/// Returns a table of each rung's demand per 32 multiply-adds, the resulting bound, and the share of the rung's time that the bound explains.
#[must_use]
pub fn demands(run: &Run, problem: &Problem, ids: &[&str]) -> Table {
    let row = |id: &&str| {
        let us = valid(run, id, problem).and_then(|m| m.median_us());
        let asked = tile_of(run, problem, id).and_then(|t| demand(id, &t, problem.dtype));
        let bound = forecast(run, problem, id).map(|f| f.bound());
        vec![
            title(run, id),
            asked.and_then(|d| d.instructions).map(figures::number).unwrap_or_default(),
            asked.map(|d| figures::number(d.wavefronts)).unwrap_or_default(),
            bound.map_or("", |b| b.0).to_owned(),
            cell(bound.map(|b| b.1)),
            us.map_or_else(|| "not measured".into(), figures::time),
            bound.zip(us).map(|(b, us)| figures::percent(b.1 / us)).unwrap_or_default(),
        ]
    };
    table(
        &["rung", "instructions", "wavefronts", "bound by", "bound", "measured", "share"],
        ids.iter().map(row).collect(),
    )
}
