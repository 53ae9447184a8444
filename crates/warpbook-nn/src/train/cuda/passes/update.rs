//! What comes after the gradients: their norm, the step's verdict, the update, the end of the step.

use super::super::control::StepEnd;
use super::super::kernels::UpdateKernels;
use super::super::program::On;
use super::{Builder, StepParts};
use crate::gemm::DeviceArray;
use crate::ops::optimizer::cuda::{Control as UpdateControl, Norm, NormOutputs, Parameters};
use crate::ops::optimizer::grouped::GroupRates;
use crate::ops::optimizer::last_block::{NormAndVerdict, UpdateAndEnd};
use crate::ops::step_launch::{End, Verdict};
use crate::train::cuda::control::Control;
use std::ops::Range;
use warpbook_device::{Result, Slice};

/// All that an update works on.
#[derive(Clone)]
struct Updated {
    control: Control,
    weights: Slice<f32>,
    gradients: Slice<f32>,
    rounded: Option<DeviceArray>,
    state: Vec<Slice<f32>>,
    copy: Option<DeviceArray>,
    /// The largest norm that is not clipped, where gradients are.
    clip: Option<f64>,
    scale: Option<Slice<f32>>,
}

impl Updated {
    /// That of some parameters alone.
    fn of(&self, range: Range<usize>) -> Self {
        let split = self.gradients.len();
        let (exact, rounded) =
            (range.start.min(split)..range.end.min(split), range.start.max(split)..range.end.max(split));
        let rounded = rounded.start - split..rounded.end - split;
        Self {
            weights: self.weights.range(range.clone()),
            gradients: self.gradients.range(exact),
            rounded: self.rounded.as_ref().filter(|_| !rounded.is_empty()).map(|of| of.range(rounded)),
            state: self.state.iter().map(|of| of.range(range.clone())).collect(),
            copy: self.copy.as_ref().map(|of| of.range(range)),
            ..self.clone()
        }
    }

    fn parameters(&self) -> Parameters<'_> {
        Parameters {
            weights: &self.weights,
            gradients: &self.gradients,
            rounded: self.rounded.as_ref(),
            state: &self.state,
            copy: self.copy.as_ref(),
        }
    }

    fn control(&self) -> UpdateControl<'_> {
        UpdateControl {
            rate_and_steps: &self.control.rate_and_updates,
            step: &self.control.update,
            found: Some(&self.control.found),
            loss_scale: self.scale.as_ref(),
            clip: self.clip.is_some().then_some(&self.control.clip),
        }
    }

    fn norm_outputs(&self) -> NormOutputs<'_> {
        NormOutputs { norm: &self.control.norm, clip: &self.control.clip, found: &self.control.overflow }
    }

    /// Gradients in f32, and rounded ones.
    fn gradient_lengths(&self) -> [usize; 2] {
        [self.gradients.len(), self.rounded.as_ref().map_or(0, DeviceArray::len)]
    }

    fn most(&self) -> f64 {
        self.clip.unwrap_or(f64::INFINITY)
    }
}

