//! The emulated GPU: its memory, and how it runs a grid.
//!
//! Several blocks of a grid are resident and take turns. A block consists of warps. A warp consists of splits: groups of lanes that are at the same
//! instruction.

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

/// Bit that is set in generic addresses of shared memory.
pub(crate) const SHARED_WINDOW: u64 = 1 << 56;
/// Bit that is set in generic addresses of local memory.
pub(crate) const LOCAL_WINDOW: u64 = 1 << 57;

/// The limits of the emulated GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Compute capability: major and minor number.
    pub capability: (u32, u32),
    /// Number of multiprocessors.
    pub multiprocessors: u32,
    /// Maximum number of threads in a block.
    pub block_threads: u32,
    /// Maximum number of resident threads on a multiprocessor.
    pub multiprocessor_threads: u32,
    /// Maximum number of resident blocks on a multiprocessor.
    pub multiprocessor_blocks: u32,
    /// Maximum size of a block's shared memory, in bytes.
    pub block_shared_bytes: u64,
    /// Size of a multiprocessor's shared memory, in bytes.
    pub multiprocessor_shared_bytes: u64,
    /// Shared memory that the system reserves in each block, in bytes.
    pub reserved_shared_bytes: u64,
    /// Size of global memory, in bytes.
    pub global_bytes: u64,
}

impl Limits {
    /// Returns how many blocks with this many threads and bytes of shared memory fit on a multiprocessor.
    #[must_use]
    pub fn resident_blocks(&self, threads: u32, shared_bytes: u64) -> u32 {
        let by_threads = self.multiprocessor_threads / threads.next_multiple_of(32).max(32);
        let by_shared = self.multiprocessor_shared_bytes / (shared_bytes + self.reserved_shared_bytes);
        by_threads.min(u32::try_from(by_shared).unwrap_or(u32::MAX)).min(self.multiprocessor_blocks)
    }
}

/// The limits of the emulated GPU, which has compute capability 8.0 and four multiprocessors.
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

/// A module that has been loaded: its variables are in the memory of a GPU.
#[derive(Debug, Clone)]
pub struct Loaded {
    module: Module,
    addresses: Vec<u64>,
}

impl Loaded {
    /// Decodes an entry function of the module.
    ///
    /// # Errors
    /// If there is no entry with this name, or if it has an unsupported instruction.
    pub fn kernel(&self, name: &str) -> Result<Kernel, Refusal> {
        Kernel::new(&self.module, &self.addresses, name)
    }
}

impl Gpu {
    /// Creates a GPU with empty memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Loads a module: allocates its variables in global memory.
    ///
    /// # Errors
    /// If global memory is full.
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

    /// Runs a kernel to its end, without checks for races, barriers or unwritten values.
    ///
    /// # Errors
    /// If the launch is impossible, or if the kernel has a fault. Memory then stays as the kernel left it.
    pub fn launch(&mut self, kernel: &Kernel, launch: &Launch, arguments: &[Argument]) -> Result<Report, Fault> {
        let report = run(&mut self.memory, kernel, launch, arguments, Vec::new());
        // Without checks nothing tracks unwritten values, so all memory counts as written.
        self.memory.buffers.iter_mut().for_each(|buffer| buffer.unwritten = Unwritten::Nothing);
        report
    }
}
