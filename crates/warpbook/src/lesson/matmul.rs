//! The same of the matrix product: what a rung asks of the chip, counted; what it took; and how it compares with the libraries.

pub use super::{against, at, balance, learn_at, only, table, with, without};
use super::{cell, valid, verdict};
use crate::prelude::*;
use crate::{charts::Table, figures};
use warpbook_kernels::matmul::{self as catalogue, Row, rows, rungs, shape_of, transposed};
use warpbook_record::{DeviceKind, Dim, KernelStats, Measurement, Part, Tile};

/// Lanes of a warp, and the bytes that shared memory or L1 serves in one wavefront.
const LANES: f64 = 32.0;
const WAVEFRONT_BYTES: f64 = 128.0;

/// The rungs on CUDA cores, and those on tensor cores.
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
/// As [`CUDA_CORES`].
pub const TENSOR_CORES: [&str; 8] = [
    "09_wmma",
    "10_mma_swizzled",
    "11_wgmma_tma",
    "12_warp_specialised",
    "13_persistent_cluster",
    "14_overlapped_store",
    "15_split_k",
    "15b_small_tiles",
];
/// The rung that only tf32 has.
pub const TF32_RUNG: &str = "16_tf32_registers";
/// The libraries on the GPU.
pub const LIBRARIES: [&str; 2] = ["cublas", "cublaslt"];

/// `story`, and with it what these rungs give at a size, timed in turn where they are close; without a GPU it stays as it is.
pub fn learn(lab: &Lab, story: &Run, problem: &Problem, ids: &[&str]) -> Result<Run> {
    match products(&[problem]) {
        Some(experiment) => learn_at(lab, story, &experiment.rungs(ids.iter().copied()).transfers(false)),
        None => Ok(story.clone()),
    }
}

/// The experiment of one or more problems that share their type and how they are stored.
fn products(problems: &[&Problem]) -> Option<Matmul> {
    let first = problems.first()?;
    let ((trans_a, trans_b), seed) = (transposed(first), first.count("seed")?);
    let shapes = problems.iter().filter_map(|p| shape_of(p));
    Some(Matmul::new().shapes(shapes).dtypes([first.dtype]).transposed(trans_a, trans_b).seed(seed))
}

/// The row of a rung of the matrix product.
fn row_of(id: &str) -> Option<Row> {
    rows().into_iter().find(|r| r.rung.id == id)
}

/// The same product in another type.
#[must_use]
pub fn in_type(problem: &Problem, to: Dtype) -> Problem {
    again(problem, to, transposed(problem))
}

/// The same product in a type, stored so.
fn again(problem: &Problem, dtype: Dtype, stored: (bool, bool)) -> Problem {
    let shape = shape_of(problem).unwrap_or_default();
    catalogue::problem(shape, dtype, stored, problem.count("seed").unwrap_or(1))
}

/// The same product with B stored transposed, so that it lies along k.
#[must_use]
pub fn along_k(problem: &Problem) -> Problem {
    again(problem, problem.dtype, (transposed(problem).0, true))
}

/// What a rung asks of a multiprocessor for each multiply-add of a warp, counted from its source for a tile: at least so much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// Instructions that are issued, the multiply-add among them; on tensor cores they do not count.
    pub instructions: Option<f64>,
    /// Wavefronts of 128 bytes through shared memory, or through L1, which is the same memory.
    pub wavefronts: f64,
    /// Whether they are L1's.
    pub by_l1: bool,
}

/// What a rung asks, where it is one of ours.
#[must_use]
pub fn demand(rung: &str, tile: &Tile, dtype: Dtype) -> Option<Demand> {
    let size = |name: &str| tile.get(name).map_or(1.0, |v| v as f64);
    let [bm, bn, tm, tn] = ["BM", "BN", "TM", "TN"].map(size);
    let terms = tm * tn;
    let on_cuda_cores = |reads: f64, wavefronts: f64, fetch: f64, stored: f64| Demand {
        instructions: Some(1.0 + reads / terms + fetch),
        wavefronts: wavefronts / terms + stored,
        by_l1: matches!(rung, "01_naive" | "02_coalesced"),
    };
    // Numbers of A and of B that a block brings into shared memory for each multiply-add.
    let (of_a, of_b) = (1.0 / bn, 1.0 / bm);
    // Different fours that the lanes of a warp read, in wavefronts: those that lie `across` side by side, the others above.
    let fours = |across: f64| {
        let wavefront = |lanes: f64| (lanes * 4.0 / LANES).max(1.0);
        tm / 4.0 * wavefront(LANES / across) + tn / 4.0 * wavefront(across)
    };
    Some(match rung {
        // Each lane its own line of A, and all lanes the same number of B.
        "01_naive" => on_cuda_cores(2.0, bm.min(LANES) + 1.0, 0.0, 0.0),
        "02_coalesced" => on_cuda_cores(2.0, 2.0, 0.0, 0.0),
        "03_shared_tile" | "04_register_1d" | "05_register_2d" => {
            on_cuda_cores(tm + tn, tm + tn, 2.0 * (of_a + of_b), of_a + of_b)
        }
        // Of A, which is turned on the way, only the loads are in fours.
        "06_vectorised" | "07_warp_tile" => {
            let across = if rung == "06_vectorised" { bn / tn } else { size("WN") / tn };
            on_cuda_cores((tm + tn) / 4.0, fours(across.min(LANES)), 1.25 * of_a + 0.5 * of_b, of_a + of_b)
        }
        "08_double_buffered" => on_cuda_cores((tm + tn) / 4.0, fours(size("WN") / tn), of_a + 0.25 * of_b, of_a + of_b),
        _ => {
            // A warp reads its part of both tiles for each step of k; wgmma reads 64 rows of A and all columns of B.
            let (rows, columns) = match rung {
                "09_wmma" | "10_mma_swizzled" => (size("WM"), size("WN")),
                // The other way round: 64 columns of B by way of registers, and all rows of A.
                TF32_RUNG => (bm, 64.0),
                _ => (64.0, bn),
            };
            row_of(rung)?.capabilities()?;
            let bytes = dtype.bytes() as f64 * (1.0 / rows + 1.0 / columns);
            Demand { instructions: None, wavefronts: bytes * LANES / WAVEFRONT_BYTES, by_l1: false }
        }
    })
}

