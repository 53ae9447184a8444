//! Tests of the GPU's activity in a training step, as CUPTI records it.

use warpbook::charts;
use warpbook::device::{Bench, testing};
use warpbook::record::{Breakdown, Measurement, Run};
use warpbook::{Lab, Training, Workload};

fn lab() -> Lab {
    Lab::open("cuda").unwrap().with_bench(Bench { samples: 5, budget_s: 0.3, warmup: 3, ..Bench::default() })
}

/// Checks properties that hold for every step.
fn check(run: &Run, b: &Breakdown, m: &Measurement) {
    let who = format!("{} at {}: {b:#?}", b.rung, b.problem.label);
    let figures = [b.whole_median_us(), b.idle_median_us(), b.between_median_us()].map(|us| us.unwrap_or(f64::NAN));
    let [whole, idle, between] = figures;
    assert!(whole > 0.0 && idle >= 0.0 && idle < whole, "{who}");
    assert!(b.whole_us.iter().zip(&b.busy_us).all(|(whole, busy)| *busy > 0.0 && busy <= whole), "{who}");
    assert_eq!(b.between_us.len() + 1, b.whole_us.len(), "{who}");
    // Operations that run at the same time count twice.
    assert!(b.sum_us() >= 0.95 * (whole - idle), "{who}");
    // Kernels take as long as without a recorder, but gaps between them may be longer.
    let timed = m.median_us().unwrap();
    assert!(whole - idle <= 1.5 * timed, "busy for {} us of {timed} us that were timed: {who}", whole - idle);
    assert!(whole + between >= 0.7 * timed, "{whole} and {between} us, {timed} us were timed: {who}");
    // Every multiplication of the step belongs to an operation, and so does every launched kernel.
    assert_eq!(b.operations.iter().map(|o| o.flops).sum::<u64>(), b.problem.flops, "{who}");
    let names: Vec<&str> = b.operations.iter().map(|o| o.name.as_str()).collect();
    for part in ["batch", "loss", "optimiser", "fc1 forward", "fc1 weight gradient"] {
        assert!(names.contains(&part), "no {part}: {who}");
    }
    // The optimiser's last block, which ends the step, is not an operation; the libraries' rungs are variants of such a
    // rung.
    let has_last_block = b.rung.starts_with("13_last_block") || b.rung.starts_with("stock");
    assert_eq!(names.contains(&"end of the step"), !has_last_block, "{who}");
    // Kernels that run alone share nothing and wait for nothing.
    let is_serial = ["01", "06", "08"].iter().any(|first| b.rung.starts_with(first));
    assert_eq!(b.has_alone(), !is_serial, "{who}");
    assert!(b.sum_alone_us() > 0.5 * (whole - idle) && b.sum_alone_us() < 2.0 * b.sum_us(), "{who}");
    for o in &b.operations {
        assert!(o.launches > 0 && !o.kernels.is_empty() && o.median_us().is_some_and(|us| us > 0.0), "{o:?} of {who}");
        assert!(!o.kernels.contains(&o.name), "it belongs to no operation: {o:?} of {who}");
        let share = run.operation_bound(b, o).zip(o.median_us()).map(|(bound, us)| bound.us / us);
        assert!(share.is_none_or(|s| s < 1.6), "{share:?} of its bound: {o:?} of {who}");
    }
    let spans = run.spans_of(&b.rung, &b.problem);
    assert_eq!(spans.len() as u64, b.operations.iter().map(|o| o.launches).sum::<u64>(), "{who}");
    assert!(spans.iter().all(|s| s.start_us >= 0.0 && s.duration_us > 0.0 && !s.operation.is_empty()), "{who}");
    assert!(spans.is_sorted_by(|a, b| a.start_us <= b.start_us), "{who}");
    assert_eq!(spans[0].start_us, 0.0, "{who}");
}

#[test]
fn what_a_gpu_does_in_a_step_is_recorded() {
    let test = "what_a_gpu_does_in_a_step_is_recorded";
    if testing::gpu(test).is_none() {
        return;
    }
    let rungs = [
        "01_direct",
        "06_amp_fp16",
        "08_graph_fp16",
        "09_overlap_fp16",
        "11_few_channels_bf16",
        "12_dependent_launch_fp16",
        "13_last_block_fp16",
        "stock_fp16",
    ];
    let training = Training::quick().networks([Workload::Mnist, Workload::AmpRecipe]).features(512).rungs(rungs);
    let run = lab().run(&training).unwrap();
    println!("{}", run.notes.join("\n"));
    if let Some(why) = run.notes.iter().find(|n| n.contains("CUPTI") && run.breakdowns.is_empty()) {
        testing::skip(test, "needs CUPTI", why);
        return;
    }
    assert!(!run.notes.iter().any(|n| n.contains("recorded") || n.contains("taken apart")), "{:?}", run.notes);
    for b in &run.breakdowns {
        println!(
            "\n{} at {}, {} us timed",
            b.rung,
            b.problem.label,
            run.measurement(&b.rung, &b.problem).unwrap().median_us().unwrap()
        );
    }
    for problem in &run.problems {
        println!("{}", charts::draw().breakdown(&run, problem).unwrap().table.text());
        charts::draw().timeline(&run, problem).unwrap();
    }
    for b in &run.breakdowns {
        check(&run, b, run.measurement(&b.rung, &b.problem).unwrap());
    }
    // The record has all rungs at the main problem, and only Warpbook's fastest in each precision at the other problem.
    let recorded = |i: usize| -> Vec<&str> {
        run.breakdowns.iter().filter(|b| b.problem == run.problems[i]).map(|b| b.rung.as_str()).collect()
    };
    // One of Warpbook's rungs needs compute capability 9.0, and one needs a library.
    let measured =
        |id: &str, i: usize| run.measurement(id, &run.problems[i]).filter(|m| m.is_valid()).and_then(|m| m.median_us());
    let expect: Vec<&str> = rungs.iter().copied().filter(|id| measured(id, 0).is_some()).collect();
    assert!(expect.len() >= 6, "{expect:?}");
    assert_eq!(recorded(0), expect);
    let fastest_of = |precision: &str| {
        let is_of = |id: &&str| if precision.is_empty() { *id == rungs[0] } else { id.ends_with(precision) };
        let all = rungs[..7].iter().copied().filter(is_of);
        all.filter_map(|id| Some((id, measured(id, 1)?))).min_by(|a, b| a.1.total_cmp(&b.1)).map(|(id, _)| id)
    };
    let mut expect: Vec<&str> = ["", "fp16", "bf16"].into_iter().filter_map(fastest_of).collect();
    expect.sort_by_key(|id| rungs.iter().position(|rung| rung == id));
    assert_eq!(recorded(1), expect);
    // Two branches of a graph use more than one stream, since each runs on its own. The driver names the streams, and
    // may use more.
    let streams = |rung: &str| {
        let mut all: Vec<&str> = run.spans_of(rung, &run.problems[0]).iter().map(|s| s.stream.as_str()).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    };
    println!(
        "streams: {} of 08_graph_fp16, {} of 09_overlap_fp16",
        streams("08_graph_fp16"),
        streams("09_overlap_fp16")
    );
    assert!(streams("08_graph_fp16") < streams("09_overlap_fp16"));
    let again = Run::from_json(run.to_json().unwrap().as_bytes()).unwrap();
    assert_eq!((again.breakdowns, again.spans), (run.breakdowns, run.spans));
}
