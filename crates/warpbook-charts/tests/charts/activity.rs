//! Tests of the charts that show a device's activity in one run.

use crate::common::{cell, check_layout, check_svg, check_title};
use crate::sample;
use warpbook_charts::*;
use warpbook_record::{ChartKind, MemoryLevel};

#[test]
fn the_fastest_rung_is_taken_apart() {
    let (run, problem) = (sample::recorded(), sample::problem(5_000_000));
    let chart = draw().breakdown(&run, &problem).unwrap();
    check_svg(&chart);
    check_layout(&chart);
    let shown = chart.svg.as_str();
    for text in [
        ">Fused in a graph<",
        ">conv1 forward<",
        ">conv_implicit<",
        ">nothing runs<",
        ">no usable time<",
        ">25.0 µs · 42 %<",
    ] {
        assert!(shown.contains(text), "{text}");
    }
    assert!(!shown.contains(">conv_direct<"), "of the other rung");
    let rows: Vec<(&str, &str)> = chart.table.rows.iter().map(|r| (r[0].as_str(), r[1].as_str())).collect();
    assert_eq!(rows[0], ("04_fused_graph", "conv1 forward"));
    assert_eq!(
        rows[5..8],
        [("04_fused_graph", "nothing runs"), ("04_fused_graph", "whole run"), ("04_fused_graph", "between two runs")]
    );
    assert_eq!(rows[8], ("01_unfused", "conv1 forward"), "the table has all rungs");
    let first = |header: &str| cell(&chart.table, "04_fused_graph", header);
    assert_eq!((first("time (µs)"), first("% of the run"), first("launches")), ("12.00", "20.0", "1"));
    // 3 GFLOP at 800 TFLOP/s take 3.75 us; 20 MB at L2's 7.4 TB/s take 2.7 us.
    assert_eq!((first("bound (µs)"), first("bound by"), first("% of bound")), ("3.75", "fp16 arithmetic", "31.2"));
    assert_eq!((first("TFLOP/s"), first("GB/s")), ("250", "1667"));
    let weight = &chart.table.rows[2];
    let l2 = run.peaks.level(MemoryLevel::Dram).unwrap().bytes_per_s();
    assert_eq!(weight[10], "DRAM", "100 MB do not stay in L2");
    assert!((weight[9].parse::<f64>().unwrap() - 1e14 / l2).abs() < 0.1, "{weight:?}");
    let odd = &chart.table.rows[4];
    assert_eq!((odd[4].as_str(), odd[5].as_str(), odd[11].as_str()), ("", "", ""));
    for text in [
        "Recorded by CUPTI 13.0.1 over 3 runs",
        "60.0 µs from the first kernel",
        "in 10.0 µs of which",
        "and 2.00 µs to the next",
        "Some operations run at the same time, or are launched before",
        "The table has 1 rung more",
    ] {
        assert!(shown.replace("\n", " ").contains(text) || chart.description.contains(text), "{text}: {shown}");
    }
    assert!(chart.description.contains("the slowest are fc1 weight gradient 25.0 µs"), "{}", chart.description);
    let kernels = chart.table.rows.iter().find(|r| r[0] == "01_unfused" && r[1] == "conv1 weight gradient").unwrap();
    assert_eq!(kernels[2], "im2col, matmul_tiled, total_sums, fill");
}

#[test]
fn operations_that_were_timed_one_by_one_are_drawn_so() {
    let (mut run, problem) = (sample::recorded(), sample::problem(5_000_000));
    let overlapped = run.breakdowns[1].clone();
    let mut serial = overlapped.clone();
    for (o, us) in serial.operations.iter_mut().zip([7.5, 18.0, 16.0, 7.0, 1.5]) {
        o.samples_us = vec![us];
    }
    assert!(run.breakdowns[1].set_alone(&serial));
    let chart = draw().breakdown(&run, &problem).unwrap();
    check_svg(&chart);
    check_layout(&chart);
    let shown = chart.svg.as_str();
    // The weight gradient takes 18 of 50 us.
    assert!(shown.contains(">18.0 µs · 36 %<") && chart.title.contains("conv1 weight gradient takes 36 %"), "{shown}");
    let said = shown.replace('\n', " ");
    assert!(said.contains("50.0 µs in all") && !said.contains("launched before the one"), "{said}");
    let first = |header: &str| cell(&chart.table, "04_fused_graph", header);
    assert_eq!((first("time (µs)"), first("on its own (µs)"), first("% of the run")), ("12.00", "7.500", "20.0"));
    // The bound is 3.75 us at the ceiling.
    assert_eq!((first("% of bound"), first("TFLOP/s")), ("50.0", "400"));
    assert_eq!(cell(&chart.table, "01_unfused", "on its own (µs)"), "");
}

