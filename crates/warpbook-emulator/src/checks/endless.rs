//! Finds endless loops, and says which line they are in and what they wait for.

use super::words::{element, line};
use crate::machine::{AccessKind, Moment, Request};
use crate::program::{Action, Kernel, Strength};
use crate::{Cause, Fault};

/// Message for an endless loop that contains no load.
const ONCE: &str = "Its condition cannot change: the compiler reads a variable that is neither `volatile` nor atomic \
                    once, before the loop.";

/// The latest instruction, and the latest load that may be waiting for another thread.
#[derive(Debug, Default)]
pub(super) struct EndlessCheck {
    at: u32,
    polled: Option<(u32, String)>,
    /// The instruction and the address of the access that `polled` describes.
    known: (u32, u64),
    /// True if [`EndlessCheck::step`] has already explained the loop.
    is_explained: bool,
}

impl EndlessCheck {
    /// Reports a branch that jumps to itself, because its condition can no longer change.
    ///
    /// # Errors
    /// If lanes take such a branch.
    pub(super) fn step(&mut self, moment: &Moment) -> Result<(), Fault> {
        self.at = moment.at;
        if moment.active == 0 || !matches!(moment.step().action, Action::Branch(target) if target == moment.at) {
            return Ok(());
        }
        self.is_explained = true;
        let message = format!("The loop in {} never ends. {ONCE}", line(moment.kernel, moment.at, moment.at));
        Err(moment.fault(Cause::Endless, moment.active.trailing_zeros() as usize, message))
    }

    pub(super) fn access(&mut self, request: &Request) {
        let Request { moment, access, kind, addresses, .. } = *request;
        let is_polling = access.strength != Strength::Weak && kind != AccessKind::Store;
        let address = addresses[moment.active.trailing_zeros() as usize % 32];
        if is_polling && self.known != (moment.at, address) {
            self.known = (moment.at, address);
            self.polled = Some((moment.at, element(address, access.bytes.into(), moment)));
        }
    }

    /// Adds an explanation to the fault of a launch that has used up its budget of steps.
    pub(super) fn explain(&self, fault: Fault, kernel: &Kernel) -> Fault {
        if fault.cause != Cause::Endless || self.is_explained {
            return fault;
        }
        let Some((first, last)) = innermost_loop(kernel, self.at) else { return fault };
        let body = &kernel.steps[first as usize..=last as usize];
        let changes = body.iter().any(|step| !matches!(step.action, Action::Branch(_) | Action::Nothing));
        let story = match &self.polled {
            _ if !changes => ONCE.to_owned(),
            Some((at, place)) if (first..=last).contains(at) => {
                format!("It waits for a change of {place}, which never comes.")
            }
            _ => "Its condition never becomes false.".to_owned(),
        };
        let message = format!("{} The loop in {} goes on. {story}", fault.message, line(kernel, last, last));
        Fault { message, ..fault }.at(&kernel.steps[last as usize])
    }
}

/// Returns the smallest loop that contains an instruction, as the indices of the loop's first instruction and of the branch back to it.
fn innermost_loop(kernel: &Kernel, at: u32) -> Option<(u32, u32)> {
    let branches = (0..).zip(&kernel.steps).filter_map(|(last, step)| match &step.action {
        Action::Branch(first) => Some((*first, last)),
        _ => None,
    });
    branches.filter(|(first, last)| *first <= at && at <= *last).min_by_key(|(first, last)| last - first)
}
