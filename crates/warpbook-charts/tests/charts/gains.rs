//! Tests of the gain of a rung over the rung before, and of the positions of both on the roofline.

use crate::sample::{h200, problem};
use warpbook_charts::{changes, gain_caption, lines_in_common, roofline_points, rung_before};
use warpbook_record::{Dtype, Grid, KernelSpec, KernelStats, Outcome, Run, Runner, Schedule, Source};

fn before(run: &Run, rung: &str) -> Option<String> {
    rung_before(run, &problem(5_000_000), rung).map(|r| r.id.to_string())
}

fn forget(run: &mut Run, rung: &str) {
    let missing = Outcome::Skipped { why: "it needs another GPU.".into() };
    let m = run.measurements.iter_mut().filter(|m| m.rung == rung);
    m.for_each(|m| (m.outcome, m.samples_us) = (missing.clone(), Vec::new()));
}

#[test]
fn a_rung_is_compared_with_the_nearest_alike() {
    let mut run = h200();
    assert_eq!(before(&run, "02_fused").as_deref(), Some("01_unfused"));
    assert_eq!(before(&run, "01_unfused").as_deref(), Some("cpu_all_threads"), "the first kernels");
    assert_eq!(before(&run, "cpu_all_threads").as_deref(), Some("cpu_1_thread"));
    assert_eq!((before(&run, "cpu_1_thread"), before(&run, "none")), (None, None));
    run.rungs[6].variant_of = Some("02_fused".into());
    assert_eq!(before(&run, "04_fused_graph").as_deref(), Some("02_fused"));
    // A rung without a figure is skipped, unless it is the only candidate.
    forget(&mut run, "02_fused");
    assert_eq!(before(&run, "02b_fused_staged").as_deref(), Some("01_unfused"));
    forget(&mut run, "01_unfused");
    assert_eq!(before(&run, "02b_fused_staged").as_deref(), Some("02_fused"));
}

