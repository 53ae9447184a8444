//! Records as a GPU and a laptop might produce them.
#![allow(dead_code)]

mod full;
mod precision;
mod products;
mod recorded;
mod softmax;
mod trained;
mod xrayed;

pub use full::full;
pub use precision::{batch, precisions};
pub use products::{cube, part, product, products};
pub use recorded::recorded;
pub use softmax::{rows, softmax};
pub use trained::{STEPS, course, trained, training_problem};
pub use xrayed::xrayed;

use std::collections::BTreeMap;
use warpbook_record::{
    BandwidthPeak, ChartKind, Check, Column, Descriptor, DeviceInfo, DeviceKind, Dtype, Environment, Grid, Inputs,
    KernelSpec, L2State, LossPoint, Measurement, MemoryLevel, Outcome, Part, PartGroup, Policy, Problem, Requires, Run,
    Rung, Runner, Schedule, Source, SweepAxis, SweepPoint, Tile, TimedBy, Traffic, TrainLog, count, setting,
    short_count,
};

/// Returns a regression problem of 200 epochs over points with one feature.
pub fn problem(points: u64) -> Problem {
    regression(points, 1, 200, 0.01)
}

/// Returns a regression problem of 200 epochs over points with several features.
pub fn with_features(points: u64, features: u64) -> Problem {
    regression(points, features, 200, 0.01)
}

/// Makes a problem like `warpbook_kernels::regression::Descent::problem`.
pub fn regression(points: u64, features: u64, epochs: u64, learning_rate: f64) -> Problem {
    let train = points / 5 * 4;
    let mut sizes = vec![count("points", points, "points"), count("train_points", train, "points")];
    if features != 1 {
        sizes.push(count("features", features, ""));
    }
    sizes.extend([
        count("epochs", epochs, ""),
        setting("learning_rate", learning_rate),
        setting("noise", 0.1),
        setting("seed", 42u64),
    ]);
    let (short, label, line) = match (short_count(points), features) {
        (n, 1) => (n.clone(), format!("{n} points, {epochs} epochs"), format!("{epochs} epochs")),
        (n, f) => (
            format!("{n} × {f}"),
            format!("{n} points of {f} features, {epochs} epochs"),
            format!("{f} features, {epochs} epochs"),
        ),
    };
    Problem::new(label, short, sizes, Dtype::F32).with(|p| {
        p.flops = train * epochs * (4 * features + 4);
        p.working_set_bytes = train * (features + 1) * 4;
        p.bytes = p.working_set_bytes * epochs;
        p.passes = epochs;
        p.sweep = Some(SweepPoint { size: points, line });
    })
}

fn descriptor() -> Descriptor {
    use Column::{Bandwidth, Check, Mad, Median, OfBound, PassTime, SpeedUp};
    Descriptor {
        axis: SweepAxis { caption: "points".into(), unit: "points".into(), doubling: false },
        columns: vec![Median, Mad, PassTime, SpeedUp, Bandwidth, OfBound, Check],
        charts: vec![ChartKind::Ladder, ChartKind::Sweep, ChartKind::Roofline, ChartKind::Operations, ChartKind::Loss],
        pass: "epoch".into(),
        levels: vec![MemoryLevel::Dram, MemoryLevel::L2, MemoryLevel::Shared, MemoryLevel::Registers],
        loss: "mean squared error on the training points".into(),
        ..Descriptor::default()
    }
}

fn samples(us: f64, n: usize, spread: f64) -> Vec<f64> {
    (0..n).map(|i| us * (1.0 + spread * ((i * 7919 % 13) as f64 / 6.0 - 1.0))).collect()
}

pub fn measured(rung: &str, problem: &Problem, us: f64, spread: f64) -> Measurement {
    let mut m = Measurement::without_samples(rung, problem.clone(), Outcome::Measured);
    m.set_samples(samples(us, 30, spread), samples(us * 1.01, 30, spread));
    m.check = Some(Check::compare("f64 descent on the CPU", &[(2.999, 3.0)], 1.0, 1e-3));
    m
}

pub fn peak(level: MemoryLevel, bytes_per_s: f64) -> BandwidthPeak {
    let bytes = 1 << 32;
    let samples_us = samples(bytes as f64 / bytes_per_s * 1e6, 9, 0.001);
    let (access, method) = (warpbook_record::Access::Read, "sum of floats".into());
    BandwidthPeak { level, access, method, bytes, samples_us, datasheet_bytes_per_s: None }
}

