//! Tests of the charts of operations, shapes, tiles and transfers.

use crate::common::{check_layout, row, texts};
use crate::sample;
use warpbook_charts::*;
use warpbook_record::{Dtype, Run};

#[test]
fn pytorch_operations_are_shown_with_ours() {
    let chart = draw().operations(&sample::full(), &sample::problem(5_000_000)).unwrap();
    for text in ["pytorch_eager, PyTorch 2.11.0", ">optimiser step<", ">gradient w<", ">pass<"] {
        assert!(chart.svg.as_str().contains(text), "{text}");
    }
    assert_eq!(chart.table.rows.iter().filter(|r| r[1] == "sum").count(), 3);
}

#[test]
fn shapes_are_compared_with_the_faster_library() {
    let run = sample::products();
    let chart = draw().shapes(&run, Dtype::Bf16).unwrap();
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
    let fp32 = draw().shapes(&run, Dtype::F32).unwrap();
    assert!(
        fp32.svg
            .as_str()
            .contains("Left out, without a figure at any shape: WMMA (skipped: It is written for 16-bit types).")
    );
    assert!(!fp32.table.rows.iter().any(|r| r[1].starts_with("cpu") || r[1].starts_with("cublas")));

    let mut without = run.clone();
    without.measurements.retain(|m| !(m.rung.starts_with("cublas") && m.problem == sample::cube(256, Dtype::Bf16)));
    let chart = draw().shapes(&without, Dtype::Bf16).unwrap();
    check_layout(&chart);
    assert!(chart.svg.as_str().contains("a: no library has a valid figure at this size (15 cells)."));
    without.measurements.retain(|m| !m.rung.starts_with("cublas"));
    let error = |run: &Run, dtype| draw().shapes(run, dtype).unwrap_err().to_string();
    let expect = "No library has a valid figure of bf16, so there is nothing to compare rungs with.";
    assert_eq!(error(&without, Dtype::Bf16), expect);
    assert_eq!(error(&run, Dtype::F64), "The record has no problem in fp64.");
    let expect = "No library has a valid figure of fp32, so there is nothing to compare rungs with.";
    assert_eq!(error(&sample::full(), Dtype::F32), expect);
}

#[test]
fn shapes_of_few_rungs_are_apart_with_the_columns_that_they_have() {
    let mut run = sample::products();
    let dtype = Dtype::Bf16;
    let thin = [(65536, 512, 512), (64, 4096, 11008)].map(|shape| sample::product(shape, dtype));
    run.measurements.retain(|m| !thin.contains(&m.problem) || m.rung.starts_with("cublas") || m.rung == "15_split_k");
    let long = "64 × 4096 × 11008, B transposed";
    for m in run.measurements.iter_mut().filter(|m| m.problem == thin[1]) {
        m.problem = m.problem.with(|p| (p.short, p.label) = (long.into(), format!("{long} bf16")));
    }
    let chart = draw().shapes(&run, dtype).unwrap();
    check_layout(&chart);
    let shown = chart.svg.as_str();
    let count = |text: &str| shown.matches(text).count();
    assert_eq!((count(">Measured with 1 rung only<"), count("not measured")), (1, 0), "{shown}");
    // A single rung has its own column and no second one for the best kernel.
    assert_eq!([">Split k</text>", ">Stores overlapped</text>", ">best kernel</text>"].map(count), [2, 1, 1]);
    assert_eq!(count(&format!(">{long}<")), 1, "its name is not cut");
    let y = |text: &str| texts(&chart).into_iter().find(|t| t.3 == text).map(|t| t.2).unwrap();
    assert!(y("8192 × 8192 × 128") < y("Measured with 1 rung only") && y("Measured with 1 rung only") < y(long));
    // The table has all problems, whichever panel they are in.
    let all = draw().shapes(&sample::products(), dtype).unwrap();
    assert_eq!(chart.table.rows.len(), all.table.rows.len());
    let narrow = Options::phone().shapes(&run, dtype).unwrap();
    check_layout(&narrow);
    assert!(
        narrow.svg.as_str().contains(">Measured with 1 rung only<") && !narrow.svg.as_str().contains("not measured")
    );

    // Many rows are split into two parts side by side, each with its heading.
    let mut one = sample::products();
    let cube = sample::cube(4096, dtype);
    one.measurements.retain(|m| m.problem == cube || m.rung.starts_with("cublas") || m.rung == "15_split_k");
    let chart = draw().shapes(&one, dtype).unwrap();
    check_layout(&chart);
    assert_eq!(chart.svg.as_str().matches(">Split k</text>").count(), 3);
    let at = |text: &str| texts(&chart).into_iter().find(|t| t.3 == text).map(|t| (t.0, t.2)).unwrap();
    let (first, seventh) = (at("256³"), at("1000³"));
    assert!(first.1 == seventh.1 && first.0 + 150.0 < seventh.0, "{first:?} {seventh:?}");
    check_layout(&Options::phone().shapes(&one, dtype).unwrap());

    // Half of the rungs are enough for the main group, and a single group has no second panel.
    run.measurements
        .retain(|m| m.rung.starts_with("cublas") || m.rung == "15_split_k" || m.rung == "14_overlapped_store");
    let chart = draw().shapes(&run, dtype).unwrap();
    assert!(!chart.svg.as_str().contains("Measured with") && chart.svg.as_str().contains("not measured (2 cells)"));
    // A problem measured only with libraries shows the library's figure, but has no column.
    run.measurements.retain(|m| m.rung.starts_with("cublas") || !thin.contains(&m.problem));
    let chart = draw().shapes(&run, dtype).unwrap();
    check_layout(&chart);
    assert!(chart.svg.as_str().contains(">Measured with none of the rungs<"));
}

