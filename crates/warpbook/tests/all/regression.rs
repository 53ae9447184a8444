//! End-to-end tests of the regression, on the CPU and, if there is one, on a GPU.

use warpbook::device::testing;
use warpbook::kernels::regression::Line;
use warpbook::prelude::experiment::*;
use warpbook::prelude::*;
use warpbook::record::{DeviceKind, Outcome, Runner};
use warpbook::{DataSet, Moments};

fn quick_lab(device: &str) -> Lab {
    Lab::open(device).unwrap().with_bench(Bench { samples: 3, budget_s: 0.1, warmup: 1, ..Bench::default() })
}

#[test]
fn the_cpu_measures_its_rungs_and_skips_the_others() {
    let run = quick_lab("cpu").run(&Regression::new().points([10_007, 100_000])).unwrap();
    assert_eq!(run.environment.device.kind, DeviceKind::Cpu);
    for m in &run.measurements {
        let cpu = matches!(run.rung(&m.rung).unwrap().runner, Runner::Cpu(_));
        match &m.outcome {
            Outcome::Measured => assert!(cpu && m.is_valid(), "{m:?}"),
            Outcome::Skipped { why } => {
                assert!(!cpu && why.contains("compute capability") && why.contains("CPU"), "{why}");
                assert!(m.kernels.iter().all(|k| k.registers > 0), "{m:?}");
            }
            Outcome::Failed { error } => panic!("{}: {error}", m.rung),
        }
    }
    assert_eq!(run.counts(), (4, 22, 0));
    let problem = run.problems()[1].clone();
    let log = run.train_log("cpu_all_threads", &problem).unwrap();
    assert_eq!(log.losses.len(), 20);
    assert_eq!((log.losses[0].epoch, log.losses[19].epoch), (10, 200));
    assert!(log.losses.windows(2).all(|p| p[1].loss < p[0].loss), "{:?}", log.losses);
    assert!((log.test_loss - log.train_loss).abs() < 0.1 * log.train_loss, "{log:?}");
    // Writing and reading does not change the record.
    let folder = tempfile::tempdir().unwrap();
    let path = write_record(&run, folder.path().join("run.json")).unwrap();
    assert_eq!(read_record(&path).unwrap().to_json().unwrap(), run.to_json().unwrap());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let lab = quick_lab("cpu");
    let check = |experiment: Regression, expect: &str| {
        let error = lab.run(&experiment).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    let one = || Regression::new().points([1000]);
    check(Regression::new().points([]), "No size");
    check(Regression::new().points([0]), "too few");
    check(Regression::new().points([1]), "too few");
    check(Regression::new().points([u64::MAX]), "too many");
    check(Regression::new().points([1 << 39]), "memory");
    check(one().features(0), "features");
    check(one().features(257), "features");
    check(one().also(1 << 38, 256), "memory");
    check(one().also(0, 3), "too few");
    check(one().epochs(0), "epochs");
    check(one().epochs(1 << 40), "epochs");
    check(one().learning_rate(-0.01), "learning rate of -0.01");
    check(one().learning_rate(f32::NAN), "learning rate");
    check(one().noise(-1.0), "noise");
    check(one().start(f32::NAN, 0.0), "start of NaN");
    check(one().truth(1.0, f32::INFINITY), "true line of 1 and inf");
    check(one().range(3.0, 3.0), "smaller number first");
    check(one().range(-1.0, 1.0).also(100, 3), "Leave --range out");
    check(one().rungs(["04_fused_grap"]), "Did you mean `04_fused_graph`");
    check(one().rungs(Vec::<String>::new()), "No rung");
    check(one().tile("t7"), "There is no tile");
}

#[test]
fn the_cpu_takes_several_features() {
    let run = quick_lab("cpu").run(&Regression::new().points([1000]).also(10_007, 17).also(2, 3)).unwrap();
    let [_, many, few] = run.problems()[..] else { panic!("{:?}", run.problems()) };
    for problem in [many, few] {
        for m in run.measurements.iter().filter(|m| m.problem == *problem) {
            let cpu = matches!(run.rung(&m.rung).unwrap().runner, Runner::Cpu(_));
            match &m.outcome {
                Outcome::Measured => assert!(cpu && m.is_valid(), "{m:?}"),
                Outcome::Skipped { why } if m.rung == "08_multivariate" => assert!(why.contains("compute capability")),
                Outcome::Skipped { why } => assert!(why.contains("08_multivariate takes several"), "{why}"),
                Outcome::Failed { error } => panic!("{}: {error}", m.rung),
            }
        }
    }
    let log = run.train_log("cpu_1_thread", many).unwrap();
    assert_eq!(log.parameters.len(), 18);
    // 200 epochs at 0.01 bring the weights most of the way from 0.83 to 3, -3/2, 1 ... 3/17.
    assert!((log.parameters["w0"] - 3.0).abs() < 0.1 && (log.parameters["w1"] + 1.5).abs() < 0.1, "{log:?}");
    assert!(run.command.contains("--also 10007x17"), "{}", run.command);
}

#[test]
fn a_descent_begins_where_it_is_told_and_finds_another_line() {
    let one = Regression::new().points([10_000]).epochs(300).learning_rate(0.05).noise(0.0).rungs(["cpu_1_thread"]);
    let run = quick_lab("cpu").run(&one.clone().start(2.0, -3.0).truth(-0.5, 4.0).range(-2.0, 2.0)).unwrap();
    let (problem, log) = (run.problems()[0], &run.train_logs[0]);
    let names = ["start_w", "start_b", "true_w", "true_b", "x_min", "x_max"];
    let sizes = |p: &Problem| names.map(|name| p.sizes.iter().find(|s| s.name == name).map(|s| s.value.to_string()));
    assert_eq!(sizes(problem).map(Option::unwrap_or_default), ["2", "-3", "-0.5", "4", "-2", "2"]);
    assert!((log.parameters["w"] + 0.5).abs() < 1e-4 && (log.parameters["b"] - 4.0).abs() < 1e-4, "{log:?}");
    assert!(run.command.contains("--start 2,-3 --truth -0.5,4 --range -2,2"), "{}", run.command);
    let inputs = run.policy.inputs.to_string();
    assert!(inputs.contains("[-2, 2)") && inputs.contains("y = -0.5 x + 4"), "{inputs}");
    // A record with the default line does not change.
    let usual = quick_lab("cpu").run(&one).unwrap();
    assert!(sizes(usual.problems()[0]).iter().all(Option::is_none) && !usual.command.contains("--start"));
    assert!(!usual.problems()[0].same_line(problem));
    // Reading the record's JSON gives an equal record.
    let again = Run::from_json(run.to_json().unwrap().as_bytes()).unwrap();
    assert_eq!(again.problems()[0], problem);
}

#[test]
fn a_diverging_descent_is_reported_as_such() {
    let run =
        quick_lab("cpu").run(&Regression::new().points([1000]).learning_rate(1.0).rungs(["cpu_1_thread"])).unwrap();
    let Outcome::Failed { error } = &run.measurements[0].outcome else { panic!("{:?}", run.measurements[0]) };
    assert!(error.contains("diverged") && error.contains("smaller learning rate"), "{error}");
    assert!(!run.measurements[0].is_valid());
    assert!(run.train_logs[0].diverged());
}

#[test]
fn an_interrupted_run_keeps_what_it_has() {
    let lab = quick_lab("cpu");
    let cancel = lab.cancel();
    let lab = lab.with_listener(move |event| {
        if matches!(event, Event::Finished { .. }) {
            cancel.cancel();
        }
    });
    let run = lab.run(&Regression::new().points([1000, 2000])).unwrap();
    assert_eq!(run.counts().0, 1);
    assert!(run.notes.iter().any(|n| n.starts_with("Interrupted after 1 of 26")), "{:?}", run.notes);
}

#[test]
fn a_record_that_cannot_be_written_is_an_error_and_nothing_is_lost() {
    let run = quick_lab("cpu").run(&Regression::new().points([1000]).rungs(["cpu_1_thread"])).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kept.json");
    std::fs::write(&file, "older").unwrap();
    let error = write_record(&run, file.join("below-a-file.json")).unwrap_err().to_string();
    assert!(error.contains("cannot be written") && error.contains("choose another place"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "older");
    assert!(write_record(&run, folder.path()).is_err());
}

#[test]
fn every_rung_descends_on_a_gpu_as_the_reference_does() {
    let Some(device) = testing::gpu("every_rung_descends_on_a_gpu_as_the_reference_does") else { return };
    let lab = quick_lab("cuda:0");
    // These sizes leave a remainder for a group of four, a block and a grid; one size is round.
    let sizes = [2u64, 3, 5, 6, 7, 37, 1001, 5119, 100_003, 1_000_000, 3_333_331];
    let run = lab.run(&Regression::new().points(sizes).parts(false)).unwrap();
    for m in &run.measurements {
        assert!(m.is_valid(), "{} at {}: {:?} {:?}", m.rung, m.problem.size(), m.outcome, m.check);
    }
    assert_eq!(run.measurements.len(), sizes.len() * run.rungs.len());
    assert_eq!(run.environment.device.name, device.info().name);
}

#[test]
fn any_number_of_features_descends_on_a_gpu() {
    if testing::gpu("any_number_of_features_descends_on_a_gpu").is_none() {
        return;
    }
    let sizes =
        [(2u64, 2u64), (3, 9), (37, 3), (1001, 5), (5119, 16), (4099, 17), (100_003, 31), (3001, 100), (20_003, 256)];
    for tile in ["t512f16", "t512f8"] {
        let experiment = sizes.iter().fold(Regression::new().points([1_000_001]), |e, (p, f)| e.also(*p, *f));
        let run = quick_lab("cuda:0").run(&experiment.tile(tile).rungs(["08_multivariate"]).parts(false)).unwrap();
        for m in &run.measurements {
            assert!(m.is_valid(), "{tile} {:?}: {:?} {:?}", m.problem, m.outcome, m.check);
            assert!(m.tile.as_deref() == Some(tile) || m.problem.count("features") > Some(128), "{m:?}");
        }
        assert_eq!(run.measurements.len(), sizes.len() + 1);
    }
}

#[test]
fn points_lie_where_the_rule_says() {
    let Some(device) = testing::gpu("points_lie_where_the_rule_says") else { return };
    let run = quick_lab("cuda:0")
        .run(&Regression::new().points([10_000, 3_000_000, 60_000_000]).rungs(["06_on_chip"]).parts(false))
        .unwrap();
    let choices: Vec<&str> = run.measurements.iter().map(|m| m.choice.as_deref().unwrap()).collect();
    assert!(run.measurements.iter().all(warpbook::record::Measurement::is_valid), "{run:?}");
    if device.info().compute_capability >= Some((9, 0)) {
        assert!(choices[0].contains("one cluster"), "{choices:?}");
        assert_eq!(run.measurements[0].kernels[0].entry, "descend_in_cluster");
    }
    assert!(choices[2].contains("05b_persistent_alternating"), "{choices:?}");
    assert_eq!(run.measurements[2].kernels[0].file, "regression/05_persistent.cu");
    for m in &run.measurements {
        assert!(run.bound(m).is_some_and(|b| b.us > 0.0), "{m:?} {:?}", run.bound(m));
    }
}

/// This work is small enough for compute-sanitizer.
#[test]
fn few_epochs_over_few_points_are_right_too() {
    if testing::gpu("few_epochs_over_few_points_are_right_too").is_none() {
        return;
    }
    let lab = quick_lab("cuda:0").with_bench(Bench { samples: 1, warmup: 1, budget_s: 0.01, ..Bench::default() });
    let run = lab
        .run(
            &Regression::new()
                .points([2, 6, 37, 5119, 40_003, 600_001])
                .also(1001, 5)
                .also(517, 40)
                .epochs(11)
                .parts(false),
        )
        .unwrap();
    for m in run.measurements.iter().filter(|m| !matches!(m.outcome, Outcome::Skipped { .. })) {
        assert!(m.is_valid(), "{} at {}: {:?} {:?}", m.rung, m.problem.size(), m.outcome, m.check);
    }
    assert!(run.counts().0 >= 6 * run.rungs.len());
}

#[test]
fn every_tile_gives_the_right_answer() {
    if testing::gpu("every_tile_gives_the_right_answer").is_none() {
        return;
    }
    let lab = quick_lab("cuda:0");
    let rungs = warpbook::kernels::regression::rungs();
    let mut tiles: Vec<String> =
        rungs.iter().flat_map(|r| r.kernels()).flat_map(|k| &k.tiles).map(|t| t.id.to_string()).collect();
    tiles.sort();
    tiles.dedup();
    for tile in tiles {
        let run = lab.run(&Regression::new().points([77_777]).tile(&*tile).parts(false)).unwrap();
        assert!(run.measurements.iter().all(|m| m.is_valid()), "{tile}: {:?}", run.measurements);
    }
}

#[test]
fn the_same_bits_come_out_on_every_run() {
    if testing::gpu("the_same_bits_come_out_on_every_run").is_none() {
        return;
    }
    let lab = quick_lab("cuda:0");
    let logs = || lab.run(&Regression::new().points([500_009]).parts(false)).unwrap().train_logs;
    let (first, second) = (logs(), logs());
    assert!(!first.is_empty());
    assert_eq!(first, second);
    // The graph replays the fused rung's launches and must give the same results.
    let log_of = |id: &str| first.iter().find(|l| l.rung == id).map(|l| (l.losses.clone(), l.parameters.clone()));
    assert_eq!(log_of("02_fused"), log_of("04_fused_graph"));
    assert!(log_of("04b_fused_graph_overlapped").is_none_or(|log| Some(log) == log_of("02_fused")));
}

#[test]
fn the_parts_of_an_epoch_are_timed() {
    if testing::gpu("the_parts_of_an_epoch_are_timed").is_none() {
        return;
    }
    let run =
        quick_lab("cuda:0").run(&Regression::new().points([1_000_000]).rungs(["01_unfused", "02_fused"])).unwrap();
    let problem = run.problems()[0].clone();
    let names = |rung: &str, group| -> Vec<String> {
        run.parts_of(rung, &problem, group).iter().map(|s| s.name.clone()).collect()
    };
    assert_eq!(names("01_unfused", PartGroup::Operation), ["forward", "loss", "gradient w", "gradient b", "update"]);
    assert_eq!(names("02_fused", PartGroup::Operation), ["pass", "update"]);
    assert_eq!(names("02_fused", PartGroup::Ablation).len(), 7);
    assert!(run.parts.iter().all(|s| s.median_us() > Some(0.0)), "{:?}", run.parts);
}

#[test]
fn gpu_and_cpu_draw_the_same_points() {
    if testing::gpu("gpu_and_cpu_draw_the_same_points").is_none() {
        return;
    }
    // The logged test loss of a run is based on the points that the GPU drew; the CPU's points must give the same loss.
    let other = Line { start: (1.0, -1.0), truth: (-0.3, 0.7), range: (-3.0, 1.7) };
    for (points, noise, seed, line) in [
        (100_003u64, 0.1f32, 1u64, Line::default()),
        (7, 0.5, 9, Line::default()),
        (65_536, 0.0, u64::MAX, Line::default()),
        (100_003, 0.1, 1, other),
    ] {
        let Line { start, truth, range } = line;
        let experiment =
            Regression::new().points([points]).noise(noise).seed(seed).rungs(["04_fused_graph"]).parts(false);
        let experiment = experiment.start(start.0, start.1).truth(truth.0, truth.1).range(range.0, range.1);
        let run = quick_lab("cuda:0").run(&experiment).unwrap();
        assert!(run.measurements[0].is_valid(), "{:?}", run.measurements[0]);
        let log = &run.train_logs[0];
        let set = DataSet::around(&line, (points, 1), noise, seed);
        let (w, b) = (log.parameters["w"], log.parameters["b"]);
        assert_eq!(log.test_loss, Moments::from_points(set.test().0[0], set.test().1).loss(w, b));
        assert_eq!(log.train_loss, Moments::from_points(set.training().0[0], set.training().1).loss(w, b));
    }
}

#[test]
fn a_size_beyond_the_memory_is_refused_before_it_is_drawn() {
    if testing::gpu("a_size_beyond_the_memory_is_refused_before_it_is_drawn").is_none() {
        return;
    }
    let error = quick_lab("cuda:0").run(&Regression::new().points([1 << 38])).unwrap_err().to_string();
    assert!(error.contains("needs") && error.contains("are free."), "{error}");
}
