//! Tests of `warpbook run loop`: whole trainings as an ordinary record, merged with another framework's rows.

use crate::common::commands::{expect, warpbook};
use std::path::Path;
use warpbook_record::{Run, Runner};

fn run(folder: &Path, words: &str) -> std::process::Output {
    warpbook(folder, &words.split(' ').collect::<Vec<_>>())
}

fn read(folder: &Path, name: &str) -> Run {
    warpbook::read_record(folder.join(name)).unwrap()
}

const SMALL: &str = "run loop --device cpu --batch 16 --epochs 1 --images 48 --data synthetic --samples 2 --budget 60";

/// Returns PyTorch's rows, as notebooks/pytorch/loader_loop.py writes them for Warpbook's record.
fn pytorch(ours: &Run) -> Run {
    let mut theirs = ours.clone();
    theirs.rungs.truncate(1);
    (theirs.rungs[0].id, theirs.rungs[0].runner) =
        ("torch_loader_fp32".into(), Runner::External("PyTorch 2.11.0".into()));
    theirs.measurements.truncate(1);
    theirs.measurements[0].rung = "torch_loader_fp32".into();
    theirs.train_logs.clear();
    theirs
}

#[test]
fn a_loop_s_record_is_read_repeated_and_merged() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let done = run(folder, &format!("{SMALL} --to 5 --out ours.json"));
    expect(&done, 0, &["cpu_all_threads", "skipped: needs a GPU", "passed", "Record: ours.json"]);
    let ours = read(folder, "ours.json");
    assert_eq!((ours.experiment.as_str(), ours.counts()), ("loop", (1, 6, 0)));
    let row = ours.measurements[0].clone();
    assert_eq!((row.samples_us.len(), row.test.len(), row.problem.items), (2, 2, Some(48)));
    let text = ["mean accuracy", "trainings", "epoch time", "passed", "MNIST, whose files were not used"];
    expect(&warpbook(folder, &["view", "--text", "ours.json"]), 0, &text);
    // The command in the record repeats the run.
    let again: Vec<&str> = ours.command.split(' ').skip(1).collect();
    assert!(ours.command.contains("--read-losses 1 --images 48 --to 5"), "{}", ours.command);
    expect(&warpbook(folder, &again), 0, &["Record: loop.json"]);
    let same = read(folder, "loop.json");
    assert_eq!((&same.problems, &same.rungs), (&ours.problems, &ours.rungs));
    assert_eq!(same.measurements[0].test[0], row.test[0]);

    warpbook::write_record(&pytorch(&ours), folder.join("theirs.json")).unwrap();
    expect(&run(folder, "merge ours.json theirs.json --out both.json"), 0, &["8 rungs: 2 measured"]);
    let both = read(folder, "both.json");
    assert_eq!(both.ladder(&row.problem).len(), 8);
    let theirs = warpbook::lesson::precision::recorded_pytorch_loops(&both).unwrap();
    assert_eq!((theirs.loops.len(), theirs.loops[0].steps), (1, 3));
    expect(&run(folder, "view --text both.json"), 0, &["torch_loader_fp32"]);
}

#[test]
fn a_missed_accuracy_and_wrong_settings_are_told() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    expect(
        &run(folder, &format!("{SMALL} --to 100 --out r.json")),
        1,
        &["after 3 steps, fewer than the 100 % of --to"],
    );
    assert!(!read(folder, "r.json").measurements[0].is_valid());
    expect(&run(folder, &format!("{SMALL} --to 101")), 2, &["above 0, up to 100"]);
    expect(&run(folder, "run loop --device cpu --batch 0 --data synthetic"), 2, &["choose from 1 to 16384"]);
    expect(&run(folder, "run loop --device cpu --data nowhere"), 2, &["data fetch mnist"]);
    // Whole trainings that would take too long are listed with the reason.
    let whole = run(folder, "run loop --device cpu --data synthetic --out w.json");
    expect(&whole, 0, &["minutes; fewer --epochs or --images take less", "needs a GPU"]);
    assert_eq!(read(folder, "w.json").counts(), (0, 14, 0));
}
