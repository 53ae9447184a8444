//! Tests of peak memory as the quantity of a ladder and of a sweep.

use crate::common::{cell, check_layout, check_svg, check_table, texts};
use crate::sample::{self, batch};
use warpbook_charts::*;
use warpbook_record::{Baseline, Check, Outcome, Run, Runner};

fn shown(chart: &Chart) -> Vec<String> {
    texts(chart).into_iter().map(|t| t.3).collect()
}

fn drawn(run: &Run, images: u64) -> Chart {
    let chart = draw().ladder(run, &batch(images), Quantity::PeakMemory).unwrap();
    check_svg(&chart);
    check_layout(&chart);
    chart
}

#[test]
fn a_ladder_of_memory_has_binary_units() {
    let run = sample::precisions();
    let chart = drawn(&run, 1024);
    assert_eq!(chart.title, "“AMP, bf16” takes 79 % of the memory of “fp32”");
    let texts = shown(&chart);
    let has = |text: &str| assert!(texts.iter().any(|t| t == text), "{text:?} in {texts:?}");
    for text in ["2.05 GiB", "2.08 GiB · 102 %", "1.61 GiB · 79 %", "0", "0.5", "1", "1.5", "2"] {
        has(text);
    }
    has("peak memory in GiB, shorter is better; %: of fp32");
    has("Training step: peak memory, NVIDIA H200, three layers, batch 1024");
    assert_eq!(texts.iter().filter(|t| *t == "not counted").count(), 2, "the CPU and PyTorch: {texts:?}");
    assert_eq!(chart.svg.as_str().matches("<rect").count(), 4, "four bars");
    assert!(!chart.svg.as_str().contains("data-spread") && !chart.svg.as_str().contains("data-samples"));
    assert!(
        chart.description.contains("the least is “AMP, bf16” with 1.61 GiB (79 % of “fp32”); 2 rungs without a figure")
    );
    assert_eq!(cell(&chart.table, "amp_bf16", "peak memory (MiB)"), "1649");
    assert_eq!(cell(&chart.table, "torch", "peak memory (MiB)"), "");
    let small = shown(&drawn(&run, 128));
    assert!(
        small.iter().any(|t| t.starts_with("peak memory in MiB")) && small.contains(&"256".to_owned()),
        "{small:?}"
    );
    check_table(&LadderTable::for_problem(&run, &batch(1024)));
    assert_eq!(cell(&LadderTable::for_problem(&run, &batch(1024)).table(), "fp32", "peak memory"), "2.05 GiB");
}

#[test]
fn a_title_names_the_memory_that_is_compared_with() {
    let title = |change: &dyn Fn(&mut Run)| {
        let mut run = sample::precisions();
        change(&mut run);
        drawn(&run, 512).title
    };
    // With this baseline, AMP's memory equals the baseline's to within a percent.
    let alike = title(&|run| run.descriptor.baseline = Baseline::Rung("amp_fp16".into()));
    assert_eq!(alike, "“AMP, fp16” takes the least memory: 1000 MiB", "the first of two that take the same");
    let near = title(&|run| {
        run.descriptor.baseline = Baseline::Rung("amp_fp16".into());
        run.measurements.iter_mut().filter(|m| m.rung == "amp_bf16").for_each(|m| m.peak_bytes = Some(997 << 20));
    });
    assert_eq!(near, "“AMP, bf16” takes as much memory as “AMP, fp16”");
    let bracketed = title(&|run| run.rungs[1].title = "fp32 (03_implicit_gemm)".into());
    assert_eq!(bracketed, "“AMP, fp16” takes 81 % of the memory of “fp32 (03_implicit_gemm)”");
    let uncounted = title(&|run| run.descriptor.baseline = Baseline::Rung("torch".into()));
    assert_eq!(uncounted, "“AMP, fp16” takes the least memory: 1000 MiB", "nobody counted the baseline's");
    let wrong = title(&|run| {
        for m in run.measurements.iter_mut().filter(|m| m.rung.starts_with("amp")) {
            m.check = Some(Check::compare("f64", &[(2.0, 3.0)], 1.0, 1e-3));
        }
    });
    assert_eq!(wrong, "“fp32” takes the least memory: 1.21 GiB", "what failed its check is not the least");
}

