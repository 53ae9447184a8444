//! Vector clocks with three layers of entries: whole blocks, warps and single threads.
//!
//! Time is a counter that grows with every synchronisation. The clock of a thread records, for each other thread, the time up to which the first thread has
//! seen the other thread's work. After a barrier all threads of a block share one clock, which saves memory.

use std::collections::BTreeMap;
use std::rc::Rc;

/// The threads that one entry of a clock covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    Thread { block: u32, thread: u32 },
    Warp { block: u32, warp: u32 },
    Block { block: u32 },
}

impl Who {
    fn key(self) -> u64 {
        let (block, rest) = match self {
            Self::Thread { block, thread } => (block, thread),
            Self::Warp { block, warp } => (block, 1 << 16 | warp),
            Self::Block { block } => (block, u32::MAX),
        };
        u64::from(block) << 32 | u64::from(rest)
    }
}

/// A thread's vector clock: the times up to which the thread has seen the work of other threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Clock {
    /// The block of the thread that owns this clock. The thread has seen the work of the whole block up to the time `floor`.
    block: u32,
    floor: u32,
    /// Times by the key that [`Who::key`] returns.
    entries: BTreeMap<u64, u32>,
}

impl Clock {
    pub(super) fn new(block: u32) -> Self {
        Self { block, ..Self::default() }
    }

    fn entry(&self, who: Who) -> u32 {
        self.entries.get(&who.key()).copied().unwrap_or(0)
    }

    /// Returns true if the clock's owner has seen what the given thread did at the given time.
    pub(super) fn has_seen(&self, block: u32, thread: u32, time: u32) -> bool {
        if block == self.block && self.floor > time {
            return true;
        }
        if self.entries.is_empty() {
            return false;
        }
        let layers = [Who::Block { block }, Who::Warp { block, warp: thread / 32 }, Who::Thread { block, thread }];
        layers.into_iter().any(|who| self.entry(who) > time)
    }

    /// Returns true if the clock's owner has seen what all threads of a block did at the given time.
    pub(super) fn has_seen_block(&self, block: u32, time: u32) -> bool {
        if block == self.block { self.floor > time } else { self.entry(Who::Block { block }) > time }
    }

    /// Returns true if the clock's owner has seen what at least one thread of a warp did at the given time.
    pub(super) fn has_seen_warp(&self, block: u32, warp: u32, time: u32) -> bool {
        (0..32).any(|lane| self.has_seen(block, warp * 32 + lane, time))
    }

    /// Records that the clock's owner has seen the work of some threads up to a time.
    pub(super) fn see(&mut self, who: Who, time: u32) {
        if who == (Who::Block { block: self.block }) {
            self.floor = self.floor.max(time);
            let (own, floor) = (u64::from(self.block), self.floor);
            self.entries.retain(|key, seen| key >> 32 != own || *seen > floor);
            return;
        }
        self.see_entry(who.key(), time);
        if let Who::Block { block } = who {
            self.entries.retain(|key, seen| key >> 32 != u64::from(block) || *seen >= time);
        }
    }

    fn see_entry(&mut self, key: u64, time: u32) {
        let seen = self.entries.entry(key).or_default();
        *seen = time.max(*seen);
    }

    /// Merges another clock into this one: takes the later time of each entry.
    fn join(&mut self, other: &Self) {
        let block = other.block;
        if other.floor > 0 {
            self.see(Who::Block { block }, other.floor);
        }
        for (key, time) in &other.entries {
            if *key == (Who::Block { block: self.block }).key() {
                self.floor = self.floor.max(*time);
            } else {
                self.see_entry(*key, *time);
            }
        }
    }
}

/// Merges `other` into a clock, which is copied first if several threads share it.
pub(super) fn join(into: &mut Rc<Clock>, other: &Rc<Clock>) {
    if !Rc::ptr_eq(into, other) && **into != **other {
        Rc::make_mut(into).join(other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_knows_what_its_layers_have_seen() {
        let mut own = Clock::new(3);
        own.see(Who::Warp { block: 3, warp: 1 }, 5);
        assert!(own.has_seen(3, 40, 4) && !own.has_seen(3, 40, 5) && !own.has_seen(3, 64, 4));
        own.see(Who::Block { block: 3 }, 7);
        assert!(own.has_seen(3, 999, 6) && own.entries.is_empty());
        own.see(Who::Thread { block: 3, thread: 1 }, 9);
        own.join(&own.clone());
        assert!(own.has_seen(3, 1, 8) && !own.has_seen(3, 0, 8), "what is newer than the barrier stays");
        let mut other = Rc::new(Clock::new(4));
        join(&mut other, &Rc::new(own));
        assert!(other.has_seen(3, 0, 6) && !other.has_seen(4, 0, 0));
        Rc::make_mut(&mut other).see(Who::Thread { block: 3, thread: 2 }, 9);
        assert!(other.has_seen(3, 2, 8) && !other.has_seen(3, 5, 8));
    }
}
