//! Tests of comparisons of records.

use crate::common::{check_layout, check_svg};
use crate::sample;
use std::borrow::Cow;
use warpbook_charts::*;
use warpbook_record::{Define, Dtype, Grid, Inputs, KernelSpec, L2State, Run, Runner, Schedule, Source, TimedBy};

/// Checks properties that hold for every comparison.
pub fn check(of: &Comparison<'_>) {
    for row in &of.rows {
        assert_eq!(row.cells.len(), of.runs.len());
        assert!(row.cells[0].verdict.is_none() && row.cells[0].ratio.is_none());
        for cell in &row.cells[1..] {
            let first = row.cells[0].us.is_some();
            assert_eq!(cell.verdict == Some(Verdict::New), !first && cell.us.is_some(), "{cell:?}");
            assert_eq!(cell.verdict == Some(Verdict::Missing), first && cell.us.is_none(), "{cell:?}");
            assert_eq!(cell.verdict.is_none(), !first && cell.us.is_none(), "{cell:?}");
            assert!(cell.verdict != Some(Verdict::NotComparable) || !cell.why.is_empty(), "{cell:?}");
            assert!(
                cell.ratio.is_none_or(|r| r.low <= r.value && r.value <= r.high && r.value.is_finite()),
                "{cell:?}"
            );
        }
    }
    for record in 1..of.runs.len() {
        let counted: usize = of.counts(record).by.iter().sum();
        let judged = of.rows.iter().filter(|r| !r.reference && r.cells[record].verdict.is_some()).count();
        assert_eq!(counted, judged);
        assert!(of.sentence(record).ends_with('.'));
    }
    assert!(of.table().rows.iter().all(|r| r.len() == of.table().headers.len()));
    for anyway in [false, true] {
        match draw().comparison(of, anyway) {
            Ok(chart) => check_svg(&chart),
            Err(e) => assert!(e.to_string().ends_with('.'), "{e}"),
        }
    }
}

/// Returns the record with the times of one rung, or of all, scaled for all problems.
fn scaled(run: &Run, rung: &str, by: f64) -> Run {
    let mut out = run.clone();
    let all = out.measurements.iter_mut().filter(|m| rung.is_empty() || m.rung == rung);
    all.flat_map(|m| &mut m.samples_us).for_each(|us| *us *= by);
    out
}

fn verdict(of: &Comparison<'_>, rung: &str) -> Verdict {
    of.rows.iter().find(|r| r.rung == rung).and_then(|r| r.cells[1].verdict).unwrap()
}

#[test]
fn rows_are_judged_counted_and_put_in_a_sentence() {
    let one = sample::products();
    let p = sample::cube(4096, Dtype::Bf16);
    let at = |two: &Run| {
        let comparison = Comparison::from_runs(&[&one, two]).unwrap().at(&p);
        check(&comparison);
        (comparison.sentence(1), verdict(&comparison, "01_naive"), verdict(&comparison, "14_overlapped_store"))
    };
    let (same, ..) = at(&one);
    assert!(same.starts_with("record 2 against record 1: ") && same.contains(" within noise"), "{same}");
    assert!(!same.contains("faster,") && !same.contains("slower"), "{same}");
    let two = scaled(&scaled(&one, "01_naive", 0.5), "14_overlapped_store", 1.3);
    let (said, naive, last) = at(&two);
    assert_eq!((naive, last), (Verdict::Improved, Verdict::Worse));
    assert!(
        said.starts_with(
            "record 2 against record 1: “Naive” 2.00× as fast and “Stores overlapped” 0.769×; 1 faster, 1 slower, "
        ),
        "{said}"
    );
    let compared = Comparison::from_runs(&[&one, &two]).unwrap().at(&p);
    let title = draw().comparison(&compared, false).unwrap().title;
    assert!(title.starts_with("record 2 against record 1: 1 faster, 1 slower, "), "{title}");
    let all = Comparison::from_runs(&[&one, &two]).unwrap().sentence(1);
    assert!(all.contains("“Naive” 2.00× as fast at ") && all.contains(" more; "), "several problems are named: {all}");
    // A difference of 2 % is within noise.
    assert_eq!(at(&scaled(&one, "01_naive", 1.02)).1, Verdict::WithinNoise);
    let mut without = one.clone();
    without.measurements.retain(|m| m.rung != "01_naive");
    assert_eq!(at(&without).1, Verdict::Missing);
    let back = Comparison::from_runs(&[&without, &one]).unwrap().at(&p);
    assert_eq!(verdict(&back, "01_naive"), Verdict::New);
    assert!(
        draw().comparison(&back, false).unwrap().svg.as_str().contains("Naive (only in record 2)"),
        "{:?}",
        back.labels
    );
}

