//! CUDA implementation, and the sum of a batch's block losses, which all losses use.
#![allow(unsafe_code)]

use super::{CrossEntropy, OP};
use crate::ops::error::Check;
use crate::ops::error::one;
use crate::ops::step_launch::Verdict;
use warpbook_device::{CudaDevice, Kernel, KernelArg, Result, Slice, Stream};
use warpbook_gemm::DeviceArray;
use warpbook_gemm::kernel_args::{load, optional, optional_array};
use warpbook_record::Dtype;

/// Device memory for the losses of steps; the host does not read it between steps.
#[derive(Debug, Clone, Copy)]
pub struct LossSlots<'a> {
    /// Next slot, `[1]`. A step whose slot is out of range writes nothing.
    pub slot: &'a Slice<u32>,
    /// Mean losses, not multiplied by the loss scale, `[slots]`.
    pub losses: &'a Slice<f64>,
    /// Number of rows whose largest logit belongs to the label, `[slots]`.
    pub correct: Option<&'a Slice<u32>>,
}

impl LossSlots<'_> {
    /// Checks the lengths and returns the number of slots.
    pub(crate) fn check(&self, op: Check) -> Result<u32> {
        one(op, "the slot", Some(self.slot))?;
        if let Some(correct) = self.correct {
            op.lengths(&[("correct", correct.len(), &[self.losses.len()])])?;
        }
        Ok(op.word("slots", self.losses.len())?)
    }
}

/// The kernel that adds up block losses.
#[derive(Debug, Clone)]
pub(crate) enum LossSum {
    Kernel(Box<MeanKernel>),
    /// The last block of the loss kernel adds up the losses; the counter of arrived blocks is 0 between launches.
    LastBlock(Slice<u32>),
}

/// The kernel that adds up block losses.
#[derive(Debug, Clone)]
pub(crate) struct MeanKernel(Kernel);

impl MeanKernel {
    pub fn new(device: &CudaDevice) -> Result<Self> {
        let [kernel] = load(device, [warpbook_kernels::nn::mean_loss()])?;
        Ok(Self(kernel))
    }

    /// Queues `losses[slot]` = the sum of `partial` over `count`, `correct[slot]` = the sum of `hits`.
    ///
    /// # Errors
    /// If an array has the wrong length, or there are 2^32 or more blocks or slots; if the launch fails.
    pub fn queue(
        &self,
        stream: &Stream,
        op: Check,
        partial: &Slice<f64>,
        hits: Option<&Slice<u32>>,
        count: usize,
        to: LossSlots<'_>,
    ) -> Result<()> {
        let m = op.word("blocks", partial.len())?;
        if let Some(hits) = hits {
            op.lengths(&[("hits", hits.len(), &[partial.len()])])?;
        }
        let slots = to.check(op)?;
        // Without hits the counts would be zeros.
        let correct = to.correct.filter(|_| hits.is_some());
        let count = count as f64;
        let args: [&dyn KernelArg; 8] =
            [partial, optional(hits), &m, &count, to.slot, to.losses, optional(correct), &slots];
        // SAFETY: the arguments match `mean_loss(partial, hits, m, count, slot, losses, correct, slots)`; lengths were checked.
        unsafe { self.0.launch(stream, self.0.shape(1), &args) }
    }
}

/// The kernels of the cross entropy, loaded for one type of logits.
#[derive(Debug, Clone)]
pub struct LossKernels {
    dtype: Dtype,
    rows: Kernel,
    mean: LossSum,
}

/// Rows per block, one warp each.
const ROWS: usize = 8;

/// Results of the blocks, from which the mean is computed.
#[derive(Debug, Clone, Copy)]
pub struct LossWorkspace<'a> {
    /// Losses: [`LossKernels::blocks`] elements.
    pub losses: &'a Slice<f64>,
    /// Number of correct rows: [`LossKernels::blocks`] elements.
    pub hits: &'a Slice<u32>,
}

impl LossKernels {
    /// Compiles and loads the kernels.
    ///
    /// # Errors
    /// If compiling fails or the device reports an error.
    pub fn new(device: &CudaDevice, dtype: Dtype) -> Result<Self> {
        let [rows] = load(device, [warpbook_kernels::nn::cross_entropy(dtype)])?;
        Ok(Self { dtype, rows, mean: LossSum::Kernel(MeanKernel::new(device)?.into()) })
    }

