//! Tests of `warpbook train` and `warpbook eval` as users start them, on the CPU and on digits that need no files.

use crate::common::cache;
use crate::common::commands::{draw, expect, recipe, warpbook, with_pictures};
use std::path::Path;
use std::process::{Command, Output};

#[test]
fn a_training_is_kept_gone_on_with_and_judged() {
    let folder = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| {
        let words =
            [&["train", "mnist", "--batch", "32", "--log-every", "2", "--checkpoint", "c.safetensors"], more].concat();
        warpbook(folder.path(), &words)
    };
    // MNIST's files are missing here.
    expect(
        &run(&["--steps", "4"]),
        0,
        &["synthetic digits", "step 2: loss", "step 4: loss", "step 4 is kept", "MiB allocated"],
    );
    let resumed = ["resuming after step 4", "step 6: loss", "step 6 is kept"];
    expect(&run(&["--steps", "6", "--resume", "c.safetensors"]), 0, &resumed);
    expect(&run(&["--steps", "6", "--resume", "c.safetensors"]), 0, &["at step 6, and the training ends at step 6"]);
    let judged = warpbook(folder.path(), &["eval", "mnist", "c.safetensors"]);
    expect(&judged, 0, &["synthetic digits", "test loss", "of 2000)"]);
    // An uninterrupted training gives the same result.
    let whole = folder.path().join("whole.safetensors");
    let words =
        ["train", "mnist", "--batch", "32", "--steps", "6", "--data", "synthetic", "--checkpoint", "whole.safetensors"];
    expect(&warpbook(folder.path(), &words), 0, &["step 6: loss"]);
    let kept = std::fs::read(folder.path().join("c.safetensors")).unwrap();
    assert!(std::fs::read(whole).unwrap() == kept, "the files differ");
}

#[test]
fn segments_save_memory_and_change_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, more: &[&str]| {
        let words = ["train", "mnist", "--data", "synthetic", "--device", "cpu", "--batch", "16", "--steps", "3"];
        warpbook(folder.path(), &[&words[..], &["--checkpoint", name], more].concat())
    };
    let mib = |out: &Output| -> f64 {
        let text = String::from_utf8_lossy(&out.stdout);
        let words: Vec<&str> = text.split_whitespace().collect();
        let at = words.iter().position(|w| *w == "allocated").unwrap_or_else(|| panic!("{text}"));
        assert_eq!(words[at - 1], "MiB");
        words[at - 2].parse().unwrap()
    };
    let (plain, segments) = (run("plain", &[]), run("segments", &["--segments", "3"]));
    expect(&plain, 0, &["step 3"]);
    expect(&segments, 0, &["step 3"]);
    assert!(mib(&segments) < 0.95 * mib(&plain), "{} and {} MiB", mib(&segments), mib(&plain));
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    assert!(read("plain") == read("segments"), "the files differ");
    expect(&run("none", &["--segments", "9"]), 2, &["--segments: ", "1 to 4 segments, not 9"]);
}

