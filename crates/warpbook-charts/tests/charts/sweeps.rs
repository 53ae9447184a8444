//! Tests of sweeps and rooflines.

use crate::common::{check_layout, check_svg, row};
use crate::sample;
use warpbook_charts::*;
use warpbook_record::{Dtype, Measurement, Run, SweepPoint};

#[test]
fn every_counted_rung_of_ours_is_below_its_own_roof() {
    let (run, problem) = (sample::full(), sample::problem(5_000_000));
    let chart = draw().roofline(&run, &problem).unwrap();
    let shown = chart.svg.as_str();
    for text in ["registers: 360 TB/s", "shared memory: 32.1 TB/s", "L2: 9143 GB/s", "DRAM: 4542 GB/s"] {
        assert!(shown.contains(&format!(">{text}</text>")), "{text}");
    }
    assert!(shown.contains("fp32 arithmetic: 65.9 TFLOP/s"));
    for rung in run.rungs.iter().filter(|r| r.id.starts_with('0')) {
        let name: String = rung.title.chars().take(18).collect();
        assert!(shown.contains(&format!(">{name}")), "{name}");
    }
    assert!(shown.contains("Left out, as their bytes were not counted: PyTorch, eager; PyTorch, compiled;"));
    assert!(!shown.contains("CPU, one thread"), "the CPU's memory is another");
    assert!(!shown.contains("did not fit"));
    // The rung moves 4.5 times the bytes of reading every input once.
    let unfused = row(&chart.table, "01_unfused");
    assert_eq!(unfused[2..6], ["L2", "28800000000", "6400000000", "0.2222"]);
    assert_eq!(row(&chart.table, "08_multivariate")[5], "1.000");
    // The rung is bound by arithmetic, so it is drawn at the level at which it moves the most bytes.
    let on_chip = row(&chart.table, "06_on_chip");
    assert_eq!((on_chip[2], on_chip[11]), ("registers", "arithmetic"));
    assert_eq!(row(&chart.table, "roof")[1], "registers, measured");
    assert!(chart.table.rows.iter().any(|r| r[1] == "DRAM, measured" && r[12] == "4800 GB/s"));
}

#[test]
fn a_roofline_without_roofs_or_points_says_so() {
    let problem = sample::problem(5_000_000);
    let check = |change: &dyn Fn(&mut Run), expect: &str| {
        let mut run = sample::full();
        change(&mut run);
        match draw().roofline(&run, &problem) {
            Err(ChartError::NothingToDraw(why)) => assert!(why.contains(expect) && why.ends_with('.'), "{why}"),
            other => panic!("{other:?}"),
        }
    };
    check(&|r| r.peaks.bandwidth.clear(), "No bandwidth");
    check(&|r| r.peaks.bandwidth.iter_mut().for_each(|p| p.samples_us = vec![f64::NAN]), "No bandwidth");
    check(&|r| r.measurements.iter_mut().for_each(|m| m.traffic.clear()), "No valid rung on NVIDIA H200");
    check(&|r| r.measurements.clear(), "no measurement of 5 M points");
    let error = draw().roofline(&sample::troubled(), &sample::problem(100_000)).unwrap_err().to_string();
    assert!(error.starts_with("No valid rung on AMD Ryzen"), "{error}");

    let mut without_peak = sample::full();
    without_peak.peaks.compute.clear();
    let chart = draw().roofline(&without_peak, &problem).unwrap();
    check_svg(&chart);
    check_layout(&chart);
    assert!(chart.svg.as_str().contains("The peak of fp32 arithmetic was not measured."));
}

#[test]
fn a_sweep_is_of_one_kind_of_work() {
    let chart = draw().sweep(&[&sample::full()]).unwrap();
    assert!(chart.svg.as_str().contains("8 measurements of other work left out."));
    assert!(chart.table.rows.iter().all(|r| r[0] != "08_multivariate" || r[2] != "13.0"));
    assert_eq!(chart.table.rows.iter().filter(|r| r[0] == "08_multivariate" && r[1] == "5000000").count(), 1);
    // The experiment decides what is equal along a line; here, a different learning rate is different work.
    let mut run = sample::full();
    for m in run.measurements.iter_mut().filter(|m| m.problem.size() == 100_000) {
        let line = "200 epochs at a learning rate of 0.5".to_owned();
        m.problem =
            sample::regression(100_000, 1, 200, 0.5).with(|p| p.sweep = Some(SweepPoint { size: 100_000, line }));
    }
    let chart = draw().sweep(&[&run]).unwrap();
    assert!(chart.table.rows.iter().all(|r| r[1] != "100000"));
}

