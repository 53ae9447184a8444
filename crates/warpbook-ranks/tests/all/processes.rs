//! Tests ranks as processes. For this, the test executable starts itself.

use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use warpbook_ranks::{
    Collective, ENDED_BY_ANOTHER, Group, Launch, Limits, Line, Outcome, Placement, Reduce, Wire, end_with_launcher,
    launched_listener,
};

/// Environment variable that tells a process which job to do as a rank.
const JOB: &str = "WARPBOOK_TEST_JOB";
/// Time limit for every wait in these tests, long enough for a busy machine.
const LONG: Duration = Duration::from_secs(90);

fn limits() -> Limits {
    Limits { join: Duration::from_secs(60), silence: Duration::from_secs(4), stall: Duration::from_secs(4) }
}

/// Does the job of a rank if the environment says so; otherwise this test does nothing.
#[test]
fn rank_process() {
    let Ok(job) = std::env::var(JOB) else { return };
    end_with_launcher();
    let code = match work(&job) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("{why}");
            if matches!(why, warpbook_ranks::Error::Lost(_)) { ENDED_BY_ANOTHER } else { 2 }
        }
    };
    std::process::exit(code);
}

fn work(job: &str) -> warpbook_ranks::Result<()> {
    let placement = Placement::from_environment()?.expect("a launcher has started this process");
    let (name, number) = job.split_once(' ').unwrap_or((job, "1"));
    let number: usize = number.parse().unwrap();
    let mut limits = limits();
    if name == "join" {
        limits.join = Duration::from_secs(number as u64);
    }
    let mut group = Group::join(&placement, limits, launched_listener()?)?;
    let rank = group.rank();
    println!("rank {rank} has joined");
    match name {
        "sum" => {
            let mut values: Vec<f32> = (0..1000).map(|i| (i * (rank + 1)) as f32 * 0.1).collect();
            group.all_reduce(&mut values, Reduce::Sum, Wire::F32)?;
            let bits = values.iter().fold(0u64, |h, v| h.wrapping_mul(31).wrapping_add(u64::from(v.to_bits())));
            println!("bits {bits:x} first {}", values[10]);
        }
        "loop" | "die" | "stop" | "fail" => {
            for step in 0u64.. {
                if rank == number && step == 20 {
                    match name {
                        "die" => {
                            Command::new("kill").args(["-KILL", &std::process::id().to_string()]).status().unwrap();
                        }
                        "stop" => {
                            Command::new("kill").args(["-STOP", &std::process::id().to_string()]).status().unwrap();
                        }
                        "fail" => {
                            group.abort("the loss is NaN.");
                            eprintln!("the loss is NaN.");
                            std::process::exit(7);
                        }
                        _ => {}
                    }
                }
                group.all_reduce(&mut [1.0; 300], Reduce::Mean, Wire::F32)?;
                if step == 30 {
                    println!("step {step}");
                }
            }
        }
        "stuck" => {
            group.barrier()?;
            if rank == number {
                std::thread::sleep(Duration::from_secs(600));
            }
            group.barrier()?;
        }
        "leave" => {
            group.barrier()?;
            if rank == number {
                return Ok(());
            }
            group.barrier()?;
        }
        "differ" => {
            if rank == number {
                group.barrier()?;
            } else {
                group.all_reduce(&mut [0.0; 8], Reduce::Sum, Wire::F32)?;
            }
        }
        _ => {}
    }
    group.finish()
}

fn args() -> [&'static str; 4] {
    ["processes::rank_process", "--exact", "--nocapture", "--test-threads=1"]
}