    /// Like [`LossKernels::new`], but with one kernel whose last block computes the mean. All launches must be on one stream, because they share
    /// the counter of blocks.
    ///
    /// # Errors
    /// See [`LossKernels::new`].
    pub fn with_last_block(device: &CudaDevice, dtype: Dtype) -> Result<Self> {
        let [rows] = load(device, [warpbook_kernels::nn::cross_entropy_last(dtype)])?;
        Ok(Self { dtype, rows, mean: LossSum::LastBlock(device.zeros(1)?.range(..)) })
    }

    /// Returns the number of elements of each array of the workspace.
    #[must_use]
    pub fn blocks(batch: usize) -> usize {
        batch.div_ceil(ROWS)
    }

    /// Queues the mean loss into its slot and, if requested, the gradient of the logits times the loss scale, `[1]` or 1. A label outside
    /// `classes` makes the loss NaN.
    ///
    /// # Errors
    /// If a size is zero, a setting is out of range, an array has the wrong length or type; if a launch fails.
    pub fn loss_and_gradient(
        &self,
        stream: &Stream,
        c: &CrossEntropy,
        (logits, labels): (&DeviceArray, &Slice<u8>),
        loss_scale: Option<&Slice<f32>>,
        dlogits: Option<&DeviceArray>,
        slots: (LossWorkspace<'_>, LossSlots<'_>),
    ) -> Result<()> {
        self.loss_and_verdict(stream, c, (logits, labels), (loss_scale, 1.0, dlogits), slots, &Verdict::none())
    }

    /// Like [`LossKernels::loss_and_gradient`], but multiplies the gradient by `share`. If the kernel has a last block, that block also writes
    /// the step's [`Verdict`].
    pub(crate) fn loss_and_verdict(
        &self,
        stream: &Stream,
        c: &CrossEntropy,
        (logits, labels): (&DeviceArray, &Slice<u8>),
        (loss_scale, share, dlogits): (Option<&Slice<f32>>, f64, Option<&DeviceArray>),
        (workspace, to): (LossWorkspace<'_>, LossSlots<'_>),
        verdict: &Verdict,
    ) -> Result<()> {
        let check = Check(OP);
        c.check_settings()?;
        let shape: &[usize] = &[c.batch, c.classes];
        check.arrays(self.dtype, &[("logits", logits, shape), ("dlogits", dlogits.unwrap_or(logits), shape)])?;
        let blocks = Self::blocks(c.batch);
        check.lengths(&[
            ("labels", labels.len(), &[c.batch]),
            ("the workspace's losses", workspace.losses.len(), &[blocks]),
            ("the workspace's hits", workspace.hits.len(), &[blocks]),
        ])?;
        one(check, "the loss scale", loss_scale)?;
        let (batch, classes) = (check.word("the batch", c.batch)?, check.word("classes", c.classes)?);
        // The gradient is a mean over this number of rows, which includes the rows of all ranks.
        let rows = (c.batch as f64 / share) as f32;
        let mut args: Vec<&dyn KernelArg> = vec![
            logits.bytes(),
            labels,
            &batch,
            &classes,
            &c.smoothing,
            &rows,
            optional(loss_scale),
            optional_array(dlogits),
            workspace.losses,
            workspace.hits,
        ];
        let shape = self.rows.shape(32 * c.batch as u64);
        match &self.mean {
            LossSum::Kernel(mean) => {
                // SAFETY: the arguments match `cross_entropy(logits, labels, batch, classes, smoothing, rows, loss_scale, dlogits, partial, hits)`. Each row
                // has one warp, and each block of 256 threads has ROWS rows; the types and lengths were checked.
                unsafe { self.rows.launch(stream, shape, &args) }?;
                mean.queue(stream, check, workspace.losses, Some(workspace.hits), c.batch, to)
            }
            LossSum::LastBlock(arrived) => {
                let (slots, count) = (to.check(check)?, c.batch as f64);
                args.extend([arrived as &dyn KernelArg, &count, to.slot, to.losses, optional(to.correct), &slots]);
                args.push(verdict);
                // SAFETY: `cross_entropy_last` has the parameters of `cross_entropy`, followed by (arrived, count, slot, losses, correct, slots, verdict). The
                // grid is the same, and only this kernel uses `arrived`.
                unsafe { self.rows.launch(stream, shape, &args) }
            }
        }
    }
}