#[test]
fn some_steps_are_profiled() {
    let folder = tempfile::tempdir().unwrap();
    let run = |steps: &str, more: &[&str]| {
        let words = ["train", "mnist", "--data", "synthetic", "--device", "cpu", "--batch", "4", "--steps", steps];
        warpbook(folder.path(), &[&words[..], more].concat())
    };
    let known = ["Cycle 0: 4 steps from step 12 on", "the host's clock", "p.trace.json"];
    expect(&run("17", &["--profile", "p.json"]), 0, &known);
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(folder.path().join(name)).unwrap()).unwrap()
    };
    let samples = read("p.json")["measurements"][0]["samples_us"].as_array().unwrap().len();
    assert_eq!((read("p.json")["experiment"].as_str(), samples), (Some("profile"), 4));
    let steps = read("p.trace.json")["traceEvents"].as_array().unwrap().iter().filter(|e| e["cat"] == "step").count();
    assert_eq!(steps, 4);
    // A training on the CPU records ranges: a table, spans and a breakdown.
    let names = |list: &str| -> Vec<String> {
        let record = read("p.json");
        let all = record[list].as_array().unwrap().iter();
        all.map(|of| of["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert!(names("spans").iter().any(|n| n == "conv1 backward"), "{:?}", names("spans"));
    assert_eq!(read("p.json")["breakdowns"].as_array().unwrap().len(), 1);
    let short = ["--profile", "q.json", "--profile-schedule", "2,1,2", "--counters"];
    let known = ["Cycle 0: 2 steps from step 3 on", "conv2 forward", "No hardware counters of a step"];
    expect(&run("6", &short), 0, &known);
    assert_eq!(read("q.json")["measurements"][0]["samples_us"].as_array().unwrap().len(), 2);
    expect(&run("15", &["--profile", "short.json"]), 0, &["needs a training of 16 steps"]);
    expect(&run("6", &["--profile", "q.json", "--profile-schedule", "2,1"]), 2, &["three numbers with commas"]);
    expect(&run("6", &["--profile", "q.json", "--profile-schedule", "2,1,0"]), 2, &["record at least one step"]);
    expect(&run("6", &["--profile-schedule", "2,1,1"]), 2, &["--profile"]);
    expect(&run("6", &["--counters"]), 2, &["--profile"]);
    assert!(!folder.path().join("short.json").exists());
    expect(&run("17", &["--profile", "no/p.json"]), 2, &["the folder no does not exist"]);
}

#[test]
fn a_recipe_from_a_file_is_trained() {
    let folder = tempfile::tempdir().unwrap();
    recipe(folder.path(), "residual.toml");
    let train = |more: &[&str]| {
        let words = [&["train", "residual.toml", "--log-every", "1", "--checkpoint", "c.safetensors"], more].concat();
        warpbook(folder.path(), &words)
    };
    let known = ["synthetic digits", "batches of 32", "step 2: loss", "step 2 is kept"];
    expect(&train(&["--steps", "2"]), 0, &known);
    let first = std::fs::read(folder.path().join("c.safetensors")).unwrap();
    expect(&train(&["--steps", "2", "--seed", "7", "--lr", "0.01"]), 0, &known);
    assert!(std::fs::read(folder.path().join("c.safetensors")).unwrap() == first, "the file's seed is 7");
    // Options take precedence over the recipe.
    expect(&train(&["--steps", "3", "--seed", "8", "--batch", "16", "--epochs", "1"]), 0, &["batches of 16", "step 3"]);
    assert!(std::fs::read(folder.path().join("c.safetensors")).unwrap() != first, "seed 8 gives other weights");
    expect(&warpbook(folder.path(), &["eval", "residual.toml", "c.safetensors"]), 0, &["test loss", "of 2000)"]);
    let text = std::fs::read_to_string(folder.path().join("residual.toml")).unwrap();
    std::fs::write(folder.path().join("residual.toml"), text.replace("batch =", "bach =")).unwrap();
    expect(&train(&[]), 2, &["residual.toml, line 4", "no key `bach`", "did you mean `batch`?"]);
}

#[test]
fn a_checkpoint_is_frozen_judged_and_used() {
    let folder = tempfile::tempdir().unwrap();
    recipe(folder.path(), "residual.toml");
    let run = |words: &[&str]| warpbook(folder.path(), words);
    expect(&run(&["train", "residual.toml", "--steps", "20", "--checkpoint", "c.safetensors"]), 0, &["step 20"]);
    let freeze = ["freeze", "residual.toml", "c.safetensors", "--out", "f.safetensors"];
    // The checkpoint names its recipe.
    let alone = ["freeze", "c.safetensors", "--out", "alone.safetensors"];
    expect(&run(&alone), 0, &["residual: 8 of 11 operations left", "alone.safetensors"]);
    // Two batch normalisations and a dropout were folded.
    expect(&run(&freeze), 0, &["residual: 8 of 11 operations left", "f.safetensors"]);
    let score = |words: &[&str]| {
        let output = run(words);
        expect(&output, 0, &["synthetic digits", "test loss", "of 2000)"]);
        String::from_utf8(output.stdout).unwrap()
    };
    let of_checkpoint = score(&["eval", "residual.toml", "c.safetensors", "--device", "cpu"]);
    assert!(of_checkpoint.contains("of 2000), on the CPU in fp32"), "{of_checkpoint}");
    assert_eq!(score(&["eval", "c.safetensors", "--device", "cpu"]), of_checkpoint);
    assert_eq!(score(&["eval", "f.safetensors", "--device", "cpu"]), of_checkpoint);
    let bytes = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    assert!(bytes("alone.safetensors") == bytes("f.safetensors"), "the files differ");
    assert_eq!(score(&["eval", "residual.toml", "f.safetensors", "--device", "cpu"]), of_checkpoint);
    let timed = ["an image alone: ", "in batches of 32: ", "in batches of 256: "];
    expect(&run(&["eval", "f.safetensors", "--repeat", "1"]), 0, &timed);
    expect(&run(&[&freeze[..], &["--repeat", "1", "--device", "cpu"]].concat()), 0, &timed);
    let refused = |words: &[&str], why: &str| expect(&run(words), 2, &[why]);
    refused(&["eval", "residual.toml", "c.safetensors", "--repeat", "1"], "--repeat times a frozen network");
    for command in [&freeze[..], &["eval", "f.safetensors"], &["predict", "f.safetensors", "a.png"]] {
        refused(&[command, &["--device", "cpu", "--precision", "fp16"]].concat(), "amp-fp16 needs a GPU");
        refused(&[command, &["--precision", "fp8"]].concat(), "Unknown precision `fp8`: choose one of fp32, tf32");
    }
    // The recipe's file is no longer needed.
    std::fs::remove_file(folder.path().join("residual.toml")).unwrap();
    draw(&folder.path().join("a.png"), 1);
    draw(&folder.path().join("b.png"), 3);
    let predicted = run(&["predict", "f.safetensors", "a.png", "b.png", "--repeat", "3"]);
    let parts = [
        "a.png: ",
        " %), then ",
        "  28 x 28 grey: unchanged",
        "  84 x 84 grey: scaled to 28 x 28",
        "an image alone: ",
        "(median of 3)",
        "images/s",
    ];
    expect(&predicted, 0, &parts);
    let inverted = run(&["predict", "f.safetensors", "a.png", "--invert", "--top", "1"]);
    expect(&inverted, 0, &["light and dark exchanged"]);
    assert!(!String::from_utf8_lossy(&inverted.stdout).contains("then"));
}

#[test]
fn what_is_no_frozen_network_or_image_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &[&str], code, parts: &[&str]| expect(&warpbook(folder.path(), words), code, parts);
    run(&["train", "mnist", "--batch", "8", "--steps", "1", "--checkpoint", "c.safetensors"], 0, &["step 1"]);
    run(
        &["predict", "c.safetensors", "a.png"],
        2,
        &["c.safetensors is not a frozen network", "warpbook freeze c.safetensors --out FILE"],
    );
    run(&["eval", "nothere.safetensors"], 2, &["nothere.safetensors: No such file"]);
    run(&["freeze", "mnist", "--out", "f.safetensors"], 2, &["mnist is a recipe", "warpbook freeze mnist WEIGHTS"]);
    run(&["eval", "mnist"], 2, &["mnist is a recipe", "warpbook eval mnist WEIGHTS"]);
    for words in
        [&["eval", "amp-recipe", "c.safetensors"][..], &["freeze", "amp-recipe", "c.safetensors", "--out", "f"]]
    {
        run(words, 2, &["no images to classify"]);
    }
    std::fs::write(folder.path().join("file"), "text").unwrap();
    run(
        &["freeze", "mnist", "c.safetensors", "--out", "file/f.safetensors"],
        2,
        &["cannot be written", "another --out"],
    );
    run(&["freeze", "mnist", "c.safetensors", "--out", "c.safetensors"], 2, &["the same file as the checkpoint"]);
    run(&["freeze", "cifar10", "c.safetensors", "--out", "f.safetensors"], 2, &["conv1.weight has the shape"]);
    run(&["freeze", "mnist", "c.safetensors", "--out", "f.safetensors"], 0, &["mnist: 9 of 11"]);
    run(&["predict", "f.safetensors"], 2, &["<IMAGE>"]);
    // The sparse file takes no disk space, and would not fit into memory.
    std::fs::File::create(folder.path().join("big.json")).unwrap().set_len(1 << 40).unwrap();
    for words in [&["eval", "big.json"][..], &["eval", "mnist", "big.json"], &["predict", "big.json", "a.png"]] {
        run(words, 2, &["big.json is not a safetensors file"]);
    }
    run(&["eval", "cifar10", "f.safetensors"], 2, &["a frozen network of mnist, not of cifar10", "needs no recipe"]);
    let resumed = ["train", "mnist", "--resume", "f.safetensors"];
    run(&resumed, 2, &["is not a checkpoint", "--init f.safetensors"]);
    std::fs::write(folder.path().join("a.png"), "text").unwrap();
    draw(&folder.path().join("b.png"), 2);
    let both = ["predict", "f.safetensors", "a.png", "b.png"];
    run(&both, 2, &["a.png cannot be read", "b.png: ", "1 of 2 images could not be read"]);
}

#[test]
fn what_is_wrong_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let check = |words: &[&str], code, parts: &[&str]| expect(&warpbook(folder.path(), words), code, parts);
    check(&["train", "imagenet"], 2, &["`imagenet` is not a recipe"]);
    check(&["train", "cifar10-speedrun"], 2, &["warpbook data fetch cifar10", "--data DIR"]);
    check(&["train", "mnist", "--data", "nowhere"], 2, &["nowhere"]);
    check(&["train", "mnist", "--batch", "0"], 2, &["at least 1"]);
    std::fs::write(folder.path().join("small.toml"), SMALL).unwrap();
    check(&["train", "small.toml", "--steps", "1", "--batch", "12001"], 0, &["in batches of 12000,", " 1 step on "]);
    std::fs::write(folder.path().join("file"), "text").unwrap();
    for kept in [".", "file/c.safetensors"] {
        check(&["train", "mnist", "--checkpoint", kept], 2, &["cannot be written", "Nothing was trained"]);
    }
    check(&["train", "amp-recipe", "--edge", "46341"], 2, &["choose from 1 to 46340"]);
    let huge = ["train", "amp-recipe", "--edge", "46340", "--batch", "10000000", "--device", "cpu"];
    check(&huge, 2, &["MiB of memory, and", "choose a smaller --edge or --batch"]);
    check(&["train", "mnist", "--lr", "-1"], 2, &["learning rate is -1"]);
    check(&["train", "mnist", "--init", "none.safetensors"], 2, &["none.safetensors"]);
    check(&["eval", "mnist", "none.safetensors"], 2, &["none.safetensors"]);
    std::fs::write(folder.path().join("grey.toml"), SMALL.replace("synthetic", "synthetic-colours")).unwrap();
    check(&["train", "grey.toml", "--steps", "1", "--data", "synthetic"], 0, &["synthetic coloured digits"]);
    let wild = ["train", "mnist", "--batch", "32", "--steps", "9", "--lr", "1e20", "--checkpoint", "c.safetensors"];
    check(&wild, 1, &["not a finite number", "Lower the learning rate"]);
    assert!(!folder.path().join("c.safetensors").exists(), "weights that are lost are not kept");
}

