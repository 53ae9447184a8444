//! Sentences and tables about a record of the regression: predictions, bounds, kernels and epochs.

use super::{LESS_WORK, cell, median_us, quoted, table, title, valid};
use crate::figures;
use crate::prelude::*;
use warpbook_charts::Table;
use warpbook_kernels::regression::{NO_POINTS, ONLY_READS};
use warpbook_record::{DeviceInfo, Measurement, MemoryLevel, PartGroup, Peaks, Schedule, Traffic};

/// Compares the work's operations and bytes with what a device can do in the same time.
#[must_use]
pub fn balance(peaks: &Peaks, device: &str, problem: &Problem) -> String {
    let Some(roof) = peaks.roofline(MemoryLevel::Dram, problem.dtype) else {
        return format!("Bandwidth and arithmetic of {device} were not both measured, so there is no balance to draw.");
    };
    let intensity = problem.flops as f64 / problem.bytes as f64;
    let limit = if intensity < roof.ridge() { "memory" } else { "arithmetic" };
    format!(
        "In the time it takes to read one byte from its memory, {device} can do {} FLOP. This work needs {} FLOP a byte, so {limit} is the limit: \
         at most {} of the arithmetic can be used.",
        figures::number(roof.ridge()),
        figures::number(intensity),
        figures::percent(roof.attainable(intensity) / roof.flops_per_s)
    )
}

/// Returns the number of bytes of an array with one float per training point.
fn column_bytes(problem: &Problem) -> u64 {
    // A problem's working set consists of y and one or more arrays x.
    problem.working_set_bytes / (warpbook_kernels::regression::features_of(problem) + 1)
}

fn training_points(problem: &Problem) -> f64 {
    column_bytes(problem) as f64 / 4.0
}

fn passes(problem: &Problem) -> u64 {
    problem.passes
}

/// Returns the time of moving `floats` floats per point and epoch, in microseconds for all epochs, if an epoch touches `kept` floats of each point. Also
/// describes the assumed bandwidth in words.
#[must_use]
pub fn predict(run: &Run, problem: &Problem, floats: u64, kept: u64) -> Option<(f64, String)> {
    let ceiling = run.peaks.ceiling(column_bytes(problem) * kept, run.environment.device.l2_bytes)?;
    let us = (passes(problem) * column_bytes(problem) * floats) as f64 / ceiling.bytes_per_s() * 1e6;
    let level = match ceiling.level.label_on(run.environment.device.kind) {
        name if name.starts_with("the ") => name.to_owned(),
        name => format!("the {name}"),
    };
    Some((us, format!("{level} at {}", figures::bandwidth(ceiling.bytes_per_s()))))
}

/// Returns the prediction as a sentence.
#[must_use]
pub fn prediction(run: &Run, problem: &Problem, floats: u64, kept: u64) -> String {
    let Some((us, level)) = predict(run, problem, floats, kept) else {
        return "No prediction: the ceilings were not measured.".into();
    };
    format!(
        "Prediction for {}, {}: {} B a point and epoch, {} in all; the working set is {}, so the bound is {level}, \
         and the data alone takes {}.",
        run.environment.device.name,
        problem.label,
        4 * floats,
        figures::bytes(passes(problem) * column_bytes(problem) * floats),
        figures::bytes(column_bytes(problem) * kept),
        figures::time(us)
    )
}

/// Compares the time of a rung with its prediction.
#[must_use]
pub fn outcome(run: &Run, id: &str, floats: u64, kept: u64) -> String {
    let (Some(us), Some(problem)) = (median_us(run, id), run.main_problem()) else {
        return format!("{} was not measured here.", title(run, id));
    };
    let compared = predict(run, problem, floats, kept).map_or_else(String::new, |(predicted, _)| {
        format!(", {} the predicted {}", figures::times(us / predicted), figures::time(predicted))
    });
    let device = &run.environment.device.name;
    format!("Measured on {device}: {} took {}{compared}.", title(run, id), figures::time(us))
}

/// Returns a table of the unfused rung's kernels, each compared with the time of its bytes.
#[must_use]
pub fn kernels_against_bytes(run: &Run, problem: &Problem) -> Table {
    let spans = run.parts_of("01_unfused", problem, PartGroup::Operation);
    let memory = run.peaks.level(MemoryLevel::Dram).map(|p| p.bytes_per_s());
    let row = |name: &str, floats: u64| {
        let bytes = (column_bytes(problem) * floats) as f64;
        let us = spans.iter().find(|s| s.name == name).and_then(|s| s.median_us());
        let rate = us.filter(|_| floats > 0).map(|us| figures::bandwidth(bytes / us * 1e6));
        vec![
            name.to_owned(),
            (4 * floats).to_string(),
            cell(memory.map(|m| bytes / m * 1e6)),
            cell(us),
            rate.unwrap_or_default(),
        ]
    };
    let rows = vec![row("forward", 2), row("loss", 3), row("gradient w", 2), row("gradient b", 1), row("update", 0)];
    table(&["kernel", "bytes a point", "predicted, from memory", "measured alone", "bandwidth"], rows)
}

