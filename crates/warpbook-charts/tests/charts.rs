//! Every chart of records as they come, and of records that nobody would want.

mod sample;

use proptest::prelude::*;
use std::collections::BTreeMap;
use warpbook_charts::diagram::{Diagram, Matrix, Product, Sign, Timeline};
use warpbook_charts::*;
use warpbook_record::{
    Baseline, ChartKind, Check, Column, ComputePeak, Course, Descriptor, DeviceKind, Dtype, EpochPoint, L2State,
    LossPoint, Measurement, MemoryLevel, Outcome, Part, PartGroup, Problem, Requires, Right, Run, Rung, Runner,
    Schedule, StepValue, SweepAxis, SweepPoint, TimedBy, Traffic, TrainLog, count, setting,
};

const QUANTITIES: [Quantity; 5] =
    [Quantity::Time, Quantity::SpeedUp, Quantity::Bandwidth, Quantity::Throughput, Quantity::ItemRate];

/// All charts of a record at a problem that need no items, those over several records with it alone and twice.
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
        sweep_of(&[run], Quantity::SpeedUp, None, None),
        loss_curve(run, problem),
        operations(run, problem),
        ablation(run, problem),
        roofline(run, problem),
        compare(&[run, run], problem.size()),
    ]
}

/// The charts of trainings that were watched step by step.
fn of_trainings(run: &Run, problem: &Problem) -> Vec<Result<Chart, ChartError>> {
    let charts = [accuracy, loss_scale, learning_rate, gradient_norm];
    charts.map(|chart| chart(run, problem)).into()
}

/// The charts of records with libraries, tiles and transfers.
fn of_products(run: &Run, problem: &Problem) -> Vec<Result<Chart, ChartError>> {
    let dtype = problem.dtype;
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
    let several = sample::with_features(5_000_000, 16);
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
    let softmax = sample::softmax();
    for problem in softmax.problems() {
        let charts = QUANTITIES.iter().map(|q| ladder(&softmax, problem, *q));
        for chart in charts.chain([roofline(&softmax, problem), compare(&[&softmax, &softmax], problem.size())]) {
            let chart = chart.unwrap();
            check_svg(&chart);
            check_layout(&chart);
            assert!(chart.description.ends_with('.'), "{}", chart.description);
        }
    }
    for quantity in QUANTITIES {
        for runs in [&[&softmax][..], &[&softmax, &softmax]] {
            let chart = sweep_of(runs, quantity, None, None).unwrap();
            check_svg(&chart);
            check_layout(&chart);
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
    check(&|r| r.policy.timed_by = TimedBy::WallClock, "one by CUDA events, the other by the host's clock");
    check(&|r| r.policy.l2 = L2State::Cold, "one from a warm L2, the other from a cold L2");
    check(&|r| r.policy.inputs = "zeros".into(), "\u{201c}Philox\u{201d}, the other with \u{201c}zeros\u{201d}");
    check(&|r| r.experiment = "matmul".into(), "different experiments");
    let fewer_epochs = |r: &mut Run| {
        for m in &mut r.measurements {
            m.problem = sample::regression(m.problem.size(), 1, 20, 0.01);
        }
    };
    check(&fewer_epochs, "200 epochs in one and 20 epochs in the other");
    let of_another_type = |r: &mut Run| {
        for m in &mut r.measurements {
            m.problem = m.problem.with(|p| (p.dtype, p.id) = (Dtype::F16, format!("{} in fp16", p.id)));
        }
    };
    check(&of_another_type, "fp32 in one and fp16 in the other");
}

fn row<'a>(table: &'a Table, first: &str) -> Vec<&'a str> {
    table.rows.iter().find(|r| r[0] == first).unwrap().iter().map(String::as_str).collect()
}

/// The cell below a header in the first row that begins so.
fn cell<'a>(table: &'a Table, first: &str, header: &str) -> &'a str {
    let at = table.headers.iter().position(|h| h == header);
    row(table, first)[at.unwrap_or_else(|| panic!("no {header:?} in {:?}", table.headers))]
}

