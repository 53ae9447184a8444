//! An emulated GPU that replaces the driver: it has memory, and each kernel runs to completion during its launch.

use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use warpbook_emulator::{Argument, Fault, Gpu, Kernel, LIMITS, Launch, Loaded, Module, Note, Report, Verdict};
use warpbook_kernels::Launch as Shape;
use warpbook_record::{AccessKind, DeviceInfo, DeviceKind, Emulated, LineCounts, Transfers, WarpRequest};

/// The virtual architecture that kernels are compiled for.
pub(crate) const VIRTUAL: &str = "compute_80";
/// Number of warp instructions after which a kernel is assumed to be in an endless loop; a CPU core runs them in about ten seconds.
const BUDGET: u64 = 1 << 25;

/// The state of an emulated GPU.
#[derive(Debug, Default)]
pub(crate) struct Emulator {
    gpu: Mutex<Gpu>,
    /// Findings of checked launches so far, between `begin_checks` and `end_checks`.
    found: Mutex<Option<Found>>,
    /// Modules by their PTX. Kernels with the same code share the module's variables.
    modules: Mutex<HashMap<String, Loaded>>,
}

/// Returns the name and the limits of the emulated GPU.
pub(crate) fn info() -> DeviceInfo {
    let (major, minor) = LIMITS.capability;
    let sms = LIMITS.multiprocessors;
    DeviceInfo {
        kind: DeviceKind::Emulator,
        index: 0,
        name: format!("Emulator of a GPU with compute capability {major}.{minor} and {sms} SMs"),
        memory_bytes: LIMITS.global_bytes,
        multiprocessors: sms,
        compute_capability: Some(LIMITS.capability),
        l2_bytes: None,
        shared_bytes_per_multiprocessor: Some(LIMITS.multiprocessor_shared_bytes),
        shared_bytes_per_block: Some(LIMITS.block_shared_bytes),
        registers_per_multiprocessor: None,
        max_sm_mhz: None,
        max_memory_mhz: None,
    }
}

/// A kernel loaded into the emulator.
pub(crate) struct EmulatedKernel {
    kernel: Kernel,
    /// A hash of the kernel's PTX and entry point.
    code: u64,
}

impl Emulator {
    fn gpu(&self) -> MutexGuard<'_, Gpu> {
        self.gpu.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn found(&self) -> MutexGuard<'_, Option<Found>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to check every launch.
    pub(crate) fn begin_checks(&self) {
        *self.found() = Some(Found::default());
    }

    /// Stops checking launches, and returns the findings and counts so far.
    pub(crate) fn end_checks(&self) -> Emulated {
        let Found { notes, lines, requests, shuffles_of_a_warp, barriers_of_a_block, .. } =
            self.found().take().unwrap_or_default();
        let orders = ORDERS.map(str::to_owned).to_vec();
        let (notes, lines) = (notes.into_iter().collect(), lines.into_values().collect());
        Emulated { orders, notes, lines, requests, shuffles_of_a_warp, barriers_of_a_block, finding: None }
    }

    pub(crate) fn allocate(&self, bytes: usize) -> Result<u64> {
        self.gpu().allocate(bytes.max(1) as u64).map_err(|why| failed("Allocating memory", &why))
    }

    pub(crate) fn free(&self, address: u64) {
        self.gpu().free(address);
    }

    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<()> {
        self.gpu().write(address, bytes).map_err(|why| failed("Copying to the device", &why))
    }

    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.gpu().read(address, bytes).map_err(|why| failed("Copying from the device", &why))
    }

    /// Loads PTX and decodes one of its entries. Messages use `names` for the arguments; errors name the file `path`.
    pub(crate) fn kernel(&self, ptx: &str, entry: &str, path: &str, names: &[String]) -> Result<EmulatedKernel> {
        let refused =
            |why: String| Error::Unsupported { what: "The emulator".into(), why: format!("cannot run {path}: {why}") };
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if !modules.contains_key(ptx) {
            let module = Module::parse(ptx).map_err(|why| refused(why.to_string()))?;
            let loaded = self.gpu().load(&module).map_err(|why| failed(&format!("Loading {path}"), &why))?;
            modules.insert(ptx.to_owned(), loaded);
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let kernel = modules[ptx].kernel(entry).map_err(|why| refused(why.to_string()))?.with_argument_names(&names);
        let mut code = DefaultHasher::new();
        (ptx, entry).hash(&mut code);
        Ok(EmulatedKernel { kernel, code: code.finish() })
    }

    /// Runs a kernel to completion, and prints its output.
    pub(crate) fn launch(
        &self,
        EmulatedKernel { kernel, code }: &EmulatedKernel,
        shape: Shape,
        is_cooperative: bool,
        arguments: &[Argument],
    ) -> Result<(), Fault> {
        let launch = Launch {
            grid: shape.grid,
            block: shape.block,
            dynamic_shared: shape.dynamic_shared_bytes.into(),
            is_cooperative,
            budget: BUDGET,
            ..Launch::new(1, 1)
        };
        let mut found = self.found();
        let report = match &mut *found {
            None => self.gpu().launch(kernel, &launch, arguments)?,
            Some(found) => found.launch(&mut self.gpu(), *code, (kernel, &launch, arguments))?,
        };
        // The kernel's `printf` output goes to stdout, as on a GPU; errors such as a closed pipe are ignored.
        let _ = std::io::stdout().write_all(report.printed.as_bytes());
        Ok(())
    }
}

