//! Every chart of records as they come, and of records that nobody would want.

mod sample;

use proptest::prelude::*;
use std::collections::BTreeMap;
use warpbook_charts::diagram::{Diagram, Matrix, Product, Sign, Timeline};
use warpbook_charts::*;
use warpbook_record::{
    Check, ComputePeak, DeviceKind, Dtype, L2State, LossPoint, Measurement, MemoryLevel, Outcome, Problem, Requires,
    Run, Rung, Runner, Schedule, Span, SpanGroup, TimedBy, Traffic, TrainLog, matmul,
};

/// All charts of a record at a problem, those over several records with it alone and twice.
fn all(run: &Run, problem: &Problem) -> Vec<Result<Chart, ChartError>> {
    vec![
        ladder(run, problem, Quantity::Time),
        ladder(run, problem, Quantity::SpeedUp),
        ladder(run, problem, Quantity::Bandwidth),
        ladder(run, problem, Quantity::Throughput),
        sweep(&[run]),
        sweep(&[run, run]),
        sweep_bandwidth(&[run]),
        sweep_throughput(&[run], None, None),
        loss_curve(run, problem),
        operations(run, problem),
        ablation(run, problem),
        roofline(run, problem),
        compare(&[run, run], problem.size()),
    ]
}

/// The charts that only matrix products have.
fn of_products(run: &Run, problem: &Problem) -> Vec<Result<Chart, ChartError>> {
    let dtype = problem.dtype().unwrap_or(Dtype::F32);
    let rungs = ["01_naive", "14_overlapped_store", "a", "b"];
    vec![
        sweep_throughput(&[run, run], Some(dtype), Some(&rungs)),
        shapes(run, dtype),
        tiles(run, problem),
        transfers(run, problem),
    ]
}

/// Well-formed, inline and as a file; named; with nothing that runs; finite numbers only.
fn check_svg(chart: &Chart) {
    for text in [chart.svg.as_str().to_owned(), chart.svg.standalone()] {
        let document = roxmltree::Document::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let root = document.root_element();
        assert_eq!(root.tag_name().name(), "svg");
        assert_eq!(root.attribute("role"), Some("img"));
        let named: Vec<&str> = root.attribute("aria-labelledby").unwrap().split(' ').collect();
        for (tag, id) in ["title", "desc"].into_iter().zip(named) {
            let node = root.children().find(|n| n.has_tag_name(("http://www.w3.org/2000/svg", tag))).unwrap();
            assert_eq!(node.attribute("id"), Some(id));
            assert!(!node.text().unwrap_or_default().is_empty());
        }
        for node in document.descendants().filter(roxmltree::Node::is_element) {
            let known = ["svg", "title", "desc", "text", "line", "rect", "polyline", "polygon", "circle", "style"];
            assert!(known.contains(&node.tag_name().name()), "{:?}", node.tag_name());
            for a in node.attributes() {
                assert!(!a.name().starts_with("on") && a.name() != "href", "{a:?}");
                // The sentinel for ink must be gone, and no coordinate may be NaN.
                assert!(!["#010203", "NaN", "inf"].contains(&a.value()), "{a:?}");
            }
        }
        assert!(!text.contains("<script"), "{text}");
    }
    assert!(!chart.svg.as_str().contains("<style"), "a style would reach the rest of the page");
    let html = chart.table.html();
    roxmltree::Document::parse(&html).unwrap_or_else(|e| panic!("{e}\n{html}"));
    assert!(chart.table.rows.iter().all(|r| r.len() == chart.table.headers.len()), "{:?}", chart.table);
}

/// The texts of a chart with their boxes in CSS pixels: (left, right, y, text). Widths are those of DejaVu Sans, roughly.
fn texts(chart: &Chart) -> Vec<(f64, f64, f64, String)> {
    let document = roxmltree::Document::parse(chart.svg.as_str()).unwrap();
    let number = |n: &roxmltree::Node<'_, '_>, a: &str| n.attribute(a).unwrap().parse::<f64>().unwrap() / 10.0;
    let texts = document.descendants().filter(|n| n.has_tag_name(("http://www.w3.org/2000/svg", "text")));
    texts
        .flat_map(|n| {
            let text: String = n.children().filter(roxmltree::Node::is_text).filter_map(|c| c.text()).collect();
            let narrow = |c: char| "ijltfr.,:;'|()[] ·".contains(c);
            let em: f64 = text.chars().map(|c| if narrow(c) { 0.33 } else { 0.6 }).sum();
            let (x, width) = (number(&n, "x"), em * number(&n, "font-size"));
            let y = number(&n, "y");
            if let Some(turn) = n.attribute("transform") {
                // So many small pieces along a turned text, which is in the middle of its place or begins there.
                let degrees: f64 = turn.trim_start_matches("rotate(").split(' ').next().unwrap().parse().unwrap();
                let (sin, cos) = degrees.to_radians().sin_cos();
                let pieces = (width / 6.0).ceil() as i32;
                let before = if n.attribute("text-anchor") == Some("start") { 0.0 } else { 0.5 };
                return (0..=pieces)
                    .map(|i| f64::from(i) / f64::from(pieces.max(1)) - before)
                    .map(|at| (x + at * width * cos, y + at * width * sin))
                    .map(|(x, y)| (x - 3.0, x + 3.0, y, text.clone()))
                    .collect();
            }
            let left = match n.attribute("text-anchor").unwrap() {
                "start" => x,
                "middle" => x - width / 2.0,
                _ => x - width,
            };
            vec![(left, left + width, y, text)]
        })
        .collect()
}

