//! Rungs compared with each other and with the libraries.

use super::{LIBRARIES, device, in_type, own_kernel, plain, rate_of, table, title, valid, verdict};
use crate::figures;
use crate::prelude::*;
use warpbook_charts::Table;
use warpbook_record::Measurement;

/// Returns a table of these rungs in order, each with its gain over the rung before it and over the first rung.
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

/// Describes the rate of the libraries, with which rungs are compared, and how near this rate is to the measured ceiling.
#[must_use]
pub fn the_line(run: &Run, problem: &Problem) -> String {
    let each: Vec<String> = LIBRARIES
        .iter()
        .filter_map(|id| Some((title(run, id), valid(run, id, problem)?.median_us()?)))
        .map(|(name, us)| format!("{name} {}", rate_of(problem, us)))
        .collect();
    let Some((best, us)) = run.fastest_library(problem) else {
        return format!("No library was measured at {}, so there is no line to compare rungs with.", problem.label);
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

/// Compares the fastest of these rungs with the faster library.
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

/// Returns a table of every rung on the GPU at a size: its rate, that rate as a share of the ceiling and of the
/// library's rate, and its use of a multiprocessor.
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

/// Returns a table of every rung's error and its tolerance.
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

/// Returns the problems of a record with these sizes, in the order of `dtypes`, without transposed matrices.
fn in_types(run: &Run, problem: &Problem, dtypes: &[Dtype]) -> Vec<Problem> {
    let known = run.problems();
    dtypes.iter().map(|d| in_type(problem, *d)).filter(|p| known.contains(&p)).collect()
}

/// Returns a table of the types side by side at one shape, with the ceiling, the library, the project's best rung, and
/// the error of that rung.
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
    let headers = ["type", "ceiling", "library", "our best", "by", "of the library", "its largest relative error"];
    table(&headers, in_types(run, problem, dtypes).iter().map(row).collect())
}

/// Returns a table of the speed of the project's best rung relative to the faster library, for each shape and type.
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

/// Returns the closing sentence about these rungs of the ladder.
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
