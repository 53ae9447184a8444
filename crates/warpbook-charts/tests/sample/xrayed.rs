//! A record with an X-ray: two waves of blocks on three SMs, each block with a producer and a consumer.

use super::{h200, problem};
use warpbook_record::xray::phase;
use warpbook_record::{Run, Xray, XrayBlock, XrayKernel, XraySm, XrayWarp};

pub fn xrayed() -> Run {
    let (mut run, p) = (h200(), problem(5_000_000));
    let names =
        [phase::START, phase::WAIT, phase::LOAD, phase::MULTIPLY, phase::STORE, phase::BARRIER, phase::NOT_KEPT];
    let block = |block: u64, sm: u64, start_ns: u64| {
        let consumer = [(0, 50), (1, 100), (3, 400), (1, 50), (3, 400), (5, 20), (4, 90), (6, 90)];
        let producer = [(0, 40), (2, 30), (1, 20), (2, 30), (1, 400)];
        let warp =
            |warp, stands_for, phases: &[(u64, u64)]| XrayWarp { warp, start_ns, phases: phases.to_vec(), stands_for };
        let warps = vec![warp(0, 4, &consumer), warp(4, 1, &producer)];
        // Some blocks keep only their start and end.
        let warps = if block == 2 { Vec::new() } else { warps };
        XrayBlock { kernel: 0, block, sm, start_ns, end_ns: start_ns + 1200, warps }
    };
    run.xrays.push(Xray {
        rung: "04_fused_graph".into(),
        problem: p,
        phases: names.map(str::to_owned).into(),
        kernels: vec![XrayKernel {
            entry: "gemm".into(),
            file: "matmul/14_overlapped_store.cu".into(),
            tile: "128x256".into(),
            blocks: 4,
            warps: 5,
        }],
        unmarked_kernels: vec!["reduce".into(), "clear".into()],
        sms: [(0, 0.0), (1, 350.0), (2, 380.0), (3, 400.0)].map(|(sm, error_ns)| XraySm { sm, error_ns }).into(),
        blocks: vec![block(0, 0, 0), block(1, 1, 10), block(2, 2, 20), block(3, 0, 1250)],
        clock_mhz: 1980.0,
        marked_us: vec![2.6, 2.5, 2.55],
        unmarked_us: vec![2.5],
    });
    run
}
