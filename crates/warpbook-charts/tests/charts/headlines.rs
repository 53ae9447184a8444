//! Tests of the headlines of records.

use crate::sample;
use warpbook_charts::*;
use warpbook_record::{Baseline, Grid, KernelSpec, Outcome, Quantity, Right, Rung, Runner, Schedule, Source, setting};

fn labels(headline: &Headline) -> Vec<&str> {
    headline.tiles.iter().map(|t| t.label.as_str()).collect()
}

#[test]
fn a_headline_names_the_fastest_and_its_baseline() {
    let run = sample::h200();
    let problem = run.main_problem().unwrap();
    let found = headline(&run, problem).unwrap();
    assert_eq!(found.rung, run.fastest(problem).unwrap().rung);
    assert_eq!(found.sentence, "“Fused in a graph” is the fastest: 2.31 ms, 1729× as fast as “CPU, one thread”.");
    assert_eq!(found.more, "It runs at 60 % of the DRAM limit. Its result passed the check.");
    let short = record_summary(&run).0;
    assert!(
        short.starts_with("“Fused in a graph” is the fastest at 5 M points, 200 epochs: 2.31 ms, 1729×"),
        "{short}"
    );
    assert!(short.ends_with(&found.more), "{short}");
    assert_eq!(labels(&found), ["Fastest", "vs the baseline", "% of bound", "Check"]);
    // The other framework comes first, then libraries; each rung appears once.
    let run = sample::softmax();
    let found = headline(&run, run.main_problem().unwrap()).unwrap();
    assert_eq!(labels(&found), ["Fastest", "vs frameworks", "vs the baseline", "% of bound", "Check"]);
    assert_eq!(found.tiles[0].value, "4335 GB/s", "the record's headline quantity");
    // The sentence says if a library is faster.
    let run = sample::products();
    let found = headline(&run, run.main_problem().unwrap()).unwrap();
    assert!(found.sentence.starts_with("“cuBLASLt, best of 32” is the fastest"), "{}", found.sentence);
    assert_eq!(found.tiles[1].label, "vs kernels");
}

#[test]
fn a_rung_that_is_alone_is_not_called_the_fastest() {
    let mut run = sample::h200();
    let problem = run.main_problem().unwrap().clone();
    let best = run.fastest(&problem).unwrap().rung.clone();
    run.measurements.retain(|m| m.rung == best);
    run.descriptor.baseline = Baseline::FirstValid;
    let found = headline(&run, &problem).unwrap();
    assert_eq!(found.sentence, "“Fused in a graph”: 2.31 ms.");
    assert_eq!(found.tiles[0].label, "Result");
    let short = record_summary(&run).0;
    assert!(short.starts_with("“Fused in a graph” at 5 M points, 200 epochs: 2.31 ms."), "{short}");
    let chart = draw().ladder(&run, &problem, Quantity::Time).unwrap();
    assert_eq!(chart.title, "“Fused in a graph” takes 2.31 ms");
    let svg = chart.svg.as_str();
    assert!(!svg.contains("fastest") && !svg.contains("1.00×"), "{svg}");
    run.measurements.iter_mut().for_each(|m| m.test = [9010, 9030].map(|correct| Right { correct, of: 10_000 }).into());
    let chart = draw().ladder(&run, &problem, Quantity::Time).unwrap();
    assert_eq!(chart.title, "“Fused in a graph” reaches 90.20 % in 2.31 ms");
}

#[test]
fn a_training_to_an_accuracy_says_its_goal_its_data_and_where_its_time_begins() {
    let mut run = sample::h200();
    let timed = |data: &str| {
        run.main_problem().unwrap().with(|p| {
            let words = [("data", data), ("from", "the start of a process")];
            p.sizes = words.map(|(name, word)| setting(name, word)).into();
            p.sizes.push(setting("accuracy", 90.0));
        })
    };
    let (plain, noted) = (timed("CIFAR-10"), timed("CIFAR-10, recompressed"));
    let reaches = "“Fused in a graph” reaches 90 % on CIFAR-10";
    let rest = " in 2.31 ms from the start of a process, 1729× as fast as “CPU, one thread”.";
    assert_eq!(headline(&run, &plain).unwrap().sentence, format!("{reaches}{rest}"));
    assert_eq!(headline(&run, &noted).unwrap().sentence, format!("{reaches} (recompressed){rest}"));
    run.measurements.iter_mut().filter(|m| m.problem == plain).for_each(|m| m.problem = plain.clone());
    let short = record_summary(&run).0;
    assert!(short.starts_with(&format!("{reaches}{rest}")), "{short}");
}

