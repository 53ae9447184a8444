//! The launches of the matrix product's rungs: the only unsafe code of the experiment.
#![allow(unsafe_code)]

use super::gpu::{Inputs, ProductPlan};
use warpbook_device::Result;
use warpbook_gemm::Arrays;

/// Queues the product into C, computed by the chosen implementation.
pub(super) fn queue(on: &Inputs, way: &ProductPlan) -> Result<()> {
    let (a, b, c) = (on.a.at(0), on.b.at(0), on.c.at(0));
    let arrays = Arrays { workspace: on.workspace.at(0), ..Arrays::new(a, b, c) };
    match way {
        // SAFETY: the arrays have the product's shapes and live as long as `on`, and the workspace is as large as any plan needs.
        ProductPlan::Ours(plan) => unsafe { plan.launch(&on.stream, &arrays) },
        // SAFETY: the arrays have the product's shapes and live as long as `on`, and all products are queued on one stream.
        ProductPlan::Cublas(cublas) => unsafe { cublas.gemm(&on.stream, &on.product.library_call(), a, b, c) },
        // SAFETY: the arrays have the product's shapes and live as long as `on`, and the workspace is as large as the plan assumes.
        ProductPlan::CublasLt(plan) => unsafe { plan.launch(&on.stream, a, b, c, &on.workspace) },
    }
}