pub fn empty(name: &str, kind: DeviceKind) -> Run {
    let gpu = kind == DeviceKind::Cuda;
    let environment = Environment {
        device: DeviceInfo {
            kind,
            index: 0,
            name: name.into(),
            memory_bytes: 150 << 30,
            multiprocessors: 132,
            compute_capability: gpu.then_some((9, 0)),
            l2_bytes: gpu.then_some(60 << 20),
            shared_bytes_per_multiprocessor: None,
            shared_bytes_per_block: None,
            registers_per_multiprocessor: None,
            max_sm_mhz: None,
            max_memory_mhz: None,
        },
        driver: None,
        cuda: None,
        nvrtc: None,
        clocks: None,
        cpu: "Xeon".into(),
        cpu_threads: 16,
        os: "linux x86_64".into(),
        warpbook: "0.1.0".into(),
        commit: None,
        debug_assertions: !gpu,
        libraries: Vec::new(),
    };
    let policy = Policy {
        timed_by: if gpu { TimedBy::CudaEvents } else { TimedBy::WallClock },
        l2: L2State::Warm,
        warmup: 3,
        samples: 30,
        budget_s: 5.0,
        batch_below_us: 50.0,
        inputs: Inputs::of_all("Philox"),
    };
    Run {
        created: "2026-11-21T08:00:00Z".into(),
        command: "warpbook run regression".into(),
        descriptor: descriptor(),
        rungs: RUNGS.map(rung).into(),
        ..Run::empty("regression", "Fused linear regression", environment, policy)
    }
}

/// The sample has its own rungs, so that tests of charts do not depend on the rungs of the regression.
const RUNGS: [(&str, &str); 7] = [
    ("cpu_1_thread", "CPU, one thread"),
    ("cpu_all_threads", "CPU, all threads"),
    ("01_unfused", "Unfused"),
    ("02_fused", "Fused"),
    ("02b_fused_staged", "Fused, staged"),
    ("03_fused_streams", "Fused over streams"),
    ("04_fused_graph", "Fused in a graph"),
];

fn rung((id, title): (&'static str, &'static str)) -> Rung {
    let (runner, requires) = if id.starts_with("cpu") {
        (Runner::Cpu("threads".into()), Requires::Nothing)
    } else {
        (Runner::Kernels { specs: Vec::new(), schedule: Schedule::Launches }, Requires::AtLeast(7, 5))
    };
    Rung { id: id.into(), title: title.into(), idea: "".into(), requires, runner, variant_of: None }
}

/// Cost models of the rungs: (rung, fixed microseconds, microseconds per point, relative spread).
const GPU: [(&str, f64, f64, f64); 7] = [
    ("cpu_1_thread", 200.0, 0.8, 0.02),
    ("cpu_all_threads", 9_000.0, 0.09, 0.1),
    ("01_unfused", 3_400.0, 0.0021, 0.004),
    ("02_fused", 1_350.0, 0.000_36, 0.004),
    ("02b_fused_staged", 1_390.0, 0.000_38, 0.004),
    ("03_fused_streams", 5_900.0, 0.000_33, 0.02),
    ("04_fused_graph", 760.0, 0.000_31, 0.002),
];

pub fn losses(from: f64, to: f64) -> Vec<LossPoint> {
    let at = |e: u64| to + (from - to) * (-(e as f64) / 25.0).exp();
    (1..=20).map(|i| LossPoint { epoch: i * 10, step: None, loss: at(i * 10) }).collect()
}

pub fn log(rung: &str, problem: &Problem, losses: Vec<LossPoint>) -> TrainLog {
    let last = losses.last().map_or(f64::NAN, |p| p.loss);
    let parameters = BTreeMap::from([("w".to_owned(), 3.01), ("b".to_owned(), 1.94)]);
    TrainLog {
        rung: rung.into(),
        problem: problem.clone(),
        losses,
        parameters,
        train_loss: last,
        test_loss: last * 1.01,
        course: None,
    }
}

fn part_of_pass(rung: &str, group: PartGroup, name: &str, us: f64) -> Part {
    let samples_us = samples(us, 30, 0.02);
    Part { rung: rung.into(), problem: problem(5_000_000), group, name: name.into(), samples_us }
}