#[test]
fn tiles_are_compared_with_the_chosen_one() {
    let (run, problem) = (sample::products(), sample::cube(4096, Dtype::Bf16));
    let chart = draw().tiles(&run, &problem).unwrap();
    let shown = chart.svg.as_str();
    assert!(shown.contains(
        "Faster with another tile than with the chosen one: “Persistent, in clusters” with 128x128s6 (−4.0 %)."
    ));
    assert!(shown.contains("369 µs · 373 TFLOP/s · +31 %"));
    let rows_of = |id: &str| -> Vec<[&str; 3]> {
        let rows = chart.table.rows.iter().filter(|r| r[0] == id);
        rows.map(|r| [r[1].as_str(), r[5].as_str(), r[6].as_str()]).collect()
    };
    // The tiles are in the order of the rung's row.
    let expect = [["128x256s4", "1.000", "yes"], ["128x128s6", "1.069", ""], ["64x256s5", "1.309", ""]];
    assert_eq!(rows_of("11_wgmma_tma"), expect);
    assert_eq!(row(&chart.table, "11_wgmma_tma")[7], "BM 128, BN 256, STAGES 4");
    let error = draw().tiles(&run, &sample::cube(512, Dtype::Bf16)).unwrap_err().to_string();
    assert_eq!(error, "The record has no times with several tiles at 512³ bf16.");
    // If no tile was chosen, ratios refer to the fastest.
    let mut unchosen = run;
    unchosen.measurements.clear();
    let chart = draw().tiles(&unchosen, &problem).unwrap();
    check_layout(&chart);
    assert!(chart.svg.as_str().contains("5 rungs without a time with the chosen tile"));
}

#[test]
fn transfers_are_parts_of_a_whole() {
    let (run, problem) = (sample::products(), sample::cube(4096, Dtype::Bf16));
    let chart = draw().transfers(&run, &problem).unwrap();
    assert!(chart.description.contains("the transfers cost more than the work at 1 of them"), "{}", chart.description);
    let best = row(&chart.table, "14_overlapped_store");
    assert_eq!((best[2], best[4], best[7]), ("1.2090", "0.63947", "89.8"));
    let most = "“Stores overlapped” spends 90 % of its time on copies to the device and back";
    assert_eq!(chart.title, most);
    // Bars show shares if the times are far apart, and times otherwise.
    assert!(chart.svg.as_str().contains("share of the time until"));
    let mut near = run.clone();
    near.parts.retain(|s| s.rung != "01_naive");
    let chart = draw().transfers(&near, &problem).unwrap();
    check_layout(&chart);
    assert!(chart.svg.as_str().contains("time until the result is on the host, shorter is better"));
    near.parts.retain(|s| s.name != "compute");
    let chart = draw().transfers(&near, &problem).unwrap();
    assert!(chart.svg.as_str().contains("Without a time for “compute”: Double-buffered and Stores overlapped."));
    let error = draw().transfers(&run, &sample::cube(512, Dtype::Bf16)).unwrap_err().to_string();
    assert_eq!(error, "The record has no times of transfers at 512³ bf16.");
}
