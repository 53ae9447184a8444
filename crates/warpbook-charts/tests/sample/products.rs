//! A record of matrix products like the published one: many shapes, four types, libraries and Warpbook's rungs.

use super::{empty, measured, peak, samples};
use warpbook_record::{
    Baseline, ChartKind, Column, ComputePeak, Descriptor, DeviceKind, Dtype, Grid, KernelSpec, Measurement,
    MemoryLevel, Outcome, Part, PartGroup, Problem, Quantity, Requires, Run, Rung, Runner, Schedule, Source, SweepAxis,
    SweepPoint, Tile, Traffic, count, setting,
};

/// Rungs as (id, title, share of the peak of its arithmetic at large sizes, edge of its tiles), in the ladder's order.
const RUNGS: [(&str, &str, f64, u64); 21] = [
    ("cpu_naive", "CPU, three loops", 0.0, 1),
    ("cpu_blocked", "CPU, blocked", 0.0, 1),
    ("cpu_threaded", "CPU, blocked, all threads", 0.0, 1),
    ("cpu_library", "CPU, gemm crate", 0.0, 1),
    ("cublas", "cuBLAS", 0.83, 128),
    ("cublaslt", "cuBLASLt, best of 32", 0.86, 128),
    ("01_naive", "Naive", 0.009, 1),
    ("02_coalesced", "Coalesced", 0.08, 32),
    ("03_shared_tile", "Shared tile", 0.12, 32),
    ("04_register_1d", "Register tile, 1-D", 0.3, 64),
    ("05_register_2d", "Register tile, 2-D", 0.6, 128),
    ("06_vectorised", "Vectorised", 0.72, 128),
    ("07_warp_tile", "Warp tile", 0.77, 128),
    ("08_double_buffered", "Double-buffered", 0.83, 128),
    ("09_wmma", "WMMA", 0.31, 128),
    ("10_mma_swizzled", "mma.sync, swizzled", 0.56, 128),
    ("11_wgmma_tma", "wgmma and TMA", 0.6, 128),
    ("12_warp_specialised", "Warp-specialised", 0.74, 192),
    ("13_persistent_cluster", "Persistent, in clusters", 0.8, 192),
    ("14_overlapped_store", "Stores overlapped", 0.85, 192),
    ("15_split_k", "Split k", 0.68, 128),
];
const SHAPES: [(u64, u64, u64); 13] = [
    (256, 256, 256),
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (16384, 16384, 16384),
    (1000, 1000, 1000),
    (4097, 4095, 4093),
    (128, 8192, 8192),
    (8192, 8192, 128),
    (64, 4096, 11008),
    (65536, 512, 512),
];
pub const DTYPES: [Dtype; 4] = [Dtype::F32, Dtype::Tf32, Dtype::F16, Dtype::Bf16];

/// Makes a problem like `warpbook_kernels::matmul::problem`.
pub fn product((m, n, k): (u64, u64, u64), dtype: Dtype) -> Problem {
    let sizes = vec![count("m", m, "rows"), count("n", n, "columns"), count("k", k, "terms"), setting("seed", 42u64)];
    let cube = m == n && n == k;
    let short = if cube { format!("{m}³") } else { format!("{m} × {n} × {k}") };
    let line = dtype.label().to_owned();
    Problem::new(format!("{short} {line}"), short, sizes, dtype).with(|p| {
        p.flops = 2 * m * n * k;
        p.bytes = ((m + n) * k + m * n) * dtype.bytes();
        p.working_set_bytes = p.bytes;
        p.sweep = cube.then_some(SweepPoint { size: m, line });
    })
}

fn shape(p: &Problem) -> [u64; 3] {
    ["m", "n", "k"].map(|name| p.count(name).unwrap())
}