/// Returns a record with a full sweep.
pub fn h200() -> Run {
    let mut run = empty("NVIDIA H200", DeviceKind::Cuda);
    run.main_problem = Some(problem(5_000_000).id.clone());
    run.peaks.bandwidth = vec![peak(MemoryLevel::Dram, 4.62e12), peak(MemoryLevel::L2, 7.4e12)];
    for points in [100_000, 500_000, 1_000_000, 5_000_000, 10_000_000, 50_000_000, 200_000_000] {
        for (rung, fixed, each, spread) in GPU {
            let cpu_too_long = rung == "cpu_1_thread" && points > 10_000_000;
            let p = problem(points);
            run.measurements.push(if cpu_too_long {
                let why = "It would take longer than its time budget of 5 s.".to_owned();
                Measurement::without_samples(rung, p, Outcome::Skipped { why })
            } else {
                let traffic = vec![Traffic { level: MemoryLevel::Dram, bytes: p.bytes }];
                let traffic = if rung.starts_with("cpu") { Vec::new() } else { traffic };
                Measurement { traffic, ..measured(rung, &p, fixed + each * points as f64, spread) }
            });
        }
    }
    let p = problem(5_000_000);
    run.train_logs = GPU.iter().map(|(rung, ..)| log(rung, &p, losses(80.0, 0.31))).collect();
    let ops = [("forward", 9.8), ("loss", 9.6), ("gradient w", 12.2), ("gradient b", 9.1), ("update", 2.3)];
    run.parts.extend(ops.map(|(n, us)| part_of_pass("01_unfused", PartGroup::Operation, n, us)));
    run.parts
        .extend([("pass", 8.1), ("update", 2.4)].map(|(n, us)| part_of_pass("02_fused", PartGroup::Operation, n, us)));
    let parts = [
        ("whole pass", 8.1),
        ("without the loss", 7.9),
        ("without the gradients", 7.6),
        ("without the reduction", 7.0),
        ("without reading y", 5.1),
        ("only the reads", 6.8),
    ];
    run.parts.extend(parts.map(|(n, us)| part_of_pass("02_fused", PartGroup::Ablation, n, us)));
    run
}

/// Returns a record with many problems, that is, with skipped, failed, wrong and diverged rungs.
pub fn troubled() -> Run {
    let mut run = empty("AMD Ryzen 7 PRO 5850U with Radeon Graphics", DeviceKind::Cpu);
    run.peaks.bandwidth = vec![peak(MemoryLevel::Dram, 2.1e10)];
    let p = problem(100_000);
    run.measurements.push(measured("cpu_1_thread", &p, 16_000.0, 0.05));
    run.measurements.push(measured("cpu_all_threads", &p, 5_200.0, 0.3));
    let skip = |rung: &str| {
        let why =
            "This rung needs a GPU of compute capability 7.5 or later, and the run was made on the CPU.".to_owned();
        Measurement::without_samples(rung, p.clone(), Outcome::Skipped { why })
    };
    run.measurements.extend(["01_unfused", "02_fused"].map(skip));
    let error = "CUDA_ERROR_ILLEGAL_ADDRESS in kernel `pass` (regression/02b_fused_staged.cu), grid 528x1x1, block \
                 512x1x1: an illegal memory access was encountered; restart the notebook's kernel before anything else runs on this device."
        .to_owned();
    run.measurements.push(Measurement::without_samples("02b_fused_staged", p.clone(), Outcome::Failed { error }));
    let mut wrong = measured("03_fused_streams", &p, 900.0, 0.01);
    wrong.check = Some(Check::compare("f64", &[(2.0, 3.0)], 1.0, 1e-3));
    run.measurements.push(wrong);
    run.measurements.push(measured("04_fused_graph", &p, 700.0, 0.01));
    let mut diverging = losses(80.0, 0.3);
    for (i, l) in diverging.iter_mut().enumerate() {
        l.loss = if i < 6 { 80.0 * 1e6f64.powi(i as i32) } else { f64::NAN };
    }
    run.train_logs.push(log("cpu_1_thread", &p, losses(80.0, 0.31)));
    run.train_logs.push(log("cpu_all_threads", &p, losses(80.0, 0.311)));
    run.train_logs.push(log("04_fused_graph", &p, diverging));
    let nan = (1..=3).map(|i| LossPoint { epoch: i * 10, step: None, loss: f64::NAN }).collect();
    run.train_logs.push(log("03_fused_streams", &p, nan));
    run
}

/// Returns a record of a smaller GPU with the same policy.
pub fn t4() -> Run {
    let mut run = h200();
    run.environment.device.name = "Tesla T4".into();
    run.environment.device.l2_bytes = Some(4 << 20);
    run.peaks.bandwidth = vec![peak(MemoryLevel::Dram, 2.6e11), peak(MemoryLevel::L2, 9.0e11)];
    run.measurements.retain(|m| m.problem.size() < 100_000_000 && !m.rung.starts_with("cpu"));
    for m in &mut run.measurements {
        let factor = 6.0 + m.problem.size() as f64 / 1e7;
        m.samples_us.iter_mut().for_each(|s| *s *= factor);
    }
    run
}

/// Returns a kernel with one tile, as GPU rungs have it.
fn kernel() -> KernelSpec {
    KernelSpec::new(Source { path: "sample.cu", text: "" }, "main", &[Tile::new("t256", &[("T", 256)])], Grid::Tiles)
}
