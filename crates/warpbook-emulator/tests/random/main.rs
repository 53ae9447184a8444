//! Compares the emulator's results of random kernels with a GPU's, bit by bit.
//!
//! A kernel is determined by its seed, so only hashes of the results are stored: `outputs.txt` has a line for each warp of 200 kernels. Its first line names
//! the device. All supported opcodes take turns in the kernels, so that each occurs at least 20 times in 3,000 kernels; RANDOM.md has the counts.
//!
//! On an NVIDIA H200, 4,529 of the 4,530 kernels computed the same bits. Kernel 2381 shifts a half by a byte that `ld.shared.v4.s8` extends to 32 bits. PTX
//! defines the amount of a shift as unsigned, so a negative byte shifts all bits out; ptxas clamps it as a signed number to 0, so the GPU shifts nothing.
//! ptxas 13.0 does this with `-O1` and above if it extracts the byte from a word, even for `bfe.s32`, and does not with `-O0` or for a scalar `ld.s8`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::cast_possible_truncation)]

mod approximate;
mod forms;
mod generate;
mod memory;
#[path = "../common/random.rs"]
mod random;
mod table;
mod together;

use generate::{BLOCKS, OPCODES, OUT_BYTES, SUM_BYTES, THREADS, inputs, kernel};
use random::Random;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use warpbook_device::testing::{self, PtxModule};
use warpbook_emulator::{Argument, Gpu, Launch, Module};
use warpbook_kernels::Launch as Shape;

/// Number of kernels in a module.
const OF_A_MODULE: u64 = 50;
/// Number of kernels whose results are stored.
const STORED: u64 = 200;
/// Number of kernels that are compared on a GPU.
const ALL: u64 = 3000;
/// Minimum number of times that each opcode must occur in all kernels together.
const LEAST: usize = 20;
/// The kernel that ptxas compiles to something else than its PTX says; see the head of this file.
const MISCOMPILED: u64 = 2381;
/// Kernels with this number or a higher one test a single opcode.
const SINGLE: u64 = 1 << 32;

/// The opcodes in the order of their turns.
static ORDER: LazyLock<Vec<String>> = LazyLock::new(|| {
    let (mut order, mut random) = (OPCODES.clone(), Random(0));
    (1..order.len()).rev().for_each(|place| order.swap(place, random.below(place + 1)));
    order
});

/// Returns the opcodes whose turn it is in a kernel. After all kernels, each opcode has had at least [`LEAST`] turns.
fn turn(seed: u64) -> Vec<String> {
    let length = (LEAST * ORDER.len()).div_ceil(ALL as usize);
    let places = seed as usize * length..(seed as usize + 1) * length;
    places.map(|place| ORDER[place % ORDER.len()].clone()).collect()
}

/// Returns a module with a kernel `k<seed>` for each seed, and how often each opcode occurs in the module.
fn module(seeds: std::ops::Range<u64>) -> (String, BTreeMap<String, usize>) {
    let (mut text, mut counts) = (generate::head(), BTreeMap::new());
    for seed in seeds {
        let name = format!("k{seed}");
        let generated = match seed.checked_sub(SINGLE) {
            Some(place) => generate::kernel_of_opcode(&name, &OPCODES[place as usize]),
            None => kernel(&name, seed, &turn(seed)),
        };
        text += &generated.text;
        generated.forms.into_iter().for_each(|form| *counts.entry(form).or_default() += 1);
    }
    (text, counts)
}

/// Returns the seeds of each module: the random kernels, followed by a kernel for each opcode.
fn modules() -> Vec<std::ops::Range<u64>> {
    let parts = |from: u64, to: u64| {
        (from..to).step_by(OF_A_MODULE as usize).map(move |first| first..(first + OF_A_MODULE).min(to))
    };
    parts(0, ALL).chain(parts(SINGLE, SINGLE + OPCODES.len() as u64)).collect()
}

/// Runs a kernel in the emulator. Returns the results of all threads, followed by the sums.
fn emulated(module: &Module, seed: u64) -> Vec<u8> {
    let mut gpu = Gpu::new();
    let kernel =
        gpu.load(module).unwrap().kernel(&format!("k{seed}")).unwrap_or_else(|e| panic!("{}: {e}", kernel_name(seed)));
    let mut buffer = |bytes: &[u8]| {
        let address = gpu.allocate(bytes.len() as u64).unwrap();
        gpu.write(address, bytes).unwrap();
        address
    };
    let (results, sums) = (vec![0; OUT_BYTES * (BLOCKS * THREADS) as usize], vec![0; SUM_BYTES]);
    let [input, output, sum] = [buffer(&inputs(seed)), buffer(&results), buffer(&sums)];
    let arguments = [input, output, sum].map(Argument::U64);
    let launch = Launch::new(BLOCKS, THREADS);
    gpu.launch_checked(&kernel, &launch, &arguments).unwrap_or_else(|e| panic!("{}: {e}", kernel_name(seed)));
    let (mut results, mut sums) = (results, sums);
    gpu.read(output, &mut results).unwrap();
    gpu.read(sum, &mut sums).unwrap();
    results.extend(sums);
    results
}

