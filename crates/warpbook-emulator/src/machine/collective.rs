//! Collective operations of a warp: shuffles, votes, matches and reductions.

use super::block::Context;
use super::warp::{Split, Waits, Warp, lanes, lanes_where};
use crate::Fault;
use crate::compute::{LANES, Lanes};
use crate::program::{Action, Collective, CollectiveKind, NONE, Shuffle};

impl Warp {
    /// Makes lanes arrive at a collective operation. The operation runs once all lanes in its mask have arrived. Lanes with different masks form separate
    /// groups.
    pub(super) fn reach_collective(
        &mut self,
        split: Split,
        collective: &Collective,
        context: &mut Context,
    ) -> Result<Option<Split>, Fault> {
        let masks = self.row(collective.mask).map(|mask| u32::try_from(mask & 0xffff_ffff).unwrap_or(u32::MAX));
        let (mut left, mut ready) = (split.lanes, 0);
        while left != 0 {
            let mask = masks[left.trailing_zeros() as usize];
            let group = lanes_where(left, |lane| masks[lane] == mask);
            left &= !group;
            if mask & self.live & !group == 0 {
                self.perform(&[(group, collective)], context)?;
                ready |= group;
            } else {
                self.splits.push_back(Split { lanes: group, waits: Waits::Lanes(mask), ..split });
            }
        }
        if ready != split.lanes {
            self.complete_collectives(context)?;
        }
        Ok((ready != 0).then_some(Split { at: split.at + 1, lanes: ready, ..split }))
    }

    /// Performs every operation whose lanes have all arrived, even if they arrived in different groups.
    pub(super) fn complete_collectives(&mut self, context: &mut Context) -> Result<(), Fault> {
        let kernel = context.grid.kernel;
        for index in 0..self.splits.len() {
            let Waits::Lanes(mask) = self.splits[index].waits else { continue };
            let is_there = |split: &&Split| split.waits == Waits::Lanes(mask);
            let there = self.splits.iter().filter(is_there).fold(0, |all, split| all | split.lanes);
            if mask & self.live & !there != 0 {
                continue;
            }
            let collective_of = |split: &Split| match &kernel.steps[split.at as usize].action {
                Action::Collective(collective) => Some((split.lanes, collective)),
                _ => None,
            };
            let all: Vec<(u32, &Collective)> = self.splits.iter().filter(is_there).filter_map(collective_of).collect();
            self.perform(&all, context)?;
            for split in self.splits.iter_mut().filter(|split| split.waits == Waits::Lanes(mask)) {
                split.at += 1;
                split.waits = Waits::No;
            }
        }
        Ok(())
    }

    /// Performs an operation for all its lanes, which may have reached it at different instructions.
    fn perform(&mut self, parties: &[(u32, &Collective)], context: &mut Context) -> Result<(), Fault> {
        context.observe(self, |observer, moment| observer.collective(moment, parties))?;
        let all = parties.iter().fold(0, |all, (lanes, _)| all | lanes);
        let mut operands = [[0; LANES]; 3];
        for (mask, collective) in parties {
            for (operand, row) in operands.iter_mut().zip(collective.from).filter(|(_, row)| *row != NONE) {
                let from = self.row(row);
                let negated = u64::from(collective.is_negated);
                lanes(*mask).for_each(|lane| operand[lane] = from[lane] ^ negated);
            }
        }
        for (mask, collective) in parties {
            let (values, holds) = outcome(collective.kind, &operands, all);
            self.set(collective.into, *mask, &values);
            self.set(collective.predicate_into, *mask, &holds);
        }
        Ok(())
    }
}

/// Returns the results of an operation on the lanes in `mask`: the values, and the second predicates.
fn outcome(kind: CollectiveKind, operands: &[Lanes; 3], mask: u32) -> (Lanes, Lanes) {
    let same = |value: u64| ([value; LANES], [value; LANES]);
    let value = &operands[0];
    let ballot = lanes_where(mask, |lane| value[lane] & 1 == 1);
    let equal = |to: u64| lanes_where(mask, |lane| value[lane] == to);
    match kind {
        CollectiveKind::Wait => same(0),
        CollectiveKind::Shuffle(mode) => shuffle(mode, operands),
        CollectiveKind::VoteAll => same(u64::from(ballot == mask)),
        CollectiveKind::VoteAny => same(u64::from(ballot != 0)),
        CollectiveKind::VoteUniform => same(u64::from(ballot == mask || ballot == 0)),
        CollectiveKind::Ballot => same(ballot.into()),
        CollectiveKind::MatchAny => (value.map(|v| equal(v).into()), [0; LANES]),
        CollectiveKind::MatchAll => {
            let is_same = lanes(mask).next().is_some_and(|first| equal(value[first]) == mask);
            ([if is_same { mask.into() } else { 0 }; LANES], [is_same.into(); LANES])
        }
        CollectiveKind::Reduce(function) => {
            let total = lanes(mask).map(|lane| value[lane]).reduce(|a, b| function(a, b, 0));
            same(total.unwrap_or(0))
        }
    }
}

/// Returns the source lane for each lane's value, and whether the source is in range, as the PTX ISA defines them.
pub(crate) fn sources(mode: Shuffle, by: &Lanes, clamp: &Lanes) -> [(usize, bool); LANES] {
    std::array::from_fn(|lane| {
        let (by, clamp, segment) = (by[lane] & 31, clamp[lane] & 31, clamp[lane] >> 8 & 31);
        let lane = lane as u64;
        let last = (lane & segment) | (clamp & !segment);
        let first = lane & segment;
        let (from, is_in_range) = match mode {
            Shuffle::Up => (lane.wrapping_sub(by), lane.checked_sub(by).is_some_and(|from| from >= last)),
            Shuffle::Down => (lane + by, lane + by <= last),
            Shuffle::Butterfly => (lane ^ by, lane ^ by <= last),
            Shuffle::Index => (first | (by & !segment), first | (by & !segment) <= last),
        };
        (usize::try_from(if is_in_range { from } else { lane }).unwrap_or(0), is_in_range)
    })
}

fn shuffle(mode: Shuffle, [value, by, clamp]: &[Lanes; 3]) -> (Lanes, Lanes) {
    let sources = sources(mode, by, clamp);
    (sources.map(|(from, _)| value[from]), sources.map(|(_, is_in_range)| is_in_range.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffles_stay_in_their_segments() {
        let value: Lanes = std::array::from_fn(|lane| lane as u64);
        let by = |by: u64, clamp: u64, mode| shuffle(mode, &[value, [by; LANES], [clamp; LANES]]);
        assert_eq!(by(16, 0x1f, Shuffle::Butterfly).0[3], 19);
        let (down, holds) = by(4, 0x1f, Shuffle::Down);
        assert_eq!((down[27], down[28], holds[28]), (31, 28, 0));
        let (up, holds) = by(1, 0, Shuffle::Up);
        assert_eq!((up[0], up[5], holds[0]), (0, 4, 0));
        // The upper bits of the clamp divide the warp into segments of eight lanes.
        assert_eq!(by(2, 0x181f, Shuffle::Index).0[13], 10);
    }
}
