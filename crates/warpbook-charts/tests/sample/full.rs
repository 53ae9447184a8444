//! A record like the published one: seven sizes, one problem with several features, PyTorch and Warpbook, with counted
//! bytes.

use super::{empty, kernel, log, losses, measured, part_of_pass, peak, problem, with_features};
use warpbook_record::{
    ComputePeak, DeviceKind, Dtype, Measurement, MemoryLevel, Outcome, PartGroup, Problem, Requires, Run, Rung, Runner,
    Schedule, Traffic,
};

/// Rungs as (id, title), in the ladder's order.
const RUNGS: [(&str, &str); 18] = [
    ("cpu_1_thread", "CPU, one thread"),
    ("cpu_all_threads", "CPU, all threads"),
    ("pytorch_cpu", "PyTorch on the CPU"),
    ("pytorch_eager", "PyTorch, eager"),
    ("pytorch_compiled", "PyTorch, compiled"),
    ("pytorch_graph", "PyTorch, CUDA graph"),
    ("pytorch_expert", "PyTorch, by an expert"),
    ("01_unfused", "Unfused"),
    ("02_fused", "Fused"),
    ("02b_fused_staged", "Fused, staged"),
    ("03_fused_streams", "Fused over streams"),
    ("04_fused_graph", "Fused in a graph"),
    ("04b_fused_graph_overlapped", "Graph, launches overlapped"),
    ("05_persistent", "Persistent"),
    ("05b_persistent_alternating", "Alternating direction"),
    ("06_on_chip", "On the chip"),
    ("07_sufficient_statistics", "Sufficient statistics"),
    ("08_multivariate", "Several features"),
];

fn rung((id, title): (&'static str, &'static str)) -> Rung {
    let runner = match id {
        _ if id.starts_with("cpu") => Runner::Cpu("threads".into()),
        _ if id.starts_with("pytorch") => Runner::External("PyTorch 2.11.0".into()),
        _ => Runner::Kernels { specs: vec![kernel()], schedule: Schedule::Launches },
    };
    let requires = if id.contains("cpu") { Requires::Nothing } else { Requires::AtLeast(7, 5) };
    Rung { id: id.into(), title: title.into(), idea: "".into(), requires, runner, variant_of: None }
}

/// Returns the fixed microseconds per epoch, and how often x and y are moved.
fn cost(rung: &str) -> (f64, f64) {
    match rung {
        "pytorch_eager" => (62.0, 9.0),
        "pytorch_compiled" => (31.0, 2.4),
        "pytorch_graph" => (13.0, 9.0),
        "pytorch_expert" => (10.5, 3.1),
        "01_unfused" => (13.5, 4.5),
        "02_fused" => (5.6, 1.0),
        "02b_fused_staged" => (5.9, 1.12),
        "03_fused_streams" => (24.0, 1.0),
        "04_fused_graph" => (3.5, 1.0),
        "04b_fused_graph_overlapped" => (2.6, 1.0),
        "05_persistent" => (1.7, 1.0),
        "05b_persistent_alternating" => (1.7, 0.93),
        _ => (1.8, 1.05),
    }
}

fn bytes(level: MemoryLevel, bytes: u64) -> Traffic {
    Traffic { level, bytes }
}

/// Returns a rung's time in microseconds, its traffic and its own operations, on a GPU similar to an H200.
fn model(id: &str, p: &Problem) -> (f64, Vec<Traffic>, Option<u64>) {
    let set = p.working_set_bytes;
    let (near, rate) = if set <= 37_500_000 { (MemoryLevel::L2, 8.4e6) } else { (MemoryLevel::Dram, 4.5e6) };
    let n = p.size() as f64;
    match id {
        "cpu_1_thread" => return (n * 0.05 + 500.0, Vec::new(), None),
        "cpu_all_threads" => return (n * 0.0075 + 6_000.0, Vec::new(), None),
        "pytorch_cpu" => return (n * 0.031 + 19_000.0, Vec::new(), None),
        "07_sufficient_statistics" => {
            let us = 14.0 + set as f64 / rate;
            return (us, vec![bytes(near, set)], Some(set / 8 * 44));
        }
        // These points fit into the SMs: 24 groups of four points per thread in registers, the rest in shared memory.
        "06_on_chip" if set <= 56_000_000 => {
            let in_registers = set.min(132 * 256 * 24 * 4 * 8);
            let shared = set - in_registers;
            let us = 160.0 + set as f64 / rate + 200.0 * (in_registers as f64 / 9e7 + shared as f64 / 2.1e7);
            let mut traffic = vec![bytes(MemoryLevel::Dram, set), bytes(MemoryLevel::Registers, 200 * in_registers)];
            if shared > 0 {
                traffic.push(bytes(MemoryLevel::Shared, 200 * shared));
            }
            return (us, traffic, Some(set / 8 * (6 * 200 + 2 * 20)));
        }
        // With alternating direction, L2 keeps part of one epoch's data for the next.
        "05b_persistent_alternating" | "08_multivariate" if near == MemoryLevel::Dram => {
            let kept = 37_500_000;
            let us = 200.0 * (1.9 + (set - kept) as f64 / 4.5e6 + kept as f64 / 2e7);
            let levels = [bytes(MemoryLevel::L2, 200 * set), bytes(MemoryLevel::Dram, 200 * (set - kept))];
            return (us, levels.into(), None);
        }
        _ => {}
    }
    let (fixed, passes) = cost(id);
    let us = 200.0 * (fixed + passes * set as f64 / rate);
    if id.starts_with("pytorch") {
        return (us, Vec::new(), None);
    }
    let moved = (passes.max(1.0) * p.bytes as f64) as u64;
    let moved = if passes < 2.0 { p.bytes } else { moved };
    let mut traffic = vec![bytes(near, moved)];
    if near == MemoryLevel::L2 {
        traffic.push(bytes(MemoryLevel::Dram, set));
    }
    (us, traffic, None)
}

