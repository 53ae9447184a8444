//! The interface through which checks and counts observe a launch.
//!
//! A launch calls each of its observers. Without observers it gathers no information.

use super::launch::Identity;
use super::memory::Memory;
use super::names::Names;
use crate::compute::Lanes;
use crate::program::{Access, Collective, Kernel, Step};
use crate::{Cause, Fault, Thread};

/// An instruction that is about to run, and the state of its warp and memory before it runs.
pub(crate) struct Moment<'a> {
    pub(crate) kernel: &'a Kernel,
    /// The block to which the warp belongs.
    pub(crate) identity: &'a Identity,
    /// Number of the warp in its block.
    pub(crate) warp: u32,
    /// Index of the instruction in the kernel's steps.
    pub(crate) at: u32,
    /// The lanes that are at the instruction, and the lanes whose guard predicate is true.
    pub(crate) lanes: u32,
    pub(crate) active: u32,
    pub(crate) rows: &'a [Lanes],
    /// Global memory and the block's shared memory before the instruction runs.
    pub(crate) memory: &'a Memory,
    pub(crate) shared: &'a [u8],
    /// Names of buffers in messages.
    pub(crate) names: &'a Names,
}

impl<'a> Moment<'a> {
    pub(crate) fn step(&self) -> &'a Step {
        &self.kernel.steps[self.at as usize]
    }

    /// Returns the thread that runs in a lane.
    pub(crate) fn thread(&self, lane: usize) -> Thread {
        self.identity.thread(self.warp, lane)
    }

    /// Creates a fault that a lane causes at this instruction.
    pub(crate) fn fault(&self, cause: Cause, lane: usize, message: impl Into<String>) -> Fault {
        Fault { thread: Some(self.thread(lane)), ..Fault::new(cause, message) }.at(self.step())
    }
}

/// The kind of an access to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessKind {
    /// The instruction reads memory.
    Load,
    /// The instruction writes memory.
    Store,
    /// The instruction reads and writes memory atomically.
    Atomic,
}

/// An access of a warp to memory. Its active lanes are about to access valid addresses.
pub(crate) struct Request<'a> {
    pub(crate) moment: &'a Moment<'a>,
    pub(crate) access: &'a Access,
    pub(crate) kind: AccessKind,
    /// Number of elements that each lane accesses; each has `access.bytes` bytes.
    pub(crate) elements: usize,
    /// Generic address of each lane's access. Addresses of shared and local memory have their window bits set.
    pub(crate) addresses: &'a Lanes,
}

impl Request<'_> {
    /// Returns the number of bytes that each lane accesses.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.access.bytes) * self.elements as u64
    }
}

/// Stores the state of a new block at its index among the resident blocks, in place of a block that has ended. New indices are used in ascending order.
pub(crate) fn start<T>(blocks: &mut Vec<T>, identity: &Identity, block: T) {
    match blocks.get_mut(identity.resident) {
        Some(place) => *place = block,
        None => blocks.push(block),
    }
}

/// An observer of a launch. If a method returns an error, the launch ends.
pub(crate) trait Observer {
    /// The machine calls this when a block becomes resident.
    fn block_starts(&mut self, _identity: &Identity) {}

    /// The machine calls this before an instruction runs. At a branch, the lanes in `active` jump, and the remaining lanes in `lanes` do not.
    fn step(&mut self, _moment: &Moment) -> Result<(), Fault> {
        Ok(())
    }

    /// The machine calls this before the active lanes of a warp access memory.
    fn access(&mut self, _request: &Request) -> Result<(), Fault> {
        Ok(())
    }

    /// The machine calls this before lanes perform a collective operation. Each group in `_parties` reached it at its own instruction; the lanes of `_moment`
    /// arrived last.
    fn collective(&mut self, _moment: &Moment, _parties: &[(u32, &Collective)]) -> Result<(), Fault> {
        Ok(())
    }

    /// The machine calls this when a barrier is complete, with a mask of the waiting lanes of each warp. Lanes that arrive without waiting are not included.
    fn barrier(&mut self, _: &Identity, _number: usize, _waiting: &[(u32, u32)]) -> Result<(), Fault> {
        Ok(())
    }
}