#[test]
fn a_library_that_moved_is_drift_and_can_be_taken_out() {
    let one = sample::products();
    let p = sample::cube(4096, Dtype::Bf16);
    let slower = scaled(&one, "", 1.2);
    let comparison = Comparison::from_runs(&[&one, &slower]).unwrap().at(&p);
    check(&comparison);
    let drift = comparison.drift(1).unwrap();
    assert!(drift.moved() && drift.foreign && (drift.factor - 1.0 / 1.2).abs() < 1e-9, "{drift:?}");
    assert!(comparison.sentence(1).contains("drifted by 17 % (slower)"), "{}", comparison.sentence(1));
    assert_eq!(verdict(&comparison, "01_naive"), Verdict::Worse);
    let normalised = comparison.normalised();
    assert_eq!(verdict(&normalised, "01_naive"), Verdict::WithinNoise);
    assert!(normalised.sentence(1).contains("taken out"), "{}", normalised.sentence(1));
    // If one of two libraries changes, either the median partly follows or that library is named.
    let one_moved = scaled(&one, "cublaslt", 1.04);
    let said = Comparison::from_runs(&[&one, &one_moved]).unwrap().at(&p).sentence(1);
    assert!(
        said.contains("within noise on the whole, but drifted: “cuBLASLt, best of 32” by 3.8 % (slower)"),
        "{said}"
    );
    // A difference between two devices is not drift.
    let mut other = slower;
    other.environment.device.name = "Tesla T4".into();
    let comparison = Comparison::from_runs(&[&one, &other]).unwrap().at(&p);
    assert!(comparison.drift(1).is_none() && !comparison.sentence(1).contains("drift"));
}

fn with_source(run: &Run, text: &str, header: &str) -> Run {
    let mut out = run.clone();
    let source = Source { path: "k/a.cu", text: "" };
    for rung in out.rungs.iter_mut().filter(|r| !r.is_cpu()) {
        let spec = KernelSpec::new(source, "f", &[], Grid::Cover).define("D", 1);
        rung.runner = Runner::Kernels { specs: vec![spec], schedule: Schedule::Launches };
    }
    out.sources = [("k/a.cu", text), ("k/b.cuh", header)].map(|(p, t)| (p.to_owned(), t.to_owned())).into();
    out
}

#[test]
fn a_kernel_of_the_same_text_is_unchanged() {
    let text = "#include \"b.cuh\"\n";
    let base = sample::h200();
    let one = with_source(&base, text, "one");
    let p = sample::problem(5_000_000);
    let unchanged = |two: &Run| {
        let comparison = Comparison::from_runs(&[&one, two]).unwrap().at(&p);
        check(&comparison);
        comparison.rows.iter().find(|r| r.rung == "02_fused").unwrap().cells[1].unchanged
    };
    let slower = scaled(&one, "", 1.5);
    assert!(unchanged(&slower));
    let comparison = Comparison::from_runs(&[&one, &slower]).unwrap().at(&p);
    assert!(
        comparison.sentence(1).contains("kernels of unchanged source drifted by 33 % (slower)"),
        "{}",
        comparison.sentence(1)
    );
    assert!(comparison.sentence(1).contains("have the same source in both"), "{}", comparison.sentence(1));
    assert!(!unchanged(&with_source(&base, "#include \"b.cuh\"\n ", "one")), "another text");
    assert!(!unchanged(&with_source(&base, text, "two")), "another header");
    let mut compiler = one.clone();
    compiler.environment.nvrtc = Some("13.1".into());
    assert!(!unchanged(&compiler));
    let mut defines = one.clone();
    for rung in &mut defines.rungs {
        if let Runner::Kernels { specs, .. } = &mut rung.runner {
            specs[0].defines = vec![Define { name: Cow::Borrowed("D"), value: 2 }];
        }
    }
    assert!(!unchanged(&defines));
}