fn descriptor() -> Descriptor {
    use Column::{Check, Mad, Median, OfBound, OfLibrary, Throughput, Tile};
    Descriptor {
        headline: Quantity::Throughput,
        quantities: vec![Quantity::Throughput, Quantity::Time, Quantity::SpeedUp],
        baseline: Baseline::FastestLibrary,
        axis: SweepAxis { caption: "edge of the matrices (m = n = k)".into(), unit: String::new(), doubling: true },
        columns: vec![Median, Mad, Throughput, OfLibrary, OfBound, Check, Tile],
        charts: vec![ChartKind::Ladder, ChartKind::HeatMap, ChartKind::Sweep, ChartKind::Roofline],
        above_bound: "bytes are counted as blocks request them, and requests of neighbouring SMs for one line can be served at once"
            .into(),
        ..Descriptor::default()
    }
}

pub fn cube(edge: u64, dtype: Dtype) -> Problem {
    product((edge, edge, edge), dtype)
}

fn on_cuda_cores(id: &str) -> bool {
    id.starts_with("0") && id != "09_wmma"
}

fn peak_of(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F32 => 5.95e13,
        Dtype::Tf32 => 4.3e14,
        _ => 8.45e14,
    }
}

fn rung((id, title, _, _): (&'static str, &'static str, f64, u64)) -> Rung {
    let tile = |id: &'static str, m, n| Tile::new(id, &[("BM", m), ("BN", n), ("STAGES", 4)]);
    let tiles = [tile("128x256s4", 128, 256), tile("128x128s6", 128, 128), tile("64x256s5", 64, 256)];
    let source = Source { path: "matmul/x.cu", text: "" };
    let (runner, requires) = match id {
        _ if id.starts_with("cpu") => (Runner::Cpu("threads".into()), Requires::Nothing),
        _ if id.starts_with("cublas") => (Runner::Library(title.into()), Requires::AtLeast(7, 5)),
        _ => {
            let spec = KernelSpec::new(source, "gemm", &tiles, Grid::Tiles);
            (Runner::Kernels { specs: vec![spec], schedule: Schedule::Launches }, Requires::AtLeast(7, 5))
        }
    };
    Rung { id: id.into(), title: title.into(), idea: "".into(), requires, runner, variant_of: None }
}

fn skipped(id: &str, p: &Problem) -> Option<String> {
    let [_, _, k] = shape(p);
    match id {
        _ if id.starts_with("cpu") && (p.dtype != Dtype::F32 || p.flops > 1 << 38) => {
            Some("It would take longer than its time budget of 5 s.".into())
        }
        "01_naive" if p.flops > 1 << 42 => Some("It would take longer than its time budget of 5 s.".into()),
        "09_wmma" if k % 16 != 0 => Some("Its fragments want a k of whole sixteens.".into()),
        "09_wmma" if !matches!(p.dtype, Dtype::F16 | Dtype::Bf16) => Some("It is written for 16-bit types.".into()),
        _ if on_cuda_cores(id) && p.dtype == Dtype::Tf32 => Some("It is written for other types than tf32.".into()),
        _ if id.starts_with("1") && p.dtype == Dtype::F32 => Some("Tensor cores have no fp32.".into()),
        _ => None,
    }
}

/// Returns a rung's time in microseconds and the bytes that its tiles read from L2, on a GPU similar to an H200.
fn model(id: &str, p: &Problem) -> (f64, Vec<Traffic>) {
    let ([m, n, k], dtype) = (shape(p), p.dtype);
    if id.starts_with("cpu") {
        let rate = match id {
            "cpu_naive" => 1.3e9,
            "cpu_blocked" => 2.1e10,
            "cpu_threaded" => 2.6e11,
            _ => 9e11,
        };
        return (5.0 + p.flops as f64 / rate * 1e6, Vec::new());
    }
    let (_, _, share, edge) = *RUNGS.iter().find(|r| r.0 == id).unwrap();
    let cores = on_cuda_cores(id);
    let peak = if cores { 5.95e13 } else { peak_of(dtype) };
    // Tiles run in whole waves over 132 SMs; split k has more tiles.
    let split = if id == "15_split_k" { 4 } else { 1 };
    let tiles = m.div_ceil(edge.max(16)) * n.div_ceil(edge.max(16)) * split;
    let wave = tiles as f64 / tiles.next_multiple_of(132) as f64;
    let wave = if edge <= 32 { 1.0 } else { wave.max(0.05) };
    let odd = if id.starts_with("cublas") && m % 8 != 0 { 0.45 } else { 1.0 };
    let us = 2.2 + p.flops as f64 / (peak * share * wave * odd) * 1e6;
    let bytes = m.div_ceil(edge) * n * k + n.div_ceil(edge) * m * k;
    let traffic = vec![
        Traffic { level: MemoryLevel::Dram, bytes: p.bytes },
        Traffic { level: MemoryLevel::L2, bytes: (bytes * dtype.bytes()).min(p.flops) },
    ];
    (us, if id.starts_with("cublas") { Vec::new() } else { traffic })
}

