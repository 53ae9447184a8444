//! The sizes of operations for a batch.

use super::{Network, Node, Op};
use crate::ops::batch_norm::BatchNorm;
use crate::ops::{conv2d, linear, pool};

impl Network {
    /// Returns the sizes of a convolution for a batch; for other operations, the sizes of a 1 x 1 convolution with one
    /// filter.
    #[must_use]
    pub fn conv_geometry(&self, node: &Node, batch: usize) -> conv2d::Geometry {
        let [channels, height, width] = self.value(node.input).sides();
        let (filters, kernel, stride, padding) = match node.op {
            Op::Conv2d(c) => (c.filters, c.kernel, c.stride, c.padding),
            _ => (1, [1; 2], [1; 2], [0; 2]),
        };
        conv2d::Geometry { batch, height, width, channels, filters, kernel, stride, padding }
    }

    /// Returns the sizes of a pool for a batch; for other operations, the sizes of a pool with windows of one element.
    #[must_use]
    pub fn pool_geometry(&self, node: &Node, batch: usize) -> pool::PoolGeometry {
        let [channels, height, width] = self.value(node.input).sides();
        let (size, stride, padding) = match node.op {
            Op::Pool(p) => (p.size, p.stride, p.padding),
            _ => ([1; 2], [1; 2], [0; 2]),
        };
        pool::PoolGeometry { batch, height, width, channels, size, stride, padding }
    }

    /// Returns the sizes of a linear layer for a batch.
    #[must_use]
    pub fn linear_sizes(&self, node: &Node, batch: usize) -> linear::Sizes {
        let [inputs, outputs] = [node.input, node.output].map(|v| self.value(v).elements());
        linear::Sizes { batch, inputs, outputs }
    }

    /// Sizes and settings of a batch normalisation; PyTorch's settings for other operations.
    #[must_use]
    pub fn batch_norm_sizes(&self, node: &Node, batch: usize) -> BatchNorm {
        let input = self.value(node.input);
        let sizes = BatchNorm::new(batch * input.positions(), input.channels());
        match node.op {
            Op::BatchNorm { momentum, epsilon, .. } => BatchNorm { momentum, epsilon, ..sizes },
            _ => sizes,
        }
    }
}
