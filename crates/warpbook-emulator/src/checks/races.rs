//! Finds data races: two threads access the same byte, one of them writes it, and nothing orders the two accesses.
//!
//! Each word of memory keeps its latest unordered accesses, as in FastTrack (Flanagan and Freund, 2009): two groups of writers and two groups of readers. A
//! group consists of lanes of one warp or of warps of one block. Further groups are forgotten: a race may be missed, but a reported race is always real.

use super::clocks::Clock;
use super::order::Synchronisation;
use super::words::{element, line};
use crate::machine::{AccessKind, Identity, LOCAL_WINDOW, Memory, Moment, Request, SHARED_WINDOW, lanes, start};
use crate::program::{Action, BarrierKind, Collective, CollectiveKind, RowIndex, Strength};
use crate::ptx::Space;
use crate::{Cause, Fault, Thread};
use std::collections::BTreeMap;

/// Number of words whose cells are allocated together.
const PAGE: usize = 256;

/// A group of threads that accessed a word.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    block: u32,
    /// Time of the group's first access; 0 if the entry is unused.
    time: u32,
    /// The lanes of one warp, or the warps of one block if `is_of_warps` is set.
    mask: u32,
    at: u32,
    warp: u8,
    is_of_warps: bool,
    is_strong: bool,
    /// True if the access is strong only for threads of its own block.
    is_for_block: bool,
    /// True for a compare-and-swap. It does not race with plain reads, because it fails if such a read returned a stale value.
    is_swap: bool,
    is_read: bool,
}

/// The latest accesses to one word or to one byte.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    writes: [Group; 2],
    reads: [Group; 2],
}

/// The cells of one buffer, or of one block's shared memory.
#[derive(Debug)]
struct Zone {
    start: u64,
    /// Base-2 logarithm of the bytes in a cell: 2 for words of 4 bytes, and 0 for single bytes once an access was narrower than a word.
    shift: u32,
    pages: Vec<Option<Box<[Cell]>>>,
}

impl Zone {
    fn new(start: u64, bytes: u64) -> Self {
        let words = usize::try_from(bytes / 4).unwrap_or(0);
        Self { start, shift: 2, pages: vec![None; words / PAGE + 1] }
    }

    /// Splits every cell into four cells of one byte each.
    fn split(&mut self) {
        self.shift = 0;
        let of_words = std::mem::take(&mut self.pages);
        let of_bytes = |page: Option<Box<[Cell]>>| {
            (0..4).map(move |quarter| {
                let cells = &page.as_ref()?[quarter * (PAGE / 4)..][..PAGE / 4];
                Some(cells.iter().flat_map(|cell| [*cell; 4]).collect())
            })
        };
        self.pages = of_words.into_iter().flat_map(of_bytes).collect();
    }

    fn cell(&mut self, index: usize) -> Option<&mut Cell> {
        let page = self.pages.get_mut(index / PAGE)?;
        Some(&mut page.get_or_insert_with(|| vec![Cell::default(); PAGE].into())[index % PAGE])
    }
}

/// A thread that is about to access memory.
struct Accessor<'a> {
    clock: &'a Clock,
    /// A group that contains only this thread.
    group: Group,
}

impl Accessor<'_> {
    /// Returns a thread of the other group whose access is not ordered before this thread's access. For a group of warps it returns the first thread of a warp.
    fn unordered(&self, other: &Group) -> Option<u32> {
        let Group { block, time, warp, .. } = *other;
        let is_own = block == self.group.block;
        if time == 0 || self.clock.has_seen_block(block, time) {
            return None;
        }
        if other.is_of_warps {
            // Excludes this thread's own warp, because a group of warps does not record single lanes.
            let others = if is_own { other.mask & !(1 << self.group.warp) } else { other.mask };
            let mut warps = lanes(others).map(|warp| u32::try_from(warp).unwrap_or(0));
            return warps.find(|warp| !self.clock.has_seen_warp(block, *warp, time)).map(|warp| warp * 32);
        }
        let is_warp = is_own && warp == self.group.warp;
        let others = if is_warp { other.mask & !self.group.mask } else { other.mask };
        let mut threads = lanes(others).map(|lane| u32::from(warp) * 32 + u32::try_from(lane).unwrap_or(0));
        threads.find(|thread| !self.clock.has_seen(block, *thread, time))
    }

    /// Returns a thread of the other group that this access races with.
    fn race(&self, other: &Group) -> Option<u32> {
        let is_near = other.block == self.group.block || !(other.is_for_block || self.group.is_for_block);
        let is_checked = (other.is_swap && self.group.is_read) || (other.is_read && self.group.is_swap);
        if other.time == 0 || is_checked || (other.is_strong && self.group.is_strong && is_near) {
            return None;
        }
        self.unordered(other)
    }

    /// Records the access, so that later accesses can be compared with it.
    fn note(&self, groups: &mut [Group; 2]) {
        let own = &self.group;
        let is_alike = |other: &Group| {
            other.time != 0
                && other.block == own.block
                && (other.is_strong, other.is_for_block, other.is_swap)
                    == (own.is_strong, own.is_for_block, own.is_swap)
        };
        // Merges with an access of the same warp at the same time: loops often read the same word.
        if let Some(same) = groups.iter_mut().find(|group| is_alike(group) && group.time == own.time)
            && !same.is_of_warps
            && same.warp == own.warp
        {
            same.mask |= own.mask;
            return;
        }
        for group in groups.iter_mut().filter(|group| group.time != 0) {
            let is_old = if group.is_of_warps {
                self.clock.has_seen_block(group.block, group.time)
            } else {
                self.unordered(group).is_none()
            };
            if is_old {
                group.time = 0;
            }
        }
        if let Some(group) = groups.iter_mut().find(|group| is_alike(group)) {
            if group.is_of_warps || group.warp != own.warp {
                let before = if group.is_of_warps { group.mask } else { 1 << group.warp };
                (group.mask, group.is_of_warps) = (before | 1 << own.warp, true);
            } else {
                group.mask |= own.mask;
            }
            return;
        }
        let free = usize::from(groups[0].time != 0);
        groups[free] = *own;
    }
}

