//! Tests of `warpbook train` as several processes on the CPU.

#![cfg(unix)]

use crate::common::cache;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The time limit of each test, for a busy machine.
const LONG: Duration = Duration::from_secs(120);

const SMALL: &str = "data = \"synthetic\"\nbatch = 32\nlearning_rate = 0.05\nclip = 1.0\n\
                     network = [\"avg_pool 7\", \"flatten\", \"linear 32\", \"relu\", \"linear 10\"]\n";

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.toml"), SMALL).unwrap();
    folder
}

fn command(folder: &Path, words: &[&str]) -> Command {
    let program = crate::common::program_path();
    let mut command = Command::new(program);
    command.args(words).current_dir(folder).env("WARPBOOK_CACHE", cache(folder));
    for name in ["RANK", "WORLD_SIZE", "LOCAL_RANK", "WARPBOOK_DATA", "WARPBOOK_DEVICE"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits for a process, and kills it if it takes too long.
fn ended(child: Child) -> (i32, String) {
    let (begun, id) = (Instant::now(), child.id().to_string());
    let waiting = std::thread::spawn(move || child.wait_with_output());
    while !waiting.is_finished() && begun.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(20));
    }
    if !waiting.is_finished() {
        let _ = Command::new("kill").args(["-KILL", &id]).status();
        panic!("a training did not end");
    }
    let Output { status, stdout, stderr } = waiting.join().unwrap().unwrap();
    (status.code().unwrap_or(-1), format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
}

fn run(folder: &Path, words: &[&str]) -> (i32, String) {
    ended(command(folder, words).spawn().unwrap())
}

/// Returns the losses in lines of progress.
fn losses(text: &str) -> Vec<f64> {
    let loss = |line: &str| line.split_once(": loss ")?.1.split([',', ';']).next()?.trim().parse().ok();
    text.lines().filter_map(loss).collect()
}

const STEPS: [&str; 7] = ["train", "small.toml", "--device", "cpu", "--steps", "40", "--log-every"];

#[test]
fn ranks_train_as_one_process_and_say_it_once() {
    let folder = folder();
    let alone = run(folder.path(), &[&STEPS[..], &["1"]].concat());
    let more = ["1", "--ranks", "2", "--out", "r.json", "--checkpoint", "c.safetensors", "--bucket", "0.001"];
    let two = run(folder.path(), &[&STEPS[..], &more].concat());
    assert_eq!((alone.0, two.0), (0, 0), "{}", two.1);
    let (want, got) = (losses(&alone.1), losses(&two.1));
    assert!(want.len() == 40 && got.len() == 40, "{}", two.1);
    // Losses are printed with four decimals.
    assert!(want.iter().zip(&got).all(|(a, b)| (a - b).abs() < 3e-4), "{want:?}\n{got:?}");
    assert!(two.1.lines().all(|line| line.starts_with("[rank 0] ")), "{}", two.1);
    for part in [
        "2 ranks with 16 samples of a batch each; gradients in fp32, in 2 buckets: ",
        "step 40 is kept in c.safetensors",
    ] {
        assert!(two.1.contains(part), "{}", two.1);
    }
    let record = warpbook::read_record(folder.path().join("r.json")).unwrap();
    let course = record.train_logs[0].course.as_deref().unwrap();
    assert!(
        course.recipe.iter().any(|(name, what)| name == "ranks" && what.starts_with("2 ranks")),
        "{:?}",
        course.recipe
    );
    assert!(record.command.contains("--ranks 2 --bucket 0.001"), "{}", record.command);
    // The training can be resumed on another number of ranks, and alone.
    for ranks in [&["--ranks", "3"][..], &[]] {
        let resume = ["train", "small.toml", "--device", "cpu", "--resume", "c.safetensors", "--steps", "45"];
        let (code, text) = run(folder.path(), &[&resume[..], ranks].concat());
        assert!(code == 0 && text.contains("resuming after step 40"), "{text}");
    }
}

#[test]
fn the_same_number_of_ranks_writes_the_same_bytes() {
    let folder = folder();
    let kept = |name: &str| {
        let (code, text) = run(folder.path(), &[&STEPS[..], &["20", "--ranks", "3", "--checkpoint", name]].concat());
        assert_eq!(code, 0, "{text}");
        std::fs::read(folder.path().join(name)).unwrap()
    };
    assert!(kept("a.safetensors") == kept("b.safetensors"));
}

/// Starts an endless training and waits for its first lines.
fn endless(folder: &Path, more: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    let train = [
        "train",
        "small.toml",
        "--device",
        "cpu",
        "--epochs",
        "1000000",
        "--log-every",
        "10",
        "--checkpoint",
        "k.safetensors",
    ];
    let mut child = command(folder, &[&train[..], more].concat()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("epoch 2, batch") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended before it was under way");
    }
    (child, lines)
}

/// Returns the child processes of a process.
#[cfg(target_os = "linux")]
fn children(id: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    text.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

#[cfg(target_os = "linux")]
fn lives(id: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn signal(name: &str, id: u32) {
    assert!(Command::new("kill").args([name, &id.to_string()]).status().unwrap().success());
}

/// Returns the exit code of an endless training and its remaining output.
fn rest(child: Child, mut lines: BufReader<std::process::ChildStdout>) -> (i32, String) {
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = lines.read_to_string(&mut text);
        text
    });
    let (code, errors) = ended(child);
    (code, format!("{}{errors}", reading.join().unwrap()))
}

#[cfg(target_os = "linux")]
#[test]
fn a_rank_that_is_killed_ends_all_and_the_checkpoint_goes_on() {
    let folder = folder();
    let (child, lines) = endless(folder.path(), &["--ranks", "3"]);
    let ranks = children(child.id());
    assert_eq!(ranks.len(), 3);
    signal("-KILL", ranks[1]);
    let (code, text) = rest(child, lines);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("Rank 1 died") && text.contains("Rank 1 was killed by signal 9"), "{text}");
    assert!(!ranks.iter().any(|id| lives(*id)), "processes are left over");
    let resume = ["train", "small.toml", "--device", "cpu", "--resume", "k.safetensors", "--epochs", "1000000"];
    let (code, text) = run(folder.path(), &[&resume[..], &["--ranks", "2", "--time-budget", "10ms"]].concat());
    assert!(
        code == 0 && text.contains("resuming after step ") && text.contains("the time budget is used up"),
        "{text}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_rank_that_hangs_ends_all() {
    let folder = folder();
    let (child, lines) = endless(folder.path(), &["--ranks", "2", "--rank-timeout", "4s"]);
    let ranks = children(child.id());
    signal("-STOP", ranks[1]);
    let (code, text) = rest(child, lines);
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("Rank 1 has not been heard from for") || text.contains("Rank 1 hangs"), "{text}");
    assert!(!ranks.iter().any(|id| lives(*id)), "processes are left over");
}

