//! Tests of ladders as charts and as tables.

use crate::common::{cell, check_layout, check_svg, check_table, row};
use crate::sample;
use warpbook_charts::*;
use warpbook_record::{Baseline, Column, Dtype, Measurement, MemoryLevel, Outcome, PartGroup, Right, Run, Runner};

#[test]
fn rungs_without_a_figure_say_why() {
    let chart = draw().ladder(&sample::troubled(), &sample::problem(100_000), Quantity::Time).unwrap();
    let shown = chart.svg.as_str();
    for words in ["skipped: This rung needs", "failed: CUDA_ERROR", "diverged at epoch 70", "diverged at epoch 10"] {
        assert!(shown.contains(words), "{words}");
    }
    assert_eq!(shown.matches("<rect").count(), 2, "two bars");
    assert!(shown.contains("debug assertions"));
}

#[test]
fn a_guess_is_a_mark_of_its_own_and_a_wild_one_is_told() {
    let (run, problem) = (sample::full(), sample::problem(5_000_000));
    let with = |us: f64, quantity| {
        let options = Options { guess: Some(Guess { us, label: "your guess".into() }), ..Options::default() };
        let chart = options.ladder(&run, &problem, quantity).unwrap();
        check_svg(&chart);
        check_layout(&chart);
        chart.svg.as_str().to_owned()
    };
    let plain = draw().ladder(&run, &problem, Quantity::Time).unwrap();
    let guessed = with(1234.0, Quantity::Time);
    assert!(guessed.contains(">your guess: 1.23 ms<"), "{guessed}");
    assert!(guessed.contains(" Marked is your guess: 1.23 ms."), "for a screen reader");
    assert_ne!(guessed, plain.svg.as_str());
    assert!(with(1234.0, Quantity::SpeedUp).contains(">your guess: "));
    let far = with(1e12, Quantity::Time);
    assert!(far.contains(">Beyond the axis: your guess:") && !far.contains(">your guess:"), "{far}");
    // A guess of an impossible time does not change the chart.
    for nothing in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(with(nothing, Quantity::Time), plain.svg.as_str(), "{nothing}");
    }
}

#[test]
fn a_ladder_without_any_figure_still_lists_its_rungs() {
    let mut run = sample::troubled();
    run.measurements.retain(|m| m.outcome != Outcome::Measured);
    let chart = draw().ladder(&run, &sample::problem(100_000), Quantity::Time).unwrap();
    check_svg(&chart);
    assert!(chart.description.contains("none has a valid figure"), "{}", chart.description);
}

#[test]
fn pytorch_has_a_tone_of_its_own_and_rungs_say_what_bounds_them() {
    let (run, problem) = (sample::full(), sample::problem(5_000_000));
    let chart = draw().ladder(&run, &problem, Quantity::Time).unwrap();
    let shown = chart.svg.as_str();
    for text in [">PyTorch 2.11.0<", "27 % of the fp32 arithmetic limit", "of the L2 limit"] {
        assert!(shown.contains(text), "{text}");
    }
    let bandwidth = draw().ladder(&run, &problem, Quantity::Bandwidth).unwrap();
    assert!(!["DRAM limit", "memory limit"].iter().any(|t| bandwidth.svg.as_str().contains(t)));
    // Rungs that do not support such points have no rows, only a remark.
    let several = draw().ladder(&run, &sample::with_features(5_000_000, 16), Quantity::Time).unwrap();
    assert!(several.svg.as_str().contains("10 rungs skipped: It is written for one feature"));
    assert!(!several.svg.as_str().contains(">Unfused</text>"));
    assert!(several.svg.size().1 < chart.svg.size().1 * 2 / 3);
    assert_eq!(several.table.rows.len(), run.rungs.len());
    // The record names the baseline of its speed-ups.
    let first = run.ladder(&problem).into_iter().find(|r| r.speed_up == Some(1.0)).unwrap().measurement;
    assert!(shown.contains(&format!("×: as fast as {}", run.rung(&first.rung).unwrap().title)));
    assert!(chart.description.ends_with("× as fast as “CPU, one thread”)."), "{}", chart.description);
    let mut other = run.clone();
    other.descriptor.baseline = Baseline::Rung("01_unfused".into());
    let chart = draw().ladder(&other, &problem, Quantity::SpeedUp).unwrap();
    assert_eq!(chart.title, "“On the chip” is 16.0× as fast as PyTorch's best");
    assert!(chart.svg.as_str().contains(">Fused linear regression: speed-up over Unfused, NVIDIA H200,"));
    assert!(chart.svg.as_str().contains("speed-up over Unfused, longer is better"));
    assert_eq!(cell(&chart.table, "01_unfused", "speed-up"), "1.000");
}

