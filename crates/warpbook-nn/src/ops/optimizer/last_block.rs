//! Optimiser steps on a GPU in which a kernel's last block does the follow-up work: after the norm, it decides about the step; after the update, it ends the
//! step.

use super::cuda::{Control, NormOutputs, Parameters, blocks, check};
use super::{OP, Optimizer, launch};
use crate::ops::error::Check;
use crate::ops::error::one;
use crate::ops::step_launch::{End, Settings, Verdict};
use warpbook_device::{CudaDevice, Kernel, Result, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::load;
use warpbook_kernels::nn;
use warpbook_record::Dtype;

/// The update whose last block ends the step. All launches must be on one stream, because they share the counter of blocks.
#[derive(Debug, Clone)]
pub(crate) struct UpdateAndEnd {
    optimizer: Optimizer,
    dtype: Dtype,
    update: Kernel,
    /// Number of arrived blocks: 0 between launches.
    arrived: Slice<u32>,
}

impl UpdateAndEnd {
    pub fn new(device: &CudaDevice, optimizer: Optimizer, dtype: Dtype) -> Result<Self> {
        optimizer.check()?;
        let [update] = load(device, [optimizer.among(nn::updates_last(dtype))])?;
        Ok(Self { optimizer, dtype, update, arrived: device.zeros(1)?.range(..) })
    }

    /// Queues one step of all parameters with the numbers in `control.step`, which a [`Verdict`] has written, and the end of the step.
    ///
    /// # Errors
    /// If an array has the wrong length or type, or `state` the wrong number of arrays; if rounded gradients do not begin at a multiple of 4;
    /// if the launch fails.
    pub fn step(&self, stream: &Stream, p: Parameters<'_>, control: Control<'_>, end: &End) -> Result<()> {
        check(&self.optimizer, self.dtype, p, control)?;
        let settings = Settings::new(&self.optimizer);
        launch::update_and_end(&self.update, stream, (&settings, control.step), p, (&self.arrived, end))
    }

    /// Loads the kernel that can revert this update.
    ///
    /// # Errors
    /// If compiling fails or the driver reports an error.
    pub fn restore(&self, device: &CudaDevice) -> Result<Restore> {
        let [restore] = load(device, [nn::restore(self.dtype)])?;
        Ok(Restore { optimizer: self.optimizer, dtype: self.dtype, restore })
    }

    /// Loads the update of some parameters; [`UpdateAndEnd::step`] then updates the others.
    ///
    /// # Errors
    /// If compiling fails or the driver reports an error.
    pub fn partial(&self, device: &CudaDevice) -> Result<PartialUpdate> {
        let [update] = load(device, [self.optimizer.among(nn::updates(self.dtype))])?;
        Ok(PartialUpdate { optimizer: self.optimizer, dtype: self.dtype, update })
    }
}

/// An update of some parameters that does not end the step.
#[derive(Debug, Clone)]
pub(crate) struct PartialUpdate {
    optimizer: Optimizer,
    dtype: Dtype,
    update: Kernel,
}

impl PartialUpdate {
    /// Queues the update with the numbers in `control.step`, like [`UpdateAndEnd::step`].
    ///
    /// # Errors
    /// See [`UpdateAndEnd::step`].
    pub fn step(&self, stream: &Stream, p: Parameters<'_>, control: Control<'_>) -> Result<()> {
        check(&self.optimizer, self.dtype, p, control)?;
        launch::update(&self.update, stream, &Settings::new(&self.optimizer), control.step, p)
    }
}

/// Reverts the update of some parameters that was made before all gradients of its step were known.
#[derive(Debug, Clone)]
pub(crate) struct Restore {
    optimizer: Optimizer,
    dtype: Dtype,
    restore: Kernel,
}

impl Restore {
    /// Saves weights and state before the update: `kept` is `[1 + state arrays][n]`.
    ///
    /// # Errors
    /// If an array has the wrong length or type, or `state` the wrong number of arrays; if the driver reports an error.
    pub fn save(&self, stream: &Stream, p: Parameters<'_>, kept: &Slice<f32>) -> Result<()> {
        let n = self.check(p, kept)?;
        let all = std::iter::once(p.weights).chain(p.state);
        all.enumerate().try_for_each(|(i, array)| stream.copy(array, &kept.range(i * n..(i + 1) * n)))
    }

    /// Restores the saved values if `control.found` marks the step as skipped. If the loss stopped the step, the update changed nothing, so
    /// nothing is restored; the training's `counters`, `[4]`, tell whether it did.
    ///
    /// # Errors
    /// If an array has the wrong length or type, or `state` the wrong number of arrays; if the launch fails.
    pub fn queue(
        &self,
        stream: &Stream,
        (counters, control): (&Slice<u32>, Control<'_>),
        p: Parameters<'_>,
        kept: &Slice<f32>,
    ) -> Result<()> {
        self.check(p, kept)?;
        let (check, Some(found)) = (Check(OP), control.found) else { return Ok(()) };
        one(check, "found", Some(found))?;
        check.lengths(&[("the counters", counters.len(), &[4])])?;
        launch::restore(&self.restore, stream, (found, counters), kept, p)
    }

    fn check(&self, p: Parameters<'_>, kept: &Slice<f32>) -> Result<usize> {
        let (check, n, slots) = (Check(OP), p.weights.len(), self.optimizer.state_slots());
        check.lengths(&[("what is kept", kept.len(), &[1 + slots, n])])?;
        check.value("the number of state arrays", p.state.len(), p.state.len() == slots, "as many as are kept")?;
        p.state.iter().try_for_each(|s| check.lengths(&[("a state array", s.len(), &[n])]))?;
        if let Some(copy) = p.copy {
            check.arrays(self.dtype, &[("the copy", copy, &[n])])?;
        }
        Ok(n)
    }
}

/// The norm of the gradients of both types, whose last block decides whether the step changes the weights. All launches must be on one stream,
/// as for the update.
#[derive(Debug, Clone)]
pub(crate) struct NormAndVerdict {
    dtype: Dtype,
    squares: Kernel,
    /// Number of arrived blocks: 0 between launches.
    arrived: Slice<u32>,
}

impl NormAndVerdict {
    /// Compiles the kernel; `dtype` is the type of the rounded gradients.
    ///
    /// # Errors
    /// If compiling fails or the driver reports an error.
    pub fn new(device: &CudaDevice, dtype: Dtype) -> Result<Self> {
        let [squares] = load(device, [nn::sum_squares_last(dtype)])?;
        Ok(Self { dtype, squares, arrived: device.zeros(1)?.range(..) })
    }

    /// Returns the number of elements of the workspace for these numbers of f32 gradients and of rounded gradients.
    pub fn blocks(&self, lengths: [usize; 2]) -> usize {
        lengths.map(|n| blocks(&self.squares, n)).iter().sum::<usize>().max(1)
    }

    /// Loads the kernel for the sums of squares of some gradients; [`NormAndVerdict::queue`] then sums the others.
    ///
    /// # Errors
    /// If compiling fails or the driver reports an error.
    pub fn partial(&self, device: &CudaDevice) -> Result<PartialSquares> {
        let [[exact, _], [rounded, _]] = [Dtype::F32, self.dtype].map(nn::norm);
        let [exact, rounded] = load(device, [exact, rounded])?;
        Ok(PartialSquares { dtype: self.dtype, exact, rounded })
    }

    /// Queues the norm of all gradients, the clipping factor for `max_norm` (infinity for no clipping), the test whether the norm is
    /// finite, and the step's verdict. The workspace may contain sums of other gradients after the [`NormAndVerdict::blocks`] sums of these
    /// gradients; they are then part of the norm, too.
    ///
    /// # Errors
    /// If `max_norm` is not above 0, an array has the wrong length or type, or the workspace has fewer elements than there are blocks, or 2^32
    /// or more; if the launch fails.
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
        check.value("elements of the workspace", workspace.len(), workspace.len() >= needed, "one for each block")?;
        check.word("elements of the workspace", workspace.len())?;
        let blocks = check.word("blocks", needed)?;
        one(check, "the loss scale", loss_scale)?;
        one(check, "the norm", Some(to.norm))?;
        one(check, "the clip factor", Some(to.clip))?;
        one(check, "found", Some(to.found))?;
        let arrays = (workspace, blocks, &self.arrived);
        launch::norm_and_verdict(&self.squares, stream, (exact, rounded), arrays, (max_norm, loss_scale), (to, verdict))
    }
}

/// Sums of the squares of some gradients, for the norm of all gradients.
#[derive(Debug, Clone)]
pub(crate) struct PartialSquares {
    dtype: Dtype,
    exact: Kernel,
    rounded: Kernel,
}

impl PartialSquares {
    /// Returns the number of sums for these numbers of f32 gradients and of rounded gradients.
    pub fn blocks(&self, lengths: [usize; 2]) -> usize {
        blocks(&self.exact, lengths[0]) + blocks(&self.rounded, lengths[1])
    }

    /// Queues the sums of squares.
    ///
    /// # Errors
    /// If an array has the wrong length or type; if a launch fails.
    pub fn queue(
        &self,
        stream: &Stream,
        (exact, rounded): (&Slice<f32>, Option<&DeviceArray>),
        sums: &Slice<f64>,
    ) -> Result<()> {
        let check = Check(OP);
        if let Some(rounded) = rounded {
            check.arrays(self.dtype, &[("the rounded gradients", rounded, &[rounded.len()])])?;
        }
        let needed = self.blocks([exact.len(), rounded.map_or(0, DeviceArray::len)]);
        check.lengths(&[("the sums", sums.len(), &[needed])])?;
        let exact: DeviceArray = exact.into();
        let mut first = 0;
        for (kernel, array) in [(&self.exact, Some(&exact)), (&self.rounded, rounded)] {
            let Some(array) = array.filter(|array| !array.is_empty()) else { continue };
            let end = first + blocks(kernel, array.len());
            launch::squares(kernel, stream, array, array.len() as u64, &sums.range(first..end))?;
            first = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use warpbook_kernels::nn;
    use warpbook_record::Dtype;

    /// The block sums are the same numbers in the same order as with one launch per array, and there are not too many of them.
    #[test]
    fn both_arrays_have_the_parts_that_separate_launches_have() {
        let [squares, _] = nn::norm(Dtype::F16);
        let last = nn::sum_squares_last(Dtype::F16);
        assert_eq!(squares.tiles, last.tiles);
        for (n, expect) in
            [(0, 0), (1, 1), (4096, 1), (4097, 2), (4_194_304, 1024), (16_777_217, 4096), (50_331_648, 4096)]
        {
            assert_eq!(nn::norm_blocks(&last.tiles[0], n), expect, "{n}");
        }
    }
}