/// Returns one line for each warp and one for the sums. Each line has the seed, a number, and the FNV-1a hash (Fowler, Noll and Vo) of the results.
fn hashes(seed: u64, results: &[u8]) -> String {
    let mut text = String::new();
    let fnv = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
    };
    for (number, bytes) in results.chunks(OUT_BYTES * 32).enumerate() {
        let _ = writeln!(text, "{seed} {number} {:016x}", fnv(bytes));
    }
    text
}

fn path(name: &str) -> std::path::PathBuf {
    testing::manifest_dir(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Compares the emulator's results with the stored ones. If `WARPBOOK_WRITE_RANDOM` is set and they differ, stores the emulator's results, until a GPU's
/// results replace them.
#[test]
fn stored_results_are_the_emulator_s() {
    let file = path("tests/random/outputs.txt");
    let ours: String = (0..STORED)
        .step_by(OF_A_MODULE as usize)
        .map(|first| {
            let parsed = Module::parse(&module(first..first + OF_A_MODULE).0).unwrap();
            (first..first + OF_A_MODULE).map(|seed| hashes(seed, &emulated(&parsed, seed))).collect::<String>()
        })
        .collect();
    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    let stored = stored.split_once('\n').map_or("", |(_, lines)| lines);
    if stored != ours && std::env::var_os("WARPBOOK_WRITE_RANDOM").is_some() {
        return std::fs::write(file, title("the emulator, not yet compared with a GPU") + &ours).unwrap();
    }
    let different = ours.lines().zip(stored.lines()).find(|(ours, stored)| ours != stored);
    assert_eq!(different, None);
    assert_eq!(ours.lines().count(), stored.lines().count());
}

/// Returns the first line of the stored results.
fn title(device: &str) -> String {
    format!("Results of {STORED} random kernels on {device}: seed, warp (the last one is the sums), hash.\n")
}

/// Checks how often each supported opcode occurs, and that RANDOM.md has these counts. If `WARPBOOK_WRITE_RANDOM` is set, writes the page first. If
/// `WARPBOOK_RANDOM_PTX` names a folder, writes the kernels to it, for use with an assembler.
#[test]
fn every_opcode_occurs_often_enough() {
    let (mut counts, mut stored) = (BTreeMap::new(), BTreeMap::new());
    for seeds in modules() {
        let (text, part) = module(seeds.clone());
        if let Some(folder) = std::env::var_os("WARPBOOK_RANDOM_PTX") {
            std::fs::write(std::path::Path::new(&folder).join(format!("module{}.ptx", seeds.start)), text).unwrap();
        }
        for (opcode, count) in part.into_iter().filter(|_| seeds.start < ALL) {
            if seeds.start < STORED {
                *stored.entry(opcode.clone()).or_insert(0) += count;
            }
            *counts.entry(opcode).or_insert(0) += count;
        }
    }
    for opcode in OPCODES.iter() {
        assert!(counts.get(opcode).is_some_and(|count| *count >= LEAST), "{opcode}: {:?}", counts.get(opcode));
        assert!(stored.contains_key(opcode), "{opcode} is not in the stored kernels");
    }
    let unknown = counts.keys().find(|opcode| OPCODES.binary_search(opcode).is_err());
    assert_eq!(unknown, None);
    let page = table::page(&counts);
    if std::env::var_os("WARPBOOK_WRITE_RANDOM").is_some() {
        std::fs::write(path("RANDOM.md"), &page).unwrap();
    }
    let written = std::fs::read_to_string(path("RANDOM.md")).unwrap_or_default();
    assert!(written == page, "run `WARPBOOK_WRITE_RANDOM=1 cargo test -p warpbook-emulator --test random`");
}

/// Runs the kernels of single opcodes, which contain nothing else that could fail.
#[test]
fn kernels_of_single_opcodes_run_without_a_fault() {
    for seeds in modules().into_iter().filter(|seeds| seeds.start >= SINGLE) {
        let parsed = Module::parse(&module(seeds.clone()).0).unwrap();
        for seed in seeds {
            let results = emulated(&parsed, seed);
            let different = results.chunks(OUT_BYTES).collect::<std::collections::BTreeSet<_>>().len();
            assert!(different > 32, "{}: {different} different results", kernel_name(seed));
        }
    }
}

/// Runs 3,000 kernels, and one kernel for each opcode, on a GPU and in the emulator. If `WARPBOOK_RANDOM_OUT` names a file, writes the GPU's results to it, for
/// use as `outputs.txt`.
#[test]
fn random_kernels_compute_the_same_on_a_gpu() {
    let Some(device) = testing::gpu("random_kernels_compute_the_same_on_a_gpu") else { return };
    let (modules, next) = (modules(), AtomicUsize::new(0));
    let found = Mutex::new((BTreeMap::new(), BTreeMap::new()));
    std::thread::scope(|scope| {
        // Starts one thread for each CPU core, because the driver's compiler takes most of the time.
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(seeds) = modules.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (text, _) = module(seeds.clone());
                    let loaded = match PtxModule::load(&device, &text) {
                        Ok(loaded) => loaded,
                        Err(why) => {
                            let message = format!("kernels from {} on: {why}", seeds.start);
                            found.lock().unwrap().1.insert(seeds.start, message);
                            continue;
                        }
                    };
                    let parsed = Module::parse(&text).unwrap();
                    for seed in seeds.clone() {
                        let theirs = on_gpu(&loaded, seed);
                        let ours = emulated(&parsed, seed);
                        let mut found = found.lock().unwrap();
                        if seed < STORED {
                            found.0.insert(seed, hashes(seed, &theirs));
                        }
                        let differs = (0..ours.len()).find(|i| ours[*i] != theirs[*i]);
                        if let Some(at) = differs.filter(|_| seed != MISCOMPILED) {
                            found.1.insert(seed, describe(seed, at, &ours, &theirs));
                        }
                    }
                }
            });
        }
    });
    let (stored, wrong) = found.into_inner().unwrap();
    if let Ok(path) = std::env::var("WARPBOOK_RANDOM_OUT") {
        std::fs::write(path, title(&device.info().name) + &stored.into_values().collect::<String>()).unwrap();
    }
    // The kernels with a single opcode come first, because they show the cause.
    let singles = wrong.range(SINGLE..).chain(wrong.range(..SINGLE));
    singles.take(60).for_each(|(_, line)| println!("{line}"));
    assert!(wrong.is_empty(), "{} of {} kernels differ", wrong.len(), ALL as usize + OPCODES.len());
}

