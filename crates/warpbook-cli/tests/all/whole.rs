//! Tests of `warpbook speedrun`, and of `train` with its options: whole trainings, timed one by one, and their record.

use crate::common::commands::{expect, warpbook};
use std::path::Path;
use std::process::Output;
use warpbook_record::{Measurement, Runner};

/// A recipe for a network whose steps take almost no time.
const SMALL: &str = "data = \"synthetic\"\nbatch = 32\nlearning_rate = 0.05\n\
                     network = [\"avg_pool 7\", \"flatten\", \"linear 10\"]\n";

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("small.toml"), SMALL).unwrap();
        Self(folder)
    }

    fn folder(&self) -> &Path {
        self.0.path()
    }

    fn train(&self, words: &str) -> Output {
        self.run("train", words)
    }

    fn run(&self, command: &str, words: &str) -> Output {
        let all = format!("{command} small.toml --device cpu {words}");
        warpbook(self.folder(), &all.split(' ').collect::<Vec<_>>())
    }

    fn read(&self, name: &str) -> warpbook_record::Run {
        warpbook::read_record(self.folder().join(name)).unwrap()
    }

    fn row(&self, name: &str) -> Measurement {
        self.read(name).measurements[0].clone()
    }
}

#[test]
fn each_seed_is_a_sample_of_a_record() {
    let place = Place::new();
    let done = place.train("--steps 30 --seed 4 --seeds 3 --to 5 --data-note upside-down --out r.json");
    expect(&done, 0, &["seed 6: ", "mean of 3 seeds: ", "Record: r.json", "warpbook view r.json"]);
    let (record, row) = (place.read("r.json"), place.row("r.json"));
    assert_eq!((record.experiment.as_str(), row.samples_us.len(), row.test.len()), ("time-to-accuracy", 3, 3));
    assert!(row.is_valid() && row.samples_us.iter().all(|us| *us > 0.0) && row.test.iter().all(|t| t.of == 2000));
    assert!(row.accuracy().is_some_and(|(mean, deviation)| mean > 0.05 && deviation > 0.0), "{:?}", row.test);
    let check = row.check.clone().unwrap();
    assert_eq!((check.reference.as_str(), check.tolerance), ("a mean accuracy of 5 % or more", 0.0));
    let label = "small to 5 % in fp32, from images on the device; synthetic digits, upside-down";
    assert_eq!((row.problem.label.as_str(), row.problem.real("accuracy")), (label, Some(5.0)));
    for note in ["seeds 4 to 6", "optimiser: SGD", "synthetic images", "from images on the device"] {
        assert!(record.notes.iter().any(|n| n.contains(note)), "{note} in {:?}", record.notes);
    }
    let table = ["median", "mean accuracy", "seeds", " % ± ", "passed", "samples are of the seeds 4 to 6"];
    expect(&warpbook(place.folder(), &["view", "--text", "r.json"]), 0, &table);
    // The command in the record repeats the run.
    let again: Vec<&str> = record.command.split(' ').skip(1).collect();
    expect(&warpbook(place.folder(), &again), 0, &["mean of 3 seeds"]);
    assert_eq!(place.row("r.json").test, row.test);
}

#[test]
fn a_missed_accuracy_is_told_and_kept_and_none_is_no_check() {
    let place = Place::new();
    expect(
        &place.train("--steps 1 --seeds 2 --to 99.5 --out r.json"),
        1,
        &["not a mean accuracy of 99.5 %", "Record: r.json"],
    );
    let row = place.row("r.json");
    assert!(!row.is_valid() && row.check.unwrap().max_abs_error > 1.0 && row.samples_us.len() == 2);
    let table = ["FAILED", "check failed", " % ± "];
    expect(&warpbook(place.folder(), &["view", "--text", "r.json"]), 0, &table);
    // The test images are not among the held-out ones.
    expect(&place.train("--steps 1 --hold-out 500 --out h.json"), 0, &["11500 training images, 500 that are held out"]);
    let (record, row) = (place.read("h.json"), place.row("h.json"));
    assert!(row.check.is_none() && row.test[0].of == 500 && row.problem.count("held_out") == Some(500));
    assert!(record.notes.iter().any(|n| n.contains("nothing was checked")), "{:?}", record.notes);
    assert_eq!((row.problem.count("steps"), row.problem.short.as_str()), (Some(1), "small 1 step"));
}