/// The race check of one launch.
#[derive(Debug)]
pub(super) struct RaceCheck {
    pub(super) order: Synchronisation,
    /// One zone for each buffer in global memory, in the order of the buffers.
    buffers: Vec<Zone>,
    /// One zone for the shared memory of each resident block.
    shared: Vec<Zone>,
    /// Messages about threads that write equal values, by the index of the instruction.
    pub(super) notes: BTreeMap<u32, String>,
}

impl RaceCheck {
    pub(super) fn new(memory: &Memory) -> Self {
        let buffers = memory.buffers.iter().map(|buffer| Zone::new(buffer.start, buffer.bytes.len() as u64)).collect();
        Self { order: Synchronisation::new(), buffers, shared: Vec::new(), notes: BTreeMap::new() }
    }

    pub(super) fn block_starts(&mut self, identity: &Identity) {
        self.order.block_starts(identity);
        start(&mut self.shared, identity, Zone::new(SHARED_WINDOW, identity.shared_bytes));
    }

    pub(super) fn step(&mut self, moment: &Moment) {
        let Moment { identity: &Identity { resident, .. }, warp, active, .. } = *moment;
        match &moment.step().action {
            Action::Fence { is_for_block } => self.order.fence(resident, warp, active, *is_for_block),
            Action::Exit => self.order.exit(resident, warp, active),
            Action::Barrier(barrier) if matches!(barrier.kind, BarrierKind::Arrive) && active != 0 => {
                let number = moment.rows[barrier.number as usize][active.trailing_zeros() as usize];
                self.order.arrive(resident, warp, active, usize::try_from(number).unwrap_or(0));
            }
            _ => {}
        }
    }

    pub(super) fn collective(&mut self, moment: &Moment, parties: &[(u32, &Collective)]) {
        let waiting = parties.iter().filter(|(_, collective)| matches!(collective.kind, CollectiveKind::Wait));
        let all = waiting.fold(0, |all, (lanes, _)| all | lanes);
        if all != 0 {
            self.order.sync_lanes(moment.identity.resident, moment.warp, all);
        }
    }

    pub(super) fn access(&mut self, request: &Request) -> Result<(), Fault> {
        let Request { moment, access, kind, addresses, .. } = *request;
        if access.space == Space::Const {
            return Ok(());
        }
        let bytes = request.bytes();
        let is_strong = access.strength != Strength::Weak;
        let is_swap = kind == AccessKind::Atomic && moment.step().opcode.contains(".cas.");
        for lane in lanes(moment.active) {
            let address = addresses[lane];
            if address & LOCAL_WINDOW != 0 {
                continue;
            }
            let is_shared = address & SHARED_WINDOW != 0;
            let zone = if is_shared {
                &mut self.shared[moment.identity.resident]
            } else {
                let Some(buffer) = moment.memory.index(address) else { continue };
                &mut self.buffers[buffer]
            };
            if access.bytes < 4 && zone.shift != 0 {
                zone.split();
            }
            let thread = moment.warp * 32 + u32::try_from(lane).unwrap_or(0);
            let group = Group {
                block: moment.identity.linear_block(),
                time: self.order.now,
                mask: 1 << lane,
                at: moment.at,
                warp: u8::try_from(moment.warp).unwrap_or(0),
                is_of_warps: false,
                is_strong,
                is_for_block: access.is_for_block,
                is_swap,
                is_read: kind == AccessKind::Load,
            };
            let accessor = Accessor { clock: self.order.clock(moment.identity.resident, thread), group };
            let first = usize::try_from((address - zone.start) >> zone.shift).unwrap_or(usize::MAX);
            let count = usize::try_from(bytes >> zone.shift).unwrap_or(1).max(1);
            // Races with writers and with readers are kept apart, because writing equal values excuses only a race between two writers.
            let (mut writer, mut reader) = (None, None);
            for index in first..first + count {
                let Some(cell) = zone.cell(index) else { continue };
                let race = |groups: &[Group; 2]| groups.iter().find_map(|other| Some((*other, accessor.race(other)?)));
                writer = writer.or_else(|| race(&cell.writes));
                if kind == AccessKind::Load {
                    accessor.note(&mut cell.reads);
                    continue;
                }
                reader = reader.or_else(|| race(&cell.reads));
                accessor.note(&mut cell.writes);
                if !is_strong {
                    cell.reads = [Group::default(); 2];
                }
            }
            if let Some(other) = writer {
                self.tell(request, lane, other, true)?;
            }
            if let Some(other) = reader {
                self.tell(request, lane, other, false)?;
            }
            if is_strong {
                self.order.strong((moment.identity.resident, thread), (access, kind), (address, is_shared));
            }
        }
        Ok(())
    }

