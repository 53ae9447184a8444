//! Exchanges the gradients of one backward pass on the CPU between the ranks.

use super::{Bucket, Pending, Ranks, plan_buckets};
use crate::network::Network;
use crate::train::TrainError;
use warpbook_ranks::Reduce;

/// The buckets of a network, and the buckets in transit.
#[derive(Debug)]
pub(in crate::train) struct Exchange {
    ranks: Ranks,
    buckets: Vec<Bucket>,
    /// For each operation of the network, the number of buckets that are ready after its backward pass.
    ready: Vec<usize>,
    sent: Vec<Pending<Vec<f32>>>,
    /// Arrays of earlier steps, for reuse.
    spare: Vec<Vec<f32>>,
}

impl Exchange {
    pub fn new(ranks: &Ranks, network: &Network) -> Self {
        let options = ranks.options();
        let buckets = plan_buckets(network, &vec![options.wire.bytes(); network.params().len()], options.bucket_bytes);
        let last_of = |bucket: &Bucket| {
            let is_in = |node: &crate::network::Node| node.params.iter().any(|id| bucket.params.contains(id));
            network.nodes().iter().position(is_in).unwrap_or(0)
        };
        let firsts: Vec<usize> = buckets.iter().map(last_of).collect();
        let ready =
            (0..network.nodes().len()).map(|node| firsts.iter().filter(|first| **first >= node).count()).collect();
        Self { ranks: ranks.clone(), buckets, ready, sent: Vec::new(), spare: Vec::new() }
    }

    /// Sends the buckets that are ready after an operation's backward pass.
    pub fn after(&mut self, node: usize, gradients: &[Vec<f32>]) {
        while self.sent.len() < self.ready[node] {
            let bucket = &self.buckets[self.sent.len()];
            let mut values = self.spare.pop().unwrap_or_default();
            values.clear();
            values.reserve(bucket.len);
            bucket.params.iter().for_each(|id| values.extend_from_slice(&gradients[*id]));
            let wire = self.ranks.options().wire;
            let name = format!("bucket {} all-reduce", self.sent.len() + 1);
            self.sent.push(self.ranks.queue_named(&name, move |ranks| {
                ranks.all_reduce(&mut values, Reduce::Sum, wire)?;
                Ok(values)
            }));
        }
    }

    /// Waits for the sums, and stores them in place of this rank's gradients.
    ///
    /// # Errors
    /// If a rank is lost.
    pub fn finish(&mut self, gradients: &mut [Vec<f32>]) -> Result<(), TrainError> {
        debug_assert_eq!(self.sent.len(), self.buckets.len());
        for (bucket, pending) in self.buckets.iter().zip(self.sent.drain(..)) {
            let values = pending.wait()?;
            let mut rest = &values[..];
            for id in &bucket.params {
                let (own, after) = rest.split_at(gradients[*id].len());
                gradients[*id].copy_from_slice(own);
                rest = after;
            }
            self.spare.push(values);
        }
        Ok(())
    }

    /// Drops everything in transit after an error.
    pub fn give_up(&mut self) {
        self.sent.clear();
    }
}
