//! A block of threads: its warps, shared memory and barriers.

use super::launch::{Grid, Identity};
use super::memory::{Buffer, Memory, POISON, RED_ZONE};
use super::observer::{Moment, Observer};
use super::warp::{Split, Waits, Warp, lanes, lanes_where};
use super::{LOCAL_WINDOW, SHARED_WINDOW};
use crate::compute::LANES;
use crate::program::{Action, Barrier, BarrierKind, Kernel, NONE, Reduction, plain_name};
use crate::ptx::Space;
use crate::{Cause, Fault};

/// Number of barriers in a block.
const BARRIERS: usize = 16;

/// The state that a warp can access while it runs: the grid, and its block's shared memory and barriers.
pub(super) struct Context<'a, 'g> {
    pub(super) grid: &'a mut Grid<'g>,
    pub(super) identity: &'a Identity,
    pub(super) shared: &'a mut [u8],
    pub(super) barriers: &'a mut [Meeting; BARRIERS],
    /// Index of the current instruction, the lanes that are at it, and the lanes whose guard predicate is true.
    pub(super) at: u32,
    pub(super) lanes: u32,
    pub(super) active: u32,
}

impl Context<'_, '_> {
    /// Tells each observer about the current instruction of a warp.
    #[inline]
    pub(super) fn observe(
        &mut self,
        warp: &Warp,
        tell: impl Fn(&mut dyn Observer, &Moment) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let Grid { kernel, memory, names, observers, .. } = &mut *self.grid;
        if observers.is_empty() {
            return Ok(());
        }
        let Self { identity, at, lanes, active, ref shared, .. } = *self;
        let (warp, rows) = (warp.number, &warp.rows);
        let moment = Moment { kernel, identity, warp, at, lanes, active, rows, memory, shared, names };
        observers.iter_mut().try_for_each(|observer| tell(*observer, &moment))
    }

    /// Counts an instruction of a warp and its active lanes. Returns a fault if the budget of steps is used up.
    pub(super) fn count(&mut self, warp: u32) -> Result<(), Fault> {
        let active = self.active.count_ones();
        let Grid { kernel, steps, thread_steps, budget, thread_budget, .. } = &mut *self.grid;
        *steps += 1;
        *thread_steps += u64::from(active);
        if steps <= budget && thread_steps <= thread_budget {
            return Ok(());
        }
        let (most, of_what) = if steps > budget { (budget, "warps") } else { (thread_budget, "threads") };
        let message = format!("`{}` has not ended after {most} instructions of its {of_what}.", kernel.name);
        let running = if self.active == 0 { self.lanes } else { self.active };
        let thread = Some(self.identity.thread(warp, running.trailing_zeros() as usize));
        Err(Fault { thread, ..Fault::new(Cause::Endless, message) })
    }

    /// Describes the address of an invalid access of `bytes` bytes, relative to the nearest buffer or variable.
    pub(super) fn describe(&self, space: Space, address: u64, bytes: u64) -> String {
        // An index below zero has wrapped around to a large address.
        let offset = address.cast_signed();
        let position = |name: &str, length: u64, element: &str| {
            let distance = distance(offset, bytes, length);
            format!("at offset {offset} of {name}, which has {length} bytes{element}{distance}")
        };
        match space {
            Space::Shared => {
                let element = self.shared_element(offset, bytes);
                position("the block's shared memory", self.shared.len() as u64, &element)
            }
            Space::Generic if address & SHARED_WINDOW != 0 => {
                self.describe(Space::Shared, address ^ SHARED_WINDOW, bytes)
            }
            Space::Local => position("the thread's local memory", self.grid.kernel.frame_bytes, ""),
            Space::Generic if address & LOCAL_WINDOW != 0 => self.describe(Space::Local, address ^ LOCAL_WINDOW, bytes),
            Space::Param => position("the parameters", self.grid.parameters.len() as u64, ""),
            Space::Global | Space::Const | Space::Generic => self.describe_global(address, bytes),
        }
    }

    /// Names the element of the nearest shared variable or of dynamic shared memory. Returns an empty text if the block has no shared memory.
    fn shared_element(&self, offset: i64, bytes: u64) -> String {
        let kernel = self.grid.kernel;
        let dynamic = (kernel.shared_bytes, String::new());
        let has_dynamic = self.shared.len() as u64 > kernel.shared_bytes;
        let all: Vec<&(u64, String)> = kernel.shared.iter().chain(has_dynamic.then_some(&dynamic)).collect();
        let nearest = all.iter().rev().find(|(start, _)| start.cast_signed() <= offset).or(all.first());
        let Some((start, name)) = nearest else { return String::new() };
        let element = (offset - start.cast_signed()).div_euclid(bytes.max(1).cast_signed());
        match plain_name(name) {
            "" => format!(": element {element} of dynamic shared memory"),
            name => format!(": element {element} of `{name}`"),
        }
    }

