//! The launches of a step's bookkeeping.
#![allow(unsafe_code)]

use super::control::{Control, SLOTS, Start, StepEnd};
use crate::ops::device::optional;
use std::ffi::c_void;
use warpbook_device::{DevicePtr, KernelArg, Result, Slice, Stream};

/// `Scaler` of `kernels/nn/step.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct ScalerArgs {
    growth: f32,
    backoff: f32,
    interval: u32,
    unused: u32,
}

// SAFETY: the layout is that of the kernel's struct: two floats and two words.
unsafe impl KernelArg for ScalerArgs {
    fn as_arg(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

impl Control {
    /// Queues the choice of a batch's samples.
    pub fn queue_start(&self, stream: &Stream, n: usize, labels: Option<&Slice<u8>>, what: Start<'_>) -> Result<()> {
        let statistics = what.statistics.map_or(0, |s| s.running.len());
        assert!(what.statistics.is_none_or(|s| s.before.len() == statistics), "as many statistics on both sides");
        let words = [self.order.len(), labels.map_or(0, Slice::len), n, statistics];
        let [count, samples, n, statistics] = words.map(|size| u32::try_from(size).unwrap_or(u32::MAX));
        assert!(n as usize <= self.indices.len(), "a batch is at most as large as was said");
        let control: &dyn KernelArg = if what.trains { &self.rate_and_updates } else { &DevicePtr::NULL };
        let [running, before] = [what.statistics.map(|s| &s.running), what.statistics.map(|s| &s.before)];
        let args: [&dyn KernelArg; 13] = [
            &self.counters,
            &self.rates,
            control,
            &self.order,
            &count,
            optional(labels),
            &samples,
            &n,
            &self.indices,
            &self.labels,
            optional(running),
            optional(before),
            &statistics,
        ];
        // SAFETY: start_step(counters, rates, control, order, count, labels, samples, n, indices, batch_labels, running, before, statistics);
        // the arrays are made by `new` for batches of at least n samples, and the statistics' lengths were checked.
        unsafe { self.start.launch(stream, self.start.shape(n.into()), &args) }
    }

    /// Queues the decision whether the step changes the weights.
    pub fn queue_judge(&self, stream: &Stream, norm_is_computed: bool) -> Result<()> {
        let overflow = optional(norm_is_computed.then_some(&self.overflow));
        let args: [&dyn KernelArg; 4] = [&self.counters, &self.losses, overflow, &self.found];
        // SAFETY: judge_step(counters, losses, overflow, found), made by `new`.
        unsafe { self.judge.launch(stream, self.judge.shape(1), &args) }
    }

    /// Queues the end of a step: the scaler's update, the rings, the counters.
    pub fn queue_end(&self, stream: &Stream, n: usize, what: StepEnd<'_>) -> Result<()> {
        let s = what.scaler.copied().unwrap_or_default();
        let scaler =
            ScalerArgs { growth: s.growth_factor, backoff: s.backoff_factor, interval: s.growth_interval, unused: 0 };
        let [n, count, slots] = [n, self.order.len(), SLOTS].map(|size| u32::try_from(size).unwrap_or(u32::MAX));
        let found = optional(what.trains.then_some(&self.found));
        let [scale, grown]: [&dyn KernelArg; 2] = match what.scaler {
            Some(_) => [&self.scale, &self.grown],
            None => [&DevicePtr::NULL, &DevicePtr::NULL],
        };
        let norm = optional(what.norm_is_computed.then_some(&self.norm));
        let args: [&dyn KernelArg; 12] = [
            &n,
            &count,
            &scaler,
            &self.counters,
            found,
            scale,
            grown,
            norm,
            &slots,
            &self.skipped,
            &self.scales,
            &self.norms,
        ];
        // SAFETY: finish_step(n, count, scaler, counters, found, scale, grown, norm, slots, skipped, scales, norms), made by `new`.
        unsafe { self.finish.launch(stream, self.finish.shape(1), &args) }
    }
}
