//! Sizes of a layer's arrays for a batch.

use super::{Blocks, OwnLayer};
use crate::network::Shape;
use warpbook_kernels::nn::Layout;

/// Sizes of a layer's arrays for a batch, and the memory layout of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnSizes {
    /// Number of samples.
    pub batch: usize,
    /// Shape of a sample of x.
    pub input: Shape,
    /// Shape of a sample of y.
    pub output: Shape,
    /// Memory layout of images; NHWC on the CPU.
    pub layout: Layout,
}

/// Returns the index of an element in an array of samples of this shape.
fn element(shape: Shape, layout: Layout, [n, c, row, column]: [usize; 4]) -> usize {
    let [channels, height, width] = shape.sides();
    match layout {
        Layout::Nhwc => ((n * height + row) * width + column) * channels + c,
        Layout::Nchw => ((n * channels + c) * height + row) * width + column,
    }
}

impl OwnSizes {
    /// Returns the sizes of a layer for a batch of inputs of this shape.
    #[must_use]
    pub fn new(layer: &OwnLayer, input: Shape, batch: usize, layout: Layout) -> Self {
        Self { batch, input, output: layer.output_of(input), layout }
    }

    /// Returns the index in x and dx of the element with this sample, channel, row and column.
    #[must_use]
    pub fn index(&self, n: usize, channel: usize, row: usize, column: usize) -> usize {
        element(self.input, self.layout, [n, channel, row, column])
    }

    /// Returns the index in y and dy of the element with this sample, channel, row and column.
    #[must_use]
    pub fn out_index(&self, n: usize, channel: usize, row: usize, column: usize) -> usize {
        element(self.output, self.layout, [n, channel, row, column])
    }

    /// Returns the number of elements of x.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.batch * self.input.elements()
    }

    /// Returns the number of elements of y.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.batch * self.output.elements()
    }

    /// Returns the number of blocks of a backward pass that each write a share of the parameters' gradients, which is also the number of rows of
    /// those arrays; 1 if there is nothing to add.
    #[must_use]
    pub fn gradient_blocks(&self, layer: &OwnLayer) -> usize {
        match layer.0.blocks {
            Blocks::PerElement => self.inputs().div_ceil(layer.0.threads.max(1) as usize),
            Blocks::PerSample => self.batch,
            Blocks::PerChannel => 1,
        }
    }

    /// Returns the range of each parameter's rows in one f32 array that holds all of them, starting at multiples of 64 elements, and the array's
    /// length. Empty if the kernels write the gradients themselves.
    pub(crate) fn shares(&self, layer: &OwnLayer) -> (Vec<std::ops::Range<usize>>, usize) {
        let rows = self.gradient_blocks(layer);
        let mut end = 0usize;
        if rows == 1 {
            return (Vec::new(), 0);
        }
        let range = |p: &super::OwnParameter| {
            let first = end.next_multiple_of(64);
            end = first + rows.saturating_mul(p.len());
            first..end
        };
        let ranges = layer.parameters().iter().map(range).collect();
        (ranges, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_lie_where_the_layout_says() {
        let layer = OwnLayer::new("a", "x").output(5);
        let sizes_in = |layout| OwnSizes::new(&layer, [2, 3, 4].into(), 6, layout);
        let (nhwc, nchw) = (sizes_in(Layout::Nhwc), sizes_in(Layout::Nchw));
        assert_eq!((nhwc.index(1, 1, 2, 3), nchw.index(1, 1, 2, 3)), (24 + 23, 24 + 23), "the last of a sample");
        assert_eq!((nhwc.index(0, 1, 0, 2), nchw.index(0, 1, 0, 2)), (5, 14));
        assert_eq!((nhwc.out_index(2, 3, 0, 0), nchw.out_index(2, 3, 0, 0)), (13, 13));
        assert_eq!((nhwc.inputs(), nhwc.outputs()), (144, 30));
    }

    #[test]
    fn shares_are_rows_of_blocks() {
        let layer = OwnLayer::new("a", "x").parameter("w", [3], 0.0).parameter("b", [1], 0.0).threads(32);
        let sizes = |layer: &OwnLayer| OwnSizes::new(layer, 10.into(), 7, Layout::Nhwc);
        assert_eq!(sizes(&layer).shares(&layer), (vec![0..9, 64..67], 67));
        let by_sample = layer.clone().one_block_a_sample();
        assert_eq!(sizes(&by_sample).shares(&by_sample), (vec![0..21, 64..71], 71));
        let by_channel = layer.one_block_a_channel();
        assert_eq!(
            (sizes(&by_channel).gradient_blocks(&by_channel), sizes(&by_channel).shares(&by_channel)),
            (1, (vec![], 0))
        );
    }
}
