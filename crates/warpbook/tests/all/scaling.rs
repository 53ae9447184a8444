//! Tests of scaling over CPU ranks that are threads: the record, its efficiency, and PyTorch's rows.

use warpbook::Workload;
use warpbook::nn::network::{Network, conv2d, flatten, linear, max_pool, relu};
use warpbook::nn::train::{Ranks, RanksOptions};
use warpbook::prelude::nn::*;
use warpbook::prelude::*;
use warpbook::ranks::Wire;
use warpbook::scaling::{
    Growth, PyTorch, Scaling, all_reduce_on_threads, bus_bytes_per_s, on_threads, scaling_lines, scaling_table,
};

fn recipe() -> Recipe {
    let layers = [conv2d(4, 5), relu(), max_pool(4), flatten(), linear(10)];
    let network = Network::new([1, 28, 28], layers).unwrap();
    Recipe { network, batch: 8, learning_rate: 0.01, ..Recipe::mnist() }
}

fn small() -> Scaling {
    let images = synthetic_digits(192, 0, 1).train;
    Scaling::new(2).own(recipe(), &images).timed(1, 2).checked_steps(3)
}

#[test]
fn a_record_has_a_row_for_every_number_of_ranks() {
    let lab = Lab::open("cpu").unwrap();
    let scaling = small().gradients([Wire::F32, Wire::Bf16]);
    let run = scaling.run(&lab).unwrap();
    assert_eq!(scaling_lines(&run), ["Own network, 8 a rank", "Own network, 8 in all"]);
    let ids: Vec<&str> = run.rungs.iter().map(|r| &*r.id).collect();
    assert_eq!(ids, ["ranks_fp32", "ranks_fp32_bf16_gradients", "one_process_fp32"]);
    // Two lines with two numbers of ranks and three ways make twelve measurements.
    assert_eq!(run.measurements.len(), 12);
    for m in &run.measurements {
        assert!(m.is_valid(), "{m:?}");
        let efficiency = run.scaling_efficiency(m).unwrap();
        assert!(efficiency > 0.0 && (m.problem.size() != 1 || efficiency == 1.0), "{} {efficiency}", m.rung);
        let batch = m.problem.count("batch").unwrap();
        let weak = m.problem.text("scaling") == Some("weak");
        assert_eq!(batch, if weak { 8 * m.problem.size() } else { 8 });
    }
    let on = |rung: &str, lane: &str| run.spans.iter().any(|s| s.rung == rung && s.stream == lane);
    assert!(on("ranks_fp32", "rank 1 communication") && on("ranks_fp32_bf16_gradients", "rank 0 compute"));
    assert!(
        run.spans.iter().any(|s| s.name == "bucket 1 all-reduce") && run.spans.iter().any(|s| s.name == "backward")
    );
    assert!(run.notes.iter().any(|n| n.contains("a thread on the CPU")), "{:?}", run.notes);
    let table = scaling_table(&run);
    assert!(table.rows.len() == 12 && table.text().contains("in 1 bucket"), "{}", table.text());
    let read: Run = Run::from_json(run.to_json().unwrap().as_bytes()).unwrap();
    assert_eq!(read.measurements, run.measurements, "a record like any other");
    for line in scaling_lines(&run) {
        draw().scaling_throughput(&run, &line).unwrap();
        draw().scaling_efficiency(&run, &line).unwrap();
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let lab = Lab::open("cpu").unwrap();
    let why = |scaling: Scaling| scaling.run(&lab).unwrap_err().to_string();
    assert!(why(small().precisions([Precision::AmpBf16])).contains("--precision is for GPUs"));
    assert!(
        why(small().batches([7]).growths([Growth::Strong])).contains("A batch of 7 cannot be split evenly among 2")
    );
    assert!(why(small().networks([])).contains("name a network"));
    assert!(why(small().checked_steps(0)).contains("from 1 to 100"));
    let diverging = Recipe { learning_rate: 1e30, ..recipe() };
    let images = synthetic_digits(192, 0, 1).train;
    let why = small().own(diverging, &images).run(&lab).map(|run| run.counts().2);
    assert!(why.is_err() || why.is_ok_and(|failed| failed > 0), "it is no measurement");
}

#[test]
fn pytorchs_figures_become_rows() {
    let lab = Lab::open("cpu").unwrap();
    let scaling = small().one_process(false).timelines(false);
    let mut run = scaling.run(&lab).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ddp.json");
    let result = |ranks: usize, batch: usize, us: f64| {
        format!(r#"{{"way": "ddp_fp32", "ranks": {ranks}, "batch_per_rank": {batch}, "samples_us": [{us}, {us}]}}"#)
    };
    let file = |device: &str, network: &str| {
        let results = [result(1, 8, 100.0), result(2, 8, 125.0), result(2, 4, 100.0), result(2, 64, 9.0)].join(",");
        let text = format!(
            r#"{{"script": "ddp.py", "torch": "2.9.1+cpu", "device": "{device}", "network": "{network}", "edge": 4096, "results": [{results}]}}"#
        );
        std::fs::write(&path, text).unwrap();
        PyTorch::read(&path)
    };
    let other = file("NVIDIA H200", "own").unwrap();
    assert!(scaling.absorb(&mut run, &other).unwrap_err().to_string().contains("are of NVIDIA H200"));
    scaling.absorb(&mut run, &file("CPU", "own").unwrap()).unwrap();
    let rung = run.rung("pytorch_ddp_fp32").unwrap();
    assert_eq!((rung.framework(), &*rung.title), (Some("PyTorch 2.9.1"), "PyTorch DDP, fp32"));
    let rows: Vec<_> = run.measurements.iter().filter(|m| m.rung == "pytorch_ddp_fp32").collect();
    let efficiencies: Vec<Option<f64>> = rows.iter().map(|m| run.scaling_efficiency(m)).collect();
    // In this order: one rank on each of the two lines, two ranks with 8 images each, and two ranks with 4 images each.
    assert_eq!(efficiencies, [Some(1.0), Some(1.0), Some(0.8), Some(0.5)]);
    assert!(run.notes.iter().any(|n| n.starts_with("1 of PyTorch's 4 figures")), "{:?}", run.notes);
    std::fs::write(&path, "{}").unwrap();
    assert!(PyTorch::read(&path).unwrap_err().to_string().contains("a file that `ddp.py --out` wrote"));
}

/// The data set is a single batch, so the checked steps need more epochs than the recipe has. This must work with
/// replicas and with ranks.
#[test]
fn all_steps_of_rows_are_checked() {
    let lab = Lab::open("cpu").unwrap();
    let scaling = Scaling::new(2).networks([Workload::AmpRecipe]).features(32).batches([8]);
    let run = scaling.growths([Growth::Weak]).timed(1, 2).checked_steps(5).run(&lab).unwrap();
    // Ranks and one process are measured with one and with two devices.
    assert_eq!(run.measurements.len(), 4);
    assert!(run.measurements.iter().all(|m| m.is_valid()), "{:?}", run.measurements);
}

#[test]
fn an_all_reduce_is_timed_and_its_bus_bandwidth_counted() {
    let all = all_reduce_on_threads(3, &[400, 40_000]).unwrap();
    assert!(all.len() == 2 && all.iter().all(|a| a.median_us() > 0.0 && a.bus_bytes_per_s() > 0.0), "{all:?}");
    // Each of two ranks sends and receives half of the array twice.
    assert_eq!(bus_bytes_per_s(2, 1e6, 1000.0), 1e9);
    assert!(all_reduce_on_threads(1, &[400]).is_err() && all_reduce_on_threads(2, &[0]).is_err());
}

#[test]
fn ranks_on_threads_work_and_end_together() {
    let ranks = on_threads(3, RanksOptions::default(), |ranks: &Ranks| Ok(ranks.rank())).unwrap();
    assert_eq!(ranks, [0, 1, 2]);
    let failing = |ranks: &Ranks| match ranks.rank() {
        1 => Err(Error::Setting("no disk".into())),
        _ => Ok(ranks.all_gather(&[])?),
    };
    let why = on_threads(3, RanksOptions::default(), failing).unwrap_err().to_string();
    assert!(why.contains("Rank 1") && why.contains("no disk"), "{why}");
    assert!(on_threads(0, RanksOptions::default(), |_| Ok(())).is_err());
}