/// Returns the total time of a rung's kernels, each timed alone, in microseconds per epoch.
fn kernels_us(run: &Run, id: &str) -> Option<f64> {
    let spans = run.parts_of(id, run.main_problem()?, PartGroup::Operation);
    let sum: f64 = spans.iter().filter_map(|s| s.median_us()).sum();
    (sum > 0.0).then_some(sum)
}

/// Says how long an epoch takes, and how much of that time the kernels take.
#[must_use]
pub fn between_kernels(run: &Run, id: &str) -> String {
    let epoch = run.main_problem().and_then(|p| run.measurement(id, p)).and_then(|m| m.pass_us());
    let (Some(epoch), Some(sum)) = (epoch, kernels_us(run, id)) else {
        return format!("The kernels of {} were not timed here.", title(run, id));
    };
    format!(
        "{}: an epoch takes {}. Its {} kernels, each timed alone and back to back, add up to {}. \
         The other {} of the time are spent between them.",
        title(run, id),
        figures::time(epoch),
        run.rung(id).map_or(0, |r| r.kernels().len()),
        figures::time(sum),
        figures::percent(((epoch - sum) / epoch).max(0.0))
    )
}

/// Says what the ablation shows: the time of a pass without its arithmetic, and the time without its data as well.
#[must_use]
pub fn price_of_the_data(run: &Run) -> String {
    let spans = run.main_problem().map(|p| run.parts_of("02_fused", p, PartGroup::Ablation)).unwrap_or_default();
    let median_us = |name: &str| spans.iter().find(|s| s.name == name).and_then(|s| s.median_us());
    let (Some(whole), Some(reads)) = (median_us("whole pass"), median_us(ONLY_READS)) else {
        return "The probes were not timed here.".into();
    };
    let launch = median_us(NO_POINTS).map_or_else(
        || "How much of that any launch costs was not measured.".to_owned(),
        |nothing| {
            format!(
                "The same kernel over no points takes {}: that much is the launch, and the start and end of its blocks. The data itself \
                 costs the other {}, {} of the whole pass.",
                figures::time(nothing),
                figures::time((reads - nothing).max(0.0)),
                figures::percent(((reads - nothing) / whole).max(0.0))
            )
        },
    );
    format!(
        "A pass that reads x and y and does next to nothing with them takes {}, which is {} of the whole pass. {launch}",
        figures::time(reads),
        figures::percent(reads / whole)
    )
}

/// Returns a table of rungs with the fused kernels: the time of an epoch, and the share of it that is not spent in kernels.
#[must_use]
pub fn epochs(run: &Run, ids: &[&str]) -> Table {
    let kernels = kernels_us(run, "02_fused");
    let row = |id: &&str| {
        let m = run.main_problem().and_then(|p| valid(run, id, p));
        let epoch = m.and_then(|m| m.pass_us());
        vec![
            title(run, id).to_owned(),
            cell(epoch),
            cell(kernels),
            cell(epoch.zip(kernels).map(|(e, k)| e - k)),
            cell(m.and_then(|m| m.median_us())),
            cell(m.and_then(|m| m.median_wall_us())),
        ]
    };
    let headers = ["rung", "an epoch", "its kernels alone", "the rest", "all epochs", "all epochs, wall clock"];
    table(&headers, ids.iter().map(row).collect())
}

/// Returns a table of each rung's result, and of its distance from the reference.
#[must_use]
pub fn results(run: &Run) -> Table {
    let rows = run.train_logs.iter().filter(|l| Some(&l.problem) == run.main_problem()).map(|l| {
        let check = run.measurement(&l.rung, &l.problem).and_then(|m| m.check.as_ref());
        let parameter = |name: &str| l.parameters.get(name).map(|v| format!("{v:.6}")).unwrap_or_default();
        vec![
            title(run, &l.rung).to_owned(),
            parameter("w"),
            parameter("b"),
            format!("{:.6}", l.train_loss),
            format!("{:.6}", l.test_loss),
            check.map(|c| format!("{:.1e}", c.max_rel_error)).unwrap_or_default(),
            check.map(|c| format!("{:.1e}", c.tolerance)).unwrap_or_default(),
        ]
    });
    table(&["rung", "w", "b", "train loss", "test loss", "relative error", "tolerance"], rows.collect())
}

