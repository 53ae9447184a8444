//! Tests of the product over several GPUs as an experiment; on other machines they check the message that several GPUs
//! are needed.

use std::collections::BTreeSet;
use warpbook::device::{Bench, Inventory, testing};
use warpbook::record::{Dtype, LinkTransfer, MemoryLevel, Outcome, Run};
use warpbook::{Experiment, Lab, TensorParallel, charts, experiments, settings::Preset};

const RUNGS: [&str; 6] = ["one_gpu", "rows_peer", "rows_stored", "rows_nccl", "k_peer", "k_nccl"];

fn quick(device: &str) -> Lab {
    Lab::open(device).unwrap().with_bench(Bench { samples: 3, budget_s: 0.05, warmup: 1, ..Bench::default() })
}

fn why<'a>(run: &'a Run, rung: &str) -> &'a str {
    match &run.measurements.iter().find(|m| m.rung == rung).unwrap().outcome {
        Outcome::Skipped { why } => why,
        other => panic!("{rung}: {other:?}"),
    }
}

#[test]
fn without_a_gpu_every_rung_says_what_it_needs() {
    let run = quick("cpu").run(&TensorParallel::quick()).unwrap();
    assert_eq!(run.counts(), (0, 2 * RUNGS.len(), 0));
    for rung in RUNGS {
        assert!(why(&run, rung).contains("needs a GPU"), "{}", why(&run, rung));
    }
    assert!(run.peaks.links.is_empty());
    let read = Run::from_json(run.to_json().unwrap().as_bytes()).unwrap();
    assert_eq!(read, run);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let lab = quick("cpu");
    let check = |e: TensorParallel, expect: &str| {
        let error = lab.run(&e).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(TensorParallel::new().shapes([]), "No shape");
    check(TensorParallel::new().dtypes([]), "No shape or no type");
    check(TensorParallel::new().dtypes([Dtype::F64]), "Unsupported type fp64");
    check(TensorParallel::new().shapes([(1, 0, 1)]), "each size is from 1");
    check(TensorParallel::new().panels(0), "--panels is from 1");
    check(TensorParallel::new().gpus(0), "--gpus 0");
    check(TensorParallel::new().rungs(["rows_peers"]), "rows_peer");
}

#[test]
fn the_command_repeats_it() {
    let experiment = TensorParallel::new().gpus(2).panels(8).shapes([(64, 32, 16)]).rungs(["one_gpu", "k_peer"]);
    let plan = experiment.plan(None).unwrap();
    assert_eq!(
        plan.command_on("cuda:0"),
        "warpbook run tensor-parallel --shape 64x32x16 --dtype bf16 --gpus 2 --panels 8 --seed 1 --rungs one_gpu,k_peer --device cuda:0"
    );
    let entry = experiments().into_iter().find(|e| e.name == "tensor-parallel").unwrap();
    let again = entry.make(Preset::Quick, &plan.settings.unwrap().1).unwrap();
    assert_eq!(again.plan(None).unwrap().command, plan.command);
}

#[test]
fn more_gpus_than_there_are_is_an_error() {
    let Some(_) = testing::gpu("more_gpus_than_there_are_is_an_error") else { return };
    let error = quick("cuda:0").run(&TensorParallel::quick().gpus(1000)).unwrap_err().to_string();
    assert!(error.contains("--gpus 1000: this machine has"), "{error}");
}

#[test]
fn one_gpu_alone_runs_what_it_can() {
    let Some(device) = testing::gpu("one_gpu_alone_runs_what_it_can") else { return };
    let run = quick("cuda:0").run(&TensorParallel::quick().gpus(1).dtypes([Dtype::F16])).unwrap();
    assert_eq!(run.counts(), (2, 10, 0), "{:?}", run.measurements);
    for rung in &RUNGS[1..] {
        assert!(why(&run, rung).contains("needs two GPUs"), "{}", why(&run, rung));
    }
    let one = &run.measurements[0];
    assert!(
        one.is_valid() && one.gpus() == 1 && one.choice.as_ref().is_some_and(|c| c.contains("one panel on cuda:0"))
    );
    assert!(run.peaks.links.is_empty() && run.spans.is_empty(), "{}", device.info().name);
}

#[test]
fn several_gpus_are_measured_with_their_link() {
    let name = "several_gpus_are_measured_with_their_link";
    let _one = testing::one_at_a_time();
    let Some(_) = testing::two_gpus(name) else { return };
    // The rungs of the first shape are timed one by one, and the rungs of the second shape alternately.
    let experiment = TensorParallel::new().shapes([(1000, 520, 700), (4096, 4096, 4096)]).dtypes([Dtype::F16]);
    let run = quick("cuda:0").run(&experiment).unwrap();
    println!("{:#?}", run.notes);
    let gpus = Inventory::cuda_devices().unwrap().len() as u32;
    let has_nccl = run.peaks.link(LinkTransfer::AllReduce).is_some();
    for m in &run.measurements {
        if m.rung.ends_with("nccl") && !has_nccl {
            assert!(matches!(&m.outcome, Outcome::Skipped { why } if why.contains("NCCL")), "{:?}", m.outcome);
            continue;
        }
        assert!(m.is_valid(), "{} at {}: {:?} {:?}", m.rung, m.problem.label, m.outcome, m.check);
        println!("{} {}: {:.1} us, {}", m.rung, m.problem.label, m.median_us().unwrap(), m.choice.as_ref().unwrap());
        let several = m.rung != "one_gpu";
        assert_eq!(m.gpus() > 1, several, "{}", m.rung);
        assert_eq!(m.traffic[0].level, if several { MemoryLevel::Link } else { MemoryLevel::Dram });
        assert!(run.bound(m).is_some() && run.fraction_of_bound(m).unwrap() < 1.2, "{}", m.rung);
    }
    for transfer in [LinkTransfer::OneWay, LinkTransfer::BothWays] {
        let curve = run.peaks.link(transfer).unwrap();
        assert!(curve.points.len() > 4 && curve.best().unwrap().1 > 1e9, "{curve:?}");
    }
    assert!(run.peaks.level(MemoryLevel::Link).is_some());
    let main = run.problems.iter().find(|p| p.label.starts_with("4096")).unwrap();
    let spans = run.spans_of("rows_peer", main);
    let lanes: BTreeSet<&str> = spans.iter().map(|s| s.stream.as_str()).collect();
    assert!(lanes.len() as u32 >= 2 * gpus - 1, "{lanes:?}");
    let sent: u64 = spans.iter().filter_map(|s| s.bytes).sum();
    assert_eq!(sent, run.measurement("rows_peer", main).unwrap().traffic[0].bytes);
    assert!(charts::draw().timelines(&run, main, &["rows_peer", "k_peer"]).is_ok());
    assert!(charts::draw().roofline(&run, main).is_ok() && charts::draw().timeline(&run, main).is_ok());
    assert_eq!(Run::from_json(run.to_json().unwrap().as_bytes()).unwrap().peaks, run.peaks);
}
