//! Tests of `warpbook scaling`: ranks as processes, and their record.

#![cfg(unix)]

use crate::common::cache;
use std::path::Path;
use std::process::{Command, Stdio};
use warpbook_record::{Outcome, Run};

fn run(folder: &Path, words: &[&str]) -> (i32, String) {
    let program = crate::common::program_path();
    let mut command = Command::new(program);
    command.arg("scaling").args(words).current_dir(folder).env("WARPBOOK_CACHE", cache(folder));
    for name in ["RANK", "WORLD_SIZE", "LOCAL_RANK", "WARPBOOK_DATA", "WARPBOOK_DEVICE"] {
        command.env_remove(name);
    }
    let done = command.stdin(Stdio::null()).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    (done.status.code().unwrap_or(-1), text)
}

fn read(path: &Path) -> Run {
    Run::from_json(&std::fs::read(path).unwrap()).unwrap()
}

const SMALL: [&str; 12] = [
    "--network",
    "amp-recipe",
    "--features",
    "64",
    "--batch",
    "8",
    "--steps",
    "2",
    "--samples",
    "3",
    "--checked-steps",
    "3",
];

#[test]
fn processes_on_the_cpu_leave_one_record() {
    let folder = tempfile::tempdir().unwrap();
    let words = [&["--ranks", "3", "--gradients", "fp32,fp16", "--out", "s.json"], &SMALL[..]].concat();
    // Three ranks cannot share eight samples evenly.
    let (code, text) = run(folder.path(), &words);
    assert!(code == 2 && text.contains("A batch of 8 cannot be split evenly among 3 ranks"), "{text}");
    let (code, text) = run(folder.path(), &[&words[..], &["--growth", "weak"]].concat());
    assert_eq!(code, 0, "{text}");
    let record = read(&folder.path().join("s.json"));
    // The record has 1, 2 and 3 ranks with two gradient types each, and one process.
    assert_eq!(record.measurements.len(), 9, "{text}");
    for m in &record.measurements {
        assert!(m.is_valid() && m.samples_us.len() == 3 && record.scaling_efficiency(m).is_some(), "{m:?}");
    }
    let lanes: Vec<&str> = record.spans.iter().map(|s| s.stream.as_str()).collect();
    assert!(["rank 0 compute", "rank 2 communication"].iter().all(|lane| lanes.contains(lane)), "{lanes:?}");
    assert!(record.notes.iter().any(|n| n.contains("a process on the CPU")), "{:?}", record.notes);
    assert!(record.command.starts_with("warpbook scaling --ranks 3") && !record.command.contains("--worker"));
    assert!(text.contains("efficiency") && text.contains("Record: s.json"), "{text}");
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let check = |words: &[&str], expect: &str| {
        let (code, text) = run(folder.path(), &[words, &SMALL[..]].concat());
        assert!(code == 2 && text.contains(expect), "{words:?}: {code} {text}");
    };
    check(&[], "--gpus");
    check(&["--ranks", "0"], "choose from 1 to 64");
    check(&["--ranks", "2", "--precision", "amp-bf16"], "--precision is for GPUs");
    check(&["--ranks", "2", "--bucket", "0"], "choose MiB above 0");
    check(&["--ranks", "2", "--growth", "sideways"], "choose weak or strong");
    check(&["--ranks", "2", "--pytorch", "nowhere.json"], "a file that `ddp.py --out` wrote");
    check(&["--ranks", "2", "--out", "nowhere/s.json"], "cannot be written");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_set_that_is_smaller_than_a_batch_is_told() {
    let folder = tempfile::tempdir().unwrap();
    for (part, n) in [("train", 3u32), ("t10k", 2)] {
        let write =
            |name: &str, bytes: Vec<u8>| std::fs::write(folder.path().join(format!("{part}-{name}")), bytes).unwrap();
        let sizes = [n, 28, 28].map(u32::to_be_bytes).concat();
        write("images-idx3-ubyte", [&[0, 0, 8, 3][..], &sizes, &vec![7; n as usize * 784]].concat());
        write("labels-idx1-ubyte", [&[0, 0, 8, 1][..], &n.to_be_bytes(), &vec![1; n as usize]].concat());
    }
    let words = "--ranks 2 --network mnist --batch 8 --growth strong --steps 1 --samples 1 --data . --out s.json";
    let (code, text) = run(folder.path(), &words.split(' ').collect::<Vec<_>>());
    assert_eq!(code, 1, "{text}");
    for part in [
        "1 rank, a batch of 8",
        "2 ranks, a batch of 8",
        "FAILED: The data set has 3 samples, fewer than a batch of 8.",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("differ from the losses of one rank"), "{text}");
    assert!(read(&folder.path().join("s.json")).measurements.iter().all(|m| !m.is_valid()));
}

#[test]
fn two_gpus_leave_a_record_with_their_timelines() {
    const TEST: &str = "two_gpus_leave_a_record_with_their_timelines";
    if warpbook::device::Inventory::take().gpus().count() < 2 {
        println!("skipped: {TEST} needs two GPUs");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let words = "--gpus 2 --network cifar10,amp-recipe --features 256 --batch 64 --precision fp32,amp-fp16,amp-bf16 --synthetic --steps 20 \
                 --samples 3 --checked-steps 5 --out s.json";
    let (code, text) = run(folder.path(), &words.split_whitespace().collect::<Vec<_>>());
    assert_eq!(code, 0, "{text}");
    let record = read(&folder.path().join("s.json"));
    // The record has two networks with two lines each, on 1 and 2 GPUs: ranks in three precisions, one process in two.
    assert_eq!(record.measurements.len(), 2 * 2 * 2 * 5, "{text}");
    for m in &record.measurements {
        assert!(m.outcome == Outcome::Measured && m.is_valid(), "{} at {}: {m:?}", m.rung, m.problem.label);
        assert!(record.scaling_efficiency(m).is_some_and(|e| e > 0.0), "{}", m.rung);
    }
    let without_cupti = record.notes.iter().any(|n| n.contains("No timeline"));
    let lanes: Vec<&str> = record.spans.iter().map(|s| s.stream.as_str()).collect();
    let all = ["rank 0 compute", "rank 0 communication", "rank 1 compute", "rank 1 communication"];
    assert!(without_cupti || all.iter().all(|lane| lanes.contains(lane)), "{lanes:?} {:?}", record.notes);
    let longest = record.spans.iter().map(|s| s.end_us()).fold(0.0, f64::max);
    assert!(longest < 1e6, "the clocks of the ranks are one: {longest} us");
}
