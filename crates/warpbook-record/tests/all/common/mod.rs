#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use warpbook_record::{
    Access, BandwidthPeak, Baseline, ChartKind, Check, ClockReport, Column, ComputePeak, Define, Descriptor,
    DeviceInfo, DeviceKind, Dtype, Environment, Grid, Inputs, KernelSpec, KernelStats, L2State, LossPoint, Measurement,
    MemoryLevel, Outcome, Part, PartGroup, Peaks, Policy, Problem, ProblemData, Quantity, Requires, Run, Rung, Runner,
    Schedule, Span, SweepAxis, SweepPoint, Tile, TimedBy, Traffic, TrainLog, count, setting,
};

/// Reads a file, given its path relative to this crate's folder.
pub fn file(path: &str) -> String {
    // The variable is read at run time, since the checkout may have moved after the build.
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let path = PathBuf::from(root).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The golden record of the current format. It never changes; later formats get their own files.
pub fn golden() -> String {
    file("tests/golden/run.v2.json")
}

/// The golden record of format 1, which never changes.
pub fn golden_v1() -> String {
    file("tests/golden/run.v1.json")
}

fn peaks() -> Peaks {
    let peak = |level, rate: Option<f64>| BandwidthPeak {
        level,
        access: Access::Read,
        method: "sum of 4 GiB of floats".into(),
        bytes: 4 << 30,
        samples_us: vec![930.0, 929.5],
        datasheet_bytes_per_s: rate,
    };
    Peaks {
        bandwidth: vec![peak(MemoryLevel::Dram, Some(4.8e12)), peak(MemoryLevel::L2, None)],
        compute: vec![ComputePeak {
            dtype: Dtype::F32,
            method: "chains of fused multiply-adds".into(),
            flops: 1 << 40,
            samples_us: vec![17_000.5],
            datasheet_flops_per_s: Some(6.7e13),
        }],
        links: Vec::new(),
    }
}

fn policy() -> Policy {
    Policy {
        timed_by: TimedBy::CudaEvents,
        l2: L2State::Warm,
        warmup: 3,
        samples: 30,
        budget_s: f64::INFINITY,
        batch_below_us: 50.0,
        inputs: Inputs::of_all("x evenly spaced and permuted, y with Gaussian noise by Philox"),
    }
}

fn sources() -> BTreeMap<String, String> {
    BTreeMap::from([
        ("reduce.cuh".to_owned(), "// Sums over a block: 1 µs <\"&>\n#pragma once\n".to_owned()),
        ("regression/02_fused.cu".to_owned(), "extern \"C\" __global__ void pass() {}\n".to_owned()),
    ])
}

fn check(max_rel_error: f64, passed: bool) -> Check {
    Check {
        reference: "f64 descent on the CPU".into(),
        max_abs_error: max_rel_error * 3.0,
        max_rel_error,
        tolerance: 0.000_03,
        passed,
    }
}

fn stats() -> KernelStats {
    KernelStats {
        file: "regression/02_fused.cu".into(),
        entry: "pass".into(),
        architecture: "sm_90".into(),
        registers: 40,
        static_shared_bytes: 192,
        dynamic_shared_bytes: 0,
        spill_store_bytes: 0,
        spill_load_bytes: 8,
        grid: Some([528, 1, 1]),
        block: Some([512, 1, 1]),
        blocks_per_multiprocessor: Some(3),
        occupancy: Some(0.75),
    }
}

fn kernel(file: &'static str, entry: &'static str, grid: Grid, defines: &[(&'static str, i64)]) -> KernelSpec {
    KernelSpec {
        file: file.into(),
        entry: entry.into(),
        source: "".into(),
        headers: Vec::new(),
        waits: false,
        defines: defines.iter().map(|(n, v)| Define::new(*n, *v)).collect(),
        tiles: vec![
            Tile::new("t512x8", &[("THREADS", 512), ("ITEMS", 8), ("BLOCKS_PER_SM", 4)]),
            Tile::new("t256x8", &[("THREADS", 256), ("ITEMS", 8), ("BLOCKS_PER_SM", 8)]),
        ],
        grid,
        requires: None,
    }
}

fn rung(id: &'static str, title: &'static str, requires: Requires, runner: Runner) -> Rung {
    let idea = "What changed, in a sentence.".into();
    Rung { id: id.into(), title: title.into(), idea, requires, runner, variant_of: None }
}

/// The problems of the golden record, with every kind of size, with and without a unit, and with and without passes,
/// items and a position in a sweep. The ids of the third and fourth problem are not made of their sizes, as if another
/// program had written them.
fn problems() -> [Problem; 4] {
    let data = |id: &str, label: &str, short: &str, sizes, dtype| ProblemData {
        id: id.into(),
        label: label.into(),
        short: short.into(),
        sizes,
        dtype,
        flops: 0,
        bytes: 0,
        written_bytes: 0,
        working_set_bytes: 0,
        passes: 1,
        items: None,
        sweep: None,
    };
    let descent = ProblemData {
        flops: 6_400_000_000,
        bytes: 6_400_000_000,
        written_bytes: 4_000,
        working_set_bytes: 32_000_000,
        passes: 200,
        items: Some(800_000_000),
        sweep: Some(SweepPoint { size: 5_000_000, line: "200 epochs".into() }),
        ..data(
            "points=5000000 epochs=200 learning_rate=0.01 fp32",
            "5 M points, 200 epochs",
            "5 M",
            vec![count("points", 5_000_000, "points"), count("epochs", 200, ""), setting("learning_rate", 0.01)],
            Dtype::F32,
        )
    };
    let product = ProblemData {
        flops: 137_438_953_472,
        bytes: 100_663_296,
        working_set_bytes: 100_663_296,
        sweep: Some(SweepPoint { size: 4096, line: "bf16".into() }),
        ..data(
            "m=4096 n=4096 k=4096 bf16",
            "4096³ bf16",
            "4096³",
            vec![count("m", 4096, "rows"), count("n", 4096, "columns"), count("k", 4096, "terms")],
            Dtype::Bf16,
        )
    };
    let network = ProblemData {
        items: Some(60_000),
        ..data(
            "mnist/512",
            "MNIST, batches of 512",
            "512",
            vec![setting("network", "two convolutions"), count("batch", 512, "images"), setting("decay", 1e-4)],
            Dtype::F16,
        )
    };
    let sizes = vec![setting("learning_rate", f64::INFINITY), setting("noise", f64::NAN)];
    let wild = data("wild", "without bounds", "?", sizes, Dtype::F32);
    [descent.into(), product.into(), network.into(), wild.into()]
}

fn descriptor() -> Descriptor {
    Descriptor {
        headline: Quantity::ItemRate,
        quantities: vec![
            Quantity::ItemRate,
            Quantity::Time,
            Quantity::SpeedUp,
            Quantity::Bandwidth,
            Quantity::Throughput,
        ],
        baseline: Baseline::Rung("cublas".into()),
        axis: SweepAxis { caption: "edge of the matrices".into(), unit: "rows".into(), doubling: true },
        // These are the columns that existed when the file was written.
        columns: vec![
            Column::Median,
            Column::Mad,
            Column::Wall,
            Column::PassTime,
            Column::SpeedUp,
            Column::Throughput,
            Column::Bandwidth,
            Column::ItemRate,
            Column::OfLibrary,
            Column::OfBound,
            Column::BoundBy,
            Column::Check,
            Column::Tile,
            Column::Samples,
        ],
        charts: vec![
            ChartKind::Ladder,
            ChartKind::Sweep,
            ChartKind::HeatMap,
            ChartKind::Roofline,
            ChartKind::Operations,
            ChartKind::Ablation,
            ChartKind::Tiles,
            ChartKind::Transfers,
            ChartKind::Loss,
        ],
        pass: "epoch".into(),
        item: "images".into(),
        levels: vec![MemoryLevel::Dram, MemoryLevel::L2, MemoryLevel::Shared, MemoryLevel::Registers],
        loss: "mean cross-entropy of the batch".into(),
        above_bound: "bytes are counted as blocks request them".into(),
        compared: Vec::new(),
        reason: String::new(),
        sample: String::new(),
    }
}

/// Rungs with every runner, schedule and grid.
fn rungs() -> Vec<Rung> {
    let turing = || Requires::AtLeast(7, 5);
    let kernels = |schedule, grid| Runner::Kernels {
        specs: vec![kernel("regression/02_fused.cu", "pass", grid, &[("WITHOUT_LOSS", 1)])],
        schedule,
    };
    let newer = Runner::Kernels {
        specs: vec![KernelSpec {
            requires: Some(Requires::Exactly("sm_90a".into())),
            ..kernel("regression/02_fused.cu", "pass", Grid::ResidentTiles, &[])
        }],
        schedule: Schedule::Clusters,
    };
    let mine = rung("03_fused_streams+mine", "Mine", turing(), kernels(Schedule::OverlappedGraph, Grid::Cover));
    vec![
        rung("cpu_all_threads", "CPU, all threads", Requires::Nothing, Runner::Cpu("all threads".into())),
        rung("cublas", "cuBLAS", Requires::AtLeast(5, 0), Runner::Library("cuBLAS".into())),
        rung("pytorch", "PyTorch, eager", turing(), Runner::External("PyTorch".into())),
        rung("02_fused", "Fused", turing(), kernels(Schedule::Launches, Grid::One)),
        rung("03_fused_streams", "Fused over streams", turing(), kernels(Schedule::Streams(4), Grid::Cover)),
        Rung { variant_of: Some("03_fused_streams".into()), ..mine },
        rung("04_fused_graph", "Fused in a graph", turing(), kernels(Schedule::Graph, Grid::Resident)),
        rung("05_persistent", "Persistent", turing(), kernels(Schedule::Cooperative, Grid::Tiles)),
        rung("09_wgmma", "Warp groups", Requires::AtLeast(9, 0), newer),
    ]
}

fn measurements([descent, product, network, wild]: &[Problem; 4]) -> Vec<Measurement> {
    let traffic = |level, bytes| Traffic { level, bytes };
    vec![
        Measurement {
            samples_us: vec![5_600_000.0, 5_624_311.5],
            samples_total: 2,
            wall_us: vec![5_600_000.0, 5_624_311.5],
            check: Some(check(1.5e-7, true)),
            ..Measurement::without_samples("cpu_all_threads", descent.clone(), Outcome::Measured)
        },
        Measurement {
            tile: Some("t512x8".into()),
            samples_us: vec![2310.4, 2309.1, 2311.0],
            samples_total: 1_500,
            wall_us: vec![2330.0, 2328.5, 2331.25],
            check: Some(check(2.25e-6, true)),
            kernels: vec![stats()],
            choice: Some("t512x8: the inputs stay in L2".into()),
            traffic: vec![
                traffic(MemoryLevel::Registers, 3_460_300_800),
                traffic(MemoryLevel::Shared, 1_209_548_800),
                traffic(MemoryLevel::L2, 2_939_699_200),
                traffic(MemoryLevel::Dram, 32_000_000),
            ],
            flops: Some(6_400_000_001),
            ..Measurement::without_samples("04_fused_graph", descent.clone(), Outcome::Measured)
        },
        Measurement {
            samples_us: vec![180.5],
            samples_total: 1,
            check: Some(check(2.25e-6, true)),
            ..Measurement::without_samples("cublas", product.clone(), Outcome::Measured)
        },
        Measurement::without_samples(
            "09_wgmma",
            network.clone(),
            Outcome::Skipped { why: "It needs a GPU of architecture sm_90a exactly.".into() },
        ),
        Measurement {
            samples_us: vec![f64::INFINITY],
            samples_total: 1,
            check: Some(check(f64::NAN, false)),
            ..Measurement::without_samples(
                "03_fused_streams+mine",
                wild.clone(),
                Outcome::Failed { error: "its weights are NaN; the reference's are finite".into() },
            )
        },
    ]
}

fn train_logs([_, _, network, wild]: &[Problem; 4]) -> Vec<TrainLog> {
    let log = |problem: &Problem, losses: Vec<LossPoint>, w, b| TrainLog {
        rung: "04_fused_graph".into(),
        problem: problem.clone(),
        train_loss: losses[losses.len() - 1].loss,
        losses,
        parameters: BTreeMap::from([("b".to_owned(), b), ("w".to_owned(), w)]),
        test_loss: f64::NAN,
        course: None,
    };
    let point = |epoch, step, loss| LossPoint { epoch, step, loss };
    let by_step = vec![point(1, Some(1), 2.25), point(1, Some(100), 0.5), point(2, Some(118), 0.010_000_1)];
    let diverging = vec![point(1, None, 80.125), point(10, None, f64::INFINITY), point(20, None, f64::NAN)];
    vec![log(network, by_step, 2.999_97, 2.000_1), log(wild, diverging, f64::NAN, f64::NEG_INFINITY)]
}

fn peaks_with_copies() -> Peaks {
    let mut peaks = peaks();
    let read = peaks.bandwidth[0].clone();
    peaks.bandwidth.push(BandwidthPeak { access: Access::Copy, datasheet_bytes_per_s: None, ..read });
    peaks
}

/// The expected contents of the golden record. It uses every field.
pub fn expected() -> Run {
    let all = problems();
    let [descent, product, network, _] = &all;
    let part = |rung: &str, problem: &Problem, group, name: &str| Part {
        rung: rung.into(),
        problem: problem.clone(),
        group,
        name: name.into(),
        samples_us: vec![8.25, 12.375],
    };
    let span = |rung: &str, name: &str, stream: &str, start_us| Span {
        rung: rung.into(),
        problem: network.clone(),
        name: name.into(),
        operation: String::new(),
        stream: stream.into(),
        start_us,
        duration_us: 1.5,
        bytes: None,
        correlation: None,
    };
    Run {
        schema: 2,
        experiment: "everything".into(),
        title: "Every field of a record".into(),
        author: Some("Ada".into()),
        created: "2026-11-22T07:00:00Z".into(),
        command: "warpbook run everything".into(),
        environment: environment(),
        policy: policy(),
        peaks: peaks_with_copies(),
        descriptor: descriptor(),
        problems: all.to_vec(),
        main_problem: Some(product.id.clone()),
        rungs: rungs(),
        sources: sources(),
        measurements: measurements(&all),
        train_logs: train_logs(&all),
        parts: vec![
            part("02_fused", descent, PartGroup::Operation, "pass"),
            part("02_fused", descent, PartGroup::Ablation, "without the loss"),
            part("04_fused_graph", descent, PartGroup::Tile, "t256x8"),
            part("", product, PartGroup::Transfer, "to the device"),
        ],
        spans: vec![
            span("04_fused_graph", "pass", "0", 0.0),
            span("04_fused_graph", "copy of the next batch", "1", 0.25),
            span("", "shuffle", "host", -1.0),
        ],
        breakdowns: Vec::new(),
        profiled: Vec::new(),
        xrays: Vec::new(),
        guesses: Vec::new(),
        notes: vec!["interrupted after 5 of 6 measurements".into()],
    }
}

/// A problem of format 1's golden record, upgraded.
fn problem_of_v1(points: u64, short: &str, learning_rate: f64) -> Problem {
    let train_points = points / 5 * 4;
    Problem::from(ProblemData {
        id: format!(
            "points={points} train_points={train_points} epochs=200 learning_rate={learning_rate} noise=0.1 seed=42 fp32"
        ),
        label: format!("{short} points, 200 epochs"),
        short: short.into(),
        sizes: vec![
            count("points", points, "points"),
            count("train_points", train_points, "points"),
            count("epochs", 200, ""),
            setting("learning_rate", learning_rate),
            setting("noise", 0.1),
            setting("seed", 42u64),
        ],
        dtype: Dtype::F32,
        flops: train_points * 200 * 8,
        bytes: train_points * 200 * 8,
        written_bytes: 0,
        working_set_bytes: train_points * 8,
        passes: 200,
        items: None,
        sweep: Some(SweepPoint { size: points, line: "200 epochs".into() }),
    })
}

fn rungs_of_v1() -> Vec<Rung> {
    let turing = || Requires::AtLeast(7, 5);
    let kernels = |schedule| {
        let specs = vec![
            kernel("regression/02_fused.cu", "pass", Grid::Resident, &[("WITHOUT_LOSS", 1)]),
            kernel("regression/02_fused.cu", "update", Grid::One, &[]),
        ];
        Runner::Kernels { specs, schedule }
    };
    vec![
        rung("cpu_all_threads", "CPU, all threads", Requires::Nothing, Runner::Cpu("all threads".into())),
        rung("02_fused", "Fused", turing(), kernels(Schedule::Launches)),
        rung("03_fused_streams", "Fused over streams", turing(), kernels(Schedule::Streams(4))),
        rung("04_fused_graph", "Fused in a graph", turing(), kernels(Schedule::Graph)),
        rung("05_persistent", "Persistent", Requires::AtLeast(7, 0), kernels(Schedule::Cooperative)),
        rung("09_wgmma", "Warp groups", Requires::Exactly("sm_90a".into()), kernels(Schedule::Clusters)),
        rung("cublas", "cuBLAS", Requires::AtLeast(5, 0), Runner::Library("cuBLAS".into())),
        rung("pytorch", "PyTorch, eager", Requires::Nothing, Runner::External("PyTorch".into())),
    ]
}

fn measurements_of_v1(standard: &Problem, wild: &Problem) -> Vec<Measurement> {
    let blank = |rung: &str, outcome| Measurement::without_samples(rung, standard.clone(), outcome);
    let unasked = KernelStats { grid: None, block: None, blocks_per_multiprocessor: None, occupancy: None, ..stats() };
    vec![
        Measurement {
            samples_us: vec![5_600_000.0, 5_624_311.5],
            samples_total: 2,
            wall_us: vec![5_600_000.0, 5_624_311.5],
            check: Some(check(1.5e-7, true)),
            ..blank("cpu_all_threads", Outcome::Measured)
        },
        Measurement {
            tile: Some("t512x8".into()),
            samples_us: vec![2310.4, 2309.1, 2311.0],
            samples_total: 1_500,
            wall_us: vec![2330.0, 2328.5, 2331.25],
            check: Some(check(2.25e-6, true)),
            kernels: vec![stats(), unasked],
            ..blank("04_fused_graph", Outcome::Measured)
        },
        blank("09_wgmma", Outcome::Skipped { why: "It needs a GPU of architecture sm_90a exactly.".into() }),
        Measurement {
            samples_us: vec![f64::INFINITY],
            samples_total: 1,
            check: Some(check(f64::NAN, false)),
            ..Measurement::without_samples(
                "03_fused_streams",
                wild.clone(),
                Outcome::Failed { error: "its weights are NaN; the reference's are finite".into() },
            )
        },
    ]
}

fn train_logs_of_v1(standard: &Problem, wild: &Problem) -> Vec<TrainLog> {
    let log = |problem: &Problem, losses: [f64; 3], w, b| TrainLog {
        rung: "04_fused_graph".into(),
        problem: problem.clone(),
        losses: losses
            .into_iter()
            .zip([1, 10, 20])
            .map(|(loss, epoch)| LossPoint { epoch, step: None, loss })
            .collect(),
        parameters: BTreeMap::from([("b".to_owned(), b), ("w".to_owned(), w)]),
        train_loss: losses[2],
        test_loss: f64::NAN,
        course: None,
    };
    vec![
        log(standard, [80.125, 0.5, 0.010_000_1], 2.999_97, 2.000_1),
        log(wild, [80.125, f64::INFINITY, f64::NAN], f64::NAN, f64::NEG_INFINITY),
    ]
}

/// The expected contents of format 1's golden record, upgraded to the current format.
pub fn expected_of_v1() -> Run {
    let (standard, wild) = (problem_of_v1(5_000_000, "5 M", 0.01), problem_of_v1(100_000, "100 k", 50.0));
    let part = |group, name: &str, us: f64| Part {
        rung: "04_fused_graph".into(),
        problem: standard.clone(),
        group,
        name: name.into(),
        samples_us: vec![us, us * 1.5],
    };
    Run {
        schema: 2,
        experiment: "regression".into(),
        title: "Fused linear regression".into(),
        author: None,
        created: "2026-11-21T07:00:00Z".into(),
        command: "warpbook run regression --points 5000000".into(),
        environment: environment(),
        policy: policy(),
        peaks: peaks(),
        descriptor: Descriptor {
            headline: Quantity::Time,
            quantities: vec![Quantity::Time, Quantity::SpeedUp, Quantity::Bandwidth],
            baseline: Baseline::FirstValid,
            axis: SweepAxis { caption: "points".into(), unit: "points".into(), doubling: false },
            columns: vec![
                Column::Median,
                Column::Mad,
                Column::PassTime,
                Column::SpeedUp,
                Column::Bandwidth,
                Column::OfBound,
                Column::Check,
            ],
            charts: vec![
                ChartKind::Ladder,
                ChartKind::Sweep,
                ChartKind::Roofline,
                ChartKind::Operations,
                ChartKind::Ablation,
                ChartKind::Loss,
            ],
            pass: "epoch".into(),
            item: String::new(),
            levels: vec![MemoryLevel::Dram, MemoryLevel::L2, MemoryLevel::Shared, MemoryLevel::Registers],
            loss: "mean squared error on the training points".into(),
            above_bound: String::new(),
            compared: Vec::new(),
            reason: String::new(),
            sample: String::new(),
        },
        problems: vec![standard.clone(), wild.clone()],
        main_problem: Some(standard.id.clone()),
        rungs: rungs_of_v1(),
        sources: sources(),
        measurements: measurements_of_v1(&standard, &wild),
        train_logs: train_logs_of_v1(&standard, &wild),
        parts: vec![
            part(PartGroup::Operation, "pass", 8.25),
            part(PartGroup::Operation, "update", 2.5),
            part(PartGroup::Ablation, "whole pass", 8.25),
            part(PartGroup::Ablation, "without the loss", 7.75),
        ],
        spans: Vec::new(),
        breakdowns: Vec::new(),
        profiled: Vec::new(),
        xrays: Vec::new(),
        guesses: Vec::new(),
        notes: vec!["interrupted after 4 of 5 measurements".into()],
    }
}

fn environment() -> Environment {
    Environment {
        device: DeviceInfo {
            kind: DeviceKind::Cuda,
            index: 0,
            name: "NVIDIA H200".into(),
            memory_bytes: 150_754_820_096,
            multiprocessors: 132,
            compute_capability: Some((9, 0)),
            l2_bytes: Some(62_914_560),
            shared_bytes_per_multiprocessor: Some(233_472),
            shared_bytes_per_block: Some(232_448),
            registers_per_multiprocessor: Some(65_536),
            max_sm_mhz: Some(1_980),
            max_memory_mhz: Some(3_201),
        },
        driver: Some("580.65.06".into()),
        cuda: Some("13.0".into()),
        nvrtc: Some("13.0".into()),
        clocks: Some(ClockReport {
            source: "NVML".into(),
            readings: 12,
            sm_mhz: Some((1_830, 1_980)),
            memory_mhz: Some((3_201, 3_201)),
            max_power_watts: Some(512),
            max_temperature_celsius: Some(54),
            throttling: vec!["power cap".into()],
        }),
        cpu: "Intel(R) Xeon(R) Platinum 8558".into(),
        cpu_threads: 16,
        os: "linux x86_64".into(),
        warpbook: "0.1.0".into(),
        commit: Some("7b9d3dc".into()),
        debug_assertions: false,
        libraries: vec![("PyTorch".into(), "2.11.0".into())],
    }
}

/// Compares records by their debug output, since NaN does not equal itself.
pub fn assert_same(a: &Run, b: &Run) {
    assert_eq!(format!("{a:#?}"), format!("{b:#?}"));
}
