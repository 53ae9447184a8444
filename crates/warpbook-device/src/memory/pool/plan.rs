//! Decides which block of which segment an array of a [`Pool`](crate::Pool) gets. This is pure arithmetic and needs no device.
//!
//! The sizes and rules are those that PyTorch's caching allocator documents (CUDA semantics, "Memory management", and the comment at
//! the top of c10/cuda/CUDACachingAllocator.cpp). Array sizes are rounded up to multiples of 512 bytes. Arrays of up to 1 MiB share
//! segments of 2 MiB, and arrays of up to 10 MiB share segments of 20 MiB. Larger arrays get a segment of their own size, rounded up
//! to a multiple of 2 MiB. The smallest free block that is large enough is split, and adjacent free blocks are merged.

use std::collections::{BTreeMap, BTreeSet};

const ROUNDED: u64 = 512;
const SMALL: u64 = 1 << 20;
const SMALL_SEGMENT: u64 = 2 << 20;
const MIDDLE: u64 = 10 << 20;
const MIDDLE_SEGMENT: u64 = 20 << 20;
const LARGE_ROUNDED: u64 = 2 << 20;

/// The location of an array: its segment, and the offset within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    pub segment: usize,
    pub offset: u64,
}

/// Statistics of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolUse {
    /// Bytes of arrays in use, with sizes rounded as the pool does; PyTorch's `memory_allocated`.
    pub allocated: u64,
    /// Peak of `allocated`; PyTorch's `max_memory_allocated`.
    pub peak_allocated: u64,
    /// Bytes in all segments, whether in use or not; PyTorch's `memory_reserved`.
    pub reserved: u64,
    /// Peak of `reserved`; PyTorch's `max_memory_reserved`.
    pub peak_reserved: u64,
    /// Number of segments that the pool currently has.
    pub segments: usize,
    /// Size in bytes of the largest free block. A larger array needs a new segment, regardless of the total free memory.
    pub largest_free: u64,
    /// Number of arrays requested so far.
    pub requests: u64,
    /// Number of requested arrays for which a new segment was needed.
    pub new_segments: u64,
}