/// Says how long `n` clock cycles are on the record's device, at its fastest clock.
#[must_use]
pub fn cycles(run: &Run, n: u32) -> String {
    let device = &run.environment.device;
    match device.max_sm_mhz.filter(|mhz| *mhz > 0) {
        Some(mhz) => {
            let time = figures::time(f64::from(n) / f64::from(mhz));
            format!("{n} clock cycles of {} at {mhz} MHz are {time}.", device.name)
        }
        None => format!("The clock of {} is not known, so {n} cycles of it have no length.", device.name),
    }
}

/// Says how much data a device's multiprocessors can keep, and what share the training points take.
#[must_use]
pub fn storage(device: &DeviceInfo, problem: &Problem) -> String {
    let (Some(registers), Some(shared)) = (device.registers_per_multiprocessor, device.shared_bytes_per_multiprocessor)
    else {
        return format!("Registers and shared memory of {} are not known.", device.name);
    };
    let all = u64::from(device.multiprocessors) * (registers * 4 + shared);
    format!(
        "{} has {} SMs with {} of registers and {} of shared memory each, {} in all. The training points of {} are {}: {} of that.",
        device.name,
        device.multiprocessors,
        figures::bytes(registers * 4),
        figures::bytes(shared),
        figures::bytes(all),
        problem.label,
        figures::bytes(problem.working_set_bytes),
        figures::percent(problem.working_set_bytes as f64 / all as f64)
    )
}

/// Describes the choice of a rung's rule at a size, the time of an epoch with it, and the resource that limits this time.
#[must_use]
pub fn choice(run: &Run, id: &str, problem: &Problem) -> String {
    let found = valid(run, id, problem).and_then(|m| Some((m, m.choice.as_ref()?, m.pass_us()?)));
    let Some((m, why, epoch)) = found else {
        return format!("{} was not measured here at {}.", title(run, id), problem.label);
    };
    let bound = run.bound(m).map_or_else(String::new, |b| format!("; bound by {}", b.label()));
    format!("{}: {why} An epoch takes {}{bound}.", problem.label, figures::time(epoch))
}

/// Lists the bytes per point and epoch at each memory level: "6.49 B registers, 1.51 B shared memory".
fn traffic(m: &Measurement) -> String {
    let passes = training_points(&m.problem) * passes(&m.problem) as f64;
    let level = |t: &Traffic| format!("{} B {}", figures::short(t.bytes as f64 / passes), t.level.label());
    m.traffic.iter().map(level).collect::<Vec<_>>().join(", ")
}

/// Returns the least time of an epoch in microseconds, by a measurement's own bytes and operations, and the resource that sets it.
pub(super) fn epoch_bound(run: &Run, m: &Measurement) -> Option<(f64, &'static str)> {
    let bound = run.bound(m)?;
    Some((bound.us * m.pass_us()? / m.median_us()?, bound.label()))
}

/// Returns a table that compares each rung with its own roofline: its bytes and where they come from, the least time that its bytes and operations allow, and
/// the measured time.
#[must_use]
pub fn bounds(run: &Run, problem: &Problem, ids: &[&str]) -> Table {
    let row = |id: &&str| {
        let Some(m) = valid(run, id, problem) else {
            return vec![
                title(run, id).to_owned(),
                "not measured".into(),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
            ];
        };
        let bound = epoch_bound(run, m);
        let share = bound.zip(m.pass_us()).map(|((b, _), e)| figures::percent(b / e));
        vec![
            title(run, id).to_owned(),
            if m.traffic.is_empty() { "not counted".into() } else { traffic(m) },
            bound.map(|(_, by)| by.to_owned()).unwrap_or_default(),
            cell(bound.map(|(us, _)| us)),
            cell(m.pass_us()),
            share.unwrap_or_default(),
        ]
    };
    let headers =
        ["rung", "bytes a point and epoch, from where", "bound by", "bound, an epoch", "measured, an epoch", "share"];
    table(&headers, ids.iter().map(row).collect())
}

/// Says how an epoch of a rung ends and the next begins.
fn hand_over(run: &Run, id: &str) -> String {
    let Some(rung) = run.rung(id) else { return String::new() };
    let launches = match rung.kernels().len() {
        1 => "1 launch".to_owned(),
        n => format!("{n} launches"),
    };
    match rung.schedule() {
        Some(Schedule::Launches) => launches,
        Some(Schedule::Streams(n)) => format!("{launches}, the pass on each of {n} streams"),
        Some(Schedule::Graph) => format!("{launches} in a graph"),
        Some(Schedule::OverlappedGraph) => format!("{launches} in a graph, overlapped"),
        Some(Schedule::Cooperative | Schedule::Clusters) => "an exchange between blocks".into(),
        _ => String::new(),
    }
}

