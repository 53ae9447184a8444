//! Tests hostile PTX: programs with deleted, repeated, exchanged or replaced tokens must end with a result or a message, within fixed limits of
//! memory and steps. An allocator counts the memory of each attempt.
//!
//! `corpus/` has texts that once failed, which are tried first. `WARPBOOK_HOSTILE_SECONDS` sets the duration of the test, 20 s by default.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/random.rs"]
mod random;

use random::Random;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};
use warpbook_emulator::{Argument, Cause, Fault, Gpu, Launch, Module};

/// Maximum number of warp instructions that a mutated kernel may run.
const STEPS: u64 = 20_000;
/// Time limit of one attempt. The budget of steps should keep every attempt far below it.
const LONGEST: Duration = Duration::from_secs(5);

/// Maximum number of bytes that an attempt may allocate at the same time: to parse, decode and run a program, without and with all checks.
const MEMORY: isize = 256 << 20;

/// Counts the memory that each thread has allocated. An attempt runs in a single thread.
struct Counting;

thread_local! {
    static BYTES: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // The counters have no destructor, so they are there until the thread ends.
    BYTES.set(BYTES.get() + bytes);
    MOST.set(MOST.get().max(BYTES.get()));
}

// SAFETY: all calls are passed on to the allocator of the system.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: `place` was allocated above with this layout.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs a text, and returns the stage that it reached and the most memory in bytes that it needed at a time.
fn measured(text: &str) -> (&'static str, isize) {
    MOST.set(BYTES.get());
    let before = BYTES.get();
    let stage = run(text);
    (stage, MOST.get() - before)
}

/// The PTX programs from which mutated programs are made.
const PROGRAMS: [&str; 4] = [
    include_str!("programs/reduction.ptx"),
    include_str!("programs/tiles.ptx"),
    include_str!("programs/print.ptx"),
    include_str!("programs/conversions.ptx"),
];

/// Splits a text into words, numbers, single symbols and spaces. Joined together, the parts are the whole text again.
fn tokens(text: &str) -> Vec<&str> {
    let kind = |c: char| {
        if c.is_alphanumeric() || "_.%$".contains(c) {
            0
        } else if c.is_whitespace() {
            1
        } else {
            2
        }
    };
    let mut all = Vec::new();
    let mut start = 0;
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    for pair in chars.windows(2) {
        let ((_, a), (at, b)) = (pair[0], pair[1]);
        if kind(a) != kind(b) || kind(a) == 2 {
            all.push(&text[start..at]);
            start = at;
        }
    }
    all.push(&text[start..]);
    all
}

/// Returns the text with one to four tokens changed.
fn mutated(program: &str, others: &[&str], random: &mut Random) -> String {
    let mut all: Vec<String> = tokens(program).into_iter().map(str::to_owned).collect();
    for _ in 0..1 + random.below(4) {
        let at = random.below(all.len());
        match random.below(7) {
            0 => {
                all.remove(at);
            }
            1 => all.insert(at, all[at].clone()),
            2 => {
                let other = random.below(all.len());
                all.swap(at, other);
            }
            3 => all[at] = random.pick(others).to_owned(),
            4 => {
                let numbers = [
                    "0",
                    "1",
                    "-1",
                    "31",
                    "32",
                    "255",
                    "4294967295",
                    "4294967296",
                    "-2147483648",
                    "9223372036854775807",
                    "18446744073709551615",
                    "0x7fffffffffffffff",
                    "0f7F800000",
                    "99999999999999999999",
                ];
                all[at] = random.pick(&numbers).to_owned();
            }
            5 => {
                // Changes one letter of a word.
                let letters = ['a', '0', '9', '.', '%', '{', '}', '[', ';', '"', '\\', '\u{0}', 'é'];
                let mut word: Vec<char> = all[at].chars().collect();
                let place = random.below(word.len());
                word[place] = random.pick(&letters);
                all[at] = word.into_iter().collect();
            }
            _ => {
                let end = (at + random.below(40)).min(all.len());
                all.drain(at..end);
            }
        }
        if all.is_empty() {
            return String::new();
        }
    }
    all.concat()
}