#[test]
fn runs_are_drawn_over_time() {
    let (run, problem) = (sample::recorded(), sample::problem(5_000_000));
    let chart = draw().timeline(&run, &problem).unwrap();
    check_svg(&chart);
    check_layout(&chart);
    let shown = chart.svg.as_str();
    // Nothing runs from 12 to 15 and from 41 to 50 of 58 us.
    assert_eq!(chart.title, "The device is idle for 21 % of “Fused in a graph”");
    check_title(&chart);
    // Only the fastest rung is drawn, since the baseline was not recorded.
    assert!(shown.contains(">stream 1<") && shown.contains(">weight gradient<"), "{shown}");
    assert_eq!(chart.table.rows.len(), 4, "what has no time is left out");
    let both = draw().timelines(&run, &problem, &["01_unfused", "04_fused_graph", "nothing"]).unwrap();
    check_layout(&both);
    assert_eq!(both.table.rows.len(), 8);
    assert_eq!(both.table.rows[0][..4], ["01_unfused", "conv1 forward", "conv_direct", "0"]);
    assert!(
        both.description.contains("Unfused: 4") && both.description.contains("on 2 streams"),
        "{}",
        both.description
    );
    // Overlapping work on a stream gets a second lane.
    let mut overlapping = run.clone();
    for (span, lane) in
        overlapping.spans.iter_mut().filter(|s| s.rung == "04_fused_graph").zip(["0", "0.1", "1", "1.1"])
    {
        span.stream = lane.into();
    }
    let lanes = draw().timelines(&overlapping, &problem, &["04_fused_graph"]).unwrap();
    assert!(lanes.description.contains("kernels and copies on 2 streams,"), "{}", lanes.description);
    assert!(lanes.svg.as_str().contains(">stream 1.1<"));
    let mut compared = run.clone();
    compared.descriptor.baseline = warpbook_record::Baseline::Rung("01_unfused".into());
    assert_eq!(draw().timeline(&compared, &problem).unwrap().table.rows.len(), 8);
}

#[test]
fn what_belongs_to_a_range_of_the_host_is_called_by_its_own_name() {
    let (mut run, problem) = (sample::recorded(), sample::problem(5_000_000));
    let mut spans = run.spans.iter_mut().filter(|s| s.rung == "04_fused_graph");
    for (name, stream) in [("load and queue", "host"), ("copy to the device", "0"), ("gemm", "1"), ("gather", "1")] {
        let span = spans.next().unwrap();
        (span.name, span.stream, span.operation) = (name.into(), stream.into(), "load and queue".into());
    }
    let chart = draw().timelines(&run, &problem, &["04_fused_graph"]).unwrap();
    check_layout(&chart);
    let shown = chart.svg.as_str();
    let legend = ["host", "copies", "kernels"].map(|kind| shown.contains(&format!(">{kind}<")));
    assert_eq!(legend, [true; 3], "{shown}");
    assert!(!shown.contains(">and queue<") && !shown.contains(">others<"), "{shown}");
    assert!(shown.contains(">gemm<") && shown.matches(">load and queue<").count() <= 1, "{shown}");
}

#[test]
fn nothing_recorded_is_said() {
    let (mut run, problem) = (sample::recorded(), sample::problem(5_000_000));
    let other = sample::problem(100_000);
    let error = |chart: Result<Chart, ChartError>| chart.unwrap_err().to_string();
    assert_eq!(
        error(draw().breakdown(&run, &other)),
        "The record has no breakdown of a run at 100 k points, 200 epochs."
    );
    assert_eq!(
        error(draw().timeline(&run, &other)),
        "The record has no timeline of a run at 100 k points, 200 epochs."
    );
    // If the chart is requested by kind, it shows the problem that has such a chart.
    assert!(
        draw().chart(&run, &other, ChartKind::Breakdown).is_ok()
            && draw().chart(&run, &other, ChartKind::Timeline).is_ok()
    );
    run.breakdowns.iter_mut().for_each(|b| b.whole_us.clear());
    run.spans.iter_mut().for_each(|s| s.duration_us = f64::NAN);
    assert!(draw().breakdown(&run, &problem).is_err() && draw().timeline(&run, &problem).is_err());
}