#[test]
fn a_large_size_is_short_in_a_pairs_sentence() {
    let mut run = sample::h200();
    let problem = run.main_problem().unwrap().clone();
    run.descriptor.compared = vec!["02_fused".into(), "01_unfused".into()];
    let check = |label: &str, expect: &str| {
        let sentence = headline(&run, &problem.with(|p| p.label = label.into())).unwrap().sentence;
        assert!(sentence.starts_with(&format!("With {expect}, “")), "{sentence}");
    };
    check("524288 KiB walked through", "512 MiB walked through");
    check("16384 KiB", "16 MiB");
    check("4194304 elements", "4 M elements");
    check("262144 elements", "262144 elements");
    check("32 words between neighbours", "32 words between neighbours");
}

#[test]
fn a_pair_says_its_ratio_and_the_reason() {
    let mut run = sample::h200();
    let problem = run.main_problem().unwrap().clone();
    run.descriptor.compared = vec!["02_fused".into(), "01_unfused".into()];
    let ratio = "With 5 M points, 200 epochs, “Unfused” is 0.227× as fast as “Fused”.";
    assert_eq!(headline(&run, &problem).unwrap().sentence, ratio);
    run.descriptor.reason = "It moves more.".into();
    let found = headline(&run, &problem).unwrap();
    assert_eq!((&*found.sentence, &*found.more, &*found.rung), (ratio, "It moves more.", "01_unfused"));
    assert_eq!(record_summary(&run).2, ["3.15 ms · Fused", "13.9 ms · Unfused", "0.227×", "It moves more."]);
    let seen: Vec<(&str, &str)> = found.tiles.iter().take(3).map(|t| (&*t.label, &*t.value)).collect();
    assert_eq!(seen, [("Times as fast", "0.227×"), ("Slow way", "3.15 ms"), ("Fast way", "13.9 ms")]);
    let chart = draw().ladder(&run, &problem, Quantity::Time).unwrap();
    assert_eq!(chart.title, "“Unfused” is 0.227× as fast as “Fused”");
    // Memory that differs is told before the reason.
    for (rung, bytes) in [("02_fused", 74 << 20), ("01_unfused", 271 << 20)] {
        run.measurements.iter_mut().filter(|m| m.rung == rung).for_each(|m| m.peak_bytes = Some(bytes));
    }
    let held = "“Unfused” holds 271 MiB of the device's memory, and “Fused” 74 MiB. It moves more.";
    assert_eq!(headline(&run, &problem).unwrap().more.replace("74.0", "74"), held);
    // If the slow or the fast way has no figure, the headline is the general one.
    run.measurements.retain(|m| m.rung != "01_unfused");
    assert!(headline(&run, &problem).unwrap().sentence.contains(" is the fastest: "));
}

#[test]
fn what_is_short_of_a_learners_record_is_of_their_kernel() {
    let mut run = sample::h200();
    let problem = run.main_problem().unwrap().clone();
    let source = Source { path: "live/mine.cu", text: "" };
    let mut mine = run.rungs.iter().find(|r| r.id == "02_fused").unwrap().clone();
    (mine.id, mine.title, mine.variant_of) = ("mine".into(), "Mine".into(), Some("02_fused".into()));
    mine.runner =
        Runner::Kernels { specs: vec![KernelSpec::new(source, "f", &[], Grid::Cover)], schedule: Schedule::Launches };
    run.rungs.push(mine);
    let mut m = run.measurement("02_fused", &problem).unwrap().clone();
    m.rung = "mine".into();
    m.samples_us.iter_mut().for_each(|us| *us *= 2.0);
    run.measurements.push(m);
    let said = record_summary(&run).0;
    assert!(said.starts_with("“Mine” at 5 M points, 200 epochs: 6."), "{said}");
    assert!(said.ends_with(" ms, 2.00× the time of “Fused”. Its result passed the check."), "{said}");
    run.measurements.last_mut().unwrap().check = None;
    assert_eq!(record_summary(&run).0, "“Mine” does not count at 5 M points, 200 epochs: its result was not checked.");
}

#[test]
fn what_failed_or_is_no_time_is_not_the_fastest() {
    let mut run = sample::h200();
    let problem = run.main_problem().unwrap().clone();
    let fastest = run.fastest(&problem).unwrap().rung.clone();
    let at =
        |run: &warpbook_record::Run| run.measurements.iter().position(|m| m.rung == fastest && m.problem == problem);
    let i = at(&run).unwrap();
    run.measurements[i].check.as_mut().unwrap().passed = false;
    assert_ne!(headline(&run, &problem).unwrap().rung, fastest);
    for m in &mut run.measurements {
        m.outcome = Outcome::Skipped { why: "no GPU".into() };
    }
    run.train_logs.clear();
    assert_eq!(headline(&run, &problem), None);
    assert!(sparkline(&run, &problem).is_empty());
}

