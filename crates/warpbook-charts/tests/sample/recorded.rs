//! A record with a GPU's activity in one run, as CUPTI would report it.

use super::{h200, problem};
use warpbook_record::{Breakdown, ComputePeak, Dtype, OperationTime, Run, Span};

/// An operation: name, kernels, launches, microseconds, FLOPs, bytes.
type Row = (&'static str, &'static [&'static str], u64, f64, u64, u64);

const UNFUSED: [Row; 4] = [
    ("conv1 forward", &["conv_direct"], 1, 40.0, 3_000_000_000, 20_000_000),
    ("conv1 weight gradient", &["im2col", "matmul_tiled", "total_sums", "fill"], 5, 60.0, 3_000_000_000, 22_000_000),
    ("fc1 weight gradient", &["matmul_tiled"], 1, 20.0, 0, 100_000_000),
    ("optimiser", &["sgd_momentum"], 1, 8.0, 0, 0),
];
const GRAPH: [Row; 5] = [
    ("conv1 forward", &["conv_implicit"], 1, 12.0, 3_000_000_000, 20_000_000),
    ("conv1 weight gradient", &["conv_weight"], 1, 20.0, 3_000_000_000, 22_000_000),
    ("fc1 weight gradient", &["matmul_wgmma"], 1, 25.0, 1_000_000, 100_000_000),
    ("optimiser", &["sgd_momentum"], 1, 8.0, 0, 30_000_000),
    ("odd", &["own"], 1, f64::NAN, 0, 0),
];

fn operation(&(name, kernels, launches, us, flops, bytes): &Row) -> OperationTime {
    OperationTime {
        name: name.into(),
        kernels: kernels.iter().map(|k| (*k).into()).collect(),
        launches,
        samples_us: vec![us, us * 1.01, us * 0.99],
        alone_us: Vec::new(),
        flops,
        bytes,
        written_bytes: bytes / 2,
        dtype: (flops > 0).then_some(Dtype::F16),
    }
}

/// Returns a record with two rungs, one after the other. The second rung has a weight gradient on a second stream,
/// which overlaps another operation.
pub fn recorded() -> Run {
    let (mut run, p) = (h200(), problem(5_000_000));
    run.peaks.compute.push(ComputePeak {
        dtype: Dtype::F16,
        method: "wgmma".into(),
        flops: 800_000_000,
        samples_us: vec![1.0],
        datasheet_flops_per_s: None,
    });
    let whole = |us: f64| vec![us, us + 1.0, us - 1.0];
    let breakdown = |rung: &str, rows: &[Row], whole_us: f64, busy_us: f64| Breakdown {
        rung: rung.into(),
        problem: p.clone(),
        source: "CUPTI 130001".into(),
        whole_us: whole(whole_us),
        busy_us: whole(busy_us),
        between_us: vec![1.5, 2.5],
        operations: rows.iter().map(operation).collect(),
    };
    run.breakdowns =
        vec![breakdown("01_unfused", &UNFUSED, 150.0, 128.0), breakdown("04_fused_graph", &GRAPH, 60.0, 50.0)];
    let mut span = |rung: &str, stream: &str, start_us: f64, row: &Row| {
        run.spans.push(Span {
            rung: rung.into(),
            problem: p.clone(),
            name: row.1[0].into(),
            operation: row.0.into(),
            stream: stream.into(),
            start_us,
            duration_us: row.3,
            bytes: None,
            correlation: None,
        });
    };
    let mut at = 0.0;
    for row in &UNFUSED {
        span("01_unfused", "0", at, row);
        at += row.3 + 5.5;
    }
    for (row, (stream, at)) in GRAPH.iter().zip([("0", 0.0), ("0", 15.0), ("1", 16.0), ("0", 50.0), ("0", 59.0)]) {
        span("04_fused_graph", stream, at, row);
    }
    run
}
