use super::*;
use crate::{Dtype, count};

const NAMES: [&str; 7] =
    [phase::START, phase::LOAD, phase::WAIT, phase::MULTIPLY, phase::STORE, phase::BARRIER, phase::NOT_KEPT];
const START: u64 = 0;
const LOAD: u64 = 1;
const WAIT: u64 = 2;
const MULTIPLY: u64 = 3;
const STORE: u64 = 4;
const BARRIER: u64 = 5;
const NOT_KEPT: u64 = 6;

fn warp(warp: u64, start_ns: u64, phases: &[(u64, u64)]) -> XrayWarp {
    XrayWarp { warp, start_ns, phases: phases.to_vec(), stands_for: 1 }
}

/// Creates a block that lasts from the start of its first warp to the end of its last.
fn block(block: u64, sm: u64, warps: Vec<XrayWarp>) -> XrayBlock {
    let end = |w: &XrayWarp| w.start_ns + w.phases.iter().map(|(_, ns)| ns).sum::<u64>();
    let start_ns = warps.iter().map(|w| w.start_ns).min().unwrap_or(0);
    let end_ns = warps.iter().map(end).max().unwrap_or(0);
    XrayBlock { kernel: 0, block, sm, start_ns, end_ns, warps }
}

fn xray(blocks: Vec<XrayBlock>) -> Xray {
    Xray {
        rung: "13".into(),
        problem: Problem::new("p", "p", vec![count("n", 1, "")], Dtype::F32),
        phases: NAMES.map(str::to_owned).into(),
        kernels: Vec::new(),
        unmarked_kernels: Vec::new(),
        sms: (0..3).map(|sm| XraySm { sm, error_ns: 100.0 * sm as f64 }).collect(),
        blocks,
        clock_mhz: 1980.0,
        marked_us: vec![11.0, 12.0, 10.0],
        unmarked_us: vec![10.0],
    }
}

#[test]
fn phases_follow_each_other() {
    let w = warp(3, 100, &[(START, 10), (9, 5), (LOAD, 20)]);
    let names: Vec<String> = NAMES.map(str::to_owned).into();
    let spans: Vec<_> = w.spans(&names).map(|s| (s.phase, s.from, s.to)).collect();
    assert_eq!(spans, [(phase::START, 100, 110), (phase::LOAD, 115, 135)], "one without a name takes its time");
}

#[test]
fn times_by_phase_add_up() {
    let x = xray(vec![
        block(0, 0, vec![warp(0, 0, &[(LOAD, 10), (MULTIPLY, 60), (LOAD, 30)])]),
        block(1, 1, vec![warp(0, 5, &[(MULTIPLY, 100)])]),
    ]);
    let times = x.phase_times(0);
    assert_eq!(times.iter().map(|t| (&*t.phase, t.count)).collect::<Vec<_>>(), [("load", 2), ("multiply", 2)]);
    assert_eq!((times[0].share, times[0].median_ns, times[0].longest_ns), (0.2, 20.0, 30));
    assert!((times.iter().map(|t| t.share).sum::<f64>() - 1.0).abs() < 1e-12);
    assert!(times.iter().all(|t| t.role == Role::Every && t.share_of_all == t.share), "{times:?}");
    assert!(x.phase_times(1).is_empty());
    assert_eq!((x.end_ns(), x.perturbation(), x.error_ns()), (105, Some(1.1), 100.0));
}

