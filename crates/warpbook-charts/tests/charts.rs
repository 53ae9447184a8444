//! Every chart of records as they come, and of records that nobody would want.

mod sample;

use proptest::prelude::*;
use std::collections::BTreeMap;
use warpbook_charts::*;
use warpbook_record::{
    Check, ComputePeak, DeviceKind, Dtype, L2State, LossPoint, Measurement, MemoryLevel, Outcome, Problem, Requires,
    Run, Rung, Runner, Schedule, Span, SpanGroup, TimedBy, Traffic, TrainLog,
};

/// All charts of a record at a problem, those over several records with it alone and twice.
fn all(run: &Run, problem: &Problem) -> Vec<Result<Chart, ChartError>> {
    vec![
        ladder(run, problem, Quantity::Time),
        ladder(run, problem, Quantity::SpeedUp),
        ladder(run, problem, Quantity::Bandwidth),
        sweep(&[run]),
        sweep(&[run, run]),
        sweep_bandwidth(&[run]),
        loss_curve(run, problem),
        operations(run, problem),
        ablation(run, problem),
        roofline(run, problem),
        compare(&[run, run], problem.size()),
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
                // A turned text is in the middle of its place: so many small pieces along it.
                let degrees: f64 = turn.trim_start_matches("rotate(").split(' ').next().unwrap().parse().unwrap();
                let (sin, cos) = degrees.to_radians().sin_cos();
                let pieces = (width / 6.0).ceil() as i32;
                return (0..=pieces)
                    .map(|i| f64::from(i) / f64::from(pieces.max(1)) - 0.5)
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
    for quantity in [Quantity::Time, Quantity::SpeedUp, Quantity::Bandwidth] {
        let chart = ladder(&cpu, &small, quantity).unwrap();
        check_svg(&chart);
        check_layout(&chart);
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
    for chart in all(&run, &problem).into_iter().chain([sweep(&[]), compare(&[], 1), compare(&[&run], 1)]) {
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
    }
    for text in [long.as_str(), &unbroken] {
        let run = with_text(sample::h200(), text);
        for chart in all(&run, &sample::problem(5_000_000)) {
            let (w, _) = chart.as_ref().unwrap().svg.size();
            let texts = texts(&chart.unwrap());
            assert!(texts.iter().all(|t| t.0 >= -1.0 && t.1 <= f64::from(w) + 1.0), "{texts:?}");
        }
    }
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
    prop_oneof![6 => regression, 2 => Just(sample::problem(5_000_000)), 1 => Just(Problem::Unknown)]
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
    let group = prop_oneof![Just(SpanGroup::Operation), Just(SpanGroup::Ablation), Just(SpanGroup::Other)];
    (id(), any_problem(), group, words(), reals()).prop_map(|(rung, problem, group, name, samples_us)| Span {
        rung,
        problem,
        group,
        name,
        samples_us,
    })
}

fn run() -> impl Strategy<Value = Run> {
    let many = |n| 0..n;
    let parts = (
        proptest::collection::vec(measurement(), many(24)),
        proptest::collection::vec(train_log(), many(6)),
        proptest::collection::vec(span(), many(12)),
        proptest::collection::vec((id(), words(), 0..3), many(4)),
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
                    _ => Runner::Kernels { specs: Vec::new(), schedule: Schedule::Graph },
                },
            })
            .collect();
        for level in LEVELS {
            let mut peak = sample::peak(level, 1e12);
            peak.samples_us.clone_from(&peaks);
            run.peaks.bandwidth.push(peak);
        }
        run.peaks.compute.push(ComputePeak {
            dtype: Dtype::F32,
            method: name.clone(),
            flops: 1 << 40,
            samples_us: flops,
            datasheet_flops_per_s: peaks.first().copied(),
        });
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
            for chart in all(&a, p).into_iter().chain([sweep(&[&a, &b]), compare(&[&a, &b], p.size())]) {
                match chart {
                    Ok(chart) => check_svg(&chart),
                    Err(e) => prop_assert!(e.to_string().ends_with('.'), "{e}"),
                }
            }
        }
    }
}
