#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use warpbook_record::{
    BandwidthPeak, Check, ClockReport, ComputePeak, Define, DeviceInfo, DeviceKind, Dtype, Environment, Grid,
    KernelSpec, KernelStats, L2State, LossPoint, Measurement, MemoryLevel, Outcome, Peaks, Policy, Problem, Requires,
    Run, Rung, Runner, Schedule, Span, SpanGroup, Tile, TimedBy, TrainLog,
};

/// The golden record of format 1. It stays as it is; later formats get files of their own.
pub fn golden() -> String {
    // At run time: a checkout may be elsewhere than where the test was built.
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let path = PathBuf::from(root).join("tests/golden/run.v1.json");
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn problem(points: u64, learning_rate: f64) -> Problem {
    Problem::Regression {
        points,
        train_points: points / 5 * 4,
        features: 1,
        epochs: 200,
        learning_rate,
        noise: 0.1,
        seed: 42,
        dtype: Dtype::F32,
    }
}

fn kernel(file: &'static str, entry: &'static str, grid: Grid, defines: &[(&'static str, i64)]) -> KernelSpec {
    KernelSpec {
        file: file.into(),
        entry: entry.into(),
        source: "".into(),
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
    Rung { id: id.into(), title: title.into(), idea: "What changed, in a sentence.".into(), requires, runner }
}

fn kernels(schedule: Schedule) -> Runner {
    let specs = vec![
        kernel("regression/02_fused.cu", "pass", Grid::Resident, &[("WITHOUT_LOSS", 1)]),
        kernel("regression/02_fused.cu", "update", Grid::One, &[]),
    ];
    Runner::Kernels { specs, schedule }
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

fn measurements(standard: &Problem, wild: &Problem) -> Vec<Measurement> {
    let blank = |rung: &str, outcome| Measurement::without_samples(rung, standard.clone(), outcome);
    let stats = KernelStats {
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
    };
    let unasked =
        KernelStats { grid: None, block: None, blocks_per_multiprocessor: None, occupancy: None, ..stats.clone() };
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
            kernels: vec![stats, unasked],
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

fn train_logs(standard: &Problem, wild: &Problem) -> Vec<TrainLog> {
    let log = |problem: &Problem, losses: [f64; 3], w, b| TrainLog {
        rung: "04_fused_graph".into(),
        problem: problem.clone(),
        losses: losses.into_iter().zip([1, 10, 20]).map(|(loss, epoch)| LossPoint { epoch, loss }).collect(),
        parameters: BTreeMap::from([("b".to_owned(), b), ("w".to_owned(), w)]),
        train_loss: losses[2],
        test_loss: f64::NAN,
    };
    vec![
        log(standard, [80.125, 0.5, 0.010_000_1], 2.999_97, 2.000_1),
        log(wild, [80.125, f64::INFINITY, f64::NAN], f64::NAN, f64::NEG_INFINITY),
    ]
}

/// What the golden record says.
pub fn expected() -> Run {
    let (standard, wild) = (problem(5_000_000, 0.01), problem(100_000, 50.0));
    let span = |group, name: &str, us: f64| Span {
        rung: "04_fused_graph".into(),
        problem: standard.clone(),
        group,
        name: name.into(),
        samples_us: vec![us, us * 1.5],
    };
    let peak = |level, rate: Option<f64>| BandwidthPeak {
        level,
        method: "sum of 4 GiB of floats".into(),
        bytes: 4 << 30,
        samples_us: vec![930.0, 929.5],
        datasheet_bytes_per_s: rate,
    };
    Run {
        schema: 1,
        experiment: "regression".into(),
        title: "Fused linear regression".into(),
        created: "2026-11-21T07:00:00Z".into(),
        command: "warpbook run regression --points 5000000".into(),
        environment: environment(),
        policy: Policy {
            timed_by: TimedBy::CudaEvents,
            l2: L2State::Warm,
            warmup: 3,
            samples: 30,
            budget_s: f64::INFINITY,
            batch_below_us: 50.0,
            inputs: "x evenly spaced and permuted, y with Gaussian noise by Philox".into(),
        },
        peaks: Peaks {
            bandwidth: vec![peak(MemoryLevel::Dram, Some(4.8e12)), peak(MemoryLevel::L2, None)],
            compute: vec![ComputePeak {
                dtype: Dtype::F32,
                method: "chains of fused multiply-adds".into(),
                flops: 1 << 40,
                samples_us: vec![17_000.5],
                datasheet_flops_per_s: Some(6.7e13),
            }],
        },
        rungs: vec![
            rung("cpu_all_threads", "CPU, all threads", Requires::Nothing, Runner::Cpu("all threads".into())),
            rung("02_fused", "Fused", Requires::AtLeast(7, 5), kernels(Schedule::Launches)),
            rung("03_fused_streams", "Fused over streams", Requires::AtLeast(7, 5), kernels(Schedule::Streams(4))),
            rung("04_fused_graph", "Fused in a graph", Requires::AtLeast(7, 5), kernels(Schedule::Graph)),
            rung("05_persistent", "Persistent", Requires::AtLeast(7, 0), kernels(Schedule::Cooperative)),
            rung("09_wgmma", "Warp groups", Requires::Exactly("sm_90a".into()), kernels(Schedule::Cluster(2))),
            rung("cublas", "cuBLAS", Requires::AtLeast(5, 0), Runner::Library("cuBLAS".into())),
            rung("pytorch", "PyTorch, eager", Requires::Nothing, Runner::External("PyTorch".into())),
        ],
        sources: BTreeMap::from([
            ("reduce.cuh".to_owned(), "// Sums over a block: 1 µs <\"&>\n#pragma once\n".to_owned()),
            ("regression/02_fused.cu".to_owned(), "extern \"C\" __global__ void pass() {}\n".to_owned()),
        ]),
        measurements: measurements(&standard, &wild),
        train_logs: train_logs(&standard, &wild),
        spans: vec![
            span(SpanGroup::Operation, "pass", 8.25),
            span(SpanGroup::Operation, "update", 2.5),
            span(SpanGroup::Ablation, "whole pass", 8.25),
            span(SpanGroup::Ablation, "without the loss", 7.75),
        ],
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

/// Runs are compared by their debug form: NaN is not equal to itself.
pub fn assert_same(a: &Run, b: &Run) {
    assert_eq!(format!("{a:#?}"), format!("{b:#?}"));
}
