//! Checks that find faults in a running kernel even if its results are right.
//!
//! | Cause | Condition |
//! |---|---|
//! | `OutOfBounds`, `Misaligned` | An access is outside every buffer, or its address is not a multiple of its size. |
//! | `Unwritten` | An address, a branch, or a store to global memory depends on unwritten bits. |
//! | `Race` | Two threads access the same byte, one writes it, and neither barriers, `__syncwarp` nor fences with strong accesses order them. |
//! | `Barrier` | Threads exit before a `__syncthreads` or wait at a different one, or the lanes of a mask do not match those that arrive. |
//! | `Endless` | The kernel uses up its budget of steps, or a branch jumps to itself. |
//!
//! The machine finds invalid addresses even without checks. Reading unwritten bits is not a fault, and `x or true` counts as written. Strong accesses (atomic,
//! volatile, relaxed) do not race with each other. A compare-and-swap does not race with a plain read, because it fails if the read returned a stale value. A
//! race between writes of equal values is only a note.
//!
//! After the use of an unwritten value the kernel keeps running for a while: if a race left that value behind, the race is reported instead. `tests/faults/`
//! has kernels with a planted fault for each cause. Compiled with the macro `MENDED`, these kernels have no fault.

mod barriers;
mod clocks;
mod endless;
mod flow;
mod order;
mod races;
mod unwritten;
mod words;

use crate::machine::{Identity, Memory, Moment, Observer, Request};
use crate::program::{Collective, Kernel};
use crate::{Cause, Fault, SourcePosition};
use barriers::BarrierCheck;
use endless::EndlessCheck;
use races::RaceCheck;
use unwritten::UnwrittenCheck;

/// A remark on something that is unusual but does no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Position in the kernel's source; `None` if it is unknown.
    pub position: Option<SourcePosition>,
    /// The remark as a sentence.
    pub message: String,
}

/// All checks of one launch.
#[derive(Debug)]
pub(crate) struct Checks<'k> {
    kernel: &'k Kernel,
    unwritten: UnwrittenCheck,
    races: RaceCheck,
    barriers: BarrierCheck,
    endless: EndlessCheck,
    /// The first use of an unwritten value, and the number of instructions since then. The fault is postponed because a race may be its cause.
    postponed: Option<(Fault, u32)>,
}

/// Number of instructions that a kernel may still run after it has used an unwritten value.
const PATIENCE: u32 = 100_000;

impl<'k> Checks<'k> {
    pub(crate) fn new(kernel: &'k Kernel, memory: &Memory) -> Self {
        Self {
            kernel,
            unwritten: UnwrittenCheck::new(kernel, memory),
            races: RaceCheck::new(memory),
            barriers: BarrierCheck::default(),
            endless: EndlessCheck::default(),
            postponed: None,
        }
    }

    /// Adds an explanation to a fault, or returns the earlier fault that caused it.
    pub(crate) fn explain(&self, fault: Fault) -> Fault {
        match &self.postponed {
            Some((cause, _)) if fault.cause != Cause::Race => cause.clone(),
            _ => self.endless.explain(fault, self.kernel),
        }
    }

    /// Keeps the fault of an unwritten value for later, in case a race turns out to be its cause.
    fn postpone(&mut self, result: Result<(), Fault>) {
        if let (Err(fault), None) = (result, &self.postponed) {
            self.postponed = Some((fault, 0));
        }
    }

    /// Stores in the memory which bytes the launch has written, and returns the notes.
    ///
    /// # Errors
    /// If an unwritten value was used.
    pub(crate) fn finish(self, memory: &mut Memory) -> Result<Vec<Note>, Fault> {
        if let Some((fault, _)) = self.postponed {
            return Err(fault);
        }
        self.unwritten.note(memory);
        let position = |at: u32| self.kernel.steps[at as usize].position.as_deref().cloned();
        let mut notes: Vec<Note> =
            self.races.notes.into_iter().map(|(at, message)| Note { position: position(at), message }).collect();
        // Keeps one note for each source line: a loop that the compiler unrolled repeats the instruction.
        notes.dedup_by(|b, a| a.position.is_some() && a.position == b.position);
        Ok(notes)
    }
}

impl Observer for Checks<'_> {
    fn block_starts(&mut self, identity: &Identity) {
        self.unwritten.block_starts(identity);
        self.races.block_starts(identity);
        self.barriers.block_starts(identity);
    }

    fn step(&mut self, moment: &Moment) -> Result<(), Fault> {
        if let Some((fault, steps)) = &mut self.postponed {
            *steps += 1;
            if *steps > PATIENCE {
                return Err(fault.clone());
            }
        }
        self.endless.step(moment)?;
        self.races.step(moment);
        self.barriers.step(moment);
        let result = self.unwritten.step(moment);
        self.postpone(result);
        Ok(())
    }

    fn access(&mut self, request: &Request) -> Result<(), Fault> {
        self.endless.access(request);
        self.races.access(request)?;
        let result = self.unwritten.access(request);
        self.postpone(result);
        Ok(())
    }

    fn collective(&mut self, moment: &Moment, parties: &[(u32, &Collective)]) -> Result<(), Fault> {
        barriers::check_masks(moment, parties)?;
        self.races.collective(moment, parties);
        self.unwritten.collective(moment, parties);
        Ok(())
    }

    fn barrier(&mut self, identity: &Identity, number: usize, waiting: &[(u32, u32)]) -> Result<(), Fault> {
        self.races.order.barrier(identity.resident, number, waiting);
        self.barriers.barrier(self.kernel, identity, number)
    }
}