/// The least time that what a rung asks of each part of the chip allows.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// The id of the tile that it was counted for.
    pub tile: String,
    /// What was counted.
    pub demand: Demand,
    /// Each part of the chip with its least time in microseconds.
    pub parts: Vec<(&'static str, f64)>,
}

impl Forecast {
    /// The part that takes longest, which is the bound.
    #[must_use]
    pub fn bound(&self) -> (&'static str, f64) {
        self.parts.iter().copied().fold(("nothing", 0.0), |most, part| if part.1 > most.1 { part } else { most })
    }
}

/// A rung as the ladder has it.
fn ladder_rung(id: &str) -> Option<Rung> {
    rungs().into_iter().find(|r| r.id == id)
}

/// A rung's title, also where a record does not have it yet.
fn title(run: &Run, id: &str) -> String {
    let known = run.rung(id).cloned().or_else(|| ladder_rung(id));
    known.map_or_else(|| id.to_owned(), |r| r.title.into_owned())
}

/// The tile that a rung ran with, or its first.
fn tile_of(run: &Run, problem: &Problem, id: &str) -> Option<Tile> {
    // Before it was measured a record does not know a rung.
    let rung = run.rung(id).cloned().or_else(|| ladder_rung(id))?;
    let spec = rung.kernels().first()?;
    let ran = run.measurement(id, problem).and_then(|m| m.tile.as_deref()).and_then(|t| spec.tile(t));
    ran.or(spec.tiles.first()).cloned()
}

/// What the measured ceilings and a rung's counts predict; `None` where ceilings are missing, or the rung has nothing to count.
#[must_use]
pub fn forecast(run: &Run, problem: &Problem, id: &str) -> Option<Forecast> {
    let tile = tile_of(run, problem, id)?;
    let dtype = problem.dtype;
    let demand = demand(id, &tile, dtype)?;
    let flops = problem.flops as f64;
    // 16-bit numbers are multiplied in f32 there.
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
    // What stays in L2 from one product to the next need not come from memory.
    let kept = run.ceiling(problem).is_some_and(|c| c.level == MemoryLevel::L2);
    for t in row_of(id)?.traffic(&tile, problem).into_iter().filter(|t| t.level != MemoryLevel::Dram || !kept) {
        let name = t.level.label();
        parts.extend(bandwidth(t.level).map(|b| (name, t.bytes as f64 / b * 1e6)));
    }
    Some(Forecast { tile: tile.id.to_string(), demand, parts })
}

fn rate_of(problem: &Problem, us: f64) -> String {
    figures::rate(problem.flops as f64 / us * 1e6)
}

fn device(run: &Run) -> &str {
    &run.environment.device.name
}

/// The forecast in words.
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

/// What a rung took, and how much of that the forecast explains.
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
        s if s > 1.03 => {
            format!(
                "That is less than was counted for its {by}: the chip does better there than the count gives it credit for."
            )
        }
        s if s >= 0.8 => format!("Its {by} {take} {share} of that: {are} what bounds it."),
        s if s >= 0.5 => format!("Its {by} {take} {share} of that; the rest is waiting, which the counts do not know."),
        _ => format!(
            "Its {by} {take} no more than {share} of that: most of the time it waits, for answers under way or at barriers."
        ),
    };
    format!("{measured}. {why}")
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

/// What a step of the ladder brought at a size, in words that know their noise.
#[must_use]
pub fn step(run: &Run, problem: &Problem, new: &str, old: &str) -> String {
    against(&at(run, problem), new, old)
}