/// Returns a table of the time of each rung's epoch beyond the least time of its bytes and operations: launches, waits, exchanges of sums.
#[must_use]
pub fn beyond(run: &Run, problem: &Problem, ids: &[&str]) -> Table {
    let row = |id: &&str| {
        let m = valid(run, id, problem);
        let (epoch, bound) = (m.and_then(|m| m.pass_us()), m.and_then(|m| epoch_bound(run, m)).map(|(us, _)| us));
        let left = epoch.zip(bound).map(|(e, b)| figures::time_difference(e - b));
        let left = if m.is_none() { Some("not measured".to_owned()) } else { left };
        vec![title(run, id).to_owned(), hand_over(run, id), cell(epoch), cell(bound), left.unwrap_or_default()]
    };
    let headers = ["rung", "between two epochs", "an epoch", "its bytes and operations", "beyond them"];
    table(&headers, ids.iter().map(row).collect())
}

/// Returns a table of an epoch at the smallest and at the largest size, and of the share that reading the points once would take.
#[must_use]
pub fn small_and_large(run: &Run) -> Table {
    let main = run.main_problem();
    let sizes: Vec<&Problem> = run.problems().into_iter().filter(|p| main.is_some_and(|m| m.same_line(p))).collect();
    let ends = [sizes.iter().min_by_key(|p| p.size()), sizes.iter().max_by_key(|p| p.size())];
    let mut headers = vec!["rung".to_owned()];
    for problem in ends.into_iter().flatten() {
        headers.push(format!("an epoch at {}", problem.short));
        headers.push("x and y alone".into());
    }
    let mut rows = Vec::new();
    // The statistics rung does not read the points every epoch.
    for rung in run.rungs.iter().filter(|r| r.id != LESS_WORK) {
        let mut row = vec![rung.title.to_string()];
        for problem in ends.into_iter().flatten() {
            let m = valid(run, &rung.id, problem).filter(|m| run.on_device(m));
            let floor = predict(run, problem, 2, 2).map(|(us, _)| us);
            let share = floor.zip(m.and_then(|m| m.median_us())).map(|(f, t)| figures::percent(f / t));
            row.extend([cell(m.and_then(|m| m.pass_us())), share.unwrap_or_default()]);
        }
        if row.iter().skip(1).any(|c| !c.is_empty()) {
            rows.push(row);
        }
    }
    Table { headers, rows }
}

/// Returns a table of the gain of each step up the ladder. `steps` lists rungs with a few words on what is new; each rung is compared with the one before it.
#[must_use]
pub fn bought(run: &Run, steps: &[(&str, &str)]) -> Table {
    let (mut first, mut last) = (None::<f64>, None::<f64>);
    let mut rows = Vec::new();
    for (id, what) in steps {
        let epoch = run.main_problem().and_then(|p| valid(run, id, p)).and_then(|m| m.pass_us());
        let saved = epoch.zip(last).map(|(now, was)| figures::time_difference(now - was));
        let factor =
            |from: Option<f64>| epoch.zip(from).map(|(now, was)| figures::times(was / now)).unwrap_or_default();
        rows.push(vec![
            title(run, id).to_owned(),
            (*what).to_owned(),
            cell(epoch),
            saved.unwrap_or_default(),
            factor(last),
            factor(first),
        ]);
        (first, last) = (first.or(epoch), epoch.or(last));
    }
    table(&["rung", "what is new", "an epoch", "change", "as fast as the last", "as fast as the first"], rows)
}

/// Returns the closing sentence, on the fastest rung that does all the work.
#[must_use]
pub fn last_word(run: &Run) -> String {
    let found = run.main_problem().and_then(|p| Some((p, predict(run, p, 2, 2)?, run.fastest(p)?)));
    let Some((problem, (floor, level), best)) = found else { return "Nothing was measured.".into() };
    let us = best.median_us().unwrap_or(f64::NAN);
    let ladder = run.ladder(problem);
    let first = ladder.iter().find(|r| r.speed_up.is_some());
    let first = first.map_or_else(String::new, |r| quoted(run, &r.measurement.rung));
    let speed_up = ladder.iter().find(|r| r.measurement.rung == best.rung).and_then(|r| r.speed_up);
    format!(
        "On {}, {}: the fastest is {} with {}, {} as fast as {first}. Reading x and y every epoch from {level} would alone take {}: {} that time.",
        run.environment.device.name,
        problem.label,
        quoted(run, &best.rung),
        figures::time(us),
        speed_up.map(figures::times).unwrap_or_default(),
        figures::time(floor),
        figures::times(floor / us)
    )
}
