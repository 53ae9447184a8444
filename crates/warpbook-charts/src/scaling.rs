//! How well several devices do the work of one: throughput and efficiency over their number.

use crate::common::{heading, names, usable};
use crate::curves::{Curve, Scale, curves};
use crate::{Chart, ChartError};
use warpbook_record::{Measurement, Run};

/// The measurements of one line of the record's sweep, which is named as its points name it; the sizes are numbers of devices.
fn of_line<'a>(run: &'a Run, line: &str) -> Vec<&'a Measurement> {
    let is_on = |m: &&Measurement| m.problem.sweep.as_ref().is_some_and(|s| s.line == line) && run.is_sound(m);
    run.measurements.iter().filter(is_on).collect()
}

/// A curve for each rung, of a figure at each number of devices.
fn by_rung(run: &Run, line: &str, figure: impl Fn(&Measurement) -> Option<f64>) -> Vec<Curve> {
    let all = of_line(run, line);
    let points = |id: &str| {
        let of_rung = all.iter().filter(|m| m.rung == id);
        of_rung.filter_map(|m| Some((m.problem.size() as f64, usable(figure(m))?))).collect::<Vec<_>>()
    };
    let curve = |id: &str| Curve::new(names(run, id).0, points(id));
    run.rungs.iter().map(|r| curve(&r.id)).filter(|c| !c.points.is_empty()).collect()
}

fn caption(run: &Run) -> String {
    let caption = &run.descriptor.axis.caption;
    if caption.is_empty() { "devices".into() } else { caption.clone() }
}

/// Items a second over the number of devices, for one line of the record's sweep, with what as many devices would do that are each as fast as the fastest rung
/// on one.
///
/// # Errors
/// [`ChartError::NothingToDraw`] where nothing was measured on that line.
pub fn scaling_throughput(run: &Run, line: &str) -> Result<Chart, ChartError> {
    let mut all = by_rung(run, line, Measurement::items_per_s);
    let sizes = || all.iter().flat_map(|c| c.points.iter().map(|p| p.0));
    let most = sizes().fold(1.0, f64::max);
    let alone = all.iter().flat_map(|c| &c.points).filter(|p| p.0 == 1.0).map(|p| p.1).fold(0.0, f64::max);
    if alone > 0.0 && most > 1.0 {
        all.push(Curve::new("as many times the fastest on one", [(1.0, alone), (most, most * alone)]));
    }
    let item = if run.descriptor.item.is_empty() { "items" } else { &run.descriptor.item };
    let title = format!("{}: throughput", heading(run));
    curves([&title, line], (&caption(run), Scale::Doubling), (&format!("{item} a second"), Scale::Log), &all)
}

/// The scaling efficiency over the number of devices, for one line of the record's sweep: [`Run::scaling_efficiency`] in percent.
///
/// # Errors
/// [`ChartError::NothingToDraw`] where nothing was measured on that line on one device.
pub fn scaling_efficiency(run: &Run, line: &str) -> Result<Chart, ChartError> {
    let all = by_rung(run, line, |m| run.scaling_efficiency(m).map(|e| 100.0 * e));
    let title = format!("{}: scaling efficiency", heading(run));
    let y = ("% of as many devices, each as fast as one alone", Scale::Linear);
    curves([&title, line], (&caption(run), Scale::Doubling), y, &all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::timelines;
    use warpbook_record::{Check, Dtype, Outcome, Problem, Rung, Span, SweepPoint, count};

    fn problem(ranks: u64) -> Problem {
        let of = Problem::new("p", "p", vec![count("ranks", ranks, "")], Dtype::F32);
        of.with(|p| {
            p.items = Some(64 * ranks);
            p.sweep = Some(SweepPoint { size: ranks, line: "weak".into() });
        })
    }

    fn run() -> Run {
        let mut run = crate::common::tests_run();
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
        let chart = scaling_efficiency(&run(), "weak").unwrap();
        assert_eq!(chart.table.headers, ["ranks", "Ranks", "One process"]);
        assert_eq!(chart.table.rows, [["1", "100.0", "100.0"], ["2", "90.91", "50.00"], ["4", "80.00", ""]]);
        assert!(scaling_efficiency(&run(), "strong").is_err());
        let mut without_one = run();
        without_one.measurements.retain(|m| m.problem.size() > 1);
        assert!(scaling_efficiency(&without_one, "weak").is_err(), "nothing to compare with");
    }

    #[test]
    fn throughput_has_the_line_of_as_many_devices() {
        let chart = scaling_throughput(&run(), "weak").unwrap();
        let rate = 64.0 / 100e-6;
        assert_eq!(chart.table.headers.last().unwrap(), "as many times the fastest on one");
        let last = chart.table.rows.last().unwrap();
        assert_eq!(last.last().unwrap().replace(' ', "").parse::<f64>().ok(), Some(4.0 * rate), "{last:?}");
        assert!(chart.description.contains("over ranks"), "{}", chart.description);
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
        let svg = timelines(&run, &problem(2), &["a"]).unwrap().svg.to_string();
        for lane in ["rank 0 compute", "rank 0 communication", "rank 1 compute", "rank 1 communication"] {
            assert!(svg.contains(lane) && !svg.contains(&format!("stream {lane}")), "{lane}");
        }
    }
}
