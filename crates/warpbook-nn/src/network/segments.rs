//! Segments of a network for gradient checkpointing (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", arXiv:1604.06174).

use super::{Network, NetworkError, Op, ValueId};
use std::ops::Range;

impl Network {
    /// Returns this network with gradient checkpointing: training keeps only the activations at the borders of this many segments. The
    /// others are computed again in the backward pass, which costs up to one more forward pass and changes no bit of losses, gradients and
    /// weights. Segments have about equal numbers of activations; with about sqrt(layers) segments of equal layers, memory grows with
    /// sqrt(layers). 1 segment keeps all activations, which is the default.
    ///
    /// A segment begins at a convolution, a linear layer, a batch normalisation or a custom layer, so that epilogues and in-place
    /// operations stay inside one segment. Values that a later segment's residual connection adds are kept.
    ///
    /// # Errors
    /// If there are 0 segments, or more segments than operations where a segment can begin.
    pub fn checkpointed(mut self, segments: usize) -> Result<Self, NetworkError> {
        let begins = |op: &Op| matches!(op, Op::Conv2d(_) | Op::Linear { .. } | Op::BatchNorm { .. } | Op::Own);
        let places: Vec<usize> = (1..self.nodes.len()).filter(|i| begins(&self.nodes[*i].op)).collect();
        let most = places.len() + 1;
        if !(1..=most).contains(&segments) {
            return Err(NetworkError(format!(
                "This network can be checkpointed in 1 to {most} segments, not {segments}: a segment begins at a convolution, a linear layer, a \
                 batch normalisation or a layer of your own."
            )));
        }
        // The number of activations before each operation.
        let sizes = self.nodes.iter().map(|node| self.values[node.output].elements());
        let before: Vec<usize> = std::iter::once(0)
            .chain(sizes.scan(0usize, |sum, n| {
                *sum = sum.saturating_add(n);
                Some(*sum)
            }))
            .collect();
        let total = before.last().map_or(0, |sum| *sum as u128);
        self.cuts.clear();
        let mut next = 0;
        for k in 1..segments {
            let target = (total * k as u128 / segments as u128) as usize;
            // Leaves enough places for the remaining cuts.
            let candidates = next..places.len() - (segments - 1 - k);
            next = candidates.min_by_key(|i| before[places[*i]].abs_diff(target)).unwrap_or(next);
            self.cuts.push(places[next]);
            next += 1;
        }
        Ok(self)
    }

    /// Returns the operations of each segment, in order; a single segment without checkpointing.
    #[must_use]
    pub fn segments(&self) -> Vec<Range<usize>> {
        let firsts = std::iter::once(0).chain(self.cuts.iter().copied());
        let ends = self.cuts.iter().copied().chain([self.nodes.len()]);
        firsts.zip(ends).map(|(first, end)| first..end).collect()
    }

    /// Returns the segment of each operation.
    fn segment_of(&self) -> Vec<usize> {
        self.segments().into_iter().enumerate().flat_map(|(s, range)| range.map(move |_| s)).collect()
    }

    /// Returns, for each buffer, true if its values are recomputed: only operations of one segment use the buffer, and that segment is not the last.
    /// `buffer` gives the buffer of each value.
    pub(crate) fn recomputed(&self, buffer: &[ValueId]) -> Vec<bool> {
        let segment = self.segment_of();
        let last = self.cuts.len();
        let mut user = vec![None; self.values.len()];
        let mut recomputed = vec![true; self.values.len()];
        for (i, node) in self.nodes.iter().enumerate() {
            let other = if let Op::Add(other) = node.op { Some(other) } else { None };
            for value in other.into_iter().chain([node.input, node.output]) {
                let b = buffer[value];
                recomputed[b] &= segment[i] != last && *user[b].get_or_insert(segment[i]) == segment[i];
            }
        }
        recomputed[buffer[0]] = false;
        (0..self.values.len()).map(|value| recomputed[value] && buffer[value] == value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;

    #[test]
    fn segments_have_about_equal_activations() {
        let layers = (0..16).flat_map(|_| [conv2d(4, 3).padding(1), relu()]);
        let network = Network::new([4, 8, 8], layers).unwrap();
        assert_eq!(network.segments(), vec![0..32; 1]);
        assert_eq!(network.clone().checkpointed(4).unwrap().segments(), [0..8, 8..16, 16..24, 24..32]);
        assert_eq!(network.clone().checkpointed(16).unwrap().segments().len(), 16);
        assert_eq!(network.clone().checkpointed(3).unwrap().checkpointed(1).unwrap(), network);
        for segments in [0, 17] {
            let why = network.clone().checkpointed(segments).unwrap_err().to_string();
            assert!(why.contains("1 to 16 segments") && why.contains(&format!("not {segments}")), "{why}");
        }
    }

    #[test]
    fn what_crosses_a_border_is_kept() {
        let conv = || conv2d(4, 3).padding(1);
        let layers = [conv(), relu(), residual([conv(), gelu(), conv(), gelu()]), conv(), flatten(), linear(2)];
        let network = Network::new([4, 6, 6], layers).unwrap();
        let all: Vec<usize> = (0..network.values().len()).collect();
        assert!(network.recomputed(&all).iter().all(|recomputed| !recomputed));
        // Segments: conv1, relu1 | conv2, gelu1 | conv3, gelu2, residual1 | conv4, flatten1 | fc1
        let network = network.checkpointed(5).unwrap();
        assert_eq!(network.segments(), [0..2, 2..4, 4..7, 7..9, 9..10]);
        let recomputed = network.recomputed(&all);
        let kept: Vec<usize> = all.into_iter().filter(|v| !recomputed[*v]).collect();
        assert_eq!(kept, [0, 2, 4, 7, 9, 10], "the input, what relu1, gelu1, residual1, flatten1 and fc1 write");
    }
}
