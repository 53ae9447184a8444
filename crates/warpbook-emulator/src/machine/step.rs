//! What instructions do to the registers of their active lanes.

use super::block::Context;
use super::warp::{Lanes, Warp, lanes};
use super::{LANES, print};
use crate::compute::Compute;
use crate::program::{Action, Comparison, NONE, Row};
use crate::{Cause, Fault};

impl Warp {
    /// Executes an instruction that neither jumps nor waits.
    pub(super) fn execute(&mut self, action: &Action, active: u32, context: &mut Context) -> Result<(), Fault> {
        match action {
            Action::Compute { compute, into, from } => self.compute(*compute, *into, from, active),
            Action::Compare(comparison) => self.compare(comparison, active),
            Action::Pack { into, parts, bits } => {
                let mut values = [0; LANES];
                for (part, row) in (0..).zip(parts) {
                    let row = self.row(*row);
                    (0..LANES).for_each(|lane| values[lane] |= low(row[lane], *bits) << (part * bits));
                }
                self.set(*into, active, &values);
            }
            Action::Unpack { from, parts, bits } => {
                let from = *self.row(*from);
                for (part, row) in (0..).zip(parts) {
                    self.set(*row, active, &from.map(|value| low(value >> (part * bits), *bits)));
                }
            }
            Action::Load(access, into) => self.load(access, into, active, context)?,
            Action::Store(access, from) => self.store(access, from, active, context)?,
            Action::Atomic { access, update, into, operands } => {
                self.atomic(access, *update, *into, *operands, active, context)?;
            }
            Action::ActiveMask(into) => self.set(*into, active, &[active.into(); LANES]),
            Action::Clock(into) => self.set(*into, active, &[context.progress.steps; LANES]),
            Action::Print { format, arguments, result } => print::print(self, (*format, *arguments), *result, active, context)?,
            Action::Assertion(places) => return Err(print::assertion(self, places, active, context)),
            Action::Trap => {
                let lane = active.trailing_zeros() as usize;
                return Err(self.fault(Cause::Trap, "The kernel stopped itself with a trap.", lane, context));
            }
            Action::Nothing => {}
            // The warp's own loop takes these.
            Action::Branch(_) | Action::BranchTable { .. } | Action::Exit | Action::Barrier(_) | Action::Collective(_) => {}
        }
        Ok(())
    }

    fn compute(&mut self, compute: Compute, into: Row, from: &[Row; 4], active: u32) {
        let operand = |i: usize| self.row(from[i]);
        let values = match compute {
            Compute::One(f) => map(active, operand(0), |lane, a| f(a[lane])),
            Compute::Two(f) => {
                let b = operand(1);
                map(active, operand(0), |lane, a| f(a[lane], b[lane]))
            }
            Compute::Three(f) => {
                let (b, c) = (operand(1), operand(2));
                map(active, operand(0), |lane, a| f(a[lane], b[lane], c[lane]))
            }
            Compute::Four(f) => {
                let (b, c, d) = (operand(1), operand(2), operand(3));
                map(active, operand(0), |lane, a| f(a[lane], b[lane], c[lane], d[lane]))
            }
            // The first operand becomes the upper half.
            Compute::Convert(conversion) if conversion.is_pair() => {
                let low = operand(1);
                map(active, operand(0), |lane, high| conversion.apply(high[lane]) << 16 | conversion.apply(low[lane]))
            }
            Compute::Convert(conversion) => map(active, operand(0), |lane, a| conversion.apply(a[lane])),
        };
        self.set(into, active, &values);
    }

    fn compare(&mut self, comparison: &Comparison, active: u32) {
        let [a, b] = comparison.from.map(|row| self.row(row));
        let compare = comparison.compare;
        let outcome = map(active, a, |lane, a| compare(a[lane], b[lane]));
        let combined = |outcome: Lanes| match comparison.combine {
            Some((combine, row, is_negated)) => {
                let third = self.row(row);
                map(active, &outcome, |lane, outcome| combine(outcome[lane], third[lane] & 1 ^ u64::from(is_negated)))
            }
            None => outcome,
        };
        let result = combined(outcome);
        if comparison.opposite_into != NONE {
            let opposite = combined(outcome.map(|bit| bit ^ 1));
            self.set(comparison.opposite_into, active, &opposite);
        }
        self.set(comparison.into, active, &result);
    }
}

/// Values of the active lanes; those of the others are of no interest.
#[inline]
fn map(active: u32, first: &Lanes, value: impl Fn(usize, &Lanes) -> u64) -> Lanes {
    let mut values = [0; LANES];
    if active == u32::MAX {
        (0..LANES).for_each(|lane| values[lane] = value(lane, first));
    } else {
        lanes(active).for_each(|lane| values[lane] = value(lane, first));
    }
    values
}

/// The lowest bits of a value.
fn low(value: u64, bits: u32) -> u64 {
    if bits >= 64 { value } else { value & ((1 << bits) - 1) }
}
