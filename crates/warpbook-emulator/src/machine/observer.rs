//! The view of a launch that checks and counts have.
//!
//! A launch is generic over its observer: the observer `()` compiles to nothing, and a pair joins two.

use super::launch::Identity;
use super::memory::Memory;
use crate::compute::Lanes;
use crate::program::{Access, Collective, Kernel, Step};
use crate::{Fault, Thread};

/// An instruction that is about to run, with its warp's registers before it.
pub(crate) struct Moment<'a> {
    pub(crate) kernel: &'a Kernel,
    /// The block that runs.
    pub(crate) identity: &'a Identity,
    /// The block's index among the resident blocks, which a later block takes over.
    pub(crate) resident: usize,
    /// The warp's number in its block.
    pub(crate) warp: u32,
    /// The index of the instruction in the kernel's steps.
    pub(crate) at: u32,
    /// Lanes at the instruction, and the lanes for which its guard holds.
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

    /// Returns the thread of a lane.
    pub(crate) fn thread(&self, lane: u32) -> Thread {
        Thread { block: self.identity.block, thread: self.identity.thread(self.warp * 32 + lane) }
    }
}

/// The kind of an access to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessKind {
    /// Reads memory.
    Load,
    /// Writes memory.
    Store,
    /// Reads and writes memory in one step.
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
    /// Returns how many bytes each lane accesses.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.access.bytes) * self.elements as u64
    }
}

/// Watches a launch. An error ends it.
pub(crate) trait Observer {
    /// True if nothing is observed, so that a launch gathers nothing.
    const IS_OFF: bool = false;

    /// Called when a block becomes resident.
    fn block_starts(&mut self, _kernel: &Kernel, _resident: usize, _identity: &Identity) {}

    /// Called when all threads of a block have exited.
    fn block_ends(&mut self, _kernel: &Kernel, _resident: usize) -> Result<(), Fault> {
        Ok(())
    }

    /// Called before an instruction runs. At a branch, `active` lanes take it, and the other `lanes` do not.
    fn step(&mut self, _moment: &Moment) -> Result<(), Fault> {
        Ok(())
    }

    /// Called before the active lanes of a warp access memory.
    fn access(&mut self, _request: &Request) -> Result<(), Fault> {
        Ok(())
    }

    /// Called before lanes perform a collective operation, in groups that reached it at the same instruction.
    fn collective(
        &mut self,
        _resident: usize,
        _warp: u32,
        _parties: &[(u32, &Collective)],
        _rows: &[Lanes],
    ) -> Result<(), Fault> {
        Ok(())
    }

    /// Called when a barrier is complete, with the lanes of each warp that wait there; lanes that only arrive are not among them.
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
