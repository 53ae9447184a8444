//! Divides the samples of a global batch among the ranks.

use std::ops::Range;

/// A rank's part of a global batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shard {
    /// Index of the shard's first sample in the global batch.
    pub first: usize,
    /// Number of samples in the shard; 0 if the batch has fewer samples than there are ranks.
    pub len: usize,
    /// Number of samples in the global batch.
    pub global: usize,
}

impl Shard {
    /// Returns the range of the shard's samples in the global batch.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.first..self.first + self.len
    }

    /// Returns the weight of the shard's mean in the mean over the global batch.
    #[must_use]
    pub fn weight(&self) -> f64 {
        self.len as f64 / self.global.max(1) as f64
    }
}

/// Returns a rank's part of a batch of `global` samples. The parts are consecutive and in rank order, and their lengths
/// differ by at most one.
#[must_use]
pub fn shard(global: usize, rank: usize, world: usize) -> Shard {
    let begin = |rank: usize| global * rank / world.max(1);
    Shard { first: begin(rank), len: begin(rank + 1) - begin(rank), global }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shards_are_disjoint_and_cover_the_batch(global in 0usize..5000, world in 1usize..70) {
            let all: Vec<Shard> = (0..world).map(|rank| shard(global, rank, world)).collect();
            let covered: Vec<usize> = all.iter().flat_map(Shard::range).collect();
            prop_assert_eq!(covered, (0..global).collect::<Vec<_>>());
            let (least, most) = (all.iter().map(|s| s.len).min().unwrap(), all.iter().map(|s| s.len).max().unwrap());
            prop_assert!(most - least <= 1);
            let whole: f64 = all.iter().map(Shard::weight).sum();
            prop_assert!(global == 0 || (whole - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn an_epoch_is_covered_once_by_all_ranks() {
        // With batches of 16 out of 103 samples, the last batch has 7 samples for 8 ranks.
        let (samples, batch, world) = (103usize, 16, 8);
        let mut seen = vec![0; samples];
        for first in (0..samples).step_by(batch) {
            let global = batch.min(samples - first);
            (0..world).flat_map(|rank| shard(global, rank, world).range()).for_each(|at| seen[first + at] += 1);
        }
        assert!(seen.iter().all(|count| *count == 1), "{seen:?}");
        assert_eq!((0..world).filter(|rank| shard(7, *rank, world).len == 0).count(), 1);
    }
}