/// Gives each kernel a file of its own with these lines.
fn with_files(run: &mut Run, files: &[(&str, &'static str, &str)]) {
    for &(rung, path, text) in files {
        let spec = KernelSpec::new(Source { path, text: "" }, "f", &[], Grid::Cover);
        let at = run.rungs.iter().position(|r| r.id == rung).unwrap();
        run.rungs[at].runner = Runner::Kernels { specs: vec![spec], schedule: Schedule::Launches };
        run.sources.insert(path.to_owned(), text.to_owned());
    }
}

#[test]
fn a_rung_is_compared_with_the_one_that_it_grew_from() {
    let mut run = h200();
    // The staged rung is a side branch: the next rung continues the file of the rung before it.
    let files = [
        ("01_unfused", "a.cu", "one\ntwo\nthree\n"),
        ("02_fused", "b.cu", "one\ntwo\nfour\nfive\n"),
        ("02b_fused_staged", "c.cu", "six\nseven\neight\n"),
        ("03_fused_streams", "b.cu", "one\ntwo\nfour\nfive\n"),
    ];
    with_files(&mut run, &files);
    assert_eq!(before(&run, "03_fused_streams").as_deref(), Some("02_fused"));
    assert_eq!(before(&run, "02_fused").as_deref(), Some("01_unfused"));
    // With two types, a rung follows the last rung of its own type. The first rung of a type does not follow its twin.
    let types = [
        ("01_unfused", Dtype::F32),
        ("02_fused", Dtype::F16),
        ("02b_fused_staged", Dtype::Bf16),
        ("03_fused_streams", Dtype::Bf16),
    ];
    for (rung, dtype) in types {
        run.measurements.iter_mut().filter(|m| m.rung == rung).for_each(|m| m.dtype = Some(dtype));
    }
    assert_eq!(before(&run, "03_fused_streams").as_deref(), Some("02b_fused_staged"));
    for (rung, title) in [("02_fused", "Fused, fp16"), ("02b_fused_staged", "Fused, bf16")] {
        run.rungs.iter_mut().filter(|r| r.id == rung).for_each(|r| r.title = title.into());
    }
    with_files(&mut run, &[("02b_fused_staged", "b.cu", "one\ntwo\nfour\nfive\n")]);
    assert_eq!(before(&run, "02b_fused_staged").as_deref(), Some("01_unfused"));
    assert_eq!(lines_in_common("a\n b\n\nb\nc", "b\nd\nb\nb\n\n"), 2);
}

#[test]
fn a_caption_says_what_a_rung_brought() {
    let mut run = h200();
    let p = problem(5_000_000);
    let caption = |run: &Run, rung: &str| gain_caption(run, &p, rung);
    assert_eq!(
        caption(&run, "02_fused"),
        "“Fused” is 4.41× as fast as “Unfused” (13.9 ms → 3.15 ms), 10 % → 44 % of the DRAM limit."
    );
    assert_eq!(
        caption(&run, "03_fused_streams"),
        "“Fused over streams” takes 2.29× the time of “Fused, staged” (3.29 ms → 7.54 ms), 42 % → 18 % of the DRAM limit."
    );
    assert_eq!(caption(&run, "cpu_1_thread"), "“CPU, one thread”: 3.99 s. It is the first of its kind.");
    assert_eq!(caption(&run, "none"), "“none” was not measured at 5 M points, 200 epochs.");
    // Rungs with equal samples show no change.
    let samples = run.measurement("02_fused", &p).unwrap().samples_us.clone();
    let at = run.measurements.iter().position(|m| m.rung == "02b_fused_staged" && m.problem == p).unwrap();
    run.measurements[at].samples_us = samples;
    assert!(
        caption(&run, "02b_fused_staged").contains("as fast as “Fused” within noise"),
        "{}",
        caption(&run, "02b_fused_staged")
    );
    run.measurements[at].flops = Some(p.flops / 10);
    assert!(caption(&run, "02b_fused_staged").ends_with(" It does 10 % of the operations."));
    assert_eq!(before(&run, "03_fused_streams").as_deref(), Some("02_fused"), "one that does less is no step");
    forget(&mut run, "02_fused");
    assert_eq!(caption(&run, "02_fused"), "“Fused”: skipped: it needs another GPU.");
    forget(&mut run, "01_unfused");
    let only = caption(&run, "02b_fused_staged");
    assert!(only.ends_with("the rung before it, has no valid figure at 5 M points, 200 epochs."), "{only}");
}

#[test]
fn changes_name_what_differs_besides_the_source() {
    let mut run = h200();
    let p = problem(5_000_000);
    let stats =
        |registers, occupancy| KernelStats { entry: "pass".into(), registers, occupancy, ..KernelStats::default() };
    for (rung, tile, kernel) in
        [("02_fused", "t512", stats(40, Some(1.0))), ("04_fused_graph", "t256", stats(64, Some(0.5)))]
    {
        let m = run.measurements.iter_mut().find(|m| m.rung == rung && m.problem == p).unwrap();
        (m.tile, m.kernels) = (Some(tile.into()), vec![kernel]);
    }
    let changes_between = |run: &Run, a: &str, b: &str| changes(run, &p, run.rung(a).unwrap(), run.rung(b).unwrap());
    let expect = ["Tile: t512 → t256", "Registers of a thread: 40 → 64", "Occupancy: 100 % → 50 %"];
    assert_eq!(changes_between(&run, "02_fused", "04_fused_graph"), expect);
    assert!(changes_between(&run, "02_fused", "02_fused").is_empty());
    if let Runner::Kernels { schedule, .. } = &mut run.rungs[6].runner {
        *schedule = Schedule::Graph;
    }
    assert!(
        changes_between(&run, "02_fused", "04_fused_graph")[0].starts_with("Launches: "),
        "{:?}",
        changes_between(&run, "02_fused", "04_fused_graph")
    );
}

#[test]
fn the_point_of_a_faster_rung_lies_higher() {
    let run = h200();
    let drawn = roofline_points(&run, &problem(5_000_000), (340.0, 190.0)).unwrap();
    let at = |rung: &str| drawn.points.iter().find(|p| p.rung == rung).map(|p| p.at);
    let (slow, fast) = (at("01_unfused").unwrap(), at("02_fused").unwrap());
    assert!(fast.1 < slow.1 && (fast.0 - slow.0).abs() < 1e-9, "{slow:?} {fast:?}");
    assert!(at("cpu_1_thread").is_none());
    assert_eq!(drawn.lines.iter().map(|l| l.label.as_str()).collect::<Vec<_>>(), ["L2: 7402 GB/s", "DRAM: 4622 GB/s"]);
    let inside = |(x, y): (f64, f64)| (0.0..=340.0).contains(&x) && (0.0..=190.0).contains(&y);
    assert!(drawn.lines.iter().all(|l| inside(l.from) && inside(l.to)) && drawn.points.iter().all(|p| inside(p.at)));
    assert!(
        drawn.points[0].sentence.starts_with("Unfused at ") && drawn.points[0].sentence.ends_with(" FLOP/byte of DRAM")
    );
    let mut without = run;
    without.peaks.bandwidth.clear();
    assert!(roofline_points(&without, &problem(5_000_000), (340.0, 190.0)).is_none());
}