/// Parses, decodes and runs a text, and returns the stage that it reached. Every error must have a message, and must name a line of the text unless it concerns
/// the whole text or the launch.
fn run(text: &str) -> &'static str {
    let lines = u32::try_from(text.lines().count()).unwrap() + 1;
    let told = |line: u32, has_line: bool, message: &str| {
        assert!(line <= lines && (line > 0 || !has_line), "line {line} of {lines}: {message}");
        assert!(message.len() > 5 && message.len() < 2000, "{message}");
    };
    let told_fault = |fault: &Fault| told(fault.ptx_line, fault.cause != Cause::Launch, &fault.to_string());
    let module = match Module::parse(text) {
        Ok(module) => module,
        Err(refusal) => {
            told(refusal.line, true, &refusal.to_string());
            return "refused by the parser";
        }
    };
    let mut gpu = Gpu::new();
    let loaded = match gpu.load(&module) {
        Ok(loaded) => loaded,
        Err(fault) => {
            assert!(fault.cause == Cause::Launch && fault.message.contains("do not fit"), "{fault}");
            return "too large";
        }
    };
    let kernel = match loaded.kernel("kernel") {
        Ok(kernel) => kernel,
        Err(refusal) => {
            told(refusal.line, !refusal.message.starts_with("There is no entry"), &refusal.to_string());
            return "refused when decoded";
        }
    };
    let buffers = [(); 3].map(|()| gpu.allocate(4096).unwrap());
    buffers.iter().for_each(|buffer| gpu.write(*buffer, &[1; 4096]).unwrap());
    let arguments: Vec<Argument> =
        buffers.iter().map(|buffer| Argument::U64(*buffer)).chain([Argument::U32(64)]).collect();
    let launch = Launch { budget: STEPS, ..Launch::new(2, 64) };
    // The checks, too, must survive hostile programs.
    if let Err(fault) = gpu.launch_checked(&kernel, &launch, &arguments) {
        told_fault(&fault);
    }
    match gpu.launch(&kernel, &launch, &arguments) {
        Ok(report) => {
            assert!(report.steps <= STEPS);
            "ran"
        }
        Err(fault) => {
            told_fault(&fault);
            "stopped"
        }
    }
}

#[test]
fn programs_run_unchanged() {
    for program in PROGRAMS {
        let (stage, memory) = measured(program);
        assert_eq!(stage, "ran");
        assert!((1 << 16..MEMORY).contains(&memory), "{memory} bytes");
    }
}

#[test]
fn what_went_wrong_once_is_refused_or_runs() {
    let folder = warpbook_device::testing::manifest_dir(env!("CARGO_MANIFEST_DIR")).join("tests/hostile/corpus");
    let mut tried = 0;
    for entry in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let text = String::from_utf8_lossy(&std::fs::read(entry.unwrap().path()).unwrap()).into_owned();
        let (stage, memory) = measured(&text);
        assert!(memory <= MEMORY, "{stage} with {memory} bytes");
        tried += 1;
    }
    assert!(tried > 0, "{}", folder.display());
}

#[test]
fn mutated_programs_end_with_a_result_or_a_message() {
    let seconds = std::env::var("WARPBOOK_HOSTILE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let (begun, mut random, mut outcomes) = (Instant::now(), Random(seconds), std::collections::BTreeMap::new());
    let mut largest = 0;
    let others: Vec<&str> = PROGRAMS.iter().flat_map(|program| tokens(program)).collect();
    while begun.elapsed() < Duration::from_secs(seconds) {
        let text = mutated(random.pick(&PROGRAMS), &others, &mut random);
        let started = Instant::now();
        let outcome = std::panic::catch_unwind(|| measured(&text));
        let memory = outcome.as_ref().map_or(0, |(_, memory)| *memory);
        largest = largest.max(memory);
        if outcome.is_err() || started.elapsed() > LONGEST || memory > MEMORY {
            let path = std::env::temp_dir().join("warpbook-hostile.ptx");
            std::fs::write(&path, &text).unwrap();
            panic!(
                "{} after {:?} with {memory} bytes: put it into tests/hostile/corpus",
                path.display(),
                started.elapsed()
            );
        }
        *outcomes.entry(outcome.unwrap().0).or_insert(0u64) += 1;
    }
    println!("{outcomes:?}, at most {largest} bytes and {STEPS} instructions");
    // Every stage must have been reached by some mutations.
    for stage in ["refused by the parser", "refused when decoded", "ran", "stopped"] {
        assert!(outcomes.get(stage).is_some_and(|count| *count > 20), "{stage}: {outcomes:?}");
    }
}