#[test]
fn devices_are_named_where_they_differ() {
    let (a, b) = (sample::h200(), sample::t4());
    for chart in [draw().sweep(&[&a, &b]), draw().sweep_bandwidth(&[&a, &b]), draw().compare(&[&a, &b], 5_000_000)] {
        let chart = chart.unwrap();
        let said = "The records are of different devices: NVIDIA H200 and Tesla T4.";
        assert!(chart.svg.as_str().contains(said));
        assert!(chart.svg.as_str().contains(">Tesla T4</text>"));
    }
    // Two records of the same device still get different labels.
    let mut later = sample::h200();
    later.created = "2026-12-24T18:30:00Z".into();
    let chart = draw().compare(&[&a, &later], 5_000_000).unwrap();
    assert!(chart.svg.as_str().contains(">2026-12-24</text>"), "{}", chart.svg.as_str());
}

#[test]
fn a_ceiling_far_beyond_all_bars_is_told_and_not_drawn() {
    let (mut run, problem) = (sample::products(), sample::cube(4096, Dtype::Bf16));
    // With all times ten times as long, the ceiling is more than eight times as high as the highest bar.
    run.measurements.iter_mut().flat_map(|m| &mut m.samples_us).for_each(|us| *us *= 10.0);
    let shown = |quantity| draw().ladder(&run, &problem, quantity).unwrap().svg.as_str().to_owned();
    let rates = shown(Quantity::Throughput);
    assert!(rates.contains(">Beyond the axis: the measured ceiling: 845 TFLOP/s, bf16 arithmetic.<"), "{rates}");
    assert!(!rates.contains(">measured ceiling: 845"));
    // The chart of times always shows the ceiling, here near zero.
    assert!(shown(Quantity::Time).contains(">measured ceiling: 163"));
}

#[test]
fn rungs_are_compared_with_the_faster_library_and_the_ceiling_of_their_type() {
    let (run, problem) = (sample::products(), sample::cube(4096, Dtype::Bf16));
    let chart = draw().ladder(&run, &problem, Quantity::Throughput).unwrap();
    let shown = chart.svg.as_str();
    for text in [
        ">cuBLASLt, best of 32: 697 TFLOP/s<",
        ">measured ceiling: 845 TFLOP/s, bf16 arithmetic<",
        ">652 TFLOP/s · 94 %<",
        ">GPU library<",
        "TFLOP/s, longer is better; %: of cuBLASLt, best of 32",
    ] {
        assert!(shown.contains(text), "{text}");
    }
    assert!(
        chart.description.contains("the fastest is “cuBLASLt, best of 32” with 697 TFLOP/s;"),
        "{}",
        chart.description
    );
    let best = |header| cell(&chart.table, "14_overlapped_store", header);
    assert_eq!((best("TFLOP/s"), best("tile"), best("of fastest library")), ("651.7", "128x256s4", "0.9350"));

    // A product with a single step of k is bound by memory, not by arithmetic.
    let mut thin = run.clone();
    thin.measurements.iter_mut().for_each(|m| m.problem = sample::product((4096, 4096, 16), Dtype::Bf16));
    let chart = draw().ladder(&thin, &sample::product((4096, 4096, 16), Dtype::Bf16), Quantity::Throughput).unwrap();
    assert!(chart.svg.as_str().contains("L2 at 9143 GB/s<"));

    let mut unmeasured = run.clone();
    unmeasured.peaks.compute.clear();
    let chart = draw().ladder(&unmeasured, &problem, Quantity::Throughput).unwrap();
    check_layout(&chart);
    assert!(chart.svg.as_str().contains("The peak of bf16 arithmetic was not measured, so no ceiling is drawn."));
    unmeasured.rungs.retain(|r| !matches!(r.runner, Runner::Library(_)));
    unmeasured.measurements.retain(|m| !m.rung.starts_with("cublas"));
    let chart = draw().ladder(&unmeasured, &problem, Quantity::Throughput).unwrap();
    assert!(chart.svg.as_str().contains(">652 TFLOP/s<") && !chart.svg.as_str().contains("%: of"));

    // A regression has no library, and its rungs' own operations count as the work.
    let chart = draw().ladder(&sample::full(), &sample::problem(5_000_000), Quantity::Throughput).unwrap();
    assert!(chart.svg.as_str().contains(">measured ceiling: 9.14 TFLOP/s, L2 at 9143 GB/s<"));
    // A product's time is compared with its arithmetic and with the library, and speed-ups refer to the library.
    let chart = draw().ladder(&run, &problem, Quantity::Time).unwrap();
    let shown = chart.svg.as_str();
    for text in [
        ">measured ceiling: 163 µs, bf16 arithmetic at 845 TFLOP/s<",
        ">cuBLASLt, best of 32: 197 µs<",
        ">211 µs · 0.935×<",
        "×: as fast as cuBLASLt, best of 32",
    ] {
        assert!(shown.contains(text), "{text}");
    }
    assert!(chart.description.contains("the fastest is “cuBLASLt, best of 32” with 197 µs;"), "{}", chart.description);
    // Without the peak of arithmetic, the ceiling of memory alone would be far above the true ceiling.
    let mut unmeasured = run.clone();
    unmeasured.peaks.compute.clear();
    let chart = draw().ladder(&unmeasured, &problem, Quantity::Time).unwrap();
    assert!(!chart.svg.as_str().contains("measured ceiling:"));
    assert!(chart.svg.as_str().contains("The peak of bf16 arithmetic was not measured, so no ceiling is drawn."));
}