/// No text leaves the canvas, and none covers another.
fn check_layout(chart: &Chart) {
    let (w, h) = chart.svg.size();
    let all = texts(chart);
    for (i, (left, right, y, text)) in all.iter().enumerate() {
        assert!(*left >= 0.0 && *right <= f64::from(w), "{text:?} from {left} to {right} in {}", chart.title);
        assert!(*y >= 0.0 && *y <= f64::from(h), "{text:?} at {y} in {}", chart.title);
        for (l, r, other_y, other) in &all[..i] {
            // The pieces of one turned text lie on each other.
            let apart = text == other || (y - other_y).abs() >= 11.0 || left >= r || right <= l;
            assert!(apart, "{text:?} and {other:?} overlap in {}", chart.title);
        }
    }
}

#[test]
fn records_as_they_come_are_drawn() {
    let (gpu, problem) = (sample::h200(), sample::problem(5_000_000));
    for chart in all(&gpu, &problem) {
        let chart = chart.unwrap();
        check_svg(&chart);
        check_layout(&chart);
        assert!(chart.description.ends_with('.'), "{}", chart.description);
    }
    let full = sample::full();
    let several = sample::with_features(&problem, 16);
    for problem in full.problems().into_iter().filter(|p| **p != several) {
        for chart in [ladder(&full, problem, Quantity::Bandwidth), roofline(&full, problem)] {
            check_layout(&chart.unwrap());
        }
    }
    let charts = all(&full, &problem).into_iter().chain([
        ladder(&full, &several, Quantity::Time),
        ladder(&full, &several, Quantity::SpeedUp),
        ladder(&full, &several, Quantity::Bandwidth),
        ladder(&full, &several, Quantity::Throughput),
        roofline(&full, &several),
    ]);
    for chart in charts {
        match chart {
            Ok(chart) => {
                check_svg(&chart);
                check_layout(&chart);
            }
            // The sample has no passes with parts left out.
            Err(e) => assert!(e.to_string().contains("parts left out"), "{e}"),
        }
    }
    let (cpu, small) = (sample::troubled(), sample::problem(100_000));
    for quantity in [Quantity::Time, Quantity::SpeedUp, Quantity::Bandwidth, Quantity::Throughput] {
        let chart = ladder(&cpu, &small, quantity).unwrap();
        check_svg(&chart);
        check_layout(&chart);
    }
    let products = sample::products();
    for problem in products.problems() {
        let wide = all(&products, problem).into_iter().chain(of_products(&products, problem));
        for chart in wide {
            match chart {
                Ok(chart) => {
                    check_svg(&chart);
                    check_layout(&chart);
                    assert!(chart.description.ends_with('.'), "{}", chart.description);
                }
                Err(e) => assert!(matches!(e, ChartError::NothingToDraw(_)), "{e}"),
            }
        }
    }
    let both = [&gpu, &sample::t4()];
    for chart in [sweep(&both), sweep_bandwidth(&both), compare(&both, 5_000_000), loss_curve(&cpu, &small)] {
        let chart = chart.unwrap();
        check_svg(&chart);
        check_layout(&chart);
    }
}

#[test]
fn the_same_record_gives_the_same_bytes_and_charts_have_ids_of_their_own() {
    let (run, problem) = (sample::h200(), sample::problem(5_000_000));
    let first: Vec<Chart> = all(&run, &problem).into_iter().map(Result::unwrap).collect();
    let again: Vec<Chart> = all(&Run::from_json(run.to_json().unwrap().as_bytes()).unwrap(), &problem)
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(first, again);
    let id = |c: &Chart| {
        let text = c.svg.as_str();
        text[text.find("aria-labelledby=").unwrap()..].split('"').nth(1).unwrap().to_owned()
    };
    for (i, a) in first.iter().enumerate() {
        assert!(first[..i].iter().all(|b| id(a) != id(b)), "{}", a.title);
    }
}

#[test]
fn rungs_without_a_figure_say_why() {
    let chart = ladder(&sample::troubled(), &sample::problem(100_000), Quantity::Time).unwrap();
    let shown = chart.svg.as_str();
    for words in ["skipped: This rung needs", "failed: CUDA_ERROR", "diverged at epoch 70", "diverged at epoch 10"] {
        assert!(shown.contains(words), "{words}");
    }
    assert_eq!(shown.matches("<rect").count(), 2, "two bars");
    assert!(shown.contains("debug assertions"));
}

#[test]
fn a_ladder_without_any_figure_still_lists_its_rungs() {
    let mut run = sample::troubled();
    run.measurements.retain(|m| m.outcome != Outcome::Measured);
    let chart = ladder(&run, &sample::problem(100_000), Quantity::Time).unwrap();
    check_svg(&chart);
    assert!(chart.description.contains("none has a valid figure"), "{}", chart.description);
}

#[test]
fn a_diverged_loss_ends_and_is_never_zero() {
    let (run, problem) = (sample::troubled(), sample::problem(100_000));
    let chart = loss_curve(&run, &problem).unwrap();
    assert!(chart.svg.as_str().contains("diverged at epoch 70"));
    assert!(chart.description.contains("diverged at epoch 70"), "{}", chart.description);
    let last = chart.table.rows.iter().find(|r| r[0] == "200").unwrap();
    assert!(last.contains(&"NaN".to_owned()), "{last:?}");

    let mut nothing = run;
    nothing.train_logs.retain(|l| l.rung == "03_fused_streams");
    let error = loss_curve(&nothing, &problem).unwrap_err();
    let expect = "No training of 100 k points, 200 epochs has a finite loss: Fused over streams diverged at epoch 10.";
    assert_eq!(error, ChartError::NothingToDraw(expect.into()));
}

#[test]
fn coinciding_curves_are_drawn_once_and_all_named() {
    let (run, problem) = (sample::h200(), sample::problem(5_000_000));
    let chart = loss_curve(&run, &problem).unwrap();
    for rung in &run.rungs {
        assert!(chart.svg.as_str().contains(&format!(">{}</text>", rung.title)), "{}", rung.title);
    }
    assert!(chart.svg.as_str().contains("7 alike within 0.1 %"));
}

