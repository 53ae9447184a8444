//! The order of memory accesses in PTX's memory model: from barriers, `__syncwarp`, and fences combined with strong accesses.

use super::clocks::{Clock, Who, join};
use crate::machine::{AccessKind, Identity, lanes, start};
use crate::program::{Access, Strength};
use std::collections::HashMap;
use std::rc::Rc;

/// A fence that a thread has executed: its time, and the work that the thread had seen by then.
#[derive(Debug, Clone)]
struct Fence {
    clock: Rc<Clock>,
    time: u32,
}

/// The clocks that a strong write passes on to the threads that read its value.
#[derive(Debug)]
struct Release {
    block: u32,
    /// The clock that threads of any block receive, and the clock that threads of the writer's block receive.
    clocks: [Option<Rc<Clock>>; 2],
}

#[derive(Debug, Clone)]
struct ThreadClocks {
    clock: Rc<Clock>,
    /// The latest fence for the whole GPU, and the latest fence of any scope.
    fences: [Option<Fence>; 2],
    /// The clock collected by the thread's strong reads, which takes effect at the thread's next fence.
    pending: Option<Rc<Clock>>,
}

#[derive(Debug)]
struct BlockClocks {
    number: u32,
    /// Mask of the lanes in each warp that have not exited.
    live: Vec<u32>,
    threads: Vec<ThreadClocks>,
    /// Clocks of threads that arrived at a barrier without waiting there, with the barrier's number.
    arrived: Vec<(usize, Rc<Clock>)>,
}

/// The synchronisation of a launch so far.
#[derive(Debug)]
pub(super) struct Synchronisation {
    /// The current time, a counter that grows with every synchronisation.
    pub(super) now: u32,
    blocks: Vec<BlockClocks>,
    /// The latest release at each address. The key also has the block that owns the address, or `u32::MAX` in global memory.
    releases: HashMap<(u32, u64), Release>,
}

impl Synchronisation {
    pub(super) fn new() -> Self {
        Self { now: 1, blocks: Vec::new(), releases: HashMap::new() }
    }

    pub(super) fn clock(&self, resident: usize, thread: u32) -> &Clock {
        &self.blocks[resident].threads[thread as usize].clock
    }

    pub(super) fn block_starts(&mut self, identity: &Identity) {
        let (number, threads) = (identity.linear_block(), identity.threads_of_block());
        let thread = ThreadClocks { clock: Rc::new(Clock::new(number)), fences: [None, None], pending: None };
        let block = BlockClocks {
            number,
            live: (0..threads.div_ceil(32)).map(|warp| identity.lanes(warp)).collect(),
            threads: vec![thread; threads.next_multiple_of(32) as usize],
            arrived: Vec::new(),
        };
        start(&mut self.blocks, identity, block);
        self.releases.retain(|(block, _), _| *block != number);
    }

    pub(super) fn exit(&mut self, resident: usize, warp: u32, active: u32) {
        self.blocks[resident].live[warp as usize] &= !active;
    }

    pub(super) fn fence(&mut self, resident: usize, warp: u32, active: u32, is_for_block: bool) {
        self.now += 1;
        for lane in lanes(active) {
            let thread = &mut self.blocks[resident].threads[warp as usize * 32 + lane];
            thread.acquire();
            thread.pass_fence(self.now, is_for_block);
        }
    }

    /// Synchronises the lanes that meet at a `__syncwarp`.
    pub(super) fn sync_lanes(&mut self, resident: usize, warp: u32, mask: u32) {
        self.now += 1;
        let block = &mut self.blocks[resident];
        let is_full = mask == block.live[warp as usize];
        let mut joined = block.join(warp, mask, false, None);
        if let Some(clock) = joined.as_mut().map(Rc::make_mut) {
            clock.see_lanes(block.number, warp, mask, is_full, self.now);
        }
        block.set(warp, mask, joined.as_ref());
    }

    /// Records that threads arrive at a barrier without waiting there (`bar.arrive`).
    pub(super) fn arrive(&mut self, resident: usize, warp: u32, active: u32, number: usize) {
        self.now += 1;
        let block = &mut self.blocks[resident];
        if let Some(mut clock) = block.join(warp, active, true, None) {
            Rc::make_mut(&mut clock).see_lanes(block.number, warp, active, false, self.now);
            block.arrived.push((number, clock));
        }
    }