#[test]
fn what_cannot_be_trained_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |words: &[&str], parts: &[&str]| {
        let all = [&["train", "mnist", "--data", "synthetic", "--device", "cpu"], words].concat();
        expect(&warpbook(folder.path(), &all), 2, parts);
    };
    refused(&["--precision", "amp-fp16"], &["computes in fp32", "--device cuda:0"]);
    refused(&["--precision", "fp8"], &["amp-bf16"]);
    refused(&["--rung", "08_graph_fp16"], &["--rung 08_graph_fp16 trains on a GPU"]);
    refused(&["--edge", "64"], &["amp-recipe"]);
}

/// A recipe for a network whose steps take almost no time.
const SMALL: &str = "data = \"synthetic\"\nbatch = 32\nlearning_rate = 0.05\nclip = 1.0\n\
                     network = [\"avg_pool 7\", \"flatten\", \"linear 10\"]\n";

fn read(path: &Path) -> warpbook_record::Run {
    warpbook::read_record(path).unwrap()
}

#[test]
fn every_step_s_loss_comes_into_a_record() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.toml"), SMALL).unwrap();
    let run = |words: &[&str]| warpbook(folder.path(), words);
    let train = ["train", "small.toml", "--device", "cpu", "--steps", "40", "--log-every", "1", "--out", "r.json"];
    expect(&run(&train), 0, &["step 40: loss", " s in all, ", "allocated", "Record: r.json", "warpbook view r.json"]);
    let record = read(&folder.path().join("r.json"));
    let log = &record.train_logs[0];
    assert_eq!(log.losses.iter().map(|p| p.step.unwrap()).collect::<Vec<_>>(), (1..=40).collect::<Vec<_>>());
    assert!(log.losses.iter().all(|p| p.loss > 0.0));
    let course = log.course.as_deref().unwrap();
    assert_eq!((course.gradient_norms.len(), course.ended.as_str()), (40, "finished"));
    assert!(course.data.contains("drawn by a program") && record.notes[0].contains("synthetic"));
    let words = "--device cpu --precision fp32 --steps 40 --log-every 1 --out r.json";
    assert_eq!(record.command, format!("warpbook train small.toml {words}"));
    // The command in the record repeats the run.
    let again: Vec<&str> = record.command.split(' ').skip(1).collect();
    expect(&run(&again), 0, &["step 40: loss"]);
    assert_eq!(read(&folder.path().join("r.json")).train_logs[0].losses, log.losses);
    expect(&run(&["view", "--text", "r.json"]), 0, &["Training of small on", "steps", "40", "finished"]);
    expect(&run(&["view", "--html", "r.html", "r.json"]), 0, &["r.html"]);
    let page = with_pictures(&std::fs::read_to_string(folder.path().join("r.html")).unwrap());
    for part in ["Training of small: loss", "learning rate, 0.05 throughout", "gradient norm, at most"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("Training of small: loss scale"), "nothing was scaled");
    expect(&run(&["train", "small.toml", "--out", "none/r.json"]), 2, &["Nothing has been started"]);
}