pub fn part(rung: &str, problem: &Problem, group: PartGroup, name: &str, us: f64) -> Part {
    Part { rung: rung.into(), problem: problem.clone(), group, name: name.into(), samples_us: samples(us, 30, 0.01) }
}

/// Returns the record of the matrix products.
pub fn products() -> Run {
    let mut run = empty("NVIDIA H200", DeviceKind::Cuda);
    run.experiment = "matmul".into();
    run.title = "Matrix product".into();
    run.descriptor = descriptor();
    run.main_problem = Some(cube(4096, Dtype::Bf16).id.clone());
    run.rungs = RUNGS.map(rung).into();
    run.peaks.bandwidth = vec![
        peak(MemoryLevel::Dram, 4.54e12),
        peak(MemoryLevel::L2, 9.14e12),
        peak(MemoryLevel::Shared, 3.21e13),
        peak(MemoryLevel::Registers, 3.6e14),
    ];
    run.peaks.compute = DTYPES
        .map(|dtype| {
            let flops = 1 << 40;
            let samples_us = vec![flops as f64 / peak_of(dtype) * 1e6; 5];
            ComputePeak { dtype, method: "chains".into(), flops, samples_us, datasheet_flops_per_s: None }
        })
        .into();
    for shape in SHAPES {
        for dtype in DTYPES {
            let p = product(shape, dtype);
            for (id, ..) in RUNGS {
                run.measurements.push(match skipped(id, &p) {
                    Some(why) => Measurement::without_samples(id, p.clone(), Outcome::Skipped { why }),
                    None => {
                        let (us, traffic) = model(id, &p);
                        let tile = id.starts_with(['0', '1']).then(|| "128x256s4".to_owned());
                        Measurement { traffic, tile, ..measured(id, &p, us, 0.004) }
                    }
                });
            }
        }
    }
    let failed = product((65536, 512, 512), Dtype::Bf16);
    for m in run.measurements.iter_mut().filter(|m| m.problem == failed && m.rung == "12_warp_specialised") {
        let error = "CUDA_ERROR_LAUNCH_FAILED in kernel `gemm` (matmul/12_warp_specialised.cu)".to_owned();
        *m = Measurement::without_samples(m.rung.clone(), m.problem.clone(), Outcome::Failed { error });
    }
    let p = cube(4096, Dtype::Bf16);
    for (id, ..) in RUNGS.into_iter().filter(|r| r.0.starts_with(['0', '1'])) {
        let us = model(id, &p).0;
        if id >= "11" {
            let first = if id == "13_persistent_cluster" { 0.96 } else { 1.07 };
            run.parts.push(part(id, &p, PartGroup::Tile, "128x128s6", us * first));
            run.parts.push(part(id, &p, PartGroup::Tile, "64x256s5", us * 1.31));
        }
        if ["01_naive", "08_double_buffered", "14_overlapped_store"].contains(&id) {
            let parts = [("to the device", 1210.0), ("compute", us), ("to the host", 640.0)];
            run.parts.extend(parts.map(|(name, us)| part(id, &p, PartGroup::Transfer, name, us)));
        }
    }
    run
}