    fn describe_global(&self, address: u64, bytes: u64) -> String {
        let is_near =
            |buffer: &&Buffer| buffer.start.saturating_sub(RED_ZONE) < address && address < buffer.end() + RED_ZONE;
        let near = self.grid.memory.nearest(address).filter(is_near);
        let Some(buffer) = near else { return format!("at {address:#x}, far from every buffer") };
        let length = buffer.bytes.len() as u64;
        let name = match self.grid.names.find(buffer.start) {
            Some(name) => format!("{name}, which has {length} bytes"),
            None => format!("a buffer of {length} bytes"),
        };
        let Some(offset) = address.checked_sub(buffer.start) else {
            let distance = buffer.start - address;
            return format!("{distance} bytes before {name}: element -{}", distance.div_ceil(bytes));
        };
        let distance = distance(offset.cast_signed(), bytes, length);
        format!("at offset {offset} of {name}: element {}{distance}", offset / bytes)
    }
}

/// Says in a message how many bytes an access reaches out of memory of `length` bytes. Returns an empty text if it is inside.
fn distance(offset: i64, bytes: u64, length: u64) -> String {
    let size = offset.unsigned_abs();
    let outside = if offset < 0 { size } else { (size + bytes).saturating_sub(length) };
    if outside > 0 { format!(", {outside} bytes outside") } else { String::new() }
}

/// The state of one barrier.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Meeting {
    arrived: u32,
    /// Number of threads that the barrier waits for; 0 for all threads of the block.
    expected: u32,
    /// Number of arrived threads whose predicate is true, for a barrier with a reduction.
    holds: u32,
}

#[derive(Debug)]
pub(super) struct Block {
    identity: Identity,
    warps: Vec<Warp>,
    shared: Vec<u8>,
    barriers: [Meeting; BARRIERS],
}