#[test]
fn a_record_of_a_training_has_the_users_note_on_its_images() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.toml"), SMALL).unwrap();
    let run = |words: &[&str]| warpbook(folder.path(), words);
    let train = ["train", "small.toml", "--device", "cpu", "--steps", "4"];
    let noted = [&train[..], &["--out", "r.json", "--data-note", "recompressed as JPEG q75"]].concat();
    expect(&run(&noted), 0, &["Record: r.json"]);
    let record = read(&folder.path().join("r.json"));
    let log = &record.train_logs[0];
    assert!(log.problem.label.ends_with("synthetic digits, recompressed as JPEG q75"), "{}", log.problem.label);
    let data = &log.course.as_deref().unwrap().data;
    assert!(data.contains("drawn by a program") && data.contains("recompressed as JPEG q75"), "{data}");
    // The command in the record repeats the note.
    assert!(record.command.contains("--data-note 'recompressed as JPEG q75'"), "{}", record.command);
    let refused = [&train[..], &["--data-note", "x"]].concat();
    expect(&run(&refused), 2, &["--data-note is for the record of whole trainings or of --out"]);
}

#[test]
fn the_norm_of_gradients_is_recorded_without_clipping() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.toml"), SMALL.replace("clip = 1.0", "")).unwrap();
    let train = |more: &[&str]| {
        let words = ["train", "small.toml", "--device", "cpu", "--steps", "5", "--log-every", "1", "--out", "r.json"];
        warpbook(folder.path(), &[&words[..], more].concat())
    };
    let log = |more: &[&str]| {
        expect(&train(more), 0, &["Record: r.json"]);
        read(&folder.path().join("r.json")).train_logs.remove(0)
    };
    let (plain, recorded) = (log(&[]), log(&["--clip", "inf"]));
    assert_eq!(recorded.losses, plain.losses);
    let (plain, recorded) = (plain.course.unwrap(), recorded.course.unwrap());
    assert_eq!((plain.gradient_norms.len(), recorded.gradient_norms.len()), (0, 5));
    assert!(recorded.gradient_norms.iter().all(|norm| norm.value > 0.0));
    assert!(recorded.recipe.contains(&("gradient clipping".into(), "none; the norm is recorded".into())));
    expect(&train(&["--clip", "0"]), 2, &["above 0"]);
}

