//! Tests of the charts of scaling to several devices.

use crate::common::check_title;
use crate::sample::empty;
use warpbook_charts::{Options, draw};
use warpbook_record::{Check, DeviceKind, Dtype, Measurement, Outcome, Problem, Run, Rung, Span, SweepPoint, count};

fn problem(ranks: u64) -> Problem {
    let problem = Problem::new("p", "p", vec![count("ranks", ranks, "")], Dtype::F32);
    problem.with(|p| {
        p.items = Some(64 * ranks);
        p.sweep = Some(SweepPoint { size: ranks, line: "weak".into() });
    })
}

fn run() -> Run {
    let mut run = empty("scaling", DeviceKind::Cpu);
    run.descriptor.axis.caption = "ranks".into();
    run.rungs = vec![Rung::cpu("a", "Ranks", "", ""), Rung::cpu("b", "One process", "", "")];
    (run.measurements, run.problems) = (Vec::new(), vec![problem(1), problem(2), problem(4)]);
    let times = [("a", 1, 100.0), ("a", 2, 110.0), ("a", 4, 125.0), ("b", 1, 100.0), ("b", 2, 200.0)];
    for (rung, ranks, us) in times {
        let mut m = Measurement::without_samples(rung, problem(ranks), Outcome::Measured);
        m.set_samples(vec![us; 3], Vec::new());
        m.check = Some(Check::compare("itself", &[(1.0, 1.0)], 1.0, 0.0));
        run.measurements.push(m);
    }
    run
}

#[test]
fn efficiency_is_of_as_many_devices_as_fast_as_one() {
    let chart = draw().scaling_efficiency(&run(), "weak").unwrap();
    assert_eq!(chart.table.headers, ["ranks", "Ranks", "One process"]);
    assert_eq!(chart.title, "“Ranks” reaches 80 % of linear scaling on 4 ranks");
    check_title(&Options::phone().scaling_efficiency(&run(), "weak").unwrap());
    assert_eq!(chart.table.rows, [["1", "100.0", "100.0"], ["2", "90.91", "50.00"], ["4", "80.00", ""]]);
    assert!(draw().scaling_efficiency(&run(), "strong").is_err());
    let mut without_one = run();
    without_one.measurements.retain(|m| m.problem.size() > 1);
    assert!(draw().scaling_efficiency(&without_one, "weak").is_err(), "nothing to compare with");
}

#[test]
fn throughput_has_the_line_of_as_many_devices() {
    let chart = draw().scaling_throughput(&run(), "weak").unwrap();
    let rate = 64.0 / 100e-6 / 1e6;
    assert_eq!(chart.table.headers.last().unwrap(), "perfect scaling");
    assert_eq!(chart.title, "“Ranks” on 4 ranks is 3.20× as fast as on one");
    check_title(&Options::phone().scaling_throughput(&run(), "weak").unwrap());
    // The line of perfect scaling has a point at every number of devices, since it is not straight on a logarithmic
    // axis.
    let perfect: Vec<Option<f64>> = chart.table.rows.iter().map(|row| row.last().unwrap().parse().ok()).collect();
    assert_eq!(perfect, [1.0, 2.0, 4.0].map(|n| Some(n * rate)));
    assert!(chart.description.contains("million items a second over ranks"), "{}", chart.description);
}

#[test]
fn lanes_of_a_timeline_are_those_of_all_ranks() {
    let mut run = run();
    for rank in 0..2 {
        for (lane, name, start_us) in [("compute", "backward", 0.0), ("communication", "bucket 1 all-reduce", 5.0)] {
            run.spans.push(Span {
                rung: "a".into(),
                problem: problem(2),
                name: name.into(),
                operation: format!("rank-{rank} {name}"),
                stream: format!("rank {rank} {lane}"),
                start_us,
                duration_us: 10.0,
                bytes: None,
                correlation: None,
            });
        }
    }
    let svg = draw().timelines(&run, &problem(2), &["a"]).unwrap().svg.to_string();
    assert!(svg.contains("4 operations in 4 lanes"), "{svg}");
    for tick in ["0", "5 µs", "10 µs", "15 µs"] {
        assert!(svg.contains(&format!(">{tick}<")), "{tick}: {svg}");
    }
    for lane in ["rank 0 compute", "rank 0 communication", "rank 1 compute", "rank 1 communication"] {
        assert!(svg.contains(lane) && !svg.contains(&format!("stream {lane}")), "{lane}");
    }
}
