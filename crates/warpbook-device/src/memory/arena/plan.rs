//! Lays out the arrays of an arena so that arrays that are not in use at the same time share memory.

use crate::memory::allocation::ALIGNMENT;

/// The arrays of an arena and their lifetimes. Arrays that are never in use at the same time share memory.
///
/// Time is counted in steps of any kind, for example the launches of a training step in order. If work runs on several streams, an
/// array's lifetime must cover every step that may run at the same time.
#[derive(Debug, Clone, Default)]
pub struct ArenaPlan {
    blocks: Vec<Block>,
}

/// An array in an arena's plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Name of the array, unique within the plan.
    pub name: String,
    /// Size in bytes, as requested.
    pub bytes: usize,
    /// The first step that uses the array.
    pub first_use: usize,
    /// The last step that uses the array.
    pub last_use: usize,
    /// Offset in bytes from the start of the arena, a multiple of 256; 0 until the plan is laid out.
    pub offset: usize,
}

impl Block {
    /// Returns the number of bytes that the array occupies: its size rounded up to a multiple of 256.
    fn room(&self) -> usize {
        self.bytes.div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT)
    }

    fn end(&self) -> usize {
        self.offset.saturating_add(self.room())
    }

    fn lives_with(&self, other: &Self) -> bool {
        self.first_use <= other.last_use && other.first_use <= self.last_use
    }
}

impl ArenaPlan {
    /// Returns an empty plan.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an array of `bytes` bytes that is in use from step `first_use` to step `last_use`, inclusive.
    ///
    /// # Panics
    /// Panics if the name already exists, or `last_use` is before `first_use`.
    pub fn add(&mut self, name: impl Into<String>, bytes: usize, first_use: usize, last_use: usize) -> &mut Self {
        let name = name.into();
        assert!(self.blocks.iter().all(|b| b.name != name), "the plan has two blocks named `{name}`");
        assert!(first_use <= last_use, "`{name}` is used last at {last_use}, before its first use at {first_use}");
        self.blocks.push(Block { name, bytes, first_use, last_use, offset: 0 });
        self
    }

    /// Computes an offset for every array, starting with the largest. Each array goes into the smallest sufficient gap between the
    /// arrays already placed whose lifetimes overlap its own, or else behind all of them.
    #[must_use]
    pub fn layout(&self) -> ArenaLayout {
        let mut blocks = self.blocks.clone();
        let mut order: Vec<usize> = (0..blocks.len()).collect();
        // The sort is stable, so arrays of equal size keep the order in which they were added.
        order.sort_by_key(|&i| std::cmp::Reverse(blocks[i].bytes));
        for (placed, &at) in order.iter().enumerate() {
            let mut neighbours: Vec<&Block> =
                order[..placed].iter().map(|&i| &blocks[i]).filter(|b| b.lives_with(&blocks[at])).collect();
            neighbours.sort_by_key(|b| b.offset);
            blocks[at].offset = best_fit(&neighbours, blocks[at].room());
        }
        ArenaLayout { blocks }
    }
}

/// Returns the start of the smallest gap of at least `room` bytes between blocks that are sorted by offset, or the end of the last
/// block if there is no such gap.
fn best_fit(blocks: &[&Block], room: usize) -> usize {
    let (mut end, mut best) = (0, None);
    for block in blocks {
        let gap = block.offset.saturating_sub(end);
        if gap >= room && best.is_none_or(|(smallest, _)| gap < smallest) {
            best = Some((gap, end));
        }
        end = end.max(block.end());
    }
    best.map_or(end, |(_, offset)| offset)
}

/// A plan with the offsets of its arrays.
#[derive(Debug, Clone, Default)]
pub struct ArenaLayout {
    blocks: Vec<Block>,
}