/// Every step of a way up the ladder: what it brought over the last, and over the first.
#[must_use]
pub fn steps(run: &Run, problem: &Problem, ids: &[&str]) -> Table {
    let (mut first, mut last) = (None::<&Measurement>, None::<&Measurement>);
    let mut rows = Vec::new();
    for id in ids {
        let m = valid(run, id, problem);
        let us = m.and_then(Measurement::median_us);
        let over = first.and_then(Measurement::median_us).zip(us).map(|(was, now)| figures::times(was / now));
        rows.push(vec![
            title(run, id),
            us.map_or_else(|| "not measured".into(), figures::time),
            us.map(|us| rate_of(problem, us)).unwrap_or_default(),
            last.zip(m).map(|(old, new)| verdict(new, old)).unwrap_or_default(),
            over.unwrap_or_default(),
        ]);
        (first, last) = (first.or(m), m.or(last));
    }
    table(&["rung", "time", "rate", "against the last", "as fast as the first"], rows)
}

/// The line that rungs are held against: what the libraries do, and how near the measured ceiling that is.
#[must_use]
pub fn the_line(run: &Run, problem: &Problem) -> String {
    let each: Vec<String> = LIBRARIES
        .iter()
        .filter_map(|id| Some((title(run, id), valid(run, id, problem)?.median_us()?)))
        .map(|(name, us)| format!("{name} {}", rate_of(problem, us)))
        .collect();
    let Some((best, us)) = run.fastest_library(problem) else {
        return format!("No library was measured at {}, so there is no line to hold rungs against.", problem.label);
    };
    let share = run.arithmetic(problem).map(|p| problem.flops as f64 / us * 1e6 / p.flops_per_s());
    format!(
        "On {}, {}: {}. The line is {}{}.",
        device(run),
        problem.label,
        each.join(", "),
        title(run, &best.rung),
        share.map_or_else(String::new, |s| format!(", at {} of the measured arithmetic", figures::percent(s)))
    )
}

/// How the fastest of these rungs compares with the faster library.
#[must_use]
pub fn relative_to_library(run: &Run, problem: &Problem) -> String {
    let (Some((mine, us)), Some((theirs, line))) = (run.fastest_kernels(problem), run.fastest_library(problem)) else {
        return format!("Rungs and libraries were not both measured at {}.", problem.label);
    };
    let compared = match line / us {
        r if (0.99..=1.01).contains(&r) => "as fast as".to_owned(),
        r => format!("{} as fast as", figures::times(r)),
    };
    format!(
        "On {}, {}: {} with {} is {compared} {} with {}.",
        device(run),
        problem.label,
        title(run, &mine.rung),
        rate_of(problem, us),
        title(run, &theirs.rung),
        rate_of(problem, line)
    )
}

/// What a kernel of ours takes of a multiprocessor; the copies before it come first in a measurement.
fn own_kernel(m: &Measurement) -> Option<&KernelStats> {
    m.kernels.last()
}

/// Every rung on the GPU at a size: rate, shares, and what it takes of a multiprocessor.
#[must_use]
pub fn every_rung(run: &Run, problem: &Problem) -> Table {
    let peak = run.arithmetic(problem).map(|p| p.flops_per_s());
    let line = run.fastest_library(problem).map(|(_, us)| us);
    let mut rows = Vec::new();
    for row in run.ladder(problem) {
        let m = row.measurement;
        if row.rung.is_none_or(Rung::is_cpu) {
            continue;
        }
        let us = m.median_us().filter(|_| m.is_valid());
        let kernel = own_kernel(m);
        let shared = kernel.map(|k| u64::from(k.static_shared_bytes) + u64::from(k.dynamic_shared_bytes));
        rows.push(vec![
            title(run, &m.rung),
            m.tile.clone().unwrap_or_default(),
            us.map_or_else(|| "not measured".into(), |us| rate_of(problem, us)),
            us.zip(peak).map(|(us, p)| figures::percent(problem.flops as f64 / us * 1e6 / p)).unwrap_or_default(),
            us.zip(line).map(|(us, l)| figures::times(l / us)).unwrap_or_default(),
            kernel.map(|k| k.registers.to_string()).unwrap_or_default(),
            shared.map(figures::bytes).unwrap_or_default(),
            kernel.and_then(|k| k.blocks_per_multiprocessor).map(|b| b.to_string()).unwrap_or_default(),
        ]);
    }
    let headers = [
        "rung",
        "tile",
        "rate",
        "of the ceiling",
        "of the library",
        "registers",
        "shared memory a block",
        "blocks an SM",
    ];
    table(&headers, rows)
}

/// What each rung asks for every 32 multiply-adds, what bounds it by that, and how much of its time that explains.
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

/// What would come of it if nothing were used twice.
#[must_use]
pub fn without_reuse(run: &Run, problem: &Problem) -> String {
    let (Some((m, n, _)), Some(memory)) = (shape_of(problem), run.peaks.level(MemoryLevel::Dram)) else {
        return "The bandwidth of memory was not measured, so there is nothing to compute.".into();
    };
    let rate = memory.bytes_per_s() / (2 * problem.dtype.bytes()) as f64 * 2.0;
    let share = run.arithmetic(problem).map_or_else(String::new, |p| {
        format!(", {} of what its arithmetic can do", figures::percent(rate / p.flops_per_s()))
    });
    format!(
        "If every multiply-add fetched its two numbers from memory, {} would do {} at most{share}. But each number of A is needed {n} \
         times, and each of B {m} times.",
        device(run),
        figures::rate(rate)
    )
}