#[test]
fn every_counted_rung_of_ours_is_below_its_own_roof() {
    let (run, problem) = (sample::full(), sample::problem(5_000_000));
    let chart = roofline(&run, &problem).unwrap();
    let shown = chart.svg.as_str();
    for text in ["registers: 360 TB/s", "shared memory: 32.1 TB/s", "L2: 9143 GB/s", "DRAM: 4542 GB/s"] {
        assert!(shown.contains(&format!(">{text}</text>")), "{text}");
    }
    assert!(shown.contains("fp32 arithmetic: 65.9 TFLOP/s"));
    for rung in run.rungs.iter().filter(|r| r.id.starts_with('0')) {
        assert!(shown.contains(&format!(">{} · ", rung.title)), "{}", rung.title);
    }
    assert!(shown.contains("Left out, as their bytes were not counted: PyTorch, eager; PyTorch, compiled;"));
    assert!(!shown.contains("CPU, one thread"), "the CPU's memory is another");
    assert!(!shown.contains("found no room"));
    // 4.5 times the bytes of reading every input once.
    let unfused = row(&chart.table, "01_unfused");
    assert_eq!(unfused[2..6], ["L2", "28800000000", "6400000000", "0.2222"]);
    assert_eq!(row(&chart.table, "08_multivariate")[5], "1.000");
    // Bound by arithmetic: drawn at the level that it moves most at.
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
    // What has to be equal along a line is the experiment's to say: another learning rate is other work here, too.
    let mut run = sample::full();
    for m in run.measurements.iter_mut().filter(|m| m.problem.size() == 100_000) {
        let line = "200 epochs at a learning rate of 0.5".to_owned();
        m.problem =
            sample::regression(100_000, 1, 200, 0.5).with(|p| p.sweep = Some(SweepPoint { size: 100_000, line }));
    }
    let chart = sweep(&[&run]).unwrap();
    assert!(chart.table.rows.iter().all(|r| r[1] != "100000"));
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
    let (expect, got) = (sweep(&[&plain]).unwrap(), sweep(&[&run]).unwrap());
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
    let chart = sweep_of(&[&run], Quantity::SpeedUp, Some(&line), Some(&["02_fused", "04_fused_graph"])).unwrap();
    check_svg(&chart);
    check_layout(&chart);
    assert!(chart.svg.as_str().contains(">NVIDIA H200, 20 epochs, median of 30, warm L2<"), "{}", chart.svg.as_str());
    assert!(chart.svg.as_str().contains("speed-up over CPU, one thread, higher is better"));
    let sizes: Vec<&str> = chart.table.rows.iter().map(|r| r[1].as_str()).collect();
    assert_eq!(sizes, ["100000", "500000", "1000000"].repeat(2));
    let p = sample::regression(1_000_000, 1, 20, 0.01);
    let us = |id: &str| run.measurement(id, &p).unwrap().median_us().unwrap();
    let shown: f64 = chart.table.rows[5].last().unwrap().parse().unwrap();
    assert!((shown * us("04_fused_graph") / us("cpu_1_thread") - 1.0).abs() < 1e-3, "{shown}");
    let elsewhere = sample::regression(500_000, 4, 20, 0.01);
    let error = sweep_of(&[&run], Quantity::Time, Some(&elsewhere), None).unwrap_err().to_string();
    assert_eq!(error, "The record has no valid measurement of 4 features, 20 epochs to draw over sizes.");
    let error = sweep_of(&[&run], Quantity::ItemRate, None, None).unwrap_err().to_string();
    assert_eq!(error, "No items are known of 5 M points, 200 epochs, so it has no items/s.");
}

#[test]
fn pytorch_has_a_tone_of_its_own_and_rungs_say_what_bounds_them() {
    let (run, problem) = (sample::full(), sample::problem(5_000_000));
    let chart = ladder(&run, &problem, Quantity::Time).unwrap();
    let shown = chart.svg.as_str();
    for text in [">PyTorch 2.11.0<", "27 % of arithmetic&apos;s bound", "of L2&apos;s bound"] {
        assert!(shown.contains(text), "{text}");
    }
    let bandwidth = ladder(&run, &problem, Quantity::Bandwidth).unwrap();
    assert!(!["DRAM&apos;s bound", "memory&apos;s bound"].iter().any(|t| bandwidth.svg.as_str().contains(t)));
    // Rungs that are not written for these points have no rows, only a remark.
    let several = ladder(&run, &sample::with_features(5_000_000, 16), Quantity::Time).unwrap();
    assert!(several.svg.as_str().contains("10 rungs skipped: It is written for one feature"));
    assert!(!several.svg.as_str().contains(">Unfused</text>"));
    assert!(several.svg.size().1 < chart.svg.size().1 * 2 / 3);
    assert_eq!(several.table.rows.len(), run.rungs.len());
    // The record says which rung speed-ups are over.
    let first = run.ladder(&problem).into_iter().find(|r| r.speed_up == Some(1.0)).unwrap().measurement;
    assert!(shown.contains(&format!("×: as fast as {}", run.rung(&first.rung).unwrap().title)));
    assert!(chart.description.ends_with("× as fast as CPU, one thread)."), "{}", chart.description);
    let mut other = run.clone();
    other.descriptor.baseline = Baseline::Rung("01_unfused".into());
    let chart = ladder(&other, &problem, Quantity::SpeedUp).unwrap();
    assert_eq!(chart.title, "Fused linear regression: speed-up over Unfused");
    assert!(chart.svg.as_str().contains("speed-up over Unfused, longer is better"));
    assert_eq!(cell(&chart.table, "01_unfused", "speed-up"), "1.000");
}

