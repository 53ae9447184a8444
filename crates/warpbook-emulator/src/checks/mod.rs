//! Checks of a running kernel for faults that a right result may hide.
//!
//! | cause | when |
//! |---|---|
//! | `OutOfBounds`, `Misaligned` | An access is outside every buffer, or its address is not a multiple of its size. The machine finds both without checks. |
//! | `Unwritten` | Unwritten bits decide about an address, a branch, or a store to global memory. Reading them is not a fault, and `x or true` is written. |
//! | `Race` | Two threads access the same byte, one writes it, and nothing orders them: no barrier, `__syncwarp`, or fences with strong accesses. Strong accesses (atomic, volatile, relaxed) do not race with each other, nor does a plain read with a compare-and-swap, which notices a stale value. Equal values are noted. |
//! | `Barrier` | Threads exit before a `__syncthreads`, or reach another one. Lanes in a mask do not arrive, or a lane is not in its own mask. |
//! | `Endless` | The budget of steps is used up, or a branch leads to itself. |
//!
//! After the use of an unwritten value the kernel runs on for a while: if a race left that value behind, the race is reported instead. Each cause has kernels with a
//! planted fault in `tests/faults/`. Compiled with `MENDED` they are clean.

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
use crate::{Cause, Fault, Place};
use barriers::BarrierCheck;
use endless::EndlessCheck;
use races::RaceCheck;
use unwritten::UnwrittenCheck;

/// A remark on a harmless fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Place in the kernel's source, if it is known.
    pub place: Option<Place>,
    /// A sentence that states the fact.
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
    /// The first use of an unwritten value, and the instructions since then. A race may be its cause.
    postponed: Option<(Fault, u32)>,
}

/// Instructions that a kernel still runs after it has used an unwritten value.
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

    /// Explains a fault, or returns the one that caused it.
    pub(crate) fn explain(&self, fault: Fault) -> Fault {
        match &self.postponed {
            Some((cause, _)) if fault.cause != Cause::Race => cause.clone(),
            _ => self.endless.explain(fault, self.kernel),
        }
    }

    /// Postpones the fault of an unwritten value.
    fn postpone(&mut self, result: Result<(), Fault>) {
        if let (Err(fault), None) = (result, &self.postponed) {
            self.postponed = Some((fault, 0));
        }
    }

    /// Marks in the memory what the launch has written, and returns the notes.
    ///
    /// # Errors
    /// If an unwritten value was used.
    pub(crate) fn finish(self, memory: &mut Memory) -> Result<Vec<Note>, Fault> {
        if let Some((fault, _)) = self.postponed {
            return Err(fault);
        }
        self.unwritten.note(memory);
        let place = |at: u32| self.kernel.steps[at as usize].place.as_deref().cloned();
        let mut notes: Vec<Note> =
            self.races.notes.into_iter().map(|(at, message)| Note { place: place(at), message }).collect();
        // One note a line: a loop that the compiler unrolled has many such instructions.
        notes.dedup_by(|b, a| a.place.is_some() && a.place == b.place);
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
