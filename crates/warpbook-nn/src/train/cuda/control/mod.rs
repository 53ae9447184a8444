//! Values in device memory that change from step to step, and results that the host reads for many steps at once.

mod launch;

use super::params::Statistics;
use crate::ops::cross_entropy::cuda::LossSlots;
use crate::ops::optimizer::cuda::STEP_WORDS;
use crate::ops::step_launch::{End, Scaler, StepEndArrays};
use crate::train::{GradScaler, ScalerState, StepOutcome};
use warpbook_device::{CudaDevice, Kernel, Result, Slice};
use warpbook_gemm::kernel_args::load;

/// Number of steps made before the host reads their outcomes.
pub(in crate::train) const SLOTS: usize = 128;

/// Counters, rates and rings, and the kernels that advance them.
#[derive(Debug, Clone)]
pub(super) struct StepControl {
    pub(super) start: Kernel,
    pub(super) judge: Kernel,
    pub(super) finish: Kernel,
    pub(super) loss_of_parts: Kernel,
    /// The four counters: position in the order, step, slot, and a flag for a halted training.
    pub(super) counters: Slice<u32>,
    pub(super) rates: Slice<f64>,
    /// Order of the samples of the coming steps, `[SLOTS * batch]`.
    pub(super) order: Slice<u32>,
    /// Indices of the batch's samples.
    pub indices: Slice<u32>,
    /// Labels of the batch's samples.
    pub labels: Slice<u8>,
    pub(super) losses: Slice<f64>,
    pub(super) correct: Slice<u32>,
    pub(super) skipped: Slice<u32>,
    pub(super) scales: Slice<f32>,
    pub(super) norms: Slice<f64>,
    /// Learning rate, and number of updates so far.
    pub rate_and_updates: Slice<f64>,
    /// Numbers that the next update uses.
    pub update: Slice<u32>,
    /// Nonzero if the weights stay unchanged.
    pub found: Slice<u32>,
    /// Nonzero if the norm is not finite.
    pub overflow: Slice<u32>,
    pub norm: Slice<f64>,
    pub clip: Slice<f32>,
    pub scale: Slice<f32>,
    pub(super) grown: Slice<u32>,
    /// Index of each part of a batch, `[parts]`; `part_losses` and `part_correct` are the loss and the number of correct samples of each part.
    part_numbers: Slice<u32>,
    pub(super) part_losses: Slice<f64>,
    pub(super) part_correct: Slice<u32>,
}

impl StepControl {
    /// Allocates for batches of at most this many samples, in at most this many parts.
    ///
    /// # Errors
    /// If compiling fails, memory runs out, or the driver reports an error.
    pub fn new(device: &CudaDevice, batch: usize, parts: usize) -> Result<Self> {
        let [start, judge, finish, loss_of_parts] = load(device, warpbook_kernels::nn::step())?;
        let words = |len: usize| Ok::<_, warpbook_device::Error>(device.zeros::<u32>(len)?.range(..));
        let floats = |len: usize| Ok::<_, warpbook_device::Error>(device.zeros::<f32>(len)?.range(..));
        let doubles = |len: usize| Ok::<_, warpbook_device::Error>(device.zeros::<f64>(len)?.range(..));
        Ok(Self {
            start,
            judge,
            finish,
            loss_of_parts,
            counters: words(4)?,
            rates: doubles(SLOTS)?,
            order: words(SLOTS * batch)?,
            indices: words(batch)?,
            labels: device.zeros::<u8>(batch)?.range(..),
            losses: doubles(SLOTS)?,
            correct: words(SLOTS)?,
            skipped: words(SLOTS)?,
            scales: floats(SLOTS)?,
            norms: doubles(SLOTS)?,
            rate_and_updates: doubles(2)?,
            update: words(STEP_WORDS)?,
            found: words(1)?,
            overflow: words(1)?,
            norm: doubles(1)?,
            clip: floats(1)?,
            scale: floats(1)?,
            grown: words(1)?,
            part_numbers: device.buffer_from(&(0..parts as u32).collect::<Vec<_>>())?.range(..),
            part_losses: doubles(parts)?,
            part_correct: words(parts)?,
        })
    }

