//! A warp: 32 lanes in groups (splits) that diverge at branches and reconverge later.
//!
//! A split is a group of lanes at the same instruction. If lanes diverge at a branch, a join is created at the branch's immediate post-dominator. Splits that
//! reach it wait until all its lanes have arrived or exited, and then continue as one split. The splits of a warp take turns, so that lanes may wait for other
//! lanes of their warp. Lanes that have waited at a join for too long continue without the others.

use super::block::Context;
use super::launch::Identity;
use super::memory::POISON;
use crate::compute::{LANES, Lanes, Word};
use crate::program::{Action, Kernel, Lane, NONE, RowIndex, RowKind, SPECIALS, Step};
use crate::{Cause, Fault};
use std::collections::VecDeque;

/// Number of instructions in one turn of a split.
const QUANTUM: u32 = 2000;
/// Number of turns after which lanes that wait at a join continue without the missing lanes.
const PATIENCE: u32 = 50;

/// A group of lanes that are at the same instruction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Split {
    pub(super) at: u32,
    pub(super) lanes: u32,
    /// The innermost join at which this split has to arrive; [`NONE`] if there is none.
    pub(super) join: u32,
    pub(super) waits: Waits,
}

/// The event that a split waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    No,
    /// The split waits at a barrier of the block, which has this number.
    Barrier(usize),
    /// The split waits for other lanes of the warp. The mask is an operand of the instruction.
    Lanes(u32),
}

/// A point at which diverged lanes reconverge.
#[derive(Debug, Clone, Copy)]
struct Join {
    at: u32,
    parent: u32,
    expected: u32,
    arrived: u32,
    /// Number of turns during which lanes have waited at this join.
    turns: u32,
}

#[derive(Debug)]
pub(super) struct Warp {
    pub(super) rows: Vec<Lanes>,
    /// Local memory: the frames of all lanes, one after another.
    pub(super) frames: Vec<u8>,
    /// Mask of the lanes that have not exited.
    pub(super) live: u32,
    pub(super) splits: VecDeque<Split>,
    joins: Vec<Join>,
    free_joins: Vec<u32>,
    /// Number of the warp in its block.
    pub(super) number: u32,
}

/// Returns the indices of the lanes in a mask, in ascending order.
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

/// Returns a mask of those lanes in `mask` for which a condition is true.
pub(crate) fn lanes_where(mask: u32, holds: impl Fn(usize) -> bool) -> u32 {
    lanes(mask).filter(|lane| holds(*lane)).fold(0, |all, lane| all | 1 << lane)
}

impl Warp {
    /// Creates a warp of a block, with all its lanes at the first instruction.
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

    /// Gives a turn to every split that can run. Returns true if a split has run.
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

    /// Runs a split until it ends, has to wait, or has used up its turn.
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

    /// Returns a mask of those lanes in `mask` for which an instruction's guard predicate is true.
    fn active(&self, step: &Step, mask: u32) -> u32 {
        let Some((guard, is_negated)) = step.guard else { return mask };
        let row = self.row(guard);
        let holds = (0..LANES).fold(0, |all, lane| all | (u32::take(row[lane]) & 1) << lane);
        mask & if is_negated { !holds } else { holds }
    }

    /// Runs one instruction. Returns the split that continues; `None` if the split has ended or waits.
    fn advance(&mut self, mut split: Split, step: &Step, context: &mut Context) -> Result<Option<Split>, Fault> {
        context.count(self.number)?;
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

    /// Returns the split with only its active lanes. The other lanes become a split that skips the instruction.
    fn only(&mut self, split: Split, active: u32) -> Split {
        let others = split.lanes & !active;
        if others != 0 {
            self.splits.push_back(Split { at: split.at + 1, lanes: others, ..split });
        }
        Split { lanes: active, ..split }
    }

    /// Divides a split whose lanes jump to different targets. Returns the part that runs next; the others wait for their turns.
    fn part(&mut self, split: Split, meet: u32, ways: &[(u32, u32)]) -> Split {
        let mut taken = ways.iter().filter(|(lanes, _)| *lanes != 0);
        let Some(&(first_lanes, first_target)) = taken.next() else { return split };
        let mut join = split.join;
        // Reuses a join at the same instruction, which an earlier iteration of a loop may have created.
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

    /// Makes a split arrive at its join. Returns the reconverged split if all expected lanes have arrived.
    fn arrive(&mut self, split: Split) -> Option<Split> {
        self.joins[split.join as usize].arrived |= split.lanes;
        self.release(split.join)
    }

    /// Removes a join if all expected lanes have arrived.
    fn release(&mut self, join: u32) -> Option<Split> {
        let Join { at, parent, expected, arrived, .. } = self.joins[join as usize];
        if arrived != expected {
            return None;
        }
        self.free_joins.push(join);
        // Clears the instruction of the unused join, so that no split arrives at it.
        self.joins[join as usize].at = NONE;
        (arrived != 0).then_some(Split { at, lanes: arrived, join: parent, waits: Waits::No })
    }

    /// Makes lanes exit. Joins and collective operations no longer wait for them.
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

    /// Lets lanes continue that have waited too long for this split.
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

    /// Lets lanes that wait at joins continue, because the missing lanes wait elsewhere. Returns true if there were such lanes.
    pub(super) fn give_up_joins(&mut self) -> bool {
        let waiting = (0..).zip(&self.joins).filter(|(_, join)| join.at != NONE && join.arrived != 0);
        let waiting: Vec<u32> = waiting.map(|(join, _)| join).collect();
        waiting.iter().for_each(|join| self.go_on(*join));
        !waiting.is_empty()
    }

    /// Lets the lanes that have arrived at a join continue without the missing lanes.
    fn go_on(&mut self, join: u32) {
        let waiting = &mut self.joins[join as usize];
        let met = Split { at: waiting.at, lanes: waiting.arrived, join: waiting.parent, waits: Waits::No };
        waiting.expected &= !waiting.arrived;
        waiting.arrived = 0;
        waiting.turns = 0;
        self.splits.push_back(met);
    }

    /// Creates a fault that one lane causes.
    pub(super) fn fault(&self, cause: Cause, message: impl Into<String>, lane: usize, context: &Context) -> Fault {
        Fault { thread: Some(context.identity.thread(self.number, lane)), ..Fault::new(cause, message) }
    }

    pub(super) fn row(&self, row: RowIndex) -> &Lanes {
        &self.rows[row as usize]
    }

    /// Stores the values of the active lanes in a register row. Does nothing if the row is [`NONE`].
    pub(super) fn set(&mut self, row: RowIndex, active: u32, values: &Lanes) {
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

/// Returns the initial values of a register row.
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
