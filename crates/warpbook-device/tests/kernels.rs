//! Every kernel against its row: the files are there, open as they should, and compile for every architecture they claim.
//! Needs NVRTC and no GPU.

use std::collections::BTreeSet;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use warpbook_device::Compiler;
use warpbook_kernels as kernels;
use warpbook_record::{KernelSpec, KernelStats, Tile};

fn folder() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    Path::new(&here).join("../../kernels")
}

/// Paths below `kernels/`, with forward slashes.
fn files_below(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("the kernels' folder").flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            files_below(&entry.path(), &format!("{name}/"), found);
        } else {
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

/// A kernel that is launched before its predecessor has ended may touch nothing before it has waited.
#[test]
fn a_kernel_that_waits_does_so_first() {
    let all: Vec<KernelSpec> = kernels::all().into_iter().map(|(kernel, _)| kernel).collect();
    assert!(all.iter().filter(|k| k.waits).count() > 50);
    for kernel in all.iter().filter(|k| k.waits) {
        let of = |text: &'static str| format!("{}: {}: {text}", kernel.file, kernel.entry);
        let at = kernel.source.find(&format!("{}(", kernel.entry)).unwrap_or_else(|| panic!("{}", of("no such entry")));
        let body = kernel.source[at..].split_once("{\n").unwrap_or_else(|| panic!("{}", of("no body"))).1;
        assert_eq!(body.lines().next().map(str::trim), Some("wait_for_predecessor();"), "{}", of("its first line"));
    }
}

#[test]
fn no_kernel_includes_another() {
    for (kernel, _) in kernels::all() {
        for line in kernel.source.lines().filter(|l| l.trim_start().starts_with("#include")) {
            assert!(line.contains(".cuh\""), "{}: `{line}`", kernel.file);
        }
    }
}

/// A kernel with a tile for an architecture.
struct Job {
    kernel: KernelSpec,
    tile: Tile,
    architecture: String,
}

/// A line of the report, and a sentence where the kernel spills.
struct Compiled {
    line: String,
    spilled: Option<String>,
}

/// A row's first tile for every architecture; the others for the oldest and for Hopper, which bound registers differently.
fn jobs() -> Vec<Job> {
    let mut jobs = Vec::new();
    for (kernel, requires) in kernels::all() {
        for tile in &kernel.tiles {
            let mut architectures = requires.architectures();
            if *tile != kernel.tiles[0] {
                let oldest = architectures.first().cloned();
                architectures.retain(|a| Some(a) == oldest.as_ref() || a == "sm_90" || a == "sm_90a");
            }
            let of = |a: std::borrow::Cow<'static, str>| Job {
                kernel: kernel.clone(),
                tile: tile.clone(),
                architecture: a.into_owned(),
            };
            jobs.extend(architectures.into_iter().map(of));
        }
    }
    jobs
}

impl Job {
    fn compile(&self, compiler: &Compiler) -> Compiled {
        let Self { kernel, tile, architecture } = self;
        let begun = std::time::Instant::now();
        let compiled = compiler.compile(kernel, tile, architecture).unwrap_or_else(|e| panic!("{e}"));
        let seconds = begun.elapsed().as_secs_f64();
        eprintln!(
            "JOB {seconds:.2} {} {} {} {architecture} {:?}",
            kernel.file,
            kernel.entry,
            tile.id,
            kernel.defines.iter().map(|d| format!("{}={}", d.name, d.value)).collect::<Vec<_>>().join(",")
        );
        let stats: &KernelStats = compiled
            .stats_of(&kernel.entry)
            .unwrap_or_else(|| panic!("{}: no entry `{}` in the log", kernel.file, kernel.entry));
        assert!(stats.registers > 0, "{}: no registers were reported", kernel.file);
        assert!(!compiled.cubin.is_empty());
        let spill = stats.spill_store_bytes + stats.spill_load_bytes;
        let defines: Vec<&str> = kernel.defines.iter().map(|d| &*d.name).collect();
        let name = [&[&*kernel.entry], &*defines].concat().join(" ");
        let line = format!(
            "{:<34} {name:<12} {:<12} {architecture:<8} {:>9} {:>12} {spill:>7}\n",
            kernel.file, tile.id, stats.registers, stats.static_shared_bytes
        );
        let sentence = || format!("{name} of {} with {} for {architecture}: {spill} bytes", kernel.file, tile.id);
        Compiled { line, spilled: (spill > 0).then(sentence) }
    }
}

/// What `work` makes of each item, in their order.
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
    // Without NVRTC this test fails: it needs no GPU, so there is nothing to excuse it.
    let compiler = Compiler::new(None).unwrap_or_else(|e| panic!("{e}"));
    let mut report = format!(
        "{:<34} {:<12} {:<12} {:<8} {:>9} {:>12} {:>7}\n",
        "file", "kernel", "tile", "for", "registers", "shared bytes", "spilled"
    );
    let mut spilled = Vec::new();
    for compiled in on_all_threads(&jobs(), |job| job.compile(&compiler)) {
        report += &compiled.line;
        spilled.extend(compiled.spilled);
    }
    println!("{report}");
    if let Some(path) = std::env::var_os("WARPBOOK_KERNEL_REPORT") {
        std::fs::write(path, &report).expect("the report of kernels can be written");
    }
    assert!(spilled.is_empty(), "spills nobody allowed:\n{}", spilled.join("\n"));
}
