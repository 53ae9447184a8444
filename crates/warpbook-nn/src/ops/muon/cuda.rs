//! Muon on a GPU: all filters of a group in a few launches. X, A and B are bf16, padded with zeros to multiples of 64; momentum,
//! direction and weights are f32.

use super::{Muon, OP, launch};
use crate::ops::error::{Check, Result as OpResult};
use std::ops::Range;
use warpbook_device::{CudaDevice, Kernel, Result, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::load;
use warpbook_record::{Dim, Dtype};

/// Rows and columns of a block's tile.
const TILE: usize = 64;
/// Number of 32-bit words of the struct `Filter` in `kernels/nn/muon.cu`.
const FILTER_WORDS: usize = 16;

/// The position of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterPlace {
    /// The filter's range in the weights, their gradients and the momentum.
    pub at: Range<usize>,
    /// The filter's rows, which are the filters of the convolution.
    pub out: usize,
}

/// Arrays that a step reads and writes, for all parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MuonArrays<'a> {
    /// The struct `Step` of `kernels/nn/step.cuh`, `[1]`.
    pub step: &'a Slice<u32>,
    /// Training counters, `[4]`.
    pub counters: &'a Slice<u32>,
    /// Learning rates, `[slots][groups]`.
    pub rates: &'a Slice<f32>,
    /// Settings of the groups, `[groups][4]`.
    pub numbers: &'a Slice<f32>,
    pub groups: u32,
    pub weights: &'a Slice<f32>,
    pub gradients: &'a Slice<f32>,
    pub momentum: &'a Slice<f32>,
    pub copy: Option<&'a DeviceArray>,
}

/// The filters of a group: their table, and the workspace of the iteration.
#[derive(Debug, Clone)]
pub(crate) struct Filters {
    muon: Muon,
    dtype: Dtype,
    kernels: [Kernel; 4],
    table: Slice<u32>,
    blocks: MuonBlocks,
    /// End of the last filter in the weights.
    end: usize,
    directions: Slice<f32>,
    /// Partial sums of squares, `[chunks][2]`.
    partial: Slice<f64>,
    /// Two copies each of X and its transpose, and A and B; bf16, two numbers per word.
    work: Slice<u32>,
    /// Factor by which each filter is rescaled, `[filters]`.
    factors: Slice<f32>,
}

/// Numbers of blocks of the launches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MuonBlocks {
    /// Number of blocks of the element-wise kernels.
    pub chunks: u32,
    /// Number of blocks that compute the matrices A and B.
    pub square: u32,
    /// Number of blocks that compute the matrix X.
    pub whole: u32,
}

/// Returns the table of filters, the numbers of blocks, and the lengths of directions and workspace.
fn table(places: &[FilterPlace], group: usize, chunk: usize) -> OpResult<(Vec<u32>, MuonBlocks, [usize; 2])> {
    let check = Check(OP);
    let (mut words, mut blocks) = (Vec::with_capacity(places.len() * FILTER_WORDS), MuonBlocks::default());
    let (mut directions, mut work) = (0, 0);
    let word = |n: usize| check.word("a place of a filter", n);
    for place in places {
        let columns = place.at.len().checked_div(place.out).unwrap_or(0);
        check.positive(&[("out", place.out), ("columns", columns)])?;
        check.lengths(&[("a filter", place.at.len(), &[place.out, columns])])?;
        let [rows, across] = [place.out.min(columns), place.out.max(columns)].map(|n| n.next_multiple_of(TILE));
        let mut take = |len: usize| {
            work += len;
            word(work - len)
        };
        let arrays = [take(rows * across)?, take(rows * across)?, take(rows * across)?, take(rows * across)?];
        let squares = [take(rows * rows)?, take(rows * rows)?];
        let chunks = word(place.at.len().div_ceil(chunk))?;
        words.extend([word(place.at.start)?, word(directions)?, word(place.out)?, word(columns)?]);
        words.extend([word(rows)?, word(across)?, u32::from(place.out > columns)]);
        words.extend(arrays.into_iter().chain(squares));
        words.extend([word(group)?, blocks.chunks, chunks]);
        directions += place.at.len();
        blocks.chunks += chunks;
        blocks.square += word((rows / TILE).pow(2))?;
        blocks.whole += word(rows / TILE * (across / TILE))?;
    }
    word(work)?;
    Ok((words, blocks, [directions, work]))
}

