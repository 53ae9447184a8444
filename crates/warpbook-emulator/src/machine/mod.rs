//! The emulated GPU: its memory, and how a grid runs on it.
//!
//! Several blocks of a grid are resident and run in turn. A block has warps, and a warp runs splits: groups of lanes at the same instruction.

mod access;
mod block;
mod collective;
mod launch;
mod memory;
mod names;
mod observer;
mod print;
mod step;
mod warp;

pub use launch::{Argument, Launch, Order, Report};

use crate::ptx::Space;
use crate::{Fault, Kernel, Module, Refusal};
pub(crate) use access::{extend, read};
pub(crate) use collective::sources;
pub(crate) use launch::{Identity, index, run};
pub(crate) use memory::{Memory, Unwritten};
pub use observer::AccessKind;
pub(crate) use observer::{Moment, Observer, Request, start};
pub(crate) use warp::{lanes, lanes_where};

/// Generic addresses of shared memory have this bit.
pub(crate) const SHARED_WINDOW: u64 = 1 << 56;
/// Generic addresses of local memory have this bit.
pub(crate) const LOCAL_WINDOW: u64 = 1 << 57;

/// The limits of the emulated GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Compute capability.
    pub capability: (u32, u32),
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Most threads of a block.
    pub block_threads: u32,
    /// Most threads of a multiprocessor.
    pub multiprocessor_threads: u32,
    /// Most blocks of a multiprocessor.
    pub multiprocessor_blocks: u32,
    /// Bytes of shared memory of a block.
    pub block_shared_bytes: u64,
    /// Bytes of shared memory of a multiprocessor.
    pub multiprocessor_shared_bytes: u64,
    /// Bytes of shared memory that the system reserves in each block.
    pub reserved_shared_bytes: u64,
    /// Bytes of global memory.
    pub global_bytes: u64,
}

impl Limits {
    /// Returns how many blocks with these threads and bytes of shared memory fit on a multiprocessor at once.
    #[must_use]
    pub fn resident_blocks(&self, threads: u32, shared_bytes: u64) -> u32 {
        let by_threads = self.multiprocessor_threads / threads.next_multiple_of(32).max(32);
        let by_shared = self.multiprocessor_shared_bytes / (shared_bytes + self.reserved_shared_bytes);
        by_threads.min(u32::try_from(by_shared).unwrap_or(u32::MAX)).min(self.multiprocessor_blocks)
    }
}

/// The emulated GPU: compute capability 8.0 with four multiprocessors.
pub const LIMITS: Limits = Limits {
    capability: (8, 0),
    multiprocessors: 4,
    block_threads: 1024,
    multiprocessor_threads: 2048,
    multiprocessor_blocks: 32,
    block_shared_bytes: 163 << 10,
    multiprocessor_shared_bytes: 164 << 10,
    reserved_shared_bytes: 1 << 10,
    global_bytes: 1 << 30,
};

/// An emulated GPU with its memory.
#[derive(Debug, Default)]
pub struct Gpu {
    pub(crate) memory: Memory,
}

/// A module whose variables are in a GPU's memory.
#[derive(Debug, Clone)]
pub struct Loaded {
    module: Module,
    addresses: Vec<u64>,
}

impl Loaded {
    /// Decodes an entry.
    ///
    /// # Errors
    /// If there is no such entry, or if it has an instruction that is not supported.
    pub fn kernel(&self, name: &str) -> Result<Kernel, Refusal> {
        Kernel::new(&self.module, &self.addresses, name)
    }
}

impl Gpu {
    /// Makes a GPU with empty memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a module's variables into global memory.
    ///
    /// # Errors
    /// If the memory is full.
    pub fn load(&mut self, module: &Module) -> Result<Loaded, Fault> {
        let mut addresses = Vec::new();
        for variable in &module.variables {
            let mut address = 0;
            if matches!(variable.space, Space::Global | Space::Const) {
                address = self.allocate(variable.bytes.max(1))?;
                let mut bytes = variable.initial.clone();
                bytes.resize(usize::try_from(variable.bytes).unwrap_or(0), 0);
                self.write(address, &bytes)?;
            }
            addresses.push(address);
        }
        Ok(Loaded { module: module.clone(), addresses })
    }

    /// Runs a kernel to its end.
    ///
    /// # Errors
    /// If the launch is impossible, or the kernel has a fault; memory is then as the kernel left it.
    pub fn launch(&mut self, kernel: &Kernel, launch: &Launch, arguments: &[Argument]) -> Result<Report, Fault> {
        let report = run(&mut self.memory, kernel, launch, arguments, Vec::new());
        // Without checks, everything counts as written.
        self.memory.buffers.iter_mut().for_each(|buffer| buffer.unwritten = Unwritten::Nothing);
        report
    }
}