/// Findings and counts of all checked launches.
#[derive(Debug, Default)]
struct Found {
    /// Kernels, by their code, that ran in every order of blocks and warps, each with its grid, block and dynamic shared memory.
    tried: HashSet<(u64, [u32; 3], [u32; 3], u64)>,
    notes: BTreeSet<String>,
    /// Counts of work for each source line, by file and line number.
    lines: BTreeMap<(String, u32), LineCounts>,
    /// A warp's memory request for each source line, from the first launch in which the line accesses memory.
    requests: Vec<WarpRequest>,
    /// Largest number of shuffles by one warp in any launch.
    shuffles_of_a_warp: u64,
    barriers_of_a_block: u64,
}

/// Converts a warp's memory request to the form used in records.
fn recorded_request(request: warpbook_emulator::WarpRequest) -> WarpRequest {
    use warpbook_emulator::AccessKind as Kind;
    WarpRequest {
        file: request.file,
        line: request.line,
        kind: match request.kind {
            Kind::Load => AccessKind::Load,
            Kind::Store => AccessKind::Store,
            Kind::Atomic => AccessKind::Atomic,
        },
        is_shared: request.is_shared,
        buffer: request.buffer,
        thread: request.thread.to_string(),
        bytes: request.bytes,
        offsets: request.offsets.to_vec(),
    }
}

/// Converts a line's counts to the form used in records.
fn recorded(line: warpbook_emulator::LineCounts) -> LineCounts {
    let transfers = |warpbook_emulator::Transfers { requests, sectors, bytes }| Transfers { requests, sectors, bytes };
    LineCounts {
        line: line.line,
        instructions: line.instructions,
        active_lanes: line.lanes,
        divergent_branches: line.divergent_branches,
        requests: line.global_requests,
        sectors: line.global_sectors,
        ideal_sectors: line.global_ideal,
        wavefronts: line.shared_wavefronts,
        ideal_wavefronts: line.shared_ideal,
        atomics: line.atomics,
        lanes_on_one_address: line.lanes_on_one_address,
        shared_requests: line.shared_requests,
        bytes: line.global_bytes + line.shared_bytes + line.local_bytes,
        shared_bytes: line.shared_bytes,
        local_bytes: line.local_bytes,
        loads: transfers(line.global_loads),
        stores: transfers(line.global_stores),
        shared_words_loaded: line.shared_words_loaded,
        multiply_adds: line.multiply_adds,
        shuffles: line.shuffles,
        barrier_arrivals: line.barrier_arrivals,
        file: line.file,
    }
}

/// Converts the emulator's notes and counts of a launch to the form used in records.
#[must_use]
pub fn recorded_verdict(Verdict { counts, notes, .. }: Verdict) -> Emulated {
    Emulated {
        orders: Vec::new(),
        finding: None,
        notes: notes.iter().map(told).collect(),
        lines: counts.lines.into_iter().map(recorded).collect(),
        requests: counts.requests.into_iter().map(recorded_request).collect(),
        shuffles_of_a_warp: counts.shuffles_of_a_warp,
        barriers_of_a_block: counts.barriers_of_a_block,
    }
}

/// Formats a note with its location.
fn told(note: &Note) -> String {
    note.position.as_ref().map_or_else(|| note.message.clone(), |at| format!("{at}: {}", note.message))
}

/// Orders in which blocks and warps run in a kernel's first checked launch; later launches use only the first order.
const ORDERS: [&str; 3] = ["forwards", "backwards", "random"];

impl Found {
    /// Runs a kernel with all checks, in every order if this launch is new, and adds its counts to the totals.
    fn launch(
        &mut self,
        gpu: &mut Gpu,
        code: u64,
        (kernel, launch, arguments): (&Kernel, &Launch, &[Argument]),
    ) -> Result<Report, Fault> {
        let is_new = self.tried.insert((code, launch.grid, launch.block, launch.dynamic_shared));
        let Verdict { report, counts, notes } = match is_new {
            true => gpu.verdict(kernel, launch, arguments)?,
            false => gpu.launch_checked(kernel, launch, arguments)?,
        };
        self.notes.extend(notes.iter().map(told));
        self.shuffles_of_a_warp = self.shuffles_of_a_warp.max(counts.shuffles_of_a_warp);
        self.barriers_of_a_block = self.barriers_of_a_block.max(counts.barriers_of_a_block);
        let known: BTreeSet<(String, u32)> = self.requests.iter().map(|r| (r.file.clone(), r.line)).collect();
        let new = counts.requests.into_iter().filter(|r| !known.contains(&(r.file.clone(), r.line)));
        self.requests.extend(new.map(recorded_request));
        for line in counts.lines {
            let line = recorded(line);
            let none = LineCounts { file: line.file.clone(), line: line.line, ..LineCounts::default() };
            self.lines.entry((line.file.clone(), line.line)).or_insert(none).add(&line);
        }
        Ok(report)
    }
}

/// Returns a kernel argument with these bytes. Eight bytes may be an address, which fault messages can then name.
pub(crate) fn argument(bytes: &[u8]) -> Argument {
    match <[u8; 8]>::try_from(bytes) {
        Ok(eight) => Argument::U64(u64::from_le_bytes(eight)),
        Err(_) => Argument::Bytes(bytes.to_vec()),
    }
}

/// Returns the number of blocks with this many threads and bytes of shared memory that can be resident on a multiprocessor, and the resulting
/// occupancy from 0 to 1.
pub(crate) fn fit(threads: u32, shared_bytes: u32) -> (u32, f64) {
    let blocks = LIMITS.resident_blocks(threads, shared_bytes.into());
    (blocks, f64::from(blocks * threads) / f64::from(LIMITS.multiprocessor_threads))
}

fn failed(what: &str, why: &Fault) -> Error {
    Error::Cuda { what: format!("{what} in the emulator"), why: why.to_string(), sticky: false }
}
