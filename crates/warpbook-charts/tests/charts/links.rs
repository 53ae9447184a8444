//! Tests of the charts of several GPUs and of the link between them.

use crate::common::check_title;
use crate::sample::{h200, peak};
use warpbook_charts::{Options, draw};
use warpbook_record::{ComputePeak, LinkCurve, LinkPoint, LinkTransfer, Measurement, MemoryLevel, Run, Span, Traffic};

/// Returns the H200's record with its first sound rung on two GPUs that send half a gigabyte over a link of 400 GB/s.
fn on_two() -> (Run, Measurement) {
    let mut run = h200();
    let problem = run.main_problem().unwrap().clone();
    run.peaks.bandwidth.push(peak(MemoryLevel::Link, 4e11));
    let point = |bytes, us| LinkPoint { bytes, samples_us: vec![us, us * 1.5, us] };
    for (transfer, us) in [(LinkTransfer::OneWay, 1.0), (LinkTransfer::BothWays, 1.1), (LinkTransfer::AllReduce, 2.0)] {
        let points = vec![point(1 << 16, 6.0 * us), point(1 << 20, 8.0 * us), point(1 << 28, 700.0 * us)];
        run.peaks.links.push(LinkCurve { transfer, gpus: 2, method: "copies".into(), points });
    }
    run.peaks.compute.push(ComputePeak {
        dtype: problem.dtype,
        method: "chains of multiply-adds".into(),
        flops: 60_000_000,
        samples_us: vec![1.0],
        datasheet_flops_per_s: None,
    });
    let sound: Vec<usize> = (0..run.measurements.len())
        .filter(|i| {
            let m = &run.measurements[*i];
            m.problem == problem && run.is_sound(m) && run.on_device(m) && !run.rung(&m.rung).unwrap().is_library()
        })
        .collect();
    let m = &mut run.measurements[sound[0]];
    m.gpus = Some(2);
    m.traffic = vec![Traffic { level: MemoryLevel::Link, bytes: 500_000_000 }];
    let m = m.clone();
    (run, m)
}

#[test]
fn the_link_is_a_roof_and_gpus_are_counted_one_by_one() {
    let (run, m) = on_two();
    let chart = draw().roofline(&run, &m.problem).unwrap();
    let roof = chart.table.rows.iter().find(|r| r[1] == "the link, measured").unwrap();
    assert!(roof[7].starts_with("400."), "{roof:?}");
    let row = chart.table.rows.iter().find(|r| r[0] == m.rung).unwrap();
    assert_eq!((row[2].as_str(), row[3].as_str()), ("the link", "500000000"));
    let number = |i: usize| row[i].parse::<f64>().unwrap();
    let operations = m.operations() as f64;
    let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 2e-3, "{a} {b}: {row:?}");
    close(number(5), operations / 2.0 / 5e8);
    close(number(6), operations / 2.0 / (m.median_us().unwrap() * 1e-6) / 1e9);
    // 500 MB take 1.25 ms at the link's bandwidth.
    close(number(8), run.bound(&m).unwrap().us / 1e3);
    let svg = chart.svg.to_string();
    assert!(svg.contains("works from the link") && svg.replace('\n', " ").contains("are per GPU"), "{svg}");
    assert!(!draw().roofline(&h200(), &m.problem).unwrap().svg.to_string().contains("per GPU"));
}

#[test]
fn bandwidth_is_drawn_over_size() {
    let (run, _) = on_two();
    let chart = draw().link_bandwidth(&run).unwrap();
    assert_eq!(chart.table.rows.len(), 3);
    assert!(
        chart.title.starts_with("Copy, one direction: up to 383 GB/s, half of that from 256 MiB on"),
        "{}",
        chart.title
    );
    check_title(&Options::phone().link_bandwidth(&run).unwrap());
    let svg = chart.svg.to_string();
    for label in ["copy, one direction", "copies, both directions", "all-reduce, bus bandwidth"] {
        assert!(svg.contains(label), "{label}: {svg}");
    }
    assert!(
        chart.description.contains("copy, one direction from 10.92 at 64 to 383.5 at 262144"),
        "{}",
        chart.description
    );
    let none = draw().link_bandwidth(&h200()).unwrap_err().to_string();
    assert!(none.contains("No link between GPUs was measured"), "{none}");
}

#[test]
fn lanes_of_gpus_have_their_names() {
    let (mut run, m) = on_two();
    let span = |stream: &str, operation: &str, start_us: f64| Span {
        rung: m.rung.clone(),
        problem: m.problem.clone(),
        name: operation.into(),
        operation: operation.into(),
        stream: stream.into(),
        start_us,
        duration_us: 50.0,
        bytes: None,
        correlation: None,
    };
    run.spans = vec![
        span("cuda:1 multiplication", "panel1 multiplication", 0.0),
        span("cuda:1 multiplication", "panel2 multiplication", 50.0),
        span("cuda:1 communication", "panel1 communication", 50.0),
        span("cuda:1 communication", "panel2 communication", 100.0),
        span("0", "panel1 sum", 100.0),
    ];
    let chart = draw().timelines(&run, &m.problem, &[m.rung.as_str()]).unwrap();
    let svg = chart.svg.to_string();
    assert!(svg.contains("cuda:1 multiplication") && svg.contains("cuda:1 communication"), "{svg}");
    assert!(svg.contains("stream 0") && !svg.contains("stream cuda:1"), "{svg}");
}
