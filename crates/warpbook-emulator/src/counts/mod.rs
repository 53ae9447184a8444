//! Counts of memory accesses and divergent branches by source line. They count PTX instructions and never measure time.

mod memory;
mod requests;
mod table;

pub use requests::WarpRequest;

use crate::compute::LANES;
use crate::machine::{
    AccessKind, Identity, LOCAL_WINDOW, Moment, Observer, Request, SHARED_WINDOW, lanes, lanes_where, start,
};
use crate::program::{Action, Collective, CollectiveKind, Kernel};
use crate::{Fault, SourcePosition};
use requests::FirstRequests;
use std::collections::HashMap;
use std::ops::AddAssign;
use std::sync::Arc;

/// Loads or stores of global memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Number of requests; each is one instruction of a warp.
    pub requests: u64,
    /// Number of 32-byte sectors that the requests access.
    pub sectors: u64,
    /// Number of bytes that active lanes request.
    pub bytes: u64,
}

impl AddAssign for Transfers {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.sectors += other.sectors;
        self.bytes += other.bytes;
    }
}

/// Counts of one source line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Name of the file as it was given to the compiler; empty for instructions without a source line.
    pub file: String,
    /// Line number, counted from 1.
    pub line: u32,
    /// Number of instructions that warps executed.
    pub instructions: u64,
    /// Number of active lanes, summed over all instructions.
    pub lanes: u64,
    /// Number of requests of warps to global memory: loads, stores and atomics.
    pub global_requests: u64,
    /// Number of 32-byte sectors that the requests to global memory access.
    pub global_sectors: u64,
    /// Minimum number of sectors that could contain the requested bytes.
    pub global_ideal: u64,
    /// Loads from global memory.
    pub global_loads: Transfers,
    /// Stores to global memory.
    pub global_stores: Transfers,
    /// Number of requests of warps to shared memory.
    pub shared_requests: u64,
    /// Number of wavefronts that serve the requests to shared memory.
    pub shared_wavefronts: u64,
    /// Number of wavefronts that would serve the requests to shared memory without bank conflicts.
    pub shared_ideal: u64,
    /// Number of branches that warps executed.
    pub branches: u64,
    /// Number of branches at which the active lanes diverge.
    pub divergent_branches: u64,
    /// Number of atomic operations that warps executed.
    pub atomics: u64,
    /// The most lanes that share an address in an atomic operation, summed over all atomic operations.
    pub lanes_on_one_address: u64,
    /// Number of bytes that active lanes read or write in global memory.
    pub global_bytes: u64,
    /// Number of bytes that active lanes read or write in shared memory.
    pub shared_bytes: u64,
    /// Number of bytes that active lanes read or write in local memory.
    pub local_bytes: u64,
    /// Number of 4-byte words that active lanes load from shared memory. A load of fewer bytes counts as one word.
    pub shared_words_loaded: u64,
    /// Number of floating-point multiply-adds (`fma` and `mad`) of active lanes. An instruction on two packed numbers counts twice.
    pub multiply_adds: u64,
    /// Number of shuffles that warps executed.
    pub shuffles: u64,
    /// Number of times that a warp arrives at a barrier of its block.
    pub barrier_arrivals: u64,
}

impl LineCounts {
    /// Returns the mean number of active lanes per instruction; 0 if no instruction ran.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn mean_lanes(&self) -> f64 {
        if self.instructions == 0 { 0.0 } else { self.lanes as f64 / self.instructions as f64 }
    }

    /// Adds the counts of another line, and keeps its own file and line.
    fn add(&mut self, other: &Self) {
        macro_rules! add {
            ($($count:ident)*) => {$(self.$count += other.$count;)*};
        }
        add! {
            instructions lanes global_requests global_sectors global_ideal global_loads global_stores shared_requests
            shared_wavefronts shared_ideal branches divergent_branches atomics lanes_on_one_address global_bytes
            shared_bytes local_bytes shared_words_loaded multiply_adds shuffles barrier_arrivals
        }
    }
}

/// Counts of a launch by source line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Counts of each line in which instructions ran, sorted by file and line.
    pub lines: Vec<LineCounts>,
    /// The first request of each instruction that accesses global or shared memory, for at most four instructions per line.
    pub requests: Vec<WarpRequest>,
    /// Maximum number of shuffles that one warp executes.
    pub shuffles_of_a_warp: u64,
    /// Maximum number of barriers that one block passes.
    pub barriers_of_a_block: u64,
}

impl Counts {
    /// Returns the sum over all lines. Its file is empty, and its line is 0.
    #[must_use]
    pub fn total(&self) -> LineCounts {
        let mut total = LineCounts::default();
        self.lines.iter().for_each(|line| total.add(line));
        total
    }

    /// Returns the counts of one line; `None` if no instruction of the line ran.
    #[must_use]
    pub fn line(&self, file: &str, line: u32) -> Option<&LineCounts> {
        self.lines.iter().find(|counts| counts.line == line && counts.file == file)
    }
}

/// An observer that counts what happens in a launch.
#[derive(Debug)]
pub(crate) struct Counter {
    counts: Counts,
    /// Index in `counts.lines` for each instruction.
    line_of: Vec<u32>,
    /// Number of multiply-adds that each instruction performs in one lane.
    multiply_adds: Vec<u8>,
    /// Number of shuffles in each warp, and number of barriers, for each resident block.
    running: Vec<(Vec<u64>, u64)>,
    requests: FirstRequests,
}

/// Returns the number of floating-point multiply-adds that an instruction performs in one lane.
fn multiply_adds(opcode: &str) -> u8 {
    let mut parts = opcode.split('.');
    match (parts.next(), parts.next_back()) {
        (Some("fma" | "mad"), Some("f16" | "bf16" | "f32" | "f64")) => 1,
        (Some("fma"), Some("f16x2" | "bf16x2")) => 2,
        _ => 0,
    }
}