#[test]
fn the_ladders_table_has_the_columns_that_the_record_names() {
    let (run, problem) = (sample::full(), sample::problem(5_000_000));
    let table = LadderTable::for_problem(&run, &problem);
    check_table(&table);
    let heads: Vec<&str> = table.headers.iter().map(|h| h.text.as_str()).collect();
    assert_eq!(heads, ["median", "MAD", "epoch time", "speed-up", "effective bandwidth", "% of bound", "check"]);
    let heads: Vec<&str> = table.headers.iter().map(|h| h.in_file.as_str()).collect();
    let expect = [
        "median (ms)",
        "MAD (ms)",
        "epoch time (ms)",
        "speed-up",
        "effective bandwidth (GB/s)",
        "% of bound",
        "max relative error",
    ];
    assert_eq!(heads, expect);
    assert_eq!((table.baseline.as_deref(), table.library.as_deref()), (Some("CPU, one thread"), None));
    let fastest: Vec<&str> = table.rows.iter().filter(|r| r.fastest).map(|r| r.rung.as_str()).collect();
    assert_eq!(fastest, [run.fastest(&problem).unwrap().rung.as_str()]);
    let statistics = table.rows.iter().find(|r| r.rung == "07_sufficient_statistics").unwrap();
    assert!(statistics.less_work.is_some_and(|share| (share - 44.0 / 1600.0).abs() < 1e-9) && !statistics.fastest);
    assert_eq!(cell(&table.table(), "07_sufficient_statistics", "remark"), "does 2.8 % of the operations");
    let m = run.measurement("04_fused_graph", &problem).unwrap();
    let (readable, file) = (table.table(), table.file());
    assert_eq!(cell(&readable, "04_fused_graph", "median"), words::time(m.median_us().unwrap()));
    assert_eq!(cell(&readable, "04_fused_graph", "epoch time"), words::time(m.pass_us().unwrap()));
    assert_eq!(cell(&readable, "04_fused_graph", "check"), "passed");
    let in_ms: f64 = cell(&file, "04_fused_graph", "median (ms)").parse().unwrap();
    assert!((in_ms - m.median_us().unwrap() / 1e3).abs() < 1e-4 * in_ms);
    assert_eq!((file.headers[1].as_str(), file.rows[0][1].as_str()), ("title", "CPU, one thread"));

    let mut counted = run.clone();
    counted.descriptor.columns = vec![Column::PeakMemory];
    let at = counted.measurements.iter().position(|m| m.rung == "04_fused_graph" && m.problem == problem).unwrap();
    counted.measurements[at].peak_bytes = Some(375 << 20);
    let table = LadderTable::for_problem(&counted, &problem);
    assert_eq!(cell(&table.table(), "04_fused_graph", "peak memory"), "375 MiB");
    assert_eq!(cell(&table.file(), "04_fused_graph", "peak memory (MiB)"), "375.0");
    assert_eq!(cell(&table.table(), "02_fused", "peak memory"), "", "it was not counted");

    let mut trained = run.clone();
    trained.descriptor.columns = vec![Column::Median, Column::Accuracy, Column::Samples];
    trained.descriptor.sample = "seeds".into();
    trained.measurements[at].test = [9010, 9030].map(|correct| Right { correct, of: 10_000 }).into();
    let table = LadderTable::for_problem(&trained, &problem);
    check_table(&table);
    assert_eq!(cell(&table.table(), "04_fused_graph", "mean accuracy"), "90.20 % ± 0.14");
    assert_eq!(cell(&table.file(), "04_fused_graph", "mean accuracy (%)"), "90.20");
    assert_eq!(cell(&table.table(), "04_fused_graph", "seeds"), "30");
    assert_eq!(cell(&table.table(), "02_fused", "mean accuracy"), "", "it was trained for no accuracy");
    let fastest = run.fastest(&problem).unwrap().rung.clone();
    for m in trained.measurements.iter_mut().filter(|m| m.rung == fastest && m.problem == problem) {
        m.test = [9010, 9030].map(|correct| Right { correct, of: 10_000 }).into();
    }
    let told = headline(&trained, &problem).unwrap();
    assert!(told.more.ends_with("Its accuracy is 90.20 %, the mean of 2 seeds."), "{}", told.more);
    assert!(told.tiles.iter().any(|t| (t.label.as_str(), t.value.as_str()) == ("Accuracy", "90.20 %")));
    // A training that missed its accuracy has no time, and a single training has no deviation.
    let m = &mut trained.measurements[at];
    m.test.truncate(1);
    m.check.as_mut().unwrap().passed = false;
    let table = LadderTable::for_problem(&trained, &problem).table();
    assert_eq!(["median", "mean accuracy"].map(|h| cell(&table, "04_fused_graph", h)), ["", "90.10 %"]);

    let products = sample::products();
    let table = LadderTable::for_problem(&products, &sample::cube(4096, Dtype::Bf16));
    check_table(&table);
    let heads: Vec<&str> = table.headers.iter().map(|h| h.text.as_str()).collect();
    assert_eq!(heads, ["median", "MAD", "FLOP/s", "of fastest library", "% of bound", "check", "tile"]);
    let library = Some("cuBLASLt, best of 32");
    assert_eq!((table.baseline.as_deref(), table.library.as_deref()), (library, library));
    let best = |header| cell(&table.table(), "14_overlapped_store", header).to_owned();
    assert_eq!([best("FLOP/s"), best("of fastest library"), best("tile")], ["652 TFLOP/s", "0.935×", "128x256s4"]);
    let naive = table.rows.iter().find(|r| r.rung == "cpu_naive").unwrap();
    assert_eq!(naive.note.as_deref(), Some("skipped: It would take longer than its time budget of 5 s."));
    assert!(naive.cells.iter().all(|c| c.text.is_empty() && c.number.is_none()));

    // If this version knows none of the columns, the table has the general ones.
    let mut unknown = run.clone();
    unknown.descriptor.columns = vec![Column::Other];
    let headers = ladder_table(&unknown, &problem).headers;
    assert_eq!(headers, ["rung", "median", "MAD", "speed-up", "effective bandwidth", "% of bound", "check", "remark"]);
}

