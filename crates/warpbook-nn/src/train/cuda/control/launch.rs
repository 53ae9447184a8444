//! Launches of a step's bookkeeping.
#![allow(unsafe_code)]

use super::{Start, StepControl};
use crate::ops::step_launch::End;
use warpbook_device::{DevicePtr, KernelArg, Result, Slice, Stream};
use warpbook_gemm::kernel_args::optional;

impl StepControl {
    /// Queues the choice of a batch's samples.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn queue_start(&self, stream: &Stream, n: usize, labels: Option<&Slice<u8>>, what: Start<'_>) -> Result<()> {
        let statistics = what.statistics.map_or(0, |s| s.running.len());
        assert!(what.statistics.is_none_or(|s| s.before.len() == statistics), "as many statistics on both sides");
        let words = [self.order.len(), what.first, labels.map_or(0, Slice::len), n, statistics];
        let [count, first, samples, n, statistics] = words.map(|size| u32::try_from(size).unwrap_or(u32::MAX));
        assert!(n as usize <= self.indices.len(), "a batch is at most as large as was said");
        let control: &dyn KernelArg = if what.trains { &self.rate_and_updates } else { &DevicePtr::NULL };
        let [running, before] = [what.statistics.map(|s| &s.running), what.statistics.map(|s| &s.before)];
        let args: [&dyn KernelArg; 14] = [
            &self.counters,
            &self.rates,
            control,
            &self.order,
            &count,
            &first,
            optional(labels),
            &samples,
            &n,
            &self.indices,
            &self.labels,
            optional(running),
            optional(before),
            &statistics,
        ];
        // SAFETY: the arguments match `start_step(counters, rates, control, order, count, first, labels, samples, n, indices, batch_labels, running, before,
        // statistics)`; `new` allocates the arrays for batches of at least n samples, and the lengths of the statistics were checked.
        unsafe { self.start.launch(stream, self.start.shape(n.into()), &args) }
    }

    /// Queues the decision whether the step changes the weights.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn queue_judge(&self, stream: &Stream, norm_is_computed: bool) -> Result<()> {
        let overflow = optional(norm_is_computed.then_some(&self.overflow));
        let args: [&dyn KernelArg; 4] = [&self.counters, &self.losses, overflow, &self.found];
        // SAFETY: the arguments match `judge_step(counters, losses, overflow, found)`, whose arrays `new` has allocated.
        unsafe { self.judge.launch(stream, self.judge.shape(1), &args) }
    }

    /// Queues the loss of a batch of `n` samples that was computed in `parts` parts.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn queue_loss_of_parts(&self, stream: &Stream, n: usize, parts: usize) -> Result<()> {
        assert!(parts <= self.part_losses.len() && parts <= n, "as many parts as there are slots, each with a sample");
        let [parts, n] = [parts, n].map(|size| u32::try_from(size).unwrap_or(u32::MAX));
        let args: [&dyn KernelArg; 7] =
            [&self.counters, &self.part_losses, &self.part_correct, &parts, &n, &self.losses, &self.correct];
        // SAFETY: the arguments match `loss_of_parts(counters, part_losses, part_correct, parts, n, losses, correct)`, whose arrays `new` has allocated; the
        // number of parts was checked.
        unsafe { self.loss_of_parts.launch(stream, self.loss_of_parts.shape(1), &args) }
    }

    /// Queues the end of a step: the scaler's update, the rings, the counters.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn queue_end(&self, stream: &Stream, end: &End) -> Result<()> {
        // SAFETY: the arguments match `finish_step(end)`, whose arrays `new` has allocated.
        unsafe { self.finish.launch(stream, self.finish.shape(1), &[end]) }
    }
}
