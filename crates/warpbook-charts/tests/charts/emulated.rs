//! Tests of rows that only the emulator has run: every chart lists them, but none draws a bar for them.

use crate::common::{QUANTITIES, check_layout, check_svg, check_table};
use crate::{comparisons, sample};
use warpbook_charts::*;
use warpbook_record::{
    ChartKind, Check, DeviceKind, Dtype, Emulated, LineCounts, LinkCurve, LinkPoint, LinkTransfer, Measurement,
    PowerAt, Problem, Profiled, Run, Rung, SweepPoint, count,
};

/// Returns records that together have every kind of chart.
fn records() -> Vec<(Run, Problem)> {
    let main = |run: Run| (run.clone(), run.main_problem().unwrap().clone());
    vec![
        (sample::full(), sample::problem(5_000_000)),
        (sample::products(), sample::cube(4096, Dtype::Bf16)),
        main(sample::softmax()),
        main(sample::precisions()),
        main(sample::trained()),
        (sample::recorded(), sample::problem(5_000_000)),
        main(sample::xrayed()),
    ]
}

fn emulated(rung: &str, problem: &Problem) -> Measurement {
    let check = Check::compare("f64 on the CPU", &[(2.999, 3.0)], 1.0, 1e-3);
    let line = LineCounts { file: "live/mine.cu".into(), line: 7, requests: 2, sectors: 64, ..LineCounts::default() };
    let found = Emulated { orders: vec!["forwards".into()], lines: vec![line], ..Emulated::default() };
    Measurement::emulated(rung, problem.clone(), check, found)
}

/// Returns the record with one more rung, which only the emulator has run, for all problems.
fn with_emulated(run: &Run) -> Run {
    let mut run = run.clone();
    let mut rung = run.rungs.iter().find(|r| !r.kernels().is_empty()).unwrap_or(&run.rungs[0]).clone();
    (rung.id, rung.title) = ("emulated+mine".into(), "mine".into());
    let problems: Vec<Problem> = run.problems().into_iter().cloned().collect();
    run.measurements.extend(problems.iter().map(|p| emulated(&rung.id, p)));
    run.rungs.push(rung);
    run
}

/// Returns the values of the marks of a rung.
fn values(chart: &Chart, rung: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(chart.svg.as_str()).unwrap();
    let of_rung = |n: &roxmltree::Node<'_, '_>| n.ancestors().any(|a| a.attribute("data-rung") == Some(rung));
    let marks = document.descendants().filter(|n| n.has_attribute("data-value") && of_rung(n));
    marks.filter_map(|n| n.attribute("data-value").map(str::to_owned)).collect()
}

#[test]
fn an_emulated_row_is_in_no_chart_of_times() {
    let mut drawn = Vec::new();
    for (plain, problem) in records() {
        let run = with_emulated(&plain);
        for kind in ChartKind::ALL {
            let (before, after) = (draw().chart(&plain, &problem, kind), draw().chart(&run, &problem, kind));
            assert_eq!(before.is_ok(), after.is_ok(), "{kind:?} of {}: {after:?}", run.title);
            let Ok(chart) = after else { continue };
            let has_line = |chart: &Chart| chart.svg.as_str().contains("emulated: no time");
            // A sweep lists the row in a remark and in its table, at each size of its line.
            if kind == ChartKind::Sweep {
                assert!(has_line(&chart), "{kind:?} of {}", run.title);
                let rows = || chart.table.rows.iter().filter(|row| row[0] == "emulated+mine");
                assert!(rows().count() > 1 && rows().all(|row| row[2] == "emulated: no time"), "{}", run.title);
                assert!(rows().all(|row| row[3..].iter().all(String::is_empty)), "{:?}", chart.table);
            }
            // A ladder lists it in its row, or in a remark.
            if kind == ChartKind::Ladder {
                assert!(has_line(&chart), "{kind:?} of {}", run.title);
            }
            // These two kinds show one run in detail and have no rows.
            if !matches!(kind, ChartKind::Timeline | ChartKind::Xray) {
                check_svg(&chart);
                check_layout(&chart);
            }
            assert_eq!(values(&chart, "emulated+mine"), [""; 0], "{kind:?} of {}", run.title);
            drawn.push(kind);
        }
        for quantity in QUANTITIES {
            if let Ok(chart) = draw().ladder(&run, &problem, quantity) {
                check_svg(&chart);
                assert_eq!(values(&chart, "emulated+mine"), [""; 0], "{quantity:?} of {}", run.title);
            }
        }
        check_table(&LadderTable::for_problem(&run, &problem));
    }
    // A kind is missing if no sample has such a chart.
    let missing: Vec<ChartKind> = ChartKind::ALL.into_iter().filter(|kind| !drawn.contains(kind)).collect();
    assert_eq!(missing, [ChartKind::Other]);
}