#[test]
fn rungs_that_are_equally_fast_at_all_sizes_are_both_named() {
    let mut run = sample::softmax();
    let copy = |run: &mut Run, from: &str, to: &str, is_at: &dyn Fn(u64) -> bool| {
        let is_from = |m: &&Measurement| m.rung == from && is_at(m.problem.size());
        let all: Vec<Measurement> = run.measurements.iter().filter(is_from).cloned().collect();
        for m in all {
            let twin = run.measurements.iter_mut().find(|twin| twin.rung == to && twin.problem == m.problem).unwrap();
            twin.samples_us = m.samples_us;
        }
    };
    let title = |run: &Run| draw().sweep(&[run]).unwrap().title;
    copy(&mut run, "03_online", "02_warp", &|_| true);
    let both = "“A warp a row” and “Online maximum, 16-byte loads” are the fastest at all 5 sizes, equal within 1 %";
    assert_eq!(title(&run), both);
    // At the smallest size another pair is equally fast.
    copy(&mut run, "01_naive", "02_warp", &|size| size == 1024);
    copy(&mut run, "03_online", "01_naive", &|size| size == 1024);
    assert_eq!(title(&run), "The fastest rungs are equal within 1 % at all 5 sizes");
}

#[test]
fn every_published_chart_has_a_finding_in_its_title() {
    let folder = format!("{}/../../data/images", env!("CARGO_MANIFEST_DIR"));
    let mut charts = 0;
    for file in std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_none_or(|extension| extension != "svg") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let document = roxmltree::Document::parse(&text).unwrap();
        let title = document.descendants().find(|n| n.tag_name().name() == "title").and_then(|n| n.text()).unwrap();
        assert!(!title.ends_with("over size"), "{}: {title}", file.display());
        charts += 1;
    }
    assert!(charts > 20, "{charts}");
}

#[test]
fn of_problems_of_one_size_the_sweep_has_the_one_that_is_most_like_its_main_one() {
    let plain = sample::full();
    let mut run = plain.clone();
    let faster: Vec<Measurement> = plain
        .measurements
        .iter()
        .filter(|m| m.problem == sample::problem(100_000))
        .map(|m| Measurement { problem: sample::regression(100_000, 1, 200, 0.5), ..m.clone() })
        .collect();
    let count = faster.len();
    run.measurements.splice(0..0, faster);
    run.measurements[0].samples_us = vec![1.0; 30];
    let (expect, got) = (draw().sweep(&[&plain]).unwrap(), draw().sweep(&[&run]).unwrap());
    assert_eq!(got.table, expect.table);
    assert!(got.svg.as_str().contains(&format!("{} measurements of other work left out.", 8 + count)));
}

#[test]
fn a_sweep_can_be_of_any_line_and_quantity() {
    let mut run = sample::full();
    let few: Vec<Measurement> = run
        .measurements
        .iter()
        .filter(|m| m.problem.size() <= 1_000_000)
        .map(|m| Measurement { problem: sample::regression(m.problem.size(), 1, 20, 0.01), ..m.clone() })
        .collect();
    run.measurements.extend(few);
    let line = sample::regression(500_000, 1, 20, 0.01);
    let chart =
        draw().sweep_of(&[&run], Quantity::SpeedUp, Some(&line), Some(&["02_fused", "04_fused_graph"])).unwrap();
    check_svg(&chart);
    check_layout(&chart);
    assert!(
        chart.svg.as_str().contains("speed-up over size, NVIDIA H200, 20 epochs, median of 30, warm L2<"),
        "{}",
        chart.svg.as_str()
    );
    assert!(chart.svg.as_str().contains("speed-up over CPU, one thread, higher is better"));
    let sizes: Vec<&str> = chart.table.rows.iter().map(|r| r[1].as_str()).collect();
    assert_eq!(sizes, ["100000", "500000", "1000000"].repeat(2));
    let p = sample::regression(1_000_000, 1, 20, 0.01);
    let us = |id: &str| run.measurement(id, &p).unwrap().median_us().unwrap();
    let shown: f64 = chart.table.rows[5].last().unwrap().parse().unwrap();
    assert!((shown * us("04_fused_graph") / us("cpu_1_thread") - 1.0).abs() < 1e-3, "{shown}");
    let elsewhere = sample::regression(500_000, 4, 20, 0.01);
    let error = draw().sweep_of(&[&run], Quantity::Time, Some(&elsewhere), None).unwrap_err().to_string();
    assert_eq!(error, "The record has no valid measurement of 4 features, 20 epochs to plot against size.");
    let error = draw().sweep_of(&[&run], Quantity::ItemRate, None, None).unwrap_err().to_string();
    assert_eq!(error, "The items of 5 M points, 200 epochs are not known, so it has no items/s.");
}

