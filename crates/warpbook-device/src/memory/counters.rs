//! Counts the bytes of device memory in use.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

/// Largest number of points that a [`MemoryWatch`] keeps between two calls of [`MemoryWatch::take`].
const MOST_POINTS: usize = 1 << 20;

/// The state of a device's memory right after an allocation or release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPoint {
    /// Time of the change.
    pub at: Instant,
    /// Number of bytes allocated, or freed if negative.
    pub change: i64,
    /// True if the array belongs to a [`crate::Pool`], so the change did not involve the driver; false if the driver
    /// allocated or freed memory.
    pub of_pool: bool,
    /// Value of [`crate::CudaDevice::allocated`] after the change, which includes the segments of pools.
    pub allocated: u64,
    /// Number of bytes in use by the arrays of all pools.
    pub pool_allocated: u64,
    /// Number of bytes in the segments of all pools, whether in use or not.
    pub pool_reserved: u64,
}

type Log = Mutex<Vec<MemoryPoint>>;

/// Records every change of a device's memory until it is dropped; see [`crate::CudaDevice::watch_memory`].
#[derive(Debug)]
pub struct MemoryWatch(Arc<Log>);

impl MemoryWatch {
    /// Returns the changes since the watch began or since the last call. At most about a million changes are kept.
    #[must_use]
    pub fn take(&self) -> Vec<MemoryPoint> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Bytes allocated on a device, now and at the peak.
#[derive(Debug, Default)]
pub(crate) struct MemoryCounters {
    pub(crate) now: AtomicU64,
    pub(crate) peak: AtomicU64,
    pool_allocated: AtomicU64,
    pool_reserved: AtomicU64,
    /// True if there may be a watch. If there is none, an allocation need not take a lock.
    watched: AtomicBool,
    watches: Mutex<Vec<Weak<Log>>>,
}

impl MemoryCounters {
    pub(crate) fn add(&self, bytes: u64) {
        let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(now, Ordering::Relaxed);
        self.tell(bytes as i64, false);
    }

    pub(crate) fn subtract(&self, bytes: u64) {
        self.now.fetch_sub(bytes, Ordering::Relaxed);
        self.tell(-(bytes as i64), false);
    }

    /// Records a change in a pool's bytes in use and its reserved bytes.
    pub(crate) fn pool_changed(&self, (allocated, reserved): (u64, u64), (allocated_now, reserved_now): (u64, u64)) {
        let change = |counter: &AtomicU64, before: u64, now: u64| match now >= before {
            true => counter.fetch_add(now - before, Ordering::Relaxed),
            false => counter.fetch_sub(before - now, Ordering::Relaxed),
        };
        change(&self.pool_allocated, allocated, allocated_now);
        change(&self.pool_reserved, reserved, reserved_now);
        if (allocated, reserved) != (allocated_now, reserved_now) {
            self.tell(allocated_now as i64 - allocated as i64, true);
        }
    }

    /// Returns the current state as a point that records a change of `change` bytes.
    fn point(&self, change: i64, of_pool: bool) -> MemoryPoint {
        let [allocated, pool_allocated, pool_reserved] =
            [&self.now, &self.pool_allocated, &self.pool_reserved].map(|c| c.load(Ordering::Relaxed));
        MemoryPoint { at: Instant::now(), change, of_pool, allocated, pool_allocated, pool_reserved }
    }

    fn tell(&self, change: i64, of_pool: bool) {
        if !self.watched.load(Ordering::Relaxed) {
            return;
        }
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        watches.retain(|w| w.strong_count() > 0);
        self.watched.store(!watches.is_empty(), Ordering::Relaxed);
        for log in watches.iter().filter_map(Weak::upgrade) {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            if log.len() < MOST_POINTS {
                log.push(self.point(change, of_pool));
            }
        }
    }

    pub(crate) fn watch(&self) -> MemoryWatch {
        let log = Arc::new(Mutex::new(vec![self.point(0, false)]));
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        watches.push(Arc::downgrade(&log));
        self.watched.store(true, Ordering::Relaxed);
        MemoryWatch(log)
    }

    pub(crate) fn reset_peak(&self) {
        self.restore_peak(0);
    }

    /// Sets the peak to an earlier peak, or to the bytes allocated now if these are more.
    pub(crate) fn restore_peak(&self, earlier: u64) {
        self.peak.store(earlier.max(self.now.load(Ordering::Relaxed)), Ordering::Relaxed);
        // Without this line, an allocation by another thread during the line above could be lost.
        self.peak.fetch_max(self.now.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_the_largest_sum_and_starts_again() {
        let counters = MemoryCounters::default();
        let check = |now, peak| {
            assert_eq!((counters.now.load(Ordering::Relaxed), counters.peak.load(Ordering::Relaxed)), (now, peak));
        };
        counters.add(100);
        counters.add(50);
        counters.subtract(100);
        check(50, 150);
        counters.add(60);
        check(110, 150);
        counters.reset_peak();
        check(110, 110);
        counters.subtract(110);
        check(0, 110);
        counters.add(500);
        counters.subtract(300);
        counters.restore_peak(110);
        check(200, 200);
        counters.subtract(100);
        counters.restore_peak(150);
        check(100, 150);
    }

    #[test]
    fn a_watch_keeps_every_change_and_ends_when_it_is_dropped() {
        let counters = MemoryCounters::default();
        counters.add(100);
        let watch = counters.watch();
        counters.add(50);
        counters.pool_changed((0, 0), (512, 2048));
        counters.pool_changed((512, 2048), (512, 2048));
        counters.pool_changed((512, 2048), (0, 2048));
        counters.subtract(100);
        let told: Vec<_> = watch.take().iter().map(|p| (p.change, p.of_pool, p.allocated, p.pool_allocated)).collect();
        let expect = [
            (0, false, 100, 0),
            (50, false, 150, 0),
            (512, true, 150, 512),
            (-512, true, 150, 0),
            (-100, false, 50, 0),
        ];
        assert_eq!(told, expect, "what there was at the start, and each change with what there is afterwards");
        assert!(watch.take().is_empty());
        counters.add(1);
        let [point] = watch.take()[..] else { panic!("one change") };
        assert_eq!((point.pool_reserved, point.allocated), (2048, 51));
        drop(watch);
        counters.add(1);
        assert!(!counters.watched.load(Ordering::Relaxed), "nobody asks any more");
    }
}