#[test]
fn the_rate_next_to_a_time_is_the_record_s() {
    let check = |run: &Run, unit: &str| {
        let m = run.measurements.iter().find(|m| m.is_valid()).unwrap();
        let text = rate_text(run, m).unwrap();
        assert!(text.ends_with(unit), "{text}");
        let failed = Measurement { samples_us: Vec::new(), ..m.clone() };
        assert_eq!(rate_text(run, &failed), None);
    };
    check(&sample::full(), "B/s");
    check(&sample::products(), "FLOP/s");
    check(&sample::softmax(), "B/s");
    let mut by_rows = sample::softmax();
    by_rows.descriptor.headline = Quantity::ItemRate;
    check(&by_rows, "rows/s");
}

#[test]
fn what_does_less_of_the_work_is_nowhere_called_the_fastest() {
    let (run, problem) = (sample::full(), sample::problem(200_000_000));
    let least = run.measurement("07_sufficient_statistics", &problem).unwrap();
    assert!(least.median_us() < run.fastest(&problem).unwrap().median_us());
    for chart in [draw().ladder(&run, &problem, Quantity::Time), draw().sweep(&[&run])] {
        let said = chart.unwrap().description;
        assert!(said.contains("fastest") && !said.contains("Sufficient statistics"), "{said}");
    }
}

