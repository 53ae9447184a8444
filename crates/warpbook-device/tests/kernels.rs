//! Compares every kernel with its row: the files must exist, begin with the right lines, and compile for every architecture that the row claims. This needs
//! NVRTC but no GPU.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use warpbook_device::Compiler;
use warpbook_kernels as kernels;
use warpbook_record::{KernelSpec, KernelStats, Tile};

fn folder() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    Path::new(&here).join("../../kernels")
}

/// Lists the paths below `kernels/`, with forward slashes, except README files.
fn files_below(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("the kernels' folder").flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            files_below(&entry.path(), &format!("{name}/"), found);
        } else if entry.file_name() != "README.md" {
            found.insert(name);
        }
    }
}

#[test]
fn every_file_has_a_row_and_every_row_a_file() {
    let mut files = BTreeSet::new();
    files_below(&folder(), "", &mut files);
    let rows = kernels::all().into_iter().map(|(k, _)| k.file.to_string());
    let rows: BTreeSet<String> = rows.chain(kernels::HEADERS.iter().map(|h| h.path.to_owned())).collect();
    assert_eq!(files, rows);
}

#[test]
fn every_kernel_opens_with_its_five_lines() {
    for (kernel, _) in kernels::all() {
        let lines: Vec<&str> = kernel.source.lines().take(5).collect();
        for (line, begins) in
            lines.iter().zip(["// Idea: ", "// Formula: ", "// Since the last rung: ", "// Needs: ", "// Expect: "])
        {
            assert!(line.starts_with(begins), "{}: `{line}` should begin with `{begins}`", kernel.file);
        }
        let launches = kernel.source.matches("__global__").count();
        assert_eq!(kernel.source.matches("__launch_bounds__").count(), launches, "{}: a bound a kernel", kernel.file);
    }
}

/// A kernel that is launched before its predecessor has ended must wait for it before it touches global memory. It may only prepare its shared memory
/// beforehand, which must end with a block-wide barrier.
#[test]
fn a_kernel_that_waits_does_so_before_it_touches_global_memory() {
    let all: Vec<KernelSpec> = kernels::all().into_iter().map(|(kernel, _)| kernel).collect();
    assert!(all.iter().filter(|k| k.waits).count() > 50);
    for kernel in all.iter().filter(|k| k.waits) {
        let message = |text: &str| format!("{}: {}: {text}", kernel.file, kernel.entry);
        let at =
            kernel.source.find(&format!("{}(", kernel.entry)).unwrap_or_else(|| panic!("{}", message("no such entry")));
        let (head, body) = kernel.source[at..].split_once("{\n").unwrap_or_else(|| panic!("{}", message("no body")));
        let before =
            body.split_once("wait_for_predecessor();").unwrap_or_else(|| panic!("{}", message("does not wait"))).0;
        // Marks are allowed before the wait: they write only to their own records, and do nothing unless a run is being recorded.
        let unmarked: Vec<&str> = before.lines().filter(|line| !line.trim_start().starts_with("MARK")).collect();
        let prepared = unmarked.join("\n");
        let prepared = prepared.trim();
        assert!(prepared.is_empty() || prepared.ends_with("__syncthreads();"), "{}", message("does not wait first"));
        for array in arrays(head) {
            assert!(
                !words(before).any(|word| word == array),
                "{}",
                message(&format!("touches `{array}` before it waits"))
            );
        }
    }
}

#[test]
fn arrays_are_found_among_a_kernels_parameters() {
    let head = "sums(const __grid_constant__ TensorMap map_a, Few g, const float* __restrict__ x /* [m], or null */, unsigned n\n\
                #if POOL\n, unsigned char* __restrict__ index /* as x */\n#endif\n) ";
    assert_eq!(arrays(head), ["map_a", "x", "index"]);
}

/// Returns the names of a kernel's parameters that are pointers or tensor maps.
fn arrays(head: &str) -> Vec<String> {
    let lines: Vec<&str> = head.lines().filter(|l| !l.trim_start().starts_with('#')).collect();
    let text = lines.join("\n");
    // Removes comments: keeps the text before the first comment, and the text after each end of a comment.
    let code: Vec<&str> =
        text.split("/*").map(|piece| piece.split_once("*/").map_or(piece, |(_, after)| after)).collect();
    let parameters = code.concat();
    let are_arrays = parameters.split(',').filter(|p| p.contains('*') || p.contains("TensorMap"));
    are_arrays.filter_map(|p| words(p).last().map(str::to_owned)).collect()
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[test]
fn no_kernel_includes_another() {
    for (kernel, _) in kernels::all() {
        for line in kernel.source.lines().filter(|l| l.trim_start().starts_with("#include")) {
            assert!(line.contains(".cuh\""), "{}: `{line}`", kernel.file);
        }
    }
}

/// A file to be compiled with one tile and the defines of a row for an architecture, and the rows whose kernels are in that file.
struct Job {
    kernels: Vec<KernelSpec>,
    tile: Tile,
    architecture: String,
}

/// A line of the report and, if the kernel spills registers, a sentence about that.
struct Compiled {
    line: String,
    spilled: Option<String>,
}

/// Returns the compilations to check: each row's first tile for every architecture, and its other tiles for the oldest architecture and for Hopper, whose
/// register limits differ. A file that is compiled in the same way for several rows is one job. Only rows that need sm_90a are compiled for it; the others run
/// on Hopper as sm_90 code.
fn jobs() -> Vec<Job> {
    let mut jobs: BTreeMap<String, Job> = BTreeMap::new();
    for (kernel, requires) in kernels::all() {
        let mut architectures = requires.architectures();
        if architectures.iter().any(|a| a == "sm_90") {
            architectures.retain(|a| a != "sm_90a");
        }
        for tile in &kernel.tiles {
            let oldest = architectures.first();
            let wanted = |a: &&Cow<'static, str>| {
                *tile == kernel.tiles[0] || Some(*a) == oldest || **a == "sm_90" || **a == "sm_90a"
            };
            for architecture in architectures.iter().filter(wanted) {
                let defines: Vec<String> =
                    tile.defines.iter().chain(&kernel.defines).map(|d| format!("{}={}", d.name, d.value)).collect();
                let key = format!("{} {} {architecture} {}", kernel.file, tile.id, defines.join(" "));
                let new = || Job { kernels: Vec::new(), tile: tile.clone(), architecture: architecture.to_string() };
                let job = jobs.entry(key).or_insert_with(new);
                assert!(job.kernels.iter().all(|k| k.source == kernel.source), "{}: one text a path", kernel.file);
                job.kernels.push(kernel.clone());
            }
        }
    }
    jobs.into_values().collect()
}

