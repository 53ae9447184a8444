//! The view of a launch that checks and counts have.
//!
//! A launch tells everything to each observer of a list. If the list is empty, it gathers nothing.

use super::launch::Identity;
use super::memory::Memory;
use super::names::Names;
use crate::compute::Lanes;
use crate::program::{Access, Collective, Kernel, Step};
use crate::{Cause, Fault, Thread};

/// An instruction that is about to run, with its warp's registers before it.
pub(crate) struct Moment<'a> {
    pub(crate) kernel: &'a Kernel,
    /// The block that runs.
    pub(crate) identity: &'a Identity,
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
    /// Names of buffers for messages.
    pub(crate) names: &'a Names,
}

impl<'a> Moment<'a> {
    pub(crate) fn step(&self) -> &'a Step {
        &self.kernel.steps[self.at as usize]
    }

    /// Returns the thread of a lane.
    pub(crate) fn thread(&self, lane: usize) -> Thread {
        self.identity.thread(self.warp, lane)
    }

    /// Makes a fault of a lane at the instruction.
    pub(crate) fn fault(&self, cause: Cause, lane: usize, message: impl Into<String>) -> Fault {
        Fault { thread: Some(self.thread(lane)), ..Fault::new(cause, message) }.at(self.step())
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

/// Puts the state of a block that starts where its predecessor's is; the places of resident blocks begin in order.
pub(crate) fn start<T>(blocks: &mut Vec<T>, identity: &Identity, block: T) {
    match blocks.get_mut(identity.resident) {
        Some(place) => *place = block,
        None => blocks.push(block),
    }
}

/// Watches a launch. An error ends it.
pub(crate) trait Observer {
    /// Called when a block becomes resident.
    fn block_starts(&mut self, _identity: &Identity) {}

    /// Called before an instruction runs. At a branch, `active` lanes take it, and the other `lanes` do not.
    fn step(&mut self, _moment: &Moment) -> Result<(), Fault> {
        Ok(())
    }

    /// Called before the active lanes of a warp access memory.
    fn access(&mut self, _request: &Request) -> Result<(), Fault> {
        Ok(())
    }

    /// Called before lanes perform a collective operation, in groups that reached it at the same instruction. The moment's lanes are those that came last.
    fn collective(&mut self, _moment: &Moment, _parties: &[(u32, &Collective)]) -> Result<(), Fault> {
        Ok(())
    }

    /// Called when a barrier is complete, with the lanes of each warp that wait there; lanes that only arrive are not among them.
    fn barrier(&mut self, _: &Identity, _number: usize, _waiting: &[(u32, u32)]) -> Result<(), Fault> {
        Ok(())
    }
}
