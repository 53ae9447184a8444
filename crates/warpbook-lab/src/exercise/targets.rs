//! Targets of an exercise: bounds on the counts that the emulator reports, which are the same on every machine.

use super::case::Case;
use warpbook_emulator::{Counts, LineCounts};

/// A bound on the cost of a launch, such as "sectors a load, at most 4".
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The quantity that is counted, such as "sectors a load".
    pub name: &'static str,
    /// Computes the quantity from the counts of a launch.
    pub measure: fn(&Costs) -> f64,
    /// The range of counts that meet the target.
    pub bound: Bound,
    /// Id and sentence of the likely cause if the target is missed.
    pub missed: Option<(&'static str, &'static str)>,
}

/// The range of counts that meet a target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// The count must be at most this number.
    AtMost(f64),
    /// The count must be at least this number.
    AtLeast(f64),
}

impl Target {
    /// Creates a target with an upper bound.
    #[must_use]
    pub const fn at_most(name: &'static str, most: f64, measure: fn(&Costs) -> f64) -> Self {
        Self { name, measure, bound: Bound::AtMost(most), missed: None }
    }

    /// Creates a target with a lower bound.
    #[must_use]
    pub const fn at_least(name: &'static str, least: f64, measure: fn(&Costs) -> f64) -> Self {
        Self { name, measure, bound: Bound::AtLeast(least), missed: None }
    }

    /// Sets the id and the sentence of the likely cause if the target is missed.
    #[must_use]
    pub const fn because(self, id: &'static str, sentence: &'static str) -> Self {
        Self { missed: Some((id, sentence)), ..self }
    }

    /// Returns true if a count meets the target. NaN never does.
    #[must_use]
    pub fn is_met(&self, count: f64) -> bool {
        // Counts are ratios of integers, and rounding must not turn an exactly met bound into a miss.
        match self.bound {
            Bound::AtMost(most) => count <= most * (1.0 + 1e-9),
            Bound::AtLeast(least) => count >= least * (1.0 - 1e-9),
        }
    }
}

/// Counts of one launch at the last size of the exercise, with blocks and warps in forward order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Costs {
    /// Sum of the counts of all source lines.
    pub total: LineCounts,
    /// The number of elements that costs are divided by; see [`Case::elements`].
    pub elements: u64,
    /// Number of blocks in the grid.
    pub blocks: u64,
    /// Number of threads in the grid.
    pub threads: u64,
    /// Number of threads in a block.
    pub block_threads: u64,
    /// Maximum number of shuffles that a single warp executed.
    pub warp_shuffles: u64,
    /// Maximum number of barriers that a single block passed.
    pub block_barriers: u64,
    /// Actual and conflict-free wavefronts of shared memory, in the source line with the largest ratio of the two.
    pub worst_wavefronts: (u64, u64),
}

#[allow(clippy::cast_precision_loss)]
fn ratio(count: u64, per: u64) -> f64 {
    if per == 0 { f64::NAN } else { count as f64 / per as f64 }
}

impl Costs {
    /// Creates the costs from the counts of a launch.
    #[must_use]
    pub fn new(case: &Case, counts: &Counts) -> Self {
        let product = |sizes: [u32; 3]| sizes.iter().map(|size| u64::from(*size)).product::<u64>();
        let (blocks, block_threads) = (product(case.grid()), product(case.block()));
        let total = counts.total();
        let wavefronts = counts.lines.iter().map(|line| (line.shared_wavefronts, line.shared_ideal));
        // Compares a / b > c / d with integers.
        let worse = |(a, b): (u64, u64), (c, d): (u64, u64)| if a * d > c * b { (a, b) } else { (c, d) };
        let worst_wavefronts = wavefronts.filter(|(_, ideal)| *ideal > 0).reduce(worse).unwrap_or_default();
        Self {
            total,
            elements: case.element_count(),
            blocks,
            threads: blocks * block_threads,
            block_threads,
            warp_shuffles: counts.shuffles_of_a_warp,
            block_barriers: counts.barriers_of_a_block,
            worst_wavefronts,
        }
    }

    /// Returns the number of 32-byte sectors per request to global memory, for loads and stores together; 4 is ideal for 32 floats.
    #[must_use]
    pub fn sectors_per_request(&self) -> f64 {
        ratio(self.total.global_sectors, self.total.global_requests)
    }

