//! The mean squared error on a GPU.
#![allow(unsafe_code)]

use super::{OP, check};
use crate::ops::cross_entropy::cuda::{LossSlots, LossSum, MeanKernel};
use crate::ops::error::Check;
use crate::ops::error::one;
use crate::ops::step_launch::Verdict;
use warpbook_device::{CudaDevice, Kernel, KernelArg, Result, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::{load, optional, optional_array};
use warpbook_record::Dtype;

/// The kernels of the mean squared error, loaded for one type of outputs.
#[derive(Debug, Clone)]
pub struct SquaredErrorKernels {
    dtype: Dtype,
    squares: Kernel,
    mean: LossSum,
}

impl SquaredErrorKernels {
    /// Compiles and loads the kernels.
    ///
    /// # Errors
    /// If compiling fails or the device reports an error.
    pub fn new(device: &CudaDevice, dtype: Dtype) -> Result<Self> {
        let [squares] = load(device, [warpbook_kernels::nn::mse(dtype)])?;
        Ok(Self { dtype, squares, mean: LossSum::Kernel(MeanKernel::new(device)?.into()) })
    }

    /// Like [`SquaredErrorKernels::new`], but with one kernel whose last block computes the mean. All launches must be on one stream, because
    /// they share the counter of blocks.
    ///
    /// # Errors
    /// See [`SquaredErrorKernels::new`].
    pub fn with_last_block(device: &CudaDevice, dtype: Dtype) -> Result<Self> {
        let [squares] = load(device, [warpbook_kernels::nn::mse_last(dtype)])?;
        Ok(Self { dtype, squares, mean: LossSum::LastBlock(device.zeros(1)?.range(..)) })
    }

    /// Returns the number of elements of the workspace for `n` outputs.
    #[must_use]
    pub fn blocks(&self, n: usize) -> usize {
        self.squares.shape(n as u64).grid[0] as usize
    }

    /// Queues the mean of (output - target)^2 into its slot and, if requested, its gradient times the loss scale, `[1]` or 1. The targets
    /// are f32.
    ///
    /// # Errors
    /// If there are no elements, the arrays differ in length or have the wrong type; if a launch fails.
    pub fn loss_and_gradient(
        &self,
        stream: &Stream,
        (output, target): (&DeviceArray, &Slice<f32>),
        loss_scale: Option<&Slice<f32>>,
        doutput: Option<&DeviceArray>,
        slots: (&Slice<f64>, LossSlots<'_>),
    ) -> Result<()> {
        self.loss_and_verdict(stream, (output, target), (loss_scale, 1.0, doutput), slots, &Verdict::none())
    }

    /// Like [`SquaredErrorKernels::loss_and_gradient`], but multiplies the gradient by `share`. If the kernel's last block to
    /// finish does the final sums, it also writes whether the step's numbers are finite.
    pub(crate) fn loss_and_verdict(
        &self,
        stream: &Stream,
        (output, target): (&DeviceArray, &Slice<f32>),
        (loss_scale, share, doutput): (Option<&Slice<f32>>, f64, Option<&DeviceArray>),
        (workspace, to): (&Slice<f64>, LossSlots<'_>),
        verdict: &Verdict,
    ) -> Result<()> {
        let n = output.len();
        let written = doutput.unwrap_or(output);
        check(n, target.len(), written.len())?;
        Check(OP).arrays(self.dtype, &[("the output", output, &[n]), ("doutput", written, &[n])])?;
        Check(OP).lengths(&[("the workspace", workspace.len(), &[self.blocks(n)])])?;
        one(Check(OP), "the loss scale", loss_scale)?;
        let (items, factor) = (n as u64, (2.0 * share / n as f64) as f32);
        let scale = optional(loss_scale);
        let mut args: Vec<&dyn KernelArg> =
            vec![output.bytes(), target, &items, &factor, scale, optional_array(doutput), workspace];
        let shape = self.squares.shape(items);
        match &self.mean {
            LossSum::Kernel(mean) => {
                // SAFETY: the arguments match `mse(output, target, n, factor, loss_scale, doutput, partial)`. The types and lengths were checked, and `partial`
                // has one element for each block of this launch.
                unsafe { self.squares.launch(stream, shape, &args) }?;
                mean.queue(stream, Check(OP), workspace, None, n, to)
            }
            LossSum::LastBlock(arrived) => {
                let (slots, count) = (to.check(Check(OP))?, n as f64);
                args.extend([arrived as &dyn KernelArg, &count, to.slot, to.losses, &slots, verdict]);
                // SAFETY: `mse_last` has the parameters of `mse`, followed by (arrived, count, slot, losses, slots, verdict), and only this kernel uses
                // `arrived`.
                unsafe { self.squares.launch(stream, shape, &args) }
            }
        }
    }
}