#[test]
fn each_process_is_a_sample_of_a_record() {
    let place = Place::new();
    let temporary = place.folder().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let program = crate::common::program_path();
    let words = "train small.toml --device cpu --epochs 1 --seed 4 --cold 2 --to 5 --out c.json --author Ada";
    let done = std::process::Command::new(&program)
        .args(words.split(' '))
        .current_dir(place.folder())
        .env("TMPDIR", &temporary)
        .env_remove("WARPBOOK_DATA")
        .output()
        .unwrap();
    expect(
        &done,
        0,
        &["not counted: ", "seed 4: ", "seed 5: ", "from the start of the process to its end", "mean of 2 seeds"],
    );
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "nothing is left behind");
    let (record, row) = (place.read("c.json"), place.row("c.json"));
    assert!(
        row.is_valid() && row.samples_us.iter().all(|us| *us > 1e3),
        "a process takes a millisecond: {:?}",
        row.samples_us
    );
    assert_eq!((record.policy.warmup, record.policy.samples, record.author.as_deref()), (1, 2, Some("Ada")));
    assert_eq!(row.problem.text("from"), Some("the start of a process"));
    assert!(record.command.contains("--cold 2 --to 5") && !record.command.contains("--cold-"), "{}", record.command);
    // A training's result does not depend on the process that times it.
    expect(&place.train("--epochs 1 --seed 4 --seeds 2 --to 5 --out s.json"), 0, &["seed 5: "]);
    assert_eq!(row.test, place.row("s.json").test);
    // A training that ends within an epoch gives the same result in a new process, too.
    expect(&place.run("speedrun", "--steps 9 --seed 4 --cold 1 --out c9.json"), 0, &["seed 4: "]);
    expect(&place.train("--steps 9 --seed 4 --seeds 1 --out s9.json"), 0, &["seed 4: "]);
    assert_eq!(place.row("c9.json").test, place.row("s9.json").test);
    assert!(place.read("c9.json").command.starts_with("warpbook speedrun small.toml --device cpu"));
    // `speedrun` and `train --seeds` do the same work.
    expect(&place.run("speedrun", "--steps 9 --seed 4 --out o9.json"), 0, &["seed 4: "]);
    let [one, other] = ["s9.json", "o9.json"].map(|name| place.row(name));
    assert_eq!((one.problem, one.test), (other.problem, other.test));
    assert_ne!(row.problem, place.row("s.json").problem, "another time is another work");

    // Another framework's row is merged into the record.
    let mut theirs = record.clone();
    theirs.rungs[0].id = "framework".into();
    theirs.rungs[0].runner = Runner::External("Framework 1.0".into());
    theirs.measurements[0].rung = "framework".into();
    warpbook::write_record(&theirs, place.folder().join("t.json")).unwrap();
    let merge = ["merge", "c.json", "t.json", "--out", "m.json"];
    expect(&warpbook(place.folder(), &merge), 0, &["2 rungs: 2 measured"]);
    assert_eq!(place.read("m.json").ladder(&row.problem).len(), 2);
}