fn on_gpu(module: &PtxModule, seed: u64) -> Vec<u8> {
    let shape = Shape { grid: [BLOCKS, 1, 1], block: [THREADS, 1, 1], dynamic_shared_bytes: 0 };
    let results = vec![0; OUT_BYTES * (BLOCKS * THREADS) as usize];
    let arrays = [&inputs(seed)[..], &results, &[0; SUM_BYTES]];
    // SAFETY: the kernel takes these three addresses, and its threads stay within their own parts.
    #[allow(unsafe_code)]
    let after = unsafe { module.run(&format!("k{seed}"), shape, &arrays) };
    let after = after.unwrap_or_else(|e| panic!("{}: {e}", kernel_name(seed)));
    after[1..].concat()
}

fn kernel_name(seed: u64) -> String {
    match seed.checked_sub(SINGLE) {
        Some(place) => format!("kernel of {}", OPCODES[place as usize]),
        None => format!("kernel {seed}"),
    }
}

/// Describes the register that contains a differing byte of the results, with the values of the emulator and the GPU, and the opcodes of the kernel's turn.
fn describe(seed: u64, at: usize, ours: &[u8], theirs: &[u8]) -> String {
    let (thread, offset) = (at / OUT_BYTES, at % OUT_BYTES);
    let name = match offset {
        _ if thread >= (BLOCKS * THREADS) as usize => "sums".to_owned(),
        0..80 => format!("d{}", offset / 8),
        80..120 => format!("w{}", (offset - 80) / 4),
        120..160 => format!("h{}", (offset - 120) / 4),
        _ => "predicates".to_owned(),
    };
    let start = at - offset % if offset < 80 { 8 } else { 4 };
    let value = |bytes: &[u8]| {
        bytes[start..(start + 8).min(bytes.len())].iter().rev().fold(0u64, |all, byte| all << 8 | u64::from(*byte))
    };
    let kernel = kernel_name(seed);
    let turn = if seed < SINGLE { format!("; it contains {}", turn(seed).join(", ")) } else { String::new() };
    format!(
        "{kernel}, thread {thread} (lane {}), {name}: {:016x}, on the GPU {:016x}{turn}",
        thread % 32,
        value(ours),
        value(theirs)
    )
}
