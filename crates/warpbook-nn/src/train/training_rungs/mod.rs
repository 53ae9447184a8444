//! The rungs of training on a GPU, from direct convolutions to one graph, and the kernels that each of them runs.

mod kernels;
mod ladder;
mod products;
#[cfg(test)]
mod tests;

pub use ladder::{rungs_with_product, ways};

use super::{CudaOptions, Recipe};
use crate::network::Op;
use crate::ops::conv2d::cuda::Method;
use kernels::each_once;
use warpbook_device::{CublasLt, CudaDevice, Cudnn};
use warpbook_gemm::ProductBy;
use warpbook_kernels::matmul::Form;
use warpbook_record::{Requires, Rung, Runner, Schedule};

/// A rung of training on a GPU: it differs from the previous rung, or from its base, in one option.
#[derive(Debug, Clone, PartialEq)]
pub struct Way {
    /// Id, such as `05_nhwc`; never renumbered.
    pub id: &'static str,
    /// Short title of the rung.
    pub title: &'static str,
    /// The idea of the rung in a sentence.
    pub idea: &'static str,
    /// The rung from which this rung differs in one option, if it is not the previous rung of the ladder.
    pub base: Option<&'static str>,
    /// Hardware that the rung requires.
    pub requires: Requires,
    /// Options of the training.
    pub options: CudaOptions,
}

impl Way {
    /// Returns the way in which the rung's kernels are launched on a GPU of this compute capability; below 9.0 launches do not overlap.
    #[must_use]
    pub fn schedule_on(&self, compute_capability: Option<(u32, u32)>) -> Schedule {
        let overlaps = compute_capability.is_none_or(|cc| cc >= (9, 0));
        match self.options {
            CudaOptions { graph: true, dependent: true, .. } if overlaps => Schedule::OverlappedGraph,
            CudaOptions { graph: true, .. } => Schedule::Graph,
            _ => Schedule::Launches,
        }
    }

    /// Converts to a rung of a record, with the kernels that train these recipes on a GPU of this compute capability. If a library computes a
    /// part of the step, the rung counts as a library's rung, although most kernels are this project's: records compare this project's fastest
    /// rung with it.
    #[must_use]
    pub fn rung(&self, recipes: &[Recipe], compute_capability: Option<(u32, u32)>) -> Rung {
        let specs = || each_once(recipes.iter().flat_map(|recipe| self.specs_on(compute_capability, recipe)));
        Rung {
            id: self.id.into(),
            title: self.title.into(),
            idea: self.idea.into(),
            requires: self.requires.clone(),
            runner: match self.library() {
                Some(library) => Runner::Library(library.into()),
                None => Runner::Kernels { specs: specs(), schedule: self.schedule_on(compute_capability) },
            },
            variant_of: None,
        }
    }

    /// Returns the libraries that compute the rung's convolutions or linear layers, such as "cuDNN and cuBLASLt"; `None` without libraries.
    #[must_use]
    pub fn library(&self) -> Option<&'static str> {
        match (self.options.convolution.is_stock(), self.options.product == ProductBy::Stock) {
            (true, true) => Some("cuDNN and cuBLASLt"),
            (true, false) => Some("cuDNN"),
            (false, true) => Some("cuBLASLt"),
            (false, false) => None,
        }
    }

    /// Returns the libraries of [`Way::library`] with their versions, as a sentence; `None` if there are none, or if they are not found.
    #[must_use]
    pub fn versions(&self, device: &CudaDevice) -> Option<String> {
        let words = |name: &str, (major, minor, patch): (u32, u32, u32)| format!("{name} {major}.{minor}.{patch}");
        let cudnn = self.options.convolution.is_stock().then(|| Cudnn::find(device));
        let cublas = (self.options.product == ProductBy::Stock).then(|| CublasLt::find(device));
        let both = [cudnn.map(|v| v.map(|v| words("cuDNN", v))), cublas.map(|v| v.map(|v| words("cuBLASLt", v)))];
        let found: Vec<String> = both.into_iter().flatten().flatten().collect();
        let how = match self.options.convolution {
            Method::StockFastest => "cuDNN with the fastest of the ten engines that its heuristics suggest first",
            _ => "with what the heuristics suggest first",
        };
        (!found.is_empty()).then(|| format!("By {}, {how}.", found.join(" and ")))
    }

    /// Explains why the rung cannot train a recipe on a device, or why the result would show nothing new: a library is missing, the rung does
    /// not support the type, or there is no convolution for cuDNN. `None` if the rung can train the recipe, as far as is known beforehand.
    #[must_use]
    pub fn obstacle(&self, device: &CudaDevice, recipe: &Recipe) -> Option<String> {
        let CudaOptions { convolution, product, precision, .. } = self.options;
        let convolves = recipe.network.nodes().iter().any(|node| matches!(node.op, Op::Conv2d(_)));
        if convolution.is_stock() && !convolves {
            return Some("The network has no convolution that cuDNN could compute.".into());
        }
        let of_convolutions = || convolution.is_stock().then(|| Cudnn::find(device).err()).flatten();
        let of_products = || (product == ProductBy::Stock).then(|| CublasLt::find(device).err()).flatten();
        let missing = of_convolutions().or_else(of_products).map(|e| e.to_string());
        missing.or_else(|| {
            let (form, info) =
                (Form { out: precision.activations(), ..Form::plain(precision.products()) }, device.info());
            let rows = if product.names_a_rung() { product.rows() } else { vec![] };
            let why = rows.iter().find_map(|row| row.obstacle(form, info.compute_capability))?;
            Some(format!("The {product} product {why}."))
        })
    }
}