/// How many tiles a rung makes of C, and how well they fill the multiprocessors.
#[must_use]
pub fn waves(run: &Run, problem: &Problem, id: &str) -> String {
    let (Some((m, n, _)), Some(tile)) = (shape_of(problem), tile_of(run, problem, id)) else {
        return format!("{} has no tiles to count.", title(run, id));
    };
    let sms = u64::from(run.environment.device.multiprocessors).max(1);
    let (bm, bn, split) = (tile.size(Dim::Bm), tile.size(Dim::Bn), tile.size(Dim::Split));
    let resident = run.measurement(id, problem).and_then(own_kernel).and_then(|k| k.blocks_per_multiprocessor);
    let each = u64::from(resident.unwrap_or(1)).max(1);
    let blocks = m.div_ceil(bm) * n.div_ceil(bn) * split;
    let shared = if split > 1 { format!(", each by {split} blocks") } else { String::new() };
    let tiles = format!(
        "{} with tile {}, {}: {} tiles of {bm} × {bn}{shared}.",
        title(run, id),
        tile.id,
        problem.label,
        blocks / split
    );
    if run.environment.device.kind != DeviceKind::Cuda {
        return format!("{tiles} How well they fill a GPU depends on how many SMs it has.");
    }
    let filled = if blocks <= sms {
        format!("{} of them have work", figures::percent(blocks as f64 / sms as f64))
    } else {
        let rounds = blocks.div_ceil(sms * each);
        let filled = figures::percent(blocks as f64 / (rounds * sms * each) as f64);
        format!("{}, filled to {filled}", figures::counted(rounds as usize, "round"))
    };
    let room = if each == 1 { "one block".to_owned() } else { format!("{each} blocks") };
    format!("{tiles} {} has {sms} SMs, with {room} at a time on each: {filled}.", device(run))
}

/// What writing C takes, which a rung can hide behind the multiplications or not.
#[must_use]
pub fn store_cost(run: &Run, problem: &Problem) -> String {
    let (Some((m, n, _)), Some(memory)) = (shape_of(problem), run.peaks.level(MemoryLevel::Dram)) else {
        return "The bandwidth of memory was not measured, so there is nothing to compute.".into();
    };
    let bytes = m * n * problem.dtype.bytes();
    let us = bytes as f64 / memory.bytes_per_s() * 1e6;
    let work = run.arithmetic(problem).map_or_else(String::new, |p| {
        let work = problem.flops as f64 / p.flops_per_s() * 1e6;
        format!(
            ", where the multiplications take at least {}: {} more if none of it is hidden",
            figures::time(work),
            figures::percent(us / work)
        )
    });
    format!(
        "{}: C has {}; writing it takes {} on {}{work}.",
        problem.label,
        figures::bytes(bytes),
        figures::time(us),
        device(run)
    )
}

/// The best and the worst tile of each of these rungs.
#[must_use]
pub fn tile_ranges(run: &Run, problem: &Problem, ids: &[&str]) -> Vec<String> {
    let said: Vec<String> = ids.iter().filter_map(|id| tile_range(run, problem, id)).collect();
    if said.is_empty() { vec![format!("Tiles were not tried here at {}.", problem.label)] } else { said }
}

fn tile_range(run: &Run, problem: &Problem, id: &str) -> Option<String> {
    let spans = run.parts_of(id, problem, PartGroup::Tile);
    let times: Vec<(&str, f64)> = spans.iter().filter_map(|s| Some((s.name.as_str(), s.median_us()?))).collect();
    let best = times.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let worst = times.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!(
        "{}: of {} tiles {} is the fastest with {}; {} takes {} the time.",
        title(run, id),
        times.len(),
        best.0,
        figures::time(best.1),
        worst.0,
        figures::times(worst.1 / best.1)
    ))
}

/// What a result costs when it is wanted on the host, for the fastest rung whose copies both ways were timed.
#[must_use]
pub fn there_and_back(run: &Run, problem: &Problem) -> String {
    let copies: Vec<&Part> =
        run.parts.iter().filter(|p| p.problem == *problem && p.group == PartGroup::Transfer).collect();
    let of = |name: &str| copies.iter().find(|s| s.name == name).and_then(|s| s.median_us());
    let (Some(there), Some((best, work)), Some(back)) =
        (of("to the device"), run.fastest_kernels(problem), of("to the host"))
    else {
        return format!("Copies to the device and back were not timed at {}.", problem.label);
    };
    let name = title(run, &best.rung);
    let whole = there + work + back;
    format!(
        "{name} on {}, {}: {} for A and B to the device, {} for the product, {} for C to the host. The product is {} of that; \
         seen from the host, {} become {}.",
        device(run),
        problem.label,
        figures::time(there),
        figures::time(work),
        figures::time(back),
        figures::percent(work / whole),
        rate_of(problem, work),
        rate_of(problem, whole)
    )
}