    /// Returns the number of 32-byte sectors per warp load from global memory.
    #[must_use]
    pub fn sectors_per_load(&self) -> f64 {
        ratio(self.total.global_loads.sectors, self.total.global_loads.requests)
    }

    /// Returns the number of 32-byte sectors per warp store to global memory.
    #[must_use]
    pub fn sectors_per_store(&self) -> f64 {
        ratio(self.total.global_stores.sectors, self.total.global_stores.requests)
    }

    /// Returns the number of 4-byte words loaded from global memory per element: 1 if every element is read once.
    #[must_use]
    pub fn loads_per_element(&self) -> f64 {
        ratio(self.total.global_loads.bytes, 4 * self.elements)
    }

    /// Returns the number of 4-byte words stored to global memory per block: 1 if every block writes one number.
    #[must_use]
    pub fn stores_per_block(&self) -> f64 {
        ratio(self.total.global_stores.bytes, 4 * self.blocks)
    }

    /// Returns the number of 4-byte words that threads load from shared memory per multiply-add.
    #[must_use]
    pub fn shared_loads_per_multiply_add(&self) -> f64 {
        ratio(self.total.shared_words_loaded, self.total.multiply_adds)
    }

    /// Returns the number of 4-byte words that threads load from global memory per multiply-add.
    #[must_use]
    pub fn global_loads_per_multiply_add(&self) -> f64 {
        ratio(self.total.global_loads.bytes, 4 * self.total.multiply_adds)
    }

    /// Returns the maximum number of shuffles that a single warp executed.
    #[must_use]
    pub fn shuffles(&self) -> f64 {
        ratio(self.warp_shuffles, 1)
    }

    /// Returns the maximum number of barriers that a single block passed.
    #[must_use]
    pub fn barriers(&self) -> f64 {
        ratio(self.block_barriers, 1)
    }

    /// Returns the number of bytes that threads load from or store to shared memory per element: 0 for a kernel that does not use shared memory.
    #[must_use]
    pub fn shared_bytes_per_element(&self) -> f64 {
        ratio(self.total.shared_bytes, self.elements)
    }

    /// Returns the number of bytes that threads load from or store to global memory per element.
    #[must_use]
    pub fn bytes_per_element(&self) -> f64 {
        ratio(self.total.global_bytes, self.elements)
    }

    /// Returns the number of bytes in the sectors that global memory transfers per element.
    #[must_use]
    pub fn sector_bytes_per_element(&self) -> f64 {
        ratio(32 * self.total.global_sectors, self.elements)
    }

    /// Returns the mean number of active lanes per warp instruction, at most 32.
    #[must_use]
    pub fn active_lanes(&self) -> f64 {
        ratio(self.total.lanes, self.total.instructions)
    }

    /// Returns the ratio of wavefronts of shared memory to conflict-free wavefronts, in the source line with the largest ratio; 1 is ideal. It is 0 for a
    /// kernel that does not use shared memory.
    #[must_use]
    pub fn bank_conflict_ways(&self) -> f64 {
        match self.worst_wavefronts {
            (0, 0) => 0.0,
            (wavefronts, ideal) => ratio(wavefronts, ideal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_that_is_met_exactly_is_met_and_nan_is_not() {
        let target = Target::at_most("sectors a request", 4.0, Costs::sectors_per_request);
        assert!(target.is_met(4.0) && !target.is_met(4.01) && !target.is_met(f64::NAN));
        let least = Target::at_least("active lanes", 30.0, Costs::active_lanes);
        assert!(least.is_met(30.0) && !least.is_met(29.9) && !least.is_met(f64::NAN));
        assert!((target.measure)(&Costs::default()).is_nan(), "a kernel without requests is not on target");
    }

    #[test]
    fn bank_conflicts_are_those_of_the_worst_line() {
        let line =
            |shared_wavefronts, shared_ideal| LineCounts { shared_wavefronts, shared_ideal, ..LineCounts::default() };
        let ways = |lines: &[LineCounts]| {
            let counts = Counts { lines: lines.to_vec(), ..Counts::default() };
            Costs::new(&Case::new("").launch([1; 3], [32, 1, 1]), &counts).bank_conflict_ways()
        };
        assert_eq!(ways(&[line(32, 32), line(256, 8), line(0, 0), line(20, 10)]), 32.0);
        assert_eq!(ways(&[line(32, 32), line(8, 8)]), 1.0);
        assert_eq!(ways(&[line(0, 0)]), 0.0);
    }
}