impl Counter {
    pub(crate) fn new(kernel: &Kernel) -> Self {
        let mut lines: Vec<LineCounts> = Vec::new();
        let mut known = HashMap::new();
        let mut line_of = Vec::with_capacity(kernel.steps.len());
        for step in &kernel.steps {
            let key = |position: &Arc<SourcePosition>| (position.file.to_string(), position.line);
            let key = step.position.as_ref().map_or((String::new(), 0), key);
            line_of.push(*known.entry(key).or_insert_with_key(|(file, line)| {
                lines.push(LineCounts { file: file.clone(), line: *line, ..LineCounts::default() });
                u32::try_from(lines.len() - 1).unwrap_or(0)
            }));
        }
        Self {
            counts: Counts { lines, ..Counts::default() },
            line_of,
            multiply_adds: kernel.steps.iter().map(|step| multiply_adds(&step.opcode)).collect(),
            running: Vec::new(),
            requests: FirstRequests::new(kernel.steps.len()),
        }
    }

    /// Returns the counts of all lines in which an instruction ran.
    pub(crate) fn finish(self) -> Counts {
        let mut counts = self.counts;
        counts.lines.retain(|line| line.instructions > 0);
        counts.lines.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        Counts { requests: self.requests.finish(), ..counts }
    }
}

impl Observer for Counter {
    fn block_starts(&mut self, identity: &Identity) {
        let shuffles = vec![0; identity.threads_of_block().div_ceil(32) as usize];
        start(&mut self.running, identity, (shuffles, 0));
    }

    fn barrier(&mut self, identity: &Identity, _: usize, _: &[(u32, u32)]) -> Result<(), Fault> {
        let (_, barriers) = &mut self.running[identity.resident];
        *barriers += 1;
        self.counts.barriers_of_a_block = self.counts.barriers_of_a_block.max(*barriers);
        Ok(())
    }

    fn step(&mut self, moment: &Moment) -> Result<(), Fault> {
        let line = &mut self.counts.lines[self.line_of[moment.at as usize] as usize];
        line.instructions += 1;
        // All lanes execute a jump, even if its guard lets only some of them jump.
        let executing = match &moment.step().action {
            Action::Branch(_) | Action::Exit => moment.lanes,
            _ => moment.active,
        };
        line.lanes += u64::from(executing.count_ones());
        line.multiply_adds += u64::from(moment.active.count_ones()) * u64::from(self.multiply_adds[moment.at as usize]);
        match &moment.step().action {
            // The branch diverges if only some of the lanes jump.
            Action::Branch(_) => {
                line.branches += 1;
                line.divergent_branches += u64::from(moment.active != 0 && moment.active != moment.lanes);
            }
            Action::BranchTable(index, targets) => {
                line.branches += 1;
                let target = |lane: usize| targets.get(usize::try_from(moment.rows[*index as usize][lane]).ok()?);
                let mut all = lanes(moment.active).map(target);
                let first = all.next();
                line.divergent_branches += u64::from(all.any(|other| Some(other) != first));
            }
            Action::Barrier(_) => line.barrier_arrivals += u64::from(moment.active != 0),
            Action::Collective(Collective { kind: CollectiveKind::Shuffle(_), .. }) if moment.active != 0 => {
                line.shuffles += 1;
                let shuffles = &mut self.running[moment.identity.resident].0[moment.warp as usize];
                *shuffles += 1;
                self.counts.shuffles_of_a_warp = self.counts.shuffles_of_a_warp.max(*shuffles);
            }
            _ => {}
        }
        Ok(())
    }

    fn access(&mut self, request: &Request) -> Result<(), Fault> {
        let Request { moment, kind, addresses, .. } = *request;
        if moment.active == 0 {
            return Ok(());
        }
        self.requests.note(request);
        let line = &mut self.counts.lines[self.line_of[moment.at as usize] as usize];
        let bytes = request.bytes();
        let among =
            |window: u64| lanes_where(moment.active, |lane| addresses[lane] & (SHARED_WINDOW | LOCAL_WINDOW) == window);
        let (shared, local) = (among(SHARED_WINDOW), among(LOCAL_WINDOW));
        let global = moment.active & !shared & !local;
        let moved = |mask: u32| u64::from(mask.count_ones()) * bytes;
        line.local_bytes += moved(local);
        line.global_bytes += moved(global);
        line.shared_bytes += moved(shared);
        if global != 0 {
            let sectors = memory::sectors(addresses, global, bytes);
            line.global_requests += 1;
            line.global_sectors += sectors;
            line.global_ideal += moved(global).div_ceil(memory::SECTOR).min(sectors);
            let request = Transfers { requests: 1, sectors, bytes: moved(global) };
            match kind {
                AccessKind::Load => line.global_loads += request,
                AccessKind::Store => line.global_stores += request,
                AccessKind::Atomic => {}
            }
        }
        if shared != 0 {
            line.shared_requests += 1;
            line.shared_wavefronts += memory::wavefronts(addresses, shared, bytes);
            line.shared_ideal += memory::ideal_wavefronts(addresses, shared, bytes);
            if kind == AccessKind::Load {
                line.shared_words_loaded += u64::from(shared.count_ones()) * bytes.div_ceil(4);
            }
        }
        if kind == AccessKind::Atomic {
            line.atomics += 1;
            line.lanes_on_one_address += memory::most_on_one_address(addresses, moment.active);
        }
        Ok(())
    }
}

const _: () = assert!(LANES == 32);