impl Job {
    /// Compiles the file once, and checks every kernel in it that has a row.
    fn compile(&self, compiler: &Compiler) -> Vec<Compiled> {
        let Self { kernels, tile, architecture } = self;
        let compiled = compiler.compile(&kernels[0], tile, architecture).unwrap_or_else(|e| panic!("{}: {e}", tile.id));
        assert!(!compiled.cubin.is_empty());
        let look = |kernel: &KernelSpec| {
            let stats: &KernelStats = compiled
                .stats_of(&kernel.entry)
                .unwrap_or_else(|| panic!("{}: no entry `{}` in the log", kernel.file, kernel.entry));
            assert!(stats.registers > 0, "{}: no registers were reported", kernel.file);
            let spill = stats.spill_store_bytes + stats.spill_load_bytes;
            let defines: Vec<&str> = kernel.defines.iter().map(|d| &*d.name).collect();
            let name = [&[&*kernel.entry], &*defines].concat().join(" ");
            let line = format!(
                "{:<34} {name:<12} {:<12} {architecture:<8} {:>9} {:>12} {spill:>7}\n",
                kernel.file, tile.id, stats.registers, stats.static_shared_bytes
            );
            let sentence = || format!("{name} of {} with {} for {architecture}: {spill} bytes", kernel.file, tile.id);
            let spills = spill > 0 && !warpbook_kernels::guide::spills(kernel, tile);
            Compiled { line, spilled: spills.then(sentence) }
        };
        kernels.iter().map(look).collect()
    }
}

/// The launch bounds leave 64 registers per thread: a few values fit, but of many values most are spilled.
#[test]
fn launch_bounds_limit_registers_and_spill_the_rest() {
    let compiler = Compiler::new(None).unwrap_or_else(|e| panic!("{e}"));
    let stats = |walk: kernels::guide::Walk, tile: &str, architecture: &str| {
        let spec = kernels::guide::walk(walk);
        let compiled = compiler.compile(&spec, spec.tile(tile).expect("a tile"), architecture);
        compiled.unwrap_or_else(|e| panic!("{e}")).stats_of("walk").expect("the kernel").clone()
    };
    use kernels::guide::Walk::{Bounded, Held};
    for architecture in ["sm_75", "sm_90"] {
        let [few, many, bounded] =
            [(Held, "w8"), (Held, "w128"), (Bounded, "w128")].map(|(walk, tile)| stats(walk, tile, architecture));
        assert!(few.registers < 64 && many.registers > 128, "{architecture}: {few:?} {many:?}");
        assert_eq!([few.spill_store_bytes, many.spill_store_bytes], [0, 0], "{architecture}");
        assert!(bounded.registers <= 64, "{architecture}: {bounded:?}");
        // At least the 64 of 128 values that do not fit into registers must be spilled.
        assert!(
            bounded.spill_store_bytes >= 4 * 64 && bounded.spill_load_bytes >= 4 * 64,
            "{architecture}: {bounded:?}"
        );
        let bounded = stats(Bounded, "w16", architecture);
        assert_eq!(bounded.spill_store_bytes, 0, "{architecture}: 16 values fit");
    }
}

/// Returns the result of `work` for each item, in the order of the items.
fn on_all_threads<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut made = Vec::new();
        while let Some((i, item)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, items.get(i)?))) {
            made.push((i, work(item)));
        }
        made
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        workers.into_iter().flat_map(|w| w.join().unwrap_or_else(|e| std::panic::resume_unwind(e))).collect()
    });
    all.sort_by_key(|(i, _)| *i);
    all.into_iter().map(|(_, made)| made).collect()
}

#[test]
fn every_kernel_compiles_for_every_architecture_without_spills() {
    // If NVRTC is missing, this test fails instead of being skipped, because it needs no GPU.
    let compiler = Compiler::new(None).unwrap_or_else(|e| panic!("{e}"));
    let mut report = format!(
        "{:<34} {:<12} {:<12} {:<8} {:>9} {:>12} {:>7}\n",
        "file", "kernel", "tile", "for", "registers", "shared bytes", "spilled"
    );
    let mut spilled = Vec::new();
    for compiled in on_all_threads(&jobs(), |job| job.compile(&compiler)).into_iter().flatten() {
        report += &compiled.line;
        spilled.extend(compiled.spilled);
    }
    println!("{report}");
    if let Some(path) = std::env::var_os("WARPBOOK_KERNEL_REPORT") {
        std::fs::write(path, &report).expect("the report of kernels can be written");
    }
    assert!(spilled.is_empty(), "spills nobody allowed:\n{}", spilled.join("\n"));
}