impl ArenaLayout {
    /// Returns the arrays, in the order in which they were added to the plan.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Returns the array with this name, if there is one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Block> {
        self.blocks.iter().find(|b| b.name == name)
    }

    /// Returns the size in bytes of an arena with this layout.
    #[must_use]
    pub fn peak_bytes(&self) -> usize {
        self.blocks.iter().map(Block::end).max().unwrap_or(0)
    }

    /// Returns the largest sum of bytes in use at the same time, which is a lower bound on the size of any layout.
    #[must_use]
    pub fn live_bytes(&self) -> usize {
        // The sum can increase only at the start of a lifetime, so checking those steps is enough.
        let at = |step: usize| self.blocks.iter().filter(move |b| b.first_use <= step && step <= b.last_use);
        let sum = |step| at(step).fold(0usize, |sum, b| sum.saturating_add(b.room()));
        self.blocks.iter().map(|b| sum(b.first_use)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reproducible sequence of pseudo-random numbers.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) % n as u64) as usize
        }
    }

    /// Returns a description of the first error in a layout, if there is any.
    fn fault(layout: &ArenaLayout) -> Option<String> {
        let blocks = layout.blocks();
        for (i, a) in blocks.iter().enumerate() {
            if a.offset % ALIGNMENT != 0 {
                return Some(format!("{a:?} is not aligned"));
            }
            if a.offset + a.bytes > layout.peak_bytes() {
                return Some(format!("{a:?} ends past the peak"));
            }
            for b in &blocks[i + 1..] {
                let in_time = a.first_use.max(b.first_use) <= a.last_use.min(b.last_use);
                let in_memory = a.offset.max(b.offset) < (a.offset + a.bytes).min(b.offset + b.bytes);
                if in_time && in_memory {
                    return Some(format!("{a:?} and {b:?} overlap"));
                }
            }
        }
        // For comparison, counts the bytes at every step, unlike `live_bytes`.
        let steps = blocks.iter().map(|b| b.last_use + 1).max().unwrap_or(0);
        let live = |step: &usize| -> usize {
            blocks
                .iter()
                .filter(|b| (b.first_use..=b.last_use).contains(step))
                .map(|b| b.bytes.div_ceil(256) * 256)
                .sum()
        };
        let largest = (0..steps).map(|s| live(&s)).max().unwrap_or(0);
        if largest != layout.live_bytes() {
            return Some(format!("{largest} bytes are in use at once, not {}", layout.live_bytes()));
        }
        let all: usize = blocks.iter().map(|b| b.bytes.div_ceil(256) * 256).sum();
        if !(largest..=all).contains(&layout.peak_bytes()) {
            return Some(format!("the peak is {}, outside of {largest}..={all}", layout.peak_bytes()));
        }
        None
    }

    #[test]
    fn no_two_arrays_in_use_at_once_overlap() {
        let mut numbers = Numbers(1);
        let mut reused = 0;
        for case in 0..2000 {
            let mut plan = ArenaPlan::new();
            let (count, steps, largest) = (numbers.below(24), 1 + numbers.below(16), 1 + numbers.below(5000));
            for i in 0..count {
                let (a, b) = (numbers.below(steps), numbers.below(steps));
                plan.add(format!("b{i}"), numbers.below(largest), a.min(b), a.max(b));
            }
            let layout = plan.layout();
            assert_eq!(fault(&layout), None, "case {case}: {layout:#?}");
            reused += usize::from(layout.peak_bytes() < layout.blocks().iter().map(Block::room).sum());
        }
        assert!(reused > 1000, "memory was reused in {reused} cases only");
    }

    #[test]
    fn a_faulty_layout_is_noticed() {
        let mut plan = ArenaPlan::new();
        plan.add("a", 512, 0, 1).add("b", 512, 1, 2);
        let good = plan.layout();
        assert_eq!((fault(&good), good.peak_bytes()), (None, 1024));
        let mut bad = good.clone();
        bad.blocks[1].offset = 256;
        assert!(fault(&bad).unwrap().contains("overlap"));
        bad.blocks[1].offset = 2048;
        assert!(fault(&bad).unwrap().contains("the peak is 2560"));
    }

    #[test]
    fn a_chain_of_layers_needs_two_arrays() {
        let mut plan = ArenaPlan::new();
        for layer in 0..10 {
            plan.add(format!("activations of layer {layer}"), 4096, layer, layer + 1);
        }
        let layout = plan.layout();
        assert_eq!((layout.peak_bytes(), layout.live_bytes()), (8192, 8192));
        assert_eq!(layout.get("activations of layer 3").map(|b| (b.bytes, b.first_use)), Some((4096, 3)));
        assert_eq!(layout.get("weights"), None);
    }

    #[test]
    fn the_smallest_gap_is_taken() {
        let block = |offset, bytes| Block { name: String::new(), bytes, first_use: 0, last_use: 0, offset };
        let (a, b, c, d) = (block(0, 256), block(1024, 256), block(1792, 256), block(2304, 256));
        let blocks = [&a, &b, &c, &d];
        // There are gaps of 768, 512 and 256 bytes, at the offsets 256, 1280 and 2048.
        assert_eq!([256, 512, 768, 1024].map(|room| best_fit(&blocks, room)), [2048, 1280, 256, 2560]);
        assert_eq!(best_fit(&[], 256), 0);
    }

    #[test]
    fn empty_plans_and_huge_blocks_are_no_trouble() {
        assert_eq!(ArenaPlan::new().layout().peak_bytes(), 0);
        let mut plan = ArenaPlan::new();
        plan.add("nothing", 0, 0, 0).add("too much", usize::MAX, 0, 0).add("more", usize::MAX, 0, 1);
        assert!(plan.layout().peak_bytes() > usize::MAX / 2);
    }

    #[test]
    #[should_panic(expected = "two blocks named `x`")]
    fn names_are_unique() {
        ArenaPlan::new().add("x", 1, 0, 0).add("x", 1, 1, 1);
    }

    #[test]
    #[should_panic(expected = "before its first use at 2")]
    fn lifetimes_go_forwards() {
        ArenaPlan::new().add("x", 1, 2, 1);
    }
}
