//! A warp: 32 lanes, in splits that part at branches and meet again.
//!
//! A split is a group of lanes at the same instruction. Where a branch sends its lanes different ways, a join is made at the branch's immediate post-dominator:
//! splits that get there wait until all lanes have arrived or exited, and continue as one. Every split of a warp runs in turn, so that lanes may wait for
//! others of their own warp. Lanes that have waited at a join for too long go on without the others.

use super::block::Context;
use super::launch::Identity;
use super::memory::POISON;
use crate::compute::{LANES, Lanes, Word};
use crate::program::{Action, Kernel, Lane, NONE, Row, RowKind, SPECIALS, Step};
use crate::{Cause, Fault};
use std::collections::VecDeque;

/// Instructions in a split's turn.
const QUANTUM: u32 = 2000;
/// Turns after which lanes that wait at a join go on without the others.
const PATIENCE: u32 = 50;

/// Lanes at the same instruction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Split {
    pub(super) at: u32,
    pub(super) lanes: u32,
    /// The innermost join that expects it, or [`NONE`].
    pub(super) join: u32,
    pub(super) waits: Waits,
}

/// The reason for which a split waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    No,
    /// A barrier of the block.
    Barrier(usize),
    /// Other lanes of the warp, by the mask that the instruction names.
    Lanes(u32),
}

/// Where splits reconverge.
#[derive(Debug, Clone, Copy)]
struct Join {
    at: u32,
    parent: u32,
    expected: u32,
    arrived: u32,
    /// Turns in which lanes were waiting here.
    turns: u32,
}

#[derive(Debug)]
pub(super) struct Warp {
    pub(super) rows: Vec<Lanes>,
    /// Local memory: a frame for each lane, one after another.
    pub(super) frames: Vec<u8>,
    /// Lanes that have not exited.
    pub(super) live: u32,
    pub(super) splits: VecDeque<Split>,
    joins: Vec<Join>,
    free_joins: Vec<u32>,
    /// The warp's number in its block.
    pub(super) number: u32,
}

/// Returns the lanes of a mask.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        (left != 0).then(|| {
            let lane = left.trailing_zeros();
            left &= left - 1;
            lane as usize
        })
    })
}

/// Returns the lanes of a mask for which a condition holds.
pub(crate) fn lanes_where(mask: u32, holds: impl Fn(usize) -> bool) -> u32 {
    lanes(mask).filter(|lane| holds(*lane)).fold(0, |all, lane| all | 1 << lane)
}

impl Warp {
    /// Makes a warp of a block at its first instruction.
    pub(super) fn new(kernel: &Kernel, identity: &Identity, number: u32, mut rows: Vec<Lanes>) -> Self {
        let live = identity.lanes(number);
        rows.clear();
        rows.extend(kernel.rows.iter().map(|kind| first_row(*kind, kernel, identity, number)));
        Self {
            rows,
            frames: vec![POISON; LANES * usize::try_from(kernel.frame_bytes).unwrap_or(0)],
            live,
            splits: [Split { at: 0, lanes: live, join: NONE, waits: Waits::No }].into(),
            joins: Vec::new(),
            free_joins: Vec::new(),
            number,
        }
    }

    /// Gives every split that can run a turn; returns true if one has run.
    pub(super) fn turn(&mut self, context: &mut Context) -> Result<bool, Fault> {
        let mut has_run = false;
        for _ in 0..self.splits.len() {
            let Some(split) = self.splits.pop_front() else { break };
            if split.waits == Waits::No {
                has_run = true;
                self.run(split, context)?;
            } else {
                self.splits.push_back(split);
            }
        }
        Ok(has_run)
    }

    /// Runs a split until it ends, waits, or has had its turn.
    fn run(&mut self, mut split: Split, context: &mut Context) -> Result<(), Fault> {
        for _ in 0..QUANTUM {
            while split.join != NONE && self.joins[split.join as usize].at == split.at {
                match self.arrive(split) {
                    Some(met) => split = met,
                    None => return Ok(()),
                }
            }
            let kernel = context.grid.kernel;
            let step = &kernel.steps[split.at as usize];
            (context.at, context.lanes, context.active) = (split.at, split.lanes, self.active(step, split.lanes));
            match self.advance(split, step, context) {
                Ok(Some(next)) => split = next,
                Ok(None) => return Ok(()),
                Err(fault) => return Err(fault.at(step)),
            }
        }
        self.lose_patience(&split);
        self.splits.push_back(split);
        Ok(())
    }

