//! Tests of training as an experiment: on the CPU, and on a GPU if there is one.

use std::time::Instant;
use warpbook::charts::{self, Quantity};
use warpbook::device::{Bench, testing};
use warpbook::nn::train::{Precision, Recipe, ways};
use warpbook::record::{Column, Measurement, Outcome, Run};
use warpbook::settings::Preset;
use warpbook::{Error, Experiment, Lab, Show, Training, Workload, experiments};

fn lab(device: &str) -> Lab {
    Lab::open(device).unwrap().with_bench(Bench { samples: 3, budget_s: 0.2, warmup: 1, ..Bench::default() })
}

fn measurement<'a>(run: &'a Run, rung: &str) -> &'a Measurement {
    run.measurements.iter().find(|m| m.rung == rung).unwrap_or_else(|| panic!("no row of {rung}"))
}

/// Debug builds multiply matrices slowly, so this experiment is small.
fn small() -> Training {
    if cfg!(debug_assertions) { Training::quick().batches([32]).steps(3) } else { Training::quick() }
}

#[test]
fn the_quick_preset_trains_on_the_cpu_and_says_why_not_on_a_gpu() {
    let clock = Instant::now();
    let run = lab("cpu").run(&small()).unwrap();
    println!("{:.1} s", clock.elapsed().as_secs_f64());
    let cpu = measurement(&run, "cpu_all_threads");
    assert!(cpu.is_valid(), "{:?} {:?}", cpu.outcome, cpu.check);
    assert!(cpu.items_per_s().is_some_and(|rate| rate > 1.0) && cpu.flops_per_s().is_some());
    assert!(cpu.check.as_ref().unwrap().reference.contains("made before"));
    for way in ways() {
        match &measurement(&run, way.id).outcome {
            Outcome::Skipped { why } => assert!(why.contains("needs a GPU"), "{}: {why}", way.id),
            other => panic!("{}: {other:?}", way.id),
        }
    }
    assert_eq!(run.counts(), (1, ways().len(), 0));
    assert_eq!(run.problems[0].label, format!("MNIST CNN, batch {}, synthetic digits", run.problems[0].size()));
    assert!(run.policy.inputs.to_string().contains("in place of MNIST"), "{}", run.policy.inputs);
    let log = &run.train_logs[0];
    assert!(log.losses.len() >= 3 && log.losses.iter().all(|p| p.loss > 0.0 && p.step.is_some()));
    let libraries: Vec<&str> = run.rungs.iter().filter(|r| r.is_library()).map(|r| &*r.id).collect();
    assert_eq!(
        libraries,
        ["stock_products_fp32", "stock_products_fp16", "stock_convolutions_fp16", "stock_suggested_fp16", "stock_fp16"]
    );
    for rung in run.rungs.iter().filter(|r| !r.is_cpu() && !r.is_library()) {
        assert!(rung.kernels().len() > 8, "{}", rung.id);
        assert!(rung.kernels().iter().all(|k| run.sources.contains_key(&*k.file)), "{}", rung.id);
    }

    // Losses on the test set are NaN, which equals nothing, so the records are compared as JSON.
    let json = run.to_json().unwrap();
    assert_eq!(Run::from_json(json.as_bytes()).unwrap().to_json().unwrap(), json);

    let losses = charts::draw().loss_curve(&run, &run.problems[0]).unwrap();
    assert!(losses.description.contains("over the steps"), "{}", losses.description);
    let ladder = charts::draw().ladder(&run, &run.problems[0], Quantity::ItemRate).unwrap();
    assert!(ladder.svg.as_str().contains("images/s"), "{}", ladder.description);
    let table = charts::LadderTable::for_problem(&run, &run.problems[0]);
    assert!(table.headers.iter().any(|h| h.column == Column::PeakMemory));
    assert!(run.text().contains("cpu_all_threads") && run.train_logs[0].text().contains("step"));
}