#[test]
fn a_sweep_of_products_is_of_cubes_of_one_type() {
    let run = sample::products();
    let chart = draw().sweep_throughput(&[&run], Some(Dtype::Bf16), None).unwrap();
    let edges: Vec<&str> =
        chart.table.rows.iter().filter(|r| r[0] == "14_overlapped_store").map(|r| r[1].as_str()).collect();
    assert_eq!(edges, ["256", "512", "1000", "1024", "2048", "4096", "8192", "16384"]);
    assert!(chart.svg.as_str().contains(">bf16 arithmetic: 845 TFLOP/s<"));
    assert!(chart.description.contains("from 256³ to 16384³ of 17 rungs"), "{}", chart.description);
    // Only the libraries' lines are dashed.
    let dashed = |c: &Chart| c.svg.as_str().matches("<polyline").count();
    let few = draw()
        .sweep_throughput(&[&run], Some(Dtype::F32), Some(&["08_double_buffered", "01_naive", "15_split_k"]))
        .unwrap();
    assert!(dashed(&few) < dashed(&chart));
    let ids: Vec<&str> = few.table.rows.iter().map(|r| r[0].as_str()).collect();
    for id in ["cublas", "cublaslt", "01_naive", "08_double_buffered"] {
        assert!(ids.contains(&id), "{id}");
    }
    assert!(!ids.contains(&"07_warp_tile"));
    assert!(few.svg.as_str().contains("Without a valid figure: 15_split_k."));
    let error = draw().sweep_throughput(&[&run], Some(Dtype::F32), Some(&["15_split_k"])).unwrap_err().to_string();
    assert_eq!(error, "None of these rungs has a valid measurement to plot against size: 15_split_k.");
    let error = draw().sweep_throughput(&[&run], Some(Dtype::F64), None).unwrap_err().to_string();
    assert_eq!(error, "The record has no valid measurement of fp64 to plot against size.");
    let other = sample::products();
    let mut half = other.clone();
    half.measurements.retain(|m| m.problem.dtype == Dtype::F16);
    match draw().sweep(&[&half, &{
        let mut only = other;
        only.measurements.retain(|m| m.problem.dtype == Dtype::Bf16);
        only
    }]) {
        Err(ChartError::NotComparable(why)) => {
            assert_eq!(why, "The records did different work: fp16 in one and bf16 in the other.")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_roof_of_a_product_is_that_of_its_type() {
    let run = sample::products();
    let check = |dtype, inside: &[&str], outside: &[&str]| {
        let chart = draw().roofline(&run, &sample::cube(4096, dtype)).unwrap();
        for text in inside {
            assert!(chart.svg.as_str().contains(text), "{text} of {dtype:?}");
        }
        for text in outside {
            assert!(!chart.svg.as_str().contains(text), "{text} of {dtype:?}");
        }
    };
    check(Dtype::F32, &[">fp32 arithmetic: 59.5 TFLOP/s<"], &["without tensor cores"]);
    check(Dtype::Tf32, &[">tf32 arithmetic: 430 TFLOP/s<", ">fp32 arithmetic"], &["bf16"]);
    check(
        Dtype::Bf16,
        &[">bf16 arithmetic: 845 TFLOP/s<", "Left out, as their bytes were not counted: cuBLAS"],
        &["tf32"],
    );
    let mut unmeasured = run.clone();
    unmeasured.peaks.compute.retain(|p| p.dtype == Dtype::F32);
    let chart = draw().roofline(&unmeasured, &sample::cube(4096, Dtype::Bf16)).unwrap();
    check_layout(&chart);
    assert!(chart.svg.as_str().contains("The peak of bf16 arithmetic was not measured."));
}