/// Returns the record of a regression at all seven sizes.
pub fn full() -> Run {
    let mut run = empty("NVIDIA H200", DeviceKind::Cuda);
    run.rungs = RUNGS.map(rung).into();
    run.main_problem = Some(problem(5_000_000).id.clone());
    run.environment.device.shared_bytes_per_multiprocessor = Some(233_472);
    run.environment.device.registers_per_multiprocessor = Some(65_536);
    run.environment.libraries = vec![("PyTorch".into(), "2.11.0".into())];
    let mut memory = peak(MemoryLevel::Dram, 4.54e12);
    memory.datasheet_bytes_per_s = Some(4.8e12);
    run.peaks.bandwidth = vec![
        memory,
        peak(MemoryLevel::L2, 9.14e12),
        peak(MemoryLevel::Shared, 3.21e13),
        peak(MemoryLevel::Registers, 3.6e14),
    ];
    let flops = 1 << 40;
    run.peaks.compute = vec![ComputePeak {
        dtype: Dtype::F32,
        method: "chains of fused multiply-adds".into(),
        flops,
        samples_us: vec![flops as f64 / 6.59e13 * 1e6; 5],
        datasheet_flops_per_s: Some(6.7e13),
    }];
    for points in [100_000, 500_000, 1_000_000, 5_000_000, 10_000_000, 50_000_000, 200_000_000] {
        let p = problem(points);
        for (id, _) in RUNGS {
            if id == "cpu_1_thread" && points > 10_000_000 {
                let why = "It would take longer than its time budget of 5 s.".to_owned();
                run.measurements.push(Measurement::without_samples(id, p.clone(), Outcome::Skipped { why }));
                continue;
            }
            let (us, traffic, flops) = model(id, &p);
            run.measurements.push(Measurement { traffic, flops, ..measured(id, &p, us, 0.005) });
        }
    }
    let several = with_features(5_000_000, 16);
    for (id, _) in RUNGS {
        if !(id.contains("cpu") || id.contains("pytorch") || id.starts_with("08")) {
            let why = "It is written for one feature, and the points have 16.".to_owned();
            run.measurements.push(Measurement::without_samples(id, several.clone(), Outcome::Skipped { why }));
            continue;
        }
        let (us, traffic, flops) = model(id, &several);
        run.measurements.push(Measurement { traffic, flops, ..measured(id, &several, us, 0.005) });
    }
    let standard = problem(5_000_000);
    for m in &mut run.measurements {
        if m.rung == "06_on_chip" && m.problem == standard {
            m.choice = Some(
                "4000000 training points, 32.0 MB: they fit into 132 SMs: 26.0 MB in registers (24 groups of \
                 four points a thread) and 6.0 MB in shared memory."
                    .into(),
            );
        }
    }
    run.train_logs = RUNGS.iter().map(|(id, _)| log(id, &standard, losses(80.0, 0.31))).collect();
    let ops = [("forward", 5.1), ("loss", 4.7), ("gradient w", 7.4), ("gradient b", 4.4), ("update", 2.3)];
    run.parts.extend(ops.map(|(n, us)| part_of_pass("01_unfused", PartGroup::Operation, n, us)));
    run.parts
        .extend([("pass", 5.9), ("update", 2.4)].map(|(n, us)| part_of_pass("02_fused", PartGroup::Operation, n, us)));
    let torch = [("forward", 21.0), ("loss", 19.5), ("backward", 44.0), ("optimiser step", 17.5)];
    run.parts.extend(torch.map(|(n, us)| part_of_pass("pytorch_eager", PartGroup::Operation, n, us)));
    run
}