#[test]
fn a_ladder_lists_an_emulated_row() {
    let (run, problem) = (with_emulated(&sample::products()), sample::cube(4096, Dtype::Bf16));
    let bars = |run: &Run| draw().ladder(run, &problem, Quantity::Time).unwrap().svg.as_str().matches("<rect").count();
    let chart = draw().ladder(&run, &problem, Quantity::Time).unwrap();
    assert!(chart.svg.as_str().contains("skipped: emulated: no time"), "{}", chart.svg.as_str());
    assert_eq!(bars(&run), bars(&sample::products()));
    let mut alone = run.clone();
    alone.measurements.retain(|m| m.emulated.is_some());
    let chart = draw().ladder(&alone, &problem, Quantity::Time).unwrap();
    assert!(chart.description.contains("none has a valid figure"), "{}", chart.description);
    assert_ne!(run.fastest(&problem).map(|m| &*m.rung), Some("emulated+mine"));
}

#[test]
fn a_sweep_names_an_emulated_rung_once_and_only_for_its_own_work() {
    let run = with_emulated(&sample::full());
    let notes = |runs: &[&Run], quantity, rungs| {
        let chart = draw().sweep_of(runs, quantity, None, rungs).unwrap();
        check_svg(&chart);
        check_layout(&chart);
        chart.svg.as_str().to_owned()
    };
    for quantity in [Quantity::Time, Quantity::Bandwidth, Quantity::SpeedUp] {
        let shown = notes(&[&run], quantity, None);
        assert_eq!(shown.matches("Without a line: mine (emulated: no time).").count(), 1, "{quantity:?}");
    }
    let chosen = notes(&[&run], Quantity::Time, Some(&["02_fused", "emulated+mine"]));
    assert!(chosen.contains("emulated: no time") && !chosen.contains("Without a valid figure"), "{chosen}");
    assert!(!notes(&[&run], Quantity::Time, Some(&["02_fused"])).contains("emulated: no time"));
    // Next to a record with times, a record with emulated rows alone is listed too.
    let mut alone = run.clone();
    alone.measurements.retain(|m| m.emulated.is_some());
    assert!(notes(&[&sample::full(), &alone], Quantity::Time, None).contains("mine (emulated: no time)"));
    // A rung that has a line is not listed, and neither is other work.
    let mut timed = run.clone();
    timed.measurements.iter_mut().filter(|m| m.emulated.is_some()).for_each(|m| m.rung = "02_fused".into());
    assert!(!notes(&[&timed], Quantity::Time, None).contains("emulated: no time"));
    let mut other = run.clone();
    for m in other.measurements.iter_mut().filter(|m| m.emulated.is_some()) {
        m.problem = sample::cube(64, Dtype::F32);
    }
    assert!(!notes(&[&other], Quantity::Time, None).contains("emulated: no time"));
}