/// With a seed, a problem has the same losses every time; on a GPU only the device differs.
#[test]
fn a_seed_gives_the_same_losses() {
    let losses = |seed: u64| {
        let run =
            lab("cpu").run(&Training::quick().batches([8]).steps(2).seed(seed).rungs(["cpu_all_threads"])).unwrap();
        run.train_logs[0].losses.iter().map(|p| p.loss).collect::<Vec<_>>()
    };
    assert_eq!(losses(1), losses(1));
    assert_ne!(losses(1), losses(2));
}

#[test]
fn every_network_trains_on_the_cpu() {
    let training =
        Training::quick().networks(Workload::ALL).batches([32]).features(64).steps(2).rungs(["cpu_all_threads"]);
    let run = lab("cpu").run(&training).unwrap();
    for m in &run.measurements {
        assert!(m.is_valid(), "{}: {:?} {:?}", m.problem.label, m.outcome, m.check);
    }
    let labels: Vec<&str> = run.problems.iter().map(|p| p.label.as_str()).collect();
    assert_eq!(
        labels,
        [
            "MNIST CNN, batch 32, synthetic digits",
            "CIFAR-10 CNN, batch 32, synthetic noise",
            "AMP recipe, three layers of 64, batch 32, Gaussian numbers"
        ]
    );
    let amp = run.train_logs[2].losses.iter().map(|p| p.loss).collect::<Vec<_>>();
    assert!(amp[1] < amp[0] * 0.9999, "a step has to show: {amp:?}");
}