impl PoolUse {
    /// Returns the fragmentation: the share of free reserved bytes that are not in the largest free block; 0 if all free bytes are in one block.
    #[must_use]
    pub fn fragmentation(&self) -> f64 {
        match self.reserved - self.allocated {
            0 => 0.0,
            free => 1.0 - self.largest_free as f64 / free as f64,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct PoolBlock {
    bytes: u64,
    is_free: bool,
}

/// Free blocks sorted by size, as (bytes, segment, offset). Small arrays and others have separate sets.
type Free = BTreeSet<(u64, usize, u64)>;

#[derive(Debug, Default)]
pub(crate) struct PoolPlan {
    /// Blocks of each segment by their offsets; empty for a released segment.
    segments: Vec<BTreeMap<u64, PoolBlock>>,
    free: [Free; 2],
    used: PoolUse,
}

/// Returns the number of bytes that an array occupies in the pool.
fn rounded(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(ROUNDED)
}

/// Returns the size of the segment for a block of this many bytes.
fn segment_for(block: u64) -> u64 {
    if block <= SMALL {
        SMALL_SEGMENT
    } else if block <= MIDDLE {
        MIDDLE_SEGMENT
    } else {
        block.next_multiple_of(LARGE_ROUNDED)
    }
}

impl PoolPlan {
    /// Returns the index of the set that holds a segment's free blocks. Separate sets keep small arrays out of large segments.
    fn class(&self, segment: usize) -> usize {
        let bytes: u64 = self.segments[segment].values().map(|b| b.bytes).sum();
        usize::from(bytes > SMALL_SEGMENT)
    }

    /// Allocates a free block of this many bytes, if there is one.
    pub fn take(&mut self, bytes: u64) -> Option<Location> {
        let bytes = rounded(bytes);
        let class = usize::from(bytes > SMALL);
        let found = self.free[class].range((bytes, 0, 0)..).next().copied()?;
        self.free[class].remove(&found);
        let (there, segment, offset) = found;
        let blocks = &mut self.segments[segment];
        blocks.insert(offset, PoolBlock { bytes, is_free: false });
        if there > bytes {
            blocks.insert(offset + bytes, PoolBlock { bytes: there - bytes, is_free: true });
            self.free[class].insert((there - bytes, segment, offset + bytes));
        }
        self.used.requests += 1;
        self.used.allocated += bytes;
        self.used.peak_allocated = self.used.peak_allocated.max(self.used.allocated);
        Some(Location { segment, offset })
    }

    /// Returns the size of the segment to add for an array of this many bytes if no free block is large enough.
    pub fn needed(bytes: u64) -> u64 {
        segment_for(rounded(bytes))
    }

    /// Adds a new segment, which is free, and returns its index.
    pub fn add(&mut self, bytes: u64) -> usize {
        let segment = self.segments.iter().position(BTreeMap::is_empty).unwrap_or(self.segments.len());
        if segment == self.segments.len() {
            self.segments.push(BTreeMap::new());
        }
        self.segments[segment].insert(0, PoolBlock { bytes, is_free: true });
        let class = self.class(segment);
        self.free[class].insert((bytes, segment, 0));
        self.used.segments += 1;
        self.used.new_segments += 1;
        self.used.reserved += bytes;
        self.used.peak_reserved = self.used.peak_reserved.max(self.used.reserved);
        segment
    }

    /// Frees an array's block and merges it with its free neighbours.
    pub fn give_back(&mut self, location: Location) {
        let class = self.class(location.segment);
        let blocks = &mut self.segments[location.segment];
        let Some(block) = blocks.get(&location.offset).copied().filter(|b| !b.is_free) else { return };
        self.used.allocated -= block.bytes;
        let (mut offset, mut bytes) = (location.offset, block.bytes);
        let after = offset + bytes;
        if let Some(next) = blocks.get(&after).copied().filter(|b| b.is_free) {
            blocks.remove(&after);
            self.free[class].remove(&(next.bytes, location.segment, after));
            bytes += next.bytes;
        }
        if let Some((&before, &previous)) = blocks.range(..offset).next_back().filter(|(_, b)| b.is_free) {
            blocks.remove(&offset);
            self.free[class].remove(&(previous.bytes, location.segment, before));
            (offset, bytes) = (before, bytes + previous.bytes);
        }
        blocks.insert(offset, PoolBlock { bytes, is_free: true });
        self.free[class].insert((bytes, location.segment, offset));
    }

    /// Removes the segments that contain no arrays, and returns their indices.
    pub fn empty(&mut self) -> Vec<usize> {
        let is_empty = |blocks: &BTreeMap<u64, PoolBlock>| blocks.len() == 1 && blocks.values().all(|b| b.is_free);
        let empty: Vec<usize> = (0..self.segments.len()).filter(|s| is_empty(&self.segments[*s])).collect();
        for segment in &empty {
            let class = self.class(*segment);
            let bytes: u64 = self.segments[*segment].values().map(|b| b.bytes).sum();
            self.free[class].remove(&(bytes, *segment, 0));
            self.segments[*segment].clear();
            self.used.segments -= 1;
            self.used.reserved -= bytes;
        }
        empty
    }

    pub fn used(&self) -> PoolUse {
        let largest = |free: &Free| free.last().map_or(0, |(bytes, ..)| *bytes);
        PoolUse { largest_free: largest(&self.free[0]).max(largest(&self.free[1])), ..self.used }
    }

    /// Resets the peaks to the current values.
    pub fn reset_peaks(&mut self) {
        self.used.peak_allocated = self.used.allocated;
        self.used.peak_reserved = self.used.reserved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn take(plan: &mut PoolPlan, bytes: u64) -> Location {
        plan.take(bytes).unwrap_or_else(|| {
            plan.add(PoolPlan::needed(bytes));
            plan.take(bytes).unwrap()
        })
    }

    #[test]
    fn segments_have_the_documented_sizes() {
        let check = |bytes, segment| assert_eq!(PoolPlan::needed(bytes), segment, "{bytes}");
        check(0, 2 * MIB);
        check(MIB, 2 * MIB);
        check(MIB + 1, 20 * MIB);
        check(10 * MIB, 20 * MIB);
        check(10 * MIB + 1, 12 * MIB);
        check(400_000_000, 400_000_000u64.next_multiple_of(2 * MIB));
    }

    #[test]
    fn a_block_is_split_and_becomes_whole_again() {
        let mut plan = PoolPlan::default();
        let [a, b, c] = [1000, 513, 1].map(|bytes| take(&mut plan, bytes));
        assert_eq!([a.offset, b.offset, c.offset], [0, 1024, 2048]);
        assert_eq!((plan.used().allocated, plan.used().reserved, plan.used().segments), (2560, 2 * MIB, 1));
        plan.give_back(b);
        assert_eq!(take(&mut plan, 600), b, "the smallest block that is large enough");
        plan.give_back(b);
        plan.give_back(a);
        plan.give_back(a);
        assert_eq!(plan.used().allocated, 512, "twice back is once back");
        assert_eq!(take(&mut plan, 2048).offset, 0, "two neighbours are one block");
        plan.give_back(Location { segment: 0, offset: 0 });
        plan.give_back(c);
        assert_eq!((plan.used().largest_free, plan.used().fragmentation()), (2 * MIB, 0.0));
        assert_eq!(plan.used().peak_allocated, 2560 + 1024 - 1024);
    }

    #[test]
    fn a_request_uses_what_is_free_and_no_other_kind_of_segment() {
        let mut plan = PoolPlan::default();
        let large = take(&mut plan, 30 * MIB);
        plan.give_back(large);
        assert_eq!(take(&mut plan, 5 * MIB).segment, large.segment, "a part of a large free block");
        assert_ne!(take(&mut plan, 100).segment, large.segment, "small arrays have segments for themselves");
        assert_eq!((plan.used().requests, plan.used().new_segments), (3, 2));
    }

    #[test]
    fn fragmentation_keeps_a_large_array_out() {
        let mut plan = PoolPlan::default();
        let blocks: Vec<Location> = (0..4).map(|_| take(&mut plan, 5 * MIB)).collect();
        plan.give_back(blocks[0]);
        plan.give_back(blocks[2]);
        let used = plan.used();
        assert_eq!((used.reserved - used.allocated, used.largest_free), (10 * MIB, 5 * MIB));
        assert!((used.fragmentation() - 0.5).abs() < 1e-12);
        assert!(plan.take(8 * MIB).is_none());
        assert!(plan.empty().is_empty(), "each segment has an array in use");
        blocks.iter().for_each(|b| plan.give_back(*b));
        assert_eq!(plan.empty(), [0]);
        assert_eq!((plan.used().reserved, plan.used().segments, plan.used().largest_free), (0, 0, 0));
        assert_eq!(plan.add(2 * MIB), 0, "the number is used again");
    }

    /// Compares the plan with a simple array of bytes: no two arrays overlap, and the counters match.
    #[test]
    fn arrays_never_overlap() {
        let mut state = 1u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut plan, mut live) = (PoolPlan::default(), Vec::<(Location, u64)>::new());
        for _ in 0..4000 {
            if random(5) < 3 || live.is_empty() {
                let bytes = [random(3000), random(3 * MIB), random(40 * MIB)][random(3) as usize];
                let place = take(&mut plan, bytes);
                let end = place.offset + rounded(bytes);
                for (other, size) in &live {
                    let apart =
                        other.segment != place.segment || other.offset + size <= place.offset || end <= other.offset;
                    assert!(apart, "{place:?} and {other:?}");
                }
                live.push((place, rounded(bytes)));
            } else {
                let (place, _) = live.swap_remove(random(live.len() as u64) as usize);
                plan.give_back(place);
            }
            if random(50) == 0 {
                plan.empty();
            }
            assert_eq!(plan.used().allocated, live.iter().map(|(_, bytes)| bytes).sum::<u64>());
        }
        live.iter().for_each(|(place, _)| plan.give_back(*place));
        plan.empty();
        assert_eq!((plan.used().allocated, plan.used().reserved, plan.used().segments), (0, 0, 0));
    }
}