#[test]
fn producers_and_consumers_have_shares_of_their_own() {
    let standing_for = |w, stands_for, phases: &[(u64, u64)]| XrayWarp { stands_for, ..warp(w, 0, phases) };
    let consumer = standing_for(0, 8, &[(WAIT, 30), (MULTIPLY, 50), (NOT_KEPT, 120), (MULTIPLY, 20)]);
    let producer = standing_for(8, 1, &[(LOAD, 40), (WAIT, 160)]);
    let mut x = xray(vec![block(0, 0, vec![consumer.clone(), producer])]);
    let times: Vec<_> = x
        .phase_times(0)
        .into_iter()
        .map(|t| (t.role, t.phase, t.count, (t.share * 100.0).round(), (t.share_of_all * 1000.0).round(), t.median_ns))
        .collect();
    // Consumers have eight times 100 ns, and the producer has 200 ns. Time without kept marks counts for neither role.
    let expected = [
        (Role::Consumer, "wait".into(), 8, 30.0, 240.0, 30.0),
        (Role::Consumer, "multiply".into(), 16, 70.0, 560.0, 35.0),
        (Role::Producer, "load".into(), 1, 20.0, 40.0, 40.0),
        (Role::Producer, "wait".into(), 1, 80.0, 160.0, 160.0),
    ];
    assert_eq!(times, expected);
    // The marks of 960 of 1960 ns were not kept.
    assert!((x.not_kept(0) - 960.0 / 1960.0).abs() < 1e-12, "{}", x.not_kept(0));
    let kernel =
        |entry: &str| XrayKernel { entry: entry.into(), file: String::new(), tile: String::new(), blocks: 1, warps: 9 };
    x.kernels = vec![kernel("gemm"), kernel("clear")];
    let said = x.not_kept_in_words().unwrap();
    assert_eq!(said, "For 49 % of the time of gemm's warps no marks were kept; shares are of the rest.");
    // If the loading warp multiplies too, all warps have the same role.
    let both = standing_for(1, 1, &[(LOAD, 10), (MULTIPLY, 10)]);
    let alike = xray(vec![block(0, 0, vec![standing_for(0, 3, &[(MULTIPLY, 20)]), both])]);
    let times: Vec<_> = alike.phase_times(0).into_iter().map(|t| (t.role, t.phase, t.share)).collect();
    assert_eq!(times, [(Role::Every, "load".into(), 0.125), (Role::Every, "multiply".into(), 0.875)]);
    assert_eq!(alike.not_kept_in_words(), None);
}

#[test]
fn a_warp_of_an_older_record_stands_for_itself() {
    let old = r#"{"warp": 3, "phases": "1:20 2:5", "start_ns": 7}"#;
    let read: XrayWarp = serde_json::from_str(old).unwrap();
    assert_eq!(read, warp(3, 7, &[(LOAD, 20), (WAIT, 5)]));
    assert!(!serde_json::to_string(&read).unwrap().contains("stands_for"));
    let four = XrayWarp { stands_for: 4, ..read };
    assert_eq!(serde_json::from_str::<XrayWarp>(&serde_json::to_string(&four).unwrap()).unwrap(), four);
}

#[test]
fn a_weighted_median_is_that_of_the_values_written_out() {
    let mut all = [(5, 3), (1, 2), (9, 1)];
    // Sorted, the values are 1 1 5 5 5 9.
    assert_eq!(weighted_median(&mut all), 5.0);
    assert_eq!(weighted_median(&mut [(4, 1), (8, 1)]), 6.0);
    assert_eq!((weighted_median(&mut [(4, u64::MAX)]), weighted_median(&mut [])), (4.0, 0.0));
}

#[test]
fn the_tail_begins_where_the_first_sm_has_no_block_left() {
    let multiplying = |b, sm, start, ns| block(b, sm, vec![warp(0, start, &[(MULTIPLY, ns)])]);
    let x = xray(vec![multiplying(0, 0, 0, 50), multiplying(1, 1, 0, 60), multiplying(2, 0, 50, 50)]);
    let tail = x.tail(0).unwrap();
    // SM 1 is idle for 40 of 100 ns.
    assert_eq!((tail.from_ns, tail.to_ns, tail.lost, tail.unused), (60, 100, 0.2, 1));
    assert_eq!(x.tail(1), None);
}