    /// Writes the inputs of the next steps, at most `SLOTS`; the device must be idle.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn begin(&self, order: &[u32], rates: &[f64], step: u64) -> Result<()> {
        self.counters.write(&[0, step as u32, 0, 0])?;
        if !rates.is_empty() {
            self.rates.range(..rates.len()).write(rates)?;
        }
        self.order.range(..order.len()).write(order)
    }

    /// Returns the index of the training step.
    pub fn step(&self) -> Slice<u32> {
        self.counters.range(1..2)
    }

    /// Returns the slots for the losses of steps.
    pub fn loss_slots(&self) -> (Slice<u32>, Slice<f64>, Slice<u32>) {
        (self.counters.range(2..3), self.losses.clone(), self.correct.clone())
    }

    /// Returns the slot for the loss of a part of a batch.
    pub fn part_slots(&self, part: usize) -> (Slice<u32>, Slice<f64>, Slice<u32>) {
        (self.part_numbers.range(part..=part), self.part_losses.clone(), self.part_correct.clone())
    }

    /// Returns the end of a step of `n` samples.
    pub fn end(&self, n: usize, what: StepEnd<'_>) -> End {
        let s = what.scaler.copied().unwrap_or_default();
        let scaler =
            Scaler { growth: s.growth_factor, backoff: s.backoff_factor, interval: s.growth_interval, unused: 0 };
        End::new(StepEndArrays {
            samples: [n, self.order.len()].map(|size| u32::try_from(size).unwrap_or(u32::MAX)),
            scaler,
            counters: &self.counters,
            found: what.trains.then_some(&self.found),
            scale: what.scaler.map(|_| (&self.scale, &self.grown)),
            norm: what.norm_is_computed.then_some(&self.norm),
            skipped: &self.skipped,
            scales: &self.scales,
            norms: &self.norms,
        })
    }

    /// Returns the outcomes of `count` steps. The caller has waited for the stream.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn outcomes(&self, count: usize, what: StepEnd<'_>) -> Result<Vec<StepOutcome>> {
        let (losses, correct, skipped) = (self.losses.to_vec()?, self.correct.to_vec()?, self.skipped.to_vec()?);
        let (scales, norms) = (self.scales.to_vec()?, self.norms.to_vec()?);
        let outcome_of = |i: usize| StepOutcome {
            loss: losses[i],
            correct: correct[i] as usize,
            skipped: skipped[i] != 0,
            loss_scale: what.scaler.map(|_| scales[i]),
            gradient_norm: what.norm_is_computed.then_some(norms[i]),
        };
        Ok((0..count).map(outcome_of).collect())
    }

    /// Returns the number of updates so far.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn updates(&self) -> Result<u64> {
        Ok(self.rate_and_updates.to_vec()?[1] as u64)
    }

    /// Sets the number of updates so far, and the loss scale.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn restore(&self, updates: u64, scaler: ScalerState) -> Result<()> {
        self.rate_and_updates.write(&[0.0, updates as f64])?;
        self.scale.write(&[scaler.scale])?;
        self.grown.write(&[scaler.steps])
    }

    /// Reads the loss scale.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn scaler(&self) -> Result<ScalerState> {
        Ok(ScalerState { scale: self.scale.to_vec()?[0], steps: self.grown.to_vec()?[0] })
    }
}

/// Settings for the beginning of a step or of a part of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start<'a> {
    /// Position of the step's or part's first sample in the batch.
    pub first: usize,
    /// True if the step gets a learning rate; otherwise it is an evaluation.
    pub trains: bool,
    /// Running statistics, if the step changes them.
    pub statistics: Option<&'a Statistics>,
}

/// Settings for the end of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepEnd<'a> {
    /// True if the step updated the weights; false for an evaluation.
    pub trains: bool,
    pub norm_is_computed: bool,
    pub scaler: Option<&'a GradScaler>,
}

/// Returns the slots of a loss in the form that the loss kernels use.
pub(super) fn slots<'a>((slot, losses, correct): &'a (Slice<u32>, Slice<f64>, Slice<u32>)) -> LossSlots<'a> {
    LossSlots { slot, losses, correct: Some(correct) }
}