#[test]
fn trainings_become_one_record() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.toml"), SMALL).unwrap();
    let run = |words: &str| warpbook(folder.path(), &words.split(' ').collect::<Vec<_>>());
    for batch in [32, 64] {
        let train = format!("train small.toml --device cpu --epochs 1 --batch {batch} --out {batch}.json");
        expect(&run(&train), 0, &["Record: "]);
    }
    expect(&run("merge 32.json 64.json --out both.json"), 0, &["Record: both.json"]);
    let record = read(&folder.path().join("both.json"));
    let batches: Vec<_> = record.train_logs.iter().map(|log| log.problem.count("batch")).collect();
    assert_eq!(batches, [Some(32), Some(64)]);
    assert!(record.train_logs.iter().all(|log| log.course.as_deref().is_some_and(|c| !c.epochs.is_empty())));
    expect(&run("view --text both.json"), 0, &["batch 32, synthetic digits", "batch 64, synthetic digits"]);
}

#[test]
fn a_time_budget_ends_a_training() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.toml"), SMALL).unwrap();
    let train = ["train", "small.toml", "--device", "cpu", "--epochs", "100000", "--time-budget", "300ms"];
    let more = ["--out", "r.json", "--checkpoint", "c.safetensors"];
    let done = warpbook(folder.path(), &[&train[..], &more].concat());
    expect(&done, 0, &["the time budget is used up", "test loss", "accuracy", "is kept in c.safetensors"]);
    let record = read(&folder.path().join("r.json"));
    let course = record.train_logs[0].course.as_deref().unwrap();
    assert!(course.ended.starts_with("out of time after step ") && !course.epochs.is_empty(), "{}", course.ended);
    expect(&warpbook(folder.path(), &["train", "small.toml", "--time-budget", "soon"]), 2, &["90s, 5m or 1h"]);
}