impl Block {
    pub(super) fn new(kernel: &Kernel, identity: Identity, memory: &mut Memory) -> Self {
        let warps = identity.threads_of_block().div_ceil(32);
        Self {
            warps: (0..warps)
                .map(|number| Warp::new(kernel, &identity, number, memory.spare_rows.pop().unwrap_or_default()))
                .collect(),
            shared: vec![POISON; usize::try_from(identity.shared_bytes).unwrap_or(0)],
            barriers: [Meeting::default(); BARRIERS],
            identity,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.warps.iter().all(|warp| warp.live == 0)
    }

    pub(super) fn give_back(self, memory: &mut Memory) {
        memory.spare_rows.extend(self.warps.into_iter().map(|warp| warp.rows));
    }

    /// Gives every warp a turn, in the order that `order` returns. Returns true if a warp has run.
    pub(super) fn turn(
        &mut self,
        grid: &mut Grid,
        mut order: impl FnMut(usize, usize) -> usize,
    ) -> Result<bool, Fault> {
        let mut has_run = false;
        let warps = self.warps.len();
        for turn in 0..warps {
            let mut context = Context {
                grid,
                identity: &self.identity,
                shared: &mut self.shared,
                barriers: &mut self.barriers,
                at: 0,
                lanes: 0,
                active: 0,
            };
            has_run |= self.warps[order(turn, warps)].turn(&mut context)?;
            has_run |= self.release_barriers(grid)?;
        }
        Ok(has_run)
    }

    /// Releases all complete barriers. Returns true if there was one.
    fn release_barriers(&mut self, grid: &mut Grid) -> Result<bool, Fault> {
        let mut is_one_released = false;
        for number in 0..BARRIERS {
            let meeting = self.barriers[number];
            if meeting.arrived == 0 {
                continue;
            }
            let all = || self.warps.iter().map(|warp| warp.live.count_ones()).sum();
            let expected: u32 = if meeting.expected == 0 { all() } else { meeting.expected };
            if meeting.arrived < expected {
                continue;
            }
            is_one_released = true;
            self.barriers[number] = Meeting::default();
            if !grid.observers.is_empty() {
                let waiting = self.warps.iter().map(|warp| (warp.number, warp.waiting_at(number)));
                let waiting: Vec<(u32, u32)> = waiting.collect();
                for observer in &mut grid.observers {
                    observer.barrier(&self.identity, number, &waiting)?;
                }
            }
            self.warps.iter_mut().for_each(|warp| warp.leave_barrier(number, meeting, expected, grid.kernel));
        }
        Ok(is_one_released)
    }

    /// Lets the lanes that wait at a reconvergence point continue without the missing lanes. Returns true if there were such lanes.
    pub(super) fn give_up_joins(&mut self) -> bool {
        self.warps.iter_mut().fold(false, |any, warp| warp.give_up_joins() | any)
    }

    /// Returns the fault of a block in which nothing can run. Its message says what the threads wait for.
    pub(super) fn waiting(&self, kernel: &Kernel) -> Fault {
        let fronts = self.warps.iter().filter_map(|warp| Some((warp, warp.splits.front()?)));
        let Some((warp, split)) = fronts.into_iter().find(|(_, split)| split.waits != Waits::No) else {
            return Fault::new(Cause::Barrier, "");
        };
        let mut message = match split.waits {
            Waits::No => String::new(),
            Waits::Barrier(number) => {
                let Meeting { arrived, expected, .. } = self.barriers[number];
                let awaited = match expected {
                    0 => format!("the block's {}", self.identity.threads_of_block()),
                    expected => expected.to_string(),
                };
                format!("{arrived} of {awaited} threads have arrived at barrier {number}; the others never do.")
            }
            Waits::Lanes(mask) => {
                let (lanes, missing) = (split.lanes, mask & warp.live & !split.lanes);
                format!(
                    "Lanes {lanes:08x} of a warp wait for the lanes {missing:08x} of the mask {mask:08x}, which never come."
                )
            }
        };
        // The missing threads may be waiting at another instruction.
        let mut others = self.warps.iter().flat_map(|warp| &warp.splits);
        let other = others.find(|other| other.waits != split.waits && other.waits != Waits::No);
        if let Some(position) = other.and_then(|other| kernel.steps[other.at as usize].position.as_ref()) {
            message += &format!(" Others wait in line {}.", position.line);
        }
        let thread = lanes(split.lanes).next().map(|lane| self.identity.thread(warp.number, lane));
        Fault { thread, ..Fault::new(Cause::Barrier, message) }.at(&kernel.steps[split.at as usize])
    }
}

impl Warp {
    /// Makes lanes arrive at a barrier, and wait there unless the instruction only arrives.
    pub(super) fn reach_barrier(
        &mut self,
        split: Split,
        barrier: &Barrier,
        context: &mut Context,
    ) -> Result<Option<Split>, Fault> {
        let lane = split.lanes.trailing_zeros() as usize;
        let number = usize::try_from(self.row(barrier.number)[lane]).unwrap_or(usize::MAX);
        let Some(meeting) = context.barriers.get_mut(number) else {
            let message = format!("There is no barrier {number}: a block has {BARRIERS}.");
            return Err(self.fault(Cause::Barrier, message, lane, context));
        };
        if barrier.count != NONE {
            meeting.expected = u32::try_from(self.row(barrier.count)[lane]).unwrap_or(u32::MAX);
        }
        meeting.arrived += split.lanes.count_ones();
        match barrier.kind {
            BarrierKind::Arrive => return Ok(Some(Split { at: split.at + 1, ..split })),
            BarrierKind::Reduce { from, is_negated, .. } => {
                let row = self.row(from);
                meeting.holds += lanes_where(split.lanes, |lane| row[lane] & 1 != u64::from(is_negated)).count_ones();
            }
            BarrierKind::Wait => {}
        }
        self.splits.push_back(Split { waits: Waits::Barrier(number), ..split });
        Ok(None)
    }

    /// Returns a mask of the lanes that wait at a barrier.
    fn waiting_at(&self, number: usize) -> u32 {
        let waits = Waits::Barrier(number);
        self.splits.iter().filter(|split| split.waits == waits).fold(0, |all, split| all | split.lanes)
    }

    /// Lets the lanes that wait at a barrier continue, and gives them the result of the barrier's reduction.
    fn leave_barrier(&mut self, number: usize, meeting: Meeting, expected: u32, kernel: &Kernel) {
        for index in 0..self.splits.len() {
            let split = self.splits[index];
            if split.waits != Waits::Barrier(number) {
                continue;
            }
            if let Action::Barrier(barrier) = &kernel.steps[split.at as usize].action
                && let BarrierKind::Reduce { reduction, into, .. } = barrier.kind
            {
                let value = match reduction {
                    Reduction::Count => meeting.holds.into(),
                    Reduction::All => u64::from(meeting.holds == expected),
                    Reduction::Any => u64::from(meeting.holds > 0),
                };
                self.set(into, split.lanes, &[value; LANES]);
            }
            self.splits[index] = Split { at: split.at + 1, waits: Waits::No, ..split };
        }
    }
}
