//! Passes after the gradients: their norm, the decision whether the step changes the weights, the update, the end of the step.

use super::super::control::StepEnd;
use super::super::kernels::UpdateKernels;
use super::super::program::On;
use super::{PassBuilder, StepParts};
use crate::ops::optimizer::cuda::{Control as UpdateControl, Norm, NormOutputs, Parameters};
use crate::ops::optimizer::grouped::GroupRates;
use crate::ops::optimizer::last_block::{NormAndVerdict, PartialSquares, UpdateAndEnd};
use crate::ops::step_launch::{End, Verdict};
use crate::train::cuda::control::StepControl;
use std::ops::Range;
use warpbook_device::{Error, Result, Slice};
use warpbook_gemm::DeviceArray;

/// Arrays that an update works on.
#[derive(Clone)]
struct Updated {
    control: StepControl,
    weights: Slice<f32>,
    gradients: Slice<f32>,
    rounded: Option<DeviceArray>,
    state: Vec<Slice<f32>>,
    copy: Option<DeviceArray>,
    /// The largest norm that is left unclipped, if gradients are clipped.
    clip: Option<f64>,
    scale: Option<Slice<f32>>,
}

impl Updated {
    /// Returns the parts of the arrays that belong to some parameters.
    fn slice(&self, range: Range<usize>) -> Self {
        let split = self.gradients.len();
        let (exact, rounded) =
            (range.start.min(split)..range.end.min(split), range.start.max(split)..range.end.max(split));
        let rounded = rounded.start - split..rounded.end - split;
        Self {
            weights: self.weights.range(range.clone()),
            gradients: self.gradients.range(exact),
            rounded: self.rounded.as_ref().filter(|_| !rounded.is_empty()).map(|array| array.range(rounded)),
            state: self.state.iter().map(|array| array.range(range.clone())).collect(),
            copy: self.copy.as_ref().map(|array| array.range(range)),
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

    /// Returns the number of gradients in f32, and the number of rounded gradients.
    fn gradient_lengths(&self) -> [usize; 2] {
        [self.gradients.len(), self.rounded.as_ref().map_or(0, DeviceArray::len)]
    }

    fn most(&self) -> f64 {
        self.clip.unwrap_or(f64::INFINITY)
    }
}

/// The sums of squares for the norm.
struct Squares {
    /// Set if some gradients are ready before the end of the backward pass.
    partial: Option<PartialSquares>,
    workspace: Slice<f64>,
    /// Number of elements of the workspace that are in use.
    used: usize,
}

impl PassBuilder<'_> {
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

    fn verdict(&self, step: StepParts<'_>, overflow: Option<&Slice<u32>>) -> Verdict {
        let (control, updated) = (step.control, self.updated(step));
        Verdict::new(&step.recipe.optimizer, (&control.counters, &control.losses), overflow, updated.control())
    }

    /// Returns the memory in which parameters are saved before a provisional update, if this step makes such an update.
    fn kept(&self) -> Option<Slice<f32>> {
        self.ranks.as_ref().filter(|_| self.trains).and_then(|ranks| ranks.kept.clone())
    }

    /// Returns the verdict of the loss's last block. It decides the whole step if no gradient can stop the step, or if an update made before
    /// all gradients are known can be reverted.
    pub(super) fn loss_verdict(&self, step: StepParts<'_>) -> Verdict {
        let gradients_decide = self.computes_norm(step) && self.kept().is_none();
        let decides = self.trains && self.part.is_none() && self.parts.options.last_block && !gradients_decide;
        if decides { self.verdict(step, None) } else { Verdict::none() }
    }

    /// Queues the passes that follow the backward passes of a batch of `n` samples.
    pub(super) fn update(&mut self, step: StepParts<'_>, n: usize) -> Result<()> {
        let backward_end = self.passes.len();
        match &step.kernels.update {
            UpdateKernels::Separate { update, norm } => {
                let (update, updated) = (update.clone(), self.updated(step));
                self.norm_with_kernels(step, norm.clone())?;
                self.push("optimiser", "", move |s| update.step(s, updated.parameters(), updated.control()));
            }
            UpdateKernels::Groups { update, rates, norm } => {
                let (update, rates, updated) = (update.clone(), rates.clone(), self.updated(step));
                self.norm_with_kernels(step, norm.clone())?;
                self.push("optimiser", "", move |s| {
                    let rates = GroupRates { counters: &updated.control.counters, rates: &rates };
                    update.step(s, updated.parameters(), updated.control(), rates)
                });
            }
            UpdateKernels::LastBlocks { update, norm } => {
                self.update_with_last_blocks(step, n, (*update.clone(), norm.clone()))?
            }
        }
        // Finds the first pass that needs all gradients.
        let first = self.passes[backward_end..].iter_mut().find(|pass| !matches!(pass.on, On::Reduced(_)));
        if let Some(first) = first {
            first.on = if self.links { On::All } else { On::Both };
        }
        Ok(())
    }

    /// Queues the norm and the step's verdict before the update.
    fn norm_with_kernels(&mut self, step: StepParts<'_>, norm: Option<Norm>) -> Result<()> {
        let (updated, computes_norm) = (self.updated(step), norm.is_some());
        if let Some(norm) = norm {
            let all = updated;
            let arrays: Vec<DeviceArray> =
                std::iter::once((&all.gradients).into()).chain(all.rounded.clone()).collect();
            let lengths: Vec<usize> = arrays.iter().map(DeviceArray::len).collect();
            let workspace = self.parts.device.zeros::<f64>(norm.blocks(&lengths))?.range(..);
            self.push("norm of the gradients", "", move |s| {
                norm.queue(s, &arrays, all.most(), all.scale.as_ref(), &workspace, all.norm_outputs())
            });
        }
        let judge = step.control.clone();
        self.push("check", "", move |s| judge.queue_judge(s, computes_norm));
        Ok(())
    }

    fn update_with_last_blocks(
        &mut self,
        step: StepParts<'_>,
        n: usize,
        (update, norm): (UpdateAndEnd, Option<NormAndVerdict>),
    ) -> Result<()> {
        let (updated, end, kept) = (self.updated(step), self.end(step, n), self.kept());
        let (ready, left) = self.take_ready(updated.weights.len());
        // If all gradients have to be checked first, they are updated together at the end.
        let early = norm.is_none() || kept.is_some();
        let restore = kept.map(|kept| Ok::<_, Error>((update.restore(self.parts.device)?, kept))).transpose()?;
        if let (Some((restore, kept)), Some((first, _))) = (&restore, ready.first()) {
            let (restore, kept) = (restore.clone(), kept.clone());
            let early_ones = updated.slice(left..updated.weights.len());
            self.push("optimiser,", "weights kept", move |s| restore.save(s, early_ones.parameters(), &kept));
            self.run_last_on(On::Reduced(*first));
        }
        let mut squares = norm.as_ref().map(|norm| self.squares(norm, &updated, (&ready, left))).transpose()?;
        for (reduction, range) in &ready {
            let bucket = updated.slice(range.clone());
            if let Some(squares) = &mut squares {
                self.queue_squares(squares, *reduction, bucket.clone());
            }
            if early {
                let update = update.partial(self.parts.device)?;
                self.push("optimiser,", &format!("bucket {}", reduction + 1), move |s| {
                    update.step(s, bucket.parameters(), bucket.control())
                });
                self.run_last_on(On::Reduced(*reduction));
            }
        }
        if let (Some(norm), Some(Squares { workspace, .. })) = (norm, squares) {
            let verdict = self.verdict(step, Some(&step.control.overflow));
            let verdict = if restore.is_some() { verdict.withdrawing() } else { verdict };
            let remaining = updated.slice(0..left);
            self.push("norm of the gradients", "", move |s| {
                let (arrays, to) =
                    ((&remaining.gradients, remaining.rounded.as_ref()), (remaining.norm_outputs(), &verdict));
                norm.queue(s, arrays, (remaining.most(), remaining.scale.as_ref()), &workspace, to)
            });
        }
        if let Some((restore, kept)) = restore {
            let early_ones = updated.slice(left..updated.weights.len());
            self.push("optimiser,", "taken back", move |s| {
                restore.queue(s, (&early_ones.control.counters, early_ones.control()), early_ones.parameters(), &kept)
            });
        }
        let rest = if early { updated.slice(0..left) } else { updated };
        self.push("optimiser", "", move |s| update.step(s, rest.parameters(), rest.control(), &end));
        Ok(())
    }

    /// Takes the reductions before the last one, with the parameters that each of them makes ready (from the end), and returns the number of
    /// remaining parameters, which come first. For a batch in parts, no reduction is ready before the end.
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

    /// Allocates the sums of the squares of all gradients: first the sums of the remaining parameters, then the sums of each reduction.
    fn squares(
        &self,
        norm: &NormAndVerdict,
        updated: &Updated,
        (ready, left): (&[(usize, Range<usize>)], usize),
    ) -> Result<Squares> {
        let partial = (!ready.is_empty()).then(|| norm.partial(self.parts.device)).transpose()?;
        let used = norm.blocks(updated.slice(0..left).gradient_lengths());
        let of_ready = |norm: &PartialSquares| -> usize {
            ready.iter().map(|(_, range)| norm.blocks(updated.slice(range.clone()).gradient_lengths())).sum()
        };
        let workspace = self.parts.device.zeros::<f64>(used + partial.as_ref().map_or(0, of_ready))?.range(..);
        Ok(Squares { partial, workspace, used })
    }

    /// Queues the squares of a reduction's gradients, in parallel with later reductions.
    fn queue_squares(&mut self, squares: &mut Squares, reduction: usize, updated: Updated) {
        let (Some(partial), first) = (squares.partial.clone(), squares.used) else { return };
        squares.used += partial.blocks(updated.gradient_lengths());
        let sums = squares.workspace.range(first..squares.used);
        self.push("norm of the gradients,", &format!("bucket {}", reduction + 1), move |s| {
            partial.queue(s, (&updated.gradients, updated.rounded.as_ref()), &sums)
        });
        self.run_last_on(On::Reduced(reduction));
    }

    fn end(&self, step: StepParts<'_>, n: usize) -> End {
        let scaler = self.parts.options.scaler().filter(|_| self.trains);
        let what = StepEnd { trains: self.trains, norm_is_computed: self.computes_norm(step), scaler };
        step.control.end(n, what)
    }

    /// Queues the kernel that ends the step, unless the last thread block of the optimiser's kernel already does this work.
    pub(super) fn finish(&mut self, step: StepParts<'_>, n: usize) {
        if self.trains && self.parts.options.last_block {
            return;
        }
        let (control, end) = (step.control.clone(), self.end(step, n));
        self.push("end of the step", "", move |s| control.queue_end(s, &end));
    }
}