#[test]
fn a_library_without_counted_memory_has_no_mark() {
    let mut run = sample::precisions();
    let at = run.rungs.iter().position(|r| r.id == "tf32").unwrap();
    run.rungs[at].runner = Runner::Library("cuDNN".into());
    assert!(shown(&drawn(&run, 512)).iter().any(|t| t == "tf32: 1.23 GiB"));
    run.measurements.iter_mut().filter(|m| m.rung == "tf32").for_each(|m| m.peak_bytes = None);
    assert!(shown(&drawn(&run, 512)).iter().all(|t| !t.starts_with("tf32: ")));
}

#[test]
fn a_sweep_of_memory_is_lower_is_better() {
    let run = sample::precisions();
    let chart = draw().sweep_of(&[&run], Quantity::PeakMemory, None, None).unwrap();
    check_svg(&chart);
    check_layout(&chart);
    assert_eq!(chart.title, "“AMP, bf16” takes 79 % of the memory of “fp32” at 1024 images");
    let texts = shown(&chart);
    let has = |text: &str| assert!(texts.iter().any(|t| t == text), "{text:?} in {texts:?}");
    for text in
        ["0", "0.5", "1", "1.5", "2", "peak memory in GiB, lower is better", "Not counted: CPU, all threads; PyTorch."]
    {
        has(text);
    }
    has("Training step: peak memory over size, NVIDIA H200, three layers");
    assert!(texts.iter().all(|t| t != "PyTorch"), "without a figure there is no line: {texts:?}");
    assert_eq!(chart.table.headers.last().unwrap(), "peak memory (MiB)");
    assert_eq!(cell(&chart.table, "fp32", "peak memory (MiB)"), "598.0");
    assert!(
        chart
            .description
            .ends_with("of 4 rungs on NVIDIA H200; at the largest size “AMP, bf16” takes the least with 1.61 GiB."),
        "{}",
        chart.description
    );
    // The least memory among the drawn rungs counts; a baseline that is not drawn is ignored.
    let two = draw().sweep_of(&[&run], Quantity::PeakMemory, None, Some(&["tf32", "amp_fp16"])).unwrap();
    assert_eq!(two.title, "“AMP, fp16” takes the least memory: 1.61 GiB at 1024 images");
    // Amounts far apart are on a logarithmic axis with ticks at powers of two.
    let mut far = run.clone();
    for m in far.measurements.iter_mut().filter(|m| m.rung == "fp32") {
        m.peak_bytes = m.peak_bytes.map(|bytes| bytes * 64);
    }
    let chart = draw().sweep_of(&[&far], Quantity::PeakMemory, None, None).unwrap();
    check_layout(&chart);
    let texts = shown(&chart);
    for text in ["512 MiB", "128 GiB", "peak memory, lower is better; logarithmic scale"] {
        assert!(texts.iter().any(|t| t == text), "{text:?} in {texts:?}");
    }
    assert!(texts.iter().any(|t| t.ends_with("three layers, both axes logarithmic")), "{texts:?}");
    // Several records can share the chart.
    check_svg(&draw().sweep_of(&[&run, &far], Quantity::PeakMemory, None, None).unwrap());
}

#[test]
fn memory_that_nobody_counted_is_not_drawn() {
    let mut run = sample::precisions();
    run.measurements.iter_mut().for_each(|m| m.peak_bytes = None);
    let why = "Peak memory was not counted for three layers, batch 512.";
    assert_eq!(draw().ladder(&run, &batch(512), Quantity::PeakMemory).unwrap_err().to_string(), why);
    assert_eq!(draw().sweep_of(&[&run], Quantity::PeakMemory, None, None).unwrap_err().to_string(), why);
    assert_eq!(quantity_name(&run, Quantity::PeakMemory), "peak memory");
    // A rung that did not run gives its reason instead of a missing count.
    let mut skipped = sample::precisions();
    for m in skipped.measurements.iter_mut().filter(|m| m.rung == "torch") {
        m.outcome = Outcome::Skipped { why: "no PyTorch".into() };
    }
    let texts = shown(&drawn(&skipped, 512));
    assert!(texts.contains(&"skipped: no PyTorch".to_owned()), "{texts:?}");
}