#[test]
fn what_differs_is_said_of_each_row_and_shown_anyway() {
    let one = sample::h200();
    let p = sample::problem(5_000_000);
    let check_row = |change: &dyn Fn(&mut Run), rung: &str, expect: &str| {
        let mut two = one.clone();
        change(&mut two);
        let comparison = Comparison::from_runs(&[&one, &two]).unwrap().at(&p);
        check(&comparison);
        let row = comparison.rows.iter().find(|r| r.rung == rung).unwrap();
        if expect.is_empty() {
            assert_eq!(row.cells[1].verdict, Some(Verdict::WithinNoise), "{:?}", row.cells[1]);
            return;
        }
        assert_eq!(row.cells[1].verdict, Some(Verdict::NotComparable));
        assert!(row.cells[1].why.contains(expect), "{}", row.cells[1].why);
        let (hidden, shown) =
            (draw().comparison(&comparison, false).unwrap(), draw().comparison(&comparison, true).unwrap());
        let badge = |c: &Chart| c.svg.as_str().contains("not comparable: ");
        assert!(badge(&hidden) && !badge(&shown));
    };
    check_row(
        &|r| r.policy.timed_by = TimedBy::WallClock,
        "02_fused",
        "one timed by CUDA events, the other by the host's clock",
    );
    check_row(&|r| r.policy.timed_by = TimedBy::WallClock, "cpu_1_thread", "");
    check_row(&|r| r.policy.l2 = L2State::Cold, "02_fused", "one from a warm L2, the other from a cold L2");
    check_row(&|r| r.policy.inputs = Inputs::of_all("zeros"), "02_fused", "the other with \u{201c}zeros\u{201d}");
    check_row(&|r| r.policy.inputs = Inputs::of_all("Philox").with("several features", "Gaussian"), "02_fused", "");
    let few =
        |r: &mut Run| r.measurements.iter_mut().filter(|m| m.rung == "02_fused").for_each(|m| m.samples_us.truncate(2));
    check_row(&few, "02_fused", "2 samples in one of them");
    check_row(&few, "01_unfused", "");
    let fewer_epochs = |r: &mut Run| {
        for m in &mut r.measurements {
            m.problem = sample::regression(m.problem.size(), 1, 20, 0.01);
        }
    };
    check_row(&fewer_epochs, "02_fused", "200 epochs in one and 20 epochs in the other");
}

#[test]
fn two_to_eight_records_of_one_experiment_are_compared() {
    let one = sample::h200();
    let says = |runs: &[&Run], expect: &str| {
        let why = Comparison::from_runs(runs).unwrap_err().to_string();
        assert!(why.contains(expect) && why.ends_with('.'), "{why}");
    };
    says(&[], "no record");
    says(&[&one], "at least two");
    says(&[&one; 9], "At most 8");
    says(&[&one, &sample::softmax()], "different experiments");
    let eight: Vec<Run> = (0..8).map(|i| scaled(&one, "02_fused", 1.0 - 0.08 * f64::from(i))).collect();
    // One problem is enough here: all charts of all problems of eight records take minutes.
    let comparison = Comparison::from_runs(&eight.iter().collect::<Vec<_>>()).unwrap();
    let comparison = comparison.at(one.main_problem().unwrap());
    check(&comparison);
    assert!(comparison.sentence(7).starts_with("record 8 against record 1: "), "{}", comparison.sentence(7));
    let chart = draw().comparison(&comparison, false).unwrap();
    check_layout(&chart);
    let (_, height) = chart.svg.size();
    assert!(height < 800, "{height} px for seven rungs of eight records");
    assert_eq!(chart.svg.as_str().matches(": 8 records compared, NVIDIA H200").count(), 1, "the subtitle's");
    assert_eq!(chart.svg.as_str().matches(">NVIDIA H200").count(), 0, "no label begins with the device");
    // Only one rung has other times, and the last record's are the shortest by far.
    let finding = format!("record 8 is the fastest at 1 of {} rungs", comparison.rows.len());
    assert_eq!(chart.title, finding);
}

/// Returns the published record of the regression, and the same as a device with other ceilings and times would give it.
fn two_devices() -> [Run; 2] {
    let file = format!("{}/../../data/results/regression-h200.json", env!("CARGO_MANIFEST_DIR"));
    let here = Run::from_json(&std::fs::read(file).unwrap()).unwrap();
    let mut there = scaled(&here, "", 2.0);
    there.environment.device.name = "NVIDIA H100 80GB HBM3".into();
    for peak in &mut there.peaks.bandwidth {
        peak.samples_us.iter_mut().for_each(|us| *us *= 1.5);
    }
    for peak in &mut there.peaks.compute {
        peak.samples_us.iter_mut().for_each(|us| *us *= 1.5);
    }
    [here, there]
}

