//! Tests of charts of ordinary records, and of experiments that this crate does not know.

use crate::common::{QUANTITIES, all, cell, check_layout, check_svg, of_products};
use crate::sample;
use warpbook_charts::*;
use warpbook_record::{ChartKind, DeviceKind, Dtype, Inputs, L2State, Problem, Run, TimedBy};

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
        for chart in [draw().ladder(&full, problem, Quantity::Bandwidth), draw().roofline(&full, problem)] {
            check_layout(&chart.unwrap());
        }
    }
    let charts = all(&full, &problem).into_iter().chain([
        draw().ladder(&full, &several, Quantity::Time),
        draw().ladder(&full, &several, Quantity::SpeedUp),
        draw().ladder(&full, &several, Quantity::Bandwidth),
        draw().ladder(&full, &several, Quantity::Throughput),
        draw().roofline(&full, &several),
    ]);
    for chart in charts {
        match chart {
            Ok(chart) => {
                check_svg(&chart);
                check_layout(&chart);
            }
            // The sample has no passes with a part left out.
            Err(e) => assert!(e.to_string().contains("parts left out"), "{e}"),
        }
    }
    let (cpu, small) = (sample::troubled(), sample::problem(100_000));
    for quantity in [Quantity::Time, Quantity::SpeedUp, Quantity::Bandwidth, Quantity::Throughput] {
        let chart = draw().ladder(&cpu, &small, quantity).unwrap();
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
        let charts = QUANTITIES.iter().map(|q| draw().ladder(&softmax, problem, *q));
        for chart in
            charts.chain([draw().roofline(&softmax, problem), draw().compare(&[&softmax, &softmax], problem.size())])
        {
            let chart = chart.unwrap();
            check_svg(&chart);
            check_layout(&chart);
            assert!(chart.description.ends_with('.'), "{}", chart.description);
        }
    }
    for quantity in QUANTITIES {
        for runs in [&[&softmax][..], &[&softmax, &softmax]] {
            let chart = draw().sweep_of(runs, quantity, None, None).unwrap();
            check_svg(&chart);
            check_layout(&chart);
        }
    }
    let both = [&gpu, &sample::t4()];
    for chart in [
        draw().sweep(&both),
        draw().sweep_bandwidth(&both),
        draw().compare(&both, 5_000_000),
        draw().loss_curve(&cpu, &small),
    ] {
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
fn nothing_to_draw_is_said_in_a_sentence() {
    let (run, problem) = (sample::empty("NVIDIA H200", DeviceKind::Cuda), sample::problem(5_000_000));
    let none = [
        draw().sweep(&[]),
        draw().sweep_throughput(&[], None, None),
        draw().compare(&[], 1),
        draw().compare(&[&run], 1),
    ];
    for chart in all(&run, &problem).into_iter().chain(of_products(&run, &problem)).chain(none) {
        match chart {
            Err(ChartError::NothingToDraw(why)) => assert!(why.ends_with('.') && why.contains(' '), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    let mut one_size = sample::h200();
    one_size.measurements.retain(|m| m.problem == problem);
    let error = draw().sweep(&[&one_size]).unwrap_err().to_string();
    assert_eq!(error, "A sweep needs at least two sizes; there is only 5 M points.");
}

#[test]
fn records_of_different_work_are_refused_in_one_sweep() {
    let check = |change: &dyn Fn(&mut Run), expect: &str| {
        let (a, mut b) = (sample::h200(), sample::h200());
        change(&mut b);
        for chart in [draw().sweep(&[&a, &b]), draw().sweep_bandwidth(&[&a, &b])] {
            match chart {
                Err(ChartError::NotComparable(why)) => assert!(why.contains(expect) && why.ends_with('.'), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    };
    check(&|r| r.experiment = "matmul".into(), "different experiments");
    check(&|r| r.descriptor.axis.unit = "rows".into(), "sizes count different things");
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

#[test]
fn what_differs_in_timing_is_said_below_a_sweep() {
    let check = |change: &dyn Fn(&mut Run), expect: &str| {
        let (a, mut b) = (sample::h200(), sample::h200());
        change(&mut b);
        for chart in [draw().sweep(&[&a, &b]), draw().sweep_bandwidth(&[&a, &b])] {
            let svg = chart.unwrap().svg;
            assert!(svg.as_str().contains(expect), "{expect}: {}", svg.as_str());
        }
    };
    check(&|r| r.policy.timed_by = TimedBy::WallClock, "one by CUDA events, the other by the host&apos;s clock");
    check(&|r| r.policy.l2 = L2State::Cold, "one from a warm L2, the other from a cold L2");
    check(&|r| r.policy.inputs = Inputs::of_all("zeros"), "the other with \u{201c}zeros\u{201d}");
}

#[test]
fn an_experiment_that_nobody_knows_is_drawn_from_what_its_record_says() {
    let (run, problem) = (sample::softmax(), sample::rows(65_536));
    let chart = draw().ladder(&run, &problem, run.descriptor.headline).unwrap();
    assert_eq!(chart.title, "“Online maximum, 16-byte loads” is 1.23× as fast as PyTorch's best");
    for text in [
        ">measured ceiling: 4542 GB/s, DRAM<",
        ">97 % of the DRAM limit<",
        ">Row softmax: effective bandwidth, NVIDIA H200, 65536 rows of 1024, median of 30 ± MAD, warm L2<",
        "the bytes of moving inputs and results once, over the time",
    ] {
        assert!(chart.svg.as_str().contains(text), "{text}");
    }
    assert!(
        chart.description.contains("the fastest is “Online maximum, 16-byte loads” with 4"),
        "{}",
        chart.description
    );
    let chart = draw().ladder(&run, &problem, Quantity::ItemRate).unwrap();
    assert!(chart.svg.as_str().contains(">Row softmax: rows/s, NVIDIA H200,"));
    assert!(chart.svg.as_str().contains("M rows/s, longer is better"));
    assert!(chart.svg.as_str().contains(">529 M rows/s<"), "65536 rows in 124 µs");

    let chart = draw().sweep_of(&[&run], run.descriptor.headline, None, None).unwrap();
    assert_eq!(chart.title, "“Online maximum, 16-byte loads” is the fastest at all 5 sizes");
    assert!(chart.description.contains("from 1024 to 262144 rows of 6 rungs"), "{}", chart.description);
    for text in [">rows; logarithmic scale<", ">4096<", "1024 columns", ">DRAM: 4542 GB/s<"] {
        assert!(chart.svg.as_str().contains(text), "{text}");
    }
    let time = draw().sweep(&[&run]).unwrap();
    assert!(time.svg.as_str().contains(
        "Dotted: moving inputs and results once at the measured bandwidth of a level of memory, at the sizes"
    ));

    let chart = draw().roofline(&run, &problem).unwrap();
    assert_eq!(cell(&chart.table, "03_online", "FLOP/byte"), "0.6127");
    assert_eq!(
        (cell(&chart.table, "03_online", "level"), cell(&chart.table, "03_online", "bound by")),
        ("DRAM", "DRAM")
    );
    assert!(chart.svg.as_str().contains("Left out, as their bytes were not counted: PyTorch."));

    let mut later = run.clone();
    later.created = "2026-12-24T18:30:00Z".into();
    let chart = draw().compare(&[&run, &later], 65_536).unwrap();
    assert!(chart.title.starts_with("2026-12-24 against 2026-11-21: "), "{}", chart.title);
    assert!(chart.title.ends_with(" within noise"), "{}", chart.title);
    assert!(chart.svg.as_str().contains(">Row softmax: 2 records compared, NVIDIA H200, "), "{}", chart.svg.as_str());
    let three = draw().compare(&[&run, &later, &run], 65_536).unwrap();
    assert_eq!(three.title, "No record is ahead of all others by more than noise at any rung");
    // A record of the next day that is faster by a factor, whose samples alternate by a share of their time.
    let faster = |factor: f64, noise: f64| {
        let mut faster = run.clone();
        faster.created = "2026-12-25T18:30:00Z".into();
        for measurement in &mut faster.measurements {
            for (i, sample) in measurement.samples_us.iter_mut().enumerate() {
                *sample /= factor * if i % 2 == 0 { 1.0 + noise } else { 1.0 - noise };
            }
        }
        draw().compare(&[&run, &later, &faster], 65_536).unwrap().title
    };
    assert!(faster(2.0, 0.0).starts_with("2026-12-25 is the fastest at "), "{}", faster(2.0, 0.0));
    assert_eq!(faster(1.1, 0.5), three.title);
    let error = draw().compare(&[&run, &later], 77).unwrap_err().to_string();
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
fn every_chart_that_a_record_names_is_drawn_by_its_kind() {
    let drawings = |run: &Run, problem: &Problem| {
        let charts = run.descriptor.charts.iter().map(|kind| draw().chart(run, problem, *kind).unwrap());
        // The drawing follows the description, and only the drawing is compared: the description contains the title or the
        // subtitle.
        charts.map(|c| c.svg.as_str().split("</desc>").nth(1).unwrap().to_owned()).collect::<Vec<_>>()
    };
    let named = |drawn: Vec<String>, titles: &[&str]| {
        assert_eq!(drawn.len(), titles.len());
        for (chart, title) in drawn.iter().zip(titles) {
            assert!(chart.contains(&format!(": {title}")), "{title} in {chart}");
        }
    };
    let run = sample::h200();
    let titles = ["time", "time over size", "roofline", "one epoch, operation by operation", "loss"];
    // The record's parts and losses belong to another problem.
    for points in [5_000_000, 100_000] {
        named(drawings(&run, &sample::problem(points)), &titles);
    }
    let mut products = sample::products();
    products.descriptor.charts.extend([ChartKind::Tiles, ChartKind::Transfers]);
    let titles = [
        "FLOP/s",
        "shapes",
        "FLOP/s over size",
        "roofline",
        "time over tiles",
        "with the transfers from and to the host",
    ];
    named(drawings(&products, &sample::cube(2048, Dtype::F16)), &titles);
    // A thin product is on no line of a sweep, so the chart is the sweep of the main problem.
    let thin = draw().chart(&products, &sample::product((64, 4096, 11008), Dtype::F16), ChartKind::Sweep).unwrap();
    assert!(thin.svg.as_str().contains("NVIDIA H200, bf16, median of 30, warm L2<"));
    let unknown = draw().chart(&run, &sample::problem(100_000), ChartKind::Other).unwrap_err().to_string();
    assert_eq!(unknown, "This version does not know this kind of chart.");
    assert_eq!(quantity_name(&sample::softmax(), Quantity::ItemRate), "rows/s");
}