#[test]
fn a_rung_without_a_bar_is_neither_the_fastest_nor_the_baseline() {
    let (mut run, problem) = (sample::troubled(), sample::problem(100_000));
    // This rung has the best figures, but its training diverged.
    let table = LadderTable::for_problem(&run, &problem);
    check_table(&table);
    assert_eq!(table.rows.iter().find(|r| r.fastest).unwrap().rung, "cpu_all_threads");
    let chart = draw().ladder(&run, &problem, Quantity::Time).unwrap();
    assert!(chart.description.contains("the fastest is “CPU, all threads” with"), "{}", chart.description);
    let diverged = cell(&table.table(), "04_fused_graph", "remark").to_owned();
    assert_eq!(diverged, "diverged at epoch 70");
    let wrong = |header| cell(&table.table(), "03_fused_streams", header).to_owned();
    assert_eq!([wrong("median"), wrong("check"), wrong("remark")], ["", "FAILED", "diverged at epoch 10"]);
    run.descriptor.baseline = Baseline::Rung("04_fused_graph".into());
    assert_eq!(LadderTable::for_problem(&run, &problem).baseline.as_deref(), Some("CPU, one thread"));
}

#[test]
fn a_share_above_its_bound_is_explained_by_the_record() {
    let (mut run, problem) = (sample::products(), sample::cube(4096, Dtype::Bf16));
    let said = "above 100 %: bytes";
    let plain = |chart: &Chart| chart.svg.as_str().contains("above 100 %");
    let charts =
        |run: &Run| [draw().roofline(run, &problem).unwrap(), draw().ladder(run, &problem, Quantity::Time).unwrap()];
    assert!(!charts(&run).iter().any(plain));
    for m in run.measurements.iter_mut().filter(|m| m.rung == "14_overlapped_store") {
        m.traffic.iter_mut().filter(|t| t.level == MemoryLevel::L2).for_each(|t| t.bytes *= 4);
    }
    for chart in charts(&run) {
        check_layout(&chart);
        assert!(chart.svg.as_str().contains(said), "{}", chart.title);
    }
    run.descriptor.above_bound.clear();
    assert!(!charts(&run).iter().any(plain));
}

#[test]
fn copies_that_all_rungs_share_stand_with_the_first_and_the_fastest_rung() {
    let (mut run, problem) = (sample::products(), sample::cube(4096, Dtype::Bf16));
    run.parts.retain(|p| p.group != PartGroup::Transfer);
    let copies = [("to the device", 1210.0), ("to the host", 640.0)];
    run.parts.extend(copies.map(|(name, us)| sample::part("", &problem, PartGroup::Transfer, name, us)));
    let chart = draw().transfers(&run, &problem).unwrap();
    check_svg(&chart);
    check_layout(&chart);
    let ids: Vec<&str> = chart.table.rows.iter().map(|r| r[0].as_str()).collect();
    assert_eq!(ids, ["01_naive", "14_overlapped_store"]);
    assert_eq!(run.fastest_kernels(&problem).unwrap().0.rung, "14_overlapped_store");
    let best = row(&chart.table, "14_overlapped_store");
    assert_eq!((best[2], best[4], best[7]), ("1.2090", "0.63947", "89.8"));
    let median = run.measurement("14_overlapped_store", &problem).unwrap().median_us().unwrap();
    assert!((best[3].parse::<f64>().unwrap() - median / 1e3).abs() < 1e-4);
    run.measurements.retain(|m| m.rung != "01_naive" && !m.rung.starts_with("cublas"));
    let ids = |run: &Run| {
        draw().transfers(run, &problem).unwrap().table.rows.iter().map(|r| r[0].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&run), ["02_coalesced", "14_overlapped_store"]);
    run.measurements.clear();
    let error = draw().transfers(&run, &problem).unwrap_err().to_string();
    assert_eq!(error, "No rung of kernels has a valid time at 4096³ bf16 that the transfers could be added to.");
}