#[test]
fn two_devices_are_compared_by_shares_of_their_own_bounds() {
    let [here, there] = two_devices();
    // The record of the other device is read from a file, as a dropped one is.
    let there = Run::from_json(there.to_json().unwrap().as_bytes()).unwrap();
    let p = here.main_problem().unwrap();
    let comparison = Comparison::from_runs(&[&here, &there]).unwrap().at(p);
    check(&comparison);
    let mut shares = 0;
    for row in &comparison.rows {
        for (cell, run) in row.cells.iter().zip([&here, &there]) {
            let own = cell.measurement.filter(|_| cell.us.is_some()).and_then(|m| run.fraction_of_bound(m));
            assert_eq!(cell.share, own, "{}", row.rung);
        }
        // Twice the time below ceilings that are two thirds as high is three quarters of the share.
        let [a, b] = [&row.cells[0], &row.cells[1]].map(|cell| cell.share);
        if let (Some(a), Some(b)) = (a, b) {
            assert!((b / a - 0.75).abs() < 1e-9, "{}: {a} and {b}", row.rung);
            shares += 1;
        }
    }
    assert!(shares > 5, "{shares}");
    let on_chip = comparison.rows.iter().find(|r| r.rung == "06_on_chip").unwrap();
    let words = [0, 1].map(|i| on_chip.cells[i].share_in_words().unwrap());
    assert!(words.iter().all(|w| w.ends_with(" % of its limit")) && words[0] != words[1], "{words:?}");
    let chart = draw().comparison(&comparison, false).unwrap();
    check_layout(&chart);
    let svg = chart.svg.as_str();
    assert!(svg.contains("time, ratio, % of own limit") && svg.contains(" % → "), "{svg}");
    assert!(svg.contains("The records are of different devices: NVIDIA H200 and NVIDIA H100 80GB HBM3."), "{svg}");
    let column = comparison.table().headers.iter().position(|h| h == "% of own bound").unwrap();
    assert!(comparison.table().rows.iter().filter(|r| !r[column].is_empty()).count() >= 2 * shares);
    // Between records of one device, ratios say all.
    let same = Comparison::from_runs(&[&here, &here]).unwrap().at(p);
    assert!(same.rows.iter().flat_map(|r| &r.cells).all(|c| c.share.is_none() && c.share_in_words().is_none()));
    assert!(!draw().comparison(&same, false).unwrap().svg.as_str().contains(" → "));
}

#[test]
fn labels_say_what_tells_records_apart() {
    let one = sample::h200();
    let labels = |change: &dyn Fn(&mut Run)| {
        let mut two = one.clone();
        change(&mut two);
        record_labels(&[&one, &two])
    };
    assert_eq!(labels(&|r| r.environment.device.name = "Tesla T4".into()), ["NVIDIA H200", "Tesla T4"]);
    assert_eq!(labels(&|r| r.created = "2026-12-24T18:30:00Z".into()), ["2026-11-21", "2026-12-24"]);
    assert_eq!(labels(&|r| r.created = "2026-11-21T18:30:00Z".into()), ["2026-11-21 08:00", "2026-11-21 18:30"]);
    assert_eq!(labels(&|_| {}), ["record 1", "record 2"]);
    let comparison = Comparison::from_runs(&[&one, &one]).unwrap().labelled(&["before <b>".into(), String::new()]);
    assert_eq!(comparison.labels, ["before <b>", "record 2"]);
    assert!(draw().comparison(&comparison, false).unwrap().svg.as_str().contains(">before &lt;b&gt; (1×)</text>"));
}

#[test]
fn the_noise_rule_and_problems_apart_are_said() {
    assert!(noise_rule().contains("95 %"));
    let one = sample::h200();
    let mut two = one.clone();
    two.measurements.retain(|m| m.problem.size() <= 5_000_000);
    let comparison = Comparison::from_runs(&[&one, &two]).unwrap();
    assert_eq!((comparison.problems.len(), comparison.apart), (4, 3));
    assert!(comparison.sentence(1).contains("3 problems not in every record"), "{}", comparison.sentence(1));
}
