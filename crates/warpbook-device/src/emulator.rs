//! An emulated GPU in place of a driver: its memory, and kernels that have ended when their launch returns.

use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use warpbook_emulator::{Argument, Fault, Gpu, Kernel, LIMITS, Launch, Loaded, Module, Note, Report, Verdict};
use warpbook_kernels::Launch as Shape;
use warpbook_record::{AccessKind, DeviceInfo, DeviceKind, Emulated, LineCounts, Transfers, WarpRequest};

/// The virtual architecture for which kernels are compiled.
pub(crate) const VIRTUAL: &str = "compute_80";
/// Number of warp instructions after which a kernel counts as endless; a core runs them in about ten seconds.
const BUDGET: u64 = 1 << 25;

/// The emulated GPU of a device.
#[derive(Debug, Default)]
pub(crate) struct Emulator {
    gpu: Mutex<Gpu>,
    /// Kernels that have already run in all orders.
    tried: Mutex<HashSet<u64>>,
    /// Findings of checked launches so far, between `begin_checks` and `end_checks`.
    found: Mutex<Option<Found>>,
    /// Modules by their PTX: kernels with the same code share its variables.
    modules: Mutex<HashMap<String, Loaded>>,
}

/// Name and limits of the emulated GPU.
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

/// A kernel of the emulator.
pub(crate) struct EmulatedKernel {
    kernel: Kernel,
    /// A hash of the kernel's code.
    code: u64,
}

impl Emulator {
    fn gpu(&self) -> MutexGuard<'_, Gpu> {
        self.gpu.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn found(&self) -> MutexGuard<'_, Option<Found>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks launches from now on.
    pub(crate) fn begin_checks(&self) {
        *self.found() = Some(Found::default());
    }

    /// Ends the checks, and returns their findings and counts.
    pub(crate) fn end_checks(&self) -> Emulated {
        let Found { notes, lines, requests, shuffles_of_a_warp, barriers_of_a_block } =
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

    /// Loads PTX and decodes one of its entries, whose arguments have these names in messages; an error names `path`.
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

    /// Runs a kernel to its end, and prints its output.
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
            Some(found) => {
                let is_new = self.tried.lock().unwrap_or_else(PoisonError::into_inner).insert(*code);
                found.launch(&mut self.gpu(), is_new, (kernel, &launch, arguments))?
            }
        };
        // This works like a kernel's `printf` on a GPU; a closed output is ignored.
        let _ = std::io::stdout().write_all(report.printed.as_bytes());
        Ok(())
    }
}

/// Findings and counts of launches.
#[derive(Debug, Default)]
struct Found {
    notes: BTreeSet<String>,
    /// Counts by file and line.
    lines: BTreeMap<(String, u32), LineCounts>,
    /// Requests of the first launch that accesses memory in a line.
    requests: Vec<WarpRequest>,
    /// Largest number in any launch.
    shuffles_of_a_warp: u64,
    barriers_of_a_block: u64,
}

/// Returns a warp's request as a record has it.
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
        place: request.place,
        thread: request.thread.to_string(),
        bytes: request.bytes,
        offsets: request.offsets.to_vec(),
    }
}

/// Returns a line's counts as a record has them.
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
        bytes: line.global_bytes + line.shared_bytes + line.local_bytes,
        loads: transfers(line.global_loads),
        stores: transfers(line.global_stores),
        shared_words_loaded: line.shared_words_loaded,
        multiply_adds: line.multiply_adds,
        shuffles: line.shuffles,
        barrier_arrivals: line.barrier_arrivals,
        file: line.file,
    }
}

/// Returns what the emulator noted and counted in a launch as a record has it.
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

/// Returns a remark with its place.
fn told(note: &Note) -> String {
    note.place.as_ref().map_or_else(|| note.message.clone(), |at| format!("{at}: {}", note.message))
}

/// Orders in which blocks and warps run in the first checked launch of a kernel; later launches run only forwards.
const ORDERS: [&str; 3] = ["forwards", "backwards", "random"];

impl Found {
    /// Runs a kernel with all checks and counts its work.
    fn launch(
        &mut self,
        gpu: &mut Gpu,
        in_all_orders: bool,
        (kernel, launch, arguments): (&Kernel, &Launch, &[Argument]),
    ) -> Result<Report, Fault> {
        let Verdict { report, counts, notes } = match in_all_orders {
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

/// Returns a launch's argument with these bytes. Eight bytes may be an address, which a fault can name.
pub(crate) fn argument(bytes: &[u8]) -> Argument {
    match <[u8; 8]>::try_from(bytes) {
        Ok(eight) => Argument::U64(u64::from_le_bytes(eight)),
        Err(_) => Argument::Bytes(bytes.to_vec()),
    }
}

/// Returns the number of blocks with this many threads and bytes of shared memory that are resident on a multiprocessor, and the share of its threads
/// that they use.
pub(crate) fn fit(threads: u32, shared_bytes: u32) -> (u32, f64) {
    let blocks = LIMITS.resident_blocks(threads, shared_bytes.into());
    (blocks, f64::from(blocks * threads) / f64::from(LIMITS.multiprocessor_threads))
}

fn failed(what: &str, why: &Fault) -> Error {
    Error::Cuda { what: format!("{what} in the emulator"), why: why.to_string(), sticky: false }
}
