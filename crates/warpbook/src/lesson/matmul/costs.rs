//! Costs of the parts of a product: its tiles, its stores, its copies.

use super::{along_k, device, k_splits, not_measured, rate_of, tile_of, title, valid};
use crate::figures;
use crate::prelude::experiment::*;
use crate::prelude::*;
use warpbook_charts::Table;
use warpbook_experiments::matmul::own_kernel;
use warpbook_kernels::matmul::shape_of;
use warpbook_lab::Compilation;
use warpbook_record::{DeviceKind, Dim, Measurement, Part};

/// Estimates the time of the product if no element were reused.
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

/// Says how many tiles of C a rung computes, and how well they fill the multiprocessors.
#[must_use]
pub fn waves(run: &Run, problem: &Problem, id: &str) -> String {
    let (Some((m, n, _)), Some(tile)) = (shape_of(problem), tile_of(run, problem, id)) else {
        return format!("{} has no tiles to count.", title(run, id));
    };
    let sms = u64::from(run.environment.device.multiprocessors).max(1);
    let (bm, bn) = (tile.size(Dim::Bm), tile.size(Dim::Bn));
    let measured = run.measurement(id, problem);
    let split = tile.size(Dim::Split) * measured.map_or(1, k_splits);
    let resident = measured.and_then(own_kernel).and_then(|k| k.blocks_per_multiprocessor);
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

/// Says how long writing C takes, and how much of it rungs can hide behind the multiplications.
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

/// Returns a sentence on the best and the worst tile of each of these rungs.
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

/// States the cost of having the result on the host, for the fastest rung whose copies in both directions were timed.
#[must_use]
pub fn there_and_back(run: &Run, problem: &Problem) -> String {
    let copies: Vec<&Part> =
        run.parts.iter().filter(|p| p.problem == *problem && p.group == PartGroup::Transfer).collect();
    let median_us = |name: &str| copies.iter().find(|s| s.name == name).and_then(|s| s.median_us());
    let (Some(there), Some((best, work)), Some(back)) =
        (median_us("to the device"), run.fastest_kernels(problem), median_us("to the host"))
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

/// Returns a table of a learner's kernels: the compiler's figures, and their times next to the times of their base
/// rungs.
#[must_use]
pub fn attempts(tried: &[Attempt]) -> Table {
    let row = |a: &Attempt| {
        let stats = match a.compiled() {
            Compilation::Code(stats) => Some(stats),
            _ => None,
        };
        let us = a.measurement().filter(|m| m.is_valid()).and_then(Measurement::median_us);
        let base = a.rung().variant_of.as_deref().and_then(|id| valid(a.run(), id, a.problem())?.median_us());
        vec![
            a.rung().id.to_string(),
            stats.map_or_else(|| "does not compile".into(), |s| s.registers.to_string()),
            us.map_or_else(|| "not measured".into(), figures::time),
            us.zip(base).map(|(us, base)| figures::times(base / us)).unwrap_or_default(),
        ]
    };
    let headers = ["kernel", "registers a thread", "time", "as fast as its rung"];
    super::table(&headers, tried.iter().map(row).collect())
}

/// States the cost of a rung's transposing copy of B: according to its bytes, and compared with a B that is already
/// stored along k.
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
    let stored_along_k = match valid(run, id, &along_k(problem)).and_then(Measurement::median_us) {
        Some(without) => format!(
            " With B stored along k it takes {}: the copy costs {}.",
            figures::time(without),
            figures::percent((us - without) / without)
        ),
        None => " With B stored along k it was not measured here.".into(),
    };
    format!("{} on {}, {}: {choice}{least}{stored_along_k}", title(run, id), device(run), problem.label)
}
