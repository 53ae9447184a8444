//! Barriers that some threads never reach or reach elsewhere, and masks that differ from the lanes that arrive.

use super::words::line;
use crate::compute::Lanes;
use crate::machine::{Identity, Moment, lanes};
use crate::program::{Action, Collective, CollectiveKind, Kernel, NONE, Row};
use crate::{Cause, Fault, Thread};

/// Lanes of a warp at an instruction.
#[derive(Debug, Clone, Copy)]
struct Party {
    at: u32,
    warp: u32,
    lanes: u32,
}

#[derive(Debug, Default)]
struct Block {
    identity: Option<Identity>,
    /// Threads at barriers of the whole block, by the barrier's number.
    arrivals: Vec<(usize, Party)>,
    /// Threads that have exited.
    exited: Vec<Party>,
}

/// The check of one launch.
#[derive(Debug, Default)]
pub(super) struct BarrierCheck {
    blocks: Vec<Block>,
}

impl BarrierCheck {
    pub(super) fn block_starts(&mut self, resident: usize, identity: &Identity) {
        if self.blocks.len() <= resident {
            self.blocks.resize_with(resident + 1, Block::default);
        }
        self.blocks[resident] = Block { identity: Some(identity.clone()), ..Block::default() };
    }

    pub(super) fn step(&mut self, moment: &Moment) {
        let Moment { resident, warp, active, at, .. } = *moment;
        let party = Party { at, warp, lanes: active };
        match &moment.step().action {
            Action::Exit if active != 0 => self.blocks[resident].exited.push(party),
            Action::Barrier(barrier) if active != 0 && barrier.count == NONE => {
                let number = moment.rows[barrier.number as usize][active.trailing_zeros() as usize];
                self.blocks[resident].arrivals.push((usize::try_from(number).unwrap_or(0), party));
            }
            _ => {}
        }
    }

    pub(super) fn barrier(&mut self, kernel: &Kernel, resident: usize, number: usize) -> Result<(), Fault> {
        let block = &mut self.blocks[resident];
        let here: Vec<Party> = block.arrivals.extract_if(.., |(at, _)| *at == number).map(|(_, party)| party).collect();
        let (Some(first), Some(identity)) = (here.first(), &block.identity) else { return Ok(()) };
        let fault = |party: &Party, what: String| {
            let fault = Fault { thread: Some(party.thread(identity)), ..Fault::new(Cause::Barrier, what) };
            Err(fault.at(&kernel.steps[first.at as usize]))
        };
        if let Some(other) = here.iter().find(|party| party.at != first.at) {
            let (own_line, other_line) = (line(kernel, first.at, first.at), line(kernel, other.at, first.at));
            return fault(
                other,
                format!(
                    "Some threads of the block wait at the barrier in {own_line}, others at the one in {other_line}."
                ),
            );
        }
        let arrived: u32 = here.iter().map(|party| party.lanes.count_ones()).sum();
        if let Some(gone) = block.exited.first().filter(|_| arrived < identity.threads_of_block()) {
            let message = format!(
                "{arrived} of the block's {} threads wait at a barrier that the others never reach: these have ended in {}, as after a `return`.",
                identity.threads_of_block(),
                line(kernel, gone.at, first.at)
            );
            return fault(gone, message);
        }
        Ok(())
    }

    /// Checks the masks of a collective operation.
    pub(super) fn collective(
        &self,
        (resident, warp): (usize, u32),
        parties: &[(u32, &Collective)],
        rows: &[Lanes],
    ) -> Result<(), Fault> {
        let fault = |lanes: u32, what: String| {
            let thread = self.blocks[resident].identity.as_ref().map(|i| Party { at: 0, warp, lanes }.thread(i));
            Err(Fault { thread, ..Fault::new(Cause::Barrier, what) })
        };
        for (mask, collective) in parties {
            let named = |lane: usize| rows[collective.mask as usize][lane] & 0xffff_ffff;
            if let Some(lane) = lanes(*mask).find(|lane| named(*lane) >> lane & 1 == 0) {
                let message = format!("Lane {lane} is not in the mask {:08x} that it names.", named(lane));
                return fault(1 << lane, message);
            }
        }
        if let [(_, first), rest @ ..] = parties
            && let Some((other, _)) = rest.iter().find(|(_, collective)| !is_alike(collective.kind, first.kind))
        {
            return fault(*other, "Lanes wait for each other in different operations of the warp.".into());
        }
        Ok(())
    }
}

impl Party {
    fn thread(&self, identity: &Identity) -> Thread {
        let number: Row = self.warp * 32 + self.lanes.trailing_zeros();
        Thread { block: identity.block, thread: identity.thread(number) }
    }
}

fn is_alike(a: CollectiveKind, b: CollectiveKind) -> bool {
    match (a, b) {
        (CollectiveKind::Shuffle(a), CollectiveKind::Shuffle(b)) => a == b,
        _ => std::mem::discriminant(&a) == std::mem::discriminant(&b),
    }
}