/// Every rung's error and its tolerance.
#[must_use]
pub fn checks(run: &Run, problem: &Problem) -> Table {
    let rows = run.ladder(problem).into_iter().filter_map(|row| {
        let check = row.measurement.check.as_ref()?;
        Some(vec![
            title(run, &row.measurement.rung),
            format!("{:.1e}", check.max_rel_error),
            format!("{:.1e}", check.tolerance),
            if check.passed { "passed" } else { "FAILED" }.to_owned(),
        ])
    });
    table(&["rung", "largest relative error", "tolerance", "check"], rows.collect())
}

/// The problems of a record with these sizes, in the order of `dtypes`, nothing transposed.
fn in_types(run: &Run, problem: &Problem, dtypes: &[Dtype]) -> Vec<Problem> {
    let known = run.problems();
    dtypes.iter().map(|d| in_type(problem, *d)).filter(|p| known.contains(&p)).collect()
}

/// The types side by side at one shape: ceiling, library, the best of ours, and its error.
#[must_use]
pub fn by_type(run: &Run, problem: &Problem, dtypes: &[Dtype]) -> Table {
    let row = |p: &Problem| {
        let (mine, line) = (run.fastest_kernels(p), run.fastest_library(p));
        let error = mine.and_then(|(m, _)| m.check.as_ref()).map(|c| format!("{:.1e}", c.max_rel_error));
        vec![
            p.dtype.label().to_owned(),
            run.arithmetic(p).map(|c| figures::rate(c.flops_per_s())).unwrap_or_default(),
            line.map(|(_, us)| rate_of(p, us)).unwrap_or_default(),
            mine.map_or_else(|| "not measured".into(), |(_, us)| rate_of(p, us)),
            mine.map(|(m, _)| title(run, &m.rung)).unwrap_or_default(),
            mine.zip(line).map(|(m, l)| figures::times(l.1 / m.1)).unwrap_or_default(),
            error.unwrap_or_default(),
        ]
    };
    let headers = ["type", "ceiling", "library", "best of ours", "by", "of the library", "its largest relative error"];
    table(&headers, in_types(run, problem, dtypes).iter().map(row).collect())
}

/// The best of ours over the faster library, shape by shape and type by type.
#[must_use]
pub fn ratios(run: &Run, dtypes: &[Dtype]) -> Table {
    let mut headers = vec!["shape".to_owned()];
    headers.extend(dtypes.iter().map(|d| d.label().to_owned()));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for p in run.problems().into_iter().filter(|p| **p == plain(p)) {
        let Some(column) = dtypes.iter().position(|k| *k == p.dtype) else { continue };
        let shape = p.short.clone();
        let at = rows.iter().position(|r| r[0] == shape).unwrap_or_else(|| {
            let mut row = vec![String::new(); headers.len()];
            row[0] = shape;
            rows.push(row);
            rows.len() - 1
        });
        rows[at][column + 1] =
            run.fastest_kernels(p).zip(run.fastest_library(p)).map_or_else(String::new, |((m, us), (_, line))| {
                format!("{} ({})", figures::times(line / us), title(run, &m.rung))
            });
    }
    Table { headers, rows }
}

/// The same product with nothing transposed.
fn plain(problem: &Problem) -> Problem {
    again(problem, problem.dtype, (false, false))
}

/// What a rung's copy of B costs, where it has to turn it first: by its bytes, and against B stored along k.
#[must_use]
pub fn copy_cost(run: &Run, problem: &Problem, id: &str) -> String {
    let (Some(m), Some((_, n, k))) = (valid(run, id, problem), shape_of(problem)) else {
        return not_measured(run, problem, id);
    };
    let us = m.median_us().unwrap_or(f64::NAN);
    let Some(choice) = &m.choice else {
        return format!("{} copies nothing at {}.", title(run, id), problem.label);
    };
    let bytes = 2 * n * k * problem.dtype.bytes();
    let least = run.peaks.ceiling(bytes, run.environment.device.l2_bytes).map_or_else(String::new, |c| {
        let copy = bytes as f64 / c.bytes_per_s() * 1e6;
        format!(
            " Reading and writing B, {} in all, takes at least {}, {} of its {}.",
            figures::bytes(bytes),
            figures::time(copy),
            figures::percent(copy / us),
            figures::time(us)
        )
    });
    let turned = match valid(run, id, &along_k(problem)).and_then(Measurement::median_us) {
        Some(without) => format!(
            " With B stored along k it takes {}: the copy costs {}.",
            figures::time(without),
            figures::percent((us - without) / without)
        ),
        None => " With B stored along k it was not measured here.".into(),
    };
    format!("{} on {}, {}: {choice}{least}{turned}", title(run, id), device(run), problem.label)
}