/// Starts ranks with Warpbook's launcher, and returns the outcome and their lines.
fn launched(job: &str, ranks: usize) -> (Outcome, Vec<Line>) {
    // Ranks inherit the environment of their launcher, so a shell between the launcher and each rank sets the job.
    let program = std::env::current_exe().unwrap();
    let script = format!("{JOB}='{job}' exec '{}' {}", program.display(), args().join(" "));
    let mut launch = Launch::new("/bin/sh", ["-c", &script], ranks);
    // The grace period is longer than the other ranks need to notice the failure.
    launch.grace = Duration::from_secs(8);
    let (begun, mut lines) = (Instant::now(), Vec::new());
    let outcome = launch.run(&mut |line| lines.push(line.clone())).unwrap();
    assert!(begun.elapsed() < LONG, "{job} took {:?}", begun.elapsed());
    for id in &outcome.processes {
        assert!(!std::path::Path::new(&format!("/proc/{id}")).exists(), "process {id} is left over");
    }
    (outcome, lines)
}

fn text(lines: &[Line]) -> String {
    lines.iter().map(|l| format!("[{}] {}\n", l.rank, l.text)).collect()
}

#[test]
fn launched_ranks_compute_the_same_bits() {
    let bits = |ranks: usize| {
        let (outcome, lines) = launched("sum", ranks);
        assert_eq!((outcome.code, &outcome.failed), (0, &None), "{}", text(&lines));
        let all: Vec<&str> = lines.iter().filter(|l| l.text.starts_with("bits ")).map(|l| l.text.as_str()).collect();
        assert_eq!(all.len(), ranks, "{}", text(&lines));
        assert!(all.iter().all(|line| line == &all[0]), "{all:?}");
        all[0].to_owned()
    };
    let three = bits(3);
    assert!(three.ends_with("first 6"), "{three}: 10 x 0.1 x (1 + 2 + 3)");
    assert_eq!(three, bits(3), "and on every run");
}

#[test]
fn a_rank_that_is_killed_ends_all_and_is_named() {
    for rank in [0, 1] {
        let (outcome, lines) = launched(&format!("die {rank}"), 3);
        let all = text(&lines);
        assert_eq!(outcome.code, 1, "{all}");
        let failed = outcome.failed.unwrap();
        assert!(failed.starts_with(&format!("Rank {rank} was killed by signal 9")), "{failed}\n{all}");
        let told = lines.iter().filter(|l| l.is_error && l.text.starts_with(&format!("Rank {rank} died"))).count();
        assert_eq!(told, 2, "{all}");
    }
}

#[test]
fn a_rank_that_is_stopped_ends_all_and_is_named() {
    for rank in [0, 2] {
        let (outcome, lines) = launched(&format!("stop {rank}"), 3);
        let all = text(&lines);
        assert_eq!(outcome.code, ENDED_BY_ANOTHER, "{all}");
        let named = [format!("Rank {rank} has not been heard from"), format!("Rank {rank} hangs")];
        let told = lines.iter().filter(|l| named.iter().any(|n| l.text.starts_with(n))).count();
        assert_eq!(told, 2, "{all}");
    }
}

#[test]
fn a_rank_that_hangs_ends_all_and_is_named() {
    let (outcome, lines) = launched("stuck 1", 3);
    let all = text(&lines);
    assert_eq!(outcome.code, ENDED_BY_ANOTHER, "{all}");
    let told = lines.iter().filter(|l| l.text.starts_with("Rank 1 hangs: rank ")).count();
    assert_eq!(told, 2, "{all}");
}

#[test]
fn a_rank_that_fails_ends_all_with_its_error() {
    let (outcome, lines) = launched("fail 2", 3);
    let all = text(&lines);
    assert_eq!((outcome.code, outcome.failed.as_deref()), (7, Some("Rank 2 ended with exit code 7.")), "{all}");
    let told = lines.iter().filter(|l| l.rank != 2 && l.text == "Rank 2: the loss is NaN.").count();
    assert_eq!(told, 2, "{all}");
}

