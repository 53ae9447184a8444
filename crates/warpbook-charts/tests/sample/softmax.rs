//! An experiment that no crate knows by name: a softmax of each row of a matrix, which reads its data once, from DRAM or L2.

use super::{empty, kernel, measured, peak};
use warpbook_record::{
    ChartKind, Column, ComputePeak, Descriptor, DeviceKind, Dtype, Measurement, MemoryLevel, Problem, Quantity,
    Requires, Run, Rung, Runner, Schedule, SweepAxis, SweepPoint, Traffic, count,
};

pub const COLUMNS: u64 = 1024;

/// Returns the problem of a softmax over this many rows.
pub fn rows(rows: u64) -> Problem {
    let sizes = vec![count("rows", rows, "rows"), count("columns", COLUMNS, "columns")];
    let elements = rows * COLUMNS;
    Problem::new(format!("{rows} rows of {COLUMNS}"), format!("{rows} × {COLUMNS}"), sizes, Dtype::F32).with(|p| {
        p.flops = 5 * elements;
        p.bytes = 2 * 4 * elements;
        p.working_set_bytes = p.bytes;
        p.items = Some(rows);
        p.sweep = Some(SweepPoint { size: rows, line: format!("{COLUMNS} columns") });
    })
}

/// Rungs as (id, title, fixed microseconds, how often the rows are moved).
const RUNGS: [(&str, &str, f64, f64); 6] = [
    ("cpu_1_thread", "CPU, one thread", 1.0, 900.0),
    ("cpu_all_threads", "CPU, all threads", 20.0, 70.0),
    ("pytorch", "PyTorch", 9.0, 1.2),
    ("01_naive", "A thread a row", 3.0, 12.0),
    ("02_warp", "A warp a row", 2.4, 1.5),
    ("03_online", "Online maximum, 16-byte loads", 2.2, 1.02),
];

fn rung((id, title, ..): (&'static str, &'static str, f64, f64)) -> Rung {
    let (runner, requires) = match id {
        _ if id.starts_with("cpu") => (Runner::Cpu("threads".into()), Requires::Nothing),
        "pytorch" => (Runner::External("PyTorch 2.11.0".into()), Requires::AtLeast(7, 5)),
        _ => (Runner::Kernels { specs: vec![kernel()], schedule: Schedule::Launches }, Requires::AtLeast(7, 5)),
    };
    Rung { id: id.into(), title: title.into(), idea: "".into(), requires, runner, variant_of: None }
}

/// Returns the record of the softmax.
pub fn softmax() -> Run {
    use Column::{Bandwidth, BoundBy, Check, ItemRate, Mad, Median, OfBound, Samples, SpeedUp, Wall};
    let mut run = empty("NVIDIA H200", DeviceKind::Cuda);
    run.experiment = "softmax".into();
    run.title = "Row softmax".into();
    run.descriptor = Descriptor {
        headline: Quantity::Bandwidth,
        quantities: vec![Quantity::Bandwidth, Quantity::Time, Quantity::SpeedUp, Quantity::ItemRate],
        axis: SweepAxis { caption: "rows".into(), unit: "rows".into(), doubling: true },
        columns: vec![Median, Mad, Wall, Bandwidth, ItemRate, SpeedUp, OfBound, BoundBy, Check, Samples],
        charts: vec![ChartKind::Ladder, ChartKind::Sweep, ChartKind::Roofline],
        item: "rows".into(),
        ..Descriptor::default()
    };
    run.rungs = RUNGS.map(rung).into();
    run.peaks.bandwidth = vec![peak(MemoryLevel::Dram, 4.54e12), peak(MemoryLevel::L2, 9.14e12)];
    let flops = 1 << 40;
    let samples_us = vec![flops as f64 / 6.59e13 * 1e6; 5];
    run.peaks.compute = vec![ComputePeak {
        dtype: Dtype::F32,
        method: "chains".into(),
        flops,
        samples_us,
        datasheet_flops_per_s: None,
    }];
    for size in [1024, 4096, 16_384, 65_536, 262_144] {
        let p = rows(size);
        let (level, rate) = if p.bytes <= 37_500_000 { (MemoryLevel::L2, 9e6) } else { (MemoryLevel::Dram, 4.5e6) };
        for (id, _, fixed, passes) in RUNGS {
            let us = fixed + passes * p.bytes as f64 / rate;
            let counted = id.starts_with('0').then_some(Traffic { level, bytes: (passes * p.bytes as f64) as u64 });
            let peak_bytes = id.starts_with('0').then_some((passes * p.bytes as f64) as u64);
            let traffic = counted.into_iter().collect();
            run.measurements.push(Measurement { traffic, peak_bytes, ..measured(id, &p, us, 0.005) });
        }
    }
    run.main_problem = Some(rows(65_536).id.clone());
    run
}