/// The speed-run recipe trains without output in between, alone or in a new process. Images other than the published
/// ones are never described as the published ones.
#[test]
fn a_speedrun_is_timed_both_ways_by_the_honest_name_of_its_images() {
    let place = Place::new();
    for (i, name) in ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"]
        .into_iter()
        .enumerate()
    {
        let images = (0..8 * 3073usize).map(|at| match (at / 3073, at % 3073) {
            (image, 0) => (image % 10) as u8,
            (image, pixel) => (pixel * pixel * (i + image + 3) % 251) as u8,
        });
        std::fs::write(place.folder().join(format!("{name}.bin")), images.collect::<Vec<u8>>()).unwrap();
    }
    let words = ["train", "cifar10-speedrun", "--data", ".", "--device", "cpu", "--steps", "1", "--batch", "8"];
    let label = |more: &[&str]| {
        expect(
            &warpbook(place.folder(), &[&words[..], more, &["--out", "r.json"]].concat()),
            0,
            &["seed 1: ", "Record: "],
        );
        let row = place.row("r.json");
        assert_eq!((row.samples_us.len(), row.test[0].of), (1, 8));
        let notes = place.read("r.json").notes.join(" ");
        for part in ["Muon", "six views", "alternating horizontal flips", "frozen weight", "steps of each training: 1."]
        {
            assert!(notes.contains(part), "{part} in {notes}");
        }
        assert!(notes.contains("Accuracies are of these") && !notes.contains("not the originals"), "{notes}");
        row.problem.label.clone()
    };
    let at_once = label(&["--seeds", "1"]);
    assert_eq!(
        at_once,
        "cifar10-speedrun, 1 step in fp32, mirrored and shifted views, from images on the device; CIFAR-10, not verified as the original files"
    );
    // With fewer views, the evaluation of the training differs.
    expect(
        &warpbook(place.folder(), &[&words[..], &["--views", "flips", "--seeds", "1", "--out", "f.json"]].concat()),
        0,
        &[],
    );
    let flips = place.read("f.json");
    assert!(
        flips.notes.iter().any(|n| n.contains("two views")) && flips.command.contains("--views flips"),
        "{flips:?}"
    );
    let wrong = ["train", "cifar10-speedrun", "--views", "many"];
    expect(&warpbook(place.folder(), &wrong), 2, &["choose from one, flips, flips-and-shifts"]);
    let cold = label(&["--cold", "1", "--data-note", "recompressed as JPEG q75"]);
    assert_eq!(
        cold,
        "cifar10-speedrun, 1 step in fp32, mirrored and shifted views, from the start of a process; CIFAR-10, recompressed as JPEG q75"
    );
}

#[test]
fn what_whole_trainings_cannot_be_told_is_refused() {
    let place = Place::new();
    let refused = |words: &str, part: &str| expect(&place.train(words), 2, &[part]);
    expect(&place.run("speedrun", "--checkpoint c"), 2, &["unexpected argument '--checkpoint'"]);
    refused("--to 99", "add --seeds N, or --cold N");
    refused("--data-note x", "--data-note is for the record of whole trainings");
    for wrong in ["0", "-1", "100.5", "nan"] {
        refused(&format!("--seeds 2 --to {wrong}"), "choose a percentage above 0, up to 100");
    }
    refused("--seeds 2 --to many", "invalid value 'many'");
    refused("--seeds 1001", "1..=1000");
    refused("--cold 0", "1..=1000");
    refused("--cold 2 --seeds 2", "cannot be used with");
    refused("--cold 2 --checkpoint c", "--checkpoint does not go with --cold");
    refused("--cold 2 --profile p.json", "--profile does not go with --cold");
    refused("--cold 2 --ranks 2", "are for one rank");
    refused("--seeds 2 --out none/r.json", "Nothing has been started");
    refused("--cold 2 --out none/r.json", "Nothing has been started");
    refused("--seeds 2 --checkpoint c", "leave out --seeds");
    // The training's process reports its error.
    refused("--cold 2 --lr -1", "learning rate is -1");
    refused("--cold 2 --lr -1", "The process that trains from seed 1 left no result");
    let numbers = warpbook(place.folder(), &["train", "amp-recipe", "--cold", "2"]);
    expect(&numbers, 2, &["--cold is for images"]);
    let left: Vec<_> = std::fs::read_dir(place.folder()).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "small.toml" || name == "cache"), "{left:?}");
}

/// After Ctrl-C, the record has the completed trainings.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_keeps_what_is_done() {
    use std::io::BufRead;
    let place = Place::new();
    let program = crate::common::program_path();
    for way in ["--seeds", "--cold"] {
        // A shell that starts the tests in the background makes them ignore the signal.
        let mut child = std::process::Command::new("env")
            .arg("--default-signal=INT")
            .arg(&program)
            .args(["train", "small.toml", "--device", "cpu", "--steps", "5", way, "1000", "--out", "i.json"])
            .current_dir(place.folder())
            .env_remove("WARPBOOK_DATA")
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        // The record of the first two is written before the third is announced.
        assert!(lines.by_ref().any(|l| l.unwrap().starts_with("seed 3: ")));
        assert!(std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let _ = lines.count();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{way}");
        let (record, row) = (place.read("i.json"), place.row("i.json"));
        assert!((2..1000).contains(&row.test.len()) && row.samples_us.len() == row.test.len(), "{way}: {:?}", row.test);
        let note = format!("{} of 1000 trainings are done.", row.test.len());
        assert_eq!(record.notes.last(), Some(&note), "{way}");
        std::fs::remove_file(place.folder().join("i.json")).unwrap();
    }
}
