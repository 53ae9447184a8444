//! Tests of X-ray charts.

use crate::common::{check_layout, check_svg};
use crate::sample;
use warpbook_charts::*;
use warpbook_record::ChartKind;
use warpbook_record::xray::XraySm;

/// Returns the table's row of a kernel's figure.
fn row<'c>(chart: &'c Chart, what: &str) -> Vec<&'c str> {
    let found = chart.table.rows.iter().find(|r| r[2] == what);
    found.unwrap_or_else(|| panic!("{what} in {:?}", chart.table.rows)).iter().map(String::as_str).collect()
}

#[test]
fn an_x_ray_has_a_lane_an_sm_and_its_figures_in_a_table() {
    let (run, problem) = (sample::xrayed(), sample::problem(5_000_000));
    let chart = draw().xray(&run, &problem).unwrap();
    check_svg(&chart);
    check_layout(&chart);
    let shown = chart.svg.as_str();
    for text in [
        ">SM 0<",
        ">multiply<",
        ">store<",
        ">Some warps, phase by phase (block · warp)<",
        "data-name=\"SM 1\"",
        "2 blocks until 2.45",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    let phone = Options::phone().xray_of(&run, &run.xrays[0]).unwrap();
    check_layout(&phone);
    // Each kept consumer represents four. The phase takes 800 of the 1110 known ns of each consumer; with the
    // producer's 520 ns, it takes 3200 of 4960 ns in all.
    assert_eq!(row(&chart, "phase multiply")[..6], ["gemm", "consumers", "phase multiply", "24", "72 %", "65 %"]);
    let loads = chart.table.rows.iter().find(|r| r[1] == "producers" && r[2] == "phase load").unwrap();
    assert_eq!(loads[3..6], ["6", "12 %", "1.2 %"]);
    assert!(chart.table.rows.iter().all(|r| r[2] != "phase not kept"), "{:?}", chart.table.rows);
    let most = "72 % of the consumers' time in multiply, 81 % of the producers' time in wait.";
    assert!(chart.description.ends_with(most), "{}", chart.description);
    // SMs 1 and 2 have no block left from 1.21 and 1.22 us until 2.45 us.
    assert_eq!(row(&chart, "tail of the last wave")[7], "1.240");
    assert_eq!(row(&chart, "1 SM without a block")[0], "gemm");
    assert_eq!(row(&chart, "lead of loads, 1.5 tiles")[3], "6");
    assert_eq!(row(&chart, "error of an SM's clock at most")[7], "0.3800");
    assert_eq!(row(&chart, "time without")[6], "2.500");
    let said = shown.replace('\n', " ");
    assert!(said.contains("It takes 1.02"), "{said}");
    assert!(said.contains("For 7 % of the time of gemm"), "{said}");
    assert!(said.contains("2 kernels of the run have no marks"), "{said}");
    assert_eq!(chart.title, "“Fused in a graph”: consumers spend 72 % of their time in multiply");
    assert!(said.contains("the activity of every SM in 2.45"), "{said}");
    check_layout(&Options::phone().chart(&run, &problem, ChartKind::Xray).unwrap());
}

#[test]
fn a_lighter_x_ray_says_how_many_sms_it_shows() {
    let mut run = sample::xrayed();
    // The record has as many SMs as an H200; only some have blocks.
    let first = run.xrays[0].sms[0].clone();
    run.xrays[0].sms.extend((0..132).map(|sm| XraySm { sm, ..first.clone() }));
    let all = draw().xray_of(&run, &run.xrays[0]).unwrap();
    let some = draw().lighter().xray_of(&run, &run.xrays[0]).unwrap();
    check_layout(&some);
    let lanes = |chart: &Chart| chart.svg.as_str().matches("data-name=\"SM ").count();
    assert_eq!((lanes(&some), lanes(&all)), (17, 132));
    assert!(some.description.starts_with("Lanes of 17 of 132 SMs"), "{}", some.description);
    assert!(some.svg.as_str().contains(">17 of 132 SMs: the most") && some.svg.as_str().len() < all.svg.as_str().len());
    assert_eq!(some.table, all.table);
}

#[test]
fn a_record_without_one_says_so() {
    let (run, problem) = (sample::recorded(), sample::problem(5_000_000));
    assert_eq!(
        draw().xray(&run, &problem).unwrap_err().to_string(),
        "The record has no X-ray at 5 M points, 200 epochs."
    );
    // If the chart is requested by kind, it shows the problem that has such a chart.
    let other = sample::problem(100_000);
    assert!(draw().chart(&sample::xrayed(), &other, ChartKind::Xray).is_ok());
}
