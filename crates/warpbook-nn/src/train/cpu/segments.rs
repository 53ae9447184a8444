//! Passes segment by segment: see [`crate::network::Network::checkpointed`].

use super::{CpuEngine, KeptValues, Mode};
use crate::network::Network;
use crate::train::TrainError;
use std::mem::take;
use std::ops::Range;
use tracing::trace_span;

/// Returns, for each value, true if it is recomputed.
pub(super) fn recomputed(network: &Network) -> Vec<bool> {
    network.recomputed(&(0..network.values().len()).collect::<Vec<_>>())
}

/// Returns the numbers of floats per sample: of the values that are always kept, and of the largest segment's inner values.
pub(super) fn value_floats(network: &Network) -> [usize; 2] {
    let recomputed = recomputed(network);
    let len = |value: usize| network.value(value).elements();
    let kept = (0..recomputed.len()).filter(|v| !recomputed[*v]).map(len).fold(0, usize::saturating_add);
    let inner = |segment: Range<usize>| {
        let outputs = segment.map(|i| network.nodes()[i].output);
        outputs.filter(|v| recomputed[*v]).map(len).fold(0, usize::saturating_add)
    };
    [kept, network.segments().into_iter().map(inner).max().unwrap_or(0)]
}

impl CpuEngine {
    /// Returns the recomputed values that a segment's operations write.
    fn inner(&self, segment: &Range<usize>) -> Vec<usize> {
        segment.clone().map(|i| self.network.nodes()[i].output).filter(|v| self.recomputed[*v]).collect()
    }

    /// Allocates a segment's inner values, and optionally their gradients.
    pub(super) fn open(&mut self, segment: &Range<usize>, with_gradients: bool) {
        for value in self.inner(segment) {
            let len = self.network.value(value).elements() * self.batch;
            self.values[value].resize(len, 0.0);
            if with_gradients {
                self.value_gradients[value].resize(len, 0.0);
            }
        }
        self.most_bytes = self.most_bytes.max(self.held_bytes());
    }

    /// Frees a segment's inner values and their gradients.
    pub(super) fn close(&mut self, segment: &Range<usize>) {
        for value in self.inner(segment) {
            drop((take(&mut self.values[value]), take(&mut self.value_gradients[value])));
        }
    }

    /// Runs the forward pass of a segment's operations; `is_first` is true for the step's first run, which updates the running
    /// statistics.
    pub(super) fn forward_segment(
        &mut self,
        segment: &Range<usize>,
        n: usize,
        is_first: bool,
    ) -> Result<(), TrainError> {
        for i in segment.clone() {
            let node = self.network.nodes()[i].clone();
            if !is_first && !self.recomputed[node.output] {
                continue;
            }
            // Takes y out, so that the other values can be read while it is written.
            let mut y = take(&mut self.values[node.output]);
            let mut kept = std::mem::replace(&mut self.kept[i], KeptValues::Nothing);
            let span = match is_first {
                true => trace_span!("forward", operation = &*node.name),
                false => trace_span!("forward again", operation = &*node.name),
            };
            let done = span.in_scope(|| self.node_forward(&node, n, &mut y, &mut kept, is_first));
            (self.values[node.output], self.kept[i]) = (y, kept);
            done?;
        }
        Ok(())
    }

    /// Returns the name of the first operation of the last training step with an output that is not finite; recomputes values that were not kept.
    pub(crate) fn find_first_not_finite(&mut self, n: usize) -> Result<Option<String>, TrainError> {
        // The other ranks do not take part in the search.
        let norm = self.part.norm.take();
        let found = self.find(n);
        self.part.norm = norm;
        found
    }

    fn find(&mut self, n: usize) -> Result<Option<String>, TrainError> {
        for segment in self.network.segments() {
            self.open(&segment, false);
            let found = self.forward_segment(&segment, n, self.mode == Mode::Inference).map(|()| {
                let nodes = &self.network.nodes()[segment.clone()];
                nodes.iter().find(|node| self.is_not_finite(node, n)).map(|node| node.name.clone())
            });
            self.close(&segment);
            if let Some(name) = found? {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }
}
