//! Tests of the training loop as an experiment: on the CPU, and on a GPU if there is one.

use warpbook::charts::{self, Quantity};
use warpbook::device::{Bench, testing};
use warpbook::lesson::precision::{Feed, recorded_loops, recorded_pytorch_loops};
use warpbook::record::{Column, Measurement, Outcome, Run, Runner, TimedBy};
use warpbook::settings::Preset;
use warpbook::{Error, Experiment, Lab, Show, TrainingLoop, experiments};

const WAYS: [&str; 6] =
    ["losses_fp32", "loader_fp32", "resident_fp32", "losses_amp_fp16", "loader_amp_fp16", "resident_amp_fp16"];

fn lab(device: &str) -> Lab {
    Lab::open(device).unwrap().with_bench(Bench { samples: 2, budget_s: 0.001, warmup: 1, ..Bench::default() })
}

fn measurement<'a>(run: &'a Run, rung: &str) -> &'a Measurement {
    run.measurements.iter().find(|m| m.rung == rung).unwrap_or_else(|| panic!("no row of {rung}"))
}

/// Returns a loop of four epochs with five batches each; the last batch is smaller.
fn small() -> TrainingLoop {
    TrainingLoop::quick().batches([32]).epochs(4).images(144)
}

#[test]
fn the_cpu_trains_to_the_end_and_gpu_rungs_say_why_they_do_not() {
    let run = lab("cpu").run(&small()).unwrap();
    let cpu = measurement(&run, "cpu_all_threads");
    assert!(cpu.is_valid(), "{:?} {:?}", cpu.outcome, cpu.check);
    // One training takes longer than the budget, so it is the only sample.
    assert_eq!((cpu.samples_us.len(), cpu.test.len(), cpu.test[0].of), (1, 1, 144));
    assert!(cpu.accuracy().is_some_and(|(share, _)| share >= 0.2) && cpu.peak_bytes.is_none());
    let check = cpu.check.as_ref().unwrap();
    assert_eq!((check.reference.as_str(), check.tolerance), ("a mean accuracy of 20 % or more", 0.0));
    for way in WAYS {
        match &measurement(&run, way).outcome {
            Outcome::Skipped { why } => assert!(why.contains("needs a GPU"), "{way}: {why}"),
            other => panic!("{way}: {other:?}"),
        }
    }
    assert_eq!(run.counts(), (1, WAYS.len(), 0));
    assert_eq!(run.policy.timed_by, TimedBy::WallClock);
    let problem = &run.problems[0];
    assert_eq!(problem.label, "MNIST CNN, 4 epochs, 2 workers, batch 32, synthetic digits");
    assert_eq!((problem.items, problem.count("images"), problem.real("accuracy")), (Some(576), Some(144), Some(20.0)));
    assert!(run.notes.iter().any(|n| n.contains("MNIST, whose files were not used")), "{:?}", run.notes);
    // There is a loss for each epoch, and it falls.
    let losses: Vec<f64> = run.train_logs[0].losses.iter().map(|p| p.loss).collect();
    assert!(losses.len() == 4 && losses[3] < losses[0], "{losses:?}");
    assert!(run.train_logs[0].test_loss.is_finite());

    let json = run.to_json().unwrap();
    assert_eq!(Run::from_json(json.as_bytes()).unwrap().to_json().unwrap(), json);
    let ladder = charts::draw().ladder(&run, problem, Quantity::Time).unwrap();
    assert!(ladder.svg.as_str().contains("CPU"), "{}", ladder.description);
    let table = charts::LadderTable::for_problem(&run, problem);
    for column in [Column::PassTime, Column::PeakMemory, Column::Accuracy] {
        assert!(table.headers.iter().any(|h| h.column == column), "{column:?}");
    }
    assert!(charts::draw().loss_curve(&run, problem).unwrap().description.contains("epoch"));
    assert!(run.text().contains("cpu_all_threads"));

    let loops = recorded_loops(&run);
    assert_eq!((loops.len(), loops[0].batch, loops[0].steps, loops[0].feed), (1, 32, 20, Feed::Resident));
    assert!((loops[0].seconds - cpu.median_us().unwrap() * 1e-6).abs() < 1e-12);
    assert_eq!(loops[0].accuracy, cpu.accuracy().map(|(share, _)| share));
    assert_eq!(recorded_pytorch_loops(&run), None);
}