#[cfg(target_os = "linux")]
#[test]
fn ranks_end_with_their_launcher() {
    let folder = folder();
    let (mut child, _lines) = endless(folder.path(), &["--ranks", "2"]);
    let ranks = children(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    let begun = Instant::now();
    while ranks.iter().any(|id| lives(*id)) {
        assert!(begun.elapsed() < LONG, "ranks are left over");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_interrupt_keeps_the_checkpoint() {
    let folder = folder();
    let (child, lines) = endless(folder.path(), &["--ranks", "2"]);
    signal("-INT", child.id());
    let (code, text) = rest(child, lines);
    assert_eq!(code, 130, "{text}");
    assert!(text.contains("is kept in k.safetensors"), "{text}");
}

#[test]
fn a_loss_that_is_no_number_ends_all_with_its_step() {
    let folder = folder();
    std::fs::write(folder.path().join("wild.toml"), SMALL.replace("clip = 1.0", "")).unwrap();
    let wild =
        ["train", "wild.toml", "--device", "cpu", "--lr", "1e300", "--ranks", "2", "--checkpoint", "c.safetensors"];
    let (code, text) = run(folder.path(), &wild);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("Step ") && text.contains(" on rank ") && text.contains("Lower the learning rate"), "{text}");
    assert!(!folder.path().join("c.safetensors").exists(), "weights that are lost are not kept");
}

#[test]
fn ranks_of_a_launcher_that_is_not_ours_train() {
    let folder = folder();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let names = [
        ["RANK", "WORLD_SIZE", "LOCAL_RANK"],
        ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"],
        ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"],
    ];
    for names in names {
        let all = ["1", "0"].map(|rank| {
            let mut command = command(folder.path(), &[&STEPS[..], &["20"]].concat());
            command.env(names[0], rank).env(names[1], "2").env(names[2], rank);
            if names[0] == "SLURM_PROCID" {
                command.env("SLURM_STEP_ID", "0");
            }
            command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", &port).spawn().unwrap()
        });
        let [other, first] = all.map(ended);
        assert!(
            first.0 == 0 && losses(&first.1).len() >= 2 && first.1.contains("2 ranks with 16 samples"),
            "{}",
            first.1
        );
        assert_eq!(other, (0, String::new()), "only rank 0 speaks");
    }
}

#[test]
fn what_cannot_be_done_by_ranks_is_said() {
    let folder = folder();
    let check = |words: &[&str], variables: &[(&str, &str)], code: i32, part: &str| {
        let mut command = command(folder.path(), &[&["train", "small.toml", "--steps", "2"], words].concat());
        let (got, text) = ended(command.envs(variables.iter().copied()).spawn().unwrap());
        assert!(got == code && text.contains(part), "{words:?}: {got}\n{text}");
    };
    check(&["--ranks", "0"], &[], 2, "--ranks 0: choose at least 1");
    check(&["--ranks", "2", "--gpus", "2"], &[], 2, "cannot be used with");
    check(&["--ranks", "2", "--seeds", "2"], &[], 2, "are for one rank");
    check(&["--ranks", "2", "--gradients", "fp8"], &[], 2, "fp8");
    check(&["--ranks", "2", "--bucket", "0"], &[], 2, "--bucket 0: choose MiB above 0");
    check(&["--ranks", "2", "--batch", "1"], &[], 2, "fewer samples than the 2 ranks");
    check(&["--ranks", "2", "--resume", "none.safetensors"], &[], 2, "none.safetensors");
    check(&["--gpus", "4096"], &[], if cfg!(target_os = "linux") { no_gpus() } else { 3 }, "");
    check(&[], &[("RANK", "0")], 2, "WORLD_SIZE is not set");
    let placed =
        [("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "1")];
    check(&["--ranks", "3"], &placed, 2, "RANK and WORLD_SIZE say that this process is rank 0 of 2 already");
    check(&["--ranks", "2"], &placed, 2, "--ranks 2 starts ranks, and RANK and WORLD_SIZE say");
    let left_over = "To work without other ranks, unset RANK and WORLD_SIZE";
    check(&[], &placed[..2], 2, left_over);
    check(&["--ranks", "2"], &placed[..2], 2, left_over);
    check(
        &["--gpus", "1", "--device", "cpu"],
        &[],
        2,
        "--gpus 1 trains on GPUs, and --device or WARPBOOK_DEVICE chooses the CPU",
    );
    check(&["--ranks", "1"], &[], 0, "step 2: loss");
}

/// Returns the exit code of a run on more GPUs than there are; without a driver it is 3.
fn no_gpus() -> i32 {
    let gpus = warpbook::device::Inventory::take();
    if gpus.cuda.is_ok() { 2 } else { 3 }
}

/// Returns true if there are two GPUs with NCCL; otherwise notes the test as skipped.
fn has_two_gpus(test: &str) -> bool {
    let count = warpbook::device::Inventory::take().gpus().count();
    if count < 2 {
        println!("skipped: {test} needs two GPUs, and there are {count}");
    }
    count >= 2
}

#[test]
fn two_gpus_train_from_the_command_line() {
    if !has_two_gpus("two_gpus_train_from_the_command_line") {
        return;
    }
    let folder = folder();
    let train = ["train", "mnist", "--data", "synthetic", "--batch", "64", "--steps", "300", "--gpus", "2"];
    for more in [&["--precision", "fp32", "--no-dropout"][..], &["--precision", "amp-bf16"]] {
        let (code, text) = run(folder.path(), &[&train[..], more, &["--checkpoint", "g.safetensors"]].concat());
        assert!(code == 0 && text.contains("2 ranks with 32 samples of a batch each"), "{text}");
        assert!(losses(&text).last().is_some_and(|loss| *loss < 1.0), "{text}");
    }
    let resume =
        ["train", "mnist", "--data", "synthetic", "--batch", "64", "--steps", "310", "--precision", "amp-bf16"];
    let (code, text) =
        run(folder.path(), &[&resume[..], &["--resume", "g.safetensors", "--device", "cuda:0"]].concat());
    assert!(code == 0 && text.contains("resuming after step 300"), "{text}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_rank_on_a_gpu_that_is_killed_or_hangs_ends_all() {
    if !has_two_gpus("a_rank_on_a_gpu_that_is_killed_or_hangs_ends_all") {
        return;
    }
    for (name, named) in [("-KILL", "Rank 1 died"), ("-STOP", "Rank 1 ha")] {
        let folder = folder();
        let mut child = command(
            folder.path(),
            &["train", "mnist", "--data", "synthetic", "--epochs", "1000000", "--gpus", "2", "--rank-timeout", "10s"],
        )
        .spawn()
        .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("epoch 2") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it ended before it was under way");
        }
        let ranks = children(child.id());
        signal(name, ranks[1]);
        let (code, text) = rest(child, lines);
        assert!(code != 0 && text.contains(named), "{text}");
        assert!(!ranks.iter().any(|id| lives(*id)), "processes are left over");
    }
}

#[test]
fn variables_that_were_left_over_are_told() {
    let folder = folder();
    let begun = Instant::now();
    let run = |words: &[&str]| {
        let mut command = command(folder.path(), words);
        command.env("RANK", "0").env("WORLD_SIZE", "2").env("LOCAL_RANK", "0");
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", "29517");
        ended(command.spawn().unwrap())
    };
    let train = ["train", "small.toml", "--device", "cpu", "--rank-timeout", "3s"];
    let (code, text) = run(&train);
    assert!(code == 2 && begun.elapsed() < Duration::from_secs(60), "{code} after {:?}: {text}", begun.elapsed());
    assert!(text.contains("Rank 0 waits for rank 1 at 127.0.0.1:29517") && text.contains("within 3s"), "{text}");
    assert!(text.contains("for 1 s more") && !text.contains("for 0 s more"), "{text}");
    for words in [&[&train[..], &["--seeds", "1"]].concat()[..], &["speedrun", "small.toml", "--device", "cpu"]] {
        let (code, text) = run(words);
        assert!(code == 2 && text.contains("RANK and WORLD_SIZE say that this one is rank 0 of 2"), "{code}: {text}");
    }
}