/// After Ctrl-C, or after a NaN loss, the record has all results up to that point.
#[test]
fn what_ends_a_training_leaves_its_record() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.toml"), SMALL.replace("clip = 1.0", "")).unwrap();
    let wild = ["train", "small.toml", "--device", "cpu", "--lr", "1e300", "--log-every", "1", "--out", "w.json"];
    expect(&warpbook(folder.path(), &wild), 1, &["not a finite number", "Record: w.json"]);
    let record = read(&folder.path().join("w.json"));
    assert!(record.train_logs[0].diverged() && record.notes.last().unwrap().contains("Lower the learning rate"));
    interrupted(folder.path());
}

#[cfg(unix)]
fn interrupted(folder: &Path) {
    use std::io::BufRead;
    let program = crate::common::program_path();
    let mut child = Command::new(program)
        .args(["train", "small.toml", "--device", "cpu", "--epochs", "1000000", "--log-every", "10"])
        .args(["--out", "i.json", "--checkpoint", "i.safetensors"])
        .current_dir(folder)
        .env("WARPBOOK_CACHE", cache(folder))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.by_ref().any(|l| l.unwrap().contains("step 20: loss")));
    let pressed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(pressed.success());
    let rest: Vec<String> = lines.map(|l| l.unwrap()).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    assert!(rest.iter().any(|l| l.contains("is kept in i.safetensors")), "{rest:?}");
    let record = read(&folder.join("i.json"));
    let (log, course) = (&record.train_logs[0], record.train_logs[0].course.as_deref().unwrap());
    assert!(course.ended.starts_with("stopped after step ") && log.losses.len() >= 2, "{}", course.ended);
    assert_eq!(log.losses.last().unwrap().step, Some(course.steps));
}