#[test]
fn nothing_to_draw_is_said_in_a_sentence() {
    let (run, problem) = (sample::empty("NVIDIA H200", DeviceKind::Cuda), sample::problem(5_000_000));
    let none = [sweep(&[]), sweep_throughput(&[], None, None), compare(&[], 1), compare(&[&run], 1)];
    for chart in all(&run, &problem).into_iter().chain(of_products(&run, &problem)).chain(none) {
        match chart {
            Err(ChartError::NothingToDraw(why)) => assert!(why.ends_with('.') && why.contains(' '), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    let mut one_size = sample::h200();
    one_size.measurements.retain(|m| m.problem == problem);
    let error = sweep(&[&one_size]).unwrap_err().to_string();
    assert_eq!(error, "A sweep needs at least two sizes; there is only 5 M points.");
}

#[test]
fn records_that_were_timed_differently_are_refused() {
    let check = |change: &dyn Fn(&mut Run), expect: &str| {
        let (a, mut b) = (sample::h200(), sample::h200());
        change(&mut b);
        for chart in [sweep(&[&a, &b]), sweep_bandwidth(&[&a, &b]), compare(&[&a, &b], 5_000_000)] {
            match chart {
                Err(ChartError::NotComparable(why)) => assert!(why.contains(expect) && why.ends_with('.'), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    };
    check(&|r| r.policy.timed_by = TimedBy::WallClock, "one by CUDA events, the other by the processor's clock");
    check(&|r| r.policy.l2 = L2State::Cold, "one from a warm L2 cache, the other from a cold L2 cache");
    check(&|r| r.policy.inputs = "zeros".into(), "\u{201c}Philox\u{201d}, the other with \u{201c}zeros\u{201d}");
    check(&|r| r.experiment = "matmul".into(), "different experiments");
    let fewer_epochs = |r: &mut Run| {
        for m in &mut r.measurements {
            if let Problem::Regression { epochs, .. } = &mut m.problem {
                *epochs = 20;
            }
        }
    };
    check(&fewer_epochs, "200 epochs in one and 20 in the other");
}

fn row<'a>(table: &'a Table, first: &str) -> Vec<&'a str> {
    table.rows.iter().find(|r| r[0] == first).unwrap().iter().map(String::as_str).collect()
}

#[test]
fn every_counted_rung_of_ours_is_below_its_own_roof() {
    let (run, problem) = (sample::full(), sample::problem(5_000_000));
    let chart = roofline(&run, &problem).unwrap();
    let shown = chart.svg.as_str();
    for text in ["registers: 360 TB/s", "shared memory: 32.1 TB/s", "cache: 9143 GB/s", "memory: 4542 GB/s"] {
        assert!(shown.contains(&format!(">{text}</text>")), "{text}");
    }
    assert!(shown.contains("fp32 arithmetic: 65.9 TFLOP/s"));
    for rung in run.rungs.iter().filter(|r| r.id.starts_with('0')) {
        assert!(shown.contains(&format!(">{} · ", rung.title)), "{}", rung.title);
    }
    assert!(shown.contains("Left out, as their bytes were not counted: PyTorch, eager; PyTorch, compiled;"));
    assert!(!shown.contains("CPU, one thread"), "the processor's memory is another");
    assert!(!shown.contains("found no room"));
    // 4.5 times the bytes of reading every input once.
    let unfused = row(&chart.table, "01_unfused");
    assert_eq!(unfused[2..6], ["cache", "28800000000", "6400000000", "0.2222"]);
    assert_eq!(row(&chart.table, "08_multivariate")[5], "1.000");
    // Bound by arithmetic: drawn at the level that it moves most at.
    let on_chip = row(&chart.table, "06_on_chip");
    assert_eq!((on_chip[2], on_chip[11]), ("registers", "arithmetic"));
    assert_eq!(row(&chart.table, "roof")[1], "registers, measured");
    assert!(chart.table.rows.iter().any(|r| r[1] == "memory, measured" && r[12] == "4800 GB/s"));
}

#[test]
fn a_roofline_without_roofs_or_points_says_so() {
    let problem = sample::problem(5_000_000);
    let check = |change: &dyn Fn(&mut Run), expect: &str| {
        let mut run = sample::full();
        change(&mut run);
        match roofline(&run, &problem) {
            Err(ChartError::NothingToDraw(why)) => assert!(why.contains(expect) && why.ends_with('.'), "{why}"),
            other => panic!("{other:?}"),
        }
    };
    check(&|r| r.peaks.bandwidth.clear(), "No bandwidth");
    check(&|r| r.peaks.bandwidth.iter_mut().for_each(|p| p.samples_us = vec![f64::NAN]), "No bandwidth");
    check(&|r| r.measurements.iter_mut().for_each(|m| m.traffic.clear()), "No valid rung of NVIDIA H200");
    check(&|r| r.measurements.clear(), "no measurement of 5 M points");
    let error = roofline(&sample::troubled(), &sample::problem(100_000)).unwrap_err().to_string();
    assert!(error.starts_with("No valid rung of AMD Ryzen"), "{error}");

    let mut without_peak = sample::full();
    without_peak.peaks.compute.clear();
    let chart = roofline(&without_peak, &problem).unwrap();
    check_svg(&chart);
    check_layout(&chart);
    assert!(chart.svg.as_str().contains("The peak of fp32 arithmetic was not measured."));
}

#[test]
fn a_sweep_is_of_one_kind_of_work() {
    let chart = sweep(&[&sample::full()]).unwrap();
    assert!(chart.svg.as_str().contains("8 measurements of other work left out."));
    assert!(chart.table.rows.iter().all(|r| r[0] != "08_multivariate" || r[2] != "13.0"));
    assert_eq!(chart.table.rows.iter().filter(|r| r[0] == "08_multivariate" && r[1] == "5000000").count(), 1);
    // Another learning rate is other work, too.
    let mut run = sample::full();
    for m in run.measurements.iter_mut().filter(|m| m.problem.size() == 100_000) {
        if let Problem::Regression { learning_rate, .. } = &mut m.problem {
            *learning_rate = 0.5;
        }
    }
    let chart = sweep(&[&run]).unwrap();
    assert!(chart.table.rows.iter().all(|r| r[1] != "100000"));
}

#[test]
fn pytorch_has_a_tone_of_its_own_and_rungs_say_what_bounds_them() {
    let (run, problem) = (sample::full(), sample::problem(5_000_000));
    let chart = ladder(&run, &problem, Quantity::Time).unwrap();
    let shown = chart.svg.as_str();
    for text in [">PyTorch 2.11.0<", "27 % of arithmetic&apos;s bound", "of cache&apos;s bound"] {
        assert!(shown.contains(text), "{text}");
    }
    assert!(!ladder(&run, &problem, Quantity::Bandwidth).unwrap().svg.as_str().contains("memory&apos;s bound"));
    // Rungs that are not written for these points have no rows, only a remark.
    let several = ladder(&run, &sample::with_features(&problem, 16), Quantity::Time).unwrap();
    assert!(several.svg.as_str().contains("10 rungs skipped: It is written for one feature"));
    assert!(!several.svg.as_str().contains(">Unfused</text>"));
    assert!(several.svg.size().1 < chart.svg.size().1 * 2 / 3);
    assert_eq!(several.table.rows.len(), run.rungs.len());
    // The record says which rung speed-ups are over.
    let first = run.ladder(&problem).into_iter().find(|r| r.speed_up == Some(1.0)).unwrap().measurement;
    assert!(shown.contains(&format!("×: as fast as {}", run.rung(&first.rung).unwrap().title)));
}

#[test]
fn pytorch_operations_stand_beside_ours() {
    let chart = operations(&sample::full(), &sample::problem(5_000_000)).unwrap();
    for text in ["pytorch_eager, PyTorch 2.11.0", ">optimiser step<", ">gradient w<", ">pass<"] {
        assert!(chart.svg.as_str().contains(text), "{text}");
    }
    assert_eq!(chart.table.rows.iter().filter(|r| r[1] == "sum").count(), 3);
}

#[test]
fn devices_are_named_where_they_differ() {
    let (a, b) = (sample::h200(), sample::t4());
    for chart in [sweep(&[&a, &b]), sweep_bandwidth(&[&a, &b]), compare(&[&a, &b], 5_000_000)] {
        let chart = chart.unwrap();
        let said = "The records are of different devices: NVIDIA H200 and Tesla T4.";
        assert!(chart.svg.as_str().contains(said));
        assert!(chart.svg.as_str().contains(">Tesla T4</text>"));
    }
    // The same device twice: told apart all the same.
    let mut later = sample::h200();
    later.created = "2026-12-24T18:30:00Z".into();
    let chart = compare(&[&a, &later], 5_000_000).unwrap();
    assert!(chart.svg.as_str().contains("NVIDIA H200, 2026-12-24 18:30"));
}

#[test]
fn rungs_are_held_against_the_faster_library_and_the_ceiling_of_their_type() {
    let (run, problem) = (sample::products(), sample::cube(4096, Dtype::Bf16));
    let chart = ladder(&run, &problem, Quantity::Throughput).unwrap();
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
        chart.description.contains("the fastest is cuBLASLt, best of 32 with 697 TFLOP/s;"),
        "{}",
        chart.description
    );
    let best = row(&chart.table, "14_overlapped_store");
    assert_eq!(
        (chart.table.headers[5].as_str(), best[5], best[11], best[12]),
        ("TFLOP/s", "651.7", "128x256s4", "93.50")
    );

    // One step of k: bound by memory, not by arithmetic.
    let mut thin = run.clone();
    thin.measurements.iter_mut().for_each(|m| m.problem = sample::product((4096, 4096, 16), Dtype::Bf16));
    let chart = ladder(&thin, &sample::product((4096, 4096, 16), Dtype::Bf16), Quantity::Throughput).unwrap();
    assert!(chart.svg.as_str().contains("cache at 9143 GB/s<"));

    let mut unmeasured = run.clone();
    unmeasured.peaks.compute.clear();
    let chart = ladder(&unmeasured, &problem, Quantity::Throughput).unwrap();
    check_layout(&chart);
    assert!(chart.svg.as_str().contains("The peak of bf16 arithmetic was not measured, so no ceiling is drawn."));
    unmeasured.rungs.retain(|r| !matches!(r.runner, Runner::Library(_)));
    unmeasured.measurements.retain(|m| !m.rung.starts_with("cublas"));
    let chart = ladder(&unmeasured, &problem, Quantity::Throughput).unwrap();
    assert!(chart.svg.as_str().contains(">652 TFLOP/s<") && !chart.svg.as_str().contains("%: of"));

    // A regression has no library, and its rungs' own operations count.
    let chart = ladder(&sample::full(), &sample::problem(5_000_000), Quantity::Throughput).unwrap();
    assert!(chart.svg.as_str().contains(">measured ceiling: 9.14 TFLOP/s, cache at 9143 GB/s<"));
    // The time of a product is held against its arithmetic.
    let chart = ladder(&run, &problem, Quantity::Time).unwrap();
    assert!(chart.svg.as_str().contains(">measured ceiling: 163 µs, bf16 arithmetic at 845 TFLOP/s<"));
}

#[test]
fn a_sweep_of_products_is_of_cubes_of_one_type() {
    let run = sample::products();
    let chart = sweep_throughput(&[&run], Some(Dtype::Bf16), None).unwrap();
    let edges: Vec<&str> =
        chart.table.rows.iter().filter(|r| r[0] == "14_overlapped_store").map(|r| r[1].as_str()).collect();
    assert_eq!(edges, ["256", "512", "1000", "1024", "2048", "4096", "8192", "16384"]);
    assert!(chart.svg.as_str().contains(">bf16 arithmetic: 845 TFLOP/s<"));
    assert!(chart.description.contains("from 256³ to 16384³ of 17 rungs"), "{}", chart.description);
    // The libraries, and nobody else, have dashes.
    let dashed = |c: &Chart| c.svg.as_str().matches("<polyline").count();
    let few =
        sweep_throughput(&[&run], Some(Dtype::F32), Some(&["08_double_buffered", "01_naive", "15_split_k"])).unwrap();
    assert!(dashed(&few) < dashed(&chart));
    let ids: Vec<&str> = few.table.rows.iter().map(|r| r[0].as_str()).collect();
    for id in ["cublas", "cublaslt", "01_naive", "08_double_buffered"] {
        assert!(ids.contains(&id), "{id}");
    }
    assert!(!ids.contains(&"07_warp_tile"));
    assert!(few.svg.as_str().contains("Without a valid figure: 15_split_k."));
    let error = sweep_throughput(&[&run], Some(Dtype::F32), Some(&["15_split_k"])).unwrap_err().to_string();
    assert_eq!(error, "None of these rungs has a valid measurement to draw over sizes: 15_split_k.");
    let error = sweep_throughput(&[&run], Some(Dtype::F64), None).unwrap_err().to_string();
    assert_eq!(error, "The record has no valid measurement of fp64 to draw over sizes.");
    let other = sample::products();
    let mut half = other.clone();
    half.measurements.retain(|m| m.problem.dtype() == Some(Dtype::F16));
    match sweep(&[&half, &{
        let mut only = other;
        only.measurements.retain(|m| m.problem.dtype() == Some(Dtype::Bf16));
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
        let chart = roofline(&run, &sample::cube(4096, dtype)).unwrap();
        for text in inside {
            assert!(chart.svg.as_str().contains(text), "{text} of {dtype:?}");
        }
        for text in outside {
            assert!(!chart.svg.as_str().contains(text), "{text} of {dtype:?}");
        }
    };
    check(Dtype::F32, &[">fp32 arithmetic: 59.5 TFLOP/s<"], &["without tensor cores"]);
    check(Dtype::Tf32, &[">tf32 arithmetic: 430 TFLOP/s<", ">fp32 arithmetic: 59.5 TFLOP/s<"], &["bf16"]);
    check(
        Dtype::Bf16,
        &[">bf16 arithmetic: 845 TFLOP/s<", "Left out, as their bytes were not counted: cuBLAS"],
        &["tf32"],
    );
    let mut unmeasured = run.clone();
    unmeasured.peaks.compute.retain(|p| p.dtype == Dtype::F32);
    let chart = roofline(&unmeasured, &sample::cube(4096, Dtype::Bf16)).unwrap();
    check_layout(&chart);
    assert!(chart.svg.as_str().contains("The peak of bf16 arithmetic was not measured."));
}

#[test]
fn shapes_are_held_against_the_faster_library() {
    let run = sample::products();
    let chart = shapes(&run, Dtype::Bf16).unwrap();
    let cells: Vec<&Vec<String>> = chart.table.rows.iter().filter(|r| r[0] == "4097 × 4095 × 4093").collect();
    assert_eq!(cells.len(), 15);
    let best: Vec<&&Vec<String>> = cells.iter().filter(|r| r[8] == "yes").collect();
    assert_eq!(
        (best.len(), best[0][1].as_str(), best[0][5].as_str()),
        (1, "14_overlapped_store", "cuBLASLt, best of 32")
    );
    let ratio = |id: &str| cells.iter().find(|r| r[1] == id).unwrap()[7].parse::<f64>().unwrap();
    let (p, ours) = (sample::product((4097, 4095, 4093), Dtype::Bf16), "14_overlapped_store");
    let us = |id| run.measurement(id, &p).unwrap().median_us().unwrap();
    assert!((ratio(ours) - us("cublaslt") / us(ours)).abs() < 1e-3);
    let shown = chart.svg.as_str();
    for text in [
        "b: skipped: Its fragments want a k of whole sixteens. (2 cells).",
        "c: failed: CUDA_ERROR_LAUNCH_FAILED",
        ">65536 × 512 × 512<",
        ">best of ours<",
    ] {
        assert!(shown.contains(text), "{text}");
    }
    let fp32 = shapes(&run, Dtype::F32).unwrap();
    assert!(
        fp32.svg
            .as_str()
            .contains("No column, as without a figure at any shape: WMMA (skipped: It is written for 16-bit types).")
    );
    assert!(!fp32.table.rows.iter().any(|r| r[1].starts_with("cpu") || r[1].starts_with("cublas")));

    let mut without = run.clone();
    without.measurements.retain(|m| !(m.rung.starts_with("cublas") && m.problem == sample::cube(256, Dtype::Bf16)));
    let chart = shapes(&without, Dtype::Bf16).unwrap();
    check_layout(&chart);
    assert!(chart.svg.as_str().contains("a: no library has a valid figure of this shape (15 cells)."));
    without.measurements.retain(|m| !m.rung.starts_with("cublas"));
    let error = |run: &Run, dtype| shapes(run, dtype).unwrap_err().to_string();
    let expect = "No library has a valid figure of bf16, so there is nothing to hold rungs against.";
    assert_eq!(error(&without, Dtype::Bf16), expect);
    assert_eq!(error(&run, Dtype::F64), "The record has no matrix product of fp64.");
    assert_eq!(error(&sample::full(), Dtype::F32), "The record has no matrix product of fp32.");
}

#[test]
fn tiles_are_held_against_the_chosen_one() {
    let (run, problem) = (sample::products(), sample::cube(4096, Dtype::Bf16));
    let chart = tiles(&run, &problem).unwrap();
    let shown = chart.svg.as_str();
    assert!(shown.contains(
        "Faster with another tile than with the chosen one: Persistent, in clusters with 128x128s6 (−4.0 %)."
    ));
    assert!(shown.contains("369 µs · 373 TFLOP/s · +31 %"));
    let of = |id: &str| -> Vec<[&str; 3]> {
        let rows = chart.table.rows.iter().filter(|r| r[0] == id);
        rows.map(|r| [r[1].as_str(), r[5].as_str(), r[6].as_str()]).collect()
    };
    // In the order of the rung's row.
    let expect = [["128x256s4", "1.000", "yes"], ["128x128s6", "1.069", ""], ["64x256s5", "1.309", ""]];
    assert_eq!(of("11_wgmma_tma"), expect);
    assert_eq!(row(&chart.table, "11_wgmma_tma")[7], "BM 128, BN 256, STAGES 4");
    let error = tiles(&run, &sample::cube(512, Dtype::Bf16)).unwrap_err().to_string();
    assert_eq!(error, "The record has no times with several tiles at 512³ bf16.");
    // Without the chosen one the fastest is one.
    let mut unchosen = run;
    unchosen.measurements.clear();
    let chart = tiles(&unchosen, &problem).unwrap();
    check_layout(&chart);
    assert!(chart.svg.as_str().contains("Of 5 rungs the time with the chosen tile is missing"));
}

#[test]
fn transfers_are_parts_of_a_whole() {
    let (run, problem) = (sample::products(), sample::cube(4096, Dtype::Bf16));
    let chart = transfers(&run, &problem).unwrap();
    assert!(chart.description.contains("the transfers cost more than the work at 1 of them"), "{}", chart.description);
    let best = row(&chart.table, "14_overlapped_store");
    assert_eq!((best[2], best[4], best[7]), ("1.2090", "0.63947", "89.8"));
    // Far apart: shares; else times.
    assert!(chart.svg.as_str().contains("share of the time until"));
    let mut near = run.clone();
    near.spans.retain(|s| s.rung != "01_naive");
    let chart = transfers(&near, &problem).unwrap();
    check_layout(&chart);
    assert!(chart.svg.as_str().contains("time until the result is on the host, shorter is better"));
    near.spans.retain(|s| s.name != "compute");
    let chart = transfers(&near, &problem).unwrap();
    assert!(chart.svg.as_str().contains("Without a time for “compute”: Double-buffered and Stores overlapped."));
    let error = transfers(&run, &sample::cube(512, Dtype::Bf16)).unwrap_err().to_string();
    assert_eq!(error, "The record has no times of transfers at 512³ bf16.");
}

#[test]
fn figures_explain_every_kernel_of_the_product() {
    let mut ids: Vec<String> = matmul::rungs().into_iter().map(|r| r.id.into_owned()).collect();
    ids.retain(|id| matmul::takes(id).is_some());
    assert!(ids.len() >= 5, "{ids:?}");
    let mut titles: Vec<String> = Vec::new();
    for id in ids {
        let chart = matmul_figure(&id).unwrap();
        check_svg(&chart);
        check_layout(&chart);
        assert!(chart.description.ends_with('.') && !chart.table.rows.is_empty(), "{id}");
        assert_eq!(chart.svg.size().0, 720);
        assert!(!titles.contains(&chart.title), "{}", chart.title);
        titles.push(chart.title);
    }
    let naive = matmul_figure("01_naive").unwrap();
    assert_eq!(row(&naive.table, "A, each step")[2..], ["32", "32"]);
    let coalesced = matmul_figure("02_coalesced").unwrap();
    assert_eq!(row(&coalesced.table, "B, each step")[2..], ["32", "1"]);
    let sums = matmul_figure("11_wgmma_tma").unwrap();
    assert_eq!(row(&sums.table, "31")[1..], ["7, 15", "6, 7", "d[0], d[1], d[2], d[3]"]);
}

const HOSTILE: [&str; 8] = [
    "<script>alert(1)</script>",
    "\" onload=\"alert(1)\" x='",
    "]]> &amp; <!-- --> <![CDATA[",
    "nul\0 bell\u{7} escape\u{1b}[31m del\u{7f} \u{FFFE}\u{FFFF}",
    "\u{202E}gnp.exe \u{2066}שלום עולם مرحبا\u{2069}",
    "\u{E000}title\u{E001} </text></svg><svg onload=alert(1)>",
    "x\n</svg>\n<text x=\"1\">\n",
    "\" stroke=\"#010203\" fill=\"#010203",
];

/// The record with a text in every place that has one.
fn with_text(mut run: Run, text: &str) -> Run {
    run.title = text.into();
    run.created = text.into();
    run.environment.device.name = text.into();
    for r in &mut run.rungs {
        r.title = format!("{text}{}", r.id).into();
        r.idea = text.to_owned().into();
        if let Runner::External(name) = &mut r.runner {
            *name = text.to_owned().into();
        }
    }
    for s in &mut run.spans {
        s.name = format!("{text}{}", s.name);
    }
    for m in &mut run.measurements {
        match &mut m.outcome {
            Outcome::Skipped { why: words } | Outcome::Failed { error: words } => *words = text.into(),
            Outcome::Measured => {}
        }
    }
    for l in &mut run.train_logs {
        l.parameters = BTreeMap::from([(text.to_owned(), 1.0)]);
    }
    run
}

#[test]
fn hostile_texts_are_harmless() {
    let long = "very long ".repeat(5_000);
    let unbroken = "W".repeat(100_000);
    let cjk = "回帰".repeat(2_000);
    for text in HOSTILE.into_iter().chain([long.as_str(), &unbroken, &cjk, "", " "]) {
        let run = with_text(sample::h200(), text);
        for chart in all(&run, &sample::problem(5_000_000)) {
            check_svg(&chart.unwrap());
        }
        for chart in all(&with_text(sample::full(), text), &sample::problem(5_000_000)).into_iter().flatten() {
            check_svg(&chart);
        }
        for chart in all(&with_text(sample::troubled(), text), &sample::problem(100_000)).into_iter().flatten() {
            check_svg(&chart);
        }
        let (run, problem) = (with_text(sample::products(), text), sample::cube(4096, Dtype::Bf16));
        for chart in all(&run, &problem).into_iter().chain(of_products(&run, &problem)).flatten() {
            check_svg(&chart);
        }
        check_svg(&diagram_of(text, (3, 40), 7).unwrap());
    }
    for text in [long.as_str(), &unbroken] {
        let (run, products) = (with_text(sample::h200(), text), with_text(sample::products(), text));
        let product = sample::cube(4096, Dtype::Bf16);
        let charts = all(&run, &sample::problem(5_000_000)).into_iter().chain(of_products(&products, &product));
        for chart in charts.chain([Ok(diagram_of(text, (3, 40), 7).unwrap())]) {
            let chart = chart.unwrap();
            let (w, _) = chart.svg.size();
            let texts = texts(&chart);
            let outside = texts.iter().find(|t| t.0 < -1.0 || t.1 > f64::from(w) + 1.0);
            assert_eq!(
                outside,
                None,
                "{} of {}",
                chart.description.chars().take(40).collect::<String>(),
                chart.svg.size().1
            );
        }
    }
}

/// A diagram with a text wherever there may be one.
fn diagram_of(text: &str, (rows, columns): (usize, usize), tone: usize) -> Result<Chart, ChartError> {
    let matrix = || {
        Matrix::new(text, rows, columns)
            .cell(14.0, 13.0)
            .shade(0..rows / 2 + 1, 1..columns, tone, text)
            .tint(rows..rows + 4, 0..2, tone, text)
            .frame(0..1, 0..columns)
            .fill(text, |r, c| (r == c).then_some(tone))
            .write(|r, c| if (r + c) % 3 == 0 { text.to_owned() } else { String::new() })
            .at_row(rows, text)
            .at_column(0, text)
            .rule(2, 0)
            .caption(text)
    };
    let at = tone as f64;
    Diagram::new(text)
        .subtitle(text)
        .describe(text)
        .note(text)
        .row(text)
        .put(matrix())
        .put(Sign::arrow(text))
        .put(matrix())
        .row(text)
        .put(Product::new(matrix(), matrix(), matrix()))
        .put(Sign::new(text))
        .row(text)
        .put(
            Timeline::new(&[text, text]).span(0, (0.0, at), tone, text, text).wait(1, (at, 9.0), 1, text, "").until(at),
        )
        .put(Timeline::new(&[text]).link((0, 0.0), (0, at)).span(7, (0.0, 1.0), 0, text, text))
        .table([text, text])
        .figures([text])
        .draw()
}

#[test]
fn what_is_cut_off_is_in_the_tooltip() {
    let mut run = sample::h200();
    let long = "Fused & staged through shared memory with a pipeline of three stages";
    run.rungs[3].title = long.into();
    let chart = ladder(&run, &sample::problem(5_000_000), Quantity::Time).unwrap();
    let document = roxmltree::Document::parse(chart.svg.as_str()).unwrap();
    let tooltip = document.descendants().find(|n| n.tag_name().name() == "title" && n.text() == Some(long)).unwrap();
    let shown = tooltip.next_sibling().and_then(|n| n.text()).unwrap();
    assert!(shown.ends_with('…') && long.starts_with(shown.trim_end_matches('…')), "{shown}");
    check_layout(&chart);
}

fn real() -> impl Strategy<Value = f64> {
    let odd = [0.0, -1.0, 1e-300, 1e300, f64::MAX, f64::MIN_POSITIVE, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    prop_oneof![4 => 0.01..1e7, 1 => proptest::sample::select(odd.to_vec()), 1 => any::<f64>()]
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(HOSTILE.map(str::to_owned).to_vec()),
        "[a-z<>&\"' ]{0,40}",
        proptest::collection::vec(any::<char>(), 0..20).prop_map(|c| c.into_iter().collect()),
    ]
}

fn dtype() -> impl Strategy<Value = Dtype> {
    prop_oneof![6 => Just(Dtype::F32), 1 => proptest::sample::select(vec![Dtype::F64, Dtype::Tf32, Dtype::Bf16, Dtype::Other])]
}

fn any_problem() -> impl Strategy<Value = Problem> {
    let size = prop_oneof![Just(0), Just(u64::MAX), Just(5_000_000), Just(100_000), 0..10_000_000u64];
    let regression = (size.clone(), size, prop_oneof![Just(200), Just(0), Just(u64::MAX)], real(), 0..3u64).prop_map(
        |(n, t, e, v, f)| Problem::Regression {
            points: n,
            train_points: t,
            features: f,
            epochs: e,
            learning_rate: v,
            noise: v,
            seed: 1,
            dtype: Dtype::F32,
        },
    );
    let edge = prop_oneof![4 => Just(64), 2 => Just(4096), 1 => 0..5000u64, 1 => Just(u64::MAX)];
    let product =
        ((edge.clone(), edge.clone(), edge), dtype(), proptest::option::of(dtype()), any::<bool>(), any::<bool>())
            .prop_map(|((m, n, k), dtype, out, trans_a, cube)| {
                let (n, k) = if cube { (m, m) } else { (n, k) };
                Problem::Matmul { m, n, k, dtype, out, trans_a, trans_b: false, seed: 1 }
            });
    prop_oneof![
        6 => regression,
        5 => product,
        2 => Just(sample::problem(5_000_000)),
        2 => Just(sample::cube(64, Dtype::F32)),
        1 => Just(Problem::Unknown)
    ]
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![4 => proptest::sample::select(vec!["a".to_owned(), "b".into(), "c".into()]), 1 => words()]
}

fn reals() -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(real(), 0..5)
}

const LEVELS: [MemoryLevel; 5] =
    [MemoryLevel::Dram, MemoryLevel::L2, MemoryLevel::Shared, MemoryLevel::Registers, MemoryLevel::Other];

fn measurement() -> impl Strategy<Value = Measurement> {
    let outcome = prop_oneof![
        6 => Just(Outcome::Measured),
        1 => words().prop_map(|why| Outcome::Skipped { why }),
        1 => words().prop_map(|error| Outcome::Failed { error }),
    ];
    let check = proptest::option::weighted(0.9, (real(), any::<bool>()));
    let level = proptest::sample::select(LEVELS.to_vec());
    let bytes = prop_oneof![Just(0), Just(u64::MAX), 1..1_000_000_000_000u64];
    let traffic = proptest::collection::vec((level, bytes).prop_map(|(level, bytes)| Traffic { level, bytes }), 0..4);
    let flops = proptest::option::of(any::<u64>());
    let parts = (id(), any_problem(), outcome, reals(), check, traffic, flops);
    parts.prop_map(|(rung, problem, outcome, samples, check, traffic, flops)| {
        let mut m = Measurement::without_samples(rung, problem, outcome);
        m.set_samples(samples, Vec::new());
        m.tile = Some("a".into());
        (m.traffic, m.flops) = (traffic, flops);
        m.check = check.map(|(error, passed)| Check {
            reference: String::new(),
            max_abs_error: error,
            max_rel_error: error,
            tolerance: error,
            passed,
        });
        m
    })
}

fn train_log() -> impl Strategy<Value = TrainLog> {
    let point = (prop_oneof![0..300u64, any::<u64>()], real()).prop_map(|(epoch, loss)| LossPoint { epoch, loss });
    (id(), any_problem(), proptest::collection::vec(point, 0..6), real()).prop_map(|(rung, problem, losses, v)| {
        TrainLog {
            rung,
            problem,
            losses,
            parameters: BTreeMap::from([("w".to_owned(), v)]),
            train_loss: v,
            test_loss: v,
        }
    })
}

fn span() -> impl Strategy<Value = Span> {
    let groups = [SpanGroup::Operation, SpanGroup::Ablation, SpanGroup::Tile, SpanGroup::Transfer, SpanGroup::Other];
    let name = prop_oneof![2 => words(), 1 => proptest::sample::select(vec!["a".to_owned(), "compute".into(), "to the host".into()])];
    (id(), any_problem(), proptest::sample::select(groups.to_vec()), name, reals())
        .prop_map(|(rung, problem, group, name, samples_us)| Span { rung, problem, group, name, samples_us })
}

fn run() -> impl Strategy<Value = Run> {
    let many = |n| 0..n;
    let parts = (
        proptest::collection::vec(measurement(), many(24)),
        proptest::collection::vec(train_log(), many(6)),
        proptest::collection::vec(span(), many(12)),
        proptest::collection::vec((id(), words(), 0..4), many(4)),
        (reals(), words(), any::<bool>(), proptest::option::of(any::<u64>()), reals()),
    );
    parts.prop_map(|(measurements, train_logs, spans, rungs, (peaks, name, gpu, l2, flops))| {
        let mut run = sample::empty(&name, if gpu { DeviceKind::Cuda } else { DeviceKind::Cpu });
        run.title.clone_from(&name);
        run.environment.device.l2_bytes = l2;
        run.rungs = rungs
            .into_iter()
            .map(|(id, title, of)| Rung {
                id: id.into(),
                title: title.into(),
                idea: "".into(),
                requires: if of == 0 { Requires::Nothing } else { Requires::AtLeast(7, 5) },
                runner: match of {
                    0 => Runner::Cpu("1 thread".into()),
                    1 => Runner::External(name.clone().into()),
                    2 => Runner::Library(name.clone().into()),
                    _ => Runner::Kernels { specs: Vec::new(), schedule: Schedule::Graph },
                },
            })
            .collect();
        for level in LEVELS {
            let mut peak = sample::peak(level, 1e12);
            peak.samples_us.clone_from(&peaks);
            run.peaks.bandwidth.push(peak);
        }
        for dtype in [Dtype::F32, Dtype::Bf16] {
            run.peaks.compute.push(ComputePeak {
                dtype,
                method: name.clone(),
                flops: 1 << 40,
                samples_us: flops.clone(),
                datasheet_flops_per_s: peaks.first().copied(),
            });
        }
        (run.measurements, run.train_logs, run.spans) = (measurements, train_logs, spans);
        run
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_record_gives_well_formed_charts_or_an_error(a in run(), b in run()) {
        let mut problems: Vec<Problem> = a.problems().into_iter().cloned().collect();
        problems.extend(a.train_logs.iter().map(|l| l.problem.clone()).chain(a.spans.iter().map(|s| s.problem.clone())));
        problems.truncate(8);
        for p in &problems {
            let of_both = [
                sweep(&[&a, &b]),
                sweep_throughput(&[&a, &b], p.dtype(), Some(&["a", "b"])),
                compare(&[&a, &b], p.size()),
            ];
            for chart in all(&a, p).into_iter().chain(of_products(&a, p)).chain(of_both) {
                match chart {
                    Ok(chart) => check_svg(&chart),
                    Err(e) => prop_assert!(e.to_string().ends_with('.'), "{e}"),
                }
            }
        }
    }

    #[test]
    fn any_diagram_is_well_formed(
        text in words(),
        rows in 0..60usize,
        columns in prop_oneof![9 => 0..60usize, 1 => Just(1_000_000)],
        tone in any::<usize>(),
    ) {
        check_svg(&diagram_of(&text, (rows, columns), tone).unwrap());
    }
}
