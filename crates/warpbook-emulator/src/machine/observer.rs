//! What checks and counts see of a launch.
//!
//! A launch is generic over its observer: that of no check, `()`, is compiled to nothing. Several are joined as a pair.

use super::launch::Identity;
use super::memory::Memory;
use crate::compute::Lanes;
use crate::program::{Access, Collective, Kernel, Step};
use crate::{Fault, Thread};

/// An instruction about to run, with its warp's registers as they are before it.
pub(crate) struct Moment<'a> {
    pub(crate) kernel: &'a Kernel,
    /// The block that runs.
    pub(crate) identity: &'a Identity,
    /// Which of the resident blocks it is; another block takes the place after it has ended.
    pub(crate) resident: usize,
    /// The warp's number in its block.
    pub(crate) warp: u32,
    /// The instruction, by its index in the kernel's steps.
    pub(crate) at: u32,
    /// Lanes at the instruction, and those of them for which its guard holds.
    pub(crate) lanes: u32,
    pub(crate) active: u32,
    pub(crate) rows: &'a [Lanes],
    /// Global memory and the block's shared memory, before the instruction.
    pub(crate) memory: &'a Memory,
    pub(crate) shared: &'a [u8],
}

impl<'a> Moment<'a> {
    pub(crate) fn step(&self) -> &'a Step {
        &self.kernel.steps[self.at as usize]
    }

    /// The thread of a lane.
    pub(crate) fn thread(&self, lane: u32) -> Thread {
        Thread { block: self.identity.block, thread: self.identity.thread(self.warp * 32 + lane) }
    }
}

/// What an access does to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessKind {
    /// It reads.
    Load,
    /// It writes.
    Store,
    /// It reads and writes in one step.
    Atomic,
}

/// An access of a warp to memory: its active lanes are about to access it at valid addresses.
pub(crate) struct Request<'a> {
    pub(crate) moment: &'a Moment<'a>,
    pub(crate) access: &'a Access,
    pub(crate) kind: AccessKind,
    /// Elements of `access.bytes` bytes that each lane accesses.
    pub(crate) elements: usize,
    /// A generic address for each lane; those of shared and local memory have their windows' bits.
    pub(crate) addresses: &'a Lanes,
}

impl Request<'_> {
    /// Bytes that each lane accesses.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.access.bytes) * self.elements as u64
    }
}

/// Watches a launch. An error ends it.
pub(crate) trait Observer {
    /// True if nothing is observed, so that nothing has to be gathered.
    const IS_OFF: bool = false;

    /// A block takes a place among the resident ones.
    fn block_starts(&mut self, _kernel: &Kernel, _resident: usize, _identity: &Identity) {}

    /// All threads of a block have exited.
    fn block_ends(&mut self, _kernel: &Kernel, _resident: usize) -> Result<(), Fault> {
        Ok(())
    }

    /// An instruction is about to run: of branches, `lanes` and `active` say who goes where.
    fn step(&mut self, _moment: &Moment) -> Result<(), Fault> {
        Ok(())
    }

    /// The active lanes of a warp are about to access memory.
    fn access(&mut self, _request: &Request) -> Result<(), Fault> {
        Ok(())
    }

    /// Lanes that have reached a collective operation, in groups at the same instruction, are about to perform it.
    fn collective(
        &mut self,
        _resident: usize,
        _warp: u32,
        _parties: &[(u32, &Collective)],
        _rows: &[Lanes],
    ) -> Result<(), Fault> {
        Ok(())
    }

    /// Everybody has arrived at a barrier: (warp, lanes), without those that arrived and did not wait.
    fn barrier(&mut self, _resident: usize, _number: usize, _waiting: &[(u32, u32)]) -> Result<(), Fault> {
        Ok(())
    }
}

impl Observer for () {
    const IS_OFF: bool = true;
}

impl<A: Observer, B: Observer> Observer for (A, B) {
    const IS_OFF: bool = A::IS_OFF && B::IS_OFF;

    fn block_starts(&mut self, kernel: &Kernel, resident: usize, identity: &Identity) {
        self.0.block_starts(kernel, resident, identity);
        self.1.block_starts(kernel, resident, identity);
    }

    fn block_ends(&mut self, kernel: &Kernel, resident: usize) -> Result<(), Fault> {
        self.0.block_ends(kernel, resident)?;
        self.1.block_ends(kernel, resident)
    }

    fn step(&mut self, moment: &Moment) -> Result<(), Fault> {
        self.0.step(moment)?;
        self.1.step(moment)
    }

    fn access(&mut self, request: &Request) -> Result<(), Fault> {
        self.0.access(request)?;
        self.1.access(request)
    }

    fn collective(
        &mut self,
        resident: usize,
        warp: u32,
        parties: &[(u32, &Collective)],
        rows: &[Lanes],
    ) -> Result<(), Fault> {
        self.0.collective(resident, warp, parties, rows)?;
        self.1.collective(resident, warp, parties, rows)
    }

    fn barrier(&mut self, resident: usize, number: usize, waiting: &[(u32, u32)]) -> Result<(), Fault> {
        self.0.barrier(resident, number, waiting)?;
        self.1.barrier(resident, number, waiting)
    }
}