#[test]
fn a_rate_that_nothing_is_known_of_is_a_time() {
    let mut run = sample::h200();
    run.descriptor.headline = Quantity::ItemRate;
    let problem = run.main_problem().unwrap().clone();
    assert_eq!(headline(&run, &problem).unwrap().tiles[0].value, "2.31 ms");
}

#[test]
fn a_training_says_what_it_reached() {
    let mut run = sample::trained();
    let problem = run.train_logs[0].problem.clone();
    let found = headline(&run, &problem).unwrap();
    assert_eq!(labels(&found), ["Test samples right", "Test loss", "Time"]);
    assert!(
        found.sentence.contains("trained for 5 epochs: 99.20 % of the test samples are right"),
        "{}",
        found.sentence
    );
    run.train_logs[0].losses[0].loss = f64::NAN;
    let found = headline(&run, &problem).unwrap();
    assert!(found.sentence.contains("diverged"), "{}", found.sentence);
    assert_eq!(found.tiles[0].value, "diverged");
}

/// The headline shows the fastest training that Warpbook made of a problem, that ran to its end and that did not diverge.
#[test]
fn the_fastest_training_is_in_the_headline() {
    let mut run = sample::trained();
    run.rungs = sample::h200().rungs;
    run.rungs.push(Rung {
        id: "pytorch_compiled".into(),
        title: "PyTorch, compiled".into(),
        runner: Runner::External("PyTorch 2.11.0".into()),
        ..run.rungs[0].clone()
    });
    let mut add = |rung: &str, total_s: f64, ended: &str| {
        let mut log = run.train_logs[0].clone();
        log.rung = rung.into();
        let course = log.course.as_mut().unwrap();
        (course.total_s, course.ended) = (total_s, ended.into());
        run.train_logs.push(log);
    };
    add("02_fused", 0.45, "finished");
    add("01_unfused", 0.25, "stopped");
    add("pytorch_compiled", 0.35, "finished");
    add("03_fused_streams", 0.3, "finished");
    run.train_logs.last_mut().unwrap().losses[0].loss = f64::NAN;
    let (sentence, _, cells) = record_summary(&run);
    assert_eq!(cells, ["mnist, batch 512, synthetic digits, 590 steps", "450 ms · Fused", "99.20 %"], "{sentence}");
    assert!(sentence.starts_with("“Fused” trained for 5 epochs"), "{sentence}");
    assert!(sentence.ends_with(", in 450 ms: 0.778× as fast as “PyTorch, compiled”."), "{sentence}");
}

/// A rung that was trained from several seeds counts by the training with the median time: the first seed may be slow.
#[test]
fn a_training_from_several_seeds_counts_by_their_median() {
    let mut run = sample::trained();
    run.rungs = sample::h200().rungs;
    let first = run.train_logs.remove(0);
    let of_seed = |seed: u64| {
        first.problem.with(|p| {
            p.id = format!("seed={seed}");
            p.sizes.retain(|size| size.name != "seed");
            p.sizes.push(setting("seed", seed));
        })
    };
    for (rung, seconds) in [("01_unfused", [0.92, 0.9, 0.91]), ("02_fused", [3.1, 0.24, 0.23])] {
        for (seed, total_s) in (1..).zip(seconds) {
            let mut log = first.clone();
            (log.rung, log.problem) = (rung.into(), of_seed(seed));
            let course = log.course.as_mut().unwrap();
            (course.total_s, course.ended) = (total_s, "finished".into());
            run.train_logs.push(log);
        }
    }
    let says = |run: &warpbook_record::Run, seed| headline(run, &of_seed(seed)).unwrap().sentence;
    for seed in 1..=3 {
        let said = says(&run, seed);
        assert!(said.starts_with("“Fused” trained for 5 epochs"), "{said}");
        assert!(said.ends_with(", in 240 ms, the median of 3 seeds."), "{said}");
    }
    // Trainings of another batch are other work, not another seed.
    let other = of_seed(2).with(|p| p.sizes.push(setting("batch", 7)));
    run.train_logs[4].problem = other;
    assert!(says(&run, 1).ends_with(", in 230 ms, the median of 2 seeds."), "{}", says(&run, 1));
}

#[test]
fn a_sparkline_is_the_ladder_in_heights() {
    let run = sample::h200();
    let problem = run.main_problem().unwrap();
    let heights = sparkline(&run, problem);
    let sound = run.ladder(problem).iter().filter(|row| run.is_sound(row.measurement)).count();
    assert_eq!(heights.len(), sound);
    assert_eq!(heights.iter().copied().fold(0.0, f64::max), 1.0);
    assert_eq!(heights.iter().copied().fold(1.0, f64::min), 0.0);
}