impl Builder<'_> {
    fn updated(&self, step: StepParts<'_>) -> Updated {
        let (control, params) = (step.control.clone(), self.parts.params);
        let (gradients, rounded) = params.gradients();
        let scale = self.parts.options.scaler().map(|_| control.scale.clone());
        let (weights, state, copy) = (params.weights.clone(), params.slots.clone(), params.copy());
        Updated { control, weights, gradients, rounded, state, copy, clip: step.recipe.clip, scale }
    }

    fn computes_norm(&self, step: StepParts<'_>) -> bool {
        self.trains && self.parts.options.computes_norm(step.recipe)
    }

    fn verdict(&self, step: StepParts<'_>) -> Verdict {
        let (control, updated) = (step.control, self.updated(step));
        let overflow = self.computes_norm(step).then_some(&control.overflow);
        Verdict::of(&step.recipe.optimizer, (&control.counters, &control.losses), overflow, updated.control())
    }

    /// What the last block of the loss decides: the whole step, where no gradient can keep it from changing the weights.
    pub(super) fn verdict_of_loss(&self, step: StepParts<'_>) -> Verdict {
        let decides = self.trains && self.part.is_none() && self.parts.options.last_block && !self.computes_norm(step);
        if decides { self.verdict(step) } else { Verdict::none() }
    }

    /// What comes after the backward passes of a batch of `n` samples.
    pub(super) fn update(&mut self, step: StepParts<'_>, n: usize) -> Result<()> {
        let backward_end = self.passes.len();
        match &step.kernels.update {
            UpdateKernels::Separate { update, norm } => {
                let (update, updated) = (update.clone(), self.updated(step));
                self.by_kernels(step, norm.clone())?;
                self.push("optimiser", "", move |s| update.step(s, updated.parameters(), updated.control()));
            }
            UpdateKernels::Groups { update, rates, norm } => {
                let (update, rates, updated) = (update.clone(), rates.clone(), self.updated(step));
                self.by_kernels(step, norm.clone())?;
                self.push("optimiser", "", move |s| {
                    let rates = GroupRates { counters: &updated.control.counters, rates: &rates };
                    update.step(s, updated.parameters(), updated.control(), rates)
                });
            }
            UpdateKernels::LastBlocks { update, norm } => {
                self.by_last_blocks(step, n, (*update.clone(), norm.clone()))?
            }
        }
        // The first that needs all gradients.
        let first = self.passes[backward_end..].iter_mut().find(|pass| !matches!(pass.on, On::Reduced(_)));
        if let Some(first) = first {
            first.on = if self.links { On::All } else { On::Both };
        }
        Ok(())
    }

    /// The norm and the step's verdict, which the update comes after.
    fn by_kernels(&mut self, step: StepParts<'_>, norm: Option<Norm>) -> Result<()> {
        let (updated, computes_norm) = (self.updated(step), norm.is_some());
        if let Some(norm) = norm {
            let of = updated;
            let arrays: Vec<DeviceArray> = std::iter::once((&of.gradients).into()).chain(of.rounded.clone()).collect();
            let lengths: Vec<usize> = arrays.iter().map(DeviceArray::len).collect();
            let workspace = self.parts.device.zeros::<f64>(norm.blocks(&lengths))?.range(..);
            self.push("norm of the gradients", "", move |s| {
                norm.queue(s, &arrays, of.most(), of.scale.as_ref(), &workspace, of.norm_outputs())
            });
        }
        let judge = step.control.clone();
        self.push("check", "", move |s| judge.queue_judge(s, computes_norm));
        Ok(())
    }

    fn by_last_blocks(
        &mut self,
        step: StepParts<'_>,
        n: usize,
        (update, norm): (UpdateAndEnd, Option<NormAndVerdict>),
    ) -> Result<()> {
        let (mut updated, verdict, end) = (self.updated(step), self.verdict(step), self.end(step, n));
        // Where all gradients have to be seen first, they are updated together.
        match norm {
            Some(norm) => self.norm_as_reduced(&updated, verdict, norm)?,
            None => {
                let left = self.update_what_is_ready(&updated, &update)?;
                updated = updated.of(0..left);
            }
        }
        self.push("optimiser", "", move |s| update.step(s, updated.parameters(), updated.control(), &end));
        Ok(())
    }

    /// The norm and the step's verdict: squares are added up bucket by bucket, next to later reductions.
    fn norm_as_reduced(&mut self, updated: &Updated, verdict: Verdict, norm: NormAndVerdict) -> Result<()> {
        let (ready, left) = self.take_ready(updated.weights.len());
        let (of, some) = (updated.of(0..left), norm.of_some(self.parts.device)?);
        let ready: Vec<_> = ready.into_iter().map(|(reduction, range)| (reduction, updated.of(range))).collect();
        let blocks: Vec<usize> = ready.iter().map(|(_, of)| some.blocks(of.gradient_lengths())).collect();
        let mut first = norm.blocks(of.gradient_lengths());
        let workspace = self.parts.device.zeros::<f64>(first + blocks.iter().sum::<usize>())?.range(..);
        for ((reduction, of), blocks) in ready.into_iter().zip(blocks) {
            let (some, sums) = (some.clone(), workspace.range(first..first + blocks));
            first += blocks;
            self.push("norm of the gradients,", &format!("bucket {}", reduction + 1), move |s| {
                some.queue(s, (&of.gradients, of.rounded.as_ref()), &sums)
            });
            self.last_on(On::Reduced(reduction));
        }
        self.push("norm of the gradients", "", move |s| {
            let (arrays, to) = ((&of.gradients, of.rounded.as_ref()), (of.norm_outputs(), &verdict));
            norm.queue(s, arrays, (of.most(), of.scale.as_ref()), &workspace, to)
        });
        Ok(())
    }

    /// The reductions before the last one and the parameters that they make ready, those at the end first, and how many parameters are left: the first
    /// ones. None is ready before the end where a batch is taken in parts.
    fn take_ready(&mut self, parameters: usize) -> (Vec<(usize, Range<usize>)>, usize) {
        let mut left = parameters;
        let ready = if self.part.is_none() { std::mem::take(&mut self.ready) } else { Vec::new() };
        let all = ready.into_iter().enumerate().filter_map(|(reduction, range)| {
            let range = range.filter(|range| !range.is_empty() && range.end == left)?;
            left = range.start;
            Some((reduction, range))
        });
        (all.collect(), left)
    }

    /// Updates the parameters whose reductions come before the last one, each when it has been made, and says how many are left: the first ones.
    fn update_what_is_ready(&mut self, updated: &Updated, update: &UpdateAndEnd) -> Result<usize> {
        let (ready, left) = self.take_ready(updated.weights.len());
        for (reduction, range) in ready {
            let (of, update) = (updated.of(range), update.of_some(self.parts.device)?);
            self.push("optimiser,", &format!("bucket {}", reduction + 1), move |s| {
                update.step(s, of.parameters(), of.control())
            });
            self.last_on(On::Reduced(reduction));
        }
        Ok(left)
    }

    fn end(&self, step: StepParts<'_>, n: usize) -> End {
        let scaler = self.parts.options.scaler().filter(|_| self.trains);
        let what = StepEnd { trains: self.trains, norm_is_computed: self.computes_norm(step), scaler };
        step.control.end(n, what)
    }

    /// The end of the step, unless the optimiser's last block makes it.
    pub(super) fn finish(&mut self, step: StepParts<'_>, n: usize) {
        if self.trains && self.parts.options.last_block {
            return;
        }
        let (control, end) = (step.control.clone(), self.end(step, n));
        self.push("end of the step", "", move |s| control.queue_end(s, &end));
    }
}
