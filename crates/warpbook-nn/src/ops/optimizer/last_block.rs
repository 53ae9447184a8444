//! The CUDA body whose kernels' last blocks do what follows: the step's verdict after the norm, the end of the step after the update.

use super::cuda::{Control, NormOutputs, Parameters, check};
use super::{OP, Optimizer, launch};
use crate::gemm::DeviceArray;
use crate::ops::device::{load, one};
use crate::ops::error::Check;
use crate::ops::step_launch::{End, Settings, Verdict};
use warpbook_device::{CudaDevice, Kernel, Result, Slice, Stream};
use warpbook_kernels::nn;
use warpbook_record::{Dim, Dtype};

/// The update, whose last block ends the step. Its launches are on one stream: they share the counter of blocks.
#[derive(Debug, Clone)]
pub(crate) struct UpdateAndEnd {
    optimizer: Optimizer,
    dtype: Dtype,
    update: Kernel,
    /// Blocks that have arrived: 0 between launches.
    arrived: Slice<u32>,
}

impl UpdateAndEnd {
    pub fn new(device: &CudaDevice, optimizer: Optimizer, dtype: Dtype) -> Result<Self> {
        optimizer.check()?;
        let [update] = load(device, [optimizer.among(nn::updates_last(dtype))])?;
        Ok(Self { optimizer, dtype, update, arrived: device.zeros(1)?.range(..) })
    }

    /// One step of all parameters by the numbers in `control.step`, which a [`Verdict`] has written, and the end of the step.
    pub fn step(&self, stream: &Stream, p: Parameters<'_>, control: Control<'_>, end: &End) -> Result<()> {
        check(&self.optimizer, self.dtype, p, control)?;
        let settings = Settings::of(&self.optimizer);
        launch::update_and_end(&self.update, stream, (&settings, control.step), p, (&self.arrived, end))
    }
}

/// The norm of the gradients of both types, whose last block decides the step. Its launches are on one stream, as the update's.
#[derive(Debug, Clone)]
pub(crate) struct NormAndVerdict {
    dtype: Dtype,
    squares: Kernel,
    /// Blocks that have arrived: 0 between launches.
    arrived: Slice<u32>,
}

impl NormAndVerdict {
    /// `dtype` is that of the rounded gradients.
    pub fn new(device: &CudaDevice, dtype: Dtype) -> Result<Self> {
        let [squares] = load(device, [nn::sum_squares_last(dtype)])?;
        Ok(Self { dtype, squares, arrived: device.zeros(1)?.range(..) })
    }

    /// Elements of the workspace for so many gradients in f32, and so many rounded ones.
    pub fn blocks(&self, lengths: [usize; 2]) -> usize {
        let tile = self.squares.tile();
        blocks((tile.size(Dim::Threads) * tile.size(Dim::Items)) as usize, lengths)
    }

    /// The norm of all gradients, its factor for `max_norm` (infinity for no clipping), whether it is finite, and the step's verdict.
    pub fn queue(
        &self,
        stream: &Stream,
        (exact, rounded): (&Slice<f32>, Option<&DeviceArray>),
        (max_norm, loss_scale): (f64, Option<&Slice<f32>>),
        workspace: &Slice<f64>,
        (to, verdict): (NormOutputs<'_>, &Verdict),
    ) -> Result<()> {
        let check = Check(OP);
        check.value("the largest norm", max_norm, max_norm > 0.0, "above 0")?;
        if let Some(rounded) = rounded {
            check.arrays(self.dtype, &[("the rounded gradients", rounded, &[rounded.len()])])?;
        }
        let needed = self.blocks([exact.len(), rounded.map_or(0, DeviceArray::len)]);
        check.lengths(&[("the workspace", workspace.len(), &[needed])])?;
        check.word("blocks", needed)?;
        one(check, "the loss scale", loss_scale)?;
        one(check, "the norm", Some(to.norm))?;
        one(check, "the clip factor", Some(to.clip))?;
        one(check, "found", Some(to.found))?;
        let arrays = (workspace, &self.arrived);
        launch::norm_and_verdict(&self.squares, stream, (exact, rounded), arrays, (max_norm, loss_scale), (to, verdict))
    }
}

/// Blocks of a launch over arrays of these lengths, so many elements a block; no block has elements of two arrays.
fn blocks(of_block: usize, lengths: [usize; 2]) -> usize {
    lengths.map(|n| n.div_ceil(of_block)).iter().sum::<usize>().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_kernels::over_items;

    /// The sums of the blocks are the same numbers in the same order as those of a launch an array.
    #[test]
    fn both_arrays_have_the_blocks_that_launches_of_their_own_have() {
        let [squares, _] = nn::norm(Dtype::F16);
        let last = nn::sum_squares_last(Dtype::F16);
        assert_eq!(squares.tiles, last.tiles);
        let alone = |n: usize| if n == 0 { 0 } else { over_items(&squares, &squares.tiles[0], n as u64, 132).grid[0] };
        for lengths in [[1, 0], [0, 1], [4096, 4096], [4097, 1], [20_000, 1_180_000], [0, 0]] {
            let expect = lengths.map(alone).iter().sum::<u32>().max(1);
            assert_eq!(blocks(4096, lengths), expect as usize, "{lengths:?}");
        }
    }
}