/// The last word on a way up the ladder.
#[must_use]
pub fn last_word(run: &Run, problem: &Problem, ids: &[&str]) -> String {
    let all: Vec<(String, f64)> =
        ids.iter().filter_map(|id| Some((title(run, id), valid(run, id, problem)?.median_us()?))).collect();
    let (Some(first), Some(best)) = (all.first(), all.iter().min_by(|a, b| a.1.total_cmp(&b.1))) else {
        return format!("No rung was measured at {}.", problem.label);
    };
    let peak = run.arithmetic(problem).map(|p| problem.flops as f64 / best.1 * 1e6 / p.flops_per_s());
    format!(
        "On {}, {}: the fastest is {} with {}, {} as fast as {}{}.",
        device(run),
        problem.label,
        best.0,
        rate_of(problem, best.1),
        figures::times(first.1 / best.1),
        first.0,
        peak.map_or_else(String::new, |s| format!(", and at {} of the measured ceiling", figures::percent(s)))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_device::testing;
    use warpbook_record::{Check, ComputePeak, Outcome};

    /// The ladder on an H200, with what was measured of it still to come.
    fn empty() -> Run {
        let here = testing::manifest_dir(env!("CARGO_MANIFEST_DIR"));
        let mut run = read_record(here.join("../../data/results/regression-h200.json")).unwrap();
        run.rungs = rungs();
        (run.measurements, run.parts, run.train_logs) = (Vec::new(), Vec::new(), Vec::new());
        for (dtype, rate) in [(Dtype::Tf32, 4e14), (Dtype::F16, 8e14), (Dtype::Bf16, 8e14)] {
            let (flops, samples_us) = (1 << 40, vec![(1u64 << 40) as f64 / rate * 1e6]);
            let peak = ComputePeak { dtype, method: String::new(), flops, samples_us, datasheet_flops_per_s: None };
            run.peaks.compute.push(peak);
        }
        run
    }

    fn cube(edge: u64, dtype: Dtype) -> Problem {
        Matmul::new().shapes([(edge, edge, edge)]).dtypes([dtype]).problems().remove(0)
    }

    fn put(run: &mut Run, problem: &Problem, id: &str, us: f64) {
        let mut m = Measurement::without_samples(id, problem.clone(), Outcome::Measured);
        m.set_samples(vec![us * 0.999, us, us * 1.001], Vec::new());
        m.check = Some(Check::compare("f64", &[(1.0, 1.0)], 1.0, 1e-3));
        run.measurements.push(m);
    }

    #[test]
    fn a_rung_s_counts_follow_from_its_tile() {
        let check = |id: &str, dtype, instructions: Option<f64>, wavefronts: f64| {
            let all = rungs();
            let tile = &all.iter().find(|r| r.id == id).unwrap().kernels()[0].tiles[0];
            let d = demand(id, tile, dtype).unwrap();
            let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
            assert!(near(d.wavefronts, wavefronts), "{id}: {d:?}");
            assert!(near(d.instructions.unwrap_or(0.0), instructions.unwrap_or(0.0)), "{id}: {d:?}");
            assert_eq!(d.instructions.is_some(), instructions.is_some(), "{id}");
        };
        check("01_naive", Dtype::F32, Some(3.0), 33.0);
        check("02_coalesced", Dtype::F32, Some(3.0), 2.0);
        check("03_shared_tile", Dtype::F32, Some(3.125), 2.0625);
        check("04_register_1d", Dtype::F32, Some(1.0 + 9.0 / 8.0 + 4.0 / 64.0), 9.0 / 8.0 + 2.0 / 64.0);
        check("05_register_2d", Dtype::F32, Some(1.25 + 4.0 / 128.0), 0.25 + 2.0 / 128.0);
        check(TF32_RUNG, Dtype::Tf32, None, 1.0 / 256.0 + 1.0 / 64.0);
        // A quarter of the reads; of A a warp reads two fours, of B sixteen, which are two wavefronts.
        check("06_vectorised", Dtype::F32, Some(1.0625 + 1.75 / 128.0), 6.0 / 64.0 + 2.0 / 128.0);
        check("07_warp_tile", Dtype::F32, Some(1.0625 + 1.75 / 128.0), 4.0 / 64.0 + 2.0 / 128.0);
        check("10_mma_swizzled", Dtype::Bf16, None, 2.0 * (1.0 / 64.0 + 1.0 / 64.0) / 4.0);
        check("14_overlapped_store", Dtype::Bf16, None, 2.0 * (1.0 / 64.0 + 1.0 / 256.0) / 4.0);
        let tile = Tile::new("", &[]);
        assert_eq!(demand("cublas", &tile, Dtype::F32), None);
        assert_eq!(demand("cpu_naive", &tile, Dtype::F32), None);
    }

    #[test]
    fn every_rung_of_ours_has_a_forecast_by_its_own_bound() {
        let run = empty();
        let check = |id: &str, dtype, by: &str| {
            let f = forecast(&run, &cube(4096, dtype), id).unwrap();
            assert_eq!(f.bound().0, by, "{id}: {f:?}");
        };
        check("01_naive", Dtype::F32, "L1");
        check("02_coalesced", Dtype::F32, "L1");
        check("03_shared_tile", Dtype::F32, "shared memory");
        check("04_register_1d", Dtype::F32, "shared memory");
        for id in &CUDA_CORES[4..] {
            check(id, Dtype::F32, "instructions");
        }
        // 128 x 128 asks L2 for more than it gives while tensor cores work; 128 x 256 in clusters does not.
        check("09_wmma", Dtype::Bf16, "L2");
        check("14_overlapped_store", Dtype::Bf16, "tensor cores");
        let all: Vec<&str> = CUDA_CORES.into_iter().chain(TENSOR_CORES).chain([TF32_RUNG]).chain(LIBRARIES).collect();
        assert!(rungs().iter().all(|r| r.id.starts_with("cpu") || all.contains(&&*r.id)));
        assert!(prediction(&run, &cube(4096, Dtype::F32), "03_shared_tile").contains("the bound: shared memory, so "));
        // Also before the record has it.
        let early = Run { rungs: Vec::new(), ..run.clone() };
        assert!(
            prediction(&early, &cube(4096, Dtype::F32), "03_shared_tile").contains("Shared tiles with tile 32x32x32")
        );
        // A small product is not read from memory.
        let parts = |edge| forecast(&run, &cube(edge, Dtype::F32), "03_shared_tile").unwrap().parts;
        assert!(parts(4096).iter().any(|p| p.0 == "DRAM") && parts(512).iter().all(|p| p.0 != "DRAM"));
    }

    #[test]
    fn an_outcome_says_how_much_of_it_was_foreseen() {
        let p = cube(4096, Dtype::F32);
        let bound = forecast(&empty(), &p, "05_register_2d").unwrap().bound().1;
        let check = |times: f64, expect: &str| {
            let mut run = empty();
            put(&mut run, &p, "05_register_2d", bound * times);
            let said = outcome(&run, &p, "05_register_2d");
            assert!(said.contains(expect) && said.contains("TFLOP/s") && said.ends_with('.'), "{said}");
        };
        check(0.9, "less than was counted for its instructions");
        check(1.1, "Its instructions take 91 % of that: they are what bounds it.");
        check(1.7, "the rest is waiting");
        check(4.0, "no more than 25 % of that");
        let mut run = empty();
        let bound = forecast(&run, &p, "03_shared_tile").unwrap().bound().1;
        put(&mut run, &p, "03_shared_tile", bound * 1.1);
        assert!(outcome(&run, &p, "03_shared_tile").contains("shared memory takes 91 % of that: it is what"));
    }

    #[test]
    fn a_step_that_brings_nothing_says_so() {
        let (mut run, p) = (empty(), cube(4096, Dtype::F32));
        for (id, us) in [("05_register_2d", 4000.0), ("06_vectorised", 3000.0), ("07_warp_tile", 3005.0)] {
            put(&mut run, &p, id, us);
        }
        let t = steps(&run, &p, &["05_register_2d", "06_vectorised", "07_warp_tile", "08_double_buffered"]);
        assert_eq!(t.rows[1][3..], ["1.33× as fast", "1.33×"]);
        assert_eq!(t.rows[2][3], "no difference beyond the noise");
        assert_eq!(t.rows[3][1], "not measured");
        assert!(step(&run, &p, "07_warp_tile", "06_vectorised").ends_with("beyond the noise."));
        // Other sizes stay out of it.
        put(&mut run, &cube(4096, Dtype::Bf16), "07_warp_tile", 1.0);
        assert!(step(&run, &p, "07_warp_tile", "06_vectorised").ends_with("beyond the noise."));
    }

    #[test]
    fn rungs_are_compared_with_the_faster_library() {
        let (mut run, p) = (empty(), cube(4096, Dtype::Bf16));
        assert!(the_line(&run, &p).starts_with("No library was measured"));
        for (id, us) in
            [("cublas", 200.0), ("cublaslt", 190.0), ("13_persistent_cluster", 200.0), ("14_overlapped_store", 180.0)]
        {
            put(&mut run, &p, id, us);
        }
        assert!(the_line(&run, &p).contains("The line is cuBLASLt, best of 32, at "));
        assert!(
            relative_to_library(&run, &p).contains("is 1.06× as fast as cuBLASLt"),
            "{}",
            relative_to_library(&run, &p)
        );
        assert_eq!(every_rung(&run, &p).rows[3][4], "1.06×");
        let t = by_type(&run, &p, &[Dtype::F32, Dtype::Bf16]);
        assert_eq!((t.rows.len(), t.rows[0][0].as_str(), t.rows[0][5].as_str()), (1, "bf16", "1.06×"));
        // B stored otherwise is another product.
        put(&mut run, &along_k(&p), "14_overlapped_store", 100.0);
        let t = ratios(&run, &[Dtype::F32, Dtype::Bf16]);
        assert_eq!(t.rows, [["4096³", "", "1.06× (Stores overlapped)"]]);
        assert!(last_word(&run, &p, &TENSOR_CORES).contains("Stores overlapped with"));
    }

    #[test]
    fn a_copy_is_held_against_b_along_k() {
        let (mut run, p) = (empty(), cube(4096, Dtype::Tf32));
        put(&mut run, &p, "14_overlapped_store", 400.0);
        assert!(copy_cost(&run, &p, "14_overlapped_store").contains("copies nothing"));
        run.measurements[0].choice = Some("B is transposed first, inside the timed region.".into());
        assert!(copy_cost(&run, &p, "14_overlapped_store").contains("128 MiB in all"));
        assert!(copy_cost(&run, &p, "14_overlapped_store").ends_with("was not measured here."));
        put(&mut run, &along_k(&p), "14_overlapped_store", 320.0);
        assert!(copy_cost(&run, &p, "14_overlapped_store").ends_with("it takes 320 µs: the copy costs 25 %."));
    }

    #[test]
    fn tiles_fill_the_chip_or_do_not() {
        let mut run = empty();
        let thin = Matmul::new().shapes([(128, 8192, 8192)]).dtypes([Dtype::Bf16]).problems().remove(0);
        let said = waves(&run, &thin, "12_warp_specialised");
        assert!(said.contains("32 tiles of 128 × 256") && said.contains("24 % of them have work"), "{said}");
        assert!(waves(&run, &thin, "15_split_k").contains("64 tiles of 128 × 128, each by 2 blocks"));
        assert!(waves(&run, &cube(4096, Dtype::Bf16), "12_warp_specialised").contains("4 rounds, filled to 97 %"));
        // As many as fit onto an SM work at the same time.
        put(&mut run, &cube(4096, Dtype::F32), "07_warp_tile", 1.0);
        run.measurements[0].kernels.push(KernelStats { blocks_per_multiprocessor: Some(2), ..Default::default() });
        assert!(
            waves(&run, &cube(4096, Dtype::F32), "07_warp_tile")
                .ends_with("2 blocks at a time on each: 4 rounds, filled to 97 %.")
        );
    }

    #[test]
    fn parts_become_sentences() {
        let (mut run, p) = (empty(), cube(4096, Dtype::F32));
        let part = |group, name: &str, us: f64| Part {
            rung: if group == PartGroup::Tile { "08_double_buffered".into() } else { String::new() },
            problem: p.clone(),
            group,
            name: name.into(),
            samples_us: vec![us],
        };
        run.parts.extend([part(PartGroup::Tile, "a", 30.0), part(PartGroup::Tile, "b", 20.0)]);
        put(&mut run, &p, "08_double_buffered", 25.0);
        for (name, us) in [("to the device", 50.0), ("to the host", 25.0)] {
            run.parts.push(part(PartGroup::Transfer, name, us));
        }
        assert_eq!(
            tile_ranges(&run, &p, &["07_warp_tile", "08_double_buffered"]),
            ["Double-buffered: of 2 tiles b is the fastest with 20.0 µs; a takes 1.50× the time."]
        );
        assert!(there_and_back(&run, &p).contains("The product is 25 % of that"));
    }

    /// In a lab without a GPU and without a record every cell still says something.
    #[test]
    fn nothing_measured_is_said_in_sentences() {
        let (mut bare, p) = (empty(), cube(512, Dtype::F32));
        bare.peaks = Default::default();
        bare.environment.device.kind = DeviceKind::Cpu;
        assert!(
            waves(&bare, &p, "05_register_2d")
                .ends_with("16 tiles of 128 × 128. How well they fill a GPU depends on how many SMs it has.")
        );
        // What was counted from the source needs no GPU.
        assert!(
            prediction(&bare, &p, "05_register_2d").contains("1.28 instructions and 0.266 wavefronts of shared memory")
        );
        assert_eq!(demands(&bare, &p, &["05_register_2d"]).rows[0][1..4], ["1.28", "0.266", ""]);
        for run in [bare, empty()] {
            let mut said = vec![
                prediction(&run, &p, "05_register_2d"),
                outcome(&run, &p, "05_register_2d"),
                step(&run, &p, "05_register_2d", "04_register_1d"),
                the_line(&run, &p),
                relative_to_library(&run, &p),
                without_reuse(&run, &p),
                waves(&run, &p, "05_register_2d"),
                store_cost(&run, &p),
                there_and_back(&run, &p),
                copy_cost(&run, &p, "14_overlapped_store"),
                last_word(&run, &p, &CUDA_CORES),
            ];
            said.extend(tile_ranges(&run, &p, &CUDA_CORES));
            for sentence in said {
                assert!(
                    sentence.ends_with('.') && !sentence.contains("NaN") && !sentence.contains("inf"),
                    "{sentence}"
                );
            }
            assert_eq!(steps(&run, &p, &CUDA_CORES).rows.len(), 8);
            assert_eq!(demands(&run, &p, &CUDA_CORES).rows.len(), 8);
            assert!(every_rung(&run, &p).rows.is_empty() && checks(&run, &p).rows.is_empty());
            assert!(ratios(&run, &[Dtype::F32]).rows.is_empty() && by_type(&run, &p, &[Dtype::F32]).rows.is_empty());
        }
    }
}