    /// Returns the lanes for which an instruction's guard holds.
    fn active(&self, step: &Step, mask: u32) -> u32 {
        let Some((guard, is_negated)) = step.guard else { return mask };
        let row = self.row(guard);
        let holds = (0..LANES).fold(0, |all, lane| all | (u32::take(row[lane]) & 1) << lane);
        mask & if is_negated { !holds } else { holds }
    }

    /// Runs one instruction; returns what goes on at once.
    fn advance(&mut self, mut split: Split, step: &Step, context: &mut Context) -> Result<Option<Split>, Fault> {
        context.count()?;
        context.observe(self, |observer, moment| observer.step(moment))?;
        let (active, next) = (context.active, split.at + 1);
        match &step.action {
            Action::Branch(target) => {
                let ways = [(active, *target), (split.lanes & !active, next)];
                return Ok(Some(self.part(split, step.meet, &ways)));
            }
            Action::BranchTable(index, targets) => {
                let row = self.rows[*index as usize];
                let mut ways = vec![(split.lanes & !active, next)];
                for lane in lanes(active) {
                    let Some(target) = usize::try_from(row[lane]).ok().and_then(|index| targets.get(index)) else {
                        return Err(self.fault(Cause::Unsupported, "A jump goes outside its table.", lane, context));
                    };
                    match ways.iter_mut().find(|(_, to)| to == target) {
                        Some((lanes, _)) => *lanes |= 1 << lane,
                        None => ways.push((1 << lane, *target)),
                    }
                }
                return Ok(Some(self.part(split, step.meet, &ways)));
            }
            Action::Exit => {
                split.lanes &= !active;
                self.exit(active, split.join, context)?;
                if split.lanes == 0 {
                    return Ok(None);
                }
            }
            Action::Barrier(barrier) if active != 0 => {
                let split = self.only(split, active);
                return self.reach_barrier(split, barrier, context);
            }
            Action::Collective(collective) if active != 0 => {
                let split = self.only(split, active);
                return self.reach_collective(split, collective, context);
            }
            Action::Pause => {
                self.splits.push_back(Split { at: next, ..split });
                return Ok(None);
            }
            action if active != 0 => self.execute(action, context)?,
            _ => {}
        }
        split.at = next;
        Ok(Some(split))
    }

    /// Returns the split with its active lanes only; the others go on by themselves.
    fn only(&mut self, split: Split, active: u32) -> Split {
        let others = split.lanes & !active;
        if others != 0 {
            self.splits.push_back(Split { at: split.at + 1, lanes: others, ..split });
        }
        Split { lanes: active, ..split }
    }

    /// Sends lanes different ways; returns the one that goes on at once.
    fn part(&mut self, split: Split, meet: u32, ways: &[(u32, u32)]) -> Split {
        let mut taken = ways.iter().filter(|(lanes, _)| *lanes != 0);
        let Some(&(first_lanes, first_target)) = taken.next() else { return split };
        let mut join = split.join;
        // An existing join at the same place, such as one of a loop's earlier rounds, is used again.
        let is_there = join != NONE && self.joins[join as usize].at == meet;
        if first_lanes != split.lanes && meet != NONE && !is_there {
            let new = Join { at: meet, parent: join, expected: split.lanes, arrived: 0, turns: 0 };
            join = self.add_join(new);
        }
        for &(lanes, target) in taken {
            self.splits.push_back(Split { at: target, lanes, join, waits: Waits::No });
        }
        Split { at: first_target, lanes: first_lanes, join, waits: Waits::No }
    }

