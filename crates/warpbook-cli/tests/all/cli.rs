//! Tests of the program as users start it. They run on the CPU and do not use a GPU.

use crate::common::place::{Done, Place, read};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use warpbook_record::Outcome;

#[test]
fn devices_lists_the_cpu() {
    let Some(place) = Place::new() else { return };
    place.run(&["devices"]).expect(0, "cpu");
    let done = place.run(&["devices", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&done.expect(0, "\"devices\"").out).unwrap();
    let last = json["devices"].as_array().unwrap().last().unwrap();
    assert_eq!(last["kind"], "cpu");
    assert!(last["memory_bytes"].as_u64().unwrap() > 0);
    assert_eq!(json["cuda"].is_null(), json["cuda_missing"].is_string());
}

#[test]
fn help_teaches_by_examples() {
    let Some(place) = Place::new() else { return };
    for words in [
        &["--help"][..],
        &["run", "--help"],
        &["run", "regression", "--help"],
        &["merge", "--help"],
        &["view", "--help"],
        &["share", "--help"],
        &["train", "--help"],
        &["speedrun", "--help"],
        &["doctor", "--help"],
    ] {
        place.run(words).expect(0, "Examples:");
    }
    place.run(&["--help"]).expect(0, "130  interrupted");
    let entries = warpbook::experiments();
    let longest = entries.iter().map(|e| e.name.len()).max().unwrap();
    for command in ["run", "xray"] {
        let all = place.run(&[command, "--help"]);
        for entry in &entries {
            let about = entry.about.split_whitespace().next().unwrap();
            all.expect(0, &format!("{:<longest$}  {about}", entry.name));
            let one = place.run(&[command, entry.name, "--help"]);
            one.expect(0, &entry.details.split_whitespace().take(3).collect::<Vec<_>>().join(" "));
        }
    }
    let settings = place.run(&["run", "regression", "--help"]);
    for part in ["[default: 200]", "[default: 0.01]", "seconds", "WARPBOOK_DEVICE", "5_000_000"] {
        settings.expect(0, part);
    }
}

#[test]
fn a_run_writes_a_record_that_is_read_again() {
    let Some(place) = Place::new() else { return };
    let run = place.record("a.json");
    assert_eq!(run.problems().len(), 2);
    let (measured, skipped, failed) = run.counts();
    assert_eq!((measured, failed), (4, 0), "two CPU rungs at two sizes");
    assert_eq!(measured + skipped, run.rungs.len() * 2, "GPU rungs are listed as skipped");
    assert!(run.command.contains("--device cpu") && run.command.contains("--points 1000,2000"));
    let left: Vec<_> = fs::read_dir(place.folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(
        left.iter().all(|n| !n.to_string_lossy().contains(".part") && !n.to_string_lossy().contains(".probe")),
        "{left:?}"
    );
}

#[test]
fn a_row_is_printed_for_each_measurement() {
    let Some(place) = Place::new() else { return };
    let done =
        place.run(&["run", "regression", "--device", "cpu", "--points", "1k", "--epochs", "10", "--samples", "1"]);
    done.expect(0, "rung ").expect(0, "cpu_all_threads").expect(0, "passed").expect(0, "skipped: needs a GPU");
    done.expect(0, "View it with: warpbook view regression.json").expect(0, "is the fastest with");
    assert!(!done.out.contains('\u{1b}') && !done.err.contains('\u{1b}'), "plain lines where there is no terminal");
}

#[test]
fn an_older_record_is_replaced_only_if_it_is_named() {
    let Some(place) = Place::new() else { return };
    let older = place.record("regression.json");
    let words = ["run", "regression", "--device", "cpu", "--points", "100", "--epochs", "10", "--samples", "1"];
    place.run(&words).expect(0, "Record: regression-2.json");
    assert_eq!(read(&place.path("regression.json")), older);
    place.run(&[&words[..], &["--out", "regression.json"]].concat()).expect(0, "Record: regression.json");
    assert_eq!(read(&place.path("regression.json")).problems().len(), 1);
}

#[test]
fn bad_settings_are_refused_with_a_sentence() {
    let Some(place) = Place::new() else { return };
    let check = |words: &[&str], part: &str| {
        let all = [&["run", "regression", "--device", "cpu", "--out", "never.json"], words].concat();
        place.run(&all).expect(2, part);
        assert!(!place.path("never.json").exists(), "{words:?}");
    };
    check(&["--points", "0"], "2 are the least");
    check(&["--points", "-5"], "whole number");
    check(&["--points", "many"], "whole number");
    check(&["--points", "99999999999999999999"], "too large");
    check(&["--points", "9000000000G"], "the most is");
    check(&["--points", "1000G"], "Choose a smaller size");
    check(&["--epochs", "0"], "choose from 1 to");
    check(&["--lr", "-0.1"], "choose a number above 0");
    check(&["--lr", "nan"], "choose a number above 0");
    check(&["--lr", "fast"], "`fast` is not a number");
    check(&["--noise", "-1"], "choose a number from 0 up");
    check(&["--start", "1"], "`1` is not two numbers");
    check(&["--truth", "1,two"], "`two` is not a number");
    check(&["--range", "5,-5"], "name the smaller number first");
    check(&["--rungs", "04_fused_graf"], "`04_fused_graph`");
    check(&["--rungs", "02_fused", "--tile", "huge"], "There is no tile `huge`");
    check(&["--samples", "0"], "choose from 1 to");
    check(&["--budget", "-1"], "choose a number of seconds");
    check(&["--quick", "--sweep"], "cannot be used with");
    place.run(&["run"]).expect(2, "warpbook run regression");
    place.run(&["run", "regresion"]).expect(2, "regression");
    place.run(&["fly"]).expect(2, "Usage");
}

#[test]
fn a_device_that_is_not_there_has_its_own_code() {
    let Some(place) = Place::new() else { return };
    place.run(&["run", "regression", "--device", "cuda:4095"]).expect(3, "device");
    place.run(&["run", "regression", "--device", "tpu"]).expect(2, "Unknown device `tpu`");
    let mut c = place.command(&["run", "regression"]);
    let done = Done::new(&["WARPBOOK_DEVICE=abacus"], c.env("WARPBOOK_DEVICE", "abacus").output().unwrap());
    done.expect(2, "Unknown device `abacus`");
}

#[test]
fn an_unwritable_output_is_refused_before_anything_is_measured() {
    let Some(place) = Place::new() else { return };
    place.write("file", "");
    fs::create_dir(place.path("folder")).unwrap();
    let check = |out: &str, part: &str| {
        let done = place.run(&["run", "regression", "--device", "cpu", "--points", "1k", "--out", out]);
        done.expect(2, "cannot be written").expect(2, part);
        assert!(!done.out.contains("median"), "{}", done.out);
    };
    check("nowhere/a.json", "mkdir -p");
    check("file/a.json", "does not exist");
    check("folder", "it is a folder");
    if cfg!(unix) {
        check("/dev/null", "not a regular file");
    }
    place.run(&["run", "--quick", "--out", "file/x"]).expect(2, "cannot be made");
}

#[test]
fn a_diverging_run_is_a_failed_row_and_the_record_stays() {
    let Some(place) = Place::new() else { return };
    let words = ["run", "regression", "--device", "cpu", "--points", "1k", "--lr", "5", "--out", "d.json"];
    let done = place.run(&words);
    done.expect(1, "");
    assert!(done.out.contains("FAILED: the descent diverged"), "{}", done.out);
    let run = read(&place.path("d.json"));
    assert!(
        run.measurements.iter().any(|m| matches!(&m.outcome, Outcome::Failed { error } if error.contains("diverged")))
    );
    assert!(run.train_logs.iter().all(warpbook_record::TrainLog::diverged));
    place.run(&["view", "--text", "d.json"]).expect(0, "diverged");
}

#[test]
fn what_a_regression_fitted_is_shown_of_new_and_of_published_records() {
    let Some(place) = Place::new() else { return };
    let words = ["--points", "2k", "--epochs", "50", "--lr", "0.2", "--noise", "0", "--rungs", "cpu_1_thread"];
    let line = ["--start", "1,1", "--truth", "-2,0.5", "--range", "-1,1", "--device", "cpu", "--out", "line.json"];
    place.run(&[&["run", "regression"], &words[..], &line].concat()).expect(0, "Record: line.json");
    let shown = place.run(&["view", "--text", "line.json"]);
    shown.expect(0, "Losses of cpu_1_thread: ");
    let fitted = shown.out.lines().skip_while(|l| !l.starts_with("Fitted")).find(|l| l.starts_with("cpu_1_thread"));
    let fitted: Vec<f64> = fitted.unwrap().split_whitespace().skip(1).map(|v| v.parse().unwrap_or(0.0)).collect();
    assert!((fitted[0] + 2.0).abs() < 0.01 && (fitted[1] - 0.5).abs() < 0.001, "{fitted:?}");
    let published = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/results/regression-h200.json");
    let shown = place.run(&["view", "--text", published]);
    shown.expect(0, "Fitted:\nrung ");
    assert!(shown.out.contains("in epoch 200."), "{}", shown.out);
}

#[test]
fn a_record_whose_folder_vanishes_is_saved_elsewhere() {
    let Some(place) = Place::new() else { return };
    fs::create_dir(place.path("out")).unwrap();
    let words =
        ["run", "regression", "--device", "cpu", "--points", "1k,2k,3k", "--samples", "1000000", "--budget", "0.3"];
    let words = [&words[..], &["--out", "out/a.json"]].concat();
    let mut child = place.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    lines.by_ref().find(|l| l.contains("passed")).unwrap();
    // The training may write a checkpoint into the folder while it is being removed.
    let gone = (0..1000).any(|_| fs::remove_dir_all(place.path("out")).is_ok());
    assert!(gone, "the folder could not be removed");
    lines.for_each(drop);
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{err}");
    assert!(err.contains("out/a.json cannot be written") && err.contains("The record was written to"), "{err}");
    let is_copy = |p: &PathBuf| p.extension().is_some_and(|e| e == "json");
    let copy = fs::read_dir(place.folder.path()).unwrap().map(|e| e.unwrap().path()).find(is_copy).unwrap();
    assert_eq!(read(&copy).counts().0, 6);
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_keeps_what_it_has() {
    let Some(place) = Place::new() else { return };
    let words =
        ["run", "regression", "--device", "cpu", "--points", "1k,2k,3k,4k", "--samples", "1000000", "--budget", "1"];
    let words = [&words[..], &["--rungs", "cpu_1_thread,cpu_all_threads", "--out", "i.json"]].concat();
    let mut child = place.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    lines.by_ref().find(|l| l.contains("passed")).unwrap();
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    lines.for_each(drop);
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{err}");
    assert!(err.contains("press Ctrl-C again"), "{err}");
    let run = read(&place.path("i.json"));
    let (measured, skipped, failed) = run.counts();
    assert!(measured >= 1 && skipped >= 1 && failed == 0 && measured + skipped == 8, "{:?}", run.counts());
    assert!(run.notes.iter().any(|n| n.contains("Interrupted")), "{:?}", run.notes);
}

#[cfg(unix)]
#[test]
fn a_second_interrupt_ends_at_once_and_leaves_the_checkpoint() {
    let Some(place) = Place::new() else { return };
    // One sample of the second size takes half a minute on one thread, so the first signal does not end the run
    // immediately.
    let words = ["run", "regression", "--device", "cpu", "--points", "1k,10M", "--epochs", "10000", "--samples", "1"];
    let words = [&words[..], &["--rungs", "cpu_1_thread", "--out", "c.json"]].concat();
    let mut child = place.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    lines.by_ref().find(|l| l.contains("passed")).unwrap();
    // After this time the points have been drawn, and the sample has started.
    std::thread::sleep(std::time::Duration::from_secs(3));
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let interrupt = || Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupt().success());
    told.by_ref().find(|l| l.contains("press Ctrl-C again")).unwrap();
    assert!(interrupt().success());
    let begun = std::time::Instant::now();
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(begun.elapsed().as_secs() < 5);
    assert_eq!(read(&place.path("c.json")).counts(), (1, 0, 0));
}

#[test]
fn files_that_are_no_records_are_refused_with_a_sentence() {
    let Some(place) = Place::new() else { return };
    let good = place.record("good.json").to_json().unwrap();
    place.write("cut.json", &good[..good.len() / 2]);
    place.write("deep.json", "[".repeat(1_000_000));
    place.write("latin.json", b"{\"schema\": 1, \"title\": \"caf\xe9\"}");
    place.write("other.json", "{\"schema\": 1}");
    place.write("array.json", "[]");
    place.write("empty.json", "");
    place.write("newer.json", good.replacen("\"schema\": 2", "\"schema\": 999", 1));
    fs::File::create(place.path("huge.json")).unwrap().set_len(65 << 20).unwrap();
    let check = |file: &str, part: &str| {
        for how in ["--text", "--no-open"] {
            let done = place.run(&["view", how, file]);
            done.expect(2, part).expect(2, file);
            assert_eq!(done.err.trim().lines().count(), 1, "one sentence: {}", done.err);
        }
    };
    check("cut.json", "cut off");
    check("deep.json", "not valid JSON");
    check("latin.json", "not UTF-8");
    check("other.json", "no Warpbook record");
    check("array.json", "no Warpbook record");
    check("empty.json", "is empty");
    check("newer.json", "Update Warpbook");
    check("huge.json", "at most 64 MiB");
    check("nowhere.json", "cannot be read");
    // Readable records are still shown.
    let both = place.run(&["view", "--text", "cut.json", "good.json"]);
    both.expect(2, "cut.json");
    assert!(both.out.contains("cpu_1_thread"), "{}", both.out);
}

#[test]
fn records_are_shown_as_text_and_as_a_page() {
    let Some(place) = Place::new() else { return };
    place.record("a.json");
    let text = place.run(&["view", "--text", "a.json"]);
    text.expect(0, "cpu_1_thread").expect(0, "1 k points, 20 epochs").expect(0, "skipped: needs a GPU");
    place.run(&["view", "--html", "a.html", "a.json"]).expect(0, "a.html");
    let page = fs::read_to_string(place.path("a.html")).unwrap();
    assert!(page.contains("data:image/svg+xml") && page.contains("cpu_all_threads") && !page.contains("<script"));
    // Without a viewer, the report replaces it; the path is printed and nothing opens.
    let done = place.run(&["view", "a.json", "--no-open"]);
    done.expect(0, "warpbook.html");
    assert!(done.err.contains("cargo xtask web"), "{}", done.err);
    assert!(fs::read_to_string(done.out.trim()).unwrap().contains("data:image/svg+xml"));
    place.run(&["view", "--no-open"]).expect(2, "cargo xtask web");
    place.run(&["view", "--html", "nowhere/a.html", "a.json"]).expect(2, "cannot be written");
}

#[test]
fn the_doctor_says_what_there_is_and_what_to_do() {
    let Some(place) = Place::new() else { return };
    let done = place.run(&["doctor", "--device", "cpu"]);
    done.expect(0, "The lab can run");
    for what in ["driver", "GPUs", "NVML", "NVRTC", "compiler", "CUPTI", "cache", "viewer", "terminal", "trial run"] {
        let line = done.out.lines().find(|l| l.starts_with(what)).unwrap_or_else(|| panic!("no {what}: {}", done.out));
        assert!(line.contains(" ok ") || line.contains(" missing "), "{line}");
    }
    done.expect(0, "were checked on");
    place.run(&["doctor", "--device", "nonsense"]).expect(2, "Unknown device");
}

#[test]
fn the_quick_suite_keeps_a_record_an_experiment() {
    let Some(place) = Place::new() else { return };
    fs::create_dir_all(place.path("records/new")).unwrap();
    place.write("records/new/regression.json", "somebody's");
    let begun = std::time::Instant::now();
    place.run(&["run", "--quick", "--device", "cpu", "--out", "records/new"]).expect(0, "Record: ");
    // The limit allows for an unoptimised build and for other tests running at the same time; the limit for a release
    // build is 60 s.
    assert!(begun.elapsed().as_secs() < 240, "{:?}", begun.elapsed());
    assert_eq!(fs::read(place.path("records/new/regression.json")).unwrap(), b"somebody's");
    let run = read(&place.path("records/new/regression-2.json"));
    assert_eq!((run.experiment.as_str(), run.problems().len()), ("regression", 4));
    let run = read(&place.path("records/new/matmul.json"));
    assert_eq!((run.experiment.as_str(), run.problems().len()), ("matmul", 6));
    let run = read(&place.path("records/new/training.json"));
    assert_eq!((run.experiment.as_str(), run.problems().len(), run.train_logs.len()), ("training", 1, 1));
    let run = read(&place.path("records/new/loop.json"));
    assert_eq!((run.experiment.as_str(), run.problems().len(), run.train_logs.len()), ("loop", 1, 1));
    let ceilings = |name: &str| read(&place.path(&format!("records/new/{name}.json"))).peaks.bandwidth;
    assert_eq!(ceilings("regression-2"), ceilings("loop"), "the ceilings are measured once");
}

#[test]
fn rungs_are_profiled_after_all_was_measured_and_counters_need_a_gpu() {
    let Some(place) = Place::new() else { return };
    let run = ["run", "regression", "--quick", "--points", "10000", "--device", "cpu", "--out", "r.json"];
    let with = |more: &[&str]| place.run(&[&run[..], more].concat());
    let done = with(&["--profile", "p.json", "--counters"]);
    done.expect(0, "Profile: p.json");
    assert!(done.out.contains("ui.perfetto.dev p.trace.json"), "{}", done.out);
    assert!(
        done.out.contains("recorded runs took") || done.out.contains("the cost of recording is not measurable"),
        "{}",
        done.out
    );
    let profile = read(&place.path("p.json"));
    assert_eq!(profile.experiment, "profile");
    let record = read(&place.path("r.json"));
    let main = record.main_problem().unwrap();
    let sound = record.measurements.iter().filter(|m| m.problem == *main && record.is_sound(m)).count();
    assert_eq!((profile.problems.len(), profile.profiled.len()), (sound, sound), "a cycle a rung");
    assert!(profile.problems.iter().any(|p| p.label.starts_with("cpu_1_thread, cycle ")), "{:?}", profile.problems);
    assert!(
        profile.profiled.iter().all(|p| p.overhead.is_some_and(|o| o.unrecorded_steps == 2)),
        "{:?}",
        profile.profiled
    );
    let trace: serde_json::Value = serde_json::from_slice(&fs::read(place.path("p.trace.json")).unwrap()).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().iter().any(|e| e["name"] == "cpu_1_thread"));
    assert!(record.notes.iter().any(|n| n.contains("hardware counters needs a CUDA device")), "{:?}", record.notes);
    with(&["--profile", "no/p.json"]).expect(2, "the folder no does not exist");
    place.run(&["run", "guide", "--profile", "p.json"]).expect(2, "Name one of them");
}

#[test]
fn records_of_the_same_work_become_one() {
    let Some(place) = Place::new() else { return };
    let ours = place.record("ours.json");
    // Another framework's script writes such a record: different rungs, the same problems and device.
    let mut theirs = ours.clone();
    theirs.rungs.truncate(1);
    theirs.rungs[0].id = "pytorch_cpu".into();
    theirs.rungs[0].runner = warpbook_record::Runner::External("PyTorch 2.11.0".into());
    theirs.measurements.retain(|m| m.rung == "cpu_1_thread");
    theirs.measurements.iter_mut().for_each(|m| m.rung = "pytorch_cpu".into());
    theirs.environment.libraries = vec![("PyTorch".into(), "2.11.0".into())];
    place.write("theirs.json", theirs.to_json().unwrap());
    place.run(&["merge", "ours.json", "theirs.json", "--out", "both.json"]).expect(0, "Record: ");
    let both = read(&place.path("both.json"));
    assert_eq!(both.rungs.len(), ours.rungs.len() + 1);
    assert_eq!(both.measurements.len(), ours.measurements.len() + 2);
    assert_eq!(both.problems().len(), 2, "the problems meet");
    assert_eq!(both.environment.libraries, theirs.environment.libraries);
    // The other framework's rungs come after the CPU's rungs and before Warpbook's.
    assert_eq!(both.rungs[2].id, "pytorch_cpu");

    // `warpbook xray` writes such a record: one rung with one measurement, at a problem that the first record lacks.
    let mut xrayed = ours.clone();
    xrayed.rungs.truncate(1);
    let looked_into = ours.problems[0].clone().with(|p| p.id = "looked into".into());
    xrayed.problems = vec![looked_into.clone()];
    xrayed.measurements.truncate(1);
    xrayed.measurements[0].problem = looked_into.clone();
    xrayed.measurements[0].rung = xrayed.rungs[0].id.to_string();
    xrayed.train_logs.clear();
    xrayed.main_problem = Some(looked_into.id.clone());
    xrayed.descriptor.charts = vec![warpbook_record::ChartKind::Xray];
    xrayed.xrays = vec![warpbook_record::Xray {
        rung: xrayed.rungs[0].id.to_string(),
        problem: looked_into.clone(),
        phases: vec!["start".into()],
        kernels: Vec::new(),
        unmarked_kernels: Vec::new(),
        sms: Vec::new(),
        blocks: Vec::new(),
        clock_mhz: 1980.0,
        marked_us: vec![2.0],
        unmarked_us: vec![1.0],
    }];
    place.write("xray.json", xrayed.to_json().unwrap());
    place.run(&["merge", "ours.json", "xray.json", "--out", "with-xray.json"]).expect(0, "Record: ");
    let with_xray = read(&place.path("with-xray.json"));
    assert_eq!((with_xray.xrays.len(), &with_xray.measurements), (1, &ours.measurements), "no row for the X-ray's run");
    assert_eq!((&with_xray.rungs, with_xray.main_problem()), (&ours.rungs, ours.main_problem()));

    let refused = |other: &str, why: &str| {
        place.run(&["merge", "ours.json", other, "--out", "both.json"]).expect(2, why);
        assert_eq!(read(&place.path("both.json")), both, "what was there stays");
    };
    refused("ours.json", "Both records have the rung");
    let mut elsewhere = theirs.clone();
    elsewhere.environment.device.name = "another".into();
    place.write("elsewhere.json", elsewhere.to_json().unwrap());
    refused("elsewhere.json", "the device is");
    refused("missing.json", "cannot be read");
    place.write("broken.json", "{");
    refused("broken.json", "not valid JSON");
    place.run(&["merge", "ours.json", "--out", "x.json"]).expect(2, "");
    place.run(&["merge", "ours.json", "theirs.json", "--out", "no/such/folder.json"]).expect(2, "does not exist");
}