    /// Synchronises the threads that leave a barrier.
    pub(super) fn barrier(&mut self, resident: usize, number: usize, waiting: &[(u32, u32)]) {
        self.now += 1;
        let block = &mut self.blocks[resident];
        let mut joined = None;
        for (warp, mask) in waiting {
            joined = block.join(*warp, *mask, true, joined);
        }
        let Some(mut clock) = joined else { return };
        for (_, other) in block.arrived.extract_if(.., |(at, _)| *at == number) {
            join(&mut clock, &other);
        }
        let own = Rc::make_mut(&mut clock);
        if waiting.iter().all(|(warp, mask)| *mask == block.live[*warp as usize]) {
            own.see(Who::Block { block: block.number }, self.now);
        } else {
            for (warp, mask) in waiting.iter().filter(|(_, mask)| *mask != 0) {
                own.see_lanes(block.number, *warp, *mask, *mask == block.live[*warp as usize], self.now);
            }
        }
        for (warp, mask) in waiting {
            block.set(*warp, *mask, Some(&clock));
        }
    }

    /// Records a strong access of a thread. A read acquires what earlier writes released; a write releases the work before the thread's latest fence.
    pub(super) fn strong(
        &mut self,
        (resident, thread): (usize, u32),
        (access, kind): (&Access, AccessKind),
        (address, is_shared): (u64, bool),
    ) {
        let reads = kind != AccessKind::Store;
        let number = self.blocks[resident].number;
        let me = &mut self.blocks[resident].threads[thread as usize];
        let key = (if is_shared { number } else { u32::MAX }, address);
        let found = self.releases.get(&key).map_or([None; 2], |Release { block, clocks: [for_all, for_own] }| {
            [for_all.as_ref(), if *block == number { for_own.as_ref() } else { for_all.as_ref() }]
        });
        if let [_, Some(clock)] = found
            && reads
        {
            match &mut me.pending {
                Some(pending) => join(pending, clock),
                None => me.pending = Some(clock.clone()),
            }
        }
        if matches!(access.strength, Strength::Acquire | Strength::AcquireRelease) {
            me.acquire();
        }
        if kind == AccessKind::Load {
            return;
        }
        if matches!(access.strength, Strength::Release | Strength::AcquireRelease) {
            self.now += 1;
            me.pass_fence(self.now, access.is_for_block);
        }
        if me.fences[1].is_none() {
            // A strong store without a fence ends the release sequence at its address; an atomic update continues the sequence.
            if !reads {
                self.releases.remove(&key);
            }
            return;
        }
        let clocks = std::array::from_fn(|scope| {
            let kept = found[scope].filter(|_| reads);
            let Some(fence) = &me.fences[scope] else { return kept.cloned() };
            if let Some(kept) = kept.filter(|kept| kept.has_seen(number, thread, fence.time - 1)) {
                return Some(kept.clone());
            }
            let mut clock = fence.clock.clone();
            kept.into_iter().for_each(|kept| join(&mut clock, kept));
            Rc::make_mut(&mut clock).see(Who::Thread { block: number, thread }, fence.time);
            Some(clock)
        });
        self.releases.insert(key, Release { block: number, clocks });
    }
}

impl ThreadClocks {
    fn pass_fence(&mut self, time: u32, is_for_block: bool) {
        let fence = Fence { clock: self.clock.clone(), time };
        if !is_for_block {
            self.fences[0] = Some(fence.clone());
        }
        self.fences[1] = Some(fence);
    }

    fn acquire(&mut self) {
        if let Some(pending) = self.pending.take() {
            join(&mut self.clock, &pending);
        }
    }
}

impl BlockClocks {
    /// Merges the clocks of some lanes of a warp, and the clock `to`.
    fn join(&mut self, warp: u32, mask: u32, acquires: bool, to: Option<Rc<Clock>>) -> Option<Rc<Clock>> {
        let mut joined = to;
        let mut last: Option<*const Clock> = None;
        for lane in lanes(mask) {
            let thread = &mut self.threads[warp as usize * 32 + lane];
            if acquires {
                thread.acquire();
            }
            // Skips a clock that is the same as the previous lane's: most threads share clocks.
            if last == Some(Rc::as_ptr(&thread.clock)) {
                continue;
            }
            last = Some(Rc::as_ptr(&thread.clock));
            match &mut joined {
                Some(joined) => join(joined, &thread.clock),
                None => joined = Some(thread.clock.clone()),
            }
        }
        joined
    }

    fn set(&mut self, warp: u32, mask: u32, clock: Option<&Rc<Clock>>) {
        let Some(clock) = clock else { return };
        lanes(mask).for_each(|lane| self.threads[warp as usize * 32 + lane].clock = clock.clone());
    }
}

impl Clock {
    fn see_lanes(&mut self, block: u32, warp: u32, mask: u32, is_full: bool, time: u32) {
        if is_full {
            self.see(Who::Warp { block, warp }, time);
            return;
        }
        for lane in lanes(mask) {
            let thread = warp * 32 + u32::try_from(lane).unwrap_or(0);
            self.see(Who::Thread { block, thread }, time);
        }
    }
}
