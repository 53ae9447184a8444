//! Chooses a cuDNN engine for a convolution, either by cuDNN's heuristics or by timing their suggestions.

use super::constants::{attribute, kind};
use super::convolution::{ConvolutionPass, LibraryConvolution};
use super::descriptor::{Descriptor, OfHandle};
use super::handle::{Cudnn, Opened};
use super::plan::{BuiltPlan, CudnnPlan};
use super::suggestion::{HEURISTICS, Suggestion, graph, suggested};
use crate::Result;
use crate::cuda::context::relaxed;
use crate::libraries::loader::Status;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Largest number of engines that [`Cudnn::plans`] builds, like PyTorch's `benchmark_limit`. Some engines have to be compiled, which takes seconds.
const PLANS: usize = 10;

impl Cudnn {
    /// Plans a pass of a convolution with the engine that the library's heuristics expect to be fastest. Deterministic engines, which give the same bits on
    /// every run, are preferred; others are used only if no deterministic engine needs at most `workspace_bytes`. If every engine
    /// needs more, the one that needs least is used. Nothing is measured, so the choice is always the same. The engine has already run once on temporary
    /// arrays, if they fit into memory, so capturing it loads nothing.
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) if no engine supports the convolution; the device's errors.
    pub fn plan(&self, shape: &LibraryConvolution, pass: ConvolutionPass, workspace_bytes: u64) -> Result<CudnnPlan> {
        let mut suggestions = self.suggestions(shape, pass)?;
        // The sort is stable, so otherwise the suggestions keep their order.
        suggestions.sort_by_key(|s| !s.is_deterministic());
        let (mut larger, mut refused): (Option<CudnnPlan>, _) = (None, None);
        for suggestion in suggestions {
            let Some(plan) = self.built(shape, pass, suggestion) else { continue };
            if plan.workspace_bytes() > workspace_bytes {
                if larger.as_ref().is_none_or(|l| plan.workspace_bytes() < l.workspace_bytes()) {
                    larger = Some(plan);
                }
                continue;
            }
            match plan.try_out() {
                Ok(()) => return Ok(plan),
                Err(why) if why.is_sticky() => return Err(why),
                Err(why) => refused = Some(why),
            }
        }
        match larger {
            Some(plan) => plan.try_out().map(|()| plan),
            None => Err(refused.unwrap_or_else(|| shape.refused(format!("has no engine for {}", shape.name(pass))))),
        }
    }

    /// Plans the pass with each of the first ten engines that support it, in the heuristics' order, so that they can be timed. Their results may differ in
    /// some bits from run to run. Each engine has already run once, as in [`Cudnn::plan`], and needs at most `workspace_bytes`. The list may be empty.
    ///
    /// # Errors
    /// Returns an error if the library cannot describe the convolution, or if the device fails, after which it cannot be used.
    pub fn plans(
        &self,
        shape: &LibraryConvolution,
        pass: ConvolutionPass,
        workspace_bytes: u64,
    ) -> Result<Vec<CudnnPlan>> {
        let mut plans: Vec<CudnnPlan> = Vec::new();
        for suggestion in self.suggestions(shape, pass)? {
            if plans.len() == PLANS {
                break;
            }
            let fits = |plan: &CudnnPlan| plan.workspace_bytes() <= workspace_bytes;
            let Some(plan) = self.built(shape, pass, suggestion).filter(fits) else { continue };
            match plan.try_out() {
                Ok(()) => plans.push(plan),
                Err(why) if why.is_sticky() => return Err(why),
                Err(_) => {}
            }
        }
        Ok(plans)
    }

    /// Returns the fastest plan of [`Cudnn::plans`], each timed on temporary arrays with undefined contents, or [`Cudnn::plan`] if none could be timed.
    /// Later calls on this device choose the same engine. Another process may choose a different engine, and an engine's results may differ in some bits
    /// from run to run.
    ///
    /// # Errors
    /// The errors of [`Cudnn::plans`] and [`Cudnn::plan`].
    pub fn fastest(
        &self,
        shape: &LibraryConvolution,
        pass: ConvolutionPass,
        workspace_bytes: u64,
    ) -> Result<CudnnPlan> {
        let (key, engines) = ((*shape, pass, workspace_bytes), self.0.device.extension::<FastestEngines>());
        if let Some(rank) = engines.rank(&key) {
            let suggestion = self.suggestions(shape, pass)?.into_iter().find(|s| s.rank == rank);
            if let Some(plan) = suggestion.and_then(|s| self.built(shape, pass, s)) {
                plan.try_out()?;
                return Ok(plan);
            }
        }
        let mut best: Option<(f64, CudnnPlan)> = None;
        for plan in self.plans(shape, pass, workspace_bytes)? {
            let Some(us) = plan.timed()? else { continue };
            if best.as_ref().is_none_or(|(least, _)| us < *least) {
                best = Some((us, plan));
            }
        }
        let Some((_, plan)) = best else { return self.plan(shape, pass, workspace_bytes) };
        engines.remember(key, plan.rank());
        Ok(plan)
    }

    /// Returns the engines that the heuristics suggest and whose accuracy suits the type, with the one expected to be fastest first.
    fn suggestions(&self, shape: &LibraryConvolution, pass: ConvolutionPass) -> Result<Vec<Suggestion>> {
        let Opened { library, device, raw, .. } = &*self.0;
        device.bind()?;
        let handle = raw.lock().unwrap_or_else(PoisonError::into_inner);
        // The capture mode is relaxed here and below, because the library may load and unload kernels during a capture.
        let graph = relaxed(|| graph(library, *handle, shape, pass))?
            .map_err(|status| library.error(device, &|| shape.name(pass), status))?;
        let mut found = Vec::new();
        for mode in HEURISTICS {
            // A heuristic that does not know the operation reports it as unsupported; that error is ignored.
            found.extend(relaxed(|| suggested(library, &graph, mode)).unwrap_or_default());
        }
        found.retain(|s| shape.permits(&s.notes));
        found.iter_mut().zip(1..).for_each(|(s, rank)| s.rank = rank);
        Ok(found)
    }

    /// Builds the plan of a suggestion; `None` if the engine does not support the convolution after all.
    fn built(&self, shape: &LibraryConvolution, pass: ConvolutionPass, suggestion: Suggestion) -> Option<CudnnPlan> {
        let Opened { library, raw, .. } = &*self.0;
        let handle = raw.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let plan = Descriptor::new(library, kind::PLAN)?
                .with(attribute::PLAN_HANDLE, &[OfHandle(*handle)])?
                .with_part(attribute::PLAN_CONFIGURATION, &suggestion.configuration)?
                .finalized()?;
            let workspace = plan.value(attribute::PLAN_WORKSPACE, 0i64)?;
            Ok::<_, Status>((plan, workspace))
        };
        let (descriptor, workspace) = relaxed(make).ok()?;
        let workspace_bytes = usize::try_from(workspace).ok()?;
        let built = BuiltPlan { descriptor: Some(descriptor), workspace_bytes, suggestion, cudnn: self.clone() };
        Some(CudnnPlan { shape: *shape, pass, built: Arc::new(built) })
    }
}

/// The engines that [`Cudnn::fastest`] found on a device, by their index among the suggestions. A convolution that is prepared again gets the same engine,
/// even if another is as fast.
#[derive(Default)]
struct FastestEngines(Mutex<HashMap<Searched, usize>>);

/// Key of a search for the fastest engine: a convolution, its pass, and the workspace size in bytes.
type Searched = (LibraryConvolution, ConvolutionPass, u64);

impl FastestEngines {
    fn rank(&self, search: &Searched) -> Option<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(search).copied()
    }

    fn remember(&self, search: Searched, rank: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(search, rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_and_plans_may_change_threads() {
        fn check<T: Send + Sync + 'static>() {}
        check::<Cudnn>();
        check::<CudnnPlan>();
    }
}