#[test]
fn short_trainings_are_made_again_from_the_same_weights() {
    let lab = Lab::open("cpu").unwrap().with_bench(Bench { samples: 2, budget_s: 600.0, ..Bench::default() });
    let run = lab.run(&small().epochs(1).rungs(["cpu_all_threads"])).unwrap();
    let cpu = measurement(&run, "cpu_all_threads");
    // The first training is the warm-up. With a seed, the bits are the same every time.
    assert_eq!((cpu.samples_us.len(), cpu.test.len()), (2, 2), "{cpu:?}");
    assert_eq!(cpu.test[0], cpu.test[1]);
    assert_eq!(run.train_logs[0].losses.len(), 1);
}

#[test]
fn an_accuracy_that_is_missed_fails_the_rung() {
    let run = lab("cpu").run(&small().epochs(1).images(32).to(100.0).rungs(["cpu_all_threads"])).unwrap();
    match &measurement(&run, "cpu_all_threads").outcome {
        Outcome::Failed { error } => assert!(error.contains("after 1 step, fewer than the 100 % of --to"), "{error}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_has_to_be_right_depends_on_the_steps() {
    let target = |e: TrainingLoop| e.problems()[0].real("accuracy");
    // An epoch has 118 steps.
    assert_eq!(target(TrainingLoop::new().synthetic()), Some(98.0));
    assert_eq!(target(TrainingLoop::new().synthetic().epochs(1)), Some(90.0));
    assert_eq!(target(TrainingLoop::quick()), Some(20.0));
    assert_eq!(target(TrainingLoop::quick().to(12.5)), Some(12.5));
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let lab = lab("cpu");
    let check = |e: TrainingLoop, expect: &str| {
        let error = lab.run(&e).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    let quick = TrainingLoop::quick;
    check(quick().batches([]), "No batch was given");
    check(quick().batches([0]), "choose from 1 to 16384");
    check(quick().batches([1 << 20]), "choose from 1 to 16384");
    check(quick().epochs(0), "choose from 1 to 1000");
    check(quick().workers(65), "choose from 0 to 64");
    check(quick().images(0), "at least 1");
    check(quick().read_losses(0), "choose from 1 to 128");
    check(quick().read_losses(129), "choose from 1 to 128");
    check(quick().to(0.0), "above 0, up to 100");
    check(quick().to(f64::NAN), "above 0, up to 100");
    check(quick().data("/nowhere"), "data fetch mnist");
    check(quick().rungs(Vec::<String>::new()), "No rung was named");
    assert!(
        matches!(lab.run(&quick().rungs(["losses_fp23"])), Err(Error::UnknownRung { nearest, .. }) if nearest[0] == "losses_fp32")
    );
}

#[test]
fn settings_make_the_same_experiment_again() {
    let entry = experiments().into_iter().find(|e| e.name == "loop").unwrap();
    let check = |experiment: &dyn Experiment, preset: Preset, expect: &str| {
        let command = experiment.plan(None).unwrap().command_on("cuda:0");
        assert_eq!(command, format!("warpbook run loop {expect} --device cuda:0"));
        let words: Vec<&str> = expect.split(' ').collect();
        let settings: Vec<(String, String)> =
            words.chunks(2).map(|w| (w[0].trim_start_matches("--").to_owned(), w[1].to_owned())).collect();
        let again = entry.make(preset, &settings).unwrap();
        assert_eq!(again.plan(None).unwrap().command_on("cuda:0"), command);
        assert_eq!(again.problems(), experiment.problems());
        assert_eq!(again.rungs(), experiment.rungs());
    };
    let quick = "--batch 64 --epochs 2 --workers 2 --read-losses 1 --images 1024 --data synthetic --seed 1";
    check(&TrainingLoop::quick(), Preset::Standard, quick);
    let other = TrainingLoop::new().synthetic().read_losses(10).workers(0).to(97.5).rungs(["loader_fp32"]);
    let expect = "--batch 512,1024 --epochs 20 --workers 0 --read-losses 10 --to 97.5 --data synthetic --seed 1 --rungs loader_fp32";
    check(&other, Preset::Sweep, expect);
    assert!(other.problems()[0].label.contains("no workers"));
    let refused = |name: &str, text: &str, expect: &str| {
        let error = entry.make(Preset::Standard, &[(name.into(), text.into())]).err().unwrap().to_string();
        assert!(error.contains(expect), "{error}");
    };
    refused("to", "all", "is not a number");
    refused("workers", "some", "is not a count");
}

#[test]
fn the_cpu_leaves_out_what_would_take_too_long() {
    let (lab, whole) = (lab("cpu"), TrainingLoop::new().synthetic());
    let empty = lab.run(&small().rungs(["loader_fp32"])).unwrap();
    let why = whole.obstacle(&lab, &Experiment::rungs(&whole)[0], &whole.problems()[0], &empty);
    assert!(why.is_some_and(|w| w.contains("minutes; fewer --epochs or --images")));
    assert_eq!(whole.obstacle(&lab, &Experiment::rungs(&whole)[1], &whole.problems()[0], &empty), None);
    let quick = TrainingLoop::quick();
    assert_eq!(quick.obstacle(&lab, &Experiment::rungs(&quick)[0], &quick.problems()[0], &empty), None);
}

/// The record has GPU rungs of Warpbook and of PyTorch, as `warpbook merge` writes it.
#[test]
fn rows_of_both_are_read_from_a_record() {
    let mut run = lab("cpu").run(&small()).unwrap();
    let measured = measurement(&run, "cpu_all_threads").clone();
    for m in &mut run.measurements {
        if let Some(at) = WAYS.iter().position(|way| *way == m.rung) {
            *m = Measurement { rung: m.rung.clone(), peak_bytes: Some(1 << 20), ..measured.clone() };
            m.set_samples(vec![(at + 1) as f64 * 1e6], Vec::new());
        }
    }
    let mut theirs = run.rung("loader_fp32").unwrap().clone();
    (theirs.id, theirs.runner) = ("torch_loader_fp32".into(), Runner::External("PyTorch 2.11.0".into()));
    let mut row = measurement(&run, "loader_fp32").clone();
    row.rung = "torch_loader_fp32".into();
    run.rungs.push(theirs);
    run.measurements.push(row);
    let ours = recorded_loops(&run);
    let (first, last) = (ours.first().unwrap(), ours.last().unwrap());
    // The feeds are in order: the CPU's and the resident ones come first.
    assert_eq!((ours.len(), first.feed, first.peak_bytes), (7, Feed::Resident, None));
    assert_eq!((last.feed, last.seconds, last.peak_bytes), (Feed::LoaderAndLosses, 4.0, Some(1 << 20)));
    let theirs = recorded_pytorch_loops(&run).unwrap();
    assert_eq!((theirs.torch.as_str(), theirs.epochs, theirs.loops.len()), ("2.11.0", 4, 1));
    assert_eq!((theirs.loops[0].feed, theirs.loops[0].seconds, theirs.loops[0].steps), (Feed::Loader, 2.0, 20));
    // Failed rows are not loops.
    run.measurements.iter_mut().for_each(|m| m.check.as_mut().unwrap().passed = false);
    assert!(recorded_loops(&run).is_empty() && recorded_pytorch_loops(&run).is_none());
}

#[test]
fn a_gpu_is_fed_in_every_way_and_learns_the_same() {
    if testing::gpu("a_gpu_is_fed_in_every_way_and_learns_the_same").is_none() {
        return;
    }
    // Each epoch has two batches of different sizes.
    let run = lab("cuda:0").run(&TrainingLoop::quick().images(1000)).unwrap();
    assert_eq!(run.counts(), (WAYS.len() + 1, 0, 0), "{:?}", run.measurements);
    assert_eq!(run.policy.timed_by, TimedBy::WallClock);
    for m in &run.measurements {
        assert!(m.is_valid() && m.test.len() == m.samples_us.len(), "{}: {:?} {:?}", m.rung, m.outcome, m.check);
        assert_eq!(m.peak_bytes.is_some(), m.rung != "cpu_all_threads", "{}", m.rung);
        assert_eq!(m.dtype.is_some(), m.rung.contains("fp16"), "{}", m.rung);
    }
    let losses = |rung: &str| {
        let log = run.train_logs.iter().find(|l| l.rung == rung).unwrap();
        log.losses.iter().map(|p| p.loss).collect::<Vec<f64>>()
    };
    for precision in ["fp32", "amp_fp16"] {
        let of_feed = ["losses", "loader", "resident"].map(|feed| losses(&format!("{feed}_{precision}")));
        assert!(of_feed[0] == of_feed[1] && of_feed[1] == of_feed[2], "{of_feed:?}");
    }
    // Images on the GPU count as memory.
    let peak = |rung: &str| measurement(&run, rung).peak_bytes.unwrap();
    assert!(peak("resident_fp32") > peak("loader_fp32"), "{} {}", peak("resident_fp32"), peak("loader_fp32"));
    assert_eq!(recorded_loops(&run).len(), WAYS.len(), "the CPU's loop is not a GPU's");
}