#[test]
fn every_operation_and_every_counted_kernel_is_a_point() {
    let (mut run, problem) = (sample::recorded(), sample::problem(5_000_000));
    let counted = run.breakdowns.iter().flat_map(|b| &b.operations).filter(|o| o.flops > 0 && o.bytes > 0).count();
    assert!(counted >= 2, "the sample has some");
    let value = |metric: &str, value| warpbook_record::CounterValue { metric: metric.into(), value };
    let kernel = |name: &str, tensor| warpbook_record::KernelCounters {
        kernel: name.into(),
        grid: vec![1, 1, 1],
        values: vec![
            value("gpu__time_duration.sum", 10_000.0),
            value("dram__bytes_read.sum", 6e6),
            value("dram__bytes_write.sum", 2e6),
            value("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", 1e6),
            value("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", 1e6),
            value("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 3e6),
            value("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", tensor),
        ],
    };
    // This chip counts the operations of its tensor cores.
    let mut gemm = kernel("gemm", 80.0);
    gemm.values.push(value("sm__ops_path_tensor_src_tf32_dst_fp32.sum", 92e6));
    run.profiled.push(warpbook_record::Profiled {
        rung: "02_fused".into(),
        problem: problem.clone(),
        source: "CUPTI 130001".into(),
        memory: Vec::new(),
        power: Vec::new(),
        overhead: None,
        counters: vec![kernel("axpy", 0.0), kernel("multiply", 40.0), gemm],
    });
    let chart = draw().kernel_roofline(&run, &problem, None).unwrap();
    check_svg(&chart);
    check_layout(&chart);
    let points: Vec<_> = chart.table.rows.iter().filter(|r| r[0] != "roof").collect();
    assert_eq!(points.len(), counted + 2, "what tensor cores did is not known of one kernel: {points:?}");
    let gemm = points.iter().find(|r| r[1].ends_with(": gemm")).unwrap();
    assert_eq!((&*gemm[3], &*gemm[4]), ("8000000", "100000000"));
    let axpy = points.iter().find(|r| r[1].ends_with(": axpy")).unwrap();
    // The kernel does 8 MFLOP and moves 8 MB in 10 us.
    assert_eq!(
        (&*axpy[3], &*axpy[4], &*axpy[5], &*axpy[6], &*axpy[7]),
        ("8000000", "8000000", "1.000", "800.0", "800.0")
    );
    assert_eq!(chart.table.headers[0], "roof or kernel");
    assert!(chart.description.contains("kernels on"), "{}", chart.description);
    // A record of rungs has its own roofline; a record without rung points shows the roofline of its kernels.
    assert_eq!(draw().roofline(&run, &problem).unwrap().table.headers[0], "roof or rung");
    run.measurements.iter_mut().for_each(|m| m.check = None);
    assert_eq!(draw().roofline(&run, &problem).unwrap().table.headers[0], "roof or kernel");
    run.breakdowns.clear();
    run.profiled.clear();
    let why = draw().kernel_roofline(&run, &problem, None).unwrap_err().to_string();
    assert!(why.contains("range_of"), "{why}");
}

#[test]
fn clocks_and_watts_are_drawn_over_time() {
    use warpbook_charts::power_in_words;
    use warpbook_record::{PowerAt, Profiled};
    let mut run = sample::recorded();
    let problem = run.main_problem().unwrap().clone();
    assert!(draw().clocks(&run, &problem).is_err() && draw().power(&run, &problem).is_err());
    assert!(power_in_words(&run, &problem).is_empty());
    let reading = |i: u32, watts: f64, capped| PowerAt {
        at_us: f64::from(i) * 5e4,
        sm_mhz: Some(1400 + i),
        watts: Some(watts),
        limit_watts: Some(700.0),
        capped,
        flops: u64::from(i) * 30_000_000_000_000,
    };
    let profile = |rung: &str, watts, capped| Profiled {
        rung: rung.into(),
        problem: problem.clone(),
        source: "NVML".into(),
        memory: Vec::new(),
        power: (0..40).map(|i| reading(i, watts, capped)).collect(),
        overhead: None,
        counters: Vec::new(),
    };
    run.profiled = vec![profile("01_unfused", 690.0, true), profile("02_fused", 400.0, false)];
    let said = power_in_words(&run, &problem);
    assert_eq!(
        said[0],
        "Unfused, in the second half: 600 TFLOP/s, 1430 MHz, 690 W, the power cap limited the clocks in 20 of 20 readings, as the driver reports."
    );
    assert!(said[1].contains("400 W") && said[1].contains("in 0 of 20 readings"), "{said:?}");
    assert_eq!(said[2], "The power cap is 700 W.");
    let drawn = [draw().clocks(&run, &problem), draw().power(&run, &problem)].map(Result::unwrap);
    for chart in &drawn {
        check_svg(chart);
        check_layout(chart);
    }
    assert_eq!(drawn[0].title, "The clock of all 2 rungs settles at 1430 MHz");
    assert_eq!(drawn[1].title, "“Unfused” draws the most power, 690 W on average; “Fused” draws 400 W");
    for chart in [Options::phone().clocks(&run, &problem), Options::phone().power(&run, &problem)].map(Result::unwrap) {
        check_layout(&chart);
        check_title(&chart);
    }
    assert_eq!(drawn[0].table.headers, ["seconds from the first run", "Unfused", "Fused"]);
    assert_eq!(drawn[1].table.headers[3], "power cap");
    assert_eq!(drawn[1].table.rows[0], ["0", "690.0", "400.0", "700.0"]);
    // One reading does not make a line, and values that the driver does not report are left out.
    run.profiled[1].power.truncate(1);
    run.profiled[0].power.iter_mut().for_each(|r| (r.limit_watts, r.watts, r.flops) = (None, None, 0));
    assert_eq!(power_in_words(&run, &problem)[1], "The power cap is not known.");
    assert!(draw().power(&run, &problem).is_err() && draw().clocks(&run, &problem).unwrap().table.headers.len() == 2);
}