#[test]
fn what_is_cut_off_is_in_the_tooltip() {
    let mut run = sample::h200();
    let long = "Fused & staged through shared memory with a pipeline of three stages";
    run.rungs[3].title = long.into();
    let chart = draw().ladder(&run, &sample::problem(5_000_000), Quantity::Time).unwrap();
    let document = roxmltree::Document::parse(chart.svg.as_str()).unwrap();
    let tooltip = document.descendants().find(|n| n.tag_name().name() == "title" && n.text() == Some(long)).unwrap();
    let shown = tooltip.next_sibling().and_then(|n| n.text()).unwrap();
    assert!(shown.ends_with('…') && long.starts_with(shown.trim_end_matches('…')), "{shown}");
    check_layout(&chart);
}

#[test]
fn the_state_of_l2_is_told_where_kernels_are_timed() {
    let run = sample::products();
    let problem = run.main_problem().unwrap().clone();
    let told = |run: &Run| draw().ladder(run, &problem, Quantity::Time).unwrap().svg.as_str().contains("arm L2");
    assert!(told(&run));
    let mut whole = run.clone();
    whole.policy.timed_by = warpbook_record::TimedBy::WallClock;
    assert!(!told(&whole), "the host's clock times more than kernels");
    let mut copies = run.clone();
    for rung in &mut copies.rungs {
        rung.runner = Runner::Library(warpbook_record::CUDA_DRIVER.into());
    }
    copies.measurements.iter_mut().for_each(|m| m.kernels.clear());
    assert!(!told(&copies), "copies are no kernels");
}

#[test]
fn a_logarithmic_ladder_has_a_tick_a_decade() {
    let run = sample::h200();
    let chart = draw().ladder(&run, run.main_problem().unwrap(), Quantity::Time).unwrap();
    let shown = chart.svg.as_str();
    for tick in [">1 ms<", ">10 ms<", ">100 ms<", ">1 s<"] {
        assert!(shown.contains(tick), "{tick}: {shown}");
    }
}

#[test]
fn a_story_has_the_first_the_best_references_and_the_fastest() {
    let run = sample::products();
    let problem = run.main_problem().unwrap();
    let count = |rungs: Rungs| {
        let options = Options { rungs, ..Options::default() };
        let chart = options.ladder(&run, problem, Quantity::Time).unwrap();
        let svg = chart.svg.as_str();
        (svg.matches("data-samples").count(), svg.matches("data-best=\"fastest\"").count(), chart.table)
    };
    let (all, marked, story) = (count(Rungs::All), count(Rungs::Marked), count(Rungs::Story));
    assert_eq!((all.1, marked.1, story.1), (0, 1, 1));
    assert!(story.0 <= marked.0 && story.2 == all.2, "the table has all rungs");
}

/// Checks that a line for two types shows the figure of the other type, whatever the length of the rung's id.
#[test]
fn the_figure_of_the_other_type_is_not_cut_off() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let file = std::path::Path::new(&folder).join("../../data/results/training-h200.json");
    let run = Run::from_json(&std::fs::read(file).unwrap()).unwrap();
    let options = Options { rungs: Rungs::Story, ..Options::default() };
    let chart = options.ladder(&run, run.main_problem().unwrap(), run.descriptor.headline).unwrap();
    let is_of_another_type = |text: &&str| text.starts_with("fp16: ") || text.starts_with("bf16: ");
    let texts: Vec<&str> = chart.svg.as_str().split('>').filter(is_of_another_type).collect();
    assert!(!texts.is_empty() && texts.iter().all(|text| text.contains(" · ")), "{texts:?}");
}