#[test]
fn a_rank_that_leaves_early_or_does_something_else_is_named() {
    let (outcome, lines) = launched("leave 1", 2);
    let all = text(&lines);
    assert!(outcome.code == ENDED_BY_ANOTHER && all.contains("Rank 1: it ended before its work was done."), "{all}");
    let (outcome, lines) = launched("differ 1", 2);
    let all = text(&lines);
    assert_ne!(outcome.code, 0, "{all}");
    assert!(all.contains("The ranks do different things: rank "), "{all}");
}

/// Starts a process as a rank, in the same way as a launcher other than Warpbook's.
fn spawned(job: &str, rank: &str, world: &str, port: u16, more: &[(&str, &str)]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(args()).env(JOB, job).env("RANK", rank).env("LOCAL_RANK", rank).env("WORLD_SIZE", world);
    command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
    command.envs(more.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn ended(child: Child) -> (i32, String) {
    let (begun, id) = (Instant::now(), child.id());
    let waiting = std::thread::spawn(move || child.wait_with_output());
    while !waiting.is_finished() && begun.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(20));
    }
    if !waiting.is_finished() {
        let _ = Command::new("kill").args(["-KILL", &id.to_string()]).status();
        panic!("a rank did not end");
    }
    let Output { status, stdout, stderr } = waiting.join().unwrap().unwrap();
    (status.code().unwrap_or(-1), format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
}

/// Returns a port that was free a moment ago.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn ranks_of_another_launcher_meet() {
    let port = port();
    // Rank 2 is started first, and rank 1 last.
    let children = [2, 0, 1].map(|rank: usize| spawned("sum", &rank.to_string(), "3", port, &[]));
    for (code, text) in children.map(ended) {
        assert!(code == 0 && text.contains("first 6"), "{text}");
    }
}

#[test]
fn a_port_in_use_is_said() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (code, text) = ended(spawned("join 20", "0", "2", taken.local_addr().unwrap().port(), &[]));
    assert!(code == 2 && text.contains("the port is in use") && text.contains("MASTER_PORT"), "{text}");
}

#[test]
fn an_address_of_another_machine_is_said() {
    // The network 192.0.2.0/24 is reserved for documentation, so no machine has this address.
    let (code, text) = ended(spawned("join 5", "0", "2", port(), &[("MASTER_ADDR", "192.0.2.1")]));
    assert!(code == 2 && text.contains("cannot listen at 192.0.2.1") && text.contains("MASTER_ADDR"), "{text}");
}

#[test]
fn an_unreachable_master_is_said() {
    let (code, text) = ended(spawned("join 1", "1", "2", port(), &[]));
    assert!(code == 2 && text.contains("Rank 1 did not reach rank 0 at 127.0.0.1:"), "{text}");
    assert!(text.contains("MASTER_ADDR and MASTER_PORT"), "{text}");
    // Some machines accept a connection to a port without a listener, and then close it.
    let is_told = text.contains("refused") || text.contains("closed the connection");
    assert!(is_told && !text.contains("looked up"), "the reason of the last attempt: {text}");
    // A program listens at the port but sends nothing, or nonsense.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let (code, text) = ended(spawned("join 2", "1", "2", mute.local_addr().unwrap().port(), &[]));
    assert!(code == 2 && text.contains("did not answer") && text.contains("within 3s"), "{text}");
}

#[test]
fn missing_ranks_are_said_to_all() {
    let port = port();
    let children = [0, 2].map(|rank: usize| spawned("join 6", &rank.to_string(), "4", port, &[]));
    for (code, text) in children.map(ended) {
        assert!(code == 2 && text.contains("Ranks 1, 3 have not reached rank 0"), "{text}");
    }
}

#[test]
fn a_wrong_world_size_is_said_to_both() {
    let port = port();
    let children = [("0", "2"), ("1", "3")].map(|(rank, world)| spawned("join 40", rank, world, port, &[]));
    for (code, text) in children.map(ended) {
        assert!(code == 2 && text.contains("was started as one of 3 ranks, and rank 0 as one of 2"), "{text}");
    }
}

