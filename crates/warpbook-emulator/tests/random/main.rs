//! Compares the emulator's results of random kernels with a GPU's, bit by bit.
//!
//! A kernel is determined by its seed, so only hashes of the GPU's results are stored: `outputs.txt` has a line for each warp of 200 kernels, computed on an
//! H200.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod approximate;
mod forms;
mod generate;
#[path = "../common/random.rs"]
mod random;

use forms::Form;
use generate::{BLOCKS, HEAD, OUT_BYTES, SUM_BYTES, THREADS, inputs, kernel};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use warpbook_device::testing::{self, PtxModule};
use warpbook_emulator::{Argument, Gpu, Launch, Module};
use warpbook_kernels::Launch as Shape;

/// Number of kernels in a module.
const OF_A_MODULE: u64 = 50;
/// Number of kernels whose results are stored.
const STORED: u64 = 200;
/// Number of kernels that are compared on a GPU.
const ALL: u64 = 3000;
/// Minimum number of times that each form must occur in all kernels together.
const LEAST: usize = 20;

fn exact_forms() -> Vec<Form> {
    forms::all().into_iter().filter(|form| !form.is_approximate()).collect()
}

/// Kernels with this number or a higher one test a single form of one opcode.
const SINGLE: u64 = 1 << 32;

/// Returns a module with a kernel `k<number>` for each of these forms.
fn module_of_forms(numbers: std::ops::Range<u64>, forms: &[Form]) -> String {
    let kernel =
        |n: u64| generate::kernel_of_form(&format!("k{}", SINGLE + n), &forms[usize::try_from(n).unwrap()]).text;
    HEAD.to_owned() + &numbers.map(kernel).collect::<String>()
}

/// Returns a module with a kernel `k<seed>` for each seed, and how often each form occurs in the module.
fn module(seeds: std::ops::Range<u64>, forms: &[Form]) -> (String, BTreeMap<String, usize>) {
    let (mut text, mut counts) = (HEAD.to_owned(), BTreeMap::new());
    for seed in seeds {
        let generated = kernel(&format!("k{seed}"), seed, forms);
        text += &generated.text;
        generated.forms.into_iter().for_each(|form| *counts.entry(form).or_default() += 1);
    }
    (text, counts)
}