#[test]
fn warps_arrive_at_barriers_apart() {
    let arriving = |w, start, to_barrier, then| {
        warp(w, start, &[(MULTIPLY, to_barrier), (BARRIER, 5), (MULTIPLY, then), (BARRIER, 5)])
    };
    let x = xray(vec![
        block(0, 0, vec![arriving(0, 0, 10, 20), arriving(1, 2, 20, 30)]),
        block(1, 1, vec![arriving(0, 1, 30, 10)]),
    ]);
    // In block 0, warps arrive at 10 and 22, then at 35 and 57.
    let spread = x.spread_in_blocks(0).unwrap();
    assert_eq!((spread.count, spread.median_ns, spread.longest_ns), (2, 17.0, 22));
    // The blocks' last warps arrive at 22 and 31, then at 57 and 46.
    let over = x.spread_over_blocks(0).unwrap();
    assert_eq!((over.count, over.median_ns, over.longest_ns), (2, 10.0, 11));
    // Blocks that run one after another cannot share a barrier.
    let later = xray(vec![block(0, 0, vec![arriving(0, 0, 10, 20)]), block(1, 0, vec![arriving(0, 40, 10, 20)])]);
    assert_eq!((later.spread_over_blocks(0), later.spread_in_blocks(0)), (None, None));
}

#[test]
fn loads_lead_multiplications() {
    // Loads begin at 0, 10, 20 and 60; multiplications at 30, 60 and 100.
    let producer = warp(4, 0, &[(LOAD, 10), (LOAD, 10), (LOAD, 10), (WAIT, 30), (LOAD, 10)]);
    let consumer = warp(
        0,
        0,
        &[(WAIT, 30), (MULTIPLY, 10), (STORE, 5), (MULTIPLY, 5), (WAIT, 10), (MULTIPLY, 30), (WAIT, 10), (MULTIPLY, 5)],
    );
    let lead = xray(vec![block(0, 0, vec![consumer.clone(), producer.clone()])]).lead(0).unwrap();
    // A multiplication that continues after a store does not count again. The leads are 30 - 0, 60 - 10 and 100 - 20,
    // with 3, 3 and 2 tiles.
    assert_eq!((lead.count, lead.median_ns, lead.median_tiles), (3, 50.0, 3.0));
    assert_eq!(xray(vec![block(0, 0, vec![consumer.clone()])]).lead(0), None);
    // Loads after a gap in the marks cannot be counted.
    let cut = warp(4, 0, &[(LOAD, 10), (NOT_KEPT, 10), (LOAD, 10)]);
    assert_eq!(xray(vec![block(0, 0, vec![consumer, cut])]).lead(0).unwrap().count, 1);
}

#[test]
fn kernels_without_marks_are_named_with_their_count() {
    let said = |names: &[&str]| {
        let unmarked_kernels = names.iter().map(|n| (*n).to_owned()).collect();
        Xray { unmarked_kernels, ..xray(Vec::new()) }.unmarked_in_words()
    };
    assert_eq!(said(&[]), None);
    assert_eq!(said(&["adam"]).unwrap(), "1 kernel of the run has no marks and is not shown: adam.");
    let several = said(&["gather", "relu", "adam"]).unwrap();
    assert_eq!(several, "3 kernels of the run have no marks and are not shown: gather, relu and adam.");
}

#[test]
fn a_record_of_nonsense_has_no_figures_and_does_not_panic() {
    let odd = XrayBlock { kernel: u64::MAX, block: 7, sm: 99, start_ns: u64::MAX, end_ns: 3, warps: Vec::new() };
    let wild = warp(0, u64::MAX, &[(u64::MAX, u64::MAX), (BARRIER, u64::MAX), (MULTIPLY, u64::MAX), (LOAD, 1)]);
    let mut x = xray(vec![odd, block_of(wild)]);
    for kernel in [0, 1, usize::MAX] {
        let _ = (x.not_kept(kernel), x.not_kept_in_words());
        let _ = (x.phase_times(kernel), x.tail(kernel), x.lead(kernel));
        let _ = (x.spread_in_blocks(kernel), x.spread_over_blocks(kernel));
    }
    x.unmarked_us = vec![0.0];
    assert_eq!((x.perturbation(), x.error_ns()), (None, 0.0));
}

fn block_of(warp: XrayWarp) -> XrayBlock {
    XrayBlock { kernel: 0, block: 0, sm: 0, start_ns: 5, end_ns: 4, warps: vec![warp] }
}