#[test]
fn pytorch_operations_are_shown_with_ours() {
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
fn a_ceiling_far_beyond_all_bars_is_told_and_not_drawn() {
    let (mut run, problem) = (sample::products(), sample::cube(4096, Dtype::Bf16));
    // Everything ten times as slow: the ceiling is more than eight times as high as the highest bar.
    run.measurements.iter_mut().flat_map(|m| &mut m.samples_us).for_each(|us| *us *= 10.0);
    let shown = |quantity| ladder(&run, &problem, quantity).unwrap().svg.as_str().to_owned();
    let rates = shown(Quantity::Throughput);
    assert!(rates.contains(">Beyond the axis: the measured ceiling: 845 TFLOP/s, bf16 arithmetic.<"), "{rates}");
    assert!(!rates.contains(">measured ceiling: 845"));
    // A time is held against it whatever it is: its mark is near zero.
    assert!(shown(Quantity::Time).contains(">measured ceiling: 163"));
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
    let best = |header| cell(&chart.table, "14_overlapped_store", header);
    assert_eq!((best("TFLOP/s"), best("tile"), best("of fastest library")), ("651.7", "128x256s4", "0.9350"));

    // One step of k: bound by memory, not by arithmetic.
    let mut thin = run.clone();
    thin.measurements.iter_mut().for_each(|m| m.problem = sample::product((4096, 4096, 16), Dtype::Bf16));
    let chart = ladder(&thin, &sample::product((4096, 4096, 16), Dtype::Bf16), Quantity::Throughput).unwrap();
    assert!(chart.svg.as_str().contains("L2 at 9143 GB/s<"));

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
    assert!(chart.svg.as_str().contains(">measured ceiling: 9.14 TFLOP/s, L2 at 9143 GB/s<"));
    // The time of a product is held against its arithmetic and the library, and speed-ups are over the library.
    let chart = ladder(&run, &problem, Quantity::Time).unwrap();
    let shown = chart.svg.as_str();
    for text in [
        ">measured ceiling: 163 µs, bf16 arithmetic at 845 TFLOP/s<",
        ">cuBLASLt, best of 32: 197 µs<",
        ">211 µs · 0.935×<",
        "×: as fast as cuBLASLt, best of 32",
    ] {
        assert!(shown.contains(text), "{text}");
    }
    assert!(chart.description.contains("the fastest is cuBLASLt, best of 32 with 197 µs;"), "{}", chart.description);
    // Without the peak of arithmetic the ceiling of memory would be far above the true one.
    let mut unmeasured = run.clone();
    unmeasured.peaks.compute.clear();
    let chart = ladder(&unmeasured, &problem, Quantity::Time).unwrap();
    assert!(!chart.svg.as_str().contains("measured ceiling:"));
    assert!(chart.svg.as_str().contains("The peak of bf16 arithmetic was not measured, so no ceiling is drawn."));
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
    half.measurements.retain(|m| m.problem.dtype == Dtype::F16);
    match sweep(&[&half, &{
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
        ">best kernel<",
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
    assert!(chart.svg.as_str().contains("a: no library has a valid figure at this size (15 cells)."));
    without.measurements.retain(|m| !m.rung.starts_with("cublas"));
    let error = |run: &Run, dtype| shapes(run, dtype).unwrap_err().to_string();
    let expect = "No library has a valid figure of bf16, so there is nothing to hold rungs against.";
    assert_eq!(error(&without, Dtype::Bf16), expect);
    assert_eq!(error(&run, Dtype::F64), "The record has no problem of fp64.");
    let expect = "No library has a valid figure of fp32, so there is nothing to hold rungs against.";
    assert_eq!(error(&sample::full(), Dtype::F32), expect);
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
    near.parts.retain(|s| s.rung != "01_naive");
    let chart = transfers(&near, &problem).unwrap();
    check_layout(&chart);
    assert!(chart.svg.as_str().contains("time until the result is on the host, shorter is better"));
    near.parts.retain(|s| s.name != "compute");
    let chart = transfers(&near, &problem).unwrap();
    assert!(chart.svg.as_str().contains("Without a time for “compute”: Double-buffered and Stores overlapped."));
    let error = transfers(&run, &sample::cube(512, Dtype::Bf16)).unwrap_err().to_string();
    assert_eq!(error, "The record has no times of transfers at 512³ bf16.");
}

#[test]
fn an_experiment_that_nobody_knows_is_drawn_from_what_its_record_says() {
    let (run, problem) = (sample::softmax(), sample::rows(65_536));
    let chart = ladder(&run, &problem, run.descriptor.headline).unwrap();
    assert_eq!(chart.title, "Row softmax: effective bandwidth");
    for text in [
        ">measured ceiling: 4542 GB/s, DRAM<",
        ">97 % of DRAM&apos;s bound<",
        ">NVIDIA H200, 65536 rows of 1024, median of 30 ± MAD, warm L2<",
        "the bytes of moving inputs and results once, over the time",
    ] {
        assert!(chart.svg.as_str().contains(text), "{text}");
    }
    assert!(chart.description.contains("the fastest is Online maximum, 16-byte loads with 4"), "{}", chart.description);
    let chart = ladder(&run, &problem, Quantity::ItemRate).unwrap();
    assert_eq!(chart.title, "Row softmax: rows/s");
    assert!(chart.svg.as_str().contains("M rows/s, longer is better"));
    assert!(chart.svg.as_str().contains(">529 M rows/s<"), "65536 rows in 124 µs");

    let chart = sweep_of(&[&run], run.descriptor.headline, None, None).unwrap();
    assert_eq!(chart.title, "Row softmax: effective bandwidth over size");
    assert!(chart.description.contains("from 1024 to 262144 rows of 6 rungs"), "{}", chart.description);
    for text in [">rows; logarithmic scale<", ">4096<", "1024 columns", ">DRAM: 4542 GB/s<"] {
        assert!(chart.svg.as_str().contains(text), "{text}");
    }
    let time = sweep(&[&run]).unwrap();
    assert!(time.svg.as_str().contains(
        "Dotted: moving inputs and results once at the measured bandwidth of a level of memory, at the sizes that it holds (DRAM"
    ));

    let chart = roofline(&run, &problem).unwrap();
    assert_eq!(cell(&chart.table, "03_online", "FLOP/byte"), "0.6127");
    assert_eq!(
        (cell(&chart.table, "03_online", "level"), cell(&chart.table, "03_online", "bound by")),
        ("DRAM", "DRAM")
    );
    assert!(chart.svg.as_str().contains("Left out, as their bytes were not counted: PyTorch."));

    let mut later = run.clone();
    later.created = "2026-12-24T18:30:00Z".into();
    let chart = compare(&[&run, &later], 65_536).unwrap();
    assert_eq!(chart.title, "Row softmax: 2 records compared");
    let error = compare(&[&run, &later], 77).unwrap_err().to_string();
    assert!(error.ends_with("has no measurement of 77 rows."), "{error}");

    let table = ladder_table(&run, &problem);
    let expect = [
        "rung",
        "median",
        "MAD",
        "wall",
        "effective bandwidth",
        "rows/s",
        "speed-up",
        "% of bound",
        "bound by",
        "check",
        "samples",
        "remark",
    ];
    assert_eq!(table.headers, expect);
    let online = |header| cell(&table, "03_online", header);
    assert_eq!(
        [online("median"), online("effective bandwidth"), online("% of bound"), online("bound by"), online("samples")],
        ["124 µs", "4335 GB/s", "97 %", "DRAM", "30"]
    );
}

#[test]
fn the_ladders_table_has_the_columns_that_the_record_names() {
    let (run, problem) = (sample::full(), sample::problem(5_000_000));
    let table = LadderTable::of(&run, &problem);
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
    let table = LadderTable::of(&counted, &problem);
    assert_eq!(cell(&table.table(), "04_fused_graph", "peak memory"), "375 MiB");
    assert_eq!(cell(&table.file(), "04_fused_graph", "peak memory (MiB)"), "375.0");
    assert_eq!(cell(&table.table(), "02_fused", "peak memory"), "", "it was not counted");

    let products = sample::products();
    let table = LadderTable::of(&products, &sample::cube(4096, Dtype::Bf16));
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

    // Without columns that this version knows it has those that fit any experiment.
    let mut unknown = run.clone();
    unknown.descriptor.columns = vec![Column::Other];
    let headers = ladder_table(&unknown, &problem).headers;
    assert_eq!(headers, ["rung", "median", "MAD", "speed-up", "effective bandwidth", "% of bound", "check", "remark"]);
}

#[test]
fn every_chart_that_a_record_names_is_drawn_by_its_kind() {
    let of = |run: &Run, problem: &Problem| {
        let charts = run.descriptor.charts.iter().map(|kind| chart(run, problem, *kind).unwrap());
        charts.map(|c| c.title.split_once(": ").unwrap().1.to_owned()).collect::<Vec<_>>()
    };
    let run = sample::h200();
    let titles = ["time", "time over size", "roofline", "one epoch, operation by operation", "loss"];
    // Parts and losses are of another problem.
    for points in [5_000_000, 100_000] {
        assert_eq!(of(&run, &sample::problem(points)), titles);
    }
    let mut products = sample::products();
    products.descriptor.charts.extend([ChartKind::Tiles, ChartKind::Transfers]);
    let titles = [
        "FLOP/s",
        "shapes of fp16 against the library",
        "FLOP/s over size",
        "roofline",
        "time over tiles",
        "with the transfers from and to the host",
    ];
    assert_eq!(of(&products, &sample::cube(2048, Dtype::F16)), titles);
    // A thin product lies on no line of a sweep; the sweep is then that of the main problem.
    let thin = chart(&products, &sample::product((64, 4096, 11008), Dtype::F16), ChartKind::Sweep).unwrap();
    assert!(thin.svg.as_str().contains(">NVIDIA H200, bf16, median of 30, warm L2<"));
    let unknown = chart(&run, &sample::problem(100_000), ChartKind::Other).unwrap_err().to_string();
    assert_eq!(unknown, "This version does not know that kind of chart.");
    assert_eq!(quantity_name(&sample::softmax(), Quantity::ItemRate), "rows/s");
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
    let charts = [ladder(&run, &problem, Quantity::Time), sweep(&[&run]), compare(&[&run, &run], problem.size())];
    for chart in charts {
        let said = chart.unwrap().description;
        assert!(said.contains("fastest") && !said.contains("Sufficient statistics"), "{said}");
    }
}

#[test]
fn a_rung_without_a_bar_is_neither_the_fastest_nor_the_baseline() {
    let (mut run, problem) = (sample::troubled(), sample::problem(100_000));
    // Its figures are faster than all others, but its training diverged.
    let table = LadderTable::of(&run, &problem);
    check_table(&table);
    assert_eq!(table.rows.iter().find(|r| r.fastest).unwrap().rung, "cpu_all_threads");
    let chart = ladder(&run, &problem, Quantity::Time).unwrap();
    assert!(chart.description.contains("the fastest is CPU, all threads with"), "{}", chart.description);
    let diverged = cell(&table.table(), "04_fused_graph", "remark").to_owned();
    assert_eq!(diverged, "diverged at epoch 70");
    let wrong = |header| cell(&table.table(), "03_fused_streams", header).to_owned();
    assert_eq!([wrong("median"), wrong("check"), wrong("remark")], ["", "FAILED", "diverged at epoch 10"]);
    run.descriptor.baseline = Baseline::Rung("04_fused_graph".into());
    assert_eq!(LadderTable::of(&run, &problem).baseline.as_deref(), Some("CPU, one thread"));
}

#[test]
fn a_share_above_its_bound_is_explained_by_the_record() {
    let (mut run, problem) = (sample::products(), sample::cube(4096, Dtype::Bf16));
    let said =
        "Above 100 %: bytes are counted as blocks request them, and requests of neighbouring SMs for one line can";
    let charts = |run: &Run| [roofline(run, &problem).unwrap(), ladder(run, &problem, Quantity::Time).unwrap()];
    assert!(charts(&run).iter().all(|c| !c.svg.as_str().contains("Above 100 %")));
    for m in run.measurements.iter_mut().filter(|m| m.rung == "14_overlapped_store") {
        m.traffic.iter_mut().filter(|t| t.level == MemoryLevel::L2).for_each(|t| t.bytes *= 4);
    }
    for chart in charts(&run) {
        check_layout(&chart);
        assert!(chart.svg.as_str().contains(said), "{}", chart.title);
    }
    run.descriptor.above_bound.clear();
    assert!(charts(&run).iter().all(|c| !c.svg.as_str().contains("Above 100 %")));
}

#[test]
fn copies_that_all_rungs_share_stand_with_the_first_and_the_fastest_rung() {
    let (mut run, problem) = (sample::products(), sample::cube(4096, Dtype::Bf16));
    run.parts.retain(|p| p.group != PartGroup::Transfer);
    let copies = [("to the device", 1210.0), ("to the host", 640.0)];
    run.parts.extend(copies.map(|(name, us)| sample::part("", &problem, PartGroup::Transfer, name, us)));
    let chart = transfers(&run, &problem).unwrap();
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
    let ids = |run: &Run| transfers(run, &problem).unwrap().table.rows.iter().map(|r| r[0].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&run), ["02_coalesced", "14_overlapped_store"]);
    run.measurements.clear();
    let error = transfers(&run, &problem).unwrap_err().to_string();
    assert_eq!(error, "No rung of kernels has a valid time at 4096³ bf16 that the transfers could be added to.");
}

#[test]
fn losses_are_drawn_over_steps_where_all_have_steps() {
    let (mut run, problem) = (sample::h200(), sample::problem(5_000_000));
    for point in run.train_logs.iter_mut().flat_map(|l| &mut l.losses) {
        point.step = Some(point.epoch * 469);
        point.epoch = point.epoch.div_ceil(20);
    }
    let chart = loss_curve(&run, &problem).unwrap();
    check_svg(&chart);
    check_layout(&chart);
    assert!(chart.svg.as_str().contains(">step</text>") && chart.description.contains("at step 4690 to"));
    assert_eq!((chart.table.headers[0].as_str(), chart.table.rows[0][0].as_str()), ("step", "4690"));
    assert!(chart.svg.as_str().contains("learning rate 0.01"));
    assert!(chart.svg.as_str().contains("mean squared error on the training points; logarithmic scale"));
    // A diverged one says at which step.
    let mut diverged = run.clone();
    diverged.train_logs[0].losses[3].loss = f64::NAN;
    assert!(loss_curve(&diverged, &problem).unwrap().svg.as_str().contains("diverged at step 18760"));
    // One that has none: all over epochs, of which each has its last loss.
    let last = run.train_logs[0].losses[1].loss;
    run.train_logs[6].losses.iter_mut().for_each(|p| p.step = None);
    let chart = loss_curve(&run, &problem).unwrap();
    assert!(chart.svg.as_str().contains(">epoch</text>"));
    assert_eq!(
        (chart.table.rows[0][0].as_str(), chart.table.rows[0][1].parse::<f64>().unwrap()),
        ("1", { (last * 1e5).round() / 1e5 })
    );
}

#[test]
fn a_training_is_drawn_from_what_was_logged() {
    let (run, problem) = (sample::trained(), sample::training_problem());
    assert_eq!(run.main_problem(), Some(&problem), "nothing was measured");
    let charts: Vec<Chart> = run.descriptor.charts.iter().map(|k| chart(&run, &problem, *k).unwrap()).collect();
    for chart in &charts {
        check_svg(chart);
        check_layout(chart);
        assert!(chart.svg.as_str().contains("mnist, batch 512, synthetic digits"), "{}", chart.title);
    }
    let titles: Vec<&str> = charts.iter().map(|c| c.title.as_str()).collect();
    assert_eq!(
        titles,
        [
            "Training of mnist: loss",
            "Training of mnist: accuracy, 99.20 % after 5 epochs",
            "Training of mnist: learning rate, from 0.05 to 0.0125",
            "Training of mnist: loss scale, 3 of 590 steps skipped",
            "Training of mnist: gradient norm, at most 6.95",
        ]
    );
    let [losses, accuracies, rates, scales, norms] = charts.try_into().unwrap_or_else(|_| panic!("five"));
    // Every step's loss, and the test's after each epoch.
    assert_eq!(losses.table.headers, ["step", "Fused in a graph", "test loss"]);
    assert_eq!(losses.table.rows.len() as u64, sample::STEPS + 2);
    assert!(!row(&losses.table, "118")[2].is_empty() && row(&losses.table, "119")[2].is_empty());
    assert!(losses.svg.as_str().contains(">test samples<") && losses.svg.as_str().contains(">training batches<"));
    assert_eq!(row(&accuracies.table, "5")[..4], ["5", "590", "99.20", "97.00"]);
    assert_eq!(rates.table.rows, [["1", "0.05000000"], ["237", "0.02500000"], ["473", "0.01250000"]]);
    assert_eq!(row(&scales.table, "3"), ["3", "32768.00", "left as they were"]);
    assert_eq!(row(&scales.table, "2"), ["2", "", "left as they were"]);
    assert_eq!(row(&scales.table, "all")[2], "3 skipped");
    assert!(scales.svg.as_str().contains(">65536<") && scales.svg.as_str().contains(">skipped steps<"));
    assert_eq!(norms.table.rows.len() as u64, sample::STEPS - 3);
}

#[test]
fn what_was_not_logged_is_not_drawn() {
    let (mut run, problem) = (sample::trained(), sample::training_problem());
    let course = run.train_logs[0].course.as_mut().unwrap();
    (course.loss_scales, course.gradient_norms) = (Vec::new(), Vec::new());
    course.epochs.iter_mut().for_each(|p| (p.test, p.train) = (None, None));
    let error = |e: Result<Chart, ChartError>| e.unwrap_err().to_string();
    let of = "of mnist, batch 512, synthetic digits.";
    assert_eq!(error(accuracy(&run, &problem)), format!("The record has no accuracy {of}"));
    assert_eq!(error(loss_scale(&run, &problem)), format!("The record has no loss scale {of}"));
    assert_eq!(error(gradient_norm(&run, &problem)), format!("The record has no gradient norm {of}"));
    assert!(learning_rate(&run, &problem).is_ok());
    // The ladder's records have losses without a course.
    assert!(learning_rate(&sample::h200(), &sample::problem(5_000_000)).is_err());
    run.train_logs.clear();
    assert!(error(learning_rate(&run, &problem)).contains("of no training"));
}

#[test]
fn two_trainings_share_their_charts() {
    let (mut run, problem) = (sample::trained(), sample::training_problem());
    let mut other = run.train_logs[0].clone();
    other.rung = "02_fused".into();
    other.losses.iter_mut().for_each(|p| p.loss *= 1.5);
    let course = other.course.as_mut().unwrap();
    course.epochs.pop();
    (course.skipped_steps, course.skipped_total) = (Vec::new(), 0);
    run.train_logs.push(other);
    for kind in run.descriptor.charts.clone() {
        let chart = chart(&run, &problem, kind).unwrap();
        check_svg(&chart);
        check_layout(&chart);
        assert!(chart.svg.as_str().contains("Fused in a graph"), "{}", chart.title);
    }
    let chart = accuracy(&run, &problem).unwrap();
    assert_eq!(chart.title, "Training of mnist: accuracy");
    assert_eq!(cell(&chart.table, "5", "Fused: test accuracy %"), "", "it ended after four");
    // One that ended within an epoch has its last point there.
    let course = run.train_logs[0].course.as_mut().unwrap();
    course.epochs[4].step = 500;
    assert_eq!(row(&accuracy(&run, &problem).unwrap().table, "5")[1], "500");
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
    for p in &mut run.parts {
        p.name = format!("{text}{}", p.name);
        p.problem = worded(&p.problem, text);
    }
    let d = &mut run.descriptor;
    for words in [&mut d.axis.caption, &mut d.axis.unit, &mut d.pass, &mut d.item, &mut d.loss, &mut d.above_bound] {
        *words = text.into();
    }
    for m in &mut run.measurements {
        m.problem = worded(&m.problem, text);
        m.tile = m.tile.as_ref().map(|tile| format!("{text}{tile}"));
        match &mut m.outcome {
            Outcome::Skipped { why: words } | Outcome::Failed { error: words } => *words = text.into(),
            Outcome::Measured => {}
        }
    }
    for l in &mut run.train_logs {
        l.problem = worded(&l.problem, text);
        l.parameters = BTreeMap::from([(text.to_owned(), 1.0)]);
    }
    run
}

/// The same problem in such words.
fn worded(problem: &Problem, text: &str) -> Problem {
    problem.with(|p| {
        (p.label, p.short) = (format!("{text}{}", p.label), format!("{text}{}", p.short));
        p.sweep.iter_mut().for_each(|s| s.line = format!("{text}{}", s.line));
    })
}

#[test]
fn hostile_texts_are_harmless() {
    let long = "very long ".repeat(5_000);
    let unbroken = "W".repeat(100_000);
    let cjk = "回帰".repeat(2_000);
    for text in HOSTILE.into_iter().chain([long.as_str(), &unbroken, &cjk, "", " "]) {
        let mut trained = with_text(sample::trained(), text);
        let problem = worded(&sample::training_problem(), text);
        trained.train_logs[0].problem = problem.clone();
        trained.train_logs.push(TrainLog { rung: text.into(), ..trained.train_logs[0].clone() });
        of_trainings(&trained, &problem).into_iter().for_each(|chart| check_svg(&chart.unwrap()));
        let (run, problem) = (with_text(sample::h200(), text), worded(&sample::problem(5_000_000), text));
        for chart in all(&run, &problem) {
            check_svg(&chart.unwrap());
        }
        check_table(&LadderTable::of(&run, &problem));
        for chart in all(&with_text(sample::full(), text), &problem).into_iter().flatten() {
            check_svg(&chart);
        }
        let small = worded(&sample::problem(100_000), text);
        for chart in all(&with_text(sample::troubled(), text), &small).into_iter().flatten() {
            check_svg(&chart);
        }
        let (run, problem) = (with_text(sample::products(), text), worded(&sample::cube(4096, Dtype::Bf16), text));
        for chart in all(&run, &problem).into_iter().chain(of_products(&run, &problem)).flatten() {
            check_svg(&chart);
        }
        let (run, problem) = (with_text(sample::softmax(), text), worded(&sample::rows(65_536), text));
        for chart in QUANTITIES.iter().flat_map(|q| [ladder(&run, &problem, *q), sweep_of(&[&run], *q, None, None)]) {
            check_svg(&chart.unwrap());
        }
        check_table(&LadderTable::of(&run, &problem));
        check_svg(&diagram_of(text, (3, 40), 7).unwrap());
    }
    for text in [long.as_str(), &unbroken] {
        let (run, products) = (with_text(sample::h200(), text), with_text(sample::products(), text));
        let (problem, product) = (sample::problem(5_000_000), sample::cube(4096, Dtype::Bf16));
        let (problem, product) = (worded(&problem, text), worded(&product, text));
        let of_products = of_products(&products, &product);
        let softmax = with_text(sample::softmax(), text);
        let rows = worded(&sample::rows(65_536), text);
        let of_rows =
            [ladder(&softmax, &rows, Quantity::ItemRate), sweep_of(&[&softmax], Quantity::ItemRate, None, None)];
        let charts = all(&run, &problem).into_iter().chain(of_products).chain(of_rows);
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

/// As many cells as headers in every form; a row has figures or says why not; one at most is the fastest.
fn check_table(table: &LadderTable) {
    for form in [table.table(), table.file()] {
        assert!(form.rows.iter().all(|r| r.len() == form.headers.len()), "{form:?}");
        roxmltree::Document::parse(&form.html()).unwrap();
    }
    for row in &table.rows {
        assert_eq!(row.cells.len(), table.headers.len());
        assert!(row.cells.iter().all(|c| c.number.is_none_or(f64::is_finite)), "{row:?}");
        assert!(row.note.as_ref().is_none_or(|n| !n.is_empty() && !row.fastest), "{row:?}");
    }
    assert!(table.rows.iter().filter(|r| r.fastest).count() <= 1);
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

fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 2 => Just(u64::MAX), 2 => Just(5_000_000), 6 => 0..1_000_000_000u64]
}

fn any_problem() -> impl Strategy<Value = Problem> {
    let size = prop_oneof![3 => Just(64), 3 => Just(4096), 1 => Just(0), 1 => Just(u64::MAX), 2 => 0..10_000u64];
    let line = proptest::sample::select(vec!["fp32".to_owned(), "200 epochs".into(), String::new(), HOSTILE[0].into()]);
    let sweep = proptest::option::weighted(0.8, (size, line).prop_map(|(size, line)| SweepPoint { size, line }));
    let work = (amount(), amount(), amount(), amount(), proptest::option::of(amount()));
    let any = ((words(), words()), work, sweep, real(), dtype()).prop_map(
        |((label, short), (flops, bytes, working_set, passes, items), sweep, v, dtype)| {
            let size = sweep.as_ref().map_or(7, |s| s.size);
            let line = sweep.as_ref().map_or("none", |s| s.line.as_str());
            let sizes = vec![count("n", size, ""), setting("learning_rate", v), setting("line", line)];
            Problem::new(label, short, sizes, dtype).with(|p| {
                (p.flops, p.bytes, p.working_set_bytes) = (flops, bytes, working_set);
                (p.passes, p.items, p.sweep) = (passes, items, sweep.clone());
            })
        },
    );
    prop_oneof![
        8 => any,
        2 => Just(sample::problem(5_000_000)),
        2 => Just(sample::cube(64, Dtype::F32)),
        2 => Just(sample::rows(1024)),
    ]
}

fn any_descriptor() -> impl Strategy<Value = Descriptor> {
    let quantity = proptest::sample::select(QUANTITIES.to_vec());
    let baseline =
        prop_oneof![Just(Baseline::FirstValid), Just(Baseline::FastestLibrary), id().prop_map(Baseline::Rung),];
    let columns = proptest::collection::vec(proptest::sample::select(COLUMNS.to_vec()), 0..6);
    let levels = proptest::collection::vec(proptest::sample::select(LEVELS.to_vec()), 0..4);
    let axis =
        (words(), words(), any::<bool>()).prop_map(|(caption, unit, doubling)| SweepAxis { caption, unit, doubling });
    (quantity, baseline, columns, levels, axis, words()).prop_map(
        |(headline, baseline, columns, levels, axis, text)| {
            let (pass, item, loss, above_bound) = (text.clone(), text.clone(), text.clone(), text);
            Descriptor {
                headline,
                baseline,
                columns,
                levels,
                axis,
                pass,
                item,
                loss,
                above_bound,
                ..Descriptor::default()
            }
        },
    )
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![4 => proptest::sample::select(vec!["a".to_owned(), "b".into(), "c".into()]), 1 => words()]
}

fn reals() -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(real(), 0..5)
}

const COLUMNS: [Column; 16] = [
    Column::Median,
    Column::Mad,
    Column::Wall,
    Column::PassTime,
    Column::SpeedUp,
    Column::Throughput,
    Column::Bandwidth,
    Column::ItemRate,
    Column::OfLibrary,
    Column::OfBound,
    Column::BoundBy,
    Column::Check,
    Column::Tile,
    Column::Samples,
    Column::PeakMemory,
    Column::Other,
];

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
    let counts = [0; 2].map(|_| proptest::option::of(any::<u64>()));
    let parts = (id(), any_problem(), outcome, reals(), check, traffic, counts);
    parts.prop_map(|(rung, problem, outcome, samples, check, traffic, [flops, peak_bytes])| {
        let mut m = Measurement::without_samples(rung, problem, outcome);
        m.set_samples(samples, Vec::new());
        m.tile = Some("a".into());
        (m.traffic, m.flops, m.peak_bytes) = (traffic, flops, peak_bytes);
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
    let place = || prop_oneof![0..300u64, any::<u64>()];
    let point = (place(), proptest::option::of(place()), real());
    let point = point.prop_map(|(epoch, step, loss)| LossPoint { epoch, step, loss });
    let value = || (place(), real()).prop_map(|(step, value)| StepValue { step, value });
    let values = || proptest::collection::vec(value(), 0..5);
    let right = || proptest::option::of((amount(), amount()).prop_map(|(correct, of)| Right { correct, of }));
    let epoch = (place(), place(), real(), right()).prop_map(|(epoch, step, v, right)| EpochPoint {
        epoch,
        step,
        seconds: v,
        train_loss: v,
        test_loss: v,
        train: right,
        test: right,
    });
    let lists = ([values(), values(), values()], proptest::collection::vec(epoch, 0..4));
    let course = (lists, proptest::collection::vec(place(), 0..5), place(), place()).prop_map(
        |(([rates, scales, norms], epochs), skipped_steps, steps, steps_per_epoch)| {
            Box::new(Course {
                learning_rates: rates,
                loss_scales: scales,
                gradient_norms: norms,
                epochs,
                skipped_steps,
                steps,
                steps_per_epoch,
                ..sample::course()
            })
        },
    );
    let all = (id(), any_problem(), proptest::collection::vec(point, 0..6), real(), proptest::option::of(course));
    all.prop_map(|(rung, problem, losses, v, course)| TrainLog {
        rung,
        problem,
        losses,
        parameters: BTreeMap::from([("w".to_owned(), v)]),
        train_loss: v,
        test_loss: v,
        course,
    })
}

fn part() -> impl Strategy<Value = Part> {
    let groups = [PartGroup::Operation, PartGroup::Ablation, PartGroup::Tile, PartGroup::Transfer, PartGroup::Other];
    let name = prop_oneof![2 => words(), 1 => proptest::sample::select(vec!["a".to_owned(), "compute".into(), "to the host".into()])];
    let rung = prop_oneof![3 => id(), 1 => Just(String::new())];
    (rung, any_problem(), proptest::sample::select(groups.to_vec()), name, reals())
        .prop_map(|(rung, problem, group, name, samples_us)| Part { rung, problem, group, name, samples_us })
}

fn run() -> impl Strategy<Value = Run> {
    let many = |n| 0..n;
    let all = (
        proptest::collection::vec(measurement(), many(24)),
        proptest::collection::vec(train_log(), many(6)),
        proptest::collection::vec(part(), many(12)),
        proptest::collection::vec((id(), words(), 0..4), many(4)),
        (reals(), words(), any::<bool>(), proptest::option::of(any::<u64>()), reals()),
        any_descriptor(),
    );
    all.prop_map(|(measurements, train_logs, parts, rungs, (peaks, name, gpu, l2, flops), descriptor)| {
        let mut run = sample::empty(&name, if gpu { DeviceKind::Cuda } else { DeviceKind::Cpu });
        run.descriptor = descriptor;
        run.title.clone_from(&name);
        run.environment.device.l2_bytes = l2;
        run.rungs = rungs
            .into_iter()
            .map(|(id, title, of)| Rung {
                id: id.into(),
                title: title.into(),
                idea: "".into(),
                variant_of: None,
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
        (run.measurements, run.train_logs, run.parts) = (measurements, train_logs, parts);
        run
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_record_gives_well_formed_charts_or_an_error(a in run(), b in run()) {
        let mut problems: Vec<Problem> = a.problems().into_iter().cloned().collect();
        problems.extend(a.train_logs.iter().map(|l| l.problem.clone()).chain(a.parts.iter().map(|p| p.problem.clone())));
        problems.truncate(8);
        for p in &problems {
            let of_both = [
                sweep(&[&a, &b]),
                sweep_throughput(&[&a, &b], Some(p.dtype), Some(&["a", "b"])),
                compare(&[&a, &b], p.size()),
            ];
            check_table(&LadderTable::of(&a, p));
            check_table(&LadderTable::with(&a, p, &COLUMNS));
            let of_each = QUANTITIES.iter().flat_map(|q| [ladder(&a, p, *q), sweep_of(&[&a], *q, Some(p), None)]);
            for chart in all(&a, p).into_iter().chain(of_products(&a, p)).chain(of_trainings(&a, p)).chain(of_both).chain(of_each) {
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