/// Runs a kernel in the emulator. Returns the results of all threads, followed by the sums.
fn emulated(module: &Module, seed: u64) -> Vec<u8> {
    let mut gpu = Gpu::new();
    let kernel = gpu.load(module).unwrap().kernel(&format!("k{seed}")).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let mut buffer = |bytes: &[u8]| {
        let address = gpu.allocate(bytes.len() as u64).unwrap();
        gpu.write(address, bytes).unwrap();
        address
    };
    let (results, sums) = (vec![0; OUT_BYTES * (BLOCKS * THREADS) as usize], vec![0; SUM_BYTES]);
    let [input, output, sum] = [buffer(&inputs(seed)), buffer(&results), buffer(&sums)];
    let arguments = [input, output, sum].map(Argument::U64);
    let launch = Launch::new(BLOCKS, THREADS);
    gpu.launch_checked(&kernel, &launch, &arguments).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
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

#[test]
fn stored_results_of_a_gpu_are_the_emulator_s() {
    let forms = exact_forms();
    let stored = include_str!("outputs.txt").split_once('\n').map_or("", |(_, lines)| lines);
    let parsed = Module::parse(&module(0..STORED, &forms).0).unwrap();
    let ours: String = (0..STORED).map(|seed| hashes(seed, &emulated(&parsed, seed))).collect();
    let different = ours.lines().zip(stored.lines()).find(|(ours, stored)| ours != stored);
    assert_eq!(different, None);
    assert_eq!(ours.lines().count(), stored.lines().count());
}

/// Checks how often each form occurs. If `WARPBOOK_RANDOM_PTX` names a folder, writes the kernels to it.
#[test]
fn every_form_occurs_often_enough() {
    if let Some(folder) = std::env::var_os("WARPBOOK_RANDOM_PTX") {
        write_modules(folder.as_ref());
    }
    let forms = exact_forms();
    let (_, counts) = module(0..ALL, &forms);
    let rare: Vec<_> =
        forms.iter().filter(|form| counts.get(&form.opcode).is_none_or(|count| *count < LEAST)).collect();
    assert!(rare.is_empty(), "{rare:?}");
    assert!(counts.values().all(|count| *count >= LEAST), "{:?}", counts.iter().min_by_key(|(_, count)| **count));
}

/// Runs 3,000 kernels, and one kernel for each form, on a GPU and in the emulator. If `WARPBOOK_RANDOM_OUT` names a file, writes the GPU's results to it, for
/// use as `outputs.txt`.
#[test]
fn random_kernels_compute_the_same_on_a_gpu() {
    let Some(device) = testing::gpu("random_kernels_compute_the_same_on_a_gpu") else { return };
    let forms = exact_forms();
    let next = AtomicU64::new(0);
    let found = Mutex::new((BTreeMap::new(), Vec::new()));
    std::thread::scope(|scope| {
        // Starts one thread for each CPU core, because the driver's compiler takes most of the time.
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let first = next.fetch_add(OF_A_MODULE, Ordering::Relaxed);
                    if first >= ALL {
                        return;
                    }
                    let (text, _) = module(first..first + OF_A_MODULE, &forms);
                    let loaded =
                        PtxModule::load(&device, &text).unwrap_or_else(|e| panic!("kernels from {first} on: {e}"));
                    let parsed = Module::parse(&text).unwrap();
                    for seed in first..first + OF_A_MODULE {
                        let theirs = on_gpu(&loaded, seed);
                        let ours = emulated(&parsed, seed);
                        let mut found = found.lock().unwrap();
                        if seed < STORED {
                            found.0.insert(seed, hashes(seed, &theirs));
                        }
                        if let Some(at) = (0..ours.len()).find(|i| ours[*i] != theirs[*i]) {
                            found.1.push(describe(seed, at, &ours, &theirs));
                        }
                    }
                }
            });
        }
    });
    let (stored, mut wrong) = found.into_inner().unwrap();
    let mut file = format!(
        "Results of {STORED} random kernels on {}: seed, warp (the last one is the sums), hash.\n",
        device.info().name
    );
    file.extend(stored.into_values());
    let count = forms.len() as u64;
    for first in (0..count).step_by(usize::try_from(OF_A_MODULE).unwrap()) {
        let numbers = first..(first + OF_A_MODULE).min(count);
        let text = module_of_forms(numbers.clone(), &forms);
        let (loaded, parsed) = (PtxModule::load(&device, &text).unwrap(), Module::parse(&text).unwrap());
        for number in numbers {
            let seed = SINGLE + number;
            let theirs = on_gpu(&loaded, seed);
            let ours = emulated(&parsed, seed);
            if let Some(at) = (0..ours.len()).find(|i| ours[*i] != theirs[*i]) {
                let opcode = &forms[usize::try_from(number).unwrap()].opcode;
                wrong.push(format!("{opcode}: {}", describe(seed, at, &ours, &theirs)));
            }
        }
    }
    if let Ok(path) = std::env::var("WARPBOOK_RANDOM_OUT") {
        std::fs::write(path, file).unwrap();
    }
    wrong.iter().take(40).for_each(|line| println!("{line}"));
    assert!(wrong.is_empty(), "{} of {ALL} kernels differ", wrong.len());
}

fn on_gpu(module: &PtxModule, seed: u64) -> Vec<u8> {
    let shape = Shape { grid: [BLOCKS, 1, 1], block: [THREADS, 1, 1], dynamic_shared_bytes: 0 };
    let results = vec![0; OUT_BYTES * (BLOCKS * THREADS) as usize];
    let arrays = [&inputs(seed)[..], &results, &[0; SUM_BYTES]];
    // SAFETY: the kernel takes these three addresses, and its threads stay within their own parts.
    #[allow(unsafe_code)]
    let after = unsafe { module.run(&format!("k{seed}"), shape, &arrays) }.unwrap();
    after[1..].concat()
}

/// Describes the register that contains a differing byte of the results, with the values of the emulator and the GPU.
fn describe(seed: u64, at: usize, ours: &[u8], theirs: &[u8]) -> String {
    let (thread, offset) = (at / OUT_BYTES, at % OUT_BYTES);
    let name = match offset {
        0..80 => format!("d{}", offset / 8),
        80..120 => format!("w{}", (offset - 80) / 4),
        120..160 => format!("h{}", (offset - 120) / 4),
        _ => "predicates".to_owned(),
    };
    let start = at - offset % if offset < 80 { 8 } else { 4 };
    let value = |bytes: &[u8]| {
        bytes[start..(start + 8).min(bytes.len())].iter().rev().fold(0u64, |all, byte| all << 8 | u64::from(*byte))
    };
    format!("seed {seed}, thread {thread}, {name}: {:016x}, on the GPU {:016x}", value(ours), value(theirs))
}

/// Writes all forms and the modules of the comparison to a folder, for use with an assembler.
fn write_modules(folder: &std::path::Path) {
    for (number, form) in forms::all().iter().enumerate() {
        std::fs::write(folder.join(format!("form{number}.ptx")), generate::one_instruction(form)).unwrap();
    }
    for first in (0..ALL).step_by(usize::try_from(OF_A_MODULE).unwrap()) {
        std::fs::write(folder.join(format!("module{first}.ptx")), module(first..first + OF_A_MODULE, &exact_forms()).0)
            .unwrap();
    }
}