#[cfg(not(unix))]
fn interrupted(_folder: &Path) {}

/// The process is killed in the way that interrupting a notebook kills its kernel.
#[test]
fn a_training_that_is_killed_leaves_its_last_checkpoint() {
    use std::io::BufRead;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.toml"), SMALL).unwrap();
    let program = crate::common::program_path();
    let mut child = Command::new(program)
        .args(["train", "small.toml", "--device", "cpu", "--epochs", "1000000", "--checkpoint", "k.safetensors"])
        .current_dir(folder.path())
        .env("WARPBOOK_CACHE", cache(folder.path()))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.by_ref().any(|l| l.unwrap().starts_with("epoch 2: ")));
    child.kill().unwrap();
    child.wait().unwrap();
    let resume = ["train", "small.toml", "--device", "cpu", "--resume", "k.safetensors", "--epochs", "1000000"];
    let output = warpbook(folder.path(), &[&resume[..], &["--time-budget", "1ms"]].concat());
    expect(&output, 0, &["resuming after step ", "the time budget is used up"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, rest) = text.split_once("resuming after step ").unwrap();
    let step: u64 = rest.lines().next().unwrap().parse().unwrap();
    assert!(step >= 375 && step.is_multiple_of(375), "a whole epoch, not step {step}");
}

/// Tests a training's lines with CIFAR-10's number of batches: one for every hundred batches with their mean loss, and
/// a last one for the rest.
#[test]
fn a_line_has_epoch_batch_and_the_mean_of_a_hundred_losses() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.toml"), SMALL).unwrap();
    let lines = |every: &str| {
        let words = ["train", "small.toml", "--device", "cpu", "--epochs", "1", "--log-every", every, "--seed", "3"];
        let output = warpbook(folder.path(), &words);
        expect(&output, 0, &["epoch 1: ", " s; test loss", " s in all, ", "allocated"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let of_line = |line: &str| {
            let (place, rest) = line.strip_prefix("epoch 1, batch ")?.split_once(", step ")?;
            let loss = rest.split_once(": loss ")?.1.split_once(',')?.0;
            Some((place.parse::<u64>().ok()?, loss.parse::<f64>().ok()?))
        };
        text.lines().filter_map(of_line).collect::<Vec<_>>()
    };
    let (each, some) = (lines("1"), lines("100"));
    // An epoch has 12000 images in batches of 32.
    assert_eq!(some.iter().map(|l| l.0).collect::<Vec<_>>(), [100, 200, 300, 375]);
    for (i, (batch, loss)) in some.iter().enumerate() {
        let losses: Vec<f64> = each[100 * i..*batch as usize].iter().map(|l| l.1).collect();
        let mean = losses.iter().sum::<f64>() / losses.len() as f64;
        assert!((loss - mean).abs() < 2e-4, "batch {batch}: {loss}, and the mean is {mean}");
    }
}

#[test]
fn random_numbers_are_trained_on() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["train", "amp-recipe", "--edge", "32", "--batch", "8", "--epochs", "2", "--device", "cpu"];
    expect(
        &warpbook(folder.path(), &words),
        0,
        &["400 samples", "step 100: loss", "epoch 2", "test loss", "allocated"],
    );
}

#[test]
fn what_computes_on_a_gpu_is_said_for_one_only() {
    let folder = tempfile::tempdir().unwrap();
    let train = |more: &[&str]| warpbook(folder.path(), &[&["train", "mnist", "--device", "cpu"], more].concat());
    expect(&train(&["--product", "stock"]), 2, &["--product chooses what computes on a GPU", "--device cuda:0"]);
    expect(&train(&["--convolution", "stock"]), 2, &["--convolution chooses what computes on a GPU"]);
    expect(&train(&["--product", "stok"]), 2, &["`stok` cannot compute a linear layer; did you mean `stock`?"]);
    expect(&train(&["--product", "none.cu"]), 2, &["none.cu cannot be read"]);
    expect(&train(&["--convolution", "naive"]), 2, &["Unknown convolution `naive`: choose one of own, im2col, stock."]);
}