impl Filters {
    /// Compiles and loads the kernels, and allocates the workspace of these filters; there must be at least one filter. `group` is the index of their rule.
    ///
    /// # Errors
    /// If a setting is out of range, there are no filters, a filter is empty or does not consist of whole rows, or a position needs more than 32
    /// bits; if compiling fails, memory runs out, or the driver reports an error.
    pub fn new(device: &CudaDevice, muon: Muon, group: usize, places: &[FilterPlace], dtype: Dtype) -> Result<Self> {
        muon.check()?;
        Check(OP).positive(&[("the number of filters", places.len())])?;
        let kernels = load(device, warpbook_kernels::nn::muon(dtype))?;
        let tile = kernels[0].tile();
        let chunk = (tile.size(Dim::Threads) * tile.size(Dim::Items)) as usize;
        let (words, blocks, [directions, work]) = table(places, group, chunk)?;
        Ok(Self {
            muon,
            dtype,
            kernels,
            table: device.buffer_from(&words)?.range(..),
            blocks,
            end: places.iter().map(|p| p.at.end).max().unwrap_or(0),
            directions: device.zeros(directions)?.range(..),
            partial: device.zeros(2 * blocks.chunks as usize)?.range(..),
            work: device.zeros(work / 2)?.range(..),
            factors: device.zeros(places.len())?.range(..),
        })
    }

    /// Queues one step of the filters with the numbers in `step`, which the kernel `prepare` has written.
    ///
    /// # Errors
    /// If an array has the wrong length or type; if a launch fails.
    pub fn step(&self, stream: &Stream, a: MuonArrays<'_>) -> Result<()> {
        let (check, n) = (Check(OP), a.weights.len());
        check.value("the weights", n, n >= self.end, "as many as the filters have")?;
        check.value(
            "the gradients in f32",
            a.gradients.len(),
            a.gradients.len() >= self.end,
            "those of the filters",
        )?;
        check.lengths(&[
            ("the momentum", a.momentum.len(), &[n]),
            ("the counters", a.counters.len(), &[4]),
            ("the numbers", a.numbers.len(), &[a.groups as usize, 4]),
        ])?;
        if let Some(copy) = a.copy {
            check.arrays(self.dtype, &[("the copy", copy, &[n])])?;
        }
        let [direction, start, product, update] = &self.kernels;
        launch::direction(direction, stream, (&self.table, self.blocks), a, (&self.directions, &self.partial))?;
        let directions = (&self.directions, &self.partial);
        let workspace = (&self.work, &self.factors);
        launch::start(start, stream, (&self.table, self.blocks), (a.step, directions), self.muon, workspace)?;
        for iteration in 0..self.muon.steps {
            for what in launch::Product::ALL {
                launch::product(product, stream, (&self.table, self.blocks), a.step, (what, iteration), &self.work)?;
            }
        }
        launch::update(update, stream, (&self.table, self.blocks), a, self.muon.steps, workspace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_place_for_every_array() {
        let places =
            [FilterPlace { at: 64..64 + 24 * 100, out: 24 }, FilterPlace { at: 4096..4096 + 200 * 70, out: 200 }];
        let (words, blocks, [directions, work]) = table(&places, 3, 2048).unwrap();
        assert_eq!((words.len(), directions), (2 * FILTER_WORDS, 2400 + 14_000));
        // 24 x 100 becomes 64 x 128; 200 x 70 is transposed to 70 x 200, padded to 128 x 256.
        let (first, second) = (4 * 64 * 128 + 2 * 64 * 64, 4 * 128 * 256 + 2 * 128 * 128);
        assert_eq!(work, first + second);
        let xs = [0, 8192, 16_384, 24_576, 32_768, 36_864];
        assert_eq!(words[..7], [64, 0, 24, 100, 64, 128, 0]);
        assert_eq!((&words[7..13], &words[13..16]), (&xs[..], &[3, 0, 2][..]));
        assert_eq!(words[16..24], [4096, 2400, 200, 70, 128, 256, 1, first as u32]);
        assert_eq!(words[29..], [3, 2, 7]);
        assert_eq!(blocks, MuonBlocks { chunks: 9, square: 1 + 4, whole: 2 + 8 });
        assert!(
            table(&[FilterPlace { at: 0..7, out: 2 }], 0, 2048).is_err()
                && table(&[FilterPlace { at: 0..7, out: 0 }], 0, 9).is_err()
        );
    }

    #[test]
    fn the_table_is_the_kernel_s() {
        let [direction, ..] = warpbook_kernels::nn::muon(Dtype::F16);
        let text = &direction.source;
        assert!(text.contains(&format!("sizeof(Filter) == {}", 4 * FILTER_WORDS)));
        assert!(text.contains(&format!("TILE = {TILE};")));
        for c in super::super::COEFFICIENTS {
            assert!(text.contains(&format!("{c:.4}f")), "{c}");
        }
    }
}
