//! Finds barriers that some threads never reach, threads that wait at different barriers, and masks that do not match the lanes that arrive.

use super::words::line;
use crate::machine::{Identity, Moment, lanes, start};
use crate::program::{Action, Collective, CollectiveKind, Kernel, NONE};
use crate::{Cause, Fault};

/// The lanes of a warp that are at the same instruction.
#[derive(Debug, Clone, Copy)]
struct Party {
    at: u32,
    warp: u32,
    lanes: u32,
}

#[derive(Debug, Default)]
struct BlockArrivals {
    /// Threads that have arrived at a barrier of the whole block, with the number of the barrier.
    arrivals: Vec<(usize, Party)>,
    /// Threads that have exited.
    exited: Vec<Party>,
}

/// The barrier check of one launch.
#[derive(Debug, Default)]
pub(super) struct BarrierCheck {
    blocks: Vec<BlockArrivals>,
}

impl BarrierCheck {
    pub(super) fn block_starts(&mut self, identity: &Identity) {
        start(&mut self.blocks, identity, BlockArrivals::default());
    }

    pub(super) fn step(&mut self, moment: &Moment) {
        let Moment { warp, active, at, .. } = *moment;
        let block = &mut self.blocks[moment.identity.resident];
        let party = Party { at, warp, lanes: active };
        match &moment.step().action {
            Action::Exit if active != 0 => block.exited.push(party),
            Action::Barrier(barrier) if active != 0 && barrier.count == NONE => {
                let number = moment.rows[barrier.number as usize][active.trailing_zeros() as usize];
                block.arrivals.push((usize::try_from(number).unwrap_or(0), party));
            }
            _ => {}
        }
    }

    pub(super) fn barrier(&mut self, kernel: &Kernel, identity: &Identity, number: usize) -> Result<(), Fault> {
        let block = &mut self.blocks[identity.resident];
        let here: Vec<Party> = block.arrivals.extract_if(.., |(at, _)| *at == number).map(|(_, party)| party).collect();
        let Some(first) = here.first() else { return Ok(()) };
        let fault = |party: &Party, what: String| {
            let thread = Some(identity.thread(party.warp, party.lanes.trailing_zeros() as usize));
            Err(Fault { thread, ..Fault::new(Cause::Barrier, what) }.at(&kernel.steps[first.at as usize]))
        };
        let line = |party: &Party| line(kernel, party.at, first.at);
        if let Some(other) = here.iter().find(|party| party.at != first.at) {
            let (own, others) = (line(first), line(other));
            return fault(
                other,
                format!("Some threads of the block wait at the barrier in {own}, others at the one in {others}."),
            );
        }
        let arrived: u32 = here.iter().map(|party| party.lanes.count_ones()).sum();
        let (threads, gone) = (identity.threads_of_block(), block.exited.first());
        if let Some(gone) = gone.filter(|_| arrived < threads) {
            let place = line(gone);
            let message = format!(
                "{arrived} of the block's {threads} threads wait at a barrier, but the others never reach it: they ended at {place}, for example with a `return`."
            );
            return fault(gone, message);
        }
        Ok(())
    }
}

/// Checks that each lane of a collective operation is in its own mask, and that all lanes of the mask arrive.
pub(super) fn check_masks(moment: &Moment, parties: &[(u32, &Collective)]) -> Result<(), Fault> {
    for (mask, collective) in parties {
        let named = |lane: usize| moment.rows[collective.mask as usize][lane] & 0xffff_ffff;
        if let Some(lane) = lanes(*mask).find(|lane| named(*lane) >> lane & 1 == 0) {
            let message = format!("Lane {lane} is not in the mask {:08x} that it names.", named(lane));
            return Err(moment.fault(Cause::Barrier, lane, message));
        }
    }
    if let [(_, first), rest @ ..] = parties
        && let Some((other, _)) = rest.iter().find(|(_, collective)| !is_alike(collective.kind, first.kind))
    {
        let message = "Lanes of the warp wait for each other in different operations: all lanes in the mask must execute the same one.";
        return Err(moment.fault(Cause::Barrier, other.trailing_zeros() as usize, message));
    }
    Ok(())
}

fn is_alike(a: CollectiveKind, b: CollectiveKind) -> bool {
    match (a, b) {
        (CollectiveKind::Shuffle(a), CollectiveKind::Shuffle(b)) => a == b,
        _ => std::mem::discriminant(&a) == std::mem::discriminant(&b),
    }
}
