//! A record of an experiment that this code does not know, written by another program. The page must show all of it.

use super::hostile;
use crate::address::{Link, ProblemChoice};
use crate::library::open::open;
use crate::record::{Tab, facts, problems, quantities};
use crate::tables;
use warpbook_charts as charts;
use warpbook_record::{Quantity, Run};

const SOFTMAX: &str = include_str!("../../tests/softmax.json");

fn softmax() -> Run {
    open(SOFTMAX.as_bytes()).unwrap()
}

#[test]
fn it_has_a_ladder_a_sweep_a_roofline_and_sources() {
    let run = softmax();
    hostile::show(&run);
    use Tab::{Environment, Ladder, Roofline, Source, Sweep, Table};
    assert_eq!(Tab::for_record(&run), [Ladder, Sweep, Roofline, Table, Source, Environment]);
    let problem = run.main_problem().unwrap();
    assert_eq!(problem.label, "65536 × 1024 fp32");
    assert_eq!(quantities::quantities(&run, problem), [Quantity::Bandwidth, Quantity::Time, Quantity::SpeedUp]);
    let headline = quantities::quantity(&run, problem, None);
    assert_eq!(headline, Quantity::Bandwidth);
    for quantity in quantities::quantities(&run, problem) {
        let drawn = [
            charts::draw().ladder(&run, problem, quantity),
            charts::draw().sweep_of(&[&run], quantity, Some(problem), None),
        ];
        for chart in drawn {
            let svg = chart.unwrap().svg;
            for title in ["CPU, one thread", "PyTorch", "Naive", "One pass"] {
                assert!(svg.as_str().contains(title), "{title} in the chart of {quantity:?}");
            }
        }
    }
    let roofline = charts::draw().roofline(&run, problem).unwrap();
    assert!(["A warp a row", "DRAM"].iter().all(|name| roofline.svg.as_str().contains(name)));
    for path in ["softmax/naive.cu", "softmax/warp.cu", "softmax/online.cu", "math.cuh"] {
        assert!(run.sources.contains_key(path), "{path}");
    }
}

#[test]
fn its_problems_are_chosen_by_the_columns_that_its_sweep_runs_over() {
    let run = softmax();
    let groups = problems::grouped(run.problems());
    let [group] = groups.as_slice() else { panic!("{groups:?}") };
    assert_eq!(group.label, "65536 rows");
    assert_eq!(group.problems.iter().map(|p| p.size()).collect::<Vec<_>>(), [256, 1024, 4096]);
    let wide = group.problems[2];
    let link = Link { problem: Some(ProblemChoice::Id(wide.id.clone())), ..Link::default() };
    assert_eq!(link.query(), "?problem=rows=65536+columns=4096+fp32");
    assert_eq!(Link::parse(&link.query()).problem.unwrap().find(&run), Some(wide));
}

#[test]
fn its_table_has_its_own_columns_and_baseline() {
    let run = softmax();
    let sheet = tables::rungs(&run, run.main_problem().unwrap());
    let labels: Vec<&str> = sheet.columns.iter().map(|c| c.label.as_str()).collect();
    let expect = "Rung, Median, MAD, Effective bandwidth, % of bound, Bound by, Speed-up, Check, Tile, Samples";
    assert_eq!(labels.join(", "), expect);
    let row = |title: &str| sheet.rows.iter().find(|r| r.cells[0].text == title).unwrap();
    let texts = |title: &str| row(title).cells.iter().skip(1).map(|c| c.text.as_str()).collect::<Vec<_>>();
    // The kernel moves 537 MB, half of them written, so the bound is the bandwidth of copies, 4250 GB/s.
    assert_eq!(texts("One pass"), ["131 µs", "± 655 ns", "4098 GB/s", "96 %", "DRAM", "32.1×", "Passed", "t256", "3"]);
    assert_eq!(row("One pass").cells[1].detail, "fastest");
    assert_eq!(texts("Naive")[5], "1.00×");
}

#[test]
fn it_is_compared_with_a_second_one() {
    let one = softmax();
    let text = SOFTMAX.replace("NVIDIA H200", "NVIDIA H100").replace("Grace", "Ada");
    let mut two = open(text.as_bytes()).unwrap();
    two.measurements.iter_mut().flat_map(|m| &mut m.samples_us).for_each(|us| *us *= 2.0);
    let runs = [&one, &two];
    let all = charts::Comparison::from_runs(&runs).unwrap();
    assert_eq!(all.problems.len(), 3);
    for of in &all.problems {
        let chart = charts::draw().comparison(&all.at(of[0].unwrap()), false).unwrap();
        assert!(
            ["NVIDIA H200", "NVIDIA H100", "One pass", "0.500×"].iter().all(|name| chart.svg.as_str().contains(name))
        );
    }
    let line = all.problems[0][0];
    assert!(charts::draw().sweep_labelled(&runs, &all.labels, one.descriptor.headline, line).is_ok());
    let (differ, same) = facts::differences(&runs);
    let names: Vec<&str> = differ.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["Run by", "Device"]);
    assert!(same.iter().any(|d| d.name == "Experiment" && d.values[1].as_deref() == Some("softmax")));
    // Records of different experiments cannot be compared.
    let other = super::sample_run();
    let why = charts::Comparison::from_runs(&[&one, &other]).unwrap_err().to_string();
    assert!(why.contains("different experiments"), "{why}");
}