    fn add_join(&mut self, join: Join) -> u32 {
        if let Some(free) = self.free_joins.pop() {
            self.joins[free as usize] = join;
            return free;
        }
        self.joins.push(join);
        u32::try_from(self.joins.len() - 1).unwrap_or(NONE)
    }

    /// Lets a split arrive at its join; returns the joined split if all lanes have arrived.
    fn arrive(&mut self, split: Split) -> Option<Split> {
        self.joins[split.join as usize].arrived |= split.lanes;
        self.release(split.join)
    }

    /// Ends a join if all that are expected have arrived.
    fn release(&mut self, join: u32) -> Option<Split> {
        let Join { at, parent, expected, arrived, .. } = self.joins[join as usize];
        if arrived != expected {
            return None;
        }
        self.free_joins.push(join);
        // A free join has no instruction, so that no split arrives there.
        self.joins[join as usize].at = NONE;
        (arrived != 0).then_some(Split { at, lanes: arrived, join: parent, waits: Waits::No })
    }

    /// Ends lanes, for which joins and collective operations no longer wait.
    fn exit(&mut self, gone: u32, mut join: u32, context: &mut Context) -> Result<(), Fault> {
        self.live &= !gone;
        while join != NONE {
            let at = join as usize;
            let parent = self.joins[at].parent;
            self.joins[at].expected &= !gone;
            if let Some(met) = self.release(join) {
                self.splits.push_back(met);
            }
            join = parent;
        }
        self.complete_collectives(context)
    }

    /// Lets lanes go on that have waited too long for a split.
    fn lose_patience(&mut self, split: &Split) {
        let mut join = split.join;
        while join != NONE {
            let waiting = &mut self.joins[join as usize];
            waiting.turns += u32::from(waiting.arrived != 0);
            if waiting.turns > PATIENCE {
                self.go_on(join);
            }
            join = self.joins[join as usize].parent;
        }
    }

    /// Lets lanes at joins go on when the missing lanes wait for them elsewhere; returns true if there are such lanes.
    pub(super) fn give_up_joins(&mut self) -> bool {
        let waiting = (0..).zip(&self.joins).filter(|(_, join)| join.at != NONE && join.arrived != 0);
        let waiting: Vec<u32> = waiting.map(|(join, _)| join).collect();
        waiting.iter().for_each(|join| self.go_on(*join));
        !waiting.is_empty()
    }

    /// Lets the lanes that have arrived at a join go on without the others.
    fn go_on(&mut self, join: u32) {
        let waiting = &mut self.joins[join as usize];
        let met = Split { at: waiting.at, lanes: waiting.arrived, join: waiting.parent, waits: Waits::No };
        waiting.expected &= !waiting.arrived;
        waiting.arrived = 0;
        waiting.turns = 0;
        self.splits.push_back(met);
    }

    /// Makes a fault of one lane.
    pub(super) fn fault(&self, cause: Cause, message: impl Into<String>, lane: usize, context: &Context) -> Fault {
        Fault { thread: Some(context.identity.thread(self.number, lane)), ..Fault::new(cause, message) }
    }

    pub(super) fn row(&self, row: Row) -> &Lanes {
        &self.rows[row as usize]
    }

    /// Sets the active lanes of a row; does nothing for [`NONE`].
    pub(super) fn set(&mut self, row: Row, active: u32, values: &Lanes) {
        if row == NONE {
            return;
        }
        let into = &mut self.rows[row as usize];
        if active == u32::MAX {
            *into = *values;
        } else {
            lanes(active).for_each(|lane| into[lane] = values[lane]);
        }
    }
}

/// Returns the initial contents of a row.
fn first_row(kind: RowKind, kernel: &Kernel, identity: &Identity, warp: u32) -> Lanes {
    match kind {
        RowKind::Register(_) => [kind.register_mask(); LANES],
        RowKind::Constant(value) => [value; LANES],
        RowKind::DynamicShared(offset) => [kernel.shared_bytes.wrapping_add_signed(offset); LANES],
        RowKind::Special(special) => std::array::from_fn(|lane| {
            let (_, value) = SPECIALS[special];
            value(&Lane { identity, warp, number: u32::take(lane as u64) })
        }),
    }
}