#[test]
fn equal_ranks_are_said_to_all() {
    let port = port();
    let children = ["0", "1", "1"].map(|rank| spawned("join 40", rank, "3", port, &[]));
    for (code, text) in children.map(ended) {
        // The first process that claims rank 1 may receive the message, or only see that the rendezvous has ended.
        assert!(code == 2 && text.contains("say that they are rank 1"), "{text}");
    }
}

#[test]
fn a_rank_of_another_run_is_turned_away_and_the_others_meet() {
    let port = port();
    let token = |token: &'static str| [("WARPBOOK_TOKEN", token)];
    let first = spawned("sum", "0", "2", port, &token("one"));
    let stranger = spawned("join 20", "1", "2", port, &token("other"));
    let (code, text) = ended(stranger);
    assert!(code == 2 && text.contains("its token is another"), "{text}");
    // A stranger that is not a rank connects to the port.
    let mut http = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    std::io::Write::write_all(&mut http, b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let second = spawned("sum", "1", "2", port, &token("one"));
    for (code, text) in [first, second].map(ended) {
        assert!(code == 0 && text.contains("bits "), "{text}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn ranks_end_with_their_launcher() {
    use std::io::{BufRead, BufReader};
    // Starts a process that launches ranks, and then kills it.
    let program = std::env::current_exe().unwrap();
    let mut launcher = Command::new(program)
        .args(["processes::launcher_process", "--exact", "--nocapture", "--test-threads=1"])
        .env("WARPBOOK_TEST_LAUNCHER", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(launcher.stdout.take().unwrap()).lines();
    let mut ids = Vec::new();
    while ids.len() < 2 {
        let line = lines.next().unwrap().unwrap();
        if let Some((_, id)) = line.split_once("process ") {
            ids.push(id.trim().to_owned());
        }
    }
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    let begun = Instant::now();
    // A process that has ended but has not been waited for is a zombie.
    let lives = |id: &String| std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|s| !s.contains(") Z "));
    while ids.iter().any(lives) {
        assert!(begun.elapsed() < LONG, "ranks are left over: {ids:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs as a launcher that will be killed, if the environment says so.
#[test]
fn launcher_process() {
    if std::env::var_os("WARPBOOK_TEST_LAUNCHER").is_none() {
        return;
    }
    let program = std::env::current_exe().unwrap();
    let script = format!("echo process $$; {JOB}=loop exec '{}' {}", program.display(), args().join(" "));
    Launch::new("/bin/sh", ["-c", &script], 2).run(&mut |line| println!("{}", line.text)).unwrap();
    std::process::exit(0);
}

#[test]
fn an_interrupt_is_passed_on_and_a_second_one_kills() {
    // A shell that was started with the signal ignored cannot trap it, so its loops end by themselves, with code 9.
    for (asked, job) in [
        (1, "trap 'echo caught; exit 130' INT; echo ready; for i in $(seq 600); do sleep 0.1; done; exit 9"),
        (2, "trap '' INT; echo ready; for i in $(seq 600); do sleep 0.1; done; exit 9"),
    ] {
        let launch = Launch::new("/bin/sh", ["-c", job], 2);
        let interrupted = launch.interrupted.clone();
        let (mut ready, mut caught) = (0, 0);
        let outcome = launch
            .run(&mut |line| {
                ready += usize::from(line.text == "ready");
                caught += usize::from(line.text == "caught");
                if ready == 2 {
                    interrupted.store(asked, std::sync::atomic::Ordering::SeqCst);
                }
            })
            .unwrap();
        assert_eq!((outcome.code, caught), if asked == 1 { (130, 2) } else { (1, 0) });
    }
}

#[test]
fn a_program_that_is_not_there_is_said() {
    let none: [&str; 0] = [];
    let why = Launch::new("/nowhere/program", none, 2).run(&mut |_| {}).unwrap_err().to_string();
    assert!(why.contains("Rank 0, /nowhere/program, cannot be started"), "{why}");
}
