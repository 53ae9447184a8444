//! Execution of instructions that change registers or memory, but not the control flow.

use super::block::Context;
use super::print;
use super::warp::Warp;
use crate::compute::{LANES, each, ones};
use crate::program::{Action, Comparison};
use crate::{Cause, Fault};

impl Warp {
    /// Executes an instruction that neither jumps nor waits.
    pub(super) fn execute(&mut self, action: &Action, context: &mut Context) -> Result<(), Fault> {
        let active = context.active;
        match action {
            Action::Compute { compute, into, from } => {
                let mut values = [0; LANES];
                compute.apply(&mut values, &self.rows, from);
                self.set(*into, active, &values);
            }
            Action::Compare(comparison) => self.compare(comparison, active),
            Action::Pack { into, parts, bits } => {
                let mut values = [0; LANES];
                for (part, row) in (0..).zip(parts) {
                    let row = self.row(*row);
                    (0..LANES).for_each(|lane| values[lane] |= (row[lane] & ones(*bits)) << (part * bits));
                }
                self.set(*into, active, &values);
            }
            Action::Unpack { from, parts, bits } => {
                let from = *self.row(*from);
                for (part, row) in (0..).zip(parts) {
                    self.set(*row, active, &from.map(|value| (value >> (part * bits)) & ones(*bits)));
                }
            }
            Action::Load(access, into) => self.load(access, into, context)?,
            Action::Store(access, from) => self.store(access, from, context)?,
            Action::Atomic { access, update, shared_update, into, operands } => {
                self.atomic(access, ([*update, *shared_update], *into, *operands), context)?;
            }
            Action::ActiveMask(into) => self.set(*into, active, &[active.into(); LANES]),
            Action::Clock(into) => self.set(*into, active, &[context.grid.steps; LANES]),
            Action::Print(places) => print::print(self, *places, context)?,
            Action::Assertion(places) => return Err(print::assertion(self, places, context)),
            Action::Trap => {
                let lane = active.trailing_zeros() as usize;
                return Err(self.fault(Cause::Trap, "The kernel stopped itself with a trap.", lane, context));
            }
            // `Warp::advance` handles jumps and waits. Hints and fences change no register.
            Action::Branch(_)
            | Action::BranchTable(..)
            | Action::Exit
            | Action::Barrier(_)
            | Action::Collective(_)
            | Action::Pause
            | Action::Nothing
            | Action::Fence { .. } => {}
        }
        Ok(())
    }

    fn compare(&mut self, comparison: &Comparison, active: u32) {
        let [a, b] = comparison.from;
        let mut outcome = [0; LANES];
        (comparison.compare)(&mut outcome, self.row(a), self.row(b));
        let mut opposite = outcome.map(|bit| bit ^ 1);
        if let Some((combine, row, is_negated)) = comparison.combine {
            let third = self.row(row).map(|bit| bit & 1 ^ u64::from(is_negated));
            each(&mut opposite, |lane| combine(outcome[lane] ^ 1, third[lane]));
            outcome.iter_mut().zip(third).for_each(|(outcome, third)| *outcome = combine(*outcome, third));
        }
        self.set(comparison.opposite_into, active, &opposite);
        self.set(comparison.into, active, &outcome);
    }
}