#[test]
fn the_published_problems_are_those_of_the_peers() {
    let sizes: Vec<String> = Training::sweep().synthetic().problems().iter().map(|p| p.id.clone()).collect();
    let expect = [
        "network=mnist batch=512 fp32",
        "network=mnist batch=1024 fp32",
        "network=cifar10 batch=128 fp32",
        "network=cifar10 batch=512 fp32",
        "network=amp-recipe batch=512 features=4096 fp32",
    ];
    assert_eq!(sizes, expect);
    assert_eq!(Training::new().synthetic().problems().len(), 1);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let lab = lab("cpu");
    let check = |e: Training, expect: &str| {
        let error = lab.run(&e).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    let quick = Training::quick;
    check(quick().networks([]), "No network or no batch");
    check(quick().batches([]), "No network or no batch");
    check(quick().batches([0]), "choose from 1 to 16384");
    check(quick().batches([1 << 20]), "choose from 1 to 16384");
    check(quick().features(3), "Layers of 3 features");
    check(quick().steps(0), "choose from 1 to 128");
    check(quick().steps(129), "choose from 1 to 128");
    check(quick().data("/nowhere"), "data fetch mnist");
    check(quick().rungs(Vec::<String>::new()), "No rung was named");
    check(quick().networks([Workload::AmpRecipe]).features(1 << 15).batches([1 << 14]).steps(128), "minutes");
    assert!(
        matches!(lab.run(&quick().rungs(["08_graph_fp61"])), Err(Error::UnknownRung { nearest, .. }) if nearest[0] == "08_graph_fp16")
    );
}

#[test]
fn settings_make_the_same_experiment_again() {
    let entry = experiments().into_iter().find(|e| e.name == "training").unwrap();
    let check = |experiment: &dyn Experiment, preset: Preset, expect: &str| {
        let command = experiment.plan(None).unwrap().command_on("cuda:0");
        assert_eq!(command, format!("warpbook run training {expect} --device cuda:0"));
        let words: Vec<&str> = expect.split(' ').collect();
        let settings: Vec<(String, String)> =
            words.chunks(2).map(|w| (w[0].trim_start_matches("--").to_owned(), w[1].to_owned())).collect();
        let again = entry.make(Preset::Standard, &settings).unwrap();
        assert_eq!(again.plan(None).unwrap().command_on("cuda:0"), command);
        assert_eq!(again.problems(), experiment.problems());
        assert_eq!(again.rungs(), experiment.rungs());
        let preset = entry.make(preset, &settings).unwrap();
        assert_eq!(preset.plan(None).unwrap().command_on("cuda:0"), command, "settings come after those of a preset");
    };
    check(&Training::quick(), Preset::Quick, "--network mnist --batch 64 --steps 10 --data synthetic --seed 1");
    let all = Training::sweep().synthetic();
    check(&all, Preset::Sweep, "--network mnist,cifar10,amp-recipe --batch published --data synthetic --seed 1");
    let other = Training::new().networks([Workload::AmpRecipe]).features(128).batches([32, 64]).rungs(["01_direct"]);
    check(&other, Preset::Standard, "--network amp-recipe --batch 32,64 --features 128 --seed 1 --rungs 01_direct");
    let refused = |name: &str, text: &str, expect: &str| {
        let error = entry.make(Preset::Standard, &[(name.into(), text.into())]).err().unwrap().to_string();
        assert!(error.contains(expect), "{error}");
    };
    refused("network", "resnet", "choose mnist, cifar10, amp-recipe");
    refused("batch", "many", "is not a count");
    refused("tile", "t256", "has no setting `tile`");
}

#[test]
fn the_cpu_leaves_out_what_would_take_too_long() {
    let training = Training::quick().networks([Workload::AmpRecipe]).features(4096).batches([16_384]);
    let lab = lab("cpu");
    let rungs = Experiment::rungs(&training);
    let empty = lab.run(&Training::quick().batches([1]).steps(1).rungs(["01_direct"])).unwrap();
    let why = training.obstacle(&lab, &rungs[0], &training.problems()[0], &empty);
    assert!(why.is_some_and(|w| w.contains("s a step")));
    assert_eq!(training.obstacle(&lab, &rungs[1], &training.problems()[0], &empty), None);
    assert_eq!(training.obstacle(&lab, &rungs[0], &Training::quick().problems()[0], &empty), None);
}

#[test]
fn every_way_is_right_on_a_gpu() {
    let Some(device) = testing::gpu("every_way_is_right_on_a_gpu") else { return };
    let training = Training::quick().networks(Workload::ALL).features(256);
    let run = lab("cuda:0").run(&training).unwrap();
    assert_eq!(run.measurements.len(), 3 * (ways().len() + 1));
    for m in &run.measurements {
        let needs = &run.rung(&m.rung).unwrap().requires;
        // A rung is skipped if its library is missing or has nothing to compute.
        let recipe =
            if m.problem.text("network") == Some("amp-recipe") { Recipe::amp_recipe() } else { Recipe::mnist() };
        let way = ways().into_iter().find(|w| w.id == m.rung);
        if let Some(why) = way.as_ref().and_then(|w| w.obstacle(&device, &recipe)) {
            println!("{} at {}: {why}", m.rung, m.problem.label);
            assert_eq!(m.outcome, Outcome::Skipped { why });
            continue;
        }
        if !needs.met_by(device.info().compute_capability) {
            assert!(matches!(m.outcome, Outcome::Skipped { .. }), "{}", m.rung);
            continue;
        }
        assert!(m.is_valid(), "{} at {}: {:?} {:?}", m.rung, m.problem.label, m.outcome, m.check);
        assert_eq!(m.peak_bytes.is_some(), m.rung != "cpu_all_threads", "{}", m.rung);
        let rounds = way.is_some_and(|w| w.options.precision != Precision::Fp32);
        assert_eq!(m.dtype.is_some(), rounds, "{}", m.rung);
        let is_ours = m.rung != "cpu_all_threads" && !run.rung(&m.rung).unwrap().is_library();
        assert_eq!(m.kernels.len() > 3, is_ours, "{}", m.rung);
    }
    // The memory of each training is counted without the memory of earlier trainings.
    let peak = |rung: &str| measurement(&run, rung).peak_bytes;
    assert!(peak("08_graph_bf16").zip(peak("01_direct")).is_none_or(|(last, first)| last < 2 * first));
    assert!(charts::draw().loss_curve(&run, &run.problems[0]).unwrap().table.headers.len() > 2);
}