#[test]
fn comparisons_and_boards_list_an_emulated_row() {
    let (one, two) = (sample::products(), with_emulated(&sample::products()));
    let compared = Comparison::from_runs(&[&two, &two]).unwrap().at(&sample::cube(4096, Dtype::Bf16));
    comparisons::check(&compared);
    let row = compared.rows.iter().find(|r| r.rung == "emulated+mine").expect("the row is listed");
    assert!(row.cells.iter().all(|c| c.us.is_none() && c.verdict.is_none()), "{row:?}");
    let cube = sample::cube(4096, Dtype::Bf16);
    comparisons::check(&Comparison::from_runs(&[&one, &two]).unwrap().at(&cube));
    let mut alone = two.clone();
    alone.author = Some("Ada".into());
    alone.measurements.retain(|m| m.emulated.is_some());
    let mut timed = one.clone();
    timed.author = Some("Bob".into());
    let board = Board::from_records(&[("a", &alone), ("b", &timed)]);
    let task = board.tasks.iter().find(|t| *t.problem == sample::cube(4096, Dtype::Bf16)).unwrap();
    let ada = task.unchecked().find(|e| e.person == "Ada").expect("she is listed");
    assert!(ada.best.is_none() && ada.missing.join(" ").contains("emulated: no time"), "{ada:?}");
    assert!(task.ranked().all(|(e, ..)| e.person == "Bob"));
    check_svg(&draw().ranking(task).unwrap());
}

/// Returns the elements of a chart that are not texts, each with its attributes.
fn shapes(chart: &Chart) -> Vec<String> {
    const SHAPES: [&str; 6] = ["rect", "line", "polyline", "polygon", "circle", "path"];
    let document = roxmltree::Document::parse(chart.svg.as_str()).unwrap();
    let drawn = document.descendants().filter(|n| SHAPES.contains(&n.tag_name().name()));
    drawn.map(|n| n.attributes().map(|a| format!("{}={} ", a.name(), a.value())).collect()).collect()
}

/// Returns the recorded sample with readings of clock and power, and with the bandwidth of a link.
fn profiled() -> Run {
    let mut run = sample::recorded();
    let reading = |i: u32| PowerAt {
        at_us: f64::from(i) * 5e4,
        sm_mhz: Some(1400 + i),
        watts: Some(600.0),
        limit_watts: Some(700.0),
        capped: false,
        flops: 0,
    };
    run.profiled = vec![Profiled {
        rung: "02_fused".into(),
        problem: sample::problem(5_000_000),
        source: "NVML".into(),
        memory: Vec::new(),
        power: (0..9).map(reading).collect(),
        overhead: None,
        counters: Vec::new(),
    }];
    let points = [1 << 16, 1 << 20].map(|bytes| LinkPoint { bytes, samples_us: vec![8.0] }).into();
    run.peaks.links = vec![LinkCurve { transfer: LinkTransfer::OneWay, gpus: 2, method: "copies".into(), points }];
    run
}

/// Returns a record of one rung on one, two and four devices.
fn scaled() -> Run {
    let mut run = sample::empty("scaling", DeviceKind::Cpu);
    run.rungs = vec![Rung::cpu("a", "Ranks", "", "")];
    run.measurements = [(1, 100.0), (2, 110.0), (4, 125.0)]
        .map(|(ranks, us)| {
            let problem = Problem::new("p", "p", vec![count("ranks", ranks, "")], Dtype::F32).with(|p| {
                p.items = Some(64 * ranks);
                p.sweep = Some(SweepPoint { size: ranks, line: "weak".into() });
            });
            sample::measured("a", &problem, us, 0.01)
        })
        .into();
    run
}

#[test]
fn charts_without_a_kind_of_their_own_stay_as_they_are() {
    let check = |plain: &Run, chart: &dyn Fn(&Run) -> Result<Chart, ChartError>| {
        let (before, after) = (chart(plain).unwrap(), chart(&with_emulated(plain)).unwrap());
        check_svg(&after);
        assert!(!shapes(&before).is_empty(), "{}", before.title);
        assert_eq!(shapes(&after), shapes(&before), "{}", before.title);
    };
    let (run, problem) = (profiled(), sample::problem(5_000_000));
    check(&run, &|run| draw().kernel_roofline(run, &problem, None));
    check(&run, &|run| draw().timelines(run, &problem, &["01_unfused", "emulated+mine"]));
    check(&run, &|run| draw().clocks(run, &problem));
    check(&run, &|run| draw().power(run, &problem));
    check(&run, &|run| draw().link_bandwidth(run));
    check(&scaled(), &|run| draw().scaling_throughput(run, "weak"));
    check(&scaled(), &|run| draw().scaling_efficiency(run, "weak"));
    let size = sample::cube(4096, Dtype::Bf16).size();
    check(&sample::products(), &|run| draw().compare(&[run, run], size));
}