    /// Returns the fault of a race. If both threads write the same value, adds a note instead.
    #[cold]
    fn tell(
        &mut self,
        request: &Request,
        lane: usize,
        (other, thread): (Group, u32),
        is_other_write: bool,
    ) -> Result<(), Fault> {
        let Request { moment, access, kind, addresses, .. } = *request;
        let address = addresses[lane];
        let place = element(address, request.bytes(), moment);
        let other_line = line(moment.kernel, other.at, moment.at);
        if is_other_write && kind == AccessKind::Store && stores_the_same(request, lane, &other) {
            self.notes.entry(moment.at).or_insert_with(|| {
                let is_here = other_line == line(moment.kernel, moment.at, moment.at);
                let lines = if is_here { String::new() } else { format!(", here and in {other_line}") };
                format!(
                    "Several threads write the same value to {place}{lines}. Any order gives the same result, but the work is done more than once."
                )
            });
            return Ok(());
        }
        let block = crate::machine::index(other.block, moment.identity.blocks);
        let them = Thread { block, thread: moment.identity.index(thread) };
        let own_verb = ["read", "written", "updated"][kind as usize];
        let is_own_block = other.block == moment.identity.linear_block();
        let is_narrow = other.is_for_block || access.is_for_block;
        // Several lanes read and write one element in the same source line: a shared update such as `*total += x`.
        let is_shared_update = is_other_write != (kind == AccessKind::Store)
            && other_line == line(moment.kernel, moment.at, moment.at)
            && lanes(moment.active).filter(|lane| addresses[*lane] == address).nth(1).is_some();
        let advice = match (is_own_block, thread / 32 == moment.warp) {
            (false, _) if is_narrow => "An operation of a block's scope orders nothing with other blocks.",
            _ if is_shared_update => {
                "Threads that update one element together need an atomic operation, such as `atomicAdd`."
            }
            (true, _) if is_other_write && kind == AccessKind::Store => {
                "Two threads write different values to one element: is an index wrong, or is a barrier missing between?"
            }
            (true, true) => "Put `__syncwarp()` or `__syncthreads()` between.",
            (true, false) => "Put `__syncthreads()` between.",
            (false, _) => "Blocks run in any order: use atomic operations, or a second launch.",
        };
        let them = if other.is_of_warps { format!("the warp of {them}") } else { them.to_string() };
        let before = if is_other_write { "written" } else { "read" };
        let place = place[..1].to_uppercase() + &place[1..];
        let message = format!(
            "{place} is {before} in {other_line} by {them} and {own_verb} here, and nothing orders the two. {advice}"
        );
        Err(moment.fault(Cause::Race, lane, message))
    }
}

/// Returns true if a lane stores the value that memory already has, or the same value as a lower lane that executes the same instruction.
fn stores_the_same(request: &Request, lane: usize, other: &Group) -> bool {
    let Request { moment, addresses, .. } = *request;
    let Action::Store(access, from) = &moment.step().action else { return false };
    let size = usize::from(access.bytes);
    let stored = |lane: usize| -> Vec<u8> {
        let value = |row: &RowIndex| moment.rows[*row as usize][lane].to_le_bytes()[..size].to_vec();
        from.iter().flat_map(value).collect()
    };
    let is_now = other.at == moment.at && !other.is_of_warps && u32::from(other.warp) == moment.warp;
    let before = lanes(moment.active & ((1 << lane) - 1)).find(|before| addresses[*before] == addresses[lane]);
    if let Some(before) = before.filter(|_| is_now) {
        return stored(before) == stored(lane);
    }
    let address = addresses[lane];
    let (all, start) = match address & SHARED_WINDOW != 0 {
        true => (moment.shared, SHARED_WINDOW),
        false => match moment.memory.find(address) {
            Some(buffer) => (&*buffer.bytes, buffer.start),
            None => return false,
        },
    };
    let start = usize::try_from(address - start).unwrap_or(usize::MAX);
    all.get(start..).is_some_and(|there| there.starts_with(&stored(lane)))
}
